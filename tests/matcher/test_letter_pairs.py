"""Two letters with a sign between them that stand for a test or procedure, and the ratio of oxygen."""

from __future__ import annotations

import time

import pytest

from spacy_sapbert.matcher.letter_pairs import letter_pairs

UE, GS = "urea and electrolytes", "group and save"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("U+E normal", [("U+E", UE)]),
        ("U/E and U+Es sent", [("U/E", UE), ("U+Es", UE)]),
        ("u/e sent, G+S, g/s", [("u/e", UE), ("G+S", GS), ("g/s", GS)]),
        ("H/H 8/24, I/O -500", [("H/H", "hemoglobin and hematocrit"), ("I/O", "intake and output")]),
        (
            "D+C, C+S, O+P, T+S",
            [("D+C", "dilation and curettage"), ("C+S", "culture and sensitivity"), ("O+P", "ova and parasites"), ("T+S", "type and screen")],
        ),
        # other meanings, other lists, and mixed case
        ("D/C home, C/S, O/P, T/S, A/P, N+V, u/E", []),
        ("FU/E, U/E/D, U+E+, 3U/E", []),
        ("U/E strength 5/5, U/E 4/5, no U/E edema, U/E, L/E normal", []),  # upper extremities
        ("I/O line placed, I/O in the left tibia", []),  # an intraosseous line
        ("G/S on USS, G/S pancreatitis", []),  # gallstones
        ("U/E 2 days ago, I/O in the last 24h, G/S sent", [("U/E", UE), ("I/O", "intake and output"), ("G/S", GS)]),
    ],
)
def test_pairs_of_letters(text: str, wanted: list[tuple[str, str]]) -> None:
    assert [(text[one.start : one.end], one.name) for one in letter_pairs(text)] == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("P/F 170", ["P/F"]),
        ("P:F 98, PEEP 12", ["P:F"]),
        ("P/F: 210, then P/F was <90", ["P/F", "P/F"]),
        ("P/F improving", []),
        ("P/F 12", []),  # no ratio in mm Hg
        ("P/F 12/11", []),
        ("P/F 120/80", []),
        ("PF 350", []),  # a peak flow
    ],
)
def test_a_ratio_before_its_value(text: str, wanted: list[str]) -> None:
    found = list(letter_pairs(text))
    assert [text[one.start : one.end] for one in found] == wanted
    assert {one.name for one in found} <= {"P/F ratio"}


@pytest.mark.parametrize("piece", ["U+", "U + ", "P/F ", "P/F : = ", "+", "H/"])
def test_a_long_text_takes_little_time(piece: str) -> None:
    begun = time.process_time()
    assert list(letter_pairs(piece * (200_000 // len(piece)))) == []
    assert time.process_time() - begun < 2
