"""The small formats: mondo_json, sssom, scispacy, biosyn and table."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.readers.medic import identifier

from .helpers import DATA, error_code, read_all, real


def test_mondo_json() -> None:
    concepts, stats = read_all(DATA / "tiny_mondo.json")
    assert (stats.kind, stats.rows) == ("mondo_json", 5)
    disease, toy, rash, replaced = concepts
    assert [(n.text, n.term_type) for n in disease.names] == [("disease", "PT"), ("disorder", "SY")]
    assert (toy.definition, toy.parents, toy.codes) == ("Red.", ["MONDO:0000011"], [("MONDO", "MONDO:0000010")])  # only distance 1 is a parent
    assert rash.parents == ["MONDO:0000001"]
    assert (replaced.concept_id, replaced.retired, replaced.names) == ("MONDO:0000011", ["MONDO:0000012"], [])


def test_mondo_json_malformed(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"MONDO:1": {"label": "a", "ancestors": {}}, "MONDO:2": {"label": null}}')
    with pytest.warns(UserWarning, match=r"1 of 2 rows.*MONDO:2"):
        assert len(read_all(path)[0]) == 1


@pytest.mark.data
def test_real_mondo() -> None:
    concepts, stats = read_all(real("ontologies/mondo/MONDO-ontology-v2026-05-05.json.zst"))
    assert (stats.version, stats.rows) == ("2026-05-05", 31_958)
    named = [c for c in concepts if c.names]
    assert (len(named), sum(len(c.names) for c in named), sum(bool(c.definition) for c in named)) == (27_990, 27_990 + 70_432, 19_315)
    assert sum(len(c.retired) for c in concepts) == 2221


def test_sssom() -> None:
    concepts, stats = read_all(DATA / "tiny.sssom.tsv")
    assert (stats.kind, stats.version, stats.rows, stats.concepts) == ("sssom", "2026-08-04", 5, 4)
    assert [(c.concept_id, c.source, c.cuis, c.same_as, c.codes) for c in concepts] == [
        ("MONDO:0000010", "MONDO", ["C9000001"], [], []),  # the unpaired quote in this row's label does not swallow other rows
        ("MONDO:0000011", "MONDO", ["C9000002"], [], []),  # UMLS on the left
        ("MONDO:0000011", "MONDO", [], ["SNOMEDCT_US:84757009"], [("SNOMEDCT_US", "84757009")]),
        ("MONDO:0000011", "MONDO", [], ["MESH:C567144"], [("MSH", "C567144")]),
    ]
    assert len(read_all(DATA / "tiny.sssom.tsv", predicates=["skos:broadMatch"])[0]) == 1


def test_sssom_without_a_column(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("subject_id\tobject_id\nA:1\tB:1\n")
    with pytest.raises(SapbertError, match=r"predicate_id is missing; found: subject_id, object_id") as error:
        read_all(path)
    assert error_code(error) == "E402"


def test_negated_and_broken_mappings(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    rows = ["A:1\tskos:exactMatch\tB:1\tNot", "A:2\tskos:exactMatch\tB:2\t", "A:3\tskos:exactMatch", "A:4\tskos:exactMatch\tB4\t"]
    path.write_text("\n".join(["subject_id\tpredicate_id\tobject_id\tpredicate_modifier", *rows]))
    with pytest.warns(UserWarning, match=r"lines 4, 5\)"):
        concepts, _ = read_all(path)
    assert [(c.concept_id, c.same_as) for c in concepts] == [("A:2", ["B:2"])]


@pytest.mark.parametrize(
    ("name", "rows"), [("umls", 21_660), ("mesh", 8181), ("omim", 10_045), ("ncit", 7304), ("doid", 11_966), ("orphanet", 9785), ("sctid", 9120)]
)
@pytest.mark.data
def test_real_mappings(name: str, rows: int) -> None:
    concepts, stats = read_all(real(f"ontologies/mondo/mondo_exactmatch_{name}.sssom.tsv.gz"))
    assert (stats.rows, len(concepts), stats.malformed, stats.version) == (rows, rows, 0, "2026-08-04")
    assert sum(len(c.cuis) for c in concepts) == (rows if name == "umls" else 0)
    assert sum(len(c.same_as) for c in concepts) == (0 if name == "umls" else rows)
    assert {c.source for c in concepts} == {"MONDO"}


def test_scispacy_lines_and_list(tmp_path: Path) -> None:
    concepts, stats = read_all(DATA / "tiny_scispacy.jsonl")
    assert stats.kind == "scispacy"
    cough, hpo = concepts
    assert [(n.text, n.term_type, n.source) for n in cough.names] == [("Toy cough", "PT", "UMLS"), ("cough, toy", "SY", "UMLS")]
    assert (cough.types, cough.definition, cough.codes) == (["T184"], "A cough.", [])
    assert (hpo.source, hpo.codes, hpo.definition) == ("HPO", [("HPO", "HP:0012735")], None)
    records = [json.loads(line) for line in (DATA / "tiny_scispacy.jsonl").read_text().splitlines()]
    path = tmp_path / "list.json"
    path.write_text(json.dumps(records))
    assert read_all(path)[0] == concepts
    assert {c.source for c in read_all(path, source="TOY")[0]} == {"TOY"}


def test_scispacy_malformed(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"concept_id": "C9000001", "canonical_name": "a"}\n{"concept_id": "C9000002"}\n{"concept_id": "C90\n[1]\n')
    with pytest.warns(UserWarning, match=r"3 of 4.*lines 2, 3, 4\).*no canonical_name"):
        assert len(read_all(path)[0]) == 1


def test_biosyn() -> None:
    concepts, stats = read_all(DATA / "tiny_medic.txt")
    assert (stats.kind, stats.rows) == ("biosyn", 5)
    assert [c.concept_id for c in concepts] == ["MESH:C565588", "MESH:C567755", "OMIM:145250", "MESH:D065008", "MESH:C000656784"]
    teeth = concepts[1]
    assert [(n.text, n.term_type) for n in teeth.names] == [("Toy Teeth, Selective, 6", "PT"), ("TTS6", "SY")]
    assert (teeth.same_as, teeth.codes, teeth.retired, teeth.cuis) == (["OMIM:613097"], [("MSH", "C567755"), ("OMIM", "613097")], [], [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("C565588", "MESH:C565588"),
        ("C000656784", "MESH:C000656784"),
        ("C5655880", "C5655880"),
        ("D003924", "MESH:D003924"),
        ("D000082602", "MESH:D000082602"),
    ]
    + [("145250", "OMIM:145250"), ("mesh:D1", "MESH:D1"), ("C", None), ("C56558", None), ("", None), ("١٢", None)],
)
def test_mesh_ids_are_never_cuis(text: str, expected: str | None) -> None:
    assert identifier(text) == expected


@pytest.mark.data
def test_real_medic() -> None:
    with pytest.warns(UserWarning, match=r"1 of 11,915.*lines 38\)"):  # `C||Diseases`: a tree number
        concepts, _ = read_all(real("dictionaries/medic_06Jul2012.txt.gz"))
    assert len({c.concept_id for c in concepts}) == len(concepts) == 11_914
    assert not any(c.cuis for c in concepts)
    assert sum(len(c.same_as) for c in concepts) == 3028


def test_table() -> None:
    concepts, stats = read_all(DATA / "tiny_table.tsv")
    assert (stats.kind, stats.rows) == ("table", 3)
    cough, sneeze = concepts
    assert [tuple(n) for n in cough.names] == [
        ("toy cough", "X", "en", "PT", 0),
        ("cough of toys", "X", "en", "SY", 1),
        ('"dry" toy cough', "X", "en", "SY", 1),
        ("tos de juguete", "X", "es", "SY", 1),
    ]
    assert cough.codes == [("HPO", "HP:0012735"), ("LOCALDB", "7")]
    assert (cough.types, cough.definition, cough.cuis) == (["T184"], "A cough.", ["C9000001"])
    assert [tuple(n) for n in sneeze.names] == [("toy sneeze", "X", "en", "AB", 3)]
    assert (sneeze.types, sneeze.parents) == (["T184", "T033"], ["X:1"])


def test_a_table_with_several_definitions_of_a_concept(tmp_path: Path) -> None:
    rows = ["concept_id\tname\tdefinition", "X:1\tcough\tOne.", "X:1\thack\t", "X:1\ttussis\tTwo.", "X:1\tbark\tOne.", "X:2\tsneeze\t"]
    (tmp_path / "toy.tsv").write_text("\n".join(rows))
    concepts, stats = read_all(tmp_path / "toy.tsv")
    assert [(c.concept_id, len(c.names), c.definition) for c in concepts] == [("X:1", 4, "One."), ("X:1", 0, "Two."), ("X:2", 1, None)]
    assert (stats.rows, stats.malformed) == (5, 0)


def test_table_as_csv(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('concept_id,name,synonyms\nC9000001,"cough, ""dry""",a|b\nC9000001,second,\n')
    (concept,) = read_all(path)[0]
    assert [(n.text, n.term_type, n.source) for n in concept.names] == [
        ('cough, "dry"', "PT", "UMLS"),
        ("a", "SY", "UMLS"),
        ("b", "SY", "UMLS"),
        ("second", "SY", "UMLS"),
    ]
    path.write_text('concept_id,name\nX:1,"never closed\nX:2,b\n')
    with pytest.raises(SapbertError, match="line 3") as error:
        read_all(path)
    assert error_code(error) == "E403"


