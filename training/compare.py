"""Find out which choices of a recipe matter: train each row of a file with each seed, and measure all of them.

`python -m training compare training/configs/compare.cfg`. The steps, from top to bottom: make recipes from the rows, train each of them in its
own process, so that a killed comparison can be resumed, and write the table.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from configparser import Error as ConfigParserError
from pathlib import Path
from typing import Any, NamedTuple

from confection import Config
from pydantic import BaseModel, ConfigDict, Field
from spacy.util import load_config
from tqdm import tqdm

from spacy_sapbert.errors import MissingFile, SapbertError
from spacy_sapbert.files import write_text

from .data.pairs import PAIRS, check_folder
from .errors import fail
from .evaluation import evaluate
from .evaluation.benchmarks import BenchmarkReader
from .evaluation.catalogue import chosen_benchmarks
from .fit import naming, read_recipe, resolve
from .made import Stamp, code, flat, stamp_of
from .recipe import REPORT, Sections, changed

BASE = "base"
COLUMNS = ("trainable_parameters", "names", "names_per_second", "peak_memory_mb")  # columns of the table of costs
# code that decides the result of a training: after a change in it, every row is trained again
SOURCES = (
    "recipe.py",
    "fit.py",
    *(f"loop/{name}.py" for name in ("batches", "losses", "mining", "model", "retrieval", "trainer", "weights")),
    "tasks",
    "data/augment.py",
    "data/neighbours.py",
)
Run = Callable[[Path, dict[str, str]], str]  # recipe file, environment -> "" or what went wrong


class Folders(NamedTuple):
    """The folders of a comparison.

    Attributes:
        kb: The knowledge base.
        pairs: Pairs that were made from it.
        data: Corpora and dictionaries.
        work: Dictionaries that are built once and reused.
        runs: The trained encoders.
    """

    kb: Path
    pairs: Path
    data: Path
    work: Path
    runs: Path


class Comparison(BaseModel):
    """A file of rows.

    Attributes:
        recipe: The recipe that the rows change.
        seeds: Each row is trained with each of them.
        once: Rows that are trained only with the first seed.
        every: Changes that apply to all rows.
        rows: Name of a row -> its changes, section by section.
    """

    model_config = ConfigDict(extra="forbid")
    recipe: str
    seeds: list[int] = Field(min_length=1)
    once: list[str] = []
    every: Sections = {}
    rows: dict[str, Sections] = Field(min_length=1)


def read_comparison(path: Path) -> Comparison:
    """Read a file of rows.

    Raises:
        SapbertError: E510.
    """
    try:
        config = load_config(path, interpolate=True)
        comparison = Comparison(**{**config.pop("compare", {}), **config})
    except (ConfigParserError, OSError, ValueError, TypeError) as error:
        raise fail("E510", MissingFile if isinstance(error, OSError) else SapbertError, path=path, why=" ".join(str(error).split())) from error
    for name in comparison.once:
        if name not in comparison.rows:
            raise fail("E510", path=path, why=f"compare.once names '{name}', which is not a row")
    for name in comparison.rows:
        if name == BASE or not name.replace("-", "").replace("_", "").isalnum():
            raise fail("E510", path=path, why=f"'{name}' can't be a row's name; take letters, digits, - and _, and not '{BASE}'")
    return comparison


def recipes(comparison: Comparison, paths: dict[str, str], out: Path, training: dict[str, Any]) -> dict[str, Config]:
    """Return "row#seed" -> its recipe. All recipes are checked before the first training begins.

    Args:
        comparison: The rows.
        paths: Entries of `[paths]` for all of them.
        out: The folder of all encoders.
        training: Entries of `[training]` for all of them.

    Raises:
        SapbertError: E510, E511.
    """
    recipe = read_recipe(Path(comparison.recipe), {f"paths.{key}": value for key, value in paths.items()})
    made = {}
    for row, changes in comparison.rows.items():
        for seed in comparison.seeds[: 1 if row in comparison.once else None]:
            name = f"{row}#{seed}"
            last: Sections = {"training": {**training, "seed": seed}, "paths": {"out": str(out / row / str(seed))}}
            made[name] = changed(changed(changed(recipe, comparison.every), changes), last)
            with naming(f"row '{row}'"):
                resolve(made[name])
    return made


def bases(comparison: Comparison, made: dict[str, Config]) -> dict[str, str]:
    """Return the bases that the rows start from: `base` for rows that do not change it, and `ROW.base` for a row with its own base.

    Args:
        comparison: The rows.
        made: "row#seed" -> recipe.
    """
    found = {}
    for row, changes in comparison.rows.items():
        name = f"{row}.{BASE}" if BASE in changes.get("paths", {}) else BASE
        found[name] = str(made[f"{row}#{comparison.seeds[0]}"]["paths"][BASE])
    return found


def train_all(made: dict[str, Config], jobs: int, run: Run | None = None) -> dict[str, Path]:
    """Train each recipe, except those that were already trained with the same recipe, pairs and source code.

    Args:
        made: "row#seed" -> recipe.
        jobs: Number of trainings that run at the same time.
        run: Runs a training of a recipe file; None: `run_apart`.

    Returns:
        "row#seed" -> folder of the encoder.

    Raises:
        SapbertError: E502 (no pairs); E518, which names the first training that failed, after the others are done.
    """
    environment = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // jobs)), **os.environ}

    def one(item: tuple[str, Config]) -> str:
        name, config = item
        out = Path(config["paths"]["out"])
        stamp, wanted = Stamp(stamp_of(out)), inputs(config)
        if (out / REPORT).is_file() and stamp.matches(wanted):
            return ""
        recipe = out.with_suffix(".cfg")
        write_text(recipe, config.to_str())
        failure = (run or run_apart)(recipe, environment)
        if not failure:
            stamp.write(wanted)
        return failure and f"'{name}' {failure}"

    with ThreadPoolExecutor(jobs) as pool:
        failures = [failure for failure in tqdm(pool.map(one, made.items()), total=len(made), desc="training", unit=" runs") if failure]
    if failures:
        raise fail("E518", failed=len(failures), total=len(made), first=failures[0])
    return {name: Path(config["paths"]["out"]) for name, config in made.items()}


def run_apart(recipe: Path, environment: dict[str, str]) -> str:
    """Train a recipe file in a new process. Return "" if it succeeded, else the exit code and the end of stderr."""
    done = subprocess.run([sys.executable, "-m", "training", "train", str(recipe)], env=environment, capture_output=True, text=True)
    return f"ended with {done.returncode}: {done.stderr.strip()[-1500:]}" if done.returncode else ""


def inputs(config: Config) -> dict[str, Any]:
    """Return what decides the result of a training: the recipe, the pairs if its task reads some, and the code."""
    plain = flat(json.loads(json.dumps(dict(config))))
    if "pairs" in resolve(config).task.paths:
        plain["content of the pairs"] = check_folder(config["paths"]["pairs"])["files"][PAIRS]["blake2b"]
    here = Path(__file__).parent
    return {**plain, "code": code(*(here / source for source in SOURCES))}


def costs(folders: dict[str, Path]) -> dict[str, dict[str, float]]:
    """Return for each row the means over its seeds: trainable parameters, encoded names, names per second, peak memory in MB."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, folder in folders.items():
        found.setdefault(name.partition("#")[0], []).append(json.loads((folder / REPORT).read_text(encoding="utf-8")))
    return {row: {key: sum(float(report[key]) for report in reports) / len(reports) for key in COLUMNS} for row, reports in found.items()}


