"""The words of a name, each with a weight: a rare word says more than a frequent one."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ..encoders.static import split

FREQUENT_WORDS = Path(__file__).parents[1] / "data" / "static_encoder" / "words.txt"  # the most frequent word of biomedical names comes first
FUNCTION_WORDS = frozenset(["a", "an", "and", "at", "by", "for", "from", "in", "is", "of", "on", "or", "the", "to", "with"])


class WeightedWords(NamedTuple):
    """The words of a name without function words.

    Attributes:
        weights: word -> its weight.
        total: the sum of the weights.
    """

    weights: dict[str, float]
    total: float


def words_of(name: str) -> WeightedWords:
    """Return the words of a name, as the list of frequent words has them, with their weights.

    The weight of the word of rank r, from 0 for the most frequent one, is log(r + 2); a word that is not in the list counts as the next rank. By Zipf's law
    this is proportional to the inverse document frequency, up to a constant.
    """
    ranks = frequent_words()
    weights = {word: math.log(ranks.get(word, len(ranks)) + 2) for word in split(name) if word not in FUNCTION_WORDS}
    return WeightedWords(weights, sum(weights.values()))


def not_shared(one: WeightedWords, other: WeightedWords) -> tuple[float, float]:
    """Return which share of the words of one name the other does not have, and the other way round: each by weight, 0 to 1; 0 without words."""
    both = one.weights.keys() & other.weights.keys()
    shared = sum(one.weights[word] for word in both)
    missing, added = (0.0 if len(both) == len(each.weights) else 1.0 - shared / each.total for each in (one, other))
    return missing, added


@cache
def frequent_words() -> dict[str, int]:
    """Return frequent word -> its rank. The file is read on the first call."""
    return {word: rank for rank, word in enumerate(filter(None, FREQUENT_WORDS.read_text(encoding="utf-8").split("\n")))}
