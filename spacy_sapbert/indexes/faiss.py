"""Faiss (Meta): any index that a factory string describes."""

import os
import re
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import check_between
from ..errors import DamagedFile, fail
from ..files import is_looked_through
from ..types import Floats2d, Ints2d
from .params import build_param, param, reader_param, search_param
from .rescored import BLOCK, RescoredIndex

FILE = "index.faiss"
_HEAD = struct.Struct("<4siqqqBi")  # of a file of Faiss: kind, dimensions, vectors, two numbers that are not used, whether it was trained, metric
TRAINED_ON = 200_000  # smallest number of vectors that clusters and codes are learnt from
PER_LIST = 39  # smallest number of these vectors for each list; with fewer, Faiss warns
SEARCH_TO_TRY = {"efSearch": [16, 32, 64, 128, 256, 512, 1024], "nprobe": [4, 8, 16, 32, 64, 128, 256, 512, 1024]}


@dataclass(eq=False)
class FaissIndex(RescoredIndex):
    """`spacy-sapbert.FaissIndex.v1`; `pip install spacy-sapbert[faiss]`.

    Args:
        factory: The index to build, as a factory string of Faiss (github.com/facebookresearch/faiss/wiki/The-index-factory): "HNSW32",
            "IVF1024,SQ8", "OPQ64,IVF4096,PQ64", "Flat" … Candidates are always compared in full precision.
        search: Number of nodes (efSearch of HNSW) or lists (nprobe of IVF) that a query looks at; other kinds have no such setting.
        build_threads: Number of threads of a build; 0 for one per core. With several, an HNSW graph differs from build to build.
        pca: Number of dimensions that the index uses; 0 for all.
        rescore: Number of candidates per query that are compared in full precision.
        tune: As for `AnnoyIndex`, with values of `search`.
        threads: Number of threads of a search; 0 for one per core.
        seed: Seed of the PCA's sample, and of the vectors that clusters are learnt from.

    Raises:
        SapbertError: E002, a setting is wrong; E205, Faiss is not installed.
    """

    factory: str = build_param("HNSW32")
    search: int = search_param(64, least=1)
    build_threads: int = param(1, least=0)
    pca: int = build_param(0, least=0)
    rescore: int = search_param(50, least=1)
    tune: bool = param(True)
    threads: int = reader_param(0, least=0)
    seed: int = build_param(13)

    kind = "faiss index"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._lock = threading.Lock()
        self._searched_with = 0  # number of nodes or lists that Faiss is set to look at

    @property
    def search_setting(self) -> str:
        """Faiss's name for `search` with this factory; "" if there is no such setting."""
        return "nprobe" if "IVF" in self.factory else "efSearch" if "HNSW" in self.factory else ""

    def settings_to_try(self, size: int) -> list[dict[str, Any]]:
        """Return rising values of `search`; [] for an index without such a setting. See `Tunable`."""
        return self._rising("search", SEARCH_TO_TRY[self.search_setting], size) if self.search_setting else []

    def engine_bytes(self, dim: int) -> float:
        """Return the bytes per name: a code and edges, which depend on the factory, and the number of a row."""
        seen = self._seen(dim)
        code, links = 4 * seen, 0
        for part in self.factory.split(","):
            if found := re.fullmatch(r"SQ(\d+)(?:_\w+)?|SQfp16|SQbf16", part):
                code = int(seen * int(found[1] or 16) / 8)
            elif found := re.fullmatch(r"PQ(\d+)(?:x(\d+))?(?:\w*)", part):
                code = int(int(found[1]) * int(found[2] or 8) / 8)
            elif found := re.fullmatch(r"HNSW(\d+)?.*", part):
                links = 8 * int(found[1] or 32) + 16
        return code + links + 8

    def learning_bytes(self, names: int, dim: int) -> float:
        """Return the bytes of the sample that clusters are learnt from, and of Faiss's copy of it."""
        return 2 * 4 * self._learnt_from(names) * self._seen(dim)

    def _learnt_from(self, names: int) -> int:
        """Return the number of vectors that clusters are learnt from."""
        found = re.search(r"IVF(\d+)(k|M)?", self.factory)
        lists = int(found[1]) * {"k": 2**10, "M": 2**20}.get(found[2] or "", 1) if found else 0
        return min(names, max(TRAINED_ON, PER_LIST * lists))

    def require(self) -> None:
        """Load the library; see `NeedsLibrary`."""
        _library()

    def _build_engine(self, blocks: Iterator[tuple[int, Floats2d]], total: int) -> Any:
        library = _library()
        try:
            index = library.index_factory(self.tree_dim, self.factory, library.METRIC_INNER_PRODUCT)
        except RuntimeError as error:
            why = f"Faiss says: {_reason(error)}"
            raise fail("E002", setting="factory", component="FaissIndex", value=self.factory, why=why) from error
        before = library.omp_get_max_threads()
        library.omp_set_num_threads(self.build_threads or before)
        try:
            if not index.is_trained:
                chosen = np.sort(np.random.default_rng(self.seed).permutation(total)[: self._learnt_from(total)])
                sample = np.empty((len(chosen), self.tree_dim), dtype=np.float32)
                for start in range(0, len(chosen), BLOCK):
                    sample[start : start + BLOCK] = self._project(self.vectors(chosen[start : start + BLOCK]))
                index.train(sample)
                del sample
            for _, block in blocks:
                index.add(np.ascontiguousarray(block))
        except RuntimeError as error:  # clusters without vectors, codes of another width
            raise fail("E002", setting="factory", component="FaissIndex", value=self.factory, why=f"Faiss says: {_reason(error)}") from error
        finally:
            library.omp_set_num_threads(before)
        self._searched_with = 0
        return index

    def _nearest(self, queries: Floats2d, fetch: int, budget: float) -> Ints2d:
        looked_at = max(1, min(int(self.search * budget), len(self)))  # Faiss takes a number above 2**63 for a negative one
        if self.search_setting == "efSearch":
            looked_at = max(looked_at, fetch)
        library = _library()
        with self._lock:  # the setting belongs to the index, which all threads share
            if self.search_setting and looked_at != self._searched_with:
                try:
                    library.ParameterSpace().set_index_parameter(self._engine, self.search_setting, looked_at)
                except RuntimeError as error:
                    why = f"its {self.search_setting} can't be set. Faiss says: {_reason(error)}"
                    raise fail("E002", setting="factory", component="FaissIndex", value=self.factory, why=why) from error
                self._searched_with = looked_at
        before = library.omp_get_max_threads()
        library.omp_set_num_threads(1)  # for the thread that calls; `threads` is the number of these threads
        try:
            _, rows = self._engine.search(queries, fetch)
        finally:
            library.omp_set_num_threads(before)  # PyTorch uses the same setting, and the encoder must keep its cores
        return np.asarray(rows, dtype=np.int64)

    def _save_engine(self, path: Path) -> None:
        fresh = path / f"{FILE}.new"
        _library().write_index(self._engine, str(fresh))
        os.replace(fresh, path / FILE)

    def _open_engine(self, path: Path) -> Any:
        library = _library()
        self._searched_with = 0
        _check_head(path / FILE, len(self), self.tree_dim)
        try:
            if is_looked_through(path / FILE):
                library.read_index(str(path / FILE), 0)  # Faiss reads a mapped file beyond its end, if it was cut short; this refuses it
            index = library.read_index(str(path / FILE), getattr(library, "IO_FLAG_MMAP_IFC", 0))
        except (RuntimeError, MemoryError) as error:  # _read_folder has already checked that the file is complete
            raise fail("E202", DamagedFile, path=path, why=f"Faiss can't read '{FILE}': {_reason(error)}") from error
        if index.ntotal != len(self) or index.d != self.tree_dim:
            raise fail(
                "E202",
                DamagedFile,
                path=path,
                why=f"'{FILE}' has {index.ntotal:,} vectors of {index.d} dimensions, but the index has {len(self):,} of {self.tree_dim}",
            )
        if is_looked_through(path / FILE):
            check_index(index, len(self))
        return index


