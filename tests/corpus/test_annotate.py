"""Annotate corpora into Parquet: rows, equal bytes with any workers, resuming, notes that fail, killed workers."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from spacy.tokens import Span
from typer.testing import CliRunner

import spacy_sapbert
from spacy_sapbert.cli import app
from spacy_sapbert.context.senses import DATA as SENSES
from spacy_sapbert.corpus import local
from spacy_sapbert.corpus.annotate import annotate
from spacy_sapbert.corpus.annotator import AnnotationSettings, Annotator
from spacy_sapbert.corpus.isolated import describe
from spacy_sapbert.corpus.notes import Note
from spacy_sapbert.errors import SapbertError, SapbertWarning, fail

pytestmark = pytest.mark.usefixtures("one_thread")

NOTE = "Fevers and a cold.\nTakes aspirin for hypertension.\n"
ROWS = [  # start, end, mention, label, cui, name, codes
    (0, 6, "Fevers", "DISO", "C9100027", "fever", ["UMLS:C9100027", "SNOMEDCT_US:386661006"]),
    (13, 17, "cold", "DISO", "C9100020", "common cold", ["UMLS:C9100020"]),
    (25, 32, "aspirin", "CHEM", "C9100053", "acetylsalicylic acid", ["UMLS:C9100053", "RXNORM:1191"]),
    (37, 49, "hypertension", "DISO", "C9100009", "hypertension", ["UMLS:C9100009", "ICD10CM:I10"]),
]
NAMES = ["cough", "bellies ache", "heart attacks", "swollen ankles", "kidney replacement", "wandering knees", "itchy skins", "lung embolisms"]
TEXTS = [f"He has {NAMES[i % 8]} and {NAMES[(3 * i + 1) % 8]}, no {NAMES[(5 * i + 2) % 8]}s." for i in range(24)]
TRAP = '''
"""A pipeline with traps: on xkillx the process is killed as long as there are bullets, on xraisex an error that quotes the note is raised."""
import os
import signal
from pathlib import Path

import spacy
from spacy.language import Language


@Language.component("trap")
def trap(doc):
    if "xkillx" in doc.text:
        for bullet in sorted(Path(os.environ["TRAP_BULLETS"]).iterdir()):
            bullet.unlink()
            if bullet.name == "cut":  # as if another program wrote into the linker's folder
                os.truncate(os.environ["TRAP_FILE"], 100)
                return doc
            if bullet.name == "segv":
                os.kill(os.getpid(), signal.SIGSEGV)
            if bullet.name == "node":  # the parent is Ray's process for this node
                os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
    if "xraisex" in doc.text:
        raise ValueError(f"what is this: {doc.text}")
    return doc


def load(**options):
    nlp = spacy.blank("en")
    patterns = [{"label": "PROBLEM", "pattern": name} for name in NAMES]
    nlp.add_pipe("entity_ruler").add_patterns(patterns)
    nlp.add_pipe("trap")
    return nlp
'''.replace("NAMES", repr(NAMES))


def write_corpus(path: Path, texts: List[str]) -> Path:
    path.write_text("".join(json.dumps({"id": f"n{i}", "text": text}) + "\n" for i, text in enumerate(texts)))
    return path


def read(out: Path) -> List[Dict[str, Any]]:
    """Return the rows in the order of the parts, read as any reader of a Parquet folder reads them."""
    return pyarrow.dataset.dataset(out).to_table().to_pylist()


def content(out: Path) -> Dict[str, bytes]:
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def settings(tiny_linker: Path) -> AnnotationSettings:
    return AnnotationSettings(str(tiny_linker))


@pytest.fixture(scope="module")
def trap(tmp_path_factory: pytest.TempPathFactory, tiny_linker: Path) -> Iterator[AnnotationSettings]:
    """Settings with the pipeline TRAP, which workers can also import. $TRAP_BULLETS names a folder."""
    folder = tmp_path_factory.mktemp("trap")
    (folder / "trap_pipeline").mkdir()
    (folder / "trap_pipeline" / "__init__.py").write_text(textwrap.dedent(TRAP))
    (folder / "trap_pipeline-1.0.dist-info").mkdir()
    (folder / "trap_pipeline-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: trap_pipeline\nVersion: 1.0\n")
    (folder / "bullets").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv("TRAP_BULLETS", str(folder / "bullets"))
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(Path(__file__).parents[2])]))  # for Ray's workers
        yield AnnotationSettings(str(tiny_linker), "trap_pipeline", abbreviations=False)


def load_bullets(count: int) -> Path:
    folder = Path(os.environ["TRAP_BULLETS"])
    for i in range(count):
        (folder / str(i)).touch()
    return folder


@pytest.fixture(scope="module")
def trapped(tmp_path_factory: pytest.TempPathFactory, trap: AnnotationSettings) -> Any:
    """A corpus with a note that kills the worker and one that raises, and the output of one worker when there are no bullets."""
    folder = tmp_path_factory.mktemp("trapped")
    texts = list(TEXTS)
    texts[9] += " xkillx"
    texts[14] += " xraisex"
    corpus = write_corpus(folder / "corpus.jsonl", texts)
    report = annotate(corpus, folder / "out", trap, partition_size=4, progress=False)
    assert (report.counts.notes, report.counts.failed, report.partitions, report.kept) == (24, 1, 6, 0)
    return corpus, content(folder / "out")


# -- rows -----------------------------------------------------------------------------------------------------------------


def test_rows_of_every_kind_of_input(tmp_path: Path, settings: AnnotationSettings):
    folder = tmp_path / "notes"
    folder.mkdir()
    for name, text in (("a", NOTE), ("b", "nothing"), ("c", "MS came.")):
        (folder / f"{name}.txt").write_text(text)
    rows = [{"id": name, "text": (folder / f"{name}.txt").read_text()} for name in "abc"]
    (tmp_path / "notes.jsonl").write_text("\n".join(map(json.dumps, rows)))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "notes.parquet")
    outs = []
    for number, source in enumerate((folder, tmp_path / "notes.jsonl", tmp_path / "notes.parquet")):
        out = tmp_path / f"out{number}"
        report = annotate(source, out, settings, partition_size=2, progress=False)
        assert report.counts._asdict() == {"notes": 3, "mentions": 5, "linked": 5, "failed": 0}
        outs.append({name: data for name, data in content(out).items() if name != "_manifest.json"})
    assert outs[0] == outs[1] == outs[2]
    assert list(outs[0]) == ["_summary.json", "part-00000.parquet", "part-00001.parquet"]
    assert json.loads(outs[0]["_summary.json"]) == {"notes": 3, "mentions": 5, "linked": 5, "failed": 0, "partitions": 2}
    found = read(tmp_path / "out0")
    keys = ("start", "end", "mention", "label", "cui", "name", "codes")
    assert [tuple(row[key] for key in keys) for row in found[:4]] == ROWS
    assert [row["note_id"] for row in found] == ["a", "a", "a", "a", "c"]
    assert [row["score"] for row in found] == [1.0] * 5  # all are names; "Fevers" is the plural of one
    assert {row["probability"] for row in found} == {None}  # no calibration was fit
    types = {field.name: str(field.type) for field in pq.read_schema(tmp_path / "out0" / "part-00000.parquet")}
    assert types == {
        **dict.fromkeys(("note_id", "mention", "label", "section", "cui", "name"), "string"),
        **dict.fromkeys(("start", "end"), "int32"),
        **dict.fromkeys(("score", "probability"), "float"),
        **dict.fromkeys(("codes", "status", "types", "type_names"), "list<element: string>"),
        "candidates": "list<element: struct<cui: string, name: string, score: float>>",
        "nested": "bool",
    }
    assert [row["candidates"][0]["cui"] for row in found[:4]] == [row[4] for row in ROWS]
    assert found[2]["candidates"][0] == {"cui": "C9100053", "name": "acetylsalicylic acid", "score": 1.0}
    assert found[0]["type_names"] == ["Finding"]


def test_types_sections_and_kept_columns(tmp_path: Path, settings: AnnotationSettings):
    texts = ["HPI: fever.\n\nMEDICATIONS: aspirin.", "cough"]
    rows = [{"text": text, "ward": f"w{i}", "bed": {"no": i} if i else None} for i, text in enumerate(texts)]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "c.parquet")
    (tmp_path / "c.csv").write_text('text,ward,bed\n"' + texts[0] + '",w0,\ncough,w1,"{""no"": 1}"\n')
    outs = []
    for name in ("c.jsonl", "c.parquet", "c.csv"):
        out = tmp_path / f"out-{name}"
        annotate(tmp_path / name, out, replace(settings, keep_columns=["ward", "bed"]), progress=False)
        keys = ("mention", "section", "types", "ward", "bed")
        outs.append([tuple(row[key] or None for key in keys) for row in read(out)])
    assert outs[0] == outs[1] == outs[2]
    assert outs[0] == [
        ("fever", "present_illness", ["T033"], "w0", None),
        ("aspirin", "medications", ["T121"], "w0", None),
        ("cough", "other", ["T033"], "w1", '{"no": 1}'),
    ]
    for name, wrong, code in (("c.jsonl", ["cui"], "E002"), ("c.csv", ["ward", "ward"], "E002"), ("c.csv", ["room"], "E408")):
        with pytest.raises(SapbertError, match=code):
            annotate(tmp_path / name, tmp_path / "other", replace(settings, keep_columns=wrong), progress=False)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("fever")
    with pytest.raises(SapbertError, match=r"E002.*no columns"):
        annotate(tmp_path / "texts", tmp_path / "other", replace(settings, keep_columns=["ward"]), progress=False)


def test_status_and_extensions_are_columns(tmp_path: Path, settings: AnnotationSettings):
    Span.set_extension("is_negated_elsewhere", getter=lambda span: span.text == "fever", force=True)
    corpus = write_corpus(tmp_path / "c.jsonl", ["No fever. Mother had a heart attack."])
    annotate(corpus, tmp_path / "out", replace(settings, extensions=["is_negated_elsewhere"]), progress=False)
    rows = read(tmp_path / "out")
    assert [(row["mention"], row["status"], row["is_negated_elsewhere"]) for row in rows] == [
        ("fever", ["negated"], "true"),
        ("heart attack", ["family"], "false"),
    ]
    Span.remove_extension("is_negated_elsewhere")
    for wrong in ("is_negated_elsewhere", "status"):
        with pytest.raises(SapbertError, match="E002"):
            annotate(corpus, tmp_path / "other", replace(settings, extensions=[wrong]), progress=False)


def test_what_is_near_nothing_is_a_row_without_a_concept(tmp_path: Path, tiny_linker: Path):
    corpus = write_corpus(tmp_path / "c.jsonl", ["cold and knee replacement"])
    report = annotate(corpus, tmp_path / "out", AnnotationSettings(str(tiny_linker), vocabularies=["RXNORM"], threshold=0.9), progress=False)
    assert (report.counts.mentions, report.counts.linked) == (2, 0)
    wanted = {"note_id": "n0", "start": 0, "end": 4, "mention": "cold", "label": "DISO", "codes": [], "status": [], "nested": False}
    wanted |= {"section": "other", "types": [], "type_names": [], "candidates": []}
    assert read(tmp_path / "out")[0] == {**wanted, "cui": None, "name": None, "score": None, "probability": None}


def test_what_a_partition_gives_does_not_depend_on_the_last_one(tmp_path: Path, settings: AnnotationSettings):
    notes = [Note(f"n{i}", "", text) for i, text in enumerate(TEXTS)]
    with Annotator(settings, tmp_path) as annotator:
        alone = annotator.annotate(notes[8:16])
        annotator.annotate(notes)
        assert annotator.annotate(notes[8:16]) == alone
    assert len(alone[0]) > 8


# -- workers ----------------------------------------------------------------------------------------------------------------


@pytest.mark.e2e
def test_a_killed_worker_loses_nothing_and_nothing_comes_twice(tmp_path: Path, trap: AnnotationSettings, trapped: Any):
    corpus, wanted = trapped
    bullets = load_bullets(1)
    with pytest.warns(SapbertWarning, match=r"\[W021\] A worker died while it annotated part-00002: a worker was killed by signal 9 \(SIGKILL\)"):
        report = annotate(corpus, tmp_path / "out", trap, workers=2, partition_size=4, progress=False)
    assert not list(bullets.iterdir())
    assert content(tmp_path / "out") == wanted  # the same as with one worker
    assert (report.kept, report.partitions) == (0, 6)
    rows = read(tmp_path / "out")
    assert len({(row["note_id"], row["start"]) for row in rows}) == len(rows) == report.counts.mentions
    assert {row["note_id"] for row in rows} == {f"n{i}" for i in range(24) if i != 14}


def command(corpus: Path, out: Path, trap: AnnotationSettings) -> List[str]:
    options = ["--pipeline", "trap_pipeline", "--linker-name", str(trap.linker_name), "--no-abbreviations", "--partition-size", "4"]
    return ["annotate", str(corpus), str(out), *options]


@pytest.mark.e2e
def test_the_command_survives_a_crash_of_its_only_worker(tmp_path: Path, trap: AnnotationSettings, trapped: Any):
    corpus, wanted = trapped
    bullet = load_bullets(0) / "segv"
    bullet.touch()
    with pytest.warns(SapbertWarning, match=r"\[W021\] .*signal 11 \(SIGSEGV\): the files of linker '.*' are as they were built"):
        result = CliRunner().invoke(app, command(corpus, tmp_path / "out", trap))
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("24 notes, 1 failed ")
    assert not bullet.exists()
    assert content(tmp_path / "out") == wanted  # the same as in one process


@pytest.mark.e2e
def test_a_linker_that_is_cut_short_in_use_is_named(tmp_path: Path, trap: AnnotationSettings, trapped: Any, monkeypatch: pytest.MonkeyPatch):
    corpus, wanted = trapped
    linker = Path(shutil.copytree(str(trap.linker_name), tmp_path / "linker"))
    monkeypatch.setenv("TRAP_FILE", str(linker / "index" / "vectors.npy"))
    (load_bullets(0) / "cut").touch()
    with pytest.warns(SapbertWarning, match=r"\[W021\] .*\(SIGBUS\): in linker '.*' index/vectors\.npy changed since it was built"):
        result = CliRunner().invoke(app, command(corpus, tmp_path / "out", replace(trap, linker_name=str(linker))))
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("[E202]")  # the next worker finds the damage when it loads
    assert "'vectors.npy' has 100 bytes" in result.stderr
    shutil.rmtree(linker)
    shutil.copytree(str(trap.linker_name), linker)
    annotate(corpus, tmp_path / "out", replace(trap, linker_name=str(linker)), partition_size=4, progress=False)  # without a worker
    parts = {name: data for name, data in wanted.items() if name != "_manifest.json"}  # it has a hash of the pipeline, whose config names the folder
    assert {name: data for name, data in content(tmp_path / "out").items() if name != "_manifest.json"} == parts


@pytest.mark.e2e
def test_what_kills_every_worker_is_named_and_the_others_are_done(tmp_path: Path, trap: AnnotationSettings, trapped: Any):
    corpus, wanted = trapped
    out = tmp_path / "out"
    load_bullets(3)
    with pytest.raises(SapbertError) as info:
        annotate(corpus, out, trap, workers=2, partition_size=4, progress=False)
    assert str(info.value).startswith(
        "[E409] 1 of 6 partitions could not be finished: part-00002. All others are finished and kept. Each was tried 3 times"
    )
    assert "SIGKILL" in str(info.value)
    missing = {"part-00002.parquet", "_summary.json"}
    assert content(out) == {name: data for name, data in wanted.items() if name not in missing}
    report = annotate(corpus, out, trap, partition_size=4, progress=False)  # without the bullets
    assert report.kept == 5
    assert content(out) == wanted


@pytest.mark.e2e
def test_ray_here(tmp_path: Path, trap: AnnotationSettings, trapped: Any, monkeypatch: pytest.MonkeyPatch):
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("RAY_worker_niceness", "0")  # the default is 15, with which loading takes a minute on a busy machine
    corpus, wanted = trapped
    monkeypatch.chdir(tmp_path)
    annotate(
        os.path.relpath(corpus),
        "out",
        replace(trap, linker_name=os.path.relpath(str(trap.linker_name))),
        engine="ray",
        partition_size=4,
        progress=False,
    )
    assert content(tmp_path / "out") == wanted
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert not ray.is_initialized()


@pytest.mark.nightly
@pytest.mark.e2e
def test_a_ray_cluster_that_loses_an_actor(tmp_path: Path, trap: AnnotationSettings, trapped: Any, monkeypatch: pytest.MonkeyPatch):
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    monkeypatch.setenv("RAY_worker_niceness", "0")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    corpus, wanted = trapped
    bullets = load_bullets(1)
    head = {"num_cpus": 2, "object_store_memory": 128 * 1024 * 1024, "include_dashboard": False}
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
    try:
        options = {"engine": "ray", "workers": 2, "ray_address": cluster.address, "partition_size": 4, "progress": False}
        report = annotate(corpus, tmp_path / "out", trap, **options)
    finally:
        cluster.shutdown()
    assert not list(bullets.iterdir())
    assert content(tmp_path / "out") == wanted
    assert (report.counts.notes, report.kept) == (24, 0)


@pytest.mark.nightly
@pytest.mark.e2e
def test_a_ray_cluster_that_loses_a_node(tmp_path: Path, trap: AnnotationSettings, trapped: Any, monkeypatch: pytest.MonkeyPatch):
    """A head that runs no workers, and two nodes with one worker each; one node is killed with all its processes."""
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    monkeypatch.setenv("RAY_worker_niceness", "0")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    corpus, wanted = trapped
    bullet = load_bullets(0) / "node"
    bullet.touch()
    node = {"object_store_memory": 128 * 1024 * 1024, "include_dashboard": False}
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **node})
    try:
        nodes = [cluster.add_node(num_cpus=1, **node) for _ in range(2)]
        cluster.wait_for_nodes()
        command = [sys.executable, "-m", "spacy_sapbert", "annotate", str(corpus), str(tmp_path / "out"), "--pipeline", "trap_pipeline"]
        command += ["--linker-name", str(trap.linker_name), "--no-abbreviations", "--partition-size", "4", "--workers", "2"]
        ran = subprocess.run([*command, "--engine", "ray", "--ray-address", cluster.address], capture_output=True, text=True, timeout=400)
        alive = [one.all_processes["raylet"][0].process.poll() is None for one in nodes]
    finally:
        cluster.shutdown()
    assert ran.returncode == 0, ran.stderr
    assert not bullet.exists()
    assert sorted(alive) == [False, True]
    assert content(tmp_path / "out") == wanted  # the same as with one local worker
    rows = read(tmp_path / "out")
    assert len({(row["note_id"], row["start"]) for row in rows}) == len(rows)


@pytest.mark.e2e
def test_no_ray_cluster_there(tmp_path: Path, settings: AnnotationSettings):
    pytest.importorskip("ray")
    corpus = write_corpus(tmp_path / "c.jsonl", ["cough"])
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # nobody listens there
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(SapbertError) as info:
            annotate(corpus, tmp_path / "out", settings, engine="ray", ray_address=address, progress=False)
    assert str(info.value).startswith(f"[E020] No Ray cluster answers at '{address}'")


# -- resuming --------------------------------------------------------------------------------------------------------------


def test_only_what_is_missing_or_damaged_is_made(tmp_path: Path, settings: AnnotationSettings):
    corpus, out = write_corpus(tmp_path / "c.jsonl", [*TEXTS[:6], NOTE]), tmp_path / "out"
    assert annotate(corpus, out, settings, partition_size=2, progress=False).kept == 0
    whole = content(out)
    assert sum(name.startswith("part-") for name in whole) == 4
    (out / "part-00001.parquet").unlink()
    (out / "part-00002.parquet").write_bytes(whole["part-00002.parquet"][:-9])
    (out / ".part-00001.parquet.host.1.tmp").write_bytes(b"of a run that was killed")
    (out / "_summary.json").unlink()
    before = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    time.sleep(0.02)
    report = annotate(corpus, out, settings, partition_size=2, progress=False)
    assert (report.kept, report.partitions, report.counts.notes) == (2, 4, 7)
    assert content(out) == whole
    kept = {path.name for path in out.iterdir() if path.stat().st_mtime_ns == before.get(path.name)}
    assert kept == {"_manifest.json", "part-00000.parquet", "part-00003.parquet"}
    assert annotate(corpus, out, settings, partition_size=2, progress=False).kept == 4


def test_other_settings_or_another_input_are_refused(tmp_path: Path, settings: AnnotationSettings, tiny_linker: Path):
    corpus, out = write_corpus(tmp_path / "c.jsonl", [NOTE, "cough"]), tmp_path / "out"
    annotate(corpus, out, settings, partition_size=1, progress=False)
    whole = content(out)

    def refused(*args: Any, **options: Any) -> str:
        with pytest.raises(SapbertError) as info:
            annotate(*args, **{"partition_size": 1, "progress": False, **options})
        assert content(out) == whole
        return str(info.value)

    message = refused(corpus, out, AnnotationSettings(str(tiny_linker), threshold=0.5, types=["DISO"]))
    assert message.startswith(f"[E017] '{out}' was started with other settings or another input: ")
    assert "settings threshold: was 0.8, is 0.5" in message
    assert 'settings types: was null, is ["DISO"]' in message
    assert "settings partition_size: was 1, is 2; partitions: was 2, is 1" in refused(corpus, out, settings, partition_size=2)
    write_corpus(corpus, [NOTE, "cough", "fever"])
    message = refused(corpus, out, settings)
    assert "input notes: was 2, is 3" in message
    assert "threshold" not in message


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_is_resumed_with_a_moved_linker_and_not_with_a_changed_one(tmp_path: Path, tiny_linker: Path, workers: int):
    corpus, out = write_corpus(tmp_path / "c.jsonl", [NOTE, "cough"]), tmp_path / "out"
    shutil.copytree(tiny_linker, tmp_path / "here")

    def run(linker: Path) -> Any:
        return annotate(corpus, out, AnnotationSettings(str(linker)), partition_size=1, workers=workers, progress=False)

    run(tmp_path / "here")
    whole = content(out)
    (out / "part-00001.parquet").unlink()
    (tmp_path / "here").rename(tmp_path / "there")
    assert run(tmp_path / "there").kept == 1
    assert content(out) == whole
    nlp = spacy_sapbert.load(str(tmp_path / "there"))
    linker: Any = nlp.get_pipe("sapbert_linker")
    linker.add_alias("C9100027", "burning up")
    linker.to_disk(tmp_path / "changed")
    with pytest.raises(SapbertError, match=r"E017.* settings linker: was "):
        run(tmp_path / "changed" / "linker")
    shutil.copytree(SENSES, tmp_path / "there" / "senses")
    with pytest.raises(SapbertError, match=r"E017.*: settings senses: was null, is "):
        run(tmp_path / "there")
    assert content(out) == whole


def test_a_run_with_other_code_is_not_resumed(tmp_path: Path, tiny_linker: Path):
    corpus, out, code = write_corpus(tmp_path / "c.jsonl", [NOTE, "cough"]), tmp_path / "out", tmp_path / "code.py"
    code.write_text("FIRST = 1\n")
    annotate(corpus, out, AnnotationSettings(str(tiny_linker), code=str(code)), progress=False)
    assert annotate(corpus, out, AnnotationSettings(str(tiny_linker), code=str(code)), progress=False).kept == 1
    code.write_text("SECOND = 2\n")
    with pytest.raises(SapbertError, match=r"E017.*: settings code: was "):
        annotate(corpus, out, AnnotationSettings(str(tiny_linker), code=str(code)), progress=False)


def test_a_manifest_of_an_earlier_version_says_what_it_lacks(tmp_path: Path, settings: AnnotationSettings):
    corpus, out = write_corpus(tmp_path / "c.jsonl", [NOTE, "cough"]), tmp_path / "out"
    annotate(corpus, out, settings, progress=False)
    manifest = json.loads((out / "_manifest.json").read_text())
    manifest["settings"]["spacy_sapbert"] = "0.0.9"
    del manifest["settings"]["linker"], manifest["settings"]["senses"]
    (out / "_manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(SapbertError, match=r'E017.*: settings spacy_sapbert: was "0.0.9", is "0.1.0"; settings linker: was null, is "\w{32}". Give'):
        annotate(corpus, out, settings, progress=False)
    for damaged in ("[" * 100_000, '{"settings": \x00'):
        (out / "_manifest.json").write_text(damaged)
        with pytest.raises(SapbertError, match=r"E402.*_manifest.json' is not a manifest of `annotate`"):
            annotate(corpus, out, settings, progress=False)


def test_a_run_is_resumed_with_a_moved_pipeline(tmp_path: Path, tiny_linker: Path):
    corpus, out = write_corpus(tmp_path / "c.jsonl", [NOTE, "cough"]), tmp_path / "out"
    spacy_sapbert.load(str(tiny_linker)).to_disk(tmp_path / "here")
    annotate(corpus, out, AnnotationSettings(pipeline=str(tmp_path / "here")), partition_size=1, progress=False)
    (out / "part-00001.parquet").unlink()
    (tmp_path / "here").rename(tmp_path / "there")
    report = annotate(corpus, out, AnnotationSettings(pipeline=str(tmp_path / "there")), partition_size=1, progress=False)
    assert report.kept == 1


# -- notes that fail ------------------------------------------------------------------------------------------------------------


def test_a_note_that_raises_goes_to_the_side_file(trapped: Any):
    _, files = trapped
    assert [name for name in files if name.startswith("_failed")] == ["_failed/part-00003.jsonl"]
    (line,) = files["_failed/part-00003.jsonl"].decode().splitlines()
    failed = json.loads(line)
    assert failed["note_id"] == "n14"
    assert failed["place"].endswith("corpus.jsonl, line 15")
    assert failed["reason"].startswith("ValueError in __init__.py, line ")
    assert failed["reason"].endswith(", trap")
    assert "He has" not in line  # no text of the note


def test_unreadable_notes_of_a_corpus(tmp_path: Path, settings: AnnotationSettings):
    corpus = tmp_path / "c.jsonl"
    corpus.write_bytes(b'{"text": "cough"}\n{"text": \n{"text": "caf\xe9"}\n{"id": "x"}\n{"text": "half \\ud800 cough"}\n{"text": "fever"}\n')
    result = CliRunner().invoke(app, ["annotate", str(corpus), str(tmp_path / "out"), "--linker-name", str(settings.linker_name)])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"6 notes, 4 failed ({tmp_path / 'out' / '_failed'}); 2 mentions, 2 linked; partitions: 1 made, 0 kept; ")
    assert "notes/s" in result.stderr  # the progress bar
    assert [row["note_id"] for row in read(tmp_path / "out")] == ["c:1", "c:6"]
    failed = [json.loads(line) for line in (tmp_path / "out" / "_failed" / "part-00000.jsonl").read_text().splitlines()]
    assert [line["note_id"] for line in failed] == ["c:2", "c:3", "x", "c:5"]
    for line, why in zip(failed, ["not JSON", "UTF-8", "no field 'text'", "UnicodeEncodeError"]):
        assert why in line["reason"]


def test_reasons_quote_codes_but_no_notes():
    assert describe(fail("E304", name="x", count=1, total=2)).startswith("[E304] Encoder 'x' gave NaN")
    with pytest.raises(ValueError, match="E088") as info:
        raise ValueError("[E088] Text of length 9 that begins with Mr Smith")
    assert describe(FileNotFoundError(2, "Mr Smith", "smith.txt")) == "FileNotFoundError: No such file or directory"
    reason = describe(info.value)
    assert reason.startswith("ValueError [E088] in test_annotate.py, line ")
    assert "Smith" not in reason


# -- errors -------------------------------------------------------------------------------------------------------------------


def test_wrong_calls_are_one_coded_line(tmp_path: Path, settings: AnnotationSettings):
    corpus, used = write_corpus(tmp_path / "c.jsonl", ["cough"]), tmp_path / "used"
    used.mkdir()
    (used / "thesis.tex").touch()
    (tmp_path / "file").touch()
    pq.write_table(pa.table({"body": ["cough"]}), tmp_path / "t.parquet")
    linker = ["--linker-name", str(settings.linker_name)]
    for args, start in (
        ([corpus, tmp_path / "o", "--workers", "0"], "[E002] Setting 'workers'"),
        ([corpus, tmp_path / "o", "--threads", "0"], "[E002] Setting 'threads'"),
        ([corpus, tmp_path / "o", "--partition-size", "0"], "[E002] Setting 'partition_size'"),
        ([corpus, tmp_path / "o", "--ray-address", "auto"], "[E002] Setting 'ray_address'"),
        ([corpus, tmp_path / "o", "--threshold", "7"], "[E002] Setting 'threshold'"),
        ([corpus, tmp_path / "o", "--types", "T999"], "[E104]"),
        ([corpus, tmp_path / "o", "--pipeline", "no_such"], "[E402]"),
        ([tmp_path / "none.jsonl", tmp_path / "o"], "[E401]"),
        ([tmp_path / "t.parquet", tmp_path / "o"], "[E408]"),
        ([tmp_path / "file", tmp_path / "o"], "[E402]"),
        ([corpus, used], f"[E402] '{used}' is not a folder that `annotate` made: it holds thesis.tex."),
        ([corpus, tmp_path / "file"], "[E009]"),
        ([used, used / "o"], "[E402]"),
    ):
        result = CliRunner().invoke(app, ["annotate", *map(str, args), *linker])
        assert result.exit_code == 1, (args, result.output)
        assert result.stderr.startswith(start), (args, result.stderr)
        assert len(result.stderr.strip().splitlines()) == 1
        assert result.stdout == ""
    (used / "thesis.tex").rename(used / "note.txt")
    with pytest.raises(SapbertError, match=r"E002.*must not be in the folder that is read"):
        annotate(used, used / "o", settings)
    assert not (tmp_path / "o").exists()


def test_one_run_at_a_time(tmp_path: Path, settings: AnnotationSettings):
    from filelock import FileLock

    corpus = write_corpus(tmp_path / "c.jsonl", ["cough"])
    (tmp_path / "out").mkdir()
    with FileLock(tmp_path / "out" / ".lock"), pytest.raises(SapbertError, match="E018"):
        annotate(corpus, tmp_path / "out", settings, progress=False)
    assert annotate(corpus, tmp_path / "out", settings, progress=False).counts.notes == 1
    assert not (tmp_path / "out" / ".lock").exists()


@pytest.mark.parametrize(("module", "engine", "package"), [("pyarrow.parquet", "local", "pyarrow"), ("ray", "ray", "ray[data]")])
def test_a_missing_package_says_what_to_type(
    tmp_path: Path, settings: AnnotationSettings, monkeypatch: pytest.MonkeyPatch, module: str, engine: str, package: str
):
    pq.write_table(pa.table({"text": ["cough"]}), tmp_path / "t.parquet")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SapbertError) as info:
        annotate(tmp_path / "t.parquet", tmp_path / "out", settings, engine=engine, progress=False)
    assert str(info.value).startswith("[E013]")
    assert f"pip install {package}" in str(info.value)
    (tmp_path / "t.jsonl").write_text('{"text": "cough"}\n', encoding="utf-8")
    with pytest.raises(SapbertError, match="E013"):  # also where only the output is Parquet
        annotate(tmp_path / "t.jsonl", tmp_path / "out", settings, engine=engine, progress=False)


FAILS = """
from spacy_sapbert.corpus.annotator import Annotator


