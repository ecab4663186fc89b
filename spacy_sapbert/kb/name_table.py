"""The name table: which concepts each surface form stands for. On disk it is one int32 array; each of its lines is a named column."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import open_array
from ..types import Bools1d, Ints1d

Column = npt.NDArray[np.int32]
LATER = 50_000  # added to the rank in a tie if a name is not canonical
ADDED, ADDED_WITHOUT_CUI = -2, -1  # ranks of names that a user added; they come before canonical names, because the user means this concept
STEP = 2 * LATER  # added to the rank if the concept has no CUI, and twice if the name is weak (narrower, related, broader or lay)


def has_cui(rank: npt.NDArray[Any]) -> Bools1d:
    """Return which ranks in a tie (n,) belong to a concept with a CUI."""
    return np.asarray(np.where(rank < 0, rank == ADDED, rank // STEP % 2 == 0))


def is_weak(rank: npt.NDArray[Any]) -> Bools1d:
    """Return which ranks in a tie (n,) belong to narrower, related, broader and lay names."""
    return np.asarray(rank >= 2 * STEP)


def is_canonical(rank: int) -> bool:
    """Return whether a rank in a tie belongs to a canonical name, or to a name that a user added."""
    return rank < 0 or rank % STEP < LATER


@dataclass(frozen=True, eq=False)
class NameTable:
    """One row for each pair of a surface form and a concept that has it. Rows are sorted by surface form, then by rank, then by concept.

    The columns of a knowledge base are read-only views of its memory-mapped file, each (m,) and contiguous, so that a search for a surface
    form touches few pages.

    Attributes:
        surface_form: row of the surface form in the knowledge base, which is its row in the index.
        concept: row of the concept in the knowledge base.
        rank: rank in a tie, the lowest first: canonical names, then other names, then weak names; among these, by the order of sources.
        types: number of the concept's set of semantic types, see `KnowledgeBase.allowed_type_sets`.
        vocabularies: number of the concept's set of vocabularies, see `KnowledgeBase.allowed_vocabulary_sets`.
        defined: 1 if the concept has a definition, otherwise 0.
    """

    surface_form: Column
    concept: Column
    rank: Column
    types: Column
    vocabularies: Column
    defined: Column

    @classmethod
    def from_array(cls, array: Column) -> NameTable:
        """Return a table whose columns are views of an array.

        Args:
            array: (6, m), one line for each column in the order of the attributes.

        Raises:
            ValueError: the array has another shape.
        """
        if array.ndim != 2 or len(array) != len(fields(cls)):
            raise ValueError(f"the array has the shape {array.shape}, but a name table is ({len(fields(cls))}, m)")
        return cls(*array)

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[int, int, int, int, int, int]]) -> NameTable:
        """Return a table in memory, made from rows that are already in its order."""
        lines = np.array(list(rows), dtype=np.int32).reshape(-1, len(fields(cls)))
        return cls.from_array(np.ascontiguousarray(lines.T))

    @classmethod
    def open(cls, path: Path) -> NameTable:
        """Memory-map a file that `kb build` wrote, read-only.

        Raises:
            ValueError: the file is not such an array, or cannot be read.
        """
        array = open_array(path, "i", (len(fields(cls)), None))
        if array.dtype != np.int32:
            raise ValueError(f"{path.name} holds {array.dtype}, not int32")
        return cls.from_array(array)

    def __len__(self) -> int:
        """Return the number of rows, m."""
        return len(self.surface_form)

    def find(self, surface_forms: npt.ArrayLike) -> tuple[Ints1d, Ints1d]:
        """Find all rows of some surface forms.

        Args:
            surface_forms: (n,) rows of surface forms, in any order. Nothing is found for one that the table does not have.

        Returns:
            Two arrays (r,): the position among the n surface forms, ascending, and the row of the table.
        """
        first, end = self._bounds(surface_forms)
        counts = end - first
        which = np.repeat(np.arange(len(first)), counts)
        return which, np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + first[which]

    def rank_of(self, surface_form: int, concept: int) -> int:
        """Return the rank in a tie of the name of a concept (a row) that has this surface form (a row). The table must have it."""
        row = int(np.searchsorted(self.surface_form, np.int32(surface_form)))
        while self.concept[row] != concept:
            row += 1
        return int(self.rank[row])

    def concepts_of(self, surface_forms: npt.ArrayLike) -> list[frozenset[int]]:
        """Return the concept rows of each of some surface forms (n,); none for -1."""
        first, end = self._bounds(surface_forms)
        return [frozenset(self.concept[a:b].tolist()) for a, b in zip(first.tolist(), end.tolist())]

    def surface_forms_of(self, allowed: Bools1d, n: int) -> Bools1d:
        """Return which of `n` surface forms have an allowed row.

        Args:
            allowed: (m,) mask of rows.
            n: number of surface forms in the knowledge base.

        Returns:
            Mask (n,) of surface forms.
        """
        mask = np.zeros(n, dtype=np.bool_)
        mask[self.surface_form[allowed]] = True
        return mask

    def _bounds(self, surface_forms: npt.ArrayLike) -> tuple[Ints1d, Ints1d]:
        wanted = np.asarray(surface_forms).astype(self.surface_form.dtype)  # otherwise NumPy converts the whole column: 50 ms for UMLS
        return np.searchsorted(self.surface_form, wanted, side="left"), np.searchsorted(self.surface_form, wanted, side="right")
