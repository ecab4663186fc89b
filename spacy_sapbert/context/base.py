"""The Protocol of a disambiguator. `sapbert_linker` finds candidates by the text of a span alone; a disambiguator then looks at the whole Doc."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from spacy.tokens import Span

from ..kb.knowledge_base import KnowledgeBase


class Candidates(NamedTuple):
    """The candidates that the linker found for a span by its text.

    Attributes:
        span: the span, with its Doc.
        mention: the text that was looked up.
        concepts: (concept id, score), best first; all concepts that tie for the first place are included.
        exact: whether the mention is an exact match.
        linked: whether the first concept would be the link.
    """

    span: Span
    mention: str
    concepts: list[tuple[str, float]]
    exact: bool
    linked: bool


class Choice(NamedTuple):
    """The meaning that a disambiguator chose for a span.

    Attributes:
        concepts: (concept id, probability of this meaning), the most probable first; empty if no meaning has a concept in the knowledge base.
        meaning: name of the most probable meaning, shown in the explanation of the link.
        decided: True: the first concept is the link; False: the span is NIL.
    """

    concepts: list[tuple[str, float]]
    meaning: str
    decided: bool


@runtime_checkable
class Disambiguator(Protocol):
    """Chooses between the meanings of the spans of one Doc. Register a function that returns one, and give its name in the setting `disambiguator`."""

    def choose(self, found: Sequence[Candidates], kb: KnowledgeBase, folder: Path | None) -> list[Choice | None]:
        """Return a choice for each span of a Doc; None keeps the result of the linker.

        Args:
            found: the spans of one Doc.
            kb: the knowledge base of the linker.
            folder: folder of the linker's sense model; None if the linker has none.
        """
        ...
