"""Find the unit of a vital sign whose value is written without one: "HR 88", "BP 120/80", "T 37.2", "Temp 101.2 F"."""

from __future__ import annotations

from typing import NamedTuple

from .values import PRESSURE, Value, number_after, pressure_after, temperature_after


class Range(NamedTuple):
    """A unit of a vital sign, and the values that it has in this unit.

    Attributes:
        low: lowest value.
        high: highest value.
        unit: the unit as it is usually written.
        code: its UCUM code.
    """

    low: float
    high: float
    unit: str
    code: str


_RATE = "/min"  # of whole numbers: "RR 3.5" is a relative risk
_CELSIUS, _FAHRENHEIT = Range(30, 45, "°C", "Cel"), Range(86, 113, "°F", "[degF]")
_SYSTOLIC, _DIASTOLIC = Range(40, 300, "mmHg", PRESSURE), Range(10, 200, "mmHg", PRESSURE)
_HEART, _BREATHS, _OXYGEN = Range(20, 300, _RATE, _RATE), Range(3, 100, _RATE, _RATE), Range(40, 100, "%", "%")
TEMPERATURE = "C0005903"
# concepts -> the units that values without a unit can have; no value fits two of them
_RANGES: dict[str, tuple[Range, ...]] = {
    TEMPERATURE: (_CELSIUS, _FAHRENHEIT),
    "C0018810": (_HEART,),  # heart rate
    "C0232117": (_HEART,),  # pulse
    "C0231832": (_BREATHS,),
    "C0369768": (_OXYGEN,),
    "C0871470": (_SYSTOLIC,),
    "C0428883": (_DIASTOLIC,),
}


def vital_sign_after(text: str, end: int, cui: str) -> Value | None:
    """Return the value that follows a vital sign and has no unit, with the unit that it must have; None if this is not clear.

    Args:
        text: the note.
        end: offset of the end of the mention.
        cui: the concept of the mention.
    """
    if cui == TEMPERATURE and (found := temperature_after(text, end)) is not None:
        return _in_range(found, _RANGES[cui])
    found = number_after(text, end)
    return None if found is None else _in_range(found, _RANGES.get(cui, ()))


def blood_pressure_after(text: str, end: int) -> tuple[Value, Value] | None:
    """Return systolic and diastolic pressure if they directly follow a mention, see `pressure_after`; without a unit, they are in mmHg if they can be."""
    pair = pressure_after(text, end)
    if pair is None or pair[0].unit:
        return pair
    systolic, diastolic = _in_range(pair[0], (_SYSTOLIC,)), _in_range(pair[1], (_DIASTOLIC,))
    return pair if systolic is None or diastolic is None else (systolic, diastolic)


def _in_range(value: Value, ranges: tuple[Range, ...]) -> Value | None:
    """Return a value with the unit of the range that it is in; None if there is none, or the note has another unit."""
    for each in ranges:
        whole = each.unit != _RATE or value.number == int(value.number)
        if each.low <= value.number <= each.high and whole and (not value.code or value.code == each.code):
            return value._replace(unit=value.unit or each.unit, code=each.code)
    return None
