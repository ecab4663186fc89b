"""Find names in a text: the longest from left to right, then (in English) nested and overlapping names and parts of coordinations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .beside import FINDING
from .contrast import PROCEDURE, with_contrast
from .defined import with_defined
from .fractures import with_kind_of_fracture
from .frequencies import without_frequencies
from .headed import is_warm_and_dry
from .in_context import as_normal, as_tests, as_vaccines, with_headings, with_letters
from .itemised import items_of
from .joining import Match
from .lookup import Lookup
from .meant import Meant
from .overlaps import gives_way, overlapping
from .parts import parts_of
from .products import with_product_words
from .reading import Reading, read
from .treatment_days import without_days

_LONGER = {PROCEDURE: with_contrast, FINDING: with_kind_of_fracture}  # group of a name -> what adds the words beside it that belong to it


def find_names(text: str, lookup: Lookup) -> list[Match]:
    """Return the names in a text. They may overlap.

    Args:
        text: the text.
        lookup: what is looked for.
    """
    reading = read(text, lookup)
    meant = Meant(reading, lookup)
    matches, wholes, taken = _longest(reading, lookup, meant)
    if not lookup.forms.is_english:
        return [*with_defined(matches, text, meant.skipped, is_english=False), *wholes]
    matches = with_product_words(with_letters(matches, text, lookup), text)
    matches = without_frequencies(without_days(matches, text), text)
    matches = as_vaccines(as_tests(as_normal(matches, text, lookup), text, lookup), text, lookup)
    matches = with_headings(matches, text, lookup, meant.skipped)
    sizes: list[int] = np.bitwise_or.reduce([each.sizes(reading.words) for each in lookup.sets]).tolist()  # most runs of words cannot be names
    found = [
        *with_defined(matches, text, meant.skipped, is_english=True),
        *wholes,
        *_nested(reading, lookup, meant, taken, sizes),
        *_parts(reading, lookup, meant, sizes),
    ]
    return [add(match, text) if (add := _LONGER.get(lookup.group_of(match.label))) is not None else match for match in found]


def _longest(reading: Reading, lookup: Lookup, meant: Meant) -> tuple[list[Match], list[Match], list[tuple[int, int]]]:
    """Return the longest names from left to right, the names that were split into items, and (first word, position after the last) of both."""
    taken: list[tuple[int, int]] = []
    matches: list[Match] = []
    wholes: list[Match] = []
    for at in np.flatnonzero(reading.lengths).tolist():
        end = at + int(reading.lengths[at])
        if (taken and at < taken[-1][1]) or gives_way(reading, lookup, at, end):
            continue
        match = meant.match(range(at, end), reading.label(at))
        if match is None:
            continue
        items = [meant.match(places, label) for places, label in items_of(reading, lookup, at, end, match.label)]
        if items and None not in items:
            wholes.append(match._replace(nested=True))
            matches.extend(filter(None, items))
        else:
            matches.append(match)
        taken.append((at, end))
    return matches, wholes, taken


def _nested(reading: Reading, lookup: Lookup, meant: Meant, taken: list[tuple[int, int]], sizes: Sequence[int]) -> Iterator[Match]:
    """Yield the names inside the chosen names, and those that overlap them.

    Args:
        reading: the text.
        lookup: what is looked for.
        meant: makes the matches.
        taken: (first word, position after the last) of the chosen names.
        sizes: for each word, how many words the names have that begin with it, see `Phrases.sizes`.
    """
    inner = [
        range(a, b)
        for at, end in taken
        for a in range(at, end)
        if (possible := sizes[a])
        for b in range(a + 1, end + 1)
        if possible >> (b - a - 1) & 1 and b - a < end - at
    ]
    each = [*inner, *overlapping(reading, taken)]
    for places, label in zip(each, lookup.labels([[reading.hashes[i] for i in places] for places in each])):
        if label is not None and (match := meant.match(places, label, nested=True)) is not None:
            yield match


def _parts(reading: Reading, lookup: Lookup, meant: Meant, sizes: Sequence[int]) -> Iterator[Match]:
    """Yield the names whose words do not stand together, see `parts`. For the arguments, see `_nested`."""
    found = reading.found
    parts = parts_of([each.group().lower() for each in found], [each > 1 for each in sizes])  # a part has several words
    tried = [part for part in parts if sizes[part.words[0]] >> (len(part.words) - 1) & 1]
    for part, label in zip(tried, lookup.labels([[reading.hashes[i] for i in part.words] for part in tried])):
        if label is not None and (match := meant.match(part.words, label, part=True)) is not None:
            own = (found[part.item[0]].start(), found[part.item[1] - 1].end()) if part.item else None
            if own is None or not is_warm_and_dry(reading.text, *own):
                yield match._replace(part=not part.whole, item=own or ())
