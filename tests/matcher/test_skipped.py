"""Headings and placeholders hold no mention; headings of tests do."""

from __future__ import annotations

import pytest
from name_matchers import found, written
from spacy.tokens import Span


def test_a_heading_that_is_a_statement_is_a_mention():
    component = written(("NKDA", "T033", ""), ("heme", "T121", ""))
    assert found(component, "PMH: gout\nNKDA\nMeds: none") == ["NKDA"]
    assert found(component, "NKDA.") == ["NKDA"]


def test_a_heading_of_a_system_is_a_mention_only_if_it_is_a_part_of_the_body():
    component = written(("heme", "T121", ""), ("lungs", "T023", ""), ("gout", "T047", ""), join=True)
    doc = component.nlp.make_doc("Heme: stable\nLungs: clear\nMSK: gout")
    doc.ents = [Span(doc, at, at + 1, label="PROC") for at, token in enumerate(doc) if token.text in ("Heme", "Lungs", "MSK")]
    assert [ent.text for ent in component(doc).ents] == ["Lungs", "gout"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TOURNIQUET TIME: 45 minutes", ["TOURNIQUET TIME"]),
        ("TOTAL TOURNIQUET TIME: 45 minutes", ["TOTAL TOURNIQUET TIME"]),
        ("FLUOROSCOPY TIME: 2 minutes.", ["FLUOROSCOPY TIME"]),
        ("TOURNIQUET TIME:\n", []),  # no value
    ],
)
def test_headings_of_measured_times(text: str, expected: list[str]):
    names = ("tourniquet time", "total tourniquet time", "fluoroscopy time")
    assert found(written(*((name, "T201", "") for name in names)), text) == expected


def test_headings_and_removed_parts_are_no_mentions():
    component = written(("allergies", "T033", ""), ("penicillin", "T121", ""), ("john", "T033", ""))
    assert found(component, "ALLERGIES: penicillin\n\nSeen by [**John 12**]; allergies to penicillin") == ["penicillin", "allergies", "penicillin"]
    assert found(written(("mm", "T024", "")), "DOB: MM/DD/YYYY, MM") == ["MM"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CXR: clear", ["CXR"]),  # the heading names the test
        ("- CXR: clear", ["CXR"]),
        ("CXR\nclear", []),  # a heading alone on its line is not a mention
        ("Findings: CXR clear", ["CXR"]),
    ],
)
def test_a_heading_that_names_a_test_with_its_result_is_a_mention(text: str, expected: list[str]):
    assert found(written(("CXR", "T060", ""), ("findings", "T033", "")), text) == expected
