"""Measure a linker as large as UMLS: build its index, open it, search it, and share it among workers. Its names are from a synthetic release."""

from __future__ import annotations

import json
import os
import shutil
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from spacy.tokens import DocBin

from spacy_sapbert import bundle
from spacy_sapbert.build import default_linkers
from spacy_sapbert.files import write_manifest
from spacy_sapbert.indexes.auto import recommended
from spacy_sapbert.indexes.stored import exact_search
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.registry import registry
from training.corpora import read_notes

from . import umls
from .common import ARTEFACTS, Report, Table, data_file, hpo_mondo_linker
from .engines import DEPTH, queries
from .linking import MTSAMPLES
from .vectors import like
from .worker import measure

SECTION = "size"
NOTES, WORKERS = 200, (1, 4)
PROTOCOL = (
    "The engine that `--engine auto` takes for so many names, settings below; build time excludes the measuring that `index` does after building. Knowledge base of a synthetic release "
    "(benchmarks/umls.py); its distinct names have synthetic vectors with the spectrum and neighbour distances of real ones "
    "(benchmarks/vectors.py), since encoding the names takes more than an hour of CPU time. Each step in a process of its own, two cores. memory: peak of resident memory, and "
    "the part of it that is not mapped from files. recall: 1,000 names of HPO and MONDO with a typo, another word order or a word less, exact float32 "
    f"search is the truth. load: from add_pipe to the first linked Doc, imports done, median of three processes. Workers: nlp.pipe over {NOTES} MTSamples notes whose entities "
    "concept_matcher (HPO) found before; PSS of all processes together, the highest of samples taken every 16 Docs."
)
FAST_PROTOCOL = (
    "`index KB --encoder fast --engine auto` over the same knowledge base: invented names, really encoded (256 dimensions), the same engine, measured on 2,000 of its "
    "names with a typo, another word order or a word less, none of which it has; exact search over the stored vectors is the truth. The time from the "
    "knowledge base to the linker includes this measuring and copying the knowledge base. load, workers: as above."
)


def run(data: Path, report: Report) -> None:
    """Measure linkers over the knowledge base of `python -m benchmarks umls --concepts N`; build it if it is missing."""
    kb = ARTEFACTS / f"umls-{umls.SIZE}-kb"
    if not kb.is_dir():
        umls.run(data, report)
    folder = ARTEFACTS / "size"
    folder.mkdir(parents=True, exist_ok=True)
    report.add(SECTION, size(data, kb, folder))
    report.add(SECTION, encoded(data, kb, folder))
    report.add(SECTION, matcher(data, kb, folder))


def size(data: Path, kb: Path, folder: Path) -> Table:
    """Measure a linker with synthetic vectors that resemble real ones: its index, its speed and its memory."""
    real = hpo_mondo_linker(data)
    names = KnowledgeBase(kb).n_surface_forms
    vectors = folder / f"like-{names}.npy"
    if not vectors.is_file():
        like(np.load(real / bundle.INDEX / "vectors.npy", mmap_mode="r", allow_pickle=False), names, vectors)
    asked = queries(real, ARTEFACTS / "engines")
    truth = folder / f"truth-{names}.npy"
    if not truth.is_file():
        found, _ = exact_search(np.load(vectors, mmap_mode="r", allow_pickle=False), np.load(asked, allow_pickle=False)[:1000], DEPTH)
        np.save(truth, found)
    first = folder / "queries.npy"
    np.save(first, np.load(asked, allow_pickle=False)[:1000])
    table = Table(f"size-{names}", f"A linker of {names:,} names", PROTOCOL, ["measure", "value", "target"])
    engine, recommendation, _why = recommended(names)
    settings = {**recommendation, "tune": False}
    search = {key: value for key, value in settings.items() if key in ("search", "expansion_search", "rescore", "tune")}
    table.notes.append(f"{engine}: {', '.join(f'{key} {value}' for key, value in recommendation.items())}.")
    linker, times = folder / f"linker-{_label_of(names)}", folder / f"built-{_label_of(names)}.json"
    if not linker.is_dir():
        made = measure("build_engine", engine, json.dumps(settings), vectors, folder / "index")
        times.write_text(json.dumps(made), encoding="utf-8")
        _assemble(linker, kb, engine, folder / "index", real / bundle.ENCODER)
    built = json.loads(times.read_text(encoding="utf-8"))
    table.add("index: built and written, s", built["seconds"], None)
    table.add("index: memory while it is built, MB", built["peak_mb"], "< 24,000")
    table.add("index: of it the process's own, MB", built["peak_own_mb"], None)
    table.add("files of the index, MB", sum(file.stat().st_size for file in (linker / bundle.INDEX).iterdir()) / 1e6, None)
    table.add("files of the knowledge base, MB", sum(file.stat().st_size for file in (linker / bundle.KB).iterdir()) / 1e6, None)
    searched = measure("query_engine", engine, linker / bundle.INDEX, first, truth, json.dumps(search))
    table.add("recall@1", searched["recall_at_1"], None)
    table.add("recall@10", searched["recall_at_10"], "≥ 0.95")
    table.add("queries/s", searched["queries_per_s"], "≥ 1,000")
    _add_usage(table, linker, _docs(data, folder))
    return table


