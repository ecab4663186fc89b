"""`annotate`."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

import typer

from .app import (
    ABBREVIATIONS,
    ATHENA,
    CODE,
    ENCODER,
    EXTENSIONS,
    ID_FIELD,
    LINKER_NAME,
    PIPELINE,
    RERANK,
    SENTENCES,
    TARGET_PRECISION,
    TEXT_FIELD,
    THRESHOLD,
    TYPES,
    VOCABULARIES,
    app,
    command,
    split_list,
)


class PartFormat(str, Enum):
    """Output formats of `annotate`."""

    parquet = "parquet"
    jsonl = "jsonl"
    csv = "csv"
    fhir = "fhir"
    omop = "omop"
    phenopackets = "phenopackets"
    bioc = "bioc"
    brat = "brat"
    comprehend = "comprehend"


class Engine(str, Enum):
    """Ways to run the workers of `annotate`."""

    local = "local"
    ray = "ray"


@command(app, "annotate")
def annotate(
    source: Path = typer.Argument(
        ...,
        metavar="IN",
        help="A .parquet, .jsonl, .csv or .tsv file, or a folder of such files or of text files; all may be compressed (.gz, .zst).",
    ),
    out: Path = typer.Argument(..., metavar="OUT", help="Folder to write; if it exists, the run is resumed."),
    format: PartFormat = typer.Option(PartFormat.parquet, help="Format of the files. Each holds the notes of a partition; brat: a folder of files."),
    engine: Engine = typer.Option(Engine.local, help="Run workers as processes on this machine (local), or with Ray (ray)."),
    workers: int = typer.Option(1, help="Number of workers that run at the same time, each with its own pipeline. The output does not depend on it."),
    threads: int = typer.Option(1, help="Threads of each worker. The last digit of scores may depend on it."),
    partition_size: int = typer.Option(1000, help="Number of notes in one file. A worker annotates them together."),
    text_field: str = TEXT_FIELD,
    id_field: str | None = ID_FIELD,
    ray_address: str | None = typer.Option(None, help="Ray: address of a cluster, or auto; default: a new cluster on this machine, for this run."),
    linker_name: str | None = LINKER_NAME,
    encoder: str | None = ENCODER,
    pipeline: str | None = PIPELINE,
    threshold: float | None = THRESHOLD,
    types: str = TYPES,
    vocabularies: str = VOCABULARIES,
    abbreviations: bool = ABBREVIATIONS,
    extensions: str = EXTENSIONS,
    target_precision: float | None = TARGET_PRECISION,
    rerank: str | None = RERANK,
    code: Path | None = CODE,
    keep_columns: str = typer.Option(
        "", help="Columns or fields of the input to copy into the output, separated by commas; for parquet, jsonl and csv."
    ),
    athena: Path | None = ATHENA,
    sentences: bool = SENTENCES,
) -> None:
    """Link a corpus of notes with any number of workers, into Parquet or another format. Run the same command again to resume a killed run."""
    from ..corpus.annotate import annotate as run
    from ..corpus.annotator import AnnotationSettings
    from ..corpus.parts import FAILED
    from ..render.records import count

    settings = AnnotationSettings(
        linker_name,
        pipeline,
        threshold,
        split_list(types),
        split_list(vocabularies),
        abbreviations,
        threads,
        text_field=text_field,
        id_field=id_field,
        encoder=encoder,
        extensions=split_list(extensions),
        target_precision=target_precision,
        rerank=rerank,
        code=None if code is None else str(code.absolute()),
        keep_columns=split_list(keep_columns),
        format=format.value,
        sentences=sentences,
        athena=None if athena is None else str(athena.absolute()),
    )
    how = {"engine": engine.value, "workers": workers, "partition_size": partition_size, "ray_address": ray_address}
    report = run(source, out, settings, isolated=True, **how)  # type: ignore[arg-type]
    counts = report.counts
    failed = f", {counts.failed:,} failed ({out / FAILED})" if counts.failed else ", none failed"
    typer.echo(
        f"{count(counts.notes, 'note')}{failed}; {count(counts.mentions, 'mention')}, {counts.linked:,} linked; "
        f"partitions: {report.partitions - report.kept:,} made, {report.kept:,} kept; {report.rate:.1f} notes/s. Written: {out}"
    )
