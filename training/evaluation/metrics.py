"""Gold mentions and the accuracy of ranked, scored or found concepts against them. No data formats, no systems."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import combinations
from math import comb
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Set, Tuple

import numpy as np
import numpy.typing as npt

from spacy_sapbert.types import Floats2d

from ..corpora.mention import Gold, GoldMention, Ids
from ..loop.retrieval import TOLERANCE

Floats1d = npt.NDArray[np.float64]


class Accuracy(NamedTuple):
    """Per cent of mentions, right at 1 and at k. total: the mentions that were asked for."""

    at_1: float
    at_k: float
    total: int


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


class ThresholdPoint(NamedTuple):
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


def sweep(scores: Sequence[float], right: Sequence[bool], thresholds: Sequence[float]) -> List[ThresholdPoint]:
    """Top links above each threshold; `scores` is -inf for a mention without a link."""
    return [ThresholdPoint(t, sum(s > t for s in scores), sum(ok for s, ok in zip(scores, right) if s > t), len(scores)) for t in thresholds]


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
    return _some(open_sets, int(at.tied.sum()), at.slots)


def _some(wanted: Set[FrozenSet[int]], n: int, slots: int) -> float:
    """The probability that some of the sets is whole among `slots` of n things that are drawn without being put back."""
    if all(len(one) == 1 for one in wanted):  # the common case, and the sum below has 2 ** len(wanted) terms
        return 1.0 - comb(n - len(wanted), slots) / comb(n, slots)
    total = 0.0
    for size in range(1, len(wanted) + 1):
        for chosen in combinations(sorted(wanted, key=sorted), size):
            needed = len(frozenset().union(*chosen))
            if needed <= slots:
                total -= (-1) ** size * comb(n - needed, slots - needed) / comb(n, slots)
    return min(1.0, max(0.0, total))


class Ranks(NamedTuple):
    """At which rank a gold is found, where equal scores stand in random order: never among the first `above`; within (t,): the
    probability that it is among the first above + 1, … above + t, of which the last is 1."""

    above: int
    within: Floats1d


def ranks(scores: npt.NDArray[np.floating], alternatives: Sequence[FrozenSet[int]], tolerance: float = TOLERANCE) -> Optional[Ranks]:
    """scores (C,) as for `boundary`. The rank is the least depth at which some alternative is there with all of its rows; None where no
    alternative was found."""
    lasts = [min(float(scores[row]) for row in alternative) if alternative else -np.inf for alternative in alternatives]
    last = max(lasts, default=-np.inf)
    if not np.isfinite(last):
        return None
    above = scores > last + tolerance
    tied = ~above & (scores >= last - tolerance)
    n = int(tied.sum())
    if n == 1:
        return Ranks(int(above.sum()), np.ones(1))
    whole = [alternative for alternative, least in zip(alternatives, lasts) if least >= last - tolerance]
    competing = {frozenset(row for row in alternative if tied[row]) for alternative in whole}
    return Ranks(int(above.sum()), np.array([_some(competing, n, slots) for slots in range(1, n + 1)]))


def reciprocal_rank(parts: Sequence[Optional[Ranks]]) -> float:
    """The expectation of 1 / rank, 0.0 where a part was not found. parts: of a mention's queries, all of which must be right, so that the
    mention's rank is the worst of them; their ties are independent.

    E[1 / R] = sum over k of (F(k) - F(k - 1)) / k, where F(k) is the product over the parts of the probability to be right at k. For one
    row with `a` above it and `t` equal (itself one of them): (1 / (a + 1) + … + 1 / (a + t)) / t.
    SOURCE: MRR is Voorhees, TREC-8 2000; ties as their expectation are McSherry and Najork, ECIR 2008, section 3.
    """
    found = [part for part in parts if part is not None]
    if not found or len(found) < len(parts):
        return 0.0
    depths = np.arange(max(part.above for part in found) + 1, max(part.above + len(part.within) for part in found) + 1)
    right = np.ones(len(depths))  # (depths,): F
    for part in found:
        right *= part.within[np.minimum(depths - part.above, len(part.within)) - 1]
    return float((np.diff(right, prepend=0.0) / depths).sum())


def alternatives_of(gold: Gold, rule: Rule) -> List[FrozenSet[int]]:
    """What has to be found: for `strict` every alternative with all of its ids, for `lenient` each id by itself. An id outside the
    knowledge base can't be found, nor can an alternative that needs it."""
    if rule is lenient:
        return [frozenset((row,)) for row in sorted({row for alternative in gold.alternatives for row in alternative if row is not None})]
    return [frozenset(row for row in alternative if row is not None) for alternative in gold.alternatives if None not in alternative]


# -- end to end: mentions that a pipeline found -------------------------------------------------------------------------


class PredictedMention(NamedTuple):
    """A mention that a pipeline found and linked: where it stands, its concepts, best first. ids are spelt as the gold's are, retired ones
    followed; empty: no link."""

    document: str
    start: int
    end: int
    ids: Ids


