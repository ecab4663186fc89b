"""Lists of words that come with the package: plain English words, words that are spelt correctly, clinical abbreviations."""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import lru_cache
from pathlib import Path

DATA = Path(__file__).parents[1] / "data"
PLAIN_WORDS = DATA / "plain_words.txt"
KNOWN_WORDS = DATA / "known_words.txt.xz"
SENSES = DATA / "abbreviations.tsv"
MEANINGS = DATA / "senses" / "meanings.tsv"
_NOT_PLAIN = frozenset(["testes", "palps"])  # names that look like a form of a plain word: "test"; "palp" is palpation
_DOUBLED = re.compile(r"(\w+?([bdgmnprt]))\2(?:ed|ing)")


@lru_cache(maxsize=1)
def plain_words() -> frozenset[str]:
    """Return English words that are names in some vocabulary, but are hardly ever mentions by themselves."""
    lines = PLAIN_WORDS.read_text(encoding="utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


def is_plain(word: str) -> bool:
    """Return whether a word in lower case, or its base form, is one of the plain words."""
    plain = plain_words()
    if word in _NOT_PLAIN:
        return False
    bare = [
        word,
        word.removesuffix("s"),
        word.removesuffix("d"),
        *(word.removesuffix(end) for end in ("es", "ed", "ing", "ly") if word.endswith(end)),
        *([word[:-3] + "y"] if word.endswith("ies") else []),  # "therapies"
        *([found[1]] if (found := _DOUBLED.fullmatch(word)) else []),  # "prepped"
    ]
    return any(form in plain for form in bare) or (word.endswith("ing") and word[:-3] + "e" in plain)


@lru_cache(maxsize=1)
def known_words() -> frozenset[str]:
    """Return words in lower case that are frequent in notes and abstracts, and so are not misspellings."""
    import lzma

    with lzma.open(KNOWN_WORDS, "rt", encoding="utf-8") as file:
        return frozenset(line.strip() for line in file if line.strip() and not line.startswith("#"))


@lru_cache(maxsize=1)
def _sorted_words() -> list[str]:
    return sorted(known_words())


def begins_word(letters: str) -> bool:
    """Return whether small letters are the beginning of a known word with at least three letters more: "incl" of "including"."""
    words = _sorted_words()
    for at in range(bisect_left(words, letters), len(words)):
        if not words[at].startswith(letters):
            return False
        if len(words[at]) > len(letters) + 2:
            return True
    return False


@lru_cache(maxsize=1)
def abbreviations() -> frozenset[str]:
    """Return the clinical abbreviations, as they are written, that have a sense with a CUI."""
    with open(SENSES, encoding="utf-8") as file:
        rows = (line.rstrip("\n").split("\t") for line in file if not line.startswith("#"))
        return frozenset(row[0] for row in rows if len(row) > 2 and row[2].startswith("C"))


@lru_cache(maxsize=1)
def meant_abbreviations() -> frozenset[str]:
    """Return the abbreviations, in lower case, whose meanings the model of this package knows."""
    with open(MEANINGS, encoding="utf-8") as file:
        return frozenset(line.partition("\t")[0] for line in file)
