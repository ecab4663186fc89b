"""Substances with a result are tests: "sodium 140" is a sodium level, "sodium 1 g twice daily" is a drug."""

from __future__ import annotations

import re

LEVEL = "level"  # "sodium" and this word is the name of the test, if the knowledge base has it
READ = 48  # characters after a substance that are read
_NUMBER = r"[<>~≈↑↓]?[ \t]*\d+(?:[.,]\d+)*(?:[ \t]*[-–/][ \t]*\d+(?:\.\d+)?)?"
_IS = r"[ \t]*(?:\([^()\n]{1,12}\)[ \t]*)?(?:levels?[ \t]*)?(?:[:=]|(?:is|was|were|of|at)\b)?[ \t]*(?:(?:only|about|approximately|still|now)[ \t]+)?"
_WORDS = (
    r"(?:slightly|mildly|markedly|quite|very|within)?[ \t]*(?:normal|low|high|elevated|raised|decreased|increased|undetectable|therapeutic|pending)\b"
)
_RESULT = re.compile(rf"{_IS}(?:{_NUMBER}|(?<=[ \t:=]){_WORDS})", re.IGNORECASE)
# a dose has the unit of an amount, a form or a frequency; "1.2 mg/dL" is a concentration
_DOSE = re.compile(
    r"[ \t]*(?:(?:mg|mcg|µg|ug|g|gm|grams?|ml|cc|units?|iu|meq|tabs?|tablets?|caps?|capsules?|puffs?|drops?|sprays?|%)(?![ \t]*/[ \t]*(?:d?l|ml|min)\b)(?!\w)"
    r"|(?:[ \t]*\w+){0,2}?[ \t]*(?:p\.?o\b|i\.?v\b|daily|nightly|weekly|bid|b\.i\.d|tid|t\.i\.d|qid|q\.i\.d|q\.?d\b|q\.?h\.?s|qam|qpm|q\d|prn|every|once|twice)\b)",
    re.IGNORECASE,
)


def has_result(after: str) -> bool:
    """Return whether the text after a substance begins with the result of a test: " 140", " was 3.2 mmol/L", ": normal", but not " 20 mg daily".

    Args:
        after: the text after it, at least `READ` characters of it.
    """
    found = _RESULT.match(after)
    return found is not None and not (found[0][-1].isdigit() and _DOSE.match(after, found.end()))
