"""Words that decide the meaning of an abbreviation or a word beside them: "SBP" near "ascites", "plaque" near "carotid"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from .sense_model import WINDOW, WORDS, normal, tokens_of

_FILE = Path(__file__).parents[1] / "data" / "sense_words.tsv"
NEXT = 3  # words after an abbreviation that count as "next"
NEAR = "near"
SHORT = 5  # letters and digits of a short form
BESIDE = frozenset(["before", "after"])  # sides of words that stand directly beside it
_END = re.compile(r"[.;?!](?=\s|$)|\n")  # of a sentence
_LEVEL = re.compile(r"(?<![^\W\d_])[a-z]{1,2}\d{1,2}(?!\w)", re.IGNORECASE)  # "L5", "t12", which `tokens_of` reads as a word and a number
_LEVELS_NEAR, _LEVELS_NEXT = 60, 12  # characters on a side in which levels are read


class Hint(NamedTuple):
    """A meaning that words around an abbreviation point to.

    Attributes:
        concept: id of its concept.
        meaning: the meaning in words.
        side: where the words stand: "before" (also with a colon after them), "after", "next" or "near", see the table. All but "near" stand in the same sentence.
        distance: words from the abbreviation to the nearest of them, 1 if it is directly beside it.
    """

    concept: str
    meaning: str
    side: str
    distance: int = 0


def hints(text: str, start: int, end: int) -> Iterator[Hint]:
    """Yield the meanings to which the words around text[start:end] point.

    Args:
        text: a note.
        start: first character of the abbreviation, or of a word that the table has.
        end: character after its last one.
    """
    rows = _rows().get(normal(text[start:end]))
    if not rows:
        return
    first, last = _sentence(text, start, end)
    before, after = tokens_of(text[first:last], start - first, end - first)
    left, right = tokens_of(text, start, end)
    heading = before[-2:-1] if before[-1:] == [":"] else []  # "SpO2: RA"
    there = {"before": {*before[-1:], *heading}, "after": set(after[:1]), "next": set(after[:NEXT]), NEAR: {*left, *right}}
    there["next"] |= _levels(text[end : min(last, end + _LEVELS_NEXT)])
    there[NEAR] |= _levels(text[max(0, start - _LEVELS_NEAR) : start]) | _levels(text[end : end + _LEVELS_NEAR])
    capitals = text[start:end].isupper()
    for hint, words, only_capitals in rows:
        if (capitals or not only_capitals) and not words.isdisjoint(there[hint.side]):
            nearest = (at for side in (reversed(left), right) for at, word in enumerate(side, 1) if word in words)
            yield hint._replace(distance=min(nearest, default=WORDS))


class ShortForm(NamedTuple):
    """A short form of the table.

    Attributes:
        concepts: ids of the concepts that it may mean.
        capitals: whether it has these meanings only in capitals.
    """

    concepts: tuple[str, ...]
    capitals: bool


@lru_cache(maxsize=1)
def short_forms() -> dict[str, ShortForm]:
    """Return the short forms of the table, normalised. Longer words, such as "plaque", are left out."""
    short = {form: rows for form, rows in _rows().items() if form.isalnum() and len(form) <= SHORT}
    return {form: ShortForm(tuple(hint.concept for hint, _, _ in rows), all(capitals for _, _, capitals in rows)) for form, rows in short.items()}


def sole_meanings() -> dict[str, str]:
    """Return the abbreviations of the table, normalised, that have one meaning, each with this meaning."""
    found = {form: {hint.concept: hint.meaning for hint, _, _ in rows} for form, rows in _rows().items()}
    return {form: meaning for form, meanings in found.items() if len(meanings) == 1 for meaning in meanings.values()}


def _levels(text: str) -> set[str]:
    """Return the levels of the spine, and other letters with a number, in small letters."""
    return {found[0].lower() for found in _LEVEL.finditer(text)}


def _sentence(text: str, start: int, end: int) -> tuple[int, int]:
    """Return (start, end) of the part of the sentence of text[start:end] that `tokens_of` can read."""
    low, high = max(0, start - WINDOW), min(len(text), end + WINDOW)
    begins = [found.end() for found in _END.finditer(text, low, start)]
    ends = _END.search(text, end, high)
    return (begins[-1] if begins else low), (high if ends is None else ends.start())


@lru_cache(maxsize=1)
def _rows() -> dict[str, list[tuple[Hint, frozenset[str], bool]]]:
    """Read the table. Return abbreviation -> its meanings, each with its words and with whether the abbreviation must be in capitals."""
    found: dict[str, list[tuple[Hint, frozenset[str], bool]]] = {}
    lines = [line.split("\t") for line in _FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")][1:]
    for abbreviation, concept, meaning, side, words in lines:
        found.setdefault(normal(abbreviation), []).append((Hint(concept, meaning, side), frozenset(words.split()), abbreviation.isupper()))
    return found
