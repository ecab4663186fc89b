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
_DOTS = re.compile(r"\.[a-z]\.")
# small letters with full stops
_DOTTED = re.compile(rf"(?<![\w.])(?!{_NO_NAME})(?:[a-z]\.){{2,4}}[a-z](?!\w)")


def hyphenated(text: str) -> Iterator[Listed]:
    """Yield words with hyphens, and letters with full stops, that may be a name without them.

    Args:
        text: the note.
    """
    for word in _words(text):
        name = word[0].replace("-", "")
        if len(name) >= MIN_LETTERS:
            yield Listed(word.start(), word.end(), name)
    for letters in _DOTTED.finditer(text) if _DOTS.search(text) else ():
        yield Listed(letters.start(), letters.end(), letters[0].replace(".", "").upper())


def _words(text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of `_WORD`. They are looked for at their first hyphen, because hyphens are rarer than letters."""
    end, hyphen = 0, text.find("-")
    while hyphen >= 0:
        start = hyphen
        while start > end and text[start - 1].isalpha():
            start -= 1
        if start < hyphen and (word := _WORD.match(text, start)) is not None:
            yield word
            end = word.end()
        hyphen = text.find("-", max(hyphen + 1, end))
