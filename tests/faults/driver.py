"""In forked processes, kill an operation at one of its writes, or let the disk be full from there on. Needs the preloaded shim (see test_faults.py).

    driver.py OPERATION KIND STEP FOLDER

It writes one JSON line for each try: the state on disk afterwards, and the result when the same operation was run again.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from spacy_sapbert import files
from spacy_sapbert.build.linker import build_linker, read_source
from spacy_sapbert.build.update import update_linker
from spacy_sapbert.encoders.static import StaticEncoder
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.indexes.annoy import AnnoyIndex
from spacy_sapbert.kb.builder import build_kb

DATA = Path(__file__).parents[1] / "data"
KINDS = {"kill": 0, "full": 1}
VOLATILE = ("_summary.json",)


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


def operations(base: Path) -> dict[str, tuple[Callable[[Path], None], Callable[[Path], None]]]:
    """Return for each operation the function that makes the old state of a folder, and the one that changes it."""

    def build(source: str) -> Callable[[Path], None]:
        return lambda out: void(build_kb([read_source(DATA / source)], out))

    def index(kb: str) -> Callable[[Path], None]:
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

    build("tiny_clinic.tsv")(base / "kb")
    build("tiny_table.tsv")(base / "kb2")
    index("kb")(base / "linker")
    notes = [{"id": f"n{i}", "text": f"Fever and cough, day {i}."} for i in range(6)]
    (base / "notes.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes))
    return {
        "kb-build": (build("tiny_table.tsv"), build("tiny_clinic.tsv")),
        "index": (index("kb2"), index("kb")),
        "kb-update": (index("kb"), update),
        "to-disk": (save, save_changed),
        "annotate": (lambda out: None, annotate),
    }


def void(_: object) -> None:
    """Do nothing."""


def child(run: Callable[[], None], at: int, kind: str, counted: Path) -> str:
    """Run the operation in a forked process that fails at a write; return how it ended: "whole", "killed", a code, or another error."""
    shim = ctypes.CDLL(None)
    pid = os.fork()
    if pid == 0:
        said = "whole"
        try:
            shim.fault_arm(ctypes.c_long(at), KINDS[kind])
            run()
        except SapbertError as error:
            said = error.code
        except BaseException as error:
            said = f"uncoded {type(error).__name__}: {error}"
        number = shim.fault_count()
        shim.fault_arm(ctypes.c_long(-1), 0)
        counted.write_text(json.dumps([said, number]))
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return "killed" if os.WTERMSIG(status) == 9 else f"signal {os.WTERMSIG(status)}"
    return str(json.loads(counted.read_text())[0])


def main(operation: str, kind: str, step: int, base: Path) -> None:
    """Try every `step`-th write."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    files._GRACE_SECONDS = 0.0  # the next process removes the temporary folder of a killed one at once
    begin, change = operations(base)[operation]
    counted, room = base / "counted", base / "room"
    room.mkdir()
    out = room / "out"
    begin(out)
    old = state(out)
    shutil.copytree(room, base / "old")
    assert child(lambda: change(out), -1, kind, counted) == "whole", counted.read_text()
    new, writes = state(out), json.loads(counted.read_text())[1]
    for at in range(0, writes, step):
        shutil.rmtree(room)
        shutil.copytree(base / "old", room)
        ended = child(lambda: change(out), at, kind, counted)
        files.folder_is_there(out)  # every opening does this first
        found = {old: "old", new: "new"}.get(state(out), "another")
        again = child(lambda: change(out), -1, kind, counted)
        rubbish = sorted(path.name for path in room.iterdir() if path.name != "out")
        hidden = sorted(path.name for path in out.rglob(".*") if path.suffix in (".tmp", ".new"))
        after = "new" if state(out) == new else "another"
        print(
            json.dumps({"at": at, "of": writes, "ended": ended, "found": found, "again": again, "after": after, "rubbish": rubbish + hidden}),
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
