"""What a ranker learns from annotated mentions."""

from __future__ import annotations

import numpy as np
import pytest

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.ranking.fit import FEWEST, PENALTY, Example, fit_ranker_weights, fit_weights
from spacy_sapbert.ranking.ranker import FEATURES

WIDTH = len(FEATURES)


def example(rows: list[dict[str, float]], right: list[bool]) -> Example:
    values = np.zeros((len(rows), WIDTH))
    for i, row in enumerate(rows):
        for name, value in row.items():
            values[i, FEATURES.index(name)] = value
    return Example(values, np.array(right))


def mixed(n: int, share: float) -> list[Example]:
    """Return n mentions with two candidates of cosines 1 and 0; the one with 1 is right in this share of them."""
    right = round(n * share)
    return [example([{"cosine": 1.0}, {}], [i < right, i >= right]) for i in range(n)]


def test_the_odds_of_two_candidates_by_hand() -> None:
    """With one feature that differs by 1, the best weight w solves share = 1 / (1 + exp(-w)): 0.8 gives log 4, without the penalty.

    In other mentions a second feature, `cui`, differs by 1 in the same way, with another share.
    """
    first = mixed(1_000, 0.8)
    second = [Example(np.roll(one.values, FEATURES.index("cui"), axis=1), one.right) for one in mixed(1_000, 0.6)]
    weights = fit_weights([first + second])
    # the slope of the penalised loss is zero at the maximum: 0.5 (share - p) = 2 penalty w / spread², where a standardised weight is w * spread
    cosines = np.array([1.0, 0.0] * 1_000 + [0.0, 0.0] * 1_000)
    spread = float(cosines.std())

    def root(share: float) -> float:
        low, high = 0.0, 5.0
        for _ in range(100):
            w = (low + high) / 2
            slope = 0.5 * (share - 1 / (1 + np.exp(-w))) - 2 * PENALTY * w * spread**2
            low, high = (w, high) if slope > 0 else (low, w)
        return low

    assert weights[0] == 1.0
    assert weights[FEATURES.index("cui")] == pytest.approx(root(0.6) / root(0.8), rel=1e-3)


def test_a_sign_is_learnt() -> None:
    """A candidate with a number that contradicts is never right."""
    rows = [example([{"cosine": 0.9, "number_missing": 1.0}, {"cosine": 0.8}, {"cosine": 0.5}], [False, True, False]) for _ in range(FEWEST)]
    rows += [example([{"cosine": 0.9}, {"cosine": 0.6}], [True, False]) for _ in range(FEWEST)]
    weights = dict(zip(FEATURES, fit_weights([rows])))
    assert weights["number_missing"] < -0.1  # more than the difference of the cosines
    assert {name for name, value in weights.items() if value == 0.0} == set(FEATURES) - {"cosine", "number_missing"}


def test_a_large_corpus_does_not_decide_alone() -> None:
    large, small = mixed(10_000, 0.9), mixed(400, 0.6)
    near = [Example(one.values + np.roll(one.values, FEATURES.index("cui"), axis=1), one.right) for one in small]
    together = fit_weights([large, near])[FEATURES.index("cui")]
    one_set = fit_weights([[*large, *near]])[FEATURES.index("cui")]
    assert together < one_set < 0.0  # the small corpus is right less often; as a separate corpus, its mentions have 5 times the weight


def test_several_right_candidates_count_together() -> None:
    """Two candidates of cosine 1, both right in 80% of the mentions, and one of 0: 2 e^w / (2 e^w + 1) = 0.8, so w = log 2.

    With one candidate of each, for another feature, it is log 4: twice as much, without the penalty.
    """
    rows = [example([{"cosine": 1.0}, {"cosine": 1.0}, {}], [i < 800, i < 800, i >= 800]) for i in range(1_000)]
    rows += [Example(np.roll(one.values, FEATURES.index("cui"), axis=1), one.right) for one in mixed(1_000, 0.8)]
    assert fit_weights([rows])[FEATURES.index("cui")] == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([], "0 mentions have a right candidate"),
        (mixed(FEWEST - 1, 0.8), f"{FEWEST - 1} mentions have a right candidate"),
        ([example([{"cosine": 0.5}], [True])] * FEWEST, "0 mentions have a right candidate and a wrong one"),
        (mixed(FEWEST, 0.2), "a higher cosine does not make a candidate more often right"),
    ],
)
def test_what_teaches_nothing_is_refused(rows: list[Example], why: str) -> None:
    with pytest.raises(SapbertError, match=rf"\[E047\].*{why}"):
        fit_weights([rows])


def both(n: int, share: float, static: float) -> list[Example]:
    """Return n mentions whose first candidate has a cosine of 1, and a cosine by the static encoder; it is right in this share of them."""
    return [example([{"cosine": 1.0, "static": static}, {}], [i < round(n * share), i >= round(n * share)]) for i in range(n)]


def test_the_weights_of_a_ranker_have_the_unit_of_a_cosine() -> None:
    """Both cosines say the same, so they share the weight of 1, and the odds of `cui` are those of the sum."""
    cui = [example([{"cui": 1.0}, {}], [i < 600, i >= 600]) for i in range(1_000)]
    weights = dict(zip(FEATURES, fit_ranker_weights([both(1_000, 0.8, 1.0) + cui])))
    assert weights["cosine"] == pytest.approx(0.5)
    assert weights["static"] == pytest.approx(0.5)
    assert weights["cui"] == pytest.approx(np.log(0.6 / 0.4) / np.log(0.8 / 0.2), rel=0.02)
    alone = dict(zip(FEATURES, fit_ranker_weights([both(1_000, 0.8, 1.0) + cui], without=["static", "cui"])))
    assert (alone["cosine"], alone["static"], alone["cui"]) == (1.0, 0.0, 0.0)


def test_a_static_cosine_without_a_weight_above_zero_is_left_out() -> None:
    """In some mentions the static cosine is wrong more often than right; in others it decides, and the cosine would get a weight below 0."""
    against = [*both(400, 0.9, 0.0), *(example([{"static": 1.0}, {}], [i < 100, i >= 100]) for i in range(400))]
    assert dict(zip(FEATURES, fit_ranker_weights([against])))["static"] == 0.0
    instead = [*both(400, 0.9, 2.0), *(example([{"cosine": 1.0}, {}], [i < 50, i >= 50]) for i in range(200))]
    weights = dict(zip(FEATURES, fit_ranker_weights([instead])))
    assert (weights["cosine"], weights["static"]) == (1.0, 0.0)
    wrong = [example([{"cosine": 1.0}, {}], [False, True]) for _ in range(400)]
    with pytest.raises(SapbertError, match=r"\[E047\].*higher cosine"):
        fit_ranker_weights([wrong])
