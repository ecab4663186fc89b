"""Put vectors into lists around centres that k-means learns (an inverted file: Jégou, Douze and Schmid, TPAMI 2011)."""

import numpy as np

from ..types import Floats2d, Ints1d

PER_LIST = 60  # vectors per centre that centres are learnt from
ROUNDS = 8  # of k-means; further rounds would move only a few names
BLOCK = 10_000  # vectors that are compared with the centres at once


def learn_centres(vectors: Floats2d, count: int, seed: int, *, per_list: int = PER_LIST, rounds: int = ROUNDS) -> Floats2d:
    """Learn centres from a seeded sample, by k-means with cosines.

    Args:
        vectors: (n, d), in any precision.
        count: number of centres, c.
        seed: seed of the sample and of the first centres.
        per_list: vectors per centre that are in the sample.
        rounds: rounds of k-means.

    Returns:
        Centres (c, d), L2-normalised.
    """
    chosen = np.random.default_rng(seed).permutation(len(vectors))
    sample = directions(vectors[np.sort(chosen[: per_list * count])])
    centres = directions(vectors[np.sort(chosen[:count])])
    for _ in range(rounds):
        nearest = nearest_centres(sample, centres)
        order = np.argsort(nearest, kind="stable")
        firsts = np.searchsorted(nearest[order], np.arange(count))
        filled = np.flatnonzero(np.bincount(nearest, minlength=count))
        centres[filled] = directions(np.add.reduceat(sample[order], firsts[filled], axis=0))
    return centres


def directions(vectors: Floats2d) -> Floats2d:
    """Return vectors (n, d) with the length 1, as float32."""
    given = np.asarray(vectors, dtype=np.float32)
    lengths = np.linalg.norm(given, axis=1, keepdims=True)
    made: Floats2d = given / np.maximum(lengths, 1e-12)
    return made


def nearest_centres(vectors: Floats2d, centres: Floats2d) -> Ints1d:
    """Return for each vector the number of the centre with the largest cosine (n,)."""
    blocks = [np.argmax(vectors[start : start + BLOCK] @ centres.T, axis=1) for start in range(0, len(vectors), BLOCK)]
    found: Ints1d = np.concatenate(blocks).astype(np.int64)
    return found
