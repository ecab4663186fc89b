"""Mentions in the form in which BioSyn looks them up."""

from __future__ import annotations

import pytest

from spacy_sapbert.kb.builder import Source, build_kb
from spacy_sapbert.kb.concept import Concept, Name
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from training.data.lookups import Concepts, Lookups, lookups, names_of, plain, to_learn, with_mentions

NAMES = {
    "MESH:D000001": ("Breast cancer", "Cancer of the breast", "breast-cancer"),
    "MESH:D000002": ("Ovarian cancer",),
    "MESH:D000003": ("Diabetes mellitus, type 2", "NIDDM", "!!"),
}


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    concepts = [Concept(key, "MSH", names=[Name(name, "MSH", rank=i) for i, name in enumerate(names)]) for key, names in NAMES.items()]
    return build_kb([Source("test", concepts)], tmp_path_factory.mktemp("lookups") / "kb")


@pytest.fixture(scope="module")
def rows(kb: KnowledgeBase) -> dict[str, int]:
    return {key.removeprefix("MESH:D00000"): kb.row_of(key) for key in NAMES}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Type-2  Diabetes (NIDDM)", "type 2 diabetes niddm"),
        ("Crohn's", "crohn s"),
        ("  a\t/b ", "a b"),
        ("++", ""),
        ("β-thalassaemia", "β thalassaemia"),
    ],
)
def test_lower_case_without_punctuation(text: str, expected: str) -> None:
    assert plain(text) == expected
    assert plain(plain(text)) == expected


def test_names_that_differ_in_punctuation_are_one(kb: KnowledgeBase, rows: dict[str, int]) -> None:
    found = names_of(kb)
    assert dict(zip(found.texts, found.concepts)) == {
        "breast cancer": {rows["1"]},
        "cancer of the breast": {rows["1"]},
        "ovarian cancer": {rows["2"]},
        "diabetes mellitus type 2": {rows["3"]},
        "niddm": {rows["3"]},
    }  # "!!" is left out because it has no letter


def test_composites_are_looked_up_in_parts_and_omim_counts_where_it_is_alone(kb: KnowledgeBase, rows: dict[str, int]) -> None:
    concepts = Concepts(kb)
    found = lookups(
        [
            ("Breast and ovarian cancer", (("MESH:D000001", "MESH:D000002"),)),
            ("breast/ovarian cancer", (("MESH:D000001",), ("MESH:D000002",))),
            ("NIDDM", (("MESH:D000003",), ("OMIM:125853",))),
            ("NIDDM", (("OMIM:125853",),)),
            ("nothing", (("-1",),)),
            ("...", (("MESH:D000001",),)),
            ("growth", (("-1",), ("MESH:D000009",))),
        ],
        concepts,
    )
    both = {rows["1"], rows["2"]}
    unknown = [frozenset([len(kb)]), frozenset([len(kb) + 1])]  # ids that are not in the dictionary get new numbers
    assert found.texts == ["breast cancer", "ovarian cancer", "breast cancer", "ovarian cancer", "niddm", "niddm", "growth"]
    assert found.gold == [both, both, both, both, {rows["3"]}, *unknown]
    assert found.mentions == [0, 0, 1, 1, 2, 3, 4]
    assert concepts.of("OMIM:125853") == unknown[0]


def test_mentions_of_one_id_are_trained_on_once(kb: KnowledgeBase, rows: dict[str, int]) -> None:
    given = [
        ("Sugar-disease", (("MESH:D000003",),)),
        ("sugar disease", (("MESH:D000003",),)),
        ("sugar disease", (("MESH:D000001",),)),
        ("breast and ovarian cancer", (("MESH:D000001", "MESH:D000002"),)),
        ("tumour", (("MESH:D000001",), ("MESH:D000002",))),
        ("odd", (("-1",),)),
    ]
    found = to_learn(given, Concepts(kb))
    assert found == Lookups(["sugar disease", "sugar disease"], [frozenset([rows["3"]]), frozenset([rows["1"]])], [0, 1])


def test_earlier_mentions_are_names_after_those_of_the_dictionary(kb: KnowledgeBase, rows: dict[str, int]) -> None:
    names = names_of(kb)
    given = [("Sugar-disease", (("MESH:D000003",), ("OMIM:1",))), ("NIDDM", (("MESH:D000001",),)), ("odd", (("-1",),))]
    larger = with_mentions(names, given, Concepts(kb))
    assert larger.texts == [*names.texts, "sugar disease"]
    assert larger.concepts[-1] == {rows["3"], len(kb)}
    assert larger.concepts[names.texts.index("niddm")] == {rows["1"], rows["3"]}
    assert names.concepts[names.texts.index("niddm")] == {rows["3"]}  # the dictionary for training is not changed
