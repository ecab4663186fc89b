"""The features of candidates, by hand: an encoder of three directions, and names of a few words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from spacy_sapbert.candidates import Hits
from spacy_sapbert.ranking.features import DEPTH, FeatureReader
from spacy_sapbert.ranking.ranker import FEATURES, Ranker

# heart and cardiac are 0.8 near; the others are at right angles
VECTORS = {"heart": (1.0, 0.0, 0.0), "cardiac": (0.8, 0.6, 0.0), "attack": (0.0, 0.0, 1.0)}
NAMES = ["heart attack", "cardiac arrest", "type 1", "type 2", "no attack", "???"]
CANONICAL, SYNONYM = 0, 50_000


class Words:
    """An encoder of words; a word that it does not know is a vector of zeros."""

    dim = 3

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, names: Sequence[str], **more: Any) -> Any:
        self.asked.extend(names)
        return np.array([VECTORS.get(name, (0.0, 0.0, 0.0)) for name in names], dtype=np.float32)


def weight(word: str) -> float:
    return 3.0 if word == "arrest" else 1.0


def reader(words: Any = None) -> FeatureReader:
    return FeatureReader(weight, lambda rows: [NAMES[row] for row in rows], words or Words())


def hits(rows: Sequence[tuple[int, int, int, float, int]]) -> Hits:
    """(mention, concept, surface form, cosine, place) …, in order."""
    query, concept, form, score, place = (np.array(column) for column in zip(*rows))
    pairs = list(zip(query.tolist(), concept.tolist()))
    starts = np.array([i for i, pair in enumerate(pairs) if i == 0 or pairs[i - 1] != pair])
    return Hits(query, concept, form, score.astype(np.float64), place, starts)


def row_of(values: Any, row: int = 0) -> dict[str, float]:
    return {name: round(float(value), 6) for name, value in zip(FEATURES, values[row])}


def test_a_concept_by_hand() -> None:
    """Mention "cardiac attack", name "heart attack": cardiac is near heart by 0.8, attack is attack."""
    found = reader().features(["cardiac attack"], hits([(0, 7, 0, 0.9, CANONICAL)]))
    assert found.groups.tolist() == [0]
    assert row_of(found.values) == {
        "cosine": 0.9,
        "preferred": 1.0,
        "preferred_cosine": 0.9,
        "name_covered": 0.9,  # (0.8 + 1) / 2
        "mention_covered": 0.9,
        "weakest_word": 0.8,
        "number_missing": 0.0,
        "number_added": 0.0,
        "negation": 0.0,
        "near": 1.0,
    }


def test_a_rare_word_counts_more_and_an_unknown_one_fits_only_itself() -> None:
    found = row_of(reader().features(["heart arrest"], hits([(0, 7, 1, 0.7, SYNONYM)])).values)
    assert found["name_covered"] == round((0.8 * 1 + 1.0 * 3) / 4, 6)  # cardiac by heart 0.8, arrest by itself, with the weight 3
    assert found["mention_covered"] == found["name_covered"]
    assert found["weakest_word"] == 0.8
    assert (found["preferred"], found["preferred_cosine"]) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("mention", "name", "missing", "added", "negation"),
    [
        ("type 1", 2, 0, 0, 0),
        ("type i", 2, 0, 0, 0),  # a Roman one
        ("type 1", 3, 1, 1, 0),
        ("type", 2, 0, 1, 0),
        ("type 1 a", 2, 0, 0, 0),  # the article
        ("type 1 b", 2, 1, 0, 0),
        ("attack", 4, 0, 0, 1),
        ("without attack", 4, 0, 0, 0),
    ],
)
def test_numbers_and_negations(mention: str, name: int, missing: float, added: float, negation: float) -> None:
    found = row_of(reader().features([mention], hits([(0, 7, name, 0.8, SYNONYM)])).values)
    assert (found["number_missing"], found["number_added"], found["negation"]) == (missing, added, negation)


def test_of_several_names_the_best_value_counts() -> None:
    """Concept 7 has "type 1" and "type 2": the first fits the number, so nothing contradicts."""
    found = row_of(reader().features(["type 1"], hits([(0, 7, 2, 0.95, SYNONYM), (0, 7, 3, 0.9, CANONICAL)])).values)
    assert (found["number_missing"], found["number_added"]) == (0.0, 0.0)
    assert (found["cosine"], found["preferred"], found["preferred_cosine"], found["near"]) == (0.95, 1.0, 0.9, 2.0)


def test_a_name_without_words_fits_nothing() -> None:
    found = row_of(reader().features(["heart"], hits([(0, 7, 5, 0.5, SYNONYM)])).values)
    assert (found["name_covered"], found["mention_covered"], found["weakest_word"]) == (0.0, 0.0, 0.0)


def test_near_is_counted_from_the_best_name_of_the_mention() -> None:
    rows = [(0, 1, 0, 0.9, SYNONYM), (0, 2, 1, 0.8, SYNONYM), (0, 2, 4, 0.79, SYNONYM)]
    values = reader().features(["heart"], hits(rows)).values
    assert values[:, FEATURES.index("near")].tolist() == [1.0, 1.0]  # 0.79 is more than 0.1 behind


def test_several_mentions_are_read_as_each_alone() -> None:
    rows = [(0, 1, 0, 0.9, SYNONYM), (0, 2, 1, 0.8, CANONICAL), (1, 1, 2, 0.7, SYNONYM), (1, 3, 3, 0.7, CANONICAL)]
    both = reader().features(["cardiac attack", "type 2"], hits(rows)).values
    alone = [reader().features(["cardiac attack"], hits(rows[:2])).values]
    alone.append(reader().features(["type 2"], hits([(0, *row[1:]) for row in rows[2:]])).values)
    assert np.array_equal(both, np.concatenate(alone))


def test_names_and_words_are_read_once() -> None:
    words = Words()
    twice = reader(words)
    for _ in range(2):
        twice.features(["cardiac attack"], hits([(0, 7, 0, 0.9, CANONICAL)]))
    assert sorted(words.asked) == ["attack", "cardiac", "heart"]


def test_the_first_ten_concepts_are_ranked_and_the_others_stay_behind() -> None:
    rows = [(0, concept, 4, 0.9 - concept / 100, SYNONYM) for concept in range(DEPTH + 3)]
    found = reader().features(["attack"], hits(rows))
    assert found.groups.tolist() == list(range(DEPTH))
    ranker = Ranker((1.0, *(0.0 for _ in FEATURES[1:-2]), -0.5, 0.25), {}, 0, "e", "hand")  # negation and near
    standing = reader().standing(ranker, ["attack"], hits(rows))
    # "no attack" is negated: -0.5; one name is near (+0.25) where the cosine is 0.8 or more: concepts 0 to 10
    expected = [0.9 - c / 100 - 0.5 + 0.25 for c in range(DEPTH)] + [0.9 - c / 100 - 0.25 for c in range(DEPTH, DEPTH + 3)]
    assert standing.scores.tolist() == pytest.approx(expected)


def test_no_hits_no_features() -> None:
    empty = np.zeros(0, dtype=np.int64)
    none = Hits(empty, empty, empty, empty.astype(np.float64), empty, empty)
    assert reader().features([], none).values.shape == (0, len(FEATURES))
    assert reader().standing(Ranker((1.0,) * len(FEATURES), {}, 0, "e", "hand"), ["heart"], none).scores.tolist() == []


def test_a_concept_of_four_thousand_names() -> None:
    rows = [(0, 7, row % 5, 0.9, SYNONYM) for row in range(4_000)]
    found = row_of(reader().features(["cardiac attack"], hits(rows)).values)
    assert (found["name_covered"], found["near"]) == (0.9, 5.0)
