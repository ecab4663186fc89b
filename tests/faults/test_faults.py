"""After a kill, SIGTERM, Ctrl-C or a full disk at a write, the old or the new state is on disk, and running the same again completes it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from benchmarks.faults import KINDS, OPERATIONS, build_shim, step_of, tries

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(sys.platform != "linux" or shutil.which("gcc") is None, reason="needs Linux and gcc")]


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_shim(tmp_path_factory.mktemp("shim") / "shim.so")


def check(shim: Path, operation: str, kind: str, step: int, base: Path) -> None:
    found = tries(shim, operation, kind, step, base)
    assert len(found) > 1
    assert not [each for each in found if each["wrong"]]
    failed = [each for each in found if set(each["ended"]) != {"whole"}]
    assert failed or operation == "annotate-worker"  # its parent replaces a worker that is killed


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_at_many_writes(shim: Path, operation: str, kind: str, tmp_path: Path) -> None:
    check(shim, operation, kind, step_of(operation, 5), tmp_path)


@pytest.mark.parametrize(
    ("operation", "kind", "step"),
    [
        ("kb-build", "kill", 29),
        ("kb-build", "full", 29),
        ("kb-build", "ctrl-c", 11),
        ("kb-update", "term", 31),
        ("first-build-2", "kill", 35),
        ("review", "full", 9),
    ],
)
def test_at_some_writes(shim: Path, operation: str, kind: str, step: int, tmp_path: Path) -> None:
    check(shim, operation, kind, step, tmp_path)
