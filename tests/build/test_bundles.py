"""Linker folders: they are found by name, built only once by several processes, and built from files."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any, Iterator, List

import catalogue
import numpy as np
import pytest
from filelock import FileLock
from thinc.api import Model

from spacy_sapbert import bundle
from spacy_sapbert.build import default_linkers, loaders
from spacy_sapbert.build import linker as building
from spacy_sapbert.errors import MissingFile, SapbertError
from spacy_sapbert.files import package_file, writing_folder
from spacy_sapbert.indexes.annoy import AnnoyIndex
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.kb.builder import Filters
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.linker import SapBertLinker
from spacy_sapbert.registry import registry

DATA = Path(__file__).parents[1] / "data"
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(default_linkers.CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def letters(names: List[str], width: int = 27) -> np.ndarray:
    """Return names as counts of their letters: vectors that can be checked by hand."""
    vectors = np.zeros((len(names), width), dtype=np.float32)
    for row, name in enumerate(names):
        for character in name:
            vectors[row, (ord(character) - 96) % width if character.isalpha() else 0] += 1
        vectors[row, 0] += 0.1
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def letter_model() -> Model:
    """Return a Thinc model of another author, without the attributes of NameEncoder."""
    model: Model = Model("letters", lambda model, names, is_train: (letters(names), lambda d: []), dims={"nO": 27})
    return model


# -- names ----------------------------------------------------------------------------------------------------------------


def test_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv(default_linkers.CACHE_VARIABLE, str(tmp_path))
    assert default_linkers.cache_folder() == tmp_path
    monkeypatch.setenv(default_linkers.CACHE_VARIABLE, "")
    assert default_linkers.cache_folder().name == "spacy-sapbert"
    monkeypatch.delenv(default_linkers.CACHE_VARIABLE)
    assert default_linkers.cache_folder().is_absolute()


def test_find_linker(tmp_path: Path):
    assert default_linkers.find_linker(str(tmp_path)) == tmp_path
    with pytest.raises(MissingFile, match=r"E001.*'nowhere'.*hpo") as info:
        default_linkers.find_linker("nowhere")
    assert isinstance(info.value, (FileNotFoundError, ValueError))


# -- the cache ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def registered(cache: Path, tiny_linker: Path, tmp_path: Path) -> Iterator[Path]:
    """Register a linker `test-tiny` whose build writes a line into a log, takes half a second and copies the tiny linker."""
    log = tmp_path / "builds.log"

    def build(out: Path) -> None:
        with open(log, "a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(0.5)
        with writing_folder(out) as folder:
            shutil.copytree(tiny_linker, folder, dirs_exist_ok=True, copy_function=os.link)

    registry.sapbert_linkers.register("test-tiny", func=lambda: default_linkers.cached("test-tiny", ["1"], build))  # type: ignore[attr-defined]
    yield log
    catalogue._remove(("spacy", "sapbert_linkers", "test-tiny"))


def _find(queue: Any) -> None:
    folder = default_linkers.find_linker("test-tiny")
    queue.put((str(folder), len(KnowledgeBase(folder / "kb"))))


@pytest.mark.e2e
def test_processes_that_start_together_build_once(registered: Path, cache: Path, tiny_kb: KnowledgeBase):
    queue = FORK.SimpleQueue()
    workers = [FORK.Process(target=_find, args=(queue,)) for _ in range(5)]
    for worker in workers:
        worker.start()
    found = [queue.get() for _ in workers]
    for worker in workers:
        worker.join(600)
    assert [worker.exitcode for worker in workers] == [0] * 5
    assert {folder for folder, _ in found} == {str(default_linkers.find_linker("test-tiny"))}
    assert {size for _, size in found} == {len(tiny_kb)}
    assert len(registered.read_text().split()) == 1
    assert [p.name for p in cache.iterdir() if p.is_dir()] == [Path(found[0][0]).name]


def _killed(cache: Path, started: Any) -> None:
    def build(out: Path) -> None:
        with writing_folder(out) as folder:
            (folder / "kb").mkdir()
            (folder / "kb" / "half").write_text("half")
            started.set()
            time.sleep(600)  # the process is killed before this ends

    default_linkers.cached("killed", [], build)


@pytest.mark.e2e
def test_a_killed_build_leaves_no_half_folder_and_is_taken_up(cache: Path):
    started = FORK.Event()
    worker = FORK.Process(target=_killed, args=(cache, started))
    worker.start()
    assert started.wait(600)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    worker.join(30)
    assert [p for p in cache.iterdir() if p.is_dir() and not p.name.startswith(".")] == []

    def build(out: Path) -> None:
        with writing_folder(out) as folder:
            (folder / "manifest.json").write_text("{}")

    folder = default_linkers.cached("killed", [], build)  # the lock of the dead process is free
    assert sorted(p.name for p in folder.iterdir()) == ["manifest.json"]


def test_a_build_that_fails_is_tried_again(cache: Path):
    tries: List[int] = []

    def build(out: Path) -> None:
        with writing_folder(out) as folder:
            tries.append(1)
            (folder / "manifest.json").write_text("{}")
            if len(tries) == 1:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        default_linkers.cached("x", ["1"], build)
    assert [p for p in cache.iterdir() if p.is_dir()] == []
    first = default_linkers.cached("x", ["1"], build)
    assert default_linkers.cached("x", ["1"], build) == first
    assert len(tries) == 2
    assert default_linkers.cached("x", ["2"], build) != first  # the linker depends on another version


def test_a_build_that_holds_the_lock_too_long(cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(default_linkers, "LOCK_SECONDS", 0.05)

    cache.mkdir()
    held = default_linkers.cache_folder() / f"y-v{bundle.VERSION}-{default_linkers.__version__}.lock"
    with FileLock(held), pytest.raises(SapbertError, match=r"E007") as info:
        default_linkers.cached("y", [], lambda out: None)
    assert str(held) in str(info.value)
    made = held.with_suffix("")  # a finished linker, into which the sense model is copied
    with FileLock(held), pytest.raises(SapbertError, match=r"E007"):
        default_linkers.with_senses(made)


# -- building -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_tsv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("small") / "small.tsv"
    path.write_text("concept_id\tname\tsynonyms\ttypes\nC0000001\tfever\tpyrexia|febrile\tT033\nC0000002\tcough\ttussis\tT033\n", encoding="utf-8")
    return path


def test_build_linker_with_someone_elses_encoder(small_tsv: Path, tmp_path: Path):
    import spacy
    from spacy.tokens import Span

    out = building.build_linker([building.read_source(small_tsv)], tmp_path / "linker", model=letter_model(), index=ExactIndex(), progress=False)
    assert sorted(p.name for p in out.iterdir()) == ["encoder", "index", "kb", "manifest.json"]
    assert json.loads((out / "manifest.json").read_text())["index"] == "spacy-sapbert.ExactIndex.v1"
    linker = SapBertLinker(letter_model(), AnnoyIndex(), linker_name=str(out))
    doc = spacy.blank("en")("revef")
    doc.ents = [Span(doc, 0, 1, label="X")]
    ent = linker(doc).ents[0]
    assert ent._.kb_ents[0] == ("C0000001", 1.0)  # an anagram has the same letters
    assert not ent._.kb_explain["exact"]


def test_build_again_replaces_and_a_failed_build_keeps_the_old(small_tsv: Path, tmp_path: Path):
    out = tmp_path / "linker"

    def build(**more: Any) -> None:
        building.build_linker([building.read_source(small_tsv)], out, model=letter_model(), index=ExactIndex(), progress=False, **more)

    build()
    before = (out / "kb" / "manifest.json").read_text()
    with pytest.raises(SapbertError, match="E103"):
        build(filters=Filters(types=["T121"]))
    assert (out / "kb" / "manifest.json").read_text() == before
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    build()
    assert bundle.open_index(out).dim == 27


def test_build_from_a_kb_built_before(tiny_linker: Path, tmp_path: Path):
    out = building.build_linker([], tmp_path / "linker", kb=tiny_linker / "kb", model=letter_model(), index=ExactIndex(), progress=False)
    assert KnowledgeBase(out / "kb", verify=True).fingerprint == KnowledgeBase(tiny_linker / "kb").fingerprint
    with pytest.raises(MissingFile, match="E101"):
        building.build_linker([], tmp_path / "other", kb=tmp_path / "nowhere", model=letter_model(), index=ExactIndex(), progress=False)
    assert not (tmp_path / "other").exists()


def test_the_report_says_what_the_index_was_built_for(tiny_linker: Path, tiny_kb: KnowledgeBase):
    report = bundle.open_index(tiny_linker).report
    assert report["built_for"]["kb"] == tiny_kb.fingerprint
    assert len(report["built_for"]["encoder"]) == 32
    assert "MiniLM" in report["built_for"]["encoder_name"]
    assert report["exact"]["acc_at_1"] - report["chosen"]["acc_at_1"] <= 0.01  # one of the 200 names is 0.5 points


def test_engine_name():
    assert bundle.engine_name(AnnoyIndex()) == "spacy-sapbert.AnnoyIndex.v1"
    assert bundle.engine_name(ExactIndex()) == "spacy-sapbert.ExactIndex.v1"
    with pytest.raises(SapbertError, match="E006"):
        bundle.engine_name(object())
    with pytest.raises(SapbertError, match="E006"):  # a class of another author that has the name of our engine by chance
        bundle.engine_name(type("ExactIndex", (), {})())


def test_an_engine_that_is_not_installed(tiny_linker: Path, tmp_path: Path):
    shutil.copytree(tiny_linker, tmp_path / "linker", copy_function=os.link)
    manifest = json.loads((tmp_path / "linker" / "manifest.json").read_text())
    (tmp_path / "linker" / "manifest.json").unlink()  # it is a link: do not write to its target
    (tmp_path / "linker" / "manifest.json").write_text(json.dumps({**manifest, "index": "other.HnswIndex.v1"}))
    with pytest.raises(SapbertError, match=r"engine 'other\.HnswIndex\.v1' is not registered here .in `sapbert_indexes`") as error:
        bundle.open_index(tmp_path / "linker")
    assert error.value.code == "E052"


@pytest.mark.parametrize(("architecture", "code"), [("other.Encoder.v1", "E052"), (7, "E110"), ("", "E110")])
def test_an_architecture_that_is_not_installed(tiny_linker: Path, tmp_path: Path, architecture: object, code: str):
    shutil.copytree(tiny_linker / "encoder", tmp_path / "encoder", copy_function=os.link)
    manifest = json.loads((tmp_path / "encoder" / "manifest.json").read_text())
    (tmp_path / "encoder" / "manifest.json").unlink()
    (tmp_path / "encoder" / "manifest.json").write_text(json.dumps({**manifest, "architecture": architecture}))
    with pytest.raises(SapbertError) as error:
        bundle.open_encoder(tmp_path / "encoder", bundle.make_encoder(bundle.STATIC_ENCODER, {}))
    assert error.value.code == code


# -- kb_loader ------------------------------------------------------------------------------------------------------------


def test_from_folder(tmp_path: Path):
    assert loaders.from_folder(tmp_path)(None, None) == tmp_path
    with pytest.raises(MissingFile, match="E101"):
        loaders.from_folder(tmp_path / "nowhere")(None, None)


def test_from_sources(small_tsv: Path, tmp_path: Path, cache: Path):
    with pytest.raises(MissingFile, match="E401"):
        loaders.from_sources([tmp_path / "nothing.obo"], out=tmp_path / "out")(letter_model(), ExactIndex())
    assert not (tmp_path / "out").exists()
    load = loaders.from_sources([str(small_tsv)], types=["T033"], progress=False)
    folder = load(letter_model(), ExactIndex())
    assert folder.is_relative_to(cache)
    assert len(KnowledgeBase(folder / "kb")) == 2
    other = loaders.from_sources([str(small_tsv)], kinds={"small.tsv": "table"}, cui_only=True, progress=False)(letter_model(), ExactIndex())
    assert other != folder
    with pytest.raises(SapbertError, match="E103"):
        loaders.from_sources([str(small_tsv)], types=["T121"], progress=False)(letter_model(), ExactIndex())
    with pytest.raises(SapbertError, match="E104"):
        loaders.from_sources([str(small_tsv)], types=["medicine"], progress=False)(letter_model(), ExactIndex())
    with pytest.raises(SapbertError, match="E406"):
        loaders.from_sources([str(small_tsv)], kinds={"small.tsv": "spreadsheet"}, progress=False)(letter_model(), ExactIndex())


def test_changed_sources_are_read_again(tmp_path: Path, cache: Path):
    path = tmp_path / "a.tsv"
    sizes = []
    for row in ("", "C0000002\tcough\n"):
        path.write_text("concept_id\tname\nC0000001\tfever\n" + row)
        sizes.append(len(KnowledgeBase(loaders.from_sources([path], progress=False)(letter_model(), ExactIndex()) / "kb")))
    assert sizes == [1, 2]


def test_a_package_that_is_not_installed():
    with pytest.raises(SapbertError, match=r"E004.*no_such_package.*pip install"):
        package_file("no_such_package", "x")


def test_names_of_sources_that_come_with_the_package(tmp_path: Path):
    assert default_linkers.source_file("open") == default_linkers.OPEN_TABLE
    assert default_linkers.source_file("hpo").name == "hp.obo"
    assert default_linkers.source_file(tmp_path / "open") == tmp_path / "open"
