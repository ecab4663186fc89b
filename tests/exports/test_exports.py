"""Exports: each output is read back with a library of the format, or checked against its schema."""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
import time
import zipfile
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from spacy_sapbert.build import default_linkers
from spacy_sapbert.cli import app
from spacy_sapbert.context.rules import SHIPPED, Rules
from spacy_sapbert.context.sections import find_sections, section_at
from spacy_sapbert.context.status import kind_of
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.exports import athena, bioc, brat, courses, doses, fhir, omop, phenopackets, values, vital_signs
from spacy_sapbert.exports.base import LinkedNote, Origin
from spacy_sapbert.exports.drug_lists import DrugLists
from training.corpora.brat import read_brat

pytestmark = pytest.mark.usefixtures("one_thread")

ORIGIN = Origin("1.2.3", "open", "f" * 64, [("hp.obo", "2025-01-16")], datetime(2026, 11, 23, 20, 30, tzinfo=timezone.utc))
CONCEPTS: dict[str, tuple[str, list[str], dict[str, list[str]]]] = {  # id -> name, types, codes
    "C0015967": ("Fever", ["T184"], {"UMLS": ["C0015967"], "HPO": ["HP:0001945"], "SNOMEDCT_US": ["386661006"], "ICD10CM": ["R50.9"]}),
    "C0020538": ("Hypertension", ["T047"], {"UMLS": ["C0020538"], "HPO": ["HP:0000822"], "ICD10CM": ["I10", "I10-I16"]}),  # a range is no code
    "C0004057": ("Aspirin", ["T109", "T121"], {"UMLS": ["C0004057"], "RXNORM": ["1191"]}),
    "C0006142": ("Breast cancer", ["T191"], {"UMLS": ["C0006142", "C0678222"], "SNOMEDCT_US": ["254837009"]}),
    "C0202054": ("Glucose test", ["T059"], {"UMLS": ["C0202054"], "SNOMEDCT_US": ["33747003"]}),
    "C0003611": ("Appendectomy", ["T061"], {"UMLS": ["C0003611"], "SNOMEDCT_US": ["80146002"]}),
    "UBERON:1": ("Liver", ["T023"], {"UBERON": ["UBERON:1"]}),
}


def row(text: str, mention: str, cui: str, status: str = "", label: str = "DISO", **more: Any) -> dict[str, Any]:
    """Return a record of a mention, as `render.row_of` makes it."""
    name, types, codes = CONCEPTS.get(cui, ("", [], {}))
    start = text.index(mention)
    known = cui in CONCEPTS
    return {
        "note": "",
        "start": start,
        "end": start + len(mention),
        "mention": mention,
        "label": label,
        "status": status.split(),
        "nested": False,
        "cui": cui,
        "name": name,
        "types": types,
        "type_names": [],
        "score": 0.95 if known else None,
        "probability": 0.9 if known else None,
        "candidates": [[cui, name, 0.95], ["C0015967", "Fever", 0.5]] if known else [],
        "codes": codes,
        "explain": {},
        **more,
    }


TEXT = "No fever. HTN;\nhigh blood\npressure? Aspirin & <glucose> test. FH: breast cancer. Had an appendectomy, liver zorbing 🤒 ASA"
NOTE = LinkedNote(
    "17",
    TEXT,
    [
        row(TEXT, "fever", "C0015967", "negated"),
        row(TEXT, "HTN", "C0020538", "historical"),
        row(TEXT, "high blood\npressure", "C0020538", "uncertain"),
        row(TEXT, "blood", "C0015967", nested=True),
        row(TEXT, "Aspirin", "C0004057", label="CHEM"),
        row(TEXT, "<glucose> test", "C0202054", label="PROC"),
        row(TEXT, "breast cancer", "C0006142", "family"),
        row(TEXT, "appendectomy", "C0003611", "historical", label="PROC"),
        row(TEXT, "liver", "UBERON:1", label="ANAT"),
        row(TEXT, "zorbing", "NIL"),
        row(TEXT, "ASA", "C0004057", "hypothetical", label="my label"),
    ],
)
EMPTY = LinkedNote("ward/é 1", "", [])


def written(write: Any, *more: Any, notes: tuple[LinkedNote, ...] = (NOTE, EMPTY)) -> str:
    stream = io.StringIO(newline="")
    write(notes, ORIGIN, stream, *more)
    return stream.getvalue()


# -- FHIR ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def resources() -> list[Any]:
    """Return the resources of the Bundle, read with the library for FHIR R4B; these kinds are the same in R4."""
    library = pytest.importorskip("fhir.resources.R4B.bundle")
    return [entry.resource for entry in library.Bundle.model_validate_json(written(fhir.write)).entry]


def test_fhir_resources_by_hand(resources: list[Any]) -> None:
    assert [resource.get_resource_type() for resource in resources] == [
        *("DocumentReference", "Condition", "Condition", "Condition", "MedicationStatement", "Observation", "FamilyMemberHistory", "Procedure"),
        *("MedicationStatement", "Provenance", "DocumentReference"),
    ]
    fever, hypertension, doubtful = resources[1:4]
    assert [c.verificationStatus.coding[0].code for c in (fever, hypertension, doubtful)] == ["refuted", "confirmed", "provisional"]
    assert [c.clinicalStatus for c in (fever, hypertension, doubtful)] == [None] * 3
    assert [(c.system, c.code) for c in fever.code.coding] == [
        ("http://www.nlm.nih.gov/research/umls", "C0015967"),
        ("http://snomed.info/sct", "386661006"),
        ("http://hl7.org/fhir/sid/icd-10-cm", "R50.9"),
        ("http://human-phenotype-ontology.org", "HP:0001945"),
    ]
    assert doubtful.code.text == "high blood\npressure"
    aspirin, glucose, family, operation, intended = resources[4:9]
    assert [(c.system, c.code) for c in aspirin.medicationCodeableConcept.coding][1] == ("http://www.nlm.nih.gov/research/umls/rxnorm", "1191")
    assert (aspirin.status, glucose.status, operation.status, intended.status) == ("unknown", "unknown", "completed", "intended")
    assert [c.code for c in family.condition[0].code.coding] == ["C0006142", "C0678222", "254837009"]


def test_fhir_says_where_a_mention_is_and_where_it_comes_from(resources: list[Any]) -> None:
    inside = {each.url: each for each in resources[1].extension[0].extension}
    assert (inside["start"].valueInteger, inside["end"].valueInteger, inside["status"].valueCode) == (3, 8, "negated")
    assert float(inside["probability"].valueDecimal) == 0.9
    provenance = resources[9]
    assert [target.reference for target in provenance.target] == [f"urn:uuid:{resource.id}" for resource in resources[1:9]]
    assert provenance.recorded == ORIGIN.written
    assert "spacy-sapbert 1.2.3" in provenance.agent[0].who.display
    assert provenance.entity[0].what.reference == f"urn:uuid:{resources[0].id}"
    assert resources[0].identifier[0].value == "17"


def test_fhir_active_conditions_and_ids_that_stay() -> None:
    note = LinkedNote("1", "fever", [row("fever", "fever", "C0015967"), row("fever", "fever", "C0015967", "negated family")])
    first, again = (fhir.bundle([note], ORIGIN) for _ in range(2))
    assert first == again
    assert first["entry"][1]["resource"]["clinicalStatus"]["coding"][0]["code"] == "active"
    assert len(first["entry"]) == 3  # denied family history is left out
    ids = [entry["resource"]["id"] for entry in fhir.bundle([NOTE, EMPTY], ORIGIN)["entry"]]
    assert len(set(ids)) == len(ids)


MORE = {  # concepts of allergies and laboratory values
    "C0030842": ("Penicillin", ["T121", "T195"], {"RXNORM": ["70618"]}),
    "C0030824": ("penicillin allergy", ["T047"], {"SNOMEDCT_US": ["91936005"]}),
    "C0013182": ("Drug allergy", ["T047"], {}),
    "C1527304": ("Allergy", ["T033"], {}),
    "C0015230": ("Skin rash", ["T184"], {}),
    "C0030736": ("Peanut", ["T168"], {}),
    "C0032821": ("Potassium", ["T121", "T196"], {"RXNORM": ["8588"]}),
    "C0019046": ("Hemoglobin", ["T059", "T116", "T121"], {}),
    "C0005823": ("blood pressure", ["T201"], {}),
    "C0017594": ("Glasgow coma scale", ["T060"], {}),
    "C0525032": ("INR", ["T059"], {}),
    "C0018810": ("heart rate", ["T201"], {}),
    "C0202404": ("pH measurement", ["T059"], {}),
    "C0040405": ("CT scan", ["T060"], {}),
    "SAPBERT:pain": ("visual analog scale", ["T060"], {}),
    "C0025598": ("Metformin", ["T109", "T121"], {"RXNORM": ["6809"]}),
    "C0001927": ("Albuterol", ["T109", "T121"], {"RXNORM": ["435"]}),
    "C0005903": ("body temperature", ["T201"], {}),
    "C0231832": ("respiratory rate", ["T201"], {}),
    "C0369768": ("oxygen saturation", ["T201"], {}),
    "C0020740": ("Ibuprofen", ["T109", "T121"], {}),
    "C0010294": ("Creatinine", ["T109", "T121", "T123"], {}),
    "C0009555": ("complete blood count", ["T059"], {}),
}
C, P, D, A, R, N, K, H, B, GCS, INR, HR, PH, CT, PAIN, METFORMIN, ALBUTEROL, TEMP, RR, O2, IBUPROFEN, CREATININE, CBC = MORE


