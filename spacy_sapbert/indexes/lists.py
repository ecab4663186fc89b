"""Lists of near vectors (an inverted file: Jégou, Douze and Schmid, TPAMI 2011) in NumPy. It needs no library, and compares a list with many queries.

Names are put into lists around centres that k-means learns. A query is compared with the names of the `probe` lists whose centres are nearest, by
the first PCA axes. The best names are compared in full precision, as with every approximate engine.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..arrays import check_between, check_finite, open_array
from ..files import is_looked_through
from ..types import Floats2d, Ints1d, Ints2d
from .centres import learn_centres, nearest_centres
from .params import build_param, param, reader_param, search_param
from .rescored import RescoredIndex

PARTS = ("centres", "bounds", "rows", "seen")
PROBE_TO_TRY = [32, 64, 128, 256, 512, 1024]


class Lists(NamedTuple):
    """The engine's arrays.

    Attributes:
        centres: (c, d), L2-normalised.
        bounds: (c + 1,) list i has the positions from bounds[i] to bounds[i + 1] - 1.
        rows: (n,) row of the name at each position.
        seen: (n, d) the first PCA axes of the name at each position.
    """

    centres: Floats2d
    bounds: Ints1d
    rows: Ints1d
    seen: Floats2d


@dataclass(eq=False)
class ListsIndex(RescoredIndex):
    """`spacy-sapbert.ListsIndex.v1`.

    Args:
        lists: Number of lists; 0 for four times the square root of the number of names, rounded to a power of two.
        probe: Number of lists that a query looks at. More lists are slower and find more.
        pca: Number of dimensions that are compared in the lists; 0 for all.
        rescore: Number of candidates per query that are compared in full precision.
        tune: As for `AnnoyIndex`, with values of probe.
        threads: Number of threads of a search; 0 for one per core.
        seed: Seed of the first centres and of the PCA's sample.

    Raises:
        SapbertError: E002, a setting is wrong.
    """

    lists: int = build_param(0, least=0)
    probe: int = search_param(256, least=1)
    pca: int = build_param(96, least=0)
    rescore: int = search_param(200, least=1)
    tune: bool = param(True)
    threads: int = reader_param(0, least=0)
    seed: int = build_param(13)

    kind = "lists index"

    @property
    def queries_at_once(self) -> int:
        """Number of queries that one thread searches at once. A list is compared with all queries that look at it."""
        return 128

    def settings_to_try(self, size: int) -> list[dict[str, Any]]:
        """Return rising values of probe; see `Tunable`."""
        return self._rising("probe", PROBE_TO_TRY, self.lists_of(size))

    def lists_of(self, size: int) -> int:
        """Return the number of lists for `size` names."""
        return min(self.lists or int(2 ** round(math.log2(4 * math.sqrt(size)))), size)

    def engine_bytes(self, dim: int) -> float:
        """Return the bytes per name: its first PCA axes, and its row."""
        return 4.0 * self._seen(dim) + 8

    def require(self) -> None:
        """Do nothing, because this engine needs no library."""

    def _build_engine(self, blocks: Iterator[tuple[int, Floats2d]], total: int) -> Lists:
        seen = np.empty((total, self.tree_dim), dtype=np.float32)
        for start, block in blocks:
            seen[start : start + len(block)] = block
        centres = learn_centres(seen, self.lists_of(total), self.seed)
        nearest = nearest_centres(seen, centres)
        rows = np.argsort(nearest, kind="stable")
        bounds = np.searchsorted(nearest[rows], np.arange(len(centres) + 1))
        return Lists(centres, bounds, rows, np.ascontiguousarray(seen[rows]))

    def _nearest(self, queries: Floats2d, fetch: int, budget: float) -> Ints2d:
        lists: Lists = self._engine
        sizes = np.diff(lists.bounds)
        probes = min(max(1, int(self.probe * budget)), len(sizes))
        near = queries @ lists.centres.T  # (q, c)
        chosen = np.argpartition(-near, probes - 1, axis=1)[:, :probes] if probes < len(sizes) else np.tile(np.arange(len(sizes)), (len(queries), 1))
        if (sizes[chosen].sum(axis=1) < min(fetch, len(lists.rows))).any():  # lists with few names: take more lists
            chosen = np.argsort(-near, axis=1, kind="stable")
            enough = np.maximum.accumulate(np.cumsum(sizes[chosen], axis=1), axis=1) < min(fetch, len(lists.rows))
            chosen = chosen[:, : int(enough.sum(axis=1).max()) + 1]
        ends = np.cumsum(sizes[chosen], axis=1)  # (q, probes) position after each list among the query's candidates
        scores = np.full((len(queries), int(ends[:, -1].max())), -np.inf, dtype=np.float32)
        order = np.argsort(chosen, axis=None, kind="stable")  # all pairs of a query and a list, by list
        which, at = np.divmod(order, chosen.shape[1])
        of = chosen[which, at]
        firsts = np.flatnonzero(np.r_[True, of[1:] != of[:-1]])
        for a, b in zip(firsts.tolist(), [*firsts[1:].tolist(), len(of)]):
            start, end = int(lists.bounds[of[a]]), int(lists.bounds[of[a] + 1])
            if start == end:
                continue
            found = queries[which[a:b]] @ lists.seen[start:end].T
            for line, i, place in zip(found, which[a:b].tolist(), ends[which[a:b], at[a:b]].tolist()):
                scores[i, place - (end - start) : place] = line
        best = (
            np.argpartition(-scores, fetch - 1, axis=1)[:, :fetch]
            if fetch < scores.shape[1]
            else np.tile(np.arange(scores.shape[1]), (len(queries), 1))
        )
        rows = np.empty(best.shape, dtype=np.int64)
        for i, columns in enumerate(best):  # from columns back to positions in the lists; padding comes after the last list
            at_list = np.minimum(np.searchsorted(ends[i], columns, side="right"), chosen.shape[1] - 1)
            list_ = chosen[i, at_list]
            rows[i] = lists.rows[np.minimum(lists.bounds[list_ + 1] - (ends[i, at_list] - columns), len(lists.rows) - 1)]
        rows[np.isneginf(np.take_along_axis(scores, best, axis=1))] = -1
        return rows

    def _save_engine(self, path: Path) -> None:
        for part, array in zip(PARTS, self._engine):
            fresh = path / f"lists_{part}.npy.new"  # a new file, because the array may be a map of the old one
            with open(fresh, "wb") as file:
                np.save(file, array)
            os.replace(fresh, path / f"lists_{part}.npy")

    def _open_engine(self, path: Path) -> Lists:
        names = {part: f"lists_{part}.npy" for part in PARTS}
        seen = open_array(path / names["seen"], "f", (len(self), self.tree_dim))
        centres = open_array(path / names["centres"], "f", (None, self.tree_dim))
        bounds = open_array(path / names["bounds"], "iu", (len(centres) + 1,))
        rows = open_array(path / names["rows"], "iu", (len(self),))
        if not len(centres) or int(bounds[0]) or int(bounds[-1]) != len(self) or bool((bounds[1:] < bounds[:-1]).any()):
            raise ValueError(f"the lists do not fit the {len(self):,} vectors beside them")
        check_finite(centres, names["centres"])
        if is_looked_through(path / names["seen"]):
            check_between(rows, names["rows"], 0, len(self))
            check_finite(seen, names["seen"])
        return Lists(centres, bounds, rows, seen)
