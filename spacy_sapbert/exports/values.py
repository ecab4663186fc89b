"""Read the value that follows a mention in a note: "K+ 5.6 mmol/L", "Hb: 98 g/L", "BP 120/80 mmHg", "INR 2.1", "GCS 15/15"."""

from __future__ import annotations

import re
from typing import NamedTuple

from .numbers import lower_units, read_number

SYSTEM = "http://unitsofmeasure.org"
# unit as notes write it; upper and lower case are the same -> UCUM code
UNITS = {
    **{
        unit: unit
        for unit in ("mmol/L", "nmol/L", "pmol/L", "mg/dL", "g/dL", "g/L", "mg/L", "ng/mL", "ng/dL", "ng/L", "pg/mL", "ug/L", "ug/dL", "ug/mL")
    },
    **{
        unit: unit  # no "L": "potassium 3.2 L" is low
        for unit in ("mmol/mol", "mg/mmol", "mg/g", "mL/min", "L/min", "fL", "pg", "kPa", "kg/m2", "kg", "g", "cm", "mL", "%")
    },
    **dict.fromkeys(("umol/L", "micromol/L", "mcmol/L"), "umol/L"),
    **dict.fromkeys(("mcg/L", "microg/L"), "ug/L"),
    **dict.fromkeys(("mcg/dL",), "ug/dL"),
    **dict.fromkeys(("mcg/mL",), "ug/mL"),
    **dict.fromkeys(("mEq/L",), "meq/L"),
    **dict.fromkeys(("U/L", "units/L"), "U/L"),
    **dict.fromkeys(("IU/L",), "[IU]/L"),
    **dict.fromkeys(("IU/mL",), "[IU]/mL"),
    **dict.fromkeys(("mIU/L", "uIU/mL"), "m[IU]/L"),
    **dict.fromkeys(("mU/L",), "mU/L"),
    **dict.fromkeys(("x10^9/L", "x10*9/L", "x109/L", "10^9/L", "10*9/L", "e9/L"), "10*9/L"),
    **dict.fromkeys(("x10^12/L", "x10*12/L", "10^12/L", "10*12/L"), "10*12/L"),
    **dict.fromkeys(("K/uL", "K/mcL", "x10^3/uL", "10^3/uL", "10*3/uL", "k/mm3"), "10*3/uL"),
    **dict.fromkeys(("M/uL", "10^6/uL", "x10^6/uL"), "10*6/uL"),
    **dict.fromkeys(("mL/min/1.73m2", "mL/min/1.73m^2"), "mL/min/{1.73_m2}"),
    **dict.fromkeys(("/min", "bpm", "beats/min", "breaths/min", "per minute", "beats per minute", "breaths per minute"), "/min"),
    **dict.fromkeys(("mm/h", "mm/hr", "mm/hour"), "mm/h"),
    **dict.fromkeys(("mmHg",), "mm[Hg]"),
    **dict.fromkeys(("°C", "degC", "ºC", "degrees C", "degrees Celsius"), "Cel"),
    **dict.fromkeys(("°F", "degF", "ºF", "degrees F", "degrees Fahrenheit"), "[degF]"),
    **dict.fromkeys(("kg/m^2",), "kg/m2"),
    **dict.fromkeys(("sec", "secs", "seconds"), "s"),
    **dict.fromkeys(("lb", "lbs", "pounds"), "[lb_av]"),
    **dict.fromkeys(("inches",), "[in_i]"),
    **dict.fromkeys(("m2", "m^2"), "m2"),
}
# UCUM codes of what is measured in a sample. Solutions of drugs have ug/mL and mg/mL, too, so these are not among them
CONCENTRATION = re.compile(r"(?!ug/mL$).+/(?:L|dL|mL|uL|mol)")
PRESSURE = "mm[Hg]"
DOSES = "mg|mcg|µg|g|ml|units?|puffs?|tabs?|tablets?"  # units of doses of drugs, for a pattern

