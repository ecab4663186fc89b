"""Compare the fast encoder with the default one: names per second on the CPU, in one process, and size on disk."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from spacy_sapbert.encoders.base import Encoder
from spacy_sapbert.encoders.static import StaticEncoder, fast_encoder
from spacy_sapbert.encoders.transformer import NameEncoder, base_encoder, default_encoder
from spacy_sapbert.kb.concept import normalise
from training.corpora import open_lines, read_pubtator

from .common import Report, Table, data_file

SECTION = "encoders"
NCBI = "corpora/ncbi_disease/train.pubtator.txt.gz"
ROUNDS = 5
NAMES = 1_000  # that the default encoder, the slow one, encodes in a round
THREADS = 2
PROTOCOL = (
    f"Distinct mentions of NCBI-disease train, normalised. The default encoder encodes {NAMES:,} of them and the fast one all, in turn, {ROUNDS} rounds, "
    f"medians; {THREADS} threads, one process, models loaded before. CPU: seconds of all threads, which depend less on other work on the machine. "
    "MB: the files; those of the default encoder include the base model that its adapter needs."
)


def run(data: Path, report: Report) -> None:
    """Compare the encoders on the mentions of a corpus."""
    names = list(dict.fromkeys(normalise(mention.text) for mention in read_pubtator(open_lines(data_file(data, NCBI))).mentions))
    report.add(SECTION, compare(names))


def compare(names: list[str]) -> Table:
    """Compare the speed and size of the encoders."""
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        encoders: dict[str, tuple[Encoder, list[str]]] = {
            "default": (NameEncoder().initialize(), names[:NAMES]),
            "fast": (StaticEncoder().initialize(), names),
        }
        found: dict[str, list[dict[str, float]]] = {name: [] for name in encoders}
        for _ in range(ROUNDS + 1):  # the first round is not counted
            for name, (model, some) in encoders.items():
                found[name].append(timed(lambda model=model, some=some: model.encode(some), len(some)))  # type: ignore[misc]
    finally:
        torch.set_num_threads(before)
    rate = {name: {key: statistics.median(row[key] for row in rows[1:]) for key in ("wall", "cpu")} for name, rows in found.items()}
    sizes = {"default": folder_mb(Path(default_encoder())) + folder_mb(Path(base_encoder())), "fast": folder_mb(Path(fast_encoder()))}
    columns = ["encoder", "dimensions", "names/s", "ratio", "names per CPU second", "ratio (CPU)", "target", "MB"]
    table = Table("encoders", f"Encoders: {len(names):,} names", PROTOCOL, columns)
    for name, (model, _) in encoders.items():
        ratios = {key: rate[name][key] / rate["default"][key] for key in ("wall", "cpu")}
        target = "≥ 20" if name == "fast" else None
        table.add(name, model.dim, rate[name]["wall"], ratios["wall"], rate[name]["cpu"], ratios["cpu"], target, sizes[name])
    return table


def timed(action: Callable[[], Any], count: int) -> dict[str, float]:
    """Return names per second: "wall" by the clock, and "cpu" by the CPU time of all threads."""
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    return {"wall": count / (time.perf_counter() - wall), "cpu": count / (time.process_time() - cpu)}


def folder_mb(folder: Path) -> float:
    """Return the size of a folder in MB, without model cards."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.suffix != ".md") / 1e6
