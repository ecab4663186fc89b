"""What an engine may offer besides `VectorIndex`: small Protocols, each asked for by isinstance where it is used.

An engine is a class that is registered under `sapbert_indexes` and fulfils `spacy_sapbert.types.VectorIndex`. It works without any of the
Protocols below; each says what is lost without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy.typing as npt


@runtime_checkable
class NeedsLibrary(Protocol):
    """An engine of an optional library. Without this, a missing library is noticed only after hours of encoding."""

    def require(self) -> None:
        """Raise an error that says what to install, if the library is missing (or its server cannot be reached)."""
        ...


@runtime_checkable
class Tunable(Protocol):
    """An engine whose search can be made faster or more accurate. Without this, building measures the settings as they are given."""

    @property
    def build_params(self) -> Sequence[str]:
        """Names of the settings that the index's files depend on: where one of them changes, the index is built again."""
        ...

    def settings_to_try(self, size: int) -> list[dict[str, Any]]:
        """Return the settings that building measures.

        Args:
            size: Number of names.

        Returns:
            Settings by name, from the cheapest search to the dearest; with equal build params, a dearer one finds more. The first that is
            accurate enough is taken. [] for none.
        """
        ...

    def set_search(self, settings: Mapping[str, Any]) -> None:
        """Use other search params from now on. Build params among the settings are those that this index was built with."""
        ...


@runtime_checkable
class SizedOnDisk(Protocol):
    """An engine that knows the size of its files. Without this, estimates count the stored vectors alone."""

    def engine_bytes(self, dim: int) -> float:
        """Return the bytes per name, for vectors of `dim` dimensions, that the engine's own files take; in memory while it is built, too."""
        ...


@runtime_checkable
class LearnsFromSample(Protocol):
    """An engine that learns from a sample of the vectors before it is built. Without this, estimates leave that memory out."""

    def learning_bytes(self, names: int, dim: int) -> float:
        """Return the bytes of memory that learning takes."""
        ...


@runtime_checkable
class StoresAs(Protocol):
    """An engine that stores vectors with another precision than float32. Encoded names are then kept with that precision only."""

    @property
    def storage(self) -> npt.DTypeLike:
        """NumPy's type of a stored value, such as float16."""
        ...


@runtime_checkable
class Reported(Protocol):
    """An index that keeps the report of its tuning, through `to_disk` and `from_disk`.

    Without this, it cannot be checked that an index was built for the knowledge base and the encoder it is used with.
    """

    report: dict[str, Any]  # JSON-able


@runtime_checkable
class HasReaderParams(Protocol):
    """An engine with settings that concern only the process that searches, such as time-outs. Without this, each setting counts as the folder's."""

    @property
    def reader_params(self) -> Sequence[str]:
        """Names of the settings that no result depends on."""
        ...


@runtime_checkable
class Threaded(Protocol):
    """An engine that searches with several threads. `threads` is one of its reader params."""

    threads: int  # 0 for one per core


def report_of(index: object) -> dict[str, Any]:
    """Return the report of an index's tuning, {} where it keeps none."""
    return index.report if isinstance(index, Reported) else {}


def reader_params_of(index: object) -> Sequence[str]:
    """Return the names of the settings that no result depends on."""
    return index.reader_params if isinstance(index, HasReaderParams) else ()
