"""Array types, and the protocols that an index and a component may implement. There is no logic here."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Floats2d = npt.NDArray[np.float32]
Ints1d = npt.NDArray[np.int64]
Ints2d = npt.NDArray[np.int64]
Bools1d = npt.NDArray[np.bool_]


@runtime_checkable
class VectorIndex(Protocol):
    """Nearest neighbours by cosine. A row is the number of a surface form of the knowledge base, in its order.

    A class with these methods is an engine. Register the class itself in spaCy's registry `sapbert_indexes`, so that
    `type(index)(**index.get_config())` makes an equal index that is not built yet. `spacy_sapbert.indexes.base` has the protocols for what
    an engine may also offer.
    """

    dim: int  # width of a vector; 0 before it is built

    def __len__(self) -> int:
        """Return the number of rows."""
        ...

    def build(self, vectors: Floats2d, *, progress: bool = False) -> None:
        """Build the index.

        Args:
            vectors: (n, dim), L2-normalised; float32, or in the index's own precision. They may be mapped from a file.
            progress: Show a progress bar.
        """
        ...

    def query(self, vectors: Floats2d, k: int, *, allowed: Bools1d | None = None, budget: float = 1.0) -> tuple[Ints2d, Floats2d]:
        """Find the nearest rows.

        Args:
            vectors: Queries (q, dim), L2-normalised.
            k: Rows to return per query.
            allowed: (n,), True for the rows that may be found; None for all. Never fewer than min(k, allowed.sum()) are returned.
            budget: The search budget: the share of the usual work that an approximate engine may do. It is below 1.0 for queries whose
                best answer is already known.

        Returns:
            Rows (q, k) and cosines (q, k), best first; -1 and -inf where fewer than k are allowed.
        """
        ...

    def vectors(self, rows: Ints1d) -> Floats2d:
        """Return the stored vectors of rows (r,) as float32 (r, dim)."""
        ...

    def get_config(self) -> dict[str, Any]:
        """Return the settings that make an equal index, as JSON values."""
        ...

    def to_disk(self, path: Path) -> None:
        """Write the index into a folder, with a manifest (`files.write_manifest`) whose "config" is `get_config()`."""
        ...

    def from_disk(self, path: Path) -> VectorIndex:
        """Open the index of a folder, and return it."""
        ...


@runtime_checkable
class Loadable(Protocol):
    """A component that reads its files on first use, or when `load` is called."""

    def load(self) -> None:
        """Read the files, unless they were read before."""
        ...


@runtime_checkable
class Forgetting(Protocol):
    """A component with a cache that its results may depend on in their last bits."""

    def forget(self) -> None:
        """Empty the cache."""
        ...
