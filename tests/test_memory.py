"""Memory that was freed is returned to the system, also while notes are annotated."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.memory import own_mb
from spacy_sapbert.cli import app, linking
from spacy_sapbert.corpus import annotator
from spacy_sapbert.corpus.annotate import annotate
from spacy_sapbert.corpus.annotator import AnnotationSettings
from spacy_sapbert.memory import return_free_memory

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
