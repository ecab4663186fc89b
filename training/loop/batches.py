"""Choose the pairs of a batch. No concept dominates a batch, and concepts that look alike can be in the same batch as hard negatives."""

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

    The pairs of a label are divided into runs of at most `pairs_per_concept` neighbouring pairs. The pairs of a run share names: 3 pairs have at most
    4 names, all of them positives of each other. A batch holds at most one run of a label. Every pair is used once per epoch, except the last few of
    labels that have many more pairs than the others. The order depends only on seed and epoch.

    Args:
        dataset: Data with a column `label`, sorted by it.
        batch_size: Number of pairs in a batch.
        seed: Seed of the order.
        pairs_per_concept: Greatest number of pairs in a run.
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
        # pairs that are left over are used in another epoch, which has another order
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
            for _ in range(len(waiting)):  # those that have waited longest come first
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
            if run is None and len(inside) < 2:  # only one label is left, so there are no negatives
                return
            batch, inside = [], set()

    def _runs(self, chance: np.random.Generator) -> tuple[Ints, Ints]:
        """Return starts and ends of runs. The end of a label's first run is drawn at random, so that runs differ between epochs."""
        size = self.pairs_per_concept
        edges = np.flatnonzero(np.r_[True, self.labels[1:] != self.labels[:-1], True])
        lengths = np.diff(edges)
        first = np.minimum(chance.integers(0, size, len(lengths)), lengths // 2)  # number of pairs in the first run; 0: as many as in other runs
        place = np.arange(len(self.labels)) - np.repeat(edges[:-1], lengths)  # position of a pair among those of its label
        run = np.where(place < np.repeat(first, lengths), -1, (place - np.repeat(first, lengths)) // size)
        starts = np.flatnonzero((place == 0) | np.r_[True, run[1:] != run[:-1]])
        return starts, np.r_[starts[1:], len(self.labels)].astype(np.int64)

    def _order(self, starts: Ints, chance: np.random.Generator) -> Iterator[int]:
        """Yield runs in random order. With `near`, each is followed by unused runs of its nearest labels."""
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
    """Full batches of all rows, in an order that depends only on seed and epoch.

    The last batch is filled from the beginning of the order.

    Args:
        dataset: Data; only its number of rows is used.
        batch_size: Number of rows in a batch.
        seed: Seed of the order.
        labels: (rows,) labels; with them, the rows of a label are next to each other in a batch, so that processes which share it do not divide a
            label.
    """

    def __init__(self, dataset: Any, batch_size: int, drop_last: bool = False, seed: int = 0, *, labels: Ints | None = None) -> None:
        super().__init__(SequentialSampler(dataset), batch_size=batch_size, drop_last=drop_last)
        self.labels = labels
        self.rows, self.seed, self.epoch = len(dataset), seed, 0
        self.count = -(-self.rows // batch_size)

    @classmethod
    def make(cls, dataset: Any, batch_size: int, drop_last: bool = False, seed: int = 0, **_: Any) -> ShuffledBatches:
        """Make the sampler with the arguments that the trainer passes."""
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
    """Yield the numbers of an array, converted in chunks: as one list, 12 million numbers would take half a gigabyte."""
    for start in range(0, len(array), _CHUNK):
        yield from array[start : start + _CHUNK].tolist()


Make = Callable[..., ConceptBatches]


@registry.batches("spacy-sapbert.ConceptBatches.v1")
def concept_batches(pairs: int = 128, pairs_per_concept: int = 1, near: int = 0) -> Batches:
    """Make the settings of `ConceptBatches`.

    Args:
        pairs: Number of pairs in a batch, of all processes together.
        pairs_per_concept: Greatest number of pairs of one concept in one batch.
        near: Number of concepts with similar names (`training.data.neighbours`) that follow each concept as hard negatives; 0: none.

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
    """Make the settings of batches of pairs in random order, as in SapBERT's released code. A concept may occur several times in a batch.

    Args:
        pairs: Number of pairs in a batch, of all processes together.

    Raises:
        SapbertError: E511.
    """
    if pairs < 2:
        raise fail("E511", setting="batches.pairs", value=pairs, why="it must be at least 2")
    return PlainBatches(pairs)


class PlainBatches:
    """The settings of batches of pairs in random order."""

    near = 0  # no nearest concepts are needed

    def __init__(self, pairs: int) -> None:
        self.pairs = pairs

    def maker(self, neighbours: Neighbours | None) -> Callable[..., ShuffledBatches]:
        """Return a function that makes the sampler. It does not use the neighbours."""

        def make(dataset: Any, batch_size: int, drop_last: bool = False, seed: int = 0, **_: Any) -> ShuffledBatches:
            return ShuffledBatches(dataset, batch_size, drop_last, seed, labels=_labels(dataset))

        return make


class Batches:
    """The settings of `ConceptBatches`."""

    def __init__(self, pairs: int, pairs_per_concept: int, near: int) -> None:
        self.pairs, self.pairs_per_concept, self.near = pairs, pairs_per_concept, near

    def maker(self, neighbours: Neighbours | None) -> Make:
        """Return a function that makes the sampler, with the arguments that the trainer passes."""

        def make(dataset: Any, batch_size: int, drop_last: bool = False, seed: int = 0, **_: Any) -> ConceptBatches:
            settings = {"pairs_per_concept": self.pairs_per_concept, "near": self.near, "neighbours": neighbours}
            return ConceptBatches(dataset, batch_size, drop_last, seed=seed, **settings)  # type: ignore[arg-type]

        return make
