"""Every loss, computed by hand on four points of the unit circle, 60° apart; formulas that we implement again are compared with the library."""

from __future__ import annotations

import math
from math import exp, log, sqrt
from typing import Any, Callable, Dict, List, Optional, Tuple

import pytest
import torch
from pytorch_metric_learning import losses as library

from spacy_sapbert.errors import SapbertError
from training.loop import mining
from training.loop.losses import BatchLoss
from training.registry import registry

LABELS = torch.tensor([0, 0, 1, 1])
# The points are at 0°, 60°, 120° and 180°. Cosines: 1/2 for neighbours, −1/2 for the next but one, −1 for the two ends; distances: 1, √3, 2.
# For point 0, the positive has cosine 1/2, the negatives −1/2 and −1. For point 1, the positive has 1/2, the negatives 1/2 and −1/2.
# Points 3 and 2 have the same as 0 and 1.
MINED = (torch.tensor([0, 1, 1]), torch.tensor([1, 0, 0]), torch.tensor([2, 2, 3]))  # positives (0,1) and (1,0); negatives (0,2), (1,2), (1,3)
ONE = (torch.tensor([1]), torch.tensor([0]), torch.tensor([2]))
EMPTY = torch.zeros(0, dtype=torch.int64)
FAR = exp(1 - sqrt(3))  # lifted structure: a negative at √3, margin 1

# name -> settings, and the value over all pairs, over MINED, over ONE
BY_HAND: Dict[str, Tuple[Dict[str, float], float, float, float]] = {
    "MultiSimilarity": (
        {"alpha": 2.0, "beta": 4.0, "base": 0.5},
        ((log(2) / 2 + log(1 + exp(-4) + exp(-6)) / 4) + (log(2) / 2 + log(1 + 1 + exp(-4)) / 4)) / 2,
        ((log(2) / 2 + log(1 + exp(-4)) / 4) + (log(2) / 2 + log(1 + 1 + exp(-4)) / 4)) / 4,
        (log(2) / 2 + log(1 + 1) / 4) / 4,
    ),
    "Cosine": ({"margin": 0.25}, 0.5 + 0.25 / 4, 0.5 + 0.25 / 3, 0.5 + 0.25),
    "Triplet": ({"margin": 0.9}, (0.9 + 2 * (1.9 - sqrt(3))) / 3, (0.9 + 2 * (1.9 - sqrt(3))) / 3, 0.9),
    "NCA": (
        {"softmax_scale": 2.0},
        (-log(exp(-2) / (exp(-2) + exp(-6) + exp(-8))) - log(exp(-2) / (exp(-2) + exp(-2) + exp(-6)))) / 2,
        (-log(exp(-2) / (exp(-2) + exp(-6))) - log(exp(-2) / (exp(-2) + exp(-2) + exp(-6)))) / 2,
        log(2),
    ),
    "LiftedStructure": (
        {"margin": 1.0},
        (1 + log(FAR + exp(-1) + 1 + FAR)) ** 2 / 2,
        (1 + log(FAR + 1 + FAR)) ** 2 / 2,
        (1 + log(1)) ** 2 / 2,
    ),
    "InfoNCE": (
        {"temperature": 0.5},
        (-log(exp(1) / (exp(1) + exp(-1) + exp(-2))) - log(exp(1) / (exp(1) + exp(1) + exp(-1)))) / 2,
        (-log(exp(1) / (exp(1) + exp(-1))) - log(exp(1) / (exp(1) + exp(1) + exp(-1)))) / 2,
        log(2),
    ),
    "Circle": (  # weights: positive 1.25 − 0.5, negative at 1/2 0.25 + 0.5, negatives at −1/2 and −1 none
        {"m": 0.25, "gamma": 2.0},
        (log(1 + exp(2 * 0.75 * 0.25) * (1 + 1)) + log(1 + exp(2 * 0.75 * 0.25) * (exp(2 * 0.75 * 0.25) + 1))) / 2,
        (log(1 + exp(2 * 0.75 * 0.25) * 1) + log(1 + exp(2 * 0.75 * 0.25) * (exp(2 * 0.75 * 0.25) + 1))) / 2,
        log(1 + exp(2 * 0.75 * 0.25) * exp(2 * 0.75 * 0.25)),
    ),
}
NAMES = list(BY_HAND)


