"""Accuracy of ranked, scored or found concepts against gold mentions. This module knows no data formats and no systems."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spacy_sapbert.types import Floats2d

from ..corpora.mention import Gold, GoldMention, Ids
from ..loop.retrieval import TOLERANCE

Floats1d = npt.NDArray[np.float64]


class Accuracy(NamedTuple):
    """The share of mentions that are right.

    Attributes:
        at_1: Per cent of mentions whose first concept is right.
        at_k: Per cent of mentions with a right concept among the first k.
        total: Number of mentions that count.
    """

    at_1: float
    at_k: float
    total: int


def strict(gold: Gold, ranked: Sequence[int], k: int) -> bool:
    """Say whether *all* ids of at least one alternative are among the first k. A composite is never right at 1.

    Args:
        gold: The gold of a mention.
        ranked: Rows of concepts, best first.
        k: Depth.
    """
    top = set(ranked[:k])
    return any(all(row is not None and row in top for row in alternative) for alternative in gold.alternatives)


def lenient(gold: Gold, ranked: Sequence[int], k: int) -> bool:
    """Say whether *any* id of any alternative is among the first k.

    Args:
        gold: The gold of a mention.
        ranked: Rows of concepts, best first.
        k: Depth.
    """
    top = set(ranked[:k])
    return any(row is not None and row in top for alternative in gold.alternatives for row in alternative)


Rule = Callable[[Gold, Sequence[int], int], bool]


def accuracy(golds: Sequence[Gold], ranked: Sequence[Sequence[int]], *, rule: Rule = strict, k: int = 5, answerable_only: bool = False) -> Accuracy:
    """Measure how many mentions are right at 1 and at k.

    Args:
        golds: The gold of each mention.
        ranked: Rows of concepts for each mention, best first.
        rule: `strict` or `lenient`.
        k: Depth of the second figure.
        answerable_only: Count only mentions whose gold is in the knowledge base; if False, the others count as wrong.

    Raises:
        ValueError: The number of rankings is not the number of mentions.
    """
    if len(golds) != len(ranked):
        raise ValueError(f"{len(golds)} gold mentions but {len(ranked)} rankings")
    pairs = [(gold, rows) for gold, rows in zip(golds, ranked) if gold.answerable or not answerable_only]
    total = max(1, len(pairs))
    at = [100.0 * sum(rule(gold, rows, depth) for gold, rows in pairs) / total for depth in (1, k)]
    return Accuracy(at[0], at[1], len(pairs))


class ThresholdPoint(NamedTuple):
    """Counts for one threshold.

    Attributes:
        threshold: The score that a link must be above.
        linked: Number of mentions that get a link.
        right: Number of links that are right.
        total: Number of all mentions.
    """

    threshold: float
    linked: int
    right: int
    total: int

    @property
    def precision(self) -> float:
        """Return the share of links that are right, in per cent; 100.0 without a link."""
        return 100.0 * self.right / self.linked if self.linked else 100.0

    @property
    def recall(self) -> float:
        """Return the share of mentions whose link is right, in per cent."""
        return 100.0 * self.right / self.total if self.total else 0.0

    @property
    def f1(self) -> float:
        """Return the harmonic mean of precision and recall, in per cent."""
        p, r = self.precision, self.recall
        return 2 * p * r / (p + r) if p + r else 0.0


def sweep(scores: Sequence[float], right: Sequence[bool], thresholds: Sequence[float]) -> list[ThresholdPoint]:
    """Count the links and the right links above each threshold.

    Args:
        scores: The score of each mention's first candidate, -inf for a mention without one.
        right: Whether this candidate is right.
        thresholds: Scores that a link must be above.
    """
    return [ThresholdPoint(t, sum(s > t for s in scores), sum(ok for s, ok in zip(scores, right) if s > t), len(scores)) for t in thresholds]


# -- scores of all concepts; ties count as expected values --------------------------------------------------------------


class Boundary(NamedTuple):
    """The end of a ranking of depth k, if concepts with equal scores are in random order.

    Attributes:
        sure: (C,) concepts that are within depth k.
        tied: (C,) concepts that compete for the last places.
        slots: Number of these last places.
    """

    sure: npt.NDArray[np.bool_]
    tied: npt.NDArray[np.bool_]
    slots: int


def boundary(scores: npt.NDArray[np.floating[Any]], k: int, tolerance: float = TOLERANCE) -> Boundary:
    """Find where a ranking of depth k ends.

    Args:
        scores: (C,) score of each concept; higher is better; a concept with -inf was not found and is never within.
        k: Depth.
        tolerance: Scores that differ by no more are equal.
    """
    found = np.isfinite(scores)
    if found.sum() <= k:
        return Boundary(found, np.zeros(len(scores), dtype=np.bool_), 0)
    last = np.partition(scores, len(scores) - k)[len(scores) - k]  # the k-th best
    sure = scores > last + tolerance
    tied = ~sure & (scores >= last - tolerance)
    return Boundary(sure, tied, k - int(sure.sum()))


def expected(alternatives: Sequence[frozenset[int]], at: Boundary) -> float:
    """Compute the probability that *all* rows of at least one alternative are within the boundary.

    Concepts with equal scores are in random order. For one row the probability is min(1, max(0, (k - above) / tied)). Tied rows of several
    alternatives are drawn without replacement (hypergeometric), and alternatives are combined by inclusion and exclusion.

    Args:
        alternatives: The rows of each alternative.
        at: The boundary.

    Returns:
        A probability, 0 to 1.
    """
    open_sets: set[frozenset[int]] = set()
    for alternative in alternatives:
        competing = frozenset(row for row in alternative if at.tied[row])
        if not alternative or not all(at.sure[row] or row in competing for row in alternative):
            continue
        if not competing:
            return 1.0
        open_sets.add(competing)
    return _some(open_sets, int(at.tied.sum()), at.slots)


def _some(wanted: set[frozenset[int]], n: int, slots: int) -> float:
    """Compute the probability that at least one of the sets is complete among `slots` of n items, drawn without replacement."""
    if all(len(one) == 1 for one in wanted):  # the common case; the sum below would have 2 ** len(wanted) terms
        return 1.0 - comb(n - len(wanted), slots) / comb(n, slots)
    total = 0.0
    for size in range(1, len(wanted) + 1):
        for chosen in combinations(sorted(wanted, key=sorted), size):
            needed = len(frozenset().union(*chosen))
            if needed <= slots:
                total -= (-1) ** size * comb(n - needed, slots - needed) / comb(n, slots)
    return min(1.0, max(0.0, total))


class Ranks(NamedTuple):
    """The rank at which a gold is found, if concepts with equal scores are in random order.

    Attributes:
        above: The gold is never among the first `above`.
        within: (t,) probabilities that it is among the first above + 1, … above + t; the last is 1.
    """

    above: int
    within: Floats1d


def ranks(scores: npt.NDArray[np.floating[Any]], alternatives: Sequence[frozenset[int]], tolerance: float = TOLERANCE) -> Ranks | None:
    """Find the rank of a gold: the smallest depth within which all rows of at least one alternative are.

    Args:
        scores: (C,) scores as for `boundary`.
        alternatives: The rows of each alternative.
        tolerance: Scores that differ by no more are equal.

    Returns:
        The rank, or None if no alternative was found.
    """
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


def reciprocal_rank(parts: Sequence[Ranks | None]) -> float:
    """Compute the expected value of 1 / rank of a mention.

    E[1 / R] = sum over k of (F(k) - F(k - 1)) / k, where F(k) is the product, over the parts, of the probability to be right at k. For one
    row with `a` rows above it and `t` rows of equal score (itself included): (1 / (a + 1) + … + 1 / (a + t)) / t.

    Args:
        parts: The ranks of the mention's queries. All must be right, so the rank of the mention is the worst of them; their ties are
            independent.

    Returns:
        The expected value, 0 to 1; 0.0 if a part was not found.

    Source:
        MRR: Voorhees, TREC-8 2000. Expected values in ties: McSherry and Najork, ECIR 2008, section 3.
    """
    found = [part for part in parts if part is not None]
    if not found or len(found) < len(parts):
        return 0.0
    depths = np.arange(max(part.above for part in found) + 1, max(part.above + len(part.within) for part in found) + 1)
    right = np.ones(len(depths))  # (depths,): F
    for part in found:
        right *= part.within[np.minimum(depths - part.above, len(part.within)) - 1]
    return float((np.diff(right, prepend=0.0) / depths).sum())


def alternatives_of(gold: Gold, rule: Rule) -> list[frozenset[int]]:
    """Return the sets of rows one of which must be found: for `strict` the ids of each alternative, for `lenient` each id alone.

    An id that is not in the knowledge base cannot be found, and neither can an alternative that needs it.

    Args:
        gold: The gold of a mention.
        rule: `strict` or `lenient`.
    """
    if rule is lenient:
        return [frozenset((row,)) for row in sorted({row for alternative in gold.alternatives for row in alternative if row is not None})]
    return [frozenset(row for row in alternative if row is not None) for alternative in gold.alternatives if None not in alternative]


# -- end to end: mentions that a pipeline found -------------------------------------------------------------------------


class PredictedMention(NamedTuple):
    """A mention that a pipeline found and linked.

    Attributes:
        document: The document's id.
        start: The mention's first character.
        end: The character after its last one.
        ids: Its concepts, best first, spelt like the gold ids, with retired ids replaced by current ones; empty: no link.
        kind: Its semantic group ("DISO"), "" if it has none.
        status: Its status -> whether it holds; None if the pipeline gives none.
    """

    document: str
    start: int
    end: int
    ids: Ids
    kind: str = ""
    status: Mapping[str, bool] | None = None


class MatchCounts(NamedTuple):
    """How many found mentions (or concepts of documents) are right. precision, recall and f1 are in per cent, and 0.0 without mentions.

    Attributes:
        right: Number of pairs of a found and a gold mention that match; each mention is in at most one pair.
        found: Number of found mentions.
        gold: Number of gold mentions.
    """

    right: int
    found: int
    gold: int

    @property
    def precision(self) -> float:
        """Return the share of found mentions that are right, in per cent."""
        return 100.0 * self.right / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """Return the share of gold mentions that were found, in per cent."""
        return 100.0 * self.right / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Return the harmonic mean of precision and recall, in per cent."""
        return 200.0 * self.right / (self.found + self.gold) if self.found + self.gold else 0.0


