"""Concepts and their names, as readers yield them and as the knowledge base returns them. The only logic is normalising."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import NamedTuple

CUI_PATTERN = re.compile("C[0-9]{7}")  # UMLS concept unique identifier
_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"), "-")
_QUOTES = dict.fromkeys(map(ord, "\u2018\u2019\u201b\u02bc\u00b4\u0060"), "'")
_CHARACTERS = {**_DASHES, **_QUOTES}
_INVISIBLE = ("Cc", "Cf", "Cs", "Co", "Cn")  # control, format, surrogate, private use, unassigned
_DOTLESS = {ord("I"): "ı", ord("İ"): "i"}
DOTLESS = ("az", "tr")  # languages in which I is the capital of ı, and İ is the capital of i (Unicode's SpecialCasing)
ENGLISH = ("", "en", "xx")  # spaCy's language codes for which the rules of English are used; xx means several languages
MAX_NAME_CHARS = 500  # longer strings are sentences, not names; an encoder reads 25 tokens of them
LAY = "LAY"  # term type of lay names
OWN = "SAPBERT"  # vocabulary of the names that this project wrote for clinical notes


class Name(NamedTuple):
    """One name of a concept.

    Attributes:
        text: the name as the source writes it.
        source: its vocabulary in UMLS's spelling, such as "HPO", "SNOMEDCT_US", "NCI" or "MSH".
        language: ISO 639-1, such as "en".
        term_type: term type of UMLS (TTY); for ontologies PT (label), SY (exact), NRW, BRD, REL (scopes), AB (abbreviation), LAY (lay
            term) or OB (obsolete).
        rank: 0 is best; the canonical name of a concept is the best-ranked one.
    """

    text: str
    source: str
    language: str = "en"
    term_type: str = "SY"
    rank: int = 1


@dataclass
class Concept:
    """What one source says about one concept.

    A reader may yield the same `concept_id` many times, each time with a part of the concept: a mapping has no names, an edge has only
    `parents`. The knowledge base joins the parts; a reader makes no decisions.

    Attributes:
        concept_id: CUI, or the source's own identifier as a CURIE ("HP:0001250", "MONDO:0005148", "NCIT:C2985").
        source: vocabulary that the record comes from.
        names: names of the concept.
        cuis: CUIs that the source maps this term to, in its order; empty if `concept_id` is a CUI.
        types: semantic types (TUIs).
        definition: definition of the concept.
        codes: (vocabulary, code).
        code_ranks: code -> rank of the best name that the vocabulary itself gives it, see `Name`; a code without a name has rank 0. If several
            concepts share a code, the one with the lowest rank is the best.
        parents: concept ids.
        same_as: ids of terms in other sources that a curated mapping calls an exact match.
        retired: ids that this concept replaces.
        relations: (relation, id of the other concept), such as ("has_tradename", "C0699142").
    """

    concept_id: str
    source: str
    names: list[Name] = field(default_factory=list)
    cuis: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    definition: str | None = None
    codes: list[tuple[str, str]] = field(default_factory=list)
    code_ranks: dict[tuple[str, str], int] = field(default_factory=dict, compare=False, repr=False)
    parents: list[str] = field(default_factory=list)
    same_as: list[str] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)
    relations: list[tuple[str, str]] = field(default_factory=list)


def is_cui(concept_id: str) -> bool:
    """Return whether an identifier has the form of a CUI of UMLS: C and seven digits."""
    return CUI_PATTERN.fullmatch(concept_id) is not None


def concept_url(concept_id: str) -> str:
    """Return the address of a concept's public page, "" if there is none."""
    if is_cui(concept_id):
        return f"https://uts.nlm.nih.gov/uts/umls/concept/{concept_id}"
    if re.fullmatch(r"HP:\d{7}", concept_id):
        return f"https://hpo.jax.org/browse/term/{concept_id}"
    if match := re.fullmatch(r"([A-Za-z]+):([A-Za-z]?\d+)", concept_id):
        return f"https://purl.obolibrary.org/obo/{match.group(1)}_{match.group(2)}"
    return ""


def normalise(text: str, language: str = "", *, cased: bool = False) -> str:
    """Return the form in which names are compared.

    It is NFKC, in lower case, with one kind of dash and of quote, without invisible and control characters, and with single spaces. The
    encoder reads the same form, because SapBERT uses lower case too.

    Args:
        text: a name or mention.
        language: ISO 639-1, language of the name or of the text around the mention. Only the lower case of Turkish and Azeri depends on it.
            German ß stays: the encoder's vocabulary has it, and "ss" is another spelling, not another case.
        cased: keep capitals. The encoder of a cased knowledge base reads this form, but names are compared in lower case there too.
    """
    if cased:
        return " ".join(text.split()) if text.isascii() and text.isprintable() else _plain(text)
    if text.isascii() and text.isprintable() and not (language in DOTLESS and "I" in text):  # the common case, and much faster
        return " ".join(text.lower().split())
    return " ".join(unicodedata.normalize("NFKC", lower_case(_plain(text), language)).split())


def _plain(text: str) -> str:
    """Return a text in NFKC, with one kind of dash and of quote, without invisible characters, and with single spaces."""
    # invisible characters are removed first and NFKC comes last, so that normalising a second time changes nothing
    visible = (" " if c.isspace() else c for c in text.translate(_CHARACTERS) if c.isspace() or unicodedata.category(c) not in _INVISIBLE)
    return " ".join(unicodedata.normalize("NFKC", "".join(visible)).translate(_CHARACTERS).split())


def lower_case(text: str, language: str = "") -> str:
    """Return a text in the lower case of its language: in Turkish and Azeri "I" is the capital of "ı", and "İ" that of "i"."""
    return (text.translate(_DOTLESS) if language in DOTLESS else text).lower()


def lower_in_place(text: str) -> str:
    """Return a text in lower case with as many characters as before, so that offsets stay: "İ" is kept, because its lower case has two characters."""
    return "".join(char.lower() if len(char.lower()) == 1 else char for char in text)


def stem(word: str) -> str:
    """Return a lower-cased English word without its possessive and plural endings.

    "crohn's" becomes "crohn", "palates" becomes "palate" and "biopsies" "biopsy". Words that end in "-ss", "-us" or "-is" are not plurals.
    They and words of fewer than four letters stay as they are.
    """
    word = word.replace("’", "'").removesuffix("'s").removesuffix("'")
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    return word[:-1]


def other_numbers(name: str) -> list[str]:
    """Return other forms of a normalised English name: its last word in the singular, all words in the singular, its last word in the plural."""
    words = name.split()
    if not words:
        return []
    plurals = [f"{name}s", *([f"{name[:-1]}ies"] if name.endswith("y") else [])]
    forms = [" ".join([*words[:-1], stem(words[-1])]), " ".join(map(stem, words)), *plurals]
    return [form for form in dict.fromkeys(forms) if form and form != name]
