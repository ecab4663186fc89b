"""Names found by the index -> concepts. Best score a concept, filters, ties, threshold. Plain numpy; knows no model and no file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, NamedTuple, Optional, Tuple

import numpy as np
import numpy.typing as npt

from .types import Bools1d, Floats2d, Ints2d

STRING, CONCEPT, RANK, DEFINED = 0, 1, 2, 5  # lines of the knowledge base's integer array
DECIMALS = 5  # a cosine's noise between batches is about 2e-7; rounded, a tie is a tie and the order never falls by chance


class Candidate(NamedTuple):
    """concept, string: rows in the knowledge base. score: cosine of the concept's nearest name, 1.0 for a name found verbatim."""

    concept: int
    score: float
    string: int


class Ranking(NamedTuple):
    """kept: what the settings let through, best first. runner_up: the second-best concept, kept or not. tied: how many
    concepts share the best score. best: the best concept before threshold and definition rule, None where nothing was found."""

    kept: List[Candidate]
    best: Optional[Candidate]
    runner_up: Optional[Candidate]
    tied: List[int]


EMPTY = Ranking([], None, None, [])


@dataclass(frozen=True)
class Rules:
    """scispaCy's settings with scispaCy's meaning: a score must be *above* `threshold`; where `filter_for_definitions`, a concept
    without a definition must reach `no_definition_threshold`; at most `max_entities` are kept."""

    threshold: float
    max_entities: int
    filter_for_definitions: bool = False
    no_definition_threshold: float = 0.95


def rank(
    rows: Ints2d,
    cosines: Floats2d,
    pairs: npt.NDArray[np.int32],
    rules: Rules,
    *,
    exact: Optional[List[Optional[int]]] = None,
    lines: Optional[Bools1d] = None,
    added: Optional[npt.NDArray[np.int32]] = None,
    added_lines: Optional[Bools1d] = None,
) -> List[Ranking]:
    """Names -> ranked concepts for each of q mentions.

    rows, cosines (q, k): what the index found, best first, -1 where there is nothing. pairs (6, m): the knowledge base's array.
    exact: for each mention the row of the name found verbatim, or None: its concepts score 1.0.
    lines (m): which of the array's columns may be used (semantic types, vocabularies).
    added (6, a): further columns, of names and concepts that were added. added_lines (a): which of them may be used.

    The order: score; then a name found verbatim before one that the encoder can't tell from it (accents, what stands after the
    last token it reads); then canonical name before synonym before narrower, related and broader names; then the source named
    first; then the concept's id. Ties are reported, never broken by chance.
    """
    queries = np.repeat(np.arange(len(rows)), rows.shape[1])
    strings, scores = rows.ravel(), np.round(np.clip(cosines.ravel().astype(np.float64), -1.0, 1.0), DECIMALS)
    near = np.ones(len(queries), dtype=np.bool_)  # not verbatim
    if exact is not None:
        sure = [(q, row) for q, row in enumerate(exact) if row is not None]
        if sure:
            at, found = np.array(sure, dtype=np.int64).T
            queries, strings = np.concatenate([at, queries]), np.concatenate([found, strings])
            scores, near = np.concatenate([np.ones(len(at)), scores]), np.concatenate([np.zeros(len(at), dtype=np.bool_), near])
    there = strings >= 0
    queries, strings, scores, near = queries[there], strings[there], scores[there], near[there]
    parts = [_columns(strings, pairs, lines, 0)]
    if added is not None:
        parts.append(_columns(strings, added, added_lines, pairs.shape[1]))
    hit, column, concept, place, defined, string = (np.concatenate(part) for part in zip(*parts))
    query, score, near = queries[hit], scores[hit], near[hit]
    # the best line of each (mention, concept), then each mention's concepts in order; concept rows are in the order of ids,
    # columns in that of names
    order = np.lexsort((column, place, near, -score, concept, query))
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (query[order][1:] != query[order][:-1]) | (concept[order][1:] != concept[order][:-1])
    order = order[new]
    order = order[np.lexsort((concept[order], place[order], near[order], -score[order], query[order]))]
    query, concept, score, defined, string = (a[order] for a in (query, concept, score, defined, string))
    passes = score > rules.threshold
    if rules.filter_for_definitions:
        passes &= (defined == 1) | (score >= rules.no_definition_threshold)
    bounds = np.searchsorted(query, np.arange(len(rows) + 1))
    return [_ranking(concept[a:b], score[a:b], string[a:b], passes[a:b], rules) for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist())]


def _columns(strings: Ints2d, pairs: npt.NDArray[np.int32], lines: Optional[Bools1d], offset: int) -> Tuple[Ints2d, ...]:
    """A line for each (hit, concept of its name): number of the hit, column (`offset` more), concept, rank in a tie, has a definition, name."""
    wanted = strings.astype(pairs.dtype)  # of another type, all of the array would be converted: 50 ms for UMLS's names
    first = np.searchsorted(pairs[STRING], wanted, side="left")
    counts = np.searchsorted(pairs[STRING], wanted, side="right") - first
    hit = np.repeat(np.arange(len(strings)), counts)
    column = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + first[hit]
    if lines is not None:
        keep = lines[column]
        hit, column = hit[keep], column[keep]
    found = (pairs[line, column].astype(np.int64) for line in (CONCEPT, RANK, DEFINED, STRING))
    return (hit, column + offset, *found)


def _ranking(concept: Any, score: Any, string: Any, passes: Any, rules: Rules) -> Ranking:
    if len(concept) == 0:
        return EMPTY

    def candidate(i: int) -> Candidate:
        return Candidate(int(concept[i]), float(score[i]), int(string[i]))

    kept = [candidate(i) for i in np.flatnonzero(passes)[: rules.max_entities].tolist()]
    top = kept[0] if kept else candidate(0)
    tied = concept[score == top.score].tolist() if kept else []
    second = next((i for i in range(min(2, len(concept))) if int(concept[i]) != top.concept), None)
    return Ranking(kept, candidate(0), None if second is None else candidate(second), tied if len(tied) > 1 else [])
