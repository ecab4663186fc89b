"""Let an operation fail at one of its writes: it is killed, gets SIGTERM or Ctrl-C, or the disk is full from there on. Needs the preloaded shim.

    driver.py OPERATION KIND STEP FOLDER

It writes one JSON line for each try: how the operation ended and what it said, the state on disk afterwards, and the result when the same operation was
run again. The operation runs in a forked process, which has already imported everything.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from spacy_sapbert import files
from spacy_sapbert.build.linker import build_linker, read_source
from spacy_sapbert.build.update import update_linker
from spacy_sapbert.encoders.static import StaticEncoder
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.indexes.annoy import AnnoyIndex
from spacy_sapbert.kb.builder import build_kb

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
KINDS = {"kill": 0, "full": 1, "ctrl-c": 2, "term": 3}
SIGNALS = ("ctrl-c", "term")
VOLATILE = ("_summary.json",)
FULL = {"E008", "E009", "E019", "E029", "E081", "E516"}  # codes for a full disk
WAIT_SECONDS = 60.0  # for processes that should end by themselves
Run = Callable[[Path], object]


def state(folder: Path) -> str:
    """Return a hash of the content of a folder without hidden files; "" if the folder does not exist."""
    if not folder.is_dir():
        return ""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts) and path.name not in VOLATILE:
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + _content(path))
    return digest.hexdigest()


def _content(path: Path) -> bytes:
    """Return the content of a file; of a manifest without the report of an index, which contains times."""
    data = path.read_bytes()
    return json.dumps({**json.loads(data), "report": None}).encode() if path.name == files.MANIFEST else data


def weights(folder: Path) -> str:
    """Return a hash of the weights of an encoder; "" if there is none. Its other files hold times."""
    path = folder / "model.safetensors"
    return files.checksum(path)[:16] if path.is_file() else ""


@dataclass
class Operation:
    """What is tried.

    Attributes:
        begin: makes the old state of a folder.
        change: makes the new state.
        command: the same as a command line, for signals; None: `change`.
        state: returns a hash of the state of a folder.
        partial: whether another state than the old and the new one may be there in between, because finished parts are kept.
        workers: whether the fault is in a process that the operation starts.
        processes: number of processes that run it at the same time. One of them fails.
    """

    begin: Run
    change: Run
    command: Run | None = None
    state: Callable[[Path], str] = state
    partial: bool = False
    workers: bool = False
    processes: int = 1


class Ended(NamedTuple):
    """How a process ended.

    Attributes:
        how: "whole", "killed", a code, "exit 130" …, or another error.
        said: what it wrote.
        writes: number of its writes; 0 if it was killed.
    """

    how: str
    said: str
    writes: int


def spacy_sapbert(*arguments: Any) -> None:
    """Run a command as `python -m spacy_sapbert` does; it ends with SystemExit."""
    from spacy_sapbert.cli import app

    app([str(argument) for argument in arguments])


def operations(base: Path) -> dict[str, Operation]:
    """Return the operations. What they need besides the folder that they write is made in `base`."""

    def build(source: str) -> Run:
        return lambda out: build_kb([read_source(DATA / source)], out)

    def index(kb: str) -> Run:
        def run(out: Path) -> None:
            made = AnnoyIndex(n_trees=2, search_k=200, tune=False)
            build_linker([], out, kb=base / kb, model=StaticEncoder(), index=made, progress=False, check=False)

        return run

    def update(out: Path) -> None:
        update_linker(out, [read_source(DATA / "tiny_clinic.tsv"), read_source(DATA / "tiny.obo")], None, check=False)

    def component() -> Any:
        import spacy

        return spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(base / "linker")})

    def save(out: Path) -> None:
        component().to_disk(out)

    def save_changed(out: Path) -> None:
        linker = component()
        linker.add_alias(next(iter(linker.kb)), "a nickname")
        linker.to_disk(out)

    def annotate(out: Path) -> None:
        from spacy_sapbert.corpus.annotate import annotate as run
        from spacy_sapbert.corpus.annotator import AnnotationSettings

        run(base / "notes.jsonl", out, AnnotationSettings(linker_name=str(base / "linker")), partition_size=2, progress=False)

    def nothing(out: Path) -> None:
        pass

    annotating = lambda out: spacy_sapbert("annotate", base / "notes.jsonl", out, "--linker-name", base / "linker", "--partition-size", 2)  # noqa: E731
    annoy = ("--encoder", "fast", "--n-trees", 2, "--setting", "search_k=200", "--setting", "tune=false", "--no-check")
    sources = (DATA / "tiny_clinic.tsv", DATA / "tiny.obo")
    build("tiny_clinic.tsv")(base / "kb")
    build("tiny_table.tsv")(base / "kb2")
    index("kb")(base / "linker")
    notes = [{"id": f"n{i}", "text": f"Fever and cough, day {i}."} for i in range(6)]
    (base / "notes.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes))

    def first_build(out: Path) -> None:
        """Open a registered linker, which is built into the cache when it is first opened."""
        from spacy_sapbert.build.default_linkers import cached

        os.environ["SPACY_SAPBERT_CACHE"] = str(out.parent)
        folder = cached("out", [], index("kb"))
        if folder.name != "out":
            out.is_symlink() or out.exists() or out.symlink_to(folder.name)  # the driver looks at `out`

    def cached_state(out: Path) -> str:
        return next((state(path) for path in sorted(out.parent.glob("out-*")) if path.is_dir() and path.suffix != ".vectors"), "")

    return {
        "kb-build": Operation(
            build("tiny_table.tsv"),
            build("tiny_clinic.tsv"),
            lambda out: spacy_sapbert("kb", "build", DATA / "tiny_clinic.tsv", "--out", out),
        ),
        "index": Operation(index("kb2"), index("kb"), lambda out: spacy_sapbert("index", base / "kb", "--out", out, *annoy)),
        "kb-update": Operation(index("kb"), update, lambda out: spacy_sapbert("kb", "update", out, *sources, "--no-check")),
        "to-disk": Operation(save, save_changed),
        "annotate": Operation(nothing, annotate, annotating, partial=True),
        "annotate-worker": Operation(nothing, annotating, annotating, partial=True, workers=True),
        **{f"first-build-{n}": Operation(nothing, first_build, state=cached_state, processes=n) for n in (1, 2, 10)},
        "train": Operation(nothing, _training(base), _training(base), state=weights),
        "review": Operation(_review(base), _decide, state=_decisions, partial=True),
    }


# -- training -----------------------------------------------------------------------------------------------------------


def _training(base: Path) -> Run:
    """Return the training of a tiny encoder: four steps, with a checkpoint after each second one."""

    def run(out: Path) -> None:
        from training.cli import app

        given = {
            "paths.pairs": base / "pairs",
            "paths.kb": base / "kb",
            "paths.base": base / "bert",
            "paths.out": out,
            "batches.pairs": 16,
            "training.max_steps": 4,
            "training.eval_every": 2,
            "training.log_every": 1,
        }
        app(["train", str(ROOT / "training" / "configs" / "sap.cfg"), *(str(word) for key, value in given.items() for word in (f"--{key}", value))])

    return run


def prepare_training(base: Path) -> None:
    """Make a tiny base and pairs, and import what a training imports, so that a forked process need not."""
    from transformers import AutoTokenizer, BertConfig, BertModel

    from spacy_sapbert.encoders.transformer import base_encoder
    from spacy_sapbert.kb.knowledge_base import KnowledgeBase
    from training import fit
    from training.data.pairs import build_pairs
    from training.loop import trainer  # noqa: F401

    assert fit
    torch.manual_seed(0)
    BertModel(BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=30522)).save_pretrained(
        base / "bert"
    )
    AutoTokenizer.from_pretrained(base_encoder()).save_pretrained(base / "bert")
    build_pairs(KnowledgeBase(base / "kb"), base / "pairs", held_out=0.1, zero_shot=0.1)


# -- the service, with a review ---------------------------------------------------------------------------------------------


def _review(base: Path) -> Run:
    """Return the function that makes a review with three mentions that no one has looked at."""

    def begin(out: Path) -> None:
        from spacy_sapbert.corpus.pipeline import load
        from spacy_sapbert.review.linker import add_docs
        from spacy_sapbert.review.store import ReviewStore

        nlp = load(str(base / "linker"))
        out.mkdir()
        store = ReviewStore(out / "review.sqlite")
        add_docs(store, nlp.get_pipe("sapbert_linker"), [(nlp("Fever and cough. No hypertension."), "n1")])
        store.close()
        NLP.append(nlp)

    return begin


NLP: list[Any] = []


def _decide(out: Path) -> None:
    """Start the service, confirm all links of the review, and write down what was answered."""
    from starlette.testclient import TestClient

    from spacy_sapbert.service.app import create_app
    from spacy_sapbert.service.settings import ServiceSettings

    confirmed = out.parents[1] / "confirmed"
    before = json.loads(confirmed.read_text()) if confirmed.is_file() else []
    refused = []
    with TestClient(create_app(lambda: NLP[0], ServiceSettings(review=out / "review.sqlite")), base_url="http://localhost") as client:
        while client.get("/ready").status_code != 200:
            time.sleep(0.01)
        for mention in client.get("/review/note", params={"id": "n1"}).json()["mentions"]:
            said = {"kind": "accept", "mention": mention["number"], "cui": mention["cui"]}
            answer = client.post("/review/events", json=said, headers={"X-Reviewer": "Ann"})
            if answer.status_code == 200:
                before.append(mention["number"])
                number = os.open(confirmed, os.O_WRONLY | os.O_TRUNC | 0o100, 0o644)
                os.write(number, json.dumps(before).encode())
                os.close(number)
            else:
                refused.append(answer.json()["error"]["code"])
    if refused:
        raise SapbertError(refused[0], "a decision was refused")


def _decisions(out: Path) -> str:
    """Return the mentions that someone decided, and check that no decision is missing that the service confirmed."""
    from spacy_sapbert.review.store import ReviewStore

    confirmed = out.parents[1] / "confirmed"
    store = ReviewStore(out / "review.sqlite")
    found = {event.mention for event in store.events()}
    store.close()
    promised = set(json.loads(confirmed.read_text() or "[]")) if confirmed.is_file() else set()
    assert promised <= found, (promised, found)
    return " ".join(map(str, sorted(number for number in found if number is not None)))


# -- tries --------------------------------------------------------------------------------------------------------------


def start(run: Callable[[], object], at: int, kind: str, said: Path, once: Path, under: Path, armed: bool) -> int:
    """Run the operation in a forked process that fails at a write. What it says goes into the file `said`. Return the process's id."""
    shim = ctypes.CDLL(None)
    pid = os.fork()
    if pid:
        return pid
    os.setpgid(0, 0)  # Ctrl-C goes to a whole group
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background processes with Ctrl-C ignored
    number = os.open(said, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
    os.dup2(number, 1)
    os.dup2(number, 2)
    how = "whole"
    try:
        shim.fault_once(str(once).encode())
        shim.fault_under(str(under).encode())
        shim.fault_arm(ctypes.c_long(at if armed else -1), KINDS[kind])
        run()
    except SapbertError as error:
        how = error.code
    except SystemExit as end:
        how = f"exit {end.code}" if end.code else "whole"
    except BaseException as error:
        how = f"{type(error).__name__}: {error}"
        traceback.print_exc()
    count = shim.fault_count()
    shim.fault_arm(ctypes.c_long(-1), 0)
    said.with_suffix(".count").write_text(json.dumps([how, count]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def end(pid: int, said: Path) -> Ended:
    """Wait for a process and its group, and say how it ended."""
    _, status = os.waitpid(pid, 0)
    text = said.read_text(errors="replace") if said.is_file() else ""
    deadline = time.monotonic() + WAIT_SECONDS
    while _is_there(pid):
        if time.monotonic() > deadline:
            os.killpg(pid, 9)
            return Ended("a process is left over", text, 0)
        time.sleep(0.02)
    if os.WIFSIGNALED(status):
        return Ended("killed" if os.WTERMSIG(status) == 9 else f"signal {os.WTERMSIG(status)}", text, 0)
    how, count = json.loads(said.with_suffix(".count").read_text())
    return Ended(how, text, count)


def _is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def tried(operation: Operation, run: Run, out: Path, at: int, kind: str, base: Path) -> list[Ended]:
    """Run the operation in its number of processes, of which one fails at a write; -1: none. Return how each ended."""
    once = base / "once"
    once.touch()
    count = base / "count"
    count.unlink(missing_ok=True)
    fault = {"FAULT_AT": str(at), "FAULT_KIND": str(KINDS[kind]), "FAULT_UNDER": str(out.parent), "FAULT_ONCE": str(once), "FAULT_COUNT": str(count)}
    if operation.workers:
        os.environ.update(fault)
    saids = [base / f"said{i}" for i in range(operation.processes)]
    pids = [start(lambda: run(out), at, kind, said, once, out.parent, not operation.workers) for said in saids]
    ends = [end(pid, said) for pid, said in zip(pids, saids)]
    for name in fault:
        os.environ.pop(name, None)
    if operation.workers and count.is_file():
        ends[0] = ends[0]._replace(writes=int(count.read_text()))
    return ends


def fault_of(operation: Operation, kind: str, line: dict[str, Any], failed: list[Ended]) -> str:
    """Return in words what is wrong about a try; "" if nothing is."""
    said = "\n".join(each.said for each in failed)[-3000:]
    if kind in SIGNALS and not failed and not operation.workers:
        return "the signal did not end it"
    if len(failed) > 1:
        return f"{len(failed)} processes failed"
    for each in failed:
        if kind == "kill" and not operation.workers and each.how != "killed":
            return f"{each.how}: {said}"
        if kind == "full" and not says_full(each):
            return f"{each.how}: {said}"
        if kind in SIGNALS and operation.command:  # a function of Python raises KeyboardInterrupt, or is ended by SIGTERM
            if each.how != ("exit 130" if kind == "ctrl-c" else "exit 143"):
                return f"{each.how}: {said}"
            if "[E058]" not in said or "Traceback" in said:
                return f"it did not say what to do: {said}"
    if line["found"] == "another" and not operation.partial:
        return "neither the old nor the new state is there"
    if line["again"] != ["whole"]:
        return f"running it again: {line['again']}"
    if line["after"] != "new":
        return "running it again does not give the new state"
    if line["begun"]:
        return f"left over by the signal: {line['begun']}"
    return f"left over: {line['rubbish']}" if line["rubbish"] else ""


def says_full(failed: Ended) -> bool:
    """Say whether a process said that the disk is full: a function by the code of its error, a command by exit code 1 and a message with the code."""
    said = set(re.findall(r"\[(E\d{3})\]", failed.said)) if failed.how == "exit 1" else {failed.how}
    return bool(said & FULL) and "Traceback" not in failed.said


def hidden(room: Path, clean: set[str]) -> list[str]:
    """Return the files that an operation left over: all that a run without a fault does not leave."""
    return sorted(listing(room) - clean)


def listing(room: Path) -> set[str]:
    """Return the relative paths in a folder; of files with an own name in each run (logs of TensorBoard) only the folder."""
    paths = (path.relative_to(room) for path in room.rglob("*"))
    return {path.as_posix() for path in paths if not any(part.endswith(".tensorboard") for part in path.parts)}


def main(name: str, kind: str, step: int, base: Path) -> None:
    """Try every `step`-th write."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    files._GRACE_SECONDS = 0.0  # the next process removes the temporary files of a killed one at once
    operation = operations(base)[name]
    if name == "train":
        prepare_training(base)
    run = operation.command if kind in SIGNALS and operation.command else operation.change
    room = base / "room"
    room.mkdir()
    out = room / "out"
    operation.begin(out)
    old = operation.state(out)
    shutil.copytree(room, base / "old", symlinks=True)
    shutil.rmtree(room)
    shutil.copytree(base / "old", room, symlinks=True)
    first = tried(operation, run, out, -1, kind, base)
    assert all(each.how == "whole" for each in first), first
    new, writes, clean = operation.state(out), max(each.writes for each in first), listing(room)
    tried(operation, run, out, -1, kind, base)
    twice = operation.state(out)
    (base / "confirmed").unlink(missing_ok=True)
    for at in range(0, writes, step):
        shutil.rmtree(room)
        shutil.copytree(base / "old", room, symlinks=True)
        (base / "confirmed").unlink(missing_ok=True)
        ends = tried(operation, run, out, at, kind, base)
        files.folder_is_there(out)  # every opening does this first
        found = {old: "old", new: "new"}.get(operation.state(out), "another")
        begun = [path for path in hidden(room, clean) if path.endswith(".tmp")] if kind in SIGNALS and operation.command else []
        again = tried(operation, run, out, -1, kind, base)
        after = "new" if operation.state(out) in (new, twice if found == "new" else new) else "another"
        line = {
            "at": at,
            "of": writes,
            "ended": sorted(each.how for each in ends),
            "found": found,
            "again": sorted({each.how for each in again}),
            "after": after,
            "begun": begun,
            "rubbish": hidden(room, clean),
        }
        wrong = fault_of(operation, kind, line, [each for each in ends if each.how != "whole"])
        print(json.dumps({**line, "wrong": wrong}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
