"""Intervals and randomisation, compared with values that can be counted by hand."""

from __future__ import annotations

import time
from itertools import product

import numpy as np
import pytest
from scipy.stats import t as student_t

from training.evaluation import significance
from training.evaluation.significance import correlation_interval, intervals, paired_t, randomisation, ratio_interval, totals, welch_t


def column(*values):
    return np.array(values, dtype=np.float64)[:, None]


def test_totals_by_document():
    sums, counts = totals(np.array([[1.0, 0.0], [0.5, 1.0], [0.0, 1.0]]), np.array([1, 0, 1]))
    assert sums.tolist() == [[0.5, 1.0], [1.0, 1.0]]
    assert counts.tolist() == [1.0, 2.0]


def test_two_documents_of_which_one_is_right():
    """Of the 4 resamples, 1, 2 and 1 have the means 0, 1/2 and 1: the middle 95% go from 0 to 1, the middle 40% are 1/2."""
    values, units = column(0, 1), np.array([0, 1])
    assert intervals(values, units).ravel().tolist() == [0.0, 1.0]
    assert intervals(values, units, level=0.4).ravel().tolist() == [0.5, 0.5]


def test_a_long_document_weighs_more():
    """Three right mentions in one document, one wrong in the other: the means 0, 3/4 and 1 have the probabilities 1/4, 1/2 and 1/4."""
    values, units = column(1, 1, 1, 0), np.array([0, 0, 0, 1])
    assert intervals(values, units).ravel().tolist() == [0.0, 1.0]  # a resample has 2, 4 or 6 mentions, not always 4
    assert intervals(values, units, level=0.4).ravel().tolist() == [0.75, 0.75]


def test_mentions_of_a_document_are_drawn_together():
    values = column(*[0] * 50, *[1] * 50)
    together = intervals(values, np.repeat([0, 1], 50)).ravel()
    assert together.tolist() == [0.0, 1.0]
    low, high = intervals(values, np.arange(100)).ravel()  # binomial: 1.96 standard errors of 0.05
    assert low == pytest.approx(0.5 - 0.098, abs=0.015)
    assert high == pytest.approx(0.5 + 0.098, abs=0.015)


def test_means_are_over_the_mentions_that_were_drawn():
    """Documents of 1, 2 and 3 mentions; all 27 resamples listed. A mean of the resample's own mentions never exceeds 1."""
    values, units = column(1, 0, 1, 1, 1, 0), np.array([0, 1, 1, 2, 2, 2])
    sums, counts = np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])
    means = sorted(sums[list(drawn)].sum() / counts[list(drawn)].sum() for drawn in product(range(3), repeat=3))
    for level in (0.5, 0.9):
        tail = (1 - level) / 2
        ends = [means[round(tail * 26)], means[round((1 - tail) * 26)]]
        assert intervals(values, units, level=level, resamples=20_000).ravel() == pytest.approx(ends, abs=0.05)
    assert intervals(values, units).max() <= 1.0


def test_intervals_agree_with_a_bootstrap_written_out():
    """The same means, with multinomial counts of documents: the ends differ only by the randomness of the draws."""
    chance = np.random.default_rng(1)
    values, units = (chance.random((400, 2)) > 0.3).astype(float), np.sort(np.r_[np.arange(40), chance.integers(0, 40, 360)])
    sums, counts = totals(values, units)
    drawn = chance.multinomial(40, np.full(40, 1 / 40), size=20_000)
    ends = np.quantile(drawn @ sums / (drawn @ counts)[:, None], [0.025, 0.975], axis=0)
    assert intervals(values, units, resamples=20_000) == pytest.approx(ends, abs=0.003)
    assert intervals(values, units) == pytest.approx(ends, abs=0.01)


def test_randomisation_agrees_with_one_written_out():
    chance = np.random.default_rng(2)
    base, others = chance.random(60), chance.random((60, 3)) + [0.0, 0.05, 0.1]
    units = np.repeat(np.arange(20), 3)
    sums, _ = totals(others - base[:, None], units)
    signs = chance.choice([-1.0, 1.0], size=(20_000, 20))
    p = ((np.abs(signs @ sums) >= np.abs(sums.sum(axis=0)) - 1e-9).sum(axis=0) + 1) / 20_001
    assert randomisation(base, others, units) == pytest.approx(p, abs=0.015)


def test_one_document_says_nothing():
    assert ratio_interval(np.array([1.0]), np.array([4.0])) == (0.25, 0.25)
    assert randomisation(np.zeros(2), np.ones((2, 1)), np.array([0, 0])).tolist() == [1.0]
    assert intervals(column(1, 0, 0), np.array([0, 0, 0])).ravel() == pytest.approx([1 / 3, 1 / 3])


