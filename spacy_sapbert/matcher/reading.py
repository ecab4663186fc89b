"""Read a text: its words, and the longest name that begins at each of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .lookup import Lookup
from .phrases import MAX_WORDS, Hashes1d, Phrases, word_hash
from .shorthand import SHORT
from .words import WORD


@dataclass(frozen=True)
class Reading:
    """The m words of a text, and the longest name that begins at each of them.

    Attributes:
        text: the text.
        found: the m words.
        words: (m,) their hashes. A word that is misspelt, or shortened in a name, has that of its correct form.
        hashes: the same as a list.
        right: position -> correct form of such a word.
        lengths: (m,) number of words of the longest name that begins at each word; 0 for none.
        labels: (m,) index of its label in `names`.
        names: the labels of the knowledge base's names.
        added: position -> label of a name that a user added, where it is the longest one.
    """

    text: str
    found: list[re.Match[str]]
    words: Hashes1d
    hashes: list[int]
    right: dict[int, str]
    lengths: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]
    names: Sequence[str]
    added: dict[int, str]

    def label_of_kb(self, at: int) -> str:
        """Return the label of the longest name of the knowledge base that begins at a word."""
        return self.names[int(self.labels[at])]

    def label(self, at: int) -> str:
        """Return the label of the longest name that begins at a word."""
        return self.added.get(at) or self.label_of_kb(at)


def read(text: str, lookup: Lookup) -> Reading:
    """Read a text.

    Args:
        text: the text.
        lookup: what is looked for.
    """
    forms, phrases = lookup.forms, lookup.phrases
    found = list(WORD.finditer(text))
    right = forms.corrections(found, text)
    words = np.fromiter(
        (word_hash(right[at]) if at in right else forms.hash_of(match.group()) for at, match in enumerate(found)),
        dtype=np.uint64,
        count=len(found),
    )
    lengths, labels = phrases.longest(words)
    if forms.is_english:
        lowered = [match.group().lower() for match in found]
        full = forms.full_forms(lowered, right)
        right.update(_write_out({at: (form, forms.hash_of(form)) for at, form in full.items()}, lowered, words, lengths, labels, phrases))
    added: dict[int, str] = {}
    if lookup.more is not None:
        others, their_labels = lookup.more.longest(words)
        for at in np.flatnonzero(others > lengths).tolist():
            lengths[at], added[at] = others[at], lookup.more.names[their_labels[at]]
    return Reading(text, found, words, words.tolist(), right, lengths, labels, phrases.names, added)


def _write_out(
    full: dict[int, tuple[str, int]],
    lowered: Sequence[str],
    words: Hashes1d,
    lengths: npt.NDArray[np.int64],
    labels: npt.NDArray[np.int64],
    phrases: Phrases,
) -> dict[int, str]:
    """Find names with shortened words ("abdo pain"), where the unchanged words give no name of that length. The arrays are changed in place.

    Args:
        full: position -> full form of the word, and its hash.
        lowered: (m,) words of the text in lower case.
        words: (m,) their hashes; for each returned word, set to the hash of its full form.
        lengths: (m,) number of words of the longest name that begins at each word; updated for each name found here.
        labels: (m,) index of its label; updated for each name found here.
        phrases: the names.

    Returns:
        Position -> full form of the word.
    """
    if not full:
        return {}
    other = words.copy()
    for at, (_, hashed) in full.items():
        other[at] = hashed
    their_lengths, their_labels = phrases.longest(other)
    used: dict[int, str] = {}
    taken = 0  # position after the last name
    for start in np.flatnonzero(their_lengths).tolist():
        end = start + int(their_lengths[start])
        places = [at for at in full if start <= at < end]
        if start < taken or not places or (end - start < 2 and lowered[start] in SHORT) or _is_in_longer(start, end, lengths):
            continue
        mine = max((at + int(lengths[at]) for at in range(start, end) if lengths[at]), default=0)
        if end - start > lengths[start] and (end >= mine or end - start > 1):
            lengths[start], labels[start], taken = end - start, their_labels[start], end
            for at in places:
                used[at], words[at] = full[at][0], other[at]
    return used


def _is_in_longer(start: int, end: int, lengths: npt.NDArray[np.int64]) -> bool:
    """Return whether the words start:end are in a name that begins before them as it is written: "septic emboli"."""
    return any(lengths[at] and at + lengths[at] >= end for at in range(max(0, start - MAX_WORDS), start))
