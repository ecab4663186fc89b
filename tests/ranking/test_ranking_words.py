"""How a ranker reads names, and how it counts their words, by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.ranking.ranker import FEATURES, Ranker, count_words
from spacy_sapbert.ranking.words import MOST_WORDS, is_number, split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("haemorrhages, type ii", ("hemorrhage", "type", "2")),
        ("crohn's disease", ("crohn", "disease")),
        ("stage 3b", ("stage", "3", "b")),
        ("vitamin b-12 1.5", ("vitamin", "b", "12", "1.5")),
        ("oed", ("oed",)),  # too short for a British spelling
        ("über_größe", ("über", "größe")),
        ("?! …", ()),
        ("", ()),
    ],
)
def test_words_by_hand(text: str, words: tuple[str, ...]) -> None:
    assert split_words(text) == words


def test_the_first_words_are_read() -> None:
    assert split_words(" ".join(f"w{i}z" for i in range(40))) == tuple(part for i in range(40) for part in ("w", str(i), "z"))[:MOST_WORDS]


@pytest.mark.parametrize(("word", "number"), [("2", True), ("1.5", True), ("b", True), ("a", False), ("type", False)])
def test_numbers_and_letters_tell_types_apart(word: str, number: bool) -> None:
    assert is_number(word) is number


@given(st.text(max_size=60))
def test_words_of_any_text_are_words(text: str) -> None:
    words = split_words(text.lower())
    assert len(words) <= MOST_WORDS
    assert all(word and not any(c.isspace() for c in word) for word in words)


def test_a_word_counts_once_a_name_and_a_rare_one_more() -> None:
    counts, n = count_words(["pain pain", "chest pain", "chest wall"])
    assert (counts, n) == ({"chest": 2, "pain": 2, "wall": 1}, 3)
    ranker = Ranker((0.0,) * len(FEATURES), counts, n, "e", "hand")
    assert ranker.word_weight("pain") == 1.0 + math.log(4 / 3)
    assert ranker.word_weight("never seen") == 1.0 + math.log(4)
