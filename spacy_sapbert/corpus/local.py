"""Run workers as processes on this machine, each with its own pipeline. A worker that dies is replaced, and its partition is tried again.

The parent process loads no pipeline: the first worker that has loaded one says what the output depends on. So a crash below Python ends a worker,
never the run, also with one worker.

Why this package has its own code for this: docs/design/decisions/0006-own-local-workers.md.
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import SapbertError, fail, logger, warn
from ..files import changed_files, unusable, valid_text
from ..memory import leave_out_of_collections
from .annotator import AnnotationSettings, Annotator, Outcome
from .isolated import describe
from .notes import Partition
from .parts import AnnotationCounts, part_name
from .workers import TRIES

LOG, READY, DONE, FAILED, FATAL = "log", "ready", "done", "failed", "fatal"
MEMORY_FAULTS = (signal.SIGSEGV, signal.SIGBUS)  # a memory-mapped file was cut short, or holds numbers that lead a library to a wrong address
WAIT_SECONDS, STOP_SECONDS = 5.0, 10.0


class _Answer(NamedTuple):
    """A message of a worker.

    Attributes:
        kind: LOG, READY, DONE, FAILED or FATAL.
        value: level and text for LOG, `Loaded` for READY, counts for DONE, the reason for FAILED, the error that ends the run for FATAL.
    """

    kind: str
    value: Any = None


class Loaded(NamedTuple):
    """What a worker says when it has loaded its pipeline.

    Attributes:
        fingerprint: everything that the output depends on, see `Annotator.fingerprint`.
        linker: folder of the linker.
    """

    fingerprint: dict[str, Any]
    linker: str


def annotate_here(annotator: Annotator, partitions: Sequence[Partition]) -> Iterator[Outcome]:
    """Annotate partitions one after the other in this process.

    Raises:
        SapbertError: E009, the files cannot be written; E019, the disk is full.
    """
    for partition in partitions:
        for tried in range(1, TRIES + 1):
            answer = _try(annotator, partition)
            if answer.kind == FATAL:
                raise answer.value
            if answer.kind == DONE or tried == TRIES:
                yield Outcome(partition.number, answer.value if answer.kind == DONE else None, "" if answer.kind == DONE else answer.value)
                break


@contextmanager
def workers_of(settings: AnnotationSettings, out: Path, workers: int) -> Iterator[Crew]:
    """Start workers, and wait until one of them has loaded its pipeline; at the end, stop them all.

    Args:
        settings: how notes are annotated.
        out: folder to write into.
        workers: number of processes.

    Raises:
        SapbertError: errors that a worker raises while it loads; E021, workers die while they load.
    """
    crew = Crew(settings, out, workers)
    try:
        crew.load()
        yield crew
    finally:
        crew.stop()


def _try(annotator: Annotator, partition: Partition) -> _Answer:
    try:
        return _Answer(DONE, annotator.annotate_partition(partition))
    except SapbertError as error:
        return _Answer(FATAL, error)
    except Exception as error:
        return _Answer(FAILED, describe(error))


class _ToParent(logging.Handler):
    """Sends the log of a worker to the parent process, which knows where it is shown."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):  # the parent process has ended
            self.connection.send(_Answer(LOG, (record.levelno, record.getMessage())))


def _work(connection: Connection, settings: AnnotationSettings, out: Path, level: int) -> None:
    """The main function of a worker: annotate each partition that it receives and send back the outcome, until the connection is closed.

    Args:
        connection: the connection to the parent process.
        settings: how notes are annotated.
        out: folder to write into.
        level: level of the log of the parent process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent process, which then stops the workers
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    handler = _ToParent(connection)
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        annotator = Annotator(settings, out)
        loaded = Loaded(annotator.fingerprint(), str(annotator.linker.folder))
    except Exception as error:
        with suppress(OSError):  # the parent process has ended
            connection.send(_Answer(FATAL, _coded(error)))
        return
    finally:
        logger.removeHandler(handler)
    leave_out_of_collections()
    with annotator, suppress(EOFError, OSError):  # the parent process has closed the connection, or has ended
        connection.send(_Answer(READY, loaded))
        while True:
            connection.send(_try(annotator, connection.recv()))


def _coded(error: Exception) -> SapbertError:
    """Return the error with a code for an error that was raised while a pipeline was loaded. No note has been read yet, so it may be quoted."""
    if isinstance(error, SapbertError):
        return error
    if isinstance(error, OSError):
        return unusable(error)
    return fail("E059", error=valid_text(f"{type(error).__name__}: {error}"))


def _suspects(linker: Path | None) -> str:
    """Return in words which files of the linker may have caused the memory fault of a process.

    Args:
        linker: folder of the linker; None: it is not known, because no worker has loaded it yet.
    """
    if linker is None:
        return "a file of the linker may have been changed since it was built. Build the linker again, or get an unchanged copy"
    if changed := changed_files(linker):
        return f"in linker '{linker}' {', '.join(changed[:5])} changed since it was built. Build the linker again, or get an unchanged copy"
    return f"the files of linker '{linker}' are as they were built. A library, or the memory of this machine, may be at fault"


class _Worker:
    """A worker's process and the connection to it."""

    def __init__(self, settings: AnnotationSettings, out: Path) -> None:
        context = multiprocessing.get_context("spawn")  # after a fork, the threads of torch do not run
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other, settings, out, logger.getEffectiveLevel()), daemon=True)
        resource_tracker.ensure_running()  # `start` would start it, and this unblocks the signal
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # the worker inherits this, so that Ctrl-C does not interrupt its imports
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        other.close()  # so that reading from the connection ends when the worker dies
        self.ready = False
        self.partition: Partition | None = None

    def give(self, partition: Partition) -> None:
        self.partition = partition
        with suppress(OSError):  # it died while it was waiting; the next read will show this
            self.connection.send(partition)

    def end(self) -> str:
        """Close the connection and return how the worker ended."""
        self.connection.close()
        self.process.join()
        code = self.process.exitcode or 0
        return f"a worker was killed by signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"a worker ended with exit code {code}"


