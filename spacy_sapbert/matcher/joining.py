"""Choose the mentions of a Doc among names that the matcher found and entities that an earlier recogniser found."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from .beside import FINDING, is_department, is_named_after_finding, means_something_else
from .word_lists import is_plain

_SIGNS = " \t\n,;:.–—"
# the end of a section or list item that a recogniser took with the next one, and the number of an item: "Respiratory\n- Auscultation", "5)venous stasis"
_OTHER_ITEM = re.compile(r".*(?:\.,|\n\s*(?:[-*•]|\d{1,2}[.)])|\n\s*\n)\s*|\(?\d{1,2}[.)]\s*(?=[^\W\d])", re.DOTALL)
_FIRST_DASH = re.compile(r"^[-–][ \t]*(?=[^\W\d_])")  # a dash before a word
_RESULT = re.compile(r"(?<=\w)[ \t]+(?:neg|pos)\.?$", re.IGNORECASE)
MODIFIERS = frozenset(["ANAT", "PHEN", "CONC"])  # groups of names that often only describe what follows: "thyroid function", "metabolic profile"
MEASURED = frozenset(["CHEM", "PROC"])  # groups of names that are a part of a finding: "sodium" in "sodium and potassium are low"
HABIT = "ACTI"  # group of what people do: "alcohol" in "alcohol or illicit drug use"
WHOLE = frozenset(["DISO", "PROC"])  # labels of entities that such a name may be a part of: findings, tests and procedures
# plain words that are mentions if a recogniser marks them, too
MEANT = frozenset(
    "culture cultures dissection incision incisions irrigation ligation narrowing screws staples suction suture sutures tourniquet".split()  # noqa: SIM905
)
_OF_SKULL = re.compile(r"caput|cranial|fontanel|overrid", re.IGNORECASE)  # sutures near these words are joints of the skull
_NEAR = 40  # characters beside a word that are read
_VERB = re.compile(r"[a-z]+(?:ed|(ing))", re.IGNORECASE)
_NO_MENTIONS = frozenset(["bro", "neg", "pls", "plz", "pos", "sis"])  # words that are no mention by themselves, unless they are in capitals
_IS_SIDE = re.compile(r"(?:left|right|bilateral|bilat|both|[LR]|LT|RT|Lt|Rt)[ \t]+")
SHORT = 2  # letters; an entity of at most so many letters is dropped, unless a name was found in its place


class Places:
    """Places in a text, to test whether another place overlaps one of them.

    Args:
        places: (first character, character after the last one) pairs, in any order.
    """

    def __init__(self, places: Iterable[tuple[int, int]]) -> None:
        self._places: list[tuple[int, int]] = []
        for start, end in sorted(places):
            if self._places and start <= self._places[-1][1]:
                start, end = self._places[-1][0], max(end, self._places.pop()[1])
            self._places.append((start, end))

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield the places from left to right. Places that overlap or touch were merged."""
        return iter(self._places)

    def overlap(self, start: int, end: int) -> bool:
        """Return whether the place start:end (characters) shares a character with one of the places."""
        at = bisect_left(self._places, (end,))
        return at > 0 and start < self._places[at - 1][1]


class Match(NamedTuple):
    """A name that was found in a text, or an entity of a recogniser.

    Attributes:
        start: its first character.
        end: the character after its last one.
        label: its label.
        corrected: text to look up instead of the mention's own text: with misspelt words corrected, or the name of a part. None: its own text.
        nested: whether it is inside a longer name that was chosen, or overlaps one.
        part: whether it is a part of a coordination, joined from words that do not stand together.
        item: of a part of a coordination, the place of its own words: "neck" in "neck and back pain"; () for other matches.
        ent: the entity; None for a name.
    """

    start: int
    end: int
    label: str
    corrected: str | None = None
    nested: bool = False
    part: bool = False
    item: tuple[int, ...] = ()
    ent: Any = None


