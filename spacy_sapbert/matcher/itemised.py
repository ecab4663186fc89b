"""Names that list several disorders, each a name itself: "nausea and vomiting"."""

from __future__ import annotations

from .lookup import Lookup
from .reading import Reading

LISTED = "DISO"  # semantic group of the names that are split where they list several: "fever and chills", not "head and neck"
_JOINS = ("and", "&", ",")


def items_of(reading: Reading, lookup: Lookup, at: int, end: int, label: str) -> list[tuple[range, str]]:
    """Return the items of an English name that lists several disorders.

    Args:
        reading: the text.
        lookup: what is looked for.
        at: position of the first word of the name.
        end: the position after its last word.
        label: label of the name.

    Returns:
        For each item the positions of its words and its label; nothing if the name is no such list.
    """
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
