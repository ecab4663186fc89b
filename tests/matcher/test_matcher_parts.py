"""Names whose words do not stand together."""

from __future__ import annotations

import time

import pytest

from spacy_sapbert.matcher.parts import parts_of


def names(text: str) -> set[str]:
    words = text.split()
    return {" ".join(words[i] for i in part.words) for part in parts_of(words, [True] * len(words))}


@pytest.mark.parametrize(
    "text",
    [
        "neck and back pain",
        "swelling of hands , feet and face",
        "webbing of the left neck",
        "oa r knee",
        "liver and spleen were not very enlarged",
        "lung , wedge biopsy",
    ],
)
def test_parts_that_begin_with_some_words(text: str) -> None:
    words = text.split()
    every = list(parts_of(words, [True] * len(words)))
    for place in range(len(words)):
        begins = [at == place for at in range(len(words))]
        assert list(parts_of(words, begins)) == [part for part in every if part.words[0] == place]
    assert every
    assert list(parts_of(words, [False] * len(words))) == []


@pytest.mark.parametrize("joins", ["and", ", and", "and or", ", and or"])
def test_several_conjunctions_join_two_items(joins: str) -> None:
    assert "neck pain" in names(f"neck {joins} back pain")


def test_a_row_of_conjunctions_joins_nothing() -> None:
    assert names("neck " + "and or " * 10 + "back pain") == set()


@pytest.mark.parametrize("whose", ["my", "your", "our", "her"])
def test_words_for_whose_a_part_of_the_body_is(whose: str) -> None:
    assert {"blood in urine", "urine blood"} <= names(f"blood in {whose} urine")


@pytest.mark.parametrize("words", ["or", "and", "or ,", "a and or"])
def test_many_conjunctions_take_little_time(words: str) -> None:
    many = words.split() * 20_000
    begun = time.process_time()
    assert len(list(parts_of(many, [True] * len(many)))) < len(many) * 20
    assert time.process_time() - begun < 5  # it was minutes


@pytest.mark.parametrize(
    "text",
    [
        *(
            "eyes have gone red",
            "eyes has gone red",
            "eyes went red",
            "eyes keep going red",
            "eyes are getting red",
            "eyes looked red",
            "eyes feel red",
        ),
        *("eyes have been red", "eyes are all red", "eyes are really red", "eyes are still red", "eyes are a bit red", "eyes have gone a little red"),
    ],
)
def test_a_verb_and_degrees_between_a_part_of_the_body_and_its_state(text: str) -> None:
    assert {" ".join(text.split()[i] for i in part.words) for part in parts_of(text.split(), [True] * 9) if part.whole} >= {"red eyes"}


@pytest.mark.parametrize("text", ["eyes all red", "eyes a bit red", "eyes have red", "eyes seem to be a red"])
def test_degrees_are_passed_only_after_a_verb(text: str) -> None:
    assert "red eyes" not in names(text)