def chosen(
    before: Sequence[Match], found: Sequence[Match], *, text: str, join: bool, overwrite: bool, skipped: Iterable[tuple[int, int]] = ()
) -> tuple[list[Match], list[Match]]:
    """Return the mentions for `doc.ents`, which do not overlap, and all others.

    Among overlapping names the first and longest is chosen, from left to right. Without `join`, entities are kept and names that overlap them are
    dropped; with `overwrite`, names are kept and entities that overlap them are dropped. With `join`:

    - a name is kept, and an entity that overlaps it is dropped ("chest pain" is kept, "mild chest pain" is not);
    - but a part of the body, a process or a concept that is the only name in a longer finding, test or procedure is dropped, and the entity is kept
      ("thyroid function" is kept, "thyroid" is not);
    - an entity that overlaps no name is kept, unless its words are plain English ("symptoms", "overall quality", but not those of `MEANT`), it is only a verb ("retracted",
      "dissecting", but also "dilated") or a word such as "neg", it has at most two letters or none, or it is in a skipped part of the text. Signs at its ends are left out (", neck").

    Args:
        before: entities of the recogniser.
        found: names, which may overlap.
        text: text of the Doc.
        join: see above.
        overwrite: without `join`, names replace entities.
        skipped: with `join`, places (characters) whose entities are dropped: headings, and placeholders of de-identified notes ("[**Name**]").
    """
    names = _left_to_right(sorted((one for one in found if not (one.part or one.nested)), key=lambda one: (one.start, -one.end)))
    if join:
        kept = _joined(before, names, text, skipped)
    else:
        first, second = (names, list(before)) if overwrite else (list(before), names)
        places = Places((one.start, one.end) for one in first)
        kept = sorted([*first, *(one for one in second if not places.overlap(one.start, one.end))], key=lambda one: one.start)
    taken = {(one.start, one.end) for one in kept}
    # dropped entities of a recogniser are not returned. A part is returned even if a mention has the same place, because it is another concept
    others = [one for one in found if one.part or (one.start, one.end) not in taken]
    return kept, others


def with_items(kept: Sequence[Match], parts: Sequence[Match], names: Collection[tuple[int, int]], *, join: bool = True) -> list[Match]:
    """Return the chosen mentions, and the items of coordinations that share the head of one of them: "neck" in "neck and back pain" is neck pain.

    The item must be joined with a chosen mention of the same group that holds the rest of its name ("back pain"). It replaces a part of the body, a
    process or a concept in its place, also a longer entity ("longstanding back"), or an entity that is no name and not longer ("stiff neck" is kept). A finding
    or a habit also replaces a substance or a test ("iron and zinc deficiency", "alcohol or drug use"). Without `join`, it replaces no entity.

    Args:
        kept: mentions that do not overlap, from left to right.
        parts: parts of coordinations.
        names: places of the names that were found; other mentions are entities of the recogniser.
        join: see `chosen`.
    """
    items = [part for part in parts if part.item and (part.label in WHOLE or part.label in MODIFIERS or part.label == HABIT)]
    if not items:
        return list(kept)
    made = list(kept)
    for part in sorted(items, key=lambda one: one.item[0] - one.item[1]):  # the longest item first
        first, end = part.item
        here = _overlapping(made, first, end)
        if any(not _gives_way(one, part, one[:2] in names, join) for one in made[here]):
            continue
        whole = made[_overlapping(made, part.start, part.end)]
        shares = (one for one in whole if one.label == part.label and part.start <= one.start and one.end <= part.end)
        if any(one.start >= end and one.end > end if first == part.start else one.end <= first for one in shares):
            made[here] = [Match(first, end, part.label, part.corrected)]
    return made


def _gives_way(one: Match, part: Match, is_name: bool, join: bool) -> bool:
    """Return whether a mention may be replaced by the item of a part, see `with_items`."""
    if one.ent is not None and not join:
        return False
    first, end = part.item
    inside = first <= one.start and one.end <= end
    if inside and (not is_name or (part.label in (FINDING, HABIT) and one.label in MEASURED)):
        return True
    return one.label in MODIFIERS and (inside or not is_name)


