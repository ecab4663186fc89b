"""`link`, `lookup` and `demo`."""

from __future__ import annotations

from itertools import chain, islice
from pathlib import Path
from typing import Any

import typer

from ..corpus.pipeline import make_pipeline, run_code
from ..errors import MissingFile, fail
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
    progress,
    split_list,
)
from .inputs import open_inputs, read_notes
from .linking import LinkedDoc, NotesRun
from .outputs import EXPORTS, Format, check_format, check_out, export_docs, write_docs


@command(app, "link")
def link(
    inputs: list[str] = typer.Argument(
        ..., help="A text, files (.txt, .jsonl, .csv, .tsv, .parquet, also .gz or .zst), folders of .txt files, or - for standard input."
    ),
    format: Format = typer.Option(Format.table, help="Format of the output."),
    out: Path | None = typer.Option(None, help="File to write; default: standard output."),
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
    text_field: str = TEXT_FIELD,
    id_field: str | None = ID_FIELD,
    keep_columns: str = typer.Option("", help="Columns or fields of the input to copy into the output, separated by commas; for jsonl and csv."),
    athena: Path | None = ATHENA,
    sentences: bool = SENTENCES,
    notes_per_page: int = typer.Option(
        100, min=0, help="html: maximum number of notes in one file; further ones are written into OUT-2.html and so on. 0: all in one file."
    ),
    raw: bool = typer.Option(
        False, "--raw", help="CSV: write texts unchanged. Without it, texts that a spreadsheet would read as a formula get an apostrophe in front."
    ),
) -> None:
    """Find and link the mentions in notes. If a note fails, the other notes are still written, and the exit code is 1."""
    from ..corpus.annotator import AnnotationSettings, check_extensions, check_kept

    keep = split_list(keep_columns)
    check_format(format, out, athena, sentences=sentences, keep=keep)
    if out is not None and format is not Format.brat:
        check_out(out)
    filters = split_list(types), split_list(vocabularies)
    settings = AnnotationSettings(
        linker_name,
        pipeline,
        threshold,
        *filters,
        encoder=encoder,
        extensions=split_list(extensions),
        target_precision=target_precision,
        rerank=rerank,
        keep_columns=keep,
        format=format.value,
        sentences=sentences,
    )
    check_kept(settings, "link")
    notes = open_inputs(inputs, text_field, id_field, keep)
    run_code(code)
    nlp = make_pipeline(settings.config(), pipeline, abbreviations, alone=True)
    check_extensions(settings.extensions)
    run = NotesRun(nlp, notes)
    docs = run.docs()
    linker: Any = nlp.get_pipe("sapbert_linker")
    first = list(islice(docs, 1))  # if all notes fail, nothing is written
    if first:
        every = chain(first, docs)
        if format in EXPORTS:
            export_docs(every, linker, format, out, athena)
        else:
            write_docs(every, linker.kb, format, out, settings.extensions, keep=keep, raw=raw, sentences=sentences, notes_per_page=notes_per_page)
    run.check()


@command(app, "lookup")
def lookup(
    names: list[str] = typer.Argument(..., help="Mentions to look up; or concepts, by an id or a code such as MESH:D003924."),
    k: int = typer.Option(5, min=1, help="Number of candidates to show."),
    linker_name: str | None = LINKER_NAME,
    encoder: str | None = ENCODER,
) -> None:
    """Show the nearest concepts of mentions, and the concepts of ids and codes."""
    import spacy
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from ..kb import curies

    linker: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": linker_name, "encoder": encoder})
    console = Console()
    for name, candidates in zip(names, linker.candidate_generator(names, max(30, k))):
        table = Table("score", "concept", "name", "by the name", title=Text(name), title_justify="left")
        # Text, because rich would read the brackets of "benzo[a]pyrene" as markup
        for row in (identified := linker.kb.rows_of(name)[:k]):
            entity = linker.kb.entity(row)
            table.add_row("id", Text(entity.concept_id), Text(entity.canonical_name), Text(name))
        is_name = _is_name(linker, name)  # an id may also be a word
        if not (is_name or identified) and curies.looks_like_id(name) and not _is_value(linker, name):
            typer.echo(f"'{name}' looks like an id, but {linker.kb.why_unknown(name)}. It is looked up as a mention.", err=True)
        for candidate in candidates[:k] if is_name or not identified else ():
            entity = linker.kb[candidate.concept_id]
            table.add_row(f"{candidate.similarities[0]:.3f}", Text(candidate.concept_id), Text(entity.canonical_name), Text(candidate.aliases[0]))
        console.print(table)


def _is_name(linker: Any, text: str) -> bool:
    return bool(linker.kb.find([linker.search.normal(text)]))


def _is_value(linker: Any, text: str) -> bool:
    """Return whether a text such as "BP:120" is the value of a test, and no code: its prefix is a name and no vocabulary."""
    from ..kb import curies

    prefix, value = curies.split(text)
    return value[:1].isdecimal() and curies.known(prefix) is None and _is_name(linker, prefix)


@command(app, "demo")
def demo(
    notes: Path = typer.Option(Path("examples/notes"), help="Folder of notes."),
    out: Path = typer.Option(Path("artifacts/demo"), help="Folder to write links.jsonl and notes.html into."),
) -> None:
    """Link the example notes: show a table, and write links.jsonl and notes.html."""
    if not notes.is_dir():
        raise fail("E401", MissingFile, path=notes)
    nlp = make_pipeline({}, alone=True)
    patterns = notes.parent / "patterns.jsonl"
    if patterns.is_file():  # finds the words of these notes that no vocabulary has
        nlp.add_pipe("entity_ruler", first=True).from_disk(patterns)
    texts = list(read_notes([str(notes)]))
    docs = [LinkedDoc(doc, note_id) for doc, note_id in progress(nlp.pipe(texts, as_tuples=True), len(texts))]
    kb = nlp.get_pipe("sapbert_linker").kb
    write_docs(docs, kb, Format.table, None)
    write_docs(docs, kb, Format.jsonl, out / "links.jsonl")
    write_docs(docs, kb, Format.html, out / "notes.html")
    typer.echo(f"Written: {out / 'links.jsonl'} and {out / 'notes.html'}")
