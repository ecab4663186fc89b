"""Names that a text writes with hyphens or full stops: "E-PAP" is EPAP, "Perm-A-Cath" a Permacath, "re-operation" a reoperation, "n.p.o." NPO."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .listed import Listed

MIN_LETTERS = 4  # letters of the name without its hyphens
# "re" before a word; a single letter, but no side ("R-knee"), or "bi" before the rest; or a single letter between two parts
_WORD = re.compile(r"(?<![\w./–-])(?:(?:[A-KM-QS-Z]|bi)-[A-Z]{2,}|re-[A-Z]{4,}|[A-Z]{2,}-[A-Z]-[A-Z]{2,})(?![\w–-])", re.IGNORECASE)
# small letters with full stops, which are no frequency ("b.i.d.", "q.a.m.", "p.r.n.") and no speed
_DOTTED = re.compile(r"(?<![\w.])(?!q|[bt]\.i\.d|p\.[or]\.|m\.p\.h)(?:[a-z]\.){2,4}[a-z](?!\w)")


def hyphenated(text: str) -> Iterator[Listed]:
    """Yield words with hyphens, and letters with full stops, that may be a name without them.

    Args:
        text: the note.
    """
    for word in _WORD.finditer(text):
        name = word[0].replace("-", "")
        if len(name) >= MIN_LETTERS:
            yield Listed(word.start(), word.end(), name)
    for letters in _DOTTED.finditer(text):
        yield Listed(letters.start(), letters.end(), letters[0].replace(".", "").upper())
