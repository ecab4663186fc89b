"""Which of a recipe's choices matter: `python -m training.compare training/configs/compare.cfg` trains each row with each seed, and measures all.

Reads top to bottom: rows to recipes, one training each (in a process of its own, so that a killed comparison goes on where it was), the
table, the command.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from configparser import Error as ConfigParserError
from pathlib import Path
from typing import Any, Dict, List, Tuple

import typer
from confection import Config
from pydantic import BaseModel, ConfigDict, Field
from spacy.util import load_config
from tqdm import tqdm

from spacy_sapbert.errors import MissingFile, SapbertError
from spacy_sapbert.files import write_text

from .data.pairs import PAIRS, check_folder
from .errors import fail
from .evaluation import evaluate
from .evaluation.benchmarks import BenchmarkReader, chosen_benchmarks
from .phases import Sections, changed
from .train import REPORT, read_recipe, resolve

BASE = "base"
COLUMNS = ("trainable_parameters", "names", "names_per_second", "peak_memory_mb")  # of what a training cost
SOURCES = (
    "tasks/self_alignment",
    "loop/batches",
    "loop/trainer",
    "loop/losses",
    "loop/mining",
    "loop/model",
    "data/neighbours",
    "data/augment",
    "task",
    "train",
)


class Comparison(BaseModel):
    """recipe: what the rows start from. seeds: of each row. once: rows that are trained with the first seed alone. every: changes of all
    rows. rows: name -> changes, a section each."""

    model_config = ConfigDict(extra="forbid")
    recipe: str
    seeds: List[int] = Field(min_length=1)
    once: List[str] = []
    every: Sections = {}
    rows: Dict[str, Sections] = Field(min_length=1)


def read_comparison(path: Path) -> Comparison:
    """RAISES: SapbertError E510."""
    try:
        config = load_config(path, interpolate=True)
        comparison = Comparison(**{**config.pop("compare", {}), **config})
    except (ConfigParserError, OSError, ValueError, TypeError) as error:
        raise fail("E510", MissingFile if isinstance(error, OSError) else SapbertError, path=path, why=" ".join(str(error).split())) from error
    for name in comparison.once:
        if name not in comparison.rows:
            raise fail("E510", path=path, why=f"compare.once names '{name}', which is no row")
    for name in comparison.rows:
        if name == BASE or not name.replace("-", "").replace("_", "").isalnum():
            raise fail("E510", path=path, why=f"'{name}' can't be a row's name; take letters, digits, - and _, and not '{BASE}'")
    return comparison


def recipes(comparison: Comparison, paths: Dict[str, str], out: Path, training: Dict[str, Any]) -> Dict[str, Config]:
    """ "row#seed" -> its recipe, all of them checked before the first is trained. RAISES: SapbertError E510, E511."""
    recipe = read_recipe(Path(comparison.recipe), {f"paths.{key}": value for key, value in paths.items()})
    made = {}
    for row, changes in comparison.rows.items():
        for seed in comparison.seeds[: 1 if row in comparison.once else None]:
            name = f"{row}#{seed}"
            last: Sections = {"training": {**training, "seed": seed}, "paths": {"out": str(out / row / str(seed))}}
            made[name] = changed(changed(changed(recipe, comparison.every), changes), last)
            try:
                resolve(made[name])
            except (ValueError, TypeError) as error:
                if isinstance(error, SapbertError):
                    raise
                raise fail("E510", path=f"row '{row}'", why=" ".join(str(error).split())) from error
    return made


def train_all(made: Dict[str, Config], jobs: int) -> Dict[str, Path]:
    """Trains what is not there yet from the same recipe, pairs and sources; "row#seed" -> folder.

    RAISES: SapbertError E502 (no pairs), E518 with the first that failed, when the others are done.
    """
    environment = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // jobs)), **os.environ}

    def one(item: Tuple[str, Config]) -> str:
        name, config = item
        out = Path(config["paths"]["out"])
        stamp, wanted = out.with_suffix(".made"), fingerprint(config)
        if (out / REPORT).is_file() and stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
            return ""
        recipe = out.with_suffix(".cfg")
        write_text(recipe, config.to_str())
        found = subprocess.run([sys.executable, "-m", "training.train", str(recipe)], env=environment, capture_output=True, text=True)
        if found.returncode != 0:
            return f"'{name}' ended with {found.returncode}: {found.stderr.strip()[-1500:]}"
        write_text(stamp, wanted)
        return ""

    with ThreadPoolExecutor(jobs) as pool:
        failures = [failure for failure in tqdm(pool.map(one, made.items()), total=len(made), desc="training", unit=" runs") if failure]
    if failures:
        raise fail("E518", failed=len(failures), total=len(made), first=failures[0])
    return {name: Path(config["paths"]["out"]) for name, config in made.items()}


def fingerprint(config: Config) -> str:
    """Of all that decides a training's result: the recipe, the pairs, the code."""
    digest = hashlib.blake2b(config.to_str().encode(), digest_size=16)
    digest.update(str(check_folder(config["paths"]["pairs"])["files"][PAIRS]).encode())
    for source in SOURCES:
        digest.update((Path(__file__).parent / f"{source}.py").read_bytes())
    return digest.hexdigest()