def found_in(text: str, *mentions: tuple[str, str, str]) -> list[Any]:
    """Return the resources of a note with mentions (text, concept, "LABEL status status"), as the library for FHIR reads them."""
    library = pytest.importorskip("fhir.resources.R4B.bundle")
    sections, rows, at = find_sections(text), [], 0
    for mention, cui, how in mentions:
        name, types, codes = MORE.get(cui) or CONCEPTS[cui]
        label, *status = how.split()
        at = text.index(mention, at)
        found = section_at(sections, at)
        assert found is not None
        where = {"start": at, "end": at + len(mention), "section": found.kind}
        rows.append(row(text, mention, "NIL", " ".join(status), label) | where | {"cui": cui, "name": name, "types": types, "codes": codes})
        at += len(mention)
    made = fhir.bundle([LinkedNote("1", text, rows)], ORIGIN)
    return [entry.resource for entry in library.Bundle.model_validate(made).entry if entry.resource.get_resource_type() not in ABOUT]


ABOUT = ("DocumentReference", "Provenance")


def brief(resource: Any) -> tuple[str, ...]:
    """Return kind, text and certainty of a resource; of an allergy also its reactions."""
    kind = resource.get_resource_type()
    code = resource.medicationCodeableConcept if kind == "MedicationStatement" else resource.code
    status = resource.verificationStatus.coding[0].code if kind in ("Condition", "AllergyIntolerance") else resource.status
    reactions = [each.text for part in resource.reaction or () for each in part.manifestation] if kind == "AllergyIntolerance" else []
    return (kind, code.text, status, *reactions)


ALLERGY, CONDITION, MEDICATION, OBSERVATION = "AllergyIntolerance", "Condition", "MedicationStatement", "Observation"


@pytest.mark.parametrize(
    ("text", "mentions", "wanted"),
    [
        (
            "ALLERGIES:\nPenicillin (rash). Takes aspirin.\nPeanut\n\nMEDS: aspirin",
            [("Penicillin", C, "CHEM"), ("rash", R, "DISO"), ("aspirin", "C0004057", "CHEM"), ("Peanut", N, "OBJC"), ("aspirin", "C0004057", "CHEM")],
            [(ALLERGY, "Penicillin", "confirmed", "rash"), (MEDICATION, "aspirin", "active"), (ALLERGY, "Peanut", "confirmed")]
            + [(MEDICATION, "aspirin", "active")],
        ),
        (
            "She is allergic to penicillin and peanut, but takes aspirin.",
            [("allergic", A, "DISO"), ("penicillin", C, "CHEM"), ("peanut", N, "OBJC"), ("aspirin", "C0004057", "CHEM")],
            [(ALLERGY, "penicillin", "confirmed"), (ALLERGY, "peanut", "confirmed"), (MEDICATION, "aspirin", "active")],
        ),
        (
            "Age 70  Allergies: penicillin, peanut\nAdmitted with penicillin.",
            [("penicillin", C, "CHEM"), ("peanut", N, "OBJC"), ("penicillin", C, "CHEM")],
            [(ALLERGY, "penicillin", "confirmed"), (ALLERGY, "peanut", "confirmed"), (MEDICATION, "penicillin", "unknown")],
        ),
        (
            "Allergies: 1. penicillin\n2. peanut (rash)\npenicillin",
            [("penicillin", C, "CHEM"), ("peanut", N, "OBJC"), ("rash", R, "DISO"), ("penicillin", C, "CHEM")],
            [(ALLERGY, "penicillin", "confirmed"), (ALLERGY, "peanut", "confirmed", "rash"), (MEDICATION, "penicillin", "unknown")],
        ),
        (
            "ALLERGIES\npenicillin\npeanut\n\nShe came with a rash on penicillin.",
            [("penicillin", C, "CHEM"), ("peanut", N, "OBJC"), ("rash", R, "DISO"), ("penicillin", C, "CHEM")],
            [(ALLERGY, "penicillin", "confirmed"), (ALLERGY, "peanut", "confirmed"), (CONDITION, "rash", "confirmed")]
            + [(MEDICATION, "penicillin", "unknown")],
        ),
        ("No known drug allergies.", [("drug allergies", D, "DISO negated")], [(ALLERGY, "drug allergies", "refuted")]),
        ("Possible penicillin allergy.", [("penicillin allergy", P, "DISO uncertain")], [(ALLERGY, "penicillin allergy", "unconfirmed")]),
        ("Penicillin allergy?", [("Penicillin", C, "CHEM uncertain"), ("allergy", A, "DISO uncertain")], [(ALLERGY, "Penicillin", "unconfirmed")]),
        (
            "Penicillin causes a rash.",
            [("Penicillin", C, "CHEM"), ("rash", R, "DISO")],
            [(MEDICATION, "Penicillin", "unknown"), (CONDITION, "rash", "confirmed")],
        ),
        (
            "Allergic to penicillin: rash. Now no rash.",
            [("penicillin", C, "CHEM"), ("rash", R, "DISO"), ("rash", R, "DISO negated")],
            [(ALLERGY, "penicillin", "confirmed", "rash"), (CONDITION, "rash", "refuted")],
        ),
        ("Many allergies.", [("allergies", A, "DISO")], [(ALLERGY, "allergies", "confirmed")]),
        ("Allergies: aspirin 81 mg daily", [("Allergies", A, "DISO"), ("aspirin", "C0004057", "CHEM")], [(MEDICATION, "aspirin", "unknown")]),
        ("Culture sensitive to penicillin.", [("penicillin", C, "CHEM")], [(MEDICATION, "penicillin", "unknown")]),
        ("Mother is allergic to penicillin.", [("penicillin", C, "CHEM family")], []),
        (
            "Adverse reaction to penicillin, tolerated aspirin",
            [("penicillin", C, "CHEM"), ("aspirin", "C0004057", "CHEM")],
            [(ALLERGY, "penicillin", "confirmed"), (MEDICATION, "aspirin", "unknown")],
        ),
    ],
)
def test_fhir_allergies_by_hand(text: str, mentions: list[tuple[str, str, str]], wanted: list[tuple[str, ...]]) -> None:
    assert [brief(resource) for resource in found_in(text, *mentions)] == wanted


