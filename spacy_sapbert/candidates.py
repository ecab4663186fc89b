"""Turn the names that the index found into ranked concepts: best score of each concept, filters, order, ties, threshold.

This module uses NumPy only. It knows nothing about models and files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .kb.name_table import NameTable
from .kb.removals import Blocked
from .types import Bools1d, Floats2d, Ints1d, Ints2d

DECIMALS = 5  # scores are rounded: a cosine differs by about 2e-7 between batches, which must decide neither ties nor the order


class Candidate(NamedTuple):
    """A concept that a mention may mean.

    Attributes:
        concept: Row of the concept in the knowledge base.
        score: Cosine between the mention and the concept's nearest name; 1.0 for an exact match.
        surface_form: Row of that name in the knowledge base.
        rank_score: The ranker's score, which decides the order; None if `score` decides it.
        shares: What each of the ranker's features adds to `rank_score`.
    """

    concept: int
    score: float
    surface_form: int
    rank_score: float | None = None
    shares: tuple[float, ...] = ()

    @property
    def ranked_by(self) -> float:
        """The number that decides its place among the candidates."""
        return self.score if self.rank_score is None else self.rank_score


class Ranking(NamedTuple):
    """The ranked concepts of one mention.

    Attributes:
        kept: The candidates that pass the rules, best first.
        best: The best concept before threshold and definition rule; None if nothing was found.
        runner_up: The second-best concept, kept or not.
        tied: Rows of the concepts that share the best score; empty if only one has it.
    """

    kept: list[Candidate]
    best: Candidate | None
    runner_up: Candidate | None
    tied: list[int]


EMPTY = Ranking([], None, None, [])


class Hits(NamedTuple):
    """The names found for mentions without an exact match, ordered by mention, then by concept, then the best name first.

    Attributes:
        query: (h,) number of the mention.
        concept: (h,) a concept of the name, as a row of the knowledge base.
        surface_form: (h,) the name, as a row of the knowledge base.
        score: (h,) cosine.
        place: (h,) rank of the name in a tie, see `NameTable`.
        starts: (g,) position of the first hit of each pair of a mention and a concept.
    """

    query: Ints1d
    concept: Ints1d
    surface_form: Ints1d
    score: npt.NDArray[np.float64]
    place: Ints1d
    starts: Ints1d


class Standing(NamedTuple):
    """A ranker's scores for the pairs of a mention and a concept in `Hits`.

    Attributes:
        scores: (g,) score of each pair; the highest comes first.
        shares: (g, f) what each feature adds to the score.
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
    blocked: Mapping[int, Blocked] | None = None,
    ranker: Ranks | None = None,
) -> list[Ranking]:
    """Return the ranked concepts of each of q mentions.

    Concepts are ordered by the ranker's score, or without a ranker by their score. If scores are equal, an exact match comes before a name that
    the encoder can't tell from it (accents, or words after the last token that it reads). Then a canonical name comes before a synonym, and a
    synonym before narrower, related and broader names. Then the source that was named first decides, then the concept's id. Ties are reported,
    never broken by chance.

    Args:
        rows: (q, k) names that the index found, best first, -1 where there is none.
        cosines: (q, k) their cosines.
        names: the knowledge base's name table, m rows.
        rules: which concepts are kept.
        exact: for each mention the row of the name that it equals, or None. The concepts of this name score 1.0.
        allowed: (m,) which rows of the table may be used (semantic types, vocabularies, languages).
        added: another table of a rows, for names and concepts that a user added.
        added_allowed: (a,) which rows of `added` may be used.
        blocked: number of a mention -> concepts that it may not mean.
        ranker: orders the concepts of mentions without an exact match; None orders them by score.
    """
    queries = np.repeat(np.arange(len(rows)), rows.shape[1])
    forms, scores = rows.ravel(), np.round(np.clip(cosines.ravel().astype(np.float64), -1.0, 1.0), DECIMALS)
    near = np.ones(len(queries), dtype=np.bool_)  # no exact match
    if exact is not None:
        matched = [(q, row) for q, row in enumerate(exact) if row is not None]
        if matched:
            at, found = np.array(matched, dtype=np.int64).T
            queries, forms = np.concatenate([at, queries]), np.concatenate([found, forms])
            scores, near = np.concatenate([np.ones(len(at)), scores]), np.concatenate([np.zeros(len(at), dtype=np.bool_), near])
    there = forms >= 0
    queries, forms, scores, near = queries[there], forms[there], scores[there], near[there]
    parts = [_columns(forms, names, allowed, 0)]
    if added is not None:
        parts.append(_columns(forms, added, added_allowed, len(names)))
    hit, row, concept, place, defined, form = (np.concatenate(part) for part in zip(*parts))
    query, score, near = queries[hit], scores[hit], near[hit]
    if blocked:
        keep = _not_blocked(query, concept, blocked)
        query, concept, score, near, row, place, defined, form = (a[keep] for a in (query, concept, score, near, row, place, defined, form))
    # take the best row of each (mention, concept), then order each mention's concepts. Concept rows are in the order of ids, table rows in
    # the order of surface forms
    order = np.lexsort((row, place, near, -score, concept, query))
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (query[order][1:] != query[order][:-1]) | (concept[order][1:] != concept[order][:-1])
    standing, shares = _ranked(ranker, query, concept, form, score, place, near, order, new)
    order = order[new]
    last = np.lexsort((concept[order], place[order], near[order], -standing, query[order]))
    order, standing = order[last], standing[last]
    ranks = ([], [], []) if shares is None else (standing.tolist(), shares[last], shares[last].any(axis=1).tolist())
    query, concept, score, defined, form = (a[order] for a in (query, concept, score, defined, form))
    passes = score > rules.threshold
    if rules.filter_for_definitions:
        passes &= (defined == 1) | (score >= rules.no_definition_threshold)
    bounds = np.searchsorted(query, np.arange(len(rows) + 1)).tolist()
    every = _Ordered(concept.tolist(), score.tolist(), form.tolist(), passes.tolist(), *ranks)
    return [_ranking(every, a, b, rules) for a, b in zip(bounds, bounds[1:])]


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
    """Return the score that orders each pair of a mention and a concept (g,): its own, or the ranker's; and the ranker's shares (g, f)."""
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
    """Return columns with a line for each hit and concept of its name: hit, table row plus `offset`, concept, rank in a tie, defined, name."""
    hit, row = names.find(forms)
    if allowed is not None:
        keep = allowed[row]
        hit, row = hit[keep], row[keep]
    found = (column[row].astype(np.int64) for column in (names.concept, names.rank, names.defined, names.surface_form))
    return (hit, row + offset, *found)


