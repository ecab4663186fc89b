"""The command `static` of `python -m training`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def static(
    kb: Annotated[Path, typer.Argument(help="Folder of the knowledge base.")],
    pairs: Annotated[Path, typer.Argument(help="Folder that `python -m training pairs` wrote.")],
    out: Annotated[Path, typer.Argument(help="Folder to write; a README.md in it is kept.")],
    teacher: Annotated[str, typer.Option(help="Folder of the teacher; shipped: the default encoder.")] = "shipped",
    taught: Annotated[int, typer.Option(help="Number of names that the teacher encodes, drawn at random.")] = 40_000,
    vectors: Annotated[
        Path | None, typer.Option(help="File in which the teacher's vectors are saved for later runs. Default: they are not saved.")
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option(help="Folder of a static encoder to start from, so that models that read its vectors can read the new ones. Default: none."),
    ] = None,
    dim: Annotated[int, typer.Option(help="Number of dimensions of the vectors.")] = 256,
    words: Annotated[int, typer.Option(help="Number of the most frequent words, each of which has its own row.")] = 20_000,
    buckets: Annotated[int, typer.Option(help="Number of rows that all character n-grams share.")] = 16_384,
    shortest: Annotated[int, typer.Option(help="Length of the shortest n-grams, in characters.")] = 3,
    longest: Annotated[int, typer.Option(help="Length of the longest n-grams, in characters.")] = 5,
    epochs: Annotated[float, typer.Option(help="Number of passes over the concepts.")] = 12.0,
    batch: Annotated[int, typer.Option(help="Number of concepts in a batch, with two names of each.")] = 1024,
    learning_rate: Annotated[float, typer.Option(help="Learning rate of the first step; it falls to a fiftieth of this.")] = 5e-3,
    temperature: Annotated[float, typer.Option(help="Temperature of the InfoNCE loss.")] = 0.05,
    hard: Annotated[float, typer.Option(help="Share of a batch that is groups of neighbouring concepts; 0 is none.")] = 0.3,
    distil: Annotated[float, typer.Option(help="Weight of the distance to the teacher's vectors; InfoNCE has weight 1.")] = 2.0,
    augmented: Annotated[float, typer.Option(help="Share of names that are augmented, 0 to 1.")] = 0.3,
    modified: Annotated[float, typer.Option(help="Share of names that get modifiers before them, 0 to 1.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
) -> None:
    """Train a static encoder from the default encoder and the pairs of names."""
    from .static import StaticSettings, make_static

    settings = StaticSettings(
        dim=dim,
        words=words,
        buckets=buckets,
        shortest=shortest,
        longest=longest,
        epochs=epochs,
        batch=batch,
        learning_rate=learning_rate,
        temperature=temperature,
        hard=hard,
        distil=distil,
        augmented=augmented,
        modified=modified,
        seed=seed,
    )
    typer.echo(json.dumps(make_static(kb, pairs, out, settings, teacher=teacher, taught=taught, vectors=vectors, start=start), indent=1))
