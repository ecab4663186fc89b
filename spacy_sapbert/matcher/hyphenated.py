"""Names that a text writes with hyphens or full stops: "E-PAP" is EPAP, "Perm-A-Cath" a Permacath, "re-operation" a reoperation, "n.p.o." NPO."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .listed import Listed

MIN_LETTERS = 4  # letters of the name without its hyphens
# "re" before a word; a single letter, but no side ("R-knee"), or "bi" before the rest; or a single letter between two parts
_WORD = re.compile(r"(?<![\w./–-])(?:(?:[A-KM-QS-Z]|bi)-[A-Z]{2,}|re-[A-Z]{4,}|[A-Z]{2,}-[A-Z]-[A-Z]{2,})(?![\w–-])", re.IGNORECASE)
# no frequency ("t.d.s."), no speed, and no phrase of plain English ("a.k.a.")
_NO_NAME = r"q|[bt]\.i\.[dw]|[bt]\.d\.s|e\.o\.d|s\.o\.s|p\.[or]\.|[bmr]\.p\.[hm]|a\.k\.a|a\.s\.a\.p|d\.o\.b|f\.y\.i|n\.o\.s|p\.t\.a|t\.b\.[acd]|v\.i\.p|w\.r\.t"
# small letters with full stops
_DOTTED = re.compile(rf"(?<![\w.])(?!{_NO_NAME})(?:[a-z]\.){{2,4}}[a-z](?!\w)")


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
