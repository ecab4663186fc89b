"""Where "AF" is a rhythm of the heart."""

from __future__ import annotations

import pytest

from spacy_sapbert.matcher.rhythms import rhythms


@pytest.mark.parametrize(
    "text",
    [
        "AF controlled.",
        "AF - controlled",
        "AF well controlled on bisoprolol",
        "AF and BP controlled",
        "AF treated with digoxin",
        "AF, rate controlled",
        "AF, controlled on bisoprolol",
        "AF, well controlled.",
        "AF since 2010",
        "AF with good rate control",
        "remains in AF",
        "h/o AF",
        "known AF",
        "fast AF",
    ],
)
def test_a_rhythm(text: str) -> None:
    assert [(text[one.start : one.end], one.name) for one in rhythms(text)] == [("AF", "atrial fibrillation")]


@pytest.mark.parametrize(
    "text",
    [
        "AF, VSS",
        "VSS, AF",
        "AF overnight",
        "O/E AF, chest clear",
        "AF, BP controlled",
        "PAF controlled",
        "AFB in sputum",
        "AF since yesterday",
        "AF, treated with ceftriaxone",
        "VSS, AF, well controlled pain",
    ],
)
def test_no_rhythm_by_its_words(text: str) -> None:
    assert list(rhythms(text)) == []
