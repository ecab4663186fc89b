"""Which of two names that overlap is chosen, where it is not the first one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .beside import FINDING
from .collecting import DENIES
from .joining import WHOLE
from .lookup import Lookup
from .parts import CONJUNCTIONS
from .reading import Reading
from .sites import BODY

_LITTLE = frozenset(
    ["a", "an", "at", "for", "had", "has", "have", "having", "in", "is", "on", "the", "was", "with"]
)  # words that say little at the beginning of a name
# after "no concentration", these are what is denied: "no concentration difficulties"
_DENIED_NOUNS = frozenset(
    """
    abnormalities abnormality change changes deficit deficits difficulties difficulty disturbance disturbances impairment impairments issue
    issues loss losses problem problems
    """.split()  # noqa: SIM905
)


def gives_way(reading: Reading, lookup: Lookup, at: int, end: int) -> bool:
    """Return whether an English name is not chosen, because another one begins in it and goes beyond it.

    Args:
        reading: the text.
        lookup: what is looked for.
        at: position of the first word of the name.
        end: the position after its last word.
    """
    return lookup.forms.is_english and (
        _is_site_of_longer(reading, lookup, at, end)
        or _overlaps_longer(reading, lookup, at, end)
        or _begins_with_little_word(reading, at, end)
        or _denies_longer(reading, at, end)
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


def _begins_with_little_word(reading: Reading, at: int, end: int) -> bool:
    """Return whether a name begins with a word such as "on" or "has", and the next word begins a name that goes beyond it: "on pap" before "smear"."""
    first = reading.found[at].group().lower()
    return end - at > 1 and first in _LITTLE and reading.right.get(at) is None and at + 1 + int(reading.lengths[at + 1]) > end


def _denies_longer(reading: Reading, at: int, end: int) -> bool:
    """Return whether a name that begins with a denial is cut off: "no concentration" in "no concentration difficulties", "no hip flexion weakness".

    The next word is a noun such as "problems", or another name begins in the name and goes beyond it. A name that a user added is never cut off.
    """
    found, lengths = reading.found, reading.lengths
    if end - at < 2 or found[at].group().lower() not in DENIES or at in reading.added:
        return False
    if any(start + int(lengths[start]) > end for start in range(at + 1, end) if lengths[start]):
        return True
    if end >= len(found) or (noun := found[end].group()).lower() not in _DENIED_NOUNS:
        return False
    on_next_line = "\n" in reading.text[found[end - 1].end() : found[end].start()]  # a list may go on with "Loss of weight"
    return noun.islower() or not on_next_line


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
