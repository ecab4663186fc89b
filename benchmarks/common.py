"""Folders, built linkers, tables, and the JSON report."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Dict, List, Optional, Union

from spacy_sapbert.build import default_linkers
from spacy_sapbert.build import linker as building
from spacy_sapbert.kb.builder import Source

ROOT = Path(__file__).resolve().parent.parent
ARTEFACTS = ROOT / "artifacts" / "benchmarks"
REPORT = ROOT / "metrics" / "benchmarks.json"
DATA_VARIABLE = "SPACY_SAPBERT_DATA"
DEFAULT_DATA = ROOT.parent / "shared" / "data"
Cell = Union[str, int, float, None]

MONDO = "ontologies/mondo/MONDO-ontology-v2026-05-05.json.zst"
MONDO_UMLS = "ontologies/mondo/mondo_exactmatch_umls.sssom.tsv.gz"
MEDIC = "dictionaries/medic_06Jul2012.txt.gz"


class Missing(Exception):
    """Data or a package that a benchmark needs is not there; the message says what to do."""


def data_folder(given: Optional[str]) -> Path:
    """`--data`, else $SPACY_SAPBERT_DATA, else ../shared/data. RAISES: Missing."""
    folder = Path(given or os.environ.get(DATA_VARIABLE) or DEFAULT_DATA)
    if not folder.is_dir():
        why = f"There is no data folder '{folder}'. The benchmarks read real ontologies and corpora: name their folder by --data or ${DATA_VARIABLE}."
        raise Missing(why)
    return folder


def data_file(data: Path, name: str) -> Path:
    """RAISES: Missing."""
    if not (data / name).exists():
        raise Missing(f"'{name}' is not in the data folder '{data}'.")
    return data / name


def need(package: str, extra: str) -> None:
    """RAISES: Missing where a package for comparison is not installed."""
    import importlib.util

    if importlib.util.find_spec(package) is None:
        raise Missing(f"'{package}' is not installed. Type: pip install {extra}")


def once(name: str, build: Callable[[Path], Any]) -> Path:
    """A folder of artifacts/benchmarks, built if it is not there."""
    folder = ARTEFACTS / name
    if not folder.is_dir():
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        print(f"building {folder.relative_to(ROOT)} ...", file=sys.stderr, flush=True)
        build(folder)
    return folder


def hpo_mondo_sources(data: Path) -> List[Source]:
    files = [default_linkers.hpo_file(), data_file(data, MONDO), data_file(data, MONDO_UMLS)]
    return [building.read_source(file) for file in files]


def hpo_mondo_linker(data: Path) -> Path:
    """HPO + MONDO with MONDO's UMLS mappings, default encoder and index."""
    return once("hpo-mondo", lambda out: building.build_linker(hpo_mondo_sources(data), out, progress=False))


def medic_linker(data: Path) -> Path:
    """MEDIC of 2012, default encoder and index."""
    source = lambda: building.read_source(data_file(data, MEDIC), kind="biosyn")  # noqa: E731
    return once("medic", lambda out: building.build_linker([source()], out, progress=False))


@dataclass
class Table:
    """One printed table. protocol: in words, what was measured and how."""

    name: str
    title: str
    protocol: str
    columns: List[str]
    rows: List[List[Cell]] = field(default_factory=list)
    notes: List[str] = field(default_factory=list)

    def add(self, *cells: Cell) -> None:
        if len(cells) != len(self.columns):
            raise ValueError(f"{len(cells)} cells for {len(self.columns)} columns")
        self.rows.append(list(cells))

    def render(self) -> str:
        grid = [self.columns, *([show(cell) for cell in row] for row in self.rows)]
        widths = [max(len(row[i]) for row in grid) for i in range(len(self.columns))]
        numbers = [all(not isinstance(row[i], str) for row in self.rows) for i in range(len(self.columns))]

        def line(row: Sequence[str]) -> str:
            return "  ".join(text.rjust(w) if number else text.ljust(w) for text, w, number in zip(row, widths, numbers)).rstrip()

        parts = [f"## {self.title}", *wrap(self.protocol), "", line(grid[0]), "  ".join("-" * w for w in widths), *map(line, grid[1:])]
        for note in self.notes:
            parts.extend(wrap(note, "* "))
        return "\n".join(parts) + "\n"

    def as_dict(self) -> Dict[str, Any]:
        rows = [dict(zip(self.columns, row)) for row in self.rows]
        return {"title": self.title, "protocol": self.protocol, "rows": rows, "notes": self.notes}


def show(cell: Cell) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.1f}" if abs(cell) >= 20 else f"{cell:.2f}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def wrap(text: str, start: str = "") -> List[str]:
    import textwrap

    return textwrap.wrap(text, 140, initial_indent=start, subsequent_indent=" " * len(start))


class Report:
    """Collects tables: each is printed at once and written into metrics/benchmarks.json beside what other runs left there."""

    def __init__(self, path: Path = REPORT) -> None:
        self.path = path

    def add(self, section: str, table: Table) -> None:
        print("\n" + table.render(), flush=True)
        content = json.loads(self.path.read_text(encoding="utf-8")) if self.path.is_file() else {}
        measured = {**table.as_dict(), "measured": time.strftime("%Y-%m-%d %H:%M"), "on": machine()}
        content.setdefault(section, {})[table.name] = measured
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def machine() -> Dict[str, Any]:
    """What a figure depends on; no names and no paths."""
    packages = {name: version(name) for name in ("spacy-sapbert", "spacy", "torch", "annoy")}
    return {"python": platform.python_version(), "system": platform.system(), "cpus": len(os.sched_getaffinity(0)), **packages}
