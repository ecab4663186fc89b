"""Estimate how much disk and memory a build takes, before hours of encoding. The figures were measured by `python -m benchmarks engines`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import SapbertError, fail
from ..indexes.base import KeepsNeighbours, LearnsFromSample, SizedOnDisk, StoresAs
from ..types import VectorIndex
from .tune import indexes_to_build

GB = 1e9
PROCESS = 0.7 * GB  # memory of this process: Python, PyTorch, batches
WORKER = 0.5 * GB  # memory of each further process that encodes
MEASURING = 1.2 * GB  # memory of exact search over many vectors: similarities of 2,000 queries with 33,554 names at a time, and their order
NAME = 16  # bytes of memory per name: rows of an old index in `kb update`, numbers of a sample
PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")


class ResourceEstimate(NamedTuple):
    """What a build takes. Sizes are in bytes.

    Args:
        names: Number of distinct names.
        dim: Width of a vector.
        engine: Class name of the index.
        work: Disk for the encoded names, needed while the linker is built.
        begun: The part of `work` that an earlier build has already written.
        stays: Disk for the index in the linker's folder.
        kb: Disk for the knowledge base in the linker's folder, if it is still to be copied.
        memory: The most memory that this process and its workers will take in addition to what they have. Memory-mapped files are not counted.
        free_disk: Free disk; None if the system does not tell.
        free_memory: Free memory; None if the system does not tell.
    """

    names: int
    dim: int
    engine: str
    work: int
    begun: int
    stays: int
    kb: int
    memory: int
    free_disk: int | None
    free_memory: int | None

    @property
    def disk(self) -> int:
        """Disk that the build still needs, in bytes."""
        return max(0, self.work - self.begun) + self.stays + self.kb

    def in_words(self) -> str:
        """Return the estimate as one line of text."""
        free_disk = "" if self.free_disk is None else f" of {self.free_disk / GB:.1f} GB that are free"
        free_memory = "" if self.free_memory is None else f" of {self.free_memory / GB:.1f} GB"
        return (
            f"{self.names:,} names of {self.dim} dimensions, {self.engine}: about {self.disk / GB:.1f} GB of disk{free_disk} while it is built "
            f"({(self.stays + self.kb) / GB:.1f} GB stay), {self.memory / GB:.1f} GB of memory{free_memory}"
        )

    def check(self) -> None:
        """Refuse a build if there is too little disk or memory.

        Raises:
            SapbertError: E028, too little disk or memory.
        """
        for what, need, free, advice in (
            ("room on the disk", self.disk, self.free_disk, "Free some, or name a folder on another disk by --out."),
            ("memory", self.memory, self.free_memory, "Take fewer processes, or an engine with a smaller index, such as `index --engine auto`."),
        ):
            if free is not None and need > free:
                asked = {"names": self.names, "dim": self.dim, "engine": self.engine}
                raise fail("E028", SapbertError, what=what, need=need / GB, free=free / GB, advice=advice, **asked)


def estimate_resources(
    names: int, dim: int, index: VectorIndex, out: Path, *, kb_bytes: int = 0, begun: int = 0, processes: int = 1, weights: int = 0
) -> ResourceEstimate:
    """Estimate the disk and memory that it takes to encode names and to build their index.

    Args:
        names: Number of distinct names.
        dim: Width of a vector.
        index: An index of any engine, not built yet.
        out: The linker's folder.
        kb_bytes: Bytes of the knowledge base, if it is still to be copied; otherwise 0.
        begun: Bytes of the vectors that an earlier build has already written.
        processes: Number of processes that encode.
        weights: Bytes of the encoder's weights.
    """
    width = stored_as(index).itemsize
    vectors = names * dim * width
    tried = indexes_to_build(index, names)
    table = index.neighbour_bytes(names) if isinstance(index, KeepsNeighbours) else 0
    sizes = [names * engine_bytes(one, dim) + table for one in tried]  # all are in memory until the best is chosen
    learning = max(int(one.learning_bytes(names, dim)) if isinstance(one, LearnsFromSample) else 0 for one in tried)
    has = PROCESS + weights - resident()  # this process already has a part of it
    memory = int(max(0.0, has) + (WORKER + weights) * (processes - 1) + max(MEASURING, learning) + NAME * names + sum(sizes))
    name = type(index).__name__
    return ResourceEstimate(names, dim, name, vectors, begun, vectors + max(sizes), kb_bytes, memory, _free_disk(out), free_memory())


def engine_bytes(index: VectorIndex, dim: int) -> int:
    """Return the bytes per name of the engine's own files, which are in memory while it is built; 0 if the engine does not tell."""
    return int(index.engine_bytes(dim)) if isinstance(index, SizedOnDisk) else 0


def stored_as(index: VectorIndex) -> np.dtype[Any]:
    """Return the type in which an index stores vectors; float32 if it does not tell."""
    return np.dtype(index.storage if isinstance(index, StoresAs) else np.float32)


def _free_disk(out: Path) -> int | None:
    """Return the free space of the disk that a folder will be on."""
    folder = out.absolute().parent
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def resident() -> int:
    """Return the bytes of memory that only this process uses; 0 if the system does not tell."""
    try:
        lines = (PROC / "self" / "status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))
    except (OSError, StopIteration, ValueError):
        return 0


def free_memory() -> int | None:
    """Return the bytes of memory that are free, including the page cache and within the limits of a container or scheduler; None if not known."""
    try:
        lines = dict(line.split(":", 1) for line in (PROC / "meminfo").read_text(encoding="ascii").splitlines())
        free = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
    for group in _groups():
        try:
            limit = int((group / "memory.max").read_text(encoding="ascii"))
            used = int((group / "memory.current").read_text(encoding="ascii"))
            stat = dict(line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
        except (OSError, ValueError):  # no limit ("max"), or an older kind of group
            continue
        free = min(free, limit - used + int(stat.get("inactive_file", 0)) + int(stat.get("active_file", 0)))
    return max(free, 0)


def _groups() -> list[Path]:
    """Return the folders of this process's control group and of those above it."""
    try:
        lines = (PROC / "self" / "cgroup").read_text(encoding="ascii").splitlines()
    except OSError:
        return [CGROUPS]
    own = next((line.split("::", 1)[1] for line in lines if "::" in line), "/").strip("/")
    parts = own.split("/") if own else []
    return [CGROUPS.joinpath(*parts[:count]) for count in range(len(parts), -1, -1)]
