"""The commands `report` and `projection` of `python -m training`. Modules are imported when a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    metrics: Annotated[Path, typer.Option(help="Folder of results, *.json.")] = Path("metrics"),
    encoder: Annotated[Path, typer.Option(help="Folder of the trained encoder, for its log and model card.")] = Path("artifacts/encoder"),
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("artifacts/report/index.html"),
) -> None:
    """Write all results as one HTML page."""
    from .page import write_report

    write_report(metrics, encoder, out)


def projection(
    before: Annotated[str, typer.Option(help="Folder of the encoder before training; empty: the untrained base; shipped: the default encoder.")] = "",
    after: Annotated[
        str, typer.Option(help="Folder of the trained encoder; batches are drawn and mined as in its recipe.cfg.")
    ] = "artifacts/encoder",
    kb: Annotated[Path, typer.Option(help="Folder of the knowledge base whose names are drawn.")] = Path("artifacts/kb"),
    pairs: Annotated[Path, typer.Option(help="Folder that `python -m training pairs` wrote.")] = Path("artifacts/pairs"),
    seed: Annotated[int, typer.Option(help="Seed of the choice of concepts, of batches and of t-SNE.")] = 0,
    gpu_id: Annotated[int, typer.Option(help="Number of the GPU that encodes; -1: the CPU.")] = -1,
    out: Annotated[Path, typer.Option(help="JSON file for the results.")] = Path("metrics/projection.json"),
) -> None:
    """Project names into the plane and measure cosines in a batch, before and after training."""
    from ..paths import named
    from .projection import project_and_write

    typer.echo(project_and_write(named(before), after, kb, pairs, out, seed=seed, gpu_id=gpu_id))
