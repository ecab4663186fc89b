"""Read notes from text files, JSON Lines and Parquet. A corpus is cut into partitions in one pass, without keeping texts in memory.

A partition has only paths and numbers, so any worker can read it. If a note cannot be read, this note fails and not its partition.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import MissingFile, fail

TEXTS = (".txt", ".text", ".md")
JSON_LINES = (".jsonl",)
PARQUET = (".parquet", ".pq")
KINDS = {"texts": TEXTS, "jsonl": JSON_LINES, "parquet": PARQUET}
FORMS = "Give a .parquet or .jsonl file, or a folder of .parquet, .jsonl or text files (.txt, .text, .md)"
LINES_LOOKED_AT = 100  # lines of a JSON Lines file in which the text field must occur
ROWS_AT_ONCE = 256  # rows of a Parquet file that are read at once


class Note(NamedTuple):
    """One note.

    Attributes:
        note_id: its id.
        place: where in the corpus it is, for people.
        text: its text, None if it cannot be read.
        error: why it cannot be read, without any text of the note.
    """

    note_id: str
    place: str
    text: str | None
    error: str = ""


class Piece(NamedTuple):
    """A part of a file.

    Attributes:
        path: the file.
        name: name of the file in ids; for a text file, the id of the note.
        start: first byte of JSON Lines, or first row of Parquet.
        stop: byte or row after the last one.
        line: number of the first line in JSON Lines.
    """

    path: str
    name: str
    start: int = 0
    stop: int = 0
    line: int = 0


@dataclass(frozen=True)
class Partition:
    """Notes that one worker annotates together.

    Attributes:
        number: its number, from 0.
        kind: "texts", "jsonl" or "parquet".
        pieces: where its notes are.
        notes: number of its notes.
    """

    number: int
    kind: str
    pieces: tuple[Piece, ...]
    notes: int


@dataclass(frozen=True)
class Corpus:
    """A corpus, cut into partitions.

    Attributes:
        kind: "texts", "jsonl" or "parquet".
        partitions: its partitions, in order.
        description: what identifies the input: number of files, bytes and notes, and a hash of names, sizes and times.
    """

    kind: str
    partitions: list[Partition]
    description: dict[str, Any]

    @property
    def notes(self) -> int:
        """Number of notes."""
        return sum(partition.notes for partition in self.partitions)


# -- what single files and corpora share --------------------------------------------------------------------------------------


def find_files(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    """Return the files in a folder and below it that have one of some suffixes, in any case, sorted."""
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in suffixes and path.is_file())


def names_of(files: Sequence[Path], folder: Path) -> list[str]:
    """Return the ids of files: paths in the folder without suffix, or with it if two ids would be equal."""
    short = [file.relative_to(folder).with_suffix("").as_posix() for file in files]
    twice = {name for name, following in zip(sorted(short), sorted(short)[1:]) if name == following}
    return [_valid(file.relative_to(folder).as_posix() if name in twice else name) for file, name in zip(files, short)]


def read_text(path: Path) -> str:
    """Read a text file.

    Raises:
        SapbertError: E404, it is not UTF-8.
    """
    return decode(path.read_bytes(), path)


def decode(data: bytes, path: str | Path) -> str:
    """Decode UTF-8, with or without a byte-order mark.

    Raises:
        SapbertError: E404, it is not UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise fail("E404", path=path, line=data[: error.start].count(b"\n") + 1) from error


