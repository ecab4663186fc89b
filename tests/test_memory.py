"""Memory that was freed is returned to the system, also while notes are annotated."""

from __future__ import annotations

import ast
import gc
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import spacy_sapbert
from benchmarks.memory import own_mb
from spacy_sapbert import memory
from spacy_sapbert.cli import app, linking
from spacy_sapbert.corpus import annotator, local
from spacy_sapbert.corpus.annotate import annotate
from spacy_sapbert.corpus.annotator import AnnotationSettings
from spacy_sapbert.memory import leave_out_of_collections, return_free_memory
from spacy_sapbert.service import run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="this is glibc's")


def test_gaps_in_the_heap_are_returned() -> None:
    if not return_free_memory():
        pytest.skip("another C library")
    start = own_mb() or 0.0
    objects = [bytes(3000) for _ in range(50_000)]  # 150 MB, too large for Python's own allocator
    kept = objects[::100]  # between the gaps, so that the heap can't shrink at its end
    del objects
    held = (own_mb() or 0.0) - start
    return_free_memory()
    left = (own_mb() or 0.0) - start
    assert len(kept) == 500
    assert held > 100
    assert left < 0.4 * held


def test_a_worker_returns_memory_after_each_partition(tiny_linker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[bool] = []
    monkeypatch.setattr(annotator, "return_free_memory", lambda: done.append(return_free_memory()))
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps({"text": f"fever {i}"}) + "\n" for i in range(5)))
    annotate(tmp_path / "notes.jsonl", tmp_path / "out", AnnotationSettings(str(tiny_linker)), partition_size=2, progress=False)
    assert len(done) == 3


def test_link_returns_memory_after_each_batch(tiny_linker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[bool] = []
    monkeypatch.setattr(linking, "return_free_memory", lambda: given.append(return_free_memory()))
    monkeypatch.setattr(linking, "MAX_NOTES", 2)
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps({"text": f"fever {i}"}) + "\n" for i in range(5)))
    command = ["link", str(tmp_path / "notes.jsonl"), "--format", "jsonl", "--out", str(tmp_path / "links.jsonl"), "--linker-name", str(tiny_linker)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert len(given) == 3
    assert len((tmp_path / "links.jsonl").read_text().splitlines()) == 5


def test_only_objects_that_are_made_later_are_collected() -> None:
    before: list[object] = []
    try:
        leave_out_of_collections()
        after: list[object] = []
        known = {id(each) for each in gc.get_objects()}  # those that a collection looks through
        assert id(before) not in known
        assert id(after) in known
    finally:
        gc.unfreeze()


@pytest.mark.parametrize("name", ["link", "review add"])
def test_a_command_leaves_what_it_loaded_out_of_collections(name: str, tiny_linker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[int] = []
    monkeypatch.setattr(linking, "return_free_memory", lambda: frozen.append(gc.get_freeze_count()))  # called after each batch
    gc.unfreeze()
    (tmp_path / "note.txt").write_text("fever")
    files = ["--format", "jsonl", str(tmp_path / "note.txt")] if name == "link" else [str(tmp_path / "review.sqlite"), str(tmp_path / "note.txt")]
    done = CliRunner().invoke(app, [*name.split(), *files, "--linker-name", str(tiny_linker)])
    assert done.exit_code == 0, done.output
    assert len(frozen) == 1
    assert frozen[0] > 10_000


def test_the_service_leaves_what_it_loaded_out_of_collections(tiny_linker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[bool] = []

    def serve(make: Callable[[], Any], *_: object) -> None:
        gc.unfreeze()
        nlp = make()
        assert gc.get_freeze_count() > 10_000
        known = {id(each) for each in gc.get_objects()}  # those that a collection looks through
        loaded.append(id(nlp.get_pipe("sapbert_linker").bundle.__dict__) not in known)

    monkeypatch.setattr(run, "serve", serve)
    done = CliRunner().invoke(app, ["serve", "--linker-name", str(tiny_linker)])
    assert done.exit_code == 0, done.output
    assert loaded == [True]


def test_only_commands_and_workers_change_the_garbage_collector() -> None:
    package = Path(memory.__file__).parent
    calls = {
        path.relative_to(package).as_posix() for path in package.rglob("*.py") if "leave_out_of_collections()" in path.read_text(encoding="utf-8")
    }
    assert calls == {"memory.py", "cli/linking.py", "cli/serve.py", "corpus/local.py", "corpus/ray.py"}
    assert "gc" not in {name for path in package.rglob("*.py") if path != package / "memory.py" for name in imports_of(path)}


def test_loading_a_pipeline_leaves_the_garbage_collector_as_it_is(tiny_linker: Path) -> None:
    gc.unfreeze()
    nlp = spacy_sapbert.load(str(tiny_linker))
    assert [ent.text for ent in nlp("Fever.").ents] == ["Fever"]
    assert gc.get_freeze_count() == 0


def imports_of(path: Path) -> set[str]:
    """Return the modules that a file imports by name."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}


def test_a_worker_leaves_what_it_loaded_out_of_collections(tiny_linker: Path, tmp_path: Path) -> None:
    frozen: list[int] = []

    class Parent:
        def send(self, answer: local._Answer) -> None:
            assert answer.kind == local.READY
            frozen.append(gc.get_freeze_count())

        def recv(self) -> None:
            raise EOFError

    interrupt = signal.getsignal(signal.SIGINT)
    gc.unfreeze()
    try:
        local._work(Parent(), AnnotationSettings(linker_name=str(tiny_linker)), tmp_path, 0)  # type: ignore[arg-type]
    finally:
        signal.signal(signal.SIGINT, interrupt)
        gc.unfreeze()
    assert frozen[0] > 10_000
