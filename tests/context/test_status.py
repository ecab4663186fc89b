"""The status of mentions: hand-judged sentences, difficult cases, sections, bad input, and the component around the rules."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span

from spacy_sapbert.context.rules import DRUG, FINDING, OTHER, PROCEDURE, SHIPPED, STATUSES, Rules, find_sentences
from spacy_sapbert.context.status import kind_of
from spacy_sapbert.doc.spans import CORRECTED, set_corrected_extension
from spacy_sapbert.errors import MissingFile, SapbertError
from spacy_sapbert.kb.knowledge_base import KnowledgeBase

LINES = (Path(__file__).parent / "status_cases.tsv").read_text(encoding="utf-8").splitlines()
CASES = [[*line.replace("\\n", "\n").split("\t"), FINDING][:4] for line in LINES if line and not line.startswith("#")]
RULES = Rules(SHIPPED.read_text(encoding="utf-8"))


def said(text: str, mention: str, rules: Rules = RULES, breaks: tuple[int, ...] = (), kind: str = FINDING) -> str:
    at = text.index(mention)
    place = (at, at + len(mention))
    status = rules.statuses(text, [place], breaks, {place: kind})[0]
    assert tuple(status) == STATUSES
    return ",".join(key for key, true in status.items() if true) or "-"


@pytest.mark.parametrize(("text", "mention", "wanted", "kind"), CASES)
def test_a_judged_sentence(text: str, mention: str, wanted: str, kind: str) -> None:
    assert set(said(text, mention, kind=kind).split(",")) == set(wanted.split(","))


def test_every_case_that_is_so_keeps_its_status_in_capitals() -> None:
    text = "SHE DENIES CHEST PAIN. POSSIBLE PNEUMONIA. FAMILY HISTORY OF GOUT. HISTORY OF STROKE. RETURN IF FEVER. HAS ASTHMA."
    wanted = {"CHEST PAIN": "negated", "PNEUMONIA": "uncertain", "GOUT": "family", "STROKE": "historical", "FEVER": "hypothetical", "ASTHMA": "-"}
    assert {mention: said(text, mention) for mention in wanted} == wanted


def test_sections_speak_for_what_is_in_them() -> None:
    note = (
        "PAST MEDICAL HISTORY:,1. Gout.,2. No diabetes.,She now has asthma.,FAMILY HISTORY:,Mother is well.  Stroke on both sides.  The patient denies "
        "cough.  She has eczema.,DISCHARGE INSTRUCTIONS: Return for fever.,DDX: sepsis, anemia.,IMPRESSION: Pneumonia."
    )
    wanted = {
        "Gout": "historical",
        "diabetes": "negated",
        "asthma": "-",
        "Stroke": "family",
        "cough": "negated",
        "eczema": "-",
        "fever": "hypothetical",
        "anemia": "uncertain",
        "Pneumonia": "-",
    }
    assert {mention: said(note, mention) for mention in wanted} == wanted


def test_lines_lists_and_tables_bound_a_scope() -> None:
    assert said("- no fever\n- cough", "cough") == "-"
    assert said("Denies any recent\nweight loss.", "weight loss") == "negated"  # a wrapped line
    assert said("No rash\nEdema of both legs", "Edema") == "-"
    assert said("Fever\tno\nCough\tyes", "Fever") == "negated"
    assert said("Fever\tno\nCough\tyes", "Cough") == "-"


def test_known_sentences_bound_a_scope() -> None:
    text = "no fever cough for days"
    assert said(text, "cough") == "negated"
    assert said(text, "cough", breaks=(0, 9)) == "-"


def test_sentences_by_rules() -> None:
    text = (
        "CC: cough. Seen by Dr. Hall, no fever\nand no rash; takes 1.5 mg b.i.d. with food!\n\n1. Asthma\n2. Gout (left). K 5.9?\n"
        "Meds:\n- aspirin\n- iron  \n"
    )
    assert [text[start:end] for start, end in find_sentences(text)] == [
        *("CC: cough.", "Seen by Dr. Hall, no fever\nand no rash; takes 1.5 mg b.i.d. with food!", "1. Asthma", "2. Gout (left).", "K 5.9?", "Meds:"),
        *("- aspirin", "- iron"),
    ]


@pytest.mark.parametrize("text", ["", "???", "[**Name**] [**Hospital**]", "\n\n\n", "   ", "Pas de fièvre, 発熱なし", "�\x00"])
def test_odd_text_is_read(text: str) -> None:
    assert RULES.statuses(text, []) == []
    assert "".join("".join(text[start:end].split()) for start, end in find_sentences(text)) == "".join(text.split())  # nothing is lost
    places = [(0, len(text))] if text else []
    assert len(RULES.statuses(text, places)) == len(places)


@pytest.mark.parametrize(
    "piece",
    [
        "no fever, ",
        "a ",
        "history of ",
        "denies x but ",
        "?",
        "no no no ",
        "x\n",
        "(",
        "| no |",
        "risks include: 1. a ",
        "risks of x: - a\n",
        "2) ",
        "x negative ",
        "x, y and z pending, ",
        "does not use ",
        "x showed ",
        "never smoked or x, ",
        "tested for x, positive, ",
        "x and y, both negative, ",
        "x, y likely, ",
        "history of x on y, ",
        "after her son died of x ",
        "No acute findings, COPD, ",
        "fever -, cough +, ",
        "- x\n",
        "x (-), ",
        "-" + " " * 50,
        "Cough: no, ",
        "until x has resolved ",
        "possible x, y negative, ",
        "No x, the y was z ",
        "?x y ",
        "x?? Y ",
        "DDx: x, y\n",
        "no x, MRI y, ",
        "no x - y ",
        "(x y not seen ",
        "x, y not excluded, ",
        "isn't x doesnt ",
        "PMH: x in 2015, on y, ",
        "my mum she ",
        "my son ",
    ],
)
def test_one_long_line_takes_linear_time(piece: str) -> None:
    text = (piece * (10**5 // len(piece)))[: 10**5]
    mentions = [(at, at + 3) for at in range(0, len(text) - 3, 200)]
    start = time.process_time()
    find_sentences(text)
    assert len(RULES.statuses(text, mentions)) == len(mentions)
    assert time.process_time() - start < 5


def test_a_rule_may_hold_in_some_sections_only() -> None:
    rules = Rules("trigger\tcategory\tdirection\tscope\nperhaps\tuncertain\tforward@plan;labs\t\nmaybe\tuncertain\tforward@!plan\t\n")
    note = "PLAN: Perhaps fever. Maybe cough.\nCC: Perhaps rash. Maybe gout."
    assert {mention: said(note, mention, rules) for mention in ("fever", "cough", "rash", "gout")} == {
        "fever": "uncertain",
        "cough": "-",
        "rash": "-",
        "gout": "uncertain",
    }


def test_a_rule_of_a_heading_holds_for_the_section_below_it() -> None:
    rules = Rules("trigger\tcategory\tdirection\tscope\nheading:prescriptions\tplanned\tsection\t\n")
    note = "MEDICATIONS: iron\nPRESCRIPTIONS: zinc\nEXAM: rash"
    assert {mention: said(note, mention, rules, kind=DRUG) for mention in ("iron", "zinc", "rash")} == {
        "iron": "-",
        "zinc": "hypothetical",
        "rash": "-",
    }


def several(text: str, *mentions: str, drugs: Sequence[str] = ()) -> dict[str, str]:
    """Return the statuses of mentions that are all known to the rules; those that are no drugs are findings."""
    places = [(text.index(mention), text.index(mention) + len(mention)) for mention in mentions]
    found = RULES.statuses(text, places, kinds={place: DRUG if mention in drugs else FINDING for mention, place in zip(mentions, places)})
    return {mention: ",".join(key for key, true in status.items() if true) or "-" for mention, status in zip(mentions, found)}


def test_a_statement_between_two_mentions_is_about_the_first() -> None:
    text = "HIV negative syphilis reactive."
    assert several(text, "HIV", "syphilis") == {"HIV": "negated", "syphilis": "-"}
    assert RULES.statuses("Abdomen negative tenderness.", [(0, 7), (17, 27)], kinds={(0, 7): OTHER})[1]["negated"] is True


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Gonorrhea and chlamydia are pending.", {"Gonorrhea": "uncertain", "chlamydia": "uncertain"}),
        ("Gonorrhea, chlamydia, and herpes tests pending.", {"Gonorrhea": "uncertain", "herpes": "uncertain"}),
        ("Negative fungi and chlamydia and gonorrhea are pending.", {"fungi": "negated", "chlamydia": "uncertain", "gonorrhea": "uncertain"}),
        ("Hepatitis C antibodies are still pending.", {"Hepatitis C": "uncertain"}),
        ("Lupus serology is pending; no rash.", {"Lupus": "uncertain", "rash": "negated"}),
        ("Fever, HIV pending.", {"Fever": "-", "HIV": "uncertain"}),
        ("Pneumonia and sputum culture pending.", {"Pneumonia": "-"}),
        ("Pneumonia, cultures pending.", {"Pneumonia": "-"}),
        ("Anemia with iron studies pending.", {"Anemia": "-"}),
        ("Fracture pending surgery.", {"Fracture": "-"}),
        ("Gout diet is pending.", {"Gout": "-"}),
        ("Rash and HIV, influenza pending.", {"Rash": "-", "HIV": "-", "influenza": "uncertain"}),
    ],
)
def test_a_disease_whose_test_is_pending_is_uncertain(text: str, wanted: dict[str, str]) -> None:
    assert several(text, *wanted) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Chest pain, GERD likely.", {"Chest pain": "-", "GERD": "uncertain"}),
        ("Fever, cough, pneumonia possible", {"Fever": "-", "cough": "-", "pneumonia": "uncertain"}),
        ("Right leg swelling, DVT suspected.", {"leg swelling": "-", "DVT": "uncertain"}),
        ("Cough with wheezing, asthma likely.", {"wheezing": "-", "asthma": "uncertain"}),
        ("Pneumonia or bronchitis likely.", {"Pneumonia": "uncertain", "bronchitis": "uncertain"}),
        ("Pneumonia, bronchitis, or asthma likely.", {"Pneumonia": "uncertain", "bronchitis": "uncertain", "asthma": "uncertain"}),
        ("Chest pain, GERD and gastritis likely.", {"Chest pain": "uncertain", "GERD": "uncertain", "gastritis": "uncertain"}),
        ("Pneumonia in the right lower lobe, likely.", {"Pneumonia": "uncertain"}),
        ("Sinusitis, viral, likely.", {"Sinusitis": "uncertain"}),  # "viral" is no finding
        ("Cough, pneumonia not excluded.", {"Cough": "-", "pneumonia": "uncertain"}),
    ],
)
def test_likely_is_about_the_last_item_of_a_list_without_and(text: str, wanted: dict[str, str]) -> None:
    assert several(text, *wanted) == wanted


@pytest.mark.parametrize(
    ("text", "finding", "drug", "wanted"),
    [
        ("History of PMR on prednisone.", "PMR", "prednisone", "-"),
        ("h/o AF on warfarin", "AF", "warfarin", "-"),
        ("Past history of seizures, controlled with Keppra.", "seizures", "Keppra", "-"),
        ("PMH: asthma on daily albuterol", "asthma", "albuterol", "-"),
        ("PMH: Gout. Hypothyroidism on levothyroxine.", "Hypothyroidism", "levothyroxine", "-"),
        ("History of DVT on warfarin in 2010.", "DVT", "warfarin", "historical"),
        ("History of DVT on warfarin two years ago.", "DVT", "warfarin", "historical"),
        ("History of DVT, previously on warfarin.", "DVT", "warfarin", "historical"),
        ("History of DVT treated with warfarin.", "DVT", "warfarin", "historical"),
        ("PMH: DVT, was on warfarin.", "DVT", "warfarin", "historical"),
        ("History of rash on penicillin.", "rash", "penicillin", "historical"),  # it may be the cause
        ("History of swelling of the lips on lisinopril.", "swelling of the lips", "lisinopril", "historical"),
        ("History of cough variant asthma on albuterol.", "cough variant asthma", "albuterol", "-"),  # asthma is no reaction
        ("PMH: Stroke in 2015, on aspirin", "Stroke", "aspirin", "-"),
        ("Past Medical History:\nDVT (2012) on warfarin", "DVT", "warfarin", "-"),
        ("PMH: DVT in March 2012 on warfarin; gout", "DVT", "warfarin", "-"),
        ("PMH: MI 2 years ago, on metoprolol", "MI", "metoprolol", "-"),
        ("PMH: Epilepsy since childhood, on Keppra", "Epilepsy", "Keppra", "-"),
        ("PMH: Stroke in 2015, on aspirin until 2018", "Stroke", "aspirin", "historical"),
        ("PMH: rash in 2012 on penicillin", "rash", "penicillin", "historical"),
        ("PMH: Stroke in 2015 after surgery on aspirin", "Stroke", "aspirin", "historical"),
    ],
)
def test_a_drug_that_is_taken_for_a_disease_of_the_past(text: str, finding: str, drug: str, wanted: str) -> None:
    found = several(text, finding, drug, drugs=[drug])
    assert "historical" in found[finding].split(",")
    assert found[drug] == wanted


def test_a_drug_after_a_past_procedure_is_taken_now() -> None:
    text = "PMH: CAD s/p CABG, on aspirin, gout"
    places = [(text.index(name), text.index(name) + len(name)) for name in ("CAD", "CABG", "aspirin", "gout")]
    found = RULES.statuses(text, places, (), dict(zip(places, (FINDING, PROCEDURE, DRUG, FINDING))))
    assert [status["historical"] for status in found] == [True, True, False, True]


def test_findings_after_a_drug_that_is_taken_now_stay_in_the_past() -> None:
    mentions, drugs = ("asthma", "albuterol", "Flovent", "stroke", "gout"), ("albuterol", "Flovent")
    found = several("History of asthma on albuterol and Flovent, stroke and gout.", *mentions, drugs=drugs)
    assert ["historical" in found[mention].split(",") for mention in mentions] == [True, False, False, True, True]


@pytest.mark.parametrize(
    ("text", "next_finding", "wanted"),
    [
        ("PMH: CHF on furosemide, pneumonia 2010", "pneumonia", False),
        ("PMH: CHF on furosemide, prior stroke", "stroke", False),
        ("History of CHF on furosemide and a remote history of gout", "gout", False),
        ("History of CHF on furosemide, stopped after a stroke in 2010", "stroke", True),
        ("History of CHF on furosemide in 2010, pneumonia", "pneumonia", True),
    ],
)
def test_the_year_of_the_next_finding_is_not_that_of_a_drug(text: str, next_finding: str, wanted: bool) -> None:
    found = several(text, "CHF", "furosemide", next_finding, drugs=["furosemide"])
    assert ["historical" in status.split(",") for status in found.values()] == [True, wanted, True]


@pytest.mark.parametrize(
    "text", ["Influenza, RSV and chlamydia negative, both parents are well.", "Influenza, RSV and chlamydia negative. Both parents are well."]
)
def test_both_after_a_result_does_not_count_the_items_before_it(text: str) -> None:
    assert several(text, "Influenza", "RSV", "chlamydia") == {"Influenza": "negated", "RSV": "negated", "chlamydia": "negated"}


def test_the_figure_of_a_stage_is_not_the_subject_of_a_main_clause() -> None:
    wanted = {"cancer": "family", "gout": "-"}
    assert several("After his mother died of stage I lung cancer he had gout.", *wanted) == wanted
    assert several("After his mother died of cancer I treated his gout.", *wanted) == wanted


def test_what_is_no_disease_is_not_uncertain_because_it_is_pending() -> None:
    assert said("Thyroid function is pending.", "Thyroid function", kind=OTHER) == "-"
    assert said("TSH is pending.", "TSH", kind=PROCEDURE) == "-"


def test_a_rule_that_begins_its_clause_allows_numbers_before_it() -> None:
    assert said("2) Start zinc.", "zinc", kind=DRUG) == "hypothetical"
    assert said("He did start zinc.", "zinc", kind=DRUG) == "-"


def test_a_rule_inside_its_trigger_holds_for_what_begins_there() -> None:
    rules = Rules("trigger\tcategory\tdirection\tscope\nno change of\tnegated\tinside\t\n")
    text = "No change of weight. Change of weight."
    places = [(0, 12), (3, 9), (3, 19), (10, 12), (13, 19), (21, 27)]  # "No change of", "change", "change of weight", "of", "weight", "Change"
    assert [status["negated"] for status in rules.statuses(text, places)] == [False, True, True, True, False, False]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("No evidence of acute exacerbation of COPD or pneumonia.", {"acute exacerbation of COPD": "negated", "pneumonia": "negated"}),
        ("No evidence of acute exacerbation of COPD or pneumonia.", {"acute": "negated", "COPD": "-", "pneumonia": "-"}),
        ("No change in bowel habits, melena.", {"change in bowel habits": "negated", "melena": "negated"}),
        ("No change in bowel habits but has melena.", {"change in bowel habits": "negated", "melena": "-"}),
        ("No progression of asthma or COPD.", {"progression": "negated", "asthma": "-", "COPD": "-"}),
    ],
)
def test_a_rule_inside_its_trigger_holds_for_a_longer_mention_and_its_list(text: str, wanted: dict[str, str]) -> None:
    assert several(text, *wanted) == wanted


def test_free_before_another_word_denies_nothing() -> None:
    for text, wanted in (
        ("Myeloma with free light chains.", "-"),
        ("Myeloma, free PSA 10%.", "-"),
        ("Myeloma free for two years.", "negated"),
        ("Myeloma-free for two years.", "negated"),
        ("Myeloma and gout free.", "negated"),
    ):
        assert said(text, "Myeloma") == wanted, text


def test_a_pregnancy_with_no_complications_is_not_denied() -> None:
    text = "There were no complications during pregnancy such as diabetes or gout."
    assert several(text, "pregnancy", "diabetes", "gout") == {"pregnancy": "-", "diabetes": "negated", "gout": "negated"}
    text = "Denies any problems during this pregnancy, including bleeding."
    assert several(text, "pregnancy", "bleeding") == {"pregnancy": "-", "bleeding": "negated"}


def test_what_has_begun_is_not_past_unless_it_resolved_or_a_later_trigger_says_so() -> None:
    rows = [
        *("began\tpresent\tforward", "ago\thistorical\tbackward", "then\tover\tbackward", "gone\tresolved\tbackward"),
        *("but\tend\tover", "old\thistorical\tforward"),
    ]
    rules = Rules("\n".join(["trigger\tcategory\tdirection\tscope", *rows]))
    for text, wanted in (
        ("gout ago.", "historical"),
        ("Began gout ago.", "-"),
        ("Began gout then.", "-"),
        ("Began gout gone.", "historical"),
        ("Began gout but rash gone.", "-"),  # what ends "over" ends "resolved"
        ("Began rash, old gout.", "historical"),
        ("Old gout began.", "historical"),
        ("Old rash began gout.", "-"),
    ):
        assert said(text, "gout", rules) == wanted, text


def test_a_rule_of_a_list_holds_for_its_items_and_not_after_it() -> None:
    rules = Rules("trigger\tcategory\tdirection\tscope\nrisks\thypothetical\tlist\t\n")
    note = "The risks include:,1.  Rash.,2.  Cough, with fever.,EXAM:  Gout.\nRisks:\n- ulcer\n- burns\nScar.\nRisks of zinc. Ulcers."
    wanted = {
        "Rash": "hypothetical",
        "fever": "hypothetical",
        "Gout": "-",
        "burns": "hypothetical",
        "Scar": "-",
        "zinc": "hypothetical",
        "Ulcers": "-",
    }
    assert {mention: said(note, mention, rules) for mention in wanted} == wanted
    inline = "Risks are: a) rash; b) gout. He has fever."
    assert {mention: said(inline, mention, rules) for mention in ("rash", "gout", "fever")} == {
        "rash": "hypothetical",
        "gout": "hypothetical",
        "fever": "-",
    }


def test_a_list_of_risks_ends_with_its_section() -> None:
    assert said("RISKS INCLUDE: 1. Rash\nPLAN:\n1. Gout: rest", "Gout") == "-"


@pytest.mark.parametrize(
    ("age", "wanted"),
    [
        *(("A 34-year-old woman.", "family"), ("A 16 yo patient.", "family"), ("A 40 y.o. man.", "family"), ("72M c/o CP.", "family")),
        *(("A woman aged 72.", "family"), ("Aged 15 months.", "-"), ("12M with fever.", "-"), ("Weight 72 m.", "-")),
        *(("A 15-year-old girl.", "-"), ("A 20-month-old boy.", "-"), ("A 20-day-old boy, the mother is 30 years old.", "-"), ("", "-")),
        *(("His 30-year-old mother is here.", "-"), ("Born to a 30-year-old woman.", "-"), ("A 30-year-old mother brought him.", "-")),
    ],
)
def test_a_child_is_another_person_in_notes_about_an_adult(age: str, wanted: str) -> None:
    assert said(f"{age} The child had fever.", "fever") == wanted


def test_numbers_in_brackets_begin_an_item_but_remarks_in_brackets_do_not() -> None:
    assert said("no gout, 2)fever", "fever") == "-"
    assert said("no gout 12) fever", "fever") == "-"
    assert said("no gout (day 2) or fever", "fever") == "negated"
    assert said("no gout (see 2) or fever (3) or rash", "rash") == "negated"
    assert said("no gout 0.2) or fever", "fever") == "negated"


def test_a_plan_is_not_past_or_doubted() -> None:
    assert said("PMH: gout. We recommend possible zinc.", "zinc", kind=DRUG) == "hypothetical"
    assert said("PMH: gout. We recommend possible zinc.", "zinc") == "uncertain,historical"


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ("", 1),
        ("trigger\tcategory\n", 1),
        ("trigger\tcategory\tdirection\tscope\nno\tdenied\tforward\t\n", 2),
        ("trigger\tcategory\tdirection\tscope\nno\tnegated\tupward\t\n", 2),
        ("trigger\tcategory\tdirection\tscope\nno\tplanned\tupward@plan\t\n", 2),
        ("trigger\tcategory\tdirection\tscope\n# a comment\nno\tnegated\tforward\tfive\n", 3),
        ("trigger\tcategory\tdirection\tscope\nbut\tend\tdenied\t\n", 2),
        ("trigger\tcategory\tdirection\tscope\nno\n", 2),
        ("trigger\tcategory\tdirection\tscope\nbut\tend\tnegated@plan\t\n", 2),
        ("trigger\tcategory\tdirection\tscope\nbut\tend\tnegated@\t\n", 2),
        # rules that would never hold
        ("trigger\tcategory\tdirection\tscope\nallergies\tnegated\tsection@plan\t\n", 2),
        ("trigger\tcategory\tdirection\tscope\nalergies\tnegated\tsection\t\n", 2),
        ("trigger\tcategory\tdirection\tscope\nplan;heading:\tnegated\tsection\t\n", 2),
        ("trigger\tcategory\tdirection\tscope\nno\tnegated\tforward@plann\t\n", 2),
        ("trigger\tcategory\tdirection\tscope\nno\tnegated\tforward@heading:plan\t\n", 2),
        ("trigger\tcategory\tdirection\tscope\nno\tnegated\tforward@\t\n", 2),
        ("trigger\tcategory\tdirection\tscope\nno\tnegated\tforward@!\t\n", 2),
        ("trigger\tcategory\tdirection\tscope\nno\tnegated\tforward@!adult\t\n", 2),
        ("trigger\tcategory\tdirection\tscope\nno\tnegated\tforward@adult;plan\t\n", 2),
        ("trigger\tcategory\tdirection\tscope\nbe\tclass\tis|was\t\n<be> no\tnegated\tforward\t\n<bee> no\tnegated\tforward\t\n", 4),
        ("trigger\tcategory\tdirection\tscope\n<be> but\tend\tnegated\t\nbe\tclass\tis|was\t\n", 2),  # the class is defined too late
        ("trigger\tcategory\tdirection\tscope\nbe\tclass\tis|was\t\nbe\tclass\tare\t\n", 3),  # defined twice
        ("trigger\tcategory\tdirection\tscope\n<year> no\tnegated\tforward\t\n", 2),  # a trigger does not begin with a number
        ("trigger\tcategory\tdirection\tscope\non\tend\thistorical,negated@drug\t\n", 2),  # only the past ends at a drug
        ("trigger\tcategory\tdirection\tscope\n" + "no " * 3000 + "\tnegated\tforward\t\n", 2),
    ],
)
def test_a_wrong_table_of_rules_is_refused(table: str, line: int) -> None:
    with pytest.raises(SapbertError, match=rf"E403.*line {line}\b"):
        Rules(table)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ("no\tnegated\tforward@other;plan\t", "No fever."),
        ("in <year> no\tnegated\tforward@!family_history\t3", "In 2019 no fever."),
        ("plan; heading:notes\tnegated\tsection\t", "PLAN: fever"),
    ],
)
def test_rules_that_may_hold_are_read(row: str, text: str) -> None:
    assert said(text, "fever", Rules(f"trigger\tcategory\tdirection\tscope\n{row}\n")) == "negated"


# -- the component --------------------------------------------------------------------------------------------------------


def made(nlp: Any, text: str, *mentions: str, group: str | None = None) -> Doc:
    doc: Doc = nlp.make_doc(text)
    spans = [doc.char_span(text.index(m), text.index(m) + len(m), label="DISO") for m in mentions]
    if group is None:
        doc.set_ents(spans)
    else:
        doc.spans[group] = spans
    return doc


def test_entities_and_groups_get_a_dict() -> None:
    nlp = spacy.blank("en")
    component: Any = nlp.add_pipe("clinical_status")
    doc = component(made(nlp, "No fever. Mother had gout.", "fever", "gout"))
    assert doc.ents[0]._.assertion == {"negated": True, "uncertain": False, "hypothetical": False, "historical": False, "family": False}
    assert doc.ents[1]._.assertion["family"] is True
    grouped = component(made(nlp, "No fever or severe cough.", "severe cough", "cough", group="sapbert"))
    assert [span._.assertion["negated"] for span in grouped.spans["sapbert"]] == [True, True]
    assert next(iter(component.pipe([nlp.make_doc("")]))).text == ""


def test_parts_of_the_body_have_no_status() -> None:
    nlp = spacy.blank("en")
    component: Any = nlp.add_pipe("clinical_status")
    doc = nlp.make_doc("No abdominal pain.")
    doc.ents = [Span(doc, 1, 2, label="ANAT"), Span(doc, 2, 3, label="DISO")]
    assert [ent._.assertion["negated"] for ent in component(doc).ents] == [False, True]
    same = nlp.make_doc("No abdominal pain.")
    same.ents = [Span(same, 2, 3, label="DISO")]
    same.spans["all"] = [Span(same, 2, 3, label="ANAT")]  # spaCy stores extensions by offsets
    assert component(same).ents[0]._.assertion["negated"] is True


def test_substances_that_are_findings_have_a_status() -> None:
    nlp = spacy.blank("en")
    component: Any = nlp.add_pipe("clinical_status")
    doc = nlp.make_doc("Throat without exudate. No throat pain. Denies chills or sweats.")
    doc.ents = [Span(doc, at, at + 1, label="ANAT") for at in (0, 2, 5, 11)]
    assert [ent._.assertion["negated"] for ent in component(doc).ents] == [False, True, False, True]


def test_labels_say_which_mentions_are_drugs_and_procedures() -> None:
    assert [kind_of(label) for label in ("CHEM", "Drug", "T121")] == [DRUG] * 3
    assert [kind_of(label) for label in ("PROC", "DEVI", "T059", "test")] == [PROCEDURE] * 4
    assert [kind_of(label) for label in ("DISO", "ENTITY", "", "T047", "T999", "ANAT")] == [FINDING] * 6
    nlp = spacy.blank("en")
    component: Any = nlp.add_pipe("clinical_status")
    doc = nlp.make_doc("We will treat gout with zinc.")
    doc.ents = [Span(doc, 3, 4, label="DISO"), Span(doc, 5, 6, label="CHEM")]
    assert [ent._.assertion["hypothetical"] for ent in component(doc).ents] == [False, True]
    doc.spans["other"] = [Span(doc, 5, 6, label="DISO")]  # one recogniser says finding: the careful rules hold
    assert [ent._.assertion["hypothetical"] for ent in component(doc).ents] == [False, False]


def test_sentences_that_are_set_are_used() -> None:
    nlp = spacy.blank("en")
    component: Any = nlp.add_pipe("clinical_status")
    doc = made(nlp, "no fever cough for days", "cough")
    for token in doc:
        token.is_sent_start = token.text in ("no", "cough")
    assert component(doc).ents[0]._.assertion["negated"] is False


def test_own_rules_are_saved_with_the_pipeline(tmp_path: Path) -> None:
    table = tmp_path / "rules.tsv"
    table.write_text("trigger\tcategory\tdirection\tscope\nkeine\tnegated\tforward\t\n", encoding="utf-8")
    nlp = spacy.blank("en")
    nlp.add_pipe("clinical_status", config={"rules": str(table)})
    nlp.initialize()
    nlp.to_disk(tmp_path / "pipeline")
    content = nlp.to_bytes()
    table.unlink()
    for again in (spacy.load(tmp_path / "pipeline"), spacy.blank("en")):
        if not again.pipe_names:
            again.add_pipe("clinical_status")
            again.from_bytes(content)
        component: Any = again.get_pipe("clinical_status")
        assert component(made(again, "keine Gicht", "Gicht")).ents[0]._.assertion["negated"] is True
        assert component(made(again, "no Gicht", "Gicht")).ents[0]._.assertion["negated"] is False


def test_wrong_settings_are_refused(tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    component: Any = nlp.add_pipe("clinical_status", config={"rules": str(tmp_path / "none.tsv")})
    with pytest.raises(MissingFile, match="E401"):
        component(made(nlp, "no fever", "fever"))
    with pytest.raises(SapbertError, match="E002"):
        nlp.add_pipe("clinical_status", name="other", config={"attr_name": "is so"})
    Span.set_extension("taken_by_another", default=False)
    with pytest.raises(SapbertError, match="E005"):
        nlp.add_pipe("clinical_status", name="other", config={"attr_name": "taken_by_another"})


def test_two_components_with_names_of_their_own_stand_side_by_side() -> None:
    nlp = spacy.blank("en")
    one: Any = nlp.add_pipe("clinical_status")
    two: Any = nlp.add_pipe("clinical_status", name="second", config={"attr_name": "second_assertion"})
    doc = two(one(made(nlp, "no fever", "fever")))
    assert doc.ents[0]._.assertion == doc.ents[0]._.second_assertion


@pytest.mark.parametrize(
    ("text", "mention", "name", "negated"),
    [
        ("Liver and spleen are not enlarged.", "Liver", "enlarged Liver", True),
        ("Liver and spleen are not enlarged.", "spleen are not enlarged", "enlarged spleen", True),
        ("Liver is not very enlarged.", "Liver is not very enlarged", "enlarged Liver", True),
        ("Liver and spleen are enlarged; not tender.", "Liver", "enlarged Liver", False),
        ("Liver and spleen are enlarged and the kidneys are not enlarged.", "Liver", "enlarged Liver", False),  # the first statement counts
        ("Liver and spleen are not enlarged, kidneys are enlarged.", "Liver", "enlarged Liver", True),
        ("CT and ECG were positive and MRI was negative for blood.", "CT", "positive CT", False),
        ("Blood cultures and urine cultures were negative.", "Blood cultures", "Blood cultures were negative", False),
        ("Livers and spleens are enlarged and kidneys are not.", "Livers", "Livers are enlarged", False),
        ("Liver is tender. It is not enlarged.", "Liver is tender", "tender Liver", False),
        ("CT and ECG were negative.", "CT", "negative CT", False),
        ("CT and ECG were negative.", "CT", "CT negative", False),
        ("He does not use alcohol or tobacco.", "tobacco", "does not use tobacco", False),
        ("He does not use alcohol or tobacco.", "tobacco", "use tobacco", True),
        ("Viens not distended.", "Viens not distended", "veins not distended", False),  # the "not" is in the name itself
    ],
)
def test_a_statement_that_is_denied(text: str, mention: str, name: str, negated: bool) -> None:
    nlp = spacy.blank("en")
    status = nlp.add_pipe("clinical_status")
    set_corrected_extension()
    doc = nlp.make_doc(text)
    span = doc.char_span(text.index(mention), text.index(mention) + len(mention), "DISO")
    span._.set(CORRECTED, name)
    doc.ents = [span]
    assert status(doc).ents[0]._.assertion["negated"] is negated


class KbHolder:
    """A component with a knowledge base, as the linker."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self.kb = kb

    def __call__(self, doc: Doc) -> Doc:
        return doc


