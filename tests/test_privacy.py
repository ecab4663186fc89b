"""A word of a note is not written into a log, the cache, a temporary file, an error, a file of failures or a saved linker, and nothing is sent."""

from __future__ import annotations

import json
import logging
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.language import Language
from typer.testing import CliRunner

from spacy_sapbert import cli
from spacy_sapbert.corpus.annotate import annotate
from spacy_sapbert.corpus.annotator import AnnotationSettings
from spacy_sapbert.corpus.parts import FAILED

WORD = "Zyxwvutsmith"  # the patient's name
NOTE = f"{WORD} has fever and a dry cough."


@Language.component("fails_on_name")
def fails_on_name(doc: Any) -> Any:
    if WORD in doc.text and "fails" in doc.text:
        raise ValueError(f"can't read {doc.text}")
    return doc


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for everything that is written to other places than a test names: the cache and temporary files."""
    folder = tmp_path / "home"
    (folder / "tmp").mkdir(parents=True)
    monkeypatch.setenv("SPACY_SAPBERT_CACHE", str(folder / "cache"))
    monkeypatch.setenv("TMPDIR", str(folder / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    tried: list[object] = []

    def refuse(self: socket.socket, address: object) -> None:
        if self.family != socket.AF_UNIX:
            tried.append(address)
            raise AssertionError(f"a connection to {address!r} was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **more: tried.append(args))
    yield tried
    assert tried == []


def holders(*folders: Path) -> list[str]:
    """Return the files that contain the word, in UTF-8 or UTF-16, in upper or lower case."""
    forms = [form for word in (WORD, WORD.lower(), WORD.upper()) for form in (word.encode(), word.encode("utf-16-le"))]
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    return [path.name for path in files if any(form in path.read_bytes() for form in forms)]


@pytest.fixture
def pipeline(tiny_linker: Path, tmp_path: Path) -> Path:
    nlp = spacy.blank("en")
    nlp.add_pipe("concept_matcher", config={"linker_name": str(tiny_linker)})
    nlp.add_pipe("fails_on_name")
    nlp.to_disk(tmp_path / "pipeline")
    return tmp_path / "pipeline"


def test_a_word_of_a_note_stays_in_the_note(
    tiny_linker: Path, pipeline: Path, home: Path, tmp_path: Path, no_network: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    notes = tmp_path / "notes.jsonl"
    texts = [NOTE, f"{NOTE} fails", f"{NOTE} half a pair: \ud800", f"{WORD}: vomiting"]
    notes.write_text("".join(json.dumps({"id": str(i), "text": text}) + "\n" for i, text in enumerate(texts)) + '{"text": "' + WORD + "\n")
    report = annotate(notes, tmp_path / "out", AnnotationSettings(str(tiny_linker), str(pipeline)), partition_size=2, progress=False)
    assert (report.counts.notes, report.counts.failed) == (5, 3)
    assert report.counts.linked == 2
    assert len(list((tmp_path / "out" / FAILED).iterdir())) == 3
    notes.write_text("".join(json.dumps({"id": str(i), "text": text}) + "\n" for i, text in enumerate(texts)))
    linked = CliRunner().invoke(cli.app, ["link", str(notes), "--linker-name", str(tiny_linker), "--pipeline", str(pipeline), "--format", "jsonl"])
    assert linked.exit_code == 1
    assert "E054" in linked.stderr
    assert WORD not in linked.stderr + caplog.text + linked.stdout
    assert holders(home, tmp_path / "out", pipeline) == []


def test_a_saved_linker_holds_no_word_of_the_notes_it_saw(tiny_linker: Path, home: Path, tmp_path: Path, no_network: list[object]) -> None:
    nlp = spacy.blank("en")
    linker: Any = nlp.add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker)})
    doc = nlp.make_doc(NOTE)
    doc.ents = [doc.char_span(len(WORD) + 5, len(WORD) + 10, label="DISO"), doc.char_span(0, len(WORD), label="DISO")]  # the word is also a mention
    linker(doc)
    assert [bool(ent.kb_id_) for ent in doc.ents] == [False, True]
    linker.add_alias(doc.ents[1].kb_id_, "hotness")
    linker.to_disk(tmp_path / "linker")
    assert holders(tmp_path / "linker", home) == []
    nlp.to_disk(tmp_path / "nlp")
    assert holders(tmp_path / "nlp") == ["strings.json"]  # a file of spaCy; SECURITY.md mentions it
    fresh = spacy.blank("en")  # a pipeline that is saved before it reads notes
    fresh.add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker)})
    fresh.to_disk(tmp_path / "fresh")
    assert holders(tmp_path / "fresh") == []


@pytest.mark.e2e
def test_nothing_is_sent_where_there_is_no_network(tiny_linker: Path, tmp_path: Path) -> None:
    alone = ["unshare", "-rn"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], capture_output=True, timeout=60).returncode:
        pytest.skip("unshare -rn is not allowed here")
    code = "import socket; socket.create_connection(('192.0.2.1', 80), 2)"
    assert b"unreachable" in subprocess.run([*alone, sys.executable, "-c", code], capture_output=True, timeout=60).stderr
    command = [*alone, sys.executable, "-m", "spacy_sapbert", "link", "fever", "--linker-name", str(tiny_linker), "--format", "jsonl"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[0])["cui"].startswith("C")
