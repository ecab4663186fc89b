"""How far a figure may be chance: intervals of means, and whether two systems differ. Numpy alone; what belongs together (a document's
mentions) is drawn together."""

from __future__ import annotations

from typing import Optional, Tuple

import numpy as np
import numpy.typing as npt

from ..loop.retrieval import Ints1d
from .metrics import Floats1d

RESAMPLES = 2_000
SHUFFLES = 10_000
LEVEL = 0.95
_BYTES = 64_000_000  # of draws in memory at a time
PROTOCOL = (
    f"Intervals: {LEVEL:.0%}, by the percentile bootstrap over documents ({RESAMPLES:,} resamples; Efron and Tibshirani 1993, chapters 8 and 13). p: "
    f"of a difference at 1 at least as large where nothing but chance tells two systems apart, by paired approximate randomisation over "
    f"documents ({SHUFFLES:,} shuffles, p = (b + 1) / (n + 1); Noreen 1989). Names and mentions without documents are each one by itself. Of "
    "Spearman's correlation: over pairs of texts, whose ranks are taken anew in each resample. Seeds of "
    "one system are averaged before, so both speak of other texts, not of other trainings; the p of many systems are not corrected for their number."
)


def totals(values: npt.NDArray[np.float64], units: Ints1d) -> Tuple[npt.NDArray[np.float64], Floats1d]:
    """values (m, s), units (m,): which document, from 0 without gaps -> sums (u, s) and counts (u,). RAISES: ValueError."""
    if values.ndim != 2 or len(values) != len(units):
        raise ValueError(f"values of shape {values.shape} but {len(units)} units")
    if not len(units):
        raise ValueError("no values")
    sums = np.zeros((int(units.max()) + 1, values.shape[1]))
    np.add.at(sums, units, values)
    return sums, np.bincount(units).astype(np.float64)


def intervals(
    values: npt.NDArray[np.float64], units: Ints1d, *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> npt.NDArray[np.float64]:
    """values (m, s): outcomes of s systems on the same m mentions; units (m,): the document of each, from 0 without gaps -> (2, s), the
    lower and upper end of each mean's interval, in the values' unit.

    The percentile bootstrap: as many documents as there are, drawn with replacement, give one mean (of mentions, so that a long document
    weighs more); the interval is what holds the middle `level` of the means. With one document nothing can be said: its ends are the mean.
    SOURCE: Efron and Tibshirani, An Introduction to the Bootstrap, 1993: chapter 8 (units), chapter 13 (percentiles).
    """
    sums, counts = totals(values, units)
    chance = np.random.default_rng(seed)
    n = len(counts)
    means = np.empty((resamples, values.shape[1]))
    step = max(1, _BYTES // (16 * n))
    for start in range(0, resamples, step):
        drawn = chance.multinomial(n, np.full(n, 1.0 / n), size=min(step, resamples - start)).astype(np.float64)  # (draws, u)
        means[start : start + step] = drawn @ sums / (drawn @ counts)[:, None]
    tail = (1.0 - level) / 2.0
    return np.quantile(means, [tail, 1.0 - tail], axis=0)


def ratio_interval(over: Floats1d, under: Floats1d, *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0) -> Tuple[float, float]:
    """over, under (u,): of each document, what a ratio of sums (such as F1: twice the right ones over found and gold ones) is made of ->
    the ends of its interval, as `intervals` draws it. A draw in which nothing is under the line counts as 0. RAISES: ValueError."""
    if over.shape != under.shape or over.ndim != 1 or not len(over):
        raise ValueError(f"sums of shapes {over.shape} and {under.shape}")
    chance = np.random.default_rng(seed)
    drawn = chance.multinomial(len(over), np.full(len(over), 1.0 / len(over)), size=resamples).astype(np.float64)  # (draws, u)
    above, below = drawn @ over, drawn @ under
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(np.divide(above, below, out=np.zeros_like(above), where=below > 0), [tail, 1.0 - tail])
    return float(low), float(high)


def randomisation(base: Floats1d, others: npt.NDArray[np.float64], units: Ints1d, *, shuffles: int = SHUFFLES, seed: int = 0) -> Floats1d:
    """base (m,), others (m, s): outcomes of one system and of s others on the same mentions -> (s,), two-sided p of each difference.

    In each shuffle the outcomes of a document change places between the two systems or do not, by the toss of a coin; b counts the
    shuffles whose difference is at least as large, either way. p = (b + 1) / (shuffles + 1), which is never 0.
    SOURCE: Noreen, Computer-Intensive Methods for Testing Hypotheses, 1989; Yeh, COLING 2000, for systems on the same texts.
    """
    sums, _ = totals(others - base[:, None], units)  # (u, s): the denominator is the same in every shuffle
    chance = np.random.default_rng(seed)
    observed = np.abs(sums.sum(axis=0)) - 1e-9  # what is equal but for the order of adding up is as large
    step = max(1, _BYTES // (8 * len(sums)))
    larger = np.zeros(sums.shape[1])
    for start in range(0, shuffles, step):
        signs = 2.0 * chance.integers(0, 2, size=(min(step, shuffles - start), len(sums)), dtype=np.int8) - 1.0  # (draws, u)
        larger += (np.abs(signs @ sums) >= observed).sum(axis=0)
    return (larger + 1.0) / (shuffles + 1.0)


def spearman_interval(
    likenesses: npt.NDArray[np.float64], human: Floats1d, *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> Optional[Tuple[float, float]]:
    """likenesses (m, s): what the s seeds of one system say of m pairs; human (m,): what people say -> the lower and upper end of the interval of
    100 times Spearman's correlation, the mean over seeds.

    The percentile bootstrap over pairs. Equal values have the mean of their ranks. A resample in which all is equal has no correlation and is
    left out; None where all are. The same seed draws the same pairs for every system. SOURCE: as `intervals`. RAISES: ValueError.
    """
    from scipy.stats import rankdata

    if likenesses.ndim != 2 or len(likenesses) != len(human) or not len(human):
        raise ValueError(f"likenesses of shape {likenesses.shape} but {len(human)} scores")
    chance = np.random.default_rng(seed)
    m, n_seeds = likenesses.shape
    found = np.zeros(resamples)
    step = max(1, _BYTES // (8 * m))
    for start in range(0, resamples, step):
        drawn = chance.integers(0, m, size=(min(step, resamples - start), m))

        def ranked(values: Floats1d, drawn: Ints1d = drawn) -> npt.NDArray[np.float64]:
            """(draws, m) ranks about their mean, of length 1; nan where all are equal."""
            ranks = rankdata(values[drawn], axis=1) - (m + 1) / 2.0
            lengths = np.sqrt((ranks**2).sum(axis=1, keepdims=True))
            return np.divide(ranks, lengths, out=np.full_like(ranks, np.nan), where=lengths > 0)

        said = ranked(human)
        for column in likenesses.T:
            found[start : start + step] += (ranked(column) * said).sum(axis=1) / n_seeds
    found = 100.0 * found[np.isfinite(found)]
    if not len(found):
        return None
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(found, [tail, 1.0 - tail]).tolist()
    return low, high
