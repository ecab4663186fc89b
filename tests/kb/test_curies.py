from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.kb import curies


@pytest.mark.parametrize(
    ("text", "canonical", "code", "vocabulary"),
    [
        ("HP:0001250", "HP:0001250", ("HPO", "HP:0001250"), "HPO"),
        ("SNOMEDCT_US_2018_03_01:84757009", "SNOMEDCT_US:84757009", ("SNOMEDCT_US", "84757009"), "SNOMEDCT_US"),
        ("SCTID:84757009", "SNOMEDCT_US:84757009", ("SNOMEDCT_US", "84757009"), "SNOMEDCT_US"),
        ("mesh:D012640", "MESH:D012640", ("MSH", "D012640"), "MSH"),
        ("NCI2004_11_17:C2985", "NCIT:C2985", ("NCI", "C2985"), "NCI"),
        ("http://purl.obolibrary.org/obo/NCIT_C17425", "NCIT:C17425", ("NCI", "C17425"), "NCI"),
        ("http://purl.obolibrary.org/obo/DOID_8718", "DOID:8718", ("DOID", "DOID:8718"), "DOID"),
        ("http://www.orpha.net/ORDO/Orphanet_124", "Orphanet:124", ("ORDO", "124"), "ORDO"),
        ("ORPHA:124", "Orphanet:124", ("ORDO", "124"), "ORDO"),
        ("MIM:215600", "OMIM:215600", ("OMIM", "215600"), "OMIM"),
        ("MedDRA:10064063", "MEDDRA:10064063", ("MDR", "10064063"), "MDR"),
        ("ICD9CM_2006:707.0", "ICD9CM:707.0", ("ICD9CM", "707.0"), "ICD9CM"),
        ("ICD-10:Q82.4", "ICD10:Q82.4", ("ICD10", "Q82.4"), "ICD10"),
        (" UMLS_CUI:C9000001", "C9000001", None, "UMLS"),
        ("umls:C9000001", "C9000001", None, "UMLS"),
        ("C9000001", "C9000001", None, "UMLS"),
        ("UMLS_ICD9CM_2005_AUI:A0123456", "UMLS_ICD9CM_2005_AUI:A0123456", None, "UMLS_ICD9CM_2005_AUI"),
        ("MTH:NOCODE", "MTH:NOCODE", None, "MTH"),
        ("http://en.wikipedia.org/wiki/Knee", "http://en.wikipedia.org/wiki/Knee", None, "LOCAL"),
        ("knee", "knee", None, "LOCAL"),
    ],
)
def test_spellings(text: str, canonical: str, code: tuple[str, str] | None, vocabulary: str) -> None:
    assert curies.canonical(text) == canonical
    assert curies.code(text) == code
    assert curies.vocabulary_of(text) == vocabulary


def test_only_umls_has_cuis() -> None:
    assert curies.cui("UMLS:C9000001") == "C9000001"
    # MeSH and NCIt also have ids that begin with C; those of NCIt may get seven digits
    assert [curies.cui(c) for c in ("MESH:C565588", "NCIT:C1234567", "C565588", "UMLS:C123", "C000656784")] == [None] * 5


@given(st.text(max_size=30))
def test_canonical_is_stable(text: str) -> None:
    once = curies.canonical(text)
    assert curies.canonical(once) == once


@pytest.mark.parametrize(
    "text", ["MESH:D003924", "foo:123", "ICD10CM:E11.9", "C9000001", "UMLS:C9000001", "http://purl.obolibrary.org/obo/HP_0001250"]
)
def test_what_looks_like_an_id(text: str) -> None:
    assert curies.looks_like_id(text)


@pytest.mark.parametrize(
    "text", ["cough", "Dx: type 2 diabetes", "Dx:diabetes", "t(9;22)", "1:500", "BP: 120/80", "http://example.org/notes", "C900"]
)
def test_what_does_not(text: str) -> None:
    assert not curies.looks_like_id(text)


def test_why_no_concept_has_an_id() -> None:
    has = ["UMLS", "MSH", "HPO"]
    assert curies.why_unknown("mesh:D9", has) == "no concept has the code 'mesh:D9' of MSH"
    assert curies.why_unknown("C9999999", has) == "no concept has the code 'C9999999' of UMLS"
    assert curies.why_unknown("FOO:1", has) == "the knowledge base has no code of FOO. It has codes of UMLS, MSH, HPO"
    assert curies.why_unknown("knee", has) == "no concept has the id 'knee'"
