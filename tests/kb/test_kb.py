from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest

from spacy_sapbert.build.linker import read_source
from spacy_sapbert.errors import DamagedFile, MissingFile, SapbertError
from spacy_sapbert.files import write_manifest
from spacy_sapbert.kb import knowledge_base as kb_module
from spacy_sapbert.kb.builder import Filters, Source, build_kb
from spacy_sapbert.kb.concept import Concept, Name
from spacy_sapbert.kb.knowledge_base import Entity, KnowledgeBase
from spacy_sapbert.kb.name_table import NameTable

DATA = Path(__file__).parents[1] / "data"
MI, HEART_ATTACK = ["C9100003", "C9100005"], "C9100003"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_kb([read_source(DATA / "tiny_clinic.tsv")], tmp_path_factory.mktemp("kb") / "kb").path


@pytest.fixture(scope="module")
def kb(folder: Path) -> KnowledgeBase:
    return KnowledgeBase(folder)


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


# -- names and concepts --------------------------------------------------------------------------------------------------


def test_names_are_found_however_they_are_written(kb: KnowledgeBase) -> None:
    strings = list(kb.surface_forms())
    assert strings == sorted(set(strings))
    assert len(strings) == kb.n_surface_forms
    found = kb.find(["Heart  Attack", "heart attack", "HEART\u00a0ATTACK\u200b", "heart attacks", "", "\ud800", "parkinson’s disease"])
    row = strings.index("heart attack")
    assert found == {
        "Heart  Attack": row,
        "heart attack": row,
        "HEART\u00a0ATTACK\u200b": row,
        "parkinson’s disease": strings.index("parkinson's disease"),
    }
    assert list(kb.surface_forms(start=row)) == strings[row:]


def test_a_name_of_several_concepts(kb: KnowledgeBase) -> None:
    row = kb.find(["mi"])["mi"]
    assert [(kb.concept_id(concept), name) for concept, name in kb.names_of_surface_form(row)] == [
        (cui, Name("MI", "UMLS", "en", "AB", 3)) for cui in MI
    ]
    assert kb.matched_name(row, kb.row_of(MI[1])).text == "MI"
    assert kb.manifest["counts"]["strings_of_several_concepts"] == 4  # cold, MI, MS, PE


def test_a_concept_and_its_codes(kb: KnowledgeBase) -> None:
    row = kb.row_of(HEART_ATTACK)
    concept = kb.concept(row)
    assert concept == Concept(
        HEART_ATTACK,
        "UMLS",
        names=[
            Name("myocardial infarction", "UMLS", "en", "PT", 0),
            Name("infarction of heart muscle", "UMLS", "en", "SY", 1),
            Name("cardiac infarction", "UMLS", "en", "SY", 1),
            Name("heart attack", "UMLS", "en", "LAY", concept.names[3].rank),
            Name("MI", "UMLS", "en", "AB", 3),
        ],
        cuis=[HEART_ATTACK],
        types=["T047"],
        definition="Heart muscle dies for want of blood.",
        codes=[("UMLS", HEART_ATTACK), ("ICD10CM", "I21.9")],
        parents=["C9100001"],
    )
    assert kb.concept(row) is concept  # cached
    assert kb.codes(row) == {"UMLS": [HEART_ATTACK], "ICD10CM": ["I21.9"]}
    assert kb.concept_id(row) == HEART_ATTACK


