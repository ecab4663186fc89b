"""Names that an abbreviation in brackets interrupts."""

from __future__ import annotations

import pytest

from spacy_sapbert.matcher.interrupted import interrupted


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("human immunodeficiency virus (HIV) infection", ["human immunodeficiency virus infection"]),
        (
            "Persons with human immunodeficiency virus (HIV) infection and",
            ["human immunodeficiency virus infection and", "human immunodeficiency virus infection"],
        ),
        ("chronic obstructive pulmonary (COPD) disease, stable", ["chronic obstructive pulmonary disease"]),
        ("infection of the urinary tract (UTI), treated", []),  # no word directly after the brackets
        ("pain (VAS) score", []),  # no word with the first letter
        ("human immunodeficiency virus (hiv) infection", []),
        ("human immunodeficiency virus\n(HIV) infection", []),
    ],
)
def test_names_without_the_brackets(text: str, names: list[str]) -> None:
    found = list(interrupted(text))
    assert [one.name for one in found] == names
    for one in found:
        assert text[one.start : one.end].replace(" (HIV)", "").replace(" (COPD)", "") == one.name


def test_words_far_before_the_brackets_are_no_part_of_the_name() -> None:
    text = "heart a b c d e (HF) failure"
    assert list(interrupted(text)) == []
