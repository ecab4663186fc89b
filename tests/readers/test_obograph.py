from __future__ import annotations

import json
from pathlib import Path

import pytest

from spacy_sapbert.errors import SapbertError

from .helpers import DATA, by_id, error_code, read_all, real


def test_nodes_then_edges() -> None:
    concepts, stats = read_all(DATA / "tiny_graph.json")
    assert (stats.kind, stats.version, stats.rows) == ("obograph", "2018-07-05", 7)
    fever, disease, replaced, mild, *edges = concepts
    assert [(n.text, n.term_type) for n in fever.names] == [("toy fever", "PT"), ("febrile toy", "SY"), ("train fever", "NRW"), ("TF", "AB")]
    assert (fever.concept_id, fever.source, fever.definition) == ("DOID:1", "DOID", "Fever of toys.")
    assert fever.cuis == ["C9000003"]  # in the file, there is a space before it
    assert fever.codes == [("DOID", "DOID:1"), ("NCI", "C2985"), ("ORDO", "124"), ("NCI", "C3")]  # MTH:NOCODE is not a code
    assert (fever.retired, fever.same_as) == (["DOID:8"], ["NCIT:C3"])
    assert (disease.names[0].text, mild.names[0].text) == ("disease", "toy fever, mild")
    assert (replaced.concept_id, replaced.retired, replaced.names) == ("DOID:1", ["DOID:3"], [])
    # not the edge of the deprecated class
    assert [(e.concept_id, e.parents, e.relations) for e in edges] == [
        ("DOID:1", ["DOID:2"], []),
        ("DOID:5", ["DOID:1"], []),
        ("DOID:1", [], [("has_phenotype", "SYMP:1")]),
    ]


def test_relations(tmp_path: Path) -> None:
    obo = "http://purl.obolibrary.org/obo/"
    nodes = [{"id": f"{obo}NCIT_C{i}", "type": "CLASS", "lbl": f"term {i}"} for i in (1, 2, 3)]
    nodes.append({"id": f"{obo}NCIT_R108", "type": "PROPERTY", "lbl": "Disease_Has_Finding"})
    nodes.append({"id": f"{obo}NCIT_C4", "type": "CLASS", "lbl": "gone", "meta": {"deprecated": True}})
    edges = [
        (f"{obo}NCIT_C1", f"{obo}NCIT_R108", f"{obo}NCIT_C2"),
        (f"{obo}NCIT_C1", f"{obo}BFO_0000050", f"{obo}UBERON_0000001"),  # its name is known without the file
        (f"{obo}NCIT_C1", f"{obo}NCIT_R999", f"{obo}NCIT_C3"),  # the relation has no name
        (f"{obo}NCIT_C1", f"{obo}NCIT_R108", f"{obo}NCIT_C4"),
        (f"{obo}UBERON_0000001", f"{obo}NCIT_R108", f"{obo}NCIT_C2"),  # the subject is an imported term
        (f"{obo}NCIT_C1", "hasExactSynonym", "a text"),
        (f"{obo}NCIT_C2", "is_a", f"{obo}NCIT_C3"),
    ]
    path = tmp_path / "x.json"
    graph = {"id": f"{obo}ncit.owl", "nodes": nodes, "edges": [dict(zip(("sub", "pred", "obj"), edge)) for edge in edges]}
    path.write_text(json.dumps({"graphs": [graph]}), encoding="utf-8")
    concepts, stats = read_all(path)
    assert [(c.concept_id, c.relations) for c in concepts if c.relations] == [
        ("NCIT:C1", [("disease_has_finding", "NCIT:C2")]),
        ("NCIT:C1", [("part_of", "UBERON:0000001")]),
    ]
    assert [(c.concept_id, c.parents) for c in concepts if c.parents] == [("NCIT:C2", ["NCIT:C3"])]
    assert stats.left_out == {"relations without a name": 1}


def test_exclude() -> None:
    assert set(by_id(read_all(DATA / "tiny_graph.json", exclude=["DOID:1"])[0])) == {"DOID:2", "DOID:1"}  # DOID:1 only as replacement of DOID:3
    assert not [c for c in read_all(DATA / "tiny_graph.json", exclude=["DOID:1"])[0] if c.parents]
    slim, _ = read_all(DATA / "tiny_graph.json", exclude_subsets=["toy_slim"])
    assert {c.concept_id for c in slim if c.names} == {"DOID:2", "DOID:5"}
    assert {c.concept_id for c in read_all(DATA / "tiny_graph.json", prefixes=["chebi"])[0]} == {"CHEBI:1"}


def test_order_of_keys_does_not_matter(tmp_path: Path) -> None:
    graph = json.loads((DATA / "tiny_graph.json").read_text())["graphs"][0]
    path = tmp_path / "turned.json"
    path.write_text("\ufeff" + json.dumps({"graphs": [{k: graph[k] for k in ("id", "meta", "edges", "nodes")}]}), encoding="utf-8")
    assert read_all(path)[0] == read_all(DATA / "tiny_graph.json")[0]


def test_damaged_json(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_text((DATA / "tiny_graph.json").read_text()[:1500])
    with pytest.raises(SapbertError, match="whole JSON") as error:
        read_all(path)
    assert error_code(error) == "E402"
    path.write_text('{"graphs": []}')
    with pytest.raises(SapbertError, match="nodes") as error:
        read_all(path)
    assert error_code(error) == "E402"


@pytest.mark.parametrize(
    ("name", "version", "terms", "names", "with_cui"),
    [
        ("doid/doid-2018-07-05.json.gz", "2018-07-05", 8906, 8906 + 14_396, 5947),
        ("ncit/ncit-disease-2018-06-08.json.gz", None, 20_324, 20_324 + 61_741, 0),
        ("ordo/ordo-2_6-2018-07-12.json.gz", "2.6", 9090, 21_090, 4650),
    ],
)
@pytest.mark.data
def test_real_ontologies(name: str, version: str, terms: int, names: int, with_cui: int) -> None:
    concepts, stats = read_all(real(f"ontologies/{name}"))
    assert (stats.version, stats.malformed) == (version, 0)
    assert sum(bool(c.names) for c in concepts) == terms
    assert sum(len(c.names) for c in concepts) == names
    assert sum(bool(c.cuis) for c in concepts) == with_cui


@pytest.mark.data
def test_ordo_leaves_genes_and_countries_out_unless_asked() -> None:
    path = real("ontologies/ordo/ordo-2_6-2018-07-12.json.gz")
    kept, everything = read_all(path)[0], read_all(path, exclude=())[0]
    labels = {c.names[0].text for c in kept if c.names}
    assert not labels & {"cyclin O", "Germany", "autosomal dominant", "childhood"}
    assert "Marfan syndrome" in labels
    assert {"cyclin O", "Germany"} <= {c.names[0].text for c in everything if c.names}
    assert sum(bool(c.names) for c in everything) == 13_870  # all classes except ObsoleteClass, which has no Orphanet id
    assert sum(len(c.retired) for c in kept) == 721  # "use http://www.orpha.net/ORDO/Orphanet_…"
