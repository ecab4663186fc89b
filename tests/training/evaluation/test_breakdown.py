"""Groups of mentions, and reasons for a wrong first candidate, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from training.corpora.mention import GoldMention
from training.evaluation.breakdown import DictionaryView, WrongFirst, by_group, confusions, groupings, why

NAMES = {
    0: ["wilson disease", "hepatolenticular degeneration"],
    1: ["cancer"],
    2: ["cancer", "malignant tumour"],
    3: ["breast cancer"],
    4: ["zebra"],
    5: ["mamma", "breast"],
}
KNOWN = DictionaryView(lambda label: (f"ID:{label}", NAMES[label][0].title()), lambda label: NAMES[label])


def mention(text, *gold):
    return GoldMention("d", 0, len(text), text, gold or (("A",),))


def test_groupings():
    mentions = [mention("WD"), mention("Wilson  disease"), mention("a rare and odd ill"), mention("Breast Cancer of men")]
    queries = [["wilson disease"], ["wilson disease"], ["a rare ill", "odd ill"], ["breast cancer of men"]]
    found = groupings(mentions, queries, {"wilson disease", "odd ill"}, {"wilson disease", "wd"})
    assert found == {
        "exact": ["exact", "exact", "inexact", "inexact"],
        "seen": ["seen", "seen", "unseen", "unseen"],
        "abbreviation": ["abbreviation", "other", "other", "other"],
        "length": ["1", "2", "4+", "4+"],
    }
    assert "seen" not in groupings(mentions, queries, set())


def test_kinds_of_a_corpus_that_has_them():
    mentions = [GoldMention("d", 0, 1, "x", (), "Disease"), GoldMention("d", 0, 1, "y", (), "")]
    assert groupings(mentions, [["x"], ["y"]], set())["kind"] == ["Disease", "none"]


def test_figures_by_group():
    groups = {"length": ["2", "1", "2"], "exact": ["exact"] * 3}
    assert by_group(groups, np.array([1.0, 0.0, 0.5]), np.array([1.0, 0.0, 1.0])) == {
        "length": {"1": {"n": 1, "at1": 0.0, "at5": 0.0}, "2": {"n": 2, "at1": 75.0, "at5": 100.0}},
        "exact": {"exact": {"n": 3, "at1": 50.0, "at5": pytest.approx(200 / 3)}},
    }


@pytest.mark.parametrize(
    ("text", "gold", "wanted", "can", "first", "reason"),
    [
        ("ill", [("A",)], [], False, WrongFirst(1, 0.9, "ill", False), "no gold id in the dictionary"),
        ("cancer", [("A",)], [1], True, WrongFirst(2, 1.0, "cancer", True), "same name, several concepts"),
        ("cancer", [("A",)], [4], True, WrongFirst(2, 1.0, "cancer", True), "other"),  # equal scores, but no common name
        ("WD", [("A",)], [0], True, WrongFirst(4, 0.5, "wd", False), "abbreviation not resolved"),
        ("WD", [("A",)], [0], True, WrongFirst(4, 0.5, "wilson disease", False), "other"),  # the abbreviation was resolved
        ("a and b", [("A", "B")], [0, 4], True, WrongFirst(1, 0.5, "a and b", False), "composite"),
        ("cancer of breast", [("A",)], [3], True, WrongFirst(1, 0.5, "cancer of breast", False), "broader or narrower"),
        ("tumour", [("A",)], [1], True, WrongFirst(3, 0.5, "tumour", False), "broader or narrower"),  # cancer, breast cancer
        ("Cancer", [("A",)], [4], True, WrongFirst(3, 0.5, "cancer", False), "broader or narrower"),  # compared with the text that was looked up
        ("growth", [("A",)], [3], True, WrongFirst(5, 0.5, "growth", False), "other"),  # "breast" is not the main name of label 5
        ("tumour", [("A",)], [0], True, WrongFirst(4, 0.5, "tumour", False), "other"),
    ],
)
def test_why(text, gold, wanted, can, first, reason):
    assert why(mention(text, *gold), frozenset(wanted), can, first, KNOWN) == reason


def test_confusions_are_counted_and_the_most_frequent_come_first():
    mentions = [mention("Tumour", ("A",), ("B",)), mention("zebras"), mention("tumour", ("A",), ("B",)), mention("right"), mention("tumour")]
    firsts = [
        WrongFirst(3, 0.75, "tumour", False),
        WrongFirst(0, 0.123456, "zebras", False),
        WrongFirst(3, 0.75, "tumour", False),
        None,
        WrongFirst(3, 0.75, "tumour", False),
    ]
    wanted = [frozenset({1, 2}), frozenset(), frozenset({1, 2}), frozenset({4}), frozenset({1})]
    found = confusions(mentions, wanted, [True, False, True, True, True], firsts, KNOWN)
    assert [(one["mention"], one["count"]) for one in found] == [("Tumour", 2), ("tumour", 1), ("zebras", 1)]
    assert found[0] == {
        "mention": "Tumour",
        "gold": ["A", "B"],
        "gold_names": ["Cancer"],  # the two concepts have the same name
        "predicted": "ID:3",
        "predicted_name": "Breast Cancer",
        "score": 0.75,
        "count": 2,
        "why": "broader or narrower",
    }
    assert (found[2]["gold_names"], found[2]["score"], found[2]["why"]) == ([], 0.1235, "no gold id in the dictionary")


def test_no_more_than_thirty_confusions():
    mentions = [mention(f"m{i}") for i in range(50)] + [mention("m49")]
    found = confusions(mentions, [frozenset()] * 51, [False] * 51, [WrongFirst(0, 0.5, "q", False)] * 51, KNOWN)
    assert len(found) == 30
    assert (found[0]["mention"], found[0]["count"]) == ("m49", 2)
