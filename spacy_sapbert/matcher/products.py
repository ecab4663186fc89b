"""Words after a drug that belong to its product name: "XR" in "Adderall XR", "Cold" and "Sinus" in "Advil Cold & Sinus"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .beside import DRUG
from .joining import Match

_FORMS = frozenset(["xr", "er", "sr", "cr", "dr", "ir", "la", "xl", "cd", "sa", "ec", "hfa", "odt", "otc"])  # release and dose forms
_KINDS = frozenset(["cough", "cold", "flu", "sinus", "allergy", "congestion", "nasal", "chest"])
_NEXT = re.compile(r"[ \t]{1,2}|-")  # between a drug and the first such word; "Lisinopril - Cough" is an allergy and its reaction
_MORE = re.compile(r"[ \t]{1,2}|[ \t]?(?:&|\band\b)[ \t]?")  # between two such words


def with_product_words(names: Sequence[Match], text: str) -> list[Match]:
    """Return the names with the words of product names as parts of the drug. The drug alone is looked up: Adderall for "Adderall XR".

    A release form counts right after a drug. Words such as "Cold" count right after a drug that is written with a capital, and after another such
    word, also with "and" or "&" between them. They must be written as the drug is: with one capital, or in capitals.

    Args:
        names: names that do not overlap, from left to right.
        text: text of the Doc.
    """
    kept: list[Match] = []
    words = 0  # words of the product name after the last drug
    for one in names:
        drug = kept[-1] if kept else None
        if drug is not None and drug.label == DRUG and _belongs(text, drug, one, words):
            kept[-1] = drug._replace(end=one.end, corrected=drug.corrected or text[drug.start : drug.end])
            words += 1
        else:
            kept.append(one)
            words = 0
    return kept


def _belongs(text: str, drug: Match, one: Match, words: int) -> bool:
    """Return whether a name is a word of the product name of the drug before it, which already has some words."""
    word, written = text[one.start : one.end], text[drug.start : drug.end]
    between = text[drug.end : min(one.start, drug.end + 8)]  # longer ones do not fit
    if word.lower() in _FORMS:
        return words == 0 and _NEXT.fullmatch(between) is not None
    alike = (word.istitle() and written[:1].isupper()) or (word.isupper() and written.isupper())
    return word.lower() in _KINDS and alike and (_MORE if words else _NEXT).fullmatch(between) is not None
