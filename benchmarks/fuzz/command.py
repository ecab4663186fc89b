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
from contextlib import suppress
from multiprocessing import connection
from pathlib import Path

from ..common import ROOT, Missing, Report, Table
from .base import Target
from .mutate import mutated
from .targets import make_targets
from .trials import SECONDS, Outcome, outcomes

INPUTS = 1_000_000  # over all targets
TARGETS = ""  # names, separated by commas; "" for all
SEED = 20
ROUNDS = 8  # each round gives all targets their share, so that a run that is stopped has tried all of them
MINUTES = 0  # no further round is begun if it would end later; 0: no limit
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

    Raises:
        Missing: an input made a target fail.
    """

    import torch

    torch.set_num_threads(1)  # a forked process would wait for threads that exist only in this process
    columns = ["target", "inputs", "taken", "refused", *FAILURES, "fell", "seconds"]
    table = Table("fuzz", "Mutated inputs", PROTOCOL.format(seconds=SECONDS), columns)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as scratch:
        targets = [target for target in make_targets(Path(scratch)) if not TARGETS or target.name in TARGETS.split(",")]
        shares = sum(target.share for target in targets)
        all_kinds, seconds, seen = [Counter[str]() for _ in targets], [0.0] * len(targets), set[tuple[str, str]]()
        for turn in range(ROUNDS):
            if MINUTES and turn and time.monotonic() - begun > 60 * MINUTES * turn / (turn + 1):  # another round would take too long
                break
            spans = [
                (int(INPUTS * target.share / shares * turn / ROUNDS), int(INPUTS * target.share / shares * (turn + 1) / ROUNDS)) for target in targets
            ]
            for place, (kinds, fell, took) in enumerate(side_by_side(targets, spans, JOBS)):
                all_kinds[place].update(kinds)
                seconds[place] += took
                for what, outcome in sorted(fell.items()):
                    if (targets[place].name, what) not in seen:
                        seen.add((targets[place].name, what))
                        _keep(targets[place], what, outcome)
            print(f"{sum(kinds.total() for kinds in all_kinds):,} inputs in {(time.monotonic() - begun) / 60:.0f} minutes", flush=True)
    for target, kinds, took in zip(targets, all_kinds, seconds):
        failures = sum(kinds[kind] for kind in FAILURES)
        table.add(target.name, kinds.total(), *(kinds[kind] for kind in ("taken", "refused", *FAILURES)), failures, took)
    report.add("fuzz", table)
    if seen:
        raise Missing(f"{len(seen):,} kinds of failures; an input of each is in '{FOUND.relative_to(ROOT)}'.")


def _keep(target: Target, what: str, outcome: Outcome) -> None:
    """Write the input of a failure into `FOUND`, and print what it is."""
    path = FOUND / target.name / hashlib.blake2b(what.encode(), digest_size=6).hexdigest()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(input_of(target, outcome.number, SEED))
    print(f"{target.name}: {outcome.kind}: {outcome.what}  -> {path.relative_to(ROOT)}", flush=True)


def input_of(target: Target, number: int, seed: int) -> bytes:
    """Return the input of a trial. The same target, number and seed give the same input."""
    chance = random.Random(f"{seed}:{target.name}:{number}")
    return target.mutate(chance, mutated)


Span = tuple[int, int]  # number of the first input, and of the one after the last
Result = tuple[Counter[str], dict[str, Outcome], float]  # what `fuzz` returns, and seconds


def side_by_side(targets: Sequence[Target], spans: Sequence[Span], jobs: int) -> Iterator[Result]:
    """Fuzz several targets at the same time, each in a process of its own, and yield their results in their order."""
    with futures.ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(_in_process, targets, spans)


def _in_process(target: Target, span: Span) -> Result:
    start = time.perf_counter()
    receiving, sending = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=lambda: sending.send(fuzz(target, span[1] - span[0], SEED, first=span[0])))
    process.start()
    sending.close()
    connection.wait([receiving, process.sentinel])
    result = None
    if receiving.poll():  # before `join`: a process that sends more than a pipe holds does not end until it is read
        with suppress(EOFError):  # it ended without a result
            result = receiving.recv()
    process.join()
    if result is None:
        raise RuntimeError(f"the process for {target.name} ended with exit code {process.exitcode}")
    kinds, fell = result
    return kinds, fell, time.perf_counter() - start


def fuzz(target: Target, count: int, seed: int, *, first: int = 0) -> tuple[Counter[str], dict[str, Outcome]]:
    """Give a target `count` inputs, of which the first one has the number `first`.

    Returns:
        Number of trials by kind of outcome, and the first outcome of each kind of failure.
    """
    kinds = Counter[str]()
    fell: dict[str, Outcome] = {}
    for outcome in outcomes(lambda number: target.try_input(input_of(target, first + number, seed)), count):
        kinds[outcome.kind] += 1
        if outcome.fell:
            what = f"{outcome.kind} {outcome.what.partition(':')[0]} {outcome.what.partition(':')[2].partition(':')[0]}"
            fell.setdefault(what, outcome._replace(number=first + outcome.number))
    return kinds, fell
