"""Inputs from fuzzing (`python -m benchmarks fuzz`) that made a reader fail; each is now read, or refused with a coded error."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import time
from collections import Counter
from concurrent import futures
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.common import Missing
from benchmarks.fuzz import command, trials
from benchmarks.fuzz.command import fuzz, input_of
from benchmarks.fuzz.mutate import mutated
from benchmarks.fuzz.targets import Target, make_targets
from spacy_sapbert.errors import SapbertError, fail

CASES = sorted(path for path in (Path(__file__).parent / "cases").rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Target]:
    with pytest.warns(UserWarning, match="W001"):  # tiny.obo has a malformed row
        return {target.name: target for target in make_targets(tmp_path_factory.mktemp("fuzz"))}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_found_case_is_read_or_refused(targets: dict[str, Target], path: Path) -> None:
    with suppress(SapbertError):  # any other error fails the test
        targets[path.parent.name].try_input(path.read_bytes())


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_valid_files_of_every_target_are_taken(targets: dict[str, Target]) -> None:
    for target in targets.values():
        for name, content in target.files.items():
            target.try_input(name.encode() + b"\n" + content)


def test_the_same_seed_gives_the_same_inputs(targets: dict[str, Target]) -> None:
    target = targets["linker-extras"]
    first = [input_of(target, number, 5) for number in range(60)]
    assert first == [input_of(target, number, 5) for number in range(60)]
    assert first != [input_of(target, number, 6) for number in range(60)]
    originals = {name.encode() + b"\n" + content for name, content in target.files.items()}
    assert len(set(first) - originals) > 50


def test_a_mutation_of_json_leaves_json_of_which_a_part_differs() -> None:
    data = json.dumps({"kind": "linker", "files": {"a": [1, 2, 3]}}).encode()
    changed = [mutated(data, [data], random.Random(number)) for number in range(200)]
    whole = []
    for each in changed:
        try:
            whole.append(json.loads(each))
        except ValueError:
            continue
    assert len(whole) > 60
    assert sum(each != json.loads(data) for each in whole) > 50


def test_what_becomes_of_a_trial_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def trial(number: int) -> None:
        if number == 1:
            raise fail("E401", path="x")
        if number == 2:
            raise KeyError("x")
        if number == 3:
            os.abort()
        if number == 4:
            while True:
                time.monotonic()

    monkeypatch.setattr(trials, "LOADING", 1)
    found = list(trials.outcomes(trial, 6, seconds=1.0))
    assert [(outcome.number, outcome.kind) for outcome in found] == [
        (0, "taken"), (1, "refused"), (2, "uncoded"), (3, "crash"), (4, "hang"), (5, "taken"),
    ]  # fmt: skip
    assert (found[1].what, found[3].what) == ("E401", "SIGABRT")
    assert [outcome.fell for outcome in found] == [False, False, True, True, True, False]


def test_the_command_counts_all_inputs_keeps_one_that_failed_and_ends_with_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def consume(folder: Path, name: str) -> None:
        if "a" not in (folder / name).read_text(encoding="latin-1"):
            raise KeyError("no a")

    toy, calm = (Target(name, 1, {"a.txt": b"banana"}, reads, tmp_path / name) for name, reads in (("toy", consume), ("calm", lambda *_: None)))
    for name, value in {"make_targets": lambda _: [toy, calm], "INPUTS": 101, "ROOT": tmp_path, "FOUND": tmp_path / "found"}.items():
        monkeypatch.setattr(command, name, value)
    tables: list[Any] = []
    report: Any = SimpleNamespace(add=lambda _, table: tables.append(table))
    with pytest.raises(Missing, match=r"1 kinds of failures.*'found'"):
        command.run(tmp_path, report)
    ((first, second),) = (table.rows for table in tables)
    row = dict(zip(tables[0].columns, first))
    assert (row["target"], row["inputs"], second[:3]) == ("toy", 50, ["calm", 50, 50])
    assert 0 < row["fell"] == row["uncoded"] < 50
    assert row["taken"] + row["uncoded"] == 50
    (found,) = (tmp_path / "found" / "toy").iterdir()
    with pytest.raises(KeyError):
        toy.try_input(found.read_bytes())
    assert not (tmp_path / "found" / "calm").exists()


def test_a_result_that_is_larger_than_a_pipe_holds_is_received(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = Counter(uncoded=1), {"x" * 1_000_000: trials.Outcome(0, "uncoded", "KeyError: x")}
    monkeypatch.setattr(command, "fuzz", lambda *_, **__: sent)
    target = Target("toy", 1, {}, lambda *_: None, tmp_path)
    with futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(command._in_process, target, (0, 1))
        try:
            assert running.result(timeout=30)[:2] == sent
        finally:
            for process in multiprocessing.active_children():
                process.terminate()


def test_a_process_that_ends_without_a_result_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "fuzz", lambda *_, **__: os._exit(3))
    with pytest.raises(RuntimeError, match="toy ended with exit code 3"):
        command._in_process(Target("toy", 1, {}, lambda *_: None, tmp_path), (0, 1))


@pytest.mark.e2e
def test_thousands_of_inputs_and_none_falls(targets: dict[str, Target]) -> None:
    for name in ("reader-obograph", "reader-scispacy", "kb", "index-annoy", "index-usearch", "index-faiss", "index-lists", "linker-extras"):
        _, fell = fuzz(targets[name], 300, seed=11)
        assert not fell, name
