"""Find concepts whose names look alike, as hard negatives for batches. Uses TF-IDF of character n-grams, no encoder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from spacy_sapbert.indexes.annoy import AnnoyIndex
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.types import Floats2d, VectorIndex

from .pairs import PAIRS

VERSION = 1  # version of the file next to the pairs
NAMES = 12  # number of names of a concept that are read; more names add little
CHUNK = 1024  # number of rows that are searched at a time
EXACT = 200_000  # concepts up to which search is exact; with more, it would take hours


def kept_nearest_labels(pairs: str | Path, fingerprint: str) -> npt.NDArray[np.int32]:
    """Return `nearest_labels`. Read them from the file next to the pairs, or compute them and write that file for the next training.

    Args:
        pairs: Folder of pairs.
        fingerprint: Fingerprint of pairs.parquet.

    Returns:
        int32 (largest label + 1, count), see `nearest_labels`.
    """
    path = Path(pairs) / f"neighbours-{VERSION}-{fingerprint[:16]}.npy"
    if path.is_file():
        return np.asarray(np.load(path), dtype=np.int32)
    found = nearest_labels(pairs)
    scratch = path.with_name(f".{path.name}.{os.getpid()}.npy")  # each process of a training writes its own file
    try:
        np.save(scratch, found)
        os.replace(scratch, path)
    except OSError:  # the folder is read-only: the next training computes it again
        scratch.unlink(missing_ok=True)
    return found


def nearest_labels(pairs: str | Path, *, count: int = 32, dimensions: int = 96, seed: int = 0) -> npt.NDArray[np.int32]:
    """Return for each label of pairs.parquet the labels whose names share most character n-grams.

    The measure is the cosine in `dimensions` principal directions of the TF-IDF matrix of 3- and 4-grams within words (latent semantic
    analysis). 42,000 concepts take a minute on one core; encoding their names would take several minutes.

    Args:
        pairs: Folder of pairs.
        count: Number of near labels for each label.
        dimensions: Number of principal directions.
        seed: Seed of the decomposition.

    Returns:
        int32 (largest label + 1, count); -1 fills empty places.
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    names: dict[int, dict[str, None]] = {}
    for batch in pq.ParquetFile(Path(pairs) / PAIRS).iter_batches():
        for anchor, positive, label in zip(*(batch.column(c).to_pylist() for c in ("anchor", "positive", "label"))):
            known = names.setdefault(label, {})
            if len(known) < NAMES:
                known.update({anchor: None, positive: None})
    labels = np.array(sorted(names), dtype=np.int32)
    found = np.full((int(labels.max(initial=-1)) + 1, count), -1, dtype=np.int32)
    if len(labels) < 3:
        return found
    texts: list[str] = [" | ".join(names[label]) for label in labels.tolist()]
    rare = 3 if len(texts) > 1000 else 1
    matrix = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 4), min_df=rare, max_features=60_000, dtype=np.float32).fit_transform(texts)
    width = min(dimensions, min(matrix.shape) - 1)
    vectors = TruncatedSVD(width, random_state=seed).fit_transform(matrix).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-9
    keep = min(count, len(labels) - 1)
    for start, top in _nearest(vectors, keep):  # rows of `vectors`
        found[labels[start : start + len(top)], :keep] = labels[np.sort(top, axis=1)]
    return found


def _nearest(vectors: Floats2d, keep: int) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Yield the first row of each chunk, and the nearest other rows of its rows (chunk, keep).

    More than `EXACT` vectors are searched with an Annoy index.
    """
    index: VectorIndex = AnnoyIndex(n_trees=10, pca=0, search_k=2_000) if len(vectors) > EXACT else ExactIndex()
    index.build(vectors)
    for start in range(0, len(vectors), CHUNK):
        rows, _ = index.query(vectors[start : start + CHUNK], keep + 1)
        own = np.arange(start, start + len(rows))[:, None]
        others = np.argsort(rows == own, axis=1, kind="stable")[:, :keep]  # the row itself is moved to the end
        yield start, np.take_along_axis(rows, others, axis=1)
