"""Read a text: its words, and the longest name that begins at each of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .lookup import Lookup
from .phrases import MAX_WORDS, Hashes1d, Phrases, word_hash
from .shorthand import SHORT
from .wordings import Wording, may_begin, wordings
from .words import WORD

LEFT_OUT = np.uint64(word_hash(""))  # stands for a word that is left out; no name holds it
_REACH = MAX_WORDS + 4  # words before or after a word in which a name that holds it may begin or end


@dataclass(frozen=True)
class Reading:
    """The m words of a text, and the longest name that begins at each of them.

    Attributes:
        text: the text.
        found: the m words.
        words: (m,) their hashes. A word that is misspelt, or shortened in a name, has that of its correct form.
        hashes: the same as a list.
        right: position -> correct form of such a word; "" for a word that is left out, see `wordings`.
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
    lowered = [match.group().lower().replace("’", "'") for match in found] if forms.is_english else []
    full = {at: (form, forms.hash_of(form)) for at, form in forms.full_forms(lowered, right).items()} if lowered else {}
    names = _Names(lowered, words, lengths, labels, phrases)
    right.update(_write_out(full, names))
    added: dict[int, str] = {}
    if lookup.more is not None:
        others, their_labels = lookup.more.longest(words)
        for at in np.flatnonzero(others > lengths).tolist():
            lengths[at], added[at] = others[at], lookup.more.names[their_labels[at]]
    for wording in wordings(lowered):
        other = {**full, **{at: (form, forms.hash_of(form)) for at, form in wording.forms.items()}}
        right.update(_reword(wording, other, names, added))
    return Reading(text, found, words, words.tolist(), right, lengths, labels, phrases.names, added)


class _Names(NamedTuple):
    """The names of a text that have been found. `_write_out` and `_reword` change the arrays in place.

    Attributes:
        lowered: (m,) words of the text in lower case.
        words: (m,) their hashes; a word that stands for another one in a name that is found gets the hash of the other.
        lengths: (m,) number of words of the longest name that begins at each word.
        labels: (m,) index of its label.
        phrases: the names that are looked for.
    """

    lowered: Sequence[str]
    words: Hashes1d
    lengths: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]
    phrases: Phrases


def _write_out(full: dict[int, tuple[str, int]], names: _Names) -> dict[int, str]:
    """Find names with shortened words ("abdo pain"), where the unchanged words give no name of that length.

    Args:
        full: position -> full form of the word, and its hash.
        names: the names of the text so far.

    Returns:
        Position -> full form of the word.
    """
    if not full:
        return {}
    lowered, words, lengths, labels, phrases = names
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


def _reword(wording: Wording, full: dict[int, tuple[str, int]], names: _Names, added: dict[int, str]) -> dict[int, str]:
    """Find names in another wording of the text, where its own words give no name that is as long.

    Args:
        wording: the other wording.
        full: position -> what the word stands for in it, and its hash.
        names: the names of the text so far.
        added: see `Reading`; a shorter name that a user added is removed where a name is found.

    Returns:
        Position -> what the word stands for; "" for a word that is left out.
    """
    lowered, words, lengths, labels, phrases = names
    without = wording.joined | wording.dropped
    m = len(words)
    other = np.append(words, LEFT_OUT)
    is_new, is_without, near = np.zeros((3, m), dtype=np.bool_)
    for at, (_, hashed) in full.items():
        other[at] = hashed
    is_new[list(wording.new)], is_without[list(without)] = True, True
    for at in wording.new:
        near[max(0, at - _REACH) : at + _REACH] = True  # a name with a new word lies here
    read = np.flatnonzero(near)
    read = np.insert(read, np.flatnonzero(np.diff(read) > 1) + 1, m)  # no name crosses words that are not read
    kept = read[(read == m) | ~is_without[np.minimum(read, m - 1)]]
    their_lengths, their_labels = phrases.longest(other[kept])
    begins = np.flatnonzero(their_lengths > 1)
    starts, ends = kept[begins], kept[begins + their_lengths[begins] - 1] + 1
    while len(joined := np.flatnonzero(np.isin(ends, list(wording.joined)))):
        ends[joined] += 1
    before = np.concatenate([[0], np.cumsum(is_new)])  # number of new words before each position
    longer = (before[ends] > before[starts]) & (ends - starts > lengths[starts])
    used: dict[int, str] = {}
    taken = 0  # position after the last name
    for first, start, end in zip(begins[longer].tolist(), starts[longer].tolist(), ends[longer].tolist()):
        if start < taken or not may_begin(lowered[start], int(their_lengths[first])) or _is_in_longer(start, end, lengths):
            continue
        if any(at + int(lengths[at]) > end for at in range(start, end) if lengths[at]):
            continue
        lengths[start], labels[start], taken = end - start, their_labels[first], end
        added.pop(start, None)
        for at in range(start, end):
            if is_without[at]:
                used[at], words[at] = "", LEFT_OUT
            elif at in full:
                used[at], words[at] = full[at][0], other[at]
    return used


def _is_in_longer(start: int, end: int, lengths: npt.NDArray[np.int64]) -> bool:
    """Return whether the words start:end are in a name that begins before them as it is written: "septic emboli"."""
    return any(lengths[at] and at + lengths[at] >= end for at in range(max(0, start - MAX_WORDS), start))
