"""Days of a treatment, which have the letters of a fluid."""

from __future__ import annotations

import pytest

from spacy_sapbert.matcher.joining import Match
from spacy_sapbert.matcher.treatment_days import without_days


def kept(text: str, *names: str) -> list[str]:
    """Return the names that are kept. All are drugs, in the order of the text."""
    matches, start = [], 0
    for name in names:
        start = text.index(name, start)
        matches.append(Match(start, start + len(name), "CHEM"))
        start += len(name)
    return [text[one.start : one.end] for one in without_days(matches, text)]


@pytest.mark.parametrize(
    ("text", "drug", "day"),
    [
        ("meropenem d5", "meropenem", "d5"),
        ("meropenem (D5)", "meropenem", "D5"),
        ("meropenem 1 g IV q8h, d5", "meropenem", "d5"),
        ("vancomycin, d5", "vancomycin", "d5"),
        ("dexamethasone d5", "dexamethasone", "d5"),
        ("dexamethasone D5", "dexamethasone", "D5"),
        ("insulin d5", "insulin", "d5"),
    ],
)
def test_a_day_after_a_drug(text: str, drug: str, day: str) -> None:
    assert kept(text, drug, day) == [drug]


@pytest.mark.parametrize(("text", "day"), [("D5 vancomycin", "D5"), ("d5/7 vancomycin", "d5"), ("D5 of vancomycin", "D5")])
def test_a_day_before_a_drug_against_infections(text: str, day: str) -> None:
    assert kept(text, day, "vancomycin") == ["vancomycin"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("on D5 with KCl", ["D5", "KCl"]),
        ("insulin, D5", ["insulin", "D5"]),  # no drug against infections, and a comma
        ("D5 potassium", ["D5", "potassium"]),
        ("meropenem in D5", ["meropenem", "D5"]),
        ("meropenem D5 1/2 NS", ["meropenem", "D5"]),
        ("vancomycin\nD5 at 75", ["vancomycin", "D5"]),
        ("D5", ["D5"]),
        ("vitamin D3", ["vitamin D3"]),
        ("insulin/D50 for high potassium", ["insulin", "D50", "potassium"]),
        ("potassium D10", ["potassium", "D10"]),
        ("calcium/D3 600 mg", ["calcium", "D3"]),
        ("Calcium D3 daily", ["Calcium", "D3"]),
    ],
)
def test_a_fluid_stays(text: str, names: list[str]) -> None:
    assert kept(text, *names) == names
