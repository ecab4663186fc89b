"""Find the nearest rows of every stored vector once, when an index is built.

A mention that equals a name has the vector of this name, so what a search would find for it can be stored. Vectors are put into lists (see
`centres`), and two vectors are compared if the list of one is among the `PROBES` lists whose centres are nearest to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import as_float32
from ..types import Floats2d, Ints1d, Ints2d
from .centres import learn_centres
from .stored import exact_search

IN_LIST = 180  # vectors of a list, on average
PROBES = 6  # lists that a vector is compared with: 89% of the nearest names are found among 395,000, and 78% of the 24 nearest (measured)
EXACT_UP_TO = 10_000  # vectors; so few are compared with each other completely
_SAMPLE, _ROUNDS = 30, 2  # vectors per centre, and rounds of k-means: half a point of the neighbours is lost by these small numbers (measured)
_BLOCK = 20_000  # vectors that are compared with each other at once
_CELLS = 10_000_000  # cosines that are in memory at once
_TIES = 4  # times as many pairs as neighbours: then the vectors of a list are equal, and only as many as neighbours are kept
_BLOCK_OF_CENTRES = 5_000  # vectors that are compared with all centres at once

Rows2d = npt.NDArray[np.int32]
Pairs = tuple[
    Ints1d, npt.NDArray[np.signedinteger[Any]], npt.NDArray[np.float32]
]  # number of the vector in its block, row that it was compared with, cosine


def find_neighbours(stored: npt.NDArray[Any], count: int, seed: int, tick: Callable[[int], object] = lambda n: None) -> Rows2d:
    """Return the rows of the nearest other vectors of each vector, the nearest first.

    Args:
        stored: (n, d), L2-normalised, in any precision.
        count: number of neighbours, below n.
        seed: seed of the centres.
        tick: called with the number of vectors whose neighbours were found.

    Returns:
        Rows (n, count), int32. Most are the nearest ones; up to `EXACT_UP_TO` vectors, all are. For vectors of zeros, which are near to nothing, they
        are any rows.
    """
    if len(stored) > EXACT_UP_TO:
        useful = np.concatenate([rows[stored[rows[0] : rows[-1] + 1].any(axis=1)] for rows in _blocks(len(stored))])
        if len(useful) < len(stored):
            return _around_zeros(stored, useful, count, seed, tick)
    found = np.empty((len(stored), count), dtype=np.int32)
    if len(stored) <= EXACT_UP_TO:
        for rows in _blocks(len(stored)):
            found[rows] = _exact(stored, rows, count)
            tick(len(rows))
        return found
    cosines = np.empty(found.shape, dtype=np.float32)
    lists, short = _Lists(stored, seed), []
    for places in _blocks(len(stored)):
        rows = lists.rows[places]
        found[rows], cosines[rows], few = _best(lists.compare(places[0], places[-1] + 1, count), len(rows), count)
        short.append(rows[few])
        tick(len(rows))
    _take_from_others(found, cosines)
    rows = np.concatenate(short)  # whose lists have too few vectors
    if len(rows):
        found[rows] = _exact(stored, rows, count)
    return found


def _around_zeros(stored: npt.NDArray[Any], useful: Ints1d, count: int, seed: int, tick: Callable[[int], object]) -> Rows2d:
    """Return the neighbours of vectors of which only the rows `useful` are not all zeros: an encoder knows no word of the other names."""
    found = ((np.arange(len(stored))[:, None] + np.arange(1, count + 1)) % len(stored)).astype(np.int32)
    if len(useful) > count:
        found[useful] = useful[find_neighbours(stored[useful], count, seed, tick)]
    tick(len(stored) - (len(useful) if len(useful) > count else 0))
    return found


def pack(rows: Rows2d) -> npt.NDArray[np.uint8]:
    """Return rows (n, count) in as few bytes as the largest one needs: (n, count, bytes), the lowest byte first."""
    width = max(1, (int(rows.max(initial=0)).bit_length() + 7) // 8)
    return np.ascontiguousarray(rows.astype("<i4").view(np.uint8).reshape(*rows.shape, 4)[..., :width])


def unpack(packed: npt.NDArray[np.uint8]) -> Ints2d:
    """Return what `pack` was given, as int64."""
    whole = np.zeros((*packed.shape[:2], 4), dtype=np.uint8)
    whole[..., : packed.shape[2]] = packed
    return whole.view("<u4")[..., 0].astype(np.int64)


class _Lists:
    """Vectors in lists.

    Args:
        stored: (n, d), in any precision.
        seed: seed of the centres.

    Attributes:
        rows: (n,) rows in the order of lists.
    """

    def __init__(self, stored: npt.NDArray[Any], seed: int) -> None:
        self._stored = stored
        self._count = int(2 ** round(np.log2(len(stored) / IN_LIST)))
        centres = learn_centres(stored, self._count, seed, per_list=_SAMPLE, rounds=_ROUNDS)
        near = np.empty((len(stored), min(PROBES, self._count)), dtype=np.int32)
        for start in range(0, len(stored), _BLOCK_OF_CENTRES):
            block = as_float32(stored[start : start + _BLOCK_OF_CENTRES])
            near[start : start + len(block)] = _largest(block @ centres.T, near.shape[1])
        self.rows = np.argsort(near[:, 0], kind="stable")
        self._near = near[self.rows]  # the lists of each vector, its own first
        self._bounds = np.searchsorted(self._near[:, 0], np.arange(self._count + 1)).tolist()

    def compare(self, start: int, end: int, count: int) -> Iterator[Pairs]:
        """Compare a block of vectors with those of their lists.

        Args:
            start: place of the first vector of the block in `rows`.
            end: place after the last one.
            count: number of neighbours.

        Yields:
            Pairs that may be among the `count` nearest of a vector of the block, without pairs of a vector with itself.
        """
        block = as_float32(self._stored[self.rows[start:end]])
        near = self._near[start:end]
        least = np.full(len(block), -np.inf, dtype=np.float32)  # cosine that a neighbour must have
        for column in (slice(0, 1), slice(1, None)):  # first with its own list, so that `least` leaves out most pairs with the others
            lists = near[:, column]
            which, of = np.divmod(np.argsort(lists, axis=None, kind="stable"), lists.shape[1])
            edges = np.searchsorted(lists[which, of], np.arange(len(self._bounds))).tolist()
            for number, (a, b) in enumerate(zip(edges, edges[1:])):
                if a == b:
                    continue
                first, last = self._bounds[number], self._bounds[number + 1]
                members = self.rows[first:last]
                vectors = as_float32(self._stored[members]).T
                at_once = max(1, _CELLS // len(members)) if len(members) else b - a  # a list may hold many equal vectors
                for here in (which[at : min(at + at_once, b)] for at in range(a, b, at_once)):
                    cosines = block[here] @ vectors
                    if column.start == 0:
                        inside = np.flatnonzero((here + start >= first) & (here + start < last))
                        cosines[inside, here[inside] + start - first] = -np.inf
                        if cosines.shape[1] > count:
                            least[here] = np.partition(cosines, cosines.shape[1] - count, axis=1)[:, -count]
                        near_enough = (cosines >= least[here, None]) & (cosines > -np.inf)
                    else:
                        near_enough = cosines > least[here, None]
                    line, place = np.nonzero(near_enough)
                    if len(line) > _TIES * count * len(here):
                        line, place = np.nonzero(near_enough & _is_largest(cosines, count))
                    yield here[line], members[place], cosines[line, place]


def _is_largest(values: Floats2d, count: int) -> npt.NDArray[np.bool_]:
    """Return which are the `count` largest values of each line; of equal ones, any."""
    found = np.zeros(values.shape, dtype=np.bool_)
    np.put_along_axis(found, np.argpartition(values, max(values.shape[1] - count, 0), axis=1)[:, -count:], True, axis=1)
    return found


def _largest(values: Floats2d, count: int) -> Ints2d:
    """Return the columns of the `count` largest values of each line, the largest first. `values` is overwritten."""
    found = np.empty((len(values), count), dtype=np.int64)
    lines = np.arange(len(values))
    for place in range(count):
        found[:, place] = values.argmax(axis=1)
        values[lines, found[:, place]] = -np.inf
    return found


def _blocks(n: int) -> Iterator[Ints1d]:
    for start in range(0, n, _BLOCK):
        yield np.arange(start, min(start + _BLOCK, n))


def _best(pairs: Iterable[Pairs], n: int, count: int) -> tuple[Ints2d, Floats2d, Ints1d]:
    """Return the nearest rows of each of n vectors.

    Returns:
        Rows (n, count), the nearest first; their cosines (n, count); and the numbers of the vectors that have fewer pairs than `count`, whose rows
        are not right.
    """
    number, row, cosine = (np.concatenate(part) for part in zip(*pairs))
    order = np.argsort(number * 4.0 - cosine)  # by number, then the largest cosine first; it takes a third of the time of lexsort
    has = np.bincount(number, minlength=n)
    places = (np.cumsum(has) - has)[:, None] + np.arange(count)
    chosen = order[np.minimum(places, len(order) - 1)]
    return row[chosen], cosine[chosen], np.flatnonzero(has < count)


def _take_from_others(found: Rows2d, cosines: Floats2d) -> None:
    """Improve neighbours (n, count) and their cosines, in place: a row that has another one as a neighbour may be a nearer neighbour of it, too."""
    count = found.shape[1]
    of = found.ravel()
    nearer = np.flatnonzero(cosines.ravel() > cosines[of, -1])
    row, of, cosine = (nearer // count).astype(np.int32), of[nearer], cosines.ravel()[nearer]
    new = np.concatenate([~(found[of[part]] == row[part, None]).any(axis=1) for part in _blocks(len(of))] or [np.zeros(0, dtype=np.bool_)])
    order = np.flatnonzero(new)[np.argsort(of[new], kind="stable")]
    row, of, cosine = row[order], of[order], cosine[order]
    for rows in _blocks(len(found)):
        first, last = np.searchsorted(of, [rows[0], rows[-1] + 1])
        known = (np.repeat(np.arange(len(rows)), count), found[rows].ravel(), cosines[rows].ravel())
        found[rows], cosines[rows], _ = _best([known, (of[first:last] - rows[0], row[first:last], cosine[first:last])], len(rows), count)


def _exact(stored: npt.NDArray[Any], rows: Ints1d, count: int) -> Ints2d:
    """Return the rows of the `count` nearest other vectors of some rows, by exact search."""
    found, _ = exact_search(stored, as_float32(stored[rows]), count + 1)
    own = found == rows[:, None]
    own[~own.any(axis=1), -1] = True  # more than `count` vectors are equal to this one
    others: Ints2d = found[~own].reshape(len(rows), count)
    return others
