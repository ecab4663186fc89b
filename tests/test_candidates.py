"""Ranking of candidates: computed by hand, and compared with a slow reference that reads one name at a time."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_sapbert.candidates import DECIMALS, EMPTY, Candidate, Ranking, Rules, rank
from spacy_sapbert.kb.name_table import NameTable

CANONICAL, SYNONYM, WEAK, NEXT_SOURCE = 0, 10_000, 20_000, 1  # "rank in a tie" of the builder: kind of the name, then source


def make_table(rows: List[Tuple[int, int, int, int]]) -> NameTable:
    """Return a name table from rows (surface form, concept, rank, has a definition), sorted by surface form."""
    return NameTable.from_rows((form, concept, place, 0, 0, defined) for form, concept, place, defined in sorted(rows))


# concepts 0 … 3: 0 has names 0, 1 and a weak 5; 1 has names 2 and 1 ("cold"); 2 has name 3, undefined; 3 has names 4 and 5
NAMES = make_table(
    [
        (0, 0, CANONICAL, 1),
        (1, 0, SYNONYM, 1),
        (1, 1, CANONICAL, 1),
        (2, 1, SYNONYM, 1),
        (3, 2, CANONICAL, 0),
        (4, 3, CANONICAL, 1),
        (5, 0, WEAK, 1),
        (5, 3, SYNONYM, 1),
    ]
)
ALL = Rules(threshold=-2.0, max_entities=10)


def array_of(table: NameTable) -> Any:
    return np.stack([getattr(table, field.name) for field in fields(NameTable)])


def one(names: List[Tuple[int, float]], rules: Rules = ALL, **more: Any) -> Ranking:
    rows = np.array([[row for row, _ in names]], dtype=np.int64)
    return rank(rows, np.array([[score for _, score in names]], dtype=np.float32), more.pop("table", NAMES), rules, **more)[0]


def pairs_of(ranking: Ranking) -> List[Tuple[int, float]]:
    return [(c.concept, c.score) for c in ranking.kept]


def test_a_concept_scores_by_its_best_name():
    ranking = one([(0, 0.9), (1, 0.8), (2, 0.6)])
    assert ranking.kept == [Candidate(0, 0.9, 0), Candidate(1, 0.8, 1)]
    assert ranking.best == Candidate(0, 0.9, 0)
    assert ranking.runner_up == Candidate(1, 0.8, 1)
    assert ranking.tied == []
    assert all(type(c.concept) is int and type(c.score) is float and type(c.surface_form) is int for c in ranking.kept)


def test_the_order_of_names_given_does_not_matter():
    names = [(0, 0.5), (1, 0.5), (2, 0.7), (4, 0.7), (5, 0.7), (3, 0.7)]
    assert one(names) == one(names[::-1])


def test_a_name_of_several_concepts_is_a_tie_canonical_first():
    ranking = one([(1, 0.95)])
    assert pairs_of(ranking) == [(1, 0.95), (0, 0.95)]  # name 1 is canonical for concept 1, a synonym of 0
    assert ranking.tied == [1, 0]
    assert ranking.runner_up == Candidate(0, 0.95, 1)


def test_ties_canonical_synonym_weak_source_id():
    table = make_table(
        [
            (0, 9, CANONICAL + NEXT_SOURCE, 1),
            (0, 8, CANONICAL, 1),
            (0, 0, WEAK, 1),
            (0, 1, SYNONYM + NEXT_SOURCE, 1),
            (0, 7, SYNONYM, 1),
            (0, 2, SYNONYM, 1),
        ]
    )
    ranking = one([(0, 0.8)], table=table)
    assert [c.concept for c in ranking.kept] == [8, 9, 2, 7, 1, 0]
    assert ranking.tied == [8, 9, 2, 7, 1, 0]
    assert ranking.runner_up == Candidate(9, 0.8, 0)


def test_ties_are_reported_beyond_what_is_kept():
    ranking = one([(5, 0.8), (1, 0.8)], Rules(-2.0, max_entities=1))
    assert pairs_of(ranking) == [(1, 0.8)]
    assert ranking.tied == [1, 0, 3]
    assert ranking.runner_up == Candidate(0, 0.8, 1)  # it is shown with its synonym (name 1), not with its weak name 5


def test_of_equal_names_of_a_concept_the_better_one_is_shown():
    assert one([(5, 0.8), (1, 0.8), (0, 0.8)]).kept[0] == Candidate(0, 0.8, 0)
    two_synonyms = make_table([(6, 0, SYNONYM, 1), (4, 0, SYNONYM, 1)])
    assert one([(6, 0.8), (4, 0.8)], table=two_synonyms).kept == one([(4, 0.8), (6, 0.8)], table=two_synonyms).kept == [Candidate(0, 0.8, 4)]


def test_noise_between_batches_is_no_difference():
    a, b = one([(1, 0.8123399), (4, 0.8123401)]), one([(1, 0.8123401), (4, 0.8123399)])
    assert a == b
    assert pairs_of(a) == [(1, 0.81234), (3, 0.81234), (0, 0.81234)]
    assert a.tied == [1, 3, 0]


def test_scores_are_cosines_even_where_floats_overshoot():
    assert pairs_of(one([(4, 1.0000002), (3, -1.0000002)])) == [(3, 1.0), (2, -1.0)]


@pytest.mark.parametrize(("threshold", "kept"), [(0.69999, 2), (0.7, 1), (0.70001, 1), (0.9, 0), (0.95, 0)])
def test_a_score_must_be_above_the_threshold(threshold: float, kept: int):
    ranking = one([(4, 0.9), (3, 0.7)], Rules(threshold, 5))
    assert len(ranking.kept) == kept
    assert ranking.best == Candidate(3, 0.9, 4)  # reported, although it is not kept
    assert ranking.runner_up == Candidate(2, 0.7, 3)


def test_ties_are_only_reported_of_links():
    assert one([(1, 0.5)], Rules(0.7, 5)).tied == []


@pytest.mark.parametrize(("score", "kept"), [(0.94, []), (0.95, [2]), (0.96, [2])])
def test_definition_rule(score: float, kept: List[int]):
    """scispaCy skips `definition is None and score < no_definition_threshold`."""
    rules = Rules(0.7, 5, filter_for_definitions=True, no_definition_threshold=0.95)
    assert [c.concept for c in one([(3, score)], rules).kept] == kept
    assert [c.concept for c in one([(3, score)], Rules(0.7, 5, no_definition_threshold=0.95)).kept] == [2]


def test_definition_rule_passes_the_next_concept_on():
    ranking = one([(3, 0.9), (4, 0.8)], Rules(0.7, 1, True, 0.95))
    assert pairs_of(ranking) == [(3, 0.8)]
    assert ranking.best == Candidate(2, 0.9, 3)
    assert ranking.runner_up == Candidate(2, 0.9, 3)


def test_verbatim_name_scores_one_and_comes_first():
    ranking = one([(0, 0.999), (4, 0.998)], exact=[4])
    assert ranking.kept == [Candidate(3, 1.0, 4), Candidate(0, 0.999, 0)]


def test_verbatim_name_comes_before_one_the_encoder_cannot_tell_from_it():
    """sjögren and sjogren have the same vector: the one in the text wins, although it is a synonym and the other one a canonical name."""
    ranking = one([(4, 1.0), (2, 1.0)], exact=[2])
    assert pairs_of(ranking) == [(1, 1.0), (3, 1.0)]
    assert ranking.tied == [1, 3]
    assert one([(0, 1.0), (1, 1.0)], exact=[1]).kept[1] == Candidate(0, 1.0, 1)  # shown with the name of the exact match, not with the canonical one


def test_verbatim_name_of_several_concepts_is_a_tie():
    ranking = one([(4, 0.2)], exact=[1])
    assert pairs_of(ranking) == [(1, 1.0), (0, 1.0), (3, 0.2)]
    assert ranking.tied == [1, 0]


def test_verbatim_without_neighbours():
    rows = np.full((2, 3), -1, dtype=np.int64)
    first, second = rank(rows, np.full((2, 3), -np.inf, dtype=np.float32), NAMES, Rules(0.7, 5), exact=[None, 3])
    assert first == EMPTY
    assert second == Ranking([Candidate(2, 1.0, 3)], Candidate(2, 1.0, 3), None, [])


def test_rows_that_are_not_allowed_leave_concepts_out_before_anything_is_counted():
    allowed = NAMES.concept != 1
    ranking = one([(1, 0.95), (2, 0.9), (4, 0.5)], Rules(0.1, 2), allowed=allowed)
    assert pairs_of(ranking) == [(0, 0.95), (3, 0.5)]
    assert ranking.tied == []
    assert one([(1, 0.95)], exact=[1], allowed=allowed).kept == [Candidate(0, 1.0, 1)]
    assert one([(1, 0.95)], allowed=np.zeros(len(NAMES), dtype=np.bool_)) == EMPTY


def test_padding_and_nothing_at_all():
    ranking = one([(4, 0.9), (-1, -np.inf), (-1, -np.inf)])
    assert ranking == Ranking([Candidate(3, 0.9, 4)], Candidate(3, 0.9, 4), None, [])
    assert one([(-1, -np.inf)]) == EMPTY
    assert rank(np.zeros((0, 4), dtype=np.int64), np.zeros((0, 4), dtype=np.float32), NAMES, ALL) == []
    assert rank(np.zeros((2, 0), dtype=np.int64), np.zeros((2, 0), dtype=np.float32), NAMES, ALL) == [EMPTY, EMPTY]


def test_mentions_do_not_mix():
    rows = np.array([[0, 4], [3, -1], [4, 0]], dtype=np.int64)
    cosines = np.array([[0.9, 0.8], [0.7, -np.inf], [0.6, 0.5]], dtype=np.float32)
    rankings = rank(rows, cosines, NAMES, ALL, exact=[None, 0, None])
    assert [pairs_of(r) for r in rankings] == [[(0, 0.9), (3, 0.8)], [(0, 1.0), (2, 0.7)], [(3, 0.6), (0, 0.5)]]


def test_kept_is_cut_at_max_entities():
    assert [len(one([(1, 0.9), (3, 0.8), (4, 0.7)], Rules(0.0, n)).kept) for n in (1, 2, 3, 4, 99)] == [1, 2, 3, 4, 4]


def test_input_is_left_as_it_is():
    rows, cosines, before = np.array([[1, 3]]), np.array([[0.5, 0.4]], dtype=np.float32), array_of(NAMES).copy()
    rank(rows, cosines, NAMES, ALL, exact=[3], allowed=np.ones(8, dtype=np.bool_))
    assert rows.tolist() == [[1, 3]]
    assert cosines.tolist() == np.array([[0.5, 0.4]], dtype=np.float32).tolist()
    assert np.array_equal(before, array_of(NAMES))


# -- against a reference --------------------------------------------------------------------------------------------------


def slow(names: List[Tuple[int, float]], table: NameTable, rules: Rules, exact: Optional[int], allowed: Any) -> Ranking:
    found = [(row, round(min(1.0, max(-1.0, float(score))), DECIMALS), 1) for row, score in names if row >= 0]
    if exact is not None:
        found.append((exact, 1.0, 0))
    best: Dict[int, Tuple[float, int, int, int]] = {}  # concept -> (-score, not verbatim, rank, name)
    defined = {}
    for i in range(len(table)):
        form, concept, place = int(table.surface_form[i]), int(table.concept[i]), int(table.rank[i])
        if allowed is None or allowed[i]:
            for row, score, near in found:
                if row == form:
                    best[concept] = min(best.get(concept, (9.0, 9, 0, 0)), (-score, near, place, form))
            defined[concept] = table.defined[i]
    ordered = sorted(best, key=lambda concept: (*best[concept][:3], concept))
    candidates = [Candidate(concept, -best[concept][0], best[concept][3]) for concept in ordered]
    kept = []
    for candidate in candidates:
        undefined = rules.filter_for_definitions and not defined[candidate.concept] and candidate.score < rules.no_definition_threshold
        if candidate.score > rules.threshold and not undefined:
            kept.append(candidate)
    kept = kept[: rules.max_entities]
    if not candidates:
        return EMPTY
    top = kept[0] if kept else candidates[0]
    tied = [c.concept for c in candidates if c.score == top.score] if kept else []
    others = [c for c in candidates if c.concept != top.concept]
    return Ranking(kept, candidates[0], others[0] if others else None, tied if len(tied) > 1 else [])


SCORES = st.sampled_from([-0.5, 0.3, 0.69999, 0.7, 0.70001, 0.9, 0.95, 1.0]) | st.floats(-1, 1, width=32)


@st.composite
def problems(draw: Any) -> Any:
    n_names, n_concepts = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    defined = draw(st.lists(st.integers(0, 1), min_size=n_concepts, max_size=n_concepts))
    links = draw(st.sets(st.tuples(st.integers(0, n_names - 1), st.integers(0, n_concepts - 1)), min_size=1, max_size=12))
    ranks = st.sampled_from([CANONICAL, CANONICAL + NEXT_SOURCE, SYNONYM, SYNONYM + NEXT_SOURCE, WEAK])
    table = make_table([(form, concept, draw(ranks), defined[concept]) for form, concept in links])
    k = draw(st.integers(1, n_names + 1))
    names = []
    for _ in range(draw(st.integers(1, 3))):
        rows = draw(st.permutations(range(n_names)))[:k]
        scored = [(row, draw(SCORES)) for row in rows]
        names.append(scored + [(-1, -np.inf)] * (k - len(scored)))
    exact = draw(st.none() | st.lists(st.none() | st.integers(0, n_names - 1), min_size=len(names), max_size=len(names)))
    allowed = draw(st.none() | st.lists(st.booleans(), min_size=len(table), max_size=len(table)).map(np.array))
    rules = Rules(draw(SCORES), draw(st.integers(1, 4)), draw(st.booleans()), draw(SCORES))
    return names, table, rules, exact, allowed


@settings(max_examples=150, deadline=None)
@given(problems())
def test_same_as_the_slow_way(problem: Any):
    names, table, rules, exact, allowed = problem
    rows = np.array([[row for row, _ in line] for line in names], dtype=np.int64)
    cosines = np.array([[score for _, score in line] for line in names], dtype=np.float32)
    expected = [
        slow([(row, np.float32(score)) for row, score in line], table, rules, None if exact is None else exact[i], allowed)
        for i, line in enumerate(names)
    ]
    assert rank(rows, cosines, table, rules, exact=exact, allowed=allowed) == expected


def test_scores_are_clipped_to_cosines():
    assert pairs_of(one([(4, 1.001), (3, -1.5)])) == [(3, 1.0), (2, -1.0)]


def test_added_names_are_looked_up_beside_the_knowledge_base():
    added = make_table([(3, 1, SYNONYM, 1), (6, 0, CANONICAL, 1)])
    ranking = one([(3, 0.9), (0, 0.8), (6, 0.8)], added=added)
    # concept 0 has name 0 in the knowledge base and the added name 6 with the same score: the former is shown
    assert ranking.kept == [Candidate(2, 0.9, 3), Candidate(1, 0.9, 3), Candidate(0, 0.8, 0)]
    assert ranking.tied == [2, 1]
    only_added = np.array([False, True])
    assert one([(3, 0.9), (6, 0.8)], added=added, added_allowed=only_added).kept == [Candidate(2, 0.9, 3), Candidate(0, 0.8, 6)]
    nothing_else = np.zeros(len(NAMES), dtype=np.bool_)
    assert one([(3, 0.9), (6, 0.8)], added=added, allowed=nothing_else).kept == [Candidate(1, 0.9, 3), Candidate(0, 0.8, 6)]
