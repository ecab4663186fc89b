"""Exact search: the oracle for recall and tests, and as fast as any up to some ten thousand names."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Optional, Tuple

import numpy as np
import numpy.typing as npt

from ..types import Bools1d, Floats2d, Ints2d
from .base import StoredVectors, exact_search


class ExactIndex(StoredVectors):
    """`spacy-sapbert.ExactIndex.v1`: every query against every vector, in float32."""

    kind = "exact index"
    storage = np.float32

    @classmethod
    def over(cls, vectors: npt.NDArray[Any]) -> ExactIndex:
        """Search vectors (n, d) where they lie, in whatever precision; nothing is copied or checked."""
        index = cls()
        index._stored, index.dim = vectors, int(vectors.shape[1])
        return index

    def get_config(self) -> Dict[str, Any]:
        return {}

    def query(self, vectors: Floats2d, k: int, *, allowed: Optional[Bools1d] = None, effort: float = 1.0) -> Tuple[Ints2d, Floats2d]:
        """See `VectorIndex.query`. RAISES: SapbertError E204 (shape, NaN), E206 (k)."""
        queries = self._check(vectors, k, allowed)
        return exact_search(self._stored, queries, k, None if allowed is None else np.flatnonzero(allowed))

    def from_disk(self, path: Path) -> ExactIndex:
        self._read_folder(Path(path))
        return self
