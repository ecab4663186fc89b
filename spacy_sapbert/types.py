"""What the parts know of each other: small Protocols and array aliases. No logic."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Optional, Protocol, Tuple, runtime_checkable

import numpy as np
import numpy.typing as npt

Floats2d = npt.NDArray[np.float32]
Ints1d = npt.NDArray[np.int64]
Ints2d = npt.NDArray[np.int64]
Bools1d = npt.NDArray[np.bool_]


@runtime_checkable
class VectorIndex(Protocol):
    """Nearest neighbours by cosine. Rows are the knowledge base's distinct names, in its order."""

    dim: int

    def __len__(self) -> int: ...

    def build(self, vectors: Floats2d, *, progress: bool = False) -> None:
        """vectors (n, dim), L2-normalised."""
        ...

    def query(self, vectors: Floats2d, k: int, *, allowed: Optional[Bools1d] = None, effort: float = 1.0) -> Tuple[Ints2d, Floats2d]:
        """(q, dim) -> rows (q, k) and cosines (q, k), best first; -1 and -inf where fewer than k are allowed.

        allowed (n,): search only these rows; never fewer than min(k, allowed.sum()) come back.
        effort: below 1.0 an approximate engine may look at that share of what it usually does: for queries whose best answer is known.
        """
        ...

    def vectors(self, rows: npt.NDArray[np.int64]) -> Floats2d:
        """The stored vectors of some rows (r,) -> (r, dim)."""
        ...

    def get_config(self) -> Dict[str, Any]:
        """The settings that make this index again, JSON-able."""
        ...

    def to_disk(self, path: Path) -> None: ...

    def from_disk(self, path: Path) -> VectorIndex: ...
