"""Memory of a process, as the system reports it: the peak on every system, PSS (shared pages counted once over all processes) on Linux."""

from __future__ import annotations

import os
import resource
import sys
import threading
from pathlib import Path

PROC = Path("/proc")


def peak_mb() -> float:
    """Return the peak of resident memory of this process in MB, with mapped files."""
    peak = field_mb(PROC / "self" / "status", "VmHWM")  # the peak in rusage also counts the parent's memory at the fork
    if peak is not None:
        return peak
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def field_mb(path: Path, field: str) -> float | None:
    """Return a field such as `VmRSS:   1234 kB` in MB (1.264); None if the file or the field is missing."""
    try:
        for line in path.read_text(encoding="ascii").splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1.024 / 1e3
    except OSError:  # no /proc, or the process has ended
        pass
    return None


def rss_mb(pid: int | None = None) -> float | None:
    """Return the resident memory of a process in MB; None if it cannot be read."""
    return field_mb(PROC / str(pid or os.getpid()) / "status", "VmRSS")


def pss_mb(pid: int | None = None) -> float | None:
    """Return the memory of a process in MB, with its part of shared pages; None if it cannot be read."""
    return field_mb(PROC / str(pid or os.getpid()) / "smaps_rollup", "Pss")


def own_mb(pid: int | None = None) -> float | None:
    """Return the resident memory in MB that is not mapped from files, which the system cannot free; None if it cannot be read."""
    return field_mb(PROC / str(pid or os.getpid()) / "status", "RssAnon")


class Peak:
    """Measure the peak of `own_mb` while the block runs, five times a second."""

    def __enter__(self) -> Peak:
        self.mb, self._ended = own_mb() or 0.0, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._ended.wait(0.2):
            self.mb = max(self.mb, own_mb() or 0.0)

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def tree(root: int | None = None) -> list[int]:
    """Return the ids of a process and of its descendants."""
    parents: dict[int, int] = {}
    for entry in PROC.glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError, ValueError):
            continue
    found = [root or os.getpid()]
    for pid in found:
        found.extend(child for child, parent in parents.items() if parent == pid)
    return found


def total_pss_mb() -> float | None:
    """Return the memory of this process and its workers together in MB; None if none can be read."""
    return _sum_over_processes("Pss")


def total_own_mb() -> float | None:
    """Return the part of `total_pss_mb` in MB that is not mapped from files; None if none can be read."""
    return _sum_over_processes("Pss_Anon")


def _sum_over_processes(field: str) -> float | None:
    parts = [field_mb(PROC / str(pid) / "smaps_rollup", field) for pid in tree()]
    known = [part for part in parts if part is not None]
    return sum(known) if known else None