_KNOWN = {"".join(unit.lower().split()): code for unit, code in UNITS.items()}
_LONGEST = sorted({re.escape(unit.lower()) for unit in UNITS}, key=len, reverse=True)
_UNIT = (
    r"(?P<unit>"
    + "|".join(_LONGEST).replace("mmhg", r"mm[ ]?hg").replace(r"\ ", "[ ]?").replace(r"min/1\.73m2", r"min/1\.73[ ]?m2")
    + r")(?![\w/^*])(?![ \t]*(?:-|–|to)[ \t]*\d)"
)  # no range: "30% to 35%"
_BETWEEN = (
    r"\+?[ \t]*(?:\([a-z0-9 ,]{1,15}\)[ \t]*)?(?:(?:levels?|counts?|value|today|now)[ \t]*)?(?:[:=]|(?:of|is|was|at|to|were)\b)?[ \t]*"
    r"(?:(?:about|approximately|approx\.?|around)[ \t]+|~[ \t]*)?"
)
_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,7}(?:\.\d{1,6})?"
_VALUE = re.compile(rf"{_BETWEEN}(?P<sign><=|>=|[<>≤≥])?[ \t]*(?P<number>{_NUMBER})[ \t]*{_UNIT}")
_PAIR = re.compile(rf"{_BETWEEN}(?P<first>\d{{2,3}})[ \t]*/[ \t]*(?P<second>\d{{2,3}})[ \t]*{_UNIT}")
# what may follow a number that has no unit. Another word could be a unit, or what is counted: "CT 2 weeks ago", "troponin 3 times"
_END = (
    r"(?=[ \t]*(?:$|[;)(\[\r\n]|,(?!\d)|[ \t][ \t]+(?=[a-z])|\.(?!\d)|[hl*](?![\w/])|"
    r"(?:and|but|from|on|at|with|today|yesterday|now|this|in|after|before|otherwise|stable|high|low|elevated|normal|increased|decreased|irreg|irregular|reg|regular|"
    r"oral|orally|axillary|rectal|tympanic|sitting|standing|supine|lying|ra)\b))"
)
_PLAIN = re.compile(rf"{_BETWEEN}(?P<sign><=|>=|[<>≤≥])?[ \t]*(?P<number>{_NUMBER}){_END}")
_SCORE = re.compile(rf"{_BETWEEN}(?P<number>\d{{1,3}}(?:\.\d)?)(?:[ \t]*(?:/|out of|of)[ \t]*(?P<most>\d{{1,3}}))?{_END}")
_DEGREES = {"c": "Cel", "f": "[degF]"}  # letter after a temperature -> UCUM code
_TEMPERATURE = re.compile(  # "38.5 C", "38.5°", but not "38.5 C. diff"
    rf"{_BETWEEN}(?P<sign><=|>=|[<>≤≥])?[ \t]*(?P<number>{_NUMBER})[ \t]*"
    r"(?P<unit>[°º]|deg(?:rees)?(?:[ \t]*(?P<spelt>[cf]))?|(?P<letter>[cf](?:elsius|ahrenheit)?))(?![\w/^*])(?!\.?[ \t]*diff)"
)
_SECOND = re.compile(r"[ \t]*(?:[/,&–-]|and\b)[ \t]*\d")
_PLAIN_PAIR = re.compile(rf"{_BETWEEN}(?P<first>\d{{2,3}})[ \t]*/[ \t]*(?P<second>\d{{2,3}}){_END}")
_YEAR = re.compile(r"(?:19|20)\d\d")
# tests whose values have no unit, by a name in lower case -> UCUM code
SCORE = "{score}"
WITHOUT_UNIT = {
    **dict.fromkeys(("inr", "international normalized ratio"), "{INR}"),
    **dict.fromkeys(("ph", "blood ph", "arterial ph", "venous ph", "ph measurement"), "[pH]"),
    **dict.fromkeys(
        ("gcs", "glasgow coma scale", "nihss", "mmse", "mini-mental state examination", "moca", "apgar", "curb-65", "phq-9", "gad-7"), SCORE
    ),
}
# scale, without "score" and "scale" -> highest value: "GCS 14/15" is one score, "GCS 14/14" is not
HIGHEST = {
    **dict.fromkeys(("gcs", "glasgow coma", "glasgow coma scale"), 15),
    **dict.fromkeys(("nihss", "nih stroke"), 42),
    **dict.fromkeys(("mmse", "mini-mental state examination", "moca"), 30),
    "apgar": 10,
    "curb-65": 5,
    "phq-9": 27,
    "gad-7": 21,
}
_HIGHEST = frozenset([10, 100])  # of other scales
_SIGNS = {"≤": "<=", "≥": ">="}
_FAR = 80  # characters after a mention that are read


