"""Answers in the form of Amazon Comprehend Medical's InferICD10CM, InferRxNorm and InferSNOMEDCT, for programs that read that form.

Source: API reference and developer guide of Comprehend Medical, version 2018-10-30.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TextIO

from ..render.records import Row
from .base import Codes, LinkedNote, Origin, groups_of, is_code, linked, write_json_lines
from .courses import COMPLETED, INTENDED, ON_HOLD, STOPPED
from .doses import AMOUNT, DURATION, FORM, FREQUENCY, RATE, ROUTE, STRENGTH, Dose
from .drug_lists import DrugLists
from .drugs import NOT_TAKEN, Drug, drug_of, is_avoided
from .measured import is_test

FINDINGS, SYMPTOMS = "T033", "T184"  # types of concepts: findings; signs and symptoms
MOST = 5  # most concepts of an entity
ATTRIBUTES = {  # kind of a part of a dose -> type of the attribute
    AMOUNT: "DOSAGE",
    DURATION: "DURATION",
    FORM: "FORM",
    FREQUENCY: "FREQUENCY",
    RATE: "RATE",
    ROUTE: "ROUTE_OR_MODE",
    STRENGTH: "STRENGTH",
}

_TOLD = frozenset(["complaint", "review_of_systems"])  # kinds of sections with what the patient reports
_SEEN = frozenset(["exam", "findings", "labs", "vitals"])  # with what is observed


class Operation(NamedTuple):
    """One of the three operations.

    Attributes:
        vocabulary: vocabulary whose codes it returns.
        concepts: name of the list of concepts in its answer.
        traits: semantic group of the mentions that it returns -> status -> trait, for the statuses that it has a trait for.
    """

    vocabulary: str
    concepts: str
    traits: dict[str, dict[str, str]]


_OF_CONDITIONS = {"negated": "NEGATION", "family": "PERTAINS_TO_FAMILY", "hypothetical": "HYPOTHETICAL", "uncertain": "LOW_CONFIDENCE"}
_OF_PROCEDURES = {"negated": "NEGATION", "hypothetical": "HYPOTHETICAL", "uncertain": "HYPOTHETICAL", "historical": "PAST_HISTORY"}
OPERATIONS = {
    "InferICD10CM": Operation("ICD10CM", "ICD10CMConcepts", {"DISO": _OF_CONDITIONS}),
    "InferRxNorm": Operation("RXNORM", "RxNormConcepts", {"CHEM": {"negated": "NEGATION", "historical": "PAST_HISTORY"}}),
    "InferSNOMEDCT": Operation("SNOMEDCT_US", "SNOMEDCTConcepts", {"DISO": _OF_CONDITIONS, "PROC": _OF_PROCEDURES}),
}


def write(notes: Iterable[LinkedNote], origin: Origin, stream: TextIO, codes: Codes) -> int:
    """Write one line of JSON for each note: its id, and the answer of each operation.

    Args:
        notes: linked notes.
        origin: origin of the links.
        stream: stream to write into.
        codes: function that returns the codes of a concept.

    Returns:
        Number of lines.
    """
    answers = ({"note": note.note_id, **{name: answer(name, note, origin, codes) for name in OPERATIONS}} for note in notes)
    return write_json_lines(answers, stream)


def answer(name: str, note: LinkedNote, origin: Origin, codes: Codes) -> dict[str, Any]:
    """Return the answer of an operation.

    A mention is left out if its linked concept has no code in the vocabulary. It is also left out if it is of the family or hypothetical and the
    operation has no trait for this, because a reader would take it for a finding of the patient. A chemical that a test measures is no drug.

    Args:
        name: name of the operation, see `OPERATIONS`.
        note: a linked note.
        origin: origin of its links.
        codes: function that returns the codes of a concept.
    """
    operation = OPERATIONS[name]
    entities: list[dict[str, Any]] = []
    used = 0  # ids; those of attributes and entities are counted together
    rows, lists = linked(note), DrugLists(note.text)
    for place, row in enumerate(rows):
        group = next((group for group in groups_of(row) if group in operation.traits), None)
        if group is None or not (concepts := _concepts(row, operation, codes)):
            continue
        drug = drug_of(lists, place, rows) if group == "CHEM" else None
        if group == "CHEM" and drug is None:
            continue
        traits, statuses = operation.traits[group], _statuses(note.text, row, group, drug)
        if statuses & ({"family", "hypothetical"} - traits.keys()):
            continue
        entity = _entity(used, row, group, list(dict.fromkeys(trait for status, trait in traits.items() if status in statuses)))
        if drug is not None and drug.dose is not None:
            entity["Attributes"] = _attributes(used + 1, note.text, drug.dose)
        entities.append({**entity, operation.concepts: concepts})
        used += 1 + len(entity["Attributes"])
    made = {"Entities": entities, "ModelVersion": origin.system}
    if name != "InferSNOMEDCT":
        return made
    # without VersionDate: the knowledge base does not have the date of SNOMED CT
    return {**made, "SNOMEDCTDetails": {"Edition": "US", "Language": "en"}, "Characters": {"OriginalTextCharacters": len(note.text)}}


def _concepts(row: Row, operation: Operation, codes: Codes) -> list[dict[str, Any]]:
    """Return the codes of the linked concept, then those of the other candidates, each code once; an empty list if the linked concept has none."""
    vocabulary = operation.vocabulary

    def known(concept: str) -> list[str]:
        return [code for code in codes(concept).get(vocabulary, ()) if is_code(vocabulary, code)]

    if not known(row["cui"]):
        return []
    own = next((candidate for candidate in row["candidates"] if candidate[0] == row["cui"]), (row["cui"], row["name"], row["score"]))
    found: dict[str, dict[str, Any]] = {}
    for concept, name, score in (own, *row["candidates"]):
        for code in known(concept):
            found.setdefault(code, {"Description": name, "Code": code, "Score": _share(score)})
    return list(found.values())[:MOST]


def _statuses(text: str, row: Row, group: str, drug: Drug | None) -> set[str]:
    """Return the statuses of a mention; those of a drug say whether it is taken, and what is to be avoided is negated."""
    statuses = set(row["status"] or ())
    if drug is None:
        return statuses - {"hypothetical"} | {"negated"} if group == "PROC" and is_avoided(text, row) else statuses
    if drug.status in (NOT_TAKEN, STOPPED, ON_HOLD):
        return statuses - {"hypothetical"} | {"negated"}
    if drug.status == COMPLETED:
        return statuses - {"hypothetical", "negated"} | {"historical"}
    return statuses if drug.status == INTENDED else statuses - {"hypothetical", "negated"}  # "do not stop warfarin"


def _entity(number: int, row: Row, group: str, traits: list[str]) -> dict[str, Any]:
    """Return an entity without attributes and concepts."""
    category, kind = _kind(row, group)
    if group == "DISO":
        traits = [*traits, _nature(row)]
    return {
        "Id": number,
        "Text": row["mention"],
        "Category": category,
        "Type": kind,
        "Score": _share(row["score"] if row["probability"] is None else row["probability"]),
        "BeginOffset": row["start"],
        "EndOffset": row["end"],
        "Attributes": [],
        "Traits": [{"Name": trait, "Score": 1.0} for trait in traits],
    }


def _attributes(number: int, text: str, dose: Dose) -> list[dict[str, Any]]:
    """Return the parts of a dose as attributes, the first with the id `number`."""
    return [
        {
            "Type": ATTRIBUTES[part.kind],
            "Score": 1.0,
            "RelationshipScore": 1.0,
            "Id": place,
            "BeginOffset": part.start,
            "EndOffset": part.end,
            "Text": text[part.start : part.end],
            "Traits": [],
        }
        for place, part in enumerate(dose.parts, number)
    ]


def _kind(row: Row, group: str) -> tuple[str, str]:
    """Return category and type of an entity."""
    if group == "DISO":
        return "MEDICAL_CONDITION", "DX_NAME"
    if group == "CHEM":
        return "MEDICATION", "GENERIC_NAME"
    return "TEST_TREATMENT_PROCEDURE", "TEST_NAME" if is_test(row) else "PROCEDURE_NAME"


def _nature(row: Row) -> str:
    """Return whether a condition is a diagnosis, a sign that somebody observes, or a symptom that the patient reports."""
    types = set(row["types"])
    if not types or types - {FINDINGS, SYMPTOMS}:  # heart failure is a sign or symptom, too, but first of all a disease
        return "DIAGNOSIS"
    section = row.get("section")
    return "SYMPTOM" if section in _TOLD or (SYMPTOMS in types and section not in _SEEN) else "SIGN"


def _share(score: float | None) -> float:
    return round(min(1.0, max(0.0, score or 0.0)), 6)
