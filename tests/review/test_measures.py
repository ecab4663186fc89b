"""Precision, agreement and the number of links left to review, computed by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.review.measures import agreements, kappa, left, left_in, precisions, wilson
from spacy_sapbert.review.store import ReviewStore

from .test_store import TEXT, numbers, row


def test_wilson_by_hand() -> None:
    # 8 of 10, z = 1.959964: centre (8 + z²/2) / (10 + z²), half width z / (10 + z²) sqrt(8 · 2 / 10 + z²/4)
    z2 = 1.959964**2
    centre, half = (8 + z2 / 2) / (10 + z2), math.sqrt(z2) / (10 + z2) * math.sqrt(1.6 + z2 / 4)
    assert wilson(8, 10) == (pytest.approx(centre - half, abs=1e-6), pytest.approx(centre + half, abs=1e-6))
    assert wilson(8, 10) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(10, 10)[1] == 1.0


def test_kappa_by_hand() -> None:
    # ann: A A A N N, bob: A A N N A. Same: 3 of 5. By chance: .6 · .6 + .4 · .4 = .52. (.6 - .52) / (1 - .52) = 1/6
    assert kappa(["A", "A", "A", "N", "N"], ["A", "A", "N", "N", "A"]) == pytest.approx(1 / 6)
    assert kappa(["A", "B"], ["A", "B"]) == pytest.approx(1.0)
    assert kappa(["A", "A"], ["A", "A"]) is None


@pytest.mark.parametrize(
    ("kept", "probabilities", "wished", "expected", "number"),
    [
        (0, [0.9, 0.5, 0.8, 0.8], 0.75, 0.75, 0),
        # 3 links are right in the end. For .9, 3 · .1 / .9 = .333 wrong ones may stay: of the doubts .5 .2 .2 .1, the first two must be reviewed
        (0, [0.9, 0.5, 0.8, 0.8], 0.9, 0.75, 2),
        # with 7 reviewed ones, 10 · .1 / .9 = 1.11 wrong ones are allowed, so none must be reviewed
        (7, [0.9, 0.5, 0.8, 0.8], 0.9, 10 / 11, 0),
        (0, [], 0.9, None, 0),
        (0, [0.0, 0.0], 0.9, 0.0, 2),
        (0, [1.0, 1.0], 0.99, 1.0, 0),
    ],
)
def test_how_many_are_left_by_hand(kept: int, probabilities: list[float], wished: float, expected: float | None, number: int) -> None:
    found = left(kept, probabilities, wished)
    assert (found.open, found.left) == (len(probabilities), number)
    assert found.expected == (None if expected is None else pytest.approx(expected))


def test_without_probabilities_nothing_is_promised() -> None:
    assert left(3, [0.9, None], 0.9) == (2, None, None)


@given(st.lists(st.floats(0.0, 1.0), max_size=30), st.integers(0, 20), st.floats(0.5, 0.99))
def test_reviewing_as_many_as_are_left_reaches_the_wish_and_one_fewer_does_not(probabilities: list[float], kept: int, wished: float) -> None:
    number = left(kept, probabilities, wished).left
    assert number is not None
    ordered = sorted(probabilities)
    right = kept + sum(probabilities)

    def reached(n: int) -> bool:
        stays = sum(1 - p for p in ordered[n:])
        return stays <= right * (1 - wished) / wished + 1e-6

    assert reached(number)
    assert number == 0 or right * (1 - wished) / wished <= sum(1 - p for p in ordered[number - 1 :]) + 1e-6


def test_precision_and_agreement_of_a_review(tmp_path: Path) -> None:
    store = ReviewStore(tmp_path / "review.sqlite")
    store.add_note("n1", TEXT, [row("Fever", "C1", 0.95), row("cold", "C2", 0.5), row("MI", "C3", 0.7), row("2001", "NIL")])
    at = numbers(store)
    for who, kind, mention, cui in [
        ("ann", "accept", "Fever", "C1"),
        ("bob", "accept", "Fever", "C1"),
        ("ann", "reject", "cold", "C2"),
        ("bob", "accept", "cold", "C2"),
        ("ann", "choose", "MI", "C9"),
        ("ann", "choose", "2001", "C9"),  # no link was proposed, so it does not count for the precision of links
    ]:
        store.record(who, {"kind": kind, "mention": at[mention], "cui": cui})
    found = {each.what: (each.right, each.reviewed) for each in precisions(store)}
    assert found == {"all links": (1, 2), "probability 0.6 to 0.8": (0, 1), "probability 0.95 to 1": (1, 1)}  # "cold" is disputed
    (both,) = agreements(store.log())
    assert (both.reviewers, both.mentions, both.same, both.differ) == (("ann", "bob"), 2, 1, [at["cold"]])
    assert both.kappa == pytest.approx(1 / 3)  # same: .5; by chance: C1 .5 · .5 = .25; (.5 - .25) / .75
    now = left_in(store, 0.9)
    assert (now.open, now.left) == (1, 1)
    assert now.expected == pytest.approx(3.5 / 4)  # Fever, MI and 2001 are right; cold is disputed, so it is open and counts .5
