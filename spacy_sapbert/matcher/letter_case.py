"""Decide which one-word names are looked for in text, and in which case: acronyms, symbols, plain English words, units."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from ..kb import semantic_types
from ..kb.writing import CAPITALS, NOT_LOWER, POSSESSIVE, is_acronym, is_possessive

DATA = Path(__file__).parents[1] / "data"
PLAIN_WORDS = DATA / "plain_words.txt"
KNOWN_WORDS = DATA / "known_words.txt.xz"
SENSES = DATA / "abbreviations.tsv"
SYMBOL_LETTERS = 3  # "Mg", "Pap", "Na"; a longer word with one capital is an ordinary word at the beginning of a name
WITH_HINT = " with hint"  # the name counts only if words around it point to a meaning, see `context.sense_words`: "SRS" near "brain"
IN_PLURAL = "in plural"  # the singular is a plain word, and no name: "palps" is, "palp" is palpation
WITH_VALUE = " with value"  # added to a casing: the name counts only if a value follows, "Hb 98", "weight 71 kg"
# semantic types of concepts that only say how, where or when; they are not mentions by themselves
QUALIFIERS = frozenset(["T041", "T056", "T077", "T078", "T079", "T080", "T081", "T082", "T089", "T102", "T169", "T185"])
MARKERS = frozenset(["ca", "her"])  # stop words that are a name with a number: "CA 19-9", "HER-2"
# a word of these after a number is a unit, not a mention
UNITS = frozenset(
    [
        "mm",
        "cm",
        "m",
        "km",
        "nm",
        "um",
        "ml",
        "dl",
        "l",
        "cc",
        "mg",
        "g",
        "gm",
        "gr",
        "kg",
        "mcg",
        "ug",
        "ng",
        "pg",
        "lb",
        "lbs",
        "oz",
        "in",
        "ft",
        "foot",
        "feet",
        "iu",
        "u",
        "meq",
        "mmol",
        "umol",
        "nmol",
        "mol",
        "mosm",
        "kcal",
        "cal",
        "hz",
        "khz",
        "mhz",
        "db",
        "kpa",
        "pa",
        "mmhg",
        "bpm",
        "sec",
        "s",
        "min",
        "h",
        "hr",
        "hrs",
        "d",
        "wk",
        "wks",
        "mo",
        "yr",
        "yrs",
        "y",
        "c",
        "f",
        "fr",
        "gy",
        "cgy",
        "mci",
        "amp",
        "v",
        "mv",
        "ma",
        "w",
        "mw",
        "ppm",
        "units",
        "unit",
        "tab",
        "tabs",
        "cap",
        "caps",
        "gtt",
        "gtts",
        "x",
        "%",
        "/min",
        "th",
        "st",
        "nd",
        "rd",
        "pm",
        "am",
    ]
)


def casing(texts: Iterable[str]) -> str:
    """Return in which case a text must write a word to be found, judged by how the sources write it.

    Args:
        texts: the word as the sources write it: "COPD", "copd".

    Returns:
        CAPITALS for an acronym ("CHILD", "DVTs"), NOT_LOWER for a short symbol ("Mg"), POSSESSIVE for the short name of a disease ("Graves'"),
        "" for an ordinary word in any case.
    """
    texts = list(texts)
    if texts and all(is_possessive(text) for text in texts):
        return POSSESSIVE
    if all(is_acronym(text) for text in texts):
        return CAPITALS
    if all(len(text) <= SYMBOL_LETTERS and text != text.lower() for text in texts):
        return NOT_LOWER
    return ""


def has_word_in_capitals(words: Sequence[str], texts: Iterable[str], stop_words: Collection[str]) -> bool:
    """Return whether all sources write a stop word of a name in capitals: "HER family" is not "her family", "IT band" is not "it band".

    Args:
        words: the words of the name in lower case.
        texts: the name as the sources write it.
        stop_words: words that are no names.
    """
    likely = [word for word in words if word in stop_words]
    return bool(likely) and any(all(word.upper() in re.findall(r"[^\W_]+", text) for text in texts) for word in likely)


def is_symbol(texts: Iterable[str]) -> bool:
    """Return whether all sources write a name as one capital letter: "K"."""
    texts = list(texts)
    return bool(texts) and all(len(text) == 1 and text.isupper() for text in texts)


def only_qualifies(tuis: Collection[str]) -> bool:
    """Return whether all semantic types are types of qualifiers ("right", "mild", "chronic")."""
    return bool(tuis) and all(tui in QUALIFIERS for tui in tuis)


def is_unit(word: str, before: str) -> bool:
    """Return whether a word is the unit of a number that stands before it.

    Args:
        word: the word.
        before: the text before it: "4 ", "81", "10-". After "4, " another item of a list begins.
    """
    return word.lower() in UNITS and re.search(r"\d(?:[.,/]|[.]?\s{0,2}-?\s?)$", before) is not None


@lru_cache(maxsize=1)
def plain_words() -> frozenset[str]:
    """Return English words that are names in some vocabulary, but are hardly ever mentions by themselves."""
    lines = PLAIN_WORDS.read_text(encoding="utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


_NOT_PLAIN = frozenset(["testes", "palps"])  # names that look like a form of a plain word: "test"; "palp" is palpation
_DOUBLED = re.compile(r"(\w+?([bdgmnprt]))\2(?:ed|ing)")


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
def abbreviations() -> frozenset[str]:
    """Return the clinical abbreviations, as they are written, that have a sense with a CUI."""
    with open(SENSES, encoding="utf-8") as file:
        rows = (line.rstrip("\n").split("\t") for line in file if not line.startswith("#"))
        return frozenset(row[0] for row in rows if len(row) > 2 and row[2].startswith("C"))


def group_of(tui: str | None) -> str:
    """Return the group of a semantic type; "" if the type is not known."""
    kind = semantic_types.load().get(tui or "")
    return kind.group if kind else ""