def mention_match(found: Sequence[PredictedMention], gold: Sequence[GoldMention], *, overlap: bool = False) -> MatchCounts:
    """Match found mentions with gold mentions: the same span and the right concept (micro average).

    A concept is right as for `strict`: all n ids of an alternative (n is 1 except for composites) are among the first n. Found mentions
    without a link do not count as found, and gold mentions without ids do not count as gold. As many pairs as possible are matched, and no mention
    is in two pairs: if two found mentions are parts of one gold mention, one is right and one is wrong.

    Args:
        found: The mentions that a pipeline found.
        gold: The gold mentions.
        overlap: Whether one shared character is enough, instead of the same span.
    """
    found, gold = [one for one in found if one.ids], [mention for mention in gold if mention.gold]
    return MatchCounts(_pairs(_edges(found, gold, overlap=overlap, concepts=True), len(found), len(gold)), len(found), len(gold))


def span_match(found: Sequence[PredictedMention], gold: Sequence[GoldMention], *, overlap: bool = False) -> MatchCounts:
    """Match found mentions with gold mentions by their spans only, not by their links. Otherwise like `mention_match`."""
    return MatchCounts(_pairs(_edges(found, gold, overlap=overlap, concepts=False), len(found), len(gold)), len(found), len(gold))


def _edges(found: Sequence[PredictedMention], gold: Sequence[GoldMention], *, overlap: bool, concepts: bool) -> list[tuple[int, int]]:
    """Return pairs of positions: a found mention, and a gold mention that it fits."""
    places: dict[str, list[int]] = {}
    for i, mention in enumerate(gold):
        places.setdefault(mention.document, []).append(i)
    edges = []
    for i, one in enumerate(found):
        for j in places.get(one.document, ()):
            fits = overlapping(one, gold[j]) if overlap else (one.start, one.end) == (gold[j].start, gold[j].end)
            if fits and (not concepts or is_right(one, gold[j])):
                edges.append((i, j))
    return edges


