"""The commands `evaluate`, `calibrate`, `end-to-end` and `cross-lingual` of `python -m training`. Modules are imported when a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ENCODER = "NAME=FOLDER, repeatable; NAME= is the base package, NAME=shipped the default encoder, NAME=fast the static one that ships; NAME#SEED are averaged"
SET = (
    "a corpus of yours, repeatable: a file or folder of any layout, looked up in a knowledge base, an ontology, or a table `id||name` or `id TAB name`; "
    "further options as OPTION=VALUE after a comma (kinds, train, split, vocabulary …)"
)
LIMIT = "queries of each benchmark, drawn at random; 0: all"
POOL = "for quick runs: only the names of the gold concepts and this many others; 0: the whole dictionary"


def evaluate(
    encoder: Annotated[list[str] | None, typer.Option(metavar="NAME=FOLDER", help=ENCODER)] = None,
    phases: Annotated[bool, typer.Option(help="also measure each phase of encoders that were made in phases (biolord.cfg)")] = False,
    benchmarks: Annotated[
        list[str] | None, typer.Option(help="benchmarks or groups of them (dev, test, papers), repeatable or with commas; default: dev, or the sets")
    ] = None,
    sets: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=CORPUS,DICTIONARY[,LAYOUT]", help=SET)] = None,
    kb: Annotated[Path, typer.Option(help="knowledge base, for the held-out benchmarks")] = Path("artifacts/kb"),
    pairs: Annotated[Path, typer.Option(help="folder of `python -m training pairs`, for the held-out benchmarks")] = Path("artifacts/pairs"),
    data: Annotated[Path, typer.Option(help="folder of corpora and dictionaries")] = Path("assets"),
    work: Annotated[Path, typer.Option(help="where dictionaries are built, once")] = Path("artifacts/evaluation"),
    out: Annotated[Path, typer.Option(help="JSON file; the Markdown table is written beside it")] = Path("metrics/evaluation.json"),
    limit: Annotated[int, typer.Option(help=LIMIT)] = 0,
    pool: Annotated[int, typer.Option(help=POOL)] = 0,
    seed: Annotated[int, typer.Option(help="of samples and resamples")] = 0,
    baselines: Annotated[bool, typer.Option(help="also measure exact match, TF-IDF and scispaCy's candidate generator")] = False,
    confusions: Annotated[
        bool | None,
        typer.Option(
            help="write the most frequent wrong answers with mention and names. Default: only those of public corpora, because held-out names are "
            "of your own knowledge base, which may be licensed, and mentions of clinical texts should not leave them"
        ),
    ] = None,
) -> None:
    """Measure encoders on development, test and held-out benchmarks."""
    from . import evaluate as module
    from .benchmarks import BenchmarkReader
    from .catalogue import chosen_benchmarks, only_of_papers, parse_sets

    module.check_not_negative(limit=limit, pool=pool, seed=seed)
    encoders = module.parse_encoders(encoder or [])
    if phases:
        encoders = module.with_phases(encoders)
    given = parse_sets(sets or [], data)
    reader = BenchmarkReader(data, kb, pairs, work, sets=given, progress=True)
    result = module.evaluate(
        encoders,
        chosen_benchmarks(benchmarks or [], given),
        reader,
        optional=only_of_papers(benchmarks or []),
        limit=limit,
        pool=pool,
        seed=seed,
        baselines=baselines,
        with_confusions=confusions,
        progress=True,
    )
    module.publish(result, module.markdown(result), out)


def calibrate(
    linker: Annotated[
        str | None, typer.Option(help="folder of a linker, which gets calibration.json, or hpo-fast; default: the default linker")
    ] = None,
    fit: Annotated[
        str, typer.Option(help="parts of corpora to fit on, by commas: gsc-dev, ncbi-train, …; '': nothing is fitted, and the report says so")
    ] = "gsc-dev",
    test: Annotated[str, typer.Option(help="parts of corpora to measure on, by commas")] = "gsc-test",
    data: Annotated[Path, typer.Option(help="folder of corpora and dictionaries")] = Path("assets"),
    calibration: Annotated[Path | None, typer.Option(help="another file for the calibration than calibration.json in the linker's folder")] = None,
    out: Annotated[Path, typer.Option(help="JSON file for the figures")] = Path("metrics/calibration.json"),
) -> None:
    """Fit a linker's calibration and measure it on other data."""
    from .calibrate import calibrate_and_write
    from .catalogue import split_commas

    typer.echo(calibrate_and_write(linker, split_commas(fit), split_commas(test), data, out, calibration=calibration))