def make(name: str, **settings: float) -> BatchLoss:
    loss = registry.resolve({"loss": {"@losses": f"spacy-sapbert.{name}.v1", **(settings or BY_HAND[name][0])}})["loss"]
    assert isinstance(loss, BatchLoss)
    return loss


def points(*degrees: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """(n,) angles in degrees -> (n, 2) vectors of several lengths, because losses normalise them."""
    lengths = [1.0, 5.0, 0.2, 3.0, 1.5]
    rows = [[length * math.cos(math.radians(d)), length * math.sin(math.radians(d))] for length, d in zip(lengths, degrees)]
    return torch.tensor(rows, dtype=dtype)


def four(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return points(0, 60, 120, 180, dtype=dtype)


def random_batch(n: int, d: int, labels: List[int], seed: int = 0) -> Tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=generator, dtype=torch.float64).requires_grad_(), torch.tensor(labels)


@pytest.mark.parametrize("name", NAMES)
def test_value_by_hand(name: str):
    _, everything, mined, one = BY_HAND[name]
    loss = make(name)
    assert loss(four(), LABELS).item() == pytest.approx(everything, rel=1e-5)
    assert loss(four(), LABELS, MINED).item() == pytest.approx(mined, rel=1e-5)
    assert loss(four(), LABELS, ONE).item() == pytest.approx(one, rel=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_a_pair_that_is_in_many_triplets_counts_once(name: str):
    loss = make(name)
    as_pairs = (torch.tensor([0, 1]), torch.tensor([1, 0]), torch.tensor([0, 1, 1]), torch.tensor([2, 2, 3]))  # (1, 0) is in two of MINED
    assert loss(four(), LABELS, as_pairs).item() == pytest.approx(BY_HAND[name][2], rel=1e-5)
    if name != "Triplet":
        doubled = tuple(index.repeat(2) for index in MINED)
        assert loss(four(), LABELS, doubled).item() == pytest.approx(BY_HAND[name][2], rel=1e-5)
        again = tuple(torch.cat([index, index[1:2]]) for index in MINED)  # (1, 0, 2) twice, the others once
        assert loss(four(), LABELS, again).item() == pytest.approx(BY_HAND[name][2], rel=1e-5)


def test_the_triplet_loss_takes_triplets_as_they_are():
    """(1, 0, 2) has 1 - 1 + 0.9, and (1, 0, 3) has 1 - sqrt(3) + 0.9; the first is there twice."""
    triplets = (torch.tensor([1, 1, 1]), torch.tensor([0, 0, 0]), torch.tensor([2, 2, 3]))
    assert make("Triplet")(four(), LABELS, triplets).item() == pytest.approx((0.9 + 0.9 + 1.9 - sqrt(3)) / 3, rel=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_the_miner_fits_every_loss(name: str):
    vectors = four(torch.float64)
    pairs = mining.make_hard_triplets(0.2)(vectors, LABELS)  # (1, 0, 2) and (2, 3, 1), which are mirror images
    per_anchor = BY_HAND[name][3] * (2 if name == "MultiSimilarity" else 1)  # the mean of MultiSimilarity is over all four points
    if name == "LiftedStructure":
        per_anchor = (1 + log(exp(1 - 1))) ** 2 / 2  # the pair (1, 0) has the negatives of both points, which is one negative
    assert make(name)(vectors, LABELS, pairs).item() == pytest.approx(per_anchor, rel=1e-5)


def test_other_names_of_the_label_are_positives_and_in_no_denominator():
    labels = torch.tensor([4, 4, 4, 8])  # point 3 is the negative of all others, with cosines −1, −1/2 and 1/2
    e = [exp(-1), exp(-0.5), exp(0.5)]
    near, far = exp(0.5), exp(-0.5)
    pairs = [(near, e[0]), (far, e[0]), (near, e[1]), (near, e[1]), (far, e[2]), (near, e[2])]
    expected = sum(-log(p / (p + n)) for p, n in pairs) / 6
    assert make("InfoNCE", temperature=1.0)(four(), labels).item() == pytest.approx(expected, rel=1e-5)
    positives = [1 / near + 1 / far, 1 / near + 1 / near, 1 / far + 1 / near]
    expected = sum(log(1 + pull) for pull in positives) + sum(log(1 + push) for push in e) + log(1 + sum(e))
    assert make("MultiSimilarity", alpha=1.0, beta=1.0, base=0.0)(four(), labels).item() == pytest.approx(expected / 4, rel=1e-5)


@pytest.mark.parametrize("name", ["MultiSimilarity", "Cosine", "NCA", "LiftedStructure", "InfoNCE"])  # not Circle, which stops a part of its gradient
@pytest.mark.parametrize("mined", [False, True])
def test_gradient_by_finite_differences(name: str, mined: bool):
    vectors, labels = random_batch(6, 3, [0, 0, 0, 1, 1, 2])
    pairs = mining.make_hard_triplets(0.2)(vectors, labels) if mined else None
    loss, step = make(name), 1e-6
    (gradient,) = torch.autograd.grad(loss(vectors, labels, pairs), vectors)
    by_hand = torch.zeros_like(gradient)
    with torch.no_grad():
        for row in range(6):
            for column in range(3):
                moved = torch.zeros_like(vectors)
                moved[row, column] = step
                by_hand[row, column] = (loss(vectors + moved, labels, pairs) - loss(vectors - moved, labels, pairs)) / (2 * step)
    assert gradient.abs().max() > 1e-3
    torch.testing.assert_close(gradient, by_hand, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("InfoNCE", library.NTXentLoss(temperature=0.5)),
        ("LiftedStructure", library.LiftedStructureLoss(neg_margin=1, pos_margin=0)),
        ("NCA", library.NCALoss(softmax_scale=2)),
    ],
)
def test_formulas_written_again_are_the_library_s(name: str, theirs: Callable[..., torch.Tensor]):
    vectors, labels = random_batch(12, 4, [0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 4, 4], seed=3)
    ours = make(name)
    torch.testing.assert_close(ours(vectors, labels), theirs(vectors, labels), rtol=1e-8, atol=0)
    (gradient,) = torch.autograd.grad(ours(vectors, labels), vectors)
    (expected,) = torch.autograd.grad(theirs(vectors, labels), vectors)
    torch.testing.assert_close(gradient, expected, rtol=1e-6, atol=1e-10)


def test_the_hardest_pair_keeps_its_gradient():
    vectors = points(0, 179, 1).requires_grad_()  # the positive is nearly opposite, the negative is next to the anchor
    labels = torch.tensor([0, 0, 1])
    pairs = (torch.tensor([0]), torch.tensor([1]), torch.tensor([0]), torch.tensor([2]))
    nearly = 2 * math.cos(math.radians(1))
    loss = make("InfoNCE", temperature=0.01)(vectors, labels, pairs)
    assert loss.item() == pytest.approx(nearly / 0.01, rel=1e-4)  # e^−200 is 0 in float32
    (gradient,) = torch.autograd.grad(loss, vectors)
    assert gradient[1].norm().item() == pytest.approx(math.sin(math.radians(1)) / 0.01 / 5.0, rel=1e-3)  # 5 is the vector's length
    loss = make("NCA", softmax_scale=50.0)(vectors, labels, pairs)
    assert loss.item() == pytest.approx(50.0 * 2 * nearly, rel=1e-4)  # D² = 2 − 2 S


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("labels", "pairs"),
    [
        pytest.param([], None, id="no names"),
        pytest.param([0], None, id="one name"),
        pytest.param([0, 1, 2, 3], None, id="no positive"),
        pytest.param([5, 5, 5, 5], None, id="no negative"),
        pytest.param([0, 0, 1, 1], (EMPTY, EMPTY, EMPTY), id="no hard triplet"),
        pytest.param([0, 0, 1, 1], (EMPTY, EMPTY, EMPTY, EMPTY), id="no hard pair"),
        pytest.param([0, 0, 1, 1], (EMPTY, EMPTY, torch.tensor([0]), torch.tensor([2])), id="no hard positive"),
        pytest.param([0], (EMPTY, EMPTY, EMPTY), id="one name, mined"),
        pytest.param([5, 5, 5, 5], "mine", id="no negative, mined"),
        pytest.param([0, 1, 2, 3], "mine", id="no positive, mined"),
    ],
)
def test_nothing_to_compare_is_zero_with_a_gradient(name: str, labels: List[int], pairs: Any):
    vectors, numbers = four()[: len(labels)].requires_grad_(), torch.tensor(labels, dtype=torch.int64)
    loss = make(name)(vectors, numbers, mining.make_hard_triplets()(vectors, numbers) if pairs == "mine" else pairs)
    assert loss.shape == ()
    assert loss.item() == 0.0
    loss.backward()
    assert vectors.grad is not None
    assert torch.equal(vectors.grad, torch.zeros_like(vectors))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("pairs", [None, MINED, (EMPTY, EMPTY, EMPTY)])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_value_that_is_not_finite_is_not_hidden(name: str, pairs: Optional[Tuple[torch.Tensor, ...]], value: float):
    vectors = four()
    vectors[3, 0] = value  # a point that is only a negative in MINED
    assert math.isnan(make(name)(vectors, LABELS, pairs).item())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("pairs", [None, MINED])
def test_equal_vectors_give_a_finite_gradient(name: str, pairs: Optional[Tuple[torch.Tensor, ...]]):
    vectors = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]).requires_grad_()  # distance 0 has no derivative, a zero vector no norm
    loss = make(name)(vectors, LABELS, pairs)
    loss.backward()
    assert math.isfinite(loss.item())
    assert vectors.grad is not None
    assert torch.isfinite(vectors.grad).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(name: str, dtype: torch.dtype):
    half = four().to(dtype).requires_grad_()
    loss = make(name)
    expected = loss(half.detach().float(), LABELS, MINED)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = loss(half, LABELS, MINED)
    assert found.dtype == torch.float32
    assert found.item() == expected.item()
    found.backward()
    assert half.grad is not None
    assert half.grad.dtype == dtype
    assert torch.isfinite(half.grad).all()