def test_many_concepts_are_read_with_few_statements(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kb, said = KnowledgeBase(folder), []
    read = kb._database.sql

    def sql(statement: str, *values: Any) -> Any:
        said.append(statement)
        return read(statement, *values)

    monkeypatch.setattr(kb._database, "sql", sql)
    every = range(len(kb))
    kb.read_ids(every)
    assert len(said) == 1
    ids = [kb.concept_id(row) for row in every]
    assert [kb.row_of(concept_id) for concept_id in ids] == list(every)
    assert len(said) == 1  # both are in the cache
    codes = kb.codes_of(every)
    assert len(said) == 2
    assert codes[ids.index(HEART_ATTACK)] == {"UMLS": [HEART_ATTACK], "ICD10CM": ["I21.9"]}
    first, second = map(ids.index, MI)
    row = kb.find(["mi"])["mi"]
    attack = kb.find(["heart attack"])["heart attack"]
    said.clear()
    names = kb.matched_names([(row, second), (attack, first), (row, first)])
    assert len(said) == 1
    assert {pair: name.text for pair, name in names.items()} == {(row, first): "MI", (row, second): "MI", (attack, first): "heart attack"}
    said.clear()
    types = kb.types_of_all(every)
    assert len(said) == 1
    assert types == {row: kb.types_of(row) for row in every}
    assert types[first] == ["T047"]


def test_a_name_that_is_not_there_is_said(kb: KnowledgeBase) -> None:
    row, other = kb.row_of(HEART_ATTACK), kb.find(["fever"])["fever"]
    with pytest.raises(DamagedFile, match="E102"):
        kb.matched_names([(other, row)])


TWO = [
    Concept("X:1", "X", names=[Name("knee pain", "X", "en", "PT", 0), Name("gonalgia", "X")], definition="Pain in the knee.", parents=["X:2", "X:9"]),
    Concept("X:1", "Y", definition="An ache of the knee."),
    Concept("X:2", "X", names=[Name("pain", "X")]),
    Concept("X:3", "Z", names=[Name("cough", "X")], definition="Air leaves.", parents=["X:0"], relations=[("due_to", "X:2"), ("has_part", "X:1")]),
    Concept("X:2", "X", retired=["X:0"]),
]


def test_every_definition_with_its_source(tmp_path: Path) -> None:
    again = [Concept("X:1", "W", definition="Pain in  the knee."), Concept("X:1", "V", definition="Third."), Concept("X:2", "V", definition=" ")]
    kb = build_kb([Source("one", TWO), Source("two", again)], tmp_path / "kb")
    knee = [("Pain in the knee.", "X"), ("An ache of the knee.", "Y"), ("Third.", "V")]
    assert list(kb.definitions()) == [*((0, *definition) for definition in knee), (2, "Air leaves.", "Z")]
    assert [kb.definitions_of(row) for row in range(3)] == [knee, [], [("Air leaves.", "Z")]]
    assert [kb.concept(row).definition for row in range(3)] == ["Pain in the knee.", None, "Air leaves."]
    assert (kb.manifest["counts"]["definitions"], kb.manifest["counts"]["further_definitions"]) == (2, 2)


def test_names_parents_relations_and_codes_one_by_one(tmp_path: Path) -> None:
    kb = build_kb([Source("one", TWO)], tmp_path / "kb")
    assert [name.text for name in kb.names_of(0)] == ["knee pain", "gonalgia"]
    assert all(kb.names_of(row) == kb.concept(row).names for row in range(3))
    assert list(kb.parents()) == [(0, 1), (0, -1), (2, 1)]  # X:9 does not exist, X:0 was replaced by X:2
    assert list(kb.relations()) == [(2, "due_to", "X:2"), (2, "has_part", "X:1")]
    assert list(kb.relations(["has_part"])) == [(2, "has_part", "X:1")]


def test_every_concept_in_the_order_of_ids(kb: KnowledgeBase) -> None:
    concepts = list(kb.concepts())
    assert [c.concept_id for c in concepts] == sorted(c.concept_id for c in concepts)
    assert len(concepts) == len(kb) == 60
    assert concepts[7] == kb.concept(7)
    assert all(kb.row_of(c.concept_id) == row for row, c in enumerate(concepts))


def test_the_cache_of_concepts_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kb_module, "_CACHED", 5)
    kb = KnowledgeBase(folder)
    assert [kb.concept(row).concept_id for row in range(20)] == [c.concept_id for c in kb.concepts()][:20]
    assert [kb.concept_id(row) for row in range(20)] == [c.concept_id for c in kb.concepts()][:20]
    assert len(kb._concepts) <= 5


