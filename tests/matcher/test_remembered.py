"""The answers of a function are remembered for a bounded number of questions."""

from __future__ import annotations

import copy
import pickle

import pytest

from spacy_sapbert.matcher.remembered import Remembered


def asking(size: int) -> tuple[Remembered[str, int], list[str]]:
    """Return the lengths of words, and the words that the function was asked for."""
    asked: list[str] = []

    def length(word: str) -> int:
        asked.append(word)
        return len(word)

    return Remembered(length, size), asked


def test_a_question_is_asked_once() -> None:
    lengths, asked = asking(2)
    assert [lengths[word] for word in ("gout", "fever", "gout", "fever")] == [4, 5, 4, 5]
    assert asked == ["gout", "fever"]


def test_when_it_is_full_it_forgets_everything() -> None:
    lengths, asked = asking(2)
    assert [lengths[word] for word in ("gout", "fever", "flu", "gout")] == [4, 5, 3, 4]
    assert asked == ["gout", "fever", "flu", "gout"]
    assert dict(lengths) == {"flu": 3, "gout": 4}


def test_with_size_0_nothing_is_remembered() -> None:
    lengths, asked = asking(0)
    assert [lengths[word] for word in ("gout", "gout")] == [4, 4]
    assert asked == ["gout", "gout"]
    assert dict(lengths) == {}


@pytest.mark.parametrize("copied", [lambda one: pickle.loads(pickle.dumps(one)), copy.copy, copy.deepcopy])
def test_a_copy_has_remembered_nothing(copied: object) -> None:
    lengths: Remembered[str, int] = Remembered(len, 2)
    assert lengths["gout"] == 4
    made = copied(lengths)  # type: ignore[operator]
    assert (type(made), dict(made), made.size) == (Remembered, {}, 2)
    assert made["fever"] == 5
