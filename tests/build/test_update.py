"""Update a linker to a new release: what is kept, what is encoded, what is reported."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np
import pytest
import spacy
from readers.helpers import atom, sab, write_release
from spacy.tokens import Doc, DocBin
from typer.testing import CliRunner

from spacy_sapbert import bundle
from spacy_sapbert.build import linker as building
from spacy_sapbert.build import update
from spacy_sapbert.build.update import Difference, LinkChange, changed_links, in_words, joined, update_linker
from spacy_sapbert.build.vectors import Ready, Shard, Tick
from spacy_sapbert.cli import app
from spacy_sapbert.encoders.transformer import NameEncoder
from spacy_sapbert.indexes.annoy import AnnoyIndex
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.kb.builder import Filters, Source
from spacy_sapbert.kb.knowledge_base import KnowledgeBase

pytestmark = pytest.mark.usefixtures("one_thread")

COUGH, LUNG, FEVER, RASH, GOUT, NEW = (f"C900000{i}" for i in range(1, 7))
OLD_NAMES = {COUGH: ["cough", "coughing"], LUNG: ["lung"], FEVER: ["fever", "pyrexia"], RASH: ["rash"], GOUT: ["gout", "podagra"]}
# the release of the next year: RASH is merged into FEVER (MRCUI), GOUT is gone, COUGH gets one new name and loses one
NEW_NAMES = {COUGH: ["cough", "tussis"], LUNG: ["lung"], FEVER: ["fever", "pyrexia", "rash"], NEW: ["hiccup"]}


def release(folder: Path, names: Dict[str, List[str]], retired: List[Tuple[str, str]] = [], code: str = "T-1") -> Path:
    rows = [atom(cui, name, CODE=code, TS="P" if i == 0 else "S") for cui, own in names.items() for i, name in enumerate(own)]
    cuis = [f"{old}|2025AA|SY|||{new}|Y|" for old, new in retired]
    types = [f"{cui}|T184|A2.2.2|Sign or Symptom|AT9000001||" for cui in names]
    return write_release(folder, {"MRCONSO": rows, "MRSTY": types, "MRSAB": [sab("MTH", "2025AA")], "MRCUI": cuis})


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("old")
    source = building.read_source(release(folder / "META", OLD_NAMES))
    return building.build_linker([source], folder / "linker", index=ExactIndex(), progress=False)


@pytest.fixture(scope="module")
def new_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release(tmp_path_factory.mktemp("new") / "META", NEW_NAMES, [(RASH, FEVER)], code="T-2")


class Encoder:
    """An encoder that records the names that it gets."""

    def __init__(self) -> None:
        self.names: List[str] = []

    def __call__(self, shards: Iterator[Shard], tick: Tick) -> Iterator[Ready]:
        model = NameEncoder().initialize()
        for number, names in shards:
            self.names += names
            yield number, model.encode(names)


def contents(folder: Path) -> Dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_only_names_that_changed_are_encoded(old: Path, new_release: Path, tmp_path: Path) -> None:
    encoder, before = Encoder(), contents(old)
    folder, found = update_linker(old, [building.read_source(new_release)], tmp_path / "linker", encode=encoder, progress=False)
    assert encoder.names == ["hiccup", "tussis"]
    assert found == Difference(added=[NEW], retired=[GOUT], merged={RASH: FEVER}, kept=3, names_kept=5, names_new=2, names_gone=3)
    assert json.loads((folder / "difference.json").read_text())["merged"] == {RASH: FEVER}
    assert contents(old) == before
    index, kb = bundle.open_index(folder), KnowledgeBase(folder / "kb")
    assert type(index) is ExactIndex
    # the vectors are the same as if all names were encoded
    every = NameEncoder().initialize().encode(list(kb.surface_forms()))
    assert (np.sum(index.vectors(np.arange(len(index))) * every, axis=1) > 0.999).all()
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker", config={"linker_name": str(folder)})
    doc = Doc(nlp.vocab, words=["tussis", "Rash", "hiccup"], ents=["B-X"] * 3)
    assert [ent.kb_id_ for ent in nlp(doc).ents] == [COUGH, FEVER, NEW]


def test_in_the_old_ones_place_and_only_when_it_is_whole(old: Path, new_release: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    shutil.copytree(old, mine)
    before = contents(mine)

    def broken(shards: Iterator[Shard], tick: Tick) -> Iterator[Ready]:
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        update_linker(mine, [building.read_source(new_release)], encode=broken, progress=False)
    assert contents(mine) == before
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert update_linker(mine, [building.read_source(new_release)], progress=False)[0] == mine
    assert NEW in KnowledgeBase(mine / "kb")
    again = update_linker(mine, [building.read_source(new_release)], progress=False)[1]  # nothing has changed
    assert again == Difference(kept=4, names_kept=7)


def test_what_was_added_comes_along(old: Path, new_release: Path, tmp_path: Path) -> None:
    linker: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(old)})
    linker.add_alias(RASH, "red spots")  # its concept is merged
    linker.add_alias(GOUT, "big toe")  # its concept is retired
    linker.add_concept("WARD:7", "ward fever")
    linker.add_concept(NEW, "singultus")  # the next release has it
    linker.add_concept("TOY:T-2", "ward cough", definition="Of ward 7.")  # in the next release this is a code, which is not the same
    linker.to_disk(tmp_path / "mine")
    folder, found = update_linker(tmp_path / "mine" / "linker", [building.read_source(new_release)], tmp_path / "linker", progress=False)
    assert [name.text for name in found.additions_left_out] == ["big toe"]
    updated: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(folder)})
    updated.load()
    assert [(name.concept_id, name.text) for name in updated.additions.names] == [
        *[(FEVER, "red spots"), ("WARD:7", "ward fever"), (NEW, "singultus"), ("TOY:T-2", "ward cough")]
    ]
    assert updated.kb.row_of(COUGH) in updated.kb.rows_of_code(["T-2"], "TOY")
    assert list(updated.additions.concepts) == ["WARD:7", "TOY:T-2"]
    assert updated.kb.cui_to_entity[NEW].aliases == ["hiccup", "singultus"]
    assert "added names left out, because their concept is gone: 1 (C9000005)" in in_words(found)


def test_a_calibration_is_left_out_and_that_is_said(old: Path, new_release: Path, tmp_path: Path) -> None:
    shutil.copytree(old, tmp_path / "mine")
    (tmp_path / "mine" / "calibration.json").write_text("{}")
    folder, found = update_linker(tmp_path / "mine", [building.read_source(new_release)], tmp_path / "linker", progress=False)
    assert not (folder / "calibration.json").exists()
    assert in_words(found).splitlines()[-1].startswith("the calibration was left out")


def test_links_of_a_corpus_that_change(old: Path, new_release: Path, tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    docs = [
        Doc(nlp.vocab, words=["cough", "rash", "gout"], ents=["B-X"] * 3),
        Doc(nlp.vocab, words=["no", "hiccup", "lung"], ents=["O", "B-X", "B-X"]),
    ]
    folder, found = update_linker(old, [building.read_source(new_release)], tmp_path / "linker", progress=False)
    changes, mentions = changed_links(old, folder, docs, found, threshold=0.95)
    assert mentions == 5
    assert changes == [
        LinkChange(0, 6, 10, RASH, FEVER, "merged", "rash", "rash", "fever"),
        LinkChange(0, 11, 15, GOUT, "", "lost", "gout", "gout", ""),
        LinkChange(1, 3, 9, "", NEW, "gained", "hiccup", "", "hiccup"),
    ]
    assert not any(ent.kb_id_ for doc in docs for ent in doc.ents)
    assert in_words(found, (changes, mentions)).splitlines() == [
        "concepts: 3 kept, 1 added (C9000006), 1 retired (C9000005), 1 merged (C9000004 into C9000003)",
        "names: 5 kept with their vectors, 2 encoded, 3 gone",
        "links of 5 mentions that change: 3 (1 gained, 1 lost, 1 merged)",
    ]


def test_filters_are_those_of_before(tmp_path: Path) -> None:
    table = tmp_path / "a.tsv"
    table.write_text("concept_id\tname\tlanguage\ttypes\nC9000001\tcough\ten\tT184\nC9000001\ttos\tes\tT184\nC9000002\tlung\ten\tT023\n")
    first = building.build_linker(
        [building.read_source(table)], tmp_path / "linker", index=ExactIndex(), filters=Filters(["en", "es"], ["T184"]), progress=False
    )
    assert list(KnowledgeBase(first / "kb").surface_forms()) == ["cough", "tos"]
    folder, found = update_linker(first, [building.read_source(table)], progress=False)
    assert (found.kept, found.names_kept, found.names_new) == (1, 2, 0)
    assert KnowledgeBase(folder / "kb").manifest["filters"]["languages"] == ["en", "es"]


def test_settings_of_engine_and_reader_are_those_of_before(tmp_path: Path) -> None:
    rows = [atom(COUGH, "cough", SAB="TOY"), atom(LUNG, "lung", SAB="TOY"), atom(GOUT, "gout", SAB="MSH")]
    path = write_release(tmp_path / "META", {"MRCONSO": rows})
    index = AnnoyIndex(n_trees=3, search_k=500, pca=0, rescore=7, tune=False, threads=1, seed=5)
    source = building.read_source(path, sources=["TOY"], relations=["causes"])
    first = building.build_linker([source], tmp_path / "linker", index=index, progress=False)
    assert KnowledgeBase(first / "kb").manifest["sources"][0]["options"] == {"sources": ["TOY"], "relations": ["causes"]}
    done = CliRunner().invoke(app, ["kb", "update", str(first), str(path), "--out", str(tmp_path / "new")])
    assert done.exit_code == 0, done.output
    assert "concepts: 2 kept, 0 added, 0 retired, 0 merged" in done.stdout  # gout is from another vocabulary
    manifest = json.loads((tmp_path / "new" / "index" / "manifest.json").read_text())
    assert manifest["config"] == index.get_config()
    options = KnowledgeBase(tmp_path / "new" / "kb").manifest["sources"][0]["options"]
    assert (options["sources"], options["relations"]) == (["TOY"], ["causes"])


def test_streams_are_joined() -> None:
    assert list(joined([("a", 0), ("c", 1), ("é", 2)], [("b", 0), ("c", 1), ("z", 2)])) == [
        ("a", 0, None),
        ("b", None, 0),
        ("c", 1, 1),
        ("z", None, 2),
        ("é", 2, None),
    ]
    assert list(joined([], [("x", 5)])) == [("x", None, 5)]
    assert list(joined([], [])) == []


def test_a_release_that_can_not_be_read_changes_nothing(old: Path, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="E103"):
        update_linker(old, [Source("empty", [])], tmp_path / "linker", progress=False)
    assert not list(tmp_path.iterdir())


def test_an_old_linker_whose_parts_do_not_fit_is_refused(old: Path, new_release: Path, tmp_path: Path) -> None:
    other = building.build_linker(
        [building.read_source(release(tmp_path / "META", {COUGH: ["cough"]}))], tmp_path / "other", index=ExactIndex(), progress=False
    )
    mixed = tmp_path / "mixed"
    shutil.copytree(old, mixed)
    shutil.rmtree(mixed / bundle.KB)
    shutil.copytree(other / bundle.KB, mixed / bundle.KB)
    with pytest.raises(ValueError, match=r"E203.*they differ in knowledge base and number of names\."):
        update_linker(mixed, [building.read_source(new_release)], tmp_path / "out")


def test_the_command(old: Path, new_release: Path, tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    DocBin(docs=[Doc(nlp.vocab, words=["rash", "lung"], ents=["B-X", "B-X"])]).to_disk(tmp_path / "corpus.spacy")

    def run(*words: Any) -> Any:
        return CliRunner().invoke(app, ["kb", "update", *map(str, words)])

    done = run(old, new_release, "--out", tmp_path / "new", "--corpus", tmp_path / "corpus.spacy", "--changes", tmp_path / "changes.jsonl")
    assert done.exit_code == 0, done.output
    assert "concepts: 3 kept, 1 added (C9000006), 1 retired (C9000005), 1 merged (C9000004 into C9000003)" in done.stdout
    assert "links of 2 mentions that change: 1 (1 merged)" in done.stdout
    (line,) = (tmp_path / "changes.jsonl").read_text().splitlines()
    wanted = {"document": 0, "start": 0, "end": 4, "before": RASH, "after": FEVER, "kind": "merged"}
    assert json.loads(line) == {**wanted, "mention": "rash", "name_before": "rash", "name_after": "fever"}
    for words, code in (
        ((tmp_path / "nowhere", new_release), "E101"),
        ((old, tmp_path / "nowhere"), "E401"),
        ((old, new_release, "--corpus", tmp_path / "corpus.spacy"), "E002"),
        ((old, new_release, "--out", tmp_path / "x", "--changes", tmp_path / "y"), "E002"),
        ((old, new_release, "--out", tmp_path / "x", "--corpus", tmp_path / "none.spacy"), "E401"),
        ((old, new_release, "--out", tmp_path / "x", "--corpus", tmp_path / "changes.jsonl"), "E402"),
    ):
        refused = run(*words)
        assert (refused.exit_code, refused.stderr[:6]) == (1, f"[{code}]")
    assert not (tmp_path / "x").exists()
    assert update.FILE in {path.name for path in (tmp_path / "new").iterdir()}
