"""Which names are looked for, and under which label."""

from __future__ import annotations

from typing import Any

import fake_names
import pytest
from name_matchers import Names, found, matcher, written

from spacy_sapbert.context import sense_words
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.kb.knowledge_base import MatchableName


@pytest.mark.parametrize("name", ["a", "I", "x", "as", "the", "it was", "123", "a 1", "2 3", "to be", "s's", "wells", "hers", "…", "", "was 4"])
def test_names_that_are_no_names_are_ignored(name: str):
    assert len(matcher("fever", name)) == 1
    with pytest.raises(SapbertError, match="E103"):
        matcher(name)


def test_min_chars_and_long_names():
    assert found(matcher("ra", "fever", "ache"), "ra fever ache") == ["ra", "fever", "ache"]
    assert found(matcher("ra", "fever", "ache", min_chars=5), "ra fever ache") == ["fever"]
    long = " ".join(f"word{i}" for i in range(13))
    assert len(matcher("fever", long)) == 1
    assert found(matcher(long[:-7]), f"x {long}") == [long[:-7]]
    for wrong in (0, -3):
        with pytest.raises(SapbertError, match=r"E002.*min_chars"):
            matcher("fever", min_chars=wrong)


def test_one_word_with_a_sign_is_not_the_word_alone():
    assert found(matcher("HR+", "# clinic"), "HR+ cancer, HR 80, # clinic, clinic") == ["HR+", "# clinic"]


@pytest.mark.parametrize(
    ("label", "tui", "expected"),
    [("group", "T047", "DISO"), ("group", "T121", "CHEM"), ("group", None, "CONC"), ("type", "T047", "T047"), ("type", None, "UNKNOWN"), ("PROBLEM", "T047", "PROBLEM")],
)  # fmt: skip
def test_labels(label: str, tui: str | None, expected: str):
    component = matcher("fever", tui=tui, label=label)
    assert [e.label_ for e in component(component.nlp.make_doc("fever")).ents] == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CA 19-9 and CA-125", ["CA 19-9", "CA-125"]),
        ("Ca 19-9, ca-125", ["Ca 19-9", "ca-125"]),  # a hyphen
        ("ca 125 ml", []),
        ("her 2 children, HER-2", ["HER-2"]),
        ("at 11 pm, AT 11", []),  # an ordinary word
    ],
)
def test_markers_of_tumors_are_names_though_their_letters_are_a_word(text: str, expected: list[str]):
    component = written(("CA 19-9", "T059", ""), ("CA 125", "T059", ""), ("HER-2", "T059", ""), ("AT 11", "T121", ""), ("gout", "T047", ""))
    assert found(component, text) == expected


def test_letters_joined_with_a_sign():
    component = written(("G&S", "T059", ""), ("U&Es", "T059", ""), ("urea and electrolytes", "T059", ""))
    assert found(component, "G&S, U&Es, g&s") == ["G&S", "U&Es"]
    doc = component(component.nlp.make_doc("U/E sent"))
    assert [(ent.text, ent._.corrected_text) for ent in doc.ents] == [("U/E", "urea and electrolytes")]


