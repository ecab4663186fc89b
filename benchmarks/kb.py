"""Measure the knowledge base of each real ontology: concepts, CUIs, names, and seconds to build it."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from spacy_sapbert.build import default_linkers
from spacy_sapbert.build import linker as building
from spacy_sapbert.kb.builder import build_kb

from .common import MONDO, MONDO_UMLS, Report, Table, data_file

SECTION = "kb"
SOURCES: dict[str, list[str]] = {
    "HPO (hp.obo 2025-01-16)": ["hpo"],
    "MONDO 2026-05, UMLS mappings": [MONDO, MONDO_UMLS],
    "DOID 2018": ["ontologies/doid/doid-2018-07-05.json.gz"],
    "NCIt diseases 2018": ["ontologies/ncit/ncit-disease-2018-06-08.json.gz"],
    "ORDO 2018": ["ontologies/ordo/ordo-2_6-2018-07-12.json.gz"],
    "UBERON 2015": ["ontologies/uberon/UBERON.2015-04-23.obo.zip"],
    "MAxO": ["ontologies/maxo/maxo.obo.gz"],
    "SYMP": ["ontologies/symp/symp.obo"],
}
MAPPINGS = [f"ontologies/mondo/mondo_exactmatch_{name}.sssom.tsv.gz" for name in ("doid", "mesh", "ncit", "omim", "orphanet", "sctid", "umls")]
PROTOCOL = (
    "English names; built from the file into a temporary folder, in one process. concepts: after joining terms that have the same CUI or that a curated "
    "mapping calls the same; CUIs: concepts whose id is a CUI; names: (concept, text, source); distinct: after lower-casing, as the "
    "encoder and the index get them; ambiguous: distinct names of several concepts."
)


def run(data: Path, report: Report) -> None:
    """Build the knowledge base of each source, and one of all sources."""
    columns = ["source", "concepts", "CUIs", "CUI %", "names", "distinct", "ambiguous", "definitions", "s", "MB"]
    table = Table("kb", "Knowledge bases", PROTOCOL, columns)
    every = [file for files in SOURCES.values() for file in files]
    union = [*every, *(mapping for mapping in MAPPINGS if mapping not in every)]
    for name, files in {**SOURCES, "union, with all mappings": union}.items():
        table.add(name, *build(data, files))
    report.add(SECTION, table)


def build(data: Path, files: list[str]) -> list[float]:
    """Build a knowledge base from some files, and return its row of the table without the name."""
    paths = [default_linkers.hpo_file() if file == "hpo" else data_file(data, file) for file in files]
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        kb = build_kb([building.read_source(path) for path in paths], Path(folder) / "kb")
        seconds = time.perf_counter() - start
        counts = kb.manifest["counts"]
        size = sum(file.stat().st_size for file in kb.path.iterdir()) / 1e6
    share = 100.0 * counts["cuis"] / counts["concepts"]
    numbers = [counts[key] for key in ("names", "strings", "strings_of_several_concepts", "definitions")]
    return [counts["concepts"], counts["cuis"], share, *numbers, seconds, size]
