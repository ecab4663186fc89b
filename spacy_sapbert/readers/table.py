"""Concepts in a TSV or CSV file with a header: the format for your own vocabularies."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from ..errors import fail
from ..kb import curies
from ..kb.concept import Concept, Name, is_cui
from .languages import language_code
from .names import RANKS
from .stats import ReadStats, reader
from .text import lines, quoted

REQUIRED = ("concept_id", "name")
Row = tuple[int, list[str]]


@reader("table")
def read_table(
    path: Path, stats: ReadStats, *, source: str | None = None, language: str = "en", delimiter: str | None = None, encoding: str = "utf-8"
) -> Iterator[Concept]:
    """Read a table of concepts, with a name or a concept in each row.

    Consecutive rows of one concept become one Concept, and another one for each further definition.

    Two columns are required: concept_id (CUI, CURIE or any identifier) and name (one name). Other columns are optional; several values in a
    cell are separated by `|`. They are: names or synonyms (several); language; source; term_type (PT, SY, LAY, AB, NRW, REL, BRD, OB or a TTY;
    without this column a concept's first name is PT, the others are SY); rank (a whole number that replaces the rank of the term type; if
    concepts share a name, the one with the lowest rank is best); semantic_types or types (several TUIs); definition; codes (several
    `VOCABULARY:code`); parents (several ids); cuis (several); terms (several ids of other sources' terms that are this concept); retired
    (several ids that it replaces). Unknown columns are ignored; capitals in the header don't matter. Lines before the header that start with `#`
    are comments. Rows without concept_id or name, with more cells than the header, or with wrong cuis or codes are malformed.

    Args:
        path: the file.
        stats: counters of the reading.
        source: vocabulary of rows that name none; None takes it from the id's prefix: "UMLS" for CUIs, "LOCAL" without a prefix.
        language: language of rows that name none.
        delimiter: character between cells; None is tab if the header has one, otherwise comma or semicolon. Files with tabs have no quoting with `"`.
        encoding: encoding of the file.

    Raises:
        SapbertError: E402, a required column is missing; E403, a quote is not closed; E404 and E405.
    """
    rows = _rows(path, encoding, delimiter)
    header = [c.strip().lower() for c in next(rows, (0, []))[1]]
    if missing := [c for c in REQUIRED if c not in header]:
        why = f"column {', '.join(missing)} is missing; found: {', '.join(header) or 'none'}"
        raise fail("E402", path=path, expected="a table of concepts", why=why)
    for _, group in groupby(_records(rows, header, stats), key=lambda record: record["concept_id"]):
        concept = _concept(records := list(group), source, language)
        yield concept
        yield from _terms(concept, records)
        for text in dict.fromkeys(record.get("definition", "") for record in records):
            if text and text != concept.definition:
                yield Concept(concept.concept_id, concept.source, definition=text)


def _rows(path: Path, encoding: str, delimiter: str | None) -> Iterator[Row]:
    numbered = lines(path, encoding)
    number, first = next(((n, line) for n, line in numbered if line.strip() and not line.startswith("#")), (0, ""))
    sign = delimiter or next((s for s in "\t,;" if s in first), "\t")
    try:
        header = next(csv.reader([first], delimiter=sign)) if sign != "\t" else first.split("\t")
    except csv.Error as error:  # a cell is too long
        raise fail("E402", path=path, expected="a table of concepts", why=f"line {number}: {error}") from error
    yield number, header
    if sign == "\t":  # quotes are ordinary characters here: csv would join lines after an unpaired one
        yield from ((n, line.split("\t")) for n, line in numbered if line.strip())
        return
    yield from ((n, row) for n, row in quoted(path, numbered, sign, number) if row)


def _records(rows: Iterator[Row], header: Sequence[str], stats: ReadStats) -> Iterator[dict[str, str]]:
    for number, cells in rows:
        stats.rows += 1
        record = dict(zip(header, map(str.strip, cells), strict=False))
        if len(cells) > len(header):
            stats.bad(number, f"{len(cells)} cells under {len(header)} columns")
        elif not record["concept_id"] or not record.get("name"):
            stats.bad(number, "concept_id or name is empty")
        elif wrong := [v for v in _values(record, "cuis") if not curies.cui(v)] + [v for v in _values(record, "codes") if ":" not in v]:
            stats.bad(number, f"'{wrong[0]}' is not a CUI, or not a VOCABULARY:code")
        else:
            yield record


def _terms(concept: Concept, records: list[dict[str, str]]) -> Iterator[Concept]:
    """Yield mappings from the terms of other sources that are this concept, to its CUI or to its identifier."""
    terms = [curies.canonical(value) for record in records for value in _values(record, "terms")]
    if is_cui(concept.concept_id):
        yield from (Concept(term, curies.vocabulary_of(term), cuis=[concept.concept_id]) for term in terms)
    elif terms:
        yield Concept(concept.concept_id, concept.source, same_as=terms)


def _values(record: dict[str, str], *columns: str) -> list[str]:
    return [v.strip() for c in columns for v in record.get(c, "").split("|") if v.strip()]


def _language(text: str) -> str:
    """Return a language code as `kb build --languages` and the linker write it: "pt" for "pt-BR"."""
    return language_code(text) or text.lower()


def _concept(records: list[dict[str, str]], source: str | None, language: str) -> Concept:
    concept_id = curies.canonical(records[0]["concept_id"])
    default = source or curies.vocabulary_of(concept_id)
    concept = Concept(concept_id, records[0].get("source") or default)
    own = curies.code(concept_id)
    codes = [own] if own else []
    for record in records:
        where = (record.get("source") or default, _language(record.get("language") or language))
        main = record.get("term_type") or ("SY" if concept.names else "PT")
        rank = record.get("rank", "")
        concept.names.append(Name(record["name"], *where, main, int(rank) if rank.isdecimal() else RANKS.get(main, 1)))
        concept.names += [Name(n, *where, "SY", RANKS["SY"]) for n in _values(record, "names", "synonyms") if n != record["name"]]
        concept.types += _values(record, "semantic_types", "types")
        concept.definition = concept.definition or record.get("definition") or None
        codes += [curies.code(v) or (v.partition(":")[0], v.partition(":")[2]) for v in _values(record, "codes") if ":" in v]
        concept.parents += map(curies.canonical, _values(record, "parents"))
        concept.retired += map(curies.canonical, _values(record, "retired"))
        concept.cuis += filter(None, map(curies.cui, _values(record, "cuis")))
    for field, values in (("codes", codes), ("types", concept.types), ("parents", concept.parents), ("cuis", concept.cuis)):
        setattr(concept, field, list(dict.fromkeys(values)))
    return concept
