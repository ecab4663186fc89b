"""What is a name only with the text around it."""

from __future__ import annotations

import pytest
from name_matchers import found, written


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("denies N/V/D", [("N", "nausea"), ("V", "vomiting"), ("D", "diarrhea")]),
        ("n/v, N+V x 8", [("n", "nausea"), ("v", "vomiting"), ("N", "nausea"), ("V", "vomiting")]),
        ("no m/r/g", [("m", "heart murmur"), ("r", "pericardial friction rub"), ("g", "gallop")]),
        ("no c/c/e", [("c", "clubbing"), ("c", "cyanosis"), ("e", "edema")]),
        ("n/v/d/c", [("n", "nausea"), ("v", "vomiting"), ("d", "diarrhea"), ("c", "constipation")]),
        ("f/c", [("f", "fever"), ("c", "chills")]),
        ("d/c home, C/S, s/p, N/A, M/R, n/V, a/n/v/d, w/o n", []),  # other lists, and mixed case
    ],
)
def test_letters_that_stand_for_findings(text: str, expected: list[tuple[str, str]]):
    names = ("nausea", "vomiting", "diarrhea", "heart murmur", "pericardial friction rub", "gallop", "clubbing", "cyanosis", "edema")
    component = written(*((name, "T184", "") for name in (*names, "constipation", "fever", "chills")))
    doc = component(component.nlp.make_doc(text))
    assert [(ent.text, ent._.corrected_text) for ent in doc.ents] == expected


def test_letters_before_vital_signs_are_mentions():
    component = written(("body temperature", "T201", ""), ("pulse", "T201", ""), ("respiratory rate", "T201", ""), ("T", "T116", ""))
    doc = component(component.nlp.make_doc("VS: T 37.2 P 88 R16, T cells"))
    expected = [("T", "body temperature"), ("P", "pulse"), ("R", "respiratory rate")]
    assert [(ent.text, ent._.corrected_text) for ent in doc.ents] == expected
    assert found(written(("pulse", "T201", "")), "T 37.2 P 88") == ["P"]  # the knowledge base has no temperature


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("No dysuria, urgency or frequency.", ["dysuria", "urgency", "frequency"]),
        ("Frequency and hesitancy", ["Frequency", "hesitancy"]),
        ("urgency/frequency, no nocturia", ["urgency", "frequency", "nocturia"]),
        ("frequency and severity of headaches, urgency of the operation", []),  # no urinary symptom beside them
        ("urgency\nfrequency", []),  # two lines
        ("urinary frequency or urgency", ["urinary frequency", "urgency"]),
    ],
)
def test_plain_words_in_a_list_of_urinary_symptoms(text: str, expected: list[str]):
    names = ("dysuria", "urinary urgency", "urinary frequency", "urinary hesitancy", "nocturia")
    assert found(written(*((name, "T184", "") for name in names)), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Denies alcohol or drugs.", ["alcohol", "drugs"]),
        ("Denies tobacco, alcohol, and drugs", ["tobacco", "alcohol", "drugs"]),
        ("no smoking, no drugs, occasional alcohol", ["smoking", "drugs", "alcohol"]),
        ("alcohol and other drugs, alcohol or prescription drugs", ["alcohol", "alcohol"]),
        ("drugs given: aspirin. She takes no drugs.", []),  # no habit beside them
        ("tobacco\ndrugs", ["tobacco"]),  # two lines
        ("Denies drugs, alcohol. He used drugs and alcohol. Drugs, alcohol: no", ["drugs", "alcohol"] * 2 + ["Drugs", "alcohol"]),
        ("Cardiac drugs, tobacco; avoid sedating drugs and alcohol; antihypertensive drugs or alcohol", ["tobacco", "alcohol", "alcohol"]),
    ],
)
def test_drugs_in_a_list_of_habits(text: str, expected: list[str]):
    names = ("tobacco", "alcohol", "smoking", "illicit drug use")
    assert found(written(*((name, "T033", "") for name in names)), text) == expected


def test_nad_after_a_test_is_nothing_abnormal():
    component = written(
        ("CT head", "T060", ""), ("CTH", "T060", ""), ("NAD", "T121", ""), ("nothing abnormal detected", "T033", ""), ("fever", "T184", "")
    )
    doc = component(component.nlp.make_doc("CTH NAD. CT head: NAD, NAD. No fever NAD"))
    name = "nothing abnormal detected"
    assert [(ent.text, ent._.corrected_text) for ent in doc.ents if ent.text == "NAD"] == [("NAD", name), ("NAD", name), ("NAD", None), ("NAD", None)]
    assert found(written(("CTH", "T060", ""), ("NAD", "T121", "")), "CTH NAD") == ["CTH", "NAD"]  # the knowledge base has no such finding


def test_a_letter_whose_finding_is_no_name_is_no_mention():
    assert found(written(("nausea", "T184", "")), "N/V") == ["N"]
