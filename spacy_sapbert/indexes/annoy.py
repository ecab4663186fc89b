"""Annoy (Spotify): a forest of random hyperplanes in one memory-mapped file. The default engine.

With Annoy's own defaults, a quarter of the neighbours of ontology names are not found (measured). So `search_k` is a setting, and a build tunes it.
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

MOST_NODES = 2**31 - 1  # that Annoy can be told to look at
FOREST = "forest.ann"
CHECKED_NODES = 50_000  # nodes that are checked at once
LARGEST = 1e15  # limit for a coordinate: Annoy sorts by products of coordinates, and sorting with NaN is undefined
PCA_TO_TRY, SEARCH_K_TO_TRY = (64, 128), [1000, 2000, 5000, 10_000, 20_000, 40_000, 80_000]


@dataclass(eq=False)
class AnnoyIndex(RescoredIndex):
    """`spacy-sapbert.AnnoyIndex.v1`.

    Args:
        n_trees: Number of trees. More trees need more space, and find more only if search_k is far below the number of names. Measured on 41,487
            HPO names: 8 trees with a large search_k reach the accuracy of exact search sooner than 50, whose lists repeat each other.
        search_k: Number of nodes that a query looks at; 0 is Annoy's own choice (n_trees × k), which misses neighbours.
        pca: Number of dimensions that the trees use; 0 for all. With fewer, a node is cheaper.
        rescore: Number of candidates per query that are compared in full precision.
        tune: When a linker is built, measure a grid of settings and keep the cheapest one that is within 0.3 points of exact search. False keeps
            the settings given here, and measures only these. An opened folder uses the settings that it was measured with; with False, it uses
            the search_k and rescore given here.
        threads: Number of threads of a search; 0 for one per core. A build uses one thread, so the forest does not depend on this.
        seed: Seed of the hyperplanes and of the PCA's sample.

    Raises:
        SapbertError: E002, a setting is wrong; E205, Annoy is not installed.
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
        """Return the settings that a build measures for `size` names: rising values of search_k, each with the values of `pca`; [] if `tune` is off.

        With equal search_k, a search takes about as long with 64 dimensions as with 128. So 128, which is more accurate, comes first.
        """
        if not self.tune:
            return []
        projections = sorted({min(pca, self.dim) if self.dim else pca for pca in PCA_TO_TRY}, reverse=True)
        every = steps(SEARCH_K_TO_TRY, size)
        return [{"pca": pca, "n_trees": self.n_trees, "rescore": self.rescore, "search_k": k} for k in every for pca in projections]

    def engine_bytes(self, dim: int) -> float:
        """Return the bytes per name of leaves and splits. A leaf holds up to seen + 2 rows."""
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
        # one thread: with several, the order of nodes in the file depends on which thread is first
        forest.build(self.n_trees, n_jobs=1)
        return forest

    def _nearest(self, queries: Floats2d, fetch: int, budget: float) -> Ints2d:
        search_k = min(max(int(self.search_k * budget), fetch), MOST_NODES) if self.search_k else -1
        rows = np.full((len(queries), fetch), -1, dtype=np.int64)
        for i, query in enumerate(queries.tolist()):
            found = self._engine.get_nns_by_vector(query, fetch, search_k)
            rows[i, : len(found)] = found
        return rows

    def _save_engine(self, path: Path) -> None:
        if not self._engine.save(str(path / FOREST)):  # this also replaces the forest in memory by a map of the file
            raise OSError(f"Annoy could not write '{path / FOREST}'.")

    def _open_engine(self, path: Path) -> Any:
        check_forest(path / FOREST, len(self), self.tree_dim, whole=is_looked_through(path / FOREST))
        forest = _new_forest(self.tree_dim)
        try:
            forest.load(str(path / FOREST))
        except OSError as error:  # it has no message; _read_folder has already checked that the file is complete
            raise fail("E202", DamagedFile, path=path, why=f"Annoy can't map '{FOREST}'") from error
        if forest.get_n_items() != len(self):
            raise fail("E202", DamagedFile, path=path, why=f"{forest.get_n_items():,} items in the forest, {len(self):,} vectors beside it")
        return forest


def check_forest(path: Path, items: int, dim: int, *, whole: bool) -> None:
    """Check a file of Annoy before it is memory-mapped, because Annoy follows the numbers in it without checking them.

    The file is a sequence of nodes of one size: the number of descendants (int32), two children (int32) and a vector (float32). First come the
    items, then the nodes of the trees, each after its children, and at the end copies of the roots. A node with few descendants lists them instead
    of children and vector.

    Args:
        path: the file.
        items: number of items that it must have.
        dim: number of dimensions of their vectors.
        whole: check all nodes; False checks only the size of the file.

    Raises:
        ValueError: the file is damaged.

    Source:
        annoylib.h of Annoy 1.17, `Angular::Node` and `AnnoyIndex::load`.
    """
    width = dim + 3  # number of int32 in a node
    size = path.stat().st_size
    nodes, rest = divmod(size, 4 * width)
    if rest or nodes <= items:
        raise ValueError(f"'{FOREST}' has {size:,} bytes, which does not fit {items:,} items of {dim} dimensions and their trees")
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
    most = width - 1  # largest number of descendants that a node lists
    for start in range(items, nodes, CHECKED_NODES):
        block = np.asarray(table[start : start + CHECKED_NODES])
        numbers, count = np.arange(start, start + len(block)), block[:, 0]
        if count.min() < 1 or count.max() > items:
            raise ValueError(f"'{FOREST}': a node has {int(count.max() if count.max() > items else count.min()):,} descendants")
        listed = block[:, 1:]
        leaves = count <= most
        inside = np.arange(most) < count[:, None]
        if bool(((listed < 0) | (listed >= items))[leaves[:, None] & inside].any()):
            raise ValueError(f"'{FOREST}': a leaf leads to an item that does not exist")
        children = block[~leaves, 1:3]
        if bool(((children < 0) | (children >= numbers[~leaves, None])).any()):
            raise ValueError(f"'{FOREST}': a node leads to a child that does not come before it")
        if not _usual(block[~leaves, 3:]):
            raise ValueError(f"'{FOREST}': a split is not finite")


def _usual(bits: npt.NDArray[np.int32]) -> bool:
    """Return whether float32 values, given as int32, are finite and small enough that their products are finite too."""
    return bool((np.abs(np.ascontiguousarray(bits).view(np.float32)) < LARGEST).all())


def _new_forest(dim: int) -> Any:
    try:
        from annoy import AnnoyIndex as Forest
    except ImportError as error:
        known = "spacy-sapbert.ExactIndex.v1"
        raise fail("E205", name="spacy-sapbert.AnnoyIndex.v1", package="annoy", error=error, known=known) from error
    return Forest(dim, "angular")
