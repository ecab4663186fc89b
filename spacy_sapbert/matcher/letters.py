"""Lists of single letters that stand for findings: "N/V/D" is nausea, vomiting and diarrhea, "no m/r/g" is no murmur, rub or gallop, "no r/r/w" no rales, rhonchi or wheezes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_FINDINGS = {"n": "nausea", "v": "vomiting", "d": "diarrhea", "f": "fever", "c": "chills", "s": "sweats"}
_HEART = {"m": "heart murmur", "r": "pericardial friction rub", "g": "gallop"}
_BOWELS = {**_FINDINGS, "c": "constipation"}
# meanings of the letters -> the lists, by their letters. Other lists mean something else: "d/c" is discharge, "c/s" is culture and sensitivity
_KINDS = (
    (_FINDINGS, ("nv", "nvd", "vd", "fc", "fcs", "fcnv", "fcnvd", "fnv", "nvf", "nvfc")),
    (_BOWELS, ("nvdc", "nvc", "nvcd")),
    (_HEART, ("mrg", "mgr", "rmg", "rgm", "gmr", "grm", "mr", "mg")),
    ({"e": "edema"}, ("cce",)),
    ({"r": "rebound tenderness", "g": "abdominal guarding"}, ("rg", "gr")),
    ({"w": "wheezing"}, ("rrw", "wrr", "rwr")),
)
_LISTS = {written: meanings for meanings, lists in _KINDS for written in lists}
_CLUBBING = ("clubbing", "cyanosis")
_LUNGS = ("rales", "rhonchi")
_SMALL = frozenset(["rg", "gr", "mr", "mg"])  # lists that have other meanings in capitals
_LIST = re.compile(r"(?<![\w/+&.-])[A-Za-z](?:[ \t]?[/+&][ \t]?[A-Za-z]){1,4}(?![\w/+&-])")


class Letter(NamedTuple):
    """A letter that stands for a finding or a vital sign.

    Attributes:
        start: its place in the text, in characters.
        name: what it stands for.
    """

    start: int
    name: str


def letters(text: str) -> Iterator[Letter]:
    """Yield the letters of a text that stand for findings, from left to right.

    All letters of a list must be capitals, or all small. "m/r", "m/g" and "r/g" count in small letters only, because
    "M/R" and "M/G" have other meanings.
    """
    for match in _LIST.finditer(text):
        places = [i for i in range(match.start(), match.end()) if text[i].isalpha()]
        written = "".join(text[i] for i in places)
        meanings = _LISTS.get(written.lower())
        if meanings is None or not (written.isupper() or written.islower()) or (written.isupper() and written.lower() in _SMALL):
            continue
        twice = iter(_LUNGS if "w" in meanings else _CLUBBING)  # what a letter that stands twice means: first the first, then the second
        for place, letter in zip(places, written.lower()):
            yield Letter(place, meanings.get(letter) or next(twice))