@pytest.mark.parametrize("piece", ["allergic to penicillin 1.5 ", "Allergies:\n- penicillin\n", "Allergies: penicillin, ", "- penicillin (rash)\n"])
def test_allergies_of_a_long_note_take_linear_time(piece: str) -> None:
    text = "Allergies: 1. none\n" + piece * (10**5 // len(piece))
    one = row(text, "penicillin", "NIL", label="CHEM") | {"cui": C, "name": "Penicillin", "types": ["T121"], "section": "allergies"}
    places = [found.start() for found in re.finditer("penicillin", text)]
    note = LinkedNote("1", text, [{**one, "start": start, "end": start + 10} for start in places])
    begun = time.process_time()
    assert len(fhir.bundle([note], ORIGIN)["entry"]) == len(places) + 2
    assert time.process_time() - begun < 5


def test_fhir_codes_of_an_allergy() -> None:
    penicillin, peanut, drug = found_in(
        "Intolerance of penicillin. Allergic to peanut. No drug allergies.",
        ("penicillin", C, "CHEM"),
        ("peanut", N, "OBJC"),
        ("drug allergies", D, "DISO negated"),
    )
    assert (penicillin.type, peanut.type) == ("intolerance", None)
    assert (penicillin.category, peanut.category, drug.category) == (["medication"], ["food"], None)
    assert [each.clinicalStatus.coding[0].code for each in (penicillin, peanut, drug)] == ["active", "active", "inactive"]
    assert [coding.code for coding in penicillin.code.coding] == [C, "70618"]
    assert penicillin.patient.display == "The patient of note 1"


def test_fhir_values_by_hand() -> None:
    text = "K+ 5.9 mmol/L, K 40 mg daily, Hb: 98 g/L, Hb low, BP 120/80 mmHg, BP 70 mmHg.\nLABS: K 4.1"
    mentions = [("K", K, "CHEM"), ("K", K, "CHEM"), ("Hb", H, "PROC"), ("Hb", H, "PROC"), ("BP", B, "PHYS"), ("BP", B, "PHYS"), ("K", K, "CHEM")]
    found = found_in(text, *mentions)
    assert [each.get_resource_type() for each in found] == [OBSERVATION, MEDICATION, *[OBSERVATION] * 5]
    quantities = [each.valueQuantity and (float(each.valueQuantity.value), each.valueQuantity.code) for each in found if each is not found[1]]
    assert quantities == [(5.9, "mmol/L"), (98.0, "g/L"), None, None, (70.0, "mm[Hg]"), (4.1, None)]
    parts = [(part.code.coding[0].code, int(part.valueQuantity.value), part.valueQuantity.unit) for part in found[4].component]
    assert parts == [("8480-6", 120, "mmHg"), ("8462-4", 80, "mmHg")]
    below = found_in("LABS:\nK 4.1 L\n\nStarted on K 40 mg daily. Given K. Drip: K 10 mcg/mL", *[("K", K, "CHEM")] * 4)
    assert [each.get_resource_type() for each in below] == [OBSERVATION, *[MEDICATION] * 3]
    assert (float(below[0].valueQuantity.value), below[0].valueQuantity.unit, below[0].valueQuantity.system) == (4.1, None, None)
    (low,) = found_in("Hb < 70 g/L", ("Hb", H, "PROC"))
    assert (low.valueQuantity.comparator, low.valueQuantity.system) == ("<", "http://unitsofmeasure.org")


@pytest.mark.parametrize(
    ("after", "wanted"),
    [
        (" 148 µmol/L", (148, "µmol/L", "umol/L", "")),
        ("+ 5.6 mmol/L (mild)", (5.6, "mmol/L", "mmol/L", "")),
        (" of 6,420 ng/L", (6420, "ng/L", "ng/L", "")),
        (" level was 180 mg/dl.", (180, "mg/dl", "mg/dL", "")),
        (" 12.3 x10^9/L", (12.3, "x10^9/L", "10*9/L", "")),
        (" (IFCC) = 53 mmol/mol", (53, "mmol/mol", "mmol/mol", "")),
        (" ≥ 90%", (90, "%", "%", ">=")),
        (" 45 mL/min/1.73 m2", (45, "mL/min/1.73 m2", "mL/min/{1.73_m2}", "")),
        (" 128/min irregular", (128, "/min", "/min", "")),
        (" 38.5 °C", (38.5, "°C", "Cel", "")),
        (" 65 mm Hg", (65, "mm Hg", "mm[Hg]", "")),
        (" 99.4 degrees F.", (99.4, "degrees F", "[degF]", "")),
        (" 34 per minute", (34, "per minute", "/min", "")),
        (" 132 lbs.", (132, "lbs", "[lb_av]", "")),
        (" 2,310 g (small)", (2310, "g", "g", "")),
        (" 5.9", None),  # no unit
        (" 30% to 35%", None),  # a range
        (" 3.2 L", None),  # low, not litres
        (" 3.5-5.0 mmol/L", None),  # a range
        (" 120/80 mmHg", None),  # two numbers
        (" 140 K 4.0 mmol/L", None),  # the value of the next mention
        ("\n5 mmol/L", None),  # another line
        (" 5 mmol/Lx", None),
        (" 81 mg daily", None),  # the dose of a drug
        ("", None),
    ],
)
def test_values_that_follow_a_mention(after: str, wanted: tuple[Any, ...] | None) -> None:
    assert values.value_after(f"Test{after}", 4) == wanted


@pytest.mark.parametrize(
    ("after", "wanted"),
    [
        (" 2.1", (2.1, "")),
        (": 9.8 from 10.2", (9.8, "")),
        (" was 12,200 with", (12200, "")),
        (" <0.01, ", (0.01, "<")),
        (" 110  BP 120/80", (110, "")),
        (" 3.2 L", (3.2, "")),  # low
        (" 92 increased", (92, "")),
        (" 3 weeks ago", None),  # not the result
        (" 2-3", None),
        (" 8/9", None),
        (" 2,310 g", None),  # the number is not 2
        (" in 2019", None),
        (" 2019, ", None),
        (" 4+", None),
        (" 98.6F", None),
        ("\n5", None),
    ],
)
def test_numbers_without_a_unit(after: str, wanted: tuple[float, str] | None) -> None:
    found = values.number_after(f"Test{after}", 4)
    assert (found and (found.number, found.sign)) == wanted
    assert found is None or (found.unit, found.code) == ("", "")


def test_fhir_values_without_a_unit_by_hand() -> None:
    text = "GCS 14/15, INR 2.1, BP 92/54  Hb 9.8 HR 110 pH 7.24. BP 8/9, CT 3, HR 88\nBP 80/120, GCS 3 times, pain score 7 out of 10"
    mentions = [("GCS", GCS, "PROC"), ("INR", INR, "PROC"), ("BP", B, "PHYS"), ("Hb", H, "PROC"), ("HR", HR, "PHYS"), ("pH", PH, "PROC")]
    mentions += [("BP", B, "PHYS"), ("CT", CT, "PROC"), ("HR", HR, "PHYS"), ("BP", B, "PHYS"), ("GCS", GCS, "PROC"), ("pain score", PAIN, "PROC")]
    found = found_in(text, *mentions)
    said = [each.valueQuantity and (float(each.valueQuantity.value), each.valueQuantity.unit, each.valueQuantity.code) for each in found]
    assert said == [
        *((14.0, None, "{score}"), (2.1, None, "{INR}"), None, (9.8, None, None), (110.0, "/min", "/min"), (7.24, None, "[pH]")),
        *(None, None, (88.0, "/min", "/min"), None, None, (7.0, None, "{score}")),  # of an examination, only a score is a value
    ]
    assert [(int(part.valueQuantity.value), part.valueQuantity.code) for part in found[2].component] == [(92, "mm[Hg]"), (54, "mm[Hg]")]
    assert [each.component for each in (found[6], found[9])] == [None, None]  # neither is systolic above diastolic
    assert found[0].valueQuantity.system == "http://unitsofmeasure.org"
    assert found[3].valueQuantity.system is None


@pytest.mark.parametrize(
    ("mention", "cui", "after", "wanted"),
    [  # number, unit, code
        ("temp", TEMP, " 38.5 C", (38.5, "C", "Cel")),
        ("Temp", TEMP, " 101.2 F, HR 88", (101.2, "F", "[degF]")),
        ("T", TEMP, " 37.2", (37.2, "°C", "Cel")),
        ("Temperature", TEMP, " 98.6, pulse 72", (98.6, "°F", "[degF]")),
        ("Temp", TEMP, ": 38.5C", (38.5, "C", "Cel")),
        ("T", TEMP, " 102.9 ° HR 145", (102.9, "°F", "[degF]")),
        ("T", TEMP, " 38 degrees", (38.0, "°C", "Cel")),
        ("T", TEMP, " 98.6 °F (37 °C)", (98.6, "°F", "[degF]")),
        ("T", TEMP, " 38.5 celsius", (38.5, "celsius", "Cel")),
        ("RR", RR, " 3.5, p 0.01", (3.5, None, None)),  # a relative risk
        ("temp", TEMP, " 101.2 c chills", None),  # "with" chills, not degrees Celsius
        ("temp", TEMP, " 38.5 C. difficile positive", None),
        ("temp", TEMP, " 60", (60.0, None, None)),  # no temperature of a body
        ("HR", HR, " 88 bpm", (88.0, "bpm", "/min")),
        ("HR", HR, " 88", (88.0, "/min", "/min")),
        ("HR", HR, " 500", (500.0, None, None)),
        ("RR", RR, " 16, SpO2 94%", (16.0, "/min", "/min")),
        ("SpO2", O2, " 94% on RA", (94.0, "%", "%")),
        ("SpO2", O2, " 94 on RA", (94.0, "%", "%")),
        ("Hb", H, " 9.8", (9.8, None, None)),
    ],
)
def test_units_of_vital_signs(mention: str, cui: str, after: str, wanted: tuple[float, str | None, str | None] | None) -> None:
    (found,) = found_in(mention + after, (mention, cui, "PHYS"))
    quantity = found.valueQuantity
    assert (quantity and (float(quantity.value), quantity.unit, quantity.code)) == wanted


@pytest.mark.parametrize(
    ("after", "wanted"),
    [
        (" 120/80", [(120, "mmHg", "mm[Hg]"), (80, "mmHg", "mm[Hg]")]),
        (" 120/80 mm Hg", [(120, "mm Hg", "mm[Hg]"), (80, "mm Hg", "mm[Hg]")]),
        (" 96/50 lying", [(96, "mmHg", "mm[Hg]"), (50, "mmHg", "mm[Hg]")]),
        (" 16/10", [(16, None, None), (10, None, None)]),  # it may be in kPa
    ],
)
def test_units_of_a_blood_pressure(after: str, wanted: list[tuple[int, str | None, str | None]]) -> None:
    (found,) = found_in(f"BP{after}", ("BP", B, "PHYS"))
    parts = [part.valueQuantity for part in found.component]
    assert [(int(part.value), part.unit, part.code) for part in parts] == wanted


@pytest.mark.parametrize(
    ("name", "after", "wanted"),
    [
        ("GCS", " 14/15", 14),
        ("GCS", " 14/14", None),  # before and after
        ("Glasgow coma scale", " of 15 out of 15", 15),
        ("Apgar", " 8", 8),
        ("Apgar score", " 8 out of 10", 8),
        ("Apgar", " 8/9", None),
        ("Apgar score", " 9/10", None),  # it may be two
        ("Apgar", " 8 and 9", None),
        ("Apgar", " 8, 9", None),
        ("pain score", " 7/10", 7),
        ("pain score", " 7/8", None),
        ("MMSE", " 31/30", None),
    ],
)
def test_one_score_has_a_value(name: str, after: str, wanted: int | None) -> None:
    found = values.score_after(f"{name}{after}.", len(name), "{score}", name)
    assert (found and found.number) == wanted


PER_DAY, WEEKLY = (1, 1, "d", None), (1, 1, "wk", None)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [  # the drug is "DRUG"; text of the dose, amount, unit, code, how often, as needed, route
        ("DRUG 1 g bid", ("1 g bid", (1, 1), "g", "g", (2, 1, "d", None), False, "")),
        ("DRUG 250 mg bd rising to 1 g", ("250 mg bd", (250, 250), "mg", "mg", (2, 1, "d", None), False, "")),
        ("DRUG ER 500mg PO daily, for HTN", ("500mg PO daily", (500, 500), "mg", "mg", PER_DAY, False, "PO")),
        ("DRUG HFA 2 puffs q4-6h prn wheezing", ("2 puffs q4-6h prn", (2, 2), "puffs", "", (1, 4, "h", 6), True, "")),
        ("DRUG (Lasix), 40 mg IV once.", ("40 mg IV once", (40, 40), "mg", "mg", None, False, "IV")),
        ("DRUG: 10 units subcut at bedtime", ("10 units subcut at bedtime", (10, 10), "units", "", PER_DAY, False, "subcut")),
        ("DRUG 50 mg q.6 h.,5. Next", ("50 mg q.6 h.", (50, 50), "mg", "mg", (1, 6, "h", None), False, "")),
        ("DRUG 40 mg SC every 2 weeks - HOLD", ("40 mg SC every 2 weeks", (40, 40), "mg", "mg", (1, 2, "wk", None), False, "SC")),
        ("DRUG 70 mg weekly    12. Next", ("70 mg weekly", (70, 70), "mg", "mg", WEEKLY, False, "")),
        ("DRUG 400 mg three times a day", ("400 mg three times a day", (400, 400), "mg", "mg", (3, 1, "d", None), False, "")),
        ("DRUG 17 g once a week", ("17 g once a week", (17, 17), "g", "g", WEEKLY, False, "")),
        ("DRUG 5 mg every other day", ("5 mg every other day", (5, 5), "mg", "mg", (1, 2, "d", None), False, "")),
        ("DRUG 25 µg daily for 7 days", ("25 µg daily for 7 days", (25, 25), "µg", "ug", PER_DAY, False, "")),
        ("DRUG 5-10 mg q4h", ("5-10 mg q4h", (5, 10), "mg", "mg", (1, 4, "h", None), False, "")),
        (
            "DRUG 50 mg tablet, take 2 tablets twice daily",
            ("50 mg tablet, take 2 tablets twice daily", (2, 2), "tablets", "", (2, 1, "d", None), False, ""),
        ),
        ("DRUG 50 mg oral tablet daily", ("50 mg oral tablet daily", None, "mg", "mg", PER_DAY, False, "")),
        ("DRUG 50 mg tablets daily", ("50 mg tablets daily", None, "mg", "mg", PER_DAY, False, "")),
        ("DRUG 5 bid, next", ("5 bid", None, "", "", (2, 1, "d", None), False, "")),
        ("DRUG 0.12 mcg/kg/min", ("0.12 mcg/kg/min", (0.12, 0.12), "mcg/kg/min", "ug/kg/min", None, False, "")),
        ("DRUG 6 u/h", ("6 u/h", (6, 6), "u/h", "", None, False, "")),
        ("given 100 mg of DRUG, 3 mg of other", ("100 mg", (100, 100), "mg", "mg", None, False, "")),
        ("after 1,000 mL DRUG IV", ("1,000 mL DRUG IV", (1000, 1000), "mL", "mL", None, False, "IV")),
        ("DRUG 1 L stat, IV antibiotics", ("1 L stat", (1, 1), "L", "L", None, False, "")),
        ("DRUG 20 mg to 40 mg daily", ("20 mg to 40 mg daily", (20, 40), "mg", "mg", PER_DAY, False, "")),
        ("DRUG 1 tab to 2 tabs bid", ("1 tab to 2 tabs bid", (1, 2), "tabs", "", (2, 1, "d", None), False, "")),
        ("DRUG 500 mg to 1 g daily", ("500 mg to 1 g daily", None, "g", "g", PER_DAY, False, "")),  # two units
        ("5 mg to 10 mg of DRUG", ("5 mg to 10 mg", (5, 10), "mg", "mg", None, False, "")),
        ("DRUG 20 mg 2 tabs daily", ("20 mg 2 tabs daily", (2, 2), "tabs", "", PER_DAY, False, "")),
        ("DRUG 20 mg, 2 tablets daily", ("20 mg, 2 tablets daily", (2, 2), "tablets", "", PER_DAY, False, "")),
        ("DRUG 20 mg, 30 tablets", ("20 mg, 30 tablets", None, "tablets", "", None, False, "")),  # a package
        ("DRUG 20 mg daily, 30 tablets", ("20 mg daily", (20, 20), "mg", "mg", PER_DAY, False, "")),
        ("DRUG 40 mg IV, daily BMP", ("40 mg IV", (40, 40), "mg", "mg", None, False, "IV")),  # the next order
        ("DRUG 20 mg, daily weights", ("20 mg", (20, 20), "mg", "mg", None, False, "")),
        ("DRUG 20 mg, daily for HTN", ("20 mg, daily", (20, 20), "mg", "mg", PER_DAY, False, "")),
        ("DRUG 20 mg, daily.", ("20 mg, daily", (20, 20), "mg", "mg", PER_DAY, False, "")),
        ("DRUG 5 mg q6-4h", ("5 mg q6-4h", (5, 5), "mg", "mg", (1, 6, "h", None), False, "")),
        ("DRUG 20 mg / kg", None),
        ("DRUG 20 mg to 40 daily", None),
        ("DRUG 81", None),  # no unit and no frequency
        ("DRUG 5/325 mg", None),
        ("DRUG since 2019", None),
        ("DRUG and other 5 mg", None),
        ("other 5 mg, DRUG", None),
        ("DRUG\n20 mg", None),
        ("DRUG 20 mg/dL", None),
        ("DRUG", None),
    ],
)
def test_doses_by_hand(text: str, wanted: tuple[Any, ...] | None) -> None:
    start = text.index("DRUG")
    found = doses.dose_of(text, start, start + 4)
    if found is None:
        assert wanted is None
        return
    amount = None if found.low is None else (found.low, found.high)
    assert (found.text, amount, found.unit, found.code, found.every and tuple(found.every), found.as_needed, found.route) == wanted
    assert text[found.start : found.end] == found.text
    assert found.rate == ("/" in found.unit)