def costs(folders: Dict[str, Path]) -> Dict[str, Dict[str, float]]:
    """Row -> means over its seeds of names/s and peak memory in MB, the parameters that learnt, names encoded."""
    found: Dict[str, List[Dict[str, Any]]] = {}
    for name, folder in folders.items():
        found.setdefault(name.partition("#")[0], []).append(json.loads((folder / REPORT).read_text(encoding="utf-8")))
    return {row: {key: sum(float(report[key]) for report in reports) / len(reports) for key in COLUMNS} for row, reports in found.items()}


def markdown(result: Dict[str, Any]) -> str:
    lines = ["", "| row | parameters that learn | names encoded | names/s | peak memory, MB |", "|---|---|---|---|---|"]
    for row, cost in result["costs"].items():
        lines.append("| {} | {:,.0f} | {:,.0f} | {:.0f} | {:,.0f} |".format(row, *(cost[key] for key in COLUMNS)))
    lines += ["", f"{result['jobs']} trainings at a time shared the machine; names/s are of one of them.", ""]
    return evaluate.markdown(result) + "\n".join(lines)


# -- the command --------------------------------------------------------------------------------------------------------

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    config: Path = typer.Argument(..., help="rows, seeds and what they start from: training/configs/compare.cfg"),
    kb: Path = typer.Option(Path("artifacts/kb")),
    pairs: Path = typer.Option(Path("artifacts/pairs")),
    recipe: str = typer.Option("", help="what the rows start from; empty: what the config says"),
    base: str = typer.Option("", help="base encoder; empty: the installed one"),
    data: Path = typer.Option(Path("assets"), help="folder of corpora and dictionaries"),
    work: Path = typer.Option(Path("artifacts/evaluation"), help="where dictionaries are built, once"),
    runs: Path = typer.Option(Path("artifacts/compare"), help="where the trained encoders stay"),
    sets: str = typer.Option("held_out,zero_shot,ncbi-dev-abbreviations,bc5cdr-dev-abbreviations,gsc-dev-abbreviations"),
    limit: int = typer.Option(400, help="queries of a set at most, at random; 0: all"),
    pool: int = typer.Option(1500, help="names of a dictionary beside those of the gold concepts; 0: all"),
    max_steps: int = typer.Option(0, help="of each training; 0: what the rows say"),
    gpu_id: int = typer.Option(-1),
    jobs: int = typer.Option(1, help="trainings at a time"),
    out: Path = typer.Option(Path("metrics/compare.json"), help="the Markdown table goes beside it"),
) -> None:
    """Train every row with every seed, measure all of them on the same queries, and write means and standard deviations."""
    try:
        comparison = read_comparison(config)
        comparison.recipe = recipe or comparison.recipe
        for setting, value, least in (("limit", limit, 0), ("pool", pool, 0), ("jobs", jobs, 1)):
            if value < least:
                raise fail("E548", setting=f"--{setting}", value=value, why=f"it must be at least {least}")
        reader = BenchmarkReader(data, kb, pairs, work, progress=True)
        names = chosen_benchmarks([sets])
        for name in names:
            reader.make(name)  # what is missing is said before the trainings, not after
        training = {"gpu_id": gpu_id, "processes": 1, **({"max_steps": max_steps} if max_steps else {})}
        folders = train_all(recipes(comparison, {"kb": str(kb), "pairs": str(pairs), "base": base}, runs, training), jobs)
        encoders = {BASE: base, **{name: str(folder) for name, folder in folders.items()}}
        result = evaluate.evaluate(encoders, names, reader, limit=limit, pool=pool, progress=True)
    except SapbertError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from None
    result.update(kind="comparison", rows=comparison.rows, every=comparison.every, jobs=jobs, costs=costs(folders))
    evaluate.publish(result, markdown(result), out)


if __name__ == "__main__":
    app()