def _not_blocked(query: Ints1d, concept: Ints1d, blocked: Mapping[int, Blocked]) -> Bools1d:
    """Return which hits (h,) are no concepts that their mention may not mean."""
    keep = np.ones(len(query), dtype=np.bool_)
    for number, (concepts, others) in blocked.items():
        here = query == number
        inside = np.isin(concept, list(concepts))
        keep &= ~here | (inside if others else ~inside)
    return keep


class _Ordered(NamedTuple):
    """The concepts of all mentions, by mention, the best first: lists, because single values of an array are slow to read.

    Attributes:
        concept: (n,) rows of concepts.
        score: (n,) see `Candidate`.
        form: (n,) rows of surface forms.
        passes: (n,) whether the rules let the concept through.
        standing: (n,) the ranker's scores; empty without a ranker.
        shares: (n, f) what each feature adds to them.
        is_ranked: (n,) whether any share is not 0.
    """

    concept: list[int]
    score: list[float]
    form: list[int]
    passes: list[bool]
    standing: list[float]
    shares: Sequence[npt.NDArray[np.float64]]
    is_ranked: list[bool]


def _ranking(every: _Ordered, first: int, end: int, rules: Rules) -> Ranking:
    """Return the ranking of one mention, whose concepts have the places from `first` to `end` - 1."""
    if first == end:
        return EMPTY
    concept = every.concept

    def candidate(i: int) -> Candidate:
        row = concept[i], every.score[i], every.form[i]
        return Candidate(*row, every.standing[i], tuple(every.shares[i].tolist())) if every.is_ranked and every.is_ranked[i] else Candidate(*row)

    kept = [candidate(i) for i in islice((i for i in range(first, end) if every.passes[i]), rules.max_entities)]
    top = kept[0] if kept else candidate(first)
    decides = every.standing or every.score
    tied = [concept[i] for i in range(first, end) if decides[i] == top.ranked_by] if kept else []
    second = next((i for i in range(first, min(first + 2, end)) if concept[i] != top.concept), None)
    return Ranking(kept, candidate(first), None if second is None else candidate(second), tied if len(tied) > 1 else [])
