"""How sources and texts write a word: as an acronym, in capitals, or with a value after it."""

from __future__ import annotations

import re
from collections.abc import Collection

from .concept import normalise
from .knowledge_base import KnowledgeBase

CAPITALS, NOT_LOWER, POSSESSIVE = "capitals", "not lower", "possessive"  # how a word must be written in the text; "" is any way
ACRONYM_LETTERS = 8  # longer words in capitals come from sources that write all names in capitals
AROUND, CAPITALS_FROM = 60, 0.7  # characters on each side; a text with this share of capitals counts as written in capitals
MEASURED = frozenset(["T034", "T059", "T060", "T196", "T201"])  # types of things that have a value: tests, elements ("Mg 0.6"), vital signs
_POSSESSIVE = re.compile(r"[^\W\d_]+(?:'s|s')")
_PREFIXED = re.compile(r"[a-z]{1,2}[A-Z][A-Z0-9]+")  # "pRBC", "ccRCC": an acronym with one or two small letters before it
_VALUE = re.compile(r"[ \t]*(?:[:=]|is|was|of|at)?[ \t]*[<>~≈↓↑]?[ \t]*\d")


def is_acronym(text: str) -> bool:
    """Return whether a word is written as an acronym: two or more capitals, and no small letters except a last "s": "CP", "DM2", "DVTs"."""
    bare = text.removesuffix("s")
    return len(bare) <= ACRONYM_LETTERS and sum(letter.isupper() for letter in bare) >= 2 and not any(letter.islower() for letter in bare)


def is_possessive(text: str) -> bool:
    """Return whether a text is one word in the possessive: "Crohn's", "Graves'"."""
    return _POSSESSIVE.fullmatch(text.replace("’", "'")) is not None


def texts_of(kb: KnowledgeBase, concept: str, forms: Collection[str]) -> list[str]:
    """Return the names of a concept, as its sources write them, that equal one of some normalised forms."""
    return [name.text for name in kb.names_of(kb.row_of(concept)) if normalise(name.text) in forms]


def fits(word: str, wanted: str) -> bool:
    """Return whether a word of a text is written as required.

    Args:
        word: the word as it is written.
        wanted: CAPITALS, NOT_LOWER, POSSESSIVE, or "" for any way.
    """
    if wanted == POSSESSIVE:
        return is_possessive(word) and not word.islower()
    if wanted == CAPITALS:
        bare = word.removesuffix("s").removesuffix("'")
        return not any(letter.islower() for letter in bare) or _PREFIXED.fullmatch(bare) is not None
    return wanted != NOT_LOWER or not word.islower()


def has_value(after: str) -> bool:
    """Return whether the text after a word begins with a value: " 98 g/L", ": 71 kg", " is 5.2"."""
    return _VALUE.match(after) is not None


def in_capitals(text: str, start: int, end: int) -> bool:
    """Return whether the text around start:end is written in capitals. Then capitals tell nothing about the word between."""
    return is_mostly_capitals(text[max(0, start - AROUND) : start] + text[end : end + AROUND])


def is_mostly_capitals(text: str) -> bool:
    """Return whether a text has letters, and at least a share of CAPITALS_FROM of them are capitals."""
    letters = [letter for letter in text if letter.isalpha()]
    return bool(letters) and sum(letter.isupper() for letter in letters) >= CAPITALS_FROM * len(letters)
