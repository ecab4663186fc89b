"""Concepts are found by codes of source vocabularies, in the spellings of corpora and people."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.kb import curies
from spacy_sapbert.kb.builder import Source, build_kb
from spacy_sapbert.kb.concept import Concept, Name
from spacy_sapbert.kb.knowledge_base import DATABASE, KnowledgeBase
from spacy_sapbert.readers import read

HIP, KNEE, LEG = "C9000001", "C9000002", "C9000003"  # MRCONSO is sorted by CUI
# (CUI, TS, SAB, TTY, CODE, name): invented, in the order of MRCONSO
ATOMS = [
    (HIP, "P", "MSH", "ET", "D900001", "wandering hip"),
    (HIP, "S", "ICD10CM", "PT", "M99.9", "hip, wandering"),
    (KNEE, "P", "MSH", "MH", "D900001", "wandering knee"),
    (KNEE, "S", "OMIM", "PT", "900100", "knee that wanders"),
    (KNEE, "S", "SNOMEDCT_US", "PT", "99000001", "wandering knee (disorder)"),
    (KNEE, "S", "RXNORM", "IN", "42", "kneeine"),
    (KNEE, "S", "HPO", "PT", "HP:9900001", "knee wandering"),
    (KNEE, "S", "ORPHANET", "PT", "7001", "rare knee"),
    (LEG, "P", "MSH", "PM", "D900001", "leg that wanders"),
    (LEG, "S", "MADEUP", "PT", "x-1", "made-up leg"),
    (LEG, "S", "RXNORM", "IN", "99000001", "legine"),
    (LEG, "S", "MTH", "PN", "NOCODE", "leg"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    release = tmp_path_factory.mktemp("release")
    rows = [
        f"{cui}|ENG|{ts}|L{n:07d}|PF|S{n:07d}|Y|A{n:08d}||{code}||{sab}|{tty}|{code}|{name}|0|N||"
        for n, (cui, ts, sab, tty, code, name) in enumerate(sorted(ATOMS))
    ]
    (release / "MRCONSO.RRF").write_text("\n".join(rows) + "\n", encoding="utf-8")
    own = [Concept("LOCAL:1", "LOCAL", names=[Name("shin", "LOCAL")], codes=[("MSH", "D900001"), ("DOID", "DOID:9001"), ("LOCAL", "1")])]
    out = tmp_path_factory.mktemp("codes") / "kb"
    build_kb([Source("release", read(release, kind="rrf")), Source("own", own)], out)
    return out


@pytest.fixture(scope="module")
def kb(folder: Path) -> KnowledgeBase:
    return KnowledgeBase(folder)


def test_an_id_with_a_colon_before_it_is_another_text(kb: KnowledgeBase) -> None:
    assert f":{KNEE}" not in kb
    assert curies.split(f":{KNEE}") == ("", f":{KNEE}")


@pytest.mark.parametrize(
    ("given", "concept_id"),
    [
        ("MSH:D900001", KNEE),
        ("MESH:D900001", KNEE),
        ("mesh:d900001", KNEE),
        (" MeSH: D900001", KNEE),
        ("HP:9900001", KNEE),
        ("hp:9900001", KNEE),
        ("HPO:HP:9900001", KNEE),  # as `kb_codes` writes them
        ("http://purl.obolibrary.org/obo/HP_9900001", KNEE),
        ("OMIM:900100", KNEE),
        ("MIM:900100", KNEE),
        ("SNOMEDCT_US:99000001", KNEE),
        ("SNOMEDCT:99000001", KNEE),
        ("SCTID:99000001", KNEE),
        ("SNOMED-CT:99000001", KNEE),
        ("RXNORM:42", KNEE),
        ("RxCUI:42", KNEE),
        ("RXNORM:99000001", LEG),  # the number is also a code of SNOMED CT
        ("ICD10CM:M99.9", HIP),
        ("ICD-10-CM:m99.9", HIP),
        ("ORPHA:7001", KNEE),  # the release calls this vocabulary ORPHANET
        ("Orphanet:7001", KNEE),
        ("ORDO:7001", KNEE),
        ("MADEUP:x-1", LEG),  # a vocabulary without another spelling
        ("madeup:x-1", LEG),
        ("UMLS:C9000002", KNEE),
        ("umls:C9000002", KNEE),
        ("DOID:9001", "LOCAL:1"),
        ("LOCAL:1", "LOCAL:1"),
        (KNEE, KNEE),
    ],
)
def test_ways_to_write_a_code(kb: KnowledgeBase, given: str, concept_id: str) -> None:
    assert given in kb
    assert kb.concept_id(kb.row_of(given)) == concept_id
    assert kb[given] == kb.cui_to_entity[given] == kb.get(given)
    assert kb[given].concept_id == concept_id


@pytest.mark.parametrize(
    "unknown",
    [
        "MESH:D900002",
        "D900001",
        "99000001",
        "ICD10CM:99000001",
        "NOWHERE:1",
        "MADEUP:X-2",
        "MTH:NOCODE",
        "MESH:",
        ":D900001",
        "UMLS:C9999999",
        "MSH",
        None,
        1,
    ],
)
def test_unknown_codes(kb: KnowledgeBase, unknown: str) -> None:
    assert unknown not in kb
    assert kb.rows_of(unknown) == []
    assert kb.get(unknown) is None
    with pytest.raises(KeyError):
        kb[unknown]


def test_a_code_of_several_concepts_begins_with_its_preferred_name(kb: KnowledgeBase) -> None:
    """By term type (there is no MRRANK), MH comes before PM and PM before ET, although ET is first in the table; later sources come after."""
    assert [kb.concept_id(row) for row in kb.rows_of("MESH:D900001")] == [KNEE, HIP, LEG, "LOCAL:1"]
    assert kb.rows_of_code(["99000001"]) == [kb.row_of(KNEE), kb.row_of(LEG)]  # of any vocabulary


def test_an_own_id_goes_before_codes(tmp_path: Path) -> None:
    concepts = [
        Concept("X:1", "X", names=[Name("one", "X")], codes=[("X", "X:2")], retired=["X:9"]),
        Concept("X:2", "X", names=[Name("two", "X")], codes=[("X", "X:9"), ("X", "X:2")]),
    ]
    kb = build_kb([Source("x", concepts)], tmp_path / "kb")
    assert (kb.rows_of("X:2"), kb.rows_of("X:9"), kb.rows_of("x:2")) == ([1], [0], [0, 1])


def test_of_equal_ranks_the_one_read_first_is_the_best(tmp_path: Path) -> None:
    codes = [("MSH", "D1")]
    made = [Concept(i, "T", names=[Name(i, "T")], codes=codes) for i in ("T:2", "T:1")]
    kb = build_kb([Source("t", made)], tmp_path / "kb")
    assert [kb.concept_id(row) for row in kb.rows_of("MESH:D1")] == ["T:2", "T:1"]


def test_the_knowledge_base_is_a_mapping_of_concept_ids(kb: KnowledgeBase) -> None:
    assert list(kb) == [HIP, KNEE, LEG, "LOCAL:1"] == list(kb.cui_to_entity)
    assert kb.vocabularies_by_size[:2] == ["MSH", "UMLS"]


def test_codes_are_found_by_an_index(folder: Path) -> None:
    database = sqlite3.connect(folder / DATABASE)
    plan = " ".join(
        row[3]
        for row in database.execute("EXPLAIN QUERY PLAN SELECT vocabulary, concept FROM code WHERE code IN (?, ?) ORDER BY rank, rowid", ("a", "b"))
    )
    database.close()
    assert "USING INDEX code_code" in plan


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_is_a_question(kb: KnowledgeBase, prefix: str, local: str) -> None:
    assert isinstance(kb.rows_of(f"{prefix}:{local}"), list)


def test_vocabularies_of_ids_in_words() -> None:
    assert curies.vocabularies_in_words(["MESH:D1", "mesh:D2", "OMIM:1", "12", "C9000001"]) == "MSH (2), OMIM (1), UMLS (1), no vocabulary (1)"
