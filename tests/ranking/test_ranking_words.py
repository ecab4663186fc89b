"""The words of names and their weights."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.ranking.words import FREQUENT_WORDS, not_shared, words_of

NAMES = st.lists(st.sampled_from(["heart", "attack", "of", "the", "left", "zzyzx", "2"]), max_size=6).map(" ".join)


def test_the_weights_by_hand() -> None:
    """The first line of the list has rank 0; a word that is not in it counts as the rank after the last."""
    ranked = FREQUENT_WORDS.read_text(encoding="utf-8").split()
    assert words_of("disease").weights == {"disease": pytest.approx(math.log(ranked.index("disease") + 2))}
    assert words_of("heart attack").total == pytest.approx(words_of("heart").total + words_of("attack").total)
    assert words_of("zzyzx").total == pytest.approx(math.log(len(ranked) + 2))


def test_function_words_and_signs_do_not_count() -> None:
    assert words_of("the heart, of the attack").weights == words_of("heart attack").weights
    assert words_of("of the -") == ({}, 0.0)


def test_accents_do_not_count() -> None:
    assert words_of("sjögren syndrome") == words_of("sjogren syndrome")
    assert words_of("ménière").total < words_of("zzyzx").total  # it has the rank of "meniere"


def test_shares_by_hand() -> None:
    heart, attack = words_of("heart").total, words_of("attack").total
    one, other = words_of("heart attack"), words_of("heart")
    assert not_shared(one, other) == (pytest.approx(attack / (heart + attack)), 0.0)
    assert not_shared(other, one) == (0.0, pytest.approx(attack / (heart + attack)))
    assert not_shared(words_of(""), one) == (0.0, 1.0)
    assert not_shared(one, words_of("")) == (1.0, 0.0)


@given(NAMES, NAMES)
def test_what_is_not_shared_are_two_shares(one: str, other: str) -> None:
    missing, added = not_shared(words_of(one), words_of(other))
    assert 0.0 <= missing <= 1.0
    assert (missing == 0.0) == (words_of(one).weights.keys() <= words_of(other).weights.keys())
    assert not_shared(words_of(other), words_of(one)) == (pytest.approx(added), pytest.approx(missing))
