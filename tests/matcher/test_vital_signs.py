"""Letters that stand for vital signs."""

from __future__ import annotations

import time

import pytest

from spacy_sapbert.matcher.vital_signs import vital_signs

T, P, R = "body temperature", "pulse", "respiratory rate"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("VS: T 37.2 P 88 R 16 BP 130/70", [T, P, R]),
        ("Obs: T 39.1  HR 124  BP 92/54", [T]),
        ("Temp 38.2, P 104, BP 96/50", [P]),
        ("T: 98.6 °F (37 °C), P: 80, R: 18, BP: 120/80", [T, P, R]),
        ("T36.0, BP121/85, HR 94", [T]),
        ("T 98 BP 121/89 P 80 R 20 O2 Sat 100%", [T, P, R]),
        ("T 100.9-102.7 BP 136/86", [T]),
        ("RR:  18.  P:  93.", [P]),
        ("T 37.2", [T]),
        ("T 38 C", [T]),
        ("T 101.2°F", [T]),
        ("P 88/min, R 16 /min", [P, R]),
        ("T 36.6 C, P 88 bpm, R 16", [T, P, R]),
        # something else
        ("T 12 fracture", []),
        ("T 38", []),  # neither tenths nor degrees, and no other vital sign
        ("T 12.5", []),  # no temperature of a body
        ("fracture of T4, P 60 of the chart", []),
        ("P 88", []),
        ("R 5/5, L 4/5", []),
        ("HR 88, R 5/5 strength", []),
        ("HR 88. The patient P 60", []),
        ("t 37.2", []),
        ("pT 37.2 and VT 37.2", []),
        ("SpO2 94%, R 99", []),  # no respiratory rate
    ],
)
def test_letters_before_their_values(text: str, wanted: list[str]) -> None:
    found = list(vital_signs(text))
    assert [one.name for one in found] == wanted
    assert [text[one.start] for one in found] == [{T: "T", P: "P", R: "R"}[name] for name in wanted]


@pytest.mark.parametrize("piece", ["T 37.2 ", "T ", "1", "T 3", " ", "HR 88 (", "and ", "P" + " " * 999, "BP" + " " * 9_999])
def test_a_long_text_takes_little_time(piece: str) -> None:
    begun = time.process_time()
    assert len(list(vital_signs(piece * (210_000 // len(piece))))) == (30_000 if piece == "T 37.2 " else 0)
    assert time.process_time() - begun < 2
