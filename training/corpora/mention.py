"""Mentions that annotators gave concepts, and these concepts as rows of a knowledge base."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

Ids = tuple[str, ...]
Rows = tuple[int | None, ...]


class GoldMention(NamedTuple):
    """A mention of a corpus with the concepts that annotators gave it.

    Attributes:
        document: The document's id, "" where the corpus has no documents.
        start: The first character of the mention in the document's text.
        end: The character after the last one.
        text: The mention as the corpus writes it.
        gold: The alternatives; any of them is right. Each holds one id, or several for a composite ("A+B").
        kind: The corpus's type of the mention ("Disease", "T047", "T116,T123"), "" where it has none.
    """

    document: str
    start: int
    end: int
    text: str
    gold: tuple[Ids, ...]
    kind: str = ""


class Gold(NamedTuple):
    """The gold of a mention as rows of a knowledge base.

    Attributes:
        alternatives: The rows of each alternative; None for an id that the knowledge base does not have.
        missing: The ids that the knowledge base does not have.
    """

    alternatives: tuple[Rows, ...]
    missing: tuple[str, ...]

    @property
    def answerable(self) -> bool:
        """Return whether some alternative is in the knowledge base with all of its ids."""
        return any(None not in alternative for alternative in self.alternatives)


def resolve_gold(mention: GoldMention, row_of: Callable[[str], int]) -> Gold:
    """Look up the gold ids of a mention in a knowledge base.

    Args:
        mention: The mention with its gold ids.
        row_of: `KnowledgeBase.row_of`, which follows retired and alternative ids and raises KeyError for an unknown one.

    Returns:
        The rows of the alternatives, and the ids that are missing.
    """
    missing: list[str] = []

    def row(concept_id: str) -> int | None:
        try:
            return row_of(concept_id)
        except KeyError:
            missing.append(concept_id)
            return None

    return Gold(tuple(tuple(row(i) for i in alternative) for alternative in mention.gold), tuple(missing))


def missing_ids(golds: Sequence[Gold]) -> dict[str, int]:
    """Count the gold ids that the knowledge base does not have.

    Args:
        golds: The gold of each mention.

    Returns:
        Id -> number of mentions that have it, the most frequent first.
    """
    counts: dict[str, int] = {}
    for gold in golds:
        for concept_id in gold.missing:
            counts[concept_id] = counts.get(concept_id, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
