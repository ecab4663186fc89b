"""Measure loading the linker `hpo`: seconds, resident memory, and the memory of several workers together."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from spacy_sapbert import bundle
from spacy_sapbert.build import default_linkers
from training.corpora import read_notes

from .common import ARTEFACTS, Report, Table, data_file
from .linking import MTSAMPLES
from .worker import measure

SECTION = "load"
ROUNDS = 3
WORKERS = (1, 2, 4)
NOTES = 200
PROTOCOL = (
    f"The linker `hpo` (Annoy). Each figure from a fresh process, median of {ROUNDS}; the files are in the system's page cache. imports: "
    "spaCy, torch, transformers, Annoy and this package; load: from add_pipe to the first linked Doc. RSS counts the parts of mapped files that were "
    "read, PSS divides shared pages among the processes that share them."
)


def run(data: Path, report: Report) -> None:
    """Measure loading, and workers."""
    folder = default_linkers.find_linker("hpo")
    report.add(SECTION, load(folder))
    report.add(SECTION, workers(folder, data))


def load(folder: Path) -> Table:
    """Measure what loading takes."""
    linker = [measure("load_first_doc", folder) for _ in range(ROUNDS)]
    kb = [measure("open_kb", folder / bundle.KB) for _ in range(ROUNDS)]
    table = Table("load", "Load", PROTOCOL, ["measure", "value", "target"])
    table.add("imports, s", median(linker, "imports_s"), None)
    table.add("load to the first linked Doc, s", median(linker, "load_s"), "< 2")
    table.add("RSS after imports, MB", median(linker, "rss_imports_mb"), None)
    table.add("RSS after the first linked Doc, MB", median(linker, "rss_mb"), None)
    table.add("PSS after the first linked Doc, MB", median(linker, "pss_mb"), None)
    table.add("knowledge base alone: imports, s", median(kb, "imports_s"), None)
    table.add("knowledge base alone: open, s", median(kb, "open_s"), "< 0.3")
    table.add("knowledge base alone: first name and concept, s", median(kb, "first_concept_s"), None)
    table.add("knowledge base alone: RSS of the process, MB", median(kb, "rss_mb"), "< 150")
    return table


def workers(folder: Path, data: Path) -> Table:
    """Measure the memory of workers that share a linker."""
    protocol = (
        f"nlp.pipe over {NOTES} MTSamples notes (concept_matcher, sapbert_linker) with n_process workers: PSS of the main process and its "
        "workers together, the highest of samples taken every 16 Docs; seconds include starting the workers. One process: no worker is started."
    )
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    notes = ARTEFACTS / "notes.json"
    notes.write_text(json.dumps(read_notes(data_file(data, MTSAMPLES), NOTES)), encoding="utf-8")
    table = Table("workers", "Workers", protocol, ["n_process", "processes", "total PSS, MB", "s", "mentions"])
    for count in WORKERS:
        found = measure("pipe_memory", folder, notes, count)
        table.add(count, found["processes"], found["pss_mb"], found["seconds"], found["mentions"])
    return table


def median(results: list[dict[str, Any]], key: str) -> Any:
    """Return the median of a figure over several runs; None if no run has it."""
    values = [result[key] for result in results if result[key] is not None]
    return statistics.median(values) if values else None
