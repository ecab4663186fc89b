"""Names that are no mentions because of the words beside them."""

from __future__ import annotations

import pytest
import spacy
from name_matchers import found, matcher, written

from spacy_sapbert.matcher.beside import glued, is_title, means_something_else


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("HR91, BP158/92 and rr16", [("HR", "heart rate"), ("BP", "blood pressure"), ("rr", "respiratory rate")]),
        ("WBC14.3K", [("WBC", "white blood cell count")]),
        ("XHR91 A-BP12 HRX", []),
    ],
)
def test_tests_that_touch_their_values(text: str, expected: list[tuple[str, str]]):
    assert [(text[one.start : one.end], one.name) for one in glued(text)] == expected


@pytest.mark.parametrize(
    ("text", "word", "other"),
    [
        ("cold knife conization", "cold", True),
        ("the common cold", "cold", False),
        ("a cold, and cough", "cold", False),
        ("sensitive to cold", "cold", True),
        ("STRESS TEST today", "STRESS", True),
        ("rest-stress images", "stress", True),
        ("under stress", "stress", False),
        ("intra-abdominal air", "abdominal", True),
        ("non-scarring", "scarring", True),
        ("Faint pulses", "Faint", True),
        ("feels faint", "faint", False),
        ("a scaly plaque", "plaque", False),
        ("x-scarring", "scarring", False),
        ("antibiotic-impregnated beads", "antibiotic", True),
        ("Betadine-soaked gauze", "Betadine", True),
        ("antibiotic-resistant", "antibiotic", False),
        ("albumin to creatinine ratio", "albumin", True),
        ("head to abdomen circumference ratio", "head", True),
        ("head to toe", "head", False),
        ("round of cold blood", "cold", True),
        ("post-anesthesia care", "anesthesia", True),
        ("T2-weighted", "T2", True),
        ("L5 versus S1 radiculopathy", "S1", True),
        ("S1 and S2 are normal", "S1", False),
        ("cold", "cold", False),
        ("unresponsive to therapy", "unresponsive", True),
        ("found unresponsive", "unresponsive", False),
        ("unresponsive to painful stimuli", "unresponsive", False),
        ("unresponsive to voice", "unresponsive", False),
        ("Low back pain unresponsive to physical therapy.", "unresponsive", True),
        ("Headache unresponsive to any medication.", "unresponsive", True),
        ("Pain unresponsive to pain medication.", "unresponsive", True),
        ("unresponsive to painkillers", "unresponsive", True),
        ("unresponsive to verbal therapy", "unresponsive", True),
        ("unresponsive to verbal or physical therapy", "unresponsive", True),
        ("unresponsive to verbal, cognitive and physical therapies", "unresponsive", True),
        ("unresponsive to verbal or physical stimuli, now in therapy", "unresponsive", False),
        ("unresponsive to pain.", "unresponsive", False),
        ("unresponsive to any physical stimulation", "unresponsive", False),
        ("unresponsive to verbal or tactile stimuli", "unresponsive", False),
        ("unresponsive to sternal rub", "unresponsive", False),
        ("unresponsive to my voice", "unresponsive", False),
        ("cold biopsy forceps", "cold", True),
        ("tearing of the meniscus", "tearing", True),
        ("tearing of the eye", "tearing", False),
        ("de-epithelialized", "epithelialized", True),
        ("E-PAP of 5", "PAP", True),
        ("BI-PAP at night", "PAP", True),
        ("Perm-A-Cath", "Cath", True),
        ("FH: M-breast cancer", "breast cancer", False),
        ("S-cough 3 days", "cough", False),
        ("C-spine fracture", "spine fracture", False),
        ("C-spine films", "spine", False),
        ("E-XYZ", "XYZ", True),
        ("L-knee", "knee", False),
        ("Para-aortic", "Para", True),
        ("Para 2", "Para", False),
        ("PRE-OP RECORD", "PRE", True),
        ("PRE 2", "PRE", False),
        ("an allergy doctor", "allergy", True),
        ("second-hand smoke", "hand", True),
        ("low-fat cheese", "fat", True),
        ("sinus rhythm", "sinus", True),
        ("seen by resp nurse", "resp", True),
        ("Resp MDT", "Resp", True),
        ("Resp 18", "Resp", False),
        ("discuss with vasc MDT", "vasc", True),
        ("vasc access", "vasc", False),
        ("sinus pain", "sinus", False),
        ("by mouth daily", "mouth", True),
        ("pain by the mouth", "mouth", False),
        ("a beam's-eye view", "eye", True),
        ("the beam’s eye view", "eye", True),
        ("Ms. Q was", "Ms", True),
        ("Mr Jones", "Mr", True),
        ("MS. Stable", "MS", False),  # multiple sclerosis
        ("hepatitis serology", "hepatitis", False),  # only of a finding
        ("had a fall in hemoglobin", "had a fall", True),
        ("a fall in his blood pressure", "fall", True),
        ("had a fall in the shower", "had a fall", False),
        ("a drop in hemoglobin", "drop", False),  # only of a fall
        ("Received radiation to the neck", "radiation to the neck", True),
        ("radiation to the neck for lymphoma", "radiation to the neck", True),
        ("radiation to the neck, 60 Gy", "radiation to the neck", True),
        ("pain with radiation to the neck", "radiation to the neck", False),
        ("radiation to the back, cancer was ruled out", "radiation to the back", False),
    ],
)
def test_words_beside_a_name(text: str, word: str, other: bool):
    start = text.index(word)
    assert means_something_else(text, start, start + len(word)) is other


