"""Figures of a review: precision of the linker with intervals, agreement of two reviewers, and how many links are left to review."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from ..render.records import NIL
from .events import UNKNOWN
from .log import Log
from .store import ReviewStore

LEVEL = 0.95  # confidence level of intervals
BANDS = (0.0, 0.6, 0.8, 0.9, 0.95, 1.0)  # bounds of the bands of probabilities


class Precision(NamedTuple):
    """The share of reviewed links that are right.

    Attributes:
        what: which links, in words.
        right: number of links that are right.
        reviewed: number of links that were reviewed.
        low: lower end of the interval.
        high: upper end of the interval.
    """

    what: str
    right: int
    reviewed: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """The precision; 0 if no link was reviewed."""
        return self.right / self.reviewed if self.reviewed else 0.0


class Agreement(NamedTuple):
    """The agreement of two reviewers on the mentions that both decided.

    Attributes:
        reviewers: the two.
        mentions: number of mentions that both decided.
        same: number of these mentions for which both chose the same concept.
        kappa: Cohen's kappa; None if it is not defined, because both gave the same single answer for all mentions.
        differ: the mentions on which they differ.
    """

    reviewers: tuple[str, str]
    mentions: int
    same: int
    kappa: float | None
    differ: list[int]


class Left(NamedTuple):
    """How many links still have to be reviewed, the most doubtful first, to reach a precision.

    Attributes:
        open: number of links that nobody has reviewed.
        expected: expected precision of all links now; None without probabilities.
        left: number of links to review; None without probabilities.
    """

    open: int
    expected: float | None
    left: int | None


def wilson(right: int, reviewed: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the confidence interval of a share, (low, high).

    Args:
        right: number of successes.
        reviewed: number of trials; with none, the interval is 0 to 1.
        level: confidence level.

    Source:
        Wilson 1927, without continuity correction.
    """
    from scipy.stats import binomtest

    if not reviewed:
        return 0.0, 1.0
    interval = binomtest(right, reviewed).proportion_ci(level, method="wilson")
    return float(interval.low), float(interval.high)


def precision(what: str, judged: Iterable[bool]) -> Precision:
    """Return the precision of some links.

    Args:
        what: which links these are, in words.
        judged: for each link, whether it is right.
    """
    values = list(judged)
    return Precision(what, sum(values), len(values), *wilson(sum(values), len(values)))


def precisions(store: ReviewStore) -> list[Precision]:
    """Return the precision of all reviewed links, then of the reviewed links in each band of probabilities that has any.

    A link is reviewed if there is a final decision about it (see `Reviewed.final`). It is right if this decision is for the proposed concept.
    """
    log = store.log()
    judged: list[tuple[bool, float | None]] = []
    for mention, cui, probability in store.links(log.mentions()):
        final = log.of(mention).final
        if cui != NIL and final is not None:
            judged.append((final.cui == cui, probability))
    found = [precision("all links", (right for right, _ in judged))]
    for low, high in zip(BANDS, BANDS[1:]):
        inside = [right for right, p in judged if p is not None and (low <= p < high or p == high == 1.0)]
        if inside:
            found.append(precision(f"probability {low:g} to {high:g}", inside))
    return found


def left(kept: int, probabilities: Sequence[float | None], wished: float) -> Left:
    """Return how many open links have to be reviewed to reach a precision of all links.

    After its review a link is right, or it is removed. An open link with probability p is wrong with 1 - p, and the most doubtful links are reviewed
    first. Let K be the expected number of right links: the reviewed ones plus the sum of p over the open ones. The precision is then
    K / (K + sum of 1 - p over the links that stay open). So links are reviewed until this sum is at most K (1 - wished) / wished.

    Args:
        kept: number of reviewed links that are right, as proposed or corrected.
        probabilities: probability of each open link, None without a calibration.
        wished: share of links that should be right, between 0 and 1.
    """
    if any(p is None for p in probabilities):
        return Left(len(probabilities), None, None)
    doubts = sorted((1.0 - p for p in probabilities if p is not None), reverse=True)
    wrong = sum(doubts)
    right = kept + len(doubts) - wrong
    expected = right / (right + wrong) if right + wrong else None
    allowed, number = right * (1.0 - wished) / wished, 0
    while number < len(doubts) and wrong > allowed + 1e-9:
        wrong -= doubts[number]
        number += 1
    return Left(len(doubts), expected, number)


def left_in(store: ReviewStore, wished: float) -> Left:
    """Return how many links of a review still have to be reviewed to reach the precision `wished` (0 to 1), see `left`."""
    log, kept, still_open = store.log(), 0, Counter(dict(store.probabilities()))
    for mention, cui, probability in store.links(log.mentions()):
        final = log.of(mention).final
        if final is not None:
            kept += final.cui not in (NIL, UNKNOWN)
            still_open[probability] -= cui != NIL
    return left(kept, list(still_open.elements()), wished)


def agreements(log: Log) -> list[Agreement]:
    """Return the agreement of every pair of reviewers who decided the same mentions, the pair with the most such mentions first."""
    by_reviewer: dict[str, dict[int, str]] = {}
    for mention in log.mentions():
        for reviewer, decision in log.of(mention).decisions.items():
            by_reviewer.setdefault(reviewer, {})[mention] = decision.cui
    found = []
    for one, other in combinations(sorted(by_reviewer), 2):
        both = sorted(by_reviewer[one].keys() & by_reviewer[other].keys())
        if both:
            first, second = [by_reviewer[one][m] for m in both], [by_reviewer[other][m] for m in both]
            differ = [m for m, a, b in zip(both, first, second) if a != b]
            found.append(Agreement((one, other), len(both), len(both) - len(differ), kappa(first, second), differ))
    return sorted(found, key=lambda each: -each.mentions)


def kappa(first: Sequence[str], second: Sequence[str]) -> float | None:
    """Return Cohen's kappa of two lists of answers, (n,) each; None if it is not defined.

    Source:
        Cohen 1960.
    """
    from sklearn.metrics import cohen_kappa_score

    if len({*first, *second}) < 2:
        return None  # with a single answer, agreement by chance is 1, and kappa is 0 / 0
    return float(cohen_kappa_score(first, second))
