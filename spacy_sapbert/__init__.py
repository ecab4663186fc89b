"""Link mentions of clinical and biomedical text to UMLS concepts. The import is fast: each part is loaded when it is first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .about import __version__

if TYPE_CHECKING:
    from .build.linker import build_linker
    from .corpus.pipeline import load
    from .encoders.transformer import NameEncoder
    from .kb.knowledge_base import KnowledgeBase
    from .linker import SapBertLinker
    from .matcher.component import ConceptMatcher

_PUBLIC = {
    "KnowledgeBase": "kb.knowledge_base",
    "SapBertLinker": "linker",
    "ConceptMatcher": "matcher.component",
    "NameEncoder": "encoders.transformer",
    "build_linker": "build.linker",
    "load": "corpus.pipeline",
}
__all__ = ["ConceptMatcher", "KnowledgeBase", "NameEncoder", "SapBertLinker", "__version__", "build_linker", "load"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _PUBLIC:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f".{_PUBLIC[name]}", __name__), name)
