"""Substances with a result are tests: "sodium 140" is a sodium level, "sodium 1 g twice daily" is a drug."""

from __future__ import annotations

import re

LEVEL = "level"  # "sodium" and this word is the name of the test, if the knowledge base has it
READ = 48  # characters after a substance that are read
_SPACES = re.compile(r"[ \t]+")
_NUMBER = r"[<>~≈↑↓]? ?\d+(?:[.,]\d+)*(?: ?[-–/] ?\d+(?:\.\d+)?)?"
_IS = r" ?(?:\([^()\n]{1,12}\) ?)?(?:levels? ?)?(?:[:=]|(?:is|was|were|of|at)\b)? ?(?:(?:only|about|approximately|still|now) )?"
_WORDS = r"(?:slightly |mildly |markedly |quite |very |within )?(?:normal|low|high|elevated|raised|undetectable|therapeutic|pending)\b(?![ -]?(?:dose|saline|diet|intake))"
_RESULT = re.compile(rf"{_IS}(?:{_NUMBER}|(?<=[ :=]){_WORDS})", re.IGNORECASE)
# what follows the number of a dose: a unit of an amount, a form, a duration, a time or a frequency; "1.2 mg/dL" is a concentration
_UNITS = (
    r"milligrams?|micrograms?|mg|mcg|µg|ug|g|gm|grams?|liters?|litres?|l|ml|cc|units?|iu|meq|tabs?|tablets?|pills?|caps?|capsules?|puffs?|drops?|gtts?|sprays?|"
    r"packets?|patch(?:es)?|vials?|amps?|doses?|times|x|days?|weeks?|wks?|months?|years?|yrs?|hours?|hrs?|min(?:ute)?s?|%"
)
_WHEN = (
    r"p\.?o\b|i\.?v\b|daily|nightly|weekly|monthly|bid|b\.i\.d|tid|t\.i\.d|qid|q\.i\.d|q\.?d\b|q\.?h\.?s|hs|qam|qpm|q ?\d|prn|every|once|twice|per day|"
    r"a day|at (?:bedtime|night|noon)|in the (?:morning|evening|afternoon)|with (?:meals|food|breakfast|dinner)"
)
_DOSE = re.compile(rf" ?(?:(?:{_UNITS})(?! ?/ ?(?:d?l|ml)\b)(?!\w)|(?: ?\w+){{0,2}}? ?(?:{_WHEN})\b)", re.IGNORECASE)


def has_result(after: str) -> bool:
    """Return whether the text after a substance begins with the result of a test: " 140", " was 3.2 mmol/L", ": normal", but not " 20 mg daily".

    Args:
        after: the text after it; only its first `READ` characters are read.
    """
    text = _SPACES.sub(" ", after[:READ])
    found = _RESULT.match(text)
    return found is not None and not (found[0][-1].isdigit() and _DOSE.match(text, found.end()))
