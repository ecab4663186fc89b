"""Count what a corpus holds: the facts about its gold for a table of results, and what is wrong with it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .corpus import Corpus, placed
from .docs import by_document, fitting
from .ids import NIL
from .mention import GoldMention


def describe(corpus: Corpus) -> dict[str, Any]:
    """Count what a corpus holds, for JSON.

    Args:
        corpus: The corpus.

    Returns:
        documents: number of texts; mentions: number of mentions. Of these: alternatives (with several right answers), composites (several ids in one
        answer), without_id, nil (annotators found no concept), of_documents (ids of a whole text), without_text (their document has no text),
        overlapping (with another mention), off_their_offsets (another text is at their offsets). kinds: mentions per kind; read: the reader's counts.
    """
    kinds = Counter(mention.kind for mention in corpus.mentions)
    return {
        "documents": len(corpus.documents),
        "mentions": len(corpus.mentions),
        "alternatives": sum(len(m.gold) > 1 for m in corpus.mentions),
        "composites": sum(any(len(ids) > 1 for ids in m.gold) for m in corpus.mentions),
        "without_id": sum(not m.gold for m in corpus.mentions),
        "nil": sum(bool(m.gold) and all(i == NIL for ids in m.gold for i in ids) for m in corpus.mentions),
        "of_documents": sum(m.document in corpus.documents and not placed(corpus, m) for m in corpus.mentions),
        "without_text": sum(m.document not in corpus.documents for m in corpus.mentions),
        "overlapping": sum(overlapping(mentions) for document, mentions in by_document(corpus).items() if document in corpus.documents),
        "off_their_offsets": len(fitting(corpus)[1]),
        "kinds": dict(kinds.most_common()),
        "read": dict(corpus.counts),
    }


def overlapping(mentions: list[GoldMention]) -> int:
    """Count the mentions of one document that share a character with another one. They stay in a corpus and in the span group of Docs."""
    spans = sorted((m.start, m.end, i) for i, m in enumerate(mentions) if m.end > m.start)
    found: set[int] = set()
    reach, last = 0, -1  # the largest end so far, and the mention that has it
    for start, end, i in spans:
        if start < reach:
            found.update((last, i))
        if end > reach:
            reach, last = end, i
    return len(found)
