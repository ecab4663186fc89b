"""Substances with a result, words of product names, headings of tests, stages: what the matcher makes of them."""

from __future__ import annotations

import pytest
import spacy
from fake_names import Names
from spacy.tokens import Doc

from spacy_sapbert.doc.spans import CORRECTED, get_mention
from spacy_sapbert.kb.knowledge_base import MatchableName
from spacy_sapbert.matcher.beside import names_many_tests
from spacy_sapbert.matcher.component import ConceptMatcher
from spacy_sapbert.matcher.joining import Match
from spacy_sapbert.matcher.products import with_product_words
from spacy_sapbert.matcher.results import has_result
from spacy_sapbert.matcher.sites import without_sites

DRUG, TEST, DISEASE, BODY = "T121", "T059", "T047", "T023"


def matched(text: str, names: dict[str, str]) -> Doc:
    component = ConceptMatcher(spacy.blank("en"), label="group", all_key="sapbert")
    component.set_kb(Names(MatchableName(name, tui, (tui,), (name,)) for name, tui in names.items()))  # type: ignore[arg-type]
    return component(component.nlp.make_doc(text))


@pytest.mark.parametrize(
    "after",
    [
        " 140",
        " 3.2 mmol/L",
        ": 4.1",
        " was 134",
        " of 5.6",
        " level 12",
        " (H) 5.9",
        " was low",
        " normal",
        " 1.2 mg/dL",
        " = 0.8",
        " 5.1 u/e normal",  # urea and electrolytes
        " 4.2 u/a",
        " >250 today",
        "   9.1 ,",
    ],
)
def test_a_result_follows(after: str) -> None:
    assert has_result(after)


@pytest.mark.parametrize(
    ("substance", "after", "is_result"),
    [
        ("Heparin", " 7000", False),
        ("heparin", " 5,000 and aspirin", False),
        ("heparin", " 0.4", True),
        ("potassium", " 40", False),
        ("Potassium", ": 5.2", True),
        ("lithium", " 900", False),
        ("lithium", " 0.9", True),
        ("sodium", " 140", True),
        ("heparin", " therapeutic", True),
        ("heparin", " 0.4 u/mL", True),
    ],
)
def test_a_number_that_no_level_reaches_is_a_dose(substance: str, after: str, is_result: bool) -> None:
    assert has_result(after, substance) is is_result


@pytest.mark.parametrize(
    ("before", "is_result"), [("urine ", True), ("24 hour urinary  ", True), ("given ", False), ("no urine. ", False), ("", False)]
)
def test_levels_in_urine_may_be_higher(before: str, is_result: bool) -> None:
    assert has_result(" 45", "potassium", before) is is_result


@pytest.mark.parametrize(
    "after",
    [
        " 20 mg daily",
        " 400 mcg",
        " 40 mEq po",
        " 300 bid",
        " 1 tablet",
        " 25%",
        " 0.125 daily",
        " 2 puffs",
        " 81 every morning",
        " 5 days",
        " 2 years ago",
        " 3 times a day",
        " 20 in the morning",
        " 65 at bedtime",
        " 10 packets",
        " 40 q 8 hours",
        " 300 milligrams",
        " at 2 mg/min",
        " low dose",
        " was increased",
        " was increased to 0.25 mg daily",
        " 7000u",
        " 7,000 u IV",
        " 5000 sc",
        " 5000 SQ",
        " 1200/hr",
        " 18 u/kg/hr",
        " remains",
        " and",
        "",
        ".",
    ],
)
def test_a_dose_is_no_result(after: str) -> None:
    assert not has_result(after)


def test_a_long_text_after_a_substance_is_not_read() -> None:
    assert not has_result(" " * 100_000)
    assert has_result(" " * 40 + "9.1")  # a table


def test_a_list_of_drugs_has_no_results() -> None:
    names = {"lithium": DRUG, "lithium level": TEST}
    doc = matched("Medications:\nLithium 300\n\nLabs:\nLithium 0.8", names)
    assert [ent.label_ for ent in doc.ents] == ["CHEM", "PROC"]


def test_a_substance_with_a_result_is_the_test_of_its_level() -> None:
    names = {"sodium": DRUG, "sodium level": TEST, "cyclosporine": DRUG, "lithium": DRUG, "lithium level": TEST}
    doc = matched("Sodium 134, cyclosporine 163. Lithium 300 mg bid; sodium was checked.", names)
    assert [(ent.text, ent.label_, get_mention(ent, {}).text) for ent in doc.ents] == [
        ("Sodium", "PROC", "Sodium level"),
        ("cyclosporine", "CHEM", "cyclosporine"),  # the knowledge base has no test of it
        ("Lithium", "CHEM", "Lithium"),
        ("sodium", "CHEM", "sodium"),
    ]


