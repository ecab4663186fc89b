"""Short forms of scores and tests before their value."""

from __future__ import annotations

import pytest
from name_matchers import written

from spacy_sapbert.context.sense_words import sole_meanings
from spacy_sapbert.matcher.valued import valued


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FIM 58.", [("FIM", "Functional Independence Measure")]),
        ("FIM: 58/126, TUG 38 s", [("FIM", "Functional Independence Measure"), ("TUG", "timed up and go test")]),
        ("FIM 2019, FIM 58 mg, fim 58, FIM low, XFIM 58", []),  # a year, a dose
        ("MRC 4/5, MRC 3", []),  # strength of muscles, too
        ("IDT 3 pm, TMT 2", []),  # a meeting, a joint
        ("MUST 2", []),  # a plain word
        ("BM 4.8", [("BM", "blood glucose")]),
        ("BM x2, BM 3 days ago, BM 1.", []),
    ],
)
def test_scores_before_their_value(text: str, expected: list[tuple[str, str]]):
    assert [(text[one.start : one.end], one.name) for one in valued(text)] == expected


def test_a_score_before_its_value_is_a_mention():
    component = written(("Functional Independence Measure", "T060", ""), ("blood glucose", "T059", ""), ("ileum", "T023", ""))
    doc = component(component.nlp.make_doc("FIM 58, BM 4.8; FIM low, BMs"))
    assert [(ent.text, ent._.corrected_text) for ent in doc.ents] == [
        ("FIM", "Functional Independence Measure"),
        ("BM", "blood glucose"),
    ]


def test_abbreviations_with_one_meaning():
    meanings = sole_meanings()
    assert meanings["fim"] == "Functional Independence Measure"
    assert "bm" not in meanings
