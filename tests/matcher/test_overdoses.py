"""Where "OD" is an overdose, a right eye, or how often a drug is taken."""

from __future__ import annotations

import pytest
from name_matchers import found, written

from spacy_sapbert.matcher.joining import Match
from spacy_sapbert.matcher.overdoses import overdoses

DRUGS = ("paracetamol", "sertraline", "senna", "omeprazole")


def places(text: str) -> list[str]:
    lowered = text.lower()
    drugs = sorted(Match(at, at + len(drug), "CHEM", None) for drug in DRUGS if (at := lowered.find(drug)) >= 0)
    return [text[one.start : one.end] for one in overdoses(text, drugs, ["CHEM"] * len(drugs))]


@pytest.mark.parametrize(
    "text",
    [
        "16 tabs OD on paracetamol.",
        "16 tabs OD on her sertraline",
        "Took 16 tabs OD.",
        "OD on paracetamol",
        "took an OD last night",
        "Intentional OD of sertraline",
        "Paracetamol OD",
        "Sertraline OD 2 days ago",
        "sertraline OD, 30 tabs",
        "30 x sertraline OD",
        "OD 16 tabs paracetamol",
        "admitted after OD",
        "MDD, OD x2 in past",
        "?OD",
        "took OD",
        "sertraline OD x2",
        "took a sertraline OD",
        "OD on sertraline, pinpoint pupils",
    ],
)
def test_an_overdose(text: str) -> None:
    assert places(text) == ["OD"]


@pytest.mark.parametrize(
    ("text", "mention"), [("Pt OD'd on paracetamol", "OD'd"), ("She ODed", "ODed"), ("previous ODs", "ODs"), ("OD'd, eyes closed", "OD'd")]
)
def test_other_forms_of_the_word(text: str, mention: str) -> None:
    assert places(text) == [mention]


@pytest.mark.parametrize(
    "text",
    [
        "senna 2 tabs OD",
        "senna 12 x 30 mg tabs OD",
        "2 paracetamol tablets OD",
        "paracetamol 1 g OD",
        "Omeprazole OD",
        "sertraline 50 mg OD",
        "acuity 20/40 OD",
        "cataract OD on exam",
        "previous OD cataract surgery",
        "OD 20/40, OS 20/20",
        "vitreous hemorrhage OD on paracetamol",
        "OD",
        "AOD on paracetamol",
        "takes omeprazole OD",
        "taking sertraline OD",
        "to be taken OD",
        "given omeprazole OD today",
        "started on sertraline OD 2 weeks ago",
        "omeprazole OD x 28 capsules",
        "omeprazole OD x 28",
        "omeprazole 20 mg PO OD x 28 tabs",
        "prednisolone 40 mg PO OD x 2 weeks",
        "OD x 4 weeks",
        "senna 75 OD with omeprazole",
        "senna 40mg PO OD with omeprazole",
        "senna 1 sachet OD with meds",
        "metformin SR 500mg tabs OD",
        "bisoprolol 2.5mg ?OD",
        "Eylea OD today",
        "OD on sertraline, pupils unequal",
        f"OD {'1' * 5000} tabs",  # more digits than `int` reads
    ],
)
def test_no_overdose(text: str) -> None:
    assert places(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [("16 tabs OD on senna", ["OD", "senna"]), ("senna 2 tabs OD", ["senna"]), ("senna OD", ["senna"]), ("acuity OD", ["OD"])],
)
def test_what_the_matcher_makes_of_it(text: str, expected: list[str]) -> None:
    names = [("senna", "T121", ""), ("OD", "T023", ""), ("overdose", "T037", "")]
    assert found(written(*names), text) == expected
