"""How often and by which route a drug is given, which is no mention: "OM" in "ramipril 5mg OM" is no otitis media, "SC" in "Humira 40 mg SC" no joint."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .beside import DRUG
from .joining import Match
from .overdoses import OVERDOSE, is_about_eyes

_READ = 24  # characters before a frequency in which its dose begins
_FREQUENCY = re.compile(r"O[DMN]|BD|S[CLQ]|PR")
_DOSE = re.compile(
    r"\d[ \t]?(?:mcg|mg|g|micrograms?|mmol|units?|tab(?:let)?s?|cap(?:sule)?s?|sachets?|puffs?|patch(?:es)?|sprays?|p)[ \t]+(?:po[ \t]+)?$",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[ \t]+\d+(?:\.\d+)?[ \t]+")  # between a drug and a frequency: "bisoprolol 2.5 OM"
_OF_EYES = re.compile(r"[^\n]{0,40}?\b(?:O[SU]|eyes?|intravitreal)\b", re.IGNORECASE)  # beside "OD" for the right eye


def without_frequencies(names: Sequence[Match], text: str) -> list[Match]:
    """Return the names without "OM", "ON", "OD", "BD", "SC", "SQ", "SL" and "PR" after a dose, or after a drug and a number, and without "OD" after a drug. After "Avastin 1.25 mg", "OD, none OS" is an eye.

    Args:
        names: names that do not overlap, from left to right.
        text: text of the Doc.
    """
    return [
        one
        for at, one in enumerate(names)
        if not (_FREQUENCY.fullmatch(text, one.start, one.end) and one.corrected != OVERDOSE and _is_frequency(names, at, text))
    ]


def _is_frequency(names: Sequence[Match], at: int, text: str) -> bool:
    one = names[at]
    if _OF_EYES.match(text, one.end):
        return False
    if _DOSE.search(text, max(0, one.start - _READ), one.start):
        return True
    before = names[at - 1] if at else None
    if before is not None and before.label == DRUG and text[one.start : one.end] == "OD" and not text[before.end : one.start].strip(" \t"):
        return not is_about_eyes(text, one.start, one.end)  # "omeprazole OD"
    return before is not None and before.label == DRUG and _NUMBER.fullmatch(text, before.end, one.start) is not None
