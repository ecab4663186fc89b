"""OMOP CDM v5.4: rows of the table NOTE_NLP, as CSV.

Source: https://ohdsi.github.io/CommonDataModel/cdm54.html#note_nlp.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

from ..render.records import Row, one_line
from . import athena
from .base import LinkedNote, Origin, has, linked

COLUMNS = (
    *("note_nlp_id", "note_id", "section_concept_id", "snippet", "offset", "lexical_variant", "note_nlp_concept_id", "note_nlp_source_concept_id"),
    *("nlp_system", "nlp_date", "nlp_datetime", "term_exists", "term_temporal", "term_modifiers"),
)
LONGEST, LONGEST_MODIFIERS = 250, 2000  # most characters in a column
AROUND = 60  # characters of the text on each side of a mention, in a snippet
UNKNOWN = 0  # OMOP's "No matching concept"


def write(notes: Iterable[LinkedNote], origin: Origin, stream: TextIO, find: athena.Find | None = None) -> int:
    """Write a header and one row for each linked mention.

    Args:
        notes: linked notes. If an id is not a whole number, the note_id is the number of the note, from 1, and the id is in term_modifiers.
        origin: origin of the links.
        stream: a file that was opened with newline="".
        find: function that finds concept ids, see `athena.ConceptTable`; None: concept ids are 0.

    Returns:
        Number of rows, without the header.
    """
    writer = csv.DictWriter(stream, COLUMNS)
    writer.writeheader()
    count = 0
    for number, note in enumerate(notes, 1):
        rows = linked(note)
        codes = {(vocabulary, code) for row in rows for vocabulary, some in row["codes"].items() for code in some}
        ids = {} if find is None else find(codes)
        for row in rows:
            count += 1
            writer.writerow({"note_nlp_id": count, **_record(note, note.number or number, row, origin, ids)})
    return count


def renumber(paths: Iterable[Path]) -> list[Path]:
    """Make note_nlp_id count through several files, in their order. Files whose numbers are right are not changed.

    Returns:
        The files that were changed.
    """
    changed: list[Path] = []
    following = 1
    for path in paths:
        with open(path, encoding="utf-8", newline="") as file:
            numbers = [int(row["note_nlp_id"]) for row in csv.DictReader(file)]
        if not numbers or numbers[0] == following:
            following += len(numbers)
            continue
        scratch = path.with_name(f".{path.name}.tmp")
        try:
            with open(path, encoding="utf-8", newline="") as file, open(scratch, "w", encoding="utf-8", newline="") as out:
                writer = csv.DictWriter(out, COLUMNS)
                writer.writeheader()
                for row in csv.DictReader(file):
                    writer.writerow({**row, "note_nlp_id": following})
                    following += 1
            scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)
        changed.append(path)
    return changed


def _record(note: LinkedNote, number: int, row: Row, origin: Origin, ids: Mapping[athena.Code, athena.ConceptIds]) -> dict[str, Any]:
    whole = note.note_id.isdecimal() and note.note_id.isascii()
    best = concept_ids(row, ids)
    modifiers = [*(f"{status}=true" for status in row["status"] or ()), f"concept={row['cui']}", f"name={row['name']}"]
    modifiers += [f"{key}={row[key]:.4f}" for key in ("score", "probability") if row[key] is not None]
    modifiers += [] if whole or not note.note_id else [f"note={note.note_id}"]
    return {
        "note_id": note.note_id if whole else number,
        "section_concept_id": UNKNOWN,
        "snippet": _snippet(note.text, row),
        "offset": row["start"],
        "lexical_variant": one_line(row["mention"])[:LONGEST],
        "note_nlp_concept_id": best.standard,
        "note_nlp_source_concept_id": best.source,
        "nlp_system": f"{origin.system}, linker {origin.linker}"[:LONGEST],
        "nlp_date": origin.written.date().isoformat(),
        "nlp_datetime": origin.written.replace(tzinfo=None).isoformat(sep=" ", timespec="seconds"),
        "term_exists": "N" if has(row, "negated", "uncertain", "hypothetical", "family") else "Y",
        "term_temporal": "Past" if has(row, "historical") else "Present",
        "term_modifiers": ";".join(modifiers)[:LONGEST_MODIFIERS],
    }


def concept_ids(row: Row, ids: Mapping[athena.Code, athena.ConceptIds]) -> athena.ConceptIds:
    """Return the ids of a record's best code, in the order of `athena.VOCABULARIES`: one with a standard concept, otherwise any that OMOP has."""
    known = [ids[vocabulary, code] for vocabulary in athena.VOCABULARIES for code in row["codes"].get(vocabulary, ()) if (vocabulary, code) in ids]
    return next((each for each in known if each.standard), known[0] if known else athena.ConceptIds(UNKNOWN, UNKNOWN))


def _snippet(text: str, row: Row) -> str:
    start, end = max(0, row["start"] - AROUND), min(len(text), row["end"] + AROUND)
    return one_line(text[start:end])[:LONGEST]
