"""The part files of an annotated corpus: their names, how they are written in each format, and whether they are finished.

A Parquet file holds the counts of its partition in its metadata. Other formats have no place for them; `_counts/part-….json` holds them, and is
written last.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from ..errors import SapbertError, fail
from ..exports.names import FOLDERS, FORMATS
from ..files import is_disk_full, write_text, writing_folder
from .notes import load_parquet

FAILED, COUNTS = "_failed", "_counts"  # readers of Parquet folders skip what begins with _ or .
METADATA = b"spacy_sapbert"  # key of a Parquet file's metadata that holds its counts
COLUMNS = [
    *("note_id", "start", "end", "mention", "label", "section", "status", "nested", "cui", "name", "types", "type_names", "score", "probability"),
    *("codes", "candidates"),
]
SENTENCE = "sentence"  # name of the column with sentences, if there is one
CANDIDATE = ("cui", "name", "score")  # fields of an item of the column "candidates"
PARQUET = "parquet"
RECORDS = (PARQUET, "jsonl", "csv")  # formats with one row or line for each mention, which may have further columns
# format -> ending of a part
ENDINGS = {PARQUET: ".parquet", "jsonl": ".jsonl", "csv": ".csv", **{name: each.ending for name, each in FORMATS.items()}}


class AnnotationCounts(NamedTuple):
    """Counts of a partition or a corpus.

    Attributes:
        notes: number of notes, including those that failed.
        mentions: number of mentions.
        linked: number of mentions with a link.
        failed: number of notes that failed.
    """

    notes: int = 0
    mentions: int = 0
    linked: int = 0
    failed: int = 0

    def plus(self, other: AnnotationCounts) -> AnnotationCounts:
        """Return the sum of two counts."""
        return AnnotationCounts(*(a + b for a, b in zip(self, other)))


def part_name(number: int) -> str:
    """Return the name of a partition's files, without their ending."""
    return f"part-{number:05d}"


def part_path(out: Path, number: int, form: str = PARQUET) -> Path:
    """Return the file of a partition; for brat its folder."""
    return out / f"{part_name(number)}{ENDINGS[form]}"


def read_counts(out: Path, number: int, form: str = PARQUET) -> AnnotationCounts | None:
    """Return the counts of a finished partition; None if it is not finished, or its files are damaged or incomplete.

    Raises:
        SapbertError: E013, it is of Parquet, and pyarrow is not installed.
    """
    path = part_path(out, number, form)
    parquet = load_parquet() if form == PARQUET else None
    try:
        if parquet is not None:
            import pyarrow

            try:
                found = json.loads(parquet.read_schema(path).metadata[METADATA])
            except pyarrow.ArrowException:
                return None
        else:
            found = json.loads(_counts_path(out, number).read_text(encoding="utf-8"))
            if not (path.is_dir() if form in FOLDERS else path.stat().st_size == found["bytes"]):
                return None
        counts = AnnotationCounts(*(int(found[name]) for name in AnnotationCounts._fields))
    except (OSError, KeyError, TypeError, ValueError):
        return None
    return counts if not counts.failed or (out / FAILED / f"{part_name(number)}.jsonl").is_file() else None


def write_parquet(out: Path, number: int, rows: list[dict[str, Any]], counts: AnnotationCounts, more: Sequence[str] = ()) -> None:
    """Write a partition as Parquet.

    Args:
        out: the folder.
        number: number of the partition.
        rows: a row for each mention.
        counts: its counts.
        more: names of further columns, with text.
    """
    import pyarrow as pa
    import pyarrow.parquet

    table = pa.Table.from_pylist(rows, schema=schema(counts, more))
    _write(part_path(out, number), lambda file: pyarrow.parquet.write_table(table, file, compression="zstd"), mode="wb")


