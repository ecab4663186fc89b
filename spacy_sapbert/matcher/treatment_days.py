"""Days of a treatment, which are no mentions: "d5" in "meropenem d5" and "D3 ceftriaxone" is no dextrose."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .beside import DRUG
from .joining import Match

_DAY = re.compile(r"[dD]\d{1,2}")
_BETWEEN = re.compile(r"[ \t]*[(/-]?[ \t]*")
_DOSE = re.compile(  # between a drug against infections and a day: "meropenem 1 g IV q8h, d5"
    r"(?:[ \t]*(?:\d+(?:\.\d+)?[ \t]?m?g\b|(?:iv|po|q\d{1,2}h?|bd|bid|tds|tid|qds|qid|od|daily)\b|[,(/-]))*[ \t]*", re.IGNORECASE
)
_BAG = re.compile(r"D(?:5|10|20|25|40|50)")  # percent of dextrose in a fluid
_WITH_DEXTROSE = re.compile(
    r"(?:insulin|actrapid|humulin|novolin|regular|kcl|potassium|mag\w*|ca\b|calcium)\b", re.IGNORECASE
)  # drugs that are given with one
_VITAMIN = re.compile(r"(?:vit\w*|ca|calcium|caltrate|os-?cal|k2?|magnesium|zinc)\b", re.IGNORECASE)  # before "D3", which is then a vitamin
_FLUID = re.compile(r"[ \t]*(?:%|W\b|NS\b|LR\b|1/[24]|½|water|saline|\+)", re.IGNORECASE)  # after the "D5" of a fluid
_MORE = re.compile(r"[ \t]?(?:/[ \t]?\d{1,2}|of)[ \t]+", re.IGNORECASE)  # between a day and its drug: "D5 of", "d5/7"
_ANTI_INFECTIVE = re.compile(  # how their names begin or end
    r"(?:abx|amox|augmentin|azithro|bactrim|cef|ceph|cipro|clinda|dapto|doxy|ertapenem|flagyl|flucloxacillin|gent|iv abx|levaquin|levo|linezolid|macrobid|mero|metro|mica|"
    r"nitrofurantoin|oseltamivir|pip|rocephin|septra|tamiflu|taz|tobra|unasyn|vanc|zosyn)|.*(?:bactam|cillin|conazole|cycline|floxacin|fungin|micin|mycin|nidazole|penem|vir|zolid)\b",
    re.IGNORECASE,
)


def without_days(names: Sequence[Match], text: str) -> list[Match]:
    """Return the names without days of a treatment, which are "d" and a number.

    A day stands directly after a drug, after a drug against infections and its dose, or directly before such a drug. Dextrose after a drug that it is
    given with ("insulin/D50") and vitamin D3 after another supplement ("calcium/D3") are no days.

    Args:
        names: names that do not overlap, from left to right.
        text: text of the Doc.
    """
    return [one for at, one in enumerate(names) if not (_DAY.fullmatch(text, one.start, one.end) and _is_day(names, at, text))]


def _is_day(names: Sequence[Match], at: int, text: str) -> bool:
    one = names[at]
    if _FLUID.match(text, one.end):
        return False
    before = names[at - 1] if at else None
    if before is not None and before.label == DRUG:
        day = text[one.start : one.end]
        if (_BAG.fullmatch(day) and _WITH_DEXTROSE.match(text, before.start, before.end)) or (
            day == "D3" and _VITAMIN.match(text, before.start, before.end)
        ):
            return False
        between = _DOSE if _ANTI_INFECTIVE.match(text, before.start, before.end) else _BETWEEN
        if between.fullmatch(text, before.end, one.start):
            return True
    after = names[at + 1] if at + 1 < len(names) else None
    if after is None or after.label != DRUG or not _ANTI_INFECTIVE.match(text, after.start, after.end):
        return False
    return bool(_BETWEEN.fullmatch(text, one.end, after.start) or _MORE.fullmatch(text, one.end, after.start))
