"""Diseases and germs that stand for their vaccine: "varicella given", "MMR #2", "hep B" in "Tdap, hep B today"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .joining import Match

VACCINE = "vaccine"  # "varicella" and this word is the name of the vaccine, if the knowledge base has it
GROUPS = frozenset(["DISO", "LIVB", "PHEN", "GENE"])  # semantic groups of names that may stand for a vaccine; "MMR" is also a repair of DNA
# words of a list of vaccines that stand for nothing else
_SURE = re.compile(
    r"\b(?:DTa?P|Tdap|Td|MMRV?|[IO]PV|Hib|PCV(?:-?(?:7|1[035]|2[01])|(?![ \t]*[:=]?[ \t]*\d))|PPSV ?-?\d*|MenACWY|MenB|Prevnar|Pneumovax|Shingrix|Zostavax|Gardasil|Menactra|Rotateq)(?![\w-])",
    re.IGNORECASE,
)
_DOSE = re.compile(r"[ \t]*#[ \t]?\d\b|[ \t]+(?:dose|shot|booster)\b(?:[ \t]*#?\d)?", re.IGNORECASE)
# "given" before a person, a reason or a drug is no vaccination: "varicella given her age", "pneumonia given ceftriaxone"
_GIVEN = re.compile(
    r"[ \t]+(?:(?:was|were)[ \t]+)?(?:(?:given|administered)(?=[ \t]*(?:[.,;)\n]|\Z|today|yesterday|on[ \t]|in[ \t]+(?:the[ \t]+)?(?:clinic|office|left|right|\d|deltoid|thigh|arm)|"
    r"at[ \t]|i\.?m\b|s\.?c\b|left|right|l\b|r\b|without))|utd\b|up[ \t]to[ \t]date\b|due\b(?![ \t]+to\b))",
    re.IGNORECASE,
)
# a disease that someone has or had, or that a drug was given for: "ceftriaxone for pneumonia given in the clinic"
_HAS = re.compile(
    r"(?:\b(?:for|of|with|has|had|have|history|hx|h/o|from|no|not|denies|possible|likely|acute|recent|after|treated|positive|negative)|\?)[ \t]*(?:a[ \t]+)?$",
    re.IGNORECASE,
)
_JOIN = re.compile(r"[ \t]*(?:[,;/+&]|,?[ \t]*\band\b)[ \t]*", re.IGNORECASE)
_HEADING = re.compile(
    r"(?:^|\n)[ \t]*(?:[-*•][ \t]*)?(?:vaccin(?:es?|ations?)|immuni[sz]ations?|imms?|vax)\b(?:[ \t]+(?:given|today|due|needed|received|administered|record)){0,2}[ \t]*[:–-][ \t]*$",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"#[ \t]?\d{1,2}[.:)]?[ \t]*$")  # of a problem: "#1 influenza #2 COPD"
# before a list of diseases, in which only what was given itself is a vaccine: "Dx: influenza, Tdap given"
_DISEASES = re.compile(
    r"\b(?:dx|ddx|diagnos[ei]s|imp(?:ression)?|assessment|a/?p|a&p|pmhx?|phx?|hx|history|problems?(?:[ \t]+list)?|comorbidities)[ \t]*[:–-][ \t]*$",
    re.IGNORECASE,
)
_NEAR = 64  # characters before a name that are read, and most between two names of a list


def vaccines(names: Sequence[Match], groups: Sequence[str], text: str) -> Iterator[int]:
    """Yield the positions of names that stand for a vaccine.

    These are names before a number of a dose ("#2") or a word such as "given", and all names of a list with one of them, with a name that is always a
    vaccine ("Tdap"), or under a heading such as "Vaccines:". A name after a word such as "had" is a disease, and so are the others of a list after a
    heading such as "PMH:". The numbers of a list of problems are no doses: "#1 influenza #2 COPD".

    Args:
        names: names that do not overlap, from left to right.
        groups: the semantic group of each name.
        text: text of the Doc.
    """
    ends = _ends(names, text)
    first = 0
    while first < len(names):
        last = first
        while (
            last + 1 < len(names)
            and names[last + 1].start - ends[last] <= _NEAR
            and _JOIN.fullmatch(text, ends[last], max(names[last + 1].start, ends[last]))
        ):
            last += 1
        chain = range(first, last + 1)
        head = text[max(0, names[first].start - _NEAR) : names[first].start]
        if _HEADING.search(head) or any(ends[at] > names[at].end or _SURE.match(text, names[at].start) for at in chain):
            every = _DISEASES.search(head) is None
            for at in chain:
                if not every and ends[at] == names[at].end:
                    continue
                before = text[max(0, names[at].start - _NEAR) : names[at].start]
                if groups[at] in GROUPS and not _HAS.search(before):
                    yield at
        first = last + 1


def _ends(names: Sequence[Match], text: str) -> list[int]:
    """Return the character after each name, with what says that it was given as a vaccine."""
    ends: list[int] = []
    numbered = False  # whether the last name has a number of a list of problems before it
    for at, one in enumerate(names):
        number = _NUMBER.search(text[max(0, one.start - _NEAR) : one.start])
        is_dose = at > 0 and ends[-1] > names[at - 1].end and not text[ends[-1] : one.start].strip()  # of the name before: "MMR #1 varicella #1"
        numbered = number is not None and (numbered or not is_dose)
        ends.append(one.end if numbered else _end(one, text))
    return ends


def _end(one: Match, text: str) -> int:
    """Return the character after a name, with what says that it was given as a vaccine: " #2 given"."""
    end = dose.end() if (dose := _DOSE.match(text, one.end)) is not None else one.end
    return given.end() if (given := _GIVEN.match(text, end)) is not None else end
