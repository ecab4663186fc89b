"""The commands `report` and `projection` of `python -m training`. Modules are imported when a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    metrics: Annotated[Path, typer.Option(help="folder of results, *.json")] = Path("metrics"),
    encoder: Annotated[Path, typer.Option(help="folder of the trained encoder, for its log and model card")] = Path("artifacts/encoder"),
    out: Annotated[Path, typer.Option(help="HTML file")] = Path("artifacts/report/index.html"),
) -> None:
    """Write all results as one HTML page."""
    from .page import write_report

    write_report(metrics, encoder, out)


def projection(
    before: Annotated[str, typer.Option(help="encoder before training; empty: the base package, shipped: the default encoder")] = "",
    after: Annotated[str, typer.Option(help="the trained encoder; its recipe.cfg says how batches are drawn and mined")] = "artifacts/encoder",
    kb: Annotated[Path, typer.Option(help="knowledge base whose names are drawn")] = Path("artifacts/kb"),
    pairs: Annotated[Path, typer.Option(help="folder of `python -m training pairs`")] = Path("artifacts/pairs"),
    seed: Annotated[int, typer.Option(help="of concepts, batches and t-SNE")] = 0,
    gpu_id: Annotated[int, typer.Option(help="GPU that encodes; -1: CPU")] = -1,
    out: Annotated[Path, typer.Option(help="JSON file")] = Path("metrics/projection.json"),
) -> None:
    """Compute names in the plane and cosines in a batch, before and after training."""
    from .projection import project_and_write

    typer.echo(project_and_write(before, after, kb, pairs, out, seed=seed, gpu_id=gpu_id))
