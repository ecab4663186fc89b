"""The commands `evaluate`, `calibrate`, `ranker`, `reranker`, `end-to-end` and `cross-lingual`. Modules are imported only when a command runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

ENCODER = (
    "An encoder to measure, NAME=FOLDER; can be given several times. NAME= is the untrained base, NAME=shipped the default encoder, NAME=fast the fast "
    "encoder. NAME#0=…, NAME#1=… are seeds of one recipe: their figures are averaged."
)
LIMIT = "Number of queries of each benchmark, drawn at random; 0: all of them."
POOL = "Number of names in a dictionary in addition to those of the gold concepts, for quick runs; 0: the whole dictionary."
RESULT = "JSON file for the results; a Markdown table is written next to it."
SEED = "Seed of samples and resamples."
DATA = "Folder of corpora and dictionaries."
KB = "Folder of the knowledge base"
WORK = "Folder in which dictionaries are built once and then reused."
GPU = Annotated[int, typer.Option(help="Number of the GPU that encodes; -1: the CPU.")]
SET = (
    "A corpus of your own; can be given several times: a file or folder of any layout, looked up in a knowledge base, an ontology, or a table "
    "`id||name` or `id TAB name`. Other options are OPTION=VALUE after a comma (kinds, train, split, vocabulary …)."
)


def evaluate(
    encoder: Annotated[list[str] | None, typer.Option(metavar="NAME=FOLDER", help=ENCODER)] = None,
    phases: Annotated[bool, typer.Option(help="Also measure each phase of encoders whose recipe has phases, such as biolord.cfg.")] = False,
    benchmarks: Annotated[
        list[str] | None,
        typer.Option(
            help="Benchmarks, or groups of them (dev, test, papers, codes), separated by commas; can be given several times. Default: dev, or the sets."
        ),
    ] = None,
    sets: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=CORPUS,DICTIONARY[,LAYOUT]", help=SET)] = None,
    kb: Annotated[Path, typer.Option(help=f"{KB}, for the held-out benchmarks.")] = Path("artifacts/kb"),
    pairs: Annotated[Path, typer.Option(help="Folder that `python -m training pairs` wrote, for the held-out benchmarks.")] = Path("artifacts/pairs"),
    data: Annotated[Path, typer.Option(help=DATA)] = Path("assets"),
    work: Annotated[Path, typer.Option(help=WORK)] = Path("artifacts/evaluation"),
    out: Annotated[Path, typer.Option(help=RESULT)] = Path("metrics/evaluation.json"),
    limit: Annotated[
        int,
        typer.Option(help=f"{LIMIT} -1: all, but 5,000 of each held-out split if the dictionary has a million names or more."),
    ] = -1,
    pool: Annotated[int, typer.Option(help=POOL)] = 0,
    seed: Annotated[int, typer.Option(help=SEED)] = 0,
    gpu_id: GPU = -1,
    baselines: Annotated[bool, typer.Option(help="Also measure exact match, TF-IDF and scispaCy's candidate generator.")] = False,
    stages: Annotated[
        str,
        typer.Option(
            help="Also measure the encoders of the package (shipped, fast, paired) with later stages of the linker: ranker, cross_encoder, or both, "
            "separated by commas. cross_encoder includes the ranker."
        ),
    ] = "",
    confusions: Annotated[
        bool | None,
        typer.Option(
            help="Write the most frequent wrong answers, with their mentions and names. Default: only those of public corpora, because held-out names "
            "come from your own knowledge base, which may be licensed, and mentions of clinical texts should stay where they are."
        ),
    ] = None,
) -> None:
    """Measure encoders on development, test and held-out benchmarks."""
    from . import evaluate as module
    from .benchmarks import BenchmarkReader
    from .catalogue import chosen_benchmarks, optional_benchmarks, parse_sets, split_commas

    module.check_not_negative(limit=limit + (limit == -1), pool=pool, seed=seed)
    encoders = module.parse_encoders(encoder or [])
    if phases:
        encoders = module.with_phases(encoders)
    given = parse_sets(sets or [], data)
    reader = BenchmarkReader(data, kb, pairs, work, sets=given, progress=True)
    result = module.evaluate(
        encoders,
        chosen_benchmarks(benchmarks or [], given),
        reader,
        optional=optional_benchmarks(benchmarks or []),
        limit=None if limit == -1 else limit,
        pool=pool,
        seed=seed,
        baselines=baselines,
        stages=split_commas(stages),
        with_confusions=confusions,
        gpu_id=gpu_id,
        progress=True,
    )
    module.publish(result, module.markdown(result), out)


def calibrate(
    linker: Annotated[
        str | None,
        typer.Option(help="Folder of a linker, which gets calibration.json, or a registered one: open, hpo, hpo-fast. Default: open."),
    ] = None,
    fit: Annotated[
        str, typer.Option(help="Parts of corpora to fit on, separated by commas: gsc-dev, ncbi-train, …; '': fit nothing; the report says so.")
    ] = "gsc-dev",
    test: Annotated[str, typer.Option(help="Parts of corpora to measure on, separated by commas.")] = "gsc-test",
    data: Annotated[Path, typer.Option(help=DATA)] = Path("assets"),
    calibration: Annotated[
        Path | None,
        typer.Option(help="File for the calibration. Default: calibration.json in the linker's folder; a registered linker is only measured."),
    ] = None,
    most: Annotated[
        int, typer.Option(min=1, help="Most mentions of each part to fit on, evenly spread, so that a large part does not decide alone.")
    ] = 1_500,
    rerank: Annotated[
        str | None,
        typer.Option(help="Rerank close calls: names, cross_encoder or context. The calibration is then for linkers with this `rerank`."),
    ] = None,
    gpu_id: GPU = -1,
    out: Annotated[Path, typer.Option(help="JSON file for the figures.")] = Path("metrics/calibration.json"),
) -> None:
    """Fit a linker's calibration and measure it on other data."""
    from .calibrate import calibrate_and_write
    from .catalogue import split_commas

    parts = split_commas(fit), split_commas(test)
    typer.echo(calibrate_and_write(linker, *parts, data, out, most=most, calibration=calibration, rerank=rerank, gpu_id=gpu_id))


