"""Notes that a command is given: texts, files, folders, standard input."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ..corpus import notes
from ..corpus.isolated import describe
from ..errors import MissingFile, SapbertError, fail
from ..files import valid_text

_AS_TEXT = "Save its text as .txt"
_AS_TABLE = "Save it as .csv"
_RECOGNISED = "It is an image; recognise the text in it first, and save it as .txt"
# ending of a file that is no text, so that linking its bytes or its markup would be of no use -> what to do with it
NOT_TEXT = {
    ".json": notes.FORMS,
    ".zip": "Unpack it, and give the folder",
    **dict.fromkeys((".pdf", ".rtf", ".doc", ".docx", ".odt", ".pptx", ".html", ".htm", ".xml"), _AS_TEXT),
    **dict.fromkeys((".xlsx", ".xls"), _AS_TABLE),
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".dcm"), _RECOGNISED),
}
# an input with one of these endings is taken for a file, even if the file does not exist
FILE_ENDINGS = (*notes.TEXTS, ".jsonl", ".csv", ".tsv", *notes.PARQUET, *notes.PACKED, *NOT_TEXT)
PATH_BEGINNINGS = ("./", "../", "~/")
MAX_FILE_NAME = 255  # characters; a longer last part of a path is a text


class Read(NamedTuple):
    """A note that was read, or the reason why it cannot be read.

    Attributes:
        note_id: its id.
        text: its text; "" if it cannot be read.
        error: the error; None if it can be read.
        kept: values of the columns to keep.
    """

    note_id: str
    text: str
    error: Exception | None = None
    kept: tuple[str | None, ...] = ()


class Inputs(NamedTuple):
    """Notes to read.

    Attributes:
        total: number of notes.
        notes: the notes, which are read one after the other.
    """

    total: int
    notes: Iterator[Read]


def read_notes(inputs: list[str], text_field: str = "text", id_field: str | None = None) -> Iterator[tuple[str, str]]:
    """Yield (text, id) of every note.

    Args:
        inputs: texts, files, folders, or "-" for standard input, in any mixture.
        text_field: field or column with the text.
        id_field: field or column with the id; None: "id" if there is one, else file and line.

    Raises:
        SapbertError: E401, E414, a file is missing; E402, a folder has no notes, or a file is damaged or no text; E403, a line is not a note; E404, a file is not
            UTF-8; E408, a file has no such field.
    """
    for given in inputs:
        for read in _open_one(given, text_field, id_field).notes:
            if read.error is not None:
                raise read.error
            yield read.text, read.note_id


def open_inputs(inputs: list[str], text_field: str = "text", id_field: str | None = None, keep: Sequence[str] = ()) -> Inputs:
    """Return the notes of some inputs. A note that cannot be read has an error, and the following ones are read.

    Args:
        inputs: see `read_notes`.
        text_field: see `read_notes`.
        id_field: see `read_notes`.
        keep: columns or fields to keep.

    Raises:
        SapbertError: E002, `keep` is given for an input without columns; E401, E414, a file is missing; E402, a folder has no notes, or a file
            is damaged or no text; E408, a file has no such field.
    """
    opened = [_open_one(given, text_field, id_field, keep) for given in inputs]
    return Inputs(sum(each.total for each in opened), (read for each in opened for read in each.notes))


def _open_one(given: str, text_field: str, id_field: str | None, keep: Sequence[str] = ()) -> Inputs:
    path = Path(given)
    what = _what_is(given)
    columns = what == "file" and notes.kind_of(path) not in (None, "texts")
    if keep and not columns and what != "missing":
        raise fail("E002", setting="--keep-columns", component="link", value=", ".join(keep), why="texts and text files have no columns.")
    if given == "-":
        return Inputs(1, _texts([("stdin", lambda: notes.decode(sys.stdin.buffer.read(), "standard input"))]))
    if what == "folder":
        files = notes.find_files(path, notes.TEXTS)
        if not files:
            raise fail("E402", path=path, expected="a folder of notes", why=f"it holds no {', '.join(notes.TEXTS)} file.")
        names = notes.names_of(files, path)
        return Inputs(len(files), _texts((name, partial(notes.read_text, file)) for file, name in zip(files, names)))
    if what == "file":
        if (ending := notes.ending_of(path)) in NOT_TEXT and path.is_file():
            raise fail("E402", path=path, expected="a file of notes", why=f"'{ending}' is not read. {NOT_TEXT[ending]}.")
        if not columns:  # a file with an unknown ending is read as one text
            return Inputs(1, _texts([(valid_text(notes.without_ending(path).name), partial(notes.read_text, path))]))
        count, found = notes.open_file(path, text_field, id_field, keep)
        return Inputs(count, _notes(found, count, path))
    if what == "missing":
        raise fail("E414" if any(c.isspace() for c in given) else "E401", MissingFile, path=path)
    return Inputs(1, iter([Read("text", given)]))


def _texts(named: Iterable[tuple[str, Callable[[], str]]]) -> Iterator[Read]:
    for name, read in named:
        try:
            yield Read(name, read())
        except (SapbertError, OSError) as error:
            yield Read(name, "", error)


def _notes(found: Iterator[notes.Note], count: int, path: Path) -> Iterator[Read]:
    """Yield the notes of a file that has `count` of them. If the file cannot be read to its end, those that are left have the error."""
    done = 0
    try:
        for note in found:
            yield _read(note, path)
            done += 1
    except Exception as error:  # of the operating system, or of the library that reads the format
        why = _unreadable(error, path)
        for number in range(done + 1, max(count, done + 1) + 1):
            yield Read(f"{valid_text(path.name)}, note {number}", "", why)


def _unreadable(error: Exception, path: Path) -> SapbertError:
    """Return the error that says why a file cannot be read to its end, without any text of a note."""
    if isinstance(error, SapbertError):
        return error
    if isinstance(error, FileNotFoundError):
        return fail("E401", MissingFile, path=path)
    if isinstance(error, OSError) and error.errno:
        return fail("E053", path=path, error=os.strerror(error.errno))
    return fail("E402", path=path, expected="a file that can be read to its end", why=f"it was changed or is damaged ({describe(error)}).")


def _read(note: notes.Note, path: Path) -> Read:
    if note.text is None:
        return Read(note.note_id, "", fail("E403", path=path, line=note.place.rpartition(" ")[2], why=note.error))
    return Read(note.note_id, note.text, kept=note.kept)


def _what_is(given: str) -> str:
    """Return "folder", "file", "text", or "missing" for a path that does not exist."""
    if not given or len(os.fsencode(given)) > 4000:
        return "text"  # as a path, "" would be the current folder
    try:
        mode = os.stat(given).st_mode
    except (OSError, ValueError):  # there is no such file, or the text is too long for a file name
        return "missing" if _is_like_a_file(given) else "text"
    return "folder" if stat.S_ISDIR(mode) else "file"


def _is_like_a_file(given: str) -> bool:
    """Return whether a text, which is no existing file, was meant as one: it ends like a file, or is a path.

    A text of several words is a path if it begins like one, or in a folder that exists: "c/o chest pain" is a text.
    """
    if "\t" in given or len(given.splitlines()) > 1:
        return False
    if Path(given).suffix.lower() in FILE_ENDINGS:
        return len(Path(given).name) <= MAX_FILE_NAME
    if any(c.isspace() for c in given):
        return given.startswith(PATH_BEGINNINGS) or (os.sep in given and bool(Path(given).parts[:-1]) and Path(given).parent.is_dir())
    return os.sep in given
