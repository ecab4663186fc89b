"""Annotate a corpus of notes into a folder of files, one for each partition.

A partition is finished when its file exists. So running the same command again resumes a killed run, and does not change a finished folder.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import fail
from ..files import parse_json, write_text
from .annotator import MANIFEST, STARTED, AnnotationSettings, Annotator, Outcome, check_format, check_kept
from .notes import Corpus, Partition, open_corpus
from .parts import COUNTS, FAILED, RECORDS, AnnotationCounts, clear_scratch, finish_parts, part_name, read_counts, unwritable_as_error

SUMMARY, LOCK = "_summary.json", ".lock"  # readers of Parquet folders skip what begins with _ or .
KIND, VERSION = "annotations", 1
ENGINES = ("local", "ray")
SHOWN = 5  # most partitions that an error names


class AnnotationReport(NamedTuple):
    """The result of a run.

    Attributes:
        counts: counts of the whole corpus.
        partitions: number of partitions.
        kept: number of partitions that an earlier run had finished.
        rate: notes per second in this run; the time to start the workers is included.
    """

    counts: AnnotationCounts
    partitions: int
    kept: int
    rate: float


def annotate(
    source: str | Path,
    out: str | Path,
    settings: AnnotationSettings | None = None,
    *,
    engine: str = "local",
    workers: int = 1,
    partition_size: int = 1000,
    ray_address: str | None = None,
    progress: bool = True,
    isolated: bool = False,
) -> AnnotationReport:
    """Annotate a corpus into the files part-00000.parquet, part-00001.parquet … of a folder, or into those of another format.

    The bytes of the files do not depend on the number of workers. In addition to the parts, the folder has _failed/part-….jsonl (note_id, place,
    reason), _manifest.json (settings and input), and _summary.json when all partitions are done; for formats other than Parquet also
    _counts/part-….json.

    Args:
        source: the corpus, see `open_corpus`.
        out: the folder.
        settings: how notes are annotated; None: the defaults.
        engine: "local" or "ray".
        workers: number of workers, each with its own pipeline.
        partition_size: number of notes in a partition.
        ray_address: address of a Ray cluster; None: see `annotate_in_ray`.
        progress: show a progress bar.
        isolated: run a single local worker as a process, too, as several workers always do. If it crashes, it is replaced, and this process goes on.
            The process knows only components and extensions that the settings name.

    Raises:
        SapbertError: E002, a setting is wrong, or `out` is inside `source`; E017, the folder was started with other settings or input;
            E018, another run is writing the folder; E409, some partitions could not be finished. Also the errors of `open_corpus`, of loading and of
            writing.
    """
    start = time.perf_counter()
    settings = settings or AnnotationSettings()
    settings = replace(
        settings, linker_name=_absolute(settings.linker_name), pipeline=_absolute(settings.pipeline), athena=_absolute(settings.athena)
    )
    out = Path(os.path.abspath(out))  # Ray's workers have another working directory
    for setting, value, fits, why in (
        ("engine", engine, engine in ENGINES, f"known are {', '.join(ENGINES)}."),
        ("workers", workers, workers >= 1, "it must be at least 1."),
        ("ray_address", ray_address, ray_address is None or engine == "ray", "it is for --engine ray."),
    ):
        if not fits:
            raise fail("E002", setting=setting, component="annotate", value=value, why=why)
    check_format(settings)
    check_kept(settings, "annotate")
    corpus = open_corpus(source, partition_size, text_field=settings.text_field, id_field=settings.id_field, keep=settings.keep_columns)
    if out.resolve() == Path(source).resolve() or Path(source).resolve() in out.resolve().parents:
        raise fail("E002", setting="out", component="annotate", value=str(out), why="it must not be in the folder that is read.")
    waiting = sum(read_counts(out, partition.number, settings.format) is None for partition in corpus.partitions)
    workers = max(1, min(workers, waiting))
    # started here, too, so that wrong settings raise before anything is written
    with _started(settings, out, engine, workers, isolated, ray_address) as (fingerprint, run, stop), _locked(out, stop):
        manifest: dict[str, Any] = {"settings": {**fingerprint, "partition_size": partition_size}, "input": corpus.description}
        if settings.format not in RECORDS:
            manifest[STARTED] = datetime.now(timezone.utc).isoformat(timespec="seconds")  # exports hold a time, which must not depend on the worker
        _begin(out, manifest, corpus)
        finished = {partition.number: read_counts(out, partition.number, settings.format) for partition in corpus.partitions}
        kept = {number: counts for number, counts in finished.items() if counts is not None}
        todo = [partition for partition in corpus.partitions if partition.number not in kept]
        if todo:
            (out / SUMMARY).unlink(missing_ok=True)
        outcomes = run(todo) if todo else iter(())
        counts = _finish(out, corpus, kept, _shown(outcomes, corpus, todo, progress), settings.format)
        rate = sum(partition.notes for partition in todo) / (time.perf_counter() - start)
        return AnnotationReport(counts, len(corpus.partitions), len(kept), rate)


@contextmanager
def _started(
    settings: AnnotationSettings, out: Path, engine: str, workers: int, isolated: bool, address: str | None
) -> Iterator[tuple[dict[str, Any], Callable[[Sequence[Partition]], Iterator[Outcome]], Callable[[], None]]]:
    """Give what the output depends on, the function that annotates partitions, and the function that ends the workers."""
    if engine == "local" and (workers > 1 or isolated):
        from .local import workers_of

        with workers_of(settings, out, workers) as crew:
            assert crew.loaded is not None
            yield crew.loaded.fingerprint, crew.run, crew.stop
        return
    with Annotator(settings, out) as annotator:
        if engine == "ray":
            from .ray import annotate_in_ray

            yield annotator.fingerprint(), lambda todo: annotate_in_ray(settings, out, todo, min(workers, len(todo)), address), lambda: None
        else:
            from .local import annotate_here

            yield annotator.fingerprint(), lambda todo: annotate_here(annotator, todo), lambda: None


def _absolute(given: str | None) -> str | None:
    """Return the absolute path of an existing folder; other values, such as registered names, are returned unchanged."""
    return os.path.abspath(given) if given and os.path.isdir(given) else given


def _shown(outcomes: Iterator[Outcome], corpus: Corpus, todo: Sequence[Partition], progress: bool) -> Iterator[Outcome]:
    """Yield the outcomes, and show a progress bar that counts notes."""
    from tqdm import tqdm

    waiting = sum(partition.notes for partition in todo)
    done_before = corpus.notes - waiting
    with tqdm(total=corpus.notes, initial=done_before, desc="annotating", unit=" notes", disable=not progress or not todo, smoothing=0.0) as bar:
        for outcome in outcomes:
            yield outcome
            bar.update(corpus.partitions[outcome.number].notes if outcome.counts else 0)


def _finish(out: Path, corpus: Corpus, kept: dict[int, AnnotationCounts], outcomes: Iterator[Outcome], form: str) -> AnnotationCounts:
    """Collect the outcomes and write the summary.

    Raises:
        SapbertError: E009, E019, the files cannot be written; E409, some partitions could not be finished.
    """
    done, lost = dict(kept), {}
    for outcome in outcomes:
        if outcome.counts is not None:
            done[outcome.number] = outcome.counts
        else:
            lost[outcome.number] = outcome.reason
    if lost:
        from .workers import TRIES

        which = ", ".join(part_name(number) for number in sorted(lost)[:SHOWN]) + (" …" if len(lost) > SHOWN else "")
        why = lost[max(lost)]
        raise fail("E409", count=len(lost), total=len(corpus.partitions), which=which, times=TRIES, why=why)
    with unwritable_as_error(out):
        finish_parts(out, sorted(done), form)
    counts = AnnotationCounts()
    for number in sorted(done):
        counts = counts.plus(done[number])
    _write(out / SUMMARY, {**counts._asdict(), "partitions": len(done)})  # without times, so that the same input gives the same bytes
    return counts


# -- the folder -------------------------------------------------------------------------------------------------------------


def _begin(out: Path, manifest: dict[str, Any], corpus: Corpus) -> None:
    """Write the manifest, or compare it with the manifest of an earlier run.

    Raises:
        SapbertError: E017, the manifests differ; E402, the folder holds other files.
    """
    manifest = {"kind": KIND, "format": VERSION, **manifest, "partitions": len(corpus.partitions)}
    clear_scratch(out)
    path = out / MANIFEST
    parts = any(out.glob("part-*"))
    if path.is_file() and parts:
        try:
            before = parse_json(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise fail("E402", path=path, expected="a manifest of `annotate`", why=f"{error}. Name another folder.") from error
        before = before if isinstance(before, dict) else {}
        if differences := _differences(before, {**json.loads(json.dumps(manifest)), STARTED: before.get(STARTED)}):
            raise fail("E017", path=out, differences="; ".join(differences))
        return
    strange = sorted(file.name for file in out.iterdir() if file.name not in (MANIFEST, SUMMARY, FAILED, COUNTS) and not file.name.startswith("."))
    if strange:
        raise fail("E402", path=out, expected="a folder that `annotate` made", why=f"it holds {', '.join(strange[:SHOWN])}. Name another one.")
    for side in [*out.glob(f"{FAILED}/part-*.jsonl"), *out.glob(f"{COUNTS}/part-*.json")]:  # left over by a run that finished no partition
        side.unlink(missing_ok=True)
    _write(path, manifest)


def _differences(before: dict[str, Any], now: dict[str, Any], above: str = "") -> list[str]:
    """Return the differences of two manifests, as "threshold: was 0.8, is 0.5"."""
    found = []
    for key in dict.fromkeys([*before, *now]):
        one, other = before.get(key), now.get(key)
        if isinstance(one, dict) and isinstance(other, dict):
            found += _differences(one, other, f"{key} ")
        elif one != other:
            found.append(f"{above}{key}: was {json.dumps(one)}, is {json.dumps(other)}")
    return found


def _write(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file.

    Raises:
        SapbertError: E009, the file cannot be written; E019, the disk is full.
    """
    with unwritable_as_error(path):
        write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


@contextmanager
def _locked(out: Path, stop: Callable[[], None]) -> Iterator[None]:
    """Lock the folder, so that only one run writes it. At the end, end the workers and remove the files that they had not finished.

    Args:
        out: the folder.
        stop: ends the workers.

    Raises:
        SapbertError: E009, the folder cannot be written; E018, another run has locked it; E019, the disk is full.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(out / LOCK, timeout=0)
    with unwritable_as_error(out):
        out.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
        except Timeout as error:
            raise fail("E018", path=out, lock=out / LOCK) from error
    try:
        try:
            yield
        finally:
            stop()
            with suppress(OSError):  # an error of the run says more
                clear_scratch(out)
    finally:
        (out / LOCK).unlink(missing_ok=True)
        lock.release()
