"""`calibrate` and `train-ranker`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ..errors import SapbertError, fail
from .app import app, command
from .changing import OUT, SHARED, changed_linker
from .docbin import read_docs


@command(app, "calibrate")
def calibrate(
    linker: str = typer.Argument(
        ..., help="Folder of a linker; calibration.json is written into it. For a registered one, also give --out or --shared."
    ),
    gold: Path = typer.Argument(..., help="Annotated notes: a DocBin (.spacy) whose entities have the id of the gold concept as kb_id."),
    spans_key: str | None = typer.Option(None, help="Span group with the annotations; default: the entities."),
    fit_on: str = typer.Option("", help="Name of the annotated data, stored in the calibration; default: the name of the file."),
    target_precision: float = typer.Option(0.95, help="Show which probability a link must have so that this share of links is right, 0 to 1."),
    rerank: str | None = typer.Option(
        None,
        help="Rerank close calls as `link --rerank` does: names, cross_encoder or context. The calibration is then for links with this --rerank.",
    ),
    out: Path | None = OUT,
    shared: bool = SHARED,
) -> None:
    """Fit a calibration on annotated notes. With it, links have a probability, and target_precision and coverage can be set."""
    import spacy

    from .. import bundle
    from ..calibration import read_calibration
    from ..render.records import count, percent
    from ..settings import Settings

    docs = read_docs(gold)
    if not 0.0 < target_precision < 1.0:
        raise fail("E002", setting="--target-precision", component="calibrate", value=target_precision, why="it must be a share, between 0 and 1.")
    Settings(rerank=rerank)  # a wrong value is refused before the linker is copied
    with changed_linker(linker, out, shared, "calibrate") as (folder, target):
        try:
            read_calibration(folder / bundle.CALIBRATION)
        except FileNotFoundError:
            pass
        except SapbertError as error:  # damaged, or of another version: it will be replaced
            typer.echo(str(error), err=True)
            bundle.write_calibration(folder, None)
        nlp = spacy.blank("en")
        component: Any = nlp.add_pipe("sapbert_linker", config={"linker_name": str(folder), "spans_key": spans_key, "rerank": rerank})
        made = component.calibrate(docs, fit_on=fit_on or gold.name)
        bundle.write_calibration(folder, made)
    n, right = len(made.right), sum(made.right)
    typer.echo(f"{count(n, 'mention')}, {right:,} with the right link. Written: {target / bundle.CALIBRATION}")
    try:
        lowest = made.lowest(target_precision)
    except SapbertError as error:  # the calibration is usable without this target
        typer.echo(str(error))
        return
    kept = sum(p >= lowest for p in made.probabilities)
    typer.echo(
        f"target_precision={target_precision}: links need a probability of at least {lowest:.3f}, which {percent(kept / n)} of these mentions have"
    )


@command(app, "train-ranker")
def train_ranker(
    linker: str = typer.Argument(..., help="Folder of a linker; ranker.json is written into it. For a registered one, also give --out or --shared."),
    gold: Path = typer.Argument(..., help="Annotated notes: a DocBin (.spacy) whose entities have the id of the gold concept as kb_id."),
    spans_key: str | None = typer.Option(None, help="Span group with the annotations; default: the entities."),
    fit_on: str = typer.Option("", help="Name of the annotated data, stored in the ranker; default: the name of the file."),
    out: Path | None = OUT,
    shared: bool = SHARED,
) -> None:
    """Train a ranker on annotated notes: it orders candidates by more than the score of the nearest name. Fit the calibration again after this."""
    import spacy

    from .. import bundle
    from ..ranking.ranker import read_ranker

    docs = read_docs(gold)
    with changed_linker(linker, out, shared, "train-ranker") as (folder, target):
        try:
            if (folder / bundle.RANKER).is_file():
                read_ranker(folder / bundle.RANKER)
        except SapbertError as error:  # damaged, or of another version: it will be replaced
            typer.echo(str(error), err=True)
            bundle.write_ranker(folder, None)
        nlp = spacy.blank("en")
        component: Any = nlp.add_pipe("sapbert_linker", config={"linker_name": str(folder), "spans_key": spans_key})
        made = component.train_ranker(docs, fit_on=fit_on or gold.name)
        had = (folder / bundle.CALIBRATION).is_file()
        bundle.write_calibration(folder, None)
        bundle.write_ranker(folder, made)
    typer.echo(f"Written: {target / bundle.RANKER}")
    if had:
        typer.echo("The calibration was removed, because it was fit for another ranking. Fit a new one: `python -m spacy_sapbert calibrate`.")
