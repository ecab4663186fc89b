"""Which mentions are chosen: names that the matcher found, and entities that a recogniser found before it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

# Words that a recogniser's mention may have more than its name: articles, and qualities that have no concept of their own in it
_EXTRA = frozenset(
    [
        "a",
        "an",
        "the",
        "his",
        "her",
        "their",
        "its",
        "this",
        "that",
        "some",
        "any",
        "no",
        "mild",
        "moderate",
        "severe",
        "acute",
        "chronic",
        "known",
        "new",
        "recent",
        "old",
        "prior",
        "previous",
        "past",
        "recurrent",
        "persistent",
        "significant",
        "worsening",
        "stable",
        "bilateral",
        "left",
        "right",
        "upper",
        "lower",
        "small",
        "large",
        "minimal",
        "slight",
        "marked",
        "possible",
        "probable",
        "likely",
        "history",
        "of",
        "further",
        "ongoing",
    ]
)
_REMOVED = re.compile(r"\[\*\*.*?\*\*\]")  # what was removed from a note, "[**Name**]"
_LIST = re.compile(r"[,;/]|\b(?:and|or|with|without|versus|vs)\b")


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

    - a name that is as long as an entity or longer is taken;
    - an entity that is longer than the names in it is taken, unless it only adds words such as "mild" or "history of", or lists them
      ("chest pain and fever"); then the names are taken;
    - an entity without a name is taken, unless it is what was removed from the note ("[**Name**]");
    - a name without an entity is taken.

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
    removed = [match.span() for match in _REMOVED.finditer(text)]
    entities = [one for one in entities if not any(one.start < end and start < one.end for start, end in removed)]
    kept: list[Match] = []
    dropped: set[int] = set()
    for entity in entities:
        inside = [(place, name) for place, name in enumerate(names) if _overlap(entity, name)]
        longer = any(name.start < entity.start or name.end > entity.end or name[:2] == entity[:2] for _, name in inside)
        if inside and (longer or not _adds(entity, [name for _, name in inside], text)):
            continue  # the names say it
        kept.append(entity)
        dropped.update(place for place, _ in inside)
    kept.extend(name for place, name in enumerate(names) if place not in dropped)
    return sorted(kept, key=lambda one: one.start)


def _adds(entity: Match, inside: Sequence[Match], text: str) -> bool:
    """Say whether an entity says more than the names in it."""
    rest, at = "", entity.start
    for name in inside:
        rest, at = rest + " " + text[at : name.start], name.end
    rest = (rest + " " + text[at : entity.end]).lower()
    if re.search("[,;]", rest) or (len(inside) > 1 and _LIST.search(rest)):
        return False
    return any(word not in _EXTRA for word in re.findall(r"[^\W\d_]+", rest))


def _overlap(one: Match, other: Match) -> bool:
    return one.start < other.end and other.start < one.end
