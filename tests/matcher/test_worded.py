"""Findings in ordinary words: falls, injuries with a verb, words that share their end."""

from __future__ import annotations

import pytest
import spacy
from fake_names import Names

from spacy_sapbert.kb.knowledge_base import MatchableName
from spacy_sapbert.matcher.component import ConceptMatcher
from spacy_sapbert.matcher.worded import worded

NAMES = {
    "accidental fall": "T033",
    "fall at home": "T033",
    "hip fracture": "T037",
    "hernia repair": "T061",
    "abscess drainage": "T061",
    "wound drainage": "T033",
    "distal radius fracture": "T037",
    "ankle sprain": "T037",
    "hypothyroidism": "T047",
    "hyperthyroidism": "T047",
    "hypo": "T047",
    "nephrolithiasis": "T047",
    "microcytic anemia": "T047",
    "macrocytic anemia": "T047",
    "weight loss": "T033",
    "hip": "T023",
    "poor appetite": "T184",
    "can't keep anything down": "T184",
}


def mentions(text: str) -> list[tuple[str, str | None]]:
    component = ConceptMatcher(spacy.blank("en"), label="group", all_key="sapbert")
    component.set_kb(Names(MatchableName(name, tui, (tui,), (name,)) for name, tui in NAMES.items()))  # type: ignore[arg-type]
    return [(ent.text, ent._.corrected_text) for ent in component(component.nlp.make_doc(text)).ents]


@pytest.mark.parametrize(
    "text",
    [
        "Admitted after a fall.",
        "history of falls",
        "No falls",
        "prior to the fall",
        "a simple fall",
        "Denies falls",
        "a fall in the shower",
        "after a fall in a parking lot",
    ],
)
def test_a_fall(text: str) -> None:
    assert [text[one.start : one.end].rstrip("s") for one in worded(text)] == ["fall"]


@pytest.mark.parametrize(
    "text",
    [
        "a fall in hemoglobin",
        "a fall in the white count",
        "a fall in his output",
        "a fall in attendance",
        "in the fall she moved",
        "the fall of 1998",
        "unable to fall asleep",
        "does fall under",
        "it may fall out",
        "the fall season",
        "a fallopian tube",
    ],
)
def test_no_fall(text: str) -> None:
    assert list(worded(text)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("She had a fall", [("fall", "accidental fall")]),
        ("after a fall at home", [("fall at home", None)]),  # the longer name stays
        ("He broke his left hip.", [("broke his left hip", "hip fracture")]),
        ("fractured her distal radius", [("fractured her distal radius", "distal radius fracture")]),
        ("sprained R ankle", [("sprained R ankle", "ankle sprain")]),
        ("broke both hips", [("broke both hips", "hips fracture")]),
        ("broke his promise", []),
        ("The hernia was repaired.", [("hernia was repaired", "hernia repair")]),
        ("She had her hernia repaired.", [("hernia repaired", "hernia repair")]),
        ("umbilical hernias have been successfully repaired", [("hernias have been successfully repaired", "hernias repair")]),
        ("the hernia was not repaired", []),
        ("The wound was drained.", []),  # "wound drainage" is a finding
        ("The abscess was drained.", [("abscess was drained", "abscess drainage")]),
        ("the tire was repaired", []),
        ("distal radius (DR) fracture", [("distal radius (DR) fracture", "distal radius fracture")]),
        ("hypo- or hyperthyroidism", [("hypo", "hypothyroidism"), ("hyperthyroidism", None)]),
        ("hypo/hyperthyroidism", [("hypo", "hypothyroidism"), ("hyperthyroidism", None)]),
        ("nephro-/ureterolithiasis", [("nephro", "nephrolithiasis")]),
        ("micro- and macrocytic anemia", [("micro", "microcytic anemia"), ("macrocytic anemia", None)]),
        ("hypo- or hyperextension", []),  # no hypoglycemia
        ("a hypo yesterday", [("hypo", None)]),
        ("She has no appetite.", [("no appetite", "poor appetite")]),
        ("no appetite, weight loss", [("no appetite", "poor appetite"), ("weight loss", None)]),
        ("No appetite change.", []),
        ("no appetite or sleep disturbance", []),
        ("No appetite, sleep, or energy changes.", []),
        ("no appetite or weight or sleep problems", []),
        ("no appetite but drinking", [("no appetite", "poor appetite")]),
        ("no appetite, sleep or energy", [("no appetite", "poor appetite")]),
        ("Denies appetite loss.", []),
        ("unable to keep fluids down", [("unable to keep fluids down", "can't keep anything down")]),
        ("He is not keeping any food or water down.", [("is not keeping any food or water down", "can't keep anything down")]),
        ("She hasn’t kept anything down.", [("hasn’t kept anything down", "can't keep anything down")]),
        ("Able to keep food down.", []),
        ("unable to keep her leg down", []),
    ],
)
def test_what_the_matcher_makes_of_it(text: str, expected: list[tuple[str, str | None]]) -> None:
    assert mentions(text) == expected


@pytest.mark.parametrize("text", ["weight loss diet", "Weight loss surgery", "medications for weight loss", "weight-loss clinic"])
def test_the_aim_of_a_treatment_is_no_finding(text: str) -> None:
    assert mentions(text) == []


@pytest.mark.parametrize("text", ["weight loss", "weight loss of 10 kg", "evaluated for weight loss", "weight loss and diet"])
def test_weight_loss_is_a_finding(text: str) -> None:
    assert [name for name, _ in mentions(text)] == ["weight loss"]


def test_a_letter_that_only_looks_like_an_i_makes_no_error() -> None:
    assert [one.name for one in worded("No appetite, no lıbido. Hip dıslocated, broke her arm.")] == ["poor appetite", "arm fracture"]
    repaired = [one.name for one in worded("hernia was repaıred, mass removed")]
    assert repaired == ["mass removal"]