@given(st.text(alphabet=st.one_of(st.sampled_from("0123456789.,/-q hmgbid"), st.characters()), max_size=40), st.integers(0, 40))
@settings(max_examples=300, deadline=None)
def test_doses_of_any_text(text: str, at: int) -> None:
    at = min(at, len(text))
    found = doses.dose_of(text, at, at)
    assert found is None or (found.text == text[found.start : found.end] and any(char.isdecimal() for char in found.text))


def test_fhir_dosage_by_hand() -> None:
    drugs = [
        ("metformin", METFORMIN, "CHEM"),
        ("albuterol", ALBUTEROL, "CHEM"),
        ("aspirin", "C0004057", "CHEM"),
        ("metformin", METFORMIN, "CHEM"),
        ("albuterol", ALBUTEROL, "CHEM"),
    ]
    text = "metformin 1 g PO bid; albuterol 2-4 puffs q4-6h prn. 81 mg aspirin metformin 6 mg/hr. No albuterol"
    first, second, third, fourth, last = (each.dosage for each in found_in(text, *drugs))
    assert (first[0].text, first[0].route.text, first[0].asNeededBoolean) == ("1 g PO bid", "PO", None)
    assert (first[0].timing.repeat.frequency, first[0].timing.repeat.period, first[0].timing.repeat.periodUnit) == (2, 1, "d")
    quantity = first[0].doseAndRate[0].doseQuantity
    assert (quantity.value, quantity.unit, quantity.code, quantity.system) == (1, "g", "g", "http://unitsofmeasure.org")
    assert (second[0].asNeededBoolean, second[0].timing.repeat.periodMax) == (True, 6)
    low, high = second[0].doseAndRate[0].doseRange.low, second[0].doseAndRate[0].doseRange.high
    assert [(each.value, each.unit, each.code) for each in (low, high)] == [(2, "puffs", None), (4, "puffs", None)]
    assert third[0].doseAndRate[0].doseQuantity.value == 81
    assert fourth[0].doseAndRate[0].rateQuantity.code == "mg/h"
    assert fourth[0].timing is None
    assert last is None


def test_a_dose_belongs_to_one_drug() -> None:
    first, second = found_in("metformin 500 mg aspirin daily", ("metformin", METFORMIN, "CHEM"), ("aspirin", "C0004057", "CHEM"))
    assert first.dosage[0].text == "500 mg"
    assert second.dosage is None


@cache
def shipped_rules() -> Rules:
    return Rules(SHIPPED.read_text(encoding="utf-8"))


