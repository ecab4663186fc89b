"""Remove parts of the body that only say where a finding is: "liver" in "liver lesion", "left knee" in "swelling of the left knee"."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from ..context.sense_words import hints
from .imaging import IMAGING
from .joining import Match

BODY = "ANAT"
SITED = frozenset(["DISO", "PROC"])  # groups of mentions that may have a site: findings, tests and procedures
_SIDES = (
    "left|right|l|r|lt|rt|bilateral|both|either|each|upper|lower|mid|distal|proximal|medial|lateral|anterior|posterior|small|large|"
    "first|second|third|fourth|fifth|other"
)
_OWNERS = "the|a|an|his|her|their|its|my|your"
# "swelling of the left knee", "bruises on both arms", "burn L foot"
_BEFORE = re.compile(
    rf"\s+(?:(?:of|in|on|at|over|to|across|around|along|within|throughout|from|overlying|involving|about|near)\s+)?(?:(?:{_OWNERS}|{_SIDES})\s+)*",
    re.IGNORECASE,
)
# "liver lesion", "liver was enlarged", "legs very swollen"
_VERB = r"(?:(?:is|are|was|were|looks?|appears?|remains?|became)\s+)?(?:(?:very|slightly|mildly|moderately|markedly|somewhat|more|less|a bit)\s+)?"
_AFTER = re.compile(rf"[\s-]*{_VERB}", re.IGNORECASE)
# states of a part of the body: "chest clear", "pupils were equal", "L leg shortened"
_STATES = (
    "absent|asymmetric|asymmetrical|benign|bruised|clear|cold|cool|dark|dilated|distended|dry|dusky|enlarged|equal|erythematous|firm|flat|full|"
    "hard|healthy|hot|hyperinflated|inflamed|intact|irregular|loose|moist|mottled|nad|negative|nontender|non-tender|normal|obese|open|pale|palpable|"
    "patent|perfused|pink|reactive|red|regular|rotated|round|scaly|shortened|soft|stiff|supple|swollen|symmetric|symmetrical|tender|thick|thickened|"
    "thin|tight|unremarkable|unequal|warm|weak|wide|wnl"
)
_STATE_AFTER = re.compile(rf"[ \t-]*{_VERB}(?:not\s+|non-?)?(?:{_STATES})\b", re.IGNORECASE)
# "red heels", "small L eye", "no teeth", "# L hip" (a fracture)
_STATE_BEFORE = re.compile(rf"(?:\b(?:{_STATES}|no|small|large|big)[ \t]+(?:(?:{_SIDES})[ \t]+)*|#[ \t]*(?:{_SIDES})[ \t]+)$", re.IGNORECASE)
_FINDINGS = {"LAD": "C0497156"}  # abbreviations of parts of the body -> the finding that they stand for, too: lymphadenopathy
_DENIED_BEFORE = re.compile(r"\bno[ \t]+$", re.IGNORECASE)
_ACRONYM = re.compile(r"[A-Z]{3,5}")
_SUBSTANCES = frozenset(
    ["bile", "blast", "blasts", "blood", "mucus", "phlegm", "pus", "purulence", "sputum"]
)  # "no pus" is said of a finding, "no teeth" of a part
_CHARS_BEFORE = 40  # characters before a part of the body that are read
# the first of several levels of the spine: "C4 to C6"
_LEVEL = re.compile(r"[CTLS]\d{1,2}")
_TO_LEVEL = re.compile(r"[ \t]*(?:to|through|thru|and|or|[-–/,&])[ \t]*", re.IGNORECASE)
# "CT chest, abdomen and pelvis"
_LISTED = re.compile(r"\s*(?:,|/|\+|&|,?\s*and)\s*", re.IGNORECASE)


def without_sites(kept: Sequence[Match], text: str, parts: Sequence[Match] = ()) -> list[Match]:
    """Return the chosen mentions without the parts of the body that only say where another mention is.

    A part of the body is such a site in five cases:

    - It follows a finding, test or procedure, and only a preposition, an article or a side stands between them (`_BEFORE`). It may also follow
      another site: "swelling of the joints of the hands".
    - It stands before a finding, test or procedure, and only a verb or "very" stands between them (`_AFTER`).
    - It is one of several that imaging lists: "CT chest, abdomen and pelvis".
    - Its state is written beside it: "chest clear", "red heels", "no teeth", but not "no LAD". The state need not be a name of the knowledge base.
    - It is in a coordination that names a finding, test or procedure: "stool" in "blood in urine or stool". A statement must have been chosen: in "tonsils and
      adenoids were large", which says nothing that is a name of the adenoids, both are mentions.

    A level of the spine that follows another one, which is no site, is none either: "C6" in "C4 to C6 fracture", but not in "fracture of C5 and C6".

    An abbreviation that stands for a finding where it is ("cervical LAD") is no site.

    In the first case, the finding, test or procedure is a name or an entity of several words. An entity of one word that is no name says little ("fullness of
    the cheek").

    Args:
        kept: mentions that do not overlap, from left to right.
        text: text of the Doc.
        parts: parts of coordinations, which are names whose words do not stand together; each has the place of its whole phrase.
    """
    if all(one.label != BODY for one in kept):
        return list(kept)
    chosen = {(one.start, one.end) for one in kept if one.label in SITED}
    named = sorted((part.start, part.end) for part in parts if part.label in SITED and (part.item in chosen or not _is_stated(part, text)))
    reach = list(accumulate((end for _, end in named), max))  # the last character of the parts that begin so early

    def is_in_part(one: Match) -> bool:
        before = bisect_right(named, one.start, key=lambda place: place[0])
        return before > 0 and one.end <= reach[before - 1]

    sites = {at for at, one in enumerate(kept) if one.label == BODY and (_has_state(one, text) or is_in_part(one))}
    levels: set[int] = set()  # positions of levels of the spine after another one that is a mention
    pictured: set[int] = set()  # positions of imaging, and of the parts of the body that are listed after it
    for at, (one, after) in enumerate(zip(kept, kept[1:])):
        between = text[one.end : after.start]
        if "\n" in between and not between.strip():  # two lines of a list
            continue
        if one.label == "PROC" and IMAGING.match(text, one.start):
            pictured.add(at)
        if after.label == BODY and at not in sites and _are_levels(one, after, text):
            levels.add(at + 1)
            continue
        if at in levels and after.label in SITED:
            continue
        if after.label == BODY and (_has_site(one, text) or at in sites) and _BEFORE.fullmatch(between):
            sites.add(at + 1)
            if at in pictured:
                pictured.add(at + 1)
        elif one.label == BODY and after.label in SITED and _AFTER.fullmatch(between):
            sites.add(at)
        if after.label == BODY and at in pictured and _LISTED.fullmatch(between):
            pictured.add(at + 1)
            sites.add(at + 1)
    return [one for at, one in enumerate(kept) if at not in sites or _is_finding(one, text)]


def _are_levels(one: Match, after: Match, text: str) -> bool:
    """Return whether two mentions are levels of the spine that are joined: "C4 to C6"."""
    levels = _LEVEL.fullmatch(text, one.start, one.end) and _LEVEL.fullmatch(text, after.start, after.end)
    return bool(levels and _TO_LEVEL.fullmatch(text, one.end, after.start))


def _has_site(one: Match, text: str) -> bool:
    """Return whether a mention may have a site: a finding, test or procedure that is a name, or an entity of several words."""
    return one.label in SITED and (one.ent is None or len(text[one.start : one.end].split()) > 1)


def _is_stated(part: Match, text: str) -> bool:
    """Return whether a part is a statement about several things: its name is that of the first one in reverse order, such as "enlarged liver"."""
    if not part.item or part.corrected is None or part.item[0] != part.start:
        return False
    return not part.corrected.startswith(text[part.item[0] : part.item[1]])


def _has_state(part: Match, text: str) -> bool:
    """Return whether the words beside a part of the body give its state."""
    if text[part.start : part.end].lower() in _SUBSTANCES:
        return False
    before = text[max(0, part.start - _CHARS_BEFORE) : part.start]
    if _STATE_AFTER.match(text, part.end):
        return True
    denied = _DENIED_BEFORE.search(before) is not None and _ACRONYM.fullmatch(text, part.start, part.end) is not None
    return _STATE_BEFORE.search(before) is not None and not denied  # "no LOC" denies a finding that has the same letters


def _is_finding(part: Match, text: str) -> bool:
    """Return whether the words around an abbreviation of a part of the body say that it stands for a finding: "cervical LAD" is no artery."""
    finding = _FINDINGS.get(text[part.start : part.end])
    return finding is not None and {hint.concept for hint in hints(text, part.start, part.end)} == {finding}
