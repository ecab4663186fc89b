"""Read notes from text files, JSON Lines, tables (CSV, TSV) and Parquet. A corpus is cut into partitions in one pass that keeps no text in memory.

A partition consists of paths and numbers, so any worker can read it. If a note cannot be read, only this note fails, not its partition.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import MissingFile, SapbertError, fail
from ..files import parse_json, valid_text
from ..readers.text import open_binary

TEXTS = (".txt", ".text", ".md")
JSON_LINES = (".jsonl",)
PARQUET = (".parquet", ".pq")
TABLES = (".csv", ".tsv")
PACKED = (".gz", ".zst", ".xz")  # endings of compressed files, after the ending of their content
# kind of a corpus -> endings of its files. A file of "records" must be read from its beginning; in a "jsonl" file a worker can jump to a byte
KINDS = {
    "texts": TEXTS,
    "jsonl": JSON_LINES,
    "records": (*TABLES, *(f"{kind}{packed}" for kind in JSON_LINES for packed in PACKED)),
    "parquet": PARQUET,
}
FORMS = (
    "Give a .parquet, .jsonl, .csv or .tsv file, or a folder of such files or of text files (.txt, .text, .md); all may be compressed "
    "(.gz, .zst, .xz)"
)
MAX_FIELD = 1 << 30  # most characters in a field of a table; the default of the csv module is 128 Ki
FIRST_LINES = 100  # the text field and the fields to keep must occur in so many first lines of a JSON Lines file
PIECE = 1 << 20  # bytes of a compressed Parquet file that are unpacked together
ROWS_AT_ONCE = 256  # rows of a Parquet file that are read together


class Note(NamedTuple):
    """One note.

    Attributes:
        note_id: its id.
        place: where in the corpus it is, in words (file and line or row).
        text: its text; None if it cannot be read.
        error: why it cannot be read, without any text of the note.
        kept: values of the columns to keep, as text; values that are not text become JSON.
    """

    note_id: str
    place: str
    text: str | None
    error: str = ""
    kept: tuple[str | None, ...] = ()


class Piece(NamedTuple):
    """A part of a file.

    Attributes:
        path: the file.
        name: name of the file in ids; for a text file, the id of the note.
        start: first byte (JSON Lines), row (Parquet) or record ("records"), from 0.
        stop: byte, row or record after the last one.
        line: number of the first line, from 1 (JSON Lines).
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
        kind: one of `KINDS`.
        pieces: where its notes are.
        notes: number of its notes.
        before: number of the notes in earlier partitions.
    """

    number: int
    kind: str
    pieces: tuple[Piece, ...]
    notes: int
    before: int = 0


@dataclass(frozen=True)
class Corpus:
    """A corpus, cut into partitions.

    Attributes:
        kind: one of `KINDS`.
        partitions: its partitions, in order.
        description: data that identifies the input: kind, number of files, bytes and notes, and a hash of names, sizes and times.
    """

    kind: str
    partitions: list[Partition]
    description: dict[str, Any]

    @property
    def notes(self) -> int:
        """Number of notes."""
        return sum(partition.notes for partition in self.partitions)


# -- for single files and for corpora -------------------------------------------------------------------------------------------


def ending_of(path: Path) -> str:
    """Return the ending of a file's name that tells its content, without the ending of a compression: ".jsonl" for "a.jsonl.gz"."""
    last = path.suffix.lower()
    return Path(path.stem).suffix.lower() if last in PACKED else last


def kind_of(path: Path) -> str | None:
    """Return the kind of corpus (see `KINDS`) that a file belongs to, by its name; None if it belongs to none."""
    ending, packed = ending_of(path), path.suffix.lower() in PACKED
    if ending in TABLES or (ending in JSON_LINES and packed):
        return "records"
    known = {suffix: kind for kind in ("texts", "jsonl", "parquet") for suffix in KINDS[kind]}
    return known.get(ending)


