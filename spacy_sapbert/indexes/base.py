"""Protocols that an engine may implement in addition to `VectorIndex`. The code that uses one checks for it with isinstance.

An engine is a class that is registered under `sapbert_indexes` and implements `spacy_sapbert.types.VectorIndex`. It works without any of the
protocols below; the docstring of each says what is lost without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy.typing as npt

from ..types import Floats2d, Ints1d, Ints2d


@runtime_checkable
class NeedsLibrary(Protocol):
    """An engine that needs an optional library. Without this, a missing library is noticed only after hours of encoding."""

    def require(self) -> None:
        """Raise an error that says what to install, if the library is missing (or an error, if its server can't be reached)."""
        ...


@runtime_checkable
class Tunable(Protocol):
    """An engine whose search can be made faster or more accurate. Without this, a build measures only the given settings."""

    @property
    def build_params(self) -> Sequence[str]:
        """Names of the settings that the index's files depend on. If one of them changes, the index must be built again."""
        ...

    def settings_to_try(self, size: int) -> list[dict[str, Any]]:
        """Return the settings that a build measures.

        Args:
            size: Number of names.

        Returns:
            Settings by name, from the cheapest search to the most expensive one; with equal build params, a more expensive one must find more. The
            first one that is accurate enough is used. [] for none.
        """
        ...

    def set_search(self, settings: Mapping[str, Any]) -> None:
        """Use other search params from now on. If the settings have build params, these are the ones that this index was built with."""
        ...


@runtime_checkable
class SizedOnDisk(Protocol):
    """An engine that knows the size of its files. Without this, estimates count only the stored vectors."""

    def engine_bytes(self, dim: int) -> float:
        """Return the bytes per name of the engine's own files, for vectors of `dim` dimensions. A build takes as much memory, too."""
        ...


@runtime_checkable
class LearnsFromSample(Protocol):
    """An engine that learns from a sample of the vectors before it is built. Without this, estimates leave out that memory."""

    def learning_bytes(self, names: int, dim: int) -> float:
        """Return the bytes of memory that learning takes, for this number of names of `dim` dimensions."""
        ...


@runtime_checkable
class StoresAs(Protocol):
    """An engine that stores vectors in another precision than float32. Encoded names are then stored only in that precision."""

    @property
    def storage(self) -> npt.DTypeLike:
        """NumPy's type of a stored value, such as float16."""
        ...


@runtime_checkable
class Reported(Protocol):
    """An index with a report of its tuning, which `to_disk` saves and `from_disk` reads.

    Without this, nobody can check that an index was built for the knowledge base and the encoder that it is used with.
    """

    report: dict[str, Any]  # JSON values


@runtime_checkable
class HasReaderParams(Protocol):
    """An engine with settings that matter only to the process that searches, such as timeouts. Without this, all settings belong to the folder."""

    @property
    def reader_params(self) -> Sequence[str]:
        """Names of the settings that results do not depend on."""
        ...


@runtime_checkable
class Threaded(Protocol):
    """An engine that searches with several threads. `threads` is one of its reader params."""

    threads: int  # 0 for one per core


@runtime_checkable
class KeepsNeighbours(Protocol):
    """An index with a table of the nearest rows of each row. Without this, the neighbours of an exact match are searched like those of other mentions."""

    def find_neighbours(self, tick: Callable[[int], object]) -> None:
        """Make the table, once the index is built. An index with very many rows may leave it out.

        Args:
            tick: Called with the number of rows whose neighbours were found, again and again.
        """
        ...

    def neighbours(self, rows: Ints1d, k: int) -> tuple[Ints2d, Floats2d] | None:
        """Return the k nearest rows of some rows (r,), each itself included, and their cosines: (r, k) and (r, k), best first.

        Returns:
            None if there is no table, or if it has fewer than k rows for each row.
        """
        ...

    def neighbour_bytes(self, names: int) -> int:
        """Return the bytes of the table for this number of names."""
        ...


def report_of(index: object) -> dict[str, Any]:
    """Return the report of an index's tuning; {} if it has none."""
    return index.report if isinstance(index, Reported) else {}


def reader_params_of(index: object) -> Sequence[str]:
    """Return the names of the settings that results do not depend on."""
    return index.reader_params if isinstance(index, HasReaderParams) else ()
