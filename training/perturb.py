"""Names written as notes write them: other word order, punctuation, number, a slip of the finger. No models, no data."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Dict

from .errors import fail
from .registry import registry

Perturb = Callable[[str, str], str]
MIN_CHARS = 7  # shorter names become others by a slip


def reorder(name: str, chance: random.Random) -> str:
    """Words in random order: "diabetes mellitus, type 2" is written "type 2 diabetes mellitus"."""
    words = name.split()
    chance.shuffle(words)
    return " ".join(words)


def unpunctuate(name: str, chance: random.Random) -> str:
    """Without commas and brackets, hyphens and slashes as spaces."""
    return " ".join(name.translate(_PUNCTUATION).split()) or name


def renumber(name: str, chance: random.Random) -> str:
    """The last word in the plural, or out of it."""
    return name[:-1] if name.endswith("s") and len(name) > 1 else name + "s"


def slip(name: str, chance: random.Random) -> str:
    """Two letters inside the name changed over."""
    if len(name) < MIN_CHARS:
        return name
    at = chance.randrange(1, len(name) - 2)
    return name[:at] + name[at + 1] + name[at] + name[at + 2 :]


def respell(name: str, chance: random.Random) -> str:
    """American spelling for British, and the other way round: "hematuria" is written "haematuria". The name itself where there is but one."""
    return _SPELT.sub(lambda found: _OTHER[found[0]], name)


_BRITISH = (  # and American; none is part of a word with another root ("hemi" would be, of "hemiplegia")
    *("haemat hemat", "haemo hemo", "haemangi hemangi", "schaemi schemi", "leukaemi leukemi", "naemia nemia", "naemic nemic", "caemia cemia"),
    *(
        "caemic cemic",
        "laemia lemia",
        "laemic lemic",
        "raemia remia",
        "raemic remic",
        "saemia semia",
        "thaemia themia",
        "oedema edema",
        "oesoph esoph",
    ),
    *("oestrogen estrogen", "oestrad estrad", "rrhoea rrhea", "pnoea pnea", "foetal fetal", "foetus fetus", "homoeo homeo", "paediatr pediatr"),
    *(
        "orthopaed orthoped",
        "anaesth anesth",
        "caecum cecum",
        "caecal cecal",
        "faecal fecal",
        "gynaec gynec",
        "leucocyt leukocyt",
        "leucopen leukopen",
    ),
    *("tumour tumor", "behaviour behavior", "fibre fiber", "sulph sulf", "isation ization", "caesar cesar"),
)
_OTHER: Dict[str, str] = {}
for _pair in _BRITISH:
    _there, _here = _pair.split()
    _OTHER.update({_there: _here, _here: _there})
_SPELT = re.compile("|".join(sorted(_OTHER, key=len, reverse=True)))
_PUNCTUATION = str.maketrans({**dict.fromkeys(",;:()[]", ""), **dict.fromkeys("-/", " ")})
KINDS: Dict[str, Callable[[str, random.Random], str]] = {"reorder": reorder, "unpunctuate": unpunctuate, "renumber": renumber, "slip": slip}


@registry.perturbations("spacy-sapbert.Perturb.v1")
def perturb(share: float = 0.3, spelling: float = 0.0) -> Perturb:
    """A function (name, what else decides) -> name that changes names as follows.

    share (float): of the names, each in one of four ways (`KINDS`), equally often. spelling (float): of the names that have an American and a
    British spelling, those that take the other.

    The same name beside the same partner is always changed in the same way, whatever was drawn before: a resumed training goes on exactly.
    RAISES: SapbertError E511.
    """
    for setting, value in (("share", share), ("spelling", spelling)):
        if not 0 <= value <= 1:
            raise fail("E511", setting=f"perturb.{setting}", value=value, why="it is a share of the names, from 0 to 1")
    kinds = list(KINDS.values())

    def change(name: str, salt: str) -> str:
        chance = random.Random(f"{salt}\t{name}")
        if chance.random() < share:
            name = chance.choice(kinds)(name, chance)
        return respell(name, chance) if chance.random() < spelling else name

    return change
