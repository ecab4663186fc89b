"""Read the dose of a drug in a note: "metformin 1 g bid", "albuterol 2 puffs q4h prn", "40 mg of furosemide"."""

from __future__ import annotations

import re
from typing import NamedTuple

from .numbers import lower_units, read_number

# unit as notes write it, in lower case -> UCUM code; "" for a unit that UCUM does not have, or that may be more than one ("units")
UNITS = {
    **dict.fromkeys(("mg", "milligrams", "milligram"), "mg"),
    **dict.fromkeys(("g", "gm", "gram", "grams"), "g"),
    **dict.fromkeys(("mcg", "ug", "microgram", "micrograms"), "ug"),
    **dict.fromkeys(("ml", "cc"), "mL"),
    **dict.fromkeys(("l",), "L"),
    **dict.fromkeys(("meq",), "meq"),
    **dict.fromkeys(("mmol",), "mmol"),
    **dict.fromkeys(("iu",), "[IU]"),
    **dict.fromkeys(("units", "unit", "u"), ""),
    **dict.fromkeys(
        ("tablets", "tablet", "tabs", "tab", "capsules", "capsule", "caps", "cap", "puffs", "puff", "drops", "drop", "gtts", "sprays", "spray"), ""
    ),
    **dict.fromkeys(("patches", "patch"), ""),
}
PARTS = {"kg": "kg", "m2": "m2", "m²": "m2"}  # of a patient: "5 mg/kg"
TIMES = {**dict.fromkeys(("hr", "h", "hour"), "h"), **dict.fromkeys(("min", "minute"), "min"), **dict.fromkeys(("day", "d"), "d")}


class Every(NamedTuple):
    """How often a drug is taken: `frequency` times in a period, as in FHIR's Timing.

    Attributes:
        frequency: number of times.
        period: length of the period.
        unit: its UCUM unit.
        longest: longest period, for "q4-6h"; None: it is `period`.
    """

    frequency: int
    period: int
    unit: str
    longest: int | None = None


AMOUNT, RATE, STRENGTH, FORM, ROUTE, FREQUENCY, DURATION = "amount", "rate", "strength", "form", "route", "frequency", "duration"  # kinds of parts


class Part(NamedTuple):
    """A part of a dose, or of what stands between it and the drug.

    Attributes:
        kind: `AMOUNT` that is taken at once or in a day, `RATE` of an infusion, `STRENGTH` of a tablet, `FORM`, `ROUTE`, `FREQUENCY` (how often, or "as needed"), `DURATION`.
        start: offset of its first character in the note.
        end: offset of the character after its last one.
    """

    kind: str
    start: int
    end: int


class Dose(NamedTuple):
    """A dose.

    Attributes:
        text: the dose as it is written.
        start: offset of its first character in the note.
        end: offset of the character after its last one.
        low: amount, or the lowest one of a range; None if the text does not say how much is taken at once ("50 mg tablets", "5 bid").
        high: amount, or the highest one.
        unit: the unit as it is written.
        code: its UCUM code; "" if it has none.
        rate: whether the amount is that of a time ("18 units/kg/hr").
        every: how often it is taken; None if the text does not say it.
        as_needed: whether it is taken as needed.
        route: the route as it is written; "" without one.
        parts: where its parts are, in the order of the note. A number without a unit and the size of a package are no parts.
    """

    text: str
    start: int
    end: int
    low: int | float | None
    high: int | float | None
    unit: str
    code: str
    rate: bool
    every: Every | None
    as_needed: bool
    route: str
    parts: tuple[Part, ...]


