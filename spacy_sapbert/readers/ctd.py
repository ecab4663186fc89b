"""The vocabularies of the Comparative Toxicogenomics Database in its own files: CTD_chemicals.tsv, CTD_diseases.tsv (MEDIC)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ..errors import fail
from ..kb import curies
from ..kb.concept import Concept, Name
from .medic import identifier
from .names import RANKS
from .sniff import CTD
from .stats import ReadStats, reader
from .text import lines

SOURCES = {"Chemical": "CTD", "Disease": "MEDIC"}
_CREATED = re.compile(r"# Report created: (.+)")


@reader("ctd")
def read_ctd(path: Path, stats: ReadStats, *, source: str | None = None, language: str = "en", encoding: str = "utf-8") -> Iterator[Concept]:
    """Read CTD's chemicals or diseases: tab-separated, with the names of the columns in the last comment before the rows.

    The name gets the term type "PT", synonyms get "SY". AltDiseaseIDs are equivalent identifiers, as in `read_biosyn`. CasRN, tree numbers and
    slim mappings are left out. Rows without a name, or with an identifier that is not of MeSH or OMIM and not a CURIE, are malformed.

    Args:
        path: the file.
        stats: counters of the reading.
        source: vocabulary of concepts and names; None is "CTD" for chemicals and "MEDIC" for diseases.
        language: language of the names.
        encoding: encoding of the file.

    Raises:
        SapbertError: E402, the columns are not named; E404 and E405.

    Source:
        ctdbase.org/downloads. CTD's terms ask users to cite it, to link to it and to report the use.
    """
    columns: list[str] = []
    kind = ""
    for number, line in lines(path, encoding):
        if line.startswith("#") or not line.strip():
            if found := CTD.match(line):
                kind, columns = found[1], line.lstrip("# ").split("\t")
            elif found := _CREATED.match(line):
                stats.version = found[1].strip()
            continue
        if not columns:
            raise fail("E402", path=path, expected="a vocabulary of CTD", why="no comment names the columns ChemicalName or DiseaseName")
        stats.rows += 1
        row = dict(zip(columns, map(str.strip, line.split("\t")), strict=False))
        own, name = identifier(row.get(f"{kind}ID", "")), row[f"{kind}Name"]
        if own is None or not name:
            stats.bad(number, f"no {kind}Name, or no MeSH or OMIM identifier as {kind}ID")
            continue
        where = source or SOURCES[kind]
        others = [i for text in _values(row, "AltDiseaseIDs") if (i := identifier(text.removeprefix("DO:") if text.startswith("DO:DOID:") else text))]
        synonyms = [text for text in _values(row, "Synonyms") if text != name]
        yield Concept(
            own,
            where,
            names=[Name(name, where, language, "PT", RANKS["PT"]), *(Name(text, where, language, "SY", RANKS["SY"]) for text in synonyms)],
            codes=[code for code in map(curies.code, [own, *others]) if code],
            definition=row.get("Definition") or None,
            parents=[i for text in _values(row, "ParentIDs") if (i := identifier(text))],
            same_as=others,
        )


def _values(row: dict[str, str], column: str) -> list[str]:
    return list(dict.fromkeys(value.strip() for value in row.get(column, "").split("|") if value.strip()))
