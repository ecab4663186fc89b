"""The section `faults`: kills, SIGTERM, Ctrl-C and full disks at counted writes of everything that writes files (tests/faults)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from .common import ROOT, Missing, Report, Table

STEP = 10  # every so many writes are tried; 1 takes hours
TARGETS = ""  # names of operations, separated by commas; "" for all
HERE = ROOT / "tests" / "faults"
OPERATIONS = (
    *("kb-build", "index", "kb-update", "to-disk", "first-build-1", "first-build-2", "first-build-10"),
    *("annotate", "annotate-worker", "train", "review"),
)
KINDS = ("kill", "full", "term", "ctrl-c")
SPARSE = {"train": 5}  # a try takes seconds, and there are 333 writes
PROTOCOL = (
    "A preloaded library counts the calls that change files. Of the writes of an operation, every {step}th is tried (training: every {train}th). kill: kill -9. full: the disk is full from there on. "
    "term: SIGTERM. ctrl-c: SIGINT to the whole group. Wrong: neither the old state nor the new one is there, a decision is lost that the service had confirmed, the same operation does not give "
    "the new state afterwards, a file or a process is left over, or the command does not say what to do (no code, a traceback, another exit code than 130 or 143)."
)


def run(data: Path, report: Report) -> None:
    """Try all operations, and print a row for each operation and kind of fault.

    Args:
        data: not used.
        report: takes the table.

    Raises:
        Missing: gcc is not there, or something is wrong after a fault.
    """
    if sys.platform != "linux" or shutil.which("gcc") is None:
        raise Missing("This needs Linux and gcc.")
    protocol = PROTOCOL.format(step=STEP, train=STEP * SPARSE["train"])
    table = Table("faults", "Faults at counted writes", protocol, ["operation", "fault", "writes", "tried", "ended", "wrong"])
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="faults-") as scratch:
        shim = build_shim(Path(scratch) / "shim.so")
        for operation in [name for name in OPERATIONS if not TARGETS or name in TARGETS.split(",")]:
            for kind in KINDS:
                found = tries(shim, operation, kind, step_of(operation, STEP), Path(scratch) / f"{operation}-{kind}")
                ended = Counter(how for each in found for how in set(each["ended"]) - ({"whole"} if len(each["ended"]) > 1 else set()))
                fell = [each for each in found if each["wrong"]]
                wrong += [f"{operation}, {kind}, write {each['at']}: {each['wrong']}" for each in fell]
                row = (operation, kind, found[0]["of"], len(found), ", ".join(f"{how} ×{count}" for how, count in ended.most_common()), len(fell))
                table.add(*row)
                print(*row, sep=" | ", flush=True)
    report.add("faults", table)
    if wrong:
        raise Missing("\n".join(wrong))


def step_of(operation: str, step: int) -> int:
    """Return how many writes of an operation lie between two tries."""
    return step * SPARSE.get(operation, 1)


def build_shim(path: Path) -> Path:
    """Compile the library that is preloaded, and return its path."""
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(path), str(HERE / "shim.c"), "-ldl"], check=True, timeout=120)
    return path


def tries(shim: Path, operation: str, kind: str, step: int, base: Path) -> list[dict[str, Any]]:
    """Return the result of a fault at every `step`-th write of an operation.

    Args:
        shim: the library that is preloaded.
        operation: name of the operation, see `driver.operations`.
        kind: one of `KINDS`.
        step: distance of the writes that are tried.
        base: folder to work in.

    Raises:
        RuntimeError: the operation fails without a fault.
    """
    base.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "LD_PRELOAD": str(shim), "TQDM_DISABLE": "1", "OMP_NUM_THREADS": "1", "SPACY_SAPBERT_CACHE": str(base / "cache")}
    command = [sys.executable, str(HERE / "driver.py"), operation, kind, str(step), str(base)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=7000)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
