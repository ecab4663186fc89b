"""Measure how well encoders find concepts: `python -m training evaluate --encoder base= --encoder trained=artifacts/encoder --data assets`.

Search is exact over whole dictionaries, which are the same for every system of a run. A concept scores as its best name. In a tie the expected value
counts. This module has, in this order: figures, output, encoders. Benchmarks are in benchmarks.py, systems in systems.py; baselines, breakdowns and
intervals are in baselines.py, breakdown.py and significance.py.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Collection, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from spacy_sapbert.about import __version__
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.files import write_text

from ..errors import fail
from ..loop.encoders import SHIPPED, check_encoder, load_encoder
from ..paths import named, phases_behind
from . import baselines as baselines_module
from .benchmarks import (
    SEARCH,
    Benchmark,
    BenchmarkReader,
    ConceptBenchmark,
    SimilarityBenchmark,
    default_limit,
    limited,
    pooled,
    size,
)
from .breakdown import by_group, confusions, groupings
from .catalogue import HELD
from .metrics import Floats1d, Rule, alternatives_of
from .significance import PROTOCOL as SIGNIFICANCE
from .significance import correlation_interval, intervals, paired_t, randomisation, welch_t
from .stages import PROTOCOL as STAGES
from .stages import alone, check_stages, has_stages, measure_stages, named_with
from .systems import (
    DEPTHS,
    RULES,
    Measured,
    Outcomes,
    correlations,
    encode_benchmarks,
    measure_baselines,
    measure_encoder,
)

FORMAT = 1
CANNOT_BE_MEASURED = ("E101", "E542", "E569")  # no knowledge base, a missing file, a dictionary without any of the gold ids
SHOWN_NAMES = 3  # benchmarks that an error about all of them names
RECIPROCAL = (
    "MRR: the mean of 100 / rank, where the rank is the smallest depth at which a mention is right by the same rule; in a tie the expected value "
    "of 100 / rank counts. Answerable: only queries whose gold is in the dictionary; the others are not in the denominator."
)


# -- figures ------------------------------------------------------------------------------------------------------------


def average(rows: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Average the figures of several seeds.

    Args:
        rows: The figures of each seed.

    Returns:
        The means; if there are several seeds, also `…_sd` (sample standard deviation, n - 1) and `runs`, the figures of each seed.
    """
    means: dict[str, Any] = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
    if len(rows) > 1:
        means.update({f"{key}_sd": float(np.std([row[key] for row in rows], ddof=1)) for key in rows[0]})
        means["runs"] = [dict(row) for row in rows]
    return means


def answerable(benchmark: ConceptBenchmark, rule: Rule) -> npt.NDArray[np.bool_]:
    """Say for each mention (mentions,) whether the dictionary has a right answer by the rule for all its parts."""
    can = [bool(alternatives_of(gold, rule)) for gold in benchmark.golds]
    return np.array([all(can[mention.start : mention.stop]) for mention in benchmark.mentions()], dtype=np.bool_)


def by_fold(benchmark: ConceptBenchmark, values: Floats1d, keep: npt.NDArray[np.bool_] | None = None) -> list[float]:
    """Return the mean of each fold; without folds, the mean of all mentions.

    Args:
        benchmark: The benchmark.
        values: (mentions,) outcomes.
        keep: (mentions,) which mentions count; None: all. A fold in which none counts is left out.
    """
    kept = np.ones(len(values), dtype=np.bool_) if keep is None else keep
    folds = np.array(benchmark.folds or (0,) * len(values))
    return [float(values[kept & (folds == fold)].mean()) for fold in np.unique(folds[kept]).tolist()]


def figures(benchmark: Benchmark, found: Measured) -> dict[str, float]:
    """Compute the figures of one system on one benchmark.

    Args:
        benchmark: The benchmark.
        found: The outcomes of the system.

    Returns:
        Per cent of all mentions, and of the answerable ones (0.0 if there are none). Figures of the benchmark's own rule also have short names.
    """
    if not isinstance(found, Outcomes):
        assert isinstance(benchmark, SimilarityBenchmark)
        return correlations(found, [pair.score for pair in benchmark.pairs])
    assert isinstance(benchmark, ConceptBenchmark)
    of_folds = {key: by_fold(benchmark, values) for key, values in found.values.items()}
    made = {key: 100.0 * float(np.mean(means)) for key, means in of_folds.items()}
    for rule in RULES:
        can = answerable(benchmark, RULES[rule])
        for k in DEPTHS:
            made[f"{rule}_answerable_at{k}"] = 100.0 * float(np.mean(by_fold(benchmark, found.values[f"{rule}_at{k}"], can))) if can.any() else 0.0
        if benchmark.folds:
            made[f"{rule}_at1_folds_sd"] = 100.0 * float(np.std(of_folds[f"{rule}_at1"], ddof=1))
    own = {key.removeprefix(f"{benchmark.rule}_"): value for key, value in made.items() if key.startswith(f"{benchmark.rule}_")}
    return {**own, **made}


