"""Diseases and germs that stand for their vaccine."""

from __future__ import annotations

import time

import pytest
import spacy
from fake_names import Names

from spacy_sapbert.kb.knowledge_base import MatchableName
from spacy_sapbert.matcher.component import ConceptMatcher
from spacy_sapbert.matcher.joining import Match
from spacy_sapbert.matcher.vaccines import vaccines

NAMES = {
    **dict.fromkeys(["varicella", "influenza", "hepatitis B", "pneumonia", "measles", "fever"], "T047"),
    "MMR": "T067",
    **dict.fromkeys(["IPV", "PCV", "PCV13"], "T121"),
    "vaccines UTD": "T033",
    **dict.fromkeys(
        ["Tdap", "varicella vaccine", "influenza vaccine", "hepatitis B vaccine", "pneumonia vaccine", "measles vaccine", "MMR vaccine"], "T121"
    ),
    "amoxicillin": "T121",
}


def found(text: str) -> list[str]:
    """Return what is looked up for each mention."""
    component = ConceptMatcher(spacy.blank("en"))
    component.set_kb(Names(MatchableName(name, tui, (tui,), (name,)) for name, tui in NAMES.items()))  # type: ignore[arg-type]
    doc = component(component.nlp.make_doc(text))
    return [ent._.corrected_text or ent.text for ent in doc.ents]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("varicella given", ["varicella vaccine"]),
        ("MMR #2 given", ["MMR vaccine"]),
        ("hepatitis B was given today", ["hepatitis B vaccine"]),
        ("influenza UTD", ["influenza vaccine"]),
        ("varicella dose 1", ["varicella vaccine"]),
        ("Tdap today", ["Tdap"]),
        ("MMR, varicella given", ["MMR vaccine", "varicella vaccine"]),
        ("Received influenza and Tdap.", ["influenza vaccine", "Tdap"]),
        ("Immunizations: hepatitis B, varicella", ["hepatitis B vaccine", "varicella vaccine"]),
        ("IMMS - influenza", ["influenza vaccine"]),
        ("measles #1 varicella #1", ["measles vaccine", "varicella vaccine"]),
        ("varicella, PCV13 today", ["varicella vaccine", "PCV13"]),
        ("PMH: varicella given", ["varicella vaccine"]),
    ],
)
def test_what_was_given_is_the_vaccine(text: str, wanted: list[str]) -> None:
    assert found(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("varicella as a child", ["varicella"]),
        ("influenza given her age", ["influenza"]),
        ("pneumonia given amoxicillin", ["pneumonia", "amoxicillin"]),
        ("amoxicillin for pneumonia given in the clinic", ["amoxicillin", "pneumonia"]),
        ("Tdap today. Had varicella in 1990", ["Tdap", "varicella"]),
        ("Immunizations: none, had measles", ["measles"]),
        ("Immunizations: Tdap, no measles", ["Tdap", "measles"]),
        ("influenza due to a virus", ["influenza"]),
        ("fever given", ["fever"]),  # it has no vaccine
        ("varicella\ngiven", ["varicella"]),
        ("#1 influenza #2 measles #3 hepatitis B", ["influenza", "measles", "hepatitis B"]),  # problems
        ("#1: a cut #2: influenza #3: varicella #4", ["influenza", "varicella"]),
        ("Dx: influenza, Tdap given", ["influenza", "Tdap"]),
        ("PMH: hepatitis B, IPV, fever", ["hepatitis B", "IPV", "fever"]),
        ("measles, PCV 28", ["measles", "PCV"]),  # a packed cell volume
        ("hepatitis B; vaccines UTD", ["hepatitis B", "vaccines UTD"]),
    ],
)
def test_another_disease_stays(text: str, wanted: list[str]) -> None:
    assert found(text) == wanted


def test_a_long_gap_between_names_takes_little_time() -> None:
    text = "varicella" + " " * 200_000 + "measles"
    begun = time.process_time()
    assert list(vaccines([Match(0, 9, "DISO"), Match(200_009, 200_016, "DISO")], ["DISO"] * 2, text)) == []
    assert time.process_time() - begun < 2


def test_a_long_list_takes_little_time() -> None:
    text = "varicella, " * 20_000
    names = [Match(at, at + 9, "DISO") for at in range(0, len(text), 11)]
    begun = time.process_time()
    assert list(vaccines(names, ["DISO"] * len(names), text)) == []
    assert time.process_time() - begun < 2
