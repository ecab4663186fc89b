"""Which mentions are chosen: names that the matcher found, and entities that a recogniser found before it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, NamedTuple

from .casing import is_plain

_REMOVED = re.compile(r"\[\*\*.*?\*\*\]")  # what was removed from a note, "[**Name**]"
SHORT = 2  # letters; a shorter entity says too little without a name


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


def chosen(before: Sequence[Match], found: Sequence[Match], *, text: str, join: bool, overwrite: bool) -> tuple[list[Match], list[Match]]:
    """Return the mentions for `doc.ents`, which do not overlap, and all others.

    Of the names, the longest is taken, from left to right. Without `join`, entities stay and names that overlap them do not, or, with
    `overwrite`, the other way round. With `join`:

    - a name is taken, and an entity that overlaps it is not ("chest pain" of "mild chest pain");
    - an entity without a name in it is taken, unless it is a word of plain English ("symptoms"), has no more than two letters, or is what was
      removed from the note ("[**Name**]").

    Args:
        before: entities of the recogniser.
        found: names, also those that overlap.
        text: of the Doc.
        join: see above.
        overwrite: without `join`, names replace entities.
    """
    names = _left_to_right(sorted((one for one in found if not (one.part or one.nested)), key=lambda one: (one.start, -one.end)))
    if join:
        kept = _joined(before, names, text)
    else:
        first, second = (names, list(before)) if overwrite else (list(before), names)
        kept = sorted([*first, *(one for one in second if not any(_overlap(one, other) for other in first))], key=lambda one: one.start)
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


def _joined(entities: Sequence[Match], names: Sequence[Match], text: str) -> list[Match]:
    taken = sorted([*((name.start, name.end) for name in names), *(match.span() for match in _REMOVED.finditer(text))])

    def is_new(entity: Match) -> bool:
        word = text[entity.start : entity.end]
        before = bisect_left(taken, (entity.end,))
        free = not before or taken[before - 1][1] <= entity.start
        return free and len(word) > SHORT and not is_plain(word.lower())

    return sorted([*names, *filter(is_new, entities)], key=lambda one: one.start)


def _overlap(one: Match, other: Match) -> bool:
    return one.start < other.end and other.start < one.end
