"""Torn tendons, muscles and menisci: "tearing of the medial meniscus" is a tear and no eye that waters."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .listed import Listed

_TISSUE = r"(?:cuff|labrum|ligaments?|menisc(?:us|i)|muscles?|retinaculum|subscapularis|supraspinatus|infraspinatus|tendons?)"
_OF_TISSUE = re.compile(rf"[ \t]+of[ \t]+(?:(?:the|his|her|their|a)[ \t]+)?(?P<site>(?:[a-z-]+[ \t]+){{0,3}}?{_TISSUE})\b", re.IGNORECASE)
_TEARING = re.compile(r"\btearing\b", re.IGNORECASE)


def torn(text: str) -> Iterator[Listed]:
    """Yield tears that are told with "tearing of". A longer name comes before a shorter one: "medial meniscus tear", "meniscus tear", "tear".

    Args:
        text: the note.
    """
    for tearing in _TEARING.finditer(text):
        if (of := _OF_TISSUE.match(text, tearing.end())) is None:
            continue
        words = of["site"].split()
        for first in range(len(words)):
            site = " ".join(words[first:])
            for form in (site, re.sub("menisc(?:us|i)$", "meniscal", site, flags=re.IGNORECASE)):
                yield Listed(tearing.start(), of.end(), f"{form} tear")


def is_of_tissue(text: str, end: int) -> bool:
    """Return whether the text after a word "tearing" tells of what is torn.

    Args:
        text: the note.
        end: the character after the word.
    """
    return _OF_TISSUE.match(text, end) is not None
