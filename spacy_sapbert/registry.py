"""The registries. Names are declared once, in setup.py's entry points."""

from __future__ import annotations

import catalogue
from spacy.util import registry

__all__ = ["registry"]

# registry.create() would land in Thinc's namespace, where the entry-point groups below are never looked up.
if not hasattr(registry, "sapbert_indexes"):
    registry.sapbert_indexes = catalogue.create("spacy", "sapbert_indexes", entry_points=True)  # type: ignore[attr-defined]
if not hasattr(registry, "sapbert_linkers"):  # linker_name -> function that gives the folder of a linker
    registry.sapbert_linkers = catalogue.create("spacy", "sapbert_linkers", entry_points=True)  # type: ignore[attr-defined]
