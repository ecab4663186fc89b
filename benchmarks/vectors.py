"""Vectors that no encoder made, for sizes that no open ontology has: as many as asked for, spread as real names' are."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spacy_sapbert.indexes.stored import exact_search

BLOCK = 50_000
SAMPLE = 2_000  # real vectors whose nearest neighbour is looked for
Vectors = npt.NDArray[np.float32]


def like(real: npt.NDArray[np.float16], count: int, out: Path, seed: int = 13) -> npt.NDArray[np.float16]:
    """`count` L2-normalised vectors in the file `out` (npy, float16), mapped; made block by block, the same for the same seed.

    Each is a real one moved in a random direction drawn from the real ones' covariance (so the spectrum is theirs), by the distance of
    a real vector to its nearest neighbour (so that neighbours are as near as theirs); the real ones come first.
    real (n, d): L2-normalised.
    """
    count_real, dim = real.shape
    chance = np.random.default_rng(seed)
    sample = np.asarray(real[np.sort(chance.permutation(count_real)[: 10 * SAMPLE])], dtype=np.float32)
    spread = np.linalg.cholesky(np.cov(sample.T) + 1e-6 * np.eye(dim)).astype(np.float32)  # (d, d)
    distances = nearest(real, sample[:SAMPLE])
    out.parent.mkdir(parents=True, exist_ok=True)
    fresh = out.with_name(out.name + ".new")
    made = np.lib.format.open_memmap(fresh, mode="w+", dtype=np.float16, shape=(count, dim))
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
    return np.load(out, mmap_mode="r", allow_pickle=False)


def nearest(vectors: npt.NDArray[np.float16], queries: Vectors) -> Vectors:
    """Return the distance of each query, which is one of the vectors, to the nearest other vector (q,)."""
    _, cosines = exact_search(vectors, queries, 2)
    return np.sqrt(np.maximum(2 - 2 * cosines[:, 1], 0)).astype(np.float32)
