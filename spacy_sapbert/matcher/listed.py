"""Plain words that are findings in a list of urinary symptoms: "frequency" in "no dysuria, urgency or frequency"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_NAMES = {"frequency": "urinary frequency", "urgency": "urinary urgency", "hesitancy": "urinary hesitancy", "retention": "urinary retention"}
_WORD = rf"(?:{'|'.join(_NAMES)})"
_SYMPTOM = rf"(?:dysuria|nocturia|ha?ematuria|polyuria|pyuria|(?:urge )?incontinence|dribbling|straining|{_WORD})"
_JOIN = r"(?:[ \t]*[,/&][ \t]*(?:(?:and|or)[ \t]+)?|[ \t]+(?:and|or)[ \t]+)(?:no[ \t]+)?"
_AFTER = re.compile(rf"\b{_SYMPTOM}{_JOIN}(?={_WORD}\b)", re.IGNORECASE)
_BEFORE = re.compile(rf"\b(?={_WORD}{_JOIN}{_SYMPTOM}\b)", re.IGNORECASE)
_PART = re.compile(r"\b(?:urinary|bladder|voiding)[ \t]+$", re.IGNORECASE)  # with one of these before it, the word is a part of a longer name
_ONE = re.compile(rf"{_WORD}\b", re.IGNORECASE)


class Listed(NamedTuple):
    """A word that stands for a finding.

    Attributes:
        start: its place in the text, in characters.
        end: the character after it.
        name: what it stands for.
    """

    start: int
    end: int
    name: str


def listed(text: str) -> Iterator[Listed]:
    """Yield the words that stand for urinary symptoms because another urinary symptom is beside them in a list, from left to right."""
    places = {match.end() for match in _AFTER.finditer(text)} | {match.start() for match in _BEFORE.finditer(text)}
    for place in sorted(places):
        match = _ONE.match(text, place)
        if match is not None and not _PART.search(text, max(0, place - 12), place):
            yield Listed(match.start(), match.end(), _NAMES[match[0].lower()])
