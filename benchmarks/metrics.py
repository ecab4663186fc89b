"""Gold mentions and the accuracy of ranked concepts against them. No data formats, no systems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Dict, List, NamedTuple, Optional, Tuple

Ids = Tuple[str, ...]
Rows = Tuple[Optional[int], ...]


class Mention(NamedTuple):
    """document, start, end: where it stands. text: as the corpus writes it. gold: the alternatives, any of which is right; each holds one
    id, or for a composite ("A+B") several."""

    document: str
    start: int
    end: int
    text: str
    gold: Tuple[Ids, ...]


class Gold(NamedTuple):
    """A mention's gold as rows of a knowledge base, None for an id that is not in it; `missing` names those."""

    alternatives: Tuple[Rows, ...]
    missing: Tuple[str, ...]

    @property
    def answerable(self) -> bool:
        """Whether some alternative is in the knowledge base with all of its ids."""
        return any(None not in alternative for alternative in self.alternatives)


class Accuracy(NamedTuple):
    """Per cent of mentions, right at 1 and at k. total: the mentions that were asked for."""

    at_1: float
    at_k: float
    total: int


def resolve(mention: Mention, row_of: Callable[[str], int]) -> Gold:
    """Gold ids -> rows. row_of: `KnowledgeBase.row_of`, which follows retired and alternative ids and raises KeyError."""
    missing: List[str] = []

    def row(concept_id: str) -> Optional[int]:
        try:
            return row_of(concept_id)
        except KeyError:
            missing.append(concept_id)
            return None

    return Gold(tuple(tuple(row(i) for i in alternative) for alternative in mention.gold), tuple(missing))


def strict(gold: Gold, ranked: Sequence[int], k: int) -> bool:
    """Whether some alternative is among the first k with *all* of its ids: a composite is never right at 1."""
    top = set(ranked[:k])
    return any(all(row is not None and row in top for row in alternative) for alternative in gold.alternatives)


def lenient(gold: Gold, ranked: Sequence[int], k: int) -> bool:
    """Whether *any* id of any alternative is among the first k."""
    top = set(ranked[:k])
    return any(row is not None and row in top for alternative in gold.alternatives for row in alternative)


Rule = Callable[[Gold, Sequence[int], int], bool]


def accuracy(golds: Sequence[Gold], ranked: Sequence[Sequence[int]], *, rule: Rule = strict, k: int = 5, answerable_only: bool = False) -> Accuracy:
    """Share of mentions that are right at 1 and at k. A gold id outside the knowledge base is wrong, unless `answerable_only`."""
    if len(golds) != len(ranked):
        raise ValueError(f"{len(golds)} gold mentions but {len(ranked)} rankings")
    pairs = [(gold, rows) for gold, rows in zip(golds, ranked) if gold.answerable or not answerable_only]
    total = max(1, len(pairs))
    at = [100.0 * sum(rule(gold, rows, depth) for gold, rows in pairs) / total for depth in (1, k)]
    return Accuracy(at[0], at[1], len(pairs))


class Point(NamedTuple):
    """One threshold: links it lets through, how many of them are right, of how many mentions."""

    threshold: float
    linked: int
    right: int
    total: int

    @property
    def precision(self) -> float:
        return 100.0 * self.right / self.linked if self.linked else 100.0

    @property
    def recall(self) -> float:
        return 100.0 * self.right / self.total if self.total else 0.0

    @property
    def f1(self) -> float:
        p, r = self.precision, self.recall
        return 2 * p * r / (p + r) if p + r else 0.0


def sweep(scores: Sequence[float], right: Sequence[bool], thresholds: Sequence[float]) -> List[Point]:
    """Top links above each threshold; `scores` is -inf for a mention without a link."""
    return [Point(t, sum(s > t for s in scores), sum(ok for s, ok in zip(scores, right) if s > t), len(scores)) for t in thresholds]


def missing_ids(golds: Sequence[Gold]) -> Dict[str, int]:
    """Gold ids that the knowledge base does not have -> in how many mentions."""
    counts: Dict[str, int] = {}
    for gold in golds:
        for concept_id in gold.missing:
            counts[concept_id] = counts.get(concept_id, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
