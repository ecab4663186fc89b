"""Names found by the index -> concepts. Best score a concept, filters, ranking, ties, threshold. Plain numpy; knows no model and no file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .kb.name_table import NameTable
from .types import Bools1d, Floats2d, Ints1d, Ints2d

DECIMALS = 5  # a cosine's noise between batches is about 2e-7; rounded, a tie is a tie and the order never falls by chance


class Candidate(NamedTuple):
    """A concept that a mention may mean.

    Attributes:
        concept: Row of the concept in the knowledge base.
        score: Cosine between the mention and the concept's nearest name; 1.0 for an exact match.
        surface_form: Row of that name in the knowledge base.
        rank_score: What a ranker ranks it by; None where it is ranked by `score`.
        shares: What each of the ranker's features adds to `rank_score`.
    """

    concept: int
    score: float
    surface_form: int
    rank_score: float | None = None
    shares: tuple[float, ...] = ()

    @property
    def ranked_by(self) -> float:
        """What decides its place among the candidates."""
        return self.score if self.rank_score is None else self.rank_score


class Ranking(NamedTuple):
    """The ranked concepts of one mention.

    Attributes:
        kept: The candidates that pass the rules, best first.
        best: The best concept before threshold and definition rule; None where nothing was found.
        runner_up: The second-best concept, kept or not.
        tied: Rows of the concepts that share the best score; empty where one alone has it.
    """

    kept: list[Candidate]
    best: Candidate | None
    runner_up: Candidate | None
    tied: list[int]


EMPTY = Ranking([], None, None, [])


class Hits(NamedTuple):
    """The names found for some mentions that are no exact match, ordered by mention, by concept, then the best first.

    Attributes:
        query: (h,) which mention.
        concept: (h,) a concept of the name, as a row of the knowledge base.
        surface_form: (h,) the name, as a row of the knowledge base.
        score: (h,) cosine.
        place: (h,) rank of the name in a tie, see `NameTable`.
        starts: (g,) where each pair of a mention and a concept begins.
    """

    query: Ints1d
    concept: Ints1d
    surface_form: Ints1d
    score: npt.NDArray[np.float64]
    place: Ints1d
    starts: Ints1d


class Standing(NamedTuple):
    """How a ranker orders the pairs of a mention and a concept of `Hits`.

    Attributes:
        scores: (g,) the highest is the first.
        shares: (g, f) what each feature adds.
    """

    scores: npt.NDArray[np.float64]
    shares: npt.NDArray[np.float64]


Ranks = Callable[[Hits], Standing]


@dataclass(frozen=True)
class Rules:
    """Which candidates are kept: scispaCy's settings, with scispaCy's meaning.

    Attributes:
        threshold: Score that a candidate must be above.
        max_entities: Most candidates that are kept.
        filter_for_definitions: Whether a concept without a definition needs a score of at least `no_definition_threshold`.
        no_definition_threshold: That score.
    """

    threshold: float
    max_entities: int
    filter_for_definitions: bool = False
    no_definition_threshold: float = 0.95


def rank(
    rows: Ints2d,
    cosines: Floats2d,
    names: NameTable,
    rules: Rules,
    *,
    exact: list[int | None] | None = None,
    allowed: Bools1d | None = None,
    added: NameTable | None = None,
    added_allowed: Bools1d | None = None,
    ranker: Ranks | None = None,
) -> list[Ranking]:
    """Names -> ranked concepts for each of q mentions.

    rows, cosines (q, k): what the index found, best first, -1 where there is nothing. names: the knowledge base's name table, m rows.
    exact: for each mention the row of the exact match, or None: its concepts score 1.0.
    allowed (m): which rows of the table may be used (semantic types, vocabularies, languages).
    added: a further table of a rows, of names and concepts that were added. added_allowed (a): which of its rows may be used.
    ranker: orders the concepts of mentions without an exact match; None orders them by score.

    The order: the ranker's score, or the score; then an exact match before a name that the encoder can't tell from it (accents, what stands after the
    last token it reads); then canonical name before synonym before narrower, related and broader names; then the source named
    first; then the concept's id. Ties are reported, never broken by chance.
    """
    queries = np.repeat(np.arange(len(rows)), rows.shape[1])
    forms, scores = rows.ravel(), np.round(np.clip(cosines.ravel().astype(np.float64), -1.0, 1.0), DECIMALS)
    near = np.ones(len(queries), dtype=np.bool_)  # no exact match
    if exact is not None:
        sure = [(q, row) for q, row in enumerate(exact) if row is not None]
        if sure:
            at, found = np.array(sure, dtype=np.int64).T
            queries, forms = np.concatenate([at, queries]), np.concatenate([found, forms])
            scores, near = np.concatenate([np.ones(len(at)), scores]), np.concatenate([np.zeros(len(at), dtype=np.bool_), near])
    there = forms >= 0
    queries, forms, scores, near = queries[there], forms[there], scores[there], near[there]
    parts = [_columns(forms, names, allowed, 0)]
    if added is not None:
        parts.append(_columns(forms, added, added_allowed, len(names)))
    hit, row, concept, place, defined, form = (np.concatenate(part) for part in zip(*parts))
    query, score, near = queries[hit], scores[hit], near[hit]
    # the best row of each (mention, concept), then each mention's concepts in order; concepts are in the order of their ids,
    # rows in that of surface forms
    order = np.lexsort((row, place, near, -score, concept, query))
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (query[order][1:] != query[order][:-1]) | (concept[order][1:] != concept[order][:-1])
    standing, shares = _ranked(ranker, query, concept, form, score, place, near, order, new)
    order = order[new]
    last = np.lexsort((concept[order], place[order], near[order], -standing, query[order]))
    order, standing = order[last], standing[last]
    ranks = None if shares is None else (standing, shares[last])
    query, concept, score, defined, form = (a[order] for a in (query, concept, score, defined, form))
    passes = score > rules.threshold
    if rules.filter_for_definitions:
        passes &= (defined == 1) | (score >= rules.no_definition_threshold)
    bounds = np.searchsorted(query, np.arange(len(rows) + 1))
    parts_of = zip(bounds[:-1].tolist(), bounds[1:].tolist())
    return [
        _ranking(concept[a:b], score[a:b], form[a:b], passes[a:b], rules, None if ranks is None else (ranks[0][a:b], ranks[1][a:b]))
        for a, b in parts_of
    ]


def _ranked(
    ranker: Ranks | None,
    query: Ints1d,
    concept: Ints1d,
    form: Ints1d,
    score: npt.NDArray[np.float64],
    place: Ints1d,
    near: Bools1d,
    order: Ints1d,
    new: Bools1d,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64] | None]:
    """Return what orders each pair of a mention and a concept: its score, or the ranker's for mentions without an exact match; and its shares."""
    standing = score[order[new]]
    if ranker is None or not len(order):
        return standing, None
    exact = np.unique(query[~near])
    free = ~np.isin(query[order], exact)
    rows = order[free]
    found = ranker(Hits(query[rows], concept[rows], form[rows], score[rows], place[rows], np.flatnonzero(new[free])))
    groups = free[new]
    standing[groups] = found.scores
    shares = np.zeros((len(standing), found.shares.shape[1]))
    shares[groups] = found.shares
    return standing, shares


