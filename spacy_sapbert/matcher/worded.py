"""Findings in ordinary words, which are names only together with the words around them: "after a fall", "broke her left hip", "hypo- or hyperthyroidism"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .listed import Listed

_FALL = re.compile(
    r"\b(?:(?:a|another|after|any|denie[sd]|following|frequent|from|her|his|multiple|no|of|prior|their|(?<!in )(?<!during )(?<!of )(?<!since )the|with|without)[ \t]+"
    r"(?:recent[ \t]+|significant[ \t]+|simple[ \t]+)?)(?P<fall>fall(?P<several>s)?)\b"
    # "a fall in hemoglobin", "to fall asleep", "the fall of 1998"
    r"(?![ \t]+(?:asleep|back|below|in[ \t]+(?!(?:the|his|her)[ \t]+(?:bath|bathroom|garden|home|house|kitchen|shower|snow|street|tub))|into|of[ \t]+(?:\d+|the)|out|season|under|within)\b)",
    re.IGNORECASE,
)
A_FALL = "accidental fall"
_INJURIES = {
    "broke": "fracture",
    "broken": "fracture",
    "fractured": "fracture",
    "fracturing": "fracture",
    "breaking": "fracture",
    "dislocated": "dislocation",
    "sprained": "sprain",
    "injured": "injury",
}
_INJURED = re.compile(
    rf"\b(?P<verb>{'|'.join(_INJURIES)})[ \t]+(?:(?:his|her|their|the|my|a|an|both)[ \t]+)?(?:(?:left|right|l|r|lt|rt)[ \t]+)?(?P<site>[a-z]{{3,}}(?:[ \t]+[a-z]{{3,}})?)",
    re.IGNORECASE,
)
_PART = r"(?:-[ \t]*/[ \t]*|-,?[ \t]*(?:and/or|and|or|to)[ \t]+)"  # between the part of a word and the word: "nephro-/ureterolithiasis"
_SHARED = re.compile(
    rf"(?<![\w-])(?:(?P<first>[a-z]{{4,12}}){_PART}|(?P<pair>hyper|hypo)[ \t]?/[ \t]?(?=hyp))(?P<word>[a-z]{{8,}})\b(?P<more>(?:[ \t]+[a-z]{{4,}}){{0,2}})",
    re.IGNORECASE,
)
_TAIL = 5  # fewest letters that both words share: "algia"


def worded(text: str) -> Iterator[Listed]:
    """Yield what may be a finding in ordinary words, with its name. A longer one comes before a shorter one that begins at the same place.

    - Falls: "after a fall", but not "a fall in hemoglobin".
    - Injuries with a verb: "broke her left hip" is a hip fracture.
    - Words that share their end: "hypo" in "hypo- or hyperthyroidism" is hypothyroidism, "micro" in "micro- and macrocytic anemia" microcytic anemia. All ends are tried.

    Args:
        text: the note.
    """
    for match in _FALL.finditer(text):
        yield Listed(match.start("fall"), match.end("fall"), A_FALL)
    for match in _INJURED.finditer(text):
        words = match["site"].split()
        for size in range(len(words), 0, -1):
            end = match.end() if size == len(words) else match.start("site") + len(words[0])
            yield Listed(match.start(), end, f"{' '.join(words[:size])} {_INJURIES[match['verb'].lower()]}")
    for match in _SHARED.finditer(text):
        group = "first" if match["first"] else "pair"
        word, more = match["word"], match["more"].split()
        for size in range(len(more), -1, -1):
            for at in range(1, len(word) - _TAIL + 1):
                yield Listed(match.start(group), match.end(group), " ".join([match[group] + word[at:], *more[:size]]))
