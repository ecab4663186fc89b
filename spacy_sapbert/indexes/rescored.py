"""What approximate engines share: they find, we compare. A PCA before the engine, full-precision rescoring after it, filters that hold.

The engine sees the vectors, or the first axes of their PCA (BioLORD-2023 uses 64 dimensions), in whatever precision it likes, and names the
`rescore` rows that seem nearest; those are compared with the query in full, from a memory-mapped float16 file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from ..errors import fail
from ..types import Bools1d, Floats2d, Ints1d, Ints2d
from .base import StoredVectors, best, exact_search, settings_of

PROJECTION = "projection.npy"
PCA_SAMPLE = 50_000  # vectors the projection is fitted on
EXACT_PER_FETCHED = 350  # allowed rows that are compared one by one in the time in which an engine finds, and we compare, one row more
BLOCK = 10_000  # vectors handed to an engine at once


class RescoredIndex(StoredVectors):
    """Subclasses say what the engine is (`_grow`, `_nearest`), its files (`_save_engine`, `_open_engine`) and its settings.

    A filtered query never gives fewer allowed rows than there are, up to k: the engine is asked for more, and where that is not enough the
    allowed rows are searched exactly, as they are from the start where they are few.
    """

    own: Tuple[str, ...] = ()  # the engine's settings, first in get_config
    grown: Tuple[str, ...] = ("pca",)  # settings that the engine's files are made with; others are the search's
    searched: Tuple[str, ...] = ("rescore",)  # settings of the search that are measured when a linker is built

    readers: Tuple[str, ...] = ("threads",)  # settings that are the reader's, not the folder's: no answer depends on them

    @property
    def queries_at_once(self) -> int:
        """Searched by one thread at a time."""
        return 32

    def __init__(self, pca: int, rescore: int, tune: bool, threads: int, seed: int) -> None:
        super().__init__()
        self.pca, self.rescore, self.tune, self.threads, self.seed = pca, rescore, tune, threads, seed
        self._engine: Any = None
        self._projection: Optional[Floats2d] = None  # (dim, pca)

    def _at_least(self, **least: int) -> None:
        """RAISES: SapbertError E002."""
        for name, value in {**least, "pca": 0, "rescore": 1, "threads": 0}.items():
            if getattr(self, name) < value:
                why = f"it must be at least {value}."
                raise fail("E002", setting=name, component=type(self).__name__, value=getattr(self, name), why=why)

    def get_config(self) -> Dict[str, Any]:
        return settings_of(self, [*self.own, "pca", "rescore", "tune", "threads", "seed"])

    def engine_bytes(self, dim: int) -> float:
        """Of the engine's own files, bytes a name of `dim` dimensions, before it is built; 0 where they are not in this process."""
        return 0

    def learning_bytes(self, names: int, dim: int) -> float:
        """Of memory, while it learns from a sample before it is built."""
        return 0

    def _seen(self, dim: int) -> int:
        """Dimensions that the engine will see of `dim`."""
        return min(self.pca or dim, dim)

    def _rising(self, setting: str, values: List[int], size: int) -> List[Dict[str, Any]]:
        """What building measures of an index of `size` names: a setting of the search over rising values, all others as they are; [] where `tune` is off."""
        if not self.tune:
            return []
        fixed = {name: getattr(self, name) for name in (*self.grown, "rescore")}
        return [{**fixed, setting: value} for value in steps(values, min(size, values[-1] * 2))]

    # -- the engine -----------------------------------------------------------------------------------------------------

    def require(self) -> None:
        """RAISES: SapbertError E205 where its library is missing: now, and not after hours of encoding."""
        raise NotImplementedError

    def _grow(self, blocks: Iterator[Tuple[int, Floats2d]], total: int) -> Any:
        """(first row, vectors (≤ BLOCK, tree_dim)) in order, `total` vectors in all -> the engine. RAISES: SapbertError E205."""
        raise NotImplementedError

    def _nearest(self, queries: Floats2d, fetch: int, effort: float) -> Ints2d:
        """queries (q, tree_dim) -> the rows that seem nearest (q, at most `fetch`), in any order; -1 where there are fewer."""
        raise NotImplementedError

    def _save_engine(self, path: Path) -> None:
        raise NotImplementedError

    def _open_engine(self, path: Path) -> Any:
        """RAISES: SapbertError E202, E205."""
        raise NotImplementedError

    # -- what all do alike ----------------------------------------------------------------------------------------------

    def build(self, vectors: Floats2d, *, progress: bool = False) -> None:
        super().build(vectors, progress=progress)
        self._projection = principal_axes(vectors, self.pca, self.seed) if 0 < self.pca < self.dim else None
        blocks = ((start, self._project(np.asarray(vectors[start : start + BLOCK], dtype=np.float32))) for start in range(0, len(vectors), BLOCK))
        self._engine = self._grow(blocks, len(vectors))

    def query(self, vectors: Floats2d, k: int, *, allowed: Optional[Bools1d] = None, effort: float = 1.0) -> Tuple[Ints2d, Floats2d]:
        """See `VectorIndex.query`. RAISES: SapbertError E204 (shape, NaN), E206 (k)."""
        queries = self._check(vectors, k, allowed)
        if len(queries) == 0:
            return np.zeros((0, k), dtype=np.int64), np.zeros((0, k), dtype=np.float32)
        subset = None if allowed is None else np.flatnonzero(allowed)
        total = len(self) if subset is None else len(subset)
        fetch = k if subset is None else int(k * len(self) / max(total, 1) * 1.5) + 10
        if subset is not None and total < EXACT_PER_FETCHED * fetch:
            return self._exact(queries, k, subset)
        rows, cosines = self._search(queries, k, fetch, allowed, effort)
        short = np.flatnonzero((rows >= 0).sum(axis=1) < min(k, total))  # the promise: all that are allowed, up to k
        if len(short):
            rows[short], cosines[short] = self._exact(queries[short], k, subset)
        return rows, cosines

    def _exact(self, queries: Floats2d, k: int, subset: Optional[Ints1d]) -> Tuple[Ints2d, Floats2d]:
        try:
            return exact_search(self._stored, queries, k, subset)
        finally:
            self._let_go()

    def _search(self, queries: Floats2d, k: int, fetch: int, allowed: Optional[Bools1d], effort: float) -> Tuple[Ints2d, Floats2d]:
        fetch = min(max(fetch, self.rescore), len(self))
        projected = np.ascontiguousarray(self._project(queries))

        def search(lines: range) -> Tuple[Ints2d, Floats2d]:
            rows = np.full((len(lines), max(fetch, k)), -1, dtype=np.int64)
            cosines = np.full(rows.shape, -np.inf, dtype=np.float32)
            for i, found in enumerate(self._nearest(projected[lines.start : lines.stop], fetch, effort)):
                kept = found[found >= 0]
                if allowed is not None:
                    kept = kept[allowed[kept]]
                rows[i, : len(kept)] = kept
                cosines[i, : len(kept)] = self.vectors(kept) @ queries[lines.start + i]
            return best(rows, cosines, k)

        at_once = self.queries_at_once
        lines = [range(start, min(start + at_once, len(queries))) for start in range(0, len(queries), at_once)]
        threads = min(self.threads or cores(), len(lines))
        if threads == 1:
            found = [search(part) for part in lines]
        else:
            with ThreadPoolExecutor(threads) as pool:  # the engines release the GIL
                found = list(pool.map(search, lines))
        return np.concatenate([rows for rows, _ in found]), np.concatenate([cosines for _, cosines in found])

    def _project(self, vectors: Floats2d) -> Floats2d:
        # not centred: the angle between projections should be close to the angle between vectors
        return vectors if self._projection is None else vectors @ self._projection

    @property
    def tree_dim(self) -> int:
        """Dimensions that the engine sees."""
        return self.dim if self._projection is None else self._projection.shape[1]

    def _write_files(self, path: Path) -> None:
        self._save_engine(path)
        if self._projection is not None:
            np.save(path / PROJECTION, self._projection)

    def from_disk(self, path: Path) -> RescoredIndex:
        path = Path(path)
        manifest = self._read_folder(path)
        # how the engine was grown is the file's; how it is searched is what was measured, unless the reader tunes nothing
        for name in (*self.grown, "seed", *(self.searched if self.tune else ())):
            setattr(self, name, manifest["config"][name])
        self._projection = np.load(path / PROJECTION, allow_pickle=False) if (path / PROJECTION).is_file() else None
        self._engine = self._open_engine(path)
        return self


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def principal_axes(vectors: Floats2d, dims: int, seed: int) -> Floats2d:
    """The first `dims` eigenvectors of the uncentred second moment of a seeded sample -> (dim, dims)."""
    chosen = np.random.default_rng(seed).permutation(len(vectors))[:PCA_SAMPLE]
    sample = np.asarray(vectors[np.sort(chosen)], dtype=np.float32).astype(np.float64)
    _, axes = np.linalg.eigh(sample.T @ sample)  # ascending
    axes = axes[:, ::-1][:, :dims]
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])  # eigenvectors have no sign of their own
    return np.ascontiguousarray(axes, dtype=np.float32)


def steps(below: List[int], size: int) -> List[int]:
    """Values of a search setting to try: those below `size`, and `size`."""
    return [k for k in below if k < size] + [size]
