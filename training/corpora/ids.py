"""Turn gold ids as corpora write them into alternatives of canonical ids. No other module does this."""

from __future__ import annotations

import re

from spacy_sapbert.kb import curies
from spacy_sapbert.readers.medic import identifier

from .mention import Ids

NIL = "-1"  # annotators found no such concept in the vocabulary
_NILS = frozenset({"-1", "-", "cui-less", "cuiless", "nil", "concept_less", "concepts:0"})  # the last: TwiMed's annotators disagreed


def gold_id(text: str, vocabulary: str = "") -> str:
    """Return an id in its canonical spelling.

    Bare MeSH ids (D…, C…) and OMIM numbers get their prefix, `UMLS:C0000001` loses it, and the prefixes `mesh:`, `MIM:`, `SCTID:` … are spelt as in
    the package. A CUI after an unknown prefix is a CUI: TwiMed writes `Concepts:C0087169`. An id of unknown form is not changed;
    `CUI-less` and similar marks become NIL.

    Args:
        text: The id as the corpus writes it.
        vocabulary: Vocabulary of ids without a prefix, if it is not MeSH, OMIM or UMLS ("SNOMEDCT_US": `22298006`).
    """
    text = text.strip()
    if text.lower() in _NILS:
        return NIL
    if vocabulary and text and ":" not in text:
        return curies.canonical(f"{vocabulary}:{text}")
    prefix, local = curies.split(text)
    if prefix and not curies.known(prefix) and (cui := curies.cui(local)):
        return cui
    return identifier(text) or text


def gold_ids(text: str, vocabulary: str = "") -> tuple[Ids, ...]:
    """Return the alternatives that a corpus writes: `D001943|D010051+OMIM:1` is ((MESH:D001943,), (MESH:D010051, OMIM:1)).

    `|` separates alternatives, `+` and `,` separate the parts of a composite. Ids that occur twice in a composite are kept once, as are alternatives
    with the same ids.

    Args:
        text: The ids as the corpus writes them.
        vocabulary: As in `gold_id`.
    """
    alternatives: dict[frozenset[str], Ids] = {}
    for alternative in text.split("|"):
        ids = tuple(dict.fromkeys(i for part in re.split("[+,]", alternative) if (i := gold_id(part, vocabulary))))
        if ids:
            alternatives.setdefault(frozenset(ids), ids)
    return tuple(alternatives.values())
