"""USearch (Unum): a navigable small-world graph (HNSW: Malkov and Yashunin, TPAMI 2018) in one memory-mapped file, of float32, bfloat16 or int8."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DamagedFile, fail
from ..types import Floats2d, Ints2d
from .params import build_param, param, reader_param, search_param
from .rescored import RescoredIndex

GRAPH = "graph.usearch"
DTYPES = ("f32", "bf16", "i8")
EXPANSION_TO_TRY = [32, 64, 128, 256, 512, 1024]


@dataclass(eq=False)
class UsearchIndex(RescoredIndex):
    """`spacy-sapbert.UsearchIndex.v1`; `pip install spacy-sapbert[usearch]`.

    Args:
        dtype: f32, bf16 or i8: precision of the graph's own copy of the vectors. Candidates are compared in full precision in any case.
        connectivity: Edges of a node (M in the paper).
        expansion_add: Nodes looked at for a new one (efConstruction).
        expansion_search: Nodes looked at per query (ef); at least `rescore`.
        build_threads: Threads of a build; 0 for one per core. With several, the graph depends on which thread comes first: it is as good,
            but not the same bytes each time.
        pca: Dimensions the graph sees; 0 for all.
        rescore: Candidates per query that are compared in full precision.
        tune: As for `AnnoyIndex`, over expansion_search.
        threads: Threads of a search; 0 for one per core.
        seed: Of the PCA's sample.

    Raises:
        SapbertError: E002 (a setting), E205 (USearch is not installed).
    """

    dtype: str = build_param("bf16")
    connectivity: int = build_param(16, least=2)
    expansion_add: int = build_param(128, least=1)
    expansion_search: int = search_param(64, least=1)
    build_threads: int = param(1, least=0)
    pca: int = build_param(0, least=0)
    rescore: int = search_param(50, least=1)
    tune: bool = param(True)
    threads: int = reader_param(0, least=0)
    seed: int = build_param(13)

    kind = "usearch index"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dtype not in DTYPES:
            raise fail("E002", setting="dtype", component="UsearchIndex", value=self.dtype, why=f"known are {', '.join(DTYPES)}.")

    def settings_to_try(self, size: int) -> list[dict[str, Any]]:
        """Return rising values of expansion_search; see `Tunable`."""
        return self._rising("expansion_search", EXPANSION_TO_TRY, size)

    def engine_bytes(self, dim: int) -> float:
        """Return the bytes per name: a vector, the edges of its node, a row's number."""
        return {"f32": 4, "bf16": 2, "i8": 1}[self.dtype] * self._seen(dim) + 9 * self.connectivity + 8

    def require(self) -> None:
        """Load the library; see `NeedsLibrary`."""
        _library()

    def _build_engine(self, blocks: Iterator[tuple[int, Floats2d]], total: int) -> Any:
        library = _library()
        kind = {"f32": library.ScalarKind.F32, "bf16": library.ScalarKind.BF16, "i8": library.ScalarKind.I8}[self.dtype]
        graph = library.Index(
            ndim=self.tree_dim,
            metric=library.MetricKind.Cos,
            dtype=kind,
            connectivity=self.connectivity,
            expansion_add=self.expansion_add,
            expansion_search=self.expansion_search,
            enable_key_lookups=False,  # keys are rows, in order: a table of where each is would only take memory
        )
        for start, block in blocks:
            graph.add(np.arange(start, start + len(block), dtype=np.uint64), block, threads=self.build_threads)
        return graph

    def _nearest(self, queries: Floats2d, fetch: int, budget: float) -> Ints2d:
        self._engine.expansion_search = max(int(self.expansion_search * budget), fetch)
        # two at least: of one query it gives another kind of answer
        found = self._engine.search(queries if len(queries) > 1 else queries.repeat(2, axis=0), fetch, threads=1)
        rows: Ints2d = found.keys[: len(queries)].astype(np.int64)
        rows[np.arange(rows.shape[1]) >= np.asarray(found.counts)[: len(queries), None]] = -1
        return rows

    def _save_engine(self, path: Path) -> None:
        fresh = path / f"{GRAPH}.new"  # beside: what is saved may be mapped from the file that is replaced
        self._engine.save(str(fresh))
        os.replace(fresh, path / GRAPH)

    def _open_engine(self, path: Path) -> Any:
        library = _library()
        try:
            graph = library.Index.restore(str(path / GRAPH), view=True, enable_key_lookups=False)  # a third of the time
        except Exception as error:  # only after _read_folder has seen that the file is there and whole
            raise fail("E202", DamagedFile, path=path, why=f"USearch can't map '{GRAPH}': {error}") from error
        if graph is None or len(graph) != len(self) or graph.ndim != self.tree_dim:
            raise fail("E202", DamagedFile, path=path, why=f"'{GRAPH}' does not fit the {len(self):,} vectors beside it, or is of another version")
        return graph


def _library() -> Any:
    import torch  # noqa: F401  # before USearch: Faiss crashes in a process that loaded USearch's C++ library first (both as wheels)

    try:
        import usearch.index as library
    except ImportError as error:
        known = "spacy-sapbert.AnnoyIndex.v1, spacy-sapbert.ExactIndex.v1"
        raise fail("E205", name="spacy-sapbert.UsearchIndex.v1", package='"spacy-sapbert[usearch]"', error=error, known=known) from error
    return library
