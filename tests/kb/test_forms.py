from __future__ import annotations

import pytest

from spacy_sapbert.kb.forms import inner_plurals, nouns, singulars


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("deep vein thromboses", ["deep vein thrombosis"]),
        ("lipomata", ["lipoma"]),
        ("stigmata", ["stigma"]),
        ("anal fistulae", ["anal fistula"]),
        ("cortices", ["cortix", "cortex"]),
        ("phalanges", ["phalanx"]),
        ("liver metastases", ["liver metastasis"]),
        ("septic emboli", ["septic embolus"]),
        ("nasal septa", ["nasal septum", "nasal septon"]),
        ("streptococcus pneumoniae", []),  # the name of a species, not a plural
        ("haemophilus influenzae", []),
        ("cola", ["colum"]),  # no colon
        ("ganglia", ["ganglium", "ganglion"]),
        ("pain", []),
        ("ae", []),  # nothing is left before the ending
        ("", []),
    ],
)
def test_singulars_of_latin_and_greek_plurals(name: str, expected: list[str]) -> None:
    assert singulars(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hypovolemic", ["hypovolemia"]),
        ("hypovolaemic", ["hypovolaemia"]),
        ("dyskinetic", ["dyskinesia", "dyskinesis"]),
        ("osteoporotic", ["osteoporosis"]),
        ("hydrocephalic", ["hydrocephaly", "hydrocephalus"]),
        ("edematous", ["edema"]),
        ("hepatotoxic", ["hepatotoxicity"]),
        ("lytic", []),  # too short
        ("severely hypovolemic", []),  # more than one word
        ("renal", []),
        ("", []),
    ],
)
def test_nouns_of_adjectives(name: str, expected: list[str]) -> None:
    assert nouns(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("wet himself", ["wets himself"]),
        ("heart skip beats", ["hearts skip beats", "heart skips beats"]),
        ("cry all night", ["cries all night", "cry alls night"]),
        ("play up", ["plays up"]),
        ("wake up gasp for air", ["wakes up gasp for air"]),  # only the first two words
        ("clench teeth", ["clenches teeth"]),
        ("go off", []),  # a word of two letters
        ("lungs x-ray", []),
        ("pain", []),
        ("a very long name of seven words", []),
        ("", []),
    ],
)
def test_inner_words_of_a_name_in_the_form_of_a_verb(name: str, expected: list[str]) -> None:
    assert inner_plurals(name) == expected
