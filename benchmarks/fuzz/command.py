"""The section `fuzz`: run mutated inputs through all targets, and count those that failed."""

from __future__ import annotations

import hashlib
import multiprocessing
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent import futures
from pathlib import Path

from ..common import ROOT, Report, Table
from .mutate import mutated
from .targets import Target, make_targets
from .trials import SECONDS, Outcome, outcomes

INPUTS = 1_000_000  # over all targets
TARGETS = ""  # names, separated by commas; "" for all
SEED = 20
JOBS = 4  # targets that are fuzzed at the same time
IN_MEMORY = Path("/dev/shm")  # a file system without a disk, where there is one
FAILURES = ("uncoded", "crash", "hang")
FOUND = ROOT / "artifacts" / "fuzz"  # inputs that failed are written here
PROTOCOL = (
    "Each input is a small valid file with one to eight seeded changes. The checksums in manifests are those of the changed file, so that they do not "
    "reveal the damage. Refused: a coded error. Uncoded: another exception. A trial may take {seconds:.0f} s and 2 GB."
)


def run(data: Path, report: Report) -> None:
    """Fuzz all targets, and print a row for each.

    Args:
        data: not used.
        report: takes the table.
    """

    import torch

    torch.set_num_threads(1)  # a forked process would wait for threads that exist only in this process
    columns = ["target", "inputs", "taken", "refused", *FAILURES, "fell", "seconds"]
    table = Table("fuzz", "Mutated inputs", PROTOCOL.format(seconds=SECONDS), columns)
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as scratch:
        targets = [target for target in make_targets(Path(scratch)) if not TARGETS or target.name in TARGETS.split(",")]
        shares = sum(target.share for target in targets)
        counts = [max(1, int(INPUTS * target.share / shares)) for target in targets]
        for target, count, (kinds, fell, seconds) in zip(targets, counts, side_by_side(targets, counts, JOBS)):
            failures = sum(kinds[kind] for kind in FAILURES)
            row = (target.name, count, *(kinds[kind] for kind in ("taken", "refused", *FAILURES)), failures, seconds)
            table.add(*row)
            print(*row, sep=" | ", flush=True)  # the whole table comes at the end, after an hour
            for what, outcome in sorted(fell.items()):
                path = FOUND / target.name / hashlib.blake2b(what.encode(), digest_size=6).hexdigest()
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(input_of(target, outcome.number, SEED))
                print(f"{target.name}: {outcome.kind}: {outcome.what}  -> {path.relative_to(ROOT)}", flush=True)
    report.add("fuzz", table)


def input_of(target: Target, number: int, seed: int) -> bytes:
    """Return the input of a trial. The same target, number and seed give the same input."""
    chance = random.Random(f"{seed}:{target.name}:{number}")
    return target.mutate(chance, mutated)


def side_by_side(targets: Sequence[Target], counts: Sequence[int], jobs: int) -> Iterator[tuple[Counter[str], dict[str, Outcome], float]]:
    """Fuzz several targets at the same time, each in a process of its own, and yield what `fuzz` returns and the seconds, in their order."""
    with futures.ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(_in_process, targets, counts)


def _in_process(target: Target, count: int) -> tuple[Counter[str], dict[str, Outcome], float]:
    start = time.perf_counter()
    receiving, sending = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=lambda: sending.send(fuzz(target, count, SEED)))
    process.start()
    sending.close()
    process.join()
    if not receiving.poll():
        raise RuntimeError(f"the process for {target.name} ended with exit code {process.exitcode}")
    kinds, fell = receiving.recv()
    return kinds, fell, time.perf_counter() - start


def fuzz(target: Target, count: int, seed: int) -> tuple[Counter[str], dict[str, Outcome]]:
    """Give a target `count` inputs.

    Returns:
        Number of trials by kind of outcome, and the first outcome of each kind of failure.
    """
    kinds = Counter[str]()
    fell: dict[str, Outcome] = {}
    for outcome in outcomes(lambda number: target.try_input(input_of(target, number, seed)), count):
        kinds[outcome.kind] += 1
        if outcome.fell:
            fell.setdefault(f"{outcome.kind} {outcome.what.partition(':')[0]} {outcome.what.partition(':')[2].partition(':')[0]}", outcome)
    return kinds, fell
