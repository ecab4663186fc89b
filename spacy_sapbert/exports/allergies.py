"""Find out which mentions of a note are about an allergy: substances that the patient is allergic to, allergies, and reactions."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

from ..context.clauses import find_sentences
from ..context.sections import Section, find_sections, section_at
from ..render.records import Row
from .base import LinkedNote, groups_of, has
from .values import CONCENTRATION, DOSES, value_after

SECTION = "allergies"
FOOD = "T168"
SUBSTANCES = frozenset(["CHEM", "OBJC", "LIVB", "DEVI"])  # groups of what a text says that somebody is allergic to: drugs, foods, animals, latex

_FAR = 300  # characters before a substance that are read
# "allergic to", "intolerance of", "had an anaphylactic reaction to", and what may stand between this and the substance: "allergic to nuts, latex and …"
_TO = re.compile(
    r"\b(?:allergi(?:c|es)|allergy|intoleran(?:t|ce)|hypersensitiv(?:e|ity)|anaphyla(?:xis|ctic)|adverse(?:\s+drug)?\s+reactions?)"
    r"(?:\s+reactions?)?\s+(?:to|of)\b(?P<rest>[^.;:]*)$",
    re.IGNORECASE,
)
_AFTER = re.compile(r"[ \t]*[-–]?[ \t]*(?:allerg(?:y|ies)|intolerance|hypersensitivity|anaphylaxis)\b(?![ \t]+test)", re.IGNORECASE)
# words after which a drug is one that the patient takes
_TAKES = re.compile(
    r"\b(?:but|carr(?:y|ies|ied)|us(?:es?|ing)|tak(?:es?|ing|en)|tolerat\w+|start(?:ed)?|gave|given|treated|receiv\w+|switched|instead|therefore|currently|continued?|prescribed)\b",
    re.IGNORECASE,
)
_DOSE = re.compile(rf"[ \t]*\d+(?:[.,]\d+)?[ \t]*(?:{DOSES}|iu)\b", re.IGNORECASE)
_ALLERGY = re.compile(r"\ballerg(?:y|ies)\b", re.IGNORECASE)
_ONLY_ALLERGY = re.compile(r"(?:known\s+)?allerg(?:y|ies|ic)(?:\s+reactions?)?", re.IGNORECASE)
_ITEM = re.compile(r"[ \t]*(?:[-*•>+][ \t]|\d{1,2}[.)][ \t])")  # the beginning of an item of a list
# what stands between a substance and a reaction outside a section on allergies: "penicillin (rash)", "which causes hives"
_REACTION = re.compile(
    r"[ \t]*(?:\(|[-–:]|→|=>|(?:which[ \t]+)?caus(?:es?|ed|ing)\b|with\b|gets?\b|develop(?:s|ed)\b|reactions?:)[^.;\n]{0,40}", re.IGNORECASE
)


class Roles(NamedTuple):
    """The mentions that are about an allergy, by their place in a list of records.

    Attributes:
        allergies: substances that somebody is allergic to, and allergies ("penicillin allergy") -> places of their reactions.
        intolerances: those of `allergies` that the text calls an intolerance.
        others: mentions that are said by these: reactions, headings, "allergic" before "to penicillin".
    """

    allergies: dict[int, list[int]]
    intolerances: set[int]
    others: set[int]


def roles_of(note: LinkedNote, rows: list[Row]) -> Roles:
    """Return which records are about an allergy.

    Args:
        note: the note.
        rows: its records, without nested mentions.
    """
    text = note.text
    if not re.search(r"allerg|intoleran|hypersensitiv|anaphyla|adverse", text, re.IGNORECASE) and all(row.get("section") != SECTION for row in rows):
        return Roles({}, set(), set())
    sections, sentences = find_sections(text), find_sentences(text)
    begins = [start for start, _ in sentences]
    found = Roles({}, set(), set())
    of_sentence: dict[int, int] = {}  # begin of a sentence -> its last substance
    ends: dict[int, int] = {}  # begin of a section -> end of its list
    alone: list[tuple[int, int]] = []  # (place, begin of the sentence) of "allergy" and "allergic", without a substance
    for place, row in enumerate(rows):
        begin = begins[max(bisect_right(begins, row["start"]) - 1, 0)] if begins else 0
        section = section_at(sections, row["start"]) if row.get("section") == SECTION else None
        if section is not None:
            if section.start not in ends:
                ends[section.start] = _end_of_list(text, section)
            section = section if row["start"] < ends[section.start] else None
        if section is not None and row["start"] < section.body and text[section.body : section.end].strip() and not has(row, "negated"):
            found.others.add(place)  # a heading; but "No known drug allergies", alone on its line, is not only a heading
        elif "DISO" in groups_of(row):
            if _ONLY_ALLERGY.fullmatch(row["mention"]):
                alone.append((place, begin))
            elif _ALLERGY.search(row["mention"]) or _ALLERGY.search(row["name"]):
                found.allergies[place] = []
            elif not has(row, "negated") and begin in of_sentence and _is_reaction(text, rows[of_sentence[begin]], row, section):
                found.allergies[of_sentence[begin]].append(place)
                found.others.add(place)
        elif (said := _allergen(text, row, begin, section)) is not None:
            found.allergies[place] = []
            of_sentence[begin] = place
            if said:
                found.intolerances.add(place)
    for place, begin in alone:
        if begin in of_sentence:
            found.others.add(place)
        elif not rows[place]["mention"].lower().startswith("allergic"):
            found.allergies[place] = []
    return found


def _allergen(text: str, row: Row, begin: int, section: Section | None) -> bool | None:
    """Return whether a substance is named as one that is not tolerated: True for an intolerance, False for an allergy; None if it is not."""
    groups = groups_of(row)
    if SUBSTANCES.isdisjoint(groups):
        return None
    before, value = text[max(begin, row["start"] - _FAR) : row["start"]], value_after(text, row["end"])
    if value is not None and CONCENTRATION.fullmatch(value.code):
        return None
    if (to := _TO.search(before)) is not None and not _TAKES.search(to["rest"]):
        return "intoleran" in to[0].lower()
    if (after := _AFTER.match(text, row["end"])) is not None:
        return "intoleran" in after[0].lower()
    listed = section is not None and ("CHEM" in groups or FOOD in row["types"])
    return False if listed and not _TAKES.search(before) and not _DOSE.match(text, row["end"]) else None


def _end_of_list(text: str, section: Section) -> int:
    """Return where the list of a section on allergies ends.

    If the list begins in the line of the heading, it ends with this line or with the items that follow; otherwise with the paragraph.
    """
    if text[section.start : section.body].rstrip(" \t").endswith("\n"):
        paragraph = re.compile(r"\n[ \t]*\n").search(text, section.body, section.end)
        return section.end if paragraph is None else paragraph.start()
    for end in re.compile("\n").finditer(text, section.body, section.end):
        if _ITEM.match(text, end.end()) is None:
            return end.start()
    return section.end


def _is_reaction(text: str, substance: Row, row: Row, section: Section | None) -> bool:
    between = text[substance["end"] : row["start"]]
    return section is not None or _REACTION.fullmatch(between) is not None
