"""Candidate names of a mention by sparse and dense search, and the accuracy of the first names.

Source: BioSyn, Sung et al., ACL 2020, sections 3.1 and 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt
from sentence_transformers.base.evaluation import BaseEvaluator

from spacy_sapbert.types import Floats2d

from ..data.lookups import Lookups, Names
from .retrieval import TOLERANCE
from .sparse import character_n_grams
from .trainer import encode, of_the_first

Ints = npt.NDArray[np.int64]
CHUNK = 64  # lookups whose scores with all names are in memory at the same time
N_GRAMS = (1, 2)  # characters, as in BioSyn's released code


class Dense:
    """Vectors of distinct texts. They are computed again if the encoder has learned since.

    Args:
        texts: The texts; there may be duplicates.
        model: The encoder.
        learned: Returns a number that changes when the encoder has learned.
    """

    def __init__(self, texts: Sequence[str], model: Any, learned: Callable[[], int]) -> None:
        self._texts = list(dict.fromkeys(texts))
        self._row = {text: row for row, text in enumerate(self._texts)}
        self._model, self._learned = model, learned
        self._at = -1
        self._vectors: Floats2d = np.zeros((0, 0), dtype=np.float32)

    def of(self, texts: Sequence[str]) -> Floats2d:
        """Return the vectors (n, d) of some of the texts."""
        if self._at != self._learned():
            self._vectors, self._at = encode(self._model, self._texts), self._learned()
        return self._vectors[[self._row[text] for text in texts]]


class Sparse:
    """TF-IDF of character n-grams, with weights from the names of a dictionary.

    Args:
        names: The names.

    Raises:
        SapbertError: E546, without scikit-learn.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._vectorizer = character_n_grams(*N_GRAMS, what="BioSyn")
        self._vectorizer.fit(names)

    def of(self, texts: Sequence[str]) -> Any:
        """Return sparse vectors (n, n-grams) of length 1."""
        return self._vectorizer.transform(texts)


def nearest(scores: Floats2d, k: int) -> Ints:
    """Return the columns of the k highest scores of each row (q, n), best first; in a tie the earlier column."""
    if k >= scores.shape[1]:
        return np.argsort(-scores, axis=1, kind="stable")
    least = -np.partition(-scores, k - 1, axis=1)[:, k - 1]
    found = np.empty((len(scores), k), dtype=np.int64)
    for i, (line, lowest) in enumerate(zip(scores, least)):
        near = np.flatnonzero(line >= lowest)
        found[i] = near[np.argsort(-line[near], kind="stable")][:k]
    return found


def merged(first: Ints, then: Ints, take: int) -> Ints:
    """Merge the candidates of two searches: the first `take` of one search, then those of the other that are not among them.

    Args:
        first: (q, k) rows of names from the first search.
        then: (q, k) rows of names from the second search.
        take: Number of candidates of the first search, at most k.

    Returns:
        (q, k) rows of names, without duplicates in a line.
    """
    k = first.shape[1]
    lines = [list(dict.fromkeys([*one[:take], *other]))[:k] for one, other in zip(first.tolist(), then.tolist())]
    return np.array(lines, dtype=np.int64).reshape(len(first), k)


class Candidates:
    """The candidates of training mentions. Those of the dense search are searched again as the encoder learns.

    Args:
        names: Names of the dictionary.
        mentions: (q,) mentions to train on.
        dense: Vectors of both.
        sparse: TF-IDF that was fitted on the names.
        count: Number of candidates of a mention, k.
        dense_share: Share of them that come from dense search.
    """

    def __init__(self, names: Names, mentions: Lookups, dense: Dense, sparse: Sparse, *, count: int, dense_share: float) -> None:
        self.names, self.mentions = names, mentions
        self.count = min(count, len(names.texts))
        self.epoch = -1
        self.rows: Ints = np.zeros((0, self.count), dtype=np.int64)  # (q, k)
        self._dense = dense
        self._of_names, self._of_mentions = sparse.of(names.texts), sparse.of(mentions.texts)
        self._n_sparse = self.count - int(self.count * dense_share)
        self._by_sparse = self._search(lambda part: (self._of_mentions[part] @ self._of_names.T).toarray())

    def _search(self, score: Callable[[slice], Floats2d]) -> Ints:
        parts = [slice(start, start + CHUNK) for start in range(0, len(self.mentions.texts), CHUNK)]
        return np.concatenate([nearest(score(part), self.count) for part in parts])

    def renew(self, epoch: int) -> None:
        """Search again with the current encoder, unless the candidates are already those of this epoch."""
        if epoch != self.epoch:
            names, mentions = self._dense.of(self.names.texts), self._dense.of(self.mentions.texts)
            self.keep(merged(self._by_sparse, self._search(lambda part: mentions[part] @ names.T), self._n_sparse), epoch)

    def keep(self, rows: Ints, epoch: int) -> None:
        """Set the rows (q, k) of the candidates of an epoch."""
        self.rows, self.epoch = rows, epoch

    def sparse_scores(self, mention: int) -> npt.NDArray[np.float32]:
        """Return the sparse score (k,) of a mention with each of its candidates."""
        scores: npt.NDArray[np.float32] = (self._of_names[self.rows[mention]] @ self._of_mentions[mention].T).toarray().ravel()
        return scores

    def right(self, mention: int) -> npt.NDArray[np.bool_]:
        """Say which candidates (k,) of a mention share a concept with its gold."""
        gold = self.mentions.gold[mention]
        return np.array([not gold.isdisjoint(self.names.concepts[row]) for row in self.rows[mention].tolist()], dtype=np.bool_)


