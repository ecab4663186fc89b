"""Places of a note that hold no mention: headings, TNM stages, placeholders, shorthand. And the headings that do: those of tests."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..context.sections import PART, TESTS, find_sections, kind_of
from .beside import names_many_tests
from .contrast import about_contrast
from .joining import Places
from .notation import notations
from .plain_findings import NONE_AFTER

_REMOVED = re.compile(  # a placeholder of a de-identified note: "[**Name**]", "MM/DD/YYYY"
    r"\[\*\*.*?\*\*\]|\b(?:MM|DD|YY(?:YY)?)(?:[/-](?:MM|DD|YY(?:YY)?)){1,2}\b"
)
_MEASURES = re.compile(  # headings in a report of an operation that name what is measured
    r"(?:estimated )?blood loss|ebl|(?:(?:total|fluoro|fluoroscopy|operative|tourniquet) )*(?:fluoro|fluoroscopy|tourniquet) time", re.IGNORECASE
)
_COMPLICATIONS = re.compile(r"(?:[a-z-]+ )?(?P<word>complications?)", re.IGNORECASE)
_STATEMENTS = frozenset(["nka", "nkda"])  # headings that say themselves what is so
_STAGE = re.compile(
    r"\b[cpy]{0,2}T(?:[0-4][a-d]?|is|[xX])[ ,]*[cp]?N[0-3xX][a-c]?(?:[ ,]*(?:\([^()\n]{0,20}\))?[ ,]*[cp]?M[01xX])?\b"
)  # a TNM stage: "T1 N3 M0"


def places_without_mentions(text: str, is_body: Callable[[str], bool] | None = None, *, is_english: bool = True) -> Places:
    """Return the places that hold no mention: known headings, TNM stages, placeholders of de-identified notes ("[**Name**]"), shorthand ("RV in 6/52").

    Args:
        text: the note.
        is_body: says whether a text is the name of a part of the body. Headings that are one ("Lungs: clear", but not "Heme: stable") are then not skipped.
        is_english: whether the note is in English, so that it may have English shorthand.
    """
    kinds = ((section, kind_of(section.title)) for section in find_sections(text) if section.title)
    titles = [
        one
        for one, kind in kinds
        if kind is not None and one.title.lower().rstrip(".") not in _STATEMENTS and not (kind == PART and is_body is not None and is_body(one.title))
    ]
    headings = [(start := text.index(one.title, one.start), start + len(one.title)) for one in titles]
    fixed = (match.span() for pattern in (_REMOVED, _STAGE) for match in pattern.finditer(text))
    return Places([*headings, *fixed, *(notations(text) if is_english else ())])


def headings_of_tests(text: str) -> set[tuple[int, int]]:
    """Return the places of headings that may name a test, a vital sign, or complications that did not occur ("COMPLICATIONS: None").

    A result follows on the line of the heading ("CXR: clear"), or nothing and no colon, so that it is a line of a list of tests ("PLAN:", "CBC", "MRI brain").
    """
    found = set()
    for section in find_sections(text):
        if section.title and (kind_of(section.title) in TESTS or _MEASURES.fullmatch(section.title)):
            start = text.index(section.title, section.start)  # a list mark may stand before it: "- CXR: clear"
            end = start + len(section.title)
            after = text[end:].partition("\n")[0]
            many = names_many_tests(section.title)
            listed_alone = not many and not after.strip() and not text[end : section.end].strip()
            if listed_alone or (after.strip(" \t:-–—*_=>") and not (many and after.lstrip().startswith(":"))):
                found.update([(start, end), (start, about_contrast(text, start, end))])
        elif section.title and (named := _COMPLICATIONS.fullmatch(section.title)) is not None:
            start = text.index(section.title, section.start)
            if NONE_AFTER.match(text, start + len(section.title)):
                found.add((start + named.start("word"), start + named.end("word")))
    return found
