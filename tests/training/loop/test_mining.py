"""Which triplets are hard, enumerated by hand on points of the unit circle."""

from __future__ import annotations

import math
from typing import Any, List, Sequence, Set, Tuple

import pytest
import torch

from spacy_sapbert.errors import SapbertError
from training.loop.mining import check_setting, make_hard_triplets
from training.registry import registry

# distances on the circle: 60° apart 1, 120° apart √3, 180° apart 2
ANGLES = [0, 60, 120, 180]
LABELS = torch.tensor([0, 0, 1, 1])


def circle(degrees: Sequence[float], lengths: Tuple[float, ...] = (1.0, 5.0, 0.2, 3.0)) -> torch.Tensor:
    """(n,) angles in degrees -> (n, 2) vectors of several lengths, because miners and losses normalise them."""
    return torch.tensor([[length * math.cos(math.radians(d)), length * math.sin(math.radians(d))] for d, length in zip(degrees, lengths)])


def mined(margin: float, vectors: torch.Tensor, labels: torch.Tensor) -> Set[Tuple[int, ...]]:
    found = make_hard_triplets(margin)(vectors, labels)
    triplets = [tuple(row) for row in torch.stack(found, dim=1).tolist()]
    assert len(triplets) == len(set(triplets))
    return set(triplets)


NEAR = {(1, 0, 2), (2, 3, 1)}  # the negative is as far away as the positive: both 1
MIDDLE = {(0, 1, 2), (1, 0, 3), (2, 3, 0), (3, 2, 1)}  # √3 − 1 = 0.73 farther
FAR = {(0, 1, 3), (3, 2, 0)}  # 2 − 1 = 1 farther


@pytest.mark.parametrize(
    ("margin", "expected"),
    [(-0.2, set()), (0.2, NEAR), (0.72, NEAR), (0.74, NEAR | MIDDLE), (0.99, NEAR | MIDDLE), (1.01, NEAR | MIDDLE | FAR), (2.0, NEAR | MIDDLE | FAR)],
)
def test_a_triplet_is_hard_unless_its_negative_is_farther_by_the_margin(margin: float, expected: Set[Tuple[int, ...]]):
    assert mined(margin, circle(ANGLES), LABELS) == expected


def test_the_boundary_is_hard():
    labels = torch.tensor([0, 0, 1])
    even = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])  # both others are √2 away from the first; from the second, they are √2 and 2 away
    assert mined(0.0, even, labels) == {(0, 1, 2)}
    assert mined(-1e-6, even, labels) == set()
    opposite = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])  # the negative is 2 farther than the positive
    assert mined(2.0, opposite, labels) == {(0, 1, 2), (1, 0, 2)}
    assert mined(1.999, opposite, labels) == set()


def test_every_name_of_a_label_is_a_positive_and_never_a_negative():
    vectors = circle([0, 60, 120, 180])
    assert mined(2.0, vectors, torch.tensor([5, 5, 5, 9])) == {(a, p, 3) for a in range(3) for p in range(3) if a != p}


@pytest.mark.parametrize(("concepts", "names"), [(4, 2), (3, 3), (2, 5)])
def test_number_of_triplets(concepts: int, names: int):
    n = concepts * names
    vectors = torch.randn(n, 3, generator=torch.Generator().manual_seed(0))
    assert len(mined(2.0, vectors, torch.arange(concepts).repeat(names))) == n * (names - 1) * (n - names)


def test_the_result_has_no_gradient_and_suits_half_precision():
    vectors = circle(ANGLES).requires_grad_()
    found = make_hard_triplets(0.2)(vectors, LABELS)
    assert [index.dtype for index in found] == [torch.int64] * 3
    assert not any(index.requires_grad for index in found)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert mined(0.74, circle(ANGLES).to(dtype), LABELS) == NEAR | MIDDLE


@pytest.mark.parametrize("labels", [[], [3], [3, 3, 3], [1, 2, 3]])
def test_a_batch_without_triplets_gives_an_empty_tuple(labels: List[int]):
    found = make_hard_triplets(2.0)(circle(ANGLES)[: len(labels)], torch.tensor(labels, dtype=torch.int64))
    assert [tuple(index.shape) for index in found] == [(0,)] * 3


def test_no_mining_gives_all_pairs():
    miner = registry.resolve({"miner": {"@miners": "spacy-sapbert.NoMining.v1"}})["miner"]
    assert miner(circle(ANGLES), LABELS) is None


def test_a_recipe_names_the_miner():
    miner = registry.resolve({"miner": {"@miners": "spacy-sapbert.HardTriplets.v1", "margin": 0.74}})["miner"]
    assert len(miner(circle(ANGLES), LABELS)[0]) == 6
    default = registry.resolve({"miner": {"@miners": "spacy-sapbert.HardTriplets.v1"}})["miner"]
    assert len(default(circle(ANGLES), LABELS)[0]) == 2


@pytest.mark.parametrize("margin", [-2.0, 2.1, math.nan, math.inf])
def test_a_margin_that_keeps_nothing_or_means_nothing_is_refused(margin: float):
    with pytest.raises(SapbertError, match="margin") as caught:
        make_hard_triplets(margin)
    assert caught.value.code == "E521"


@pytest.mark.parametrize(
    ("vectors", "labels"),
    [
        (torch.ones(4), torch.zeros(4, dtype=torch.int64)),
        (torch.ones(4, 2), torch.zeros(3, dtype=torch.int64)),
        (torch.ones(4, 2), torch.zeros(4)),
        (torch.ones(4, 2, dtype=torch.int64), torch.zeros(4, dtype=torch.int64)),
    ],
)
def test_other_shapes_are_refused(vectors: Any, labels: Any):
    with pytest.raises(SapbertError, match="HardTriplets") as caught:
        make_hard_triplets()(vectors, labels)
    assert caught.value.code == "E522"
    assert f"{vectors.dtype} {tuple(vectors.shape)} and {labels.dtype} {tuple(labels.shape)}" in str(caught.value)


def test_a_refused_setting_is_named_with_its_owner_its_value_and_its_range():
    with pytest.raises(SapbertError, match=r"'margin' of 'NAME' is 3\.5.* greater than 0 and at most 2\b"):
        check_setting("NAME", "margin", 3.5, above=0.0, at_most=2.0)
    with pytest.raises(SapbertError, match=r"'scale' of 'NAME' is -1\.0.* greater than 0\.5(?! and)\b(?!X)"):
        check_setting("NAME", "scale", -1.0, above=0.5)
