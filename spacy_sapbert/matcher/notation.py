"""Places where shorthand of a note has the letters of a name: "C5" is a cycle of chemotherapy, "RV in 6/52" a review, "87F" an age and a sex."""

from __future__ import annotations

import re
from collections.abc import Iterator

_IN = r"\d{1,2}[ \t]?/[ \t]?(?:7|12|52)\b"  # days, months or weeks: "6/52"
_TIME = rf"(?:{_IN}|\d{{1,2}}(?:[ \t]?-[ \t]?\d{{1,2}})?[ \t]*(?:days?|weeks?|wks?|months?|mths?|years?)\b)"
_DOSE = r"(?:mcg|mg|micrograms?|units?|tab(?:let)?s?|cap(?:sule)?s?|sachets?|puffs?|patch(?:es)?|p)"
_OF_CYCLE = r"(?:(?:was|is|to be|has been)[ \t]+)?(?:cancelled|completed|deferred|delayed|due(?![ \t]+to)|given|held|omitted|postponed|tolerated)\b"
_FOR_CYCLE = (
    r"\b(?i:(?:admitted|attended|attending|attends|here|in|presents|proceed|proceeding|ready)[ \t]+for|completed|delay|delayed|due|proceed(?:ing)?[ \t]+(?:to|with)|"
    r"received|tolerated|tolerating)[ \t]+"
)
_PERSON = r"(?:asks?|asked|believes?|feels?|felt|has|is|says?|said|states?|stated|thinks?|thought|wants?|wanted|was|will|wishes|would)"
_FLUID = r"(?!\d|[ \t]*(?:%|[/+]|[NW]S?\b|LR\b|amps?\b|at\b|bolus|containing|fluids?\b|infusion|\d|iv\b|running|saline|water))"  # not after the "D5" of a fluid
_HEADING = r"(?:[A-Z][A-Za-z'’]*(?:[ \t]*[&/-][ \t]*|[ \t]+(?:(?:and|of)[ \t]+)?)){1,6}"

_CYCLE, _DAY = (r"C\d",), (r"[Dd]\d",)

# patterns that are searched first, because they are fast; the pattern of the place, which is searched only if one of them matches
_PLACES = tuple(
    (tuple(re.compile(each) for each in parts), re.compile(pattern, flags))
    for parts, pattern, flags in (
        # a cycle of chemotherapy: "C5 D1", "C4 delayed", "here for C5"
        (
            _CYCLE,
            rf"(?<!low )(?<!Low )(?<!omplement )\b(?P<place>C\d{{1,2}})[ \t]*(?:/[ \t]?)?(?:D\d{{1,2}}\b|{_OF_CYCLE}|(?:chemo|FOLF|R-CHOP)|of[ \t]+\d)",
            0,
        ),
        (
            _CYCLE,
            rf"{_FOR_CYCLE}(?P<place>C\d{{1,2}})(?=[ \t]*(?:$|[.,;)]|(?:chemo\w*|fine|next|ok|on|this|today|tomorrow|tmrw|treatment|well|with)\b))",
            re.MULTILINE,
        ),
        # a day: "by D5", "Rpt D10", "bloodspot D5"
        (
            _DAY,
            rf"\b(?:[Bb]lood ?spot|[Bb]y|[Pp]ost[ -]?op|[Rr]epeat|[Rr]pt|[Uu]ntil|[Tt]ill?)[ \t]+(?P<place>[Dd](?!25|50)\d{{1,2}})\b{_FLUID}",
            0,
        ),
        (_DAY, r"\b(?P<place>[Dd]\d{1,2})[ \t]+(?:blastocysts?|embryos?|post[ -]?op|of[ \t]+(?:admission|life|illness))\b", 0),
        # a review: "RV in 6/52", "RV 3/12"
        (
            ("RV ",),
            rf"(?<!in )(?<!of )\b(?P<place>RV)(?=[ \t]+(?:(?:(?:again[ \t]+)?(?:in|after)[ \t]+)?{_TIME}(?![ \t]+(?:after|ago|before|later|post)\b)|in[ \t]+(?:clinic|OPD?)\b|next[ \t]+(?:month|week)|tomorrow|mane\b))",
            0,
        ),
        # the patient: "pt says"
        (("pt ", "Pt "), rf"\b(?P<place>[Pp]t)(?=[ \t]+{_PERSON}\b(?![ \t]+\d))", 0),
        # a gentleman: "80 yo gent"
        (
            ("gent", "Gent", "GENT"),
            r"(?:\b\d{2,3}[ -]?(?:y/?o|y\.o\.?|yrs?(?:[ -]old)?|years?[ -]old)|\b(?:delightful|elderly|lovely|nice|pleasant|this|young)|-old)[ \t]+(?P<place>gent)\b"
            r"(?![ \t]+(?:course|dose|levels?|trough|\d))",
            re.IGNORECASE,
        ),
        # fractions of radiotherapy: "50 Gy in 5 fx"
        (("fx", "Fx", "FX"), r"(?<![a-z])c?Gy[ \t]{0,3}(?:[/,x]|in|over)?[ \t]{0,3}\d{1,2}[ \t]*(?P<place>fx)\b", re.IGNORECASE),
        (("fx",), r"\b\d{1,2}[ \t]*(?P<place>fx)[ \t]+(?:of[ \t]+)?(?:EBRT|SBRT|XRT|radiation|radiotherapy)\b", 0),
        # a grade: "Gd 2 OVs"
        (("gd ", "Gd "), rf"\b(?P<place>[Gg]d)[ \t]+(?=[0-5][ab]?\b(?![ \t]?(?:{_DOSE}|ml|mmol)\b|[.\d]))", 0),
        # kappa light chains: "sFLC K 44"
        (("FLC",), r"\bs?FLCs?\b[ \t]{0,3}[:=]?[ \t]{0,3}(?P<place>K)[ \t]{0,3}[:=]?[ \t]{0,3}\d", 0),
        # the signal of a pulse: "PT mono"
        (("mono",), r"\b(?:ATA?|DPA?|PTA?|TA|TP|[Pp]op(?:liteal)?|[Pp]edals?)[ \t]+(?P<place>mono)\b", 0),
        # puffs: "Fostair 2p BD"
        (
            (r"\dp",),
            r"(?<=[a-z\d] )(?P<place>\d{1,2}p)(?=[ \t]+(?:B\.?D|O[DMN]|PRN|QDS|TDS|b\.?d|o\.?d|prn|qds|tds)\b)",
            0,
        ),
        # age and sex: "87F"
        (
            (r"\d[FM]",),
            r"(?<![\w/.-])(?P<place>(?!18F[ \t]?(?:FDG|DOPA|Na))\d{2,3}[FM])\b(?!-)",
            0,
        ),
        # the clinic or unit of a note, alone on its line: "RENAL CLINIC", "Frailty Unit"
        (
            ("CLINIC", "Clinic", "clinic", "IPU", "UNIT", "Unit", "WARD", "Ward"),
            rf"^[ \t]*(?P<place>{_HEADING}(?:CLINIC|Clinic|clinic|IPU|UNIT|Unit|WARD|Ward))\b[ \t]*(?:$|[:(/]|-[ \t])",
            re.MULTILINE,
        ),
    )
)


def notations(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places (first character, character after the last one) of shorthand that holds no mention.

    Args:
        text: the note.
    """
    for parts, pattern in _PLACES:
        if any(part.search(text) is not None for part in parts):
            for found in pattern.finditer(text):
                yield found.span("place")
