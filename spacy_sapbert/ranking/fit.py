"""Learn a ranker from annotated mentions: a conditional logistic regression over the candidates of each mention."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import SapbertError, fail
from .ranker import COSINE, FEATURES, STATIC

FEWEST = 200  # mentions with right and wrong candidates that are needed; with fewer, the weights differ from sample to sample
PENALTY = 1e-3  # weight of the squared weights of standardised features, relative to the mean loss of a mention
Floats = npt.NDArray[np.float64]


class Example(NamedTuple):
    """One annotated mention with its candidates.

    Attributes:
        values: (c, f) features of its candidates.
        right: (c,) which of them are right.
    """

    values: Floats
    right: npt.NDArray[np.bool_]


def fit_ranker_weights(sets: Sequence[Sequence[Example]], *, without: Collection[str] = ()) -> tuple[float, ...]:
    """Find the weights of a ranker, see `fit_weights`. The weights of the features "cosine" and "static" add up to 1.

    If one of these two would not get a weight above 0, because the other says the same, "static" gets none.

    Args:
        sets: annotated mentions of each corpus; their values are those of FEATURES.
        without: features that get no weight.

    Raises:
        SapbertError: E047, too few mentions, or a higher cosine does not make a candidate more probable.
    """
    used, static = np.array([name not in without for name in FEATURES]), FEATURES.index(STATIC)
    try:
        weights = fit_weights([[Example(example.values * used, example.right) for example in examples] for examples in sets])
    except SapbertError:
        if STATIC in without:
            raise
        return fit_ranker_weights(sets, without={*without, STATIC})
    if weights[static] < 0.0:
        return fit_ranker_weights(sets, without={*without, STATIC})
    both = weights[FEATURES.index(COSINE)] + weights[static]
    return tuple(weight / both for weight in weights)


def fit_weights(sets: Sequence[Sequence[Example]]) -> tuple[float, ...]:
    """Find the weights that make the right candidates most probable.

    The probability of a candidate is the softmax of its weighted features over all candidates of the mention. If several candidates are right,
    their probabilities are added up. Mentions whose candidates are all right or all wrong are left out, because nothing can be learnt from them. A
    corpus of n mentions has the weight sqrt(n), so that a large corpus does not decide alone.

    Args:
        sets: annotated mentions of each corpus.

    Returns:
        A weight for each feature, divided by the weight of the first one: the cosine of a ranker, the first score of a reranker.

    Raises:
        SapbertError: E047, too few mentions, or a higher cosine does not make a candidate more probable.

    Source:
        McFadden 1974, conditional logit; several right answers as in marginal maximum likelihood (Sung et al., ACL 2020, equation 6).
    """
    from scipy.optimize import minimize  # imported here, because it takes 30 MB, and only a fit needs it

    useful = [[example for example in examples if 0 < example.right.sum() < len(example.right)] for examples in sets]
    examples = [example for each in useful for example in each]
    if len(examples) < FEWEST:
        raise fail(
            "E047", why=f"{len(examples)} mentions have a right candidate and a wrong one; at least {FEWEST} are needed", n=sum(map(len, sets))
        )
    counts = np.concatenate([np.full(len(each), 1.0 / np.sqrt(len(each))) for each in useful if each])
    counts /= counts.sum()
    values = np.concatenate([example.values for example in examples])
    right = np.concatenate([example.right for example in examples])
    starts = np.cumsum([0, *(len(example.right) for example in examples[:-1])])
    of = np.repeat(np.arange(len(examples)), [len(example.right) for example in examples])
    spread = values.std(axis=0)
    spread[spread == 0.0] = 1.0
    scaled = (values - values.mean(axis=0)) / spread

    def softmax(logits: Floats) -> tuple[Floats, Floats]:
        """Return each candidate's softmax within its mention, and the logarithm of the sum of exponentials of each mention."""
        highest = np.maximum.reduceat(logits, starts)
        parts = np.exp(logits - highest[of])
        sums = np.add.reduceat(parts, starts)
        return parts / sums[of], highest + np.log(sums)

    def loss(weights: Floats) -> tuple[float, Floats]:
        logits = scaled @ weights
        every, sum_of_all = softmax(logits)
        good, sum_of_right = softmax(np.where(right, logits, -1e9))
        slope = scaled.T @ ((every - good) * counts[of]) + 2.0 * PENALTY * weights
        return float(counts @ (sum_of_all - sum_of_right) + PENALTY * weights @ weights), slope

    found = minimize(loss, np.zeros(values.shape[1]), jac=True, method="L-BFGS-B").x / spread
    if found[0] <= 0.0:
        raise fail("E047", why="a higher cosine does not make a candidate more often right in them", n=sum(map(len, sets)))
    return tuple(float(weight) for weight in found / found[0])
