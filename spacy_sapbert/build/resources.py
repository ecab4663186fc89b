"""What building a linker will take, before hours of encoding: room on the disk and memory, by the figures of `python -m benchmarks engines`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from ..errors import SapbertError, fail

GB = 1e9
PROCESS = 0.7 * GB  # Python, PyTorch, batches
WORKER = 0.5 * GB  # each process more that encodes
MEASURING = 1.2 * GB  # exact search over many vectors: similarities of 2,000 queries with 33,554 names at a time, and their order
NAME = 16  # bytes of memory a name: rows of an old index in `kb update`, a sample's numbers
PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")


class Forecast(NamedTuple):
    """Sizes in bytes. work: the encoded names, while it is built; begun: what of it an earlier build has written. stays, kb: index and knowledge base that
    are written into the linker's folder. memory: that this process and its workers will take beside what they have, at most; what is mapped from files is
    not counted. free_*: None where the system does not say."""

    names: int
    dim: int
    engine: str
    work: int
    begun: int
    stays: int
    kb: int
    memory: int
    free_disk: Optional[int]
    free_memory: Optional[int]

    @property
    def disk(self) -> int:
        return max(0, self.work - self.begun) + self.stays + self.kb

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
            ("memory", self.memory, self.free_memory, "Take fewer processes, or an engine with a smaller index, such as `index --engine auto`."),
        ):
            if free is not None and need > free:
                asked = {"names": self.names, "dim": self.dim, "engine": self.engine}
                raise fail("E028", SapbertError, what=what, need=need / GB, free=free / GB, advice=advice, **asked)


def foresee(names: int, dim: int, index: Any, out: Path, *, kb_bytes: int = 0, begun: int = 0, processes: int = 1, weights: int = 0) -> Forecast:
    """For `names` distinct names of `dim` dimensions, an index of any engine that is not built yet, and the folder `out`.

    kb_bytes: of the knowledge base, where it is yet to be copied. begun: bytes of an earlier build's vectors. weights: bytes of the encoder's.
    """
    width = np.dtype(getattr(index, "storage", np.float32)).itemsize
    vectors = names * dim * width
    grown = _grown(index, names)
    tried = [names * engine_bytes(one, dim) for one in grown]  # all are in memory until the best is chosen
    learning = max(int(one.learning_bytes(names, dim)) if hasattr(one, "learning_bytes") else 0 for one in grown)
    has = PROCESS + weights - resident()  # the rest of it is there already
    memory = int(max(0.0, has) + (WORKER + weights) * (processes - 1) + max(MEASURING, learning) + NAME * names + sum(tried))
    name = type(index).__name__
    return Forecast(names, dim, name, vectors, begun, vectors + max(tried), kb_bytes, memory, _free_disk(out), free_memory())


def _grown(index: Any, names: int) -> List[Any]:
    """The indexes that building makes and measures."""
    tried: Dict[Tuple[str, ...], Any] = {}
    for setting in index.settings_to_try(names) if hasattr(index, "settings_to_try") else []:
        key = tuple(repr(setting.get(name)) for name in getattr(index, "grown", ()))
        if key not in tried:
            tried[key] = type(index)(**{**index.get_config(), **setting})
    return list(tried.values()) or [index]


def engine_bytes(index: Any, dim: int) -> int:
    """Bytes a name of the engine's own files, which it holds in memory while it is built, as the engine itself says; 0 where nothing is known."""
    return int(index.engine_bytes(dim)) if hasattr(index, "engine_bytes") else 0


def _free_disk(out: Path) -> Optional[int]:
    folder = out.absolute().parent
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def resident() -> int:
    """Bytes that this process has to itself."""
    try:
        lines = (PROC / "self" / "status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))
    except (OSError, StopIteration, ValueError):
        return 0


def free_memory() -> Optional[int]:
    """What the system can still give, page cache included; in a container, or under a scheduler's limit, at most what is left of that."""
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


def _groups() -> List[Path]:
    """This process's control group and those above it."""
    try:
        lines = (PROC / "self" / "cgroup").read_text(encoding="ascii").splitlines()
    except OSError:
        return [CGROUPS]
    own = next((line.split("::", 1)[1] for line in lines if "::" in line), "/").strip("/")
    parts = own.split("/") if own else []
    return [CGROUPS.joinpath(*parts[:count]) for count in range(len(parts), -1, -1)]
