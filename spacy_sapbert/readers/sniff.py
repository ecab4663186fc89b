"""Find out from its content which reader a file or folder needs. Its name is not used: `.txt`, `.tsv` and `.json` can be anything."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from ..errors import DamagedFile, fail
from .rrf_files import Tables, is_zip, table_of
from .text import guard, open_binary, opening

_HEAD = 1 << 16
_RRF = re.compile(r"C\d{7}\|[A-Z]{3}\|[PSps]\|L\d+\|")
CTD = re.compile(r"^# ?(Chemical|Disease)Name\t\1ID\t", re.MULTILINE)
_BIOSYN = re.compile(r"[^|\t\n]+(\|[^|\t\n]+)*\|\|[^|\n]")
_ONTOLOGY_JSON = re.compile(r'\{\s*"[\w.]+:\w+"\s*:\s*\{')


def sniff(path: Path, encoding: str = "utf-8") -> str:
    """Return the kind of a file or folder, by its content.

    Raises:
        SapbertError: E401, it is missing; E402, it is empty, binary, or of no known kind; E407, a library is missing.
    """
    if path.is_dir() or (path.is_file() and is_zip(path) and _holds_rrf(path)):
        Tables(path)  # raises an error if a table is missing
        return "rrf"
    with open_binary(path) as file, guard(path):
        raw = file.read(_HEAD)
    text = raw.decode(encoding, errors="replace").replace("\r\n", "\n").lstrip()
    expected = "a file that a reader knows"
    if not text:
        raise fail("E402", DamagedFile, path=path, expected=expected, why="it is empty")
    if "\0" in text:
        raise fail("E402", DamagedFile, path=path, expected=expected, why="it is binary")
    kind = _json(text) if text[0] in "{[" and not text.startswith("[Term]") else _lines(text)
    if kind is None:
        start = text[:60].splitlines()[0]
        raise fail("E402", path=path, expected=expected, why=f"it starts with {start!r}. If you know what it is, pass kind=.")
    return kind


def _holds_rrf(path: Path) -> bool:
    with guard(path), opening(path), zipfile.ZipFile(path) as archive:
        return any(table_of(n) for n in archive.namelist())


def _json(text: str) -> str | None:
    if '"concept_id"' in text:
        return "scispacy"
    if re.match(r'\{\s*"(@context|graphs|meta|id)"', text) and '"graphs"' in text:
        return "obograph"
    return "mondo_json" if _ONTOLOGY_JSON.match(text) else None


def _lines(text: str) -> str | None:
    rows = text.split("\n")
    if rows[0].startswith("format-version:") or "[Term]" in rows:
        return "obo"
    if CTD.search(text):
        return "ctd"
    header = next((row for row in rows if row.strip() and not row.startswith("#")), "")
    cells = {c.strip().strip('"').lower() for c in re.split(r"[\t,;]", header)}
    if not cells.isdisjoint(("translation_value", "translation_text")):
        return "babelon"
    if {"subject_id", "object_id"} <= cells:
        return "sssom"
    if "concept_id" in cells:
        return "table"
    if _RRF.match(header):
        return "rrf"
    return "biosyn" if _BIOSYN.match(header) else None
