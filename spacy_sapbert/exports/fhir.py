"""FHIR R4: a Bundle with a Condition, AllergyIntolerance, Observation, MedicationStatement or Procedure for each linked mention, and its Provenance.

Source: HL7 FHIR R4 (4.0.1). The code systems are those that https://terminology.hl7.org lists.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from ..kb.concept import is_cui
from ..render.records import Row
from .allergies import FOOD, Roles, roles_of
from .base import LinkedNote, Origin, groups_of, has, identifier, is_code, linked, write_json_lines
from .doses import Dose
from .drug_lists import DrugLists
from .drugs import Drug, drug_of, is_avoided
from .measured import is_test
from .values import SYSTEM, Value, number_after, score_after, unit_of, value_after
from .vital_signs import blood_pressure_after, vital_sign_after

SYSTEMS = {  # vocabulary -> URI of the code system, in the order in which codings are written
    "UMLS": "http://www.nlm.nih.gov/research/umls",
    "SNOMEDCT_US": "http://snomed.info/sct",
    "ICD10CM": "http://hl7.org/fhir/sid/icd-10-cm",
    "RXNORM": "http://www.nlm.nih.gov/research/umls/rxnorm",
    "LNC": "http://loinc.org",
    "HPO": "http://human-phenotype-ontology.org",
    "MONDO": "http://purl.obolibrary.org/obo/mondo.owl",
    "OMIM": "http://www.omim.org",
    "MSH": "urn:oid:2.16.840.1.113883.6.177",
    "ORDO": "http://www.orpha.net",
    "NCI": "http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl",
}
LINKER_SYSTEM = "urn:spacy-sapbert:concept"  # system of a concept id that is not a CUI
EXTENSION = "https://spacy-sapbert.github.io/spacy-sapbert/fhir/mention"
TERMINOLOGY = "http://terminology.hl7.org/CodeSystem/"
MEASURED = frozenset(["T059", "T034", "T201"])  # types of tests whose result is a number
BLOOD_PRESSURE = frozenset(["C0005823", "C1271104", "C0005824"])
SYSTOLIC, DIASTOLIC = ("8480-6", "Systolic blood pressure"), ("8462-4", "Diastolic blood pressure")  # LOINC
DRUGS = frozenset(["T121", "T195", "T200"])  # pharmacologic substances, antibiotics, clinical drugs
Resource = dict[str, Any]


def write(notes: Iterable[LinkedNote], origin: Origin, stream: TextIO) -> int:
    """Write one Bundle of type collection, one entry after the other.

    Returns:
        Number of resources.
    """
    head, _, tail = json.dumps(_bundle([0], origin), ensure_ascii=False, indent=1).rpartition("0")
    stream.write(head)
    count = 0
    for note in notes:
        for entry in _entries(note, origin):
            text = json.dumps(entry, ensure_ascii=False, indent=1).replace("\n", "\n  ")  # JSON has no line feed inside a text
            stream.write(f",\n  {text}" if count else text)
            count += 1
    stream.write(f"{tail}\n")
    return count


def write_lines(notes: Iterable[LinkedNote], origin: Origin, stream: TextIO) -> int:
    """Write one Bundle for each note, each as one line of JSON (NDJSON).

    Returns:
        Number of Bundles.
    """
    return write_json_lines((bundle([note], origin) for note in notes), stream)


def bundle(notes: Iterable[LinkedNote], origin: Origin) -> Resource:
    """Return the Bundle of some notes.

    Mentions without a link, nested mentions, anatomy and denied tests are left out. Of mentions of the family, only disorders that are not denied are
    kept. A reaction is part of its allergy.
    """
    return _bundle([entry for note in notes for entry in _entries(note, origin)], origin)


def _bundle(entries: list[Any], origin: Origin) -> Resource:
    return {"resourceType": "Bundle", "type": "collection", "timestamp": _instant(origin), "entry": entries}


def _entries(note: LinkedNote, origin: Origin) -> list[Resource]:
    """Return the entries of a note: its DocumentReference, the resources of its mentions, their Provenance."""
    document = _document(note)
    found = list(resources_of(note, document["id"]))
    every = [document, *found]
    if found:
        every.append(_provenance(note, document, found, origin))
    return [{"fullUrl": f"urn:uuid:{resource['id']}", "resource": resource} for resource in every]


def resources_of(note: LinkedNote, document_id: str) -> Iterator[Resource]:
    """Yield the resources for the records of a note, in their order."""
    rows, lists = linked(note), DrugLists(note.text)
    roles = roles_of(note, rows)
    for place in range(len(rows)):
        if place not in roles.others and (resource := _resource(place, rows, roles, lists, note, document_id)) is not None:
            yield resource


def _resource(place: int, rows: list[Row], roles: Roles, lists: DrugLists, note: LinkedNote, document_id: str) -> Resource | None:
    """Return the resource for a record; None if there is no kind of resource for it."""
    row = rows[place]
    groups = groups_of(row)
    source = {"reference": f"urn:uuid:{document_id}"}
    subject = {"display": f"The patient of note {note.note_id or document_id}"}
    base: Resource = {"id": identifier(*_key(note), row["start"], row["end"], row["cui"]), "extension": [_mention(row)]}
    if has(row, "family"):
        return None if "DISO" not in groups or has(row, "negated") else _family(base, row, subject)
    if place in roles.allergies:
        reactions = [rows[each] for each in roles.allergies[place]]
        return _allergy(base, row, subject, reactions, intolerance=place in roles.intolerances)
    if "DISO" in groups:
        return _condition(base, row, subject, source)
    if (drug := drug_of(lists, place, rows)) is not None:
        return _medication(base, row, subject, source, drug)
    if is_test(row) or "CHEM" in groups:
        following = rows[place + 1] if place + 1 < len(rows) else None  # "CRP 214 bili 88": the value ends where the next test begins
        text = note.text if following is None or not is_test(following) else note.text[: following["start"]]
        return None if has(row, "negated") else _observation(base, row, subject, source, _measured(row, text, value_after(note.text, row["end"])))
    return _procedure(base, row, subject, avoided=is_avoided(note.text, row)) if "PROC" in groups else None


def _condition(base: Resource, row: Row, subject: Resource, source: Resource) -> Resource:
    status = (
        "unconfirmed" if has(row, "hypothetical") else "refuted" if has(row, "negated") else "provisional" if has(row, "uncertain") else "confirmed"
    )
    made = {"resourceType": "Condition", **base, "code": _code(row), "subject": subject, "evidence": [{"detail": [source]}]}
    made["verificationStatus"] = _coded("condition-ver-status", status)
    if status == "confirmed" and not has(row, "historical"):  # no status for a past condition, because it may still be there: "PMH: hypertension"
        made["clinicalStatus"] = _coded("condition-clinical", "active")
    return made


def _family(base: Resource, row: Row, subject: Resource) -> Resource:
    relationship = {"coding": [{"system": f"{TERMINOLOGY}v3-RoleCode", "code": "FAMMEMB", "display": "family member"}]}
    condition = [{"code": _code(row)}]
    return {
        "resourceType": "FamilyMemberHistory",
        **base,
        "status": "partial",
        "patient": subject,
        "relationship": relationship,
        "condition": condition,
    }


def _medication(base: Resource, row: Row, subject: Resource, source: Resource, drug: Drug) -> Resource:
    made = {"resourceType": "MedicationStatement", **base, "status": drug.status, "medicationCodeableConcept": _code(row)}
    made = {**made, "subject": subject, "derivedFrom": [source]}
    return made if drug.dose is None else {**made, "dosage": [_dosage(drug.dose)]}


def _dosage(dose: Dose) -> Resource:
    made: Resource = {"text": dose.text}
    if dose.every is not None:
        repeat = {"frequency": dose.every.frequency, "period": dose.every.period, "periodUnit": dose.every.unit}
        made["timing"] = {"repeat": repeat if dose.every.longest is None else {**repeat, "periodMax": dose.every.longest}}
    if dose.as_needed:
        made["asNeededBoolean"] = True
    if dose.route:
        made["route"] = {"text": dose.route}
    if dose.low is not None and dose.high is not None:
        low, high = (_quantity(Value(number, dose.unit, dose.code)) for number in (dose.low, dose.high))
        kind = "rate" if dose.rate else "dose"
        made["doseAndRate"] = [{f"{kind}Quantity": low} if low == high else {f"{kind}Range": {"low": low, "high": high}}]
    return made


def _allergy(base: Resource, row: Row, subject: Resource, reactions: list[Row], *, intolerance: bool) -> Resource:
    status = "refuted" if has(row, "negated") else "unconfirmed" if has(row, "uncertain", "hypothetical") else "confirmed"
    made = {"resourceType": "AllergyIntolerance", **base, "code": _code(row), "patient": subject}
    made["clinicalStatus"] = _coded("allergyintolerance-clinical", "inactive" if status == "refuted" else "active")
    made["verificationStatus"] = _coded("allergyintolerance-verification", status)
    if intolerance:
        made["type"] = "intolerance"
    if FOOD in row["types"]:
        made["category"] = ["food"]
    elif not DRUGS.isdisjoint(row["types"]) and row["codes"].get("RXNORM"):
        made["category"] = ["medication"]
    if reactions:
        made["reaction"] = [{"manifestation": [_code(reaction) for reaction in reactions]}]
    return made


def _observation(base: Resource, row: Row, subject: Resource, source: Resource, measured: Resource) -> Resource:
    made = {"resourceType": "Observation", **base, "status": "unknown", "code": _code(row), "subject": subject, "derivedFrom": [source]}
    return {**made, **measured}


def _measured(row: Row, text: str, value: Value | None) -> Resource:
    """Return the value of an Observation, or for a blood pressure its two components; empty if no value follows the mention."""
    if row["cui"] in BLOOD_PRESSURE and (pair := blood_pressure_after(text, row["end"])) is not None:
        components = []
        for (code, display), each in zip((SYSTOLIC, DIASTOLIC), pair):
            coding = {"system": SYSTEMS["LNC"], "code": code, "display": display}
            components.append({"code": {"coding": [coding]}, "valueQuantity": _quantity(each)})
        return {"component": components}
    if value is None and (unit := unit_of(row["mention"], row["name"])) is not None:
        value = score_after(text, row["end"], unit, row["mention"], row["name"])
    elif value is None and (
        "T060" not in row["types"] or not MEASURED.isdisjoint(row["types"])
    ):  # after an examination, a number is rarely its result
        value = vital_sign_after(text, row["end"], row["cui"]) or number_after(text, row["end"])
    return {} if value is None else {"valueQuantity": _quantity(value)}


def _quantity(value: Value) -> Resource:
    made: Resource = {"value": value.number}
    if value.unit:
        made["unit"] = value.unit
    if value.code:
        made |= {"system": SYSTEM, "code": value.code}
    return {**made, "comparator": value.sign} if value.sign else made


def _procedure(base: Resource, row: Row, subject: Resource, *, avoided: bool) -> Resource:
    status = (
        "not-done"
        if has(row, "negated") or avoided
        else "preparation"
        if has(row, "hypothetical")
        else "completed"
        if has(row, "historical")
        else "unknown"
    )
    return {"resourceType": "Procedure", **base, "status": status, "code": _code(row), "subject": subject}


def _code(row: Row) -> Resource:
    """Return the CodeableConcept of a record: its concept first, then its codes in known code systems."""
    own = "UMLS" if is_cui(row["cui"]) else ""
    codings = [{"system": SYSTEMS[own] if own else LINKER_SYSTEM, "code": row["cui"], "display": row["name"]}]
    for vocabulary, system in SYSTEMS.items():
        codes = [code for code in row["codes"].get(vocabulary, ()) if is_code(vocabulary, code) and (vocabulary, code) != (own, row["cui"])]
        codings += [{"system": system, "code": code} for code in codes]
    return {"coding": codings, "text": row["mention"]}


def _coded(name: str, code: str) -> Resource:
    return {"coding": [{"system": f"{TERMINOLOGY}{name}", "code": code}]}


def _mention(row: Row) -> Resource:
    """Return an extension with the offsets of a mention (characters), its statuses, and the score and probability of its link."""
    inside: list[Resource] = [{"url": "start", "valueInteger": row["start"]}, {"url": "end", "valueInteger": row["end"]}]
    inside += [{"url": name, "valueDecimal": round(row[name], 6)} for name in ("score", "probability") if row[name] is not None]
    inside += [{"url": "status", "valueCode": status} for status in row["status"] or ()]
    return {"url": EXTENSION, "extension": inside}


def _key(note: LinkedNote) -> tuple[str, str]:
    """Return a key that identifies a note, even if it has no id or another note has the same id."""
    return note.note_id, hashlib.sha256(note.text.encode("utf-8", "surrogatepass")).hexdigest()


def _document(note: LinkedNote) -> Resource:
    """Return the DocumentReference of a note, without its text."""
    attachment = {"contentType": "text/plain; charset=utf-8", "size": len(note.text.encode("utf-8", "backslashreplace"))}
    made = {"resourceType": "DocumentReference", "id": identifier(*_key(note), "note"), "status": "current", "content": [{"attachment": attachment}]}
    return {**made, "identifier": [{"value": note.note_id}]} if note.note_id.strip() else made


def _provenance(note: LinkedNote, document: Resource, found: list[Resource], origin: Origin) -> Resource:
    return {
        "resourceType": "Provenance",
        "id": identifier(*_key(note), "provenance"),
        "target": [{"reference": f"urn:uuid:{resource['id']}"} for resource in found],
        "recorded": _instant(origin),
        "agent": [
            {
                "type": {"coding": [{"system": f"{TERMINOLOGY}provenance-participant-type", "code": "assembler"}]},
                "who": {"display": f"{origin.system}, linker {origin.linker}, knowledge base {origin.fingerprint[:16]}"},
            }
        ],
        "entity": [{"role": "source", "what": {"reference": f"urn:uuid:{document['id']}"}}],
    }


def _instant(origin: Origin) -> str:
    return origin.written.isoformat(timespec="seconds")
