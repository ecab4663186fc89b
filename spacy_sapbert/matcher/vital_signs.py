"""Single letters that stand for vital signs: "T 37.2 P 88 R 16 BP 130/70" is a temperature, a pulse and a respiratory rate."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .letters import Letter

# letter -> what it stands for, and the ranges of its values; a temperature is in degrees Celsius or Fahrenheit
_SIGNS = {
    "T": ("body temperature", ((34.0, 43.0), (93.0, 109.5))),
    "P": ("pulse", ((30.0, 220.0),)),
    "R": ("respiratory rate", ((5.0, 60.0),)),
}
_IS = r"[ \t]{0,9}[:=]?[ \t]{0,9}"  # not more spaces, so that the time does not grow with the square of the text
_RATE = r"[ \t]?(?:bpm|/[ \t]?min(?:ute)?)\b"
_LETTER = (
    rf"(?P<letter>[TPR]){_IS}(?P<value>\d{{1,3}}(?P<tenths>\.\d{{1,2}})?)(?:[ \t]?[-–][ \t]?\d{{1,3}}(?:\.\d)?)?"
    rf"(?P<degrees>[ \t]?(?:[°º][ \t]?[CF]?|deg(?:rees)?[ \t]?[CF]|[CF])(?![\w/]))?(?:{_RATE})?(?![\w/%]|\.\d)"
)
_NAME = (
    r"(?:[Tt]emp(?:erature)?|TEMP(?:ERATURE)?|Tmax|Tc|HR|[Pp]ulse|PULSE|RR|[Rr]esp(?:s|irations?)?|BP|[Bb]lood pressure|S[ap]?O2|O2 [Ss]ats?|[Ss]ats?)\b"
    rf"{_IS}(?:(?:is|of)[ \t])?\d{{2,3}}(?:[./]\d{{1,3}})?%?(?:[ \t]?(?:[°º][ \t]?)?(?:[CF]|mm[ ]?Hg)\b|{_RATE})?"
)
_VALUED = re.compile(r"[TPR][ \t:=]{0,19}\d")
_ITEM = re.compile(rf"(?<![\w/.+-])(?:{_LETTER}|{_NAME})")
_BETWEEN = re.compile(r"[ \t]*(?:[,;|/][ \t]*|\.[ \t]+|\([^()\n]{1,12}\)[ \t]*[,;]?[ \t]*)?(?:and[ \t]+)?")


def vital_signs(text: str) -> Iterator[Letter]:
    """Yield the letters of a text that stand for vital signs, from left to right.

    A letter counts if its value is one of the vital sign, and another vital sign with a value is directly before or after it. A temperature with tenths
    or degrees also counts alone: "T 37.2", "T 98 F", but not "T 12".
    """
    if _VALUED.search(text) is None:
        return
    items = [item for item in _ITEM.finditer(text) if item["letter"] is None or _in_range(item["letter"], float(item["value"]))]
    joined = [_BETWEEN.fullmatch(text, one.end(), other.start()) is not None for one, other in zip(items, items[1:])]
    for place, item in enumerate(items):
        if item["letter"] is not None:
            alone = item["letter"] == "T" and bool(item["tenths"] or item["degrees"])
            if alone or any(joined[max(place - 1, 0) : place + 1]):
                yield Letter(item.start(), _SIGNS[item["letter"]][0])


def _in_range(letter: str, value: float) -> bool:
    return any(low <= value <= high for low, high in _SIGNS[letter][1])