def ranker(
    linker: Annotated[
        str | None,
        typer.Option(help="Folder of a linker, which gets ranker.json, or a registered one: open, hpo, hpo-fast. Default: open."),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="default, fast or paired: train the ranker of all linkers with this encoder, in the dictionaries of the corpora; not with --linker."
        ),
    ] = None,
    fit: Annotated[str, typer.Option(help="Parts of corpora to train on, separated by commas.")] = "ncbi-train,bc5cdr-train,gsc-dev,biomap,labeledin",
    test: Annotated[str, typer.Option(help="Parts of corpora to measure on, separated by commas. Each part of --fit is measured, too.")] = "",
    data: Annotated[Path, typer.Option(help=DATA)] = Path("assets"),
    work: Annotated[Path, typer.Option(help=WORK)] = Path("artifacts/evaluation"),
    ranker: Annotated[
        Path | None,
        typer.Option(
            help="File for the ranker. Default: ranker.json in the linker's folder; a registered linker is only measured. With --encoder: the one of this package."
        ),
    ] = None,
    gpu_id: GPU = -1,
    out: Annotated[Path, typer.Option(help="JSON file for the figures.")] = Path("metrics/ranker.json"),
) -> None:
    """Train a linker's ranker on annotated corpora, and measure it on each corpus after training on the others."""
    from .catalogue import split_commas
    from .ranker import train_and_write

    parts = split_commas(fit), split_commas(test)
    typer.echo(train_and_write(linker, *parts, data, out, encoder=encoder, work=work, ranker=ranker, gpu_id=gpu_id, progress=True))


