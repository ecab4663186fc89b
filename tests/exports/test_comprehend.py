"""Answers in the form of Comprehend Medical: by hand, against the API description that its client ships, and on any text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_sapbert.context.sections import find_sections, section_at
from spacy_sapbert.exports import comprehend, doses
from spacy_sapbert.exports.base import LinkedNote

from .test_exports import CONCEPTS, CREATININE, MORE, NOTE, ORIGIN, TEXT, judged, row, written

pytestmark = pytest.mark.usefixtures("one_thread")

ASPIRIN, METOPROLOL, WARFARIN, FEVER, OPERATION, WEAK, HEART_FAILURE = (
    "C0004057",
    "C0025859",
    "C0043031",
    "C0015967",
    "C0003611",
    "C3714552",
    "C0018801",
)
DRUGS = {  # beside those of `CONCEPTS`: id -> name, types, codes
    METOPROLOL: ("metoprolol", ["T109", "T121"], {"RXNORM": ["6918"]}),
    WARFARIN: ("warfarin", ["T109", "T121"], {"RXNORM": ["11289"]}),
    CREATININE: (*MORE[CREATININE][:2], {"RXNORM": ["2913"]}),
    HEART_FAILURE: ("heart failure", ["T047", "T184"], {"ICD10CM": ["I50.9"]}),
    WEAK: ("decreased strength", ["T033"], {"ICD10CM": ["M62.81"]}),
}
KNOWN = {**CONCEPTS, **DRUGS}


def codes(concept_id: str) -> dict[str, list[str]]:
    return KNOWN[concept_id][2]


def entities(operation: str, text: str, *mentions: tuple[str, str, str]) -> list[dict[str, Any]]:
    """Return the entities of a note with mentions (text, concept, "LABEL status status")."""
    rows, at, sections = [], 0, find_sections(text)
    for mention, cui, how in mentions:
        name, types, known = KNOWN[cui]
        label, *status = how.split()
        at = text.index(mention, at)
        section = section_at(sections, at)
        more = {"start": at, "end": at + len(mention), "section": section and section.kind, "cui": cui, "name": name, "types": types, "codes": known}
        rows.append({**row(text, mention, ASPIRIN, " ".join(status), label), **more, "candidates": [[cui, name, 0.95]]})
        at += len(mention)
    found: list[dict[str, Any]] = comprehend.answer(operation, LinkedNote("1", text, rows), ORIGIN, codes)["Entities"]
    return found


def test_answers_by_hand() -> None:
    first, second = map(json.loads, written(comprehend.write, codes).splitlines())
    assert (first["note"], second["InferRxNorm"]["Entities"]) == ("17", [])
    assert first["InferICD10CM"]["Entities"][0] == {
        "Id": 0,
        "Text": "fever",
        "Category": "MEDICAL_CONDITION",
        "Type": "DX_NAME",
        "Score": 0.9,
        "BeginOffset": 3,
        "EndOffset": 8,
        "Attributes": [],
        "Traits": [{"Name": "NEGATION", "Score": 1.0}, {"Name": "SYMPTOM", "Score": 1.0}],
        "ICD10CMConcepts": [{"Description": "Fever", "Code": "R50.9", "Score": 0.95}],
    }
    assert [e["Text"] for e in first["InferRxNorm"]["Entities"]] == ["Aspirin"]  # "ASA" is hypothetical, for which this operation has no trait
    assert [(e["Text"], e["Category"], e["Type"]) for e in first["InferSNOMEDCT"]["Entities"]] == [
        ("fever", "MEDICAL_CONDITION", "DX_NAME"),
        ("<glucose> test", "TEST_TREATMENT_PROCEDURE", "TEST_NAME"),
        ("breast cancer", "MEDICAL_CONDITION", "DX_NAME"),
        ("appendectomy", "TEST_TREATMENT_PROCEDURE", "PROCEDURE_NAME"),
    ]
    # the linked concept of "HTN" has no code; that of its second candidate would be the code of another disease
    assert first["InferSNOMEDCT"]["Characters"] == {"OriginalTextCharacters": len(TEXT)}
    assert first["InferSNOMEDCT"]["SNOMEDCTDetails"] == {"Edition": "US", "Language": "en"}
    assert first["InferICD10CM"]["ModelVersion"] == "spacy-sapbert 1.2.3"
    assert first["InferICD10CM"].keys() == first["InferRxNorm"].keys() == {"Entities", "ModelVersion"}  # there is one page: no PaginationToken


@pytest.mark.parametrize("text", [TEXT, "Aspirin 81 mg tablet, take 1-2 tablets by mouth q4h prn for 3 days. Aspirin 5 mg/hr"])
@pytest.mark.parametrize("operation", comprehend.OPERATIONS)
def test_answers_are_of_the_shape_that_its_client_reads(operation: str, text: str) -> None:
    loaders = pytest.importorskip("botocore.loaders")
    from botocore.model import ServiceModel
    from botocore.validate import ParamValidator

    service = ServiceModel(loaders.Loader().load_service_model("comprehendmedical", "service-2"))
    shape = service.operation_model(operation).output_shape
    rows = [*NOTE.rows] if text == TEXT else []
    if text != TEXT:
        rows = [{**row(text, "Aspirin", ASPIRIN, label="CHEM"), "start": at, "end": at + 7} for at in (0, text.rindex("Aspirin"))]
    made = comprehend.answer(operation, LinkedNote("1", text, rows), ORIGIN, codes)
    report = ParamValidator().validate(made, shape)
    assert not report.has_errors(), report.generate_report()
    entity = shape.members["Entities"].member
    assert made["Entities"] or text != TEXT
    assert set(made) <= set(shape.members)
    names = set(entity.members["Traits"].member.members["Name"].enum)
    attribute = entity.members["Attributes"].member
    for found in made["Entities"]:
        assert set(found) == set(entity.members)
        assert found["Category"] in entity.members["Category"].enum
        assert found["Type"] in entity.members["Type"].enum
        assert {trait["Name"] for trait in found["Traits"]} <= names
        for part in found["Attributes"]:
            assert set(part) == set(attribute.members)
            assert part["Type"] in attribute.members["Type"].enum
    if operation == "InferRxNorm":
        assert set(comprehend.ATTRIBUTES.values()) == set(attribute.members["Type"].enum)
        if text != TEXT:  # each type is there, and so was checked
            types = {part["Type"] for found in made["Entities"] for part in found["Attributes"]}
            assert types == set(attribute.members["Type"].enum)


@pytest.mark.parametrize(
    ("text", "mention", "wanted"),
    [
        ("aspirin 81 mg by mouth daily", "aspirin", [("DOSAGE", "81 mg", 8), ("ROUTE_OR_MODE", "by mouth", 14), ("FREQUENCY", "daily", 23)]),
        (
            "metoprolol tartrate 25 mg tab PO BID x 7 days",
            "metoprolol tartrate",
            [
                *(("STRENGTH", "25 mg", 20), ("FORM", "tab", 26), ("ROUTE_OR_MODE", "PO", 30), ("FREQUENCY", "BID", 33)),
                ("DURATION", "x 7 days", 37),
            ],
        ),
        # the salt is outside the mention
        ("metoprolol tartrate 25 mg daily", "metoprolol", [("DOSAGE", "25 mg", 20), ("FREQUENCY", "daily", 26)]),
        (
            "aspirin 81 mg oral tablet, take 2 tablets twice daily prn",
            "aspirin",
            [
                *(("STRENGTH", "81 mg", 8), ("FORM", "oral tablet", 14), ("DOSAGE", "2 tablets", 32), ("FREQUENCY", "twice daily", 42)),
                ("FREQUENCY", "prn", 54),
            ],
        ),
        ("aspirin (Bayer tab) tablets 81 mg", "aspirin", [("FORM", "tablets", 20), ("DOSAGE", "81 mg", 28)]),
        ("81 mg of aspirin PO", "aspirin", [("DOSAGE", "81 mg", 0), ("ROUTE_OR_MODE", "PO", 17)]),
        ("🤒 aspirin 5-10 µg/kg/min IV", "aspirin", [("RATE", "5-10 µg/kg/min", 10), ("ROUTE_OR_MODE", "IV", 25)]),
        ("aspirin 25 mg/day", "aspirin", [("DOSAGE", "25 mg/day", 8)]),  # no infusion
        ("aspirin 20 mg, 30 tablets", "aspirin", [("STRENGTH", "20 mg", 8)]),  # the size of a package
        ("aspirin 500 mg to 1 g daily", "aspirin", [("DOSAGE", "500 mg to 1 g", 8), ("FREQUENCY", "daily", 22)]),
        ("aspirin 10 mg for 2 weeks", "aspirin", [("DOSAGE", "10 mg", 8), ("DURATION", "for 2 weeks", 14)]),
        ("aspirin 10 mg x 3 doses", "aspirin", [("DOSAGE", "10 mg", 8)]),  # no length of time
        ("aspirin 5 bid", "aspirin", [("FREQUENCY", "bid", 10)]),  # 5 of what?
        ("aspirin 81", "aspirin", []),
        ("aspirin", "aspirin", []),
    ],
)
def test_attributes_of_a_drug_by_hand(text: str, mention: str, wanted: list[tuple[str, str, int]]) -> None:
    (found,) = entities("InferRxNorm", text, (mention, METOPROLOL if mention.startswith("metoprolol") else ASPIRIN, "CHEM"))
    assert [(part["Type"], part["Text"], part["BeginOffset"]) for part in found["Attributes"]] == wanted
    assert found["Attributes"] == [
        {
            "Type": kind,
            "Score": 1.0,
            "RelationshipScore": 1.0,
            "Id": number,
            "BeginOffset": start,
            "EndOffset": start + len(part),
            "Text": part,
            "Traits": [],
        }
        for number, (kind, part, start) in enumerate(wanted, 1)
    ]


def test_ids_count_through_entities_and_attributes() -> None:
    text = "aspirin 81 mg daily, warfarin 5 mg"
    found = entities("InferRxNorm", text, ("aspirin", ASPIRIN, "CHEM"), ("warfarin", WARFARIN, "CHEM"))
    assert [(each["Id"], [part["Id"] for part in each["Attributes"]]) for each in found] == [(0, [1, 2]), (3, [4])]
    assert [part["Text"] for part in found[1]["Attributes"]] == ["5 mg"]


PIECES = [
    "aspirin",
    "warfarin",
    " ",
    " 81 mg",
    " 5-10 mcg/kg/min",
    " tab",
    " PO",
    " by mouth",
    " bid",
    " q4-6h",
    " prn",
    ", ",
    " x 7 days",
    "take 2 tablets",
]


@given(st.lists(st.one_of(st.sampled_from([*PIECES, " of ", ". ", "\n", " (", ")", "µ", "🤒", "İ"]), st.text(max_size=3)), max_size=14))
@settings(max_examples=300, deadline=None)
def test_attributes_of_any_text_are_where_they_say(pieces: list[str]) -> None:
    text = "".join(pieces)
    found = entities("InferRxNorm", text, *(("aspirin", ASPIRIN, "CHEM") for _ in range(text.count("aspirin"))))
    assert len(found) == text.count("aspirin")
    ids = [each["Id"] for entity in found for each in (entity, *entity["Attributes"])]
    assert ids == list(range(len(ids)))
    places = sorted((each["BeginOffset"], each["EndOffset"]) for entity in found for each in (entity, *entity["Attributes"]))
    assert all(end <= start for (_, end), (start, _) in zip(places, places[1:]))  # nothing overlaps
    for entity in found:
        for part in (*entity["Attributes"], entity):
            assert part["Text"] == text[part["BeginOffset"] : part["EndOffset"]]
            assert part["Text"].strip() == part["Text"] != ""
        assert {part["Type"] for part in entity["Attributes"]} <= set(comprehend.ATTRIBUTES.values())


@given(st.lists(st.sampled_from(PIECES), max_size=10))
@settings(max_examples=300, deadline=None)
def test_parts_of_a_dose_are_what_fhir_writes(pieces: list[str]) -> None:
    text = "aspirin" + "".join(pieces)
    dose = doses.dose_of(text, 0, 7)
    if dose is None:
        return
    kinds = [part.kind for part in dose.parts]
    routes = [text[part.start : part.end] for part in dose.parts if part.kind == doses.ROUTE]
    assert routes == ([dose.route] if dose.route else [])
    assert kinds.count(doses.FREQUENCY) == (dose.every is not None) + dose.as_needed
    amounts = kinds.count(doses.AMOUNT) + kinds.count(doses.RATE)
    assert amounts == (dose.low is not None)  # no piece has two units
    assert all(part.end <= dose.end for part in dose.parts)


@pytest.mark.parametrize(
    ("text", "traits"),
    [
        ("patient no longer taking warfarin", ["NEGATION"]),  # the example of the developer guide
        ("Stopped warfarin.", ["NEGATION", "PAST_HISTORY"]),
        ("The warfarin was held.", ["NEGATION"]),
        ("She was told to avoid warfarin.", ["NEGATION"]),
        ("She does not take warfarin.", ["NEGATION"]),
        ("Completed a course of warfarin.", ["PAST_HISTORY"]),
        ("Do not stop warfarin.", []),
        ("Continue warfarin.", []),
        ("She takes warfarin.", []),
    ],
)
def test_traits_of_a_drug_say_whether_it_is_taken(text: str, traits: list[str]) -> None:
    (found,) = entities("InferRxNorm", text, ("warfarin", WARFARIN, judged(text, "warfarin", "CHEM")))
    assert [trait["Name"] for trait in found["Traits"]] == traits


def test_a_drug_that_may_be_given_later_and_one_of_the_family_are_left_out() -> None:
    assert entities("InferRxNorm", "warfarin if needed", ("warfarin", WARFARIN, "CHEM hypothetical")) == []
    assert entities("InferRxNorm", "Mother takes warfarin", ("warfarin", WARFARIN, "CHEM family")) == []


def test_what_a_test_measures_is_no_drug() -> None:
    assert entities("InferRxNorm", "creatinine 1.2 mg/dL", ("creatinine", CREATININE, "CHEM")) == []
    assert entities("InferRxNorm", "creatinine peaked at 1.7", ("creatinine", CREATININE, "CHEM")) == []
    assert len(entities("InferRxNorm", "creatinine 5 g daily", ("creatinine", CREATININE, "CHEM"))) == 1


@pytest.mark.parametrize(
    ("text", "mention", "cui", "trait"),
    [
        ("fever", "fever", FEVER, "SYMPTOM"),
        ("Chief complaint: fever", "fever", FEVER, "SYMPTOM"),
        ("Physical exam: fever", "fever", FEVER, "SIGN"),
        ("Chief complaint: weak", "weak", WEAK, "SYMPTOM"),
        ("Physical exam: weak", "weak", WEAK, "SIGN"),
        ("weak", "weak", WEAK, "SIGN"),
        ("CHF", "CHF", HEART_FAILURE, "DIAGNOSIS"),
        ("Chief complaint: HTN", "HTN", "C0020538", "DIAGNOSIS"),
        ("Physical exam: HTN", "HTN", "C0020538", "DIAGNOSIS"),
    ],
)
def test_diagnoses_signs_and_symptoms(text: str, mention: str, cui: str, trait: str) -> None:
    (found,) = entities("InferICD10CM", text, (mention, cui, "DISO"))
    assert [each["Name"] for each in found["Traits"]] == [trait]


@pytest.mark.parametrize(
    ("cui", "how", "traits"),
    [
        (FEVER, "DISO negated", ["NEGATION", "SYMPTOM"]),
        (FEVER, "DISO family", ["PERTAINS_TO_FAMILY", "SYMPTOM"]),
        (FEVER, "DISO hypothetical", ["HYPOTHETICAL", "SYMPTOM"]),
        (FEVER, "DISO uncertain", ["LOW_CONFIDENCE", "SYMPTOM"]),
        (FEVER, "DISO historical", ["SYMPTOM"]),  # a past test or procedure has a trait, a past condition has none
        (OPERATION, "PROC negated", ["NEGATION"]),
        (OPERATION, "PROC hypothetical", ["HYPOTHETICAL"]),
        (OPERATION, "PROC uncertain hypothetical", ["HYPOTHETICAL"]),
        (OPERATION, "PROC historical", ["PAST_HISTORY"]),
        (OPERATION, "PROC family", None),
    ],
)
def test_traits_of_statuses(cui: str, how: str, traits: list[str] | None) -> None:
    found = entities("InferSNOMEDCT", "thing", ("thing", cui, how))
    assert [[trait["Name"] for trait in each["Traits"]] for each in found] == ([] if traits is None else [traits])


def test_a_procedure_to_be_avoided_is_negated() -> None:
    (found,) = entities("InferSNOMEDCT", "Avoid appendectomy.", ("appendectomy", OPERATION, "PROC hypothetical"))
    assert found["Traits"] == [{"Name": "NEGATION", "Score": 1.0}]


def test_the_linked_concept_comes_first_even_if_it_is_no_candidate() -> None:
    note = LinkedNote("1", "aspirin", [row("aspirin", "aspirin", ASPIRIN, label="CHEM", score=0.4, candidates=[[WARFARIN, "warfarin", 0.9]])])
    (found,) = comprehend.answer("InferRxNorm", note, ORIGIN, codes)["Entities"]
    assert [(each["Code"], each["Score"]) for each in found["RxNormConcepts"]] == [("1191", 0.4), ("11289", 0.9)]
