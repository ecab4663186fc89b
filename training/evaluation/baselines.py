"""Baselines on the same dictionary: exact match, TF-IDF, scispaCy's candidate generator.

Each makes a `Scorer`; the first two also compute the similarity of two texts.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from spacy_sapbert.types import Floats2d

from ..errors import fail
from ..loop.retrieval import Ints1d, Scorer
from ..loop.sparse import character_n_grams
from .metrics import Floats1d

EXACT, TFIDF = "exact match", "TF-IDF of character 3-grams"
NEIGHBOURS = 30  # number of nearest names, scispaCy's default
CHUNK = 64  # queries whose cosines with all names are in memory at the same time: 80 MB for 300,000 names
LEFT_OUT = ("E570", "E571")  # errors of a baseline that is left out, with a note
Baseline = Callable[[list[str], list[str]], Scorer]
Pairwise = Callable[[list[str], list[str]], Floats1d]


def exact_match(names: list[str], queries: list[str]) -> Scorer:
    """Score 1.0 for the name that equals the query. No other name is found.

    Args:
        names: Names of the dictionary, normalised.
        queries: Mentions, normalised.

    Returns:
        A scorer: (start, stop) of the queries -> scores (names, stop - start), -inf for names that are not found.
    """
    row_of = {name: row for row, name in enumerate(names)}

    def score(start: int, stop: int) -> Floats2d:
        scores = np.full((len(row_of), stop - start), -np.inf, dtype=np.float32)
        for i, query in enumerate(queries[start:stop]):
            if query in row_of:
                scores[row_of[query], i] = 1.0
        return scores

    return score


def tfidf(names: list[str], queries: list[str]) -> Scorer:
    """Score by the cosine of TF-IDF over character 3-grams. Names without a common 3-gram are not found.

    Args:
        names: Names of the dictionary, normalised.
        queries: Mentions, normalised.

    Returns:
        A scorer: (start, stop) of the queries -> scores (names, stop - start), -inf for names that are not found.
    Raises:
        SapbertError: E546, without scikit-learn.
    """
    vectorizer = character_3_grams()
    stored = vectorizer.fit_transform(names)  # (n, 3-grams), sparse
    asked = vectorizer.transform(queries)

    def score(start: int, stop: int) -> Floats2d:
        scores: Floats2d = (stored @ asked[start:stop].T).toarray()
        scores[scores <= 0] = -np.inf
        return scores

    return score


def character_3_grams() -> Any:
    """Make the vectoriser of the baseline, before it is fitted.

    Raises:
        SapbertError: E546, without scikit-learn.
    """
    return character_n_grams(3, 3, what="The TF-IDF baseline")


def equal_pairs(left: list[str], right: list[str]) -> Floats1d:
    """Return 1.0 for each pair of equal texts and 0.0 for others (n,)."""
    return np.array([a == b for a, b in zip(left, right)], dtype=np.float64)


def tfidf_pairs(left: list[str], right: list[str]) -> Floats1d:
    """Compute the cosine of TF-IDF over character 3-grams of each pair (n,).

    The TF-IDF weights are computed from these texts. A text of fewer than three characters has the cosine 0.0.

    Raises:
        SapbertError: E546, without scikit-learn.
    """
    vectorizer = character_3_grams()
    if not any(len(text) >= 3 for text in (*left, *right)):
        return np.zeros(len(left))
    vectors = vectorizer.fit_transform([*left, *right])
    products = vectors[: len(left)].multiply(vectors[len(left) :])
    return np.asarray(products.sum(axis=1), dtype=np.float64).ravel()


class ExactNeighbours:
    """Exact search in place of scispaCy's nmslib graph: the same neighbours and distances.

    The graph takes over an hour for HPO's 41,487 names with scispaCy's settings, and differs from run to run.
    """

    def addDataPointBatch(self, vectors: Any) -> None:
        """Keep sparse vectors (n, 3-grams)."""
        self.vectors = vectors.tocsr()  # (n, 3-grams), rows of length 1

    def createIndex(self, *_: Any, **__: Any) -> None:
        """Do nothing: exact search needs no graph."""

    def knnQueryBatch(self, queries: Any, k: int) -> list[tuple[Ints1d, Floats2d]]:
        """Return rows and cosine distances of the k nearest vectors of each query (q, 3-grams); of equally near ones, the earlier."""
        found = []
        for start in range(0, queries.shape[0], CHUNK):
            for line in (queries[start : start + CHUNK] @ self.vectors.T).toarray():  # (n,)
                few = min(k, len(line))
                near = np.flatnonzero(line >= np.partition(line, len(line) - few)[len(line) - few])
                rows = near[np.lexsort((near, -line[near]))][:few]
                found.append((rows, 1.0 - line[rows]))
        return found


class ScispacyCandidates:
    """scispaCy's CandidateGenerator over a dictionary, without its thresholds.

    It uses scispaCy's vectors (char_wb 3-grams that occur in ten names), its 30 neighbours, and the best similarity of a name. The last generator is
    kept, because benchmarks with the same dictionary follow each other.
    """

    def __init__(self) -> None:
        self._names: list[str] | None = None
        self._generator: Any = None

    def __call__(self, names: list[str], queries: list[str]) -> Scorer:
        """Return the scorer of some mentions.

        Args:
            names: names of the dictionary.
            queries: mentions.

        Raises:
            SapbertError: E570, scispaCy's generator cannot be imported; E571, the dictionary is too small.
        """
        if self._names is not names:
            self._names, self._generator = None, None  # free the memory of the old one first
            self._names, self._generator = names, candidate_generator(names)
        row_of = {name: row for row, name in enumerate(names)}
        generator = self._generator

        def score(start: int, stop: int) -> Floats2d:
            scores = np.full((len(names), stop - start), -np.inf, dtype=np.float32)
            with quiet():
                candidates = generator(queries[start:stop], NEIGHBOURS)
            for i, found in enumerate(candidates):
                for candidate in found:
                    for alias, similarity in zip(candidate.aliases, candidate.similarities):
                        if similarity > 0:
                            scores[row_of[alias], i] = similarity
            return scores

        return score


def candidate_generator(names: Sequence[str], *, exact: bool = True) -> Any:
    """Make scispaCy's CandidateGenerator with its own `create_tfidf_ann_index`.

    Each name counts as a separate concept here. Its real concepts are looked up later, in the same way for every system.

    Args:
        names: The names.
        exact: Whether to find neighbours with `ExactNeighbours`; if not, with nmslib's graph.

    Raises:
        SapbertError: E570 (it cannot be imported), E571 (the dictionary is too small).
    """
    try:
        import scispacy.candidate_generation as candidate_generation
        from scispacy.linking_utils import Entity, KnowledgeBase
    except ImportError as error:
        raise fail("E570", why=f"{type(error).__name__}: {error}") from error
    kb = KnowledgeBase(Entity(str(row), name, []) for row, name in enumerate(names))
    engine = SimpleNamespace(init=lambda **_: ExactNeighbours(), DataType=candidate_generation.nmslib.DataType)
    patches: dict[str, Any] = {"scipy_supports_sparse_float16": lambda: True}  # only saving needs it, and nothing is saved
    if exact:
        patches["nmslib"] = engine
    try:
        with quiet(), mock.patch.multiple(candidate_generation, **patches):
            aliases, vectorizer, index = candidate_generation.create_tfidf_ann_index(None, kb)
    except ValueError as error:  # scikit-learn: no 3-gram occurs in ten names
        raise fail("E571", names=len(names), why=str(error).rstrip(".")) from error
    return candidate_generation.CandidateGenerator(index, vectorizer, aliases, kb)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide what scispaCy prints."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def all_baselines() -> dict[str, Baseline]:
    """Return name in the output -> baseline: a function that takes names and queries, both normalised, and returns a scorer."""
    return {EXACT: exact_match, TFIDF: tfidf, "scispaCy's candidate generator": ScispacyCandidates()}


PAIRWISE: dict[str, Pairwise] = {EXACT: equal_pairs, TFIDF: tfidf_pairs}  # functions of the left and the right texts, both normalised
NAMES = tuple(all_baselines())
