"""Words after a drug that belong to its product name: "XR" in "Adderall XR", "Cold" and "Sinus" in "Advil Cold & Sinus"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .joining import Match

DRUG = "CHEM"
_FORMS = frozenset(["xr", "er", "sr", "cr", "dr", "ir", "la", "xl", "cd", "sa", "ec", "dm", "hfa", "odt", "pm", "otc"])  # release and dose forms
_KINDS = frozenset(["cough", "cold", "flu", "sinus", "allergy", "congestion", "headache", "pain", "arthritis", "nasal", "chest"])
_JOINED = re.compile(r"[ \t]*(?:[ \t]|-|&|,[ \t]|\band\b)[ \t]*")


def with_product_words(names: Sequence[Match], text: str) -> list[Match]:
    """Return the names with the words of product names as parts of the drug. The drug alone is looked up: Adderall for "Adderall XR".

    A release form counts right after a drug. Words such as "Cold" count there, and after another such word, if they are written with one capital.

    Args:
        names: names that do not overlap, from left to right.
        text: text of the Doc.
    """
    kept: list[Match] = []
    for one in names:
        drug, word = kept[-1] if kept else None, text[one.start : one.end]
        is_word = word.lower() in _FORMS or (word.lower() in _KINDS and word.istitle())
        if is_word and drug is not None and drug.label == DRUG and _JOINED.fullmatch(text[drug.end : one.start]):
            kept[-1] = drug._replace(end=one.end, corrected=drug.corrected or text[drug.start : drug.end])
        else:
            kept.append(one)
    return kept
