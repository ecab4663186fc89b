"""Change names the way that clinical notes change them: word order, punctuation, plural, typing errors. Needs no model and no data."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from ..errors import fail
from ..registry import registry

Augment = Callable[[str, str], str]  # (name, salt) -> changed name
MIN_CHARS = 7  # in a shorter name, two swapped letters may make another word


def reorder(name: str, chance: random.Random) -> str:
    """Put the words in random order: "diabetes mellitus, type 2" becomes "type 2 diabetes mellitus,"."""
    words = name.split()
    chance.shuffle(words)
    return " ".join(words)


def unpunctuate(name: str, chance: random.Random) -> str:
    """Remove commas, colons and brackets; turn hyphens and slashes into spaces."""
    return " ".join(name.translate(_PUNCTUATION).split()) or name


def renumber(name: str, chance: random.Random) -> str:
    """Add an "s" to the end of the name, or remove it."""
    return name[:-1] if name.endswith("s") and len(name) > 1 else name + "s"


def slip(name: str, chance: random.Random) -> str:
    """Swap two neighbouring letters inside the name; a name of fewer than `MIN_CHARS` characters stays as it is."""
    if len(name) < MIN_CHARS:
        return name
    at = chance.randrange(1, len(name) - 2)
    return name[:at] + name[at + 1] + name[at] + name[at + 2 :]


def respell(name: str) -> str:
    """Change British to American spelling and American to British: "hematuria" becomes "haematuria".

    A name that has only one spelling stays as it is.
    """
    return _SPELT.sub(lambda found: _OTHER[found[0]], name)


def modify(name: str, chance: random.Random) -> str:
    """Add words before the name that notes use and that do not change the concept: "suspected pneumonia"."""
    return f"{chance.choice(MODIFIERS)} {name}"


# No words that distinguish concepts, such as side, severity, onset, inheritance or acuteness
MODIFIERS = (
    *("advanced", "confirmed", "diagnosis of", "evidence of", "fatal", "grade 1", "grade 2", "history of", "known", "longstanding", "marked"),
    *("possible", "probable", "signs of", "significant", "sporadic", "stage i", "stage ii", "stage iii", "suspected"),
    *("symptoms of", "typical", "underlying", "unexplained", "worsening"),
)
# Pairs of British and American spelling. _STARTS only at the beginning of a word: the "hemo" of "chemotherapy" does not mean blood
_STARTS = """haemat hemat haemo hemo haemangi hemangi leukaemi leukemi oedema edema oesoph esoph oestrogen estrogen oestrad estrad paediatr pediatr
orthopaed orthoped anaesth anesth caecum cecum caecal cecal faecal fecal foetal fetal foetus fetus gynaec gynec homoeopath homeopath homoeosta homeosta
leucocyt leukocyt leucopen leukopen behaviour behavior sulph sulf caesar cesar"""
_ANYWHERE = """schaemi schemi naemia nemia naemic nemic caemia cemia caemic cemic kalaemi kalemi volaemi volemi raemia remia raemic remic
thalassaemi thalassemi cythaemi cythemi lymphoedema lymphedema rrhoea rrhea pnoea pnea isation ization"""
_WORDS = "tumour tumor fibre fiber"  # and their plurals


def _either(pairs: str) -> str:
    """Return a pattern that matches any of these words, the longest first."""
    return "|".join(sorted(pairs.split(), key=len, reverse=True))


def _both_ways(pairs: str) -> dict[str, str]:
    """Return British -> American and American -> British."""
    british, american = pairs.split()[::2], pairs.split()[1::2]
    return {**dict(zip(british, american)), **dict(zip(american, british))}


_OTHER = _both_ways(f"{_STARTS} {_ANYWHERE} {_WORDS}")
_SPELT = re.compile(rf"\b(?:{_either(_STARTS)})|{_either(_ANYWHERE)}|\b(?:{_either(_WORDS)})(?=s?\b)")
_PUNCTUATION = str.maketrans({**dict.fromkeys(",;:()[]", ""), **dict.fromkeys("-/", " ")})
KINDS: dict[str, Callable[[str, random.Random], str]] = {"reorder": reorder, "unpunctuate": unpunctuate, "renumber": renumber, "slip": slip}


@registry.augmenters("spacy-sapbert.Augment.v1")
def augment(share: float = 0.3, spelling: float = 0.0, modifiers: float = 0.0) -> Augment:
    """Return a function (name, salt) -> name that changes some names.

    The same name with the same salt is always changed in the same way, independent of earlier calls.
    So a resumed training sees the same names as one that was not interrupted.

    Args:
        share: Share of the names that are changed in one of four ways (`KINDS`), each equally often.
        spelling: Share of the names that get the other spelling, British or American, if they have two.
        modifiers: Share of the names that get words in front (`modify`).

    Raises:
        SapbertError: E511 for a share below 0 or above 1.
    """
    for setting, value in (("share", share), ("spelling", spelling), ("modifiers", modifiers)):
        if not 0 <= value <= 1:
            raise fail("E511", setting=f"augment.{setting}", value=value, why="it is a share of the names, from 0 to 1")
    kinds = list(KINDS.values())

    def change(name: str, salt: str) -> str:
        """Change one name; the salt and the name together decide how."""
        chance = random.Random(f"{salt}\t{name}")
        if chance.random() < share:
            name = chance.choice(kinds)(name, chance)
        name = respell(name) if chance.random() < spelling else name
        return modify(name, chance) if chance.random() < modifiers else name

    return change