def compared(
    benchmark: ConceptBenchmark, runs: dict[str, list[Outcomes]], against: str | None, seed: int
) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """Compute intervals and compare systems, by the benchmark's own rule. Seeds of a system are averaged first.

    Args:
        benchmark: The benchmark.
        runs: System -> outcomes of each seed.
        against: The system that the others are compared with.
        seed: Seed of the resamples.

    Returns:
        System -> intervals, and the comparisons with `against`, and of each stage with its encoder alone; both are empty if the benchmark has a
        single document.
    """
    units = benchmark.units()
    names = list(runs)
    means = [np.mean([run.values[f"{benchmark.rule}_at{k}"] for run in runs[name]], axis=0) for name in names for k in DEPTHS]
    values = 100.0 * np.stack(means, axis=1) * benchmark.weights()[:, None]  # (mentions, systems x depths)
    if units.max() < 1:
        return {}, []
    ends = intervals(values, units, seed=seed).T.tolist()
    found: dict[str, dict[str, Any]] = {name: {} for name in names}
    for (name, k), end in zip(((name, k) for name in names for k in DEPTHS), ends):
        found[name][f"at{k}_ci"] = end
    groups: dict[str, list[str]] = {}  # system -> those that are compared with it
    for name in names:
        for first in dict.fromkeys((against, alone(name))):
            if first in names and first != name:
                groups.setdefault(first, []).append(name)
    at_1 = {name: values[:, i * len(DEPTHS)] for i, name in enumerate(names)}
    made: list[dict[str, Any]] = []
    for first, others in groups.items():
        p = randomisation(at_1[first], np.stack([at_1[name] for name in others], axis=1), units, seed=seed).tolist()
        made += [{"a": first, "b": name, "difference": float((at_1[name] - at_1[first]).mean()), "p": chance} for name, chance in zip(others, p)]
    key = f"{benchmark.rule}_at1"
    of_folds = {name: by_fold(benchmark, np.mean([run.values[key] for run in runs[name]], axis=0)) for name in names}
    of_seeds = {name: [float(np.mean(by_fold(benchmark, run.values[key]))) for run in runs[name]] for name in names}
    for one in made:
        a, b = one["a"], one["b"]
        tests = {
            "t_p": paired_t(at_1[a], at_1[b]),
            "t_folds_p": paired_t(of_folds[a], of_folds[b]),
            "t_seeds_p": welch_t(of_seeds[a], of_seeds[b]),
        }
        one.update({test: found_p for test, found_p in tests.items() if found_p is not None})
    return found, made


def broken_down(benchmark: ConceptBenchmark, runs: dict[str, list[Outcomes]], *, with_confusions: bool) -> dict[str, Any]:
    """Break down the figures of each system.

    Args:
        benchmark: The benchmark.
        runs: System -> outcomes of each seed.
        with_confusions: Whether to list the most frequent wrong answers.

    Returns:
        "groups", averaged over the seeds of a system, and "confusions" of its first seed.
    """
    mentions, dictionary = benchmark.texts(), benchmark.dictionary
    queries = [benchmark.queries[mention.start : mention.stop] for mention in benchmark.mentions()]
    groups = groupings(mentions, queries, frozenset(dictionary.names), benchmark.train)
    means = {name: [np.mean([run.values[f"{benchmark.rule}_at{k}"] for run in of], axis=0) for k in DEPTHS] for name, of in runs.items()}
    made: dict[str, Any] = {"groups": {name: by_group(groups, *each) for name, each in means.items()}}
    if with_confusions:
        wanted = [frozenset(row for i in at for a in benchmark.golds[i].alternatives for row in a if row is not None) for at in benchmark.mentions()]
        can = answerable(benchmark, RULES[benchmark.rule]).tolist()
        made["confusions"] = {name: confusions(mentions, wanted, can, of[0].firsts, dictionary.known()) for name, of in runs.items()}
    return made