def write_file(out: Path, number: int, form: str, counts: AnnotationCounts, write: Callable[[TextIO], object]) -> None:
    """Write a partition as a text file, and then its counts.

    Args:
        out: the folder.
        number: number of the partition.
        form: format, one of `ENDINGS`, not Parquet and not in `FOLDERS`.
        counts: its counts.
        write: writes the content into an open file.
    """
    path = part_path(out, number, form)
    _counts_path(out, number).unlink(missing_ok=True)
    _write(path, write, mode="w", encoding="utf-8", newline="")
    _write_counts(out, number, counts, path.stat().st_size)


def write_folder(out: Path, number: int, form: str, counts: AnnotationCounts, write: Callable[[Path], object]) -> None:
    """Write a partition as a folder, and then its counts; see `write_file`."""
    _counts_path(out, number).unlink(missing_ok=True)
    with writing_folder(part_path(out, number, form)) as folder:
        write(folder)
    _write_counts(out, number, counts, 0)


def finish_parts(out: Path, numbers: Iterable[int], form: str) -> None:
    """Do what needs all partitions: number the rows of OMOP's NOTE_NLP through all files."""
    if form != "omop":
        return
    from ..exports import omop

    by_path = {part_path(out, number, form): number for number in numbers}
    for path in omop.renumber(by_path):
        counts = json.loads(_counts_path(out, by_path[path]).read_text(encoding="utf-8"))
        _write_counts(out, by_path[path], AnnotationCounts(*(counts[name] for name in AnnotationCounts._fields)), path.stat().st_size)


@contextmanager
def unwritable_as_error(path: Path) -> Iterator[None]:
    """Turn the errors of files that cannot be written into errors with a code. Other errors with a code are left as they are.

    Args:
        path: what is written, for the message.

    Raises:
        SapbertError: E009, it cannot be written; E019, the disk is full.
    """
    try:
        yield
    except (OSError, SapbertError) as error:
        if isinstance(error, SapbertError) and error.code != "E008":
            raise
        code = "E019" if isinstance(error, SapbertError) or is_disk_full(error) else "E009"
        raise fail(code, path=path, error=getattr(error, "strerror", None) or error) from error


def clear_scratch(out: Path) -> None:
    """Remove the temporary files and folders of workers that were killed."""
    for scratch in [*out.glob(".part-*.tmp"), *out.glob("._*.json.*.tmp"), *out.glob(f"{FAILED}/.part-*.tmp"), *out.glob(f"{COUNTS}/.part-*.tmp")]:
        if scratch.is_dir():
            shutil.rmtree(scratch, ignore_errors=True)
        else:
            scratch.unlink(missing_ok=True)


def schema(counts: AnnotationCounts, more: Sequence[str] = ()) -> Any:
    """Return the Arrow schema of a part file.

    Args:
        counts: counts of the partition, for the metadata.
        more: names of further columns. They hold text; the values of an extension are JSON.
    """
    import pyarrow as pa

    text, whole, real = pa.string(), pa.int32(), pa.float32()
    some, candidates = pa.list_(text), pa.list_(pa.struct(dict(zip(CANDIDATE, (text, text, real)))))
    kinds = [text, whole, whole, text, text, text, some, pa.bool_(), text, text, some, some, real, real, some, candidates]
    columns = {**dict(zip(COLUMNS, kinds, strict=True)), **dict.fromkeys(more, text)}
    return pa.schema(columns, metadata={METADATA: json.dumps(counts._asdict()).encode()})


def _counts_path(out: Path, number: int) -> Path:
    return out / COUNTS / f"{part_name(number)}.json"


def _write_counts(out: Path, number: int, counts: AnnotationCounts, size: int) -> None:
    write_text(_counts_path(out, number), json.dumps({**counts._asdict(), "bytes": size}) + "\n")


def _write(path: Path, write: Callable[[Any], object], **opening: str) -> None:
    """Write a file that appears complete or not at all. `opening` is how the file is opened."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.uname().nodename}.{os.getpid()}.tmp")  # unique to this worker, even if several machines write
    try:
        with open(scratch, **opening) as file:  # type: ignore[call-overload]
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)