class Value(NamedTuple):
    """A number with its unit.

    Attributes:
        number: the number.
        unit: the unit as it is written; "" if the note has none.
        code: its UCUM code; "" if the unit is not known.
        sign: "<", "<=", ">", ">=", or "" for an exact value.
    """

    number: int | float
    unit: str
    code: str
    sign: str = ""


def value_after(text: str, end: int) -> Value | None:
    """Return the value that directly follows a mention; None if there is none, it is a range or a ratio, or it has no known unit.

    Args:
        text: the note.
        end: offset of the end of the mention.
    """
    found = _VALUE.match(_after(text, end))
    if found is None:
        return None
    unit = _written(text, end, found)
    return Value(read_number(found["number"]), unit, _code(unit), _sign(found))


def number_after(text: str, end: int) -> Value | None:
    """Return the number without a unit that directly follows a test; None if there is none, it is a range, a ratio or a year, or a word follows it.

    Args:
        text: the note.
        end: offset of the end of the mention.
    """
    found = _PLAIN.match(_after(text, end))
    if found is None or _YEAR.fullmatch(found["number"]):
        return None
    return Value(read_number(found["number"]), "", "", _sign(found))


def temperature_after(text: str, end: int) -> Value | None:
    """Return the number that directly follows a temperature, if a letter or a degree sign follows it: "38.5 C", "101.2°"; otherwise None.

    Args:
        text: the note.
        end: offset of the end of the mention.
    """
    found = _TEMPERATURE.match(_after(text, end))
    if found is None:
        return None
    letter = found["letter"] or found["spelt"]
    return Value(read_number(found["number"]), _written(text, end, found) if letter else "", _DEGREES[letter[0]] if letter else "", _sign(found))


def unit_of(*names: str) -> str | None:
    """Return the UCUM code of values of a test that have no unit, by its names; None if the values have a unit, or this is not known."""
    for name in map(str.lower, names):
        if name in WITHOUT_UNIT or name.endswith((" score", " scale")):
            return WITHOUT_UNIT.get(name, SCORE)
    return None


def score_after(text: str, end: int, code: str, *names: str) -> Value | None:
    """Return the number that directly follows a test whose values have no unit, as in "GCS 15", "GCS 15/15" and "INR 2.1".

    A score may stand before the highest value of its scale. Two scores ("Apgar 8/9") are none.

    Args:
        text: the note.
        end: offset of the end of the mention.
        code: UCUM code of the value, see `unit_of`.
        names: names of the test.
    """
    if code != SCORE:
        plain = number_after(text, end)
        return None if plain is None else plain._replace(code=code)
    rest = _after(text, end)
    found = _SCORE.match(rest)
    if found is None:
        return None
    scales = {name.lower().removesuffix(" score").removesuffix(" scale") for name in names}
    if "apgar" in scales and _SECOND.match(rest, found.end("number")):  # one minute and five minutes after birth
        return None
    highest = {HIGHEST[scale] for scale in scales if scale in HIGHEST} or _HIGHEST
    if found["most"] is not None and not (int(found["most"]) in highest and read_number(found["number"]) <= int(found["most"])):
        return None
    return Value(read_number(found["number"]), "", code)


def pressure_after(text: str, end: int) -> tuple[Value, Value] | None:
    """Return systolic and diastolic pressure if they directly follow a mention, as in "BP 120/80 mmHg" and "BP 120/80"; otherwise None."""
    if (found := _PAIR.match(_after(text, end))) is not None:
        unit = _written(text, end, found)
        code = _code(unit)
    else:
        found, unit, code = _PLAIN_PAIR.match(_after(text, end)), "", ""
    if found is None or (unit and code != PRESSURE) or (not unit and int(found["first"]) <= int(found["second"])):
        return None
    return Value(int(found["first"]), unit, code), Value(int(found["second"]), unit, code)


def _after(text: str, end: int) -> str:
    """Return what follows a mention, in lower case and with as many characters as in the text."""
    return lower_units(text[end : end + _FAR])


def _written(text: str, end: int, found: re.Match[str]) -> str:
    return text[end + found.start("unit") : end + found.end("unit")]


def _code(unit: str) -> str:
    return _KNOWN["".join(lower_units(unit).split())]


def _sign(found: re.Match[str]) -> str:
    return _SIGNS.get(found["sign"] or "", found["sign"] or "")
