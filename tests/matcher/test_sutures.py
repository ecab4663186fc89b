"""Sutures with their size."""

from __future__ import annotations

import pytest
from name_matchers import written

NAMES = ("0 Vicryl", "3-0 Vicryl", "3-0 chromic", "nylon suture", "nylon", "polyester suture", "Dacron", "suture ligature", "suture")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("closed with 7-0 Vicryl.", [("7-0 Vicryl", "0 Vicryl")]),
        ("#7-0 Vicryl sutures", [("7-0 Vicryl sutures", "0 Vicryl")]),
        ("closed with 3-0 Vicryl.", [("3-0 Vicryl", None)]),  # a name by itself
        ("closed with 10-0 nylon", [("10-0 nylon", "nylon suture")]),
        ("5-0 Dacron, a Dacron patch", [("5-0 Dacron", "polyester suture"), ("Dacron", None)]),
        ("4-0 chromic catgut suture", [("4-0 chromic catgut suture", "3-0 chromic")]),
        ("a 5-0 Vicryl suture ligature", [("5-0 Vicryl", "0 Vicryl"), ("suture ligature", None)]),
        ("won 7-0, 5-0 running", []),
        ("0 Vicryl", [("0 Vicryl", None)]),
    ],
)
def test_a_suture_has_any_size(text: str, expected: list[tuple[str, str | None]]):
    component = written(*((name, "T074", "") for name in NAMES))
    doc = component(component.nlp.make_doc(text))
    assert [(ent.text, ent._.corrected_text) for ent in doc.ents] == expected
