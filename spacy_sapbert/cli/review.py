"""`review add`, `review export`, `review report` and `review apply`."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Any

import typer

from ..corpus.pipeline import make_pipeline, run_code
from ..errors import MissingFile, fail
from .app import (
    ABBREVIATIONS,
    CODE,
    ENCODER,
    ID_FIELD,
    LINKER_NAME,
    PIPELINE,
    RERANK,
    TARGET_PRECISION,
    TEXT_FIELD,
    THRESHOLD,
    TYPES,
    VOCABULARIES,
    command,
    review_app,
    split_list,
)
from .changing import OUT, SHARED, changed_linker
from .inputs import open_inputs
from .linking import NotesRun
from .outputs import check_out, write_out

REVIEW = typer.Argument(..., help="File of the review (SQLite). It holds the notes; only its owner can read it.")


class ReviewFormat(str, Enum):
    """Output formats of `review export`."""

    gold = "gold"
    jsonl = "jsonl"
    usagi = "usagi"
    sssom = "sssom"
    names = "names"


@command(review_app, "add")
def review_add(
    review: Path = REVIEW,
    inputs: list[str] = typer.Argument(..., help="Files or folders of notes, as for `link`."),
    linker_name: str | None = LINKER_NAME,
    encoder: str | None = ENCODER,
    pipeline: str | None = PIPELINE,
    threshold: float | None = THRESHOLD,
    types: str = TYPES,
    vocabularies: str = VOCABULARIES,
    abbreviations: bool = ABBREVIATIONS,
    target_precision: float | None = TARGET_PRECISION,
    rerank: str | None = RERANK,
    code: Path | None = CODE,
    text_field: str = TEXT_FIELD,
    id_field: str | None = ID_FIELD,
) -> None:
    """Link notes and add them to a review. The file is created if it does not exist. Then `serve --review FILE` shows the review page."""
    from ..corpus.annotator import AnnotationSettings
    from ..render.records import count
    from ..review.linker import add_docs
    from ..review.store import ReviewStore

    notes = open_inputs(inputs, text_field, id_field)
    kept = split_list(types), split_list(vocabularies)
    settings = AnnotationSettings(linker_name, pipeline, threshold, *kept, encoder=encoder, target_precision=target_precision, rerank=rerank)
    store = ReviewStore(review)
    run_code(code)
    nlp = make_pipeline(settings.config(), pipeline, abbreviations, alone=True)
    linker: Any = nlp.get_pipe("sapbert_linker")
    counts = [0]

    def take(doc: Any, note_id: str) -> None:
        counts[0] += add_docs(store, linker, [(doc, note_id)])

    run = NotesRun(nlp, notes)
    run.each(take)
    notes_there, mentions = store.count()
    typer.echo(f"{count(counts[0], 'note')} added; {review} has {count(notes_there, 'note')} with {count(mentions, 'mention')}")
    run.check()


def _open_review(path: Path) -> Any:
    """Open an existing review.

    Raises:
        SapbertError: E080, E081, E106, it cannot be read; E401, there is no such file.
    """
    from ..review.store import ReviewStore

    if not path.is_file():
        raise fail("E401", MissingFile, path=path)
    return ReviewStore(path)


@command(review_app, "export")
def review_export(
    review: Path = REVIEW,
    format: ReviewFormat = typer.Option(
        ReviewFormat.gold,
        help="gold: a DocBin for `calibrate` and `train-ranker`; jsonl: the same as JSON Lines; usagi, sssom: tables of mention and concept; names: added names.",
    ),
    out: Path | None = typer.Option(None, help="File to write; default: standard output. Required for gold."),
    linker_name: str | None = LINKER_NAME,
) -> None:
    """Write the decisions of the reviewers."""
    import io

    import spacy

    from ..build import default_linkers
    from ..bundle import KB
    from ..kb.knowledge_base import KnowledgeBase
    from ..render.records import name_of
    from ..review import gold, tables

    store = _open_review(review)
    if format is ReviewFormat.gold:
        if out is None:
            raise fail("E002", setting="--out", component="review export", value=None, why="a DocBin needs a file.")
        check_out(out)
        gold.to_docbin(store, spacy.blank("en")).to_disk(out)
        return
    stream = io.StringIO(newline="")
    if format is ReviewFormat.jsonl:
        stream.writelines(gold.to_jsonl(store))
    elif format is ReviewFormat.names:
        tables.write_names(store, stream)
    else:
        kb = KnowledgeBase(default_linkers.find_linker(linker_name) / KB)
        write = tables.write_usagi if format is ReviewFormat.usagi else tables.write_sssom
        write(store, lambda cui: name_of(kb, cui), stream)
    write_out(stream.getvalue(), out)


@command(review_app, "report")
def review_report(
    review: Path = REVIEW,
    wished: float = typer.Option(0.95, help="Share of links that should be right after the review, 0 to 1."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Print the precision of reviewed links with intervals, the agreement of reviewers, and how many links still have to be reviewed."""
    from ..review.report import in_words, report

    if not 0.0 < wished < 1.0:
        raise fail("E002", setting="--wished", component="review report", value=wished, why="it must be a share, between 0 and 1.")
    figures = report(_open_review(review), wished)
    typer.echo(json.dumps(figures) if as_json else in_words(figures))


@command(review_app, "apply")
def review_apply(
    review: Path = REVIEW,
    linker: str = typer.Argument(..., help="Folder of a linker. For a registered one, such as open, also give --out or --shared."),
    out: Path | None = OUT,
    shared: bool = SHARED,
) -> None:
    """Write the names that reviewers added and removed into a linker's folder, or into a copy of it, so that pipelines with this linker follow them."""
    import spacy

    from ..render.records import count
    from ..review.linker import AppliedNames

    store = _open_review(review)
    with changed_linker(linker, out, shared, "review apply") as (folder, target):
        nlp = spacy.blank("en")
        component: Any = nlp.add_pipe("sapbert_linker", config={"linker_name": str(folder)})
        component.load()
        before = component.additions
        AppliedNames(component).apply(store.log())
        after = component.additions
        after.to_disk(folder)
    added, removed = (len(set(now) - set(then)) for now, then in ((after.names, before.names), (after.removed, before.removed)))
    typer.echo(f"{count(added, 'name')} added to {target}, {count(removed, 'name')} removed from it")
