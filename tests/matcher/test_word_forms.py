"""What words of a text stand for: misspelt and shortened words, plurals, adjectives."""

from __future__ import annotations

from pathlib import Path

import pytest
import spacy
from name_matchers import Names, found, written

from spacy_sapbert.matcher.component import ConceptMatcher
from spacy_sapbert.matcher.spelling import is_other_word


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abdo pain, Abd pain", [("abdo pain", "abdominal pain"), ("Abd pain", "abdominal pain")]),
        ("haemorrhagic shock", [("haemorrhagic shock", "hemorrhagic shock")]),
        ("Oedema", [("Oedema", "edema")]),  # only the spelling differs; the capital letter does not count
        ("abdo", []),
        ("ca of unknown origin, ca ovary", []),  # short words alone, or not in a name
        ("pulm abdo pain", [("abdo pain", "abdominal pain")]),
        ("liver mets, mets", [("liver mets", "liver metastases")]),
    ],
)
def test_words_that_notes_write_short_and_british_ones(text: str, expected: list[tuple[str, str]]):
    component = written(
        ("abdominal pain", "T184", ""),
        ("hemorrhagic shock", "T047", ""),
        ("edema", "T046", ""),
        ("cancer", "T191", ""),
        ("abdominal", "T082", ""),
        ("liver metastases", "T191", ""),
    )
    doc = component(component.nlp.make_doc(text))
    assert [(ent.text, ent._.corrected_text) for ent in doc.ents] == expected


def test_a_name_as_it_stands_counts_before_one_written_out():
    component = written(("abd girth", "T201", ""), ("abdominal girth", "T201", ""))
    doc = component(component.nlp.make_doc("her abd girth was 90"))
    assert [(ent.text, ent._.corrected_text) for ent in doc.ents] == [("abd girth", None)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Septic emboli.", [("Septic emboli", "Septic embolus")]),
        ("deep vein thromboses", [("deep vein thromboses", "deep vein thrombosis")]),
        ("He was hypovolemic and weak.", [("hypovolemic", "hypovolemia")]),
        ("He was hypovolemic.", [("hypovolemic", "hypovolemia")]),
        ("a hypovolemic patient", []),  # it describes the patient
        ("hypovolemic shock", [("hypovolemic shock", None)]),
    ],
)
def test_plurals_from_latin_and_adjectives_of_findings(text: str, expected: list[tuple[str, str | None]]):
    names = ("septic embolus", "deep vein thrombosis", "hypovolemia", "hypovolemic shock")
    component = written(*((name, "T047", "") for name in names))
    doc = component(component.nlp.make_doc(text))
    assert [(ent.text, ent._.corrected_text) for ent in doc.ents] == expected


def test_what_a_word_stands_for_depends_on_the_names_that_are_looked_for_now(tmp_path: Path):
    component, other = written(("fever", "T047", "")), written(("zorbulus", "T047", ""))
    text = "He has zorbuli and thromboses."

    def found() -> list[tuple[str, str | None]]:
        return [(ent.text, ent._.corrected_text) for ent in component(component.nlp.make_doc(text)).ents]

    assert found() == []
    other.to_disk(tmp_path)
    component.from_disk(tmp_path)
    assert found() == [("zorbuli", "zorbulus")]
    component.set_kb(Names([("thrombosis", "T047")]))  # type: ignore[arg-type]
    assert found() == [("thromboses", "thrombosis")]


def test_plurals_from_latin_are_not_looked_for_without_corrections():
    component = written(("septic embolus", "T047", ""), spelling=False)
    assert not component(component.nlp.make_doc("Septic emboli.")).ents


def test_a_plural_in_a_name_as_it_stands_is_not_changed():
    component = written(("septic emboli", "T047", ""), ("embolus", "T047", ""))
    doc = component(component.nlp.make_doc("septic emboli, other emboli"))
    assert [(ent.text, ent._.corrected_text) for ent in doc.ents] == [("septic emboli", None), ("emboli", "embolus")]


def test_words_with_one_wrong_letter():
    component = written(("pneumonia", "T047", ""), ("atrial fibrillation", "T047", ""), ("consent", "T033", ""))
    doc = component(component.nlp.make_doc("Atrial fibrilation, pnuemonia and pneumonias; the content; Dr. Pneumonio was here."))
    assert [(ent.text, ent._.corrected_text) for ent in doc.ents] == [
        ("Atrial fibrilation", "Atrial fibrillation"),
        ("pnuemonia", "pneumonia"),
        ("pneumonias", None),
    ]
    assert found(written(("pneumonia", "T047", ""), spelling=False), "pnuemonia") == []


def test_words_that_are_not_misspelt():
    rare = written(("ipodate", "T121", ""))
    assert found(rare, "the isodate line") == []  # a short word, and only one name holds it
    assert found(rare, "ipodate") == ["ipodate"]
    several = written(*((f"{kind} embolism", "T047", "") for kind in ("fat", "air", "lung", "leg", "arm", "brain", "late", "early")))
    assert found(several, "fat emboliism") == ["fat emboliism"]
    usual = written(("guarding", "T033", ""), ("swelling", "T184", ""))
    assert found(usual, "her guardian is selling the house") == []
    assert found(usual, "gaurding, sweling") == ["gaurding", "sweling"]
    assert is_other_word("handing", "landing", {"hand"})  # a form of "hand"
    assert not is_other_word("bleding", "bleeding", {"bed"})
    assert not is_other_word("coughng", "coughing", {"cough"})
    assert not is_other_word("restricting", "restriction", {"restrict"})  # both are forms of it


def test_corrections_are_saved(tmp_path: Path):
    component = written(("pneumonia", "T047", ""))
    component.to_disk(tmp_path / "m")
    for other in (ConceptMatcher(spacy.blank("en")).from_disk(tmp_path / "m"), ConceptMatcher(spacy.blank("en")).from_bytes(component.to_bytes())):
        assert found(other, "pnuemonia") == ["pnuemonia"]