def reranker(
    fit: Annotated[str, typer.Option(help="Parts of corpora to train on, separated by commas.")] = "ncbi-train,bc5cdr-train,gsc-dev,biomap",
    test: Annotated[str, typer.Option(help="Parts of corpora to measure on, separated by commas. Each part of --fit is measured, too.")] = "",
    data: Annotated[Path, typer.Option(help=DATA)] = Path("assets"),
    work: Annotated[Path, typer.Option(help=WORK)] = Path("artifacts/evaluation"),
    rerank: Annotated[str, typer.Option(help="names; or cross_encoder or context, which are only measured: --fit is not used.")] = "names",
    fast: Annotated[bool, typer.Option("--fast", help="For linkers with the fast encoder; not with --rerank names.")] = False,
    cross_encoder: Annotated[
        Path | None, typer.Option(help="Folder of a cross-encoder to measure, with --reranker. Default: the one of this package.")
    ] = None,
    reranker: Annotated[Path | None, typer.Option(help="File for the reranker. Default: the one of this package.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="JSON file for the figures. Default: metrics/reranker.json; for the cross-encoder metrics/cross-encoder.json, with context "
            "metrics/cross-encoder-context.json, and with --fast the same with -fast at the end."
        ),
    ] = None,
) -> None:
    """Train the reranker, which compares the candidates of close calls again, and measure it on each corpus after training on other dictionaries."""
    from .catalogue import split_commas
    from .reranker import train_and_write

    parts = split_commas(fit), split_commas(test)
    typer.echo(train_and_write(*parts, data, work, out, rerank=rerank, fast=fast, folder=cross_encoder, reranker=reranker, progress=True))


def close_calls(
    fit: Annotated[str, typer.Option(help="Parts of corpora to train on, separated by commas.")] = "ncbi-train,bc5cdr-train,gsc-dev,biomap",
    test: Annotated[str, typer.Option(help="Parts of corpora to measure on, separated by commas.")] = "ncbi-dev,bc5cdr-dev",
    data: Annotated[Path, typer.Option(help=DATA)] = Path("assets"),
    work: Annotated[Path, typer.Option(help=WORK)] = Path("artifacts/evaluation"),
    names: Annotated[int, typer.Option(min=0, help="Number of names of each dictionary that become mentions.")] = 3_000,
    repeat: Annotated[int, typer.Option(min=1, help="How often each gold mention that is no name is in the training file.")] = 2,
    kb: Annotated[Path, typer.Option(help="Knowledge base, for parts whose gold ids are CUIs, such as labeledin.")] = Path("artifacts/kb"),
    phrases: Annotated[str, typer.Option(help="Table of phrases of patients, such as training/vocabulary/lay_names.tsv; empty: none.")] = "",
    notes: Annotated[str, typer.Option(help="MTSamples; names of the last part's dictionary that stand in them become mentions. Empty: none.")] = "",
    places: Annotated[int, typer.Option(min=0, help="Number of mentions from --notes.")] = 20_000,
    seed: Annotated[int, typer.Option(help="Decides which names are drawn, and how they are changed.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for train.jsonl and dev.jsonl.")] = Path("artifacts/close_calls"),
) -> None:
    """Write annotated mentions with their candidates, for the recipe cross_encoder.cfg."""
    from .benchmarks import BenchmarkReader
    from .catalogue import split_commas
    from .close_calls import write_close_calls

    nowhere = Path("no-such-folder")
    reader = BenchmarkReader(data, kb, nowhere, work, progress=True)
    parts = split_commas(fit), split_commas(test)
    found = write_close_calls(
        *parts,
        reader,
        out,
        names=names,
        repeat=repeat,
        phrases=Path(phrases) if phrases else None,
        notes=Path(notes) if notes else None,
        places=places,
        seed=seed,
        progress=True,
    )
    typer.echo(json.dumps(found))


