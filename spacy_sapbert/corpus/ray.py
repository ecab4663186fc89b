"""Actors of Ray Data, on this machine or a cluster whose machines see the same folders. Ray carries paths, numbers and counts: no text."""

from __future__ import annotations

import logging
import os
import pickle
import re
import shutil
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Optional

from ..errors import SapbertError, fail
from .annotator import Annotator, Counts, Outcome, Settings, describe, part_name
from .notes import Partition
from .workers import TRIES

TRIED = ".tries"
CONNECT_SECONDS = 10.0
STORE_BYTES = 128 * 1024 * 1024  # of a Ray of our own: nothing but paths goes through it


class Actor:
    """Holds the pipeline; a row names a partition, and what it gives back says what became of it."""

    def __init__(self, settings: Settings, out: str) -> None:
        self.out = Path(out)
        self.error: Optional[SapbertError] = None
        try:
            self.annotator = Annotator(settings, Path(out))
        except SapbertError as error:  # raised here it would come as one of Ray's
            self.error = error

    def __call__(self, row: Dict[str, Any]) -> Dict[str, Any]:
        partition = pickle.loads(row["partition"])
        try:
            if self.error is not None:
                raise self.error
            if self._count_try(partition.number) > TRIES:  # Ray itself tries for ever what kills an actor
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


def annotate_in_ray(settings: Settings, out: Path, partitions: Sequence[Partition], workers: int, address: Optional[str] = None) -> Iterator[Outcome]:
    """address: of a cluster ("host:6379", "ray://host:10001", "auto"); None starts a Ray here, for this run. One that runs in this process is used.

    RAISES: SapbertError E013 (no Ray), E020 (no cluster there), and what an actor raises while it loads or writes.
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
            yield Outcome(number, Counts(*answer)) if isinstance(answer, tuple) else Outcome(number, None, answer)
        for number in sorted(missing):
            yield Outcome(number, None, "its workers died")


@contextmanager
def _tries(out: Path) -> Iterator[None]:
    """A folder for files with a byte for each time that a partition was begun in this run."""
    shutil.rmtree(out / TRIED, ignore_errors=True)
    (out / TRIED).mkdir()
    yield
    shutil.rmtree(out / TRIED, ignore_errors=True)


@contextmanager
def _ray(cpus: int, address: Optional[str]) -> Iterator[Any]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # nothing leaves the machine
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # its warnings are about Ray Data's own ways
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise fail("E013", what="`annotate --engine ray`", package="ray[data]") from error
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ours = not ray.is_initialized()
    if ours:
        options: Dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if address is None:
            options.update(address="local", include_dashboard=False, num_cpus=max(cpus, os.cpu_count() or 1), object_store_memory=STORE_BYTES)
        else:
            options["address"] = address
        try:
            if address is not None and (place := re.fullmatch(r"(?:ray://)?(.+):(\d+)", address)):
                socket.create_connection((place[1].strip("[]"), int(place[2])), timeout=CONNECT_SECONDS).close()  # Ray would wait for minutes
            ray.init(**options)
        except (OSError, OverflowError, ValueError, RuntimeError) as error:
            raise fail("E020", address=address or "local", error=str(error).split("\n")[0]) from error
    context = ray.data.DataContext.get_current()
    before = context.max_errored_blocks, context.enable_progress_bars
    try:
        context.max_errored_blocks, context.enable_progress_bars = -1, False  # the others are finished first; progress is shown by the notes
        yield ray
    finally:
        context.max_errored_blocks, context.enable_progress_bars = before
        if ours:
            ray.shutdown()
