"""The features that a ranker uses: how well a mention and the names of a concept fit together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache

from ..candidates import DECIMALS, Hits, Standing
from ..kb.name_table import has_cui, is_weak
from ..types import Bools1d, Floats2d
from .numbers import numbers_of
from .ranker import COSINE, CUI, FEATURES, NAMES_NEAR, NUMBER_ADDED, NUMBER_MISSING, STATIC, WEAK_NAME, WORDS_ADDED, WORDS_MISSING, Ranker
from .words import WeightedWords, not_shared, words_of

CACHED = 200_000  # names whose numbers are cached
CACHED_WORDS = 20_000  # names whose words are cached, and names whose vectors are: 1 kB each
Floats = npt.NDArray[np.float64]
Read = TypeVar("Read")


class FeatureReader:
    """Computes the features of concepts, and their ranking. Only one thread at a time may use it.

    Args:
        names: rows of the knowledge base -> their surface forms.
        encode: the static encoder, names -> vectors (n, d), L2-normalised; None if the linker's encoder is the static one, whose cosine is known.
        first_added: row of the first surface form that a user added; None: there are none.
    """

    def __init__(
        self,
        names: Callable[[Sequence[int]], list[str]],
        encode: Callable[[Sequence[str]], Floats2d] | None = None,
        first_added: int | None = None,
    ) -> None:
        self._names, self._encode, self._first_added = names, encode, first_added
        self._numbers: LRUCache[int, frozenset[str]] = LRUCache(CACHED)  # of a surface form, by its row
        self._words: LRUCache[int, WeightedWords] = LRUCache(CACHED_WORDS)  # the same
        self._vectors: LRUCache[int, npt.NDArray[np.float32]] = LRUCache(CACHED_WORDS)  # the same

    def standing(self, ranker: Ranker, mentions: Sequence[str], hits: Hits) -> Standing:
        """Return the score that ranks each pair of a mention and a concept, and the share of each feature in it.

        Args:
            ranker: the ranker, with its weights.
            mentions: (q,) normalised mentions.
            hits: names that were found.
        """
        weights = ranker.weight_of_all
        shares = self.features(mentions, hits, [name for name, weight in zip(FEATURES, weights) if weight]) * np.array(weights)
        return Standing(np.round(shares.sum(axis=1), DECIMALS), shares)

    def features(self, mentions: Sequence[str], hits: Hits, wanted: Collection[str] = FEATURES) -> Floats:
        """Return the features of each pair of a mention and a concept that was found for it.

        Args:
            mentions: (q,) normalised mentions.
            hits: names that were found.
            wanted: those of FEATURES that are computed; the others are 0.

        Returns:
            (g, f), one column for each of FEATURES: `cosine` of the concept's nearest name; `cui`, 1 if the concept has a CUI; `weak_name`, 1 if the
            nearest name is a narrower, related, broader or lay one; `number_missing`, 1 if every name that was found lacks a number of the mention;
            `number_added`, 1 if every name that was found has a number that the mention does not have; `static`, the cosine of the nearest name by the
            static encoder, 0 without `encode`; `words_missing`, which share of the mention's words the concept's name does not have, and `words_added`,
            which share of the name's words the mention does not have, both by weight and for the name with the lowest sum of the two;
            `names_near`, the natural logarithm of the number of the concept's names that are near: those that the index found, and added ones that are
            as near as the last of these.
        """
        best = hits.starts
        found = np.zeros((len(best), len(FEATURES)))
        if not len(best):
            return found
        columns = {name: found[:, i] for i, name in enumerate(FEATURES) if name in wanted}  # views
        queries, which = np.unique(hits.query, return_inverse=True)
        mentions = [mentions[query].lower() for query in queries.tolist()]  # in a cased knowledge base they have capitals
        rows, back = np.unique(hits.surface_form, return_inverse=True)
        forms = _Forms(rows.tolist(), self._names)
        if COSINE in columns:
            columns[COSINE][:] = hits.score[best]
        if CUI in columns:
            columns[CUI][:] = has_cui(hits.place[best])
        if WEAK_NAME in columns:
            columns[WEAK_NAME][:] = is_weak(hits.place[best])
        if NAMES_NEAR in columns:
            columns[NAMES_NEAR][:] = np.log(np.maximum(np.add.reduceat(self._near(hits).astype(np.int64), best), 1))
        if not columns.keys().isdisjoint((NUMBER_MISSING, NUMBER_ADDED)):
            asked, numbers = [numbers_of(mention) for mention in mentions], forms.read(self._numbers, numbers_of)
            both = [(asked[q], numbers[row]) for q, row in zip(which.tolist(), back.tolist())]
            for name, lacks in (
                (NUMBER_MISSING, [not mention <= name for mention, name in both]),
                (NUMBER_ADDED, [not name <= mention for mention, name in both]),
            ):
                if name in columns:
                    columns[name][:] = np.minimum.reduceat(np.array(lacks, dtype=np.int64), best)
        if not columns.keys().isdisjoint((WORDS_MISSING, WORDS_ADDED)):
            said, words = [words_of(mention) for mention in mentions], forms.read(self._words, words_of)
            shares = np.array([not_shared(said[q], words[row]) for q, row in zip(which.tolist(), back.tolist())])
            pair = np.repeat(np.arange(len(best)), np.diff(best, append=len(shares)))
            nearest = np.lexsort((np.round(shares.sum(axis=1), DECIMALS), pair))[best]
            for name, share in ((WORDS_MISSING, shares[nearest, 0]), (WORDS_ADDED, shares[nearest, 1])):
                if name in columns:
                    columns[name][:] = share
        if STATIC in columns and self._encode is not None:
            cosines = np.einsum("hd,hd->h", self._encode(mentions)[which], self._vectors_of(forms)[back])
            columns[STATIC][:] = np.maximum.reduceat(cosines, best)
        return found

    def _near(self, hits: Hits) -> Bools1d:
        """Return which hits (h,) are near. All added names are hits of every mention, also those that are far."""
        if self._first_added is None:
            return np.ones(len(hits.query), dtype=np.bool_)
        found = hits.surface_form < self._first_added
        last = np.full(hits.query.max() + 1, np.inf)
        np.minimum.at(last, hits.query[found], hits.score[found])
        near: Bools1d = hits.score >= last[hits.query]
        return near

    def _vectors_of(self, forms: _Forms) -> Floats2d:
        """Return the vectors of surface forms, (n, d)."""
        assert self._encode is not None
        missing = [row for row in forms.rows if row not in self._vectors]
        made = dict(zip(missing, self._encode(forms.texts(missing)))) if missing else {}
        vectors: Floats2d = np.stack([made[row] if row in made else self._vectors[row] for row in forms.rows])
        self._vectors.update({row: vector.copy() for row, vector in made.items()})  # a view would keep the vectors of the whole batch
        return vectors


class _Forms:
    """Some surface forms of the knowledge base. Their texts are read once, and only if they are needed.

    Args:
        rows: (n,) their rows.
        names: rows of the knowledge base -> their surface forms.
    """

    def __init__(self, rows: list[int], names: Callable[[Sequence[int]], list[str]]) -> None:
        self.rows, self._names = rows, names
        self._texts: dict[int, str] = {}

    def texts(self, rows: Sequence[int]) -> list[str]:
        """Return the texts of some of the rows, in lower case."""
        fresh = [row for row in rows if row not in self._texts]
        self._texts.update(zip(fresh, (name.lower() for name in self._names(fresh))))
        return [self._texts[row] for row in rows]

    def read(self, cache: LRUCache[int, Read], make: Callable[[str], Read]) -> list[Read]:
        """Return what `make` gives for the text of each row, (n,), from a cache where it is there."""
        missing = [row for row in self.rows if row not in cache]
        made = {row: make(text) for row, text in zip(missing, self.texts(missing))}
        found = [made[row] if row in made else cache[row] for row in self.rows]
        cache.update(made)
        return found
