"""What a ranker looks at: how a mention and the names of a concept fit together. Numpy and an encoder of words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache

from ..candidates import DECIMALS, Hits, Standing
from ..encoders.base import Encoder
from ..kb.name_table import is_canonical
from ..types import Floats2d, Ints1d
from .ranker import FEATURES, Ranker
from .words import NEGATIONS, is_number, split_words

DEPTH = 10  # concepts of a mention that are ranked; those behind them stay behind
NEAR = 0.1  # a name is near if its cosine is at most so much below that of the nearest name
MOST_NEAR = 5
CHUNK = 256  # mentions at a time
CACHED = 200_000  # names, and words, that are remembered
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


class Features(NamedTuple):
    """The features of the first concepts of some mentions.

    Attributes:
        groups: (g,) which of the groups of `Hits` these are.
        values: (g, f) one column for each of FEATURES.
    """

    groups: Ints1d
    values: Floats


class FeatureReader:
    """Reads the features of concepts, and ranks by them. Not for several threads at once.

    Args:
        word_weight: what a word counts, see `Ranker.word_weight`.
        names: surface forms of some rows.
        words: encodes words; a static encoder.
    """

    def __init__(self, word_weight: Callable[[str], float], names: Callable[[Sequence[int]], list[str]], words: Encoder) -> None:
        self._weight, self._names, self._encoder = word_weight, names, words
        self._read: LRUCache[int, tuple[str, ...]] = LRUCache(CACHED)  # row of a surface form -> its words
        self._vectors: LRUCache[str, npt.NDArray[np.float32]] = LRUCache(CACHED)

    def standing(self, ranker: Ranker, mentions: Sequence[str], hits: Hits) -> Standing:
        """Return the score by which each group of hits is ranked, and the share of each feature in it.

        The concepts behind the first DEPTH get the least that one of those got beside its cosine.

        Args:
            ranker: its weights.
            mentions: (q,) normalised.
            hits: names that were found.
        """
        features = self.features(mentions, hits)
        best = hits.score[hits.starts]
        shares = np.zeros((len(hits.starts), len(FEATURES)))
        shares[:, 0] = best
        shares[features.groups] = features.values * np.array(ranker.weights)
        more = shares[:, 1:].sum(axis=1)
        query = hits.query[hits.starts]
        least = np.full(len(mentions), np.inf)
        np.minimum.at(least, query[features.groups], more[features.groups])
        behind = np.ones(len(best), dtype=np.bool_)
        behind[features.groups] = False
        more[behind] = least[query[behind]]
        return Standing(np.round(best + more, DECIMALS), shares)

    def features(self, mentions: Sequence[str], hits: Hits) -> Features:
        """Return the features of the DEPTH concepts with the best cosines of each mention.

        Args:
            mentions: (q,) normalised.
            hits: names that were found.

        Returns:
            For each concept: `cosine` of its nearest name; `preferred`, 1 where its preferred name was found, and `preferred_cosine` of that;
            `name_covered` and `mention_covered`, how much of the words of one stands in the other, 0 to 1, where a word that is near another by
            the encoder of words counts by their cosine, and a rare word counts more; `weakest_word`, the least that a word of the mention is
            covered; `number_missing`, `number_added`, `negation`, 1 where every name lacks a number of the mention, has another one, or only
            one of the two is negated; `near`, how many of its names are near, at most MOST_NEAR. Of several names the best value counts.

        Source:
            Soft coverage: the greedy matching of BERTScore (Zhang et al., ICLR 2020, section 3), by vectors of words.
        """
        group_of = np.repeat(np.arange(len(hits.starts)), np.diff(np.r_[hits.starts, len(hits.query)]))
        query, best = hits.query[hits.starts], hits.score[hits.starts]
        order = np.lexsort((-best, query))
        first = np.r_[True, query[order][1:] != query[order][:-1]] if len(order) else np.zeros(0, dtype=np.bool_)
        place = np.arange(len(order)) - np.maximum.accumulate(np.where(first, np.arange(len(order)), 0)) if len(order) else order
        chosen = np.zeros(len(hits.starts), dtype=np.bool_)
        chosen[order[place < DEPTH]] = True
        groups = np.flatnonzero(chosen)
        rows = np.flatnonzero(chosen[group_of])
        values = np.zeros((len(groups), len(FEATURES)))
        if not len(groups):
            return Features(groups, values)
        found = self._of_names(mentions, hits.query[rows], hits.surface_form[rows])
        top = np.full(len(mentions), -np.inf)
        np.maximum.at(top, hits.query, hits.score)
        starts = np.flatnonzero(np.r_[True, np.diff(group_of[rows]) > 0])
        score, canonical = hits.score[rows], is_canonical(hits.place[rows])
        near = score >= top[hits.query[rows]] - NEAR
        values[:, 0] = best[groups]
        values[:, 1] = np.maximum.reduceat(canonical, starts)
        values[:, 2] = np.maximum.reduceat(np.where(canonical, score, 0.0), starts)
        values[:, 3:6] = np.maximum.reduceat(found[:, :3], starts)
        values[:, 6:9] = np.minimum.reduceat(found[:, 3:], starts)
        values[:, 9] = np.minimum(np.add.reduceat(near.astype(np.int64), starts), MOST_NEAR)
        return Features(groups, values)

    def _of_names(self, mentions: Sequence[str], query: Ints1d, surface_form: Ints1d) -> Floats:
        """Return how a mention fits each name (r,): the six features from `name_covered` to `negation`, (r, 6)."""
        missing = [row for row in dict.fromkeys(surface_form.tolist()) if row not in self._read]
        for row, name in zip(missing, self._names(missing)):
            self._read[row] = split_words(name)
        found = np.zeros((len(query), 6))
        for start, stop in _chunks(query):
            asked, rows = np.unique(query[start:stop]), surface_form[start:stop].tolist()
            of_mentions = {int(q): split_words(mentions[q]) for q in asked.tolist()}
            of_names = [self._read[row] if row in self._read else split_words(self._names([row])[0]) for row in rows]
            found[start:stop] = self._fit([of_mentions[q] for q in query[start:stop].tolist()], of_names)
        return found

    def _fit(self, mentions: list[tuple[str, ...]], names: list[tuple[str, ...]]) -> Floats:
        """Return the six features of each pair of the words of a mention and of a name (r, 6)."""
        left = {word: i for i, word in enumerate(dict.fromkeys(word for words in mentions for word in words), 1)}
        right = {word: i for i, word in enumerate(dict.fromkeys(word for words in names for word in words), 1)}
        here, there = _padded(mentions, left), _padded(names, right)  # (r, a), (r, b); 0 is no word
        likeness = np.zeros((len(left) + 1, len(right) + 1), dtype=np.float32)
        likeness[1:, 1:] = np.maximum(self._vectors_of(left) @ self._vectors_of(right).T, 0.0)
        same = np.zeros(likeness.shape, dtype=np.bool_)
        for word, i in left.items():
            if word in right:
                same[i, right[word]] = True
        likeness[same] = 1.0
        pairs = likeness[here[:, :, None], there[:, None, :]]  # (r, a, b)
        equal = same[here[:, :, None], there[:, None, :]]
        of_mention, of_name = pairs.max(axis=2), pairs.max(axis=1)
        found = np.zeros((len(mentions), 6))
        found[:, 0] = _share(of_name, self._weights(right)[there])
        found[:, 1] = _share(of_mention, self._weights(left)[here])
        found[:, 2] = np.where(here > 0, of_mention, 1.0).min(axis=1)
        found[:, 3] = (_holds(left, is_number)[here] & ~equal.any(axis=2)).any(axis=1)
        found[:, 4] = (_holds(right, is_number)[there] & ~equal.any(axis=1)).any(axis=1)
        found[:, 5] = _holds(left, NEGATIONS.__contains__)[here].any(axis=1) != _holds(right, NEGATIONS.__contains__)[there].any(axis=1)
        return found

    def _weights(self, words: dict[str, int]) -> Floats:
        """Return what each word counts (n + 1,), 0 for no word."""
        return np.array([0.0, *(self._weight(word) for word in words)])

    def _vectors_of(self, words: dict[str, int]) -> Floats2d:
        """Return the vectors of words (n, d)."""
        known = {word: self._vectors[word] for word in words if word in self._vectors}
        missing = [word for word in words if word not in known]
        if missing:
            known.update(zip(missing, self._encoder.encode(missing)))
            self._vectors.update((word, known[word]) for word in missing)
        return np.stack([known[word] for word in words]) if words else np.zeros((0, self._encoder.dim), dtype=np.float32)


def _chunks(query: Ints1d) -> Iterator[tuple[int, int]]:
    """Yield the bounds of the rows of CHUNK mentions at a time; `query` is in ascending order."""
    begins = np.flatnonzero(np.r_[True, np.diff(query) > 0])[::CHUNK].tolist()
    yield from zip(begins, [*begins[1:], len(query)])


def _padded(texts: list[tuple[str, ...]], number: dict[str, int]) -> Ints1d:
    """Return the numbers of the words of each text (r, most words), filled up with 0."""
    found = np.zeros((len(texts), max(1, max(map(len, texts), default=1))), dtype=np.int64)
    for i, words in enumerate(texts):
        found[i, : len(words)] = [number[word] for word in words]
    return found


def _holds(words: dict[str, int], what: Callable[[str], bool]) -> Bools:
    """Return of which words something holds (n + 1,), False for no word."""
    return np.array([False, *(what(word) for word in words)], dtype=np.bool_)


def _share(covered: npt.NDArray[np.float32], weights: Floats) -> Floats:
    """Return the weighted mean of each line (r,); 0 where no word counts."""
    total = weights.sum(axis=1)
    mean: Floats = np.divide((covered * weights).sum(axis=1), total, out=np.zeros(len(total)), where=total > 0)
    return mean
