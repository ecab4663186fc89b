"""Descriptions from the graph: each is true only for one concept, has several wordings, and never contains the concept's own name."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List, Sequence

import numpy as np
import pytest

from spacy_sapbert.kb.builder import Source, build_kb
from spacy_sapbert.kb.concept import Concept, Name
from training.data.descriptions import CHILDREN, FIRST_RELATION, INCLUDES, IS_A, PARENTS, RELATIONS, TEMPLATES, Description, Graph, verbalised
from training.data.labels import assign_labels
from training.data.wording import OwnNames

#        0        1      2       3        4            5        6         7
NAMES = ["organ", "bone", "head", "skull", "cranial cap", "femur", "kneecap", "marrow"]
PART_OF, HAS_PART = FIRST_RELATION, FIRST_RELATION + 1
EDGES = [
    (1, IS_A, 0),
    (3, IS_A, 1),
    (5, IS_A, 1),
    (3, IS_A, 2),
    (4, IS_A, 3),
    (3, PART_OF, 2),
    (5, HAS_PART, 7),
    (3, HAS_PART, 7),
    (3, IS_A, 1),  # twice
]


@pytest.fixture
def graph() -> Graph:
    return Graph(np.array(EDGES), ["part_of", "has_part"], len(NAMES))


def described(graph: Graph, label: int, own: Sequence[str] = (), count: int = 9, seeds: int = 30) -> Dict[str, List[str]]:
    """Return the descriptions of a concept by kind, over several seeds."""
    found: Dict[str, set[str]] = {}
    for seed in range(seeds):
        for text, made_of in graph.describe(label, count, np.random.default_rng(seed), NAMES.__getitem__, OwnNames([NAMES[label], *own])):
            found.setdefault(made_of, set()).add(text)
    return {made_of: sorted(texts) for made_of, texts in found.items()}


def test_facts_and_who_has_them_alone(graph: Graph) -> None:
    assert graph.facts(3) == [(IS_A, 1), (IS_A, 2), (INCLUDES, 4), (PART_OF, 2), (HAS_PART, 7)]
    assert graph.facts(6) == []
    assert not graph.alone(3, [(IS_A, 1)])  # it is also true for the femur
    assert graph.alone(3, [(IS_A, 2)])  # the cap is one too, through the skull
    assert not graph.alone(3, [(HAS_PART, 7)])
    assert graph.alone(3, [(HAS_PART, 7), (IS_A, 2)])
    assert graph.alone(1, [(INCLUDES, 5)])
    assert graph.ancestors(4) == {0, 1, 2, 3}


def test_an_ancestor_counts_where_the_parent_does_not_say(graph: Graph) -> None:
    # 6 has the femur's marrow and is a kind of femur, and through it a bone
    more = Graph(np.array([*EDGES, (6, HAS_PART, 7), (6, IS_A, 5)]), ["part_of", "has_part"], len(NAMES))
    assert graph.alone(5, [(HAS_PART, 7), (IS_A, 1)]) is False  # it is also true for the skull
    assert more.alone(6, [(HAS_PART, 7), (IS_A, 5)])
    assert not more.alone(3, [(HAS_PART, 7), (IS_A, 1)])


def test_parents_and_relations_in_several_wordings(graph: Graph) -> None:
    found = described(graph, 3)
    assert {"a kind of head", "a type of head", "a form of head"} <= set(found[PARENTS])
    assert {"bone that is also head", "both head and bone"} & set(found[PARENTS])
    assert "a kind of bone" not in found[PARENTS]
    assert {"bone which is part of head", "head which has part marrow", "something that is part of head"} <= set(found[RELATIONS])
    assert "bone which has part marrow" not in found[RELATIONS]  # it is also true for the femur
    assert CHILDREN not in found


def test_children_describe_where_nothing_else_does(graph: Graph) -> None:
    assert described(graph, 5) == {}  # the skull is also a bone with marrow
    found = described(graph, 0, seeds=5)
    assert found == {}  # it has one child, but no parent that says what it is a kind of
    two = Graph(np.array([*EDGES, (6, IS_A, 0)]), ["part_of", "has_part"], len(NAMES))
    texts = described(two, 0)
    assert set(texts) == {CHILDREN}
    assert "what bone and kneecap have in common" in texts[CHILDREN] or "what kneecap and bone have in common" in texts[CHILDREN]


def test_no_description_has_a_name_of_the_concept(graph: Graph) -> None:
    assert described(graph, 4) == {PARENTS: ["a form of skull", "a kind of skull", "a type of skull"]}
    assert described(graph, 4, own=["Skulls", "skull"]) == {}
    assert described(graph, 4, own=["SKULL"]) == {}  # in capitals it would be an abbreviation, but names are in lower case here


def test_a_pair_of_which_one_is_above_the_other_says_nothing_more() -> None:
    graph = Graph(np.array([(1, IS_A, 0), (2, IS_A, 1), (2, IS_A, 0), (3, IS_A, 1), (3, IS_A, 0)]), [], len(NAMES))
    assert described(graph, 2) == {}


def test_circles_end() -> None:
    graph = Graph(np.array([(0, IS_A, 1), (1, IS_A, 2), (2, IS_A, 0)]), [], len(NAMES))
    assert graph.ancestors(0) == {1, 2}
    assert "a kind of bone" in described(graph, 0)[PARENTS]


def test_count_and_seed(graph: Graph) -> None:
    def once(seed: int, count: int) -> List[Description]:
        return graph.describe(3, count, np.random.default_rng(seed), NAMES.__getitem__, OwnNames(["skull"]))

    assert [len(once(0, count)) for count in (0, 1, 3)] == [0, 1, 3]
    assert once(5, 3) == once(5, 3)
    assert len({tuple(once(seed, 3)) for seed in range(10)}) > 5


def test_every_form_has_several_wordings_with_all_their_places() -> None:
    for form, wordings in TEMPLATES.items():
        assert len(wordings) >= 2
        assert all(f"{{{place}}}" in wording for wording in wordings for place in range(len(form)))


@pytest.mark.parametrize(
    ("relation", "words"),
    [
        ("part_of", "is part of"),
        ("tradename_of", "is tradename of"),
        ("has_finding_site", "has finding site"),
        ("causes", "causes"),
        ("may_be_treated_by", "may be treated by"),
        ("is_conjugate_acid_of", "is conjugate acid of"),
        ("disease_may_have_finding", "may have finding"),
        ("anatomic_structure_is_physical_part_of", "is physical part of"),
        ("molecular_abnormality_involves_gene", "involves gene"),
        ("disease_mapped_to_gene", "is mapped to gene"),
    ],
)
def test_relations_in_words(relation: str, words: str) -> None:
    assert verbalised(relation) == words


def test_the_graph_of_a_knowledge_base(tmp_path: Path) -> None:
    def concept(concept_id: str, name: str, parents: Sequence[str] = (), relations: Sequence[tuple] = ()) -> Concept:
        return Concept(concept_id, "T", names=[Name(name, "T")], parents=list(parents), relations=list(relations))

    concepts = [
        concept("T:1", "bone"),
        concept("T:2", "skull", ["T:1", "T:9"], [("part_of", "T:4")]),  # T:9 does not exist
        concept("T:3", "Bone", ["T:1"]),  # the label of T:1
        concept("T:4", "head", ["T:5"]),  # T:5 is left out
        concept("T:5", "place", [], [("near", "T:6")]),
    ]
    kb = build_kb([Source("test", concepts)], tmp_path / "kb")
    labels, _ = assign_labels(kb)
    graph, counts = Graph.of(kb, labels, {int(labels[kb.row_of("T:5")])})
    one, two, four = (int(labels[kb.row_of(i)]) for i in ("T:1", "T:2", "T:4"))
    assert graph.facts(two) == [(IS_A, one), (FIRST_RELATION + graph.relations.index("part_of"), four)]
    assert graph.facts(four) == []
    assert counts == {"edges": 2, "edges_to_no_concept": 2, "edges_within_a_concept": 1, "edges_left_out": 1}
