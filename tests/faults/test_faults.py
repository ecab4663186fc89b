"""After a kill, SIGTERM, Ctrl-C or a full disk at a write, the old or the new state is on disk, and running the same again completes it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from driver import Ended, Operation, fault_of, says_full

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


@pytest.mark.parametrize(
    ("how", "said", "right"),
    [
        ("E019", "", True),
        ("exit 1", "[E019] No room left to write 'x'", True),
        ("exit 1", "[E053] The operating system can't use 'x'", False),  # not the code of a full disk
        ("exit 1", "No space left on device", False),
        ("exit 1", "Traceback (most recent call last): … [E019]", False),
        ("OSError: No space left on device", "[E019]", False),
    ],
)
def test_what_counts_as_an_answer_to_a_full_disk(how: str, said: str, right: bool) -> None:
    assert says_full(Ended(how, said, 0)) is right


def test_what_a_signal_leaves_is_wrong_also_if_the_next_run_removes_it() -> None:
    operation = Operation(lambda out: None, lambda out: None, lambda out: None, partial=True)
    line = {"found": "another", "again": ["whole"], "after": "new", "begun": [], "rubbish": []}
    failed = [Ended("exit 143", "[E058] Stopped by SIGTERM", 0)]
    assert fault_of(operation, "term", line, failed) == ""
    scratch = "out/.part-00000.parquet.host.1.tmp"
    assert fault_of(operation, "term", {**line, "begun": [scratch]}, failed) == f"left over by the signal: ['{scratch}']"