def test_the_interval_of_one_document_is_the_mean_of_each_system():
    values = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0], [1.0, 0.0]])
    assert intervals(values, np.zeros(4, dtype=int)).tolist() == [[0.75, 0.25], [0.75, 0.25]]


def test_systems_are_drawn_alike_and_the_seed_decides():
    chance = np.random.default_rng(3)
    values, units = chance.random((60, 2)), np.repeat(np.arange(20), 3)
    both = intervals(values, units, seed=5)
    assert both.shape == (2, 2)
    assert both[:, :1] == pytest.approx(intervals(values[:, :1], units, seed=5))
    assert (intervals(values, units, seed=5) == both).all()
    assert (intervals(values, units, seed=6) != both).any()


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([1.0, 1.0], 1 / 2),  # both signs equal: 2 of 4
        ([1.0, 2.0, 4.0], 2 / 8),
        ([1.0, -1.0], 1.0),  # every shuffle differs at least as much as no difference
        ([1.0, 1.0, 1.0, -1.0], 10 / 16),  # a sum of 2 or more, or of -2 or less: all but the 6 of sum 0
        ([1.0] * 6, 2 / 64),
    ],
)
def test_randomisation_comes_near_to_counting_all_signs(differences, p):
    found = randomisation(np.zeros(len(differences)), column(*differences), np.arange(len(differences)))
    assert found[0] == pytest.approx(p, abs=0.015)


def test_documents_change_places_as_a_whole():
    base, other = np.zeros(40), np.ones((40, 1))
    assert randomisation(base, other, np.repeat([0, 1], 20))[0] == pytest.approx(1 / 2, abs=0.015)
    assert randomisation(base, other, np.arange(40))[0] == 1 / 10_001  # never 0: (0 + 1) / (10,000 + 1)


def test_equal_systems_do_not_differ():
    values = np.array([0.2, 1.0, 0.0])
    assert randomisation(values, values[:, None], np.arange(3)).tolist() == [1.0]


def test_the_seed_decides_the_shuffles_and_systems_share_them():
    chance = np.random.default_rng(0)
    base, others = chance.random(30), chance.random((30, 2))
    both = randomisation(base, others, np.arange(30), seed=1)
    assert both[:1] == pytest.approx(randomisation(base, others[:, :1], np.arange(30), seed=1))
    assert (randomisation(base, others, np.arange(30), seed=2) != both).any()


def test_many_documents_have_the_p_that_scipy_finds(monkeypatch):
    """From 1,001 documents on, our code draws the shuffles, not scipy; the result is compared with scipy's permutation test."""
    chance = np.random.default_rng(4)
    base, others = (chance.random(1001) > 0.3).astype(float), (chance.random((1001, 3)) > [0.3, 0.33, 0.27]).astype(float)
    drawn = randomisation(base, others, np.arange(1001))
    monkeypatch.setattr(significance, "_FEW", 1001)
    by_scipy = randomisation(base, others, np.arange(1001))
    assert (drawn != by_scipy).any()
    assert drawn == pytest.approx(by_scipy, abs=0.02)  # three standard errors of a difference of two shares of 10,000


def test_many_documents_give_a_p_that_is_known():
    """If all 2,000 documents are better, no shuffle reaches this difference. If as many are better as worse, every shuffle does."""
    units = np.arange(2000)
    assert randomisation(np.zeros(2000), np.ones((2000, 1)), units, shuffles=99).tolist() == [0.01]
    assert randomisation(np.zeros(2000), column(*[1, -1] * 1000), units, shuffles=99).tolist() == [1.0]


def test_every_way_to_turn_eight_documents_is_drawn_alike():
    """Of the 2^8 sign patterns of eight equal differences, only the two with equal signs are as large: p = 2/256."""
    found = significance._drawn_p(np.ones((8, 1)), lambda signs, axis: np.abs(signs @ np.ones((8, 1))), 100_000, np.random.default_rng(0))
    assert found == pytest.approx([2 / 256], abs=1e-3)  # three and a half standard errors


def test_thousands_of_documents_are_shuffled_without_scipy(monkeypatch):
    """The held-out names are 3,717 documents. Our shuffles are computed as one matrix product; scipy's test would draw them one by one."""

    def refused(*_, **__):
        raise AssertionError("scipy was asked to shuffle thousands of documents")

    chance = np.random.default_rng(0)
    values = (chance.random((3717, 3)) > 0.3).astype(float)
    monkeypatch.setattr("scipy.stats.permutation_test", refused)
    start = time.process_time()
    found = randomisation(values[:, 0], values[:, 1:], np.arange(3717))
    assert time.process_time() - start < 10.0  # it takes about 0.2 s; scipy's test takes longer
    assert ((found > 0.0) & (found <= 1.0)).all()