def end_to_end(
    system: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PIPELINE", help="folder or package of a pipeline, repeatable; NAME= (default) is concept_matcher and the default linker"
        ),
    ] = None,
    benchmarks: Annotated[
        str, typer.Option(help="corpora, by commas: gsc-dev, gsc-test, jax; '': none is measured, and the report says so")
    ] = "gsc-dev",
    linker: Annotated[str | None, typer.Option(help="of NAME=: a registered linker or a linker's folder")] = None,
    threshold: Annotated[float | None, typer.Option(help="of NAME=: score that a link must be above")] = None,
    target_precision: Annotated[float | None, typer.Option(help="of NAME=: link only what is probable enough for this precision")] = None,
    types: Annotated[str, typer.Option(help="of NAME=: semantic types or groups to keep, by commas (DISO); default: all")] = "",
    data: Annotated[Path, typer.Option(help="folder of corpora")] = Path("assets"),
    out: Annotated[Path, typer.Option(help="JSON file; the Markdown table is written beside it")] = Path("metrics/end-to-end.json"),
) -> None:
    """Measure pipelines on whole texts: they find the mentions and link them."""
    from .catalogue import split_commas
    from .end_to_end import evaluate_and_write, parse_systems

    given = {"linker_name": linker, "threshold": threshold, "target_precision": target_precision, "types": split_commas(types) or None}
    config = {key: value for key, value in given.items() if value is not None}
    typer.echo(evaluate_and_write(parse_systems(system or ["default="]), split_commas(benchmarks), data, config, out))


def cross_lingual(
    encoder: Annotated[list[str] | None, typer.Option(metavar="NAME=FOLDER", help=ENCODER)] = None,
    kb: Annotated[Path, typer.Option(help="knowledge base whose names are the dictionary")] = Path("artifacts/kb"),
    translations: Annotated[
        Path | None, typer.Option(help="folder of `python -m training translations cross-lingual`, for its held-out translations")
    ] = None,
    xlbel: Annotated[Path | None, typer.Option(help="folder of XL-BEL, with files such as de_1k_test_query.txt")] = None,
    languages: Annotated[str, typer.Option(help="of the queries: de, de+es, all")] = "all",
    dictionary_languages: Annotated[str, typer.Option(help="XL-BEL: of the names in the dictionary: en, en+de, all (as published)")] = "all",
    without_organisms: Annotated[
        bool, typer.Option("--without-organisms", help="XL-BEL: leave out plants and animals, as BioLORD-2023 does")
    ] = False,
    out: Annotated[Path, typer.Option(help="JSON file; the Markdown table is written beside it")] = Path("metrics/crosslingual.json"),
    limit: Annotated[int, typer.Option(help=LIMIT)] = 0,
    pool: Annotated[int, typer.Option(help=POOL)] = 0,
    seed: Annotated[int, typer.Option(help="of samples and resamples")] = 0,
) -> None:
    """Measure encoders across languages."""
    from spacy_sapbert.kb.knowledge_base import KnowledgeBase

    from ..data.pairs import parse_languages
    from . import evaluate as module
    from .cross_lingual import chosen_groups, evaluate_across_languages

    module.check_not_negative(limit=limit, pool=pool, seed=seed)
    encoders = module.parse_encoders(encoder or [])
    groups = chosen_groups(
        KnowledgeBase(kb),
        translations,
        xlbel,
        parse_languages(languages),
        dictionary_languages=parse_languages(dictionary_languages),
        organisms=not without_organisms,
    )
    result = evaluate_across_languages(encoders, groups, limit=limit, pool=pool, seed=seed, progress=True)
    module.publish(result, module.markdown(result), out)
