"""Whether a mention and a name say opposite things: "low ferritin" and "increased ferritin", "left" and "right".

Encoders give such texts near vectors, because opposites stand among the same words. A name that says the opposite of a mention is not found for it. What
the canonical name of its concept says counts too, on axes of which the name says nothing: "sweating", a name of Hyperhidrosis, is not found for "no sweating".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

WORDS = Path(__file__).parents[1] / "data" / "opposite_words.tsv"
LEAST = 3  # letters of a word besides the start or end that decides
Poles = Mapping[str, str]
NONE: Poles = {}  # one object for all texts without a pole, which are most
_WORD = re.compile(r"[a-z]+")


class _Rules(NamedTuple):
    """The rules of the data file.

    Attributes:
        words: word -> axis and pole; None for a word that only looks as if it had one.
        starts: start of a word, axis and pole.
        ends: end of a word, axis and pole.
        phrases: matches phrases that have no pole.
    """

    words: dict[str, tuple[str, str] | None]
    starts: list[tuple[str, tuple[str, str]]]
    ends: list[tuple[str, tuple[str, str]]]
    phrases: re.Pattern[str]


@cache
def _rules() -> _Rules:
    """Read the data file."""
    words: dict[str, tuple[str, str] | None] = {}
    parts: dict[str, list[tuple[str, tuple[str, str]]]] = {"start": [], "end": []}
    phrases: list[str] = []
    for line in WORDS.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        axis, pole, where, texts = line.split("\t")
        if where == "phrase":
            phrases += texts.split(",")
        elif where == "word":
            words.update(dict.fromkeys(texts.split(), None if axis == "none" else (axis, pole)))
        else:
            parts[where] += [(text, (axis, pole)) for text in texts.split()]
    return _Rules(words, parts["start"], parts["end"], re.compile(rf"\b(?:{'|'.join(map(re.escape, phrases))})\b"))


def poles_of(text: str) -> Poles:
    """Return what a normalised text says on each axis: axis -> pole, or "" if it says both.

    "low ferritin" gives {"level": "low"}, and "hypokalemia and hyperglycemia" gives {"level": ""}.

    Args:
        text: a mention or a name, in lower case.
    """
    rules = _rules()
    found: dict[str, str] = {}
    for word in _WORD.findall(rules.phrases.sub(" ", text)):
        if word in rules.words:
            said = rules.words[word]
        else:
            said = next((said for start, said in rules.starts if word.startswith(start) and len(word) >= len(start) + LEAST), None)
            said = said or next((said for end, said in rules.ends if word.endswith(end) and len(word) >= len(end) + LEAST), None)
        if said:
            axis, pole = said
            found[axis] = pole if found.get(axis, pole) == pole else ""
    return found or NONE


def opposite(one: Poles, other: Poles) -> bool:
    """Return whether two texts say opposite things on some axis.

    Args:
        one: poles of a text, see `poles_of`.
        other: poles of the other text.
    """
    return any(pole and other.get(axis, pole) not in (pole, "") for axis, pole in one.items())
