"""Rerank close calls: compare a mention with all names of its first candidates, by the static encoder, and by the cross-encoder if it is asked for.

A search scores a concept by its nearest name only. If two candidates score nearly the same, the other names of the concepts, and an encoder
that reads words and letters instead of tokens, often say which one is right. The cross-encoder reads the mention and the names together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache
from pydantic import BaseModel, ConfigDict, Field

from ..candidates import DECIMALS, Hits, Standing
from ..encoders.static import StaticEncoder
from ..errors import DamagedFile, fail
from ..files import read_stored
from ..types import Floats2d, Ints1d
from .pairs import NAMES_READ, pair_text

FORMAT = 1
COMPARED = ("nearest_name", "canonical_name")
READ = (*COMPARED, "agreement")  # with the cross-encoder
SHIPPED_RERANKER = Path(__file__).parents[1] / "data" / "reranker.json"  # made by `python -m training reranker`
SHIPPED_CROSS_RERANKER = SHIPPED_RERANKER.with_name("reranker_cross_encoder.json")  # `--rerank cross_encoder`, for the default encoder
SHIPPED_CROSS_RERANKER_FAST = SHIPPED_RERANKER.with_name("reranker_cross_encoder_fast.json")  # the same, for the fast encoder
DEPTH = 10  # candidates of a mention that are compared again
MOST_NAMES = 50  # names of a concept that are compared
CACHED = 5_000  # concepts whose vectors are cached, about 8 kB each
Floats = npt.NDArray[np.float64]
Encode = Callable[[Sequence[str]], Floats2d]
Agreements = Callable[[Sequence[str]], Floats]


@dataclass(frozen=True)
class Reranker:
    """Which mentions are reranked, and how much the other names of their candidates count.

    Args:
        weights: a weight for each of COMPARED, or of READ, relative to the weight of the first score, which is 1.
        margin: a mention is a close call if its first candidate is at most this far before the runner-up.
        fit_on: a description of the data, in words.
    """

    weights: tuple[float, ...]
    margin: float
    fit_on: str

    @property
    def features(self) -> tuple[str, ...]:
        """What the weights belong to: COMPARED or READ."""
        return READ[: len(self.weights)]

    def to_json(self) -> str:
        """Return the text that `read_reranker` reads."""
        content = {
            "kind": "reranker",
            "format": FORMAT,
            "features": self.features,
            "weights": self.weights,
            "margin": self.margin,
            "fit_on": self.fit_on,
        }
        return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


class _Stored(BaseModel):
    """The content of a reranker's file."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    kind: Literal["reranker"]
    format: Literal[1]
    features: tuple[str, ...]
    weights: tuple[float, ...]
    margin: Annotated[float, Field(ge=0.0)]
    fit_on: str


def read_reranker(path: Path) -> Reranker:
    """Read a reranker's file.

    Raises:
        DamagedFile: E057, the file is damaged or not there.
        SapbertError: E106, it is of another kind or format.
    """
    try:
        stored = read_stored(path, _Stored, kind="reranker", version=FORMAT, damaged="E057")
    except OSError as error:
        raise fail("E057", DamagedFile, path=path, why=f"it can't be read ({type(error).__name__})") from error
    if stored.features not in (COMPARED, READ) or len(stored.weights) != len(stored.features):
        raise fail("E057", DamagedFile, path=path, why=f"it has {len(stored.weights)} weights for {', '.join(stored.features) or 'no feature'}")
    return Reranker(stored.weights, stored.margin, stored.fit_on)


@cache
def static_encoder() -> StaticEncoder:
    """Return the static encoder of this package. It is read on the first call."""
    return StaticEncoder().initialize()


def is_close(scores: Floats, margin: float) -> bool:
    """Return whether the first of some scores, best first, is at most a margin before the second."""
    return len(scores) > 1 and round(float(scores[0] - scores[1]), DECIMALS) <= margin


