"""Names that a text writes with a hyphen after a letter: "E-PAP" is EPAP, "Perm-A-Cath" a Permacath."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .listed import Listed

MIN_LETTERS = 4  # letters of the name without its hyphens
# a single letter, but no side ("R-knee"), or "bi" before the rest; or a single letter between two parts
_WORD = re.compile(r"(?<![\w./–-])(?:(?:[A-KM-QS-Z]|bi)-[A-Z]{2,}|[A-Z]{2,}-[A-Z]-[A-Z]{2,})(?![\w–-])", re.IGNORECASE)


def hyphenated(text: str) -> Iterator[Listed]:
    """Yield words with a hyphen that may be a name without it.

    Args:
        text: the note.
    """
    for word in _WORD.finditer(text):
        name = word[0].replace("-", "")
        if len(name) >= MIN_LETTERS:
            yield Listed(word.start(), word.end(), name)