@pytest.mark.parametrize("unknown", ["C0000000", "", "heart attack", "\ud800", "c9100003"])
def test_ids_that_nothing_has(kb: KnowledgeBase, unknown: str) -> None:
    assert unknown not in kb
    assert unknown not in kb.cui_to_entity
    with pytest.raises(KeyError):
        kb.row_of(unknown)


def test_masks(kb: KnowledgeBase) -> None:
    sets = [members for (members,) in kb._sql("SELECT members FROM type_sets ORDER BY no")]
    assert sets[0] == ""
    assert sorted(sets[1:]) == ["T033", "T047", "T061", "T121"]
    mask = kb.allowed_type_sets(["T061", "T121"])
    assert (mask.dtype, [members for members, keep in zip(sets, mask) if keep]) == (np.bool_, [s for s in sets if s in ("T061", "T121")])
    assert kb.allowed_type_sets([]).sum() == 0
    with pytest.raises(SapbertError, match="ICD10CM, RXNORM, SNOMEDCT_US, UMLS") as error:
        kb.allowed_vocabulary_sets(["RXNORM", "LOINC"])
    assert error.value.code == "E105"


def test_matchable_names(tmp_path: Path) -> None:
    concepts = [
        Concept("X:1", "X", names=[Name("cold", "X", "en", "PT", 0), Name("chill", "X", "en", "LAY", 4)], types=["T047", "T033"]),
        Concept("X:2", "X", names=[Name("cold", "X", "en", "SY", 1), Name("frost", "X", "en", "PT", 0)], types=["T121"]),
        Concept("X:3", "X", names=[Name("ice", "X")]),
    ]
    kb = build_kb([Source("x", concepts)], tmp_path / "kb")
    assert [(one.name, one.tui) for one in kb.matchable_names()] == [("chill", "T033"), ("cold", "T033"), ("frost", "T121"), ("ice", None)]
    assert [one.name for one in kb.matchable_names() if one.is_lay] == ["chill"]
    assert [(one.name, one.tui) for one in kb.matchable_names(weak_names=False)] == [("cold", "T033"), ("frost", "T121"), ("ice", None)]
    assert [(one.name, one.tui) for one in kb.matchable_names(tuis=["T121", "T047"])] == [("chill", "T047"), ("cold", "T047"), ("frost", "T121")]


# -- attributes of scispaCy ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("aliases", [[], ["a"], [f"name {n}" for n in range(10)], [f"name {n}" for n in range(11)]])
@pytest.mark.parametrize("definition", [None, "Line one.\nLine two."])
def test_entities_print_as_scispacys(aliases: List[str], definition: Any) -> None:
    theirs = pytest.importorskip("scispacy.linking_utils").Entity
    fields = ("C0000001", "Name", aliases, ["T047", "T033"], definition)
    assert repr(Entity(*fields)) == str(Entity(*fields)) == repr(theirs(*fields))
    assert Entity._fields == theirs._fields
    assert repr(Entity("X:1", "n", [])) == repr(theirs("X:1", "n", []))


def test_cui_to_entity_is_a_lazy_mapping(kb: KnowledgeBase) -> None:
    view = kb.cui_to_entity
    assert isinstance(view, Mapping)
    assert (len(view), len(list(view)), next(iter(view))) == (60, 60, "C9100001")
    entity = view[HEART_ATTACK]
    assert entity == (
        HEART_ATTACK,
        "myocardial infarction",
        ["myocardial infarction", "infarction of heart muscle", "cardiac infarction", "heart attack", "MI"],
        ["T047"],
        "Heart muscle dies for want of blood.",
    )
    assert view.get("C0000000") is None
    assert view.get("C0000000", entity) is entity
    assert HEART_ATTACK in view
    assert None not in view
    assert dict(view)[HEART_ATTACK] == entity
    assert [e.concept_id for e in view.values()] == list(view)


