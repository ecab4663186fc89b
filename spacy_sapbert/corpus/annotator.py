"""The work of one worker of `annotate`: load the pipeline once, and write the file of each partition.

The last bits of a vector depend on the batch it is in, on the content of the linker's cache, and on the number of threads. So the batches of a
partition are always the same, the cache is emptied before each partition, and all workers use the same number of threads. Therefore the bytes of
the files do not depend on the number of workers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import fail
from ..exports.names import FOLDERS
from ..files import checksum, write_text
from ..indexes.base import Threaded, reader_params_of
from ..memory import return_free_memory
from ..types import Forgetting
from .isolated import Isolated
from .notes import Note, NoteReader, Partition
from .parts import (
    CANDIDATE,
    COLUMNS,
    ENDINGS,
    FAILED,
    PARQUET,
    RECORDS,
    SENTENCE,
    AnnotationCounts,
    part_name,
    unwritable_as_error,
    write_file,
    write_folder,
    write_parquet,
)

if TYPE_CHECKING:
    from ..exports.base import Origin
    from ..render.records import Row

LINKER = "sapbert_linker"
MANIFEST, STARTED = "_manifest.json", "started"  # file, and its field with the time when the run was started


@dataclass(frozen=True)
class AnnotationSettings:
    """How notes are annotated.

    Attributes:
        linker_name: setting of `sapbert_linker`, as are `threshold`, `types`, `vocabularies`, `encoder`, `target_precision` and `rerank`.
        pipeline: a spaCy pipeline that finds entities; None: a blank one with `clinical_mentions` and `concept_matcher`.
        threshold: score that a link must be above.
        types: semantic types or groups to keep.
        vocabularies: vocabularies to keep.
        abbreviations: resolve abbreviations.
        threads: number of threads of one worker. The last digit of scores may depend on it.
        text_field: see `open_corpus`.
        id_field: see `open_corpus`.
        encoder: "fast" for the static encoder.
        extensions: Span extensions, of any component, that are written into the output.
        target_precision: share of links that should be right, 0 to 1.
        code: Python file that is run before the pipeline is loaded.
        keep_columns: columns of the input that are copied into the output.
        format: format of the output, see `parts.ENDINGS`.
        athena: folder with Athena's files, for the format omop.
        sentences: also write the text of the sentence of each mention.
        rerank: "names", "cross_encoder" or "context": rerank close calls.
    """

    linker_name: str | None = None
    pipeline: str | None = None
    threshold: float | None = None
    types: list[str] = field(default_factory=list)
    vocabularies: list[str] = field(default_factory=list)
    abbreviations: bool = True
    threads: int = 1
    text_field: str = "text"
    id_field: str | None = None
    encoder: str | None = None
    extensions: list[str] = field(default_factory=list)
    target_precision: float | None = None
    code: str | None = None
    keep_columns: list[str] = field(default_factory=list)
    format: str = PARQUET
    athena: str | None = None
    sentences: bool = False
    rerank: str | None = None

    def config(self) -> dict[str, Any]:
        """Return the settings for `sapbert_linker`; those that were not given are left out."""
        config: dict[str, Any] = {"linker_name": self.linker_name}
        if self.encoder is not None:
            config["encoder"] = self.encoder
        for setting in ("threshold", "target_precision", "rerank"):
            if (value := getattr(self, setting)) is not None:
                config[setting] = value
        config.update({key: value for key, value in (("types", self.types), ("vocabularies", self.vocabularies)) if value})
        return config


class Outcome(NamedTuple):
    """The outcome of a partition.

    Attributes:
        number: number of the partition.
        counts: its counts; None if it failed in all tries.
        reason: why it failed; "" if it did not.
    """

    number: int
    counts: AnnotationCounts | None
    reason: str = ""


class Annotator:
    """A loaded pipeline that annotates partitions.

    It is a context manager: at its end, torch and BLAS get their former numbers of threads back.

    Args:
        settings: how notes are annotated.
        out: folder to write into.

    Raises:
        SapbertError: a setting is wrong, or something cannot be loaded.
    """

    def __init__(self, settings: AnnotationSettings, out: Path) -> None:
        import torch

        from ..exports import athena
        from .pipeline import make_pipeline, run_code

        if settings.threads < 1:
            raise fail("E002", setting="threads", component="annotate", value=settings.threads, why="it must be at least 1.")
        check_format(settings)
        self.settings, self.out = settings, out
        self._table = None if settings.athena is None else athena.open_table(Path(settings.athena))
        self._reader = NoteReader(settings.text_field, settings.id_field, settings.keep_columns)
        self._threads_before = torch.get_num_threads()
        self._blas = _limit_blas(settings.threads)
        torch.set_num_threads(settings.threads)
        try:
            run_code(settings.code)
            self.nlp = make_pipeline(settings.config(), settings.pipeline, settings.abbreviations, alone=True)
            check_extensions(settings.extensions)
            check_kept(settings, "annotate")
            self._isolated = Isolated(self.nlp)
            self.linker: Any = self.nlp.get_pipe(LINKER)
            index = self.linker.index
            if isinstance(index, Threaded):
                index.threads = settings.threads
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Annotator:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Give torch and BLAS their former numbers of threads back, and close Athena's concept ids."""
        import torch

        if self._table is not None:
            self._table.close()
        torch.set_num_threads(self._threads_before)
        self._blas.restore_original_limits()

    def fingerprint(self) -> dict[str, Any]:
        """Return everything that the output depends on: the settings, and hashes of linker and pipeline."""
        from importlib.util import find_spec

        from ..about import __version__
        from ..exports import athena

        config = self.settings.config()
        return {
            "spacy_sapbert": __version__,
            "linker": self._linker_digest(),
            "pipeline": self._pipeline_digest() if self.settings.pipeline else None,
            "components": list(self.nlp.pipe_names),
            "threshold": self.linker.rules.threshold,
            "target_precision": self.settings.target_precision,
            "rerank": self.linker.settings.rerank,
            "types": config.get("types"),
            "vocabularies": config.get("vocabularies"),
            "abbreviations": self.settings.abbreviations,
            "abbreviation_detector": self.settings.abbreviations and find_spec("scispacy") is not None,
            "threads": self.settings.threads,
            "text_field": self.settings.text_field,
            "id_field": self.settings.id_field,
            "extensions": self.settings.extensions,
            "keep_columns": self.settings.keep_columns,
            "format": self.settings.format,
            "sentences": self.settings.sentences,
            "athena": None if self.settings.athena is None else athena.fingerprint(Path(self.settings.athena)),
            "senses": None if (senses := self.linker.bundle.senses) is None else _folder_digest(senses),
            "code": None if self.settings.code is None else checksum(Path(self.settings.code)),
        }

    def _linker_digest(self) -> str:
        """Return a hash of the linker's content. A copy of a linker, or one built again to the same bytes, has the same hash."""
        from .. import bundle

        folder, index = Path(self.linker.folder), self.linker.index
        files = json.loads((folder / bundle.INDEX / "manifest.json").read_text(encoding="utf-8"))["files"]
        config = {key: value for key, value in index.get_config().items() if key not in reader_params_of(index)}
        calibration, ranker = folder / bundle.CALIBRATION, self.linker.ranker
        parts = [self.linker.kb.fingerprint, self.linker.model.fingerprint, type(index).__name__, config, files]
        parts.append(checksum(calibration) if calibration.is_file() else None)
        parts.append(None if ranker is None else ranker.fingerprint)
        parts += self.linker.additions.content() or [None]
        return _digest(json.dumps(parts, sort_keys=True, default=str))

    def _pipeline_digest(self) -> str:
        if self.nlp.path is None:  # it was not loaded from a folder but built by code
            return _digest(json.dumps(self.nlp.meta, sort_keys=True, default=str) + self.nlp.config.to_str())
        return _folder_digest(self.nlp.path)

    # -- a partition --------------------------------------------------------------------------------------------------------

    def annotate_partition(self, partition: Partition) -> AnnotationCounts:
        """Annotate a partition and write its file. If notes fail, the file that lists them is written first.

        Raises:
            SapbertError: E009, the files cannot be written; E019, the disk is full.
            ServerError: a server that the pipeline needs does not answer.
            Exception: errors of `NoteReader.read`, if a file with many notes is missing or damaged.
        """
        from ..render import NIL

        notes = list(self._reader.read(partition))
        found, failed = self._run(notes, self._rows_of if self.settings.format == PARQUET else self._records_of)
        rows = [row for some in found.values() for row in some]
        counts = AnnotationCounts(len(notes), len(rows), sum(row["cui"] not in (None, NIL) for row in rows), len(failed))
        side = self.out / FAILED / f"{part_name(partition.number)}.jsonl"
        with unwritable_as_error(self.out):
            if failed:
                write_text(side, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in failed))
            else:
                side.unlink(missing_ok=True)
            self._write(partition, notes, found, rows, counts)
        return_free_memory()
        return counts

    def annotate(self, notes: list[Note]) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
        """Annotate some notes.

        Returns:
            The rows of all mentions, in the order of the notes, and a dict with note_id, place and reason for each note that failed.

        Raises:
            ServerError: a server that the pipeline needs does not answer.
        """
        found, failed = self._run(notes, self._rows_of)
        return [row for rows in found.values() for row in rows], failed

    def _run(self, notes: list[Note], records: Callable[[Any, Note], Iterable[Row]]) -> tuple[dict[int, list[Row]], list[dict[str, str]]]:
        """Return place of a note -> its records, in the order of the notes, and the notes that failed; see `annotate`."""
        self._forget()
        found: dict[int, list[Row]] = {}

        def take(i: int, doc: Any) -> None:
            found[i] = list(records(doc, notes[i]))

        reasons = {i: note.error for i, note in enumerate(notes) if note.text is None}
        reasons.update(self._isolated.run([note.text for note in notes], take))
        failed = [{"note_id": notes[i].note_id, "place": notes[i].place, "reason": reasons[i]} for i in sorted(reasons)]
        return {i: found[i] for i in sorted(found)}, failed

    def _write(self, partition: Partition, notes: list[Note], found: dict[int, list[Row]], rows: list[Row], counts: AnnotationCounts) -> None:
        """Write a partition in the format of the settings."""
        from ..exports.base import LinkedNote
        from ..exports.formats import Exporter
        from ..render import to_csv, to_jsonl

        settings, number = self.settings, partition.number
        more = [*settings.extensions, *settings.keep_columns]
        with_sentences = settings.sentences
        if settings.format == PARQUET:
            write_parquet(self.out, number, rows, counts, [*([SENTENCE] if with_sentences else []), *more])
        elif settings.format == "jsonl":
            write_file(self.out, number, settings.format, counts, lambda stream: to_jsonl(rows, stream))
        elif settings.format == "csv":
            flat = [{**row, "extensions": {**row.get("extensions", {}), **row.get("columns", {})}} for row in rows]
            write_file(self.out, number, settings.format, counts, lambda stream: to_csv(flat, stream, more, sentences=with_sentences))
        else:
            exporter = Exporter(self.linker.kb, self._origin(), None if self._table is None else self._table.find)
            linked = [LinkedNote(notes[i].note_id, notes[i].text or "", some, partition.before + i + 1) for i, some in found.items()]
            if settings.format in FOLDERS:
                write_folder(self.out, number, settings.format, counts, lambda folder: exporter.write_folder(linked, folder))
            else:
                name = settings.format
                write_file(self.out, number, name, counts, lambda stream: exporter.write(name, linked, stream, lines=True))

    def _origin(self) -> Origin:
        """Return the origin of the links, with the time when the run was started, so that all workers write the same."""
        from ..exports.base import origin_of

        started = json.loads((self.out / MANIFEST).read_text(encoding="utf-8"))[STARTED]
        return replace(origin_of(self.linker.bundle), written=datetime.fromisoformat(started))

    def _forget(self) -> None:
        for _, component in self.nlp.pipeline:
            if isinstance(component, Forgetting):
                component.forget()

    def _rows(self, doc: Any, note: Note) -> Iterator[Row]:
        from ..render import rows

        extensions, sentences = self.settings.extensions, self.settings.sentences
        return rows(doc, self.linker.kb, self.linker.attr_name, note.note_id, extensions, sentences=sentences)

    def _records_of(self, doc: Any, note: Note) -> Iterator[Row]:
        """Yield the records of a note, as `link --format jsonl` writes them; columns that are kept are in `columns`."""
        kept = dict(zip(self.settings.keep_columns, note.kept))
        for row in self._rows(doc, note):
            row["explain"].pop("cached", None)  # it depends on the notes before
            yield {**row, "columns": kept} if kept else row

    def _rows_of(self, doc: Any, note: Note) -> Iterator[Row]:
        from ..render import NIL

        for row in self._rows(doc, note):
            linked = row["cui"] != NIL
            yield {
                "note_id": note.note_id,
                "start": row["start"],
                "end": row["end"],
                "mention": row["mention"],
                "label": row["label"],
                "section": row["section"],
                "status": row["status"],
                "nested": row["nested"],
                "cui": row["cui"] if linked else None,
                "name": row["name"] if linked else None,
                "types": row["types"],
                "type_names": row["type_names"],
                "score": row["score"],
                "probability": row["probability"],
                "codes": [f"{vocabulary}:{code}" for vocabulary, codes in row["codes"].items() for code in codes] if linked else [],
                "candidates": [dict(zip(CANDIDATE, candidate)) for candidate in row["candidates"]],
                **({SENTENCE: row["sentence"]} if self.settings.sentences else {}),
                **{name: json.dumps(value, ensure_ascii=False, default=str) for name, value in row.get("extensions", {}).items()},
                **dict(zip(self.settings.keep_columns, note.kept)),
            }


