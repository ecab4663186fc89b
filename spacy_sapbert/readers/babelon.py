"""Translations of an ontology's names: Babelon tables, ROBOT templates of synonyms, and the Disease Ontology's own layout."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..errors import fail
from ..kb import curies
from ..kb.concept import Concept, Name
from .languages import language_code
from .names import RANKS, term_type
from .stats import ReadStats, reader
from .text import lines, quoted

# our name of a column -> its names in the layouts; the first one that is found is used
COLUMNS: dict[str, tuple[str, ...]] = {
    "subject": ("subject_id", "source_id"),
    "predicate": ("predicate_id", "predicate"),
    "english": ("source_value", "source_text"),
    "value": ("translation_value", "translation_text"),
    "language": ("translation_language", "translation_lang"),
    "status": ("translation_status", "status", "comment"),
    "type": ("synonym_type",),
}
NOTHING = frozenset({"", "NA", "N/A", "NOT_TRANSLATED"})
UNTRANSLATED, CANDIDATE = "NOT_TRANSLATED", "CANDIDATE"
LABEL, DEFINITION = "rdfs:label", "IAO:0000115"
FOREIGN_RANK = 100_000  # added to ranks: worse than every English name of the same source, as read_rrf ranks later languages
_SCOPE = re.compile(r"oboInOwl:has(Exact|Narrow|Related|Broad)Synonym")
_TEMPLATE = re.compile(r"AL?\s+(\S+?)@([\w-]+)(?:\s+SPLIT=(\S+))?")


class Translation(NamedTuple):
    """A row of a file of translations.

    Attributes:
        subject: Identifier of the concept.
        kind: "PT" (label), a term type of a synonym, or "DEF".
        language: ISO 639-1 code.
        texts: The texts as they are written, one or several.
        english: The text that was translated; "" if the layout does not give it.
    """

    subject: str
    kind: str
    language: str
    texts: tuple[str, ...]
    english: str


@reader("babelon")
def read_babelon(
    path: Path,
    stats: ReadStats,
    *,
    language: str | None = None,
    source: str | None = None,
    candidates: bool = True,
    definitions: bool = False,
    encoding: str = "utf-8",
) -> Iterator[Concept]:
    """Read translations as parts of concepts: an id and names in another language.

    There are three layouts, which are recognised by their columns. Babelon (github.com/monarch-initiative/babelon): subject_id, predicate_id,
    translation_value, translation_language, translation_status. ROBOT templates of synonyms: subject_id and translation_value, with a second
    header below, such as `ID`, `AL oboInOwl:hasExactSynonym@cs`. The Disease Ontology: source_id, predicate, translation_text,
    translation_lang. Quotes are read as in CSV; `|` separates several synonyms in one cell.

    Labels get the term type "PT", synonyms as in `names.term_type`. All rank behind names in English. Rows that are not translated (status
    NOT_TRANSLATED, or NA), rows without a text, definitions, and predicates that are neither label nor synonym are left out and counted in
    `stats.left_out`. Rows with more cells than columns, with an id that is not a CURIE, with a wrong language code, or with text that was
    decoded with the wrong encoding ("rÃ©nal") are malformed.

    Args:
        path: the file.
        stats: counters of the reading.
        language: language of rows that do not name theirs.
        source: vocabulary of the names; None takes it from the id's prefix.
        candidates: also read rows with the status CANDIDATE, which nobody has reviewed (often machine translations).
        definitions: also read definitions, as those of the concept; their language is not kept.
        encoding: encoding of the file.

    Raises:
        SapbertError: E002, the language is not known; E402, a required column or the language is missing; E403, a quote is not closed; E404 and
            E405.
    """
    for row in translations(path, stats, language=language, candidates=candidates, definitions=definitions, encoding=encoding):
        concept = Concept(row.subject, source or curies.vocabulary_of(row.subject))
        if row.kind == "DEF":
            concept.definition = row.texts[0]
        else:
            concept.names = [Name(text, concept.source, row.language, row.kind, FOREIGN_RANK + RANKS[row.kind]) for text in row.texts]
        yield concept


def translations(
    path: Path, stats: ReadStats, *, language: str | None = None, candidates: bool = True, definitions: bool = False, encoding: str = "utf-8"
) -> Iterator[Translation]:
    """Yield the rows that hold a translation. Other rows are counted in `stats`, as left out or malformed. See `read_babelon`."""
    given = None
    if language is not None:
        given = language_code(language)
        if given is None:
            raise fail("E002", setting="language", component="reader 'babelon'", value=language, why="it is not an ISO 639 code such as de.")
    rows = _rows(path, encoding)
    header = [cell.strip().lower() for cell in next(rows, (0, []))[1]]
    at = {ours: header.index(found) for ours, names in COLUMNS.items() if (found := next((n for n in names if n in header), None)) is not None}
    if missing := [" or ".join(COLUMNS[column]) for column in ("subject", "value") if column not in at]:
        why = f"column {', '.join(missing)} is missing; found: {', '.join(header) or 'none'}"
        raise fail("E402", path=path, expected="a table of translations", why=why)
    predicate = LABEL
    for number, cells in rows:
        cell = {ours: cells[i].strip() if i < len(cells) else "" for ours, i in at.items()}
        if cell["subject"] == "ID":  # the second header of a template
            if template := _TEMPLATE.match(cell["value"]):
                predicate, given = template[1], language_code(template[2]) or given
            continue
        if given is None and "language" not in at:
            why = f"it names no language: no column {' or '.join(COLUMNS['language'])}, no second header such as `AL oboInOwl:hasExactSynonym@cs`, and no language= was given"
            raise fail("E402", path=path, expected="a table of translations", why=why)
        stats.rows += 1
        spoken = language_code(cell["language"]) if cell.get("language") else given
        texts = tuple(dict.fromkeys(text.strip() for text in cell["value"].split("|") if text.strip()))
        kind = _kind(cell.get("predicate") or predicate, cell.get("type", ""))
        if len(cells) > len(header):
            stats.bad(number, f"{len(cells)} cells under {len(header)} columns")
        elif not all(curies.split(cell["subject"])):
            stats.bad(number, f"'{cell['subject'][:40]}' is not a CURIE such as HP:0000118")
        elif cell.get("status", "").upper() == UNTRANSLATED:
            stats.leave_out("not translated")
        elif cell["value"].upper() in NOTHING or not texts:
            stats.leave_out("without a text")
        elif spoken is None:
            stats.bad(number, f"'{cell.get('language', '')[:20]}' is not a language code such as de")
        elif garbled(cell["value"]):
            stats.bad(number, f"'{cell['value'][:40]}' was decoded with the wrong encoding")
        elif not candidates and cell.get("status", "").upper() == CANDIDATE:
            stats.leave_out("candidates")
        elif kind is None:
            stats.leave_out(f"predicate {cell.get('predicate') or predicate}")
        elif kind == "DEF" and not definitions:
            stats.leave_out("definitions")
        else:
            whole = kind in ("PT", "DEF")  # in a label, a bar does not separate names
            yield Translation(curies.canonical(cell["subject"]), kind, spoken, (cell["value"],) if whole else texts, cell.get("english", ""))


def garbled(text: str) -> bool:
    """Return whether a text is UTF-8 that was decoded as Latin-1 or cp1252 ("Ã©"), or has a replacement character.

    Files that were put together from several encodings have such texts.
    """
    if text.isascii():
        return False
    for wrong in ("latin-1", "cp1252"):
        try:
            text.encode(wrong).decode("utf-8")
        except UnicodeError:
            continue
        return True
    return "\ufffd" in text


def _kind(predicate: str, synonym_type: str) -> str | None:
    if predicate == LABEL:
        return "PT"
    if predicate == DEFINITION:
        return "DEF"
    scope = _SCOPE.fullmatch(predicate)
    return term_type(scope[1], synonym_type)[0] if scope else None


def _rows(path: Path, encoding: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of the row's last line, cells). Comment lines before the header and empty lines are skipped."""
    numbered = lines(path, encoding)
    first = next(((n, line) for n, line in numbered if line.strip() and not line.startswith("#")), None)
    if first is None:
        return
    yield first[0], first[1].split("\t")
    yield from ((n, row) for n, row in quoted(path, numbered, "\t", first[0]) if any(cell.strip() for cell in row))
