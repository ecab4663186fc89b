"""Words about a contrast agent belong to the imaging before them: "CT ABDOMEN WITH AND WITHOUT CONTRAST" is one test."""

from __future__ import annotations

import re

from .imaging import IMAGING
from .joining import Match

PROCEDURE = "PROC"  # group of the names of imaging, and of other tests and procedures
_WITH = r"(?:with(?:out)?|w/o?)"
_CONTRAST = re.compile(
    r",?[ \t]+non[- ]?con(?:trast)?\b(?![ \t]+(?:CT|MRI?|head|study|scan))|"
    rf",?[ \t]+{_WITH}(?:[ \t]?(?:and|or|&|/)[ \t]?{_WITH})?[ \t]+(?:(?:any|i\.?v\.?|intravenous|oral|rectal|po|gadolinium|iodinated)[ \t]+(?:and[ \t]+)?)*contrast\b"
    r"(?:[ \t]+(?:enhancement|injections?)\b)?"
    r"(?![ \t-]*(?:agent|allerg|dye|leak|extravas|induced|material|media|medium|nephro))",
    re.IGNORECASE,
)


def with_contrast(one: Match, text: str) -> Match:
    """Return a match with the words about contrast that follow, if it is imaging. It is still looked up without them.

    Args:
        one: a name that was found.
        text: text of the Doc.
    """
    if one.nested or one.part or not IMAGING.search(text, one.start, one.end) or (found := _CONTRAST.match(text, one.end)) is None:
        return one
    return one._replace(end=found.end(), corrected=one.corrected or text[one.start : one.end])


def about_contrast(text: str, start: int, end: int) -> int:
    """Return where the words about contrast begin in a title, in characters of the text: 7 for "CT head with contrast"; the end of the title if there are none."""
    found = _CONTRAST.search(text, start, end)
    return end if found is None else found.start()