def encoded(data: Path, kb: Path, folder: Path) -> Table:
    """Measure a linker whose names are really encoded, with the fast encoder; this takes minutes."""
    names = KnowledgeBase(kb).n_surface_forms
    table = Table(f"fast-{names}", f"A linker of {names:,} names, by the fast encoder", FAST_PROTOCOL, ["measure", "value", "target"])
    linker, times = folder / f"fast-{_label_of(names)}", folder / f"built-fast-{_label_of(names)}.json"
    if not linker.is_dir():
        times.write_text(json.dumps(measure("build_fast", kb, linker)), encoding="utf-8")
    built = json.loads(times.read_text(encoding="utf-8"))
    table.add("from the knowledge base to the linker, s", built["seconds"], None)
    table.add("of it encoding, s", built["encoding_s"], None)
    table.add("names/s encoded, read from the knowledge base and written", names / built["encoding_s"], None)
    table.add("memory while it is built, MB", built["peak_mb"], "< 24,000")
    table.add("of it the process's own, MB", built["peak_own_mb"], None)
    table.add("files of the index, MB", sum(file.stat().st_size for file in (linker / bundle.INDEX).iterdir()) / 1e6, None)
    for key, label in (("recall_at_1", "recall@1"), ("recall_at_10", "recall@10"), ("queries_per_s", "queries/s")):
        table.add(label, built["chosen"][key], None)
    for key in ("acc_at_1", "acc_at_5"):
        table.add(f"the right concept of a misspelt name, {key[-1]} first, exact search", built["exact"][key], None)
        table.add(f"the right concept of a misspelt name, {key[-1]} first, this index", built["chosen"][key], None)
    _add_usage(table, linker, _docs(data, folder))
    return table


def matcher(data: Path, kb: Path, folder: Path) -> Table:
    """Measure `concept_matcher` over the same names: a first process makes its hashes, a second one opens them."""
    texts, cache = folder / "texts.json", folder / "cache"
    texts.write_text(json.dumps(read_notes(data_file(data, MTSAMPLES), NOTES)), encoding="utf-8")
    shutil.rmtree(cache, ignore_errors=True)
    made, opened = (measure("open_matcher", kb, cache, texts) for _ in range(2))
    protocol = (
        f"concept_matcher over the knowledge base above, in two processes: the first makes its hashes and saves them, the second maps them. own memory: "
        f"what loading added, not mapped from files. words/s over {NOTES} MTSamples notes, tokenised beforehand, the faster of two passes; the notes hold hardly any of the names."
    )
    table = Table(f"matcher-{made['phrases']}", f"concept_matcher: {made['phrases']:,} phrases", protocol, ["measure", "first", "after it"])
    for key, label in (
        ("load_s", "load, s"),
        ("load_cpu_s", "load, CPU s"),
        ("peak_mb", "peak memory, MB"),
        ("own_mb", "own memory, MB"),
        ("words_per_s", "words/s"),
    ):
        table.add(label, made[key], opened[key])
    table.add("files, MB", None, sum(file.stat().st_size for file in cache.rglob("*") if file.is_file()) / 1e6)
    return table


def _label_of(names: int) -> str:
    """Return a label for file names that depends on the engine and its settings, so that a changed recommendation is measured again."""
    return f"{names}-{default_linkers.fingerprint_of(recommended(names)[:2])}"


def _add_usage(table: Table, linker: Path, docs: Path) -> None:
    """Add rows to a table: the time to open a linker, and the memory of workers that share it."""
    loaded = [measure("load_first_doc", linker) for _ in range(3)]
    for key, label, target in (("load_s", "load, s", "< 2"), ("rss_mb", "RSS after the first linked Doc, MB", None)):
        table.add(label, statistics.median(found[key] for found in loaded), target)
    for workers in WORKERS:
        shared = measure("pipe_entities", linker, docs, workers, 1)
        table.add(f"{workers} workers: PSS together, MB", shared["pss_mb"], "< 3,000" if workers == 4 else None)
        table.add(f"{workers} workers: of it not mapped from files, MB", shared["own_mb"], None)
        linked = measure("pipe_entities", linker, docs, workers, 0)
        table.add(f"{workers} workers: mentions/s, start included", linked["mentions"] / linked["seconds"], None)


def _assemble(linker: Path, kb: Path, engine: str, index: Path, encoder: Path) -> None:
    """Make a linker folder from parts that were built separately. Files are hard links where possible, else copies."""
    scratch = linker.with_name(f"{linker.name}.new")
    shutil.rmtree(scratch, ignore_errors=True)
    for source, part in ((kb, bundle.KB), (encoder, bundle.ENCODER), (index, bundle.INDEX)):
        shutil.copytree(source, scratch / part, copy_function=_link)
    opened: Any = registry.sapbert_indexes.get(engine)().from_disk(index)  # type: ignore[attr-defined]
    settings = json.loads((encoder / "spacy_sapbert_encoder.json").read_text(encoding="utf-8"))
    opened.report = {"built_for": {"encoder": settings["fingerprint"], "encoder_name": settings["name"], "kb": KnowledgeBase(kb).fingerprint}}
    (scratch / bundle.INDEX / "manifest.json").unlink()
    opened._write_folder(scratch / bundle.INDEX)
    write_manifest(scratch, bundle.KIND, bundle.VERSION, {"made_by": "benchmarks", "index": engine}, deep=False)
    os.replace(scratch, linker)
    shutil.rmtree(index)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _docs(data: Path, folder: Path) -> Path:
    path = folder / "docs.spacy"
    if not path.is_file():
        nlp = spacy.blank("en")
        nlp.add_pipe("concept_matcher", config={"linker_name": str(hpo_mondo_linker(data))})
        texts: list[str] = read_notes(data_file(data, MTSAMPLES), NOTES)
        DocBin(docs=list(nlp.pipe(texts))).to_disk(path)
    return path