def fails(self):
    raise {error}


Annotator.fingerprint = fails
"""


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            "PermissionError(13, 'Permission denied', '/athena/CONCEPT.csv')",
            "[E053] The operating system can't use '/athena/CONCEPT.csv' (Permission denied).",
        ),
        ("KeyError('dose')", "[E059] A worker of `annotate` can't load the pipeline (KeyError: 'dose')."),
    ],
)
def test_what_fails_while_a_worker_loads_is_told(tmp_path: Path, settings: AnnotationSettings, error: str, said: str):
    corpus = write_corpus(tmp_path / "c.jsonl", ["cough"])
    (tmp_path / "code.py").write_text(FAILS.format(error=error))
    with pytest.raises(SapbertError) as info:
        annotate(corpus, tmp_path / "out", replace(settings, code=str(tmp_path / "code.py")), progress=False, isolated=True)
    assert str(info.value).startswith(said)
    assert not (tmp_path / "out").exists()


@pytest.mark.e2e
def test_the_log_of_loading_workers_is_shown_once(tmp_path: Path, settings: AnnotationSettings, caplog: pytest.LogCaptureFixture):
    corpus = write_corpus(tmp_path / "c.jsonl", ["cough", "fever"])
    code = tmp_path / "code.py"
    code.write_text("from spacy_sapbert.errors import logger\nlogger.info('Reading %s', 'CONCEPT.csv')\nlogger.debug('not shown')\n")
    with caplog.at_level(logging.INFO, logger="spacy_sapbert"):
        annotate(corpus, tmp_path / "out", replace(settings, code=str(code)), partition_size=1, workers=2, progress=False)
    assert caplog.messages == ["Reading CONCEPT.csv"]


@pytest.mark.e2e
def test_workers_end_before_the_lock_and_leave_nothing(tmp_path: Path, settings: AnnotationSettings, monkeypatch: pytest.MonkeyPatch):
    corpus, out = write_corpus(tmp_path / "c.jsonl", ["cough"]), tmp_path / "out"
    stop, locked, pids = local.Crew.stop, [], []

    def interrupted(crew: Any, todo: Any) -> Iterator[Any]:
        pids.extend(worker.process.pid for worker in crew.crew.values())
        raise KeyboardInterrupt
        yield

    def stopped(crew: Any) -> None:
        locked.append((out / ".lock").exists())
        if locked[-1]:
            (out / ".part-00000.parquet.host.1.tmp").write_text("cough")  # as a worker that is ended while it writes
        stop(crew)

    monkeypatch.setattr(local.Crew, "run", interrupted)
    monkeypatch.setattr(local.Crew, "stop", stopped)
    with pytest.raises(KeyboardInterrupt):
        annotate(corpus, out, settings, progress=False, isolated=True)
    assert locked[0]
    assert sorted(content(out)) == ["_manifest.json"]
    assert len(pids) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_first_worker_starts_with_ctrl_c_blocked(tmp_path: Path):
    script = """
import sys
from pathlib import Path
from spacy_sapbert.corpus import local
from spacy_sapbert.corpus.annotator import AnnotationSettings

worker = local._Worker(AnnotationSettings(), Path(sys.argv[1]))
status = Path(f"/proc/{worker.process.pid}/status").read_text()
worker.process.kill()
worker.process.join()
print(next(line for line in status.splitlines() if line.startswith("SigBlk")))
"""
    found = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True, timeout=120)
    assert int(found.stdout.split()[1], 16) & 1 << signal.SIGINT - 1


def test_a_full_disk_keeps_what_is_done(tmp_path: Path, settings: AnnotationSettings, monkeypatch: pytest.MonkeyPatch):
    corpus, out = write_corpus(tmp_path / "c.jsonl", ["cough", "fever", "cold"]), tmp_path / "out"
    real = os.fsync
    calls: List[int] = []

    def full(handle: int) -> None:
        calls.append(handle)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SapbertError, match="E019"):
        annotate(corpus, out, settings, partition_size=1, progress=False)
    assert sorted(content(out)) == ["_manifest.json", "part-00000.parquet"]
    assert annotate(corpus, out, settings, partition_size=1, progress=False).kept == 1
