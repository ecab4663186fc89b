"""Say what is a test, and whether a note measures a substance of the body, such as creatinine or TSH ("BMP, TSH in 6 weeks"), and does not give it as a drug."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..render.records import Row
from .base import groups_of

# types of substances that the body has: proteins, biologically active substances, hormones, vitamins, elements; aspirin has none of them
OF_THE_BODY = frozenset(["T116", "T123", "T125", "T127", "T196"])
LABORATORY = "T059"  # laboratory procedures
TESTS = frozenset([LABORATORY, "T060", "T034", "T201"])  # these, diagnostic procedures, results, clinical attributes

_NEAR = 15  # characters after a substance in which a word such as "drip" is searched
_MOST = 10  # items of a list before and after a substance that are looked at
_FAR = 80  # characters before a substance that are read
_LIST = re.compile(r"[ \t]*(?:[,/&+]|,?[ \t]*\b(?:and|or)\b)?[ \t]*")  # between two items of a list
_CHECK = re.compile(
    r"\b(?:re-?)?(?:check(?:ed|ing)?|monitor(?:ed|ing)?|measur(?:e[ds]?|ing)|trend(?:ed|ing)?|draw|drew)[ ](?:(?:a|an|the|his|her|serum|daily|repeat|of)[ ])*\Z",
    re.IGNORECASE,
)
_GIVEN = re.compile(r"[^,.;:\n]*?\b(?:drip|gtt|infusion|injections?|supplement\w*|tablets?|replacement|pump)\b", re.IGNORECASE)  # "insulin drip"
_AFTER = re.compile(
    r"[ ](?:levels?\b|(?:peaked|rose|fell|dropped|climbed|bumped|increased|decreased|improved|normali[sz]ed|trended|remained|was|is|of)\b"
    r"(?:[ ](?:to|at|back|down|up|from|as|high|low|about|around|only))*[ ]*(?:\d|elevated|high\b|low\b|normal\b|stable\b|within\b))",
    re.IGNORECASE,
)


def is_test(row: Row) -> bool:
    """Return whether the concept of a record is a test, or something that is measured or observed, such as the heart rate."""
    return "PHYS" in groups_of(row) or not TESTS.isdisjoint(row["types"])


def is_measured(text: str, place: int, rows: Sequence[Row]) -> bool:
    """Return whether a substance of the body is measured: in a list with a laboratory test, after "check", or before "level" or a result.

    Args:
        text: the note.
        place: place of its record.
        rows: the records of the note, without nested mentions.
    """
    row = rows[place]
    if OF_THE_BODY.isdisjoint(row["types"]) or _GIVEN.match(text, row["start"], row["end"] + _NEAR) is not None:
        return False
    if _AFTER.match(text, row["end"]) is not None:
        return True
    first = place
    while max(place - _MOST, 0) < first and not OF_THE_BODY.isdisjoint(rows[first - 1]["types"]) and _listed(text, rows[first - 1], rows[first]):
        first -= 1
    last = place
    while (
        last + 1 < min(len(rows), place + _MOST) and not OF_THE_BODY.isdisjoint(rows[last + 1]["types"]) and _listed(text, rows[last], rows[last + 1])
    ):
        last += 1
    if first and LABORATORY in rows[first - 1]["types"] and _listed(text, rows[first - 1], rows[first]):
        return True
    if last + 1 < len(rows) and LABORATORY in rows[last + 1]["types"] and _listed(text, rows[last], rows[last + 1]):
        return True
    begin = rows[first]["start"]
    return _CHECK.search(text[max(begin - _FAR, 0) : begin]) is not None


def _listed(text: str, one: Row, other: Row) -> bool:
    """Return whether two mentions follow one another in a list: a comma, a slash or "and" stands between them, and nothing else."""
    between = text[one["end"] : other["start"]]
    return bool(between.strip()) and len(between) < _FAR and _LIST.fullmatch(between) is not None
