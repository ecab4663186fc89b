"""What decides which meaning a span has in its Doc: the Protocol that `sapbert_linker` calls after it has found candidates by the text alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from spacy.tokens import Span

from ..kb.knowledge_base import KnowledgeBase


class Candidates(NamedTuple):
    """What the linker found for a span by its text.

    Attributes:
        span: the span, with its Doc.
        mention: the text that was looked up.
        concepts: (concept id, score), best first; concepts that tie with the first one are among them.
        exact: whether the mention is an exact match.
        linked: whether the first concept would be the link.
    """

    span: Span
    mention: str
    concepts: list[tuple[str, float]]
    exact: bool
    linked: bool


class Choice(NamedTuple):
    """Which meaning a span has in its Doc.

    Attributes:
        concepts: (concept id, probability of this meaning), the most probable first; none where the meaning is not in the knowledge base.
        meaning: name of the most probable meaning, for the explanation.
        decided: whether the first concept is the link; without it the span is NIL.
    """

    concepts: list[tuple[str, float]]
    meaning: str
    decided: bool


@runtime_checkable
class Disambiguator(Protocol):
    """Chooses between the meanings of the spans of one Doc. Register a function that returns one, and name it in the setting `senses`."""

    def choose(self, found: Sequence[Candidates], kb: KnowledgeBase, folder: Path | None) -> list[Choice | None]:
        """Return a choice for each span of a Doc, None to leave what the linker found.

        Args:
            found: the spans of one Doc.
            kb: the knowledge base of the linker.
            folder: the sense model in the linker folder; None where it has none.
        """
        ...