def judged(text: str, mention: str, label: str) -> str:
    """Return the label of a mention and the statuses that the rules of the package give it."""
    place = text.index(mention), text.index(mention) + len(mention)
    status = shipped_rules().statuses(text, [place], kinds={place: kind_of(label)})[0]
    return " ".join([label, *(name for name, true in status.items() if true)])


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("She was told to avoid aspirin.", "not-taken"),
        ("Avoid ibuprofen and aspirin.", "not-taken"),
        ("Lower the dose to avoid aspirin.", "not-taken"),
        ("Avoid alcohol while taking aspirin.", "intended"),
        ("To avoid pain, start aspirin.", "intended"),
        ("To avoid pain, aspirin.", "intended"),
        ("Avoid falls. Start aspirin.", "intended"),
    ],
)
def test_a_drug_to_be_avoided_is_not_intended(text: str, status: str) -> None:
    assert found_in(text, ("aspirin", "C0004057", judged(text, "aspirin", "CHEM")))[0].status == status


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("Stopped aspirin.", "stopped"),
        ("Aspirin was discontinued.", "stopped"),
        ("d/c'd aspirin", "stopped"),
        ("DC'd aspirin 81 mg daily", "stopped"),
        ("She stopped taking her home aspirin.", "stopped"),
        ("Aspirin 81 mg daily, stopped 2 weeks ago.", "stopped"),
        ("He is off aspirin.", "stopped"),
        ("No longer takes aspirin.", "stopped"),
        ("Stopped metformin, ibuprofen and aspirin.", "stopped"),
        ("Aspirin 81 mg and metformin 1 g were stopped.", "stopped"),
        ("Switched from aspirin to metformin.", "stopped"),
        ("Discontinued: metformin, aspirin", "stopped"),
        ("STOP taking: aspirin", "stopped"),
        ("Stopped aspirin and started metformin.", "stopped"),
        ("Hold aspirin.", "on-hold"),
        ("Aspirin was held on admission.", "on-hold"),
        ("Aspirin 81 mg daily - HOLD", "on-hold"),
        ("Holding aspirin given AKI.", "on-hold"),
        ("Completed a 5 day course of aspirin.", "completed"),
        ("Started aspirin 81 mg daily.", "active"),
        ("Continue aspirin.", "active"),
        ("Takes aspirin daily.", "active"),
        ("Stopped metformin and started aspirin.", "active"),
        ("Switched from metformin to aspirin.", "active"),
        ("Continue aspirin, metformin stopped.", "active"),
        ("Do not stop aspirin.", "active"),
        ("Aspirin was held on admission and restarted on 3/4.", "active"),
        ("Stopped aspirin for the biopsy and then resumed.", "active"),
        ("There is no need to stop aspirin.", "active"),
        # what will be stopped is still taken
        ("Will stop aspirin.", "active"),
        ("Plan to stop aspirin tomorrow.", "active"),
        ("We will hold aspirin.", "active"),
        ("Aspirin will be stopped.", "active"),
        ("Aspirin 81 mg daily, to be discontinued on Friday.", "active"),
        ("Stop aspirin tomorrow.", "active"),
        ("Hold aspirin starting next week.", "active"),
        ("Plan to continue aspirin.", "active"),
        ("We will hold aspirin for now.", "on-hold"),
        ("Aspirin will be discontinued at this time.", "stopped"),
        ("Aspirin will be started.", "intended"),
        ("Stop aspirin, see PCP next week.", "stopped"),
        ("He will see his PCP, who stopped aspirin.", "stopped"),
        ("Stopped aspirin and will resume it in 2 weeks.", "stopped"),
        ("Stop metformin, aspirin from tomorrow.", "unknown"),
        ("Start aspirin.", "intended"),
        ("We will start aspirin.", "intended"),
        ("Resume aspirin.", "intended"),
        ("Denies taking aspirin.", "not-taken"),
        ("No aspirin was started.", "not-taken"),
        # words that do not say it of this drug, or not as a fact
        ("Hold aspirin for SBP < 100.", "unknown"),
        ("Stop aspirin 5 days before surgery.", "unknown"),
        ("Consider stopping aspirin.", "unknown"),
        ("Once he is off aspirin, start metformin.", "unknown"),
        ("We will wean off aspirin.", "unknown"),
        ("She requests to come off aspirin.", "unknown"),
        ("She was tapered off aspirin.", "stopped"),
        ("He was taking aspirin until last week.", "unknown"),
        ("Aspirin, started metformin.", "unknown"),
        ("Currently stopped, aspirin", "unknown"),
        ("Once this was completed, aspirin was given.", "unknown"),
        ("The aspirin stopped the pain.", "unknown"),
        ("Aspirin stopped working.", "unknown"),
        ("Failed to start aspirin.", "unknown"),
        ("No plan to start aspirin.", "unknown"),
        ("Aspirin was held, and the diet was resumed.", "on-hold"),
        ("Aspirin was held and not restarted.", "on-hold"),
        ("Aspirin was held, metformin restarted.", "on-hold"),
        ("Stopped smoking. Aspirin 81 mg daily.", "unknown"),
        ("d/c home on aspirin.", "unknown"),
        ("Feeds were held and aspirin was given.", "unknown"),
        ("Aspirin 81 mg daily, metformin 1 g daily (stopped).", "unknown"),
        ("Aspirin, ibuprofen, and metformin, which is on hold.", "unknown"),
    ],
)
def test_the_course_of_a_drug(text: str, status: str) -> None:
    drugs = [("aspirin", "C0004057"), ("metformin", METFORMIN), ("ibuprofen", IBUPROFEN)]
    shown = text.replace("Aspirin", "aspirin")
    places = sorted((shown.index(name), name, cui) for name, cui in drugs if name in shown)
    found = found_in(shown, *((name, cui, judged(shown, name, "CHEM")) for _, name, cui in places))
    assert found[[name for _, name, _ in places].index("aspirin")].status == status


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("Discharge medications:\naspirin 81 mg daily\n", "active"),
        ("Discharge Medications:\n\n1. metformin 1 g Sig: one tablet daily.\n2. aspirin 81 mg\n", "active"),
        ("DISCHARGE MEDICATIONS:\nSCHEDULED:\naspirin 81 mg\n", "active"),
        ("Medications on admission:\naspirin 81 mg\n", "active"),
        ("Medications prior to admission:\n- metformin\n- aspirin\n", "active"),
        ("CURRENT MEDICATIONS\naspirin 81 mg\n", "active"),
        ("Current medications: Include metformin and aspirin.", "active"),
        ("Home meds: multivitamin, aspirin", "active"),
        ("Meds: metformin 1 g bid, aspirin 81 mg", "active"),
        ("CONTINUE taking these medications:\naspirin", "active"),
        ("DISCONTINUED MEDICATIONS:\naspirin 81 mg\n", "stopped"),
        ("STOP taking these medications:\naspirin 81 mg\n", "stopped"),
        ("Discharge medications:\nmetformin\nStop:\naspirin\n", "stopped"),
        ("Medications held:\naspirin 81 mg\n", "on-hold"),
        ("Home medications (held on admission):\naspirin\n", "on-hold"),
        ("Discharge medications:\nmetformin\n\nHeld:\naspirin\n", "on-hold"),
        ("PLAN:\nHold:\n- aspirin\n", "on-hold"),
        ("Completed medications:\naspirin\n", "completed"),
        ("DISCHARGE MEDICATION LIST\nAllergies: none\nNEW\n1. metformin 1 g\n2. aspirin 81 mg\n", "active"),
        ("Other problems: asthma\n\nCONTINUE\n9. metformin 1 g daily    10. aspirin 81 mg\n", "active"),
        ("Other problems: asthma\n\nSTOP\n- aspirin 81 mg: caused bleeding\n", "stopped"),
        ("Other problems: asthma\n\nSTOP\n- metformin: nausea, aspirin level 1.7\n", "unknown"),
        ("STOP\n- metformin\n\nNot given: flu shot. Aspirin given 3/9.\n", "unknown"),
        ("PLAN:\nStart:\n- aspirin\n", "intended"),
        # the words around a drug say more than its heading
        ("Discharge medications:\naspirin 81 mg - stopped\n", "stopped"),
        ("Discharge medications:\nNo aspirin\n", "not-taken"),
        ("Discharge medications:\nmetformin, which was given with aspirin", "unknown"),
        ("Discharge medications: none. Aspirin was given in the ED.", "unknown"),
        # the list for the time after discharge says more than that of the admission
        ("Medications on admission:\naspirin\n\nDischarge medications:\nmetformin\n", "unknown"),
        # headings that do not say it
        ("Prior medications:\naspirin\n", "unknown"),
        ("Medications given:\naspirin\n", "unknown"),
        ("Procedure: colonoscopy\nMedications: aspirin\n", "unknown"),
        ("Discharge medications:\nStop:\nmetformin\nOther:\naspirin\n", "unknown"),
        ("PLAN:\nHold:\n- metformin\n\naspirin\n", "unknown"),
    ],
)
def test_the_course_of_a_drug_by_the_heading_of_its_list(text: str, status: str) -> None:
    shown = text.replace("Aspirin", "aspirin")
    places = sorted((shown.index(name), name, cui) for name, cui in (("aspirin", "C0004057"), ("metformin", METFORMIN)) if name in shown)
    found = found_in(shown, *((name, cui, judged(shown, name, "CHEM")) for _, name, cui in places))
    statuses = {each.medicationCodeableConcept.text: each.status for each in found if each.get_resource_type() == MEDICATION}
    assert statuses["aspirin"] == status


