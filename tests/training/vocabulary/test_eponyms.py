"""Short names after several people, and UBERON and MONDO without animals."""

from __future__ import annotations

import json
from pathlib import Path

from spacy_sapbert.build.linker import read_source
from spacy_sapbert.kb.concept import Name
from training.vocabulary import mondo
from training.vocabulary.eponyms import short_names
from training.vocabulary.uberon import human_terms, without_animals

UBERON = """format-version: 1.2

[Term]
id: UBERON:0000001
name: left eye
xref: FMA:12514

[Term]
id: UBERON:0000002
name: insect labrum
xref: FBbt:00004522

[Term]
id: UBERON:0000003
name: mitral valve cusp
xref: MA:0000001

[Term]
id: UBERON:0000004
name: polster
xref: ZFA:0000058

[Typedef]
id: part_of
xref: FMA:1
"""


def names(*texts: str) -> list[Name]:
    return [Name(text, "MONDO", term_type="PT" if i == 0 else "SY", rank=min(i, 1)) for i, text in enumerate(texts)]


def shortened(concepts: dict[int, list[Name]]) -> dict[int, list[str]]:
    return {row: [name.text for name in given] for row, given in short_names(concepts).items()}


def test_a_syndrome_of_several_people_has_a_short_name() -> None:
    concepts = {
        0: names("Lesch-Nyhan syndrome", "Lesch-Nyhan disease"),
        1: names("von Hippel-Lindau disease"),
        2: names("X-linked disease", "Heart disease"),
    }
    assert shortened(concepts) == {0: ["Lesch-Nyhan"], 1: ["von Hippel-Lindau"]}
    assert short_names(concepts)[0][0][1:3] == ("MONDO", "en")


def test_a_short_name_of_something_else_is_left_out() -> None:
    assert shortened({0: names("Tay-Sachs disease"), 1: names("Tay-Sachs")}) == {}  # some concept has it already
    assert shortened({0: names("Epstein-Barr syndrome"), 1: names("Epstein-Barr virus", "Epstein-Barr virus infection")}) == {}
    assert shortened({0: names("Budd-Chiari syndrome"), 1: names("Arnold-Chiari malformation")}) == {0: ["Budd-Chiari"]}


def test_terms_of_animals_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "UBERON.obo"
    path.write_text(UBERON, encoding="utf-8")
    assert human_terms(path) == {"UBERON:0000001", "UBERON:0000003"}
    kept = without_animals(read_source(path), path)
    assert [concept.names[0].text for concept in kept.concepts] == ["left eye", "mitral valve cusp"]


def test_diseases_of_animals_are_left_out(tmp_path: Path) -> None:
    terms = {
        "MONDO:0005583": {"label": "non-human animal disease"},
        "MONDO:1": {"label": "polydactyly, llama", "ancestors": {"MONDO:0005583": 2, "MONDO:2": 1}},
        "MONDO:2": {"label": "polydactyly", "ancestors": {"MONDO:0000001": 1}},
    }
    path = tmp_path / f"{mondo.FILE}-v2026-01-01.json"
    path.write_text(json.dumps(terms), encoding="utf-8")
    assert mondo.animal_terms(path) == {"MONDO:0005583", "MONDO:1"}
    assert [concept.concept_id for concept in mondo.without_animals(read_source(path), path).concepts] == ["MONDO:2"]
