"""Data folders, linkers that are built once, tables, and the JSON report."""

from __future__ import annotations

import io
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import rich.table
from rich import box
from rich.console import Console
from rich.text import Text

from spacy_sapbert.build import default_linkers
from spacy_sapbert.build import linker as building
from spacy_sapbert.kb.builder import Source
from training.evaluation.evaluate import checkout

ROOT = Path(__file__).resolve().parent.parent
ARTEFACTS = ROOT / "artifacts" / "benchmarks"
REPORT = ROOT / "metrics" / "benchmarks.json"
DATA_VARIABLE = "SPACY_SAPBERT_DATA"
TABLE_WIDTH = 400  # characters; wide enough that no cell of a printed table is cut
Cell = str | int | float | None

MONDO = "ontologies/mondo/MONDO-ontology-v2026-05-05.json.zst"
MONDO_UMLS = "ontologies/mondo/mondo_exactmatch_umls.sssom.tsv.gz"
MEDIC = "dictionaries/medic_06Jul2012.txt.gz"


class Missing(Exception):
    """A benchmark needs data or a package that is missing; the message says what to do."""


def data_folder(given: str | None) -> Path:
    """Return the folder of ontologies and corpora: `--data`, else $SPACY_SAPBERT_DATA.

    Raises:
        Missing: neither is given, or there is no such folder.
    """
    named = given or os.environ.get(DATA_VARIABLE)
    folder = Path(named or "")
    if not named or not folder.is_dir():
        problem = f"There is no data folder '{folder}'" if named else "There is no data folder"
        why = f"{problem}. The benchmarks read real ontologies and corpora: give their folder with --data or ${DATA_VARIABLE}."
        raise Missing(why)
    return folder


def data_file(data: Path, name: str) -> Path:
    """Return the path of a file in the data folder.

    Raises:
        Missing: there is no such file.
    """
    if not (data / name).exists():
        raise Missing(f"'{name}' is not in the data folder '{data}'.")
    return data / name


def need(package: str, extra: str) -> None:
    """Check that a package for comparison is installed.

    Raises:
        Missing: it is not.
    """
    import importlib.util

    if importlib.util.find_spec(package) is None:
        raise Missing(f"'{package}' is not installed. Type: pip install {extra}")


def once(name: str, build: Callable[[Path], Any]) -> Path:
    """Return a folder of artifacts/benchmarks, and build it if it is missing.

    Args:
        name: Name of the folder.
        build: Writes the folder at the path that it is given.
    """
    folder = ARTEFACTS / name
    if not folder.is_dir():
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        print(f"building {folder.relative_to(ROOT)} ...", file=sys.stderr, flush=True)
        build(folder)
    return folder


def hpo_mondo_sources(data: Path) -> list[Source]:
    """Return the sources HPO and MONDO, with MONDO's mappings to UMLS."""
    files = [default_linkers.hpo_file(), data_file(data, MONDO), data_file(data, MONDO_UMLS)]
    return [building.read_source(file) for file in files]


def hpo_mondo_linker(data: Path) -> Path:
    """Return the folder of a linker over HPO and MONDO, with MONDO's UMLS mappings, the default encoder and the default index."""
    return once("hpo-mondo", lambda out: building.build_linker(hpo_mondo_sources(data), out, progress=False))


def medic_linker(data: Path) -> Path:
    """Return the folder of a linker over MEDIC of 2012, with the default encoder and index."""

    def build(out: Path) -> None:
        building.build_linker([building.read_source(data_file(data, MEDIC), kind="biosyn")], out, progress=False)

    return once("medic", build)


@dataclass
class Table:
    """A table of figures.

    Attributes:
        name: its key in the JSON report.
        title: what is printed above it.
        protocol: what was measured and how, in words.
        columns: headings.
        rows: cells.
        notes: remarks below the table.
    """

    name: str
    title: str
    protocol: str
    columns: list[str]
    rows: list[list[Cell]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, *cells: Cell) -> None:
        """Add a row, one cell for each column."""
        if len(cells) != len(self.columns):
            raise ValueError(f"{len(cells)} cells for {len(self.columns)} columns")
        self.rows.append(list(cells))

    def render(self) -> str:
        """Return the table as text: title, protocol, rows and notes."""
        grid = rich.table.Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for i, column in enumerate(self.columns):
            number = all(not isinstance(row[i], str) for row in self.rows)
            grid.add_column(Text(column), justify="right" if number else "left", no_wrap=True)
        for row in self.rows:
            grid.add_row(*(Text(show(cell)) for cell in row))
        console = Console(file=io.StringIO(), width=TABLE_WIDTH, color_system=None)
        with console.capture() as drawn:
            console.print(grid)
        lines = [line.rstrip() for line in drawn.get().splitlines()]
        parts = [f"## {self.title}", *wrap(self.protocol), "", *lines]
        for note in self.notes:
            parts.extend(wrap(note, "* "))
        return "\n".join(parts) + "\n"

    def as_dict(self) -> dict[str, Any]:
        """Return the table as the JSON report has it."""
        rows = [dict(zip(self.columns, row)) for row in self.rows]
        return {"title": self.title, "protocol": self.protocol, "rows": rows, "notes": self.notes}


def show(cell: Cell) -> str:
    """Return a cell as text: numbers with about three digits, and – for None."""
    if cell is None:
        return "–"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.1f}" if abs(cell) >= 20 else f"{cell:.2f}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def wrap(text: str, start: str = "") -> list[str]:
    """Break a text into lines of at most 140 characters."""
    import textwrap

    return textwrap.wrap(text, 140, initial_indent=start, subsequent_indent=" " * len(start))


class Report:
    """Print each table when it is ready, and write it into metrics/benchmarks.json. Tables of earlier runs stay in that file."""

    def __init__(self, path: Path = REPORT) -> None:
        self.path = path

    def add(self, section: str, table: Table) -> None:
        """Print a table and write it into the report."""
        print("\n" + table.render(), flush=True)
        content = json.loads(self.path.read_text(encoding="utf-8")) if self.path.is_file() else {}
        measured = {**table.as_dict(), "measured": time.strftime("%Y-%m-%d %H:%M"), "on": machine()}
        content.setdefault(section, {})[table.name] = measured
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def machine() -> dict[str, Any]:
    """Return what figures depend on: versions, commit and number of CPU cores. It holds no names and no paths."""
    packages = {name: version(name) for name in ("spacy-sapbert", "spacy", "torch", "annoy")}
    return {"python": platform.python_version(), "system": platform.system(), "CPU cores": len(os.sched_getaffinity(0)), **checkout(), **packages}
