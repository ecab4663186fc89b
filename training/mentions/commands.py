"""The commands `python -m training recogniser …`. Modules are imported inside the functions, so that `--help` is fast."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

recogniser_app = typer.Typer(help="Train the recogniser of mentions, `clinical_mentions`.", no_args_is_help=True)

Documents = Annotated[Path, typer.Argument(help="Folder of `recogniser documents`.")]
Lexicon = Annotated[Path, typer.Argument(help="Folder of `recogniser lexicon`.")]
RecipePath = Annotated[Path, typer.Argument(help="Recipe, such as training/configs/recogniser.cfg.")]
Out = Annotated[Path, typer.Argument(help="Folder to write.")]
Seed = Annotated[int, typer.Option(help="Seed of all random draws.")]
MaxSteps = Annotated[int, typer.Option(help="Greatest number of optimiser steps; -1: the recipe's epochs.")]


@recogniser_app.command("documents")
def documents(
    out: Out,
    data: Annotated[Path, typer.Option(help="Folder of the assets.")] = Path("assets"),
    maccrobat: Annotated[Path, typer.Option(help="MACCROBAT2020: a folder of brat files, or its tar.gz.")] = Path("assets/corpora/maccrobat"),
    corpora: Annotated[str, typer.Option(help="Corpora, separated by commas; '': all.")] = "",
) -> None:
    """Make spaCy documents from the corpora: train/, dev/ and test/ with `.spacy` files, which `spacy train` can read, too."""
    from .documents import write_documents
    from .kinds import CORPORA

    counts = write_documents(data, maccrobat, out, [name.strip() for name in corpora.split(",") if name.strip()] or CORPORA)
    typer.echo(json.dumps(counts, indent=1))


@recogniser_app.command("lexicon")
def lexicon(
    kb: Annotated[Path, typer.Argument(help="Folder of `python -m spacy_sapbert kb build`.")],
    out: Out,
    drugs: Annotated[list[Path] | None, typer.Option(help="Lists of drugs: DrugBank's vocabulary, RxNorm's CSV.")] = None,
) -> None:
    """Make the lexicon: hashes of the names of a knowledge base and of drugs."""
    from .lexicon import write_lexicon

    typer.echo(json.dumps(write_lexicon(kb, drugs or [], out), indent=1))


@recogniser_app.command("pretrain")
def pretrain(
    recipe: RecipePath,
    documents: Documents,
    lexicon: Lexicon,
    out: Out,
    notes: Annotated[list[Path] | None, typer.Option(help="Additional texts: gzipped JSON lines with 'transcription'; repeatable.")] = None,
    seed: Seed = 0,
    max_steps: MaxSteps = -1,
) -> None:
    """Train the network to predict words, on texts without annotation; `fit --start` continues from it."""
    from .pretrain import pretrain_recogniser

    pretrain_recogniser(recipe, documents, lexicon, notes or [], out, seed=seed, max_steps=max_steps, say=typer.echo)


@recogniser_app.command("fit")
def fit(
    recipe: RecipePath,
    documents: Documents,
    lexicon: Lexicon,
    out: Out,
    seed: Seed = 0,
    max_steps: MaxSteps = -1,
    start: Annotated[Path | None, typer.Option(help="Folder of a recogniser to start from.")] = None,
) -> None:
    """Train the recogniser, and keep the pass that is best on the dev part."""
    from .fit import fit_recogniser

    fit_recogniser(recipe, documents, lexicon, out, seed=seed, max_steps=max_steps, start=start, say=typer.echo)


@recogniser_app.command("evaluate")
def evaluate(
    model: Annotated[Path, typer.Argument(help="Folder of `recogniser fit`, such as spacy_sapbert/data/mentions.")],
    documents: Documents,
    part: Annotated[str, typer.Option(help="Part to measure on: dev, or test (only once, at the end).")] = "dev",
    out: Annotated[Path | None, typer.Option(help="JSON file for the figures.")] = None,
) -> None:
    """Measure a recogniser on MACCROBAT's dev or test part: exact spans and overlapping ones, by kind."""
    from .evaluate import as_table, write_figures

    typer.echo(as_table(write_figures(model, documents, part, out)))