def test_table_errors(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("concept_id\tlabel\nX:1\ta\n")
    with pytest.raises(SapbertError, match=r"column name is missing; found: concept_id, label") as error:
        read_all(path)
    assert error_code(error) == "E402"
    path.write_text("concept_id\tname\tcuis\nX:1\ta\t\n\tno id\nX:2\nX:3\tb\tC1\nX:4\tc\td\te\n")
    with pytest.warns(UserWarning, match=r"4 of 5.*lines 3, 4, 5, 6\)"):
        assert [c.concept_id for c in read_all(path)[0]] == ["X:1"]


def test_a_header_with_a_cell_that_is_too_long_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("concept_id,name," + "x" * 140_000 + "\nC0000001,fever,\n", encoding="utf-8")
    before = csv.field_size_limit(131_072)  # Python's own limit, which other tests of this process may have raised
    try:
        with pytest.raises(SapbertError, match=r"line 1: field larger than field limit") as error:
            read_all(path)
    finally:
        csv.field_size_limit(before)
    assert error_code(error) == "E402"


def test_a_table_of_names_of_another_vocabulary(tmp_path: Path) -> None:
    """`id TAB name` without a header, and `id||name` with numbers that are neither from MeSH nor from OMIM."""
    path = tmp_path / "names.tsv"
    path.write_text("22298006\theart attack | MI\tleft out\nA.1\todd\nHP:1\tshort\n\n7\n", encoding="utf-8")
    concepts, stats = read_all(path, kind="biosyn", vocabulary="SNOMEDCT_US", max_bad_share=0.5)
    assert [(c.concept_id, c.source, [n.text for n in c.names], c.codes) for c in concepts] == [
        ("SNOMEDCT_US:22298006", "SNOMEDCT_US", ["heart attack | MI"], [("SNOMEDCT_US", "22298006")]),
        ("SNOMEDCT_US:A.1", "SNOMEDCT_US", ["odd"], [("SNOMEDCT_US", "A.1")]),
        ("HP:1", "SNOMEDCT_US", ["short"], [("HPO", "HP:1")]),
    ]
    assert stats.malformed == 1
    path.write_text("22298006||heart attack|MI\n", encoding="utf-8")
    (concept,), _ = read_all(path, vocabulary="SNOMEDCT_US")
    assert [name.text for name in concept.names] == ["heart attack", "MI"]
    assert [c.concept_id for c in read_all(path)[0]] == ["OMIM:22298006"]  # without a vocabulary, digits are OMIM ids


def test_ctd_chemicals() -> None:
    concepts, stats = read_all(DATA / "tiny_ctd.tsv")
    assert (stats.kind, stats.rows, stats.version) == ("ctd", 2, "Tue Jun 06 11:31:46 EDT 2017")
    salt, oil = concepts
    assert (salt.concept_id, salt.source, salt.definition) == ("MESH:D000001", "CTD", "A salt that is not.")
    assert [(n.text, n.term_type, n.rank) for n in salt.names] == [("toy salt", "PT", 0), ("salt of toys", "SY", 1), ('sodium "toyide"', "SY", 1)]
    assert (salt.codes, salt.parents) == ([("MSH", "D000001")], ["MESH:D000002", "MESH:D000003"])
    assert (oil.concept_id, [n.text for n in oil.names]) == ("MESH:C046983", ["play oil"])  # earlier releases have bare ids


def test_ctd_diseases_and_what_is_no_row_of_them(tmp_path: Path) -> None:
    path = tmp_path / "CTD_diseases.tsv"
    head = "# DiseaseName\tDiseaseID\tAltDiseaseIDs\tDefinition\tParentIDs\n"
    path.write_text(f"{head}#\ntoy fever\tMESH:D000009\tDO:DOID:7|OMIM:100\t\t\n\tMESH:D000001\n\nodd\tfever\n", encoding="utf-8")
    (fever,), stats = read_all(path, max_bad_share=0.9)
    assert (fever.source, fever.same_as) == ("MEDIC", ["DOID:7", "OMIM:100"])
    assert fever.codes == [("MSH", "D000009"), ("DOID", "DOID:7"), ("OMIM", "100")]
    assert (stats.malformed, stats.bad_lines) == (2, [4, 6])
    path.write_text("toy fever\tMESH:D000009\n", encoding="utf-8")
    with pytest.raises(SapbertError, match="no comment names the columns") as error:
        read_all(path, kind="ctd")
    assert error_code(error) == "E402"


@pytest.mark.data
def test_the_real_ctd_diseases() -> None:
    concepts, stats = read_all(real("dictionaries/CTD_diseases.tsv.gz"))
    assert (stats.rows, stats.malformed, len(concepts), sum(len(c.names) for c in concepts)) == (11865, 0, 11865, 77994)
