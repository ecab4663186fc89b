"""What all exports share: a linked note, where links come from, which records are said of the patient."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import NamedTuple

from ..about import __version__
from ..bundle import LinkerBundle
from ..kb import semantic_types
from ..render.records import NIL, Row, chosen

Codes = Callable[[str], dict[str, list[str]]]  # concept id -> vocabulary -> codes
NAMESPACE = uuid.UUID("b7f3a1ce-4f0e-5d57-9f0a-8a1c6f1d2e30")  # of ids that are made of a note's id and a place in it


class LinkedNote(NamedTuple):
    """A note and its records, see `render.row_of`."""

    note_id: str
    text: str
    rows: list[Row]


@dataclass(frozen=True)
class Origin:
    """Where links come from.

    Attributes:
        version: of this package.
        linker: name of the linker folder.
        fingerprint: of its knowledge base.
        sources: (name, version or "") of each source of the knowledge base.
        written: when the export is made, with a time zone.
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
    """Return where the links of an opened linker come from, written now."""
    sources = [(str(source["name"]), str(source.get("version") or "")) for source in bundle.kb.manifest["sources"]]
    return Origin(__version__, bundle.folder.name, bundle.kb.fingerprint, sources, datetime.now(timezone.utc))


def linked(note: LinkedNote) -> list[Row]:
    """Return the records with a link, without those that lie in a longer mention."""
    return [row for row in chosen(note.rows) if row["cui"] != NIL]


def has(row: Row, *statuses: str) -> bool:
    """Say whether one of some statuses holds for a record."""
    return any(status in (row["status"] or ()) for status in statuses)


def groups_of(row: Row) -> list[str]:
    """Return the semantic groups of a record's concept, of its first type first; its label where the concept has no type."""
    known = semantic_types.load()
    found = [known[tui].group for tui in row["types"] if tui in known]
    return list(dict.fromkeys(found)) or [row["label"]]


def codes_of(row: Row, vocabulary: str) -> list[str]:
    """Return the codes of a record's concept in a vocabulary."""
    return list(row["codes"].get(vocabulary, ()))


def identifier(*parts: object) -> str:
    """Return a UUID that the same parts give again."""
    return str(uuid.uuid5(NAMESPACE, "\x1f".join(map(str, parts))))


def once(rows: Iterable[Row], key: Callable[[Row], object]) -> Iterator[Row]:
    """Yield the first record of each key."""
    seen = set()
    for row in rows:
        if (of := key(row)) not in seen:
            seen.add(of)
            yield row
