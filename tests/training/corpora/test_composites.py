"""Composite mentions, each with its parts."""

from __future__ import annotations

import pytest

from training.corpora.composites import parts


@pytest.mark.parametrize(
    ("mention", "expected"),
    [
        ("breast and ovarian cancer", ["breast cancer", "ovarian cancer"]),
        ("breast and/or ovarian cancer", ["breast cancer", "ovarian cancer"]),
        ("breast, ovarian, or colon cancer", ["breast cancer", "ovarian cancer", "colon cancer"]),
        ("small cell and squamous lung cancer", ["small cell lung cancer", "squamous lung cancer"]),
        ("cancer of the breast and the ovary", ["cancer of breast", "cancer of ovary"]),
        ("hereditary breast/ovarian cancer", ["hereditary breast cancer", "hereditary ovarian cancer"]),
        ("c6/c7 deficiency", ["c6 deficiency", "c7 deficiency"]),
        ("anorexia nausea", ["anorexia", "nausea"]),
    ],
)
def test_shared_words_go_with_each_part(mention, expected):
    assert parts(mention, len(expected)) == expected


@pytest.mark.parametrize(
    ("mention", "count"),
    [("breast and ovarian cancer", 3), ("breast cancer", 1), ("hereditary breast cancer", 2), ("breast and/or ovarian cancer", 3)],
)
def test_none_where_no_rule_gives_so_many(mention, count):
    assert parts(mention, count) is None
