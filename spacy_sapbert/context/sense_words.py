"""Words around an abbreviation that decide its meaning, where the sense model has seen too few texts of a meaning: "SBP" near "ascites"."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from .sense_model import normal, tokens_of

_FILE = Path(__file__).parents[1] / "data" / "sense_words.tsv"
NEXT = 3  # words after an abbreviation that count as "next"
NEAR = "near"


class Hint(NamedTuple):
    """A meaning that words around an abbreviation point to.

    Attributes:
        concept: id of its concept.
        meaning: the meaning in words.
        side: where the words stand: "before", "after", "next" or "near", see the table.
    """

    concept: str
    meaning: str
    side: str


def hints(text: str, start: int, end: int) -> Iterator[Hint]:
    """Yield the meanings to which the words around the abbreviation text[start:end] point.

    Args:
        text: a note.
        start: first character of the abbreviation.
        end: character after its last one.
    """
    rows = _rows().get(normal(text[start:end]))
    if not rows:
        return
    left, right = tokens_of(text, start, end)
    there = {"before": set(left[-1:]), "after": set(right[:1]), "next": set(right[:NEXT]), NEAR: {*left, *right}}
    for hint, words in rows:
        if not words.isdisjoint(there[hint.side]):
            yield hint


@lru_cache(maxsize=1)
def _rows() -> dict[str, list[tuple[Hint, frozenset[str]]]]:
    """Read the table. Return abbreviation -> its meanings with their words."""
    found: dict[str, list[tuple[Hint, frozenset[str]]]] = {}
    lines = [line.split("\t") for line in _FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")][1:]
    for abbreviation, concept, meaning, side, words in lines:
        found.setdefault(abbreviation, []).append((Hint(concept, meaning, side), frozenset(words.split())))
    return found
