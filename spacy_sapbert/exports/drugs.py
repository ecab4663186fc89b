"""Read what a note says about a drug: whether it is a drug here and not what a test measures, its dose, and whether it is taken."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..context.sections import MEDICATIONS
from ..render.records import Row
from .base import groups_of, has
from .courses import ACTIVE, COMPLETED, INTENDED, KEPT, ON_HOLD, STOPPED, course_of
from .doses import Dose, dose_of
from .drug_lists import DrugLists
from .measured import is_measured, is_test
from .values import CONCENTRATION, DOSES, value_after

NOT_TAKEN, UNKNOWN = "not-taken", "unknown"  # statuses, beside the courses

_LABS = "labs"  # kind of a section
_LISTED = 6  # drugs before and after a drug that may be in one list with it
_NEAR = 60  # characters before a drug in which "avoid" is searched
# "Avoid NSAIDs and aspirin", not "avoid alcohol while taking metronidazole" and "To avoid constipation, senna"
_OTHER_WORDS = r"(?:while|when|with|on|by|if|until|given|during|take|taking|use|start|add|give|continue|will|we|but)\b"
_AVOID = re.compile(
    rf"(?:\bto[ ]avoid\b(?:(?!\b{_OTHER_WORDS})[^.,;:!?\n])*|(?<!\bto )\bavoid\b(?:(?!\b{_OTHER_WORDS})[^.;:!?\n])*)\Z", re.IGNORECASE
)
# a number after the name of a test, which is no dose
_RESULT = re.compile(rf"\+?[ \t]*(?:[:=]|was|is|of)?[ \t]*[<>]?\d+(?:[.,]\d+)?(?![\d.,]*[ \t]*(?:{DOSES})\b)", re.IGNORECASE)


class Drug(NamedTuple):
    """What a note says about a drug.

    Attributes:
        dose: its dose; None without one.
        status: code of FHIR's MedicationStatement.status.
    """

    dose: Dose | None
    status: str


def drug_of(lists: DrugLists, place: int, rows: list[Row]) -> Drug | None:
    """Return what a note says about a drug; None if the record is no chemical, or is a test or what a test measures: "K 5.9 mmol/L", "CBC, TSH".

    Args:
        lists: the lists of drugs in the note.
        place: place of the record.
        rows: the linked records of the note, without nested mentions.
    """
    row, text = rows[place], lists.text
    if "CHEM" not in groups_of(row) or (is_test(row) and row["label"] != "CHEM"):  # "Hb" is a test, though haemoglobin is also a drug
        return None
    # "LABS: creatinine 1.2" is a test, but not "Started on furosemide 40 mg" below the results
    if row.get("section") == _LABS and _RESULT.match(text, row["end"]) is not None:
        return None
    value = value_after(text, row["end"])
    if value is not None and CONCENTRATION.fullmatch(value.code) is not None:
        return None
    dose = dose_of(text, row["start"], row["end"], _end_of_dose(text, rows[:place]))
    if dose is None and row.get("section") != MEDICATIONS and is_measured(text, place, rows):
        return None
    return Drug(dose, _status(lists, place, rows, dose))


def is_avoided(text: str, row: Row) -> bool:
    """Return whether a drug or procedure is hypothetical because it is to be avoided. It must not be intended."""
    return has(row, "hypothetical") and _AVOID.search(text, max(row["start"] - _NEAR, 0), row["start"]) is not None


def _end_of_dose(text: str, rows: list[Row]) -> int:
    """Return the end of the dose of the drug before, or of the mention before if it is no drug or has no dose."""
    if not rows:
        return 0
    dose = dose_of(text, rows[-1]["start"], rows[-1]["end"], rows[-1]["start"]) if "CHEM" in groups_of(rows[-1]) else None  # not "pain 5 mg"
    return int(rows[-1]["end"]) if dose is None else dose.end


def _status(lists: DrugLists, place: int, rows: list[Row], dose: Dose | None) -> str:
    """Return the status of a drug: what the words around it say of its course, its statuses, and the heading of its list."""
    row, text = rows[place], lists.text
    near = [each for each in rows[max(place - _LISTED, 0) : place + _LISTED + 1] if each is not row and "CHEM" in groups_of(each)]
    others = [_with_dose(each, dose_of(text, each["start"], each["end"], each["start"])) for each in near]
    course = course_of(text, *_with_dose(row, dose), others)
    if course == KEPT:
        return ACTIVE  # "do not stop warfarin": the drug is negated for the rules of statuses, but it is taken
    if course is None:
        course = lists.course(*_with_dose(row, dose), others)
    if course in (STOPPED, ON_HOLD, COMPLETED):
        return course
    if has(row, "negated") or is_avoided(text, row):
        return NOT_TAKEN
    if has(row, "hypothetical"):  # "will be started"
        return INTENDED
    return UNKNOWN if course is None or row["status"] else course  # "was started in 2010" may be over


def _with_dose(row: Row, dose: Dose | None) -> tuple[int, int]:
    """Return (start, end) of a drug and its dose."""
    return (row["start"], row["end"]) if dose is None else (min(row["start"], dose.start), max(row["end"], dose.end))
