"""Annoy (Spotify): a forest of random hyperplanes in one memory-mapped file. The default engine.

Measured: at Annoy's own defaults a quarter of the neighbours of ontology names are lost, so `search_k` is a setting and building measures it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DamagedFile, fail
from ..files import is_looked_through
from ..types import Floats2d, Ints2d
from .params import build_param, param, reader_param, search_param
from .rescored import RescoredIndex, steps

FOREST = "forest.ann"
CHECKED_NODES = 50_000  # at once
LARGEST = 1e15  # of a coordinate: Annoy sorts by products of them, and sorting by NaN is undefined
PCA_TO_TRY, SEARCH_K_TO_TRY = (64, 128), [1000, 2000, 5000, 10_000, 20_000, 40_000, 80_000]


@dataclass(eq=False)
class AnnoyIndex(RescoredIndex):
    """`spacy-sapbert.AnnoyIndex.v1`.

    Args:
        n_trees: Trees. More are larger, and find more only where search_k stays far below the number of names. Measured on 41,487 HPO
            names: 8 trees with a large search_k reach exact search's accuracy sooner than 50, whose lists repeat each other.
        search_k: Nodes looked at per query; 0 leaves it to Annoy (n_trees × k), which loses neighbours.
        pca: Dimensions the trees see; 0 for all. With fewer, a node is cheaper.
        rescore: Candidates per query that are compared in full precision.
        tune: When a linker is built, measure a grid of settings and keep the cheapest that is within 0.3 points of exact search. False keeps
            the settings given here, and measures those. A folder that is opened brings the settings it was measured with; with False, the
            search_k and rescore given here are used on it.
        threads: Threads of a search; 0 for one per core. Building takes one. The forest does not depend on it.
        seed: Of the hyperplanes and of the PCA's sample.

    Raises:
        SapbertError: E002 (a setting), E205 (Annoy is not installed).
    """

    n_trees: int = build_param(10, least=1)
    search_k: int = search_param(10_000, least=0)
    pca: int = build_param(64, least=0)
    rescore: int = search_param(200, least=1)
    tune: bool = param(True)
    threads: int = reader_param(0, least=0)
    seed: int = build_param(13)

    kind = "annoy index"

    def settings_to_try(self, size: int) -> list[dict[str, int]]:
        """Return what building measures for `size` names: rising values of search_k, each for the values of `pca`; [] where `tune` is off.

        Searches with an equal search_k take about as long with 64 as with 128 dimensions, so the more accurate 128 come first.
        """
        if not self.tune:
            return []
        projections = sorted({min(pca, self.dim) if self.dim else pca for pca in PCA_TO_TRY}, reverse=True)
        every = steps(SEARCH_K_TO_TRY, size)
        return [{"pca": pca, "n_trees": self.n_trees, "rescore": self.rescore, "search_k": k} for k in every for pca in projections]

    def engine_bytes(self, dim: int) -> float:
        """Return the bytes per name of leaves and splits; a leaf holds up to seen + 2 rows."""
        seen = self._seen(dim)
        return (4 * seen + 12) * (1 + 3.4 * self.n_trees / (seen + 2))

    def require(self) -> None:
        """Load the library; see `NeedsLibrary`."""
        _new_forest(1)

    def _build_engine(self, blocks: Iterator[tuple[int, Floats2d]], total: int) -> Any:
        forest = _new_forest(self.tree_dim)
        forest.set_seed(self.seed)
        for start, block in blocks:
            for row, vector in enumerate(block.tolist(), start):
                forest.add_item(row, vector)
        # one thread: with several, the order of nodes, and so the file, depends on which thread comes first
        forest.build(self.n_trees, n_jobs=1)
        return forest

    def _nearest(self, queries: Floats2d, fetch: int, budget: float) -> Ints2d:
        search_k = max(int(self.search_k * budget), fetch) if self.search_k else -1
        rows = np.full((len(queries), fetch), -1, dtype=np.int64)
        for i, query in enumerate(queries.tolist()):
            found = self._engine.get_nns_by_vector(query, fetch, search_k)
            rows[i, : len(found)] = found
        return rows

    def _save_engine(self, path: Path) -> None:
        if not self._engine.save(str(path / FOREST)):  # saving also maps the file in place of the memory
            raise OSError(f"Annoy could not write '{path / FOREST}'.")

    def _open_engine(self, path: Path) -> Any:
        check_forest(path / FOREST, len(self), self.tree_dim, whole=is_looked_through(path / FOREST))
        forest = _new_forest(self.tree_dim)
        try:
            forest.load(str(path / FOREST))
        except OSError as error:  # bare, and only after _read_folder has seen that the file is there and whole
            raise fail("E202", DamagedFile, path=path, why=f"Annoy can't map '{FOREST}'") from error
        if forest.get_n_items() != len(self):
            raise fail("E202", DamagedFile, path=path, why=f"{forest.get_n_items():,} items in the forest, {len(self):,} vectors beside it")
        return forest


def check_forest(path: Path, items: int, dim: int, *, whole: bool) -> None:
    """Check a file of Annoy before it is mapped: Annoy follows the numbers in it wherever they lead.

    The file is a row of nodes of one size: the number of descendants (int32), two children (int32), a vector (float32 each). First come the items,
    then the nodes of the trees, each after its children, and at the end copies of the roots. A node with few descendants lists them in the place of
    children and vector.

    Args:
        path: the file.
        items: number of items that it must have.
        dim: number of dimensions of their vectors.
        whole: look at all nodes; else at the size of the file alone.

    Raises:
        ValueError: it is damaged.

    Source:
        annoylib.h of Annoy 1.17, `Angular::Node` and `AnnoyIndex::load`.
    """
    width = dim + 3  # int32 of a node
    size = path.stat().st_size
    nodes, rest = divmod(size, 4 * width)
    if rest or nodes <= items:
        raise ValueError(f"'{FOREST}' has {size:,} bytes, which are no {items:,} items of {dim} dimensions and trees over them")
    if not whole:
        return
    table = np.memmap(path, dtype=np.int32, mode="r", shape=(nodes, width))
    for start in range(0, items, CHECKED_NODES):
        block = np.asarray(table[start : min(start + CHECKED_NODES, items)])
        if bool((block[:, 0] != 1).any()):
            raise ValueError(f"'{FOREST}': an item has descendants")
        if not _usual(block[:, 3:]):
            raise ValueError(f"'{FOREST}': an item is not finite")
    if int(table[-1, 0]) != items:
        raise ValueError(f"'{FOREST}' ends with a node of {int(table[-1, 0]):,} descendants, not with a root of {items:,}")
    most = width - 1  # descendants that a node lists
    for start in range(items, nodes, CHECKED_NODES):
        block = np.asarray(table[start : start + CHECKED_NODES])
        numbers, count = np.arange(start, start + len(block)), block[:, 0]
        if count.min() < 1 or count.max() > items:
            raise ValueError(f"'{FOREST}': a node has {int(count.max() if count.max() > items else count.min()):,} descendants")
        listed = block[:, 1:]
        leaves = count <= most
        inside = np.arange(most) < count[:, None]
        if bool(((listed < 0) | (listed >= items))[leaves[:, None] & inside].any()):
            raise ValueError(f"'{FOREST}': a leaf leads to an item that is not there")
        children = block[~leaves, 1:3]
        if bool(((children < 0) | (children >= numbers[~leaves, None])).any()):
            raise ValueError(f"'{FOREST}': a node leads to a child that does not come before it")
        if not _usual(block[~leaves, 3:]):
            raise ValueError(f"'{FOREST}': a split is not finite")


def _usual(bits: npt.NDArray[np.int32]) -> bool:
    """Return whether int32 that stand for float32 are finite, and so small that their products are."""
    return bool((np.abs(np.ascontiguousarray(bits).view(np.float32)) < LARGEST).all())


def _new_forest(dim: int) -> Any:
    try:
        from annoy import AnnoyIndex as Forest
    except ImportError as error:
        known = "spacy-sapbert.ExactIndex.v1"
        raise fail("E205", name="spacy-sapbert.AnnoyIndex.v1", package="annoy", error=error, known=known) from error
    return Forest(dim, "angular")
