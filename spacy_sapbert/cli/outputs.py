"""What `link` writes, in every format."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..errors import fail
from ..exports.names import FOLDERS, FORMATS


class Format(str, Enum):
    """Output formats of `link`."""

    table = "table"
    jsonl = "jsonl"
    csv = "csv"
    html = "html"
    fhir = "fhir"
    omop = "omop"
    phenopackets = "phenopackets"
    bioc = "bioc"
    brat = "brat"
    comprehend = "comprehend"


EXPORTS = tuple(map(Format, FORMATS))


def export_docs(docs: list[Any], linker: Any, format: Format, out: Path | None, athena: Path | None = None) -> None:
    """Write links in a format of another tool or standard.

    Args:
        docs: (Doc, id of the note) pairs.
        linker: the component that linked them.
        format: one of `EXPORTS`.
        out: the file, or the folder for brat; None: standard output.
        athena: folder with Athena's files, for omop.

    Raises:
        SapbertError: E009, the output cannot be written; E403, a file of Athena is damaged.
    """
    import io

    from .. import render
    from ..exports import athena as concept_ids
    from ..exports import base
    from ..exports.formats import Exporter

    kb = linker.kb
    exporter = Exporter(kb, base.origin_of(linker.bundle), None if athena is None else concept_ids.open_table(athena).find)
    notes = [base.LinkedNote(note_id, doc.text, list(render.rows(doc, kb, linker.attr_name, note_id))) for doc, note_id in docs]
    if format.value in FOLDERS:
        assert out is not None
        try:
            exporter.write_folder(notes, out)
        except OSError as error:
            raise fail("E009", path=out, error=error.strerror) from error
        return
    text = io.StringIO()
    exporter.write(format.value, notes, text)
    write_out(text.getvalue(), out)


def check_out(out: Path) -> None:
    """Create the folder of an output file, before the long work starts, so that a wrong path fails early.

    Raises:
        SapbertError: E009, the file cannot be written.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not os.access(out.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise fail("E009", path=out, error=error.strerror) from error


def write_docs(
    docs: list[Any],
    kb: Any,
    format: Format,
    out: Path | None,
    extensions: Sequence[str] = (),
    *,
    raw: bool = False,
    sentences: bool = False,
    notes_per_page: int = 0,
) -> None:
    """Write links in one of the formats.

    Args:
        docs: (Doc, id of the note) pairs.
        kb: the linker's knowledge base.
        format: the format.
        out: the file; None: standard output.
        extensions: names of Span extensions to write as well.
        raw: see `to_csv`.
        sentences: see `rows`.
        notes_per_page: html: write so many notes into a file, if there is a file; 0: all into one.

    Raises:
        SapbertError: E009, the file cannot be written.
    """
    import io

    from rich.console import Console

    from .. import render

    if format is Format.table and out is None:
        render.to_table(_rows(docs, kb), Console())
        return
    if format is Format.html and out is not None and 0 < notes_per_page < len(docs):
        _write_pages(docs, kb, out, extensions, notes_per_page)
        return
    text = io.StringIO()
    if format is Format.jsonl:
        render.to_jsonl(_rows(docs, kb, extensions, sentences=sentences), text)
    elif format is Format.csv:
        render.to_csv(_rows(docs, kb, extensions, sentences=sentences), text, extensions, raw=raw, sentences=sentences)
    elif format is Format.html:
        text.write(render.to_html(docs, kb, "Linked notes", extensions=extensions))
    else:
        render.to_table(_rows(docs, kb), Console(file=text, width=140))
    write_out(text.getvalue(), out)


def _write_pages(docs: list[Any], kb: Any, out: Path, extensions: Sequence[str], size: int) -> None:
    """Write notes as several pages: OUT.html, OUT-2.html …"""
    from .. import render

    parts = [docs[start : start + size] for start in range(0, len(docs), size)]
    paths = [out, *(out.with_name(f"{out.stem}-{number}{out.suffix}") for number in range(2, len(parts) + 1))]
    files, first = [quote(os.fsencode(path.name)) for path in paths], [part[0][1] for part in parts]
    for number, (part, path) in enumerate(zip(parts, paths)):
        write_out(render.to_html(part, kb, "Linked notes", extensions=extensions, pages=render.Pages(number, files, first)), path)


def write_out(text: str, out: Path | None) -> None:
    """Write a text to standard output or into a file, which then appears complete or not at all.

    Raises:
        SapbertError: E009, the file cannot be written.
    """
    if out is None:
        sys.stdout.write(text)
        return
    check_out(out)
    temporary = out.with_name(f".{out.name}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8", newline="")
        temporary.replace(out)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise fail("E009", path=out, error=error.strerror) from error


def _rows(docs: list[Any], kb: Any, extensions: Sequence[str] = (), *, sentences: bool = False) -> Iterator[dict[str, Any]]:
    from .. import render

    for doc, note_id in docs:
        yield from render.rows(doc, kb, note_id=note_id, extensions=extensions, sentences=sentences)


def check_format(format: Format, out: Path | None, athena: Path | None, *, sentences: bool = False) -> None:
    """Check the options that belong to a format, before the notes are linked.

    Raises:
        SapbertError: E002, an option does not fit the format; E401, Athena's files are missing.
    """
    from ..exports.formats import check_athena

    if format.value in FOLDERS and (out is None or out.is_file()):
        raise fail("E002", setting="--out", component="link", value=str(out), why="brat needs a folder, because it has two files for each note.")
    check_athena(format.value, athena, "link")
    if sentences and format not in (Format.jsonl, Format.csv):
        raise fail("E002", setting="--sentences", component="link", value=sentences, why="it is for --format jsonl and csv.")
