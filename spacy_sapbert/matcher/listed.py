"""Plain words that are findings in a list of others: "frequency" in "no dysuria, urgency or frequency", "drugs" in "denies alcohol or drugs"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_JOIN = r"(?:[ \t]*[,;/&][ \t]*(?:(?:and|or|nor)[ \t]+)?|[ \t]+(?:and|or|nor)[ \t]+)(?:no[ \t]+)?"


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


class _List:
    """Words that are findings beside others of their kind."""

    def __init__(self, names: Mapping[str, str], others: str, parts: str) -> None:
        """Prepare the patterns.

        Args:
            names: word, in small letters -> name of the finding.
            others: a pattern of the findings that stand beside it.
            parts: a pattern of words directly before it, with which it is a part of a longer name.
        """
        word = rf"(?:{'|'.join(names)})"
        other = rf"(?:{others}|{word})"
        self._names = names
        self._after = re.compile(rf"\b{other}{_JOIN}(?={word}\b)", re.IGNORECASE)
        self._before = re.compile(rf"\b(?={word}{_JOIN}{other}\b)", re.IGNORECASE)
        self._part = re.compile(rf"\b(?:{parts})[ \t]+$", re.IGNORECASE)
        self._one = re.compile(rf"{word}\b", re.IGNORECASE)

    def find(self, text: str) -> Iterator[Listed]:
        """Yield the words that stand for findings, from left to right."""
        places = {match.end() for match in self._after.finditer(text)} | {match.start() for match in self._before.finditer(text)}
        for place in sorted(places):
            match = self._one.match(text, place)
            if match is not None and not self._part.search(text, max(0, place - 16), place):
                yield Listed(match.start(), match.end(), self._names[match[0].lower()])


_LISTS = (
    _List(
        {"frequency": "urinary frequency", "urgency": "urinary urgency", "hesitancy": "urinary hesitancy", "retention": "urinary retention"},
        r"dysuria|nocturia|ha?ematuria|polyuria|pyuria|(?:urge )?incontinence|dribbling|straining",
        "urinary|bladder|voiding",
    ),
    _List(
        {"drugs": "illicit drug use"},
        r"alcohol|etoh|tobacco|smok(?:es?|ing)|cigarettes|nicotine|vap(?:es?|ing)|drink(?:s|ing)?|marijuana|cannabis|cocaine|heroin|caffeine",
        "illicit|illegal|recreational|street|prescription|other|prescribed|psychiatric|new|any|for|of|iv|intravenous",
    ),
)


def listed(text: str) -> Iterator[Listed]:
    """Yield the words that stand for findings because another finding of their kind is beside them in a list: urinary symptoms, and habits."""
    for each in _LISTS:
        yield from each.find(text)
