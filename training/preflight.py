"""Check the settings of a workflow before its first step, so that a mistake is found in seconds and not after hours."""

from __future__ import annotations

from pathlib import Path

from spacy_sapbert.build.vectors import Workers
from spacy_sapbert.encoders.transformer import local_name
from spacy_sapbert.registry import check_engine

from . import devices
from .data.bases import why_not_from_hub
from .errors import no_base
from .evaluation.calibrate import check_parts
from .evaluation.catalogue import chosen_benchmarks, split_commas
from .evaluation.end_to_end import check_benchmark
from .fit import load
from .paths import named


def preflight(
    recipe: Path, *, base: str, gpu_id: int, encode_on: str, engine: str, benchmarks: str, calibrate_on: str, calibrate_test: str, texts: str
) -> None:
    """Check the settings of a workflow. A base on the hub is downloaded, unless it is in the cache; no data is read.

    Args:
        recipe: The recipe.
        base: The base to train from, or `@FILE` with its name; "" is the installed one.
        gpu_id: The GPU that trains and measures; -1 is the CPU.
        encode_on: The GPUs that encode the names of the index, separated by commas; "" for all, "-1" for none.
        engine: The engine of the index: "default", "auto" or a registered one.
        benchmarks: Benchmarks and groups of them, separated by commas.
        calibrate_on: Parts of corpora that the calibration is fitted on, separated by commas; "": no calibration.
        calibrate_test: Parts that it is measured on.
        texts: Corpora that the whole pipeline is measured on.

    Raises:
        SapbertError: E510 (the recipe), E512 (the base), E513 and E305 (a GPU that is not there), E315 (a list of GPUs), E002 (the engine),
            E519, E540 and E548 (a corpus or benchmark).
    """
    load(recipe)
    devices.use(gpu_id)
    Workers.found(1, encode_on)
    check_base(named(base))
    check_engine(engine)
    chosen_benchmarks([benchmarks])
    if calibrate_on:
        check_parts(split_commas(calibrate_on), split_commas(calibrate_test))
    for name in split_commas(texts):
        check_benchmark(name)


def check_base(name: str) -> None:
    """Check that a base is there: as a folder, in the hub's cache, or on the hub, from which it is downloaded.

    Args:
        name: A Hugging Face or sentence-transformers name, or a folder; "" is the installed one.

    Raises:
        SapbertError: E512.
    """
    if not name or Path(local_name(name)).is_dir():
        return
    if why := why_not_from_hub(name):
        raise no_base(name, why)
