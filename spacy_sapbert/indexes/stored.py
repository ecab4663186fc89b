"""What all engines of this package share: they check input, store vectors in one memory-mapped file, and search a subset exactly."""

from __future__ import annotations

import mmap
import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, PositiveInt

from ..arrays import as_float32, check_finite, open_array
from ..errors import DamagedFile, SapbertError, fail
from ..files import is_looked_through, read_manifest, write_manifest
from ..types import Bools1d, Floats2d, Ints2d

VERSION = 1
VECTORS = "vectors.npy"
_CHECKED_ROWS = 50_000  # rows that are checked at once
KEPT_MAPPED = 1 << 30  # bytes of vectors; a larger file is read instead of memory-mapped
_BLOCK_CELLS = 1 << 26  # similarities that are in memory at once: 256 MB of float32


def damaged(path: Path, why: object) -> SapbertError:
    """Return the error for a damaged index, E202."""
    return fail("E202", DamagedFile, path=path, why=why)


def as_queries(vectors: Any, dim: int) -> Floats2d:
    """Return queries as float32 (q, dim).

    Raises:
        SapbertError: E204, the shape is wrong or a value is not finite.
    """
    array = np.asarray(vectors, dtype=np.float32)
    if array.ndim != 2 or array.shape[1] != dim:
        raise fail("E204", dim=dim, got=f"shape {array.shape}")
    if not np.isfinite(array).all():
        raise fail("E204", dim=dim, got=f"{int((~np.isfinite(array).all(axis=1)).sum())} rows with NaN or infinite values")
    return array


def best(rows: Ints2d, cosines: Floats2d, k: int) -> tuple[Ints2d, Floats2d]:
    """Sort each line by cosine, then by row number, and keep the first k, so that ties have a fixed order."""
    order = np.lexsort((rows, -cosines), axis=1)[:, :k]
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(cosines, order, axis=1)


