"""Words with a hyphen that are names without it, and pieces of such words, which are no names."""

from __future__ import annotations

import pytest
from name_matchers import written

NAMES = (
    "EPAP",
    "BiPAP",
    "Permacath",
    "PAP",
    "cath",
    "epithelialized",
    "aortic",
    "para",
    "spine",
    "knee pain",
    "HIV",
    "diabetes",
    "anti-inflammatory",
    "X-ray",
    "inflammatory",
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("E-PAP of 5, BI-PAP", [("E-PAP", "EPAP"), ("BI-PAP", "BIPAP")]),
        ("The Perm-A-Cath", [("Perm-A-Cath", "PermACath")]),
        ("an A-PAP, Wet-A-Cath", []),  # no names, and no pieces of names
        ("de-epithelialized, Para-aortic", []),
        ("R-knee pain, HIV-positive, non-insulin, diabetes-related", [("knee pain", None), ("HIV", None), ("diabetes", None)]),
        ("anti-inflammatory, X-ray", [("anti-inflammatory", None), ("X-ray", None)]),
        ("anti- inflammatory, pre-diabetes", [("anti- inflammatory", None)]),
    ],
)
def test_words_with_hyphens(text: str, expected: list[tuple[str, str | None]]):
    component = written(*((name, "T074" if name in ("cath", "Permacath") else "T033", "") for name in NAMES))
    doc = component(component.nlp.make_doc(text))
    assert [(ent.text, ent._.corrected_text) for ent in doc.ents] == expected
