"""The commands `vocabulary …` of `python -m training`: make the open vocabulary, and measure its content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Make and measure the open vocabulary, from which the default linker is built.", no_args_is_help=True)
DATA = Path("spacy_sapbert/data")


@app.command("make")
def make(
    assets: Annotated[Path, typer.Option(help="Folder of assets.")] = Path("assets"),
    out: Annotated[Path, typer.Option(help="The table to write.")] = DATA / "open.tsv.xz",
    senses: Annotated[Path, typer.Option(help="The table of abbreviations to write.")] = DATA / "abbreviations.tsv",
    report: Annotated[Path, typer.Option(help="Folder for the counts and for the list of joined terms.")] = Path("metrics/vocabulary"),
    kb: Annotated[Path | None, typer.Option(help="Folder in which to keep the joined knowledge base; default: it is deleted.")] = None,
) -> None:
    """Join the open terminologies into the table that the package ships."""
    from .make import make as run

    counts = run(assets, out, senses, report, kb=kb)
    typer.echo(json.dumps({name: counts[name] for name in ("concepts", "names", "senses", "bytes", "decisions", "manifest")}, indent=1))


@app.command("held-out")
def held_out(
    assets: Annotated[Path, typer.Option(help="Folder of assets.")] = Path("assets"),
    share: Annotated[float, typer.Option(help="Share of the terms with a CUI whose CUI is hidden, 0 to 1.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Seed of the random choice of terms.")] = 0,
    out: Annotated[Path, typer.Option(help="JSON file for the counts.")] = Path("metrics/vocabulary/held-out.json"),
) -> None:
    """Hide CUIs of terms of MONDO, HPO and DOID, and measure how often the names of a term lead to the right CUI."""
    from spacy_sapbert.files import write_text

    from .held_out import held_out as run

    found = run(assets, share=share, seed=seed)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, json.dumps(found, indent=1) + "\n")
    typer.echo(json.dumps({name: {key: value for key, value in counts.items() if key != "wrong"} for name, counts in found.items()}, indent=1))


@app.command("coverage")
def coverage(
    linker: Annotated[list[str] | None, typer.Option(help="Name of a registered linker, or its folder; can be given several times.")] = None,
    data: Annotated[Path, typer.Option(help="Folder of corpora.")] = Path("assets"),
    out: Annotated[Path, typer.Option(help="JSON file for the counts.")] = Path("metrics/vocabulary/coverage.json"),
) -> None:
    """Measure which share of the gold concepts of corpora is in the dictionary of a linker, by kind."""
    from .coverage import measure

    out.parent.mkdir(parents=True, exist_ok=True)
    typer.echo(measure(linker or ["open", "hpo"], data, out))


@app.command("words")
def words(
    notes: Annotated[Path, typer.Option(help="Notes: gzipped JSON lines with 'transcription'.")] = Path("assets/notes/mtsamples.jsonl.gz"),
    out: Annotated[Path, typer.Option(help="The list to write, compressed with xz.")] = Path("spacy_sapbert/data/known_words.txt.xz"),
) -> None:
    """Make the list of words that are frequent in notes; concept_matcher treats none of them as a misspelling."""
    from spacy_sapbert.errors import MissingFile
    from spacy_sapbert.errors import fail as base_fail

    from .words import write_words

    if not notes.is_file():
        raise base_fail("E401", MissingFile, path=notes)
    out.parent.mkdir(parents=True, exist_ok=True)
    typer.echo(f"{write_words(notes, out):,} words")
