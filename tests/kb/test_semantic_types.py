from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.kb import semantic_types

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("SPACY_SAPBERT_DATA", ROOT.parent / "shared" / "data"))


def test_the_127_types() -> None:
    types = semantic_types.load()
    assert len(types) == len({t.name for t in types.values()}) == len({t.stn for t in types.values()}) == 127
    assert types["T047"] == semantic_types.SemanticType("T047", "Disease or Syndrome", "B2.2.1.2.1", "DISO")
    assert types["T121"][1:] == ("Pharmacologic Substance", "A1.4.1.1.1", "CHEM")


@pytest.mark.data
def test_names_and_groups_equal_sty_obo() -> None:
    path = SHARED / "ontologies" / "semantic_types" / "sty.obo"
    if not path.exists():
        pytest.skip(f"{path} is not there; set SPACY_SAPBERT_DATA")
    found = re.findall(r"id: sty:(T\d{3})\nname: (.+)\n(?:.+\n)*?is_a: (\w+)", path.read_text(encoding="utf-8"))
    assert {(t.tui, t.name, t.group) for t in semantic_types.load().values()} == {(tui, name.replace("\\", ""), group) for tui, name, group in found}


def test_groups_and_expand() -> None:
    groups = semantic_types.groups()
    assert len(groups) == 15
    assert groups["DISO"] == frozenset("T019 T020 T033 T037 T046 T047 T048 T049 T050 T184 T190 T191".split())  # noqa: SIM905
    assert sum(map(len, groups.values())) == 127
    assert semantic_types.expand(["t047", "Sign or Symptom", "devi"]) == {"T047", "T184", "T074", "T075", "T203"}
    assert semantic_types.expand([]) == frozenset()
    with pytest.raises(SapbertError, match=r"T999.*DISO") as error:
        semantic_types.expand(["T047", "T999"])
    assert error.value.code == "E104"


def test_a_retired_type_counts_as_the_one_that_is_used_now() -> None:
    assert [semantic_types.current(tui) for tui in ("T110", "T119", "T124", "T121", "T999")] == ["T109", "T109", "T123", "T121", "T999"]
    assert semantic_types.expand(["t110", "T047"]) == {"T109", "T047"}
    assert set(semantic_types.RETIRED).isdisjoint(semantic_types.load())
    assert set(semantic_types.RETIRED.values()) <= semantic_types.groups()["CHEM"]


def test_tree_has_scispacys_surface() -> None:
    tree = semantic_types.tree()
    assert (tree.depth, len(tree.flat_nodes), len(tree.type_id_to_node)) == (8, 128, 128)
    root, human, disease = tree.flat_nodes[-1], tree.get_node_from_id("T016"), tree.get_node_from_id("T047")
    assert (root.type_id, root.level, [c.type_id for c in root.children]) == ("UnknownType", 0, ["T071", "T051"])
    assert (human.level, disease.level) == (8, 6)
    assert tree.get_canonical_name("T184") == "Sign or Symptom"
    assert [n.type_id for n in tree.get_children(disease)] == ["T048", "T191"]
    assert tree.get_parent(root) is None
    above, node = [], human
    while (parent := tree.get_parent(node)) is not None:
        above.append(parent.full_name)
        node = parent
    assert above == ["Mammal", "Vertebrate", "Animal", "Eukaryote", "Organism", "Physical Object", "Entity", "UnknownType"]
    assert {n.type_id for n in tree.get_nodes_at_depth(2)} == {"T052", "T067", "T072", "T077"}
    collapsed = tree.get_collapsed_type_id_map_at_level(2)
    assert (collapsed["T191"], collapsed["T016"], collapsed["T052"], collapsed["T051"]) == ("T067", "T072", "T052", "T051")
    # levels as in scispaCy's file, also for types with gaps in their tree numbers
    assert [tree.get_node_from_id(t).level for t in ("T114", "T125", "T088", "T203", "T045", "T171")] == [7, 7, 6, 5, 7, 3]


def test_branch_types_are_types() -> None:
    for branch, types in semantic_types.branch_types().items():
        assert set(types) <= set(semantic_types.load()), branch
    assert semantic_types.branch_types()["HP:0000118"] == ("T033",)


def test_types_of_takes_the_nearest_branch() -> None:
    parents = {
        "HP:eye-tumour": ["HP:eye", "HP:tumour-by-site"],
        "HP:eye": ["HP:0000118"],
        "HP:tumour-by-site": ["HP:0002664"],
        "HP:0002664": ["HP:0000118"],
        "HP:0000118": ["HP:0000001"],
        "HP:both": ["HP:0002664", "HP:0012531"],
        "HP:0012531": ["HP:0025142"],
        "HP:near": ["HP:0002664", "HP:farther"],
        "HP:farther": ["HP:0012531"],
        "HP:cycle": ["HP:round"],
        "HP:round": ["HP:cycle"],
    }
    of = lambda term, vocabulary="HPO": semantic_types.types_of(term, vocabulary, lambda i: parents.get(i, ()))  # noqa: E731
    assert of("HP:eye") == ("T033",)
    assert of("HP:eye-tumour") == ("T191",)  # "Phenotypic abnormality" is as near, but it is above "Neoplasm"
    assert of("HP:0002664") == ("T191",)  # the branch itself
    assert of("HP:both") == ("T184", "T191")  # equally near
    assert of("HP:near") == ("T191",)
    assert of("HP:cycle") == of("HP:unheard-of") == ("T033",)  # the vocabulary's default
    assert of("X:1", "NOWHERE") == ()
    parents["HP:0000118"] = ["HP:0002664"]  # a cycle of listed branches
    assert of("HP:eye") == ("T033",)


def test_types_of_real_terms() -> None:
    parents = {"MONDO:1": ["MONDO:0005070"], "MONDO:0005070": ["MONDO:0045024"], "MONDO:0045024": ["MONDO:0000001"]}
    assert semantic_types.types_of("MONDO:1", "MONDO", lambda i: parents.get(i, ())) == ("T191",)
    assert semantic_types.types_of("pharmgkb.drug:PA1", "PHARMGKB", lambda i: ["drug"] if i != "drug" else []) == ("T121",)