@pytest.mark.parametrize("name", NAMES)
def test_defaults_make_a_loss(name: str):
    loss = registry.resolve({"loss": {"@losses": f"spacy-sapbert.{name}.v1"}})["loss"]
    apart, mixed = points(0, 1, 180, 181), points(0, 180, 1, 181)  # two concepts that are far apart, and two that are mixed
    assert 0 <= loss(apart, LABELS).item() < loss(mixed, LABELS).item()


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("MultiSimilarity", "alpha", 0.0),
        ("MultiSimilarity", "beta", -1.0),
        ("MultiSimilarity", "base", 1.5),
        ("MultiSimilarity", "base", math.nan),
        ("Cosine", "margin", 1.1),
        ("Cosine", "margin", -1.0),
        ("Triplet", "margin", 0.0),
        ("Triplet", "margin", 2.5),
        ("NCA", "softmax_scale", 0.0),
        ("LiftedStructure", "margin", -0.5),
        ("InfoNCE", "temperature", 0.0),
        ("InfoNCE", "temperature", -0.07),
        ("InfoNCE", "temperature", math.inf),
        ("Circle", "m", 0.0),
        ("Circle", "gamma", 0.0),
    ],
)
def test_a_bad_setting_is_refused_at_once(name: str, setting: str, value: float):
    with pytest.raises(SapbertError, match=f"'{setting}' of 'spacy-sapbert.{name}.v1' is {value!r}") as caught:
        make(name, **{setting: value})
    assert caught.value.code == "E521"


@pytest.mark.parametrize(
    ("vectors", "labels", "pairs", "code"),
    [
        (torch.ones(4), LABELS, None, "E522"),
        (torch.ones(3, 2), LABELS, None, "E522"),
        (torch.ones(4, 2), LABELS.float(), None, "E522"),
        (torch.ones(4, 2, dtype=torch.int64), LABELS, None, "E522"),
        (torch.ones(4, 2), LABELS, (EMPTY, EMPTY), "E523"),
        (torch.ones(4, 2), LABELS, (LABELS[None], LABELS[None], LABELS[None]), "E523"),
    ],
)
def test_other_shapes_are_refused(vectors: Any, labels: Any, pairs: Any, code: str):
    with pytest.raises(SapbertError, match=r"InfoNCE") as caught:
        make("InfoNCE")(vectors, labels, pairs)
    assert caught.value.code == code
    if pairs is not None:
        assert f"{[tuple(index.shape) for index in pairs]}" in str(caught.value)