def test_titles_are_no_mentions():
    assert [is_title(text) for text in ("Past Medical  History", "family history", "history of asthma", "natural history")] == [
        True,
        True,
        False,
        False,
    ]
    assert [is_title(text) for text in ("FHx", "PMH", "fx", "hx")] == [True, True, False, False]
    assert found(written(("FHx", "T033", ""), ("asthma", "T047", "")), "No FHx of asthma") == ["asthma"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hepatitis C serology", []),
        ("hepatitis C titers were low", []),
        ("Hepatitis C, serology", ["Hepatitis C"]),
        ("infectious disease consult", []),
        ("infectious disease is likely", ["infectious disease"]),
        ("the stroke team", []),
        ("They called the Infectious Disease doctor.", []),
        ("Infectious Disease was consulted", []),
        ("Infectious diseases is following", []),
        ("consultation with infectious disease", []),
        ("exposed to an infectious disease", ["infectious disease"]),
        ("infectious disease was ruled out", ["infectious disease"]),
        ("brain MRI consultation", ["brain MRI"]),  # a procedure
    ],
)
def test_a_finding_before_a_test_or_a_specialty_is_no_mention(text: str, expected: list[str]):
    names = [("hepatitis C", "T047", ""), ("infectious disease", "T047", ""), ("stroke", "T047", ""), ("brain MRI", "T060", "")]
    assert found(written(*names), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("diuretic responsive ascites", ["ascites"]),
        ("diuretic-resistant ascites", ["ascites"]),
        ("ascites unresponsive to a diuretic", ["ascites", "diuretic"]),
        ("diuretic induced ascites", ["diuretic", "ascites"]),  # it was taken
        ("ascites refractory to treatment", ["ascites"]),
        ("Given a diuretic unresponsive to voice", ["diuretic"]),
    ],
)
def test_a_drug_to_which_something_responds_is_no_mention(text: str, expected: list[str]):
    assert found(written(("diuretic", "T121", ""), ("ascites", "T047", "")), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Seen by the General Surgery Service.", []),
        ("Consult General Surgery.", []),
        ("Surgery was consulted", []),
        ("Department of Anesthesia", []),
        ("discussed with surgery", []),
        ("referred to vascular surgery", []),
        ("vascular surgery clinic", []),
        ("Seen in surgery today.", []),
        ("Attended the surgery for BP check", []),
        ("underwent surgery", ["surgery"]),
        ("discussed surgery with her", ["surgery"]),
        ("referred for vascular surgery", ["vascular surgery"]),
        ("surgery was recommended", ["surgery"]),
        ("surgery followed by chemo", ["surgery"]),
        ("chemo followed by surgery", ["surgery"]),
        ("chemo was followed by vascular surgery", ["vascular surgery"]),
        ("Patient is followed by vascular surgery", []),
        ("Followed by vascular surgery for an aneurysm", []),
        ("Follow-up with surgery", []),
        ("review of surgery and pathology", ["surgery"]),
        ("surgery review by surgery", ["surgery"]),
        ("surgery was called off", ["surgery"]),
        ("seen after surgery", ["surgery"]),
        ("general anesthesia was given", ["anesthesia"]),
    ],
)
def test_surgery_and_anesthesia_as_services_are_no_mentions(text: str, expected: list[str]):
    assert found(written(("surgery", "T061", ""), ("vascular surgery", "T061", ""), ("anesthesia", "T061", "")), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Facial features", []),
        ("the vascular graft", []),
        ("facial and vascular", ["facial", "vascular"]),
        ("highly vascular.", ["vascular"]),
        ("AD/vascular.", []),  # of a pair
        ("of 1/vascular", ["vascular"]),
        ("canal stenosis", ["canal"]),  # a noun
        ("septic workup", ["septic"]),  # a finding
    ],
)
def test_adjectives_of_parts_of_the_body_are_no_mentions_before_another_word(text: str, expected: list[str]):
    component = written(("facial", "T023", ""), ("vascular", "T023", ""), ("canal", "T023", ""), ("septic", "T047", ""))
    assert found(component, text) == expected
    assert found(matcher("facial", nlp=spacy.blank("es"), tui="T023"), "zona facial derecha") == ["facial"]  # there, it follows its noun


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FH: M-breast cancer, F-stroke.", ["breast cancer", "stroke"]),
        ("FH: F-CVA", ["CVA"]),
        ("S-cough 3 days", ["cough"]),
        ("A-pneumonia", ["pneumonia"]),
        ("A-sepsis", ["sepsis"]),
        ("Hepatitis C-cirrhosis.", ["cirrhosis"]),
        ("C-spine fracture", ["spine fracture"]),
        ("E-PAP of 5", []),
        ("BI-PAP", []),
        ("Perm-A-Cath", []),
        ("PAP, cath", ["PAP", "cath"]),
    ],
)
def test_a_finding_after_a_letter_and_a_hyphen_is_a_mention(text: str, expected: list[str]):
    findings = [(name, "T047", "") for name in ("breast cancer", "stroke", "CVA", "cough", "pneumonia", "sepsis", "cirrhosis", "spine fracture")]
    assert found(written(*findings, ("PAP", "T061", ""), ("cath", "T074", "")), text) == expected