def find_files(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    """Return the files in a folder and its subfolders that have one of some endings, in upper or lower case, also compressed; sorted."""
    return sorted(path for path in folder.rglob("*") if ending_of(path) in suffixes and path.is_file())


def without_ending(path: Path) -> Path:
    """Return a path without its ending and without the ending of a compression."""
    return (path.with_suffix("") if path.suffix.lower() in PACKED else path).with_suffix("")


def names_of(files: Sequence[Path], folder: Path) -> list[str]:
    """Return the ids of files: their paths in the folder without endings, or with endings if two ids would be equal."""
    short = [without_ending(file.relative_to(folder)).as_posix() for file in files]
    twice = {name for name, following in zip(sorted(short), sorted(short)[1:]) if name == following}
    return [valid_text(file.relative_to(folder).as_posix() if name in twice else name) for file, name in zip(files, short)]


def read_text(path: Path) -> str:
    """Read a text file, which may be compressed.

    Raises:
        SapbertError: E402, it is damaged; E404, it is not UTF-8.
    """
    if path.suffix.lower() not in PACKED:
        return decode(path.read_bytes(), path)
    with open_binary(path) as file:
        return decode(file.read(), path)


def open_file(path: Path, text_field: str = "text", id_field: str | None = None, keep: Sequence[str] = ()) -> tuple[int, Iterator[Note]]:
    """Return the number of notes in a table, a Parquet file or JSON Lines, and the notes, which are read one after the other.

    Args:
        path: the file.
        text_field: see `open_corpus`.
        id_field: see `open_corpus`.
        keep: see `open_corpus`.

    Raises:
        SapbertError: E401, it is missing; E402, it is damaged; E408, it has no such field; E013, pyarrow is not installed. While the notes are read:
            E402, E404.
    """
    corpus = open_corpus(path, text_field=text_field, id_field=id_field, keep=keep)
    reader = NoteReader(text_field, id_field, keep)
    return corpus.notes, (note for partition in corpus.partitions for note in reader.read(partition))


def decode(data: bytes, path: str | Path) -> str:
    """Decode UTF-8, with or without a byte-order mark.

    Raises:
        SapbertError: E404, it is not UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise fail("E404", path=path, line=data[: error.start].count(b"\n") + 1) from error


def read_record(line: str, name: str, place: str, text_field: str = "text", id_field: str = "id", keep: Sequence[str] = ()) -> Note:
    """Return the note in a line of JSON. Without an id, its id is `name`. Fields of `keep` that are missing become None.

    Args:
        line: the line.
        name: id for a note without one.
        place: where the line is, for messages.
        text_field: field with the text.
        id_field: field with the id.
        keep: fields to keep.
    """
    try:
        record = parse_json(line)
    except ValueError as error:
        return Note(name, place, None, f"it is not JSON ({error}).")
    found = record.get(id_field) if isinstance(record, dict) else None
    note_id = valid_text(str(found)) if found is not None else name
    text = record.get(text_field) if isinstance(record, dict) else None
    if not isinstance(text, str):
        return Note(note_id, place, None, f"it has no field '{text_field}' that holds text.")
    return Note(note_id, place, text, kept=tuple(_as_text(record.get(field)) for field in keep))


def _as_text(value: Any) -> str | None:
    """Return a value of a column as text: a text unchanged, other values as JSON, None for None."""
    if value is None or isinstance(value, str):
        return value if value is None else valid_text(value)
    return json.dumps(value, ensure_ascii=False, default=str)


# -- a corpus ---------------------------------------------------------------------------------------------------------------


def open_corpus(source: str | Path, size: int = 1000, *, text_field: str = "text", id_field: str | None = None, keep: Sequence[str] = ()) -> Corpus:
    """Cut a corpus into partitions.

    Args:
        source: a .parquet, .jsonl, .csv or .tsv file, or a folder of such files or of text files, including its subfolders. All may be
            compressed.
        size: number of notes in a partition.
        text_field: field of JSON Lines or column of a table or of Parquet with the text.
        id_field: field or column with the id of the note; None: "id" if there is one, else file and line.
        keep: names of the columns to keep; a table or a Parquet file must have them, and of JSON Lines one of the first 100 lines of a file.

    Raises:
        SapbertError: E002, the size is wrong, or `keep` is given for text files; E401, there is no such file; E402, it is not a corpus, is damaged or
            has no notes; E408, there is no such field; E013, pyarrow is not installed.
    """
    if size < 1:
        raise fail("E002", setting="partition_size", component="annotate", value=size, why="it must be at least 1.")
    root = Path(os.path.abspath(source))  # workers may have another working directory
    kind, files, names = _files_of(root)
    if keep and kind == "texts":
        raise fail("E002", setting="keep_columns", component="annotate", value=", ".join(keep), why="text files have no columns.")
    cut = _Cutter(kind, size)
    fields = _Fields(text_field, keep)
    digest, total = hashlib.blake2b(digest_size=16), 0
    for file, name in zip(files, names):
        status = file.stat()
        total += status.st_size
        digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
        if kind == "texts":
            cut.add(str(file), name, 0, 0)
        elif kind == "jsonl":
            _cut_lines(cut, file, name, fields)
        elif kind == "records":
            _cut_records(cut, file, name, (text_field, id_field, *keep), fields)
        else:
            rows, at = _check_parquet(file, text_field, id_field, keep), 0
            while at < rows:
                taken = min(cut.room, rows - at)
                cut.add(str(file), name, at, at + taken, notes=taken)
                at += taken
    partitions = cut.finish()
    if not partitions:
        raise fail("E402", path=root, expected="a corpus", why="it holds no note.")
    fields.check(root)
    description = {"kind": kind, "files": len(files), "bytes": total, "notes": cut.notes, "names_sizes_times": digest.hexdigest()}
    return Corpus(kind, partitions, description)


def _files_of(root: Path) -> tuple[str, list[Path], list[str]]:
    """Return the kind of a corpus, its files and their names."""
    if root.is_dir():
        found: dict[str, list[Path]] = {kind: [] for kind in KINDS}
        for file in sorted(root.rglob("*")):
            if (of := kind_of(file)) is not None and file.is_file():
                found[of].append(file)
        # Spark and `annotate` write files with such names beside the data
        found["parquet"] = [file for file in found["parquet"] if not any(part[0] in "._" for part in file.relative_to(root).parts)]
        found = {kind: files for kind, files in found.items() if files}
        if not found:
            raise fail("E402", path=root, expected="a corpus", why=f"it holds no such file. {FORMS}.")
        if len(found) > 1:
            said = ", ".join(f"{len(files):,} {'/'.join(KINDS[kind])}" for kind, files in found.items())
            raise fail("E402", path=root, expected="a corpus of one kind", why=f"it holds {said} files. Put each kind into its own folder.")
        ((kind, files),) = found.items()
        return kind, files, names_of(files, root)
    if not root.exists():
        raise fail("E401", MissingFile, path=root)
    if (kind_of_root := kind_of(root)) is not None and root.is_file():
        return kind_of_root, [root], [valid_text(without_ending(root).name)]
    raise fail("E402", path=root, expected="a corpus", why=f"'{root.suffix or root.name}' is not read. {FORMS}.")


class _Cutter:
    """Collects notes, in their order, into partitions of `size` notes. Neighbouring notes of a file become one piece."""

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
        self._partitions.append(Partition(len(self._partitions), self.kind, tuple(self._pieces), self._count, self.notes - self._count))
        self._pieces, self._count = [], 0

    def finish(self) -> list[Partition]:
        if self._count:
            self._close()
        return self._partitions


class _Fields:
    """The fields of the first lines of JSON Lines files, to check that those that are asked for are among them.

    Args:
        text_field: field with the text.
        keep: fields to keep; unlike the text, they may hold any value.
    """

    def __init__(self, text_field: str, keep: Sequence[str]) -> None:
        self._text_field, self._keep = text_field, keep
        self._texts: set[str] = set()  # fields that hold text
        self._all: set[str] = set()

    def add(self, number: int, line: bytes) -> None:
        """Add the fields of a line, which has this number in its file, from 1."""
        if number <= FIRST_LINES and not (self._text_field in self._texts and self._all.issuperset(self._keep)):
            record = _record(line)
            self._all.update(record)
            self._texts.update(field for field, value in record.items() if isinstance(value, str))

    def check(self, root: Path) -> None:
        """Check that all fields were found. If none of the lines that were read has any field, each of them is an error of its own note.

        Raises:
            SapbertError: E408.
        """
        if self._texts and self._text_field not in self._texts:
            self._refuse(root, "text field", self._text_field, "--text-field", self._texts)
        for field in self._keep if self._all else ():
            if field not in self._all:
                self._refuse(root, "field", field, "--keep-columns", self._all)

    def _refuse(self, root: Path, what: str, name: str, option: str, known: set[str]) -> None:
        raise fail("E408", path=root, what=what, name=name, option=option, known=", ".join(sorted(map(valid_text, known))))


def _cut_lines(cut: _Cutter, file: Path, name: str, fields: _Fields) -> None:
    """Add the lines of a file to the partitions."""
    at = 0
    with open(file, "rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                fields.add(number, line)
                cut.add(str(file), name, at, at + len(line), number)
            at += len(line)


def _cut_records(cut: _Cutter, file: Path, name: str, columns: Sequence[str | None], fields: _Fields) -> None:
    """Add the records of a table, or of compressed JSON Lines, to the partitions.

    Raises:
        SapbertError: E402, the file is damaged; E408, a table has no such column.
    """
    if ending_of(file) in TABLES:
        _check_table(file, columns)
    for number, (_, record) in enumerate(_records(file)):
        if isinstance(record, bytes):
            fields.add(number + 1, record)
        cut.add(str(file), name, number, number + 1)


def _records(file: Path) -> Iterator[tuple[int, dict[str, Any] | bytes]]:
    """Yield (number of the line or row, from 1; row of a table as a dict, or line of JSON as bytes) for each record.

    Raises:
        SapbertError: E402, the file is damaged; E404, a table is not UTF-8.
    """
    with open_binary(file) as lines:
        if ending_of(file) not in TABLES:
            yield from ((number, line) for number, line in enumerate(lines, 1) if line.strip())
            return
        csv.field_size_limit(MAX_FIELD)
        try:
            with io.TextIOWrapper(lines, encoding="utf-8", newline="") as text:
                yield from enumerate(csv.DictReader(text, delimiter=_delimiter(file)), 1)
        except UnicodeDecodeError as error:
            raise fail("E404", path=file, line="?") from error
        except csv.Error as error:
            raise fail("E402", path=file, expected="a table", why=str(error)) from error


def _delimiter(file: Path) -> str:
    return "\t" if ending_of(file) == ".tsv" else ","


def _check_table(file: Path, wanted: Sequence[str | None]) -> None:
    """Check that a table has the columns.

    Args:
        file: the table.
        wanted: the column with the text, the column with the id (None: none is required), then the columns to keep.

    Raises:
        SapbertError: E408, a column is missing.
    """
    with open_binary(file) as lines, io.TextIOWrapper(lines, encoding="utf-8", newline="", errors="replace") as text:
        columns = next(csv.reader(text, delimiter=_delimiter(file)), [])
    for option, name in zip(("--text-field", "--id-field", *["--keep-columns"] * len(wanted)), wanted):
        if name is not None and name not in columns:
            raise fail("E408", path=file, what="column", name=name, option=option, known=", ".join(columns) or "none")


def _record(line: bytes) -> dict[str, Any]:
    """Return the fields of a JSON line; none if it is not a record."""
    try:
        record = parse_json(line.decode("utf-8-sig"))
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


# -- reading ----------------------------------------------------------------------------------------------------------------


class NoteReader:
    """Reads the notes of partitions.

    It keeps the last file open, because the next partition usually starts where the last one ended. Then a row group of Parquet is decoded only once.

    Args:
        text_field: field or column with the text.
        id_field: field or column with the id; None: "id" if there is one, else file and line.
        keep: names of the columns to keep.
    """

    def __init__(self, text_field: str = "text", id_field: str | None = None, keep: Sequence[str] = ()) -> None:
        self.text_field, self.id_field, self.keep = text_field, id_field, tuple(keep)
        self._rows: _Rows | None = None
        self._stream: _Stream | None = None

    def read(self, partition: Partition) -> Iterator[Note]:
        """Yield the notes of a partition.

        Raises:
            OSError: a file with many notes is missing, or shorter than before. A damaged Parquet file raises errors of pyarrow.
        """
        one = {"texts": self._text, "jsonl": self._lines, "records": self._some_records, "parquet": self._table}[partition.kind]
        for piece in partition.pieces:
            yield from one(piece)

    def _text(self, piece: Piece) -> Iterator[Note]:
        try:
            yield Note(piece.name, valid_text(piece.path), read_text(Path(piece.path)))
        except SapbertError as error:
            why = "it is not valid UTF-8. Convert it (iconv -f latin1 -t utf-8)." if error.code == "E404" else "it is damaged."
            yield Note(piece.name, valid_text(piece.path), None, why)
        except OSError as error:
            yield Note(piece.name, valid_text(piece.path), None, f"it can't be read ({error.strerror}).")

    def _lines(self, piece: Piece) -> Iterator[Note]:
        with open(piece.path, "rb") as file:
            file.seek(piece.start)
            lines = file.read(piece.stop - piece.start).split(b"\n")
        for number, line in enumerate(lines, piece.line):
            if line.strip():
                name, place = f"{piece.name}:{number}", f"{valid_text(piece.path)}, line {number}"
                try:
                    yield read_record(line.decode("utf-8-sig"), name, place, self.text_field, self.id_field or "id", self.keep)
                except UnicodeDecodeError:
                    yield Note(name, place, None, "it is not valid UTF-8. Convert it (iconv -f latin1 -t utf-8).")

    def _some_records(self, piece: Piece) -> Iterator[Note]:
        if self._stream is None or self._stream.path != piece.path or self._stream.at > piece.start:
            self._stream = _Stream(piece.path)
        at = piece.start
        for number, record in self._stream.take(piece.start, piece.stop):
            at += 1
            table = isinstance(record, dict)
            name, place = f"{piece.name}:{number}", f"{valid_text(piece.path)}, {'row' if table else 'line'} {number}"
            if isinstance(record, dict):
                yield self._of_table(record, name, place)
                continue
            try:
                yield read_record(record.decode("utf-8-sig"), name, place, self.text_field, self.id_field or "id", self.keep)
            except UnicodeDecodeError:
                yield Note(name, place, None, "it is not valid UTF-8. Convert it (iconv -f latin1 -t utf-8).")
        if at < piece.stop:
            raise OSError(f"'{piece.path}' ends at record {at:,}, but it had {piece.stop:,}")

    def _of_table(self, row: dict[str, Any], name: str, place: str) -> Note:
        note_id, text = row.get(self.id_field or "id"), row.get(self.text_field)
        name = valid_text(note_id) if isinstance(note_id, str) and note_id else name
        if not isinstance(text, str):
            return Note(name, place, None, f"it has no '{self.text_field}'.")
        return Note(name, place, text, kept=tuple(_as_text(row.get(column)) for column in self.keep))

    def _table(self, piece: Piece) -> Iterator[Note]:
        if self._rows is None or self._rows.path != piece.path or self._rows.at > piece.start:
            self._rows = _Rows(piece, self.text_field, self.id_field, self.keep)
        row = piece.start
        for text, note_id, *kept in self._rows.take(piece.start, piece.stop):
            yield self._row(piece, row, text, note_id, kept)
            row += 1
        if row < piece.stop:
            raise OSError(f"'{piece.path}' ends at row {row:,}, but it had {piece.stop:,} rows")

    def _row(self, piece: Piece, row: int, text: Any, note_id: Any, kept: Sequence[Any]) -> Note:
        name, place = f"{piece.name}:{row + 1}", f"{valid_text(piece.path)}, row {row + 1}"
        try:
            found = None if note_id is None else note_id.as_py()
            name = name if found is None else valid_text(str(found))
            value = text.as_py()
            values = tuple(_as_text(each.as_py()) for each in kept)
        except UnicodeDecodeError:  # Arrow does not check that a text is UTF-8
            return Note(name, place, None, "it is not valid UTF-8.")
        if value is None:
            return Note(name, place, None, f"its '{self.text_field}' is null.")
        return Note(name, place, value, kept=values)


class _Stream:
    """Reads the records of a file that can only be read forwards, from its beginning.

    Attributes:
        path: the file.
        at: index of the next record.
    """

    def __init__(self, path: str) -> None:
        self.path, self.at = path, 0
        self._records = _records(Path(path))

    def take(self, start: int, stop: int) -> Iterator[tuple[int, dict[str, Any] | bytes]]:
        """Yield the records with indexes from `start` up to, but not including, `stop`."""
        while self.at < stop:
            found = next(self._records, None)
            if found is None:
                return
            self.at += 1
            if self.at > start:
                yield found


class _Rows:
    """Reads rows of a Parquet file, only forwards.

    Attributes:
        path: the file.
        at: index of the next row.
    """

    def __init__(self, piece: Piece, text_field: str, id_field: str | None, keep: Sequence[str] = ()) -> None:
        self.path, self.at = piece.path, 0
        file = load_parquet().ParquetFile(_unpacked(Path(piece.path)))
        groups: list[int] = []
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if groups or self.at + rows > piece.start:
                groups.append(group)
            else:
                self.at += rows
        ids = id_field or "id"
        self._names = [text_field, ids if ids in file.schema_arrow.names else None, *keep]
        columns = [name for name in dict.fromkeys(self._names) if name]
        self._batches = file.iter_batches(ROWS_AT_ONCE, row_groups=groups, columns=columns, use_threads=False)
        self._left: Any = None

    def take(self, start: int, stop: int) -> Iterator[list[Any]]:
        """Yield text, id and kept columns as Arrow scalars, for the rows from `start` up to `stop`. The id is None if there is no such column."""
        while self.at < stop:
            batch = self._left if self._left is not None else next(self._batches, None)
            if batch is None:
                return
            wanted = batch.slice(max(0, start - self.at), stop - max(start, self.at)) if self.at + len(batch) > start else batch.slice(0, 0)
            used = min(len(batch), stop - self.at)
            self._left = batch.slice(used) if used < len(batch) else None
            self.at += used
            columns = [wanted.column(name) if name else None for name in self._names]
            for i in range(len(wanted)):
                yield [None if column is None else column[i] for column in columns]


def load_parquet() -> Any:
    """Import and return pyarrow.parquet.

    Raises:
        SapbertError: E013, pyarrow is not installed.
    """
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise fail("E013", what="Reading and writing Parquet", package="pyarrow") from error
    return pyarrow.parquet


def _unpacked(file: Path) -> Any:
    """Return a Parquet file itself, or if it is compressed its content as a temporary file, because Parquet is not read from its beginning.

    Raises:
        SapbertError: E402, it is damaged; E407, zstandard is not installed; E411, it unpacks to too many bytes.
    """
    if file.suffix.lower() not in PACKED:
        return file
    content = tempfile.TemporaryFile()  # noqa: SIM115  # it is deleted when the reader of the rows no longer needs it
    with open_binary(file) as packed:
        shutil.copyfileobj(packed, content, PIECE)
    content.seek(0)
    return content


def _check_parquet(file: Path, text_field: str, id_field: str | None, keep: Sequence[str] = ()) -> int:
    """Check that a Parquet file has the columns, and return the number of its rows.

    Raises:
        SapbertError: E402, it is not a Parquet file, or its text column does not hold text; E408, a column is missing.
    """
    parquet = load_parquet()
    import pyarrow

    try:
        opened = parquet.ParquetFile(_unpacked(file))
        schema, rows = opened.schema_arrow, int(opened.metadata.num_rows)
    except (pyarrow.ArrowException, OSError, ValueError) as error:  # ValueError: a name of a column is not UTF-8
        raise fail("E402", path=file, expected="a Parquet file", why=str(error).splitlines()[0]) from error
    for option, name in (("--text-field", text_field), ("--id-field", id_field), *(("--keep-columns", column) for column in keep)):
        if name is not None and name not in schema.names:
            raise fail("E408", path=file, what="column", name=name, option=option, known=", ".join(schema.names) or "none")
    of = schema.field(text_field).type
    of = of.value_type if pyarrow.types.is_dictionary(of) else of
    if not (pyarrow.types.is_string(of) or pyarrow.types.is_large_string(of) or str(of) == "string_view"):
        raise fail("E402", path=file, expected="a corpus", why=f"its column '{text_field}' holds {of}, not text. Name another one: --text-field.")
    return rows
