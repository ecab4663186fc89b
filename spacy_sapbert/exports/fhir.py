"""FHIR R4: a Bundle with a Condition, Observation, MedicationStatement or Procedure for each linked mention, and with its Provenance.

Source: HL7 FHIR R4 (4.0.1). The code systems are those that https://terminology.hl7.org lists.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any, TextIO

from ..kb.concept import is_cui
from ..render.records import Row
from .base import LinkedNote, Origin, groups_of, has, identifier, linked

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
TESTS = frozenset(["T059", "T060", "T034", "T201"])  # laboratory and diagnostic procedures, results, clinical attributes
Resource = dict[str, Any]


def write(notes: Iterable[LinkedNote], origin: Origin, stream: TextIO) -> int:
    """Write one Bundle of type collection.

    Returns:
        Number of resources.
    """
    made = bundle(notes, origin)
    json.dump(made, stream, ensure_ascii=False, indent=1)
    stream.write("\n")
    return len(made["entry"])


def write_lines(notes: Iterable[LinkedNote], origin: Origin, stream: TextIO) -> int:
    """Write one Bundle for each note, each as one line of JSON (NDJSON).

    Returns:
        Number of Bundles.
    """
    count = 0
    for note in notes:
        count += 1
        stream.write(json.dumps(bundle([note], origin), ensure_ascii=False) + "\n")
    return count


def bundle(notes: Iterable[LinkedNote], origin: Origin) -> Resource:
    """Return the Bundle of some notes.

    Mentions without a link, nested mentions, anatomy and denied tests are left out. Of mentions of the family, only disorders that are not denied are
    kept.
    """
    entries: list[Resource] = []
    for note in notes:
        document = _document(note)
        found = [resource for row in linked(note) if (resource := resource_of(row, note, document["id"])) is not None]
        every = [document, *found]
        if found:
            every.append(_provenance(note, document, found, origin))
        entries += [{"fullUrl": f"urn:uuid:{resource['id']}", "resource": resource} for resource in every]
    return {"resourceType": "Bundle", "type": "collection", "timestamp": _instant(origin), "entry": entries}


def resource_of(row: Row, note: LinkedNote, document_id: str) -> Resource | None:
    """Return the resource for a record; None if there is no kind of resource for it."""
    groups = groups_of(row)
    source = {"reference": f"urn:uuid:{document_id}"}
    subject = {"display": f"The patient of note {note.note_id or document_id}"}
    base: Resource = {"id": identifier(*_key(note), row["start"], row["end"], row["cui"]), "extension": [_mention(row)]}
    if has(row, "family"):
        return None if "DISO" not in groups or has(row, "negated") else _family(base, row, subject)
    if "DISO" in groups:
        return _condition(base, row, subject, source)
    if "CHEM" in groups:
        return _medication(base, row, subject, source)
    if "PHYS" in groups or not TESTS.isdisjoint(row["types"]):
        return None if has(row, "negated") else _observation(base, row, subject, source)
    return _procedure(base, row, subject) if "PROC" in groups else None


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


def _medication(base: Resource, row: Row, subject: Resource, source: Resource) -> Resource:
    status = "not-taken" if has(row, "negated") else "intended" if has(row, "hypothetical") else "unknown"
    made = {"resourceType": "MedicationStatement", **base, "status": status, "medicationCodeableConcept": _code(row)}
    return {**made, "subject": subject, "derivedFrom": [source]}


def _observation(base: Resource, row: Row, subject: Resource, source: Resource) -> Resource:
    return {"resourceType": "Observation", **base, "status": "unknown", "code": _code(row), "subject": subject, "derivedFrom": [source]}


def _procedure(base: Resource, row: Row, subject: Resource) -> Resource:
    status = (
        "not-done" if has(row, "negated") else "preparation" if has(row, "hypothetical") else "completed" if has(row, "historical") else "unknown"
    )
    return {"resourceType": "Procedure", **base, "status": status, "code": _code(row), "subject": subject}


def _code(row: Row) -> Resource:
    """Return the CodeableConcept of a record: its concept first, then its codes in known code systems."""
    own = "UMLS" if is_cui(row["cui"]) else ""
    codings = [{"system": SYSTEMS[own] if own else LINKER_SYSTEM, "code": row["cui"], "display": row["name"]}]
    for vocabulary, system in SYSTEMS.items():
        codings += [{"system": system, "code": code} for code in row["codes"].get(vocabulary, ()) if (vocabulary, code) != (own, row["cui"])]
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