class Crew:
    """All workers, and the partitions that wait for them.

    Attributes:
        loaded: what the first worker said that had loaded its pipeline.

    Args:
        settings: how notes are annotated.
        out: folder to write into.
        workers: number of processes.
    """

    def __init__(self, settings: AnnotationSettings, out: Path, workers: int) -> None:
        self.settings, self.out, self.workers = settings, out, workers
        self.loaded: Loaded | None = None
        self.waiting: deque[Partition] = deque()
        self.tries: Counter[int] = Counter()
        self.died_early = 0  # number of workers in a row that died while they loaded
        self.crew: dict[Connection, _Worker] = {}
        self.logged: set[str] = set()

    def load(self) -> None:
        """Start all workers, and wait until one has loaded its pipeline.

        Raises:
            SapbertError: errors that a worker raises while it loads; E021, workers die while they load.
        """
        while self.loaded is None:
            self._fill(self.workers)
            self._wait()

    def run(self, partitions: Sequence[Partition]) -> Iterator[Outcome]:
        """Annotate partitions; yield each outcome as soon as it is known.

        Raises:
            SapbertError: errors that a worker raises while it loads or writes; E021, workers die while they load.
        """
        self.waiting.extend(partitions)
        while self.waiting or any(worker.partition for worker in self.crew.values()):
            busy = sum(worker.partition is not None for worker in self.crew.values())
            self._fill(min(self.workers, len(self.waiting) + busy))
            for worker in self.crew.values():
                if worker.ready and worker.partition is None and self.waiting:
                    worker.give(self.waiting.popleft())
            yield from self._wait()

    def _fill(self, count: int) -> None:
        while len(self.crew) < count:
            worker = _Worker(self.settings, self.out)
            self.crew[worker.connection] = worker

    def _wait(self) -> list[Outcome]:
        """Wait for messages of workers, and return the outcomes that they give."""
        return [outcome for connection in wait(list(self.crew), WAIT_SECONDS) for outcome in self._receive(self.crew[connection])]  # type: ignore[index]

    def _receive(self, worker: _Worker) -> Iterator[Outcome]:
        try:
            answer = worker.connection.recv()
        except (EOFError, OSError):
            yield from self._handle_death(worker)
            return
        partition = worker.partition
        if answer.kind == FATAL:
            raise answer.value
        if answer.kind == LOG:
            self._log(*answer.value)
        elif answer.kind == READY:
            worker.ready, self.died_early, self.loaded = True, 0, self.loaded or answer.value
        elif partition is not None:
            worker.partition = None
            if answer.kind == DONE:
                yield Outcome(partition.number, AnnotationCounts(*answer.value))
            else:
                yield from self._again(partition, answer.value)

    def _log(self, level: int, text: str) -> None:
        """Log what a worker logged while it loaded; what several workers say, once."""
        if text not in self.logged:
            self.logged.add(text)
            logger.log(level, "%s", text)

    def _handle_death(self, worker: _Worker) -> Iterator[Outcome]:
        del self.crew[worker.connection]
        why = worker.end()
        if -(worker.process.exitcode or 0) in MEMORY_FAULTS:
            why = f"{why}: {_suspects(self._linker())}"
        if not worker.ready:
            self.died_early += 1
            if self.died_early == TRIES:
                raise fail("E021", times=TRIES, why=why)
        elif worker.partition is not None:
            warn("W021", part=part_name(worker.partition.number), why=why)
            yield from self._again(worker.partition, why)

    def _linker(self) -> Path | None:
        """Return the folder of the linker, if it is known."""
        name = self.settings.linker_name if self.loaded is None else self.loaded.linker
        return Path(name) if name and Path(name).is_dir() else None

    def _again(self, partition: Partition, why: str) -> Iterator[Outcome]:
        self.tries[partition.number] += 1
        if self.tries[partition.number] < TRIES:
            self.waiting.append(partition)  # at the end of the queue, so that a partition that kills workers does not delay the others
        else:
            yield Outcome(partition.number, None, why)

    def stop(self) -> None:
        """End all workers, and wait until they have ended. Files that they had not finished are left; see `clear_scratch`."""
        for worker in self.crew.values():
            if worker.ready and worker.partition is None:
                worker.connection.close()  # an idle worker ends when it notices this
            else:
                worker.process.terminate()
        for worker in self.crew.values():
            worker.process.join(STOP_SECONDS)
            if worker.process.is_alive():
                worker.process.kill()
            worker.end()
        self.crew.clear()
