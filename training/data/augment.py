"""Names written as notes write them: other word order, punctuation, number, a slip of the finger. No models, no data."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Dict

from ..errors import fail
from ..registry import registry

Augment = Callable[[str, str], str]
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


def respell(name: str) -> str:
    """American spelling for British, and the other way round: "hematuria" is written "haematuria". The name itself where there is but one."""
    return _SPELT.sub(lambda found: _OTHER[found[0]], name)


def modify(name: str, chance: random.Random) -> str:
    """With words before it that notes add and that change no concept: "suspected pneumonia", "stage iii breast cancer"."""
    return f"{chance.choice(MODIFIERS)} {name}"


# None that tells concepts apart: no side, severity, onset, inheritance or acuteness
MODIFIERS = (
    *("advanced", "confirmed", "diagnosis of", "evidence of", "fatal", "grade 1", "grade 2", "history of", "known", "longstanding", "marked"),
    *("possible", "probable", "signs of", "significant", "sporadic", "stage i", "stage ii", "stage iii", "suspected"),
    *("symptoms of", "typical", "underlying", "unexplained", "worsening"),
)
# British and American. At the beginning of a word only: "chemotherapy" has not to do with blood
_STARTS = """haemat hemat haemo hemo haemangi hemangi leukaemi leukemi oedema edema oesoph esoph oestrogen estrogen oestrad estrad paediatr pediatr
orthopaed orthoped anaesth anesth caecum cecum caecal cecal faecal fecal foetal fetal foetus fetus gynaec gynec homoeopath homeopath homoeosta homeosta
leucocyt leukocyt leucopen leukopen behaviour behavior sulph sulf caesar cesar"""
_ANYWHERE = """schaemi schemi naemia nemia naemic nemic caemia cemia caemic cemic kalaemi kalemi volaemi volemi raemia remia raemic remic
thalassaemi thalassemi cythaemi cythemi lymphoedema lymphedema rrhoea rrhea pnoea pnea isation ization"""
_WORDS = "tumour tumor fibre fiber"  # and their plurals


def _either(pairs: str) -> str:
    return "|".join(sorted(pairs.split(), key=len, reverse=True))


def _both_ways(pairs: str) -> Dict[str, str]:
    british, american = pairs.split()[::2], pairs.split()[1::2]
    return {**dict(zip(british, american)), **dict(zip(american, british))}


_OTHER = _both_ways(f"{_STARTS} {_ANYWHERE} {_WORDS}")
_SPELT = re.compile(rf"\b(?:{_either(_STARTS)})|{_either(_ANYWHERE)}|\b(?:{_either(_WORDS)})(?=s?\b)")
_PUNCTUATION = str.maketrans({**dict.fromkeys(",;:()[]", ""), **dict.fromkeys("-/", " ")})
KINDS: Dict[str, Callable[[str, random.Random], str]] = {"reorder": reorder, "unpunctuate": unpunctuate, "renumber": renumber, "slip": slip}


@registry.augmenters("spacy-sapbert.Augment.v1")
def augment(share: float = 0.3, spelling: float = 0.0, modifiers: float = 0.0) -> Augment:
    """A function (name, what else decides) -> name that changes names as follows.

    share (float): of the names, each in one of four ways (`KINDS`), equally often. spelling (float): of the names that have an American and a
    British spelling, those that take the other. modifiers (float): of the names, with words before them (`modify`).

    The same name beside the same partner is always changed in the same way, whatever was drawn before: a resumed training goes on exactly.
    RAISES: SapbertError E511.
    """
    for setting, value in (("share", share), ("spelling", spelling), ("modifiers", modifiers)):
        if not 0 <= value <= 1:
            raise fail("E511", setting=f"augment.{setting}", value=value, why="it is a share of the names, from 0 to 1")
    kinds = list(KINDS.values())

    def change(name: str, salt: str) -> str:
        chance = random.Random(f"{salt}\t{name}")
        if chance.random() < share:
            name = chance.choice(kinds)(name, chance)
        name = respell(name) if chance.random() < spelling else name
        return modify(name, chance) if chance.random() < modifiers else name

    return change
