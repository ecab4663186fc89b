"""The features of candidates, computed by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from spacy_sapbert.candidates import Hits
from spacy_sapbert.kb.name_table import has_cui, is_weak
from spacy_sapbert.ranking.features import FeatureReader
from spacy_sapbert.ranking.ranker import FEATURES, Ranker
from spacy_sapbert.ranking.words import words_of
from spacy_sapbert.types import Floats2d

NAMES = ["heart attack", "type 1", "type 2", "type ii b"]
# ranks in a tie, as in kb/builder.py: 50,000 for a name that is not canonical, 100,000 for no CUI, 200,000 for a weak name
CANONICAL, SYNONYM, NO_CUI, WEAK, WEAK_NO_CUI, OWN, OWN_NO_CUI = 0, 50_010, 150_010, 250_010, 350_010, -2, -1


# the features that say nothing in a test
ZERO = dict.fromkeys(FEATURES, 0.0)


def reader(
    asked: list[int] | None = None, encode: Callable[[Sequence[str]], Floats2d] | None = None, first_added: int | None = None
) -> FeatureReader:
    def names(rows: Sequence[int]) -> list[str]:
        if asked is not None:
            asked.extend(rows)
        return [NAMES[row] for row in rows]

    return FeatureReader(names, encode, first_added)


def hits(rows: Sequence[tuple[int, int, int, float, int]]) -> Hits:
    """Return the arrays of hits (mention, concept, surface form, cosine, place) …, in this order."""
    query, concept, form, score, place = (np.array(column) for column in zip(*rows))
    pairs = list(zip(query.tolist(), concept.tolist()))
    starts = np.array([i for i, pair in enumerate(pairs) if i == 0 or pairs[i - 1] != pair])
    return Hits(query, concept, form, score.astype(np.float64), place, starts)


def row_of(values: Any, row: int = 0) -> dict[str, float]:
    return dict(zip(FEATURES, values[row].tolist()))


@pytest.mark.parametrize(
    ("place", "cui", "weak"),
    [(CANONICAL, 1, 0), (SYNONYM, 1, 0), (NO_CUI, 0, 0), (WEAK, 1, 1), (WEAK_NO_CUI, 0, 1), (OWN, 1, 0), (OWN_NO_CUI, 0, 0)],
)
def test_what_the_place_of_a_name_says(place: int, cui: float, weak: float) -> None:
    assert (has_cui(np.array([place])).tolist(), is_weak(np.array([place])).tolist()) == ([bool(cui)], [bool(weak)])
    found = row_of(reader().features(["heart attack"], hits([(0, 7, 0, 0.9, place)])))
    assert found == {**ZERO, "cosine": 0.9, "cui": cui, "weak_name": weak}


@pytest.mark.parametrize(
    ("mention", "name", "missing", "added"),
    [
        ("type 1", 1, 0, 0),
        ("type i", 1, 0, 0),  # a Roman numeral
        ("type 1", 2, 1, 1),
        ("type", 1, 0, 1),
        ("a type 1", 1, 0, 0),  # "a" is the article
        ("type 1 b", 1, 1, 0),
        ("b type 2", 3, 0, 0),
        ("heart", 0, 0, 0),
    ],
)
def test_numbers(mention: str, name: int, missing: float, added: float) -> None:
    found = row_of(reader().features([mention], hits([(0, 7, name, 0.8, SYNONYM)])))
    assert (found["number_missing"], found["number_added"]) == (missing, added)


def test_the_nearest_name_counts_and_any_name_without_contradiction() -> None:
    """Concept 7 has the names "type 1" and, with a higher cosine, "type 2": the first one agrees with the number."""
    found = row_of(reader().features(["type 1"], hits([(0, 7, 2, 0.95, WEAK), (0, 7, 1, 0.9, SYNONYM)])))
    assert found == {**ZERO, "cosine": 0.95, "cui": 1.0, "weak_name": 1.0, "names_near": pytest.approx(math.log(2))}


def test_the_words_that_only_one_of_both_has() -> None:
    """Of the two names, "heart attack" shares most words. Their weights, log(rank + 2), are those of the list of frequent words."""
    heart, attack, sudden = (words_of(word).total for word in ("heart", "attack", "sudden"))
    found = row_of(reader().features(["sudden heart"], hits([(0, 7, 1, 0.9, SYNONYM), (0, 7, 0, 0.8, SYNONYM)])))
    assert found["words_missing"] == pytest.approx(sudden / (sudden + heart))
    assert found["words_added"] == pytest.approx(attack / (heart + attack))
    assert row_of(reader().features(["the heart of the attack"], hits([(0, 7, 0, 0.9, SYNONYM)])))["words_missing"] == 0.0


def test_names_with_equal_sums_of_words_keep_the_order_of_the_cosines() -> None:
    """Both names lack the mention's word and add all of theirs, so the first one counts."""
    found = reader().features(["cold"], hits([(0, 7, 0, 0.9, SYNONYM), (0, 7, 1, 0.8, SYNONYM)]))
    assert (row_of(found)["words_missing"], row_of(found)["words_added"]) == (1.0, 1.0)


def test_how_many_names_of_a_concept_were_found() -> None:
    found = reader().features(["type"], hits([(0, 5, 0, 0.9, SYNONYM), (0, 7, 1, 0.9, SYNONYM), (0, 7, 2, 0.8, SYNONYM), (0, 7, 3, 0.7, SYNONYM)]))
    assert [row_of(found, row)["names_near"] for row in (0, 1)] == [0.0, pytest.approx(math.log(3))]


