"""BioSyn's dictionaries, such as MEDIC (CTD's diseases): `id|alternative id||name|synonym`, or `id TAB name`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ..kb import curies
from ..kb.concept import Concept, Name
from .names import RANKS
from .stats import ReadStats, reader
from .text import lines

# MeSH's supplementary records have C and 6 or 9 digits; a CUI has C and 7 digits
_MESH = re.compile(r"D\d{6}(?:\d{3})?|C(?:\d{6}|\d{9})")


@reader("biosyn")
def read_biosyn(
    path: Path, stats: ReadStats, *, source: str = "MEDIC", language: str = "en", vocabulary: str = "", encoding: str = "utf-8"
) -> Iterator[Concept]:
    """Read a dictionary with identifiers before a double bar or a tab, and names after it.

    The first identifier is the concept's. `D…` and `C…` become "MESH:…", digits alone become "OMIM:…", CURIEs and CUIs get their canonical
    spelling. The other identifiers mean the same disease in other vocabularies. They are added to `same_as` and, like the first one, to `codes`;
    nothing is `retired`. The first name gets the term type "PT", the others "SY". In a line with a tab, the cell after it is one name, and further
    cells are ignored. Lines without both parts, or with a first identifier of another form, are malformed.

    Args:
        path: the file.
        stats: counters of the reading.
        source: vocabulary of concepts and names; by default `vocabulary`, if it is given.
        language: language of the names.
        vocabulary: vocabulary of identifiers without a prefix, which may then have any form ("SNOMEDCT_US": `22298006`).
        encoding: encoding of the file.

    Raises:
        SapbertError: E404 and E405.

    Source:
        github.com/dmis-lab/BioSyn, preprocess/resources; MEDIC is at ctdbase.org.
    """
    if vocabulary and source == "MEDIC":
        source = vocabulary
    for number, line in lines(path, encoding):
        if not line.strip():
            continue
        stats.rows += 1
        left, bars, right = line.partition("||")
        texts = right.split("|")
        if not bars:
            left, *cells = line.split("\t")
            texts = cells[:1]
        ids = [_in(vocabulary, i) if vocabulary else identifier(i) for i in left.split("|") if i.strip()]
        names = list(dict.fromkeys(n.strip() for n in texts if n.strip()))
        if not names or not ids or ids[0] is None:
            stats.bad(
                number,
                "not `id|other id||name|synonym` with a MeSH, OMIM or UMLS identifier first (for ids of another vocabulary, give vocabulary=)",
            )
            continue
        good = [i for i in dict.fromkeys(ids) if i]
        yield Concept(
            good[0],
            source,
            names=[Name(n, source, language, *(("SY", RANKS["SY"]) if i else ("PT", RANKS["PT"]))) for i, n in enumerate(names)],
            cuis=[i for i in good[1:] if curies.cui(i)],
            codes=[c for c in map(curies.code, good) if c],
            same_as=[i for i in good[1:] if not curies.cui(i)],
        )


def _in(vocabulary: str, text: str) -> str:
    """Return an id with a prefix: its own, or if it has none, that of the vocabulary."""
    return curies.canonical(text if ":" in text else f"{vocabulary}:{text.strip()}")


def identifier(text: str) -> str | None:
    """Return an identifier in its canonical form; None if the text is not an identifier.

    `D003924` -> `MESH:D003924`, `145250` -> `OMIM:145250`; CURIEs and CUIs are also identifiers.
    """
    text = text.strip()
    if _MESH.fullmatch(text):
        return f"MESH:{text}"
    if text.isascii() and text.isdigit():
        return f"OMIM:{text}"
    return curies.canonical(text) if ":" in text or curies.cui(text) else None
