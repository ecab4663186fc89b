"""What says the opposite of a mention is not found for it."""

from __future__ import annotations

from typing import Any

import pytest
import spacy

from spacy_sapbert.build.linker import build_linker, read_source
from spacy_sapbert.encoders.static import StaticEncoder
from spacy_sapbert.encoders.transformer import NameEncoder
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.ranking.opposites import WORDS, opposite, poles_of


@pytest.mark.parametrize(
    ("text", "poles"),
    [
        ("low ferritin", {"level": "low"}),
        ("hyperkalemia", {"level": "high"}),
        ("pancytopenia", {"level": "low"}),
        ("left upper lobe", {"side": "left", "height": "upper"}),
        ("hypokalemia and hyperglycemia", {"level": ""}),
        ("21-hydroxylase deficiency with adrenal hyperplasia", {"level": ""}),
        ("fracture of a long bone", {}),  # "long" says nothing here
        ("too short long bones", {"size": "small"}),
        ("hypoglossal nerve", {}),
        ("hype", {}),  # no letters besides "hyper" and none of its own
        ("pneumonia", {}),
        ("", {}),
        ("niedrig", {}),
    ],
)
def test_poles(text: str, poles: dict[str, str]) -> None:
    assert poles_of(text) == poles


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("no sweating", "hyperhidrosis", True),
        ("no sweating", "absent sweating", False),
        ("low ferritin", "increased circulating ferritin", True),
        ("small cell carcinoma", "large cell carcinoma", True),
        ("left leg pain", "pain in right leg", True),
        ("left leg pain", "leg pain", False),
        ("benign tumor of the breast", "breast cancer", True),
        ("acute pancreatitis", "pancreatitis", False),
        ("hypokalemia and hyperglycemia", "hypokalemia", False),
        ("fever", "hypothermia", False),  # the mention says nothing of a level
    ],
)
def test_opposite(one: str, other: str, expected: bool) -> None:
    assert opposite(poles_of(one), poles_of(other)) is expected
    assert opposite(poles_of(other), poles_of(one)) is expected


def test_every_axis_has_two_poles_and_no_word_is_in_two() -> None:
    rows = [line.split("\t") for line in WORDS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    poles: dict[str, set[str]] = {}
    words: list[str] = []
    for axis, pole, where, texts in rows:
        poles.setdefault(axis, set()).add(pole)
        words += texts.split() if where == "word" else []
    assert {axis: len(found) for axis, found in poles.items()} == {axis: 1 if axis == "none" else 2 for axis in poles}
    assert len(words) == len(set(words))


TABLE = """concept_id\tname\tsynonyms
C1000001\tHyperhidrosis\texcessive sweating|increased sweating|sweating too much
C1000002\tAbsent sweating\tanhidrosis|lack of sweating
C1000003\tPain in the right leg\tpain of right leg
C1000004\tHyperlipoproteinemia type I\tLPL deficiency
"""


@pytest.fixture(scope="module", params=[NameEncoder, StaticEncoder])
def linker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("opposites")
    (folder / "sweating.tsv").write_text(TABLE, encoding="utf-8")
    build_linker([read_source(folder / "sweating.tsv")], folder / "linker", model=request.param(), index=ExactIndex(), progress=False)
    return spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(folder / "linker"), "threshold": 0.3})


def concepts(linker: Any, mention: str) -> list[str]:
    answer = linker.search.find([(mention, None)])[0].answer
    return [concept for concept, _ in answer.candidates]


def test_a_concept_that_says_the_opposite_is_no_candidate(linker: Any) -> None:
    assert concepts(linker, "no sweating")[0] == "C1000002"
    assert "C1000001" not in concepts(linker, "no sweating")
    assert concepts(linker, "much increased sweating")[0] == "C1000001"
    assert "C1000002" not in concepts(linker, "much increased sweating")
    assert concepts(linker, "deficiency of LPL")[0] == "C1000004"  # the name says more than the canonical one
    assert concepts(linker, "leg pain on the right")[0] == "C1000003"
    assert "C1000003" not in concepts(linker, "leg pain on the left")


def test_a_name_itself_is_found_whatever_it_says(linker: Any) -> None:
    assert concepts(linker, "Lack of sweating")[0] == "C1000002"
    assert concepts(linker, "excessive sweating")[0] == "C1000001"