def test_qualifiers_are_looked_for_when_asked_for():
    names = (("right", "T082", ""), ("mildly impaired", "T080", ""), ("impaired vision", "T033", ""))
    text = "Mildly impaired on the right; impaired vision."
    assert found(written(*names), text) == ["impaired vision"]
    assert found(written(*names, qualifiers=True), text) == ["Mildly impaired", "impaired vision"]  # "right" is a plain word
    assert found(written(*names, types=["T080"]), text)[:1] == ["Mildly impaired"]
    assert written(*names, types="T080").types == frozenset(["T080"])  # one type, not a list of four letters


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("QX of the brain, AIR in the brain", ["QX", "AIR"]),
        ("AS of the brain; as in the brain, As in the brain", ["AS"]),  # a stop word
        ("QX of the lung, AIR in the lung", []),
        ("qx of the brain, air in the brain", []),  # in capitals only
        ("QV of the brain; qv of the brain", ["QV"]),  # no name of the knowledge base, but the table knows its meaning
        ("QW of the brain", []),  # the knowledge base does not have the meaning
        ("levo, pro and MAP for the brain; LEVO, PRO and map for the brain", ["levo", "LEVO", "PRO"]),
        ("levo of the lung", []),
    ],
)
def test_plain_words_and_two_letters_count_with_support_of_the_context(text: str, expected: list[str], monkeypatch: pytest.MonkeyPatch):
    def row(concept: str, capitals: bool = False) -> Any:
        return [(sense_words.Hint(concept, "meaning", sense_words.NEAR), frozenset(["brain"]), capitals)]

    table = {
        "qx": row("C1"),
        "air": row("C1"),
        "as": row("C1"),
        "qv": row("C1"),
        "qw": row("C2"),
        "plaque": row("C1"),
        "levo": row("C1"),
        "pro": row("C1", True),
    }
    monkeypatch.setattr(sense_words, "_rows", lambda: table)
    sense_words.short_forms.cache_clear()
    try:
        assert sense_words.short_forms().keys() == {"qx", "air", "as", "qv", "qw", "levo", "pro"}  # "plaque" is no short form
        assert sense_words.short_forms()["pro"] == (("C1",), True)
        assert found(written(("QX", "T047", ""), ("AIR", "T047", ""), ("AS", "T047", ""), ("gout", "T047", "")), text) == expected
    finally:
        sense_words.short_forms.cache_clear()


def test_short_forms_are_added_in_one_order(monkeypatch: pytest.MonkeyPatch):
    forms = [f"q{letter}" for letter in "nbvcxzlkjhgfdsapoiuytrewqm"]
    monkeypatch.setattr(sense_words, "short_forms", lambda: {form: sense_words.ShortForm(("C1",), False) for form in forms})
    names = written(("gout", "T047", ""))._collector().hinted_names(Names(()))  # type: ignore[arg-type]
    assert [name.name for name in names] == sorted(forms)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I've got no get up and go.", ["no get up and go"]),
        ("I put my back out.", ["put my back out"]),
        ("He has no strength in his arm.", ["no strength"]),
        ("No fever.", ["fever"]),  # no lay name
        ("Now and again it was done in.", []),  # two words that say little
    ],
)
def test_lay_names_that_begin_with_no_or_hold_only_stop_words(text: str, expected: list[str]):
    lay = ["no get up and go", "put my back out", "no strength", "done in"]
    made = matcher("fever")
    made.set_kb(
        fake_names.Names(
            [
                *(MatchableName(name, "T184", ("T184",), (name,), is_lay=True) for name in lay),
                MatchableName("no fever", "T033"),
                MatchableName("fever", "T033"),
            ]
        )
    )  # type: ignore[arg-type]
    assert found(made, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("No concentration difficulties.", ["concentration"]),
        ("no coordination problems, gait steady", ["coordination"]),
        ("No strength deficits.", ["strength"]),
        ("No libido\nchanges.", ["libido"]),
        ("No strength\nLoss of taste", ["no strength", "taste"]),  # two lines of a list
        ("No coordination test weakness", ["coordination test weakness"]),  # a name that begins in it and goes beyond it
        ("She has no concentration.", ["no concentration"]),
        ("No strength, problems at home", ["no strength"]),
        ("There is no strength in the hand", ["no strength"]),
        ("no get up and go problems", []),
        ("no get up and go", ["no get up and go"]),
    ],
)
def test_a_lay_name_that_begins_with_no_gives_way_to_what_is_denied(text: str, expected: list[str]):
    lay = ["no get up and go", "no concentration", "no coordination", "no strength", "no libido"]
    others = ["concentration", "coordination", "strength", "libido", "taste", "coordination test weakness"]
    made = matcher("fever")
    made.set_kb(
        fake_names.Names(
            [
                *(MatchableName(name, "T184", ("T184",), (name,), is_lay=True) for name in lay),
                *(MatchableName(name, "T033") for name in others),
            ]
        )
    )  # type: ignore[arg-type]
    assert [each.lower() for each in found(made, text)] == expected