def test_alias_to_cuis(kb: KnowledgeBase) -> None:
    view = kb.alias_to_cuis
    assert isinstance(view, Mapping)
    assert view["MI"] == set(MI)
    assert view["heart attack"] == {HEART_ATTACK}
    assert view["cold"] == {"C9100020", "C9100029"}
    for unknown in ("mi", "Heart attack", "nothing", "", None, 3):  # only the spelling of the source is known, as in scispaCy
        assert unknown not in view
    assert set(view) == {name.text for concept in kb.concepts() for name in concept.names}
    assert len(view) == len(set(view))


def test_semantic_type_tree(kb: KnowledgeBase) -> None:
    assert kb.semantic_type_tree.get_canonical_name("T047") == "Disease or Syndrome"
    assert kb.semantic_type_tree.get_parent(kb.semantic_type_tree.get_node_from_id("T047")).full_name == "Pathologic Function"


def test_scispacys_own_file_gives_scispacys_own_view(tmp_path: Path) -> None:
    theirs = pytest.importorskip("scispacy.linking_utils").KnowledgeBase(str(DATA / "tiny_scispacy.jsonl"))
    ours = build_kb([read_source(DATA / "tiny_scispacy.jsonl")], tmp_path / "kb", filters=Filters())
    assert set(ours.cui_to_entity) == set(theirs.cui_to_entity)
    for cui, entity in theirs.cui_to_entity.items():
        mine = ours.cui_to_entity[cui]
        assert (mine.canonical_name, mine.definition) == (entity.canonical_name, entity.definition)
        assert set(mine.aliases) == {entity.canonical_name, *entity.aliases}
        assert not entity.types or mine.types == entity.types
    assert dict(ours.alias_to_cuis) == theirs.alias_to_cuis


# -- opening -------------------------------------------------------------------------------------------------------------


def test_opening_reads_no_names(folder: Path) -> None:
    kb = KnowledgeBase(folder)
    for column in (getattr(kb.name_table, field.name) for field in fields(NameTable)):
        assert isinstance(column, np.memmap)
        assert not column.flags.writeable
    held = [value for value in vars(kb).values() if isinstance(value, (list, dict, set, tuple)) and value is not kb.manifest]
    assert not any(held)
    gc.collect()
    everything = [o for o in gc.get_referents(kb.manifest, *kb.manifest.values()) if isinstance(o, (list, dict))]
    assert max(map(len, everything)) < 20  # the manifest holds counts, not names


def test_the_database_is_not_writable_and_no_file_appears(folder: Path) -> None:
    before = sorted(path.name for path in folder.iterdir())
    kb = KnowledgeBase(folder)
    with pytest.raises(SapbertError, match="readonly"):
        kb._sql("DELETE FROM name")
    list(kb.surface_forms())
    assert sorted(path.name for path in folder.iterdir()) == before == ["kb.sqlite", "manifest.json", "names.npy"]


@pytest.mark.parametrize("name", ["kb.sqlite", "names.npy"])
@pytest.mark.parametrize("damage", ["byte", "truncate", "remove", "empty"])
def test_damaged_files(copy: Path, name: str, damage: str) -> None:
    file = copy / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    if damage == "remove":
        file.unlink()
    else:
        file.write_bytes({"byte": content, "truncate": content[:-1], "empty": b""}[damage])
    with pytest.raises(DamagedFile, match=r"kb build") as error:
        KnowledgeBase(copy)
    assert error.value.code == "E102"
    assert name in str(error.value)


@pytest.mark.parametrize(("name", "content"), [("kb.sqlite", b"not a database" * 100), ("kb.sqlite", b""), ("names.npy", b"not an array")])
def test_foreign_files_under_a_true_checksum(copy: Path, name: str, content: bytes) -> None:
    (copy / name).write_bytes(content)
    write_manifest(copy, kb_module.KIND, kb_module.VERSION, {"counts": {"concepts": 1, "strings": 1, "vocabularies": []}})
    with pytest.raises(DamagedFile) as error:
        KnowledgeBase(copy)
    assert error.value.code == "E102"


