"""Read a text: its words, and the longest name that begins at each of them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .lookup import Lookup
from .phrases import MAX_WORDS, NO_WORD, Hashes1d, Phrases, word_hash
from .shorthand import SHORT
from .word_forms import WordForms
from .wordings import Wording, may_begin, wordings
from .words import WORD

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
    for other in _other_words(lowered, full, names, forms):
        right.update(_reword(other, names, added))
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
    each, ordered = np.arange(len(words)), sorted(full)
    their_lengths, their_labels = phrases.longest(other, _next(np.array(ordered), each) - each)  # only names that hold a full form
    used: dict[int, str] = {}
    taken = 0  # position after the last name
    for start in np.flatnonzero(their_lengths).tolist():
        end = start + int(their_lengths[start])
        places = ordered[bisect_left(ordered, start) : bisect_left(ordered, end)]
        if start < taken or not places or (end - start < 2 and lowered[start] in SHORT) or _is_in_longer(start, end, lengths):
            continue
        mine = max((at + int(lengths[at]) for at in range(start, end) if lengths[at]), default=0)
        if end - start > lengths[start] and (end >= mine or end - start > 1):
            lengths[start], labels[start], taken = end - start, their_labels[start], end
            for at in places:
                used[at], words[at] = full[at][0], other[at]
    return used


class _OtherWords:
    """The words that are read of another wording of a text: those near words that are new in it.

    Args:
        wording: the other wording.
        full: position -> what the word stands for in it, and its hash.
        m: number of words of the text.

    Attributes:
        full: see above.
        joined: positions of words that the form before them replaces, too.
        is_without: (m,) whether a word is joined or left out.
        before: (m + 1,) number of new words before each position.
        kept: (k,) positions of the words that are read, in order; m stands between words that do not follow each other.
        more_than: (k,) the number of words that a name must exceed to hold a new word.
        words: (k,) the hashes of the words, when they were looked up.
        lengths: (k,) number of words of the longest name with a new word that begins at each word.
        labels: (k,) index of its label.
    """

    words: Hashes1d
    lengths: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]

    def __init__(self, wording: Wording, full: dict[int, tuple[str, int]], m: int) -> None:
        self.full, self.joined = full, list(wording.joined)
        is_new, self.is_without, near = np.zeros((3, m), dtype=np.bool_)
        is_new[list(wording.new)], self.is_without[list(wording.joined | wording.dropped)] = True, True
        for at in wording.new:
            near[max(0, at - _REACH) : at + _REACH] = True  # a name with a new word lies here
        self.before = np.concatenate([[0], np.cumsum(is_new)])
        read = np.flatnonzero(near)
        gaps = np.flatnonzero(np.diff(read) > 1) + 1
        order, read = np.insert(read, gaps, read[gaps - 1]), np.insert(read, gaps, m)  # no name crosses words that are not read
        is_kept = (read == m) | ~self.is_without[np.minimum(read, m - 1)]
        self.kept, order = read[is_kept], order[is_kept]
        each = np.arange(len(self.kept))
        new = np.flatnonzero((self.kept < m) & is_new[np.minimum(self.kept, m - 1)])
        after_left_out = np.searchsorted(
            order, np.flatnonzero(is_new & self.is_without), side="right"
        )  # a name that holds such a word goes beyond it
        self.more_than = np.maximum(np.minimum(_next(new, each), _next(after_left_out, each + 1)) - each, 1)

    def in_text(self, words: Hashes1d) -> Hashes1d:
        """Return the hashes (k,) of the words that are read.

        Args:
            words: (m,) hashes of the words of the text.
        """
        other: Hashes1d = np.append(words, NO_WORD)
        other[list(self.full)] = [hashed for _, hashed in self.full.values()]
        kept: Hashes1d = other[self.kept]
        return kept


def _next(ascending: npt.NDArray[np.int64], at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return for each number the first of some ascending ones that is not below it; a very large one if there is none."""
    return np.append(ascending, np.iinfo(np.int32).max)[np.searchsorted(ascending, at)]


def _other_words(lowered: Sequence[str], full: dict[int, tuple[str, int]], names: _Names, forms: WordForms) -> list[_OtherWords]:
    """Return the words of the other wordings of a text, the most frequent first, with the names in them. All are looked up at once.

    Args:
        lowered: words of the text in lower case.
        full: position -> full form of the word, and its hash.
        names: the names of the text so far.
        forms: gives the hashes of words.
    """
    words, phrases = names.words, names.phrases
    made = [
        _OtherWords(wording, {**full, **{at: (form, forms.hash_of(form)) for at, form in wording.forms.items()}}, len(words))
        for wording in wordings(lowered)
    ]
    for each in made:
        each.words = each.in_text(words)
    for each, found in zip(made, phrases.longest_of_all([each.words for each in made], [each.more_than for each in made])):
        each.lengths, each.labels = found
    return made


def _reword(wording: _OtherWords, names: _Names, added: dict[int, str]) -> dict[int, str]:
    """Find names in another wording of the text, where its own words give no name that is as long.

    Args:
        wording: the words of the other wording.
        names: the names of the text so far.
        added: see `Reading`; a shorter name that a user added is removed where a name is found.

    Returns:
        Position -> what the word stands for; "" for a word that is left out.
    """
    lowered, words, lengths, labels, phrases = names
    kept, full = wording.kept, wording.full
    now, their_lengths, their_labels = wording.in_text(words), wording.lengths, wording.labels
    if not np.array_equal(now, wording.words):  # a name in a wording before this one has changed them
        their_lengths, their_labels = phrases.longest(now, wording.more_than)
    begins = np.flatnonzero(their_lengths)
    if not len(begins):
        return {}
    starts, ends = kept[begins], kept[begins + their_lengths[begins] - 1] + 1
    while len(cut := np.flatnonzero(np.isin(ends, wording.joined))):  # names that end in the middle of a form
        ends[cut] += 1
    longer = (wording.before[ends] > wording.before[starts]) & (ends - starts > lengths[starts])
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
            if wording.is_without[at]:
                used[at], words[at] = "", NO_WORD
            elif at in full:
                used[at], words[at] = full[at][0], full[at][1]
    return used


def _is_in_longer(start: int, end: int, lengths: npt.NDArray[np.int64]) -> bool:
    """Return whether the words start:end are in a name that begins before them as it is written: "septic emboli"."""
    return any(lengths[at] and at + lengths[at] >= end for at in range(max(0, start - MAX_WORDS), start))