def _overlapping(mentions: Sequence[Match], start: int, end: int) -> slice:
    """Return which of the mentions, sorted and without overlap, share a character with the place start:end."""
    return slice(bisect_right(mentions, start, key=lambda one: one.end), bisect_left(mentions, end, key=lambda one: one.start))


def _left_to_right(names: Sequence[Match]) -> list[Match]:
    kept: list[Match] = []
    end = -1
    for one in names:
        if one.start >= end:
            kept.append(one)
            end = one.end
    return kept


def _joined(entities: Sequence[Match], found: Sequence[Match], text: str, skipped: Iterable[tuple[int, int]]) -> list[Match]:
    cut = [trimmed(entity, text) for entity in entities]
    names = _without_modifiers(found, cut, text)
    taken = Places([*((name.start, name.end) for name in names), *skipped])

    def is_new(entity: Match) -> bool:
        word = text[entity.start : entity.end]
        if len(word) <= SHORT or not any(map(str.isalpha, word)) or (not _is_meant(word, text, entity) and all(map(is_plain, word.lower().split()))):
            return False
        if (word.lower() in _NO_MENTIONS and not word.isupper()) or (entity.label in WHOLE and _is_verb(word, entity.label)):
            return False
        if taken.overlap(entity.start, entity.end) or means_something_else(text, entity.start, entity.end, entity.label):
            return False
        if is_department(text, entity.start, entity.end):
            return False
        return entity.label != FINDING or not is_named_after_finding(word)

    return sorted([*names, *filter(is_new, cut)], key=lambda one: one.start)


def _is_meant(word: str, text: str, entity: Match) -> bool:
    """Return whether a plain word is a mention because a recogniser marked it, see `MEANT`."""
    if word.lower() not in MEANT:
        return False
    return not word.lower().startswith("suture") or _OF_SKULL.search(text, max(0, entity.start - _NEAR), entity.end + _NEAR) is None


def _is_verb(word: str, label: str) -> bool:
    """Return whether an entity is only a verb. A finding in -ing may be a noun: "cramping"."""
    verb = _VERB.fullmatch(word)
    return verb is not None and not (verb[1] and label == FINDING) and word.lower() not in MEANT  # "narrowing"


def _without_modifiers(names: Sequence[Match], entities: Sequence[Match], text: str) -> list[Match]:
    """Return the names without those that only describe a longer entity, see `chosen`. Both come from left to right, without overlap.

    A name after which an entity ends, and before which it has only a side, is kept: "GSV" in "R GSV".
    """
    starts = [name.start for name in names]
    dropped: set[int] = set()
    for entity in entities:
        if entity.label in WHOLE:
            first, end = bisect_left(starts, entity.start), bisect_left(starts, entity.end)
            if (
                end - first == 1
                and names[first].label in MODIFIERS
                and entity[:2] != names[first][:2]
                and names[first].end <= entity.end
                and not (names[first].end == entity.end and _IS_SIDE.fullmatch(text, entity.start, names[first].start))
            ):
                dropped.add(first)
    return [name for at, name in enumerate(names) if at not in dropped]


def trimmed(entity: Match, text: str) -> Match:
    """Return an entity without what a recogniser takes with it: signs at its ends (", neck", "-pls"), another item ("5)venous stasis"), "neg" after a test."""
    word = text[entity.start : entity.end].rstrip(_SIGNS)
    word = word[: result.start()] if (result := _RESULT.search(word)) is not None else word
    end = entity.start + len(word)
    if (other := _OTHER_ITEM.match(word)) is not None:
        word = word[other.end() :]
    start = end - len(_FIRST_DASH.sub("", word.lstrip(_SIGNS)))
    return entity if (start, end) == (entity.start, entity.end) or start >= end else Match(start, end, entity.label)
