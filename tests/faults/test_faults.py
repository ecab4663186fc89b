"""If an operation is killed at a write, or the disk is full from then on, the old or the new state is on disk, and running it again completes it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
OPERATIONS = ("kb-build", "index", "kb-update", "to-disk", "annotate")
FULL = {"E008", "E019", "E009", "E029"}  # the codes for a full disk

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(sys.platform != "linux" or shutil.which("gcc") is None, reason="needs Linux and gcc")]


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shim") / "shim.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(path), str(HERE / "shim.c"), "-ldl"], check=True, timeout=120)
    return path


def tries(shim: Path, operation: str, kind: str, step: int, base: Path) -> list[dict[str, Any]]:
    """Return the result of a fault at every `step`-th write of the operation."""
    environment = {**os.environ, "LD_PRELOAD": str(shim), "TQDM_DISABLE": "1", "OMP_NUM_THREADS": "1", "SPACY_SAPBERT_CACHE": str(base / "cache")}
    command = [sys.executable, str(HERE / "driver.py"), operation, kind, str(step), str(base)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(operation: str, kind: str, found: list[dict[str, Any]]) -> None:
    assert len(found) > 1
    for each in found:
        if kind == "kill":
            assert each["ended"] == "killed", each
        else:
            assert each["ended"] in FULL | {"whole"}, each  # whole: only a cache, or a file that is removed anyway, could not be written
        states = {"old", "new"} if operation != "annotate" else {"old", "new", "another"}  # complete partitions are kept
        assert each["found"] in states, each
        assert (each["again"], each["after"], each["rubbish"]) == ("whole", "new", []), each
    if kind == "full":
        assert Counter(each["ended"] for each in found)["whole"] < len(found)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["kill", "full"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_at_every_write(shim: Path, operation: str, kind: str, tmp_path: Path) -> None:
    check(operation, kind, tries(shim, operation, kind, 1, tmp_path))


@pytest.mark.parametrize("kind", ["kill", "full"])
def test_at_some_writes_of_a_build(shim: Path, kind: str, tmp_path: Path) -> None:
    check("kb-build", kind, tries(shim, "kb-build", kind, 29, tmp_path))
