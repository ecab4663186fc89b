"""The words "open" and "closed" before a fracture belong to it: "open left ankle fracture" is one mention."""

from __future__ import annotations

import re

from .joining import Match

_FRACTURE = re.compile(r"(?<![\w-])(?:fractures?|fx)\Z", re.IGNORECASE)
_KIND = re.compile(
    r"(?<![\w-])(?:open|closed|compound)[ \t]+(?:(?:left|right|bilateral|l|r|lt|rt|proximal|distal|comminuted|displaced|nondisplaced|non-displaced)[ \t]+){0,3}\Z",
    re.IGNORECASE,
)
_CHARS_BEFORE = 60  # characters before a fracture that are read


def with_kind_of_fracture(one: Match, text: str) -> Match:
    """Return a match with the word before it that says whether a fracture is open or closed, if it is one. It is still looked up without it.

    Args:
        one: a name that was found.
        text: text of the Doc.
    """
    if one.nested or one.part or not _FRACTURE.search(text[one.start : one.end]):
        return one
    found = _KIND.search(text[max(0, one.start - _CHARS_BEFORE) : one.start])
    return one if found is None else one._replace(start=one.start - len(found[0]), corrected=one.corrected or text[one.start : one.end])
