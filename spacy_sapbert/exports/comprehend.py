"""Answers in the form of Amazon Comprehend Medical's InferICD10CM, InferRxNorm and InferSNOMEDCT, for programs that read that form.

Source: API reference of Comprehend Medical, version 2018-10-30.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TextIO

from ..render.records import Row
from .base import Codes, LinkedNote, Origin, groups_of, has, is_code, linked, write_json_lines

SIGNS = frozenset(["T033", "T184"])  # findings, signs and symptoms
TESTS = frozenset(["T059", "T060", "T034"])  # laboratory and diagnostic procedures, their results
MOST = 5  # most concepts of an entity


class Operation(NamedTuple):
    """One of the three operations.

    Attributes:
        vocabulary: vocabulary whose codes it returns.
        concepts: name of the list of concepts in its answer.
        groups: semantic groups of the mentions that it returns.
        traits: status -> trait, for the statuses that it has a trait for.
    """

    vocabulary: str
    concepts: str
    groups: tuple[str, ...]
    traits: dict[str, str]


_ICD = {"negated": "NEGATION", "family": "PERTAINS_TO_FAMILY", "hypothetical": "HYPOTHETICAL", "uncertain": "LOW_CONFIDENCE"}
OPERATIONS = {
    "InferICD10CM": Operation("ICD10CM", "ICD10CMConcepts", ("DISO",), _ICD),
    "InferRxNorm": Operation("RXNORM", "RxNormConcepts", ("CHEM",), {"negated": "NEGATION", "historical": "PAST_HISTORY"}),
    "InferSNOMEDCT": Operation("SNOMEDCT_US", "SNOMEDCTConcepts", ("DISO", "PROC"), {**_ICD, "historical": "PAST_HISTORY"}),
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
    operation has no trait for this, because a reader would take it for a finding of the patient.
    """
    operation = OPERATIONS[name]
    entities: list[dict[str, Any]] = []
    for row in linked(note):
        group = next((group for group in groups_of(row) if group in operation.groups), None)
        unsaid = [status for status in ("family", "hypothetical") if status not in operation.traits]
        if group is not None and not has(row, *unsaid) and (concepts := _concepts(row, operation, codes)):
            entities.append(_entity(len(entities), row, group, operation, concepts))
    made = {"Entities": entities, "ModelVersion": origin.system}
    if name != "InferSNOMEDCT":
        return made
    details = {"Edition": "US", "Language": "en", "VersionDate": "unknown"}
    return {**made, "SNOMEDCTDetails": details, "Characters": {"OriginalTextCharacters": len(note.text)}}


def _concepts(row: Row, operation: Operation, codes: Codes) -> list[dict[str, Any]]:
    """Return the codes of the linked concept, then those of the other candidates, each code once; an empty list if the linked concept has none."""
    vocabulary = operation.vocabulary

    def known(concept: str) -> list[str]:
        return [code for code in codes(concept).get(vocabulary, ()) if is_code(vocabulary, code)]

    if not known(row["cui"]):
        return []
    candidates = sorted(row["candidates"], key=lambda candidate: candidate[0] != row["cui"])  # the sort is stable
    found: dict[str, dict[str, Any]] = {}
    for concept, name, score in candidates or [(row["cui"], row["name"], row["score"])]:
        for code in known(concept):
            found.setdefault(code, {"Description": name, "Code": code, "Score": _share(score)})
    return list(found.values())[:MOST]


def _entity(number: int, row: Row, group: str, operation: Operation, concepts: list[dict[str, Any]]) -> dict[str, Any]:
    category, kind = _kind(row, group)
    score = _share(row["score"] if row["probability"] is None else row["probability"])
    traits = [{"Name": trait, "Score": 1.0} for status, trait in operation.traits.items() if has(row, status)]
    if group == "DISO":
        traits.append({"Name": "SIGN" if not SIGNS.isdisjoint(row["types"]) else "DIAGNOSIS", "Score": 1.0})
    return {
        "Id": number,
        "Text": row["mention"],
        "Category": category,
        "Type": kind,
        "Score": score,
        "BeginOffset": row["start"],
        "EndOffset": row["end"],
        "Attributes": [],
        "Traits": traits,
        operation.concepts: concepts,
    }


def _kind(row: Row, group: str) -> tuple[str, str]:
    """Return category and type of an entity."""
    if group == "DISO":
        return "MEDICAL_CONDITION", "DX_NAME"
    if group == "CHEM":
        return "MEDICATION", "GENERIC_NAME"
    return "TEST_TREATMENT_PROCEDURE", "TEST_NAME" if not TESTS.isdisjoint(row["types"]) else "PROCEDURE_NAME"


def _share(score: float | None) -> float:
    return round(min(1.0, max(0.0, score or 0.0)), 6)