def test_the_size_of_the_real_sets_takes_no_time():
    """BC5CDR dev has 4,244 mentions of 500 documents; the 3,717 held-out names are one unit each. Two columns for each system."""
    chance = np.random.default_rng(0)
    values, units = (chance.random((4244, 12)) > 0.3).astype(float), np.sort(chance.integers(0, 500, 4244))
    units = np.unique(units, return_inverse=True)[1]
    start = time.process_time()
    intervals(values, units)
    randomisation(values[:, 0], values[:, 1:], units)
    intervals(values[:3717], np.arange(3717))
    assert time.process_time() - start < 5.0


def test_unlike_lengths_and_nothing():
    with pytest.raises(ValueError, match="2 units"):
        intervals(column(1.0), np.array([0, 1]))
    with pytest.raises(ValueError, match="no values"):
        intervals(np.zeros((0, 1)), np.zeros(0, dtype=int))


def test_interval_of_a_ratio_of_sums():
    """Two documents, drawn twice with replacement, give 1/2 (twice the first), 2/3, or 1/1, with probabilities 1/4, 1/2, 1/4."""
    assert ratio_interval(np.array([1.0, 1.0]), np.array([2.0, 1.0])) == (0.5, 1.0)
    low, high = ratio_interval(np.array([1.0, 1.0]), np.array([2.0, 1.0]), level=0.4)
    assert (low, high) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert ratio_interval(np.array([1.0, 0.0]), np.array([1.0, 0.0])) == (0.0, 1.0)  # the second document has no found and no gold mention
    with pytest.raises(ValueError, match="shapes"):
        ratio_interval(np.zeros(2), np.zeros(3))


def test_spearman_of_three_pairs():
    """Of the 24 resamples with at least two different pairs, 6 have only the last two pairs (-100), 6 all three (50), 12 the others (100)."""
    human, likeness = np.array([1.0, 2.0, 3.0]), column(0.1, 0.9, 0.5)
    assert correlation_interval(likeness, human, level=0.4) == pytest.approx((50, 100))  # quantiles 0.3 and 0.7
    assert correlation_interval(likeness, human, level=0.6) == pytest.approx((-100, 100))  # 0.2 and 0.8
    seeds = np.hstack([likeness, column(1.0, 2.0, 3.0)])  # the other is always 100, so means are 0, 75, 100
    assert correlation_interval(seeds, human, level=0.4) == pytest.approx((75, 100))
    assert correlation_interval(seeds, human, level=0.6) == pytest.approx((0, 100))
    assert correlation_interval(column(1.0, 1.0, 1.0), human) is None
    with pytest.raises(ValueError, match="2 scores"):
        correlation_interval(likeness, human[:2])


def test_the_seed_decides_each_interval_and_is_0_by_default():
    chance = np.random.default_rng(7)
    values, units = chance.random((30, 2)), np.arange(30)
    over, under = chance.random(30), chance.random(30) + 1.0
    likenesses, human = chance.random((30, 1)), chance.random(30)
    assert (intervals(values, units) == intervals(values, units, seed=0)).all()
    assert ratio_interval(over, under) == ratio_interval(over, under, seed=0) != ratio_interval(over, under, seed=1)
    assert (
        correlation_interval(likenesses, human) == correlation_interval(likenesses, human, seed=0) != correlation_interval(likenesses, human, seed=1)
    )
    assert (randomisation(human, values, units) == randomisation(human, values, units, seed=0)).all()


def test_as_many_resamples_are_drawn_as_asked():
    """The range of two resampled means is much smaller than that of 2,000."""
    values, units = np.arange(10.0)[:, None], np.arange(10)
    few, many = (np.ptp(intervals(values, units, resamples=n, level=1.0, seed=1)) for n in (2, 2_000))
    assert 0 < few < many / 2


def test_a_ratio_below_a_denominator_of_1():
    assert ratio_interval(np.array([0.25, 0.25]), np.array([0.5, 0.5])) == (0.5, 0.5)
    assert ratio_interval(np.array([0.25]), np.array([0.5])) == (0.5, 0.5)


@pytest.mark.parametrize("shape", [(2, 2), (0,)])
def test_sums_that_are_no_column_are_refused(shape):
    with pytest.raises(ValueError, match=r"sums of shapes \("):
        ratio_interval(np.zeros(shape), np.zeros(shape))