def _check_head(path: Path, names: int, dim: int) -> None:
    """Check the head of a file of Faiss before Faiss reads it, because a damaged head can crash Faiss. All kinds of indexes begin with the same head.

    Args:
        path: the file.
        names: number of vectors that the index must have.
        dim: number of dimensions that the vectors must have.

    Raises:
        ValueError: the head is damaged, or is that of another index.
    """
    with open(path, "rb") as file:
        head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        raise ValueError(f"'{FILE}' ends in its head")
    _, found_dim, found_names, _, _, trained, metric = _HEAD.unpack(head)
    if (found_dim, found_names) != (dim, names):
        raise ValueError(f"'{FILE}' has {found_names:,} vectors of {found_dim:,} dimensions, but the index has {names:,} of {dim:,}")
    if trained != 1 or metric not in (0, 1):
        raise ValueError(f"the head of '{FILE}' is damaged")


def check_index(index: Any, names: int) -> None:
    """Check the graph, lists and codes of an index that Faiss has read, because a search follows the numbers in them without checking them.

    Args:
        index: the index, as a Faiss object.
        names: number of vectors that it must have.

    Raises:
        ValueError: the index is damaged.
    """
    library = _library()
    index = library.downcast_index(index)
    if index.ntotal != names or index.d < 1:
        raise ValueError(f"a part of '{FILE}' has {index.ntotal:,} vectors, not {names:,}")
    for part in ("storage", "index", "base_index"):  # the vectors of a graph, the index after a transform, the index before a refinement
        if getattr(index, part, None) is not None:
            check_index(getattr(index, part), names)
    if hasattr(index, "hnsw"):
        _check_graph(index.hnsw, names)
    if not 1 <= getattr(index, "nprobe", 1) < 1 << 31:
        raise ValueError(f"'{FILE}' looks at {index.nprobe:,} lists")
    if hasattr(index, "invlists"):
        check_index(index.quantizer, index.nlist)
        lists = library.downcast_InvertedLists(index.invlists)
        sizes = [lists.list_size(number) for number in range(index.nlist)] if lists is not None and lists.nlist == index.nlist else []
        if sum(sizes) != names or lists.code_size != index.code_size:
            raise ValueError(f"the lists of '{FILE}' have {sum(sizes):,} vectors, not {names:,}")
        for number, size in enumerate(sizes):
            if size:
                check_between(library.rev_swig_ptr(lists.get_ids(number), size), f"'{FILE}': list {number:,}", 0, names)
    if hasattr(index, "sq") and index.sq.trained.size() not in (0, 2, 2 * index.d):
        raise ValueError(f"'{FILE}' has {index.sq.trained.size():,} limits of codes for {index.d} dimensions")
    if hasattr(index, "codes") and index.codes.size() != names * index.code_size:
        raise ValueError(f"'{FILE}' has {index.codes.size():,} bytes of codes for {names:,} vectors of {index.code_size:,}")


