"""`python -m benchmarks [linking|throughput|load|kb|umls|engines|encoders|size|status|gold|pipeline|service|review|workers|fuzz|soak|faults|all] [--data FOLDER]`."""

from __future__ import annotations

import importlib
import os
import warnings
from enum import Enum
from pathlib import Path

import typer

app = typer.Typer(add_completion=False)
SECTIONS = (
    "linking",
    "throughput",
    "load",
    "kb",
    "umls",
    "engines",
    "encoders",
    "size",
    "status",
    "gold",
    "pipeline",
    "service",
    "review",
    "workers",
)
TRIALS = ("fuzz", "soak", "faults")  # they give no figures of speed or accuracy, so `all` does not run them
Section = Enum("Section", {name: name for name in (*SECTIONS, *TRIALS, "all")}, type=str)  # type: ignore[misc]


@app.command()
def main(
    section: Section = typer.Argument(Section["all"], help="What is measured."),
    data: str | None = typer.Option(None, help="Folder of ontologies, corpora and notes; default: $SPACY_SAPBERT_DATA."),
    no_peer_build: bool = typer.Option(False, "--no-peer-build", help="Leave scispaCy out if its index is not built yet. Building it takes minutes."),
    concepts: int | None = typer.Option(
        None, help="umls: number of concepts in the synthetic release; default: 200000 (a whole release has 4000000)."
    ),
    size: int | None = typer.Option(
        None, help="engines: number of synthetic vectors, such as 10000000; default: the real vectors, and a million synthetic ones."
    ),
    linker: str = typer.Option(
        "", help="engines: the registered linker or linker folder whose names are measured; default: HPO and MONDO. soak: the linker; default: hpo."
    ),
    milvus: str = typer.Option("", help="engines: address of a Milvus server, such as http://localhost:19530, to measure it too."),
    milvus_pid: int = typer.Option(0, help="engines: process id of that server, if it is on this machine, to measure its memory."),
    inputs: int | None = typer.Option(None, help="fuzz: number of inputs over all targets; default: 1000000."),
    targets: str = typer.Option("", help="fuzz: names of targets; faults: names of operations; separated by commas; default: all."),
    seed: int | None = typer.Option(None, help="fuzz: seed of the mutations."),
    minutes: int = typer.Option(0, help="fuzz: end after about so many minutes, also with fewer inputs; default: no limit."),
    docs: int | None = typer.Option(None, help="soak: number of Docs; default: 20000."),
    step: int | None = typer.Option(None, help="faults: every so many writes are tried; default: 10."),
    loads: int | None = typer.Option(None, help="soak: number of loads and unloads; default: 200."),
) -> None:
    """Print the figures that the documentation gives."""
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    warnings.simplefilter("ignore")

    from . import engines, scispacy_peer, umls
    from .common import REPORT, ROOT, Missing, Report, data_folder

    scispacy_peer.MAY_BUILD = not no_peer_build
    umls.SIZE = concepts or umls.SIZE
    engines.SIZES = (size,) if size else engines.SIZES
    engines.LINKER, engines.MILVUS, engines.MILVUS_PID = linker, milvus, milvus_pid
    if section.value == "soak":
        from . import soak

        soak.DOCS, soak.LOADS, soak.LINKER = docs or soak.DOCS, loads or soak.LOADS, linker or soak.LINKER
    if section.value == "faults":
        from . import faults

        faults.STEP, faults.TARGETS = step or faults.STEP, targets
    if section.value == "fuzz":
        from .fuzz import command

        command.INPUTS, command.TARGETS, command.SEED = inputs or command.INPUTS, targets, command.SEED if seed is None else seed
        command.MINUTES = minutes
    report = Report()
    try:
        folder = Path() if section.value in ("umls", "status", "gold", "review", *TRIALS) or linker else data_folder(data)  # no data needed
        for name in SECTIONS if section.value == "all" else (section.value,):
            importlib.import_module(f"benchmarks.{name}").run(folder, report)
    except Missing as why:
        typer.echo(str(why), err=True)
        raise typer.Exit(1) from why
    print(f"Written to {REPORT.relative_to(ROOT)}.")


if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
