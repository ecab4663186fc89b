"""What approximate engines share: the engine finds candidates, and this module compares them.

The engine gets the vectors, or the first axes of their PCA (BioLORD-2023 uses 64 dimensions), and stores them in any precision. It returns the
`rescore` rows that seem nearest. These are compared with the query in full precision, from a memory-mapped float16 file.

A table of the nearest rows of each row, made once after the build, replaces the search for vectors that are stored: see `neighbours`.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from ..arrays import check_between, check_finite, open_array
from ..errors import SapbertError
from ..files import is_every_byte
from ..types import Bools1d, Floats2d, Ints1d, Ints2d
from .neighbours import find_neighbours, pack, unpack
from .params import BUILD, READER, SEARCH, check_params, names_of, params_of, take_saved
from .stored import StoredVectors, best, damaged, exact_search

PROJECTION = "projection.npy"
NEIGHBOURS = "neighbours.npy"
N_NEIGHBOURS = 29  # of each row; with the row itself, the component's default k
MOST_WITH_NEIGHBOURS = 1_000_000  # rows; with more, the table would take minutes and a hundred megabytes
PCA_SAMPLE = 50_000  # vectors that the projection is fit on
EXACT_PER_FETCHED = 350  # exact search compares this many rows in the time that an engine needs for one more candidate
OVERFETCH, EXTRA = 1.5, 10  # with a filter, an engine is asked for 1.5 times as many rows as needed, and 10 more
SMALL_BUDGET = 0.25  # below it, half as many candidates are compared in full precision; half a percent of the neighbours is lost (measured)
BLOCK = 10_000  # vectors that an engine gets at once
ROWS_AT_ONCE = 128  # rows whose neighbours are compared at once: their vectors fit a processor's cache


class RescoredIndex(StoredVectors):
    """Base of the approximate engines.

    A subclass is a dataclass of its params (see `params`). It builds and searches the engine (`_build_engine`, `_nearest`) and writes and opens its
    files (`_save_engine`, `_open_engine`).

    A query with a filter always returns k allowed rows, or all of them if there are fewer. The engine is asked for more rows than k. If that is not
    enough, or if few rows are allowed, the allowed rows are searched exactly.
    """

    pca: int
    rescore: int
    tune: bool
    threads: int
    seed: int

    def __post_init__(self) -> None:
        super().__init__()
        self._engine: Any = None
        self._projection: Optional[Floats2d] = None  # (dim, pca)
        self._neighbours: Optional[npt.NDArray[np.uint8]] = None  # (n, neighbours, bytes), see `pack`
        check_params(self)

    @property
    def build_params(self) -> Sequence[str]:
        """Names of the settings that the engine's files depend on."""
        return names_of(self, BUILD)

    @property
    def reader_params(self) -> Sequence[str]:
        """Names of the settings that results do not depend on."""
        return names_of(self, READER)

    @property
    def queries_at_once(self) -> int:
        """Number of queries that one thread searches at once."""
        return 32

    def get_config(self) -> dict[str, Any]:
        """Return the settings that make an equal index."""
        return params_of(self)

    def set_search(self, settings: Mapping[str, Any]) -> None:
        """Use other search params from now on."""
        for name in names_of(self, SEARCH):
            setattr(self, name, settings.get(name, getattr(self, name)))

    def engine_bytes(self, dim: int) -> float:
        """Return the bytes per name of the engine's own files; 0 if the engine runs elsewhere."""
        return 0

    def _seen(self, dim: int) -> int:
        """Return how many of `dim` dimensions the engine will use."""
        return min(self.pca or dim, dim)

    def _rising(self, setting: str, values: list[int], size: int) -> list[dict[str, Any]]:
        """Return the settings to try for an index of `size` names: rising values of one search param, all others unchanged; [] if `tune` is off."""
        if not self.tune:
            return []
        fixed = {name: getattr(self, name) for name in (*self.build_params, "rescore") if name != "seed"}
        return [{**fixed, setting: value} for value in steps(values, min(size, values[-1] * 2))]

    # -- the engine -----------------------------------------------------------------------------------------------------

    def require(self) -> None:
        """Load the engine's library.

        Raises:
            SapbertError: E205, it is missing.
        """
        raise NotImplementedError

    def _build_engine(self, blocks: Iterator[tuple[int, Floats2d]], total: int) -> Any:
        """Build the engine.

        Args:
            blocks: Blocks in the order of rows: the number of the first row, and at most BLOCK vectors (b, tree_dim).
            total: Number of all vectors.

        Raises:
            SapbertError: E205, the library is missing.
        """
        raise NotImplementedError

    def _nearest(self, queries: Floats2d, fetch: int, budget: float) -> Ints2d:
        """Return the rows that seem nearest, in any order.

        Args:
            queries: (q, tree_dim).
            fetch: Largest number of rows to return per query.
            budget: The search budget, see `VectorIndex.query`.

        Returns:
            Rows (q, at most `fetch`), filled up with -1.
        """
        raise NotImplementedError

    def _save_engine(self, path: Path) -> None:
        """Write the engine's files into a folder."""
        raise NotImplementedError

    def _open_engine(self, path: Path) -> Any:
        """Open the engine's files in a folder.

        The files are checked first, as far as possible: a library that maps a damaged file would trust its content and crash.

        Raises:
            ValueError: a file is damaged.
            SapbertError: E202, a file is damaged; E205, the library is missing.
        """
        raise NotImplementedError

    # -- what all engines share -------------------------------------------------------------------------------------------

    def build(self, vectors: Floats2d, *, progress: bool = False) -> None:
        """Store the vectors and build the engine; see `VectorIndex.build`."""
        super().build(vectors, progress=progress)
        self._neighbours = None
        self._projection = principal_axes(vectors, self.pca, self.seed) if 0 < self.pca < self.dim else None
        blocks = ((start, self._project(np.asarray(vectors[start : start + BLOCK], dtype=np.float32))) for start in range(0, len(vectors), BLOCK))
        self._engine = self._build_engine(blocks, len(vectors))

    def find_neighbours(self, tick: Callable[[int], object] = lambda rows: None) -> None:
        """Make the table of neighbours; see `KeepsNeighbours`."""
        count = min(N_NEIGHBOURS, len(self) - 1)
        self._neighbours = pack(find_neighbours(self._stored, count, self.seed, tick)) if count > 0 and len(self) <= MOST_WITH_NEIGHBOURS else None

    def neighbours(self, rows: Ints1d, k: int) -> Optional[tuple[Ints2d, Floats2d]]:
        """Return the nearest rows of some rows by the table; see `KeepsNeighbours`.

        Raises:
            SapbertError: E202, the table names a row that does not exist.
        """
        table = self._neighbours
        if table is None or k > table.shape[1] + 1:
            return None
        found, cosines = np.empty((len(rows), k), dtype=np.int64), np.empty((len(rows), k), dtype=np.float32)
        for start in range(0, len(rows), ROWS_AT_ONCE):
            part = rows[start : start + ROWS_AT_ONCE]
            near = np.hstack([part[:, None], unpack(table[part])])
            if near.max(initial=0) >= len(self):
                raise damaged(self._path or Path(), f"{NEIGHBOURS} names row {int(near.max()):,} of {len(self):,}")
            vectors = self.vectors(near.ravel()).reshape(*near.shape, self.dim)
            end = start + len(part)
            found[start:end], cosines[start:end] = best(near, np.matmul(vectors, vectors[:, 0, :, None])[..., 0], k)
        return found, cosines

    def neighbour_bytes(self, names: int) -> int:
        """Return the bytes of the table of neighbours for this number of names."""
        count = min(N_NEIGHBOURS, names - 1)
        return names * count * max(1, ((names - 1).bit_length() + 7) // 8) if names <= MOST_WITH_NEIGHBOURS else 0

    def query(self, vectors: Floats2d, k: int, *, allowed: Optional[Bools1d] = None, budget: float = 1.0) -> tuple[Ints2d, Floats2d]:
        """Find the nearest rows; see `VectorIndex.query`.

        Raises:
            SapbertError: E204, the shape is wrong or a value is not finite; E206, k is below 1.
        """
        queries = self._check(vectors, k, allowed)
        if len(queries) == 0:
            return np.zeros((0, k), dtype=np.int64), np.zeros((0, k), dtype=np.float32)
        subset = None if allowed is None else np.flatnonzero(allowed)
        total = len(self) if subset is None else len(subset)
        fetch = k if subset is None else int(k * len(self) / max(total, 1) * OVERFETCH) + EXTRA
        if subset is not None and total < EXACT_PER_FETCHED * fetch:
            return self._exact(queries, k, subset)
        rows, cosines = self._search(queries, k, fetch, allowed, budget)
        short = np.flatnonzero((rows >= 0).sum(axis=1) < min(k, total))  # fewer than promised: k, or all that are allowed
        if len(short):
            rows[short], cosines[short] = self._exact(queries[short], k, subset)
        return rows, cosines

    def _exact(self, queries: Floats2d, k: int, subset: Optional[Ints1d]) -> tuple[Ints2d, Floats2d]:
        try:
            return exact_search(self._stored, queries, k, subset)
        finally:
            self._let_go()

    def _search(self, queries: Floats2d, k: int, fetch: int, allowed: Optional[Bools1d], budget: float) -> tuple[Ints2d, Floats2d]:
        rescored = self.rescore // 2 if budget < SMALL_BUDGET else self.rescore
        fetch = min(max(fetch, rescored), len(self))
        projected = np.ascontiguousarray(self._project(queries))

        def search(lines: range) -> tuple[Ints2d, Floats2d]:
            rows = np.full((len(lines), max(fetch, k)), -1, dtype=np.int64)
            cosines = np.full(rows.shape, -np.inf, dtype=np.float32)
            nearest = self._nearest(projected[lines.start : lines.stop], fetch, budget)
            if nearest.max(initial=-1) >= len(self):  # the file was too large to be checked completely
                raise damaged(self._path or Path(), f"the engine names row {int(nearest.max()):,} of {len(self):,}")
            for i, found in enumerate(nearest):
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
        """Number of dimensions that the engine sees."""
        return self.dim if self._projection is None else self._projection.shape[1]

    def _write_files(self, path: Path) -> None:
        self._save_engine(path)
        if self._projection is not None:
            np.save(path / PROJECTION, self._projection)
        if self._neighbours is None:
            (path / NEIGHBOURS).unlink(missing_ok=True)
        else:
            fresh = path / f"{NEIGHBOURS}.new"  # a new file, because the table may be a map of the old one
            with open(fresh, "wb") as file:
                np.save(file, self._neighbours)
            os.replace(fresh, path / NEIGHBOURS)

    def from_disk(self, path: Path) -> "RescoredIndex":
        """Open the index of a folder. Build params are read from the folder, and search params too, unless `tune` is off."""
        path = Path(path)
        manifest = self._read_folder(path)
        saved = (*self.build_params, *(names_of(self, SEARCH) if self.tune else ()))
        try:
            take_saved(self, manifest["config"], saved)
            self._projection = self._read_projection(path / PROJECTION)
            self._neighbours = self._read_neighbours(path / NEIGHBOURS)
            self._engine = self._open_engine(path)
        except SapbertError:
            raise
        except ValueError as error:
            raise damaged(path, error) from error
        return self

    def _read_projection(self, path: Path) -> Optional[Floats2d]:
        """Return the projection (dim, pca); None if there is none.

        Raises:
            ValueError: the file is damaged.
        """
        if not path.is_file():
            return None
        projection = open_array(path, "f", (self.dim, None), mapped=False)
        check_finite(projection, PROJECTION)
        if not 0 < projection.shape[1] <= self.dim:
            raise ValueError(f"{PROJECTION} has {projection.shape[1]:,} axes for {self.dim} dimensions")
        return projection.astype(np.float32, copy=False)

    def _read_neighbours(self, path: Path) -> Optional[npt.NDArray[np.uint8]]:
        """Memory-map the table of neighbours; None if there is none, as in the folders of older versions.

        Raises:
            ValueError: the file is damaged.
        """
        if not path.is_file():
            return None
        table = open_array(path, "u", (len(self), None, None))
        if table.dtype != np.uint8 or not 0 < table.shape[1] < len(self) or not 0 < table.shape[2] <= 4:
            raise ValueError(f"{NEIGHBOURS} has {table.shape[1]:,} neighbours of {table.shape[2]:,} × {table.dtype} for each of {len(self):,} rows")
        if is_every_byte():  # otherwise `neighbours` checks what it reads, so that the whole file does not get into memory
            for start in range(0, len(table), BLOCK):
                check_between(unpack(table[start : start + BLOCK]), NEIGHBOURS, 0, len(self))
        return table.view(np.ndarray)  # a memory map copies its attributes at each access


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def principal_axes(vectors: Floats2d, dims: int, seed: int) -> Floats2d:
    """Return the first `dims` eigenvectors (dim, dims) of the uncentred second moment of a seeded sample."""
    chosen = np.random.default_rng(seed).permutation(len(vectors))[:PCA_SAMPLE]
    sample = np.asarray(vectors[np.sort(chosen)], dtype=np.float32).astype(np.float64)
    _, axes = np.linalg.eigh(sample.T @ sample)  # ascending
    axes = axes[:, ::-1][:, :dims]
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])  # an eigenvector may have either sign
    return np.ascontiguousarray(axes, dtype=np.float32)


def steps(below: list[int], size: int) -> list[int]:
    """Return the values of a search param to try: those below `size`, and `size`."""
    return [k for k in below if k < size] + [size]
