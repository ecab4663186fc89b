"""Annoy (Spotify): a forest of random hyperplanes in one memory-mapped file. The linker's default.

Annoy finds; we rescore. Its trees may be grown on a PCA of the vectors (BioLORD-2023 uses 64 dimensions), which makes a
node cheaper, and the `rescore` best it returns are compared again with the query in full. Measured: at Annoy's own
defaults a quarter of the neighbours of ontology names are lost, so `search_k` is a setting and building measures it.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from ..errors import DamagedFile, fail
from ..types import Bools1d, Floats2d, Ints2d
from .base import StoredVectors, best, exact_search, settings_of

FOREST, PROJECTION = "forest.ann", "projection.npy"
PCA_SAMPLE = 50_000  # vectors the projection is fitted on
PCA_TO_TRY, SEARCH_K_TO_TRY = (64, 128), (1000, 2000, 5000, 10_000, 20_000, 40_000, 80_000)
FORWARD_SHARE = 0.2  # below this share of allowed rows, over-fetching costs more than searching the allowed ones exactly


class AnnoyIndex(StoredVectors):
    """`spacy-sapbert.AnnoyIndex.v1`.

    n_trees (int): trees; more are larger, and find more only where search_k stays far below the number of names. Measured on
        41,487 HPO names: 8 trees with a large search_k reach exact search's accuracy sooner than 50, whose lists repeat each other.
    search_k (int): nodes looked at per query; 0 leaves it to Annoy (n_trees × k), which loses neighbours.
    pca (int): dimensions the trees see; 0 for all.
    rescore (int): candidates per query compared in full.
    tune (bool): when a linker is built, measure a grid of settings and keep the fastest that is within 0.3 points of exact
        search; False keeps the settings given here, and measures those. A folder that is read brings the settings it was
        measured with; with False, the search_k and rescore given here are used on it.
    threads (int): for searching; 0 for one per core. Building takes one. The forest does not depend on it.
    seed (int): of the hyperplanes and of the PCA's sample.
    RAISES: SapbertError E002 (a setting), E205 (Annoy is not installed).
    """

    kind = "annoy index"

    def __init__(
        self, n_trees: int = 10, search_k: int = 10_000, pca: int = 64, rescore: int = 200, tune: bool = True, threads: int = 0, seed: int = 13
    ) -> None:
        super().__init__()
        for setting, value, least in (
            ("n_trees", n_trees, 1),
            ("search_k", search_k, 0),
            ("pca", pca, 0),
            ("rescore", rescore, 1),
            ("threads", threads, 0),
        ):
            if value < least:
                raise fail("E002", setting=setting, component="AnnoyIndex", value=value, why=f"it must be at least {least}.")
        self.n_trees, self.search_k, self.pca, self.rescore, self.tune, self.threads, self.seed = n_trees, search_k, pca, rescore, tune, threads, seed
        self._forest: Any = None
        self._projection: Optional[Floats2d] = None  # (dim, pca)

    def get_config(self) -> Dict[str, Any]:
        return settings_of(self, ["n_trees", "search_k", "pca", "rescore", "tune", "threads", "seed"])

    def settings_to_try(self, size: int) -> List[Dict[str, int]]:
        """What building may measure, for an index of `size` names, search_k rising; [] where `tune` is off."""
        if not self.tune:
            return []
        projections = sorted({min(pca, self.dim) if self.dim else pca for pca in PCA_TO_TRY})
        steps = [k for k in SEARCH_K_TO_TRY if k < size] + [size]
        return [{"pca": pca, "n_trees": self.n_trees, "rescore": self.rescore, "search_k": k} for pca in projections for k in steps]

    def build(self, vectors: Floats2d, *, progress: bool = False) -> None:
        super().build(vectors, progress=progress)
        full = np.asarray(vectors, dtype=np.float32)
        self._projection = _principal_axes(full, self.pca, self.seed) if 0 < self.pca < self.dim else None
        self._forest = _new_forest(self._tree_dim())
        self._forest.set_seed(self.seed)
        for start in range(0, len(full), 10_000):
            for row, vector in enumerate(self._project(full[start : start + 10_000]).tolist(), start):
                self._forest.add_item(row, vector)
        # one thread: with several, the order of nodes, and so the file, depends on which thread comes first
        self._forest.build(self.n_trees, n_jobs=1)

    def query(self, vectors: Floats2d, k: int, *, allowed: Optional[Bools1d] = None, effort: float = 1.0) -> Tuple[Ints2d, Floats2d]:
        """See `VectorIndex.query`. RAISES: SapbertError E204 (shape, NaN), E206 (k)."""
        queries = self._check(vectors, k, allowed)
        if len(queries) == 0:
            return np.zeros((0, k), dtype=np.int64), np.zeros((0, k), dtype=np.float32)
        subset = None if allowed is None else np.flatnonzero(allowed)
        total = len(self) if subset is None else len(subset)
        if total < FORWARD_SHARE * len(self):
            return exact_search(self._stored, queries, k, subset)
        fetch = k if subset is None else int(k * len(self) / total * 1.5) + 10
        rows, cosines = self._search(queries, k, fetch, allowed, effort)
        short = np.flatnonzero((rows >= 0).sum(axis=1) < min(k, total))  # the promise: all that are allowed, up to k
        if len(short):
            rows[short], cosines[short] = exact_search(self._stored, queries[short], k, subset)
        return rows, cosines

    def _search(self, queries: Floats2d, k: int, fetch: int, allowed: Optional[Bools1d], effort: float) -> Tuple[Ints2d, Floats2d]:
        fetch = min(max(fetch, self.rescore), len(self))
        projected = self._project(queries).tolist()
        search_k = max(int(self.search_k * effort), fetch) if self.search_k else -1

        def search(lines: range) -> Tuple[Ints2d, Floats2d]:
            rows = np.full((len(lines), max(fetch, k)), -1, dtype=np.int64)
            cosines = np.full(rows.shape, -np.inf, dtype=np.float32)
            for i, line in enumerate(lines):
                found = np.asarray(self._forest.get_nns_by_vector(projected[line], fetch, search_k), dtype=np.int64)
                if allowed is not None:
                    found = found[allowed[found]]
                rows[i, : len(found)] = found
                cosines[i, : len(found)] = np.asarray(self._stored[found], dtype=np.float32) @ queries[line]
            return best(rows, cosines, k)

        chunk = 32
        lines = [range(start, min(start + chunk, len(queries))) for start in range(0, len(queries), chunk)]
        threads = min(self.threads or _cores(), len(lines))
        if threads == 1:
            found = [search(part) for part in lines]
        else:
            with ThreadPoolExecutor(threads) as pool:  # Annoy releases the GIL
                found = list(pool.map(search, lines))
        return np.concatenate([rows for rows, _ in found]), np.concatenate([cosines for _, cosines in found])

    def _project(self, vectors: Floats2d) -> Floats2d:
        # not centred: the angle between projections should be close to the angle between vectors
        return vectors if self._projection is None else vectors @ self._projection

    def _tree_dim(self) -> int:
        return self.dim if self._projection is None else self._projection.shape[1]

    def _write_files(self, path: Path) -> None:
        if not self._forest.save(str(path / FOREST)):  # saving also maps the file in place of the memory
            raise OSError(f"Annoy could not write '{path / FOREST}'.")
        if self._projection is not None:
            np.save(path / PROJECTION, self._projection)

    def from_disk(self, path: Path) -> AnnoyIndex:
        path = Path(path)
        manifest = self._read_folder(path)
        # how the trees were grown is the file's; how they are searched is what was measured, unless the reader tunes nothing
        self.n_trees, self.pca, self.seed = (manifest["config"][key] for key in ("n_trees", "pca", "seed"))
        if self.tune:
            self.search_k, self.rescore = (manifest["config"][key] for key in ("search_k", "rescore"))
        self._projection = np.load(path / PROJECTION, allow_pickle=False) if (path / PROJECTION).is_file() else None
        self._forest = _new_forest(self._tree_dim())
        try:
            self._forest.load(str(path / FOREST))
        except OSError as error:  # bare, and only after _read_folder has seen that the file is there and whole
            raise fail("E202", DamagedFile, path=path, why=f"Annoy can't map '{FOREST}'") from error
        if self._forest.get_n_items() != len(self):
            raise fail("E202", DamagedFile, path=path, why=f"{self._forest.get_n_items():,} items in the forest, {len(self):,} vectors beside it")
        return self


def _new_forest(dim: int) -> Any:
    try:
        from annoy import AnnoyIndex as Forest
    except ImportError as error:
        known = "spacy-sapbert.ExactIndex.v1"
        raise fail("E205", name="spacy-sapbert.AnnoyIndex.v1", package="annoy", error=error, known=known) from error
    return Forest(dim, "angular")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _principal_axes(vectors: Floats2d, dims: int, seed: int) -> Floats2d:
    """The first `dims` eigenvectors of the uncentred second moment of a seeded sample -> (dim, dims)."""
    chosen = np.random.default_rng(seed).permutation(len(vectors))[:PCA_SAMPLE]
    sample = vectors[np.sort(chosen)].astype(np.float64)
    _, axes = np.linalg.eigh(sample.T @ sample)  # ascending
    axes = axes[:, ::-1][:, :dims]
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])  # eigenvectors have no sign of their own
    return np.ascontiguousarray(axes, dtype=np.float32)