def _columns(forms: Ints1d, names: NameTable, allowed: Bools1d | None, offset: int) -> tuple[Ints1d, ...]:
    """A line for each (hit, concept of its name): number of the hit, row (`offset` more), concept, rank in a tie, has a definition, name."""
    hit, row = names.find(forms)
    if allowed is not None:
        keep = allowed[row]
        hit, row = hit[keep], row[keep]
    found = (column[row].astype(np.int64) for column in (names.concept, names.rank, names.defined, names.surface_form))
    return (hit, row + offset, *found)


def _ranking(
    concept: Ints1d,
    score: npt.NDArray[np.float64],
    form: Ints1d,
    passes: Bools1d,
    rules: Rules,
    ranks: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None,
) -> Ranking:
    if len(concept) == 0:
        return EMPTY

    def candidate(i: int) -> Candidate:
        row = int(concept[i]), float(score[i]), int(form[i])
        return Candidate(*row) if ranks is None or not ranks[1][i].any() else Candidate(*row, float(ranks[0][i]), tuple(ranks[1][i].tolist()))

    kept = [candidate(i) for i in np.flatnonzero(passes)[: rules.max_entities].tolist()]
    top = kept[0] if kept else candidate(0)
    tied = concept[(score if ranks is None else ranks[0]) == top.ranked_by].tolist() if kept else []
    second = next((i for i in range(min(2, len(concept))) if int(concept[i]) != top.concept), None)
    return Ranking(kept, candidate(0), None if second is None else candidate(second), tied if len(tied) > 1 else [])
