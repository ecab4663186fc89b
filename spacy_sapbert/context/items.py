"""The items of a list, as far as the status rules need them: "a, b and c negative", "history of x, CT showed y". Words are tokens in lower case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

# classes of the table of rules that name words of items
LINK, APART, STATE, ASSAY, STUDY, EARLIER, AFTER = "link", "apart", "state", "assay", "study", "former", "after"
NAMES = (LINK, APART, STATE, ASSAY, STUDY, EARLIER, AFTER)
_MARKS = frozenset(',;:()[]|"<>')
_OPENING = frozenset(":([=|")  # marks between an item and what is said of it: "HIV: negative", "HIV (negative)", "| HIV | negative |"
_MOST_WORDS = 4  # a longer item is not one of a list of names
_LONGEST = 40  # words and marks of the item before or after a statement; what is beyond is not read
_MOST_ITEMS = 30  # of a list
_STUDY_WORDS = 12  # words among which the test is looked for that showed something


class Words(NamedTuple):
    """The words by which items are told apart. All are sets of words in lower case.

    Attributes:
        link: words that join two items: "and".
        apart: words before which another statement stands: "with", "has".
        state: words that say something of their own item: "positive".
        assay: words between a disease and what is said of its test: "hepatitis C *antibodies* pending".
        study: names of tests that can show something; those that begin with "-" are endings.
        earlier: words that say that a test was done long ago.
        after: words that may follow a statement at the end of its item.
    """

    link: AbstractSet[str] = frozenset()
    apart: AbstractSet[str] = frozenset()
    state: AbstractSet[str] = frozenset()
    assay: AbstractSet[str] = frozenset()
    study: AbstractSet[str] = frozenset()
    earlier: AbstractSet[str] = frozenset()
    after: AbstractSet[str] = frozenset()

    @classmethod
    def of(cls, classes: Mapping[str, Sequence[str]]) -> Words:
        """Return the words of some classes; a class that is missing has none."""
        return cls(*(frozenset(classes.get(name, ())) for name in NAMES))


def ends_item(words: Sequence[str], last: int, end: int, kinds: Words) -> bool:
    """Return whether a statement that ends before token `last` ends its item, in a clause that ends before token `end`: "HIV negative, …"."""
    return last >= end or not words[last][0].isalnum() or words[last] in kinds.after


def own_item(words: Sequence[str], first: int, begin: int, kinds: Words) -> tuple[int, int]:
    """Return the first token of the item before a statement, and the token after its last one.

    Args:
        words: the tokens of a note.
        first: the first token of the statement.
        begin: the first token of its clause.
        kinds: the words by which items are told apart.
    """
    last = first
    while last > begin and words[last - 1] in _OPENING:
        last -= 1
    return _start(words, last, begin, kinds), last


def listed_items(words: Sequence[str], start: int, begin: int, kinds: Words, *, joined: bool) -> int:
    """Return the first token of the list that ends in an item which starts at token `start`; `start` if it is in no list.

    "a and b", "a, b and c", and "a, b, c" at the beginning of a clause are lists. "a, b" is none: "pneumonia, HIV negative".

    Args:
        words: the tokens of a note.
        start: the first token of the last item.
        begin: the first token of the clause.
        kinds: the words by which items are told apart.
        joined: only a list with "and" counts.
    """
    links: list[bool] = []  # whether the item is joined with a word such as "and"
    at = start
    while at > begin and len(links) < _MOST_ITEMS:
        before = at - 1
        linked = words[before] in kinds.link
        if linked and before > begin and words[before - 1] == ",":
            before -= 1
        if not linked and words[before] != ",":
            break
        item = _start(words, before, begin, kinds)
        names = words[item:before]
        if not 0 < sum(word[0].isalnum() for word in names) <= _MOST_WORDS or any(word in kinds.state or word[0].isdigit() for word in names):
            break
        links.append(linked)
        at = item
    if not links or (at > begin and words[at - 1] in kinds.apart):
        return start
    alone = len(links) > 1 and not any(links) and (at == begin or words[at - 1] in _OPENING)
    return at if links[0] or (alone and not joined) else start


def alternatives(words: Sequence[str], first: int, end: int, kinds: Words) -> int:
    """Return the token after the last item that "or" joins to those before it: after "drugs" in "[does not] smoke, drink or use drugs".

    Args:
        words: the tokens of a note.
        first: the token where the first item starts; it may be empty: "[never smoked] or …".
        end: the token after the last one of the clause.
        kinds: the words by which items are told apart.

    Returns:
        `first` if no item is joined with "or".
    """
    at = found = first
    either = False
    end = min(end, first + _LONGEST)
    while at < end:
        stop = at
        while stop < end and words[stop] not in _MARKS and words[stop] not in kinds.link and words[stop] not in kinds.apart:
            stop += 1
        names = words[at:stop]
        if at > first and not 0 < sum(word[0].isalnum() for word in names) <= _MOST_WORDS:
            break
        if any(word in kinds.state or word[0].isdigit() for word in names):
            break
        if either:
            found = stop
        after = stop + 1 if stop + 1 < end and words[stop] == "," and words[stop + 1] in kinds.link else stop
        if after >= end or (words[after] != "," and words[after] not in kinds.link):
            break
        either = words[after] in ("or", "nor")
        at = after + 1
    return found


def study_item(words: Sequence[str], verb: int, begin: int, kinds: Words) -> int | None:
    """Return the first token of the item that names the test of a verb: of "the CT" in "…, and the CT showed"; None if there is none, or it is old.

    Args:
        words: the tokens of a note.
        verb: the token of the verb.
        begin: the first token of the clause.
        kinds: the words by which items are told apart.
    """
    start = verb
    while (
        start > begin
        and verb - start < _STUDY_WORDS
        and words[start - 1] not in (",", ":", ";", "with", "but")
        and words[start - 1] not in kinds.link
    ):
        start -= 1
    if start == begin or verb - start >= _STUDY_WORDS:
        return None
    item = words[start:verb]
    if any(word in kinds.earlier or _is_year(word) for word in item):
        return None
    endings = tuple(word[1:] for word in kinds.study if word.startswith("-"))
    return start if any(word in kinds.study or (endings and word.endswith(endings)) for word in item) else None


def _start(words: Sequence[str], last: int, begin: int, kinds: Words) -> int:
    at, begin = last, max(begin, last - _LONGEST)
    while at > begin and words[at - 1] not in _MARKS and words[at - 1] not in kinds.link and words[at - 1] not in kinds.apart:
        at -= 1
    return at


def _is_year(word: str) -> bool:
    return len(word) == 4 and word.isdigit() and word[:2] in ("19", "20")