def as_result(
    benchmarks: Sequence[Benchmark],
    measured: dict[str, dict[str, Measured]],
    about: dict[str, Any],
    *,
    against: str | None = None,
    seed: int = 0,
    with_confusions: bool | None = None,
) -> dict[str, Any]:
    """Convert all measurements into the result that is written.

    Args:
        benchmarks: The benchmarks.
        measured: System -> benchmark -> its outcomes. Systems called `name#seed` become one row, `name`.
        about: Facts about the run: versions, encoders, settings.
        against: The system that the others are compared with.
        seed: Seed of the resamples.
        with_confusions: Whether to list wrong answers; None: only those of public benchmarks.
    """
    seeds: dict[str, list[str]] = {}
    for system in measured:
        seeds.setdefault(system.partition("#")[0], []).append(system)
    content: dict[str, Any] = {}
    for benchmark in benchmarks:
        n = size(benchmark)
        runs = {name: [measured[run][benchmark.name] for run in of] for name, of in seeds.items() if benchmark.name in measured[of[0]]}
        systems: dict[str, dict[str, Any]] = {
            name: {"n": n, "seeds": len(of), **average([figures(benchmark, run) for run in of])} for name, of in runs.items()
        }
        entry: dict[str, Any] = {
            "title": benchmark.title,
            "protocol": benchmark.protocol,
            "n": n,
            "counts": benchmark.counts,
            "files": benchmark.files,
            "systems": systems,
        }
        if isinstance(benchmark, ConceptBenchmark):
            can = {rule: int(answerable(benchmark, RULES[rule]).sum()) for rule in RULES}
            entry.update(
                metric="accuracy", rule=benchmark.rule, dictionary=benchmark.dictionary.about, counts={**benchmark.counts, "answerable": can}
            )
            outcomes = {name: [run for run in of if isinstance(run, Outcomes)] for name, of in runs.items()}
            if outcomes:
                ends, entry["comparisons"] = compared(benchmark, outcomes, against, seed)
                for name, row in systems.items():
                    row.update(n_answerable=can[benchmark.rule], **ends.get(name, {}))
                wanted = benchmark.public if with_confusions is None else with_confusions
                entry.update(broken_down(benchmark, outcomes, with_confusions=wanted))
        else:
            entry.update(metric=benchmark.metric)
            human = np.array([pair.score for pair in benchmark.pairs])
            for name, of in runs.items():
                similarities = np.stack([run for run in of if not isinstance(run, Outcomes)], axis=1)
                if ends_of := correlation_interval(similarities, human, ranked=benchmark.metric == "spearman", seed=seed):
                    systems[name][f"{benchmark.metric}_ci"] = list(ends_of)
        content[benchmark.name] = entry
    return {
        "kind": "evaluation",
        "format": FORMAT,
        **about,
        "search": SEARCH,
        "reciprocal": RECIPROCAL,
        "significance": SIGNIFICANCE,
        "benchmarks": content,
    }


# -- output -------------------------------------------------------------------------------------------------------------


def versions() -> dict[str, str]:
    """Return what figures depend on: the versions of Python and packages, the commit of the checkout, the number of CPU cores."""
    packages = ("numpy", "scikit-learn", "scipy", "scispacy", "spacy", "tokenizers", "torch", "transformers")
    found = {"python": platform.python_version(), "spacy-sapbert": __version__}
    for package in packages:
        try:
            found[package] = version(package)
        except ModuleNotFoundError:  # the package of an extra that is not installed
            continue
    return {**found, **checkout(), "CPU cores": str(len(os.sched_getaffinity(0)))}


def header(kind: str, form: int, protocol: str) -> dict[str, Any]:
    """Return how a file of figures begins: what it is, what made it, and how it was measured.

    Args:
        kind: The kind of figures, such as "calibration".
        form: Number of the file's format.
        protocol: How they were measured, in words.
    """
    return {"kind": kind, "format": form, "made_by": __version__, "versions": versions(), "protocol": protocol}


