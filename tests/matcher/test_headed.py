"""Findings whose heading is a part of their name."""

from __future__ import annotations

import pytest
import spacy
from fake_names import Names

from spacy_sapbert.context.sections import find_sections
from spacy_sapbert.doc.spans import CORRECTED
from spacy_sapbert.kb.knowledge_base import MatchableName
from spacy_sapbert.matcher.component import ConceptMatcher
from spacy_sapbert.matcher.headed import MAX_WORDS, READ, headed


def found(text: str, *names: str) -> list[tuple[str, str | None]]:
    made = ConceptMatcher(spacy.blank("en"), all_key="all")
    every = [MatchableName(name, "T033", ("T033",), (name,)) for name in names]
    made.set_kb(Names(every))  # type: ignore[arg-type]
    return [(ent.text, ent._.get(CORRECTED)) for ent in made(made.nlp.make_doc(text)).ents]


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("NECK:  Supple.,CHEST:  Clear.", "supple neck", [("Supple", "Supple neck")]),
        ("Neck: Supple without adenopathy.", "neck supple", [("Supple", "neck Supple")]),
        ("Mood: Euphoric. Affect: flat.", "euphoric mood", [("Euphoric", "Euphoric mood")]),
        ("UROLOGIC:  No frequency or urgency.", "urinary urgency", [("urgency", "urinary urgency")]),
        ("ANESTHESIA: , General.", "general anesthesia", [("General", "General anesthesia")]),
        ("ABDOMEN: Soft, no masses palpated.", "abdominal mass", [("masses", "abdominal masses")]),
        ("Lungs: clear bilaterally.", "clear lungs", [("clear", "clear lungs")]),
        ("Kidneys: small hiatus hernia.", "small kidney", []),  # "small" says something about the hernia
        ("FAMILY HISTORY: diabetes", "family history diabetes", []),
        ("Examination: pelvis", "examination pelvis", []),  # any examination
        ("Lungs: normal\nSupple neck", "supple lungs", []),  # another line
        ("The neck: supple", "supple neck", []),  # no heading
        ("NECK: [**supple**] today", "supple neck", []),  # a placeholder
        ("HEAD: Fontanelles are soft and flat.", "flat head", []),  # the fontanelles are flat
        ("ABDOMEN: Abdomen is soft and flat.", "flat abdomen", [("flat", "flat abdomen")]),
        ("ABDOMEN: There is no rebound or guarding.", "abdomen guarding", [("guarding", "abdomen guarding")]),
        ("NECK: It is supple and soft.", "soft neck", [("soft", "soft neck")]),
    ],
)
def test_a_heading_completes_a_name(text: str, name: str, expected: list[tuple[str, str]]):
    assert found(text, name) == expected


def test_the_longer_name_replaces_the_shorter_one_in_its_place():
    assert found("ABDOMEN: tenderness.", "tenderness", "abdomen tenderness") == [("tenderness", "abdomen tenderness")]
    assert found("ABDOMEN: rebound tenderness.", "rebound tenderness", "abdomen rebound") == [("rebound tenderness", None)]


def test_a_system_is_no_part_of_a_finding_that_is_a_name_without_it():
    names = (
        "stroke",
        "heart stroke",
        "exophthalmos",
        "endocrine exophthalmos",
        "pain",
        "gi pain",
        "tenderness",
        "abdomen tenderness",
        "heart regular",
    )
    assert found("CARDIOVASCULAR: Denies stroke.", *names) == [("stroke", None)]
    assert found("ENDOCRINE: Denies exophthalmos.", *names) == [("exophthalmos", None)]
    assert found("GI: Pain.", *names) == [("Pain", "gi Pain")]  # a general word
    assert found("ABDOMEN: tenderness.", *names) == [("tenderness", "abdomen tenderness")]  # a part of the body
    assert found("CARDIOVASCULAR: Regular.", *names) == [("Regular", "heart Regular")]  # no name without it


def test_only_the_words_after_a_heading_are_read():
    text = "NECK: " + "x, " * READ + "supple."
    items = list(headed(text, find_sections(text)))
    assert max(one.end for item in items for one in item) <= len("NECK: ") + READ
    assert all(len(text[one.start : one.end].split()) <= MAX_WORDS for item in items for one in item)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SKIN: Warm, dry and intact.", [("dry", "warm and dry SKIN")]),
        ("Skin: warm and dry", [("dry", "warm and dry Skin")]),
        ("Skin: dry and warm", [("dry", "warm and dry Skin")]),
        ("Skin: dry, no rash", [("dry", "dry Skin")]),
        ("Skin: warm.\nSkin: dry", [("dry", "dry Skin")]),
    ],
)
def test_warm_and_dry_is_no_dry_skin(text: str, expected: list[tuple[str, str]]):
    assert [
        (words, name and name.replace("skin", "SKIN" if "SKIN" in text else "Skin")) for words, name in found(text, "dry skin", "warm and dry skin")
    ] == expected


@pytest.mark.parametrize(("state", "expected"), [("warm", []), ("red", ["skin dry"])])
def test_dry_beside_warm_is_no_item_of_a_coordination(state: str, expected: list[str]):
    names = [f"skin is {state}", "skin is dry"]
    made = ConceptMatcher(spacy.blank("en"), all_key="all")
    every = [MatchableName(name, "T033", ("T033",), (name,)) for name in names]
    made.set_kb(Names(every))  # type: ignore[arg-type]
    doc = made(made.nlp.make_doc(f"Her skin is {state} and dry."))
    assert [span.id_ for span in doc.spans["all"] if span.id_] == [name.replace("skin dry", "skin is dry") for name in expected]
