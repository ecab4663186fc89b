"""Candidates of two searches and the accuracy of names, computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from training.data.lookups import Lookups, Names
from training.loop.synonyms import Candidates, Dense, NameAccuracy, Sparse, chance_of_right, merged, nearest

NAMES = Names(["breast cancer", "mammary carcinoma", "fever", "pyrexia"], [frozenset([1]), frozenset([1]), frozenset([2]), frozenset([2])])
VECTORS = {
    "breast cancer": (1.0, 0.0),
    "mammary carcinoma": (0.8, 0.6),
    "fever": (0.0, 1.0),
    "pyrexia": (-1.0, 0.0),
    "breast tumour": (0.6, 0.8),  # cosines .6 .96 .8 -.6
    "high fever": (-0.8, 0.6),  # cosines -.8 -.28 .6 .8
}


class Encodes:
    """An encoder with fixed vectors, which a test can change."""

    device = None

    def __init__(self) -> None:
        self.vectors = dict(VECTORS)
        self.calls = 0

    def encode(self, texts: list[str], **_: Any) -> np.ndarray:
        self.calls += 1
        return np.array([self.vectors[text] for text in texts], dtype=np.float32)


def test_nearest_takes_the_earlier_of_equal_scores() -> None:
    scores = np.array([[0.1, 0.5, 0.5, 0.9], [0.3, 0.3, 0.3, 0.3]], dtype=np.float32)
    assert nearest(scores, 2).tolist() == [[3, 1], [0, 1]]
    assert nearest(scores, 4).tolist() == nearest(scores, 9).tolist() == [[3, 1, 2, 0], [0, 1, 2, 3]]


@pytest.mark.parametrize("take", [0, 1, 2, 3])
def test_merged_candidates_stand_once(take: int) -> None:
    found = merged(np.array([[5, 6, 7]]), np.array([[6, 5, 8]]), take)
    assert found.tolist() == {0: [[6, 5, 8]], 1: [[5, 6, 8]], 2: [[5, 6, 8]], 3: [[5, 6, 7]]}[take]


def test_vectors_are_made_anew_only_when_the_encoder_has_learned() -> None:
    model, learned = Encodes(), [0]
    dense = Dense(["fever", "pyrexia", "fever"], model, lambda: learned[0])
    assert dense.of(["pyrexia", "fever", "pyrexia"]).tolist() == [[-1, 0], [0, 1], [-1, 0]]
    model.vectors["fever"] = (0.6, 0.8)
    assert dense.of(["fever"]).tolist() == [[0, 1]]
    learned[0] = 7
    np.testing.assert_allclose(dense.of(["fever"]), [[0.6, 0.8]])
    assert model.calls == 2


def test_sparse_scores_are_cosines_of_one_and_two_characters() -> None:
    sparse = Sparse(["ab", "cd"])  # each n-gram is in one of the two names, so all weights are equal
    scores = (sparse.of(["ab", "abc", "xy"]) @ sparse.of(["ab", "cd"]).T).toarray()
    # "ab": a, b, ab; "abc": a, b, c, ab (bc is not known); in common a, b, ab of lengths √3 and √4; with "cd": c, d, cd only c
    np.testing.assert_allclose(scores, [[1, 0], [3 / np.sqrt(12), 1 / np.sqrt(12)], [0, 0]], atol=1e-6)


def test_candidates_are_of_both_searches_and_renewed() -> None:
    model, learned = Encodes(), [0]
    asked = Lookups(["breast tumour", "high fever"], [frozenset([1]), frozenset([2])], [0, 1])
    sparse = Sparse(NAMES.texts)
    found = Candidates(NAMES, asked, Dense([*NAMES.texts, *asked.texts], model, lambda: learned[0]), sparse, count=2, dense_share=0.5)
    found.renew(0)
    # by letters "breast cancer" and "fever"; by vectors "mammary carcinoma" and "pyrexia"
    assert found.rows.tolist() == [[0, 1], [2, 3]]
    assert found.right(0).tolist() == [True, True]
    np.testing.assert_allclose(found.sparse_scores(0), (sparse.of(["breast tumour"]) @ sparse.of(NAMES.texts[:2]).T).toarray()[0], rtol=1e-6)

    model.vectors["breast tumour"] = (-1.0, 0.0)  # now "pyrexia" is nearest
    learned[0] = 1
    found.renew(0)
    assert found.rows.tolist() == [[0, 1], [2, 3]]  # the candidates are those of this epoch
    found.renew(1)
    assert found.rows.tolist() == [[0, 3], [2, 3]]
    assert found.right(0).tolist() == [True, False]
    found.keep(np.array([[1, 2], [0, 3]]), 5)
    found.renew(5)
    assert found.rows.tolist() == [[1, 2], [0, 3]]


def test_more_candidates_than_names_are_all_names() -> None:
    asked = Lookups(["fever"], [frozenset([2])], [0])
    found = Candidates(NAMES, asked, Dense(NAMES.texts, Encodes(), lambda: 0), Sparse(NAMES.texts), count=20, dense_share=0.5)
    found.renew(0)
    assert sorted(found.rows[0].tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("scores", "right", "k", "expected"),
    [
        ([0.9, 0.5, 0.1], [1], 1, 0.0),
        ([0.9, 0.5, 0.1], [1], 2, 1.0),
        ([0.5, 0.5, 0.1], [1], 1, 1 / 2),
        ([0.5, 0.5, 0.5, 0.5], [1, 2], 1, 1 / 2),
        ([0.5, 0.5, 0.5, 0.5], [1, 2], 2, 1 - 1 / 6),  # both wrong ones are first in 1 of 6 pairs
        ([0.5, 0.5, 0.5, 0.5], [1, 2], 3, 1.0),
        ([0.9, 0.5, 0.5, 0.5], [1], 2, 1 / 3),
        ([0.9, 0.5], [], 1, 0.0),
        ([0.2, 0.5], [0, 1], 1, 1.0),
    ],
)
def test_equal_scores_count_as_their_expectation(scores: list[float], right: list[int], k: int, expected: float) -> None:
    assert chance_of_right(np.array(scores, dtype=np.float32), np.array(right, dtype=np.int64), k) == pytest.approx(expected)


def test_accuracy_by_each_score_and_by_both() -> None:
    # the second mention is a composite, whose parts must both be right; the third has no name in the dictionary
    asked = Lookups(
        ["breast tumour", "high fever", "breast tumour", "fever"], [frozenset([2]), frozenset([2]), frozenset([1]), frozenset([9])], [0, 1, 1, 2]
    )
    dense = Dense([*NAMES.texts, *asked.texts], Encodes(), lambda: 0)
    found = NameAccuracy(NAMES, asked, dense, Sparse(NAMES.texts), lambda: 10.0)(None)
    # dense: 0 is wrong (mammary carcinoma, then fever); 1 is right in both parts. Sparse: "breast …", and both parts of 1 right
    assert {key: found[key] for key in ("dense_at1", "sparse_at1", "both_at1")} == {"dense_at1": 33.333, "sparse_at1": 33.333, "both_at1": 33.333}
    assert found["dense_at5"] == 66.667
    assert found["sparse_weight"] == 10.0