class NameAccuracy(BaseEvaluator):
    """Measure the per cent of mentions whose first name, or one of the first five, has a gold concept.

    It is measured with both scores together, and with each score alone. All parts of a composite mention must be right. Names with equal scores are
    in random order, and the expected value counts.

    Args:
        names: The dictionary, which also holds the mentions of earlier parts.
        asked: The lookups.
        dense: Vectors of both.
        sparse: TF-IDF that was fitted on the names of the training.
        weight: Returns the weight of the sparse score.
    """

    def __init__(self, names: Names, asked: Lookups, dense: Dense, sparse: Sparse, weight: Callable[[], float]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.primary_metric = "both_at1"
        self.names, self.asked = names, asked
        self._dense, self._weight = dense, weight
        self._of_names, self._of_asked = sparse.of(names.texts), sparse.of(asked.texts)
        rows_of: dict[int, list[int]] = {}
        for row, concepts in enumerate(names.concepts):
            for concept in concepts:
                rows_of.setdefault(concept, []).append(row)
        self._right = [np.array(sorted({row for concept in gold for row in rows_of.get(concept, [])}), dtype=np.int64) for gold in asked.gold]

    def __call__(self, model: Any, output_path: str | None = None, epoch: int = -1, steps: int = -1) -> dict[str, float]:
        """Return the figures, and the weight of the sparse score."""
        outcomes = {f"{by}_at{k}": np.ones(self.asked.mentions[-1] + 1) for by in ("both", "dense", "sparse") for k in (1, 5)}
        for lookup, scores in enumerate(self._scores()):
            for by, line in scores.items():
                for k in (1, 5):
                    outcomes[f"{by}_at{k}"][self.asked.mentions[lookup]] *= chance_of_right(line, self._right[lookup], k)
        found = {key: round(100.0 * float(values.mean()), 3) for key, values in outcomes.items()}
        return of_the_first({**found, "sparse_weight": round(self._weight(), 5)})

    def _scores(self) -> Iterator[dict[str, npt.NDArray[np.float32]]]:
        names, asked, weight = self._dense.of(self.names.texts), self._dense.of(self.asked.texts), self._weight()
        for start in range(0, len(asked), CHUNK):
            dense = asked[start : start + CHUNK] @ names.T
            sparse = (self._of_asked[start : start + CHUNK] @ self._of_names.T).toarray()
            for one, other in zip(dense, sparse):
                yield {"both": one + weight * other, "dense": one, "sparse": other}


def chance_of_right(scores: npt.NDArray[np.float32], right: Ints, k: int) -> float:
    """Return the probability that a right name has one of the k highest scores, if equal scores (within TOLERANCE) are in random order.

    Args:
        scores: (n,) scores of all names.
        right: Rows of the right names.
        k: Depth.
    """
    if not len(right):
        return 0.0
    best = scores[right].max()
    above = int((scores > best + TOLERANCE).sum())
    tied = int((scores >= best - TOLERANCE).sum()) - above
    good = int((scores[right] >= best - TOLERANCE).sum())
    drawn = min(k - above, tied)
    return 0.0 if drawn <= 0 else 1.0 - comb(tied - good, drawn) / comb(tied, drawn)