class MatchCounts(NamedTuple):
    """right: found and gold that belong to each other, each of them once. precision, recall, f1 in per cent; 0.0 of nothing."""

    right: int
    found: int
    gold: int

    @property
    def precision(self) -> float:
        return 100.0 * self.right / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        return 100.0 * self.right / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        return 200.0 * self.right / (self.found + self.gold) if self.found + self.gold else 0.0


def mention_match(found: Sequence[PredictedMention], gold: Sequence[GoldMention], *, overlap: bool = False) -> MatchCounts:
    """Mention level, micro: the same span and the right concept. overlap: a character in common is enough of a span.

    Right is a concept as for `strict`: of an alternative with n ids (n is 1 but for composites) all are among the first n. What was found
    without a link does not count as found, nor a gold mention without ids as gold. As many pairs as possible are matched, none twice: two found parts of one gold mention are one
    right and one wrong.
    """
    found, gold = [one for one in found if one.ids], [mention for mention in gold if mention.gold]
    places: Dict[str, List[int]] = {}
    for i, mention in enumerate(gold):
        places.setdefault(mention.document, []).append(i)
    edges = []
    for i, one in enumerate(found):
        for j in places.get(one.document, ()):
            mention = gold[j]
            fits = max(one.start, mention.start) < min(one.end, mention.end) if overlap else (one.start, one.end) == (mention.start, mention.end)
            if fits and any(set(alternative) <= set(one.ids[: len(alternative)]) for alternative in mention.gold if alternative):
                edges.append((i, j))
    return MatchCounts(_pairs(edges, len(found), len(gold)), len(found), len(gold))


def document_match(found: Sequence[PredictedMention], gold: Sequence[GoldMention]) -> MatchCounts:
    """Document level, micro over all documents: the set of first ids that were found in a document against the set of its gold ids.

    Mentions may do without offsets. The ids of a composite are each wanted; alternatives are one that any of them satisfies (where some of
    them is a composite, the first alternative counts). Alternatives of which some are wanted by themselves in the same document (A or B,
    and elsewhere A) are nothing more to find: they are counted only where something was found for them besides.
    """
    first = list(dict.fromkeys((one.document, one.ids[0]) for one in found if one.ids))
    wanted: Dict[Tuple[str, FrozenSet[str]], None] = {}
    for mention in (mention for mention in gold if mention.gold):
        single = all(len(alternative) == 1 for alternative in mention.gold)
        either = frozenset(i for alternative in mention.gold for i in alternative)
        for ids in [either] if single else [frozenset((i,)) for i in mention.gold[0]]:
            wanted.setdefault((mention.document, ids))
    holding: Dict[Hashable, List[int]] = {}
    of_document: Dict[str, List[FrozenSet[str]]] = {}
    for j, (document, ids) in enumerate(wanted):
        of_document.setdefault(document, []).append(ids)
        for concept_id in ids:
            holding.setdefault((document, concept_id), []).append(j)
    edges = [(i, j) for i, pair in enumerate(first) for j in holding.get(pair, ())]
    needed = {j for j, (document, ids) in enumerate(wanted) if not any(other < ids for other in of_document[document])}
    right = _pairs(edges, len(first), len(wanted))
    besides = right - _pairs([edge for edge in edges if edge[1] in needed], len(first), len(wanted))  # right only by what isn't needed
    return MatchCounts(right, len(first), len(needed) + besides)


def _pairs(edges: Sequence[Tuple[int, int]], n_left: int, n_right: int) -> int:
    """How many edges can be taken so that none share an end."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_bipartite_matching

    if not edges:
        return 0
    left, right = zip(*edges)
    graph = csr_matrix((np.ones(len(edges), dtype=np.int8), (left, right)), shape=(n_left, n_right))
    return int((maximum_bipartite_matching(graph, perm_type="column") >= 0).sum())


# -- approximate search -------------------------------------------------------------------------------------------------


def neighbour_recall(index: Any, exact: Any, queries: Floats2d, depths: Sequence[int] = (1, 10)) -> Dict[int, float]:
    """Per cent of the true neighbours that an approximate index finds, at each depth; apart from whether they are the right concepts.

    index, exact: `VectorIndex`, over the same vectors. queries (q, d), L2-normalised. A row that comes back counts if its true cosine is
    at least that of the k-th exact neighbour less TOLERANCE: of equal neighbours any will do. RAISES: ValueError.
    """
    if len(index) != len(exact) or not len(exact):
        raise ValueError(f"an index of {len(index)} vectors but an exact one of {len(exact)}")
    if not len(queries):
        raise ValueError("no queries")
    right = dict.fromkeys(depths, 0.0)
    for query in queries:
        _, best = exact.query(query[None], min(max(depths), len(exact)))  # (1, k), best first
        for k in depths:
            k_found = min(k, len(exact))
            rows = np.unique(index.query(query[None], k_found)[0])
            rows = rows[rows >= 0]
            cosines = exact.vectors(rows) @ query if len(rows) else np.zeros(0)
            right[k] += float((cosines >= best[0, k_found - 1] - TOLERANCE).sum()) / k_found
    return {k: 100.0 * total / len(queries) for k, total in right.items()}
