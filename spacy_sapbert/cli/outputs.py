"""What `link` writes, in every format."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

from ..errors import SapbertError, fail
from ..exports.names import FOLDERS, FORMATS
from .linking import LinkedDoc


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


TITLE = "Linked notes"  # of the HTML pages
EXPORTS = tuple(map(Format, FORMATS))


def export_docs(docs: Iterable[LinkedDoc], linker: Any, format: Format, out: Path | None, athena: Path | None = None) -> None:
    """Write links in a format of another tool or standard, one note after the other.

    Args:
        docs: the notes.
        linker: the component that linked them.
        format: one of `EXPORTS`.
        out: the file, or the folder for brat; None: standard output.
        athena: folder with Athena's files, for omop.

    Raises:
        SapbertError: E009, the output cannot be written; E403, a file of Athena is damaged.
    """
    from .. import render
    from ..exports import athena as concept_ids
    from ..exports import base
    from ..exports.formats import Exporter

    kb = linker.kb
    table = None if athena is None else concept_ids.open_table(athena)
    exporter = Exporter(kb, base.origin_of(linker.bundle), None if table is None else table.find)
    notes = (base.LinkedNote(note_id, doc.text, list(render.rows(doc, kb, linker.attr_name, note_id))) for doc, note_id, _ in docs)
    with nullcontext() if table is None else closing(table):
        if format.value in FOLDERS:
            assert out is not None
            with _unwritable(out):
                exporter.write_folder(notes, out)
            return
        with open_out(out) as stream:
            exporter.write(format.value, notes, stream)


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
    docs: Iterable[LinkedDoc],
    kb: Any,
    format: Format,
    out: Path | None,
    extensions: Sequence[str] = (),
    *,
    keep: Sequence[str] = (),
    raw: bool = False,
    sentences: bool = False,
    notes_per_page: int = 0,
) -> None:
    """Write links in one of the formats. Only an HTML page needs all its notes at once; the other formats are written one note after the other.

    Args:
        docs: the notes.
        kb: the linker's knowledge base.
        format: the format.
        out: the file; None: standard output.
        extensions: names of Span extensions to write as well.
        keep: jsonl, csv: names of the columns of the input to write as well.
        raw: see `to_csv`.
        sentences: see `rows`.
        notes_per_page: html: write so many notes into a file, if there is a file; 0: all into one.

    Raises:
        SapbertError: E009, the file cannot be written.
    """
    from rich.console import Console

    from .. import render

    if format is Format.table and out is None:
        render.to_table(_rows(docs, kb), Console())
        return
    if format is Format.html and out is not None:
        _write_pages(docs, kb, out, extensions, notes_per_page)
        return
    with open_out(out) as stream:
        if format is Format.jsonl:
            render.to_jsonl(_rows(docs, kb, extensions, keep, sentences=sentences), stream)
        elif format is Format.csv:
            rows = _rows(docs, kb, extensions, keep, sentences=sentences)
            flat = ({**row, "extensions": {**row.get("extensions", {}), **row.get("columns", {})}} for row in rows)
            render.to_csv(flat, stream, [*extensions, *keep], raw=raw, sentences=sentences)
        elif format is Format.html:
            stream.write(render.to_html(((each.doc, each.note_id) for each in docs), kb, TITLE, extensions=extensions))
        else:
            render.to_table(_rows(docs, kb), Console(file=stream, width=140))


def _write_pages(docs: Iterable[LinkedDoc], kb: Any, out: Path, extensions: Sequence[str], size: int) -> None:
    """Write notes as pages of `size` notes: OUT.html, OUT-2.html …; 0: as one page. Pages that an earlier run wrote and this one did not are removed."""
    from .. import render

    remaining = ((each.doc, each.note_id) for each in docs)
    paths: list[Path] = []
    first: list[str] = []
    with ExitStack() as stack, _unwritable(out):
        while (part := list(islice(remaining, size or None))) or not paths:
            paths.append(out if not paths else out.with_name(f"{out.stem}-{len(paths) + 1}{out.suffix}"))
            check_out(paths[-1])  # before the first page is replaced, so that either all pages are or none
            first += [note_id for _, note_id in part[:1]]
            stack.callback(_temporary(paths[-1]).unlink, missing_ok=True)
            # the links to the other pages are filled in when it is known how many there are
            _write_text(_temporary(paths[-1]), render.to_html(part, kb, TITLE, extensions=extensions, later=True))
        files = [quote(os.fsencode(path.name)) for path in paths]
        for number, path in enumerate(paths):
            pages = render.Pages(number, files, first) if len(paths) > 1 else None
            temporary = _temporary(path)
            _write_text(temporary, render.fill_pages(temporary.read_text(encoding="utf-8"), TITLE, pages))
        for path in paths:
            with _unwritable(path):
                _temporary(path).replace(path)
        for path in _older_pages(out, len(paths)):
            with _unwritable(path):
                path.unlink()


def _older_pages(out: Path, count: int) -> Iterator[Path]:
    """Yield the pages OUT-n.html with a number above `count` that this command wrote in an earlier run."""
    from .. import render

    numbered = re.compile(rf"{re.escape(out.stem)}-([1-9]\d{{0,8}}){re.escape(out.suffix)}")
    for path in sorted(out.parent.iterdir()):
        match = numbered.fullmatch(path.name)
        if match is not None and int(match[1]) > count and path.is_file() and not path.is_symlink():
            with open(path, "rb") as file:
                begin = file.read(render.HEAD_BYTES).decode("utf-8", "replace")
            if render.is_page(begin, TITLE, int(match[1])):
                yield path


@contextmanager
def open_out(out: Path | None) -> Iterator[TextIO]:
    """Open an output for writing: standard output, or a file, which appears complete at the end of the block, or not at all.

    Raises:
        SapbertError: E009, the file cannot be written.
    """
    if out is None:
        yield sys.stdout
        return
    check_out(out)
    temporary = _temporary(out)
    try:
        with _unwritable(out):
            with open(temporary, "w", encoding="utf-8", newline="") as stream:
                yield stream
            temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)


def write_out(text: str, out: Path | None) -> None:
    """Write a text to standard output or into a file, which then appears complete or not at all.

    Raises:
        SapbertError: E009, the file cannot be written.
    """
    with open_out(out) as stream:
        stream.write(text)


@contextmanager
def _unwritable(out: Path) -> Iterator[None]:
    """Turn an error of the operating system into E009."""
    try:
        yield
    except SapbertError:  # `MissingFile` is also an OSError
        raise
    except OSError as error:
        raise fail("E009", path=out, error=error.strerror or type(error).__name__) from error


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.tmp")


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="")


def _rows(
    docs: Iterable[LinkedDoc], kb: Any, extensions: Sequence[str] = (), keep: Sequence[str] = (), *, sentences: bool = False
) -> Iterator[dict[str, Any]]:
    from .. import render

    for doc, note_id, kept in docs:
        for row in render.rows(doc, kb, note_id=note_id, extensions=extensions, sentences=sentences):
            yield {**row, "columns": dict(zip(keep, kept))} if keep else row


def check_format(format: Format, out: Path | None, athena: Path | None, *, sentences: bool = False, keep: Sequence[str] = ()) -> None:
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
    if keep and format not in (Format.jsonl, Format.csv):
        raise fail("E002", setting="--keep-columns", component="link", value=", ".join(keep), why="it is for --format jsonl and csv.")
