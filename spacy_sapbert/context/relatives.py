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
_SAYS = frozenset(
    ["reports", "reported", "states", "stated", "says", "said", "claims", "claimed", "stating", "reporting"]
)  # before a quotation: "Reports my father had"
_QUOTES = frozenset(['"', "\u201c", "\u201d", "\u2018"])  # in a clause before "my"
_DIRECT = _QUOTES | {"'", "\u2019"}  # directly before "my"; an apostrophe is a quotation mark there
# what may stand between "my" and the relative, besides figures: "my 4-year-old son", but not "my clinic with his son"
_DESCRIBES = frozenset(
    ["-", "year", "years", "yr", "yrs", "month", "months", "week", "weeks", "old", "elderly", "older", "younger", "little", "late", "own", "dear"]
)
_BEFORE_KIN = 7  # words and marks between "my" and the relative: "my own 4 - year - old son"
_IN_HOSPITAL = frozenset(["admitted", "hospital"])  # "My mum was admitted because of a stroke" is about her
_PLACES = frozenset(
    ["on", "in", "at", "over", "under", "around", "behind", "down", "across", "near", "from", "of"]
)  # before "my": "and a rash on my chest"
_ACTS = frozenset(["i", "we"])  # "I gave my son paracetamol. He has a fever."
_JOINS = frozenset(["and", "but", ","])
_LONGEST = 60  # words and marks of a statement, and before "my" in its clause; what is beyond is not read
_LEADING = 3  # words before "her" at the beginning of a clause: "Today her cough is worse"


def statements_about_relatives(words: Sequence[str], bounds: Sequence[int], hidden: AbstractSet[int], kinds: Words) -> list[tuple[int, int]]:
    """Return (first token, last token + 1) of what a writer says of "my mum", "my son" and other relatives.

    The relative must be the subject, or stand after "I" or "we": "I gave my son paracetamol. He". These are the words after the relative in its own clause,
    and what follows a "she" or "he" of the same sex later in the text. Both end where the writer speaks of himself or herself again ("and I have", "and a rash on my chest"), and at "because of" and
    "and there is". A doctor, a friend or another relative who may be the next "she" ends the search: after "My mum", "her sister", but not "her husband".

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
            who = _sex(words[kin], kinds)
            subject = at == begin or not words[at - 1][0].isalnum() or words[at - 1] in _OPENS
            quoted = _is_quoted(words, begin, at)
            if (subject or not _ACTS.isdisjoint(words[begin:at])) and not quoted:
                sex = who
                if subject and at not in hidden and not _tells(words, kin + 1, kinds):
                    found.append((kin, _own_words_end(words, kin + 1, end)))
            elif quoted or _alike(sex, who):
                sex = ""
            at = kin + (kin + 1 < n and _sex(words[kin + 1], kinds) != "")  # "my baby boy"
        elif word in kinds.stranger or _alike(sex, _sex(word, kinds)):
            sex = ""
        elif sex and _PRONOUNS.get(word) in ({"woman", "man"} if sex == "either" else {sex}):
            owning = word in _OWNING and (at - begin >= _LEADING or not WRITER.isdisjoint(words[begin:at]))
            if not owning and not _tells(words, at + 1, kinds):
                found.append((at, _own_words_end(words, at + 1, end)))
        at += 1
    return found


def _relative(words: Sequence[str], at: int, end: int, kinds: Words) -> int | None:
    """Return the token of the relative soon after "my" at token `at`, in a clause that ends before token `end`; None if there is none."""
    for token in range(at + 1, min(at + 2 + _BEFORE_KIN, end)):
        if _sex(words[token], kinds):
            return token
        if words[token] not in _DESCRIBES and not words[token][0].isdigit():
            return None
    return None


def _is_quoted(words: Sequence[str], begin: int, at: int) -> bool:
    """Return whether "my" at token `at`, in a clause from token `begin`, is in a quotation: of "she" or "he", after "reports", or after a quotation mark."""
    before = words[begin:at]
    said = not _SAYS.isdisjoint(before) and WRITER.isdisjoint(before)
    return said or not {"she", "he"}.isdisjoint(before) or not _QUOTES.isdisjoint(before) or (at > 0 and words[at - 1] in _DIRECT)


def _alike(one: str, other: str) -> bool:
    """Return whether the same "she" or "he" may mean two relatives; their sex is "woman", "man" or "either", or "" for nobody."""
    return bool(one and other) and (one == other or "either" in (one, other))


def _sex(word: str, kinds: Words) -> str:
    """Return "woman", "man" or "either" for a relative; "" for another word."""
    return "woman" if word in kinds.woman else "man" if word in kinds.man else "either" if word in kinds.either else ""


def _tells(words: Sequence[str], at: int, kinds: Words) -> bool:
    """Return whether what follows from token `at` is what a person says, sees or does, not how the person is: "thinks it is eczema", "is worried about"."""
    at += at < len(words) and words[at] in ("also", "just", "always")
    said = words[at : at + 2]
    return bool(said) and (said[0] in kinds.telling or (len(said) > 1 and said[0] in kinds.be and said[1] in kinds.moved))


def _own_words_end(words: Sequence[str], at: int, end: int) -> int:
    """Return the token before `end` where the writer speaks of himself or herself again; `end` if nowhere.

    In "and a rash on my chest", it is the "and". "Because of" ends what is said of the relative, too, unless it is about the relative: "because of her hip", "was admitted because of".
    """
    for token in range(at, end):
        word, after = words[token], list(words[token + 1 : min(token + 3, end)])
        if word in WRITER and not (word == "i" and words[token - 1] in _GRADED):
            if words[token - 1] not in _PLACES:
                return token
            return next((place for place in range(token - 1, at, -1) if words[place] in _JOINS), token)
        if word == "because" and after[:1] == ["of"] and _OWNING.isdisjoint(after) and _IN_HOSPITAL.isdisjoint(words[at:token]):
            return token
        if word == "and" and after[:1] == ["there"] and after[1:] in (["is"], ["was"], ["are"]):
            return token
    return end
