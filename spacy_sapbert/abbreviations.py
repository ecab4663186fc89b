"""Initialisms that a text defines: "myotonic dystrophy (DM)" -> {"DM": "myotonic dystrophy"}. Plain text, no spaCy."""

from __future__ import annotations

import re
from typing import Dict, List, Optional

MAX_LETTERS = 8
_BRACKET = re.compile(r"\(\s*([A-Za-z][A-Za-z0-9./-]{1,14})\s*(?:[,;][^()]*)?\)")
_WORD = re.compile(r"[^\W_]+(?:'s)?")
_END = re.compile(r"[.;:!?]\s|[()\[\]]|\n\n")  # a definition does not go over these
_SMALL = frozenset(["a", "an", "and", "by", "due", "for", "from", "in", "of", "on", "or", "plus", "the", "to", "versus", "with"])


def initialisms(text: str) -> Dict[str, str]:
    """Short form -> long form, where the letters in brackets are the initials of the words before them, two also the other way round.

    It adds what Schwartz and Hearst's algorithm (PSB 2003; scispaCy's `abbreviation_detector`) can't find: "myotonic dystrophy (DM)",
    and letters joined by hyphens, "ataxia-telangiectasia (A-T)". Every letter must begin a word and every word but small ones ("of", "and")
    must have its letter, so what is found is hardly ever wrong. The first definition of a form counts.
    """
    found: Dict[str, str] = {}
    for bracket in _BRACKET.finditer(text):
        short = bracket[1]
        letters = [c for c in short if c.isalnum()]
        if not 2 <= len(letters) <= MAX_LETTERS or 2 * sum(c.isupper() for c in letters) < len(letters):
            continue
        long = _before(text[max(0, bracket.start() - 30 * len(letters)) : bracket.start()], letters)
        if long is not None:
            found.setdefault(short, long)
    return found


def _before(text: str, letters: List[str]) -> Optional[str]:
    """The words at the end of `text` whose initials are `letters`."""
    ends = list(_END.finditer(text))
    text = text[ends[-1].end() :] if ends else text
    wanted, got = [c.lower() for c in letters], ""
    for word in reversed(list(_WORD.finditer(text))):
        initial, small = word[0][0].lower(), word[0] in _SMALL
        if initial == wanted[-1 - len(got)] or (len(wanted) == 2 and not small and initial == wanted[len(got)]):
            got += initial
        elif not small:
            return None
        if len(got) == len(wanted):
            return text[word.start() :].strip() if sorted(got) == sorted(wanted) else None
    return None