def is_right(one: PredictedMention, mention: GoldMention) -> bool:
    """Say whether a mention is linked to a gold concept, by the rule of `mention_match`."""
    return any(set(alternative) <= set(one.ids[: len(alternative)]) for alternative in mention.gold if alternative)


def overlapping(one: PredictedMention, mention: GoldMention) -> bool:
    """Say whether a found mention and a gold mention of the same document share a character."""
    return max(one.start, mention.start) < min(one.end, mention.end)


RIGHT, MISSING, NOT_FOUND, WRONG_SPAN, WRONG_MEANING, OTHER_ID = (
    "right",
    "not in the dictionary",
    "not found",
    "wrong span",
    "wrong meaning",
    "another id of the same meaning",
)


def outcome(mention: GoldMention, found: Sequence[PredictedMention], *, known: bool, same: Callable[[str, str], bool]) -> str:
    """Return the outcome of a gold mention: right, or one of five classes of errors.

    Args:
        mention: The gold mention, with ids.
        found: The mentions that a pipeline found in the same document.
        known: Whether the dictionary has a right answer.
        same: Says whether two concept ids have the same meaning.

    Returns:
        RIGHT (span and concept), MISSING (the dictionary has no right answer), NOT_FOUND (no found mention shares a character with it), WRONG_SPAN
        (another span, with the right or another concept), OTHER_ID (a concept of the same meaning), WRONG_MEANING (the same span, but another
        concept or none).
    """
    near = [one for one in found if overlapping(one, mention)]
    exact = [one for one in near if (one.start, one.end) == (mention.start, mention.end)]
    if any(is_right(one, mention) for one in exact):
        return RIGHT
    if any(is_right(one, mention) for one in near):
        return WRONG_SPAN
    if not known:
        return MISSING
    if not near:
        return NOT_FOUND
    if any(same(one.ids[0], i) for one in near if one.ids for alternative in mention.gold for i in alternative):
        return OTHER_ID
    return WRONG_MEANING if exact else WRONG_SPAN