@pytest.mark.parametrize("piece", [" 1", "take ", "\n- ", "A:\n", "and and ", "Sig: x\n", "Hold:\nx\n", ". ", "aspirin, "])
def test_headings_of_a_long_list_take_little_time(piece: str) -> None:
    text = "Discharge medications:\n" + piece * 20_000
    lists = DrugLists(text)
    assert lists.sections  # finding them is not what is timed
    begun = time.process_time()
    for end in range(len(text) - 200, len(text)):
        lists.course(end - 1, end)
    assert time.process_time() - begun < 0.5


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("CBC, creatinine in 6 weeks.", OBSERVATION),
        ("creatinine and CBC", OBSERVATION),
        ("CBC, creatinine/potassium", OBSERVATION),
        ("AKI, creatinine peaked at 1.7", OBSERVATION),
        ("creatinine was elevated", OBSERVATION),
        ("Check the creatinine tomorrow.", OBSERVATION),
        ("Recheck potassium and creatinine.", OBSERVATION),
        ("creatinine level", OBSERVATION),
        # nothing says that it is measured
        ("CBC. creatinine", MEDICATION),
        ("CBC was drawn, creatinine given", MEDICATION),
        ("creatinine was given", MEDICATION),
        ("creatinine infusion, CBC", MEDICATION),
        ("CBC, creatinine 5 mg daily", MEDICATION),
        ("Meds: CBC, creatinine", MEDICATION),
    ],
)
def test_a_substance_of_the_body_that_is_measured_is_no_drug(text: str, kind: str) -> None:
    known = {"creatinine": (CREATININE, "CHEM"), "potassium": (K, "CHEM"), "CBC": (CBC, "PROC")}
    places = sorted((text.index(name), name, *known[name]) for name in known if name in text)
    found = found_in(text, *((name, cui, label) for _, name, cui, label in places))
    assert dict(brief(each)[1::-1] for each in found)["creatinine"] == kind


def test_a_drug_beside_a_test_is_a_drug() -> None:
    found = found_in("CBC, aspirin", ("CBC", CBC, "PROC"), ("aspirin", "C0004057", "CHEM"))
    assert [brief(each)[:2] for each in found] == [(OBSERVATION, "CBC"), (MEDICATION, "aspirin")]


def test_a_procedure_to_be_avoided_is_not_prepared() -> None:
    said = []
    for text in ("Avoid appendectomy.", "We recommend against appendectomy.", "We recommend appendectomy."):
        said.append(found_in(text, ("appendectomy", "C0003611", judged(text, "appendectomy", "PROC")))[0].status)
    assert said == ["not-done", "not-done", "preparation"]


def test_a_finding_takes_no_dose() -> None:
    drug = found_in("For pain 5 mg aspirin given.", ("pain", PAIN, "DISO"), ("aspirin", "C0004057", "CHEM"))[1]
    assert (drug.dosage[0].text, drug.dosage[0].doseAndRate[0].doseQuantity.value) == ("5 mg", 5)


@pytest.mark.parametrize("piece", ["1 ", "1,000", "mg ", "q4h ", "(x) er ", ", take 1 tab ", "1 mg to "])
def test_doses_and_values_of_a_long_text_take_little_time(piece: str) -> None:
    text = "DRUG" + piece * 100_000
    begun = time.process_time()
    doses.dose_of(text, 0, 4)
    doses.dose_of(text, len(text) - 1, len(text))
    values.value_after(text, 4)
    values.number_after(text, 4)
    vital_signs.vital_sign_after(text, 4, TEMP)
    courses.course_of(text, 0, 4)
    courses.course_of(text, len(text) - 1, len(text))
    assert time.process_time() - begun < 0.5


@given(st.text(alphabet=st.one_of(st.sampled_from("0123456789.,/<>= %µgLmol"), st.characters()), max_size=40))
@settings(max_examples=300, deadline=None)
def test_values_of_any_text(text: str) -> None:
    found = values.value_after(text, 0)
    assert found is None or found.unit in text
    assert values.pressure_after(text, 0) is None or "/" in text


# -- OMOP ---------------------------------------------------------------------------------------------------------------

NOTE_NLP = """CREATE TABLE note_nlp (
    note_nlp_id integer NOT NULL PRIMARY KEY, note_id integer NOT NULL, section_concept_id integer, snippet varchar(250), "offset" varchar(50),
    lexical_variant varchar(250) NOT NULL, note_nlp_concept_id integer, note_nlp_source_concept_id integer, nlp_system varchar(250),
    nlp_date date NOT NULL, nlp_datetime datetime, term_exists varchar(1), term_temporal varchar(50), term_modifiers varchar(2000)) STRICT"""
