"""Notes in files: text files, JSON Lines, Parquet. A corpus of them is cut into partitions in one pass that holds no text.

A partition is numbers and paths: any worker reads its own. A note that can't be read is an error of that note, not of its partition.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

from ..errors import MissingFile, fail

TEXTS = (".txt", ".text", ".md")
JSON_LINES = (".jsonl",)
PARQUET = (".parquet", ".pq")
KINDS = {"texts": TEXTS, "jsonl": JSON_LINES, "parquet": PARQUET}
FORMS = "Give a .parquet or .jsonl file, or a folder of .parquet, .jsonl or text files (.txt, .text, .md)"
LINES_LOOKED_AT = 100  # of a JSON Lines file, for the field that holds the text
ROWS_AT_ONCE = 256  # of a Parquet file


class Note(NamedTuple):
    """place: where in the corpus, for a person. text: None where it can't be read, and then `error` says why, without a word of the note."""

    note_id: str
    place: str
    text: Optional[str]
    error: str = ""


class Piece(NamedTuple):
    """Part of a file. texts: all of it, and `name` is the note's id. jsonl: bytes start to stop, `line` is the number of the first line.
    parquet: rows start to stop."""

    path: str
    name: str
    start: int = 0
    stop: int = 0
    line: int = 0


@dataclass(frozen=True)
class Partition:
    """What is annotated as one, by one worker."""

    number: int
    kind: str
    pieces: Tuple[Piece, ...]
    notes: int


@dataclass(frozen=True)
class Corpus:
    """description: by which another run knows whether it is the same input: files, bytes, notes, and a digest of names, sizes and times."""

    kind: str
    partitions: List[Partition]
    description: Dict[str, Any]

    @property
    def notes(self) -> int:
        return sum(partition.notes for partition in self.partitions)


# -- what single files and corpora share --------------------------------------------------------------------------------------


def find_files(folder: Path, suffixes: Sequence[str]) -> List[Path]:
    """Files in a folder and those below it with one of these suffixes, in any case, sorted."""
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in suffixes and path.is_file())


def names_of(files: Sequence[Path], folder: Path) -> List[str]:
    """Ids: paths in the folder without their suffix; with it where two would be the same."""
    short = [file.relative_to(folder).with_suffix("").as_posix() for file in files]
    twice = {name for name, following in zip(sorted(short), sorted(short)[1:]) if name == following}
    return [_valid(file.relative_to(folder).as_posix() if name in twice else name) for file, name in zip(files, short)]


def read_text(path: Path) -> str:
    return decode(path.read_bytes(), path)


def decode(data: bytes, path: Union[str, Path]) -> str:
    """RAISES: SapbertError E404 for what is not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise fail("E404", path=path, line=data[: error.start].count(b"\n") + 1) from error


def read_record(line: str, name: str, place: str, text_field: str = "text", id_field: str = "id") -> Note:
    """The note of a line of JSON; `name` is its id where it has none."""
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
    """File names may hold bytes that are no text, and JSON half a character."""
    return note_id.encode("utf-8", "backslashreplace").decode("utf-8")


# -- a corpus ---------------------------------------------------------------------------------------------------------------


def open_corpus(source: Union[str, Path], size: int = 1000, *, text_field: str = "text", id_field: Optional[str] = None) -> Corpus:
    """Cut a corpus into partitions of `size` notes.

    source: a .parquet or .jsonl file, or a folder of such files or of text files, with those in folders below.
    text_field, id_field: fields of JSON Lines, columns of Parquet; None: "id" where there is one, else file and line.
    RAISES: SapbertError E002 (size), E401 (nothing there), E402 (of a kind that is not read, damaged, without notes), E408 (no such field), E013.
    """
    if size < 1:
        raise fail("E002", setting="partition_size", component="annotate", value=size, why="it must be at least 1.")
    root = Path(os.path.abspath(source))  # workers may stand elsewhere
    kind, files, names = _files_of(root)
    cut = _Cutter(kind, size)
    known: List[str] = []  # fields seen in JSON Lines; empty once the text's was found
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


def _files_of(root: Path) -> Tuple[str, List[Path], List[str]]:
    """kind, files, and the name of each."""
    if root.is_dir():
        found = {kind: find_files(root, suffixes) for kind, suffixes in KINDS.items()}
        # what Spark and we ourselves write beside the data
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
    """Notes in order -> partitions of `size`; neighbours in a file become one piece."""

    def __init__(self, kind: str, size: int) -> None:
        self.kind, self.size, self.notes = kind, size, 0
        self._partitions: List[Partition] = []
        self._pieces: List[Piece] = []
        self._count = 0

    @property
    def room(self) -> int:
        """Notes that still fit into the partition that is being filled."""
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

    def finish(self) -> List[Partition]:
        if self._count:
            self._close()
        return self._partitions


def _cut_lines(cut: _Cutter, file: Path, name: str, text_field: str, known: List[str]) -> List[str]:
    """Find where lines start. RETURNS: the fields of the first lines of all files as long as none of them holds the text's."""
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


def _fields(line: bytes) -> List[str]:
    """Those that hold text."""
    try:
        record = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return []
    return [_valid(field) for field, value in record.items() if isinstance(value, str)] if isinstance(record, dict) else []


# -- reading ----------------------------------------------------------------------------------------------------------------


class NoteReader:
    """Reads the notes of partitions. It keeps a Parquet file open: the next partition mostly starts behind the last one, and its row group
    need not be decoded again."""

    def __init__(self, text_field: str = "text", id_field: Optional[str] = None) -> None:
        self.text_field, self.id_field = text_field, id_field
        self._rows: Optional[_Rows] = None

    def read(self, partition: Partition) -> Iterator[Note]:
        """RAISES: OSError and pyarrow's errors where a file of many notes is gone or was damaged since."""
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
            raise OSError(f"'{piece.path}' ends at row {row:,}, and {piece.stop:,} were there")

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
    """Rows of a Parquet file, forwards only. at: the next one."""

    def __init__(self, piece: Piece, text_field: str, id_field: Optional[str]) -> None:
        parquet = _parquet()
        self.path, self.at = piece.path, 0
        file = parquet.ParquetFile(piece.path)
        groups: List[int] = []
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

    def take(self, start: int, stop: int) -> Iterator[Tuple[Any, Any]]:
        """(text, id) scalars of rows start to stop; id None where there is no such column."""
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
    """RAISES: SapbertError E013."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise fail("E013", what="Reading and writing Parquet", package="pyarrow") from error
    return pyarrow.parquet


def _check_parquet(file: Path, text_field: str, id_field: Optional[str]) -> None:
    """RAISES: SapbertError E402, E408."""
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
