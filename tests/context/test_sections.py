"""Sections of notes: every form of heading, prose without headings, and long bad input."""

from __future__ import annotations

import time

import pytest

from spacy_sapbert.context.sections import Section, find_sections, section_at, titles

NOTE = """ED triage: 72M c/o CP x2h and SOB.
PMHx: HTN, DM2
PSH
CABG
Meds - aspirin. Allergies: NKDA. VS: T 36.9 RA
SOCIAL HX: smoker
Mother: breast cancer
## Physical Exam
Skin: rash
Impression: acute PE, no DVT. Plan: heparin
2. Discharge instructions: return if worse
"""


def found(text: str) -> list[tuple[str, str, str]]:
    return [(s.kind, s.title, text[s.body : s.end].strip(" \n,.")) for s in find_sections(text)]


def test_a_note_of_many_forms() -> None:
    assert [(kind, title) for kind, title, _ in found(NOTE)] == [
        ("complaint", "ED triage"),
        ("history", "PMHx"),
        ("surgical_history", "PSH"),
        ("medications", "Meds"),
        ("allergies", "Allergies"),
        ("vitals", "VS"),
        ("social_history", "SOCIAL HX"),
        ("family_history", "Mother"),
        ("exam", "Physical Exam"),
        ("exam", "Skin"),
        ("assessment", "Impression"),
        ("plan", "Plan"),
        ("instructions", "Discharge instructions"),
    ]


def test_headings_joined_by_commas() -> None:
    text = (
        "SUBJECTIVE:,  A well child: no fever.,PAST MEDICAL HISTORY: , Asthma.,FHX:, diabetes.,REVIEW OF SYSTEMS:,HEENT: , normal,MEDS:,1. Aspirin."
    )
    assert found(text) == [
        ("present_illness", "SUBJECTIVE", "A well child: no fever"),
        ("history", "PAST MEDICAL HISTORY", "Asthma"),
        ("family_history", "FHX", "diabetes"),
        ("review_of_systems", "REVIEW OF SYSTEMS", ""),
        ("review_of_systems", "HEENT", "normal"),
        ("medications", "MEDS", "1. Aspirin"),
    ]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("PMH HTN, DM2", "history"),
        ("past medical history: stroke", "history"),
        ("**Past Medical History:** stroke", "history"),
        ("Past Medical History\nStroke in 2011", "history"),
        ("PREOPERATIVE DIAGNOSIS (ES):,1. Endocarditis", "assessment"),
        ("RIGHT KNEE EXAM: effusion", "exam"),
        ("VITAL SIGNS: T 37 HEENT: clear", "vitals"),
        ("Family Hx: colon cancer", "family_history"),
        ("ASSESSMENT/PLAN: pneumonia", "assessment"),
        ("A/P: pneumonia", "assessment"),
        ("Current Medications: aspirin", "medications"),
        ("Mouth and Throat: Clear.", "exam"),
        ("Mouth/Oropharynx: Clear.", "exam"),
        ("ENMT: Clear.", "exam"),
    ],
)
def test_a_heading(text: str, kind: str) -> None:
    assert find_sections(text)[0].kind == kind


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No headings here.",
        "He has had the following: fever, cough.",
        "At 10:30 he fell; ratio 3:1.",
        "PMH of asthma is noted.",
        "a list\n- warfarin\n- plan",
    ],
)
def test_prose_has_no_headings(text: str) -> None:
    assert [section.title for section in find_sections(text)] == ([""] if text else [])


def test_unknown_headings_end_a_section_or_belong_to_it() -> None:
    assert [kind for kind, _, _ in found("FAMILY HISTORY: none\nTASKS ADMINISTERED: recall")] == ["family_history", "other"]
    assert [kind for kind, _, _ in found("EXAM: alert\nROMBERG SIGN: absent")] == ["exam", "exam"]
    assert [kind for kind, _, _ in found("LABS:\nAST: 31\nCREATININE: 1.1")] == ["labs", "labs"]


def test_sections_cover_the_text() -> None:
    text = "A preamble.\n" + NOTE
    sections = find_sections(text)
    assert sections[0] == Section("other", "", 0, 0, 12)
    assert sections[-1].end == len(text)
    assert all(one.end == two.start and one.start <= one.body <= one.end for one, two in zip(sections, sections[1:]))
    here = section_at(sections, text.index("breast"))
    assert here is not None
    assert here.kind == "family_history"
    assert section_at([], 3) is None


@pytest.mark.parametrize(
    "text", ["a" * 10**6, ":" * 10**5, "PMH: " * 10**4, "A: b\n" * 10**4, " " * 10**6, "- " * 10**4, "(" * 10**5, "x" * 61 + ":"]
)
def test_long_bad_input_is_read_in_linear_time(text: str) -> None:
    start = time.process_time()
    sections = find_sections(text)
    assert time.process_time() - start < 4
    assert sections[-1].end == len(text)


def test_titles_are_in_lower_case_and_of_known_kinds() -> None:
    kinds = {kind for kind, _ in titles().values()}
    named = (Section.__doc__ or "").replace(",", " ").replace(".", " ").split()
    assert kinds - {"part", "relative", "background"} <= set(named)
    assert all(title == title.lower().strip() for title in titles())


