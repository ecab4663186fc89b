"""Notes that a command is given: texts, files, folders, standard input."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from ..corpus import notes
from ..errors import MissingFile, fail

# an input with one of these endings is taken for a file, even if the file does not exist
FILE_ENDINGS = (
    *notes.TEXTS,
    ".jsonl",
    ".json",
    ".csv",
    ".tsv",
    ".xml",
    ".html",
    ".htm",
    ".md",
    ".pdf",
    ".rtf",
    ".doc",
    ".docx",
    ".odt",
    ".gz",
    ".zip",
    ".parquet",
)

PATH_BEGINNINGS = ("/", "./", "../", "~/")


def read_notes(inputs: list[str], text_field: str = "text", id_field: str | None = None) -> Iterator[tuple[str, str]]:
    """Yield (text, id) of every note.

    Args:
        inputs: texts, files, folders, or "-" for standard input, in any mixture.
        text_field: field or column with the text.
        id_field: field or column with the id; None: "id" if there is one, else file and line.

    Raises:
        SapbertError: E401, a file is missing; E402, a folder has no notes, or a file is damaged; E403, a line is not a note; E404, a file is not
            UTF-8; E408, a file has no such field.
    """
    for given in inputs:
        path = Path(given)
        what = _what_is(given)
        if given == "-":
            yield notes.decode(sys.stdin.buffer.read(), "standard input"), "stdin"
        elif what == "folder":
            files = notes.find_files(path, notes.TEXTS)
            if not files:
                raise fail("E402", path=path, expected="a folder of notes", why=f"it holds no {', '.join(notes.TEXTS)} file.")
            for file, note_id in zip(files, notes.names_of(files, path)):
                yield notes.read_text(file), note_id
        elif what == "file":
            for note in notes.read_file(path, text_field, id_field):
                if note.text is None:
                    raise fail("E403", path=path, line=note.place.rpartition(" ")[2], why=note.error)
                yield note.text, note.note_id
        elif what == "missing":
            raise fail("E401", MissingFile, path=path)
        else:
            yield given, "text"


def _what_is(given: str) -> str:
    """Return "folder", "file", "text", or "missing" for a path that does not exist."""
    if not given or len(os.fsencode(given)) > 4000:
        return "text"  # as a path, "" would be the current folder
    try:
        mode = os.stat(given).st_mode
    except (OSError, ValueError):  # there is no such file, or the text is too long for a file name
        ends_as_file = Path(given).suffix.lower() in FILE_ENDINGS
        if any(c.isspace() for c in given):  # a sentence may end with a file name, but does not begin like a path
            return "missing" if ends_as_file and given.startswith(PATH_BEGINNINGS) and given.isprintable() else "text"
        return "missing" if ends_as_file or os.sep in given else "text"
    return "folder" if stat.S_ISDIR(mode) else "file"
