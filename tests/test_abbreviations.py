"""Initialisms that a text defines: what is found, and what is left alone."""

from __future__ import annotations

from typing import Dict

import pytest

from spacy_sapbert.abbreviations import initialisms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Myotonic dystrophy (DM) is common.", {"DM": "Myotonic dystrophy"}),  # two letters, the other way round
        ("the disorder ataxia-telangiectasia (A-T), then", {"A-T": "ataxia-telangiectasia"}),
        ("a deficiency of glucose-6-phosphate dehydrogenase (G6PD)", {"G6PD": "glucose-6-phosphate dehydrogenase"}),
        ("a variable number of tandem repeat (VNTR; see below)", {"VNTR": "variable number of tandem repeat"}),
        ("cleft lip/palate (CL/P)", {"CL/P": "cleft lip/palate"}),
        ("history of the degeneration of cornea (DC)", {"DC": "degeneration of cornea"}),  # a small word needs no letter
        ("Wilson's disease (WD)", {"WD": "Wilson's disease"}),
        ("Huntington disease (HD) and heart disease (HD)", {"HD": "Huntington disease"}),  # the first definition counts
    ],
)
def test_found(text: str, expected: Dict[str, str]) -> None:
    assert initialisms(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "five minutes either by hemorrhage (HEM)",  # a word without a letter, letters without a word
        "dystrophy of the eye, myotonic (EDM)",  # three letters in another order
        "This was myotonic. Dystrophy (MD)",  # not over the end of a sentence
        "(seen before) dystrophy (SD)",
        "renal failure (grade 2)",
        "renal failure (see)",  # no capitals
        "failure (F)",
        "(AB)",
        "",
        "a very long bracket (ABCDEFGHIJKLMNOPQ)",
    ],
)
def test_left_alone(text: str) -> None:
    assert initialisms(text) == {}
