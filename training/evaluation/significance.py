"""Compute how sure a figure is: intervals of means, and tests of whether two systems differ.

scipy does the resampling and the tests; this module defines what is resampled. The unit is a document: its mentions are drawn together, because
they are similar to each other.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..loop.retrieval import Ints1d
from .metrics import Floats1d

RESAMPLES = 2_000
SHUFFLES = 10_000
LEVEL = 0.95
_BYTES = 64_000_000  # memory for resampled values
_FEW = 1_000  # documents up to which scipy draws the signs; for 20,000 it would take half a minute
_DECIMALS = 9  # rounding, so that the order of addition does not make equal differences unequal
PROTOCOL = (
    f"Intervals: {LEVEL:.0%}, by the percentile bootstrap over documents ({RESAMPLES:,} resamples; Efron and Tibshirani 1993, chapters 8 and 13). "
    "p: the probability of a difference at 1 that is at least as large if the two systems were equally good, by paired approximate randomisation "
    f"over documents ({SHUFFLES:,} shuffles, p = (b + 1) / (n + 1); for up to 13 documents all 2^n shuffles, p = b / 2^n; Noreen 1989). Names, "
    "and mentions without a document, count as one document each. Correlations: resampled over pairs of texts; for Spearman's, values are ranked "
    "again in each resample. Seeds of one system are averaged first, so intervals and p say how figures vary with other texts, not with other "
    "trainings. The p of several systems are not corrected for their number. t: the p of the paired t-test over mentions (ttest_rel), as if they "
    "were independent; t_folds_p: the same over folds; t_seeds_p: Welch's t-test of the seeds of two systems (ttest_ind), which is about other "
    "trainings. SapBERT's Table 1 reports a t-test and does not say which."
)
Floats2d64 = npt.NDArray[np.float64]


def totals(values: Floats2d64, units: Ints1d) -> tuple[Floats2d64, Floats1d]:
    """Sum the outcomes of each document.

    Args:
        values: (m, s) outcomes of s systems on m mentions.
        units: (m,) document of each mention, from 0 without gaps.

    Returns:
        Sums (u, s) and numbers of mentions (u,) of the u documents.

    Raises:
        ValueError: There are no values, or their number is not that of `units`.
    """
    if values.ndim != 2 or len(values) != len(units):
        raise ValueError(f"values of shape {values.shape} but {len(units)} units")
    if not len(units):
        raise ValueError("no values")
    sums = np.zeros((int(units.max()) + 1, values.shape[1]))
    np.add.at(sums, units, values)
    return sums, np.bincount(units).astype(np.float64)


def intervals(values: Floats2d64, units: Ints1d, *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0) -> Floats2d64:
    """Compute the bootstrap interval of the mean of each system.

    In each resample, as many documents as there are are drawn with replacement, and the mean over their mentions is computed, so a long document
    weighs more. The interval holds the middle `level` of these means. All systems get the same resamples. The interval of a single document is its
    mean.

    Args:
        values: (m, s) outcomes of s systems on the same m mentions.
        units: (m,) document of each mention, from 0 without gaps.
        resamples: Number of means that are drawn.
        level: Share of the means that the interval holds.
        seed: Seed of the draws.

    Returns:
        (2, s) lower and upper ends, in the unit of the values.

    Raises:
        ValueError: Values and units do not fit.

    Source:
        Efron and Tibshirani, An Introduction to the Bootstrap, 1993: chapter 8 (units), chapter 13 (percentiles).
    """
    sums, counts = totals(values, units)

    def means(drawn: Ints1d, axis: int) -> Floats2d64:
        return np.moveaxis(sums[drawn].sum(axis=-2) / counts[drawn].sum(axis=-1)[..., None], -1, 0)  # (s, draws)

    return _percentiles(_resampled(len(counts), means, resamples, seed, width=sums.shape[1]), level)


def ratio_interval(over: Floats1d, under: Floats1d, *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0) -> tuple[float, float]:
    """Compute the bootstrap interval of a ratio of sums, such as F1.

    Args:
        over: (u,) share of each document in the numerator; for F1, twice the right mentions.
        under: (u,) share of each document in the denominator; for F1, found and gold mentions.
        resamples: Number of ratios that are drawn. A resample whose denominator is 0 counts as 0.
        level: Share of the ratios that the interval holds.
        seed: Seed of the draws.

    Returns:
        The lower and the upper end.

    Raises:
        ValueError: The two have different numbers of documents.
    """
    if over.shape != under.shape or over.ndim != 1 or not len(over):
        raise ValueError(f"sums of shapes {over.shape} and {under.shape}")

    def ratios(drawn: Ints1d, axis: int) -> Floats1d:
        above, below = over[drawn].sum(axis=-1), under[drawn].sum(axis=-1)
        return np.asarray(np.divide(above, below, out=np.zeros_like(above), where=below > 0), dtype=np.float64)

    low, high = _percentiles(_resampled(len(over), ratios, resamples, seed), level).tolist()
    return low, high


def randomisation(base: Floats1d, others: Floats2d64, units: Ints1d, *, shuffles: int = SHUFFLES, seed: int = 0) -> Floats1d:
    """Test whether other systems differ from one system, by paired randomisation over documents.

    In each shuffle, the outcomes of each document are swapped between the two systems with probability 1/2. If b shuffles have a difference that is
    at least as large in either direction, p = (b + 1) / (shuffles + 1), which is never 0. If there are no more than `shuffles` ways to swap, each
    is taken once and p is exact.

    Args:
        base: (m,) outcomes of the one system.
        others: (m, s) outcomes of the s other systems on the same mentions.
        units: (m,) document of each mention, from 0 without gaps.
        shuffles: Number of shuffles that are drawn. All systems get the same shuffles.
        seed: Seed of the draws.

    Returns:
        (s,) two-sided p of each difference.

    Raises:
        ValueError: Values and units do not fit.

    Source:
        Noreen, Computer-Intensive Methods for Testing Hypotheses, 1989; Yeh, COLING 2000, for systems on the same texts.
    """
    from scipy.stats import permutation_test

    sums, _ = totals(others - base[:, None], units)  # (u, s) differences; the number of mentions is the same in every shuffle
    if len(sums) == 1:  # scipy needs two documents; with one, every shuffle has the same absolute difference
        return np.ones(sums.shape[1])

    def difference(signs: Floats2d64, axis: int) -> Floats2d64:
        return np.asarray(np.round(np.abs(signs @ sums), _DECIMALS), dtype=np.float64)  # (draws, s)

    chance = np.random.default_rng(seed)
    if len(sums) > _FEW:
        return _drawn_p(sums, difference, shuffles, chance)
    found = permutation_test(
        (np.ones(len(sums)),),  # with one sample, "samples" changes signs: the difference of a document is reversed
        difference,
        permutation_type="samples",
        vectorized=True,
        n_resamples=shuffles,
        batch=max(1, _BYTES // (32 * len(sums))),
        alternative="greater",  # on the absolute difference, so both directions count
        axis=-1,
        rng=chance,
    )
    return np.asarray(found.pvalue, dtype=np.float64)


def _drawn_p(sums: Floats2d64, difference: Callable[[Floats2d64, int], Floats2d64], shuffles: int, chance: np.random.Generator) -> Floats1d:
    """Compute p like scipy's `permutation_test` with random signs, but draw each sign as one bit, which is much faster for thousands of documents.

    Args:
        sums: (u, s) differences of the u documents.
        difference: (signs (draws, u), axis) -> (draws, s) absolute differences.
        shuffles: Number of rows of signs that are drawn.
        chance: Source of random numbers.

    Returns:
        (s,) p = (b + 1) / (shuffles + 1).
    """
    documents = len(sums)
    batch = max(1, _BYTES // (16 * documents))
    found = difference(np.ones((1, documents)), -1)
    larger = np.zeros(sums.shape[1], dtype=np.int64)
    for start in range(0, shuffles, batch):
        bits = chance.integers(0, 256, (min(batch, shuffles - start), -(-documents // 8)), dtype=np.uint8)
        signs = 1.0 - 2.0 * np.unpackbits(bits, axis=1, count=documents)
        larger += (difference(signs, -1) >= found).sum(axis=0)
    return (larger + 1.0) / (shuffles + 1.0)


def paired_t(base: Sequence[float] | Floats1d, other: Sequence[float] | Floats1d) -> float | None:
    """Test whether two systems differ, with the paired t-test (scipy's `ttest_rel`, two-sided).

    Args:
        base: (n,) outcomes of the one system.
        other: (n,) outcomes of the other on the same mentions or folds.

    Returns:
        p; 1.0 if all outcomes are the same; None for fewer than two.

    Source:
        SapBERT's Table 1 (Liu et al., NAACL 2021) marks differences with p < 0.05 in a "T-test". It does not say which test, or over which units.
    """
    from scipy.stats import ttest_rel

    differences = np.asarray(other, dtype=np.float64) - np.asarray(base, dtype=np.float64)
    if len(differences) < 2:
        return None
    if np.ptp(differences) < 10.0**-_DECIMALS:  # t is not defined without variance: the outcomes are equal, or the difference is always the same
        return 1.0 if abs(differences[0]) < 10.0**-_DECIMALS else 0.0
    return float(ttest_rel(other, base).pvalue)


def welch_t(base: Sequence[float], other: Sequence[float]) -> float | None:
    """Test whether trainings of two systems differ, with Welch's t-test over their seeds (scipy's `ttest_ind`, unequal variances, two-sided).

    Args:
        base: (n,) the figure of each training of the one system.
        other: (m,) the figure of each training of the other.

    Returns:
        p; None if a system has fewer than two trainings, or none of the figures varies.
    """
    from scipy.stats import ttest_ind

    if min(len(base), len(other)) < 2 or max(np.ptp(base), np.ptp(other)) < 10.0**-_DECIMALS:
        return None
    return float(ttest_ind(other, base, equal_var=False).pvalue)


def correlation_interval(
    likenesses: Floats2d64, human: Floats1d, *, ranked: bool = True, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> tuple[float, float] | None:
    """Compute the bootstrap interval of Spearman's or Pearson's correlation x 100, averaged over seeds.

    Pairs of texts are resampled. For Spearman's correlation, equal values get the mean of their ranks. A resample in which all values are equal has
    no correlation and is left out. The same seed draws the same pairs for every system.

    Args:
        likenesses: (m, s) similarities of the texts of m pairs, by s seeds of one system.
        human: (m,) similarities that people gave.
        ranked: True for Spearman's correlation, of the ranks of the values; False for Pearson's, of the values.
        resamples: Number of correlations that are drawn.
        level: Share of the correlations that the interval holds.
        seed: Seed of the draws.

    Returns:
        The lower and the upper end; None if no resample has a correlation.

    Raises:
        ValueError: There are no pairs, or their number is not that of the human scores.

    Source:
        See `intervals`.
    """
    from scipy.stats import DegenerateDataWarning, rankdata

    if likenesses.ndim != 2 or len(likenesses) != len(human) or not len(human):
        raise ValueError(f"likenesses of shape {likenesses.shape} but {len(human)} scores")

    def correlations(drawn: Ints1d, axis: int) -> Floats1d:
        def centred(values: Floats1d) -> Floats2d64:
            """Return ranks or values (draws, m) minus their mean, scaled to length 1; nan if all are equal."""
            own = rankdata(values[drawn], axis=-1) if ranked else values[drawn]
            own = np.where(np.ptp(own, axis=-1, keepdims=True) > 0, own - own.mean(axis=-1, keepdims=True), 0.0)
            lengths = np.sqrt((own**2).sum(axis=-1, keepdims=True))
            return np.asarray(np.divide(own, lengths, out=np.full_like(own, np.nan), where=lengths > 0), dtype=np.float64)

        theirs = centred(human)
        each = [(centred(column) * theirs).sum(axis=-1) for column in likenesses.T]
        return np.asarray(np.mean(each, axis=0), dtype=np.float64)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateDataWarning)  # scipy warns of resamples without a correlation, which are left out below
        found = 100.0 * _resampled(len(human), correlations, resamples, seed)
    found = found[np.isfinite(found)]
    if not len(found):
        return None
    low, high = _percentiles(found, level).tolist()
    return low, high


def _resampled(n: int, statistic: Callable[[Ints1d, int], npt.NDArray[np.float64]], resamples: int, seed: int, width: int = 1) -> Any:
    """Draw resamples of n units with scipy's bootstrap and compute a statistic of each.

    Args:
        n: Number of units.
        statistic: (drawn units (draws, n), axis) -> (..., draws).
        resamples: Number of resamples.
        seed: Seed of the draws.
        width: Number of values that the statistic looks up for each unit; it limits the memory of a batch.

    Returns:
        (..., resamples) values of the statistic.
    """
    from scipy.stats import bootstrap

    if n == 1:  # scipy needs two units; every resample of one unit is the same
        return np.repeat(statistic(np.zeros((1, 1), dtype=np.int64), -1), resamples, axis=-1)
    found = bootstrap(
        (np.arange(n),),
        statistic,
        vectorized=True,
        method="percentile",
        n_resamples=resamples,
        batch=max(1, _BYTES // (16 * n * width)),
        rng=np.random.default_rng(seed),
    )
    return found.bootstrap_distribution


def _percentiles(values: npt.NDArray[np.float64], level: float) -> npt.NDArray[np.float64]:
    """Return the ends (2, ...) of the interval that holds the middle `level` of values (..., resamples)."""
    tail = (1.0 - level) / 2.0
    return np.asarray(np.quantile(values, [tail, 1.0 - tail], axis=-1), dtype=np.float64)
