"""The features that a ranker uses: how well a mention and the names of a concept fit together. This module uses NumPy only."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache

from ..candidates import DECIMALS, Hits, Standing
from ..kb.name_table import has_cui, is_weak
from .numbers import numbers_of
from .ranker import FEATURES, Ranker

CACHED = 200_000  # names whose numbers are cached
Floats = npt.NDArray[np.float64]


class FeatureReader:
    """Computes the features of concepts, and their ranking. Only one thread at a time may use it.

    Args:
        names: rows of the knowledge base -> their surface forms.
    """

    def __init__(self, names: Callable[[Sequence[int]], list[str]]) -> None:
        self._names = names
        self._numbers: LRUCache[int, frozenset[str]] = LRUCache(CACHED)  # of a surface form, by its row

    def standing(self, ranker: Ranker, mentions: Sequence[str], hits: Hits) -> Standing:
        """Return the score that ranks each pair of a mention and a concept, and the share of each feature in it.

        Args:
            ranker: the ranker, with its weights.
            mentions: (q,) normalised mentions.
            hits: names that were found.
        """
        shares = self.features(mentions, hits) * np.array(ranker.weights)
        return Standing(np.round(shares.sum(axis=1), DECIMALS), shares)

    def features(self, mentions: Sequence[str], hits: Hits) -> Floats:
        """Return the features of each pair of a mention and a concept that was found for it.

        Args:
            mentions: (q,) normalised mentions.
            hits: names that were found.

        Returns:
            (g, f), one column for each of FEATURES: `cosine` of the concept's nearest name; `cui`, 1 if the concept has a CUI; `weak_name`, 1 if the
            nearest name is a narrower, related, broader or lay one; `number_missing`, 1 if every name that was found lacks a number of the mention;
            `number_added`, 1 if every name that was found has a number that the mention does not have.
        """
        best = hits.starts
        found = np.zeros((len(best), len(FEATURES)))
        if not len(best):
            return found
        found[:, 0] = hits.score[best]
        found[:, 1] = has_cui(hits.place[best])
        found[:, 2] = is_weak(hits.place[best])
        asked = [numbers_of(mention.lower()) for mention in mentions]  # in a cased knowledge base they have capitals
        rows, back = np.unique(hits.surface_form, return_inverse=True)
        missing = [row for row in rows.tolist() if row not in self._numbers]
        given = {row: numbers_of(name.lower()) for row, name in zip(missing, self._names(missing))}
        numbers = [given[row] if row in given else self._numbers[row] for row in rows.tolist()]
        self._numbers.update(given)
        both = [(asked[q], numbers[row]) for q, row in zip(hits.query.tolist(), back.tolist())]
        found[:, 3] = np.minimum.reduceat(np.array([not mention <= name for mention, name in both], dtype=np.int64), best)
        found[:, 4] = np.minimum.reduceat(np.array([not name <= mention for mention, name in both], dtype=np.int64), best)
        return found
