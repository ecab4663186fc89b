"""Read the words of a text in the form in which the matcher compares them: in lower case, in English without possessive and plural endings."""

from __future__ import annotations

import re

from ..kb.concept import ENGLISH, lower_case, stem

# A word is letters and digits; "'s" belongs to its word, and `stem` removes it. Punctuation marks and empty lines are words, too, so that no
# name crosses them. Spaces, hyphens, slashes and apostrophes only separate words
WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)?|[^\s\w\-‐‑–/'’]|_|\n\s*\n")
LONG = 64  # letters; longer words (such as base64) are neither corrected nor remembered


def words(text: str, language: str = "") -> list[tuple[str, int, int]]:
    """Return the words and punctuation marks of a text as (form, start, end), with offsets in characters.

    Args:
        text: a text.
        language: language of the text, ISO 639-1; English words are stemmed.
    """
    return [(form_of(m.group(), language), m.start(), m.end()) for m in WORD.finditer(text)]


def form_of(word: str, language: str) -> str:
    """Return the form in which a word is compared.

    Args:
        word: a word.
        language: its language, ISO 639-1; English words are stemmed.
    """
    lowered = lower_case(word, language).replace("’", "'")
    return stem(lowered) if language in ENGLISH else lowered
