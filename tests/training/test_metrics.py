"""Accuracy, ties and thresholds, added up by hand."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from training import metrics
from training.metrics import (
    Gold,
    Mention,
    accuracy,
    alternatives_of,
    best_scores,
    boundary,
    expected,
    lenient,
    resolve,
    retrieval_accuracy,
    strict,
    sweep,
)

ROWS = {"A": 1, "B": 2, "C": 3, "old A": 1}


def mention(*gold):
    return Mention("d", 0, 1, "x", gold)


def row_of(concept_id):
    return ROWS[concept_id]


def test_resolve_follows_ids_and_names_what_is_missing():
    assert resolve(mention(("old A",)), row_of) == Gold(((1,),), ())
    gold = resolve(mention(("A", "X"), ("Y",)), row_of)
    assert gold == Gold(((1, None), (None,)), ("X", "Y"))
    assert not gold.answerable
    assert resolve(mention(("X",), ("B",)), row_of).answerable


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
    found = accuracy(golds, ranked, k=2)  # right at 1: the first; at 2: the second also
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
    assert metrics.missing_ids([Gold((), ("Y", "X")), Gold((), ("X",))]) == {"X": 2, "Y": 1}


def test_sweep_counts_what_is_above_the_threshold():
    low, high, none = sweep([0.9, 0.8, 0.6, float("-inf")], [True, False, True, False], [0.5, 0.8, 1.0])
    assert low == (0.5, 3, 2, 4)
    assert low.precision == pytest.approx(200 / 3)
    assert low.recall == 50.0
    assert low.f1 == pytest.approx(400 / 7)
    assert high == (0.8, 1, 1, 4)  # 0.8 itself is not above 0.8
    assert (none.precision, none.recall, none.f1) == (100.0, 0.0, 0.0)


# -- ties as their expectation ------------------------------------------------------------------------------------------

TIED = np.array([0.9, 0.8, 0.8, 0.8 - 5e-7, 0.1, -np.inf])  # one, three that are equal, one, one that was not found


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
        ([{1}, {2}], 3, 1.0),  # of two places one at least
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


def test_expected_is_the_mean_over_all_orders_of_what_is_equal():
    chance = np.random.default_rng(0)
    for _ in range(40):
        scores = chance.integers(0, 3, 6) / 2.0
        alternatives = [frozenset(chance.choice(6, chance.integers(1, 3), replace=False).tolist()) for _ in range(chance.integers(1, 4))]
        k = int(chance.integers(1, 6))
        tops = [set(sorted(order, key=lambda row: -scores[row])[:k]) for order in permutations(range(6))]  # sorted is stable
        mean = np.mean([any(a <= top for a in alternatives) for top in tops])
        assert expected(alternatives, boundary(scores, k)) == pytest.approx(mean)


def test_what_each_rule_looks_for():
    gold = Gold(((1, 2), (3,), (None, 4)), ("X",))
    assert alternatives_of(gold, strict) == [{1, 2}, {3}]
    assert alternatives_of(gold, lenient) == [{1}, {2}, {3}, {4}]


def test_best_scores_takes_the_best_name_of_each_label(monkeypatch):
    scores = np.array([[0.1, 0.5], [0.9, 0.2], [0.3, 0.4]], dtype=np.float32)  # (3 names, 2 queries)
    rows, labels = np.array([0, 2, 1, 0]), np.array([0, 0, 2, 3])  # label 1 has no name; name 0 is two labels' name
    wanted = [[0.3, 0.5], [-np.inf, -np.inf], [0.9, 0.2], [0.1, 0.5]]
    ((start, best),) = best_scores(lambda a, b: scores[:, a:b], 2, rows, labels, 4)
    assert start == 0
    np.testing.assert_allclose(best, wanted)
    monkeypatch.setattr(metrics, "CHUNK_BYTES", 1)
    chunks = list(best_scores(lambda a, b: scores[:, a:b], 2, rows, labels, 4))
    assert [start for start, _ in chunks] == [0, 1]
    np.testing.assert_allclose(np.hstack([best for _, best in chunks]), wanted)


def test_best_scores_refuses_labels_out_of_order_and_no_names():
    with pytest.raises(ValueError, match="not in order"):
        next(best_scores(lambda a, b: np.zeros((2, 1)), 1, np.array([0, 1]), np.array([1, 0]), 2))
    with pytest.raises(ValueError, match="no names"):
        next(best_scores(lambda a, b: np.zeros((0, 1)), 1, np.array([], dtype=int), np.array([], dtype=int), 2))


def unit(*rows):
    vectors = np.array(rows, dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_retrieval_accuracy_by_hand(monkeypatch):
    names = unit([0, 1], [1, 0], [1, 0.2], [1, 0], [1, 1])
    labels = np.array([3, 9, 9, 7, 40])
    queries = unit([1, 0], [0, 1], [1, 0], [1, 0])
    golds = np.array([7, 3, 40, 100])  # tied with 9 at the top; first; third after the two; without a name
    assert retrieval_accuracy(queries, names, labels, golds, k=2) == pytest.approx((100 * 1.5 / 4, 100 * 2 / 4))
    assert retrieval_accuracy(queries, names, labels, golds, k=3) == pytest.approx((37.5, 75.0))
    assert retrieval_accuracy(queries, names, labels, golds) == pytest.approx((37.5, 75.0))  # k may exceed the labels
    monkeypatch.setattr(metrics, "CHUNK_BYTES", 1)
    assert retrieval_accuracy(queries, names, labels, golds, k=2) == pytest.approx((37.5, 50.0))


def test_retrieval_accuracy_agrees_with_the_boundary():
    chance = np.random.default_rng(1)
    names, labels = unit(*chance.integers(-1, 2, (60, 3)) + [0.1, 0.2, 0.4]), chance.integers(0, 20, 60)
    queries, golds = unit(*chance.normal(size=(25, 3))), chance.integers(0, 20, 25)
    scores = np.stack([np.where(labels == label, queries @ names.T, -np.inf).max(axis=1) for label in range(20)], axis=1)
    sums = [np.mean([expected([frozenset((int(g),))], boundary(line, k)) for g, line in zip(golds, scores)]) for k in (1, 5)]
    assert retrieval_accuracy(queries, names, labels, golds) == pytest.approx((100 * sums[0], 100 * sums[1]))


def test_retrieval_accuracy_of_nothing_and_of_unlike_lengths():
    assert retrieval_accuracy(np.zeros((0, 2)), unit([0, 1]), np.array([1]), np.array([], dtype=int)) == (0.0, 0.0)
    with pytest.raises(ValueError, match="1 and 1 vectors but 2 and 1 labels"):
        retrieval_accuracy(unit([0, 1]), unit([0, 1]), np.array([1]), np.array([1, 2]))
