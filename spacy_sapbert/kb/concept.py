"""One concept and its names, as readers yield them and as the knowledge base gives them back. No logic but normalising."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import List, NamedTuple, Optional, Tuple

CUI_PATTERN = re.compile("C[0-9]{7}")  # UMLS concept unique identifier
_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"), "-")
_QUOTES = dict.fromkeys(map(ord, "\u2018\u2019\u201b\u02bc\u00b4\u0060"), "'")
_CHARACTERS = {**_DASHES, **_QUOTES}
_INVISIBLE = ("Cc", "Cf", "Cs", "Co", "Cn")  # control, format, surrogate, private use, unassigned
_DOTLESS = {ord("I"): "ı", ord("İ"): "i"}
DOTLESS = ("az", "tr")  # languages in which a capital I is that of ı, and the capital of i is İ (Unicode's SpecialCasing)
ENGLISH = ("", "en", "xx")  # spaCy's codes of pipelines in which rules of English apply: xx is its multi-language one
MAX_NAME_CHARS = 500  # longer strings are sentences, not names; an encoder reads 25 tokens of them


class Name(NamedTuple):
    """One name of a concept.

    text: as the source writes it. source: its vocabulary in UMLS's spelling ("HPO", "SNOMEDCT_US", "NCI", "MSH" …).
    language: ISO 639-1 ("en"). term_type: UMLS TTY, or for ontologies PT (label), SY (exact), NRW, BRD, REL (scopes), AB
    (abbreviation), LAY (lay term), OB (obsolete). rank: 0 is best; the canonical name is the concept's best-ranked one.
    """

    text: str
    source: str
    language: str = "en"
    term_type: str = "SY"
    rank: int = 1


@dataclass
class Concept:
    """What one source says of one concept. A reader may yield the same `concept_id` many times, each time with a part
    (a mapping has no names, an edge only `parents`): the knowledge base joins them. Readers decide nothing.

    concept_id: CUI, or the source's own identifier as a CURIE ("HP:0001250", "MONDO:0005148", "NCIT:C2985").
    source: vocabulary the record comes from. cuis: CUIs the source maps this term to, in its order (empty where
    `concept_id` is a CUI itself). types: semantic types (TUIs). codes: (vocabulary, code). parents: concept ids.
    same_as: ids of terms in other sources that a curated mapping calls an exact match.
    retired: ids that this concept replaces. relations: (relation, other concept id), e.g. ("has_tradename", "C0699142").
    """

    concept_id: str
    source: str
    names: List[Name] = field(default_factory=list)
    cuis: List[str] = field(default_factory=list)
    types: List[str] = field(default_factory=list)
    definition: Optional[str] = None
    codes: List[Tuple[str, str]] = field(default_factory=list)
    parents: List[str] = field(default_factory=list)
    same_as: List[str] = field(default_factory=list)
    retired: List[str] = field(default_factory=list)
    relations: List[Tuple[str, str]] = field(default_factory=list)


def is_cui(concept_id: str) -> bool:
    return CUI_PATTERN.fullmatch(concept_id) is not None


def normalise(text: str, language: str = "") -> str:
    """The form under which names are equal: NFKC, lower case, one kind of dash and quote, no invisible or control
    characters, single spaces. It is also what the encoder reads (SapBERT lower-cases too).

    language: ISO 639-1, of the name or of the text that a mention stands in. It matters to lower case alone, and there to Turkish and
        Azeri. German ß stays: it is what the encoder's words have, and "ss" in its place would be another spelling, not another case.
    """
    if text.isascii() and text.isprintable() and not (language in DOTLESS and "I" in text):  # the common case, much cheaper
        return " ".join(text.lower().split())
    # what is invisible goes first and NFKC comes last, or a second pass could still change the text
    visible = (" " if c.isspace() else c for c in text.translate(_CHARACTERS) if c.isspace() or unicodedata.category(c) not in _INVISIBLE)
    text = lower_case(unicodedata.normalize("NFKC", "".join(visible)).translate(_CHARACTERS), language)
    return " ".join(unicodedata.normalize("NFKC", text).split())


def lower_case(text: str, language: str = "") -> str:
    """As the language has it: in Turkish and Azeri "I" is the capital of "ı" and "İ" that of "i"."""
    return (text.translate(_DOTLESS) if language in DOTLESS else text).lower()
