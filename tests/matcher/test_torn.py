"""Torn tendons, muscles and menisci."""

from __future__ import annotations

import pytest
from name_matchers import written

NAMES = ("meniscal tear", "subscapularis tear", "rotator cuff tear", "tearing", "tearing of the eyes")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tearing of the medial meniscus", [("tearing of the medial meniscus", "meniscal tear")]),
        ("Apparent tearing of his subscapularis.", [("tearing of his subscapularis", "subscapularis tear")]),
        ("tearing of the rotator cuff", [("tearing of the rotator cuff", "rotator cuff tear")]),
        ("tearing of the deltoid muscle", []),  # no name, but no tears of the eye either
        ("tearing of the eyes, tearing", [("tearing of the eyes", None), ("tearing", None)]),
    ],
)
def test_tearing_of_tissue_is_a_tear(text: str, expected: list[tuple[str, str | None]]):
    component = written(*((name, "T033", "") for name in NAMES))
    doc = component(component.nlp.make_doc(text))
    assert [(ent.text, ent._.corrected_text) for ent in doc.ents] == expected
