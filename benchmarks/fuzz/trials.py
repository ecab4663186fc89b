"""Run trials in child processes, so that a trial that crashes, hangs or uses all memory does not end the run.

A process runs one trial after another and writes a line for each. If it dies or hangs, the trial that it was running is recorded as the cause,
and a new process continues with the next trial.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from spacy_sapbert.errors import SapbertError

SECONDS = 20.0  # of computing time that one trial may take
PATIENCE = 10  # times SECONDS on the clock, for a trial that waits, or that other programs leave little time
LOADING = 6  # the first trial of a process, which imports packages, may take this many times SECONDS
MEMORY = 2 << 30  # bytes that trials may take in addition to what the process has at its start


class Outcome(NamedTuple):
    """The outcome of a trial.

    Attributes:
        number: number of the trial, from 0.
        kind: "taken" (no error), "refused" (a coded error), "uncoded" (another error), "crash" or "hang".
        what: the error code, the error and where it was raised, or the signal.
    """

    number: int
    kind: str
    what: str

    @property
    def fell(self) -> bool:
        """Whether the trial failed: it ended in something other than success or a coded error."""
        return self.kind not in ("taken", "refused")


def outcomes(trial: Callable[[int], None], count: int, *, seconds: float = SECONDS, memory: int = MEMORY) -> Iterator[Outcome]:
    """Run trials 0 to count - 1 and yield their outcomes.

    Args:
        trial: runs one trial, given its number; a coded error means that the input was refused.
        count: number of trials.
        seconds: of computing time that one trial may take; on the clock, it may take `PATIENCE` times as long.
        memory: bytes that trials may take in addition to what the process has at its start.
    """
    at = 0
    while at < count:
        for outcome in _from_one_process(trial, at, count, seconds, memory):
            yield outcome
            at = outcome.number + 1


def _from_one_process(trial: Callable[[int], None], start: int, count: int, seconds: float, memory: int) -> Iterator[Outcome]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _work(trial, start, count, writing, memory)
    os.close(writing)
    pending, at = b"", start
    try:
        since, used = time.monotonic(), 0.0
        while at < count:
            most = seconds * (LOADING if at == start else 1)  # the first trial of a process imports packages
            ready, _, _ = select.select([reading], [], [], most)
            if not ready:
                if _computed(child) - used < most and time.monotonic() - since < PATIENCE * most:
                    continue
                os.kill(child, signal.SIGKILL)
                yield Outcome(at, "hang", f"more than {seconds:g} s")
                break
            data = os.read(reading, 1 << 16)
            if not data:
                break
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                yield Outcome(at, *json.loads(line))
                at += 1
            since, used = time.monotonic(), _computed(child)
            if not lines and at == count:
                break
    finally:
        os.close(reading)
        _, status = os.waitpid(child, 0)
    if at < count and os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
        yield Outcome(at, "crash", signal.Signals(os.WTERMSIG(status)).name)
    elif at < count and os.WIFEXITED(status):
        yield Outcome(at, "crash", f"exit code {os.WEXITSTATUS(status)}")


def _computed(process: int) -> float:
    """Return the seconds of computing time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _work(trial: Callable[[int], None], start: int, count: int, writing: int, memory: int) -> None:
    """Run trials in the child process and write their outcomes; end the process, never return."""
    try:
        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + memory, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        faulthandler.disable()  # a crash is an outcome here
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        for number in range(start, count):
            os.write(writing, json.dumps(_outcome(trial, number)).encode() + b"\n")
    finally:
        os._exit(0)


def _outcome(trial: Callable[[int], None], number: int) -> tuple[str, str]:
    try:
        trial(number)
    except SapbertError as error:
        return "refused", error.code
    except BaseException as error:  # libraries in Rust raise errors that are not an Exception
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "benchmarks/fuzz" not in frame.filename]
        ours = [frame for frame in frames if "spacy_sapbert" in frame.filename]
        place = (ours or frames)[-1] if frames else None
        where = f" at {Path(place.filename).name}:{place.lineno} {place.name}" if place else ""
        return "uncoded", f"{type(error).__name__}{where}: {' '.join(str(error).split())[:120]}"
    return "taken", ""