def exact_search(stored: npt.NDArray[Any], queries: Floats2d, k: int, subset: npt.NDArray[np.int64] | None = None) -> tuple[Ints2d, Floats2d]:
    """Compare every query with every stored vector.

    Args:
        stored: (n, d), in any precision.
        queries: (q, d).
        k: Rows to return per query.
        subset: Rows to search; None for all.

    Returns:
        Rows (q, k) and cosines (q, k), best first; -1 and -inf where there are fewer than k.
    """
    total = len(stored) if subset is None else len(subset)
    rows = np.full((len(queries), k), -1, dtype=np.int64)
    cosines = np.full((len(queries), k), -np.inf, dtype=np.float32)
    per_block = max(1, min(100_000, _BLOCK_CELLS // max(1, len(queries))))
    for start in range(0, total, per_block):
        part = np.arange(start, min(start + per_block, total)) if subset is None else subset[start : start + per_block]
        block = stored[part[0] : part[-1] + 1] if subset is None else stored[part]
        found = queries @ np.asarray(block, dtype=np.float32).T  # (q, block)
        keep = min(k, found.shape[1])
        top = _top(found, keep)
        rows, cosines = best(np.hstack([rows, part[top]]), np.hstack([cosines, np.take_along_axis(found, top, axis=1)]), k)
    rows[np.isneginf(cosines)] = -1
    return rows, cosines


def _top(found: Floats2d, keep: int) -> Ints2d:
    """Return the columns of the `keep` largest values of each line, unsorted. If values at the limit are equal, the first ones are taken."""
    top = np.argpartition(-found, keep - 1, axis=1)[:, :keep]
    least = np.take_along_axis(found, top, axis=1).min(axis=1)
    for line in np.flatnonzero((found >= least[:, None]).sum(axis=1) > keep):
        top[line] = np.argsort(-found[line], kind="stable")[:keep]
    return top


def _as_stored(vectors: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return vectors (n, d) in the precision of an index. If they already have it, the same array is returned."""
    given = vectors if isinstance(vectors, np.ndarray) else np.asarray(vectors, dtype=np.float32)
    if given.ndim != 2:
        raise fail("E204", dim="d", got=f"shape {given.shape}")
    stored = given if given.dtype == dtype else np.empty(given.shape, dtype=dtype)
    wrong = 0
    for start in range(0, len(given), _CHECKED_ROWS):
        block = given[start : start + _CHECKED_ROWS]
        wrong += int((~np.isfinite(block).all(axis=1)).sum())
        if stored is not given:
            stored[start : start + _CHECKED_ROWS] = block
    if wrong:
        raise fail("E204", dim=given.shape[1], got=f"{wrong} rows with NaN or infinite values")
    return stored


class _Report(BaseModel):
    """The required content of an index's report."""

    model_config = ConfigDict(strict=True)

    built_for: dict[str, str | None] = {}


class _Manifest(BaseModel):
    """The required content of an index's manifest."""

    model_config = ConfigDict(strict=True)

    config: dict[str, Any]
    size: PositiveInt
    dim: PositiveInt
    report: _Report


class StoredVectors:
    """Base of the engines that store their vectors in a file as float16 or float32, for rescoring and for subsets."""

    kind = ""
    storage: npt.DTypeLike = np.float16

    def __init__(self) -> None:
        self.dim = 0
        self._stored: npt.NDArray[Any] = np.zeros((0, 0), dtype=self.storage)
        self._path: Path | None = None
        self._file: int | None = None  # descriptor of the file of vectors, if it is large
        self.report: dict[str, Any] = {}  # the measurements of the build

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._stored)

    def get_config(self) -> dict[str, Any]:
        """Return the settings that make an equal index."""
        raise NotImplementedError

    def vectors(self, rows: npt.NDArray[np.int64]) -> Floats2d:
        """Return the stored vectors of rows (r,) as float32 (r, dim).

        From a large file they are read, not taken from the memory map. With a map, each page also loads the sixteen pages around it, so after a
        few thousand queries the whole file would be in the memory of every worker.
        """
        if self._file is None:
            return as_float32(self._stored.view(np.ndarray).take(rows, axis=0))  # a memory map copies its attributes at each access
        width, first = self._stored.strides[0], int(getattr(self._stored, "offset", 0))
        # a bytearray, because an array over bytes could not be changed
        data = bytearray().join([os.pread(self._file, width, first + row * width) for row in rows.tolist()])
        return as_float32(np.frombuffer(data, dtype=self._stored.dtype).reshape(-1, self.dim))

    def build(self, vectors: Floats2d, *, progress: bool = False) -> None:
        """Store the vectors.

        Args:
            vectors: (n, dim), L2-normalised. If they have this index's precision, they are not copied, because ten million of them may be
                mapped from a file.
            progress: Show a progress bar.

        Raises:
            SapbertError: E204, a value is not finite, or there are no vectors.
        """
        if len(vectors) == 0:
            raise fail("E204", dim=self.dim or "d", got="no vectors")
        self._stored = _as_stored(vectors, np.dtype(self.storage))
        self.dim = int(self._stored.shape[1])
        self._path = self._file = None

    def _check(self, vectors: Any, k: int, allowed: Bools1d | None) -> Floats2d:
        if k < 1:
            raise fail("E206", k=k)
        if allowed is not None and np.shape(allowed) != (len(self),):
            raise fail("E204", dim=self.dim, got=f"a mask of shape {np.shape(allowed)} for {len(self):,} rows")
        return as_queries(vectors, self.dim)

    def _let_go(self) -> None:
        """Release the mapped pages of a large file after an exact search. They stay in the system's cache."""
        mapped = getattr(self._stored, "_mmap", None)
        if self._file is not None and mapped is not None and hasattr(mapped, "madvise"):
            mapped.madvise(mmap.MADV_DONTNEED)

    def _open_large(self, path: Path) -> None:
        self._file = None
        if self._stored.nbytes > KEPT_MAPPED and hasattr(os, "pread"):
            self._file = os.open(path, os.O_RDONLY)
            weakref.finalize(self, os.close, self._file)
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_RANDOM)

    def _read_folder(self, path: Path) -> dict[str, Any]:
        manifest: dict[str, Any] = read_manifest(path, self.kind, VERSION, missing="E201", damaged="E202", content=_Manifest, files=(VECTORS,))
        try:
            self._stored = open_array(path / VECTORS, "f", (manifest["size"], manifest["dim"]))
            if self._stored.dtype not in (np.float16, np.float32):
                raise ValueError(f"{VECTORS} holds {self._stored.dtype}, not float16 or float32")
            if is_looked_through(path / VECTORS):
                check_finite(self._stored, VECTORS)
        except ValueError as error:
            raise damaged(path, error) from error
        self._open_large(path / VECTORS)
        self.dim = int(self._stored.shape[1])
        self.report = manifest["report"]
        self._path = path
        return manifest

    def _write_folder(self, path: Path, **content: Any) -> None:
        write_manifest(path, self.kind, VERSION, {"config": self.get_config(), "size": len(self), "dim": self.dim, **content, "report": self.report})

    def to_disk(self, path: Path) -> None:
        """Write the index into a folder."""
        path.mkdir(parents=True, exist_ok=True)
        fresh = path / f"{VECTORS}.new"
        with open(fresh, "wb") as file:  # a new file, because the vectors may be a map of the old one
            np.save(file, self._stored)
        os.replace(fresh, path / VECTORS)
        self._write_files(path)
        self._write_folder(path)

    def _write_files(self, path: Path) -> None:
        """Write the engine's own files."""

    # an index is pickled as the path of its folder: spawned workers map the same files again
    def __getstate__(self) -> dict[str, Any]:
        if self._path is None:
            raise TypeError("An index that was not written to disk can't go to another process: call to_disk and from_disk first.")
        return {"config": self.get_config(), "path": self._path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state["config"])  # type: ignore[misc]
        self.from_disk(state["path"])

    def from_disk(self, path: Path) -> StoredVectors:
        """Open the index of a folder."""
        raise NotImplementedError
