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
    r"packets?|patch(?:es)?|vials?|amps?|doses?|times|x|u(?! ?/ ?[ae]\b)|mu|k units|days?|weeks?|wks?|months?|years?|yrs?|hours?|hrs?|min(?:ute)?s?|%"
)
_WHEN = (
    r"p\.?o\b|i\.?v\b|daily|nightly|weekly|monthly|bid|b\.i\.d|tid|t\.i\.d|qid|q\.i\.d|q\.?d\b|q\.?h\.?s|hs|qam|qpm|q ?\d|prn|every|once|twice|per day|"
    r"s\.?[cql]\b|i\.?m\b|sub-?q\b|subcut\w*|a day|at (?:bedtime|night|noon)|in the (?:morning|evening|afternoon)|with (?:meals|food|breakfast|dinner)"
)
_RATE = r"/ ?(?:kg|h|hr|hour|min|day|d)\b"  # "heparin at 1200/hr"
_DOSE = re.compile(rf" ?(?:{_RATE}|(?:{_UNITS})(?! ?/ ?(?:d?l|ml)\b)(?!\w)|(?: ?\w+){{0,2}}? ?(?:{_WHEN})\b)", re.IGNORECASE)
# the highest level that is ever measured, in any usual unit; a larger number is a dose: "heparin 5000", "lithium 900", "potassium 40"
_HIGHEST = {
    "amikacin": 150,
    "calcium": 20,
    "carbamazepine": 80,
    "digoxin": 20,
    "gentamicin": 50,
    "heparin": 5,
    "lithium": 10,
    "magnesium": 20,
    "phenytoin": 200,
    "potassium": 15,
    "tacrolimus": 100,
    "tobramycin": 50,
    "vancomycin": 200,
}
_EXCRETED = re.compile(r"\b(?:urin\w*|stool|faecal|fecal|dialysate|sweat)[ \t]+$", re.IGNORECASE)  # before a level that may be higher
_FIGURE = re.compile(r"\d[\d,]*(?:\.\d+)?")


def has_result(after: str, substance: str = "", before: str = "") -> bool:
    """Return whether the text after a substance begins with the result of a test: " 140", " was 3.2 mmol/L", ": normal", but not " 20 mg daily".

    Args:
        after: the text after it; only its first `READ` characters are read.
        substance: its name. Of some, a number that no level reaches is a dose: "heparin 5000".
        before: the text before it. After a word such as "urine", levels may be higher: "urine potassium 45".
    """
    text = _SPACES.sub(" ", after[:READ])
    found = _RESULT.match(text)
    if found is None:
        return False
    if not found[0][-1].isdigit():
        return True
    highest = None if _EXCRETED.search(before[-READ:]) else _HIGHEST.get(substance.lower())
    if highest is not None and (figure := _FIGURE.search(found[0])) is not None and float(figure[0].replace(",", "")) > highest:
        return False
    return _DOSE.match(text, found.end()) is None