def test_added_names_that_are_far_are_not_near() -> None:
    """All added names, here 2 and 3, are hits of every mention. The last name that the index found has 0.6 for the first mention, 0.3 for the second."""
    rows = [
        *((0, 5, 0, 0.6, SYNONYM), (0, 7, 1, 0.9, SYNONYM), (0, 7, 2, 0.6, OWN), (0, 7, 3, 0.5, OWN), (0, 8, 3, 0.5, OWN)),
        *((1, 7, 1, 0.3, SYNONYM), (1, 7, 2, 0.6, OWN), (1, 7, 3, 0.5, OWN)),
        *((2, 7, 2, 0.6, OWN), (2, 7, 3, 0.5, OWN)),  # the index found nothing
    ]
    found = reader(first_added=2).features(["type", "kind", "sort"], hits(rows))[:, FEATURES.index("names_near")]
    assert np.exp(found) == pytest.approx([1, 2, 1, 3, 1])


def test_mentions_without_hits_are_not_read() -> None:
    """They are exact matches, whose candidates are not ranked."""
    asked: list[str] = []

    def encode(names: Sequence[str]) -> Floats2d:
        asked.extend(names)
        return np.ones((len(names), 1), dtype=np.float32)

    rows = [(1, 7, 1, 0.9, SYNONYM)]
    found = reader(encode=encode).features(["an exact match", "type 1", "another"], hits(rows))
    assert np.array_equal(found, reader(encode=encode).features(["type 1"], hits([(0, *rows[0][1:])])))
    assert asked == ["type 1"] * 4  # the mention and its name, twice


def test_the_cosine_of_the_static_encoder() -> None:
    """It is that of the name that is nearest by the static encoder, not of the one that is nearest by the score. Each name is encoded once."""
    vectors = {"ask": [1.0, 0.0], "heart attack": [0.6, 0.8], "type 1": [0.8, 0.6], "type 2": [-1.0, 0.0]}
    encoded: list[str] = []

    def encode(names: Sequence[str]) -> Floats2d:
        encoded.extend(names)
        return np.array([vectors[name] for name in names], dtype=np.float32)

    one = reader(encode=encode)
    rows = [(0, 5, 2, 0.9, SYNONYM), (0, 7, 0, 0.9, SYNONYM), (0, 7, 1, 0.8, SYNONYM)]
    found = one.features(["ask"], hits(rows))
    assert [row_of(found, row)["static"] for row in (0, 1)] == [-1.0, pytest.approx(0.8)]
    assert np.array_equal(one.features(["ask"], hits(rows)), found)
    assert sorted(encoded) == ["ask", "ask", "heart attack", "type 1", "type 2"]
    assert row_of(reader().features(["ask"], hits(rows)))["static"] == 0.0


def test_a_feature_without_a_weight_is_not_computed() -> None:
    def never(names: Sequence[str]) -> Floats2d:
        raise AssertionError

    asked: list[int] = []
    ranker = Ranker((1.0, 0.5), "e", "hand", ("cosine", "names_near"))
    found = reader(asked, never).standing(ranker, ["type"], hits([(0, 5, 0, 0.9, SYNONYM), (0, 5, 1, 0.9, SYNONYM)]))
    assert found.scores.tolist() == [pytest.approx(0.9 + 0.5 * math.log(2), abs=1e-5)]
    assert asked == []


def test_several_mentions_are_read_as_each_alone() -> None:
    rows = [(0, 1, 0, 0.9, SYNONYM), (0, 2, 1, 0.8, CANONICAL), (1, 1, 2, 0.7, NO_CUI), (1, 3, 3, 0.7, CANONICAL)]
    both = reader().features(["type 1", "type 2"], hits(rows))
    alone = [reader().features(["type 1"], hits(rows[:2])), reader().features(["type 2"], hits([(0, *row[1:]) for row in rows[2:]]))]
    assert np.array_equal(both, np.concatenate(alone))


def test_names_are_read_once() -> None:
    asked: list[int] = []
    twice = reader(asked)
    for _ in range(2):
        twice.features(["type 2"], hits([(0, 7, 1, 0.9, CANONICAL), (0, 8, 2, 0.9, CANONICAL)]))
    assert asked == [1, 2]


def test_the_order_by_hand() -> None:
    """Concept 1 has the highest cosine; concept 2 gets +0.2 for its CUI, and concept 1 gets -0.3 for an added number."""
    ranker = Ranker((1.0, 0.2, -0.1, -0.5, -0.3), "e", "hand", FEATURES[:5])
    standing = reader().standing(ranker, ["type"], hits([(0, 1, 1, 0.9, NO_CUI), (0, 2, 0, 0.8, SYNONYM), (0, 3, 0, 0.85, WEAK)]))
    assert standing.scores.tolist() == [0.6, 1.0, 0.95]
    assert standing.shares.tolist() == [
        pytest.approx([0.9, 0.0, 0.0, 0.0, -0.3, *[0.0] * 4]),
        pytest.approx([0.8, 0.2, 0.0, 0.0, 0.0, *[0.0] * 4]),
        pytest.approx([0.85, 0.2, -0.1, 0.0, 0.0, *[0.0] * 4]),
    ]


def test_no_hits_no_features() -> None:
    empty = np.zeros(0, dtype=np.int64)
    none = Hits(empty, empty, empty, empty.astype(np.float64), empty, empty)
    assert reader().features([], none).shape == (0, len(FEATURES))
    assert reader().standing(Ranker((1.0,) * len(FEATURES), "e", "hand"), ["heart"], none).scores.tolist() == []


def test_a_concept_of_four_thousand_names() -> None:
    rows = [(0, 7, row % 4, 0.9, SYNONYM) for row in range(4_000)]
    assert row_of(reader().features(["type 2"], hits(rows)))["number_missing"] == 0.0
