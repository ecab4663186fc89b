"""Mentions with the concepts that annotators gave them, and these concepts as rows of a knowledge base."""

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
        kind: The corpus's type of the mention ("Disease", "T047", "T116,T123"), "" if it has none.
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
        """Whether the knowledge base has all ids of at least one alternative."""
        return any(None not in alternative for alternative in self.alternatives)


def resolve_gold(mention: GoldMention, rows_of: Callable[[str], Sequence[int]]) -> Gold:
    """Look up the gold ids of a mention in a knowledge base.

    A code of several concepts gives one alternative for each of them; in a composite it gives the first of them.

    Args:
        mention: The mention with its gold ids.
        rows_of: `KnowledgeBase.rows_of`, which follows codes, retired and alternative ids and has no row for an unknown one.

    Returns:
        The rows of the alternatives, and the ids that are missing.
    """
    alternatives: list[Rows] = []
    missing: list[str] = []
    for ids in mention.gold:
        found = [rows_of(concept_id) for concept_id in ids]
        missing += [concept_id for concept_id, rows in zip(ids, found) if not rows]
        if len(found) == 1 and found[0]:
            alternatives += [(row,) for row in found[0]]
        else:
            alternatives.append(tuple(rows[0] if rows else None for rows in found))
    return Gold(tuple(alternatives), tuple(missing))


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
