"""Find the abbreviations that a text defines: "myotonic dystrophy (DM)" -> {"DM": "myotonic dystrophy"}. It works on plain text, without spaCy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile

from ..kb.concept import lower_in_place

MAX_LETTERS = 8
MAX_CHARS_BEFORE = 240  # characters before the bracket in which the long form is searched
MAX_SHARED = 4  # words that several long forms may share at their end
_BRACKET = re.compile(r"[(\[]([^()\[\]]{2,80})[)\]]")
_SHORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9.'/&-]{1,11}")
_ROMAN = re.compile(r"[IVX]+")
_PLURAL = re.compile(r"(.+[A-Z])'?s")
_JOINED = re.compile(r"\s*[/,;&]\s*|\s+(?:and/or|and|or)\s+")
_WORD = re.compile(r"[^\W_]+(?:'s)?")
_END = re.compile(r"[.;:!?]\s|[()\[\]]|\n\s*\n|\n\s*(?=[-*#•\d])")  # a definition does not cross these
_SMALL = frozenset(["a", "an", "and", "by", "due", "for", "from", "in", "of", "on", "or", "plus", "the", "to", "versus", "with"])
# These often stand in brackets without a definition. They count as defined only if their letters are the initials of the words before, in order
_USUAL = frozenset(
    [
        *("AM", "BID", "CT", "DO", "IM", "INR", "IU", "MD", "MR", "MRI", "NA", "NONE", "NOS", "NP", "NPO", "OD", "OS", "OT", "OU", "PA", "PHD", "PM"),
        *("PO", "PR", "PRN", "PT", "QD", "QHS", "QID", "RN", "SC", "SL", "SQ", "TID", "TM", "US", "XR"),
    ]
)


def definitions(text: str, *, english: bool = True) -> dict[str, str]:
    """Find every abbreviation that the text defines in brackets.

    The short form is first compared with the initials of the words. Then a short form of three or more letters is tried with the algorithm
    of Schwartz and Hearst, whose last letter must be in the last word; one of two letters with the initials in reverse order ("myotonic
    dystrophy (DM)"). Several short forms in one bracket ("Duchenne and Becker muscular dystrophy (DMD/BMD)") each get their part of the
    text. The long form may also be in the bracket ("FAP (familial adenomatous polyposis)"), or both ("(Raynaud's phenomenon, RP)").

    Args:
        text: a note.
        english: whether the text is English. Only then plurals get a singular, and small words such as "of" may be missing in the short form.

    Returns:
        Short form -> long form. A plural short form is also included in the singular, and one with a hyphen may be included by its part after the
        hyphen ("ALD" of "X-ALD"). If a short form is defined twice, the first definition counts.

    Source:
        Schwartz and Hearst, A simple algorithm for identifying abbreviation definitions in biomedical text, PSB 2003, figure 1.
    """
    found: dict[str, str] = {}
    for bracket in _BRACKET.finditer(text):
        before = _clause(text[max(0, bracket.start() - MAX_CHARS_BEFORE) : bracket.start()])
        for short, long in _read(before, bracket[1].strip(), english):
            for form in _forms(short, english):
                found.setdefault(form, long)
    return found


def _clause(text: str) -> str:
    """Return the text after the last sentence end, bracket, blank line or list mark."""
    ends = list(_END.finditer(text))
    return (text[ends[-1].end() :] if ends else text).strip()


def _read(before: str, inside: str, english: bool) -> Iterator[tuple[str, str]]:
    """Yield (short form, long form) pairs of one bracket.

    Args:
        before: the text before the bracket.
        inside: the text in the bracket.
        english: whether the text is English.
    """
    shorts = list(takewhile(is_short, _JOINED.split(inside)))
    if len(shorts) > 1:
        longs = _side_by_side(before, shorts, english)
        yield from ((short, long) for short, long in zip(shorts, longs) if long)
        if any(longs):
            return
    if len(shorts) < 2 and is_short(inside):  # "CL/P" is one
        shorts = [inside]
    if not shorts:
        named, comma, last = inside.rpartition(",")
        if comma and is_short(last.strip()) and (long := _long(named.strip(), last.strip(), english)):  # "(Raynaud's phenomenon, RP)"
            yield last.strip(), long
            return
        short = before.split()[-1] if before else ""
        if is_short(short) and len(inside.split()) > 1 and _long(inside, short, english) == inside:
            yield short, inside
        return
    tail = shorts[0].rpartition("-")[2]  # "X-ALD": "ALD"
    for short in [shorts[0], tail] if tail.isalpha() and is_short(tail) else shorts[:1]:
        if long := _long(before, short, english):
            yield short, long


def is_short(text: str) -> bool:
    """Return whether a text can be a short form: 2 to 8 letters and digits, at least half of them capitals, and not a Roman numeral."""
    letters = [c for c in text if c.isalnum()]
    fits = _SHORT.fullmatch(text) is not None and _ROMAN.fullmatch(text) is None and 2 <= len(letters) <= MAX_LETTERS
    return fits and 2 * sum(c.isupper() for c in letters) >= len(letters)


def _forms(short: str, english: bool) -> list[str]:
    """Return the short form, and its singular if it is an English plural: "VSDs" and "VSD". "As" is no plural."""
    plural = _PLURAL.fullmatch(short) if english else None
    return [short, plural[1]] if plural and len(plural[1]) > 1 else [short]


def _side_by_side(before: str, shorts: list[str], english: bool) -> list[str | None]:
    """Return the long form of each of several short forms. Long forms may share their last words: "Duchenne and Becker muscular dystrophy"."""
    parts = _JOINED.split(before)[-len(shorts) :]
    if len(parts) < len(shorts):
        return [None] * len(shorts)
    words = parts[-1].split()[1:][-MAX_SHARED:]
    ends = ["", *(" " + " ".join(words[i:]) for i in range(len(words)))]
    others = [next(filter(None, (_long(part + end, short, english) for end in ends)), None) for part, short in zip(parts[:-1], shorts)]
    return [*others, _long(parts[-1], shorts[-1], english)]


def _long(text: str, short: str, english: bool) -> str | None:
    """Return the part at the end of `text` that the short form stands for; None if there is none."""
    letters = [c.lower() for c in _forms(short, english)[-1] if c.isalnum()]
    exact = _initials(text, letters, small=english and (len(letters) > 2 or "&" in short))
    if exact or short.upper() in _USUAL:
        return exact
    if len(letters) > 2 or "-" in short:
        return _schwartz_hearst(text, letters, english)
    return _initials(text, letters, is_reversed=True)


def _schwartz_hearst(text: str, letters: list[str], english: bool) -> str | None:
    """Return the long form by Schwartz and Hearst's algorithm.

    From the right, each letter is matched at its last place before the letter that follows it. The first letter must begin a word, and the
    last letter must be in the last word. A long form has at most min(|A| + 5, 2 |A|) words, where |A| is the number of letters.
    """
    lowered = lower_in_place(text)
    at = len(text)
    for place, letter in reversed(list(enumerate(letters))):
        at = lowered.rfind(letter, 0, at)
        while at > 0 and place == 0 and lowered[at - 1].isalnum():
            at = lowered.rfind(letter, 0, at)
        if at < 0 or (place == len(letters) - 1 and any(c.isspace() for c in text[at:])):
            return None
    long = text[at:]
    words = [word.lower() for word in _WORD.findall(long)]
    most = min(len(letters) + 5, 2 * len(letters))
    if not words or len(words) > most or (english and words[0] in _SMALL) or len(long) <= len(letters) + 1 or "".join(letters) in words:
        return None
    return long


def _initials(text: str, letters: list[str], *, small: bool = False, is_reversed: bool = False) -> str | None:
    """Return the words at the end of `text` whose initials are the letters.

    Args:
        text: the text before the bracket.
        letters: letters of the short form, in lower case.
        small: small words, such as "of", may have no letter in the short form.
        is_reversed: compare two letters in reverse order.
    """
    got = ""
    for word in reversed(list(_WORD.finditer(text))):
        initial = word[0][0].lower()
        if initial == letters[len(got) if is_reversed else -1 - len(got)]:
            got += initial
        elif not small or word[0].lower() not in _SMALL:
            return None
        if len(got) == len(letters):
            return text[word.start() :].strip()
    return None