def checkout() -> dict[str, str]:
    """Return the commit of this checkout, marked if files differ from it; empty if it is not a git checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return {"commit": subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()}
    except (OSError, subprocess.CalledProcessError):
        return {}


def markdown(result: dict[str, Any]) -> str:
    """Return the result as Markdown.

    It has a table of systems by benchmarks (@1/@5, or a correlation, with standard deviations over seeds), the meaning of each column, a table of
    intervals, and the benchmarks that were not measured.

    Args:
        result: The result of `evaluate`.
    """
    benchmarks: dict[str, Any] = result["benchmarks"]
    systems = list(dict.fromkeys(system for entry in benchmarks.values() for system in entry["systems"]))
    lines = ["| system | " + " | ".join(benchmarks) + " |", "|---" * (len(benchmarks) + 1) + "|"]
    lines += ["| " + " | ".join([system, *(cell(entry, system) for entry in benchmarks.values())]) + " |" for system in systems]
    lines += ["", "@1/@5 in per cent; one figure: a correlation x 100; ± standard deviation of @1 over seeds.", "", result["search"], ""]
    lines += [result["stages"], ""] if "stages" in result else []
    for name, entry in benchmarks.items():
        dictionary = entry.get("dictionary")
        size = f"; {dictionary['names']:,} names of {dictionary['concepts']:,} concepts" if dictionary else ""
        lines.append(f"- **{name}**: {entry['title']}, n = {entry['n']:,}{size}. {own_protocol(result, entry)}{remarks(entry['counts'])}")
    lines += [*interval_table(benchmarks, systems, result.get("significance", "")), *(f"\nNot measured: {note}" for note in result.get("notes", []))]
    return "\n".join(lines) + "\n"


def interval_table(benchmarks: dict[str, Any], systems: Sequence[str], protocol: str) -> list[str]:
    """Return the lines of the table of intervals; an empty list if no benchmark has an interval."""
    shown = {name: entry for name, entry in benchmarks.items() if any("at1_ci" in row for row in entry["systems"].values())}
    if not shown:
        return []
    with_one = [system for system in systems if any(system in entry["systems"] for entry in shown.values())]
    lines = [
        "",
        "@1 with its interval, and p of the difference from the first encoder, or of a stage from its encoder alone (t: of the t-test over mentions):",
        "",
        "| system | " + " | ".join(shown) + " |",
    ]
    lines.append("|---" * (len(shown) + 1) + "|")
    lines += ["| " + " | ".join([system, *(interval_cell(entry, system) for entry in shown.values())]) + " |" for system in with_one]
    return [*lines, "", protocol]


def interval_cell(entry: dict[str, Any], system: str) -> str:
    """Return `81.2 [79.8–82.5], p 0.003 (t 0.002)`, or a dash if there is no interval."""
    found = entry["systems"].get(system)
    if found is None or "at1_ci" not in found:
        return "–"
    every = [one for one in entry.get("comparisons", ()) if one["b"] == system]
    one = max(every, key=lambda one: one["a"] == alone(system), default=None)  # the first one, if none is with its encoder alone
    p = f", p {one['p']:.2g}{' (t {:.2g})'.format(one['t_p']) if 't_p' in one else ''}" if one else ""
    return f"{found['at1']:.1f} [{found['at1_ci'][0]:.1f}–{found['at1_ci'][1]:.1f}]{p}"


def own_protocol(result: dict[str, Any], entry: dict[str, Any]) -> str:
    """Return the part of the protocol that is specific to this benchmark."""
    return " ".join(entry["protocol"].replace(result["search"], "").split())


def cell(entry: dict[str, Any], system: str) -> str:
    """Return `81.2/90.4 ± 0.3` or `41.5`, or a dash if the system has no figure."""
    found = entry["systems"].get(system)
    if found is None:
        return "–"
    key = "at1" if entry["metric"] == "accuracy" else entry["metric"]
    shown = f"{found['at1']:.1f}/{found['at5']:.1f}" if key == "at1" else f"{found[key]:.1f}"
    return shown + (f" ± {found[f'{key}_sd']:.1f}" if f"{key}_sd" in found else "")


def remarks(counts: dict[str, Any]) -> str:
    """Return in words what a benchmark leaves out and where its figures are too high.

    Args:
        counts: Counts of the benchmark.
    """
    words = ""
    if counts.get("without_id"):
        words += f" {counts['without_id']:,} mentions without an id (-1) are left out."
    if counts.get("unanswerable"):
        named = ", ".join([f"{i} ({n})" for i, n in counts["missing_ids_most_frequent"].items()][:5] + ["…"] * (counts["missing_ids"] > 5))
        words += f" {counts['unanswerable']:,} can't be answered; gold ids that the dictionary does not have: {counts['missing_ids']:,}, {named}."
    if counts.get("composites_read_as_alternatives"):
        words += " NCBI-disease also joins the parts of a composite by `|`, as if they were alternatives: "
        words += f"in {counts['composites_read_as_alternatives']:,} mentions any part counts as right."
    if counts.get("pairs_without_score"):
        words += f" {counts['pairs_without_score']:,} pairs without a human score are left out."
    if counts.get("off_their_offsets"):
        words += f" {counts['off_their_offsets']:,} mentions are not at their offsets and are taken as written."
    for shared in counts.get("documents_shared_with", ()):
        ids = ", ".join([*shared["ids"][:5], *["…"] * (shared["documents"] > 5)])
        words += f" {shared['documents']:,} of its documents are also in {shared['corpora'][1]} ({ids}), whose mentions are in the dictionary or "
        words += "count as seen: for them the figures are too high."
    if counts.get("mentions_in_dictionary_off_their_offsets"):
        words += (
            f" {counts['mentions_in_dictionary_off_their_offsets']} mentions in the dictionary are not at their offsets and are taken as written."
        )
    return words


# -- encoders -----------------------------------------------------------------------------------------------------------


def parse_encoders(given: Sequence[str]) -> dict[str, str]:
    """Read NAME=FOLDER options.

    Args:
        given: `name=folder` or `name#seed=folder`; an empty folder is the untrained base, "shipped" the default encoder, "fast" the fast encoder,
            "paired" both encoders as one.

    Returns:
        Name -> folder.

    Raises:
        SapbertError: E548 (a malformed option), E541 (not an encoder).
    """
    encoders: dict[str, str] = {}
    for value in given:
        name, sign, folder = value.partition("=")
        folder = named(folder)
        if not sign or not name.strip():
            raise fail("E548", setting="--encoder", value=value, why="it must be NAME=FOLDER, or NAME= for the base package")
        if name in encoders or name in baselines_module.NAMES:
            raise fail("E548", setting="--encoder", value=value, why=f"the name '{name}' is taken; seeds of one recipe are NAME#0=…, NAME#1=…")
        if alone(name.partition("#")[0]):
            raise fail(
                "E548",
                setting="--encoder",
                value=value,
                why="a name that ends with ' + ranker' or ' + cross_encoder' is the name of an encoder with that stage of the linker; choose another one",
            )
        if (
            folder and folder != SHIPPED and (Path(folder).exists() or folder.startswith((".", "/")) or folder.count("/") > 1)
        ):  # else a name on the hub
            check_encoder(Path(folder))
        encoders[name] = folder
    return encoders


def with_phases(encoders: dict[str, str]) -> dict[str, str]:
    """Add the phases of encoders that were trained by a recipe of phases.

    Args:
        encoders: Name -> folder.

    Returns:
        The same encoders, each after its phases, which are called NAME-PHASE and are in their order. Phases whose names differ only in the last
        letter, such as `distil_a` and `distil_b`, are seeds of one row.
    """
    found: dict[str, str] = {}
    for name, folder in encoders.items():
        for phase in phases_behind(folder) if folder else []:
            title, _, seed = phase.name.rpartition("_")
            row = f"{title}#{seed}" if title and len(seed) == 1 else phase.name
            found[f"{name}-{row}"] = str(phase)
        found[name] = folder
    return found


def measure_encoders(
    encoders: dict[str, str], benchmarks: Sequence[Benchmark], *, stages: Sequence[str] = (), gpu_id: int = -1, progress: bool = False
) -> tuple[dict[str, dict[str, Measured]], dict[str, dict[str, Any]]]:
    """Measure encoders on benchmarks. Only one encoder is in memory at a time.

    Args:
        encoders: Name -> folder.
        benchmarks: The benchmarks.
        stages: Stages of the linker with which the encoders of the package are measured, too; see stages.py.
        gpu_id: Number of the GPU that encodes; -1 is the CPU.
        progress: Show progress bars.

    Returns:
        Encoder, or encoder and stage -> benchmark -> its outcomes; encoder -> facts about it for the output.
    """
    measured: dict[str, dict[str, Measured]] = {}
    used = {}
    for name, folder in encoders.items():
        model = load_encoder(folder, gpu_id)
        encoded = encode_benchmarks(model, benchmarks, progress=progress)
        measured[name] = measure_encoder(model, benchmarks, encoded, progress=progress)
        if stages and has_stages(folder):
            found = measure_stages(model, benchmarks, encoded, stages, progress=progress)
            measured.update({named_with(name, stage): of for stage, of in found.items() if of})
        used[name] = {"fingerprint": model.fingerprint, "base_package": not folder, "max_length": model.max_length}
    return measured, used


def publish(result: dict[str, Any], table: str, out: Path) -> None:
    """Write the result as JSON and the table as Markdown next to it, and print the table.

    Args:
        result: The result of `evaluate`.
        table: The text of `markdown`.
        out: The JSON file.
    """
    write_text(out, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    write_text(out.with_suffix(".md"), table)
    print(table)


def check_not_negative(**settings: int) -> None:
    """Check settings of the command line.

    Args:
        settings: Option -> value.

    Raises:
        SapbertError: E548, if a value is negative.
    """
    for setting, value in settings.items():
        if value < 0:
            raise fail("E548", setting=f"--{setting}", value=value, why="it can't be negative")


def evaluate(
    encoders: dict[str, str],
    names: Sequence[str],
    reader: BenchmarkReader,
    *,
    limit: int | None = None,
    pool: int = 0,
    seed: int = 0,
    baselines: bool = False,
    stages: Sequence[str] = (),
    with_confusions: bool | None = None,
    gpu_id: int = -1,
    optional: Collection[str] = (),
    progress: bool = False,
) -> dict[str, Any]:
    """Measure encoders on benchmarks.

    Args:
        encoders: Name -> folder. The others are compared with the first.
        names: Benchmarks, as `catalogue.chosen_benchmarks` returns them.
        reader: Makes the benchmarks.
        limit: Number of queries of each benchmark, drawn at random; 0: all; None: see `default_limit`.
        pool: Number of names of a dictionary in addition to those of the gold concepts; 0: all.
        seed: Seed of samples and resamples.
        baselines: Whether to also measure the baselines.
        stages: "ranker", "cross_encoder" or both: the encoders of the package are measured with these, too.
        with_confusions: Whether to list wrong answers; None: only those of public benchmarks.
        gpu_id: Number of the GPU that encodes; -1 is the CPU.
        optional: Benchmarks that are skipped, with a note on where to get them, if their files or ids are missing.
        progress: Show progress bars.

    Returns:
        The result, as it is written.

    Raises:
        SapbertError: E548 (nothing to measure, an unknown stage, or no encoder that has stages), and those of benchmarks and encoders.
    """
    check_stages(stages, encoders.values())
    if not encoders and not baselines:
        raise fail("E548", setting="--encoder", value="", why="give at least one NAME=FOLDER, or --baselines")
    benchmarks: list[Benchmark] = []
    missing: list[str] = []
    for name in tqdm(names, desc="reading", unit=" benchmarks", disable=not progress):
        try:
            whole = reader.make(name)
        except SapbertError as error:
            if name in HELD and error.code == "E544":
                missing.append(f"{name}: left out, because the pairs hold nothing out of training")
            elif name in optional and error.code in CANNOT_BE_MEASURED:
                missing.append(f"{name}: {error}")
            else:
                raise
            continue
        benchmark = limited(whole, default_limit(whole) if limit is None else limit, seed)
        benchmarks.append(pooled(benchmark, pool, seed) if pool and isinstance(benchmark, ConceptBenchmark) else benchmark)
    measured, notes = measure_baselines(benchmarks) if baselines else ({}, [])
    notes = [*missing, *notes]
    by_encoder, used = measure_encoders(encoders, benchmarks, stages=stages, gpu_id=gpu_id, progress=progress)
    measured.update(by_encoder)
    empty = [benchmark.name for benchmark in benchmarks if not any(benchmark.name in found for found in measured.values())]
    if len(empty) == len(benchmarks):
        asked = list(empty or names)
        value = ",".join(asked[:SHOWN_NAMES]) + (f" and {len(asked) - SHOWN_NAMES} others" if len(asked) > SHOWN_NAMES else "")
        why = "\n- ".join(["none of the systems can be measured on any of them", *notes]).rstrip(".")
        raise fail("E548", setting="--benchmarks", value=value, why=why)
    if empty:
        notes = [*notes, f"{', '.join(empty)}: left out, no system could be measured."]
        benchmarks = [benchmark for benchmark in benchmarks if benchmark.name not in empty]
    about = {
        "versions": versions(),
        "seed": seed,
        "limit": limit or 0,
        "pool": pool,
        "encoders": used,
        **({"stages": STAGES} if stages else {}),
        **({"notes": notes} if notes else {}),
    }
    against = next((name.partition("#")[0] for name in encoders), None)
    return as_result(benchmarks, measured, about, against=against, seed=seed, with_confusions=with_confusions)
