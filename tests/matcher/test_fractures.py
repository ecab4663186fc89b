"""The words "open" and "closed" belong to a fracture."""

from __future__ import annotations

import pytest
import spacy
from fake_names import Names

from spacy_sapbert.kb.knowledge_base import MatchableName
from spacy_sapbert.matcher.component import ConceptMatcher
from spacy_sapbert.matcher.fractures import with_kind_of_fracture
from spacy_sapbert.matcher.joining import Match


def extended(text: str, name: str, corrected: str | None = None) -> tuple[str, str | None]:
    """Return the text of a mention with the words before it, and what is looked up."""
    start = text.index(name)
    one = with_kind_of_fracture(Match(start, start + len(name), "DISO", corrected), text)
    return text[one.start : one.end], one.corrected


@pytest.mark.parametrize(
    ("text", "name", "mention"),
    [
        ("has an open ankle fracture", "ankle fracture", "open ankle fracture"),
        ("Closed left tibia fractures", "tibia fractures", "Closed left tibia fractures"),
        ("Open comminuted right tibia fx", "tibia fx", "Open comminuted right tibia fx"),
        ("compound  fracture", "fracture", "compound  fracture"),
    ],
)
def test_the_kind_of_fracture_is_a_part_of_the_mention(text: str, name: str, mention: str) -> None:
    assert extended(text, name) == (mention, name)


def test_a_corrected_name_is_still_looked_up() -> None:
    assert extended("open ankel fracture", "ankel fracture", "ankle fracture") == ("open ankel fracture", "ankle fracture")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Eyes open. Ankle fracture", "Ankle fracture"),
        ("open\nankle fracture", "ankle fracture"),
        ("open reduction of ankle fracture", "ankle fracture"),
        ("re-open ankle fracture", "ankle fracture"),
        ("open ankle wound", "ankle wound"),
        ("left ankle fracture", "ankle fracture"),
        ("open fractured", "fractured"),
    ],
)
def test_other_words_are_not(text: str, name: str) -> None:
    assert extended(text, name) == (name, None)


def test_nested_names_and_parts_stay_as_they_are() -> None:
    text = "open ankle fracture"
    for one in (Match(5, 19, "DISO", nested=True), Match(5, 19, "DISO", part=True)):
        assert with_kind_of_fracture(one, text) is one


@pytest.mark.parametrize(("language", "mention"), [("en", "open ankle fracture"), ("de", "ankle fracture")])
def test_the_matcher_adds_it_in_english(language: str, mention: str) -> None:
    nlp = spacy.blank(language)
    matcher = ConceptMatcher(nlp)
    matcher.set_kb(Names([MatchableName("ankle fracture", "T037")]))  # type: ignore[arg-type]
    (ent,) = matcher(nlp.make_doc("She has an open ankle fracture.")).ents
    assert ent.text == mention