def read_record(line: str, name: str, place: str, text_field: str = "text", id_field: str = "id") -> Note:
    """Return the note in a line of JSON; its id is `name` if it has none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        return Note(name, place, None, f"it is not JSON ({error}).")
    found = record.get(id_field) if isinstance(record, dict) else None
    note_id = _valid(str(found)) if found is not None else name
    text = record.get(text_field) if isinstance(record, dict) else None
    if not isinstance(text, str):
        return Note(note_id, place, None, f"it has no field '{text_field}' that holds text.")
    return Note(note_id, place, text)


def _valid(note_id: str) -> str:
    """Return an id that is valid UTF-8: file names may hold other bytes, and JSON halves of surrogate pairs."""
    return note_id.encode("utf-8", "backslashreplace").decode("utf-8")


# -- a corpus ---------------------------------------------------------------------------------------------------------------


def open_corpus(source: str | Path, size: int = 1000, *, text_field: str = "text", id_field: str | None = None) -> Corpus:
    """Cut a corpus into partitions.

    Args:
        source: a .parquet or .jsonl file, or a folder of such files or of text files, also in folders below.
        size: number of notes in a partition.
        text_field: field of JSON Lines or column of Parquet with the text.
        id_field: field or column with the id of the note; None: "id" if there is one, else file and line.

    Raises:
        SapbertError: E002, the size is wrong; E401, there is no such file; E402, it is not a corpus, damaged or without notes; E408, there is
            no such field; E013, pyarrow is not installed.
    """
    if size < 1:
        raise fail("E002", setting="partition_size", component="annotate", value=size, why="it must be at least 1.")
    root = Path(os.path.abspath(source))  # workers may have another working directory
    kind, files, names = _files_of(root)
    cut = _Cutter(kind, size)
    known: list[str] = []  # fields seen in JSON Lines, empty as soon as the text field was found
    digest, total = hashlib.blake2b(digest_size=16), 0
    for file, name in zip(files, names):
        status = file.stat()
        total += status.st_size
        digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
        if kind == "texts":
            cut.add(str(file), name, 0, 0)
        elif kind == "jsonl":
            known = _cut_lines(cut, file, name, text_field, known)
        else:
            _check_parquet(file, text_field, id_field)
            rows, at = int(_parquet().read_metadata(file).num_rows), 0
            while at < rows:
                taken = min(cut.room, rows - at)
                cut.add(str(file), name, at, at + taken, notes=taken)
                at += taken
    partitions = cut.finish()
    if not partitions:
        raise fail("E402", path=root, expected="a corpus", why="it holds no note.")
    if known:
        raise fail("E408", path=root, what="text field", name=text_field, option="--text-field", known=", ".join(known))
    description = {"kind": kind, "files": len(files), "bytes": total, "notes": cut.notes, "names_sizes_times": digest.hexdigest()}
    return Corpus(kind, partitions, description)


def _files_of(root: Path) -> tuple[str, list[Path], list[str]]:
    """Return the kind of a corpus, its files and their names."""
    if root.is_dir():
        found = {kind: find_files(root, suffixes) for kind, suffixes in KINDS.items()}
        # Spark and `annotate` write such files beside the data
        found["parquet"] = [file for file in found["parquet"] if not any(part[0] in "._" for part in file.relative_to(root).parts)]
        found = {kind: files for kind, files in found.items() if files}
        if not found:
            raise fail("E402", path=root, expected="a corpus", why=f"it holds no such file. {FORMS}.")
        if len(found) > 1:
            said = ", ".join(f"{len(files):,} {'/'.join(KINDS[kind])}" for kind, files in found.items())
            raise fail("E402", path=root, expected="a corpus of one kind", why=f"it holds {said} files. Put them into folders of their own.")
        ((kind, files),) = found.items()
        return kind, files, names_of(files, root)
    if not root.exists():
        raise fail("E401", MissingFile, path=root)
    for kind, suffixes in KINDS.items():
        if root.suffix.lower() in suffixes and root.is_file():
            return kind, [root], [_valid(root.stem)]
    raise fail("E402", path=root, expected="a corpus", why=f"'{root.suffix or root.name}' is not read. {FORMS}.")


class _Cutter:
    """Collects notes in order into partitions of `size`. Neighbours in a file become one piece."""

    def __init__(self, kind: str, size: int) -> None:
        self.kind, self.size, self.notes = kind, size, 0
        self._partitions: list[Partition] = []
        self._pieces: list[Piece] = []
        self._count = 0

    @property
    def room(self) -> int:
        """Number of notes that still fit into the current partition."""
        return self.size - self._count

    def add(self, path: str, name: str, start: int, stop: int, line: int = 0, notes: int = 1) -> None:
        last = self._pieces[-1] if self._pieces else None
        if last is not None and last.path == path and self.kind != "texts":
            self._pieces[-1] = last._replace(stop=stop)
        else:
            self._pieces.append(Piece(path, name, start, stop, line))
        self.notes += notes
        self._count += notes
        if self.room == 0:
            self._close()

    def _close(self) -> None:
        self._partitions.append(Partition(len(self._partitions), self.kind, tuple(self._pieces), self._count))
        self._pieces, self._count = [], 0

    def finish(self) -> list[Partition]:
        if self._count:
            self._close()
        return self._partitions


def _cut_lines(cut: _Cutter, file: Path, name: str, text_field: str, known: list[str]) -> list[str]:
    """Add the lines of a file to the partitions.

    Returns:
        The fields in the first lines of all files, empty if one of them is the text field.
    """
    at = 0
    look = cut.notes == 0 or bool(known)
    with open(file, "rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                if look and number <= LINES_LOOKED_AT:
                    fields = _fields(line)
                    look = text_field not in fields
                    known = sorted({*known, *fields}) if look else []
                cut.add(str(file), name, at, at + len(line), number)
            at += len(line)
    return known


def _fields(line: bytes) -> list[str]:
    """Return the fields of a line that hold text."""
    try:
        record = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return []
    return [_valid(field) for field, value in record.items() if isinstance(value, str)] if isinstance(record, dict) else []


# -- reading ----------------------------------------------------------------------------------------------------------------


class NoteReader:
    """Reads the notes of partitions.

    It keeps a Parquet file open: the next partition usually starts after the last one, and its row group need not be decoded again.
    """

    def __init__(self, text_field: str = "text", id_field: str | None = None) -> None:
        self.text_field, self.id_field = text_field, id_field
        self._rows: _Rows | None = None

    def read(self, partition: Partition) -> Iterator[Note]:
        """Yield the notes of a partition.

        Raises:
            OSError: a file with many notes is missing. A damaged one raises errors of pyarrow.
        """
        one = {"texts": self._text, "jsonl": self._lines, "parquet": self._table}[partition.kind]
        for piece in partition.pieces:
            yield from one(piece)

    def _text(self, piece: Piece) -> Iterator[Note]:
        try:
            yield Note(piece.name, _valid(piece.path), Path(piece.path).read_bytes().decode("utf-8-sig"))
        except UnicodeDecodeError:
            yield Note(piece.name, _valid(piece.path), None, "it is not valid UTF-8. Convert it (iconv -f latin1 -t utf-8).")
        except OSError as error:
            yield Note(piece.name, _valid(piece.path), None, f"it can't be read ({error.strerror}).")

    def _lines(self, piece: Piece) -> Iterator[Note]:
        with open(piece.path, "rb") as file:
            file.seek(piece.start)
            lines = file.read(piece.stop - piece.start).split(b"\n")
        for number, line in enumerate(lines, piece.line):
            if line.strip():
                name, place = f"{piece.name}:{number}", f"{_valid(piece.path)}, line {number}"
                try:
                    yield read_record(line.decode("utf-8-sig"), name, place, self.text_field, self.id_field or "id")
                except UnicodeDecodeError:
                    yield Note(name, place, None, "it is not valid UTF-8. Convert it (iconv -f latin1 -t utf-8).")

    def _table(self, piece: Piece) -> Iterator[Note]:
        if self._rows is None or self._rows.path != piece.path or self._rows.at > piece.start:
            self._rows = _Rows(piece, self.text_field, self.id_field)
        row = piece.start
        for text, note_id in self._rows.take(piece.start, piece.stop):
            yield self._row(piece, row, text, note_id)
            row += 1
        if row < piece.stop:
            raise OSError(f"'{piece.path}' ends at row {row:,}, but it had {piece.stop:,} rows")

    def _row(self, piece: Piece, row: int, text: Any, note_id: Any) -> Note:
        name, place = f"{piece.name}:{row + 1}", f"{_valid(piece.path)}, row {row + 1}"
        try:
            found = None if note_id is None else note_id.as_py()
            name = name if found is None else _valid(str(found))
            value = text.as_py()
        except UnicodeDecodeError:  # Arrow takes any bytes for text
            return Note(name, place, None, "it is not valid UTF-8.")
        if value is None:
            return Note(name, place, None, f"its '{self.text_field}' is null.")
        return Note(name, place, value)


class _Rows:
    """Reads rows of a Parquet file, forwards only.

    Attributes:
        path: the file.
        at: the next row.
    """

    def __init__(self, piece: Piece, text_field: str, id_field: str | None) -> None:
        parquet = _parquet()
        self.path, self.at = piece.path, 0
        file = parquet.ParquetFile(piece.path)
        groups: list[int] = []
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if groups or self.at + rows > piece.start:
                groups.append(group)
            else:
                self.at += rows
        ids = id_field or "id"
        self._names = [text_field, ids if ids in file.schema_arrow.names else None]
        columns = [name for name in dict.fromkeys(self._names) if name]
        self._batches = file.iter_batches(ROWS_AT_ONCE, row_groups=groups, columns=columns, use_threads=False)
        self._left: Any = None

    def take(self, start: int, stop: int) -> Iterator[tuple[Any, Any]]:
        """Yield (text, id) of some rows as Arrow scalars; the id is None if there is no such column."""
        while self.at < stop:
            batch = self._left if self._left is not None else next(self._batches, None)
            if batch is None:
                return
            wanted = batch.slice(max(0, start - self.at), stop - max(start, self.at)) if self.at + len(batch) > start else batch.slice(0, 0)
            used = min(len(batch), stop - self.at)
            self._left = batch.slice(used) if used < len(batch) else None
            self.at += used
            texts, ids = (wanted.column(name) if name else None for name in self._names)
            for i in range(len(wanted)):
                yield texts[i], None if ids is None else ids[i]  # type: ignore[index]


def _parquet() -> Any:
    """Import pyarrow.parquet.

    Raises:
        SapbertError: E013, pyarrow is not installed.
    """
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise fail("E013", what="Reading and writing Parquet", package="pyarrow") from error
    return pyarrow.parquet


def _check_parquet(file: Path, text_field: str, id_field: str | None) -> None:
    """Check that a Parquet file has the columns.

    Raises:
        SapbertError: E402, it is not a Parquet file, or its text column holds no text; E408, it lacks a column.
    """
    parquet = _parquet()
    import pyarrow

    try:
        schema = parquet.read_schema(file)
    except (pyarrow.ArrowException, OSError) as error:
        raise fail("E402", path=file, expected="a Parquet file", why=str(error).splitlines()[0]) from error
    for option, name in (("--text-field", text_field), ("--id-field", id_field)):
        if name is not None and name not in schema.names:
            raise fail("E408", path=file, what="column", name=name, option=option, known=", ".join(schema.names) or "none")
    of = schema.field(text_field).type
    of = of.value_type if pyarrow.types.is_dictionary(of) else of
    if not (pyarrow.types.is_string(of) or pyarrow.types.is_large_string(of) or str(of) == "string_view"):
        raise fail("E402", path=file, expected="a corpus", why=f"its column '{text_field}' holds {of}, not text. Name another one: --text-field.")