_FAR = 200  # characters after a drug that are read
_BEFORE = 40  # characters before it
_MOST = 12  # tablets at once; more are a package: "20 mg, 30 tablets"
_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,6}(?:\.\d{1,4})?|\.\d{1,4}"
_NAMES = "|".join(sorted(map(re.escape, UNITS), key=len, reverse=True))
_TO_TIME = r"hour|hr|h|minute|min|day|d"
# no "20 mg / kg", of which the first part is no dose, and no "20 mg to 40", of which it is only the lowest
_UNIT = rf"(?P<unit>(?P<base>{_NAMES})(?:/(?P<part>kg|m2|m²))?(?:/(?P<time>{_TO_TIME}))?)(?!\w|[ \t]*/|[ \t]*to[ \t]*\d|[-–]\d)"
_FIRST = rf"[ \t]*(?P<first>(?:{_NAMES})(?:/(?:kg|m2|m²))?(?:/(?:{_TO_TIME}))?)"  # "20 mg to 40 mg"
_AMOUNT = rf"(?P<low>{_NUMBER})(?:(?:{_FIRST})?[ \t]*(?:-|–|to)[ \t]*(?P<high>{_NUMBER}))?[ \t]*-?{_UNIT}"
# what may stand between a drug and its dose: the salt, the form, a brand name in brackets
_GAP = (
    r"[ \t]*(?:\((?P<brand>[^()\n]{1,30})\)[ \t]*)?(?:\b(?:er|xr|xl|sr|cr|dr|ec|la|ir|hfa|hcl|hydrochloride|sodium|succinate|tartrate|besylate|calcium|"
    r"extended[- ]release|oral|tablets?|capsules?|inhaler|drip|infusion|solution|dose(?: of)?|at|to)\b[ \t]*){0,3}[:,–-]?[ \t]*(?:@[ \t]*)?"
)
_DOSE = re.compile(rf"{_GAP}(?P<dose>{_AMOUNT})(?![ \t]+of\b)")  # "3 mg of" is the dose of the next drug
_DOSE_BEFORE = re.compile(rf"(?<![\w/.,-])(?P<dose>{_AMOUNT})[ \t]+(?:of[ \t]+)?$")
_FORM = r"tablets?|tabs?|capsules?|caps?|patch(?:es)?|vials?|pens?|inhalers?|solution|suspension"
_ORAL_FORM = rf"(?:oral[ \t]+)?(?:{_FORM})"
_IS_FORM = re.compile(rf"\b{_ORAL_FORM}\b")
_IS_STRENGTH = re.compile(rf"[ \t]*{_ORAL_FORM}\b")
_TAKE = re.compile(rf",?[ \t]*(?:take[ \t]+)?(?P<taken>(?P<low>\d{{1,2}})(?:[ \t]*(?:-|–|to)[ \t]*(?P<high>\d{{1,2}}))?[ \t]+(?P<unit>{_FORM}))\b")
_ROUTE = (
    r"p\.?o\.?|by mouth|orally|iv|i\.v\.|ivp|ivpb|intravenous(?:ly)?|im|intramuscular(?:ly)?|sc|sq|subq|s/c|subcut(?:aneous(?:ly)?)?|sl|"
    r"sublingual(?:ly)?|pr|rectally|per rectum|inhaled|by inhalation|nebuli[sz]ed|topical(?:ly)?|intranasal(?:ly)?|transdermal(?:ly)?"
)
_TIMES = r"once|twice|(?:one|two|three|four|[1-4])[ \t]+times"
_OFTEN = (
    r"b\.?i\.?d\.?|t\.?i\.?d\.?|q\.?i\.?d\.?|bd|tds|qds|q\.?d\.?|q\.?[ \t]?day|qhs|qam|qpm|qod|q\.?[ \t]?week|nightly|at[ \t]+(?:bedtime|night|hs)|hs|"
    r"(?:q\.?|every)[ \t]?(?P<count>\d{1,2})(?:[ \t]?(?:-|–|to)[ \t]?(?P<longest>\d{1,2}))?[ \t]?(?P<period>h|hrs?|hours?|days?|weeks?|months?)\.?|"
    rf"every[ \t]+other[ \t]+day|every[ \t]+(?:day|morning|evening|night|week|month)|(?:(?:{_TIMES})[ \t]+)?(?:daily|(?:a|per|each)[ \t]+day|weekly|monthly|a[ \t]+week)"
)
_AS_NEEDED = r"prn|p\.r\.n\.|as[ \t]+needed"
_OTHER = (
    rf"(?P<form>{_ORAL_FORM})|one|once|stat|bolus|with[ \t]+meals|(?:in[ \t]+the[ \t]+)?(?:morning|evening)|"
    r"(?P<duration>(?:x[ \t]?|for[ \t]+)\d+[ \t]*(?:more[ \t]+)?(?:days?|weeks?))|(?:x[ \t]?|for[ \t]+)\d+[ \t]*(?:more[ \t]+)?doses?"
)
# after ",", what often comes before may be the next order: "40 mg IV, daily BMP"; a route always
_NEXT = r"[ \t]+(?!(?:and|as|at|for|in|or|p\.?r\.?n|until|with|x)\b)[^\W\d_]"
_TOKEN = re.compile(
    rf"(?:(?:(?P<comma>,)?[ \t]*\(?(?P<often>{_OFTEN})|,?[ \t]*\(?(?P<needed>{_AS_NEEDED}))|[ \t]*\(?(?:(?P<route>{_ROUTE})|{_OTHER}))(?![\w/])"
    rf"(?(comma)(?!{_NEXT}))\)?"
)
_PLAIN = re.compile(rf"{_GAP}(?P<dose>{_NUMBER})(?=[ \t]+(?:{_ROUTE}|bid|tid|qid|bd|tds|qds|qd|qhs|daily|prn|q\d{{1,2}}h)(?![\w/]))")
_COUNTS = {"once": 1, "twice": 2, "one": 1, "two": 2, "three": 3, "four": 4, "1": 1, "2": 2, "3": 3, "4": 4}
_LETTERS = {"bid": 2, "bd": 2, "tid": 3, "tds": 3, "qid": 4, "qds": 4}
_PERIODS = {"h": "h", "d": "d", "w": "wk", "m": "mo"}


