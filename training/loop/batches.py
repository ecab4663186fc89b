"""Which pairs make a batch: no concept dominates it, and concepts that look alike can stand side by side as hard negatives."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
from sentence_transformers.base.sampler import DefaultBatchSampler
from torch.utils.data import SequentialSampler

from ..errors import fail
from ..registry import registry

Ints = npt.NDArray[np.int64]
Neighbours = npt.NDArray[np.int32]
_CHUNK = 65_536


class ConceptBatches(DefaultBatchSampler):
    """Batches of rows of pairs.parquet, whose pairs are sorted by label.

    A label's pairs are cut into runs of at most `pairs_per_concept` neighbouring pairs, so that they share names: 3 pairs have 4 names or fewer, all
    of them positives of each other. A label stands in a batch once. Every pair is used once an epoch, except the last few of labels that have many
    more than the others. The order depends on seed and epoch alone.

    Args:
        dataset: Has a column `label`; its rows are sorted by it.
        batch_size: Pairs.
        seed: Of the order.
        pairs_per_concept: Pairs of a run at most.
        near: Number of nearest concepts that follow each concept into the batch.
        neighbours: int32 (largest label + 1, m), the nearest labels of each label, -1 for none.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        drop_last: bool = False,
        valid_label_columns: list[str] | None = None,
        generator: Any = None,
        seed: int = 0,
        *,
        pairs_per_concept: int = 1,
        near: int = 0,
        neighbours: Neighbours | None = None,
    ) -> None:
        super().__init__(SequentialSampler(dataset), batch_size=batch_size, drop_last=drop_last)
        self.labels = _labels(dataset)
        self.seed = seed
        self.epoch = 0
        self.pairs_per_concept = pairs_per_concept
        self.near = near if neighbours is not None else 0
        self.neighbours = neighbours

    def __len__(self) -> int:
        return max(1, -(-len(self.labels) // self.batch_size))

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which decides the order."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        # what is over comes in another epoch, whose order is another
        yield from islice(self._batches(), len(self))

    def _batches(self) -> Iterator[list[int]]:
        chance = np.random.default_rng([self.seed, self.epoch])
        starts, ends = self._runs(chance)
        coming = ((int(starts[run]), int(ends[run])) for run in self._order(starts, chance))
        batch: list[int] = []
        inside: set[int] = set()
        waiting: deque[tuple[int, int]] = deque()  # runs whose label is in the batch
        while True:
            run = None
            for _ in range(len(waiting)):  # first those that wait longest
                candidate = waiting.popleft()
                if int(self.labels[candidate[0]]) not in inside:
                    run = candidate
                    break
                waiting.append(candidate)
            while run is None:
                following = next(coming, None)
                if following is None:
                    break
                if int(self.labels[following[0]]) in inside:
                    waiting.append(following)
                else:
                    run = following
            if run is not None:
                start, end = run
                cut = min(end, start + self.batch_size - len(batch))  # batches are full
                batch.extend(range(start, cut))
                inside.add(int(self.labels[start]))
                if cut < end:
                    waiting.append((cut, end))
                if len(batch) < self.batch_size:
                    continue
            if len(inside) >= 2:
                yield batch
            if run is None and len(inside) < 2:  # one label is left: nothing to tell it from
                return
            batch, inside = [], set()

    def _runs(self, chance: np.random.Generator) -> tuple[Ints, Ints]:
        """Return starts and ends of runs. Where a label's first run ends is drawn, so that runs differ between epochs."""
        size = self.pairs_per_concept
        edges = np.flatnonzero(np.r_[True, self.labels[1:] != self.labels[:-1], True])
        lengths = np.diff(edges)
        first = np.minimum(chance.integers(0, size, len(lengths)), lengths // 2)  # pairs in the first run; 0: as many as in the others
        place = np.arange(len(self.labels)) - np.repeat(edges[:-1], lengths)  # of a pair among its label's
        run = np.where(place < np.repeat(first, lengths), -1, (place - np.repeat(first, lengths)) // size)
        starts = np.flatnonzero((place == 0) | np.r_[True, run[1:] != run[:-1]])
        return starts, np.r_[starts[1:], len(self.labels)].astype(np.int64)

    def _order(self, starts: Ints, chance: np.random.Generator) -> Iterator[int]:
        """Yield runs in random order; with `near`, each is followed by runs of its nearest labels that were not used yet."""
        order = chance.permutation(len(starts))
        if not self.near or self.neighbours is None:
            yield from _numbers(order)
            return
        labels = self.labels[starts]  # (runs,), sorted
        grouped = np.lexsort((chance.permutation(len(starts)), labels))  # runs of a label together, in random order
        heads = np.searchsorted(labels, np.arange(max(int(labels[-1]), len(self.neighbours) - 1) + 2))
        at, used = heads[:-1].copy(), np.zeros(len(starts), dtype=np.bool_)
        for run in _numbers(order):
            if used[run]:
                continue
            used[run] = True
            yield run
            for label in self._near(int(labels[run]), chance):
                while at[label] < heads[label + 1] and used[grouped[at[label]]]:
                    at[label] += 1
                if at[label] < heads[label + 1]:
                    used[grouped[at[label]]] = True
                    yield int(grouped[at[label]])

    def _near(self, label: int, chance: np.random.Generator) -> list[int]:
        assert self.neighbours is not None
        known = self.neighbours[label]
        known = known[known >= 0]
        return [int(other) for other in chance.permutation(known)[: self.near]]


class ShuffledBatches(DefaultBatchSampler):
    """All rows in an order that depends on seed and epoch alone, in full batches.

    The last batch is filled from the beginning of the order.

    Args:
        dataset: Its number of rows counts.
        batch_size: Rows.
        seed: Of the order.
        labels: (rows,); with them, the rows of a label stand together in a batch, so that processes which share it need not divide a label.
    """

    def __init__(self, dataset: Any, batch_size: int, drop_last: bool = False, seed: int = 0, *, labels: Ints | None = None) -> None:
        super().__init__(SequentialSampler(dataset), batch_size=batch_size, drop_last=drop_last)
        self.labels = labels
        self.rows, self.seed, self.epoch = len(dataset), seed, 0
        self.count = -(-self.rows // batch_size)

    @classmethod
    def make(cls, dataset: Any, batch_size: int, drop_last: bool = False, seed: int = 0, **_: Any) -> ShuffledBatches:
        """Make the sampler with the arguments that the trainer gives."""
        return cls(dataset, batch_size, drop_last, seed)

    def __len__(self) -> int:
        return self.count

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which decides the order."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        order = np.random.default_rng([self.seed, self.epoch, 5]).permutation(self.rows)
        for start in range(0, self.count * self.batch_size, self.batch_size):
            batch = order[np.arange(start, start + self.batch_size) % self.rows]
            yield (batch if self.labels is None else batch[np.argsort(self.labels[batch], kind="stable")]).tolist()


def _labels(dataset: Any) -> Ints:
    labels = dataset.with_format("numpy")["label"] if hasattr(dataset, "with_format") else dataset["label"]
    return np.asarray(labels[:], dtype=np.int64)


def _numbers(array: Ints) -> Iterator[int]:
    """Yield an array's numbers in chunks: as one list, 12 million of them would take half a gigabyte."""
    for start in range(0, len(array), _CHUNK):
        yield from array[start : start + _CHUNK].tolist()


Make = Callable[..., ConceptBatches]


@registry.batches("spacy-sapbert.ConceptBatches.v1")
def concept_batches(pairs: int = 128, pairs_per_concept: int = 1, near: int = 0) -> Batches:
    """Make the settings of `ConceptBatches`.

    Args:
        pairs: Pairs in a batch, of all processes together.
        pairs_per_concept: Pairs of one concept in one batch.
        near: Concepts put beside each concept because their names look like its own (`training.data.neighbours`), as hard negatives; 0: none.

    Raises:
        SapbertError: E511.
    """
    for setting, value, least in (("pairs", pairs, 2), ("pairs_per_concept", pairs_per_concept, 1), ("near", near, 0)):
        if value < least:
            raise fail("E511", setting=f"batches.{setting}", value=value, why=f"it must be at least {least}")
    if pairs < 2 * pairs_per_concept:
        raise fail("E511", setting="batches.pairs_per_concept", value=pairs_per_concept, why=f"a batch of {pairs} pairs must hold two concepts")
    return Batches(pairs, pairs_per_concept, near)


@registry.batches("spacy-sapbert.ShuffledPairs.v1")
def shuffled_pairs(pairs: int = 256) -> PlainBatches:
    """Make the settings of batches of pairs in random order, as SapBERT's released code draws them. A concept may come several times in a batch.

    Args:
        pairs: Pairs in a batch, of all processes together.

    Raises:
        SapbertError: E511.
    """
    if pairs < 2:
        raise fail("E511", setting="batches.pairs", value=pairs, why="it must be at least 2")
    return PlainBatches(pairs)


class PlainBatches:
    """The settings of batches of pairs in random order."""

    near = 0  # no nearest concepts are asked for

    def __init__(self, pairs: int) -> None:
        self.pairs = pairs

    def maker(self, neighbours: Neighbours | None) -> Callable[..., ShuffledBatches]:
        """Return what makes the sampler; it reads no neighbours."""

        def make(dataset: Any, batch_size: int, drop_last: bool = False, seed: int = 0, **_: Any) -> ShuffledBatches:
            return ShuffledBatches(dataset, batch_size, drop_last, seed, labels=_labels(dataset))

        return make


class Batches:
    """The settings of `ConceptBatches`."""

    def __init__(self, pairs: int, pairs_per_concept: int, near: int) -> None:
        self.pairs, self.pairs_per_concept, self.near = pairs, pairs_per_concept, near

    def maker(self, neighbours: Neighbours | None) -> Make:
        """Return a function that makes the sampler, with the arguments that the trainer gives it."""

        def make(dataset: Any, batch_size: int, drop_last: bool = False, seed: int = 0, **_: Any) -> ConceptBatches:
            settings = {"pairs_per_concept": self.pairs_per_concept, "near": self.near, "neighbours": neighbours}
            return ConceptBatches(dataset, batch_size, drop_last, seed=seed, **settings)  # type: ignore[arg-type]

        return make
