"""The command `static` of `python -m training`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def static(
    kb: Annotated[Path, typer.Argument(help="folder of `python -m spacy_sapbert kb build`")],
    pairs: Annotated[Path, typer.Argument(help="folder of `python -m training pairs`")],
    out: Annotated[Path, typer.Argument(help="folder to write; a README.md that is there is kept")],
    teacher: Annotated[str, typer.Option(help="an encoder's folder; shipped: the default encoder")] = "shipped",
    taught: Annotated[int, typer.Option(help="names that the teacher encodes, drawn at random")] = 40_000,
    vectors: Annotated[Path | None, typer.Option(help="file for the teacher's vectors, so that another run need not encode")] = None,
    dim: Annotated[int, typer.Option(help="dimensions of the vectors")] = 256,
    words: Annotated[int, typer.Option(help="words with a row of their own, the most frequent")] = 20_000,
    buckets: Annotated[int, typer.Option(help="rows that n-grams of characters share")] = 16_384,
    shortest: Annotated[int, typer.Option(help="characters of the shortest n-grams")] = 3,
    longest: Annotated[int, typer.Option(help="characters of the longest n-grams")] = 5,
    epochs: Annotated[float, typer.Option(help="passes over the concepts")] = 6.0,
    batch: Annotated[int, typer.Option(help="concepts in a step, two names of each")] = 1024,
    learning_rate: Annotated[float, typer.Option(help="of the first step; it falls to a fiftieth")] = 5e-3,
    temperature: Annotated[float, typer.Option(help="of InfoNCE")] = 0.05,
    distil: Annotated[float, typer.Option(help="weight of the teacher's vectors beside InfoNCE")] = 2.0,
    augmented: Annotated[float, typer.Option(help="share of names that are changed a little")] = 0.3,
    modified: Annotated[float, typer.Option(help="share of names with modifiers before them")] = 0.1,
    seed: Annotated[int, typer.Option(help="of all draws")] = 0,
) -> None:
    """Write a static encoder, made from the default one and the pairs of names."""
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
        distil=distil,
        augmented=augmented,
        modified=modified,
        seed=seed,
    )
    typer.echo(json.dumps(make_static(kb, pairs, out, settings, teacher=teacher, taught=taught, vectors=vectors), indent=1))
