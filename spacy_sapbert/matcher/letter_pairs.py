"""Tests and procedures in letters with signs between them: "U+E" and "U/E" are urea and electrolytes, "P/F 170" is a P/F ratio, "E/e' 14" an E/e' ratio, "c/d/i" a clean incision."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .listed import Listed

# letters -> the name, with the signs that may stand between them. "C/S" is a section, "D/C" a discharge, "O/P" an outpatient
_PAIRS = {
    "cs": ("culture and sensitivity", "+"),
    "dc": ("dilation and curettage", "+"),
    "gs": ("group and save", "+/"),
    "hh": ("hemoglobin and hematocrit", "+/"),
    "io": ("intake and output", "+/"),
    "op": ("ova and parasites", "+"),
    "ts": ("type and screen", "+"),
    "ue": ("urea and electrolytes", "+/"),
}
_PAIR = re.compile(r"(?<![\w/+&.-])(?P<first>[A-Za-z])[ \t]?(?P<sign>[+/])[ \t]?(?P<second>[A-Za-z])(?:'?s)?(?![\w/+&-])")
_SIGN = re.compile(r"[+/]")
_AFTER_TEST = re.compile(
    r"(?<![\w/+&.-])(?:ABG|BM|CRP|FBC|LFT|TFT|VBG|clotting|coag|gluc(?:ose)?|bone)s?/(?P<pair>U[+/&]Es?)(?![\w+&-])", re.IGNORECASE
)  # "FBC/U+E"
_FILLING = re.compile(r"(?<![\w/+&.-])E/e(?!/)['’′]?(?=[ \t]?(?:ratio\b|[:=<>~]|(?:was|is|of)\b|\d|[ \t,;.)]|$))")
_FILLING_AFTER = re.compile(r"['’′]|[ \t]*(?:ratio\b|[:=<>~]?[ \t]*\d)")
_CLEAN = re.compile(r"(?<![\w/+&.-])(?:c/d/i|C/D/I)(?![\w/+&-])")
_AFTER = 40  # characters after a pair that are read
# letters -> words after them that belong to another meaning: an upper extremity, an intraosseous line, gallstones
_OTHERS = {
    "ue": re.compile(
        r"[ \t]*(?:\d[+-]?/5\b|(?:strength|power|motor|tone|reflex|sens|weak|numb|edema|oedema|swell|pain|dvt|doppler|duplex|fracture|fx|rash|rom|ext|and[ ]L/E\b|[,;&+]?[ ]?L/E\b))",
        re.IGNORECASE,
    ),
    "io": re.compile(
        r"[ \t]*(?:line|access|needle|drill|gun|plac|site|insert|(?:in|to|via)[ ](?:the[ ])?(?:(?:left|right|l|r)[ ])?(?:prox\w*[ ])?(?:tib|hum))",
        re.IGNORECASE,
    ),
    "gs": re.compile(
        r"[ \t]*(?:disease|pancreatitis|seen|present|on[ ](?:uss?|ct|mri|mrcp|scan|imaging)\b|in[ ](?:the[ ])?(?:gb|gall|cbd))", re.IGNORECASE
    ),
}
_RATIO = re.compile(r"(?<![\w/+&.-])P[/:]F(?= ?(?:(?:[:=<>~]|was|is|of)[ ]?)*(?P<value>\d{2,3})\b(?![./]\d))")
_RATIO_FROM, _RATIO_TO = 30, 700  # what a P/F ratio in mm Hg can be


def letter_pairs(text: str) -> Iterator[Listed]:
    """Yield the pairs of letters of a text that stand for a name, with this name.

    Both letters must be capitals, or both small, and the words after them must not say that they mean something else: "U/E strength" is an upper
    extremity. "P/F" counts before a number that may be the ratio. "U+E" may follow another blood test: "FBC/U+E".

    Args:
        text: the note.
    """
    for pair in _pairs(text):
        written = pair["first"] + pair["second"]
        name, signs = _PAIRS.get(written.lower(), ("", ""))
        other = _OTHERS.get(written.lower())
        is_other = pair["sign"] == "/" and other is not None and other.match(text, pair.end(), pair.end() + _AFTER) is not None
        if name and pair["sign"] in signs and (written.isupper() or written.islower()) and not is_other:
            yield Listed(pair.start(), pair.end(), name)
    for test in _AFTER_TEST.finditer(text) if "/" in text else ():
        yield Listed(test.start("pair"), test.end("pair"), "urea and electrolytes")
    for filling in _FILLING.finditer(text) if "E/e" in text else ():
        if filling[0][-1] != "e" or _FILLING_AFTER.match(text, filling.end(), filling.end() + _AFTER):
            yield Listed(filling.start(), filling.end(), "E/e' ratio")
    for wound in _CLEAN.finditer(text) if "d/i" in text or "D/I" in text else ():
        yield Listed(wound.start(), wound.end(), "clean incision")
    for ratio in _RATIO.finditer(text) if "P/F" in text or "P:F" in text else ():
        if _RATIO_FROM <= int(ratio["value"]) <= _RATIO_TO:
            yield Listed(ratio.start(), ratio.end(), "P/F ratio")


def _pairs(text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of `_PAIR`. They are looked for at their signs, which are rarer than letters."""
    end = 0
    for sign in _SIGN.finditer(text):
        start = sign.start() - (2 if text[sign.start() - 1 : sign.start()] in (" ", "\t") else 1)
        if start >= end and (pair := _PAIR.match(text, start)) is not None:
            yield pair
            end = pair.end()
