"""How a ranker reads a name: words without endings, numbers in one form."""

from __future__ import annotations

import re

from ..kb.concept import stem

MOST_WORDS = 16  # of a name or mention; further ones are not read
NEGATIONS = frozenset(["absence", "absent", "no", "non", "not", "without"])
_WORD = re.compile(r"[^\W\d_]+(?:'s)?|\d+(?:\.\d+)?")
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
_LONG = 4  # letters; a longer word has its British spelling read as the American one


def split_words(text: str) -> tuple[str, ...]:
    """Return the first `MOST_WORDS` words of a normalised name.

    Plural and possessive endings are removed, Roman numerals up to twelve are digits, and "ae" and "oe" are "e": "Haemorrhages, type II" gives
    "hemorrhage", "type", "2".
    """
    return tuple(_plain(word) for word in _WORD.findall(text)[:MOST_WORDS])


def is_number(word: str) -> bool:
    """Return whether a word of `split_words` is a number or a single letter, which tells types and stages apart. The article "a" is none."""
    return word[0].isdigit() or (len(word) == 1 and word != "a")


def _plain(word: str) -> str:
    if word in _ROMAN:
        return _ROMAN[word]
    word = stem(word)
    return word.replace("ae", "e").replace("oe", "e") if len(word) > _LONG else word
