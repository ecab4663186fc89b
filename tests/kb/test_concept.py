from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_sapbert.kb.concept import Concept, Name, is_cui, lower_in_place, normalise, other_numbers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Heart  Failure ", "heart failure"),
        ("\tHeart\n failure\r\n", "heart failure"),
        ("ﬁbrosis", "fibrosis"),  # a ligature
        ("Ｔ２ＤＭ", "t2dm"),  # full-width letters
        ("CO₂ retention", "co2 retention"),
        ("µg", "μg"),  # micro sign and Greek mu
        ("non‑small‐cell – a—b − c", "non-small-cell - a-b - c"),
        ("Crohn’s ‘disease’ ´`", "crohn's 'disease' ''"),
        ("heart\u200bfail\u00adure\ufeff", "heartfailure"),  # zero-width space, soft hyphen, byte-order mark
        ("heart\u00a0failure", "heart failure"),  # no-break space
        ("heart\u2003\u3000failure", "heart failure"),  # em space, ideographic space
        ("a\x00b\x07c\x7f", "abc"),
        ("a\x1fb", "a b"),  # for Python, the unit separator is a space
        ("\u202eabc\u202c \u200fالسكري", "abc السكري"),  # direction marks are removed, Arabic stays
        ("fever 🤒", "fever 🤒"),
        ("🤒 👨‍⚕️", "🤒 👨⚕\ufe0f"),  # the joiner is invisible
        ("bad \ud83d half", "bad half"),
        ("\ue000private\uffff", "private"),
        ("ÄRZTE", "ärzte"),
        ("A\u0308rzte", "ärzte"),  # composed
        ("İ", "i̇"),
        ("--", "--"),
        ("", ""),
        (" \u200b\u200e\x00 ", ""),
    ],
)
def test_normalise(text: str, expected: str) -> None:
    assert normalise(text) == expected


@pytest.mark.parametrize(("text", "expected"), [("Mg/L ÄRZTE", "mg/l ärzte"), ("İ mG", "İ mg"), ("ΜΕΣ", "μεσ"), ("", "")])
def test_lower_case_in_place(text: str, expected: str) -> None:
    """Only İ has a lower case of two characters. Each letter is changed by itself, so the last letter of a Greek word becomes σ, not ς."""
    assert lower_in_place(text) == expected


@settings(deadline=None)
@given(st.text())
def test_lower_case_in_place_keeps_offsets(text: str) -> None:
    assert len(lower_in_place(text)) == len(text)


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("İki Yüzlü OMUR", "tr", "iki yüzlü omur"),
        ("KISA BOY", "tr", "kısa boy"),  # plain letters too
        ("KISA BOY", "en", "kisa boy"),
        ("I\u0307ki", "tr", "iki"),  # a dot that combines
        ("ＫＩＳＡ", "tr", "kısa"),  # full-width
        ("kısa İ", "az", "kısa i"),
        ("Fußschmerz", "de", "fußschmerz"),
        ("ＥＥＧ異常（軽度）", "ja", "eeg異常(軽度)"),
        ("ﾏﾙﾌｧﾝ症候群", "ja", "マルファン症候群"),  # half-width kana
    ],
)
def test_normalise_by_language(text: str, language: str, expected: str) -> None:
    assert normalise(text, language) == expected
    assert normalise(expected, language) == normalise(expected) == expected  # normalising again, with any language, changes nothing


def test_normalise_of_a_very_long_text() -> None:
    assert normalise("Ab–" * 50_000) == "ab-" * 50_000


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=20))
def test_normalise_leaves_one_line_that_sqlite_can_hold(text: str) -> None:
    norm = normalise(text)
    assert norm == " ".join(norm.split())
    assert norm.encode("utf-8").decode("utf-8") == norm
    assert not set(norm) & set("\u200b\u200d\ufeff\u00ad\x00\n\t")


@pytest.mark.parametrize("text", ["e\u200b\u0301", "İ̱", "C\u00ad\u0327"])
def test_normalise_composes_what_an_invisible_character_held_apart(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


def test_is_cui() -> None:
    assert is_cui("C0018801")
    for wrong in ("c0018801", "C001880", "C00188011", "C0018801 ", "C0018801\n", "HP:0001250", ""):
        assert not is_cui(wrong), wrong


def test_a_cui_has_ascii_digits() -> None:
    assert not is_cui("C٠٠١٨٨٠١")


def test_concepts_do_not_share_their_lists() -> None:
    first, second = Concept("X:1", "X"), Concept("X:2", "X")
    first.names.append(Name("a", "X"))
    assert second.names == []
    assert Name("a", "X") == ("a", "X", "en", "SY", 1)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=20), st.sampled_from(["", "en", "de", "tr", "az"]))
def test_normalising_twice_changes_nothing_more(text: str, language: str) -> None:
    assert normalise(normalise(text, language), language) == normalise(text, language)


def test_other_numbers_are_what_the_matcher_forgives() -> None:
    assert other_numbers("get dizzy") == ["get dizzys", "get dizzies"]
    assert other_numbers("x-rays") == ["x-ray", "x-rayss"]
    assert other_numbers("deep ulcer") == ["deep ulcers"]
    assert other_numbers("") == []
