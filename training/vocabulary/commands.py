"""The commands `vocabulary …` of `python -m training`: make the open vocabulary, and measure what it holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="The open vocabulary, which the default linker is made of.", no_args_is_help=True)
DATA = Path("spacy_sapbert/data")


@app.command("make")
def make(
    assets: Annotated[Path, typer.Option(help="Folder of assets.")] = Path("assets"),
    out: Annotated[Path, typer.Option(help="The table to write.")] = DATA / "open.tsv.xz",
    senses: Annotated[Path, typer.Option(help="The table of abbreviations to write.")] = DATA / "abbreviations.tsv",
    report: Annotated[Path, typer.Option(help="Folder for the counts and for the list of what was joined.")] = Path("metrics/vocabulary"),
    kb: Annotated[Path | None, typer.Option(help="Folder for the joined knowledge base; default: it is not kept.")] = None,
) -> None:
    """Join the open terminologies into the table that the package ships."""
    from .make import make as run

    counts = run(assets, out, senses, report, kb=kb)
    typer.echo(json.dumps({name: counts[name] for name in ("concepts", "names", "senses", "bytes", "decisions", "manifest")}, indent=1))
