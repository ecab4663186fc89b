"""Exact search: the truth for recall and tests, and as fast as any engine up to some ten thousand names."""

from pathlib import Path
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from ..types import Bools1d, Floats2d, Ints2d
from .stored import StoredVectors, exact_search


class ExactIndex(StoredVectors):
    """`spacy-sapbert.ExactIndex.v1`: every query against every vector, in float32."""

    kind = "exact index"
    storage = np.float32

    @classmethod
    def over(cls, vectors: npt.NDArray[Any]) -> "ExactIndex":
        """Return an index that searches vectors (n, d) in place, in any precision. Nothing is copied or checked."""
        index = cls()
        index._stored, index.dim = vectors, int(vectors.shape[1])
        return index

    def get_config(self) -> dict[str, Any]:
        """Return no settings: there are none."""
        return {}

    def query(self, vectors: Floats2d, k: int, *, allowed: Optional[Bools1d] = None, budget: float = 1.0) -> tuple[Ints2d, Floats2d]:
        """Find the nearest rows; see `VectorIndex.query`.

        Raises:
            SapbertError: E204 (shape, NaN), E206 (k).
        """
        queries = self._check(vectors, k, allowed)
        return exact_search(self._stored, queries, k, None if allowed is None else np.flatnonzero(allowed))

    def from_disk(self, path: Path) -> "ExactIndex":
        """Open the index of a folder."""
        self._read_folder(Path(path))
        return self