def check_extensions(names: Sequence[str]) -> None:
    """Check that Span extensions are registered, and that their names can be columns of the output.

    Raises:
        SapbertError: E002, an extension is not registered, or its name is already the name of a column.
    """
    from spacy.tokens import Span

    from ..render import CSV_COLUMNS

    for name in names:
        if not Span.has_extension(name):
            why = "no component of the pipeline has registered this Span extension. Name another one, or give the --pipeline that registers it."
            raise fail("E002", setting="extensions", component="link", value=name, why=why)
        if name in (*COLUMNS, *CSV_COLUMNS, SENTENCE) or names.count(name) > 1:
            raise fail("E002", setting="extensions", component="link", value=name, why="there is already a column of this name.")


def check_format(settings: AnnotationSettings) -> None:
    """Check the format and the options that belong to it.

    Raises:
        SapbertError: E002, the format is not known, or an option does not fit it; E401, Athena's files are missing.
    """
    from ..exports.formats import check_athena

    if settings.format not in ENDINGS:
        raise fail("E002", setting="format", component="annotate", value=settings.format, why=f"known are {', '.join(ENDINGS)}.")
    for setting in ("extensions", "keep_columns", "sentences"):
        if (value := getattr(settings, setting)) and settings.format not in RECORDS:
            why = f"the format {settings.format} has no place for further columns; {', '.join(RECORDS)} have."
            raise fail("E002", setting=setting, component="annotate", value=value, why=why)
    check_athena(settings.format, None if settings.athena is None else Path(settings.athena), "annotate")


def check_kept(settings: AnnotationSettings, component: str) -> None:
    """Check that the names of the columns to keep are not yet names of columns of the output.

    Args:
        settings: how notes are annotated.
        component: the command, for the message.

    Raises:
        SapbertError: E002, there is already a column of this name.
    """
    from ..render import CSV_COLUMNS

    kept = settings.keep_columns
    taken = {*COLUMNS, *settings.extensions, *(CSV_COLUMNS if settings.format == "csv" else ()), *([SENTENCE] if settings.sentences else ())}
    for name in kept:
        if name in taken or kept.count(name) > 1:
            raise fail("E002", setting="keep_columns", component=component, value=name, why="there is already a column of this name.")


def _limit_blas(threads: int) -> Any:
    """Limit the threads of BLAS.

    Raises:
        SapbertError: E013, threadpoolctl is not installed.
    """
    try:
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise fail("E013", what="`annotate`", package="threadpoolctl") from error
    import numpy  # noqa: F401  numpy's BLAS must be loaded before it can be limited

    return threadpool_limits(limits=threads)


def _folder_digest(folder: Path) -> str:
    files: Iterable[Path] = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return _digest("\n".join(f"{path.relative_to(folder).as_posix()} {checksum(path, full=False)}" for path in files))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()
