"""Plain words that are findings only with certain words around them."""

from __future__ import annotations

import pytest
from name_matchers import found, written

STATES = (("awake", "T033", ""), ("alert", "T033", ""), ("alert and oriented", "T033", ""))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("General: awake, alert and in no distress.", ["awake", "alert"]),
        ("NEUROLOGIC: Awake, alert, oriented.", ["Awake", "alert"]),
        ("GENERAL: Alert.", ["Alert"]),
        ("The patient is awake and alert.", ["awake", "alert"]),
        ("an awake, cooperative man", ["awake"]),
        ("She remains fully awake.", ["awake"]),
        ("She is alert and oriented.", ["alert and oriented"]),
        ("An alert was sent. Please alert the family. He is alert to danger.", []),
        ("She was awake at night. An awake craniotomy. He lay awake.", []),
    ],
)
def test_states_of_consciousness(text: str, expected: list[str]):
    assert found(written(*STATES), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tolerated it well with no immediate complications.", ["complications"]),
        ("There were no complications. Done without complication.", ["complications", "complication"]),
        ("no known or apparent complications, any complications", ["complications", "complications"]),
        ("COMPLICATIONS: None.", ["COMPLICATIONS"]),
        ("POSTOPERATIVE COMPLICATIONS:  , None.", ["COMPLICATIONS"]),
        ("COMPLICATIONS: There were no complications.", ["complications"]),
        ("COMPLICATIONS: Bleeding.", []),
        ("COMPLICATIONS: , No intraoperative complications.", ["complications"]),
        ("COMPLICATIONS: No.", ["COMPLICATIONS"]),
        ("no complicating factors", []),
        ("COMPLICATIONS: No complications.", ["complications"]),
        ("The complications of diabetes were explained. Several complications.", []),
    ],
)
def test_complications_that_did_not_occur(text: str, expected: list[str]):
    assert found(written(("complications", "T046", "")), text) == expected


def test_these_words_are_no_items_of_other_names():
    assert found(written(("alert", "T033", ""), ("Alert", "T121", "")), "an alert") == []
    assert found(written(("complications", "T046", ""), ("complications of diabetes", "T047", "")), "complications of diabetes") == [
        "complications of diabetes"
    ]


def test_an_item_before_without_shares_no_head():
    component = written(("complications", "T046", ""), ("anesthesia complications", "T046", ""), ("anesthesia", "T061", ""), all_key="all")
    doc = component(component.nlp.make_doc("tolerated anesthesia and surgery without complications"))
    assert [span.text for span in doc.spans["all"]] == ["anesthesia", "complications"]
