"""Find what a writer says of a relative: "My mum is confused. She has a water infection." Words are tokens in lower case."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from .items import Words

WRITER = frozenset(["i", "i'm", "i've", "i'd", "i'll", "im", "ive", "me", "my", "mine", "myself", "we", "we're", "we've", "our", "us"])
_NOTE = frozenset(["patient", "patients", "pt", "pts", "denies", "denied"])  # words of a clinician's note, in which "my" is a quotation
_PRONOUNS = {"she": "woman", "she's": "woman", "her": "woman", "he": "man", "he's": "man", "his": "man"}
_OWNING = frozenset(["her", "his"])
_OPENS = frozenset(["and", "but", "because", "as", "that", "if", "when", "so", "now", "think", "hi", "hello", "also", "today", "yesterday"])
_GRADED = frozenset(["bipolar", "class", "grade", "phase", "stage", "type"])  # words before a Roman figure: the "I" of "type I"
_BEFORE_KIN = 4  # words and marks between "my" and the relative: "my 4 - year - old son"
_LONGEST = 60  # words and marks of a statement, and before "my" in its clause; what is beyond is not read
_LEADING = 3  # words before "her" at the beginning of a clause: "Today her cough is worse"


def statements_about_relatives(words: Sequence[str], bounds: Sequence[int], hidden: AbstractSet[int], kinds: Words) -> list[tuple[int, int]]:
    """Return (first token, last token + 1) of what a writer says of "my mum", "my son" and other relatives.

    These are the words after the relative in its own clause, and what follows a "she" or "he" of the same sex later in the text. Both end where the writer
    speaks of himself or herself again ("and I have"). A doctor, a friend or another relative may be the next "she", so they end the search.

    Args:
        words: the words of a note.
        bounds: the first token of each clause, in order, and the number of tokens.
        hidden: tokens in phrases such as "my mum says", after which nothing is said of the relative.
        kinds: the words that name relatives, and verbs of saying.
    """
    if "my" not in words or not _NOTE.isdisjoint(words):
        return []
    found: list[tuple[int, int]] = []
    sex, at, n = "", 0, len(words)
    while at < n:
        word = words[at]
        place = bisect_right(bounds, at)
        begin, end = max(bounds[place - 1], at - _LONGEST), min(bounds[place], at + _LONGEST)
        if word == "my" and (kin := _relative(words, at, end, kinds)) is not None:
            quoted = '"' in words[begin:at] or not {"she", "he"}.isdisjoint(words[begin:at])
            sex = "" if quoted else _sex(words[kin], kinds)
            subject = at == begin or not words[at - 1][0].isalnum() or words[at - 1] in _OPENS
            if sex and subject and at not in hidden and not _tells(words, kin + 1, kinds):
                found.append((kin, _own_words_end(words, kin + 1, end)))
            at = kin
        elif word in kinds.stranger:
            sex = ""
        elif sex and _PRONOUNS.get(word) in ({"woman", "man"} if sex == "either" else {sex}):
            owning = word in _OWNING and (at - begin >= _LEADING or not WRITER.isdisjoint(words[begin:at]))
            if not owning and not _tells(words, at + 1, kinds):
                found.append((at, _own_words_end(words, at + 1, end)))
        at += 1
    return found


def _relative(words: Sequence[str], at: int, end: int, kinds: Words) -> int | None:
    """Return the token of the relative soon after "my" at token `at`, in a clause that ends before token `end`; None if there is none."""
    near = range(at + 1, min(at + 2 + _BEFORE_KIN, end))
    return next((token for token in near if _sex(words[token], kinds)), None)


def _sex(word: str, kinds: Words) -> str:
    """Return "woman", "man" or "either" for a relative; "" for another word."""
    return "woman" if word in kinds.woman else "man" if word in kinds.man else "either" if word in kinds.either else ""


def _tells(words: Sequence[str], at: int, kinds: Words) -> bool:
    """Return whether what follows from token `at` is what a person says, sees or does, not how the person is: "thinks it is eczema", "is worried about"."""
    at += at < len(words) and words[at] in ("also", "just", "always")
    said = words[at : at + 2]
    return bool(said) and (said[0] in kinds.telling or (len(said) > 1 and said[0] in kinds.be and said[1] in kinds.moved))


def _own_words_end(words: Sequence[str], at: int, end: int) -> int:
    """Return the token before `end` where the writer speaks of himself or herself again; `end` if nowhere."""
    return next((token for token in range(at, end) if words[token] in WRITER and not (words[token] == "i" and words[token - 1] in _GRADED)), end)
