"""Parts of the body whose state is described, and those in a list of imaged regions, are not mentions."""

from __future__ import annotations

import pytest

from spacy_sapbert.matcher.joining import Match
from spacy_sapbert.matcher.sites import without_sites


def kept(text: str, **labels: str) -> list[str]:
    """Return the mentions of `text` that are kept; `labels` has the mentions and their semantic groups, in the order of the text."""
    matches, start = [], 0
    for name, label in labels.items():
        words = name.replace("_", " ")
        start = text.index(words, start)
        matches.append(Match(start, start + len(words), label, None))
        start += len(words)
    return [text[one.start : one.end] for one in without_sites(matches, text)]


@pytest.mark.parametrize(
    "text",
    ["chest clear", "chest is clear", "Rash. chest not clear", "no chest", "red chest", "Small L chest", "# R chest", "chest markedly swollen"],
)
def test_a_part_of_the_body_whose_state_is_said_is_a_site(text: str) -> None:
    assert kept(text, chest="ANAT") == []


@pytest.mark.parametrize(
    "text",
    [
        "chest",
        "his chest and arm",
        "chest: clear",
        "not clear.\nchest",
        "the clearly chest",
        "cleared chest",
        "Lungs clear\nchest",
        "chest clearance",
        "chest was closed with sutures",
    ],
)
def test_another_part_of_the_body_stays(text: str) -> None:
    assert kept(text, chest="ANAT") == ["chest"]


def test_no_substance_is_a_site() -> None:
    assert kept("There was no purulence", purulence="ANAT") == ["purulence"]
    assert kept("no blasts seen", blasts="ANAT") == ["blasts"]
    assert kept("There are no teeth", teeth="ANAT") == []


def test_imaging_lists_sites() -> None:
    assert kept("CT chest, abdomen and pelvis with contrast", CT_chest="PROC", abdomen="ANAT", pelvis="ANAT") == ["CT chest"]
    assert kept("CT chest, abdomen and pelvis", CT="PROC", chest="ANAT", abdomen="ANAT", pelvis="ANAT") == ["CT"]
    assert kept("biopsy, abdomen and pelvis", biopsy="PROC", abdomen="ANAT", pelvis="ANAT") == ["biopsy", "abdomen", "pelvis"]
    assert kept("CT chest. abdomen, pelvis", CT_chest="PROC", abdomen="ANAT", pelvis="ANAT") == ["CT chest", "abdomen", "pelvis"]


def test_a_finding_with_a_state_stays() -> None:
    assert kept("red rash, large mass", rash="DISO", mass="DISO") == ["rash", "mass"]


@pytest.mark.parametrize(
    ("text", "owner", "sites"),
    [
        ("fullness of the cheek", "fullness", ["cheek"]),  # a word that only the recogniser marked
        ("odd fullness of the cheek", "odd fullness", []),
        ("cheek fullness", "fullness", []),
    ],
)
def test_an_entity_of_one_word_has_no_site_after_it(text: str, owner: str, sites: list[str]) -> None:
    start, part = text.index(owner), text.index("cheek")
    entity, body = Match(start, start + len(owner), "DISO", ent=owner), Match(part, part + 5, "ANAT")
    in_order = sorted([entity, body], key=lambda one: one.start)
    assert [text[one.start : one.end] for one in without_sites(in_order, text) if one.label == "ANAT"] == sites


@pytest.mark.parametrize(
    ("text", "name", "label", "expected"),
    [
        ("tonsils and adenoids were large", "large tonsils", "ANAT", ["tonsils", "adenoids"]),  # the statement was not chosen
        ("tonsils and adenoids were large", "large tonsils", "DISO", ["tonsils"]),  # it was: the adenoids are its site
        ("tonsils and adenoids infection", "tonsils infection", "ANAT", []),  # no statement
    ],
)
def test_a_statement_that_was_not_chosen_has_no_sites(text: str, name: str, label: str, expected: list[str]) -> None:
    mentions = [Match(0, 7, label), Match(12, 20, "ANAT")]
    part = Match(0, len(text), "DISO", name, part=True, item=(0, 7))
    assert [text[one.start : one.end] for one in without_sites(mentions, text, [part])] == expected


@pytest.mark.parametrize("joined", ["C4 to C6", "C4-C6", "C4 and C6", "C4 through C6"])
def test_the_second_of_two_levels_is_no_site(joined: str) -> None:
    assert kept(f"{joined} fracture", C4="PROC", C6="ANAT", fracture="DISO") == ["C4", "C6", "fracture"]
    assert kept(f"{joined} level", C4="ANAT", C6="ANAT") == ["C4", "C6"]


def test_other_levels_are_sites() -> None:
    assert kept("C6 fracture", C6="ANAT", fracture="DISO") == ["fracture"]
    assert kept("Fracture of C4 and C6", Fracture="DISO", C4="ANAT", C6="ANAT") == ["Fracture", "C6"]
    assert kept("Laminectomy of L3 to L5", Laminectomy="PROC", L3="ANAT", L5="ANAT") == ["Laminectomy"]
    assert kept("CT of C6", CT="PROC", C6="ANAT") == ["CT"]


def test_ultrasound_lists_sites() -> None:
    assert kept("Ultrasounds abdomen and pelvis", Ultrasounds="PROC", abdomen="ANAT", pelvis="ANAT") == ["Ultrasounds"]


def test_an_abbreviation_that_stands_for_a_finding_is_no_site() -> None:
    assert kept("No LAD.", LAD="ANAT") == ["LAD"]
    assert kept("no LOC, no rash", LOC="ANAT", rash="DISO") == ["LOC", "rash"]
    assert kept("No cervical LAD.", cervical="ANAT", LAD="ANAT") == ["LAD"]
    assert kept("no LAD stenosis", LAD="ANAT", stenosis="DISO") == ["stenosis"]
    assert kept("mid LAD stenosis", LAD="ANAT", stenosis="DISO") == ["stenosis"]
    assert kept("no lad", lad="ANAT") == []
