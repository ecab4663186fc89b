"""Levels of the spine: nerve roots, and sacral segments."""

from __future__ import annotations

import pytest
from name_matchers import matcher

from spacy_sapbert.matcher.levels import levels


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("R L5 root contacted.", [("L5 root", "L5 nerve root"), ("L5 root", "spinal nerve root")]),
        ("the left S1 nerve roots", [("S1 nerve roots", "S1 nerve root"), ("S1 nerve roots", "spinal nerve root")]),
        ("C6 root exits", [("C6 root", "C6 nerve root"), ("C6 root", "spinal nerve root")]),
        ("L5 root block, L4 nerve root compression, L5 fracture, root L5", []),
        ("Tarlov cyst at S2.", [("S2", "S2 vertebra")]),
        ("Incidental perineural cyst S3.", [("S3", "S3 vertebra")]),
        ("S2 cyst on MRI", [("S2", "S2 vertebra")]),
        ("S1 S2 normal, cyst. S2 heard", []),
        ("cyst at S25", []),
    ],
)
def test_what_a_level_stands_for(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(text[one.start : one.end], one.name) for one in levels(text)] == expected


def test_a_root_is_its_own_name_or_else_any_root() -> None:
    text = "L5 root contacted, S2 cyst"
    for names, made in (
        (("spinal nerve root", "L5", "S2"), ["spinal nerve root"]),
        (("spinal nerve root", "L5 nerve root", "L5", "S2"), ["L5 nerve root"]),
        (("L5", "S2 vertebra"), ["S2 vertebra"]),
    ):
        component = matcher(*names, all_key="all")
        doc = component(component.nlp.make_doc(text))
        assert [span._.corrected_text for span in doc.spans["all"] if span._.corrected_text] == made
