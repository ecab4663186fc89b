"""The numbers that distinguish types and stages, checked by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.ranking.numbers import numbers_of


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("diabetes, type ii", {"2"}),
        ("diabetes type 2", {"2"}),
        ("vitamin b-12, 1.5", {"b", "12", "1.5"}),
        ("stage 3b of a tumour", {"3", "b"}),
        ("hla-dr4", {"4"}),
        ("alzheimer's disease", set()),  # the possessive s is not a letter
        ("1,000 units", {"1000"}),
        ("mix", set()),  # not a numeral, although its letters are Roman digits
        ("type xiii", set()),
        ("?! …", set()),
        ("", set()),
    ],
)
def test_numbers_by_hand(name: str, numbers: set[str]) -> None:
    assert numbers_of(name) == numbers


@given(st.text(max_size=60), st.text(max_size=60))
def test_the_numbers_of_two_texts_are_those_of_both(one: str, other: str) -> None:
    assert numbers_of(f"{one} {other}") == numbers_of(one) | numbers_of(other)
