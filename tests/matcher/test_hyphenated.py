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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Re-operation for re-bleed, no re-check", [("Re-operation", "Reoperation"), ("re-bleed", "rebleed")]),
        ("She is n.p.o. since midnight", [("n.p.o", "NPO")]),
        ("He was n.p.o.", [("n.p.o", "NPO")]),
        ("one tablet p.o. b.i.d. p.r.n., N.P.O, x.n.p.o", []),
        ("metronidazole t.d.s., diabetes a.k.a. sugar, taken p.t.a.", []),
    ],
)
def test_words_with_re_and_letters_with_full_stops(text: str, expected: list[tuple[str, str]]):
    component = written(
        ("reoperation", "T061", ""),
        ("bleed", "T046", ""),
        ("rebleed", "T046", ""),
        ("NPO", "T061", ""),
        ("BID", "T116", ""),
        ("PRN", "T061", ""),
        ("TDS", "T047", ""),
        ("AKA", "T061", ""),
        ("PTA", "T061", ""),
    )
    doc = component(component.nlp.make_doc(text))
    assert [(ent.text, ent._.corrected_text) for ent in doc.ents] == expected
