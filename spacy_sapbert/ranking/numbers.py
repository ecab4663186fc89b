"""The numbers in a name: digits, Roman numerals and single letters. They distinguish types and stages of a disease."""

from __future__ import annotations

import re

NONE: frozenset[str] = frozenset()  # one object for all names without a number, which are most
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|\d+(?:[.,]\d+)*")  # "alzheimer's" is one word
_ROMAN = {
    "i": "1",
    "ii": "2",
    "iii": "3",
    "iv": "4",
    "v": "5",
    "vi": "6",
    "vii": "7",
    "viii": "8",
    "ix": "9",
    "x": "10",
    "xi": "11",
    "xii": "12",
}


def numbers_of(name: str) -> frozenset[str]:
    """Return the numbers and single letters of a normalised name. Roman numerals up to twelve become digits; the article "a" is left out.

    "diabetes, type ii" gives "2", "vitamin b 12" gives "b" and "12".
    """
    words = (_ROMAN.get(word, word.replace(",", "")) for word in _WORD.findall(name))
    return frozenset(word for word in words if word[0].isdigit() or (len(word) == 1 and word != "a")) or NONE