def test_a_relative_before_a_colon_ends_with_its_line() -> None:
    text = "Maternal: gestational diabetes\nSince birth: apnoea\nMother:\nasthma\nFH:\nFather: MI\nstroke"
    found = [(section.kind, text[section.body : section.end].strip()) for section in find_sections(text)]
    assert found == [
        ("family_history", "gestational diabetes"),
        ("other", "Since birth: apnoea"),
        ("family_history", "asthma"),
        ("family_history", ""),
        ("family_history", "MI"),
        ("family_history", "stroke"),
    ]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [  # (kind, beginning) of each section
        ("Exam: well. Sister: lupus. Patient has asthma.", [("exam", "Exam"), ("family_history", "Sister"), ("exam", "Patient")]),
        ("Sister: lupus. He has asthma.", [("family_history", "Sister"), ("other", "He")]),
        ("Sister: lupus. She has asthma.", [("family_history", "Sister")]),
        ("Father: MI at 50. He denies pain.\nCough.", [("family_history", "Father"), ("other", "He")]),
        ("Parents: HTN. He has asthma.", [("family_history", "Parents"), ("other", "He")]),
        ("Cousin: lupus. He has asthma.", [("family_history", "Cousin")]),
        ("Mother: MI. Father: stroke. Denies pain.", [("family_history", "Mother"), ("family_history", "Father"), ("other", "Denies")]),
        ("Mother: MI. 45 yo male with cough.", [("family_history", "Mother"), ("other", "45")]),
        ("Mother: MI. 45-year-old woman with cough.", [("family_history", "Mother"), ("other", "45-year-old")]),
        ("Mother: MI. 45 y.o. female with cough.", [("family_history", "Mother"), ("other", "45")]),
        ("Mother: MI. 45 y/o F here for cough.", [("family_history", "Mother"), ("other", "45")]),
        ("Mother: MI. 72M with cough.", [("family_history", "Mother"), ("other", "72M")]),
        ("Mother: had MI. Today she is well and denies pain.", [("family_history", "Mother"), ("other", "Today")]),
        ("Mother: had MI. Today she has chest pain.", [("family_history", "Mother"), ("other", "Today")]),
        ("Father: had MI. Today she is well, with diabetes.", [("family_history", "Father"), ("other", "Today")]),
        ("Mother: had MI. Today is a good day.", [("family_history", "Mother"), ("other", "Today")]),
        # still the relative
        ("Mother: had MI. Today she is well, with diabetes.", [("family_history", "Mother")]),
        ("Parents: both had MI. Today they are alive.", [("family_history", "Parents")]),
        ("Mother: MI. 62 years old, alive with HTN.", [("family_history", "Mother")]),
        ("Brother: well. 2 years of depression.", [("family_history", "Brother")]),
        ("Father: heart disease; i.e. MI at 50.", [("family_history", "Father")]),
        ("Father: diabetes. He takes insulin.", [("family_history", "Father")]),
        ("FAMILY HISTORY: Father: MI at 50. He denies pain.", [("family_history", "FAMILY"), ("family_history", "Father")]),
    ],
)
def test_a_family_history_of_one_relative_ends_where_the_text_is_about_the_patient(text: str, kinds: list[tuple[str, str]]) -> None:
    found = find_sections(text)
    assert [(one.kind, text[one.start : one.end].split()[0].rstrip(":")) for one in found] == kinds
    assert "".join(text[one.start : one.end] for one in found) == text


def test_background_is_the_history() -> None:
    assert [section.kind for section in find_sections("BG: epilepsy")] == ["history"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Background: IHD (PCI 2016), BPH", "history"),
        ("Background:\nT2DM, AF\nWe saw him today.", "history"),
        ("Background: He was well.", "present_illness"),
        ("Background: 72F, cough", "present_illness"),
        ("Background: 3/52 cough", "present_illness"),
    ],
)
def test_a_list_after_background_is_the_past_history(text: str, kind: str) -> None:
    assert find_sections(text)[0].kind == kind


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("Background: COPD\nPresented with SOB and cough for 3 days.\nChest: wheeze", "\nPresented"),
        ("Background: COPD\nAF\nIncreasing SOB 3 days", "\nIncreasing"),
        ("Background:\nCOPD\nAF\nHer story: falls", "\nHer"),
        ("Background: COPD\nComplains of cough", "\nComplains"),
    ],
)
def test_a_list_after_background_ends_before_a_line_that_is_no_list(text: str, begins: str) -> None:
    history, rest = find_sections(text)[:2]
    assert (history.kind, history.end, rest.kind, rest.start) == ("history", text.index(begins), "present_illness", text.index(begins))


def test_a_list_after_background_may_have_several_lines() -> None:
    text = "Background: COPD\nAF on apixaban\nCABG 2015"
    assert [(section.kind, section.end) for section in find_sections(text)] == [("history", len(text))]


def test_a_sentence_is_no_heading():
    assert [section.title for section in find_sections("MRI was ordered.\nMRI brain\nNo mass.")] == ["", "MRI brain"]


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        *(("LOW BACK PAIN HISTORY", "present_illness"), ("GALL BLADDER HISTORY", "present_illness"), ("SINUSITIS HISTORY", "present_illness")),
        *(
            ("CORONARY RISK FACTORS", "present_illness"),
            ("PAST PAIN HISTORY", "history"),
            ("PULMONARY HISTORY", "history"),
            ("FAMILY CANCER HISTORY", "family_history"),
        ),
    ],
)
def test_the_history_of_a_complaint_is_not_a_past_history(title: str, kind: str) -> None:
    assert find_sections(f"{title}: Dull since May.")[0].kind == kind


def test_a_statement_alone_on_its_line_is_no_heading() -> None:
    for line in ("No known drug allergies.", "No known drug allergies", "Drug allergies as above."):
        note = f"Allergies:\n{line}\nMeds: aspirin"
        assert [section.title for section in find_sections(note)] == ["Allergies", "Meds"]
    assert [section.title for section in find_sections("Known drug allergies\npenicillin")] == ["Known drug allergies"]
