"""The command `senses` of `python -m training`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def senses(
    abbreviations: Annotated[Path, typer.Option(help="Folder of lists of clinical abbreviations.")] = Path("assets/dictionaries/abbreviations"),
    notes: Annotated[Path, typer.Option(help="Notes: gzipped JSON lines with 'transcription'.")] = Path("assets/notes/mtsamples.jsonl.gz"),
    out: Annotated[Path, typer.Option(help="Folder to write the model into.")] = Path("artifacts/senses"),
    metrics: Annotated[Path, typer.Option(help="JSON file for the figures.")] = Path("metrics/senses.json"),
) -> None:
    """Make the model of the meanings of clinical abbreviations, and measure it on notes that it has not seen."""
    from .make import make

    typer.echo(json.dumps(make(abbreviations, notes, out, metrics), indent=1))
