"""Take the text around a mention, which the cross-encoder reads with `rerank="context"`."""

from __future__ import annotations

import re

from spacy.tokens import Span

from ..kb.concept import normalise
from ..ranking.pairs import PLACE

WINDOW = 80  # characters on each side
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n")


def text_around(text: str, start: int, end: int) -> str:
    """Return the text around a mention: whole words of its paragraph, at most WINDOW characters on each side, with PLACE for the mention.

    It does not need sentences: notes often have none, and a line may end within a sentence.

    Args:
        text: the whole text.
        start: the first character of the mention.
        end: the character after its last one.
    """
    before, after = text[max(0, start - WINDOW) : start], text[end : end + WINDOW]
    if start > WINDOW and not text[start - WINDOW - 1].isspace():
        before = _without_first(before)
    if end + WINDOW < len(text) and not text[end + WINDOW].isspace():
        after = _without_last(after)
    before, after = _PARAGRAPH.split(before)[-1], _PARAGRAPH.split(after)[0]
    return " ".join(filter(None, [normalise(before), PLACE, normalise(after)]))


def around_span(span: Span) -> str:
    """Return the text around a span, see `text_around`.

    Only the tokens near it are read: spaCy makes the text of a Doc anew each time, which takes long for a long note with many mentions.
    """
    doc, start, end = span.doc, span.start_char, span.end_char
    first, last = min(span.start, len(doc) - 1), span.end  # an empty span may stand after the last token
    while first > 0 and start - doc[first].idx <= WINDOW:
        first -= 1
    while last < len(doc) and doc[last].idx - end <= WINDOW:
        last += 1
    offset = doc[first].idx
    return text_around(doc[first:last].text_with_ws, start - offset, end - offset)


def _without_first(text: str) -> str:
    """Return a text without its first word, which may be cut."""
    found = re.search(r"\s", text)
    return text[found.end() :] if found else ""


def _without_last(text: str) -> str:
    """Return a text without its last word, which may be cut."""
    found = re.search(r"\s\S*$", text)
    return text[: found.start()] if found else ""
