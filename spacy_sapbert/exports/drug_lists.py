"""Read the course of a drug from the heading of the list that it is in: "Discharge medications:", "DISCONTINUED MEDICATIONS:".

Courses are the codes of FHIR's MedicationStatement.status, see `courses`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property

from ..context.sections import MEDICATIONS, Section, find_sections, kind_of, section_at
from .courses import ACTIVE, COMPLETED, INTENDED, ON_HOLD, STOPPED

PROCEDURES, PLAN = "procedures", "plan"  # kinds of sections
FIRST, FURTHER = "first", "further"  # places of an item on its line

_FAR = 2000  # characters before a drug in which a heading inside the section is searched
_NEAR = 200  # characters before a drug in which the beginning of its item is searched
_MOST = 100  # sections before a drug in which the heading of its list is searched
_DRUG = "\x00"  # stands for another drug and its dose
_STOPPED = re.compile(r"\b(?:stop(?:ped|ping)?|discontinued?|ceased|d/?c['’]?e?d)\b")
_ON_HOLD = re.compile(r"\b(?:h[eo]ld|holding|on hold|withheld|suspended|paused)\b")
_COMPLETED = re.compile(r"\b(?:completed|finished)\b")
_NEGATED = re.compile(r"\b(?:not|never|no|don['’]t)\b")
# what is taken after the note: it does not matter what the patient took before
_FROM_NOW_ON = re.compile(r"\b(?:discharge|discharged|ttas?|ttos?|new|start(?:ed|ing)?|continued?|resumed?|changed?|unchanged|added)\b")
# what is taken when the patient comes: a list for the time after discharge says more, if the note has one
_UNTIL_NOW = re.compile(
    r"\b(?:admission|admit|home|current(?:ly)?|outpatient|present|chronic|regular|maintenance|active|ongoing|daily|taking|(?:pre-?|prior to )(?:admission|arrival|hospitali[sz]ation))\b"
)
# what was taken or given once, or is about something else
_PAST = re.compile(
    r"\b(?:previous(?:ly)?|past|former|prior(?! to)|history|tried|failed|given|received|administered|premedications?|intra-?op\w*|pre-?op\w*|anesthe\w+|"
    r"allerg\w+|reactions?|e[dr]|emergency|hospital|inpatient|infusions?|drips)\b"
)
_OF_DRUGS = re.compile(r"\b(?:medications?|meds|medicines)\b")
_START = re.compile(r"start\b", re.IGNORECASE)
_PLAIN = frozenset(
    ["medications", "medication", "meds", "medicines", "medication list", "medications list", "list of medications", "drug history", "dh", "dhx"]
)
_MEDICATIONS = r"(?:medications?|meds|medicines|drugs)"
_ALONE = (  # a heading that says nothing but a course, with or without a colon: "HOLD", "Discontinued medications:"
    rf"(?:new|changed?|unchanged|added|continued?|stop(?:ped)?|discontinued?|held|hold|on[ ]hold|start(?:ed)?|resumed?|completed)"
    rf"(?:[ ]taking)?(?:[ ](?:the[ ]following|these|this))?(?:[ ]{_MEDICATIONS})?"
    rf"|{_MEDICATIONS}[ ](?:(?:to[ ]be|to|were|was)[ ])?(?:changed?|added|continued?|stop(?:ped)?|discontinued?|held|hold|start(?:ed)?|resumed?|completed)"
)
# a heading alone on its line
_HEADING = re.compile(
    rf"^[ \t]*(?:[-*•>#=_]+[ \t]*)?(?:(?P<alone>(?i:{_ALONE}))[ \t*_=-]*:?|(?P<title>[^\W\d_][^:\n]{{0,60}}):)[ \t*_]*$", re.MULTILINE
)
_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
# an item of a list: nothing but marks and a few words stands between the drug and the beginning of the line, or the item before
_MARKED = re.compile(r"[ \t]*(?:[-*•>+][ \t]|\d{1,3}[.)][ \t])")
_MARKS = r"(?:[\s*•>#·=_-]|\d{1,3}[.)](?=\s)|\[[ x]?\])*"
_WORDS = (
    r"(?:(?:(?:as follows|(?:include|includes|including)(?: the following)?):?|and|plus|also|or|take|takes|on|po|oral|iv|low[- ]dose|baby|enteric[- ]coated|extended[- ]release|generic|inhaled|topical|"
    r"nasal|home|her|his|the|an?|once|twice|daily|prn|new|continue|start|resume)\s+)*"
)
_FIRST = re.compile(rf"{_MARKS}{_WORDS}", re.IGNORECASE)
_NUMBERED = re.compile(rf"[\s,;.]\d{{1,3}}[.)]\s+{_WORDS}\Z", re.IGNORECASE)  # "1. Aspirin 2. Metformin"
_AFTER_DRUG = re.compile(rf"{_DRUG}(?:\s*\(|[^.;:{_DRUG}\n]{{0,40}}?(?:[,/+&]|\band\b))?\s*{_WORDS}\Z", re.IGNORECASE)
_AFTER_ITEM = re.compile(rf"[,;.|\t/+&]\s*{_WORDS}\Z", re.IGNORECASE)
# "heparin was given", which is no item of a list
_SENTENCE = re.compile(
    r"[^\n.;]{0,20}?\b(?:was|were|is|are|has|had|have|been|caused?|causes|did|does|made|makes|helped|worked|helps|works)\b", re.IGNORECASE
)


class DrugLists:
    """The lists of drugs in a note.

    Args:
        text: the note.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def sections(self) -> list[Section]:
        """The sections of the note, in order."""
        return find_sections(self.text)

    @cached_property
    def lists_after(self) -> bool:
        """Whether the note lists the drugs for the time after discharge."""
        return any(_is_list(section) and re.search(r"\bdischarge|\btt[ao]", section.title.lower()) for section in self.sections)

    @cached_property
    def tells_of_procedure(self) -> bool:
        """Whether the note has a section on a procedure. The drugs that it lists without saying more may be those of the procedure."""
        return any(section.kind == PROCEDURES for section in self.sections)

    def course(self, start: int, end: int, others: Sequence[tuple[int, int]] = ()) -> str | None:
        """Return the course that the heading of its list says of a drug; None if the drug is in no list, or the heading says none.

        Args:
            start: offset of the drug, or of its dose if that is before it.
            end: offset of the end of the drug and its dose.
            others: (start, end) of the drugs near it, with their doses.
        """
        section = section_at(self.sections, start)
        if section is None or start < section.body:
            return None
        item = self._item(section, start, end, others)
        if item is None:
            return None
        headings = list(_HEADING.finditer(self.text, max(section.body, start - _FAR), start))
        nearest = headings[-1] if headings else None
        of_part = None if nearest is None else self._course_of(nearest["alone"] or nearest["title"])
        # after a blank line, only a drug at the beginning of its line is still in the list
        apart = _PARAGRAPH.search(self.text[section.body if nearest is None else nearest.end() : start].lstrip()) is not None
        if not _is_list(section):  # "HOLD" on its own line, in a plan; other drugs of a plan are in no list
            if nearest is None or nearest["alone"] is None or apart:
                return None
            return INTENDED if _START.match(nearest["alone"]) else of_part
        if apart and item != FIRST:
            return None
        of_list = self._course_of(self._title(section))
        if nearest is not None and of_part is None:
            return of_list if of_list == ACTIVE else None  # a part with a heading of its own may be no part of what was stopped
        return of_part or of_list

    def _title(self, section: Section) -> str:
        """Return the title of a section, or of the list that it is a part of: "PRN:" or "Sig:" in "DISCHARGE MEDICATIONS:"."""
        last = bisect_right(self.sections, section.start, key=lambda each: each.start)
        for each in reversed(self.sections[max(last - _MOST, 0) : last]):
            if not _is_list(each):
                break
            if (kind_of(each.title) is not None and each.title.lower() != "sig") or self._course_of(each.title) is not None:
                return each.title
        return ""

    def _course_of(self, title: str) -> str | None:
        """Return the course that a heading says; None if it says none."""
        plain = " ".join(title.lower().split())
        if _NEGATED.search(plain):
            return None
        for course, words in ((STOPPED, _STOPPED), (ON_HOLD, _ON_HOLD), (COMPLETED, _COMPLETED)):
            if words.search(plain):
                return course
        plain = " ".join(_BRACKETS.sub(" ", plain).split())
        if _PAST.search(plain):
            return None
        if _FROM_NOW_ON.search(plain):
            return ACTIVE
        until_now = _UNTIL_NOW.search(plain) is not None or (plain in _PLAIN and not self.tells_of_procedure)
        return ACTIVE if until_now and not self.lists_after else None

    def _item(self, section: Section, start: int, end: int, others: Sequence[tuple[int, int]]) -> str | None:
        """Return how a drug is an item of the list of a section: `FIRST` on its line, or `FURTHER`; None if it is no item."""
        line = self.text.rfind("\n", section.start, start) + 1  # 0: the heading is on the same line
        at, before = max(line or section.body, start - _NEAR), ""
        for first, last in sorted(others):
            if at <= first and last <= start:
                before, at = before + self.text[at:first] + _DRUG, last
        before += self.text[at:start]
        marked = _MARKED.match(before) is not None
        if _FIRST.fullmatch(before):
            return FIRST if marked or _SENTENCE.match(self.text, end) is None else None
        if _NUMBERED.search(before):
            return FIRST
        listed = _AFTER_DRUG.search(before) or (not marked and _AFTER_ITEM.search(before))  # after a mark, a comma may begin a remark
        return FURTHER if listed and _SENTENCE.match(self.text, end) is None else None


def _is_list(section: Section) -> bool:
    """Return whether a section is a list of drugs."""
    return section.kind == MEDICATIONS or (section.kind == PLAN and _OF_DRUGS.search(section.title.lower()) is not None)
