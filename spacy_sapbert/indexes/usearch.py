"""USearch (Unum): a navigable small-world graph (HNSW: Malkov and Yashunin, TPAMI 2018) in one memory-mapped file, in float32, bfloat16 or int8."""

import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import check_finite
from ..errors import DamagedFile, fail
from ..files import is_looked_through
from ..types import Floats2d, Ints1d, Ints2d
from .params import build_param, param, reader_param, search_param
from .rescored import RescoredIndex

GRAPH = "graph.usearch"
DTYPES = ("f32", "bf16", "i8")
# the layout of USearch's file
MAGIC, LAYOUT = b"usearch", 2
HEADER, GRAPH_HEADER, NODE = 64, 40, 10  # bytes of the two headers, and of a node's key and level
BYTES, SCALARS, KINDS = {"f32": 4, "bf16": 2, "i8": 1}, {"f32": 11, "bf16": 4, "i8": 23}, (14, 15)  # kinds of a key and of a position: uint64, uint32
MOST_LEVELS, MOST_EDGES = 100, 4096
CHECKED_NODES = 20_000  # nodes that are checked at once
EXPANSION_TO_TRY = [32, 64, 128, 256, 512, 1024]


@dataclass(eq=False)
class UsearchIndex(RescoredIndex):
    """`spacy-sapbert.UsearchIndex.v1`; `pip install spacy-sapbert[usearch]`.

    Args:
        dtype: f32, bf16 or i8: precision of the graph's own copy of the vectors. Candidates are always compared in full precision.
        connectivity: Number of edges of a node (M in the paper).
        expansion_add: Number of nodes that are looked at when a node is added (efConstruction).
        expansion_search: Number of nodes that a query looks at (ef); at least `rescore`.
        build_threads: Number of threads of a build; 0 for one per core. With several, the graph depends on which thread is first: it is as good,
            but its bytes differ from build to build.
        pca: Number of dimensions that the graph uses; 0 for all.
        rescore: Number of candidates per query that are compared in full precision.
        tune: As for `AnnoyIndex`, with values of expansion_search.
        threads: Number of threads of a search; 0 for one per core.
        seed: Seed of the PCA's sample.

    Raises:
        SapbertError: E002, a setting is wrong; E205, USearch is not installed.
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
        """Return the bytes per name: a vector, the edges of its node, and the number of a row."""
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
            enable_key_lookups=False,  # keys are row numbers in order, so a table of their positions would only use memory
        )
        for start, block in blocks:
            graph.add(np.arange(start, start + len(block), dtype=np.uint64), block, threads=self.build_threads)
        return graph

    def _nearest(self, queries: Floats2d, fetch: int, budget: float) -> Ints2d:
        self._engine.expansion_search = max(min(int(self.expansion_search * budget), len(self)), fetch)  # USearch allocates memory for so many
        # at least two queries: for a single one, USearch returns another type of result
        found = self._engine.search(queries if len(queries) > 1 else queries.repeat(2, axis=0), fetch, threads=1)
        rows: Ints2d = found.keys[: len(queries)].astype(np.int64)
        rows[np.arange(rows.shape[1]) >= np.asarray(found.counts)[: len(queries), None]] = -1
        return rows

    def _save_engine(self, path: Path) -> None:
        fresh = path / f"{GRAPH}.new"  # a new file, because the graph may be a map of the old one
        self._engine.save(str(fresh))
        os.replace(fresh, path / GRAPH)

    def _open_engine(self, path: Path) -> Any:
        library = _library()
        check_graph(path / GRAPH, len(self), self.tree_dim, self.dtype, whole=is_looked_through(path / GRAPH))
        try:
            graph = library.Index.restore(str(path / GRAPH), view=True, enable_key_lookups=False)  # without key look-ups it takes a third of the time
        except Exception as error:  # _read_folder has already checked that the file is complete
            raise fail("E202", DamagedFile, path=path, why=f"USearch can't map '{GRAPH}': {error}") from error
        if graph is None or len(graph) != len(self) or graph.ndim != self.tree_dim:
            raise fail("E202", DamagedFile, path=path, why=f"'{GRAPH}' does not fit the {len(self):,} vectors beside it, or is of another version")
        return graph


def check_graph(path: Path, names: int, dim: int, dtype: str, *, whole: bool) -> None:
    """Check a file of USearch before it is memory-mapped, because USearch follows the numbers in it without checking them.

    The file has the number and width of the vectors, the vectors, a header of 64 bytes, the sizes of the graph, the level of each node (int16), and
    the nodes. A node has its key, its level, and for each level up to its own the number of neighbours and their positions.

    Args:
        path: the file.
        names: number of nodes that it must have.
        dim: number of dimensions of their vectors.
        dtype: precision of the vectors.
        whole: check all nodes; False checks only the sizes.

    Raises:
        ValueError: the file is damaged.

    Source:
        index_dense.hpp and index.hpp of USearch 2, `index_dense_gt::save_to_stream` and `index_gt::save_to_stream`.
    """

    def need(holds: bool, why: str) -> None:
        if not holds:
            raise ValueError(f"'{GRAPH}' does not fit the {names:,} vectors beside it: {why}")

    need(dtype in DTYPES, f"the manifest's setting 'dtype' is {dtype[:60]!r}")
    size = path.stat().st_size
    with open(path, "rb") as file:
        head = file.read(8)
        need(len(head) == 8, "it is cut short")
        rows, width = struct.unpack("<II", head)
        need((rows, width) == (names, dim * BYTES[dtype]), f"it holds {rows:,} vectors of {width:,} bytes")
        start = 8 + rows * width
        need(size >= start + HEADER + GRAPH_HEADER + 2 * names, "it is cut short")
        file.seek(start)
        about = file.read(HEADER + GRAPH_HEADER)
    magic, major = struct.unpack_from("<7sH", about)
    need(magic == MAGIC, "its header is of another kind")
    if major != LAYOUT:  # USearch itself refuses layouts that it can't read
        return
    scalar, key, slot = about[14], about[15], about[16]
    count, deleted, wide = struct.unpack_from("<QQQ", about, 17)
    need((scalar, key, slot) == (SCALARS[dtype], *KINDS), "its vectors or keys are of another kind")
    need((count, deleted, wide) == (names, 0, dim), f"its header says {count:,} vectors of {wide:,} dimensions, {deleted:,} of them deleted")
    nodes, edges, edges_below, top, entry = struct.unpack_from("<QQQQQ", about, HEADER)
    need(nodes == names and entry < names and top < MOST_LEVELS, f"its graph has {nodes:,} nodes, and begins at {entry:,}")
    need(0 < edges <= MOST_EDGES and 0 < edges_below <= MOST_EDGES, f"its nodes have {edges:,} and {edges_below:,} edges")
    start += HEADER + GRAPH_HEADER
    levels = np.memmap(path, dtype="<i2", mode="r", offset=start, shape=(names,)).astype(np.int64)
    need(bool((levels >= 0).all()) and int(levels.max()) <= top and int(levels[entry]) == top, "the levels of its nodes are wrong")
    sizes = NODE + 4 + 4 * edges_below + levels * (4 + 4 * edges)
    need(start + 2 * names + int(sizes.sum()) == size, "the file is too long or too short for its nodes")
    if whole:
        _check_nodes(path, start + 2 * names, levels, sizes, edges, edges_below, need)
        if dtype == "f32":
            check_finite(np.memmap(path, dtype="<f4", mode="r", offset=8, shape=(names, dim)), GRAPH)


def _check_nodes(path: Path, start: int, levels: Ints1d, sizes: Ints1d, edges: int, edges_below: int, need: Callable[[bool, str], None]) -> None:
    """Check the keys and edges of all nodes.

    Args:
        path: the file.
        start: position of the first node, in bytes.
        levels: (n,) highest level of each node.
        sizes: (n,) bytes of each node.
        edges: largest number of edges of a node on a level above the lowest.
        edges_below: largest number of edges of a node on the lowest level.
        need: function that refuses the file if a condition is false.
    """
    data = np.memmap(path, dtype=np.uint8, mode="r", offset=start, shape=(int(sizes.sum()),))
    places = np.cumsum(sizes) - sizes

    def read(nodes: Ints1d, at: int, dtype: str, count: int) -> npt.NDArray[Any]:
        """Return `count` numbers (r, count) from `at` bytes after the beginning of each of r nodes."""
        width = np.dtype(dtype).itemsize * count
        taken = data[(places[nodes] + at)[:, None] + np.arange(width)]
        return taken.view(dtype).astype(np.int64)

    for first in range(0, len(levels), CHECKED_NODES):
        block = np.arange(first, min(first + CHECKED_NODES, len(levels)))
        need(bool((read(block, 0, "<u8", 1)[:, 0] == block).all()), "a key is not the number of its row")
        need(bool((read(block, 8, "<i2", 1)[:, 0] == levels[block]).all()), "a node has another level than is listed")
        at, most = NODE, edges_below
        for level in range(int(levels[block].max()) + 1):
            nodes = block[levels[block] >= level]
            counts, neighbours = read(nodes, at, "<u4", 1)[:, 0], read(nodes, at + 4, "<u4", most)
            need(bool((counts <= most).all()), "a node has too many edges")
            led = neighbours[np.arange(most) < counts[:, None]]
            need(bool((led < len(levels)).all()) and bool((levels[led] >= level).all()), "an edge leads to a node that does not exist")
            at, most = at + 4 + 4 * most, edges


def _library() -> Any:
    import torch  # noqa: F401  # imported before USearch: Faiss crashes in a process that loads USearch's C++ library first (both from wheels)

    try:
        import usearch.index as library
    except ImportError as error:
        known = "spacy-sapbert.AnnoyIndex.v1, spacy-sapbert.ExactIndex.v1"
        raise fail("E205", name="spacy-sapbert.UsearchIndex.v1", package='"spacy-sapbert[usearch]"', error=error, known=known) from error
    return library