LENGTHS = {name.strip('"'): int(size) for name, size in re.findall(r'("?\w+"?) varchar\((\d+)\)', NOTE_NLP)}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test a cache of its own, because Athena's files are read into the cache."""
    monkeypatch.setenv("SPACY_SAPBERT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def athena_folder(tmp_path: Path) -> Path:
    concept = """concept_id,concept_name,domain_id,vocabulary_id,concept_class_id,standard_concept,concept_code,valid_start_date,valid_end_date,invalid_reason
437663,Fever,Condition,SNOMED,Clinical Finding,S,386661006,20020131,20991231,
35205502,Essential "primary" hypertension,Condition,ICD10CM,3-char billing code,,I10,20150101,20991231,
1112807,aspirin,Drug,RxNorm,Ingredient,S,1191,19700101,20991231,
4112853,Malignant tumor of breast,Condition,SNOMED,Disorder,,254837009,20020131,20201231,U
1,another I10,Condition,ICD10,x,,I10,20150101,20991231,
"""
    relationship = """concept_id_1,concept_id_2,relationship_id,valid_start_date,valid_end_date,invalid_reason
35205502,9,Maps to,20150101,20991231,D
35205502,9,Is a,20150101,20991231,
35205502,320128,Maps to,20150101,20991231,
"""
    (tmp_path / athena.CONCEPT).write_text(concept.replace(",", "\t"), encoding="utf-8")
    (tmp_path / athena.RELATIONSHIP).write_text(relationship.replace(",", "\t"), encoding="utf-8")
    return tmp_path


def test_omop_rows_fit_the_table(athena_folder: Path) -> None:
    other = LinkedNote("ward/é 1", "fever", [row("fever", "fever", "C0015967")])
    find = athena.open_table(athena_folder).find
    found = list(csv.DictReader(io.StringIO(written(omop.write, find, notes=(NOTE, other)), newline="")))
    assert [r["lexical_variant"] for r in found] == [
        *("fever", "HTN", "high blood pressure", "Aspirin", "<glucose> test", "breast cancer", "appendectomy", "liver", "ASA", "fever"),
    ]
    ids = [(int(r["note_nlp_concept_id"]), int(r["note_nlp_source_concept_id"])) for r in found]
    assert ids[:6] == [(437663, 437663), (320128, 35205502), (320128, 35205502), (1112807, 1112807), (0, 0), (0, 4112853)]
    assert [(r["term_exists"], r["term_temporal"]) for r in found[:4]] == [("N", "Present"), ("Y", "Past"), ("N", "Present"), ("Y", "Present")]
    assert [r["note_id"] for r in found[-2:]] == ["17", "2"]
    assert found[-1]["term_modifiers"].endswith(";note=ward/é 1")
    assert found[0]["term_modifiers"] == "negated=true;concept=C0015967;name=Fever;score=0.9500;probability=0.9000"
    assert TEXT[int(found[1]["offset"]) :].startswith("HTN")
    assert (found[0]["nlp_date"], found[0]["nlp_datetime"]) == ("2026-11-23", "2026-11-23 20:30:00")
    database = sqlite3.connect(":memory:")
    database.execute(re.sub(r" (varchar\(\d+\)|datetime|date)(?= |,|\))", " text", NOTE_NLP))
    for r in found:
        columns = ",".join(f'"{name}"' for name in r)
        database.execute(f"INSERT INTO note_nlp ({columns}) VALUES ({','.join('?' * len(r))})", list(r.values()))
        assert all(len(r[name]) <= size for name, size in LENGTHS.items())
    assert database.execute("SELECT count(*) FROM note_nlp").fetchone() == (10,)


def test_omop_long_mentions_and_names_are_cut() -> None:
    text = "x" * 400
    note = LinkedNote("1", text, [row(text, text, "C0015967", name="n" * 3000)])
    (found,) = csv.DictReader(io.StringIO(written(omop.write, notes=(note,)), newline=""))
    assert (len(found["lexical_variant"]), len(found["snippet"]), len(found["term_modifiers"])) == (250, 250, 2000)
    assert found["note_nlp_concept_id"] == "0"
    (unnamed,) = csv.DictReader(io.StringIO(written(omop.write, notes=(LinkedNote("", "fever", [row("fever", "fever", "C0015967")]),)), newline=""))
    assert unnamed["term_modifiers"].endswith(";probability=0.9000")


def test_numbers_of_rows_count_through_several_files(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.csv" for number in range(4)]
    for path, notes in zip(paths, ([NOTE], [EMPTY], [NOTE, NOTE], [NOTE])):
        with open(path, "w", encoding="utf-8", newline="") as stream:
            omop.write(notes, ORIGIN, stream)
    before = [path.read_bytes() for path in paths]
    assert omop.renumber(paths) == paths[2:]
    numbers = [[int(r["note_nlp_id"]) for r in csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"), newline=""))] for path in paths]
    assert numbers == [list(range(1, 10)), [], list(range(10, 28)), list(range(28, 37))]
    rest = [[line.partition(b",")[2] for line in path.read_bytes().splitlines()] for path in paths]
    assert rest == [[line.partition(b",")[2] for line in text.splitlines()] for text in before]
    assert omop.renumber(paths) == []


CONCEPT_LINES = """
8515\tAsian\tRace\tRace\tRace\tS\t2\t19700101\t20991231\t
1\t"Quoted\tCondition\tSNOMED\tDisorder\tS\t11\t20020131\t20991231\t
2\tA "b" c, d\tCondition\tSNOMED\tDisorder\tC\t12\t20020131\t20991231\t
3\told, replaced\tCondition\tSNOMED\tDisorder\t\t13\t20020131\t20150101\tU
4\told, deleted\tCondition\tSNOMED\tDisorder\t\t14\t20020131\t20150101\tD
5\tinvalid but S\tDrug\tRxNorm\tIngredient\tS\t15\t20020131\t20150101\tD
6\tone code, two meanings\tCondition\tICD10CM\t4-char\t\tE11.21\t20020131\t20991231\t
7\tsame code elsewhere\tMeas Value\tLOINC\tAnswer\tS\t11\t20020131\t20991231\t
9\ta code that is valid\tCondition\tICD10CM\t3-char\t\tR50\t20020131\t20991231\t
10\tthe same code, no longer valid\tCondition\tICD10CM\t3-char\t\tR50\t20020131\t20150101\tD
8\tmapped to its own vocabulary\tCondition\tMeSH\tMain\t\tD003924\t20020131\t20991231\t
"""
RELATIONSHIP_LINES = """
1\t1\tMaps to\t20020131\t20991231\t
3\t90\tConcept replaced by\t20020131\t20991231\t
3\t91\tMaps to\t20020131\t20150101\tD
3\t92\tMaps to\t20020131\t20991231\t
5\t93\tMaps to\t20020131\t20991231\t
6\t94\tMaps to\t20020131\t20991231\t
6\t95\tMaps to\t20020131\t20991231\t
6\t96\tMaps to value\t20020131\t20991231\t
92\t3\tMapped from\t20020131\t20991231\t
8\t97\tMaps to\t20020131\t20991231\t
"""
CODES = {  # code -> (source, standard), by hand
    ("SNOMEDCT_US", "11"): (1, 1),
    ("SNOMEDCT_US", "12"): (2, 0),  # a classification concept without a map
    ("SNOMEDCT_US", "13"): (3, 92),  # the map that is still valid
    ("SNOMEDCT_US", "14"): (4, 0),
    ("RXNORM", "15"): (5, 93),
    ("ICD10CM", "E11.21"): (6, 94),  # the first of two maps
    ("LNC", "11"): (7, 7),
    ("ICD10CM", "R50"): (9, 0),
    ("MSH", "D003924"): (8, 97),
}


def lay_out(folder: Path, *, end: str = "\n", first: str = "") -> Path:
    """Write the lines above as Athena's files."""
    folder.mkdir(exist_ok=True)
    columns = "concept_id concept_name domain_id vocabulary_id concept_class_id standard_concept concept_code valid_start_date valid_end_date invalid_reason"
    relations = "concept_id_1 concept_id_2 relationship_id valid_start_date valid_end_date invalid_reason"
    for name, header, lines in ((athena.CONCEPT, columns, CONCEPT_LINES), (athena.RELATIONSHIP, relations, RELATIONSHIP_LINES)):
        text = first + end.join(["\t".join(header.split()), *lines.strip("\n").split("\n"), ""])
        (folder / name).write_bytes(text.encode("utf-8"))
    return folder


@pytest.mark.parametrize(("end", "first"), [("\n", ""), ("\r\n", "\ufeff")])
def test_athenas_quirks_by_hand(tmp_path: Path, end: str, first: str) -> None:
    table = athena.open_table(lay_out(tmp_path / "files", end=end, first=first))
    assert table.find([*CODES, ("SNOMEDCT_US", "2"), ("UMLS", "C1"), ("RXNORM", "11")]) == CODES


def test_athenas_files_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPACY_SAPBERT_CACHE", str(tmp_path / "cache"))
    folder = lay_out(tmp_path / "files")
    first = athena.open_table(folder)
    assert [path.parent.name for path in (tmp_path / "cache").rglob("*.sqlite")] == ["athena"]
    written_at = first.path.stat().st_mtime_ns
    assert athena.open_table(folder).path.stat().st_mtime_ns == written_at
    with open(folder / athena.CONCEPT, "a", encoding="utf-8") as file:
        file.write("9\tnew\tCondition\tSNOMED\tDisorder\tS\t99\t20020131\t20991231\t\n")
    assert athena.open_table(folder).find([("SNOMEDCT_US", "99")]) == {("SNOMEDCT_US", "99"): (9, 9)}  # a changed file is read again
    assert first.find([("SNOMEDCT_US", "14")]) == {("SNOMEDCT_US", "14"): (4, 0)}  # a run that began before can still read its own database
    other = athena.open_table(lay_out(tmp_path / "others")).path
    assert len(list(other.parent.iterdir())) == 2  # that of the changed files has replaced the first one; that of another folder is kept
    assert {first.path, other} & set(other.parent.iterdir()) == {other}


def test_athenas_archive_is_read_as_it_came(tmp_path: Path, tiny_linker: Path) -> None:
    folder, archive = lay_out(tmp_path / "files"), tmp_path / "vocabulary_download_v5.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written_to:
        for name in (athena.CONCEPT, athena.RELATIONSHIP):
            written_to.write(folder / name, name)
    assert athena.open_table(archive).find(list(CODES)) == athena.open_table(folder).find(list(CODES)) == CODES
    assert athena.fingerprint(archive) != athena.fingerprint(folder)
    again = tmp_path / "again.zip"  # unpacked, and packed as a folder
    with zipfile.ZipFile(again, "w") as written_to:
        for name in (athena.CONCEPT, athena.RELATIONSHIP):
            written_to.write(folder / name, f"vocabulary/{name}")
    assert athena.open_table(again).find(list(CODES)) == CODES
    args = ["link", "fever", "--linker-name", str(tiny_linker), "--format", "omop", "--athena"]
    with zipfile.ZipFile(tmp_path / "half.zip", "w") as half:
        half.write(folder / athena.CONCEPT, athena.CONCEPT)
    data = bytearray(archive.read_bytes())
    data[60:90] = b"\xff" * 30
    (tmp_path / "damaged.zip").write_bytes(data)
    data = bytearray(again.read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + flags] |= 1  # encrypted
    (tmp_path / "locked.zip").write_bytes(data)
    for path, code in (
        ("half.zip", "E401"),
        ("damaged.zip", "E402"),
        ("locked.zip", "E402"),
        (f"files/{athena.CONCEPT}", "E402"),
        ("nowhere", "E401"),
    ):
        failed = CliRunner().invoke(app, [*args, str(tmp_path / path)])
        assert (failed.exit_code, f"[{code}]" in failed.stderr) == (1, True), failed.output


def test_an_older_database_that_cannot_be_deleted_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPACY_SAPBERT_CACHE", str(tmp_path / "cache"))
    folder = lay_out(tmp_path / "files")
    older = athena.open_table(folder).path
    older.unlink()
    older.mkdir()  # it can't be deleted like a file
    with open(folder / athena.CONCEPT, "a", encoding="utf-8") as file:
        file.write("9\tnew\tCondition\tSNOMED\tDisorder\tS\t99\t20020131\t20991231\t\n")
    assert athena.open_table(folder).find([("SNOMEDCT_US", "99")]) == {("SNOMEDCT_US", "99"): (9, 9)}
    assert older.is_dir()


def test_the_database_is_closed_after_an_export(athena_folder: Path, monkeypatch: pytest.MonkeyPatch, tiny_linker: Path) -> None:
    opened: list[athena.ConceptTable] = []
    open_table = athena.open_table
    monkeypatch.setattr(athena, "open_table", lambda folder: opened.append(open_table(folder)) or opened[-1])
    args = ["link", "fever", "--format", "omop", "--athena", str(athena_folder), "--linker-name", str(tiny_linker)]
    assert CliRunner().invoke(app, args).exit_code == 0
    (table,) = opened
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        table.find([("ICD10CM", "I10")])


def test_athenas_files_that_are_damaged(athena_folder: Path) -> None:
    codes = [("ICD10CM", "I10"), ("UMLS", "C1")]
    assert athena.open_table(athena_folder).find(codes) == {("ICD10CM", "I10"): athena.ConceptIds(35205502, 320128)}
    concept = athena_folder / athena.CONCEPT
    text = concept.read_text(encoding="utf-8")
    for damaged in (text.replace("35205502", "x"), text.replace("vocabulary_id", "v"), text + "1\t2\n", "", text.replace("\t", ",")):
        concept.write_text(damaged, encoding="utf-8")
        with pytest.raises(SapbertError, match="E403"):
            athena.open_table(athena_folder)
    concept.write_bytes(text.encode("utf-8") + b"\xff\n")
    with pytest.raises(SapbertError, match="E404"):
        athena.open_table(athena_folder)
    concept.unlink()
    with pytest.raises(FileNotFoundError, match="E401"):
        athena.open_table(athena_folder)


# -- Phenopackets -------------------------------------------------------------------------------------------------------


def test_phenopackets_are_read_by_their_library() -> None:
    library = pytest.importorskip("phenopackets.schema.v2")
    from google.protobuf.json_format import Parse

    first, second = (Parse(line, library.Phenopacket()) for line in written(phenopackets.write).splitlines())
    assert [(f.type.id, f.type.label, f.excluded) for f in first.phenotypic_features] == [
        ("HP:0001945", "Fever", True),
        ("HP:0000822", "Hypertension", False),  # the uncertain term is left out, the past one is kept
    ]
    assert (first.subject.id, second.subject.id, list(second.phenotypic_features)) == ("17", "ward/é 1", [])
    assert first.meta_data.created.ToJsonString() == "2026-11-23T20:30:00Z"
    assert (first.meta_data.resources[0].name, first.meta_data.resources[0].version) == ("human phenotype ontology", "2025-01-16")
    assert first.meta_data.phenopacket_schema_version == "2.0"
    assert {resource.namespace_prefix for resource in first.meta_data.resources} >= {"HP", "ECO"}
    assert first.id != second.id


def test_phenopackets_have_the_keys_of_the_schema() -> None:
    packet = json.loads(written(phenopackets.write).splitlines()[0])
    assert set(packet) == {"id", "subject", "phenotypicFeatures", "metaData"}
    assert set(packet["metaData"]) == {"created", "createdBy", "resources", "phenopacketSchemaVersion"}
    assert set(packet["phenotypicFeatures"][0]) == {"type", "excluded", "evidence"}


def test_a_term_that_is_there_once_is_there() -> None:
    text = "no fever, then fever"
    rows = [row(text, "fever", "C0015967", "negated"), row(text, "then fever", "C0015967")]
    for order in (rows, rows[::-1]):
        (feature,) = phenopackets.phenopacket(LinkedNote("1", text, order), ORIGIN)["phenotypicFeatures"]
        assert "excluded" not in feature


# -- BioC and brat ------------------------------------------------------------------------------------------------------


def test_bioc_is_read_by_its_library() -> None:
    library = pytest.importorskip("bioc")
    collection = library.loads(written(bioc.write))
    assert (collection.source, collection.date) == ("spacy-sapbert 1.2.3", "2026-11-23")
    assert [document.id for document in collection.documents] == ["17", "ward/é 1"]
    (passage,) = collection.documents[0].passages
    assert passage.text == TEXT
    for annotation in passage.annotations:
        place = annotation.total_span
        assert passage.text[place.offset : place.end] == annotation.text
    assert [a.infons.get("identifier") for a in passage.annotations] == [r["cui"] for r in NOTE.rows if not r["nested"]]
    assert passage.annotations[0].infons == {
        "type": "DISO",
        "identifier": "C0015967",
        "name": "Fever",
        "status": "negated",
        "score": "0.9500",
        "probability": "0.9000",
    }


@given(st.text(alphabet=st.one_of(st.sampled_from("abé🤒\r\n\t<&>\x00\x0b\ufffe"), st.characters()), max_size=30))
@settings(max_examples=200, deadline=None)
def test_bioc_keeps_any_text_that_xml_can_hold(text: str) -> None:
    found = written(bioc.write, notes=(LinkedNote("1", text, []),))
    read = ElementTree.fromstring(found.encode("utf-8")).findtext("document/passage/text") or ""
    assert len(read) == len(text)
    assert all(a == b or b == " " for a, b in zip(text, read))
    assert all(a == b for a, b in zip(text, read) if a in "abé🤒\r\n\t<&>")


@pytest.mark.parametrize(("start", "end", "mention"), [(3, 8, "Fever"), (0, 0, "x"), (20, 25, "fever"), (-5, -2, "eve")])
def test_brat_refuses_a_mention_that_is_not_at_its_offsets(start: int, end: int, mention: str) -> None:
    row = {**NOTE.rows[0], "start": start, "end": end, "mention": mention, "nested": False}
    with pytest.raises(SapbertError, match=r"E060\] Note '17' .* the text at -?\d+--?\d+ .*\(the note has 8 characters\)"):
        brat.standoff(LinkedNote("17", "no fever", [row]))
    assert brat.standoff(LinkedNote("17", "no fever", [{**row, "start": 3, "end": 8, "mention": "fever"}])).startswith("T1\tDISO 3 8\tfever\n")


def test_brat_is_read_by_our_reader(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert brat.write([NOTE, LinkedNote("17", "again", []), LinkedNote("../x y", "b", [])], ORIGIN, out) == 3
    assert sorted(path.name for path in out.iterdir()) == ["17-2.ann", "17-2.txt", "17.ann", "17.txt", "annotation.conf", "x_y.ann", "x_y.txt"]
    lines = (out / "17.ann").read_text(encoding="utf-8").splitlines()
    assert lines[:3] == ["T1\tDISO 3 8\tfever", "N1\tReference T1 UMLS:C0015967\tFever", "A1\tNegated T1"]
    assert "T3\tDISO 15 25;26 34\thigh blood pressure" in lines  # a line feed is not part of an annotation
    assert any(line.startswith("T10\tMention ") for line in lines)
    assert "DISO\n" in (out / "annotation.conf").read_text(encoding="utf-8")
    corpus = read_brat(out)
    assert corpus.documents["17"] == TEXT
    found = [(m.start, m.end, m.kind, m.gold) for m in corpus.mentions]
    kept = [r for r in NOTE.rows if not r["nested"]]
    assert [(start, end) for start, end, _, _ in found] == [(r["start"], r["end"]) for r in kept]
    assert [str(gold[0]) if gold else "" for *_, gold in found][:2] == [str(("C0015967",)), str(("C0020538",))]


def test_notes_of_one_id_are_told_apart() -> None:
    other = NOTE._replace(text=NOTE.text + " ")
    made = fhir.bundle([NOTE, other], ORIGIN)
    urls = [entry["fullUrl"] for entry in made["entry"]]
    assert len(set(urls)) == len(urls)
    assert fhir.bundle([NOTE], ORIGIN)["entry"] == made["entry"][: len(urls) // 2]


# -- the command --------------------------------------------------------------------------------------------------------


@pytest.fixture
def default_linker(tiny_linker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(default_linkers, "open_linker", lambda: tiny_linker)


def link(*words: Any, code: int = 0) -> Any:
    done = CliRunner().invoke(app, ["link", *map(str, words)])
    assert done.exit_code == code, (done.output, done.exception)
    return done


SENTENCE = "No fever. Takes aspirin for hypertension.\n"
FEVER, ASPIRIN, HYPERTENSION = "C9100027", "C9100053", "C9100009"


@pytest.mark.usefixtures("default_linker")
def test_link_writes_every_format(tmp_path: Path) -> None:
    found = json.loads(link(SENTENCE, "--format", "fhir").stdout)
    kinds = [entry["resource"]["resourceType"] for entry in found["entry"]]
    assert kinds == ["DocumentReference", "Condition", "MedicationStatement", "Condition", "Provenance"]
    rows = list(csv.DictReader(io.StringIO(link(SENTENCE, "--format", "omop").stdout)))
    assert [r["lexical_variant"] for r in rows] == ["fever", "aspirin", "hypertension"]
    assert json.loads(link(SENTENCE, "--format", "phenopackets").stdout)["metaData"]["phenopacketSchemaVersion"] == "2.0"
    infons = ElementTree.fromstring(link(SENTENCE, "--format", "bioc").stdout).iter("infon")
    assert [infon.text for infon in infons if infon.get("key") == "identifier"] == [FEVER, ASPIRIN, HYPERTENSION]
    drugs = json.loads(link(SENTENCE, "--format", "comprehend").stdout)["InferRxNorm"]["Entities"]
    assert drugs[0]["RxNormConcepts"][0]["Code"] == "1191"
    link(SENTENCE, "--format", "brat", "--out", tmp_path / "brat")
    lines = (tmp_path / "brat" / "text.ann").read_text(encoding="utf-8").splitlines()
    assert lines[:3] == ["T1\tDISO 3 8\tfever", f"N1\tReference T1 UMLS:{FEVER}\tfever", "A1\tNegated T1"]


@pytest.mark.usefixtures("default_linker")
def test_link_refuses_options_that_do_not_fit(tmp_path: Path, athena_folder: Path) -> None:
    (tmp_path / "file").write_text("x")
    for words, said in (
        (("--format", "brat"), "E002"),
        (("--format", "brat", "--out", tmp_path / "file"), "E002"),
        (("--athena", athena_folder), "E002"),
        (("--format", "omop", "--athena", tmp_path / "none"), "E401"),
    ):
        assert link(SENTENCE, *words, code=1).stderr.startswith(f"[{said}]")
