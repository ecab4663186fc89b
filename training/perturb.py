"""Names written as notes write them: other word order, punctuation, number, a slip of the finger. No models, no data."""

from __future__ import annotations

import random
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


_PUNCTUATION = str.maketrans({**dict.fromkeys(",;:()[]", ""), **dict.fromkeys("-/", " ")})
KINDS: Dict[str, Callable[[str, random.Random], str]] = {"reorder": reorder, "unpunctuate": unpunctuate, "renumber": renumber, "slip": slip}


@registry.perturbations("spacy-sapbert.Perturb.v1")
def perturb(share: float = 0.3) -> Perturb:
    """A function (name, what else decides) -> name that changes this share of names, each in one of four ways (`KINDS`), equally often.

    The same name beside the same partner is always changed in the same way, whatever was drawn before: a resumed training goes on exactly.
    RAISES: SapbertError E511.
    """
    if not 0 <= share <= 1:
        raise fail("E511", setting="perturb.share", value=share, why="it is a share of the names, from 0 to 1")
    kinds = list(KINDS.values())

    def change(name: str, salt: str) -> str:
        chance = random.Random(f"{salt}\t{name}")
        return chance.choice(kinds)(name, chance) if chance.random() < share else name

    return change
