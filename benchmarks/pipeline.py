"""Measure the whole pipeline of `spacy_sapbert.load()` on notes: notes per second, and what each component takes."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from training.corpora import read_notes

from .common import Report, Table, data_file
from .linking import MTSAMPLES
from .worker import measure

SECTION = "pipeline"
NOTES, WORDS = 200, 400
ROUNDS = 3  # in each round every pipeline runs once, in a fresh process
PIPELINES = {"with the recogniser": 1, "without the recogniser": 0}
PASSES = ("cold", "warm")
PROTOCOL = (
    f"`spacy_sapbert.load()`, with the linker `open`, on {NOTES} distinct MTSamples notes, cut to {WORDS} words; `recogniser=False` leaves `clinical_mentions` out. "
    "CPU time of the process, with one thread of PyTorch and of the index. Everything is loaded before, on a text without a mention of the notes, and left "
    "out of garbage collections, as `link` and `annotate` do. cold: the notes for the first time; warm: the same notes again, whose answers are in the caches. The components get all notes one after another, in batches of 64, as in `nlp.pipe`. "
    f"Each pipeline in a process of its own, in turn, {ROUNDS} rounds, medians."
)


def run(data: Path, report: Report) -> None:
    """Measure the pipeline with and without the recogniser."""
    texts = [cut(text) for text in read_notes(data_file(data, MTSAMPLES), NOTES)]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as notes:
        json.dump(texts, notes)
        notes.flush()
        found: dict[str, list[dict[str, Any]]] = {label: [] for label in PIPELINES}
        for _ in range(ROUNDS):
            for label, recogniser in PIPELINES.items():
                found[label].append(measure("pipeline_parts", notes.name, recogniser))
    report.add(SECTION, speed(found))
    for label, runs in found.items():
        report.add(SECTION, parts(label, runs))


def cut(text: str) -> str:
    """Return the first `WORDS` words of a note, as spaces separate them."""
    return " ".join(text.split(" ")[:WORDS])


def speed(found: dict[str, list[dict[str, Any]]]) -> Table:
    """Return the table of notes per second.

    Args:
        found: Pipeline -> results of its runs, see `worker.pipeline_parts`.
    """
    table = Table(
        "speed", "The whole pipeline", PROTOCOL, ["pipeline", *(f"{each}, notes/s" for each in PASSES), "words of a note", "mentions of a note"]
    )
    for label, runs in found.items():
        rates = [statistics.median(1 / sum(run[each].values()) for run in runs) for each in PASSES]
        table.add(label, *rates, runs[0]["words"], runs[0]["mentions"])
    return table


def parts(label: str, runs: Sequence[dict[str, Any]]) -> Table:
    """Return the table of what each component of a pipeline takes.

    Args:
        label: The pipeline in words.
        runs: Results of its runs, see `worker.pipeline_parts`.
    """
    columns = ["component", *(f"{each}, {unit}" for each in PASSES for unit in ("ms a note", "%"))]
    table = Table(f"components, {label}", f"Components of the pipeline {label}", "See the table of the whole pipeline.", columns)
    medians = {each: {name: 1000 * statistics.median(run[each][name] for run in runs) for name in runs[0][each]} for each in PASSES}
    for name in medians[PASSES[0]]:
        table.add(name, *(cell for each in PASSES for cell in (medians[each][name], 100 * medians[each][name] / sum(medians[each].values()))))
    return table
