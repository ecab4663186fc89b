"""brat standoff: a text file and a file of annotations for each note, in a folder that brat can open.

Source: Stenetorp et al., BRAT: a web-based tool for NLP-assisted text annotation, EACL 2012; https://brat.nlplab.org/standoff.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..errors import fail
from ..files import write_text
from ..kb.concept import is_cui
from ..render.records import NIL, STATUS_NAMES, Row, chosen, one_line
from .base import LinkedNote, Origin

OTHER = "Mention"  # type of a mention whose label is not a valid type name in brat
CONFIG = "annotation.conf"
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_UNSAFE = re.compile(r"[^\w.-]+")


def write(notes: Iterable[LinkedNote], origin: Origin, folder: Path) -> int:
    """Write NOTE.txt and NOTE.ann of each note, and annotation.conf.

    Args:
        notes: linked notes.
        origin: origin of the links; brat has no place for it, so it is not written.
        folder: folder to write into; existing files of the same names are replaced.

    Returns:
        Number of notes.

    Raises:
        SapbertError: E060, the text of a mention is not at its offsets; the notes before it are written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for name, text in files(notes):
        write_text(folder / name, text)
        count += name.endswith(".ann")
    return count


def files(notes: Iterable[LinkedNote]) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of every file: NOTE.txt and NOTE.ann of each note, and annotation.conf at the end."""
    names: set[str] = set()
    types: set[str] = set()
    for note in notes:
        name = _name(note.note_id, names)
        yield f"{name}.txt", note.text
        yield f"{name}.ann", standoff(note)
        types |= {_type(row) for row in chosen(note.rows)}
    attributes = "".join(f"{status.capitalize()}\tArg:<ENTITY>\n" for status in STATUS_NAMES)
    entities = "".join(f"{name}\n" for name in sorted(types))
    yield CONFIG, f"[entities]\n{entities}[relations]\n[events]\n[attributes]\n{attributes}"


def standoff(note: LinkedNote) -> str:
    """Return the annotations of a note: mentions (T), their concepts (N) and statuses (A).

    Raises:
        SapbertError: E060, the text of a mention is not at its offsets.
    """
    lines: list[str] = []
    attributes = 0
    for number, row in enumerate(chosen(note.rows), 1):
        if row["start"] < 0 or note.text[row["start"] : row["end"]] != row["mention"]:
            raise fail("E060", note=note.note_id, start=row["start"], end=row["end"], length=len(note.text))
        fragments = _fragments(row)
        places = ";".join(f"{start} {end}" for start, end in fragments)
        text = " ".join(note.text[start:end] for start, end in fragments)
        lines.append(f"T{number}\t{_type(row)} {places}\t{text}")
        if row["cui"] != NIL:
            reference = f"UMLS:{row['cui']}" if is_cui(row["cui"]) or ":" not in row["cui"] else row["cui"]
            lines.append(f"N{number}\tReference T{number} {reference}\t{one_line(row['name'])}")
        for status in row["status"] or ():
            attributes += 1
            lines.append(f"A{attributes}\t{status.capitalize()} T{number}")
    return "".join(f"{line}\n" for line in lines)


def _type(row: Row) -> str:
    return row["label"] if _TYPE.fullmatch(row["label"]) else OTHER


def _fragments(row: Row) -> list[tuple[int, int]]:
    """Return (start, end) in characters of the parts of a mention in each line, because an annotation cannot hold a line break."""
    parts = re.finditer(r"[^\r\n\t\v\f\x1c-\x1e\x85\u2028\u2029]+", row["mention"])
    return [(row["start"] + part.start(), row["start"] + part.end()) for part in parts]


def _name(note_id: str, taken: set[str]) -> str:
    """Return a unique file name for a note, without ending, and add it to `taken` (in lower case)."""
    base = _UNSAFE.sub("_", note_id).strip("._").encode()[:100].decode(errors="ignore") or "note"  # a file name has 255 bytes at most
    name, number = base, 1
    while name.lower() in taken:
        number += 1
        name = f"{base}-{number}"
    taken.add(name.lower())
    return name
