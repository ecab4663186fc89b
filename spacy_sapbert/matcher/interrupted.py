"""Names that an abbreviation in brackets interrupts: "human immunodeficiency virus (HIV) infection" is an HIV infection."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .listed import Listed

MAX_BEFORE, MAX_AFTER = 5, 2  # most words of a name before the brackets, and after them
_READ = 80  # characters before the brackets that are read
_BRACKET = re.compile(r"[ \t]\((?P<short>[A-Z][A-Za-z0-9-]{1,7})\)[ \t]")
_BEFORE = re.compile(r"[^\W_][\w'’-]*(?:[ \t]+[^\W_][\w'’-]*)*$")
_AFTER = re.compile(rf"[a-z][\w'’-]*(?:[ \t]+[a-z][\w'’-]*){{0,{MAX_AFTER - 1}}}", re.IGNORECASE)
_WORD = re.compile(r"\S+")


def interrupted(text: str) -> Iterator[Listed]:
    """Yield what may be a name around an abbreviation in brackets, without the brackets. A longer one comes before a shorter one.

    The first word of the name must begin with the first letter of the abbreviation.

    Args:
        text: the note.
    """
    for bracket in _BRACKET.finditer(text):
        before = _BEFORE.search(text, max(0, bracket.start() - _READ), bracket.start())
        after = _AFTER.match(text, bracket.end())
        if before is None or after is None:
            continue
        words = list(_WORD.finditer(text, before.start(), before.end()))[-MAX_BEFORE:]
        ends = [word.end() for word in _WORD.finditer(text, after.start(), after.end())]
        letter = bracket["short"][0].lower()
        for word in words:
            if word[0][0].lower() == letter:
                for end in reversed(ends):
                    yield Listed(word.start(), end, f"{text[word.start() : bracket.start()]} {text[after.start() : end]}")
