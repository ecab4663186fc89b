"""Accuracy, ties and thresholds, computed by hand."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_sapbert.indexes.exact import ExactIndex
from training.corpora.mention import Gold, GoldMention, missing_ids, resolve_gold
from training.evaluation.metrics import (
    PredictedMention,
    Ranks,
    accuracy,
    alternatives_of,
    boundary,
    document_match,
    expected,
    lenient,
    mention_match,
    neighbour_recall,
    ranks,
    reciprocal_rank,
    strict,
    sweep,
)

ROWS = {"A": [1], "B": [2], "C": [3], "old A": [1], "code of A and C": [3, 1]}


def mention(*gold):
    return GoldMention("d", 0, 1, "x", gold)


def rows_of(concept_id):
    return ROWS.get(concept_id, [])


def test_resolve_follows_ids_and_names_what_is_missing():
    assert resolve_gold(mention(("old A",)), rows_of) == Gold(((1,),), ())
    gold = resolve_gold(mention(("A", "X"), ("Y",)), rows_of)
    assert gold == Gold(((1, None), (None,)), ("X", "Y"))
    assert not gold.answerable
    assert resolve_gold(mention(("X",), ("B",)), rows_of).answerable


def test_a_code_of_several_concepts_is_as_many_alternatives_and_in_a_composite_the_best():
    assert resolve_gold(mention(("code of A and C",), ("B",)), rows_of) == Gold(((3,), (1,), (2,)), ())
    assert resolve_gold(mention(("code of A and C", "B")), rows_of) == Gold(((3, 2),), ())


def test_strict_needs_all_of_a_composite_and_lenient_any():
    composite = Gold(((1, 2),), ())
    assert not strict(composite, [1, 2], 1)
    assert strict(composite, [2, 9, 1], 3)
    assert not strict(composite, [2, 9, 1], 2)
    assert lenient(composite, [2], 1)
    assert not lenient(composite, [9, 1], 1)


def test_alternatives_are_each_enough():
    either = Gold(((1,), (2,)), ())
    assert strict(either, [2], 1)
    assert strict(either, [1], 1)
    assert not strict(either, [3, 4], 2)


def test_an_id_outside_the_knowledge_base_is_never_found():
    assert not strict(Gold(((None,),), ("X",)), [1, 2], 2)
    assert not lenient(Gold(((None,),), ("X",)), [1, 2], 2)
    assert lenient(Gold(((None, 2),), ("X",)), [2], 1)
    assert not strict(Gold(((None, 2),), ("X",)), [2], 1)


def test_accuracy_at_1_and_k():
    golds = [Gold(((1,),), ()), Gold(((2,),), ()), Gold(((3,),), ()), Gold(((None,),), ("X",))]
    ranked = [[1, 2], [1, 2], [1, 2], [1]]
    found = accuracy(golds, ranked, k=2)  # at 1, the first is right; at 2, also the second
    assert found == (25.0, 50.0, 4)
    answerable = accuracy(golds, ranked, k=2, answerable_only=True)
    assert answerable.at_1 == pytest.approx(100 / 3)
    assert answerable.at_k == pytest.approx(200 / 3)
    assert answerable.total == 3


def test_accuracy_of_composites_depends_on_the_rule():
    golds, ranked = [Gold(((1, 2),), ())], [[1, 2]]
    assert accuracy(golds, ranked, k=2)[:2] == (0.0, 100.0)
    assert accuracy(golds, ranked, k=2, rule=lenient)[:2] == (100.0, 100.0)


def test_accuracy_of_nothing_and_of_unlike_lengths():
    assert accuracy([], []) == (0.0, 0.0, 0)
    with pytest.raises(ValueError, match="1 gold mentions but 0 rankings"):
        accuracy([Gold(((1,),), ())], [])


def test_missing_ids_are_counted():
    assert missing_ids([Gold((), ("Y", "X")), Gold((), ("X",))]) == {"X": 2, "Y": 1}


def test_sweep_counts_what_is_above_the_threshold():
    low, high, none = sweep([0.9, 0.8, 0.6, float("-inf")], [True, False, True, False], [0.5, 0.8, 1.0])
    assert low == (0.5, 3, 2, 4)
    assert low.precision == pytest.approx(200 / 3)
    assert low.recall == 50.0
    assert low.f1 == pytest.approx(400 / 7)
    assert high == (0.8, 1, 1, 4)  # 0.8 itself is not above 0.8
    assert (none.precision, none.recall, none.f1) == (100.0, 0.0, 0.0)


# -- ties as their expectation ------------------------------------------------------------------------------------------

TIED = np.array([0.9, 0.8, 0.8, 0.8 - 5e-7, 0.1, -np.inf])  # one score, three equal scores, one score, one concept that was not found


@pytest.mark.parametrize(
    ("k", "sure", "tied", "slots"),
    [
        (1, [], [0], 1),
        (2, [0], [1, 2, 3], 1),
        (3, [0], [1, 2, 3], 2),
        (4, [0], [1, 2, 3], 3),
        (5, [0, 1, 2, 3, 4], [], 0),
        (9, [0, 1, 2, 3, 4], [], 0),
    ],
)
def test_boundary(k, sure, tied, slots):
    found = boundary(TIED, k)
    assert np.flatnonzero(found.sure).tolist() == sure
    assert np.flatnonzero(found.tied).tolist() == tied
    assert found.slots == slots


@pytest.mark.parametrize(
    ("alternatives", "k", "probability"),
    [
        ([{0}], 1, 1.0),
        ([{1}], 1, 0.0),
        ([{1}], 2, 1 / 3),  # one place for three
        ([{1}], 3, 2 / 3),
        ([{1}], 4, 1.0),
        ([{4}], 4, 0.0),
        ([{5}], 6, 0.0),  # not found
        ([{1}, {2}], 2, 2 / 3),
        ([{1}, {2}], 3, 1.0),  # at least one of the two is in three places
        ([{1, 2}], 2, 0.0),
        ([{1, 2}], 3, 1 / 3),  # one of three ways to choose two
        ([{0, 1}], 2, 1 / 3),
        ([{1, 2}, {3}], 3, 1.0),  # {1, 2}, {1, 3} and {2, 3} all have one of them
        ([{1, 2}, {1, 3}], 3, 2 / 3),
        ([{1, 5}, {1}], 2, 1 / 3),
        ([{0}, {5}], 1, 1.0),
        ([], 3, 0.0),
        ([set()], 3, 0.0),
    ],
)
def test_expected(alternatives, k, probability):
    assert expected([frozenset(a) for a in alternatives], boundary(TIED, k)) == pytest.approx(probability)


@settings(max_examples=60, deadline=None)
@given(
    scores=st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=5, max_size=5),
    alternatives=st.lists(st.frozensets(st.integers(0, 4), min_size=1, max_size=3), max_size=3),
    k=st.integers(1, 5),
)
def test_expected_is_the_mean_over_all_orders_of_what_is_equal(scores, alternatives, k):
    """All orders of five concepts, sorted by score; sorting is stable, so equal scores keep each order."""
    tops = [set(sorted(order, key=lambda row: -scores[row])[:k]) for order in permutations(range(5))]
    mean = np.mean([any(alternative <= top for alternative in alternatives) for top in tops])
    assert expected(alternatives, boundary(np.array(scores), k)) == pytest.approx(mean)


@pytest.mark.parametrize(
    ("alternatives", "value"),
    [
        ([{0}], 1.0),
        ([{1}], (1 / 2 + 1 / 3 + 1 / 4) / 3),  # one of three that share the ranks 2, 3 and 4
        ([{4}], 1 / 5),
        ([{5}], 0.0),  # not found
        ([{5}, {4}], 1 / 5),
        ([{1}, {2}], 2 / 3 * 1 / 2 + 1 / 3 * 1 / 3),  # the better of two of the three
        ([{1, 2}], 1 / 3 * 1 / 3 + 2 / 3 * 1 / 4),  # the worse of two of the three
        ([{0, 1}], 13 / 36),
        ([{1, 4}], 1 / 5),
        ([{1, 5}], 0.0),
        ([{1, 2}, {3}], 1 / 3 * 1 / 2 + 2 / 3 * 1 / 3),  # {3} is at rank 2 with probability 1/3, otherwise {3} or {1, 2} is complete at rank 3
        ([], 0.0),
        ([set()], 0.0),
    ],
)
def test_reciprocal_rank(alternatives, value):
    assert reciprocal_rank([ranks(TIED, [frozenset(a) for a in alternatives])]) == pytest.approx(value)


def test_reciprocal_rank_of_parts_is_of_the_worst():
    first, tied, last = (ranks(TIED, [frozenset((row,))]) for row in (0, 1, 4))
    assert reciprocal_rank([first, last]) == pytest.approx(1 / 5)
    assert reciprocal_rank([first, tied]) == pytest.approx(13 / 36)
    assert reciprocal_rank([tied, tied]) == pytest.approx(1 / 9 * 1 / 2 + 3 / 9 * 1 / 3 + 5 / 9 * 1 / 4)  # F is 1/9, 4/9, 1
    assert reciprocal_rank([tied, last]) == pytest.approx(1 / 5)
    assert reciprocal_rank([first, None]) == 0.0
    assert reciprocal_rank([]) == 0.0
    assert reciprocal_rank([Ranks(0, np.array([0.5, 1.0])), Ranks(3, np.ones(1))]) == pytest.approx(1 / 4)


def test_reciprocal_rank_is_the_mean_over_all_orders_of_what_is_equal():
    chance = np.random.default_rng(2)
    for _ in range(40):
        scores = chance.integers(0, 3, 6) / 2.0
        alternatives = [frozenset(chance.choice(6, chance.integers(1, 3), replace=False).tolist()) for _ in range(chance.integers(1, 4))]
        orders = [sorted(order, key=lambda row: -scores[row]) for order in permutations(range(6))]
        mean = np.mean([1 / min(max(order.index(row) for row in a) + 1 for a in alternatives) for order in orders])
        assert reciprocal_rank([ranks(scores, alternatives)]) == pytest.approx(mean)


def test_many_equal_alternatives_take_no_time():
    scores = np.zeros(60)
    alternatives = [frozenset((row,)) for row in range(40)]  # a sum over all subsets would have 2^40 terms
    assert expected(alternatives, boundary(scores, 1)) == pytest.approx(40 / 60)
    assert expected(alternatives, boundary(scores, 21)) == 1.0
    assert reciprocal_rank([ranks(scores, alternatives[:1])]) == pytest.approx(sum(1 / k for k in range(1, 61)) / 60)


def test_what_each_rule_looks_for():
    gold = Gold(((1, 2), (3,), (None, 4)), ("X",))
    assert alternatives_of(gold, strict) == [{1, 2}, {3}]
    assert alternatives_of(gold, lenient) == [{1}, {2}, {3}, {4}]


def unit(*rows):
    vectors = np.array(rows, dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


# -- end to end ---------------------------------------------------------------------------------------------------------

ANNOTATED = [
    GoldMention("d1", 0, 5, "fever", (("A",),)),
    GoldMention("d1", 10, 20, "lung cancer", (("B",), ("C",))),  # one of the two is enough
    GoldMention("d1", 30, 50, "colon and rectal cancer", (("D", "E"),)),  # both are needed
    GoldMention("d2", 0, 5, "fever", (("A",),)),
    GoldMention("d2", 7, 9, "no id", ()),
]
LINKED = [
    PredictedMention("d1", 0, 5, ("A", "X")),  # right
    PredictedMention("d1", 12, 20, ("C",)),  # right if overlap is enough
    PredictedMention("d1", 10, 11, ("B",)),  # the gold mention is already matched
    PredictedMention("d1", 30, 50, ("E", "D", "A")),  # right: the first two are both of the composite
    PredictedMention("d2", 0, 5, ("X", "A")),  # the wrong concept
    PredictedMention("d2", 5, 9, ("A",)),  # next to a gold mention, but without a common character
    PredictedMention("d2", 20, 25, ()),  # no link
    PredictedMention("d3", 0, 5, ("A",)),  # another document
]


def test_mentions_end_to_end():
    exact = mention_match(LINKED, ANNOTATED)
    assert exact == (2, 7, 4)
    assert (exact.precision, exact.recall) == (pytest.approx(200 / 7), 50.0)
    assert exact.f1 == pytest.approx(2 * (200 / 7) * 50 / (200 / 7 + 50))
    assert mention_match(LINKED, ANNOTATED, overlap=True) == (3, 7, 4)


def test_a_mention_is_matched_once_and_as_many_as_can_be():
    gold = [GoldMention("d", 0, 4, "", (("A",),)), GoldMention("d", 2, 8, "", (("A",),))]
    wide, narrow = PredictedMention("d", 0, 8, ("A",)), PredictedMention("d", 0, 2, ("A",))
    assert mention_match([wide, narrow], gold, overlap=True).right == 2  # the narrow one fits only the first, so the wide one gets the second
    assert mention_match([wide], gold, overlap=True) == (1, 1, 2)
    assert mention_match([gold_found := PredictedMention("d", 0, 4, ("A",)), gold_found], gold) == (1, 2, 2)


def test_a_composite_needs_its_ids_first():
    gold = [GoldMention("d", 0, 4, "", (("D", "E"),))]
    assert mention_match([PredictedMention("d", 0, 4, ("D",))], gold).right == 0
    assert mention_match([PredictedMention("d", 0, 4, ("D", "A", "E"))], gold).right == 0


def test_documents_end_to_end():
    """Gold: A, B or C, D, E in d1; A in d2. Found: A, C, B, E in d1 (C and B are right for the same gold), X and A in d2, A in d3."""
    found = document_match(LINKED, ANNOTATED)
    assert found == (4, 7, 5)
    assert (found.precision, found.recall, found.f1) == (pytest.approx(400 / 7), 80.0, pytest.approx(800 / 12))
    twice = [GoldMention("d", 0, 0, "", (("A",),))] * 2
    assert document_match([PredictedMention("d", 0, 1, ("A",)), PredictedMention("d", 5, 6, ("A",))], twice) == (1, 1, 1)
    assert document_match([PredictedMention("d", 0, 1, ("B",))], [GoldMention("d", 0, 0, "", (("A", "B"), ("C",)))]) == (1, 1, 2)


def test_alternatives_of_which_one_is_wanted_alone_are_no_miss():
    """Gold: A or B, and A; also in another order, and with a part of a composite."""
    gold = [GoldMention("d", 0, 0, "", (("A",), ("B",))), GoldMention("d", 0, 0, "", (("A",),))]
    a, b = PredictedMention("d", 0, 1, ("A",)), PredictedMention("d", 5, 6, ("B",))
    for golds in (gold, gold[::-1], [gold[0], GoldMention("d", 0, 0, "", (("A", "C"),))]):
        more = int(golds[1].gold[0] == ("A", "C"))  # C of the composite
        assert document_match([a, a], golds) == (1, 1, 1 + more)
        assert document_match([a, b], golds) == (2, 2, 2 + more)  # B is right for the first mention, so it is not a false positive
        assert document_match([b], golds) == (1, 1, 2 + more)  # the mention whose only gold is A is missed
        assert document_match([], golds) == (0, 0, 1 + more)
    elsewhere = [gold[0], gold[1]._replace(document="e")]
    assert document_match([a], elsewhere) == (1, 1, 2)  # A in another document does not count


def test_nothing_found_and_nothing_to_find():
    for match in (mention_match, document_match):
        assert match([], ANNOTATED).right == 0
        assert (match([], []).precision, match([], []).recall, match([], []).f1) == (0.0, 0.0, 0.0)
        assert match(LINKED, []).gold == 0


# -- approximate search -------------------------------------------------------------------------------------------------


class Fixed:
    """An index that always returns the same rows, the best one first."""

    def __init__(self, rows, vectors):
        self.rows, self.stored = np.array(rows), vectors

    def __len__(self):
        return len(self.stored)

    def query(self, vectors, k):
        rows = np.tile(self.rows[:k], (len(vectors), 1))
        return rows, np.zeros(rows.shape, dtype=np.float32)


def test_recall_of_an_index_counts_equal_neighbours():
    vectors = unit([1, 0], [1, 0], [1, 0.1], [1, 0.5], [0, 1], [-1, 0])
    oracle = ExactIndex()
    oracle.build(vectors)
    query = unit([1, 0])
    assert neighbour_recall(Fixed([1, 0, 2], vectors), oracle, query, (1, 3)) == {1: 100.0, 3: 100.0}  # rows 0 and 1 have the same vector
    assert neighbour_recall(Fixed([2, 1, 4], vectors), oracle, query, (1, 3)) == {1: 0.0, 3: pytest.approx(200 / 3)}
    assert neighbour_recall(Fixed([0, 0, 0], vectors), oracle, query, (3,)) == {3: pytest.approx(100 / 3)}  # the same neighbour three times
    assert neighbour_recall(Fixed([0, -1, -1], vectors), oracle, query) == {1: 100.0, 10: pytest.approx(100 / 6)}
    both = unit([1, 0], [0, 1])  # 0 is right for the first, wrong for the second
    assert neighbour_recall(Fixed([0], vectors), oracle, both, (1,)) == {1: 50.0}


def test_recall_of_a_real_index():
    vectors = unit(*np.random.default_rng(0).normal(size=(500, 16)))
    oracle, index = ExactIndex(), ExactIndex()
    oracle.build(vectors)
    index.build(vectors)
    assert neighbour_recall(index, oracle, vectors[:20]) == {1: 100.0, 10: 100.0}


def test_recall_needs_the_same_vectors_and_queries():
    oracle = ExactIndex()
    oracle.build(unit([1, 0], [0, 1]))
    with pytest.raises(ValueError, match="an index of 1 vectors but an exact one of 2"):
        neighbour_recall(Fixed([0], unit([1, 0])), oracle, unit([1, 0]))
    with pytest.raises(ValueError, match="no queries"):
        neighbour_recall(oracle, oracle, np.zeros((0, 2), dtype=np.float32))
