"""Make synthetic vectors, distributed like those of real names, for sizes that no open ontology has."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spacy_sapbert.indexes.stored import exact_search

BLOCK = 50_000
SAMPLE = 2_000  # number of real vectors whose distance to their nearest neighbour is measured
Vectors = npt.NDArray[np.float32]


def like(real: npt.NDArray[np.float16], count: int, out: Path, seed: int = 13) -> npt.NDArray[np.float16]:
    """Write synthetic vectors that resemble real ones, block by block. The real vectors come first.

    Each synthetic vector is a real one that is moved. The direction is drawn from the covariance of the real vectors, so the spectrum is
    theirs. The length is the distance of a real vector to its nearest neighbour, so neighbours are as near as theirs.

    Args:
        real: L2-normalised vectors, float16 (n, d).
        count: Number of vectors to write.
        out: File to write, npy.
        seed: The same seed gives the same vectors.

    Returns:
        The L2-normalised vectors, float16 (count, d), mapped from the file.
    """
    count_real, dim = real.shape
    chance = np.random.default_rng(seed)
    sample = np.asarray(real[np.sort(chance.permutation(count_real)[: 10 * SAMPLE])], dtype=np.float32)
    spread = np.linalg.cholesky(np.cov(sample.T) + 1e-6 * np.eye(dim)).astype(np.float32)  # (d, d)
    distances = nearest(real, sample[:SAMPLE])
    out.parent.mkdir(parents=True, exist_ok=True)
    fresh = out.with_name(out.name + ".new")
    made = np.lib.format.open_memmap(  # type: ignore[no-untyped-call]
        fresh, mode="w+", dtype=np.float16, shape=(count, dim)
    )
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        own = min(max(count_real - start, 0), size)
        made[start : start + own] = real[start : start + own]
        if own < size:
            rest = size - own
            anchors = np.asarray(real[np.sort(chance.integers(count_real, size=rest))], dtype=np.float32)
            moves = chance.standard_normal((rest, dim), dtype=np.float32) @ spread.T
            moves *= (chance.choice(distances, rest) / np.linalg.norm(moves, axis=1))[:, None]
            moved = anchors + moves
            made[start + own : start + size] = moved / np.linalg.norm(moved, axis=1, keepdims=True)
    made.flush()
    del made
    os.replace(fresh, out)
    found: npt.NDArray[np.float16] = np.load(out, mmap_mode="r", allow_pickle=False)
    return found


def nearest(vectors: npt.NDArray[np.float16], queries: Vectors) -> Vectors:
    """Return the Euclidean distance of each query to the nearest other vector.

    Args:
        vectors: L2-normalised vectors, float16 (n, d).
        queries: Some of these vectors, float32 (q, d).

    Returns:
        Distances, float32 (q,).
    """
    _, cosines = exact_search(vectors, queries, 2)
    distances: Vectors = np.sqrt(np.maximum(2 - 2 * cosines[:, 1], 0)).astype(np.float32)
    return distances
