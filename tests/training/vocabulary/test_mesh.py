"""MeSH: its names, kinds and mappings, and the parts that are left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacy_sapbert.kb.builder import Source, build_kb
from spacy_sapbert.kb.concept import Concept, Name
from training.vocabulary import make, mesh


@pytest.mark.parametrize(
    ("heading", "entries", "preferred", "others"),
    [
        ("Abdomen, Acute", "Abdomens, Acute|Acute Abdomen|Acute Abdomens", ["Acute Abdomen"], []),
        (
            "Heart Diseases",
            "Heart Disease|Cardiac Diseases|Cardiac Disease|Disease, Cardiac",
            ["Heart Disease", "Heart Diseases"],
            ["Cardiac Disease"],
        ),
        ("Exophthalmos", "Proptosis|Proptoses|Exophthalmoses", ["Exophthalmos"], ["Proptosis"]),
        ("Gout", "a name of so many words that nobody writes it", ["Gout"], []),
        ("Deficiency, A, B", "", ["Deficiency, A, B"], []),
    ],
)
def test_names_as_people_write_them(heading: str, entries: str, preferred: list[str], others: list[str]) -> None:
    names = mesh.names_of(heading, entries.split("|") if entries else [])
    assert [name.text for name in names if name.rank == 0] == preferred
    assert [name.text for name in names if name.term_type == mesh.ENTRY] == others
    assert len(names) == len(preferred) + len(others)


@pytest.mark.parametrize(
    ("trees", "types"),
    [
        (["C14.280"], ["T047"]),
        (["C04.557", "C15.378"], ["T191", "T047"]),
        (["C23.888.592"], ["T184"]),
        (["A08.186", "C10.228"], ["T047"]),  # it is under a disorder and a part of the body; the disorder is used
        (["D02.1", "D09.2"], ["T121"]),
        (["C22.1"], []),
        (["E05.1", "Z01"], []),
        ([], []),
    ],
)
def test_types_by_tree_number(trees: list[str], types: list[str]) -> None:
    assert mesh.types_of(trees) == types


def written(folder: Path) -> list[Path]:
    tables = {
        "headings.tsv": "D1\tFever\tFevers|Pyrexia\tC23.888.1\t\nD2\tProtein Corona\tCorona, Protein\tD12.776\t\nD3\tAspirin\t\tD02.455\t\nD4\tGeography\t\tH01\t\n"
        "D5\tRecurrence\t\tC23.550.1\t\n",
        "supplementary.tsv": "C1\tFamilial fever\tfever, familial|periodic fever\tD1\nC2\ta protein\t\tD2\nC3\ta place\t\tD4,D9\n",
        "mappings.tsv": "#curie_map:\nsubject_id\tsubject_label\tpredicate_id\tobject_id\nmesh:D1\tFever\tskos:exactMatch\thp:0001945\n"
        "doid:1\tx\tskos:exactMatch\tumls:C0000001\nmesh:D1\tFever\tskos:broadMatch\tncit:C1\nmesh:D1\tFever\tskos:exactMatch\tgo:1\ndoid:1\tx\tskos:exactMatch\thp:2\n",
    }
    for name, text in tables.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in tables]


def test_what_is_read(tmp_path: Path) -> None:
    found = [(c.concept_id, [n.text for n in c.names], c.types, c.same_as, c.cuis) for c in mesh.read_mesh(written(tmp_path))]
    assert found == [
        ("MESH:D1", ["Fever", "Pyrexia"], ["T184"], [], []),
        ("MESH:D2", ["Protein Corona"], ["T121"], [], []),
        ("MESH:D3", ["Aspirin"], ["T121"], [], []),
        ("MESH:D5", ["Recurrence"], ["T046"], [], []),
        ("MESH:C1", ["Familial fever", "periodic fever"], ["T184"], [], []),
        ("MESH:C2", ["a protein"], ["T121"], [], []),
        ("MESH:D1", [], [], ["HP:0001945"], []),
        ("DOID:1", [], [], [], ["C0000001"]),
    ]


def test_drugs_and_processes_need_the_name_of_another_source(tmp_path: Path) -> None:
    others = [Concept("C0000004", "RXNORM", [Name("aspirin", "RXNORM")], types=["T121"])]
    kept = mesh.with_known_names([Source("rxnorm", iter(others), "rxnorm"), Source("mesh", mesh.read_mesh(written(tmp_path)), mesh.KIND)])
    assert [c.concept_id for c in kept[1].concepts if c.names] == ["MESH:D1", "MESH:D3", "MESH:C1"]
    assert [c.concept_id for c in kept[0].concepts] == ["C0000004"]


def test_an_entry_term_gives_way_to_a_concept_that_bears_it(tmp_path: Path) -> None:
    entries = [Name("Neoplasms", "MSH", term_type="PT", rank=0), *(Name(text, "MSH", term_type=mesh.ENTRY, rank=2) for text in ("Cancer", "Growth"))]
    concepts = [
        Concept("MESH:D1", "MSH", entries, types=["T191"]),
        Concept("C0000001", "MONDO", [Name("cancer", "MONDO", term_type="PT", rank=0)], types=["T191"]),
    ]
    kb = build_kb([Source("made up", concepts)], tmp_path / "kb")
    borne = make._borne(kb)
    row = kb.row_of("MESH:D1")
    assert [name.text for name in kb.concept(row).names if not make._yields(name, row, borne)] == ["Neoplasms", "Growth"]
