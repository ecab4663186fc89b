"""The joining rules of the builder's docstring on tiny hand-made concepts, filters, the name table, and the real hp.obo."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, List, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from readers.helpers import atom, relation, sab, write_release

from spacy_sapbert.build.linker import read_source
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.files import folder_to_bytes
from spacy_sapbert.kb import builder as kb_builder
from spacy_sapbert.kb.builder import Filters, Source, build_kb
from spacy_sapbert.kb.concept import Concept, Name, normalise
from spacy_sapbert.kb.knowledge_base import KnowledgeBase

C1, C2, C3, C4, C9 = "C9000001", "C9000002", "C9000003", "C9000004", "C9000009"
Build = Callable[..., KnowledgeBase]


def term(concept_id: str, label: str = "", *synonyms: str, source: str = "", **more: Any) -> Concept:
    """Return a concept with a label (rank 0) and exact synonyms (rank 1)."""
    source = source or concept_id.partition(":")[0]
    names = [Name(text, source, "en", "PT" if place == 0 else "SY", min(place, 1)) for place, text in enumerate([label, *synonyms]) if text]
    return Concept(concept_id, source, names=names, **more)


@pytest.fixture
def build(tmp_path: Path) -> Build:
    def build(*sources: Sequence[Concept], **filters: Any) -> KnowledgeBase:
        named = [Source(f"source {number}", iter(concepts), "toy") for number, concepts in enumerate(sources)]
        return build_kb(named, tmp_path / "kb", filters=Filters(**filters))

    return build


def ids(kb: KnowledgeBase) -> List[str]:
    return [concept.concept_id for concept in kb.concepts()]


def at(kb: KnowledgeBase, concept_id: str) -> Concept:
    return kb.concept(kb.row_of(concept_id))


def leads_to(kb: KnowledgeBase, concept_id: str) -> str:
    return kb.concept_id(kb.row_of(concept_id))


# -- rule 1: which of several CUIs ---------------------------------------------------------------------------------------


def test_the_cui_listed_first_is_the_primary_one(build: Build) -> None:
    kb = build([term("X:1", "knee pain", cuis=[C2, C1])])
    assert ids(kb) == [C2]
    assert at(kb, C2).cuis == [C2, C1]
    assert [leads_to(kb, i) for i in (C1, "X:1")] == [C2, C2]
    assert kb.manifest["counts"]["terms_with_several_cuis"] == 1


def test_sources_in_the_order_given_list_the_cuis(build: Build) -> None:
    first, second = [term("X:1", cuis=[C2])], [term("X:1", "knee pain", cuis=[C1])]
    assert ids(build(first, second)) == [C2]
    assert ids(build(second, [term("X:1", cuis=[C2])])) == [C1]


def test_a_cui_whose_own_name_is_the_label_fits_better(build: Build) -> None:
    kb = build([term("X:1", "Knee  pain", "ache of the knee", cuis=[C1, C2]), term("X:2", "KNEE PAIN", cuis=[C2])])
    assert ids(kb) == [C2]
    assert at(kb, C2).cuis == [C2, C1]


def test_a_umls_row_is_a_name_of_the_cui_itself(build: Build) -> None:
    kb = build([term("X:1", "knee pain", cuis=[C1, C2])], [term(C2, "knee pain", "pain", source="UMLS"), term(C1, "hip pain", source="UMLS")])
    assert leads_to(kb, "X:1") == C2
    assert ids(kb) == [C1, C2]
    synonym = [term(C2, "pain", "knee pain", source="UMLS")]  # only the preferred name of the CUI counts
    assert leads_to(build([term("X:1", "knee pain", cuis=[C1, C2])], synonym), "X:1") == C1
    assert "X:1" not in [code for _, code in at(kb, C1).codes]


def test_an_exact_synonym_counts_less_than_the_label(build: Build) -> None:
    synonym, label = term("X:2", "gonalgia", cuis=[C2]), term("X:3", "knee pain", cuis=[C3])
    assert leads_to(build([term("X:1", "knee pain", "gonalgia", cuis=[C1, C2]), synonym]), "X:1") == C2
    assert leads_to(build([term("X:1", "knee pain", "gonalgia", cuis=[C1, C2, C3]), synonym, label]), "X:1") == C3
    assert leads_to(build([term("X:1", "knee pain", "gonalgia", cuis=[C2, C3]), synonym, label]), "X:1") == C3


def test_the_first_cui_stays_where_it_fits_as_well(build: Build) -> None:
    both = [term("X:1", "knee pain", cuis=[C2, C1]), term("X:2", "knee pain", cuis=[C1]), term("X:3", "knee pain", cuis=[C2])]
    assert leads_to(build(both), "X:1") == C2


@pytest.mark.parametrize("kind", ["NRW", "REL", "BRD", "LAY"])
def test_a_near_name_does_not_make_a_cui_fit(build: Build, kind: str) -> None:
    near = Concept("X:1", "X", names=[Name("knee pain", "X", "en", "PT", 0), Name("gonalgia", "X", "en", kind, 3)], cuis=[C1, C2])
    assert leads_to(build([near, term("X:2", "gonalgia", cuis=[C2])]), "X:1") == C1


def test_a_term_with_several_cuis_speaks_for_none_of_them(build: Build) -> None:
    kb = build([term("X:1", "knee pain", cuis=[C1, C2]), term("X:2", "knee pain", cuis=[C2, C3])])
    assert (leads_to(kb, "X:1"), leads_to(kb, "X:2")) == (C1, C2)


# -- rules 2 to 4 --------------------------------------------------------------------------------------------------------


def test_terms_that_are_the_same_put_their_cuis_in_one_list(build: Build) -> None:
    kb = build(
        [term("X:1", "knee pain", cuis=[C2]), term("X:2", "gonalgia")],
        [term("Y:1", "painful knee", same_as=["X:1"], cuis=[C1]), term("Y:2", "pain in the knee", same_as=["X:2", "Y:1"])],
    )
    assert ids(kb) == [C2]
    assert [name.text for name in at(kb, C2).names] == ["knee pain", "gonalgia", "painful knee", "pain in the knee"]
    assert {leads_to(kb, i) for i in ("X:1", "X:2", "Y:1", "Y:2", C1)} == {C2}


def test_terms_without_a_cui_keep_the_id_of_the_first_source(build: Build) -> None:
    x, y = [term("X:1", "knee pain", same_as=["Y:1"])], [term("Y:1", "gonalgia"), term("Y:2", "hip pain")]
    kb = build(x, y)
    assert ids(kb) == ["X:1", "Y:2"]
    assert leads_to(kb, "Y:1") == "X:1"
    assert at(kb, "X:1").cuis == []
    counts = kb.manifest["counts"]
    assert (counts["concepts"], counts["cuis"], counts["concepts_without_cui"]) == (2, 0, 2)
    assert ids(build(y, x)) == ["Y:1", "Y:2"]


def test_cui_only_leaves_out_what_has_no_cui(build: Build) -> None:
    kb = build([term("X:1", "knee pain", cuis=[C1]), term("X:2", "hip pain", parents=["X:1"])], cui_only=True)
    assert ids(kb) == [C1]
    assert "X:2" not in kb
    assert list(kb.surface_forms()) == ["knee pain"]
    counts = kb.manifest["counts"]
    assert (counts["concepts"], counts["cuis"], counts["concepts_without_cui"]) == (1, 1, 0)


def test_two_sources_that_share_a_cui_are_one_concept(build: Build) -> None:
    x = term("X:1", "knee pain", cuis=[C1], codes=[("X", "X:1")], types=["T184"], definition="Of X.", parents=["X:9"])
    y = term("Y:1", "gonalgia", "Knee Pain", cuis=[C1], codes=[("Y", "Y:1"), ("MSH", "D1")], types=["T033"], definition="Of Y.")
    kb = build([x, term("X:9", "pain", cuis=[C9])], [y])
    concept = at(kb, C1)
    assert ids(kb) == [C1, C9]
    assert [(name.text, name.source) for name in concept.names] == [("knee pain", "X"), ("gonalgia", "Y"), ("Knee Pain", "Y")]
    assert (concept.types, concept.definition, concept.parents) == (["T033", "T184"], "Of X.", [C9])
    assert kb.codes(kb.row_of(C1)) == {"UMLS": [C1], "X": ["X:1"], "Y": ["Y:1"], "MSH": ["D1"]}
    assert leads_to(kb, "Y:1") == C1


def test_umls_rows_and_ontology_terms_together(build: Build) -> None:
    umls = [term(C1, "Pain in knee", source="SNOMEDCT_US", types=["T184"]), term(C2, "Pain in hip", source="SNOMEDCT_US")]
    kb = build(umls, [term("X:1", "knee pain", cuis=[C1]), term("X:2", "toe pain", cuis=[C3]), term("X:3", "nose pain")])
    assert ids(kb) == [C1, C2, C3, "X:3"]
    assert [name.text for name in at(kb, "X:1").names] == ["Pain in knee", "knee pain"]
    assert at(kb, C1).types == ["T184"]


def test_a_secondary_cui_leads_to_its_concept_unless_it_is_one_itself(build: Build) -> None:
    x = [term("X:1", "knee pain", cuis=[C1, C2, C3])]
    kb = build(x, [term(C2, "hip pain", source="UMLS")])
    assert (leads_to(kb, C3), leads_to(kb, C2)) == (C1, C2)
    assert at(kb, C1).cuis == [C1, C3]  # C2 is not another id of this concept


def test_mappings_between_terms_that_no_source_holds_are_ignored(build: Build) -> None:
    kb = build([term("X:1", "knee pain")], [Concept("Z:1", "Z", same_as=["Z:2"]), Concept("Z:3", "Z", cuis=[C1])])
    assert ids(kb) == ["X:1"]
    assert not any(i in kb for i in ("Z:1", "Z:2", "Z:3", C1))


def test_two_terms_joined_by_way_of_one_that_no_source_holds(build: Build) -> None:
    kb = build([term("X:1", "knee pain", same_as=["Z:1"])], [term("Y:1", "gonalgia", cuis=[C1])], [Concept("Z:1", "Z", same_as=["Y:1"])])
    assert ids(kb) == [C1]
    assert leads_to(kb, "Z:1") == C1


# -- the canonical name, retired ids, types ------------------------------------------------------------------------------


def test_the_canonical_name_is_the_best_of_the_first_source(build: Build) -> None:
    x = Concept(
        "X:1", "X", names=[Name("third", "X", "en", "SY", 2), Name("first", "X", "en", "SY", 1), Name("second", "X", "en", "SY", 1)], cuis=[C1]
    )
    y = term("Y:1", "label of Y", cuis=[C1])
    kb = build([x], [y])
    assert [name.text for name in at(kb, C1).names] == ["first", "second", "third", "label of Y"]
    assert at(kb, C1).source == "X"
    assert at(build([y], [x]), C1).names[0].text == "label of Y"
    # the first source that has a name; a mapping that was read earlier has none
    assert at(build([Concept("Y:1", "Z", cuis=[C1])], [y], [x]), C1).names[0].text == "label of Y"


def test_a_name_given_twice_keeps_its_best_line_whole(build: Build) -> None:
    lines = [("Foot drop", "NRW", 4), ("Foot drop", "PT", 0), ("Foot drop", "BRD", 3)]
    kb = build([Concept(f"X:{n}", "X", names=[Name(t, "X", "en", kind, rank)], cuis=[C1]) for n, (t, kind, rank) in enumerate(lines)])
    assert at(kb, C1).names == [Name("Foot drop", "X", "en", "PT", 0)]
    # the same name from two sources is two names, in the order of the sources, and one surface form
    kb = build([term("X:1", "Foot drop", cuis=[C1])], [term("Y:1", "Foot drop", "foot drop", cuis=[C1])])
    assert [(n.text, n.source) for n in at(kb, C1).names] == [("Foot drop", "X"), ("Foot drop", "Y"), ("foot drop", "Y")]
    assert (kb.n_surface_forms, kb.manifest["counts"]["names"]) == (1, 3)


@pytest.mark.parametrize("backwards", [False, True])
def test_a_chain_of_retired_ids_leads_to_its_end(build: Build, backwards: bool) -> None:
    parts = [Concept(C2, "UMLS", retired=[C1]), Concept(C3, "UMLS", retired=[C2]), Concept("X:1", "X", retired=["X:0"])]
    names = [term(C3, "knee pain", source="UMLS"), term("X:1", "gonalgia", cuis=[C3])]
    kb = build([*names, *(reversed(parts) if backwards else parts)])
    assert [leads_to(kb, i) for i in (C1, C2, "X:0")] == [C3] * 3
    assert at(kb, C3).retired == [C1, C2, "X:0"]


def test_ids_that_retire_each_other_still_lead_to_the_one_with_names(build: Build) -> None:
    kb = build([term(C2, "knee pain", source="UMLS", retired=[C1, C2]), Concept(C1, "UMLS", retired=[C2])])
    assert (leads_to(kb, C1), leads_to(kb, C2)) == (C2, C2)


def test_a_retired_id_that_is_a_concept_stays_itself(build: Build) -> None:
    kb = build([term("X:1", "knee pain", retired=["X:2"]), term("X:2", "hip pain")])
    assert leads_to(kb, "X:2") == "X:2"


def test_terms_without_types_get_those_of_their_branch(build: Build) -> None:
    hpo = [
        Concept("HP:9", "HPO", names=[Name("odd knee", "HPO")], parents=["HP:8"]),
        Concept("HP:8", "HPO", names=[Name("odd leg", "HPO")], parents=["HP:0000118"], cuis=[C1]),
        Concept("HP:7", "HPO", names=[Name("knee tumour", "HPO")], parents=["HP:0002664"], cuis=[C2]),
        Concept("HP:6", "HPO", names=[Name("stated", "HPO")], parents=["HP:8"], types=["T184"]),
    ]
    kb = build(hpo, [term(C2, "tumour of the knee", source="UMLS", types=["T047"])])
    # C2's type is stated by a source, so its branch (T191) doesn't count
    assert {c.concept_id: c.types for c in kb.concepts()} == {C1: ["T033"], C2: ["T047"], "HP:6": ["T184"], "HP:9": ["T033"]}
    assert at(kb, "HP:9").parents == [C1]  # parents are concepts: HP:8 is C1


def test_a_parent_within_the_same_concept_is_none(build: Build) -> None:
    kb = build([term("X:1", "knee pain", cuis=[C1], parents=["X:2", "X:0"]), term("X:2", "gonalgia", cuis=[C1])])
    assert at(kb, C1).parents == ["X:0"]  # an id that no source names is kept as it is


# -- filters -------------------------------------------------------------------------------------------------------------

MIXED = [
    Concept("X:1", "X", names=[Name("Knieschmerz", "X", "de"), Name("knee pain", "X")], types=["T184"]),
    Concept("X:2", "X", names=[Name("Hüftschmerz", "X", "de")], types=["T047"]),
    Concept("X:3", "X", names=[Name("aspirin", "X"), Name("painkiller", "X", "en", "BRD", 5)], types=["T121"]),
    Concept("X:4", "X", names=[Name("untyped", "X")]),
]


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        ({}, {"X:1": ["knee pain"], "X:3": ["aspirin", "painkiller"], "X:4": ["untyped"]}),
        ({"languages": ["de"]}, {"X:1": ["Knieschmerz"], "X:2": ["Hüftschmerz"]}),
        ({"languages": []}, {"X:1": ["Knieschmerz", "knee pain"], "X:2": ["Hüftschmerz"], "X:3": ["aspirin", "painkiller"], "X:4": ["untyped"]}),
        ({"types": ["DISO"]}, {"X:1": ["knee pain"]}),
        ({"types": ["T121", "Sign or Symptom"]}, {"X:1": ["knee pain"], "X:3": ["aspirin", "painkiller"]}),
        ({"weak_names": False}, {"X:1": ["knee pain"], "X:3": ["aspirin"], "X:4": ["untyped"]}),
    ],
)
def test_filters(build: Build, filters: dict, kept: dict) -> None:
    kb = build(MIXED, **filters)
    assert {c.concept_id: [n.text for n in c.names] for c in kb.concepts()} == kept
    described = {"languages": ["en"], "cui_only": False, "weak_names": True, **filters, "types": sorted(Filters(types=filters.get("types", [])).tuis)}
    assert kb.manifest["filters"] == described


def test_retired_types_are_replaced_before_types_are_filtered(build: Build) -> None:
    """T110, Steroid, and T109, Organic Chemical, are both T109 now, and count once."""
    kb = build([term("X:1", "hydrocortisone", types=["T110", "T121", "T109"]), term("X:2", "knee", types=["T023"])], types=["T119"])
    assert ids(kb) == ["X:1"]
    assert at(kb, "X:1").types == ["T109", "T121"]


def test_filters_refuse_what_is_no_type() -> None:
    with pytest.raises(SapbertError) as error:
        Filters(types=["T999"])
    assert error.value.code == "E104"


@pytest.mark.parametrize(
    ("concepts", "filters"),
    [([], {}), ([Concept("X:1", "X", cuis=[C1])], {}), (MIXED, {"languages": ["fr"]}), (MIXED, {"types": ["T200"]}), (MIXED, {"cui_only": True})],
)
def test_nothing_left_is_an_error_and_keeps_the_old_folder(build: Build, tmp_path: Path, concepts: list, filters: dict) -> None:
    build([term("X:1", "old")])
    before = folder_to_bytes(tmp_path / "kb")
    with pytest.raises(SapbertError, match="no names after filtering") as error:
        build(concepts, **filters)
    assert error.value.code == "E103"
    assert folder_to_bytes(tmp_path / "kb") == before
    assert [path.name for path in tmp_path.iterdir()] == ["kb"]


# -- the manifest and the files ------------------------------------------------------------------------------------------


def test_counts_and_sources_in_the_manifest(tmp_path: Path) -> None:
    concepts = [
        *MIXED,
        Concept("X:5", "X", names=[Name(" \u200b ", "X"), Name("", "X"), Name("x" * 501, "X"), Name("y" * 500, "X")], cuis=[C1], definition="D."),
        Concept("X:6", "X", names=[Name("ASPIRIN", "X")], codes=[("RXNORM", "1191"), ("RXNORM", "1191")]),
    ]
    stats = SimpleNamespace(version="7.1", rows=99, malformed=2, concepts=6)
    kb = build_kb([Source("toy.obo", concepts, "obo", stats), Source("bare", [], "table")], tmp_path / "kb", filters=Filters(weak_names=False))
    counts = kb.manifest["counts"]
    assert counts["names_left_out"] == {"empty": 2, "too_long": 1, "other_language": 2, "weak": 1}
    assert (counts["concepts"], counts["cuis"], counts["concepts_without_cui"]) == (5, 1, 4)
    # knee pain, aspirin (twice), untyped, yyy…
    assert (counts["strings"], counts["names"], counts["strings_of_several_concepts"]) == (4, 5, 1)
    assert (counts["definitions"], counts["codes"], counts["vocabularies"]) == (1, {"RXNORM": 1, "UMLS": 1}, ["RXNORM", "UMLS", "X"])
    assert kb.manifest["sources"] == [
        {"name": "toy.obo", "kind": "obo", "version": "7.1", "rows": 99, "malformed": 2, "concepts": 6},
        {"name": "bare", "kind": "table"},
    ]
    assert (len(kb), kb.n_surface_forms, kb.vocabularies) == (5, 4, ["RXNORM", "UMLS", "X"])


def test_in_a_tie_a_concept_with_a_cui_goes_first_but_not_by_a_weak_name(build: Build) -> None:
    def named(concept_id: str, term_type: str, rank: int) -> Concept:
        return Concept(concept_id, "X", names=[Name(f"name of {concept_id}", "X", "en", "PT", 0), Name("cold", "X", "en", term_type, rank)])

    kb = build([term("X:1", "cold"), named("C0000009", "SY", 1), named("C0000002", "SY", 4), named("C0000001", "REL", 5), named("X:2", "SY", 1)])
    table, form = kb.name_table, list(kb.surface_forms()).index("cold")
    order = [kb.concept_id(concept) for concept in table.concept[table.surface_form == form].tolist()]
    assert order == ["C0000009", "C0000002", "X:1", "X:2", "C0000001"]


def test_the_array_is_sorted_and_says_all_that_ranking_needs(build: Build) -> None:
    concepts = [
        Concept("X:1", "X", names=[Name("cold", "X", "en", "NRW", 3), Name("rhinitis", "X", "en", "PT", 0)], types=["T047", "T033"], definition="D."),
        term("X:2", "cold"),
        Concept("X:3", "X", names=[Name("chill", "X", "en", "PT", 0), Name("Cold", "X", "en", "SY", 1)], codes=[("MSH", "D1")], types=["T033"]),
    ]
    kb = build(concepts, [term("Y:1", "frost", "cold")])
    strings = list(kb.surface_forms())
    assert strings == ["chill", "cold", "frost", "rhinitis"]
    on_disk = np.load(kb.path / "names.npy")
    assert (on_disk.dtype, on_disk.shape, on_disk.flags["C_CONTIGUOUS"]) == (np.int32, (6, 7), True)
    names = kb.name_table
    columns = (names.surface_form, names.concept, names.rank, names.types, names.vocabularies, names.defined)
    assert np.array_equal(on_disk, np.stack(columns))  # in this order on disk
    found = [(strings[s], kb.concept_id(c), r) for s, c, r in zip(*(column.tolist() for column in columns[:3]))]
    assert found == [
        ("chill", "X:3", 100_000),
        ("cold", "X:2", 100_000),  # its canonical name
        ("cold", "X:3", 150_001),  # a synonym, of the first source
        ("cold", "Y:1", 150_011),  # a synonym, of the second
        ("cold", "X:1", 350_003),  # a weak name, which is only related to the concept
        ("frost", "Y:1", 100_010),
        ("rhinitis", "X:1", 100_000),
    ]
    by_concept = {kb.concept_id(c): (t, v, d) for c, t, v, d in zip(*(column.tolist() for column in columns[1:2] + columns[3:]))}
    assert {key for key, row in by_concept.items() if kb.allowed_type_sets(["T033"])[row[0]]} == {"X:1", "X:3"}
    assert {key for key, row in by_concept.items() if kb.allowed_type_sets(["T047", "T121"])[row[0]]} == {"X:1"}
    assert not kb.allowed_type_sets(["T121"]).any()
    assert {key for key, row in by_concept.items() if kb.allowed_vocabulary_sets(["MSH", "Y"])[row[1]]} == {"X:3", "Y:1"}
    assert {key for key, row in by_concept.items() if row[2]} == {"X:1"}


@pytest.mark.parametrize("order", [1, -1])
def test_building_twice_gives_the_same_bytes(tmp_path: Path, order: int) -> None:
    def sources() -> List[Source]:
        return [Source("x", [term(f"X:{n}", f"name {n % 7}", f"other {n}", cuis=[f"C900{n % 40:04d}", C1], types=["T047"]) for n in range(100)])]

    first, second = build_kb(sources(), tmp_path / "a"), build_kb(sources(), tmp_path / "b")
    assert first.manifest == second.manifest
    assert folder_to_bytes(tmp_path / "a") == folder_to_bytes(tmp_path / "b")
    assert first.fingerprint == second.fingerprint
    other = [term("X:1", "another name", cuis=[C1])]
    assert build_kb([*sources(), Source("y", other)], tmp_path / "c").fingerprint != first.fingerprint


def test_strange_names_are_kept_whole_or_counted(build: Build) -> None:
    texts = ["knee \ud83d pain", "الركبة", "🤒", "a\x00b", "line\nbreak", "'; DROP TABLE name; --", "%_\\"]
    kb = build([Concept("X:1", "X", names=[Name(text, "X") for text in texts], definition="half \udc00 a pair")])
    assert [name.text for name in kb.concept(0).names] == ["knee pain", "الركبة", "🤒", "a\x00b", "line break", "'; DROP TABLE name; --", "%_\\"]
    assert kb.concept(0).definition == "half a pair"
    assert len(kb.find(texts)) == len(texts)


def test_sqlites_full_disk_is_said_and_nothing_is_left(build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build([term("X:1", "old")])
    before = folder_to_bytes(tmp_path / "kb")
    stage = kb_builder._STAGE + "PRAGMA max_page_count = 40;"  # SQLite's own "database or disk is full"
    monkeypatch.setattr(kb_builder, "_STAGE", stage)
    with pytest.raises(SapbertError, match="No room left") as error:
        build([term(f"X:{n}", f"name {n}") for n in range(50_000)])
    assert error.value.code == "E008"
    assert isinstance(error.value.__cause__, sqlite3.OperationalError)
    assert folder_to_bytes(tmp_path / "kb") == before
    assert [path.name for path in tmp_path.iterdir()] == ["kb"]


def test_a_reader_that_fails_halfway_leaves_the_old_folder(build: Build, tmp_path: Path) -> None:
    build([term("X:1", "old")])

    def broken() -> Any:
        yield term("X:1", "new")
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "broken file")

    with pytest.raises(UnicodeDecodeError):
        build(broken())
    assert list(KnowledgeBase(tmp_path / "kb").surface_forms()) == ["old"]
    assert [path.name for path in tmp_path.iterdir()] == ["kb"]


# -- from files ----------------------------------------------------------------------------------------------------------


def test_a_synthetic_umls_release_from_end_to_end(tmp_path: Path) -> None:
    release = {
        "MRCONSO": [
            atom(C1, "Toy cough, NOS", TTY="SY", TS="S", SAB="SNOMEDCT_US", CODE="1"),
            atom(C1, "Toy cough", SAB="SNOMEDCT_US", CODE="1"),
            atom(C1, "toy cough", SAB="MSH", TTY="MH", CODE="D9"),
            atom(C2, "Coughol", SAB="RXNORM", TTY="IN", CODE="7"),
            atom(C3, "Coughex", SAB="RXNORM", TTY="BN", CODE="8"),
        ],
        "MRSTY": [f"{C1}|T184|A2.2.2|Sign or Symptom|AT1||", f"{C2}|T121|A1|Pharmacologic Substance|AT2||"],
        "MRDEF": [
            f"{C1}|A1|AT1||MSH|A cough\tthat  toys have.|N||",
            f"{C1}|A1|AT2||NCI|Not to be seen.|O||",
            f"{C1}|A1|AT3||NCI|Another.|N||",
            f"{C1}|A1|AT4||CSP|A cough that toys have.|N||",
            f"{C1}|A1|AT5||MSHSPA|Tos de juguete.|N||",
        ],
        "MRSAB": [sab("MTH", "2024AA"), sab("NCI", "7"), sab("MSHSPA", "7").replace("|ENG|", "|SPA|")],
        "MRREL": [relation(C3, "RO", C2, "has_tradename", "RXNORM"), relation(C2, "RO", C3, "tradename_of", "RXNORM"), relation(C1, "PAR", C2)],
        "MRRANK": ["0400|SNOMEDCT_US|PT|N|", "0399|SNOMEDCT_US|SY|N|", "0500|MSH|MH|N|", "0300|RXNORM|IN|N|", "0200|RXNORM|BN|N|"],
        # old -> mid -> C1
        "MRCUI": [f"C9000090|2001AA|SY|||{C1}|Y|", "C9000091|2000AA|SY|||C9000090|Y|", f"C9000092|2001AA|RB|||{C1}|Y|"],
    }
    kb = build_kb([read_source(write_release(tmp_path / "umls", release), only_named=False)], tmp_path / "kb")
    assert ids(kb) == [C1, C2, C3]
    cough = at(kb, C1)
    assert [(name.text, name.source) for name in cough.names] == [
        ("toy cough", "MSH"),
        ("Toy cough", "SNOMEDCT_US"),
        ("Toy cough, NOS", "SNOMEDCT_US"),
    ]
    assert (cough.types, cough.definition, cough.parents) == (["T184"], "A cough that toys have.", [C2])
    assert list(kb.definitions()) == [(0, "A cough that toys have.", "MSH"), (0, "Another.", "NCI")]  # not suppressed, not Spanish, each once
    assert kb.codes(0) == {"UMLS": [C1], "SNOMEDCT_US": ["1"], "MSH": ["D9"]}
    assert [leads_to(kb, i) for i in ("C9000090", "C9000091")] == [C1, C1]
    assert "C9000092" not in kb  # "broader", not "the same"
    # MRREL: the second concept has the relation to the first
    assert at(kb, C2).relations == [("has_tradename", C3)]
    assert at(kb, C3).relations == [("tradename_of", C2)]
    assert kb.manifest["sources"][0]["kind"] == "rrf"


def test_real_hpo(hpo_kb: Path) -> None:
    kb = KnowledgeBase(hpo_kb)
    counts = kb.manifest["counts"]
    assert (counts["concepts"], counts["cuis"], counts["strings"]) == (18_929, 11_407, 41_487)
    assert counts["concepts"] == counts["cuis"] + counts["concepts_without_cui"] == kb._sql("SELECT COUNT(*) FROM concept").fetchone()[0]
    assert counts["strings"] == sum(1 for _ in kb.surface_forms())
    seizure = at(kb, "HP:0001250")
    assert seizure.concept_id == "C0014544"  # it is listed before C0036572, and no other term of HPO has one of the two
    assert kb.row_of("C0036572") == kb.row_of("C0014544")
    assert (seizure.names[0].text, seizure.types, kb.codes(kb.row_of("HP:0001250"))["HPO"]) == ("Seizure", ["T033"], ["HP:0001250"])
    assert kb.row_of("HP:0001303") == kb.row_of("HP:0001250")  # an alt_id
    assert not [c for c in kb.concepts() if not c.types]
    # the name table and the database agree
    assert len(kb.name_table) == kb._sql("SELECT COUNT(*) FROM (SELECT DISTINCT string, concept FROM name)").fetchone()[0]
    assert (np.lexsort((kb.name_table.concept, kb.name_table.rank, kb.name_table.surface_form)) == np.arange(len(kb.name_table))).all()
    assert set(kb.name_table.concept.tolist()) == set(range(len(kb)))
    assert set(kb.name_table.surface_form.tolist()) == set(range(kb.n_surface_forms))


def test_real_hpo_again_is_the_same(hpo_kb: Path, tmp_path: Path) -> None:
    shutil.copytree(hpo_kb, tmp_path / "moved")
    assert KnowledgeBase(tmp_path / "moved", verify=True).fingerprint == KnowledgeBase(hpo_kb).fingerprint


TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=10) | st.sampled_from(["Cold", "cold", "COLD ", "knee  pain", "Ⅳ", "İ"])
NAMES = st.lists(
    st.builds(Name, TEXT, st.sampled_from(["X", "Y"]), st.just("en"), st.sampled_from(["PT", "SY", "NRW"]), st.integers(0, 3)), max_size=4
)
CODES = st.lists(st.tuples(st.sampled_from(["X", "ICD10"]), st.sampled_from(["A1", "B2", "3"])), max_size=3)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(NAMES, st.sets(st.sampled_from(["T047", "T184"])), TEXT | st.none(), CODES), min_size=1, max_size=5))
def test_what_was_written_is_read_back(given_concepts: list[tuple[list[Name], set[str], str | None, list[tuple[str, str]]]]) -> None:
    """Compare with the concepts in Python: names, canonical name, types, definition, codes, and the concepts of each surface form."""
    concepts = [
        Concept(f"X:{i}", "X", names=names, types=sorted(types), definition=definition, codes=codes)
        for i, (names, types, definition, codes) in enumerate(given_concepts)
    ]
    kept = {c.concept_id: [name for name in c.names if normalise(name.text, "en")] for c in concepts}
    kept = {concept_id: names for concept_id, names in kept.items() if names}
    with tempfile.TemporaryDirectory() as folder:
        if not kept:
            with pytest.raises(SapbertError, match="E103"):
                build_kb([Source("x", concepts)], Path(folder) / "kb")
            return
        kb = build_kb([Source("x", concepts)], Path(folder) / "kb")
        assert [kb.concept_id(row) for row in range(len(kb))] == sorted(kept)
        expected: dict[str, set[str]] = {}
        for concept in (c for c in concepts if c.concept_id in kept):
            names, read = kept[concept.concept_id], kb.concept(kb.row_of(concept.concept_id))
            lines = [" ".join(name.text.split()) for name in names]
            assert {(name.text, name.source) for name in read.names} == {(line, name.source) for line, name in zip(lines, names)}
            best = min(range(len(names)), key=lambda i: (names[i].rank, i))
            assert read.names[0].text == lines[best]
            assert read.types == concept.types
            assert read.definition == (" ".join((concept.definition or "").split()) or None)
            assert read.codes == list(dict.fromkeys(concept.codes))
            for line in lines:
                expected.setdefault(normalise(line, "en"), set()).add(concept.concept_id)
        assert list(kb.surface_forms()) == sorted(expected, key=lambda form: form.encode("utf-8"))
        found = kb.name_table.concepts_of(np.arange(kb.n_surface_forms))
        assert [{kb.concept_id(row) for row in rows} for rows in found] == [expected[form] for form in kb.surface_forms()]
        assert kb.find(expected) == {form: row for row, form in enumerate(kb.surface_forms())}