def markdown(result: dict[str, Any]) -> str:
    """Write the figures and the costs of all rows as Markdown tables."""
    lines = ["", "| row | parameters that learn | names encoded | names/s | peak memory, MB |", "|---|---|---|---|---|"]
    for row, cost in result["costs"].items():
        lines.append("| {} | {:,.0f} | {:,.0f} | {:.0f} | {:,.0f} |".format(row, *(cost[key] for key in COLUMNS)))
    lines += ["", f"{result['jobs']} trainings at a time shared the machine; names/s are of one of them.", ""]
    return evaluate.markdown(result) + "\n".join(lines)


def compare(
    config: Path,
    folders: Folders,
    out: Path,
    *,
    recipe: str = "",
    base: str = "",
    benchmarks: str,
    limit: int,
    pool: int,
    training: dict[str, Any],
    jobs: int,
    run: Run | None = None,
) -> None:
    """Train every row with every seed, measure all encoders on the same queries, and write the table.

    Args:
        config: A file of rows.
        folders: Folders to read and write.
        out: The JSON file; the Markdown table is written next to it.
        recipe: The recipe that the rows change; "": the one in the file of rows.
        base: Base encoder; "": the one in the recipe.
        benchmarks: Names of benchmarks, separated by commas.
        limit: Greatest number of queries of a benchmark; 0: all.
        pool: Number of names of a dictionary in addition to those of the gold concepts; 0: all.
        training: Entries of `[training]` for all rows.
        jobs: Number of trainings that run at the same time.
        run: See `train_all`.

    Raises:
        SapbertError: E510, E511, E518, E54x (benchmarks).
    """
    comparison = read_comparison(config)
    comparison.recipe = recipe or comparison.recipe
    for setting, value, least in (("limit", limit, 0), ("pool", pool, 0), ("jobs", jobs, 1)):
        if value < least:
            raise fail("E548", setting=f"--{setting}", value=value, why=f"it must be at least {least}")
    reader = BenchmarkReader(folders.data, folders.kb, folders.pairs, folders.work, progress=True)
    names = chosen_benchmarks([benchmarks])
    for name in names:
        reader.make(name)  # report a missing file before the trainings, not after them
    paths = {"kb": str(folders.kb), "pairs": str(folders.pairs), **({"base": base} if base else {})}
    made = recipes(comparison, paths, folders.runs, training)
    trained = train_all(made, jobs, run)
    encoders = {**bases(comparison, made), **{name: str(folder) for name, folder in trained.items()}}
    result = evaluate.evaluate(encoders, names, reader, limit=limit, pool=pool, gpu_id=int(training.get("gpu_id", -1)), progress=True)
    result.update(kind="comparison", rows=comparison.rows, every=comparison.every, jobs=jobs, costs=costs(trained))
    evaluate.publish(result, markdown(result), out)
