"""Which of two names that overlap is chosen, where it is not the first one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .beside import FINDING
from .joining import WHOLE
from .lookup import Lookup
from .parts import CONJUNCTIONS
from .reading import Reading
from .sites import BODY

_LITTLE = frozenset(["had", "has", "have", "on"])  # words with which a name may begin that belong to the sentence: "on pap smear"


def gives_way(reading: Reading, lookup: Lookup, at: int, end: int) -> bool:
    """Return whether an English name is not chosen, because another one begins in it and goes beyond it.

    Args:
        reading: the text.
        lookup: what is looked for.
        at: position of the first word of the name.
        end: the position after its last word.
    """
    return lookup.forms.is_english and (
        _is_site_of_longer(reading, lookup, at, end) or _overlaps_longer(reading, lookup, at, end) or _begins_with_verb(reading, at, end)
    )


def _is_site_of_longer(reading: Reading, lookup: Lookup, at: int, end: int) -> bool:
    """Return whether a finding begins in the name of a part of the body and goes beyond it: "leg edema" in "right leg edema"."""
    if end - at < 2 or lookup.group_of(reading.label_of_kb(at)) != BODY:
        return False
    lengths = reading.lengths
    return any(
        start + int(lengths[start]) > end and lookup.group_of(reading.label_of_kb(start)) in WHOLE for start in range(at + 1, end) if lengths[start]
    )


def _overlaps_longer(reading: Reading, lookup: Lookup, at: int, end: int) -> bool:
    """Return whether a name with twice as many words begins in a name and goes beyond it: "oriented to person, place, and time" in "alert and oriented".

    In a finding, a word such as "and" must stand before it: in "back pain with lumbar flexion", the pain is in the back, and "pain with lumbar flexion" does
    not count. "disorder, complex partial seizure" goes beyond "seizure disorder" with a sign, and does not count either.
    """
    found, lengths = reading.found, reading.lengths
    if end >= len(found) or not found[end].group()[0].isalnum():
        return False
    starts = [start for start in range(at + 1, end) if lengths[start] >= 2 * (end - at) and start + int(lengths[start]) > end]
    if not starts or lookup.group_of(reading.label_of_kb(at)) != FINDING:
        return bool(starts)
    return any(found[start - 1].group().lower() in CONJUNCTIONS for start in starts)


def _begins_with_verb(reading: Reading, at: int, end: int) -> bool:
    """Return whether a name begins with a word such as "has" or "on", and a name that is at least as long follows this word: "lupus nephritis" in "has lupus nephritis"."""
    if end - at < 2 or reading.found[at].group().lower() not in _LITTLE:
        return False
    return int(reading.lengths[at + 1]) >= end - at


def overlapping(reading: Reading, taken: Iterable[tuple[int, int]]) -> Iterator[range]:
    """Yield the positions of names that overlap a chosen one but are not in it: "kidney injury" beside "acute kidney".

    Args:
        reading: the text.
        taken: (first word, position after the last) of the chosen names.
    """
    lengths = reading.lengths
    for at, end in taken:
        for start in range(at + 1, end):
            if lengths[start] and start + int(lengths[start]) > end:
                yield range(start, start + int(lengths[start]))
