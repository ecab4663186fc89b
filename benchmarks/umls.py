"""Measure a knowledge base as large as UMLS: `kb build` from a synthetic release, and the time to open and query it.

`python -m benchmarks umls --concepts 4000000` has the size of a whole release: 12 M English names. artifacts/benchmarks then needs 15 GB during the
run and 8 GB after it.
"""

from __future__ import annotations

import json
from pathlib import Path

from .common import ARTEFACTS, Report, Table, once
from .umls_release import RELATIONS, ReleaseCounts
from .worker import measure

SECTION = "umls"
CONCEPTS, SEED = 200_000, 0
SIZE = CONCEPTS  # number of concepts; `--concepts` changes it
PROTOCOL = (
    "A synthetic release of invented words (benchmarks/umls_release.py: seed 0; columns, order and shares of rows as in the real one; MRREL has 4 rows per "
    "concept, the real one 12 to 16). Each step in a process of its own. Seconds and rows per second are CPU time of all threads together, with "
    "normalising and sorting the names, indexes and checksums; rows: all rows of all tables; English names that are not suppressed are kept. Opening and queries: the "
    "files are in the system's page cache, but the process has not read them yet."
)


def run(data: Path, report: Report) -> None:
    """Make a synthetic release and measure its knowledge base."""
    release = once(f"umls-{SIZE}", lambda folder: make(folder, SIZE))
    report.add(SECTION, umls(release, ARTEFACTS / f"umls-{SIZE}-kb", SIZE))


def make(folder: Path, concepts: int, relations: float = RELATIONS) -> None:
    """Write a release and its counts. The folder gets its name only when it is complete.

    Args:
        folder: Folder of the release.
        concepts: Number of concepts.
        relations: Rows of MRREL per concept.
    """
    scratch = folder.with_name(folder.name + ".new")
    made = measure("make_umls", scratch, concepts, SEED, relations)
    (scratch / "counts.json").write_text(json.dumps(made), encoding="utf-8")
    scratch.rename(folder)


def umls(release: Path, out: Path, concepts: int) -> Table:
    """Build the knowledge base of a release, open and query it, and return the table."""
    made = json.loads((release / "counts.json").read_text(encoding="utf-8"))
    counts = ReleaseCounts(made["rows"], made["names"], made["bytes"])
    built = measure("build_umls", release, out)
    opened = measure("ask_umls", out, built["name"])
    relations = counts.rows.get("MRREL", 0)
    every = sum(counts.rows.values())
    table = Table(
        "umls" if concepts == CONCEPTS else f"umls-{concepts}", f"As large as UMLS: {concepts:,} concepts", PROTOCOL, ["measure", "value", "target"]
    )
    table.add("rows: MRCONSO", counts.rows["MRCONSO"], None)
    table.add("of these English, not suppressed", counts.names, None)
    table.add("rows: MRREL", relations, None)
    table.add("rows: all tables", every, None)
    table.add("files, MB", counts.bytes / 1e6, None)
    table.add("generator, s", made["cpu_s"], None)
    table.add("generator, most memory, MB", made["peak_mb"], None)
    table.add("kb build, s", built["cpu_s"], None)
    table.add("kb build, s on the clock", built["wall_s"], None)
    table.add("kb build, rows/s", every / built["cpu_s"], ">= 50,000")
    table.add("kb build, rows/s, those of MRREL not counted", (every - relations) / built["cpu_s"], ">= 50,000")
    table.add("kb build, most memory, MB", built["peak_mb"], "< 2,000")
    table.add("concepts in the knowledge base", built["concepts"], None)
    table.add("names (concept, text, source)", built["names"], None)
    table.add("distinct names", built["strings"], None)
    table.add("distinct names of several concepts", built["strings_of_several_concepts"], None)
    table.add("knowledge base, MB", built["mb"], None)
    table.add("open, s", opened["open_s"], "< 0.3")
    table.add("first name found, ms", 1e3 * opened["find_s"], None)
    table.add("first concept, ms", 1e3 * opened["concept_s"], None)
    table.add("first alias_to_cuis, ms", 1e3 * opened["alias_s"], None)
    table.add("1,000 names found, ms", 1e3 * opened["find_1000_s"], None)
    table.add("the linker's mask for types, ms", 1e3 * opened["mask_s"], None)
    table.add("most memory, MB, before the mask", opened["peak_mb"], None)
    return table
