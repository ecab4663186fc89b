"""Exact search over a dictionary in memory, and its accuracy. This module needs only numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from spacy_sapbert.types import Floats2d

TOLERANCE = 1e-6  # scores that differ by no more are equal: the cosine of a name varies by 1e-7 with its position in a matrix product
CHUNK_BYTES = 200_000_000  # bytes of scores that are in memory at the same time
Ints1d = npt.NDArray[np.int64]
Scorer = Callable[[int, int], Floats2d]


def best_scores(score: Scorer, n_queries: int, rows: Ints1d, labels: Ints1d, n_labels: int) -> Iterator[tuple[int, Floats2d]]:
    """Yield the score of the best name of each label, in chunks of queries.

    Args:
        score: A function (start, stop) -> (n names, stop - start), the similarity of each name with each query.
        n_queries: Number of queries.
        rows: (m,) row of the name of each pair of name and label.
        labels: (m,) label of each pair, in ascending order.
        n_labels: Number of labels, with those that have no name.

    Yields:
        The first query of the chunk, and scores (n_labels, queries of the chunk); -inf for a label without a name. A chunk takes at most about
        twice CHUNK_BYTES of memory.

    Raises:
        ValueError: There are no names, or labels are not in ascending order.
    """
    if not len(rows):
        raise ValueError("no names to search")
    if np.any(np.diff(labels) < 0):
        raise ValueError("labels are not in order")
    starts = np.flatnonzero(np.r_[True, np.diff(labels) > 0])
    present = labels[starts]
    chunk = max(1, CHUNK_BYTES // (4 * (len(rows) + n_labels)))
    in_place = np.array_equal(rows, np.arange(len(rows)))
    for start in range(0, n_queries, chunk):
        scores = score(start, min(start + chunk, n_queries))  # (n, chunk): the scores of a name are contiguous, so gathering copies whole rows
        best = np.full((n_labels, scores.shape[1]), -np.inf, dtype=np.float32)
        best[present] = np.maximum.reduceat(scores if in_place and len(scores) == len(rows) else scores[rows], starts, axis=0)
        yield start, best


def retrieval_accuracy(query_vectors: Floats2d, name_vectors: Floats2d, name_labels: Ints1d, query_labels: Ints1d, k: int = 5) -> tuple[float, float]:
    """Measure how often exact search finds the right label.

    A label scores as its best name. For equal scores (within TOLERANCE) the expected value counts: min(1, max(0, (k - above) / tied)). A query
    whose label has no name is wrong. Memory: under 500 MB in addition to the arguments, for up to about 25 million names.

    Args:
        query_vectors: (q, d), L2-normalised.
        name_vectors: (n, d), L2-normalised.
        name_labels: (n,) label of each name, integers.
        query_labels: (q,) right label of each query.
        k: Depth of the second figure.

    Returns:
        Per cent of queries whose label is the first, and per cent whose label is among the first k; (0.0, 0.0) for no queries.

    Raises:
        ValueError: The numbers of vectors and labels differ.
    """
    if len(query_vectors) != len(query_labels) or len(name_vectors) != len(name_labels):
        raise ValueError(f"{len(query_vectors)} and {len(name_vectors)} vectors but {len(query_labels)} and {len(name_labels)} labels")
    if not len(query_vectors):
        return 0.0, 0.0
    order = np.argsort(name_labels, kind="stable")
    unique, labels = np.unique(np.asarray(name_labels)[order], return_inverse=True)
    gold = np.minimum(np.searchsorted(unique, query_labels), len(unique) - 1)
    known = unique[gold] == query_labels
    sums = np.zeros(2)

    def score(start: int, stop: int) -> Floats2d:
        return name_vectors @ query_vectors[start:stop].T

    for start, best in best_scores(score, len(query_vectors), order, labels, len(unique)):
        part = slice(start, start + best.shape[1])
        own = best[gold[part], np.arange(best.shape[1])]  # (chunk,)
        above = (best > own + TOLERANCE).sum(axis=0)
        tied = (best >= own - TOLERANCE).sum(axis=0) - above
        for i, depth in enumerate((1, k)):
            sums[i] += (np.clip((depth - above) / tied, 0.0, 1.0) * known[part]).sum()
    at_1, at_k = 100.0 * sums / len(query_vectors)
    return float(at_1), float(at_k)
