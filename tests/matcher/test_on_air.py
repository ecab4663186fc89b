"""Oxygen saturations on air."""

from __future__ import annotations

import pytest

from spacy_sapbert.matcher.on_air import on_air


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("Feverish last nt; sats 98% OA.", [27]),
        ("SpO2 98% OA, RR 18.", [9]),
        ("Sats: 94-96% (on OA)", [17]),
        ("sats 94-96% on OA", [15]),
        ("O2 sats 97 OA", [11]),
        ("sats 98%, OA knees", []),
        ("knee OA 50%, OA hip", []),
    ],
)
def test_air_after_a_saturation(text: str, places: list[int]) -> None:
    assert [(one.start, one.end, one.name) for one in on_air(text)] == [(place, place + 2, "room air") for place in places]
