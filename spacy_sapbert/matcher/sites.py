"""Parts of the body that only say where a finding is: "liver" in "liver lesion", "left knee" in "swelling of the left knee"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .joining import Match

BODY = "ANAT"
SITED = frozenset(["DISO", "PROC"])  # what has a site: findings, tests and procedures
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
_AFTER = re.compile(
    r"[\s-]*(?:(?:is|are|was|were|looks?|appears?|remains?|became)\s+)?(?:(?:very|slightly|mildly|moderately|markedly|somewhat|more|less|a bit)\s+)?",
    re.IGNORECASE,
)


def without_sites(kept: Sequence[Match], text: str) -> list[Match]:
    """Return the chosen mentions without parts of the body that say where another one is.

    A part of the body is a site if only what `_BEFORE` matches (a preposition, a side, an article) stands between a finding, test or procedure and it, or
    only what `_AFTER` matches (a verb such as "was", "very") between it and a finding, test or procedure. A part of the body beside a site is a
    site, too: "swelling of the joints of the hands".

    Args:
        kept: mentions that do not overlap, from left to right.
        text: of the Doc.
    """
    if all(one.label != BODY for one in kept):
        return list(kept)
    sites: set[int] = set()
    for at, (one, after) in enumerate(zip(kept, kept[1:])):
        between = text[one.end : after.start]
        if "\n" in between and not between.strip():  # the next line of a list
            continue
        if after.label == BODY and (one.label in SITED or at in sites) and _BEFORE.fullmatch(between):
            sites.add(at + 1)
        elif one.label == BODY and after.label in SITED and _AFTER.fullmatch(between):
            sites.add(at)
    return [one for at, one in enumerate(kept) if at not in sites]
