"""Batches: each concept once, each pair once per epoch, runs of pairs that share names, near concepts in one batch."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest

from spacy_sapbert.errors import SapbertError
from training.loop.batches import ConceptBatches, concept_batches, shuffled_pairs
from training.loop.trainer import Parts
from training.registry import registry


class Rows:
    """The part of a dataset that the sampler uses."""

    def __init__(self, labels: List[int]) -> None:
        self.labels = np.array(labels)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, column: str) -> np.ndarray:
        return {"label": self.labels}[column]


def batches(labels: List[int], size: int, epoch: int = 0, **settings: Any) -> List[List[int]]:
    sampler = ConceptBatches(Rows(labels), size, **settings)
    sampler.set_epoch(epoch)
    return list(sampler)


MANY = [label for label in range(200) for _ in range(1 + label % 7)]


@pytest.mark.parametrize("pairs_per_concept", [1, 3])
def test_a_label_stands_in_a_batch_once(pairs_per_concept: int) -> None:
    for batch in batches(MANY, 24, pairs_per_concept=pairs_per_concept):
        labels, counts = np.unique(np.array(MANY)[batch], return_counts=True)
        assert len(labels) >= 2
        assert len(batch) <= 24
        assert counts.max() <= pairs_per_concept
        for label in labels:  # a run: consecutive pairs of a label
            rows = sorted(row for row in batch if MANY[row] == label)
            assert rows == list(range(rows[0], rows[-1] + 1))


def test_one_large_label_does_not_fill_batches() -> None:
    labels = [0] * 50 + list(range(1, 31))
    found = batches(labels, 8)
    assert all(sum(labels[row] == 0 for row in batch) <= 1 for batch in found)
    assert {row for batch in found for row in batch if row >= 50} == set(range(50, 80))  # the others are all used


@pytest.mark.parametrize("pairs_per_concept", [1, 3])
def test_a_pair_comes_once_an_epoch(pairs_per_concept: int) -> None:
    rows = [row for batch in batches(MANY, 16, pairs_per_concept=pairs_per_concept) for row in batch]
    assert len(rows) == len(set(rows))
    assert len(rows) > 0.9 * len(MANY)


def test_length_is_what_an_epoch_has_at_most() -> None:
    sampler = ConceptBatches(Rows(MANY), 16)
    assert len(sampler) == -(-len(MANY) // 16)
    assert len(list(sampler)) <= len(sampler)


def test_order_depends_on_seed_and_epoch_alone() -> None:
    assert batches(MANY, 16, seed=1) == batches(MANY, 16, seed=1)
    assert batches(MANY, 16, seed=1) != batches(MANY, 16, seed=2)
    assert batches(MANY, 16, epoch=0) != batches(MANY, 16, epoch=1)
    starts = {tuple(sorted(r for r in batch if MANY[r] == 6)) for e in range(8) for batch in batches(MANY, 16, epoch=e, pairs_per_concept=3)} - {()}
    assert len(starts) > 3  # runs are also cut at different places


def test_neighbours_come_together() -> None:
    labels = list(range(100))
    neighbours = np.array([[label ^ 1] for label in labels], dtype=np.int32)  # 0 and 1, 2 and 3 ...
    together = 0
    for batch in batches(labels, 10, near=1, neighbours=neighbours):
        together += sum(row ^ 1 in batch for row in batch)
    assert together >= 80
    assert sum(row ^ 1 in batch for batch in batches(labels, 10) for row in batch) < 40  # about 9 are there by chance
    rows = [row for batch in batches(labels, 10, near=1, neighbours=neighbours) for row in batch]
    assert sorted(rows) == labels


def test_no_neighbour_is_a_neighbour() -> None:
    neighbours = np.full((200, 3), -1, dtype=np.int32)
    rows = [row for batch in batches(MANY, 16, near=2, neighbours=neighbours) for row in batch]
    assert len(rows) == len(set(rows)) > 0.9 * len(MANY)


def test_one_label_alone_makes_no_batch() -> None:
    assert batches([5, 5, 5], 4) == []


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"pairs": 1}, "batches.pairs"),
        ({"pairs_per_concept": 0}, "pairs_per_concept"),
        ({"near": -1}, "near"),
        ({"pairs": 4, "pairs_per_concept": 3}, "two concepts"),
    ],
)
def test_settings_that_make_no_batch_are_refused(settings: Dict[str, int], named: str) -> None:
    with pytest.raises(SapbertError, match=named) as error:
        concept_batches(**settings)
    assert error.value.code == "E511"


def test_registered() -> None:
    made = registry.resolve({"batches": {"@batches": "spacy-sapbert.ConceptBatches.v1", "pairs": 12, "pairs_per_concept": 2}})["batches"]
    sampler = made.maker(None)(Rows(MANY), made.pairs, False, seed=4)
    assert sampler.batch_size == 12
    assert sampler.pairs_per_concept == 2
    assert sampler.seed == 4


def test_shuffled_pairs_hold_a_concept_as_often_as_it_comes() -> None:
    """Every pair is there once per epoch, in another order each time; pairs of a frequent concept are not left out."""
    labels = [7] * 9 + [8]
    made = shuffled_pairs(pairs=5).maker(None)(Rows(labels), 5, seed=3)
    first = list(made)
    assert sorted(row for batch in first for row in batch) == list(range(10))
    assert max(sum(labels[row] == 7 for row in batch) for batch in first) >= 4
    made.set_epoch(1)
    assert list(made) != first
    with pytest.raises(SapbertError, match=r"E511.*batches.pairs"):
        shuffled_pairs(pairs=1)


def test_a_shuffled_batch_keeps_the_rows_of_a_label_together() -> None:
    """Processes divide a batch at the beginning of a label, so that its names are counted once, with any number of processes."""
    labels = [0, 0, 1, 1, 1, 2, 2, 3]
    sampler = shuffled_pairs(8).maker(None)(Rows(labels), 8, seed=3)
    (batch,) = sampler
    assert sorted(batch) == list(range(8))
    assert [labels[row] for row in batch] == [0, 0, 1, 1, 1, 2, 2, 3]
    assert Parts(sampler, 2).cuts(batch) == [0, 5, 8]  # 4 is inside the rows of label 1, and 5 is the nearest place between two labels
