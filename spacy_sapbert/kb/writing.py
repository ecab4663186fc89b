"""How sources and texts write a word: acronyms, symbols, what has a value."""

from __future__ import annotations

import re
from collections.abc import Collection

from .concept import normalise
from .knowledge_base import KnowledgeBase

CAPITALS, NOT_LOWER = "capitals", "not lower"  # how a word must be written in the text; "" is any way
ACRONYM_LETTERS = 8  # longer words in capitals are words of a source that writes all its names so
MEASURED = frozenset(["T034", "T059", "T060", "T196", "T201"])  # types of what has a value: tests, elements ("Mg 0.6"), vital signs
_VALUE = re.compile(r"[ \t]*(?:[:=]|is|was|of|at)?[ \t]*[<>~≈↓↑]?[ \t]*\d")


def is_acronym(text: str) -> bool:
    """Say whether a word is written as an acronym: two or more capitals and no small letters, but a last "s": "CP", "DM2", "DVTs"."""
    bare = text.removesuffix("s")
    return len(bare) <= ACRONYM_LETTERS and sum(letter.isupper() for letter in bare) >= 2 and not any(letter.islower() for letter in bare)


def texts_of(kb: KnowledgeBase, concept: str, forms: Collection[str]) -> list[str]:
    """Return a concept's names as its sources write them, those that are one of the normalised forms."""
    return [name.text for name in kb.names_of(kb.row_of(concept)) if normalise(name.text) in forms]


def fits(word: str, wanted: str) -> bool:
    """Say whether a word of a text is written as `casing` asks."""
    if wanted == CAPITALS:
        return not any(letter.islower() for letter in word.removesuffix("s").removesuffix("'"))
    return wanted != NOT_LOWER or not word.islower()


def has_value(after: str) -> bool:
    """Say whether a value stands in the text after a word: " 98 g/L", ": 71 kg", " is 5.2"."""
    return _VALUE.match(after) is not None