def test_a_linked_mention_is_what_its_concept_is(tiny_kb: KnowledgeBase) -> None:
    Language.factory("kb_holder", func=lambda nlp, name: KbHolder(tiny_kb))
    nlp = spacy.blank("en")
    nlp.add_pipe("kb_holder")
    status = nlp.add_pipe("clinical_status")
    for label, kb_id, wanted in (
        ("PROC", "", "hypothetical"),  # the recogniser's label: a procedure that is planned
        ("PROC", "C9100003", "uncertain"),  # myocardial infarction
        ("ANAT", "C9100003", "uncertain"),
        ("ANAT", "", "-"),
        ("PROC", "C0000000", "hypothetical"),  # an id that the knowledge base does not have
    ):
        doc = nlp.make_doc("Plan: ?MI")
        doc.ents = [doc.char_span(7, 9, label=label, kb_id=kb_id)]
        found = status(doc).ents[0]._.assertion
        assert (label, kb_id, ",".join(key for key, true in found.items() if true) or "-") == (label, kb_id, wanted)


def test_equal_branches_of_the_rules_are_one_object() -> None:
    rows = ["no sign of\tnegated\tforward\t", "not a sign of\tnegated\tforward\t", "sign of\tend\tnegated\t", "no\tnegated\tforward\t5"]
    tree = Rules("\n".join(["trigger\tcategory\tdirection\tscope", *rows]))._tree
    assert tree["no"]["sign"] is tree["not"]["a"]["sign"]
    assert tree["no"]["sign"] is not tree["sign"]
    assert [rule.scope for rule in tree["no"][""]] == [5]
