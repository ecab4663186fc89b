"""Types and functions that all exports use: a linked note, the origin of links, statuses, groups and codes of a record."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, NamedTuple, TextIO

from ..about import __version__
from ..bundle import LinkerBundle
from ..kb import semantic_types
from ..render.records import NIL, Row, chosen

Codes = Callable[[str], dict[str, list[str]]]  # concept id -> vocabulary -> codes
NAMESPACE = uuid.UUID("b7f3a1ce-4f0e-5d57-9f0a-8a1c6f1d2e30")  # for ids that are made from a note's id and a place in the note


def is_code(vocabulary: str, code: str) -> bool:
    """Return whether other programs know a code of this vocabulary. ICD-10-CM has no codes for ranges, such as "E08-E13", which name its blocks."""
    return vocabulary != "ICD10CM" or "-" not in code


def write_json_lines(records: Iterable[Any], stream: TextIO) -> int:
    """Write one line of JSON for each record.

    Returns:
        Number of lines.
    """
    count = 0
    for record in records:
        count += 1
        stream.write(json.dumps(record, ensure_ascii=False) + "\n")
    return count


class LinkedNote(NamedTuple):
    """A note with its records.

    Attributes:
        note_id: id of the note.
        text: its text.
        rows: records of its mentions, see `render.row_of`.
        number: number of the note in its corpus, from 1; 0: its place among the notes that are written.
    """

    note_id: str
    text: str
    rows: list[Row]
    number: int = 0


@dataclass(frozen=True)
class Origin:
    """The origin of links: what produced them, and when.

    Attributes:
        version: version of this package.
        linker: name of the linker folder.
        fingerprint: fingerprint of its knowledge base.
        sources: (name, version or "") of each source of the knowledge base.
        written: time of the export, with a time zone.
    """

    version: str
    linker: str
    fingerprint: str
    sources: list[tuple[str, str]]
    written: datetime

    @property
    def system(self) -> str:
        """Name and version of this package."""
        return f"spacy-sapbert {self.version}"


def origin_of(bundle: LinkerBundle) -> Origin:
    """Return the origin of the links of an opened linker, with the current time."""
    sources = [(str(source["name"]), str(source.get("version") or "")) for source in bundle.kb.manifest["sources"]]
    return Origin(__version__, bundle.folder.name, bundle.kb.fingerprint, sources, datetime.now(timezone.utc))


def linked(note: LinkedNote) -> list[Row]:
    """Return the records with a link, without nested mentions."""
    return [row for row in chosen(note.rows) if row["cui"] != NIL]


def has(row: Row, *statuses: str) -> bool:
    """Return whether at least one of some statuses holds for a record."""
    return any(status in (row["status"] or ()) for status in statuses)


def groups_of(row: Row) -> list[str]:
    """Return the semantic groups of a record's concept, in the order of its types; the label of the record if the concept has no known type."""
    return semantic_types.groups_of(row["types"]) or [row["label"]]


def codes_of(row: Row, vocabulary: str) -> list[str]:
    """Return the codes of a record's concept in a vocabulary."""
    return list(row["codes"].get(vocabulary, ()))


def identifier(*parts: object) -> str:
    """Return a UUID made from some parts; the same parts always give the same UUID."""
    return str(uuid.uuid5(NAMESPACE, "\x1f".join(map(str, parts))))


def once(rows: Iterable[Row], key: Callable[[Row], object]) -> Iterator[Row]:
    """Yield the first record of each key."""
    seen = set()
    for row in rows:
        if (of := key(row)) not in seen:
            seen.add(of)
            yield row
