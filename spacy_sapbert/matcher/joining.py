"""Which mentions are chosen: names that the matcher found, and entities that a recogniser found before it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from .casing import is_plain

SHORT = 2  # letters; a shorter entity says too little without a name


class Places:
    """Places in a text, which are asked whether another one overlaps them.

    Args:
        places: first character and the one after the last, in any order.
    """

    def __init__(self, places: Iterable[tuple[int, int]]) -> None:
        self._places: list[tuple[int, int]] = []
        for start, end in sorted(places):
            if self._places and start <= self._places[-1][1]:
                start, end = self._places[-1][0], max(end, self._places.pop()[1])
            self._places.append((start, end))

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield the places from left to right; those that overlap or touch are one."""
        return iter(self._places)

    def overlap(self, start: int, end: int) -> bool:
        """Say whether a place has a character in common with one of these."""
        at = bisect_left(self._places, (end,))
        return at > 0 and start < self._places[at - 1][1]


class Match(NamedTuple):
    """A name that was found in a text, or the entity of a recogniser.

    Attributes:
        start: its first character.
        end: the character after its last one.
        label: its label.
        corrected: what is looked up in place of the text: with misspelt words corrected, or the name of a part. None: the text.
        nested: it is in a longer name that was taken, or overlaps one.
        part: it is a part of a coordination, put together from words that stand apart.
        ent: the entity; None for a name.
    """

    start: int
    end: int
    label: str
    corrected: str | None = None
    nested: bool = False
    part: bool = False
    ent: Any = None


def chosen(
    before: Sequence[Match], found: Sequence[Match], *, text: str, join: bool, overwrite: bool, skipped: Iterable[tuple[int, int]] = ()
) -> tuple[list[Match], list[Match]]:
    """Return the mentions for `doc.ents`, which do not overlap, and all others.

    Of the names, the longest is taken, from left to right. Without `join`, entities stay and names that overlap them do not, or, with
    `overwrite`, the other way round. With `join`:

    - a name is taken, and an entity that overlaps it is not ("chest pain" of "mild chest pain");
    - an entity without a name in it is taken, unless it is a word of plain English ("symptoms"), has no more than two letters, or is in a part
      of the text that is skipped.

    Args:
        before: entities of the recogniser.
        found: names, also those that overlap.
        text: of the Doc.
        join: see above.
        overwrite: without `join`, names replace entities.
        skipped: with `join`, places (characters) in which no entity is a mention: headings, and what was removed from a note ("[**Name**]").
    """
    names = _left_to_right(sorted((one for one in found if not (one.part or one.nested)), key=lambda one: (one.start, -one.end)))
    if join:
        kept = _joined(before, names, text, skipped)
    else:
        first, second = (names, list(before)) if overwrite else (list(before), names)
        places = Places((one.start, one.end) for one in first)
        kept = sorted([*first, *(one for one in second if not places.overlap(one.start, one.end))], key=lambda one: one.start)
    taken = {(one.start, one.end) for one in kept}
    # a recogniser's entity that is not chosen is no mention; a part with the place of a mention is another concept
    others = [one for one in found if one.part or (one.start, one.end) not in taken]
    return kept, others


def _left_to_right(names: Sequence[Match]) -> list[Match]:
    kept: list[Match] = []
    end = -1
    for one in names:
        if one.start >= end:
            kept.append(one)
            end = one.end
    return kept


def _joined(entities: Sequence[Match], names: Sequence[Match], text: str, skipped: Iterable[tuple[int, int]]) -> list[Match]:
    taken = Places([*((name.start, name.end) for name in names), *skipped])

    def is_new(entity: Match) -> bool:
        word = text[entity.start : entity.end]
        return len(word) > SHORT and not is_plain(word.lower()) and not taken.overlap(entity.start, entity.end)

    return sorted([*names, *filter(is_new, entities)], key=lambda one: one.start)
