"""Run workers as actors of Ray Data, on this machine or on a cluster with shared folders. Only paths, numbers and counts go through Ray, no text."""

from __future__ import annotations

import logging
import os
import pickle  # only for our own objects, sent between this process and its workers; no pickle is written to a file
import re
import shutil
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import SapbertError, fail
from ..memory import leave_out_of_collections
from .annotator import AnnotationSettings, Annotator, Outcome
from .isolated import describe
from .notes import Partition
from .parts import AnnotationCounts, part_name
from .workers import TRIES

TRIED = ".tries"  # folder with a file for each partition, see `_tries`
CONNECT_SECONDS = 10.0
STORE_BYTES = 128 * 1024 * 1024  # object store of a cluster that is started here; it is small, because only paths go through it


class Actor:
    """A worker. It holds the pipeline; each row that it gets holds a partition, and it returns the outcome of this partition."""

    def __init__(self, settings: AnnotationSettings, out: str) -> None:
        self.out = Path(out)
        self.error: SapbertError | None = None
        try:
            self.annotator = Annotator(settings, Path(out))
        except SapbertError as error:  # kept for `__call__`; if it were raised here, it would become an error of Ray
            self.error = error
        leave_out_of_collections()

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Annotate the partition of a row, and return a row with its outcome."""
        partition = pickle.loads(row["partition"])
        try:
            if self.error is not None:
                raise self.error
            if self._count_try(partition.number) > TRIES:  # Ray itself would never stop retrying a partition that kills its actor
                answer: Any = f"{TRIES} workers died"
            else:
                answer = self.annotator.annotate_partition(partition)
        except SapbertError as error:
            answer = error
        except Exception as error:
            answer = describe(error)
        return {"number": partition.number, "answer": pickle.dumps(answer)}

    def _count_try(self, number: int) -> int:
        with open(self.out / TRIED / part_name(number), "ab") as file:
            file.write(b".")
            return file.tell()


def annotate_in_ray(
    settings: AnnotationSettings, out: Path, partitions: Sequence[Partition], workers: int, address: str | None = None
) -> Iterator[Outcome]:
    """Annotate partitions with actors of Ray; yield each outcome as soon as it is known.

    Args:
        settings: how notes are annotated.
        out: folder to write into.
        partitions: the partitions to annotate.
        workers: number of actors.
        address: address of a cluster ("host:6379", "ray://host:10001", "auto"). None: the Ray that runs in this process; if none runs, one is started
            for this run.

    Raises:
        SapbertError: E013, Ray is not installed; E020, no cluster answers; errors that an actor raises while it loads or writes.
    """
    with _ray(workers * settings.threads, address) as ray, _tries(out):
        rows = [{"partition": pickle.dumps(partition)} for partition in partitions]
        data = ray.data.from_items(rows, override_num_blocks=len(rows)).map(
            Actor,
            fn_constructor_args=(settings, str(out)),
            compute=ray.data.ActorPoolStrategy(size=workers),
            num_cpus=settings.threads,
        )
        missing = {partition.number for partition in partitions}
        for row in data.iter_rows():
            number, answer = int(row["number"]), pickle.loads(row["answer"])
            if isinstance(answer, SapbertError):
                raise answer
            missing.discard(number)
            yield Outcome(number, AnnotationCounts(*answer)) if isinstance(answer, tuple) else Outcome(number, None, answer)
        for number in sorted(missing):
            yield Outcome(number, None, "its workers died")


@contextmanager
def _tries(out: Path) -> Iterator[None]:
    """Create a folder that counts tries: it has a file for each partition, to which a byte is added whenever a worker starts the partition."""
    shutil.rmtree(out / TRIED, ignore_errors=True)
    (out / TRIED).mkdir()
    yield
    shutil.rmtree(out / TRIED, ignore_errors=True)


@contextmanager
def _ray(cpus: int, address: str | None) -> Iterator[Any]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # nothing leaves the machine
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # Ray's warnings are about the internals of Ray Data
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise fail("E013", what="`annotate --engine ray`", package="ray[data]") from error
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ours = not ray.is_initialized()
    if ours:
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if address is None:
            options.update(address="local", include_dashboard=False, num_cpus=max(cpus, os.cpu_count() or 1), object_store_memory=STORE_BYTES)
        else:
            options["address"] = address
        try:
            if address is not None and (place := re.fullmatch(r"(?:ray://)?(.+):(\d+)", address)):
                socket.create_connection(
                    (place[1].strip("[]"), int(place[2])), timeout=CONNECT_SECONDS
                ).close()  # without this check, Ray would wait for minutes
            ray.init(**options)
        except (OSError, OverflowError, ValueError, RuntimeError) as error:
            raise fail("E020", address=address or "local", error=str(error).split("\n")[0]) from error
    context = ray.data.DataContext.get_current()
    before = context.max_errored_blocks, context.enable_progress_bars
    try:
        context.max_errored_blocks, context.enable_progress_bars = (
            -1,
            False,
        )  # -1: errors do not stop the other partitions. Our own progress bar counts notes
        yield ray
    finally:
        context.max_errored_blocks, context.enable_progress_bars = before
        if ours:
            ray.shutdown()