def test_two_pairs_have_a_correlation_and_equal_values_no_warning():
    with np.errstate(all="raise"):
        assert correlation_interval(column(1.0, 2.0), np.array([1.0, 3.0])) == pytest.approx((100, 100))
        assert correlation_interval(column(2.0, 1.0), np.array([1.0, 3.0])) == pytest.approx((-100, -100))


def test_values_that_are_all_equal_have_no_correlation_whatever_their_mean_is_rounded_to():
    """The rounded mean of three times 0.1 or 0.2 is above 0.1 or 0.2: such deviations would seem to correlate. The others lie on a falling line."""
    assert correlation_interval(column(0.2, 0.2, 0.0), np.array([0.1, 0.1, 0.7]), ranked=False) == pytest.approx((-100, -100))


def test_a_single_document_is_drawn_alone_each_time():
    drawn = significance._resampled(1, lambda units, axis: (units + 1).sum(axis=axis), 5, 0)
    assert drawn.tolist() == [1, 1, 1, 1, 1]


def test_no_values_is_said():
    with pytest.raises(ValueError, match=r"^no values$"):
        totals(np.zeros((0, 1)), np.zeros(0, dtype=int))


# -- t-tests ------------------------------------------------------------------------------------------------------------


def test_the_paired_t_test_by_hand():
    """Differences 1, 1, 0, 2: mean 1, variance 2/3, t = 1 / sqrt(2 / 3 / 4) = sqrt(6), 3 degrees of freedom."""
    base, other = np.array([0.0, 1.0, 1.0, 0.0]), np.array([1.0, 2.0, 1.0, 2.0])
    t = 6**0.5
    # the distribution function for 3 degrees of freedom in closed form
    upper = 0.5 - (np.arctan(t / 3**0.5) + t / 3**0.5 / (1 + t * t / 3)) / np.pi
    assert paired_t(base, other) == pytest.approx(2 * upper)
    assert paired_t(other, base) == pytest.approx(2 * upper)
    assert paired_t(base, base) == 1.0
    assert paired_t(base, base + 1.0) == 0.0  # the difference is always the same
    assert paired_t(base[:1], other[:1]) is None
    # two differences, 1 and 2: mean 3/2, variance 1/2, t = 3, and of one degree of freedom the upper tail is 1/2 - arctan(t) / pi
    assert paired_t(base[:2], base[:2] + [1.0, 2.0]) == pytest.approx(1 - 2 * np.arctan(3) / np.pi)


def test_differences_that_are_equal_but_for_rounding_are_equal():
    nearly = np.array([0.0, 7e-10, 0.0])  # below 1e-9
    assert paired_t(np.zeros(3), 0.1 + nearly) == 0.0
    assert paired_t(np.zeros(3), np.full(3, 7e-10)) == 1.0
    assert welch_t(nearly.tolist(), (1.0 + nearly).tolist()) is None


def test_welchs_t_test_by_hand():
    """Means 1 and 3, variances 2 and 2, two each: t = 2 / sqrt(2), 2 degrees of freedom, p = 1 - t / sqrt(2 + t^2)."""
    t = 2 / 2**0.5
    assert welch_t([0.0, 2.0], [2.0, 4.0]) == pytest.approx(1 - t / (2 + t * t) ** 0.5)
    # variances 2 of two and 1 of three: t = 3 / sqrt(2/2 + 1/3), (4/3)^2 / (1 + (1/3)^2 / 2) = 32/19 degrees of freedom
    assert welch_t([0.0, 2.0], [3.0, 4.0, 5.0]) == pytest.approx(2 * student_t(32 / 19).sf(3 / (4 / 3) ** 0.5))
    assert welch_t([1.0], [2.0, 4.0]) is None
    assert welch_t([1.0, 1.0], [2.0, 2.0]) is None


def test_pearsons_interval_is_of_the_values():
    """A quarter of the resamples that have a correlation hold all three pairs; in the others two points are on a line."""
    human, likeness = np.array([0.0, 1.0, 10.0]), np.array([[0.0], [1.0], [2.0]])
    # deviations -11/3, -8/3, 19/3 and -1, 0, 1: 10 / sqrt(182 / 3 * 2)
    whole = 100 * 10 / (182 / 3 * 2) ** 0.5
    assert correlation_interval(likeness, human, ranked=False, level=0.8) == pytest.approx((whole, 100))
    assert correlation_interval(likeness, human, level=0.8) == pytest.approx((100, 100))  # the ranks agree