def dose_of(text: str, start: int, end: int, after: int = 0) -> Dose | None:
    """Return the dose that directly follows a drug, or directly precedes it ("40 mg of furosemide"); None if there is none with a known unit or a frequency.

    Args:
        text: the note.
        start: offset of the drug.
        end: offset of its end.
        after: a dose before the drug must not begin before this offset, because it is that of another drug.
    """
    rest = lower_units(text[end : end + _FAR])
    if (found := _DOSE.match(rest)) is not None:
        return _dose(text, end, found)
    if (plain := _PLAIN.match(rest)) is not None:
        return _dose(text, end, plain)
    first = max(start - _BEFORE, after)
    before = _DOSE_BEFORE.search(lower_units(text[first:start]))
    return None if before is None else _dose(text, first, before, end)


def _dose(text: str, offset: int, found: re.Match[str], drug_end: int | None = None) -> Dose | None:
    """Return the dose that a pattern found at an offset of a note. If it is before the drug, `drug_end` is the end of the drug."""
    begin = offset + found.start("dose")
    at = offset + found.end("dose") if drug_end is None else drug_end
    rest = lower_units(text[at : at + _FAR])
    amount: tuple[int | float, int | float] | None = None
    unit, code, rate = "", "", False
    parts: list[Part] = []
    if drug_end is None:  # "metoprolol tablets 25 mg"; what is in brackets is a brand name
        between = lower_units(text[offset:begin])
        parts += [Part(FORM, offset + form.start(), offset + form.end()) for form in _IS_FORM.finditer(between, max(found.end("brand"), 0))]
    kind = ""  # of what the pattern found
    if found.re is not _PLAIN:
        low, high = read_number(found["low"]), read_number(found["high"] or found["low"])
        unit, code, rate = text[offset + found.start("unit") : offset + found.end("unit")], _code(found), found["time"] is not None
        # "50 mg tablet" is the strength of a tablet; how many are taken is said later, or not at all
        if _IS_STRENGTH.match(rest) and code:
            kind = STRENGTH
        elif not _one_unit(found):  # "500 mg to 1 g" cannot be written with one unit
            kind = AMOUNT
        elif low <= high:
            kind, amount = RATE if rate and TIMES[found["time"]] != "d" else AMOUNT, (low, high)  # "25 mg/day" is no infusion
    every: Every | None = None
    route, needed, used, taken = "", False, 0, False

    def add(kind: str, said: re.Match[str], group: int | str) -> None:
        parts.append(Part(kind, at + said.start(group), at + said.end(group)))

    while True:
        # "20 mg, 2 tablets daily": the tablets are what is taken; but those after "daily" may be what is dispensed
        if not taken and (amount is None or every is None) and (take := _TAKE.match(rest, used)) is not None:
            low, high = read_number(take["low"]), read_number(take["high"] or take["low"])
            taken, amount = True, (low, high) if low <= high <= _MOST else None
            kind = STRENGTH if code else ""
            unit, code, rate, used = text[at + take.start("unit") : at + take.end("unit")], "", False, take.end()
            if amount is not None:
                add(AMOUNT, take, "taken")
        elif (token := _TOKEN.match(rest, used)) is not None:
            if token["route"] and not route:
                route = text[at + token.start("route") : at + token.end("route")]
                add(ROUTE, token, "route")
            if token["often"] and every is None and (every := _every(token)) is not None:
                add(FREQUENCY, token, "often")
            if token["needed"] and not needed:
                needed = True
                add(FREQUENCY, token, "needed")
            for each in (FORM, DURATION):
                if token[each]:
                    add(each, token, each)
            used = token.end()
        else:
            break
    if kind:
        parts.append(Part(kind, begin, offset + found.end("dose")))
    last = at + used if used or drug_end is None else offset + found.end("dose")
    written = text[begin:last].rstrip(" \t,")
    least, most = amount or (None, None)
    return Dose(
        written, begin, begin + len(written), least, most, unit, code, rate, every, needed, route, tuple(sorted(parts, key=lambda part: part.start))
    )


def _every(token: re.Match[str]) -> Every | None:
    if token["count"] is not None:
        count, longest = int(token["count"]), int(token["longest"] or 0)
        return Every(1, count, _PERIODS[token["period"][0]], longest if longest > count else None) if count else None
    said = "".join(token["often"].replace(".", "").split())
    if said in _LETTERS:
        return Every(_LETTERS[said], 1, "d")
    if said in ("qod", "everyotherday"):
        return Every(1, 2, "d")
    unit = "wk" if "week" in said else "mo" if "month" in said else "d"
    return Every(_COUNTS.get(token["often"].split()[0], 1), 1, unit)


def _one_unit(found: re.Match[str]) -> bool:
    """Return whether both ends of a range have the same unit: "1 tab to 2 tabs", not "500 mg to 1 g"."""
    if not found["first"]:
        return True
    (first, _, of), (second, _, other) = found["first"].partition("/"), found["unit"].partition("/")
    return of == other and UNITS[first] == UNITS[second] and (UNITS[first] != "" or first[:3] == second[:3])


def _code(found: re.Match[str]) -> str:
    base = UNITS[found["base"]]
    if not base:
        return ""
    parts = [PARTS[found["part"]]] if found["part"] else []
    return "/".join([base, *parts, *([TIMES[found["time"]]] if found["time"] else [])])