def document_match(found: Sequence[PredictedMention], gold: Sequence[GoldMention]) -> MatchCounts:
    """Match the first ids that were found in each document with the document's gold ids (micro average over all documents).

    All ids of a composite are needed. Of alternatives, any one is enough (if one of them is a composite, only the first alternative counts).
    If one of the alternatives is also needed alone in the same document (A or B, and elsewhere A), the alternatives are not needed in addition:
    they count only if another id was found for them.

    Args:
        found: The mentions that a pipeline found.
        gold: The gold mentions; they need no offsets.
    """
    first = list(dict.fromkeys((one.document, one.ids[0]) for one in found if one.ids))
    wanted: dict[tuple[str, frozenset[str]], None] = {}
    for mention in (mention for mention in gold if mention.gold):
        single = all(len(alternative) == 1 for alternative in mention.gold)
        either = frozenset(i for alternative in mention.gold for i in alternative)
        for ids in [either] if single else [frozenset((i,)) for i in mention.gold[0]]:
            wanted.setdefault((mention.document, ids))
    holding: dict[Hashable, list[int]] = {}
    of_document: dict[str, list[frozenset[str]]] = {}
    for j, (document, ids) in enumerate(wanted):
        of_document.setdefault(document, []).append(ids)
        for concept_id in ids:
            holding.setdefault((document, concept_id), []).append(j)
    edges = [(i, j) for i, pair in enumerate(first) for j in holding.get(pair, ())]
    needed = {j for j, (document, ids) in enumerate(wanted) if not any(other < ids for other in of_document[document])}
    right = _pairs(edges, len(first), len(wanted))
    extra = right - _pairs(
        [edge for edge in edges if edge[1] in needed], len(first), len(wanted)
    )  # pairs that exist only because of sets that are not needed
    return MatchCounts(right, len(first), len(needed) + extra)


def _pairs(edges: Sequence[tuple[int, int]], n_left: int, n_right: int) -> int:
    """Return the size of a maximum matching: the largest number of edges of which no two share an end."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_bipartite_matching

    if not edges:
        return 0
    left, right = zip(*edges)
    graph = csr_matrix((np.ones(len(edges), dtype=np.int8), (left, right)), shape=(n_left, n_right))
    return int((maximum_bipartite_matching(graph, perm_type="column") >= 0).sum())


# -- approximate search -------------------------------------------------------------------------------------------------


def neighbour_recall(index: Any, exact: Any, queries: Floats2d, depths: Sequence[int] = (1, 10)) -> dict[int, float]:
    """Measure how many of the true neighbours an approximate index finds, whether or not they are right concepts.

    A row counts if its true cosine is at least that of the k-th exact neighbour, minus TOLERANCE. So in a tie any of the equal neighbours counts.

    Args:
        index: A `VectorIndex`.
        exact: An exact `VectorIndex` over the same vectors.
        queries: (q, d), L2-normalised.
        depths: Depths k at which recall is measured.

    Returns:
        Depth -> recall in per cent.

    Raises:
        ValueError: If the two indexes differ in size, or there are no queries.
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