def end_to_end(
    system: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PIPELINE",
            help="A pipeline to measure: its folder or package; can be given several times. NAME= (the default) is concept_matcher and the default linker.",
        ),
    ] = None,
    benchmarks: Annotated[
        str,
        typer.Option(
            help="Corpora, separated by commas: gsc-dev, gsc-test, jax, ncbi-dev, ncbi-test, bc5cdr-dev, labeledin, bionne-train, gold; '': measure none; the report says so."
        ),
    ] = "gsc-dev",
    linker: Annotated[str | None, typer.Option(help="For NAME=: a registered linker or a linker's folder. Default: the default linker.")] = None,
    threshold: Annotated[float | None, typer.Option(help="For NAME=: score that a link must be above, 0 to 1. Default: the linker's own.")] = None,
    target_precision: Annotated[
        float | None,
        typer.Option(help="For NAME=: link only mentions that are probable enough for this precision, 0 to 1. Default: use the threshold."),
    ] = None,
    types: Annotated[str, typer.Option(help="For NAME=: semantic types or groups to keep, separated by commas (DISO); empty: all.")] = "",
    data: Annotated[Path, typer.Option(help="Folder of corpora.")] = Path("assets"),
    gpu_id: GPU = -1,
    out: Annotated[Path, typer.Option(help=RESULT)] = Path("metrics/end-to-end.json"),
) -> None:
    """Measure pipelines on whole texts: they find the mentions and link them."""
    from .catalogue import split_commas
    from .end_to_end import evaluate_and_write, parse_systems

    given = {"linker_name": linker, "threshold": threshold, "target_precision": target_precision, "types": split_commas(types) or None}
    config = {key: value for key, value in given.items() if value is not None}
    typer.echo(evaluate_and_write(parse_systems(system or ["default="]), split_commas(benchmarks), data, config, out, gpu_id=gpu_id))


def cross_lingual(
    encoder: Annotated[list[str] | None, typer.Option(metavar="NAME=FOLDER", help=ENCODER)] = None,
    kb: Annotated[Path, typer.Option(help=f"{KB} whose names are the dictionary.")] = Path("artifacts/kb"),
    translations: Annotated[
        Path | None, typer.Option(help="Folder that `python -m training translations cross-lingual` wrote: its held-out translations are queries.")
    ] = None,
    xlbel: Annotated[Path | None, typer.Option(help="Folder of XL-BEL, with files such as de_1k_test_query.txt: its mentions are queries.")] = None,
    candidates: Annotated[
        str,
        typer.Option(help="For XL-BEL: file of lines CUI||name as the dictionary, as released with XL-BEL; empty: the names of the knowledge base."),
    ] = "",
    languages: Annotated[str, typer.Option(help="Languages of the queries: de, de+es, all.")] = "all",
    dictionary_languages: Annotated[
        str, typer.Option(help="For XL-BEL: languages of the names in the dictionary: en, en+de, all (as published).")
    ] = "all",
    without_organisms: Annotated[
        bool, typer.Option("--without-organisms", help="For XL-BEL: leave out plants and animals, as BioLORD-2023 does.")
    ] = False,
    cased: Annotated[
        bool,
        typer.Option(
            "--cased", help="For XL-BEL with --candidates: keep capitals. Whether names of a knowledge base keep them depends on how it was built."
        ),
    ] = False,
    out: Annotated[Path, typer.Option(help=RESULT)] = Path("metrics/crosslingual.json"),
    limit: Annotated[int, typer.Option(help=LIMIT)] = 0,
    pool: Annotated[int, typer.Option(help=POOL)] = 0,
    seed: Annotated[int, typer.Option(help=SEED)] = 0,
    gpu_id: GPU = -1,
) -> None:
    """Measure encoders across languages."""
    from ..data.pairs import parse_languages
    from . import evaluate as module
    from .cross_lingual import chosen_groups, evaluate_across_languages

    limit = 0 if limit == -1 else limit  # project.yml gives the same limit to all commands
    module.check_not_negative(limit=limit, pool=pool, seed=seed)
    encoders = module.parse_encoders(encoder or [])
    groups = chosen_groups(
        kb,
        translations,
        xlbel,
        parse_languages(languages),
        candidates=Path(candidates) if candidates else None,
        dictionary_languages=parse_languages(dictionary_languages),
        organisms=not without_organisms,
        cased=cased,
    )
    result = evaluate_across_languages(encoders, groups, limit=limit, pool=pool, seed=seed, gpu_id=gpu_id, progress=True)
    module.publish(result, module.markdown(result), out)
