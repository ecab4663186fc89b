"""Names that list several things, each a name itself: "nausea and vomiting", "statin - myalgia"."""

from __future__ import annotations

import re

from .beside import DRUG
from .lookup import Lookup
from .reading import Reading

LISTED = "DISO"  # semantic group of the names that are split where they list several: "fever and chills", not "head and neck"
_JOINS = ("and", "&", ",")
_DASH = re.compile(r"[ \t]+[-–][ \t]+")


def items_of(reading: Reading, lookup: Lookup, at: int, end: int, label: str) -> list[tuple[range, str]]:
    """Return the items of an English name that lists several disorders, or a drug and, after a dash with spaces, its reaction.

    Args:
        reading: the text.
        lookup: what is looked for.
        at: position of the first word of the name.
        end: the position after its last word.
        label: label of the name.

    Returns:
        For each item the positions of its words and its label; nothing if the name is no such list.
    """
    if reaction := _reaction(reading, lookup, at, end, label):
        return reaction
    joins = [i for i in range(at, end) if reading.found[i].group().lower() in _JOINS]
    if not joins or lookup.group_of(label) != LISTED or not lookup.forms.is_english:
        return []
    items = [range(first, last) for first, last in zip([at, *(i + 1 for i in joins)], [*joins, end])]
    if not all(items):
        return []
    labels = lookup.labels([reading.hashes[item.start : item.stop] for item in items])
    if any(each is None or lookup.group_of(each) != LISTED for each in labels):
        return []
    return [(item, str(each)) for item, each in zip(items, labels)]


def _reaction(reading: Reading, lookup: Lookup, at: int, end: int, label: str) -> list[tuple[range, str]]:
    """Return the drug and the disorder of a name that a dash with spaces divides, see `items_of`; nothing if it is not one."""
    if end - at < 2 or lookup.group_of(label) != LISTED or not lookup.forms.is_english:
        return []
    found = reading.found
    after = next((i for i in range(at + 1, end) if _DASH.fullmatch(reading.text, found[i - 1].end(), found[i].start())), None)
    if after is None:
        return []
    drug, disorder = lookup.labels([reading.hashes[at:after], reading.hashes[after:end]])
    if drug is None or disorder is None or lookup.group_of(drug) != DRUG or lookup.group_of(disorder) != LISTED:
        return []
    return [(range(at, after), drug), (range(after, end), disorder)]