def test_words_of_a_product_name_belong_to_the_drug() -> None:
    names = {"Adderall": DRUG, "Advil": DRUG, "cold": DISEASE, "sinus": BODY, "cough": DISEASE, "XR": "T060", "fever": DISEASE}
    doc = matched("Adderall XR 10 mg. Advil Cold & Sinus for a cold. ADVIL COLD. Advil, cough and fever. XR of the hand.", names)
    assert [(ent.text, get_mention(ent, {}).text) for ent in doc.ents] == [
        ("Adderall XR", "Adderall"),
        ("Advil Cold & Sinus", "Advil"),
        ("cold", "cold"),
        ("ADVIL COLD", "ADVIL"),
        ("Advil", "Advil"),
        ("cough", "cough"),
        ("fever", "fever"),
        ("XR", "XR"),
    ]


@pytest.mark.parametrize(
    "text", ["Advil - Cough", "Advil, Cold hands", "Advil and Cough", "Advil, XR", "advil Cold", "ADVIL Cold" + " " * 50_000 + "Cold"]
)
def test_what_stands_beside_a_drug_in_a_list_is_a_mention_of_its_own(text: str) -> None:
    names = {"Advil": DRUG, "cold": DISEASE, "cough": DISEASE, "XR": "T060"}
    assert len(matched(text, names).ents) == 2


def test_only_a_drug_has_words_of_a_product_name() -> None:
    text = "Asthma XR"
    asthma, form = Match(0, 6, "DISO"), Match(7, 9, "PROC")
    assert with_product_words([asthma, form], text) == [asthma, form]
    assert with_product_words([asthma._replace(label="CHEM"), form], text) == [Match(0, 9, "CHEM", "Asthma")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("VITAL SIGNS: stable today.", []),
        ("Her vital signs are stable.", ["vital signs"]),
        ("CXR: clear today.", ["CXR"]),  # a heading that names one test, with its result
        ("EBL: 50 cc.", ["EBL"]),
        ("ESTIMATED BLOOD LOSS: Minimal", ["ESTIMATED BLOOD LOSS"]),
        ("BLOOD LOSS:\nDRAINS: none", []),
        ("PLAN:\nMRI brain\nCXR\n", ["MRI brain", "CXR"]),  # each is a line of a list, not a heading
        ("IMAGING:\nCT head with contrast", ["CT head with contrast"]),
        ("CXR\nno change", []),
        ("CXR:\nPLAN: none", []),
        ("T1 N3 M0 cancer", ["cancer"]),
        ("pT2 pN1a (2/14 nodes) M0 cancer", ["cancer"]),
        ("Tis N0 M0 and TX NX M1 cancer", ["cancer"]),
        ("T2 N1 cancer M0", ["cancer", "M0"]),
        ("The M0 strain", ["M0"]),
    ],
)
def test_titles_of_results_and_stages_are_no_mentions(text: str, found: list[str]) -> None:
    names = {"EBL": TEST, "blood loss": TEST, "estimated blood loss": TEST, "MRI brain": "T060", "CT head": "T060"}
    names |= {"vital signs": TEST, "CXR": "T060", "M0": DISEASE, "T1": BODY, "cancer": "T191", "node": BODY}
    assert [ent.text for ent in matched(text, names).ents] == found


def test_titles_that_name_many_tests() -> None:
    assert all(map(names_many_tests, ["VITAL SIGNS", "Laboratory data", "Labs", "Physical  Exam", "Lab results"]))
    assert not any(map(names_many_tests, ["CXR", "Chest x-ray", "Label", "Vital signs stable"]))


def test_a_substance_in_a_coordination_stands_for_the_finding() -> None:
    doc = matched("No blood in urine or stool.", {"blood in urine": DISEASE, "blood in stool": DISEASE, "stool": "T031"})
    assert [(ent.text, ent.label_, ent._.get(CORRECTED)) for ent in doc.ents] == [
        ("blood in urine", "DISO", None),
        ("stool", "DISO", "blood in stool"),
    ]
    assert sorted((span.text, span.id_) for span in doc.spans["sapbert"]) == [
        ("blood in urine", ""),
        ("blood in urine or stool", "blood in stool"),
        ("stool", ""),
    ]


def test_a_site_beside_a_coordination_of_something_else_is_kept() -> None:
    text = "cold hands or feet"
    feet, part = Match(14, 18, "ANAT"), Match(5, 18, "ANAT", "hands feet", part=True)
    assert without_sites([feet], text, [part]) == [feet]
    assert without_sites([feet], text, [part._replace(label="DISO")]) == []
