"""Plain words that are findings in a list of others."""

from __future__ import annotations

import pytest

from spacy_sapbert.matcher.listed import listed


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("no dysuria, urgency or frequency", ["urgency", "frequency"]),
        ("dysuria, frequency and urgency of urination", ["frequency", "urgency"]),
        ("urinary frequency, urgency", ["urgency"]),  # "urinary frequency" is a name as it stands
        ("dysuria. Urgency", []),
        # they say something else
        ("Hypertensive urgency, hematuria", []),
        ("fluid retention, dysuria", []),
        ("bowel urgency, incontinence", []),
        ("stool frequency and urgency", []),  # "stool" is said of both
        ("frequency and urgency of bowel movements, dysuria", []),
        ("alcohol or drugs that cause drowsiness", []),
        ("denies alcohol or drugs", ["drugs"]),
    ],
)
def test_words_in_a_list(text: str, found: list[str]) -> None:
    assert [text[one.start : one.end] for one in listed(text)] == found


def test_a_letter_that_only_looks_like_an_i_makes_no_error() -> None:
    assert [one.name for one in listed("frequency, dysuria, retentıon, urgency")] == ["urinary frequency", "urinary urgency"]
