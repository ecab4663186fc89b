"""Exact search over a dictionary: best names of labels and accuracy, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from training.evaluation.metrics import boundary, expected
from training.loop import retrieval
from training.loop.retrieval import best_scores, retrieval_accuracy


def test_best_scores_takes_the_best_name_of_each_label(monkeypatch):
    scores = np.array([[0.1, 0.5], [0.9, 0.2], [0.3, 0.4]], dtype=np.float32)  # (3 names, 2 queries)
    rows, labels = np.array([0, 2, 1, 0]), np.array([0, 0, 2, 3])  # label 1 has no name; name 0 belongs to two labels
    wanted = [[0.3, 0.5], [-np.inf, -np.inf], [0.9, 0.2], [0.1, 0.5]]
    ((start, best),) = best_scores(lambda a, b: scores[:, a:b], 2, rows, labels, 4)
    assert start == 0
    np.testing.assert_allclose(best, wanted)
    monkeypatch.setattr(retrieval, "CHUNK_BYTES", 1)
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
    golds = np.array([7, 3, 40, 100])  # gold: tied with 9 for the first place; first; third after these two; without a name
    assert retrieval_accuracy(queries, names, labels, golds, k=2) == pytest.approx((100 * 1.5 / 4, 100 * 2 / 4))
    assert retrieval_accuracy(queries, names, labels, golds, k=3) == pytest.approx((37.5, 75.0))
    assert retrieval_accuracy(queries, names, labels, golds) == pytest.approx((37.5, 75.0))  # k may be larger than the number of labels
    monkeypatch.setattr(retrieval, "CHUNK_BYTES", 1)
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
