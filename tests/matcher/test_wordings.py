"""Names of patients in the words of another person, another tense, or with words that strengthen them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import spacy
from fake_names import Names
from name_matchers import matcher

from spacy_sapbert.build.linker import build_linker, read_source
from spacy_sapbert.kb.knowledge_base import MatchableName
from spacy_sapbert.matcher.component import ConceptMatcher
from spacy_sapbert.matcher.wordings import Wording, may_begin, wordings

NAMES = (
    "can't hold my pee",
    "can't poop",
    "couldn't be woken up",
    "don't want to live anymore",
    "won't respond to voice",
    "hasn't pooped in days",
    "put my shoulder out",
    "lost his balance",
    "thoughts of killing myself",
    "makes me feel terrible",
    "burns when i pee",
    "chest wall",
    "pain in my chest",
    "period started",
    "my period started",
    "her disease",
    "i'm diabetic",
    "coughs up blood",
    "hip hurts",
    "hip is killing me",
    "hands shake",
    "heart skips beats",
    "hair falling out",
    "wound healing",
    "legs ache",
    "throat is sore",
    "eyes keep watering",
)


@pytest.fixture(scope="module")
def component() -> ConceptMatcher:
    return matcher(*NAMES, tui="T184")


def looked_up(component: ConceptMatcher, text: str) -> list[tuple[str, str]]:
    """Return the mentions and the text that is looked up for each of them."""
    return [(ent.text, ent._.corrected_text or ent.text) for ent in component(component.nlp.make_doc(text)).ents]


@pytest.mark.parametrize(
    ("text", "mention", "name"),
    [
        ("She can't hold her pee.", "can't hold her pee", "can't hold my pee"),
        ("He couldn't hold his pee.", "couldn't hold his pee", "can't hold my pee"),
        ("Mum could not hold the pee.", "could not hold the pee", "can't hold my pee"),
        ("I couldnt poop.", "couldnt poop", "can't poop"),
        ("I can not poop.", "can not poop", "can't poop"),
        ("I couldn’t poop.", "couldn’t poop", "can't poop"),
        ("He can't be woken up.", "can't be woken up", "couldn't be woken up"),
        ("She didn't want to live anymore.", "didn't want to live anymore", "don't want to live anymore"),
        ("He does not want to live anymore.", "does not want to live anymore", "don't want to live anymore"),
        ("He wouldn't respond to voice.", "wouldn't respond to voice", "won't respond to voice"),
        ("I have not pooped in days.", "have not pooped in days", "hasn't pooped in days"),
        ("He put his shoulder out.", "put his shoulder out", "put my shoulder out"),
        ("I lost my balance.", "lost my balance", "lost his balance"),
        ("He has thoughts of killing himself.", "thoughts of killing himself", "thoughts of killing myself"),
        ("It makes her feel terrible.", "makes her feel terrible", "makes me feel terrible"),
        ("It burns when she pees.", "burns when she pees", "burns when i pees"),
        ("Her period started.", "Her period started", "my period started"),
        ("My hip still hurts.", "hip still hurts", "hip hurts"),
        ("Hip was killing him.", "Hip was killing him", "Hip is killing me"),
        ("Hands keep shaking.", "Hands keep shaking", "Hands shake"),
        ("My heart keeps skipping beats.", "heart keeps skipping beats", "heart skip beats"),
        ("My hair keeps falling out.", "hair keeps falling out", "hair falling out"),
        ("My legs ached so bad.", "legs ached", "legs ache"),
        ("My throat is a bit sore.", "throat is a bit sore", "throat is sore"),
        ("My throat was really sore.", "throat was really sore", "throat is sore"),
        ("Her eyes kept watering.", "eyes kept watering", "eyes keep watering"),
    ],
)
def test_another_wording_is_looked_up_as_the_name(component: ConceptMatcher, text: str, mention: str, name: str) -> None:
    assert looked_up(component, text) == [(mention, name)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I can't hold my pee.", [("can't hold my pee", "can't hold my pee")]),  # as the name has it
        ("He can hold his pee.", []),
        ("She held her pee.", []),
        ("The period started in May.", [("period started", "period started")]),  # may be any period
        ("He is diabetic.", []),  # the subject of a sentence begins no name
        ("My disease is rare.", []),
        ("Pain in the chest wall.", [("chest wall", "chest wall")]),  # a name goes beyond "pain in the chest"
        ("He was coughing up blood.", []),  # "was" does not begin "coughs up blood"
        ("My throat is not sore.", []),
        ("The wound is healing.", []),
        ("He said she could. Not poop.", []),  # a sentence ends in "could. Not"
        ("My hip. Hurts.", []),
    ],
)
def test_another_wording_is_not_read_into_other_texts(component: ConceptMatcher, text: str, expected: list[tuple[str, str]]) -> None:
    assert looked_up(component, text) == expected


def test_a_denied_verb_with_been_is_not() -> None:
    component = ConceptMatcher(spacy.blank("en"))
    component.set_kb(Names([MatchableName("not sleeping at night", "T184", ("T184",), ("not sleeping at night",), is_lay=True)]))  # type: ignore[arg-type]
    for text in ("haven't been sleeping at night", "has not been sleeping at night", "wasn't sleeping at night"):
        assert looked_up(component, f"I {text}.") == [(text, "not sleeping at night")]


def test_another_language_has_no_other_wordings() -> None:
    assert looked_up(matcher("put my shoulder out", nlp=spacy.blank("de")), "put his shoulder out") == []


def test_wordings_come_once_and_say_what_is_new() -> None:
    assert list(wordings(["fever", "and", "cough"])) == []
    first, *_ = wordings(["could", "not", "lift", "her", "really", "heavy", "arm"])
    assert first == Wording({0: "can't", 3: "my"}, frozenset([1]), frozenset([4]), frozenset([0, 3, 4]))
    each = [wording.forms for wording in wordings(["couldn't", "lift", "her", "arm"])]
    assert each == [
        {0: "can't", 2: "my"},
        {2: "my"},  # "couldn't" stays
        {0: "cannot", 2: "my"},
        {0: "can't", 2: "his"},
        {0: "can't"},  # "her" stays
        {0: "can't", 2: "me"},
    ]


@pytest.mark.parametrize(
    ("word", "size", "expected"), [("her", 2, False), ("her", 3, True), ("the", 4, False), ("he", 4, False), ("was", 3, False), ("put", 2, True)]
)
def test_which_words_begin_a_name_in_another_wording(word: str, size: int, expected: bool) -> None:
    assert may_begin(word, size) is expected


@pytest.mark.parametrize("words", ["the", "could not", "keep shaking", "she really was not"])
def test_long_texts_take_little_time(component: ConceptMatcher, words: str) -> None:
    begun = time.process_time()
    component.predict([component.nlp.make_doc(f"{words} " * 20_000)])
    assert time.process_time() - begun < 5


def test_the_linker_links_what_the_matcher_finds(tmp_path: Path) -> None:
    table = tmp_path / "lay.tsv"
    rows = [
        "C1\tincontinence\tT184\t",
        "C1\tcan't hold my pee\tT184\tLAY",
        "C2\tbed wetting\tT184\t",
        "C2\twets himself\tT184\tLAY",
        "C3\tpain\tT184\t",
    ]
    table.write_text("\n".join(["concept_id\tname\ttypes\tterm_type", *rows]) + "\n", encoding="utf-8")
    build_linker([read_source(table)], tmp_path / "linker", progress=False)
    nlp = spacy.blank("en")
    nlp.add_pipe("concept_matcher")
    nlp.add_pipe("sapbert_linker", config={"linker_name": str(tmp_path / "linker")})
    doc = nlp("She couldn't hold her pee. I wet myself. He could not hold his pee. My pain could not be better.")
    assert [(ent.text, ent.kb_id_, ent._.kb_ents[0]) for ent in doc.ents] == [
        ("couldn't hold her pee", "C1", ("C1", 1.0)),
        ("wet myself", "C2", ("C2", 1.0)),
        ("could not hold his pee", "C1", ("C1", 1.0)),
        ("pain", "C3", ("C3", 1.0)),
    ]
