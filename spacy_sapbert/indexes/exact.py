"""Exact search. Recall and tests compare other engines with it; up to some ten thousand names it is as fast as any engine."""

from pathlib import Path
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from ..types import Bools1d, Floats2d, Ints2d
from .stored import StoredVectors, exact_search


class ExactIndex(StoredVectors):
    """`spacy-sapbert.ExactIndex.v1`: compares every query with every vector, in float32."""

    kind = "exact index"
    storage = np.float32

    @classmethod
    def over(cls, vectors: npt.NDArray[Any]) -> "ExactIndex":
        """Return an index over vectors (n, d) of any precision. They are neither copied nor checked."""
        index = cls()
        index._stored, index.dim = vectors, int(vectors.shape[1])
        return index

    def get_config(self) -> dict[str, Any]:
        """Return {}, because there are no settings."""
        return {}

    def query(self, vectors: Floats2d, k: int, *, allowed: Optional[Bools1d] = None, budget: float = 1.0) -> tuple[Ints2d, Floats2d]:
        """Find the nearest rows; see `VectorIndex.query`.

        Raises:
            SapbertError: E204, the shape is wrong or a value is not finite; E206, k is below 1.
        """
        queries = self._check(vectors, k, allowed)
        return exact_search(self._stored, queries, k, None if allowed is None else np.flatnonzero(allowed))

    def from_disk(self, path: Path) -> "ExactIndex":
        """Open the index of a folder."""
        self._read_folder(Path(path))
        return self