def test_missing_and_foreign_folders(copy: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingFile) as error:
        KnowledgeBase(tmp_path / "nowhere")
    assert error.value.code == "E101"
    write_manifest(copy, "linker", 1, {})
    with pytest.raises(DamagedFile, match="describes 'linker'"):
        KnowledgeBase(copy)
    write_manifest(copy, kb_module.KIND, kb_module.VERSION + 1, {})
    with pytest.raises(SapbertError) as other:
        KnowledgeBase(copy)
    assert other.value.code == "E106"


# -- threads and processes -----------------------------------------------------------------------------------------------


def read_all(kb: KnowledgeBase) -> List[Any]:
    return [list(kb.surface_forms()), [(c.concept_id, c.names, c.codes) for c in kb.concepts()], kb.find(["mi", "cold"])]


def test_many_threads_read_at_once(folder: Path) -> None:
    kb = KnowledgeBase(folder)
    expected = read_all(kb)
    with ThreadPoolExecutor(8) as pool:
        assert all(result == expected for result in pool.map(lambda _: read_all(kb), range(24)))


def test_an_iterator_goes_on_while_others_ask(folder: Path) -> None:
    kb = KnowledgeBase(folder)
    assert [kb.find([name])[name] for name in kb.surface_forms()] == list(range(kb.n_surface_forms))


def _child(kb: KnowledgeBase, queue: Any) -> None:
    queue.put((os.getpid(), read_all(kb)))


@pytest.mark.e2e
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_read_the_same_files(folder: Path, method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    if method == "spawn":  # a new interpreter, which gets it by pickle, as a worker of spaCy does
        code = "import pickle, sys; kb = pickle.load(sys.stdin.buffer); print(kb.find(['mi']), kb.cui_to_entity['C9100003'].canonical_name)"
        kb = KnowledgeBase(folder)
        done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(kb), capture_output=True, check=True, timeout=600)
        assert done.stdout.decode().strip() == f"{kb.find(['mi'])} myocardial infarction"
        return
    kb = KnowledgeBase(folder)
    expected, pid = read_all(kb), kb._database._local.pid
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    children = [context.Process(target=_child, args=(kb, queue)) for _ in range(2)]
    for child in children:
        child.start()
    results = [queue.get(timeout=600) for _ in children]
    for child in children:
        child.join(600)
    assert all(found == expected for _, found in results)
    assert pid not in {child_pid for child_pid, _ in results}
    assert read_all(kb) == expected  # the parent's own connection still works
    assert kb._database._local.pid == os.getpid()


def test_a_pickle_is_its_path(folder: Path) -> None:
    kb = KnowledgeBase(folder)
    data = pickle.dumps(kb)
    assert len(data) < 500
    again = pickle.loads(data)
    assert again.manifest == kb.manifest
    assert read_all(again) == read_all(kb)


def test_a_knowledge_base_that_was_replaced_says_so(tiny_linker: Path, tmp_path: Path) -> None:
    """Otherwise another thread would read rows from the new file with the array of the old one."""
    shutil.copytree(tiny_linker / "kb", tmp_path / "kb")
    kb = KnowledgeBase(tmp_path / "kb")
    name = kb.concept(0).names[0].text
    shutil.copyfile(tmp_path / "kb" / "kb.sqlite", tmp_path / "new.sqlite")
    os.replace(tmp_path / "new.sqlite", tmp_path / "kb" / "kb.sqlite")
    errors: List[BaseException] = []

    def look() -> None:
        try:
            kb.find([name])
        except SapbertError as error:
            errors.append(error)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert [error.code for error in errors] == ["E108"]
    assert kb.find([name])  # a process that has it open can still use it
