"""The commands `check`, `train`, `plan`, `finetune`, `soup`, `compress` and `compare` of `python -m training`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

SPLIT = "File with the ids of the documents to train on, one a line, for a corpus whose parts share one file (MedMentions); repeatable; default: all documents."
REPORTED = ("steps", "names_per_second", "peak_memory_mb", "before", "after")  # what `train` prints of its report


def check(
    recipe: Annotated[Path, typer.Argument(help="Recipe, a .cfg of training/configs.")],
    base: Annotated[str, typer.Option(help="Base to train from, a folder or name, or @FILE with the name; empty: the installed one.")] = "",
    gpu_id: Annotated[int, typer.Option(help="The GPU that trains and measures; -1: the CPU.")] = -1,
    gpu_ids: Annotated[str, typer.Option(help="GPUs that encode the names of the index: 0,1; empty: all; -1: none.")] = "",
    engine: Annotated[str, typer.Option(help="Engine of the index: default, auto, or a registered engine.")] = "default",
    benchmarks: Annotated[str, typer.Option(help="Benchmarks to measure, separated by commas.")] = "dev",
    calibrate_on: Annotated[str, typer.Option(help="Parts of corpora that the calibration is fitted on; empty: no calibration.")] = "",
    calibrate_test: Annotated[str, typer.Option(help="Parts of corpora that the calibration is measured on.")] = "",
    texts: Annotated[str, typer.Option(help="Corpora that the whole pipeline is measured on; empty: none.")] = "",
) -> None:
    """Check the settings of a workflow before its first step: recipe, base, GPUs, engine, corpora. Only a base on the hub is downloaded; no data is read."""
    from .preflight import preflight

    preflight(
        recipe,
        base=base,
        gpu_id=gpu_id,
        encode_on=gpu_ids,
        engine=engine,
        benchmarks=benchmarks,
        calibrate_on=calibrate_on,
        calibrate_test=calibrate_test,
        texts=texts,
    )


def train(
    context: typer.Context,
    recipe: Annotated[Path, typer.Argument(help="Recipe, a .cfg of training/configs; change settings with --SECTION.KEY VALUE after it.")],
) -> None:
    """Train an encoder. If the training is killed, the same command resumes it from its last checkpoint."""
    from .train import train as run

    report = run(recipe, list(context.args))
    if report:
        _show({key: report[key] for key in REPORTED} if "steps" in report else report)


def plan(
    context: typer.Context,
    recipe: Annotated[Path, typer.Argument(help="Recipe, a .cfg of training/configs; change settings with --SECTION.KEY VALUE after it.")],
    kb: Annotated[str, typer.Option(help="Folder of the knowledge base; default: the one in the recipe.")] = "",
    pairs: Annotated[str, typer.Option(help="Folder of pairs; if it does not exist yet, their number is estimated from the knowledge base.")] = "",
    seconds: Annotated[float, typer.Option(help="Seconds for which each kind of training is run to measure its speed; 0: do not measure it.")] = 30.0,
) -> None:
    """Estimate what a training needs: data, steps, memory of host and GPU, disk and hours. Also say which parts exist already. Nothing is saved."""
    from .plan import in_words
    from .plan import plan as run
    from .train import overridden

    given = {f"paths.{name}": value for name, value in (("kb", kb), ("pairs", pairs)) if value}
    typer.echo(in_words(run(recipe, {**overridden(recipe, list(context.args)), **given}, seconds=seconds)))


def finetune(
    context: typer.Context,
    corpora: Annotated[
        list[str],
        typer.Argument(metavar="CORPUS...", help="Training parts of corpora; after them changes of the recipe, such as --training.epochs 10."),
    ],
    kb: Annotated[Path, typer.Option(help="Folder of the knowledge base; gold ids may be its ids or codes.")] = Path("artifacts/kb"),
    encoder: Annotated[str, typer.Option(help="Encoder to start from, a folder or name; empty: the one in the recipe.")] = "",
    out: Annotated[Path, typer.Option(help="Folder to write; the pairs are written to OUT.pairs.")] = Path("artifacts/finetuned"),
    dev: Annotated[list[Path] | None, typer.Option(help="Part of a corpus to measure on, before and after the training; repeatable.")] = None,
    split: Annotated[list[Path] | None, typer.Option(help=SPLIT)] = None,
    dev_split: Annotated[list[Path] | None, typer.Option(help="The same for --dev.")] = None,
    layout: Annotated[str, typer.Option(help="Layout of all corpora (pubtator, brat, cometa …); empty: recognised from the files.")] = "",
    kind: Annotated[list[str] | None, typer.Option(help="Kind of mentions to use (Disease …); repeatable; default: all.")] = None,
    vocabulary: Annotated[str, typer.Option(help="Vocabulary of ids without a prefix (SNOMEDCT_US), if the layout has this option.")] = "",
    encoding: Annotated[str, typer.Option(help="Encoding of the corpora.")] = "utf-8",
    recipe: Annotated[Path, typer.Option(help="Recipe of self-alignment.")] = Path("training/configs/finetune.cfg"),
    allow_test: Annotated[bool, typer.Option("--allow-test", help="Also train on files that are named as a test part.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    max_pairs: Annotated[int, typer.Option(help="Greatest number of pairs of one mention.")] = 50,
) -> None:
    """Fine-tune an encoder on annotated mentions, each paired with the names of its concept, as SapBERT does."""
    from .finetune import finetune as run

    first = next((i for i, word in enumerate(corpora) if word.startswith("--")), len(corpora))  # options that are not ours change the recipe
    parts, arguments = [Path(name) for name in corpora[:first]], [*corpora[first:], *context.args]
    options = {"vocabulary": vocabulary} if vocabulary else {}
    how: dict[str, Any] = {"layout": layout or None, "kinds": kind or None, "encoding": encoding, **options}
    report = run(
        parts,
        kb,
        out,
        recipe=recipe,
        encoder=encoder,
        dev=dev or [],
        split=split or [],
        dev_split=dev_split or [],
        allow_test=allow_test,
        seed=seed,
        max_pairs=max_pairs,
        arguments=arguments,
        **how,
    )
    _show({key: report[key] for key in (*REPORTED, "mentions") if key in report})


def soup(
    out: Annotated[Path, typer.Argument(help="Folder to write.")],
    models: Annotated[list[Path], typer.Argument(help="Folders that `python -m training train` wrote, all of one base.")],
    weights: Annotated[list[float] | None, typer.Option(help="Weight of each model, in their order; repeat the option. Default: equal.")] = None,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="Keep only models that do not lower the figure, which is measured with --pairs and --kb, or with --sts.")
    ] = False,
    pairs: Annotated[Path | None, typer.Option(help="Folder that `python -m training pairs` wrote; its held-out synonyms are measured.")] = None,
    kb: Annotated[Path | None, typer.Option(help="Folder of the knowledge base of the pairs.")] = None,
    sts: Annotated[Path | None, typer.Option(help="File of scored pairs of texts (STS-B, dev).")] = None,
) -> None:
    """Write one encoder whose weights are the average of several trained encoders."""
    from .soup import chosen_measure, make_soup

    _show(make_soup(out, models, weights=weights, **chosen_measure(greedy, pairs, kb, sts)))


def compress(
    encoder: Annotated[Path, typer.Argument(help="Folder that `python -m training train` wrote.")],
    out: Annotated[Path, typer.Argument(help="Folder to write.")],
    base: Annotated[str, typer.Option(help="Name or folder of the base that it was trained from; empty: the default base.")] = "",
    rank: Annotated[int, typer.Option(help="Rank of the adapter's matrices.")] = 64,
    share: Annotated[float, typer.Option(help="Share of the way from the base's weights (0) to the trained ones (1).")] = 1.0,
    pairs: Annotated[
        Path | None, typer.Option(help="Folder that `python -m training pairs` wrote: compare both encoders on its held-out queries.")
    ] = None,
) -> None:
    """Write a trained encoder as a small PEFT adapter over its base."""
    from spacy_sapbert.encoders.transformer import BASE_NAME

    from .compress import compress as make
    from .compress import cosine_to
    from .data.pairs import read_queries

    report = make(encoder, out, base=base or BASE_NAME, rank=rank, share=share)
    if pairs:
        report["cosine"] = round(cosine_to(encoder, out, [query.query for query in read_queries(pairs)][:1000]), 5)
    typer.echo(json.dumps(report))


def compare(
    config: Annotated[Path, typer.Argument(help="File of rows, such as training/configs/compare.cfg.")],
    kb: Annotated[Path, typer.Option(help="Folder of the knowledge base.")] = Path("artifacts/kb"),
    pairs: Annotated[Path, typer.Option(help="Folder that `python -m training pairs` wrote.")] = Path("artifacts/pairs"),
    recipe: Annotated[str, typer.Option(help="Recipe that the rows start from; empty: the one that the file of rows names.")] = "",
    base: Annotated[str, typer.Option(help="Name or folder of the base; empty: the one that the recipe names.")] = "",
    data: Annotated[Path, typer.Option(help="Folder of corpora and dictionaries.")] = Path("assets"),
    work: Annotated[Path, typer.Option(help="Folder in which dictionaries are built once and then reused.")] = Path("artifacts/evaluation"),
    runs: Annotated[Path, typer.Option(help="Folder in which the trained encoders are kept.")] = Path("artifacts/compare"),
    benchmarks: Annotated[
        str, typer.Option(help="Benchmarks, separated by commas.")
    ] = "held_out,zero_shot,ncbi-dev-abbreviations,bc5cdr-dev-abbreviations,gsc-dev-abbreviations",
    limit: Annotated[int, typer.Option(help="Number of queries of each benchmark, drawn at random; 0: all of them.")] = 400,
    pool: Annotated[
        int, typer.Option(help="Number of names in a dictionary in addition to those of the gold concepts; 0: the whole dictionary.")
    ] = 1500,
    max_steps: Annotated[int, typer.Option(help="Steps of each training; 0: as set in the rows.")] = 0,
    gpu_id: Annotated[int, typer.Option(help="Number of the GPU; -1: the CPU.")] = -1,
    jobs: Annotated[int, typer.Option(help="Number of trainings that run at the same time.")] = 1,
    out: Annotated[Path, typer.Option(help="JSON file for the results; a Markdown table is written next to it.")] = Path("metrics/compare.json"),
) -> None:
    """Train every row with every seed, measure all of them on the same queries, and write means and standard deviations."""
    from .compare import Folders
    from .compare import compare as run
    from .paths import named

    folders = Folders(kb=kb, pairs=pairs, data=data, work=work, runs=runs)
    training = {"gpu_id": gpu_id, "processes": 1, **({"max_steps": max_steps} if max_steps else {})}
    run(config, folders, out, recipe=recipe, base=named(base), benchmarks=benchmarks, limit=limit, pool=pool, training=training, jobs=jobs)


def _show(report: dict[str, Any]) -> None:
    typer.echo(json.dumps(report, indent=1))