def _check_graph(graph: Any, names: int) -> None:
    """Check that the edges of a graph lead to existing nodes.

    Raises:
        ValueError: an edge leads to no node, or the graph does not fit the number of names.
    """
    array = _library().vector_to_array
    neighbours, offsets, levels, until = (array(getattr(graph, part)) for part in ("neighbors", "offsets", "levels", "cum_nneighbor_per_level"))
    wrong = ValueError(f"the graph in '{FILE}' does not fit the {names:,} vectors beside it")
    if len(levels) != names or len(offsets) != names + 1 or not len(until) or not 0 <= graph.entry_point < names:
        raise wrong
    if levels.min() < 1 or levels.max() >= len(until) or graph.max_level != levels.max() - 1 or levels[graph.entry_point] != levels.max():
        raise wrong
    if until[0] or bool((np.diff(until) < 0).any()) or int(offsets[0]) or int(offsets[-1]) != len(neighbours):
        raise wrong
    if bool((np.diff(offsets.astype(np.int64)) != until[levels]).any()):  # each node has the edges of its levels
        raise wrong
    check_between(neighbours, f"'{FILE}': the graph", -1, names)
    owners = np.repeat(np.arange(names), np.diff(offsets.astype(np.int64)))
    level = np.searchsorted(until, np.arange(len(neighbours)) - offsets[owners].astype(np.int64), side="right") - 1
    led = neighbours >= 0
    if bool((levels[neighbours[led]] <= level[led]).any()):
        raise wrong


def _reason(error: Exception) -> str:
    """Return Faiss's message without the place in its source code."""
    return str(error).rpartition(": ")[2].strip()


def _library() -> Any:
    try:
        import faiss
    except ImportError as error:
        known = "spacy-sapbert.AnnoyIndex.v1, spacy-sapbert.ExactIndex.v1"
        raise fail("E205", name="spacy-sapbert.FaissIndex.v1", package='"spacy-sapbert[faiss]"', error=error, known=known) from error
    return faiss
