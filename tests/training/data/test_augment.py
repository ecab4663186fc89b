"""Augmented names: each change by hand, the shares, and draws that do not depend on earlier draws."""

from __future__ import annotations

import random

import pytest

from spacy_sapbert.errors import SapbertError
from training.data.augment import MODIFIERS, augment, modify, renumber, reorder, respell, slip, unpunctuate

NAMES = [f"disorder of thing number {i}" for i in range(400)]


def test_each_way() -> None:
    chance = random.Random(0)
    assert sorted(reorder("diabetes mellitus, type 2", chance).split()) == ["2", "diabetes", "mellitus,", "type"]
    assert unpunctuate("ataxia-telangiectasia, (classic)", chance) == "ataxia telangiectasia classic"
    assert unpunctuate("(-)", chance) == "(-)"  # never an empty name
    assert (renumber("tumor", chance), renumber("tumors", chance), renumber("s", chance)) == ("tumors", "tumor", "ss")
    changed = slip("myopathy", chance)
    assert changed != "myopathy"
    assert sorted(changed) == sorted("myopathy")
    assert (changed[0], changed[-1]) == ("m", "y")
    assert slip("ms", chance) == "ms"


@pytest.mark.parametrize(
    ("american", "british"),
    [
        ("hematuria", "haematuria"),
        ("ischemic anemia", "ischaemic anaemia"),
        ("esophageal edema", "oesophageal oedema"),
        ("leukemia, tumor of the fetus", "leukaemia, tumour of the foetus"),
        ("diarrhea and dyspnea", "diarrhoea and dyspnoea"),
    ],
)
def test_spelling(american: str, british: str) -> None:
    assert (respell(american), respell(british)) == (british, american)
    assert augment(0.0, spelling=1.0)(american, "salt") == british
    assert augment(0.0, spelling=0.0)(american, "salt") == american


@pytest.mark.parametrize(
    "name",
    [
        *("hemiplegia", "colorectal cancer", "biochemical abnormality", "restrictive lung disease", "imaging", "academic", "polemic", "systemic"),
        *("gastroesophageal reflux", "angioedema", "chemotherapy", "mathematics disorder", "phytoestrogen", "homeobox", "tumorigenesis"),
    ],
)
def test_words_of_one_spelling_stay(name: str) -> None:
    assert respell(name) == name


def test_modifiers_come_before() -> None:
    changed = {modify("pneumonia", random.Random(seed)) for seed in range(200)}
    assert "suspected pneumonia" in changed
    assert changed <= {f"{words} pneumonia" for words in MODIFIERS}
    kept = augment(0.0, modifiers=0.25)
    assert 60 < sum(kept(name, "salt") != name for name in NAMES) < 140  # 0.25 of 400 is 100
    assert all(kept(name, "salt").endswith(name) for name in NAMES)


def test_share() -> None:
    changed = sum(augment(0.3)(name, "salt") != name for name in NAMES)
    assert 60 < changed < 140  # 0.3 of 400 is 120; removing punctuation does not change these names
    assert all(augment(0.0)(name, "salt") == name for name in NAMES)


def test_the_same_name_and_salt_give_the_same() -> None:
    change = augment(1.0)
    forward = [change(name, "a") for name in NAMES]
    backward = [change(name, "a") for name in reversed(NAMES)][::-1]
    assert forward == backward != [change(name, "b") for name in NAMES]


def test_a_share_that_is_none() -> None:
    with pytest.raises(SapbertError, match=r"augment\.share") as error:
        augment(1.5)
    assert error.value.code == "E511"
    with pytest.raises(SapbertError, match=r"augment\.spelling"):
        augment(0.3, spelling=-1)
    with pytest.raises(SapbertError, match=r"augment\.modifiers"):
        augment(0.3, modifiers=2)
