"""Estimate what a training needs, before hours are spent on it: `python -m training plan RECIPE --kb KB`.

Memory and disk are computed. Time is measured: the training is run in a new process and a temporary folder, and stopped after some seconds. Its
memory is measured, too, and shown next to the computed memory.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from confection import Config

from spacy_sapbert.build.resources import free_memory
from spacy_sapbert.files import MANIFEST
from spacy_sapbert.kb.knowledge_base import KnowledgeBase

from . import devices, phases
from .data.labels import assign_labels
from .data.pairs import build_pairs, names_of_labels
from .errors import fail
from .fit import FREE, LOG, SETTINGS, load, naming, open_encoder, precision, read_recipe, resolve
from .made import Stamp, flat
from .recipe import REPORT, Recipe, changed
from .tasks.distillation import TEXTS

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

GB = 1e9
PROCESS = 0.9 * GB  # memory of Python, PyTorch, tokenizer and evaluation
CUDA = 0.8 * GB  # memory of CUDA and its libraries on a GPU
# bytes of a layer's activations for each token and unit of width, in 16 bits: Korthikanti et al. 2022, table 2, without recomputation and without
# attention scores, which fused attention does not store
ACTIVATIONS = 34
PER_ROW = 60  # bytes per row of data for drawing the order of the batches of an epoch
# self-distillation reads its texts into memory; measured with 0.3 to 2.7 million texts of 29 and 200 characters
PER_TEXT = 110  # bytes per text for its kind, its concept and its share of a target
COPIES_OF_TEXTS = 3
KEPT_CHECKPOINTS = 3  # the best, the last, and the one being written
SAMPLE = 20_000  # texts that the teacher encodes while time is measured
FORWARD = 3  # a forward pass alone is this many times as fast as a training step


class Cost(NamedTuple):
    """Costs that were measured in a few seconds of a training.

    Attributes:
        seconds: Seconds of the measured steps.
        steps: Number of measured steps, without the first.
        step: Seconds of a step.
        evaluation: Seconds of an evaluation.
        start: Seconds before the first step, without the first evaluation.
        names: Texts encoded per second.
        memory: Peak memory of a process in bytes; that of its GPU if one is used.
    """

    seconds: float
    steps: int
    step: float
    evaluation: float
    start: float
    names: float
    memory: int


class Plan(NamedTuple):
    """The estimate of one training.

    Attributes:
        name: Name of the phase, or of the recipe's file.
        lines: Heading -> text.
        seconds: Seconds of the whole training; None if nothing was measured.
    """

    name: str
    lines: dict[str, str]
    seconds: float | None


def plan(path: Path, overrides: dict[str, Any], *, seconds: float = 30.0) -> list[Plan]:
    """Estimate what a recipe needs: one plan for a training, or one for each phase.

    Args:
        path: The recipe.
        overrides: "section.key" -> value, as for a training.
        seconds: Seconds for which each kind of training is measured; 0: nothing is measured.

    Raises:
        SapbertError: E510, E511, E513 (no such GPU), E530 (the measured training failed), and those of the data.
    """
    config = load(path, overrides)
    with tempfile.TemporaryDirectory() as scratch:
        if "phases" not in config:
            config = read_recipe(path, overrides)
            return [_plan(path.name, config, Path(scratch), seconds, {})]
        given = phases.read_phases(config, path)
        base = str(config["paths"].get("base", ""))
        folders = {phase.name: phase.out for phase in given}
        measured: dict[str, Cost] = {}
        return list(_of_phases(given, folders, base, Path(scratch), seconds, measured))


def _of_phases(
    given: Sequence[phases.Phase], folders: dict[str, Path], base: str, scratch: Path, seconds: float, measured: dict[str, Cost]
) -> Iterator[Plan]:
    made = True
    for phase in given:
        made = made and phases.is_made(phase, phases.inputs(phase, folders))
        if made:
            yield Plan(phase.name, {"state": f"already made: {phase.out}"}, 0.0)
        elif phase.config is None:
            assert phase.soup is not None
            yield Plan(phase.name, {"state": f"the mean of the weights of {', '.join(phase.soup.soup)}: seconds"}, 0.0)
        else:
            yield _plan(phase.name, _with_base(phase.config, folders, base), scratch, seconds, measured)


def _with_base(config: Config, folders: dict[str, Path], base: str) -> Config:
    """Return a recipe in which encoders that earlier phases will make are replaced by the base, which has the same size."""
    absent = {str(folder) for folder in folders.values() if not (folder / REPORT).is_file()}

    def known(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: known(below) for key, below in value.items()}
        return base if isinstance(value, str) and value in absent else value

    sections = {name: known(section) for name, section in dict(config).items()}
    sections["paths"]["out"] = config["paths"]["out"]
    return Config(sections)


def _plan(name: str, config: Config, scratch: Path, seconds: float, measured: dict[str, Cost]) -> Plan:
    lines: dict[str, str] = {}
    with naming(name):
        recipe = resolve(config)
    device = devices.use(recipe.training.gpu_id)
    config, note = _with_pairs(config, recipe, scratch)
    recipe = resolve(config)
    rows, batch, texts = recipe.task.extent(recipe)
    estimated = _pairs_of(KnowledgeBase(recipe.paths.kb)) if note else 0
    rows = estimated or rows
    steps = _steps(recipe, rows, batch)
    given = recipe.training
    processes = given.processes if given.gpu_id < 0 else 1
    shared = f", shared by {processes} processes" if processes > 1 else ""
    lines["data"] = f"{rows:,} rows{note}; {batch:,} in a batch{shared}, {texts} text{'s' if texts > 1 else ''} in a row"
    evaluations = math.ceil(steps / given.eval_every) + 1
    lines["steps"] = f"{steps:,} ({steps * batch / rows:.2f} epochs), measured at most {evaluations:,} times on held-out data"
    encoder = open_encoder(recipe)
    host, gpu, disk, sizes = _computed(recipe, encoder, rows, batch * texts / processes)
    lines["encoder"] = f"{sizes[1] / 1e6:.1f} million parameters, {sizes[0] / 1e6:.1f} million of them are trained, in {precision(given)} on {device}"
    del encoder
    cost = _measured(config, scratch, seconds, steps, measured) if seconds else None
    lines["memory"] = _memory(host * processes, gpu, device, cost, processes)
    free = shutil.disk_usage(_existing(Path(recipe.paths.out))).free
    lines["disk"] = f"{disk / GB:.2f} GB next to '{recipe.paths.out}', {free / GB:.1f} GB are free{' (TOO LITTLE)' if disk > free else ''}"
    total = None
    if cost is not None:
        total = steps * cost.step + evaluations * cost.evaluation + cost.start
        parts = f"{steps:,} steps of {cost.step:.3g} s, {evaluations} evaluations of {cost.evaluation:.1f} s, {cost.start:.0f} s to start"
        if targets := _texts_of_targets(recipe):
            total += targets / (FORWARD * cost.names)
            parts += f", {targets:,} texts for the teacher at about {FORWARD * cost.names:,.0f}/s unless their vectors are already saved"
        lines["time"] = f"{duration(total)}: {parts} (measured: {cost.steps} steps in {cost.seconds:.0f} s, {cost.names:,.0f} texts/s)"
    else:
        lines["time"] = "not measured"
    if getattr(recipe.batches, "near", 0):
        lines["time"] += "; not included: finding the nearest concepts of each concept, once for these pairs"
    lines["state"] = state(config)
    return Plan(name, lines, total)


def _with_pairs(config: Config, recipe: Recipe, scratch: Path) -> tuple[Config, str]:
    """Return the recipe with pairs. If its pairs do not exist yet, make a few from the knowledge base to measure with."""
    if "pairs" not in recipe.task.paths or Path(recipe.paths.pairs).is_dir():
        return config, ""
    folder = scratch / "pairs"
    if not folder.is_dir():
        build_pairs(KnowledgeBase(recipe.paths.kb), folder, max_pairs=1)
    return changed(config, {"paths": {"pairs": str(folder)}}), f" (estimated from '{recipe.paths.kb}': '{recipe.paths.pairs}' is not made yet)"


def _pairs_of(kb: KnowledgeBase, max_pairs: int = 50) -> int:
    """Count the pairs that `python -m training pairs` would make by default if it held nothing out."""
    labels, _ = assign_labels(kb)
    names, _ = names_of_labels(kb, labels)
    count = np.diff(names.starts)
    return int(np.minimum(count * (count - 1) // 2, max_pairs).sum())


def _steps(recipe: Recipe, rows: int, batch: int) -> int:
    whole = math.ceil(max(1, math.ceil(rows / batch)) * recipe.training.epochs)
    return recipe.training.max_steps if recipe.training.max_steps > 0 else whole


def _computed(recipe: Recipe, encoder: SentenceTransformer, rows: int, texts: float) -> tuple[float, float, float, tuple[int, int]]:
    """Compute the needs of a training.

    Args:
        recipe: The recipe.
        encoder: Its encoder.
        rows: Number of rows of the training data.
        texts: Number of texts in a step of one process.

    Returns:
        Bytes of memory of a process on the host, on its GPU, and on the disk; and the numbers of parameters that learn, and of all parameters.
    """
    from .loop import model
    from .loop.trainer import CPU_TOKENS, GPU_TOKENS

    given, inner = recipe.training, model.transformer_of(encoder)
    on_gpu = given.gpu_id >= 0
    settings: Any = inner.config
    learning, parameters = model.trainable(encoder)
    weights = 4.0 * parameters + 12.0 * learning  # float32: weights; gradients and two moments of AdamW
    tokens = texts * recipe.encoder.max_length  # an upper bound
    if given.cache_gradients:
        tokens = min(tokens, given.batch_tokens or (GPU_TOKENS if on_gpu else CPU_TOKENS))
    width = 2 if precision(given) == "fp32" else 1
    activations = tokens * settings.hidden_size * settings.num_hidden_layers * ACTIVATIONS * width
    measured = 4.0 * settings.hidden_size * (given.eval_queries + given.eval_names)
    host = PROCESS + PER_ROW * rows + _texts_in_memory(recipe) + measured + (0 if on_gpu else weights + activations)
    gpu = CUDA + weights + activations if on_gpu else 0.0
    disk = KEPT_CHECKPOINTS * (4.0 * parameters + 8.0 * learning) + 4.0 * parameters
    if "pairs" in recipe.task.paths and (Path(recipe.paths.pairs) / "pairs.parquet").is_file():
        packed = pq.ParquetFile(Path(recipe.paths.pairs) / "pairs.parquet").metadata
        disk += sum(packed.row_group(i).total_byte_size for i in range(packed.num_row_groups))  # training unpacks them into a file
    return host, gpu, disk, (learning, parameters)


def _texts_in_memory(recipe: Recipe) -> float:
    """Return the bytes of memory in which a task holds its texts while it reads them; 0 for pairs, which are mapped from a file."""
    if not hasattr(recipe.task, "texts"):
        return 0.0
    packed = pq.ParquetFile(recipe.task.texts / TEXTS).metadata
    column = packed.schema.names.index("text")
    unpacked = sum(packed.row_group(i).column(column).total_uncompressed_size for i in range(packed.num_row_groups))
    return float(PER_TEXT * packed.num_rows + COPIES_OF_TEXTS * unpacked)


def _memory(host: float, gpu: float, device: str, cost: Cost | None, processes: int) -> str:
    free = free_memory()
    measured = "" if cost is None else f" (measured {cost.memory * processes / GB:.1f})"
    text = f"at most about {host / GB:.1f} GB{'' if gpu else measured}"
    if free is not None:
        text += f" of {free / GB:.1f} GB that are free{' (TOO LITTLE)' if host > free else ''}"
    if gpu:
        import torch

        total_memory, _ = torch.cuda.mem_get_info(device)
        text += f"; {device}: at most about {gpu / GB:.1f} GB{measured} of {total_memory / GB:.1f} GB{' (TOO LITTLE)' if gpu > total_memory else ''}"
    return text


def _texts_of_targets(recipe: Recipe) -> int:
    """Return the greatest number of texts that a teacher encodes before the first step; 0 if there is no teacher."""
    if not getattr(recipe.task, "teacher", ""):
        return 0
    if hasattr(recipe.task, "texts"):
        return int(pq.ParquetFile(recipe.task.texts / TEXTS).metadata.num_rows)
    rows, _, _ = recipe.task.extent(recipe)
    return int(rows)


def _existing(path: Path) -> Path:
    return next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())


# -- measured -----------------------------------------------------------------------------------------------------------


def _measured(config: Config, scratch: Path, seconds: float, steps: int, known: dict[str, Cost]) -> Cost:
    """Run the training in a new process for some seconds, and read its costs. Trainings that differ only in the seed are measured once.

    Raises:
        SapbertError: E530.
    """
    alike = {key: value for key, value in flat(json.loads(json.dumps(dict(config)))).items() if key not in ("paths.out", "training.seed")}
    key = json.dumps(alike, sort_keys=True)
    if key in known:
        return known[key]
    out = scratch / f"encoder{len(known)}"
    training = {"max_seconds": seconds, "max_steps": steps, "eval_every": steps, "log_every": 1, "patience": 0}
    shortened = changed(config, {"training": training, "paths": {"out": str(out)}})
    batches = shortened.get("batches")
    if isinstance(batches, dict) and batches.get("near"):
        batches["near"] = 0  # finding the nearest concepts would come first and take the time
    _sample_texts(shortened, scratch)
    recipe = scratch / f"{out.name}.cfg"
    recipe.write_text(shortened.to_str(), encoding="utf-8")
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "training", "train", str(recipe)], capture_output=True, text=True)
    if done.returncode:
        raise fail("E530", status=done.returncode, why=done.stderr.strip()[-1500:])
    wall = time.monotonic() - began
    lines = [json.loads(line) for line in (out / LOG).read_text(encoding="utf-8").splitlines()]
    report = json.loads((out / REPORT).read_text(encoding="utf-8"))
    spent = [line["busy_seconds"] for line in lines if line.get("busy_seconds")]
    later = spent[1:] or spent  # the first step is slower
    evaluation = next((line["seconds"] for line in lines if line["step"] == 0), 0.0)
    start = max(0.0, wall - lines[-1]["seconds"])
    known[key] = Cost(sum(spent), len(later), sum(later) / len(later), evaluation, start, report["names_per_second"], report["peak_memory_mb"] << 20)
    shutil.rmtree(out)
    return known[key]


def _sample_texts(config: Config, scratch: Path) -> None:
    """Let a distillation read only the first texts, because its teacher encodes all texts before the first step."""
    task = config.get("task", {})
    if not isinstance(task, dict) or "teacher" not in task or "texts" not in task:
        return
    source = pq.ParquetFile(Path(task["texts"]) / TEXTS)
    folder = scratch / "texts"
    folder.mkdir(exist_ok=True)
    first = next(source.iter_batches(SAMPLE), None)
    with pq.ParquetWriter(folder / TEXTS, source.schema_arrow) as writer:
        if first is not None:
            writer.write_batch(first)
    if (Path(task["texts"]) / MANIFEST).is_file():
        shutil.copyfile(Path(task["texts"]) / MANIFEST, folder / MANIFEST)
    task["texts"] = str(folder)


# -- earlier results ----------------------------------------------------------------------------------------------------


def state(config: Config) -> str:
    """Say whether the training would start, be resumed, or be refused, and whether the encoder already exists."""
    from .loop.trainer import last_checkpoint

    out = Path(config["paths"]["out"])
    existing = f"; '{out}' already exists and would be replaced" if (out / REPORT).is_file() else ""
    checkpoints = Path(f"{out}.checkpoints")
    last = last_checkpoint(checkpoints)
    before = Stamp(checkpoints / SETTINGS).read()
    if last is None or before is None:
        return f"starts from the beginning{existing}"
    now = {key: value for key, value in flat(json.loads(json.dumps(dict(config)))).items() if key not in FREE}
    different = [f"{key}: {before[key]!r} -> {now[key]!r}" for key in sorted({*before} & {*now}) if before[key] != now[key]]
    if different:
        return f"refused (E514): '{checkpoints}' was made with other settings ({'; '.join(different)}){existing}"
    return f"resumed from step {int(last.rpartition('-')[2]):,}{existing}"


def duration(seconds: float) -> str:
    """Return seconds in words, as hours, or as minutes if they are less than an hour."""
    return f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds / 60:.1f} minutes"


def in_words(plans: Sequence[Plan]) -> str:
    """Return the plans as text for the terminal."""
    lines: list[str] = []
    for one in plans:
        lines.append(one.name)
        lines += [f"  {heading:<8} {text}" for heading, text in one.lines.items()]
    known = [one.seconds for one in plans if one.seconds is not None]
    if len(plans) > 1 and len(known) == len(plans):
        lines.append(f"together: {duration(sum(known))}")
    return "\n".join(lines)
