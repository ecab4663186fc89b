"""What building a linker will take, before hours of encoding: room on the disk and memory, by the figures of `python -m benchmarks engines`."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple, Optional

import numpy as np

from .errors import SapbertError, fail

GB = 1e9
PROCESS = 0.8 * GB  # Python, PyTorch, an encoder of 90 MB and its batches
WORKER = 0.6 * GB  # each process more that encodes
NAME = 40  # bytes of memory a name while the engine is measured: masks, maps, a sample
PROC = Path("/proc/meminfo")
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))  # of a container


class Forecast(NamedTuple):
    """Sizes in bytes. work: the encoded names, while it is built. stays, kb: index and knowledge base of
    the linker's folder. memory: at most, what is mapped from files not
    counted. free_*: None where the system does not say."""

    names: int
    dim: int
    engine: str
    work: int
    stays: int
    kb: int
    memory: int
    free_disk: Optional[int]
    free_memory: Optional[int]

    @property
    def disk(self) -> int:
        return self.work + self.stays + self.kb

    def in_words(self) -> str:
        free_disk = "" if self.free_disk is None else f" of {self.free_disk / GB:.1f} GB that are free"
        free_memory = "" if self.free_memory is None else f" of {self.free_memory / GB:.1f} GB"
        return (
            f"{self.names:,} names of {self.dim} dimensions, {self.engine}: about {self.disk / GB:.1f} GB of disk{free_disk} while it is built "
            f"({(self.stays + self.kb) / GB:.1f} GB stay), {self.memory / GB:.1f} GB of memory{free_memory}"
        )

    def check(self) -> None:
        """RAISES: SapbertError E028 where there is less than it takes."""
        for what, need, free, advice in (
            ("room on the disk", self.disk, self.free_disk, "Free some, or name a folder on another disk by --out."),
            ("memory", self.memory, self.free_memory, "Take fewer --processes, or `--engine auto`, whose index is the smallest."),
        ):
            if free is not None and need > free:
                asked = {"names": self.names, "dim": self.dim, "engine": self.engine}
                raise fail("E028", SapbertError, what=what, need=need / GB, free=free / GB, advice=advice, **asked)


def foresee(names: int, dim: int, index: Any, out: Path, *, kb_bytes: int = 0, processes: int = 1) -> Forecast:
    """For `names` distinct names of `dim` dimensions, an index of any engine that is not built yet, and the folder `out`."""
    width = np.dtype(getattr(index, "storage", np.float32)).itemsize
    vectors = names * dim * width
    engine = names * engine_bytes(index, dim)
    grown = len({tuple(setting.get(key) for key in getattr(index, "grown", ())) for setting in _settings(index, names)}) or 1
    memory = int(PROCESS + WORKER * (processes - 1) + NAME * names + engine * grown)
    name = type(index).__name__
    return Forecast(names, dim, name, vectors, vectors + engine, kb_bytes, memory, _free_disk(out), free_memory())


def _settings(index: Any, names: int) -> Any:
    return index.settings_to_try(names) if hasattr(index, "settings_to_try") else []


def engine_bytes(index: Any, dim: int) -> int:
    """Bytes a name of the engine's own files, which it holds in memory while it is built."""
    kind = type(index).__name__
    seen = min(getattr(index, "pca", 0) or dim, dim)
    if kind == "AnnoyIndex":
        node = 4 * seen + 12
        return int(node * (1 + 3.4 * index.n_trees / (seen + 2)))  # leaves and splits: a leaf holds up to seen + 2 rows
    if kind == "UsearchIndex":
        return {"f32": 4, "bf16": 2, "i8": 1}[index.dtype] * seen + 9 * index.connectivity + 8
    if kind == "FaissIndex":
        return _faiss_bytes(index.factory, seen)
    return 0  # exact search has nothing but the vectors; of others nothing is known


def _faiss_bytes(factory: str, seen: int) -> int:
    code, links = 4 * seen, 0
    for part in factory.split(","):
        if found := re.fullmatch(r"SQ(\d+)(?:_\w+)?|SQfp16|SQbf16", part):
            code = int(seen * int(found[1] or 16) / 8)
        elif found := re.fullmatch(r"PQ(\d+)(?:x(\d+))?(?:\w*)", part):
            code = int(int(found[1]) * int(found[2] or 8) / 8)
        elif found := re.fullmatch(r"HNSW(\d+)?.*", part):
            links = 8 * int(found[1] or 32) + 16
    return code + links + 8


def _free_disk(out: Path) -> Optional[int]:
    folder = out.absolute().parent
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def free_memory() -> Optional[int]:
    """What the system can still give, page cache included; in a container at most its limit."""
    try:
        lines = dict(line.split(":", 1) for line in PROC.read_text(encoding="ascii").splitlines())
        free = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
    for path in LIMITS:
        try:
            free = min(free, int(path.read_text(encoding="ascii")))
        except (OSError, ValueError):  # no container, or "max"
            continue
    return free
