"""Names whose words do not stand together in the text: "cleft palate" in "cleft lip and palate", "neck webbing" in "webbing of the neck"."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from spacy.lang.en.stop_words import STOP_WORDS

from .wordings import DEGREES

CONJUNCTIONS = frozenset(["and", "or", "&"])
_SIGNS = frozenset(["+", ">"])  # "liver + peritoneal mets", "expressive > receptive aphasia"
_JOINS = CONJUNCTIONS | {","}
_BETWEEN = frozenset(["the", "his", "her", "my", "your", "our", "both", "a", "an", "of", "in", "its", "their"])
_SIDES = frozenset(["left", "right", "l", "r", "lt", "rt", "bilateral", "both"])
_ONE_SIDE = _SIDES - {"both"}  # "both" stands before other things, too
_TO = frozenset(["allergy", "allergies", "exposure", "intolerance", "sensitivity", "hypersensitivity"])  # "allergy to penicillin"
_IS = frozenset(
    """
    is are was were looks look looked appears appear appeared remains remained feels feel felt been goes go going gone went got gotten turns
    turned became
    """.split()  # noqa: SIM905
)
_HELPS = frozenset(["has", "have", "had", "keeps", "keep", "kept"])  # before such a verb: "have gone red"
_NOT = "not"
# words that say something about what stands before them: "calf swollen" is "swollen calf"
_CHANGES = frozenset(
    [
        *("absent", "bloody", "blurred", "blurry", "cloudy", "cold", "dark", "decreased", "diminished", "dilated", "distended", "dry", "elevated"),
        *("enlarged", "high", "increased", "itchy", "loose", "low", "pale", "raised", "red", "reduced", "slurred", "sore", "stiff", "swollen"),
        *("tender", "thickened", "watery", "weak"),
    ]
)
_SPECIMENS = frozenset(["biopsy", "biopsies"])
_TAKEN = frozenset(  # how a specimen is taken: "lung, wedge biopsy"
    [
        *("bronchoscopic", "core", "cup", "endoscopic", "excisional", "fine", "forceps", "incisional", "needle", "open", "percutaneous", "punch"),
        *("random", "sampling", "shave", "targeted", "transbronchial", "wedge", *_SIDES),
    ]
)
# verbs after a phrase, besides those in -ed: "mucosa of the soft palate extending down"
_VERBS = frozenset(
    [
        "being",
        "causing",
        "containing",
        "demonstrating",
        "extending",
        "following",
        "going",
        "having",
        "including",
        "indicating",
        "involving",
        "lasting",
        "measuring",
        "occurring",
        "producing",
        "radiating",
        "representing",
        "requiring",
        "resulting",
        "revealing",
        "seen",
        "showing",
        "shown",
        "starting",
        "suggesting",
        "using",
        "worsening",
        "demonstrate",
        "demonstrates",
        "reveal",
        "reveals",
        "show",
        "shows",
    ]
)
_DEGREES = frozenset(["very", "slightly", "mildly", "moderately", "markedly", "quite", "more", "rather", "so"])
_AFTER_IS = _DEGREES | DEGREES | {"getting", "going", "now"}  # after a verb, these are passed
_A_BIT = (["bit"], ["little"])
_DENIES = frozenset(["not", "never", "cannot", "doesn't", "don't", "didn't", "can't"])  # verbs
MAX_NOUN = 4  # most letters of a noun in -ed: "nail bed", "seed"
MAX_HEAD = 3  # most words in the head that parts share
MAX_PART = 2  # most words in a part
MAX_ITEMS = 5  # most items of a list
MAX_JOINS = 4  # most conjunctions and commas between two items: ", and/or"


class Part(NamedTuple):
    """Words that may form a name, to be looked up.

    Attributes:
        words: positions of its words in the text, in the order of the name.
        first: position of the first word of the phrase that holds the name.
        end: position after the last word of this phrase.
        whole: True if the phrase consists of the name in another word order, so that it is one mention ("webbing of the neck").
        item: of an item of a coordination, the position of its first word and the position after its last one; () for other parts.
    """

    words: tuple[int, ...]
    first: int
    end: int
    whole: bool = False
    item: tuple[int, ...] = ()


def parts_of(words: Sequence[str], begins: Sequence[bool]) -> Iterator[Part]:
    """Yield possible names whose words do not stand together.

    - Items before a shared head: "aplastic or hypoplastic nails" gives "aplastic nails", "liver + peritoneal mets" "liver mets".
    - Items after a shared beginning: "cleft lip and palate" gives "cleft palate"; "swelling of hands and feet" "swelling of feet", "feet swelling".
    - Phrases with "of", "in" or "on", in reverse order: "webbing of the neck" gives "neck webbing", "swelling of the left knee" "knee swelling";
      with "to" after some words: "allergy to penicillin" gives "penicillin allergy".
    - A side between a finding and its site, in reverse order: "OA R knee" gives "knee OA", "fracture left wrist" "wrist fracture".
    - Statements about something, in reverse order: "liver was enlarged", "liver is not enlarged", "liver enlarged" and "liver has gone a bit enlarged" give "enlarged liver". Statements about
      several things give a name for each: "liver and spleen are enlarged" also gives "enlarged liver" for "liver".
    - Specimens, as pathologists head them: "lung, wedge biopsy" gives "lung biopsy".

    Args:
        words: words and punctuation marks of the text, in lower case.
        begins: for each, whether a name can begin with it. Parts that begin with another word are left out.
    """
    run = _runs(words)
    for at, word in enumerate(words):
        if word in CONJUNCTIONS:
            yield from _coordinated(words, run, begins, at)
        elif word in _SIGNS:
            yield from _before_head(words, run, begins, at, at + 1)
        elif word in ("of", "in", "on") or (word == "to" and at and words[at - 1] in _TO):
            yield from _reversed(words, run, begins, at)
        elif word in _ONE_SIDE and at and words[at - 1] not in _ONE_SIDE:
            yield from _sided(words, run, begins, at)
        elif word in _IS:
            yield from _stated(words, run, begins, at - 1 if at and words[at - 1] in _HELPS else at, at + 1)
        elif word in _DEGREES and not (at and words[at - 1] in _IS):  # "is very" is read at "is"
            yield from _stated(words, run, begins, at, at + 1)
        elif word in _CHANGES or (word == _NOT and at and words[at - 1] not in _IS):  # "is not" is read at "is"
            yield from _stated(words, run, begins, at, at)
        elif word in _SPECIMENS:
            yield from _specimen(words, run, begins, at)


def _runs(words: Sequence[str]) -> list[int]:
    """Return for each position how many words follow one another from there, up to a punctuation mark, "and" or "or"; a last 0 for the end."""
    run = [0] * (len(words) + 1)
    for at in range(len(words) - 1, -1, -1):
        if words[at][0].isalnum() and words[at] not in ("and", "or"):
            run[at] = run[at + 1] + 1
    return run


def _are_words(run: Sequence[int], first: int, end: int) -> bool:
    """Return whether all positions from `first` up to, but not including, `end` hold words."""
    return first >= 0 and end < len(run) and run[first] >= end - first


def _beyond(words: Sequence[str], at: int, step: int, joins: Collection[str] = _JOINS) -> int:
    """Return the first position from `at` on, in steps of 1 or -1, that holds no conjunction or comma. At most `MAX_JOINS` of them are passed."""
    for _ in range(MAX_JOINS):
        if not 0 <= at < len(words) or words[at] not in joins:
            break
        at += step
    return at


def _items(words: Sequence[str], run: Sequence[int], at: int) -> list[int]:
    """Return the positions of the last word of each item before a conjunction, from right to left."""
    ends: list[int] = []
    i = _beyond(words, at - 1, -1)
    while _are_words(run, i, i + 1) and len(ends) < MAX_ITEMS:
        ends.append(i)
        if words[i - 1 : i] != [","]:
            break
        i -= 2
    return ends


def _coordinated(words: Sequence[str], run: Sequence[int], begins: Sequence[bool], at: int) -> Iterator[Part]:
    after = _beyond(words, at + 1, 1, ("or", "and"))
    if not _are_words(run, after, after + 1):
        return
    yield from _before_head(words, run, begins, at, after)
    last = _beyond(words, at - 1, -1, (",", "or", "and"))
    rest = [(after, after + own) for own in range(1, MAX_PART + 1)]
    yield from _begun(words, run, begins, last, rest)
    if len(ends := _items(words, run, at)) > 1:  # "pain in her legs, neck, and hands": all items but the first have one word
        yield from _begun(words, run, begins, ends[-1], [*((each, each + 1) for each in reversed(ends[:-1])), *rest])


def _before_head(words: Sequence[str], run: Sequence[int], begins: Sequence[bool], at: int, after: int) -> Iterator[Part]:
    """Yield items before a shared head: "aplastic nails" in "aplastic or hypoplastic nails".

    Args:
        words: words of the text.
        run: see `_runs`.
        begins: see `parts_of`.
        at: position of the conjunction or sign.
        after: position of the first word of the item after it.
    """
    for last in _items(words, run, at):
        for size in range(1, MAX_PART + 1):
            first = last - size + 1
            if not _are_words(run, first, last + 1):
                break
            if not begins[first]:
                continue
            for own in (1, 2):  # number of words in the last item before the head
                if words[after + own - 1 : after + own] in (["with"], ["without"]):  # "anesthesia and surgery without complications"
                    break
                for head in range(1, MAX_HEAD + 1):
                    end = after + own + head
                    if _are_words(run, after, end):
                        yield Part((*range(first, last + 1), *range(after + own, end)), first, end, item=(first, last + 1))


def _begun(words: Sequence[str], run: Sequence[int], begins: Sequence[bool], last: int, items: Sequence[tuple[int, int]]) -> Iterator[Part]:
    """Yield items after a shared beginning: "swelling of feet" and "feet swelling" in "swelling of hands and feet".

    The beginning holds no denial: "drink" in "does not smoke or drink" is not "does not drink", because its status says already that it is negated.

    Args:
        words: words of the text.
        run: see `_runs`.
        begins: see `parts_of`.
        last: position of the last word of the item that stands after the beginning.
        items: the other items: position of the first word, and after the last one.
    """
    for item in range(1, MAX_PART + 1):  # number of words in the item after the beginning
        start = last - item + 1
        for size in range(1, MAX_HEAD + 1):
            first = start - size
            if not _are_words(run, first, last + 1):
                break
            if words[first] in _DENIES:
                break
            if not (begins[first] or any(begins[own] for own, _ in items)):
                continue
            shared = range(first, start)
            kept = [i for i in shared if words[i] not in _BETWEEN]
            for own, end in items:
                if _are_words(run, own, end):
                    if begins[first]:
                        yield Part((*shared, *range(own, end)), first, end, item=(own, end))
                    if begins[own] and 0 < len(kept) < size:
                        yield Part((*range(own, end), *kept), first, end, item=(own, end))


def _ends(words: Sequence[str], end: int) -> bool:
    """Return whether a phrase ends before position `end`, at a sign, a stop word or a verb: after "of the ventricular" it does not, if "septum" follows."""
    if end >= len(words) or not words[end][0].isalpha() or words[end] in STOP_WORDS or words[end] in _VERBS:
        return True
    return words[end].endswith("ed") and len(words[end]) > MAX_NOUN


def _ends_or_side(words: Sequence[str], end: int) -> bool:
    """Return whether a phrase ends before position `end`, or before a side that stands there: "calf swollen R"."""
    return _ends(words, end) or (words[end] in _SIDES and _ends(words, end + 1))


def _begins(words: Sequence[str], first: int) -> bool:
    """Return whether a phrase begins at position `first`: "reflex" in "red reflex" does not."""
    return first == 0 or not words[first - 1][0].isalpha() or words[first - 1] in STOP_WORDS or words[first - 1] in _SIDES


def _reversed(words: Sequence[str], run: Sequence[int], begins: Sequence[bool], at: int) -> Iterator[Part]:
    """Yield names such as "neck webbing" in "webbing of the neck"."""
    second = at + 1
    while second < len(words) and words[second] in _BETWEEN:
        second += 1
    beyond = second  # after the side: "swelling of the left knee" is also tried without "left"
    while beyond < len(words) and words[beyond] in _SIDES:
        beyond += 1
    for before in range(1, MAX_PART + 1):
        if not _are_words(run, at - before, at):
            break
        for start in dict.fromkeys((second, beyond)):
            if not (_are_words(run, start, start + 1) and (begins[start] or begins[at - before])):
                continue
            for size in range(1, MAX_HEAD + 1):
                if _are_words(run, start, start + size):
                    whole = _ends(words, start + size)
                    if begins[start]:
                        yield Part((*range(start, start + size), *range(at - before, at)), at - before, start + size, whole)
                    if start > at + 1 and begins[at - before]:
                        yield Part((*range(at - before, at + 1), *range(start, start + size)), at - before, start + size, whole)


def _sided(words: Sequence[str], run: Sequence[int], begins: Sequence[bool], at: int) -> Iterator[Part]:
    """Yield names such as "knee OA" in "OA R knee".

    Args:
        words: words of the text.
        run: see `_runs`.
        begins: see `parts_of`.
        at: position of the side.
    """
    if not (_are_words(run, at, at + 2) and begins[at + 1]):
        return
    for before in range(1, MAX_PART + 1):
        if not _are_words(run, at - before, at):
            break
        for size in range(1, MAX_HEAD + 1):
            end = at + 1 + size
            if _are_words(run, at, end) and _ends(words, end):
                yield Part((*range(at + 1, end), *range(at - before, at)), at - before, end, whole=True)


def _stated(words: Sequence[str], run: Sequence[int], begins: Sequence[bool], at: int, second: int) -> Iterator[Part]:
    """Yield names such as "enlarged liver" in "liver was not enlarged", "swollen leg" in "legs very swollen", "elevated ammonia" in "ammonia elevated".

    Args:
        words: words of the text.
        run: see `_runs`.
        begins: see `parts_of`.
        at: position after the last word of what is spoken about.
        second: position of the first word that may be the statement.
    """
    if second < len(words) and words[second] == _NOT:
        second += 1
    passed = _AFTER_IS if second > at and words[second - 1] not in _DEGREES else _DEGREES
    while second < len(words) and (words[second] in passed or (words[second : second + 1] == ["a"] and words[second + 1 : second + 2] in _A_BIT)):
        second += 2 if words[second] == "a" else 1
    statements = [range(second, second + size) for size in range(1, MAX_PART + 1) if _are_words(run, second, second + size)]
    if not (statements and begins[second]):
        return
    for before in range(1, MAX_PART + 1):
        first = at - before
        if not _are_words(run, first, at):
            break
        for stated in statements:
            # "red reflex absent" is not "absent reflex"
            whole = _ends_or_side(words, stated.stop) and (second > at or _begins(words, first))
            yield Part((*stated, *range(first, at)), first, stated.stop, whole)
        if first and (words[first - 1] in CONJUNCTIONS or words[first - 1] == "nor"):
            for last in _items(words, run, first - 1):
                for item in range(max(last - MAX_PART + 1, 0), last + 1):
                    for stated in statements:
                        if _are_words(run, item, last + 1):
                            yield Part((*stated, *range(item, last + 1)), item, stated.stop, item=(item, last + 1))


def _specimen(words: Sequence[str], run: Sequence[int], begins: Sequence[bool], at: int) -> Iterator[Part]:
    """Yield names such as "lung biopsy" in "lung, right, wedge biopsy".

    Args:
        words: words of the text.
        run: see `_runs`.
        begins: see `parts_of`.
        at: position of the word "biopsy".
    """
    last, commas = at - 1, 0
    while last >= 0 and (words[last] == "," or words[last] in _TAKEN):
        commas += words[last] == ","
        last -= 1
    if not commas:
        return
    for size in range(1, MAX_PART + 1):
        first = last - size + 1
        if _are_words(run, first, last + 1) and begins[first] and (first == 0 or not words[first - 1][0].isalpha() or words[first - 1] in STOP_WORDS):
            yield Part((*range(first, last + 1), at), first, at + 1, whole=True)
