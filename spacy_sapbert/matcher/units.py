"""Units: words that are no mentions after a number."""

from __future__ import annotations

import re

UNITS = frozenset(
    [
        *("mm", "cm", "m", "km", "nm", "um", "in", "ft", "foot", "feet"),
        *("ml", "dl", "l", "cc"),
        *("mg", "g", "gm", "gr", "kg", "mcg", "ug", "ng", "pg", "lb", "lbs", "oz"),
        *("iu", "u", "meq", "mmol", "umol", "nmol", "mol", "mosm", "units", "unit", "ppm", "%"),
        *("kcal", "cal", "hz", "khz", "mhz", "db", "kpa", "pa", "mmhg", "c", "f", "fr", "gy", "cgy", "mci", "amp", "v", "mv", "ma", "w", "mw"),
        *("bpm", "/min", "sec", "s", "min", "h", "hr", "hrs", "d", "wk", "wks", "mo", "yr", "yrs", "y", "pm", "am"),
        *("tab", "tabs", "cap", "caps", "gtt", "gtts", "x"),
        *("th", "st", "nd", "rd"),
    ]
)


def is_unit(word: str, before: str) -> bool:
    """Return whether a word is the unit of a number that stands before it.

    Args:
        word: the word.
        before: the text before it: "4 ", "81", "10-". After "4, " another item of a list begins.
    """
    return word.lower() in UNITS and re.search(r"\d(?:[.,/]|[.]?\s{0,2}-?\s?)$", before) is not None