class NameComparer:
    """Compares mentions with all names of concepts. Only one thread at a time may use it.

    Args:
        names: row of a concept -> its normalised names, the canonical one first.
        encode: names -> vectors (n, d), L2-normalised.
        agreements: the cross-encoder, texts of pairs -> their agreements; None compares by vectors alone.
        forms: rows of the knowledge base -> their surface forms; the cross-encoder reads the names that the search found.
        definition: row of a concept -> its definition, None or "" if it has none; None: the cross-encoder reads no definitions.
    """

    def __init__(
        self,
        names: Callable[[int], list[str]],
        encode: Encode,
        agreements: Agreements | None = None,
        forms: Callable[[Sequence[int]], list[str]] | None = None,
        definition: Callable[[int], str | None] | None = None,
    ) -> None:
        self._names, self._encode, self._agreements, self._forms, self._definition = names, encode, agreements, forms, definition
        self._vectors: LRUCache[int, Floats2d] = LRUCache(CACHED)  # of a concept, by its row
        self._canonical: LRUCache[int, list[str]] = LRUCache(CACHED)  # the canonical name of a concept, by its row
        self._defined: LRUCache[int, str] = LRUCache(CACHED)  # the definition of a concept, by its row

    def compared(self, mentions: Sequence[str], query: Ints1d, concept: Ints1d) -> Floats:
        """Return the cosines of pairs of a mention and a concept, (g, 2): with the concept's nearest name, and with its canonical name.

        Args:
            mentions: (q,) normalised mentions.
            query: (g,) number of the mention of each pair.
            concept: (g,) row of the concept of each pair.
        """
        found = np.zeros((len(query), len(COMPARED)))
        if not len(query):
            return found
        asked = np.unique(query)
        vectors = dict(zip(asked.tolist(), self._encode([mentions[q] for q in asked.tolist()])))
        of = self._vectors_of(dict.fromkeys(concept.tolist()))
        for i, (q, row) in enumerate(zip(query.tolist(), concept.tolist())):
            cosines = of[row] @ vectors[q]  # (names,)
            found[i] = cosines.max(), cosines[0]
        return found

    def values(self, mentions: Sequence[str], hits: Hits, pairs: Ints1d, around: Sequence[str] = ()) -> Floats:
        """Return what pairs of a mention and a concept are reranked by, (g, 2), or (g, 3) with the cross-encoder: COMPARED or READ.

        Args:
            mentions: (q,) normalised mentions.
            hits: names that were found.
            pairs: (g,) positions in `hits.starts`.
            around: (q,) the text around each mention, see `pair_text`; empty: it is not read.
        """
        best = hits.starts[pairs]
        cosines = self.compared(mentions, hits.query[best], hits.concept[best])
        if self._agreements is None or self._forms is None:
            return cosines
        ends = np.append(hits.starts[1:], len(hits.query))[pairs]
        rows = [hits.surface_form[start : min(end, start + NAMES_READ)].tolist() for start, end in zip(best.tolist(), ends.tolist())]
        known = list(dict.fromkeys(row for each in rows for row in each))
        form = dict(zip(known, self._forms(known)))
        texts = [
            pair_text(
                mentions[query],
                [*self._canonical_name(concept), *(form[row] for row in each)],
                around[query] if around else "",
                self._definition_of(concept),
            )
            for query, concept, each in zip(hits.query[best].tolist(), hits.concept[best].tolist(), rows)
        ]
        return np.column_stack([cosines, self._agreements(texts)])

    def _canonical_name(self, row: int) -> list[str]:
        """Return the canonical name of a concept, as a list. It is cached, because a concept may have thousands of names."""
        if row not in self._canonical:
            self._canonical[row] = self._names(row)[:1]
        return self._canonical[row]

    def _definition_of(self, row: int) -> str:
        """Return the definition of a concept; "" if it has none, or definitions are not read."""
        if self._definition is None:
            return ""
        if row not in self._defined:
            self._defined[row] = self._definition(row) or ""
        return self._defined[row]

    def _vectors_of(self, rows: dict[int, None]) -> dict[int, Floats2d]:
        """Return the vectors of the names of each concept, the canonical name's first."""
        known = {row: self._vectors[row] for row in rows if row in self._vectors}
        names = {row: _some(self._names(row)) for row in rows if row not in known}
        if names:
            vectors = self._encode([name for each in names.values() for name in each])
            ends = np.cumsum([len(each) for each in names.values()])
            fresh = {row: part.copy() for row, part in zip(names, np.split(vectors, ends[:-1]))}  # a view would keep the vectors of the whole batch
            self._vectors.update(fresh)
            known.update(fresh)
        return known

    def standing(self, reranker: Reranker, mentions: Sequence[str], hits: Hits, first: Standing, around: Sequence[str] = ()) -> Standing:
        """Return the order of candidates after the close calls among some mentions were reranked.

        The first DEPTH candidates of a close call get their first score plus the weighted cosines. The others stay behind them: they get what the
        lowest of these got. Mentions that are no close call keep their scores.

        Args:
            reranker: the weights, and what a close call is.
            mentions: (q,) normalised mentions.
            hits: names that were found.
            first: the order before; its shares have f columns.
            around: (q,) the text around each mention, see `values`.

        Returns:
            The scores, and shares with more columns, one for each of the reranker's features.
        """
        best = hits.starts
        query, concept, place = hits.query[best], hits.concept[best], hits.place[best]
        order = np.lexsort((concept, place, -first.scores, query))
        more = np.zeros((len(best), len(reranker.features)))
        groups = [group for group in np.split(order, np.flatnonzero(np.diff(query[order])) + 1) if is_close(first.scores[group], reranker.margin)]
        if groups:
            again = np.concatenate([group[:DEPTH] for group in groups])
            more[again] = self.values(mentions, hits, again, around) * np.array(reranker.weights)
            for group in groups:
                lowest = group[:DEPTH][np.argmin(more[group[:DEPTH]].sum(axis=1))]
                more[group[DEPTH:]] = more[lowest]
        return Standing(np.round(first.scores + more.sum(axis=1), DECIMALS), np.hstack([first.shares, more]))


def _some(names: list[str]) -> list[str]:
    """Return at most MOST_NAMES names: the first half and the last, so that names that a user added, which stand last, are among them."""
    return names if len(names) <= MOST_NAMES else [*names[: MOST_NAMES // 2], *names[-(MOST_NAMES - MOST_NAMES // 2) :]]
