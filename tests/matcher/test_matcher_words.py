"""The words of a text, and the forms in which they are compared."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_sapbert.kb.concept import stem
from spacy_sapbert.matcher.words import words


@pytest.mark.parametrize(
    ("word", "stemmed"),
    [
        ("crohn's", "crohn"), ("crohn’s", "crohn"), ("crohns", "crohn"), ("palates", "palate"), ("biopsies", "biopsy"), ("abscesses", "abscess"),
        ("masses", "mass"), ("mass", "mass"), ("rashes", "rash"), ("reflexes", "reflex"), ("virus", "virus"), ("stenosis", "stenosis"), ("gas", "gas"),
        ("ties", "tie"), ("seizures", "seizure"), ("parents'", "parent"), ("as", "as"), ("a", "a"), ("", ""), ("s", "s"), ("'s", ""), ("2s", "2s"),
    ],
)  # fmt: skip
def test_stem(word: str, stemmed: str):
    assert stem(word) == stemmed


@settings(max_examples=100, deadline=None)
@given(st.text("abeichsxyzu", max_size=8), st.sampled_from(["", "s", "es", "ies", "'s", "’s", "'", "s'", "ss", "us"]))
def test_stemming_twice_changes_nothing_more(word: str, ending: str) -> None:
    assert stem(stem(word + ending)) == stem(word + ending)


def test_words_keep_their_places():
    text = "Crohn’s_disease (β2-Agonists)"
    assert words(text) == [("crohn", 0, 7), ("_", 7, 8), ("disease", 8, 15), ("(", 16, 17), ("β2", 17, 19), ("agonist", 20, 28), (")", 28, 29)]
    assert words("a\n \nb\nc") == [("a", 0, 1), ("\n \n", 1, 4), ("b", 4, 5), ("c", 6, 7)]
    assert words("İ " + text)[1] == ("crohn", 2, 9)  # the lower case of İ has two characters
