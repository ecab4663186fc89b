"""A word of a note is not written into a log, the cache, a temporary file, an error, a file of failures or a saved linker, and nothing is sent."""

from __future__ import annotations

import json
import logging
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import DocBin
from starlette.testclient import TestClient
from typer.testing import CliRunner

from spacy_sapbert import cli
from spacy_sapbert.corpus.annotate import annotate
from spacy_sapbert.corpus.annotator import AnnotationSettings
from spacy_sapbert.corpus.parts import FAILED
from spacy_sapbert.corpus.pipeline import make_pipeline
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.service.app import create_app
from spacy_sapbert.service.settings import ServiceSettings

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


def gold(path: Path, kb: KnowledgeBase) -> Path:
    """Write annotated notes in which the word is text, and a mention that the reader marked as a concept."""
    vocab = spacy.blank("en").vocab
    found = DocBin(store_user_data=True)
    names = [(name, concept) for concept in kb for name in kb[concept].aliases]
    for i, (name, concept) in enumerate(names):
        mention = f"{name} {'of the patient' if i % 3 else WORD}"  # no exact match
        doc = spacy.blank("en", vocab=vocab).make_doc(f"{WORD} came on day {i} with {mention}.")
        start = doc.text.index(mention, len(WORD))
        doc.ents = [doc.char_span(start, start + len(mention), label="DISO", kb_id=concept, alignment_mode="expand")]
        found.add(doc)
    found.to_disk(path)
    return path


@pytest.mark.e2e
def test_what_is_fit_on_notes_holds_no_word_of_them(
    tiny_linker: Path, tiny_kb: KnowledgeBase, home: Path, tmp_path: Path, no_network: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    linker = Path(shutil.copytree(tiny_linker, tmp_path / "linker"))
    notes = gold(tmp_path / "notes.spacy", tiny_kb)
    said = []
    for command, made in (("train-ranker", "ranker.json"), ("calibrate", "calibration.json")):
        result = CliRunner().invoke(cli.app, [command, str(linker), str(notes)])
        assert result.exit_code == 0, result.output
        assert (linker / made).is_file()
        said.append(result.output)
    sources = [str(Path(__file__).parent / "data" / name) for name in ("tiny_clinic.tsv", "tiny.obo")]
    options = ["--out", str(tmp_path / "updated"), "--corpus", str(notes), "--no-check"]
    result = CliRunner().invoke(cli.app, ["kb", "update", str(linker), *sources, *options])
    assert result.exit_code == 0, result.output
    said.append(result.output)
    (tmp_path / "broken.spacy").write_bytes(notes.read_bytes()[:-40])
    for command in ("train-ranker", "calibrate"):
        result = CliRunner().invoke(cli.app, [command, str(linker), str(tmp_path / "broken.spacy")])
        assert result.exit_code == 1
        said.append(result.output)
    assert WORD.lower() not in ("".join(said) + caplog.text).lower()
    assert holders(linker, tmp_path / "updated", home) == []


def test_a_review_keeps_the_word_in_its_own_file(
    tiny_linker: Path, pipeline: Path, home: Path, tmp_path: Path, no_network: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    notes = tmp_path / "notes.jsonl"
    notes.write_text("".join(json.dumps({"id": str(i), "text": text}) + "\n" for i, text in enumerate([NOTE, f"{NOTE} fails"])))
    review, linker = tmp_path / "review.sqlite", Path(shutil.copytree(tiny_linker, tmp_path / "linker"))
    added = CliRunner().invoke(cli.app, ["review", "add", str(review), str(notes), "--linker-name", str(linker), "--pipeline", str(pipeline)])
    assert added.exit_code == 1  # of the second note
    assert "E054" in added.stderr
    report = CliRunner().invoke(cli.app, ["review", "report", str(review)])
    applied = CliRunner().invoke(cli.app, ["review", "apply", str(review), str(linker), "--out", str(tmp_path / "applied")])
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes(review.read_bytes()[:-3000])
    broken = CliRunner().invoke(cli.app, ["review", "report", str(damaged)])
    assert (report.exit_code, broken.exit_code) == (0, 1), report.output + broken.output
    said = added.output + report.output + applied.output + broken.output + caplog.text
    assert WORD.lower() not in said.lower()
    assert holders(linker, home, *([tmp_path / "applied"] if applied.exit_code == 0 else [])) == []
    assert review.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("one_thread")
def test_the_service_keeps_the_word_out_of_logs_metrics_and_errors(
    tiny_linker: Path, pipeline: Path, home: Path, no_network: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    nlp = make_pipeline({"linker_name": str(tiny_linker)}, str(pipeline), alone=True)
    answers: list[Any] = []
    slow = threading.Event()

    @Language.component("waits_on_name")
    def waits_on_name(doc: Any) -> Any:
        if "waits" in doc.text:
            slow.wait(60)
        return doc

    nlp.add_pipe("waits_on_name", first=True)
    settings = ServiceSettings(max_characters=2000, max_texts=3, max_body_bytes=20_000, timeout=2.0, max_queue=3)
    with TestClient(create_app(lambda: nlp, settings), raise_server_exceptions=False) as client:
        while client.get("/ready").status_code != 200:
            time.sleep(0.01)
        json_type = {"content-type": "application/json"}
        for body in (
            f'{{"text": "{WORD}',
            f'{{"{WORD}": 1}}',
            f'{{"{WORD.lower()}": 1}}',
            f'{{"text": "fever", "settings": {{"{WORD.lower()}": 1}}}}',
            f'["{WORD}"]',
            f'{{"text": {{"{WORD}": 1}}}}',
            f'{{"text": "{WORD} \\ud800"}}',
            f"\xff{WORD}",
        ):
            answers.append(client.post("/link", content=body.encode("latin-1"), headers=json_type))
        for asked in (
            {"text": NOTE * 100},
            {"texts": [NOTE] * 4},
            {"text": NOTE * 1000},
            {"text": f"{NOTE} fails"},
            {"text": f"{NOTE} waits"},
        ):
            answers.append(client.post("/link", json=asked))
        slow.set()
        answers.append(client.post("/mentions:link", json={"text": NOTE, "mentions": [{"start": 3, "end": 900}]}))
        answers.append(client.post("/link", params={"format": WORD}, json={"text": NOTE}))
        answers += [
            client.get(f"/{WORD}"),
            client.get(f"/concepts/{WORD}"),
            client.request("TRACE", f"/link/{WORD}"),
            client.post("/lookup", json={"mentions": [WORD] * 9}),
        ]
        metrics = client.get("/metrics").text
        while client.get("/health").status_code != 200:
            pass
    assert {answer.status_code for answer in answers} >= {404, 413, 422, 500, 504}
    assert all(answer.status_code >= 400 for answer in answers)
    assert [answer.text for answer in answers if WORD.lower() in answer.text.lower()] == []
    ours = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("httpx"))  # without the log of the client
    assert WORD.lower() not in (metrics + ours).lower()
    assert holders(home) == []
