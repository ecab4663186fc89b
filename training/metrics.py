"""Gold mentions and the accuracy of ranked or scored concepts against them. No data formats, no systems."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from math import comb
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Set, Tuple

import numpy as np
import numpy.typing as npt

from spacy_sapbert.types import Floats2d

TOLERANCE = 1e-6  # scores this near are equal: one name's cosine differs by 1e-7 with its place in a matrix product
CHUNK_BYTES = 200_000_000  # of scores in memory at a time
Ints1d = npt.NDArray[np.int64]
Ids = Tuple[str, ...]
Rows = Tuple[Optional[int], ...]


class Mention(NamedTuple):
    """document, start, end: where it stands. text: as the corpus writes it. gold: the alternatives, any of which is right; each holds one
    id, or for a composite ("A+B") several. kind: the corpus's type of it ("Disease", "T047", "T116,T123"), "" where it has none."""

    document: str
    start: int
    end: int
    text: str
    gold: Tuple[Ids, ...]
    kind: str = ""


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


# -- scores of all concepts, ties as their expectation ------------------------------------------------------------------


class Boundary(NamedTuple):
    """Where a ranking of depth k ends: `sure` (C,) are within it, `tied` (C,) compete for its last `slots` places, in random order."""

    sure: npt.NDArray[np.bool_]
    tied: npt.NDArray[np.bool_]
    slots: int


def boundary(scores: npt.NDArray[np.floating], k: int, tolerance: float = TOLERANCE) -> Boundary:
    """scores (C,): one for each concept, higher is better, -inf for one that was not found and so is never in."""
    found = np.isfinite(scores)
    if found.sum() <= k:
        return Boundary(found, np.zeros(len(scores), dtype=np.bool_), 0)
    last = np.partition(scores, len(scores) - k)[len(scores) - k]  # the k-th best
    sure = scores > last + tolerance
    tied = ~sure & (scores >= last - tolerance)
    return Boundary(sure, tied, k - int(sure.sum()))


def expected(alternatives: Sequence[FrozenSet[int]], at: Boundary) -> float:
    """The probability that *some* alternative is within the boundary with *all* of its rows, where equal scores stand in random order.

    For one row it is min(1, max(0, (k - above) / tied)). Rows of several alternatives that are tied there are drawn without being
    put back (hypergeometric), and alternatives are joined by inclusion and exclusion.
    """
    open_sets: Set[FrozenSet[int]] = set()
    for alternative in alternatives:
        competing = frozenset(row for row in alternative if at.tied[row])
        if not alternative or not all(at.sure[row] or row in competing for row in alternative):
            continue
        if not competing:
            return 1.0
        open_sets.add(competing)
    n_tied = int(at.tied.sum())
    total = 0.0
    for size in range(1, len(open_sets) + 1):
        for chosen in combinations(sorted(open_sets, key=sorted), size):
            needed = len(frozenset().union(*chosen))
            if needed <= at.slots:
                total -= (-1) ** size * comb(n_tied - needed, at.slots - needed) / comb(n_tied, at.slots)
    return min(1.0, max(0.0, total))


def alternatives_of(gold: Gold, rule: Rule) -> List[FrozenSet[int]]:
    """What has to be found: for `strict` every alternative with all of its ids, for `lenient` each id by itself. An id outside the
    knowledge base can't be found, nor can an alternative that needs it."""
    if rule is lenient:
        return [frozenset((row,)) for row in sorted({row for alternative in gold.alternatives for row in alternative if row is not None})]
    return [frozenset(row for row in alternative if row is not None) for alternative in gold.alternatives if None not in alternative]


Scorer = Callable[[int, int], Floats2d]


def best_scores(score: Scorer, n_queries: int, rows: Ints1d, labels: Ints1d, n_labels: int) -> Iterator[Tuple[int, Floats2d]]:
    """Best name of each label: yields (first query, scores (n_labels, queries of this chunk)), -inf for a label without a name.

    score: (start, stop) -> (n names, stop - start), each query's similarity with each name. rows, labels (m,): name and label of
    each pair, in the order of labels. A chunk takes at most about twice CHUNK_BYTES.
    """
    if not len(rows):
        raise ValueError("no names to search")
    if np.any(np.diff(labels) < 0):
        raise ValueError("labels are not in order")
    starts = np.flatnonzero(np.r_[True, np.diff(labels) > 0])
    present = labels[starts]
    chunk = max(1, CHUNK_BYTES // (4 * (len(rows) + n_labels)))
    in_place = np.array_equal(rows, np.arange(len(rows)))
    for start in range(0, n_queries, chunk):
        scores = score(start, min(start + chunk, n_queries))  # (n, chunk): a name's scores lie together, so gathering copies whole lines
        best = np.full((n_labels, scores.shape[1]), -np.inf, dtype=np.float32)
        best[present] = np.maximum.reduceat(scores if in_place and len(scores) == len(rows) else scores[rows], starts, axis=0)
        yield start, best


def retrieval_accuracy(query_vectors: Floats2d, name_vectors: Floats2d, name_labels: Ints1d, query_labels: Ints1d, k: int = 5) -> Tuple[float, float]:
    """Per cent of queries whose label is the first, and among the first k, by exact search; (0.0, 0.0) for no queries.

    query_vectors (q, d), name_vectors (n, d): L2-normalised. name_labels (n,), query_labels (q,): whole numbers. A label scores as its
    best name; equal scores (within TOLERANCE) count as their expectation: min(1, max(0, (k - above) / tied)). A query whose label has
    no name is wrong. Memory: under 500 MB beyond the arguments, whatever their size below about 25 million names.
    """
    if len(query_vectors) != len(query_labels) or len(name_vectors) != len(name_labels):
        raise ValueError(f"{len(query_vectors)} and {len(name_vectors)} vectors but {len(query_labels)} and {len(name_labels)} labels")
    if not len(query_vectors):
        return 0.0, 0.0
    order = np.argsort(name_labels, kind="stable")
    unique, labels = np.unique(np.asarray(name_labels)[order], return_inverse=True)
    gold = np.minimum(np.searchsorted(unique, query_labels), len(unique) - 1)
    known = unique[gold] == query_labels
    sums = np.zeros(2)

    def score(start: int, stop: int) -> Floats2d:
        return name_vectors @ query_vectors[start:stop].T

    for start, best in best_scores(score, len(query_vectors), order, labels, len(unique)):
        part = slice(start, start + best.shape[1])
        own = best[gold[part], np.arange(best.shape[1])]  # (chunk,)
        above = (best > own + TOLERANCE).sum(axis=0)
        tied = (best >= own - TOLERANCE).sum(axis=0) - above
        for i, depth in enumerate((1, k)):
            sums[i] += (np.clip((depth - above) / tied, 0.0, 1.0) * known[part]).sum()
    at_1, at_k = 100.0 * sums / len(query_vectors)
    return float(at_1), float(at_k)
