"""Plain English words and units are no mentions."""

from __future__ import annotations

import pytest

from spacy_sapbert.matcher.units import is_unit
from spacy_sapbert.matcher.word_lists import is_plain


@pytest.mark.parametrize(
    ("before", "expected"),
    [("4 ", True), ("81", True), ("10-", True), ("1.5  ", True), ("ammonia 71, ", False), ("ammonia 71,", True), ("about ", False)],
)
def test_a_unit_follows_its_number(before: str, expected: bool) -> None:
    assert is_unit("Mg", before) is expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("therapies", True),
        ("prepped", True),
        ("prepping", True),
        ("rubs", False),
        ("obese", False),
        ("asthma", False),
        ("testes", False),
        ("tests", True),
    ],
)
def test_forms_of_plain_words(word: str, expected: bool) -> None:
    assert is_plain(word) is expected
