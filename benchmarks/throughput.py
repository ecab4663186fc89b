"""Measure the speed of the linker, the matcher and scispaCy on the same mentions of the same notes in one run."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import spacy
from spacy.tokens import Doc, DocBin

from spacy_sapbert import bundle
from spacy_sapbert.build import default_linkers
from spacy_sapbert.build import linker as building
from spacy_sapbert.encoders.transformer import NameEncoder
from spacy_sapbert.indexes.auto import recommended
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.matcher.component import ConceptMatcher
from spacy_sapbert.registry import registry
from training.corpora import read_notes

from . import scispacy_peer
from .common import ARTEFACTS, Missing, Report, Table, data_file, hpo_mondo_linker, once
from .linking import MTSAMPLES
from .worker import measure

SECTION = "throughput"
NOTES = 500
MANY = 1_000  # notes for `scaling`; with fewer, starting the workers would take most of the time
ENCODED = 20_000  # names for `encoders`
SCISPACY = "scispaCy EntityLinker"
PROCESSES = {"one process of one thread": (1, 1), "two processes of one thread each": (2, 1), "one process of two threads": (1, 2)}
ROUNDS = 3  # in each round every system runs once, in a fresh process
KNOWLEDGE: list[tuple[str, str, Callable[[Path], Path]]] = [
    ("hpo", "HPO, the linker `hpo`", lambda data: default_linkers.find_linker("hpo")),
    ("hpo-mondo", "HPO + MONDO", hpo_mondo_linker),
    ("open", "the open vocabulary, the linker `open`", lambda data: default_linkers.find_linker("open")),
]
PROTOCOL = (
    f"{NOTES} distinct MTSamples notes with entities that concept_matcher found beforehand over the same knowledge base. Only the linker is timed (our `pipe`; "
    "scispaCy's EntityLinker has no `pipe` and is called for each Doc), over fresh copies of the Docs. Same names, k = 30, threshold 0.7, at most 5 "
    "entities, no abbreviations, no filter for definitions. Each system in a process of its own, models loaded and garbage collected before; the systems take turns, "
    f"{ROUNDS} rounds, medians. cold: no mention was seen before; warm: the same notes again, which are in our cache (scispaCy has no cache). "
    "peak MB: the process's highest resident memory, with the Docs."
)


def run(data: Path, report: Report) -> None:
    """Measure encoder, processes, matcher and linkers."""
    notes = read_notes(data_file(data, MTSAMPLES), NOTES)
    report.add(SECTION, encoders(hpo_mondo_linker(data)))
    report.add(SECTION, scaling(data, default_linkers.find_linker("hpo")))
    for name, label, find in KNOWLEDGE:
        linker = find(data)
        table, docs = match(notes, linker, name, label)
        report.add(SECTION, table)
        path = ARTEFACTS / f"notes-{name}.spacy"
        DocBin(docs=docs).to_disk(path)
        report.add(SECTION, link(linker, path, docs, name, label))


def encoders(linker: Path) -> Table:
    """Compare the speed of the encoder with that of its bare model, to see what the code around the model costs."""
    found = [measure("encode_and_bare", linker / bundle.KB, ENCODED) for _ in range(ROUNDS)]
    protocol = (
        f"{ENCODED:,} names of HPO and MONDO, drawn with a fixed seed. bare: the same transformer on the same names, tokenised beforehand, sorted by length, 64 at a time, "
        "bfloat16 where the processor has it; its outputs are not pooled and not kept. encoder: names in, normalised float32 vectors out. Both in turn in one process, "
        f"{ROUNDS} processes, medians."
    )
    table = Table("encoder", "Encoder", protocol, ["measure", "value", "target"])
    for key, label, target in (
        ("bare", "bare model, names/s", None),
        ("ours", "encoder, names/s", None),
        ("ratio", "encoder over bare model", "≥ 0.8"),
    ):
        table.add(label, statistics.median(result[key] for result in found), target)
    return table


def scaling(data: Path, linker: Path) -> Table:
    """Compare pipelines with one and with two processes."""
    texts = ARTEFACTS / f"texts-{MANY}.json"
    texts.parent.mkdir(parents=True, exist_ok=True)
    texts.write_text(json.dumps(read_notes(data_file(data, MTSAMPLES), MANY)), encoding="utf-8")
    protocol = (
        f"nlp.pipe(n_process=N) over the texts of {MANY:,} MTSamples notes, 64 at a time, HPO: concept_matcher, sapbert_linker, and between them a component that "
        "adds to each entity the word before it, as a recogniser marks more than a name. So hardly any entity is an exact match, and linking means encoding and searching. "
        "Seconds include starting the workers, sending texts to them and Docs back. threads: of PyTorch and of the index in each process; one process "
        "that may use both cores uses them in the index. Each process encodes a repeated mention once, so two processes encode more. "
        f"Medians of {ROUNDS} fresh processes each, in turn."
    )
    table = Table("scaling", "Processes", protocol, ["processes", "notes/s", "one process of one thread = 1", "target"])
    runs: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for label, (processes, threads) in PROCESSES.items():
            found = measure("pipe_texts", linker, texts, processes, threads)
            runs.setdefault(label, []).append(found["docs"] / found["seconds"])
    speeds = {label: statistics.median(values) for label, values in runs.items()}
    for label, speed in speeds.items():
        table.add(label, speed, speed / speeds["one process of one thread"], "≥ 1.6" if PROCESSES[label][0] == 2 else None)
    return table


def match(notes: list[str], linker: Path, name: str, label: str) -> tuple[Table, list[Doc]]:
    """Measure the matcher.

    Returns:
        The table, and the Docs with the entities on which the linkers are measured.
    """
    nlp = spacy.blank("en")
    nlp.max_length = 10_000_000
    start = time.perf_counter()
    matcher = ConceptMatcher(nlp, linker_name=str(linker))
    matcher.load()
    built = time.perf_counter() - start
    docs = [nlp.make_doc(note) for note in notes]
    words = sum(not token.is_space and not token.is_punct for doc in docs for token in doc)
    seconds = []
    for _ in range(ROUNDS):
        copies = [doc.copy() for doc in docs]
        start = time.perf_counter()
        copies = list(matcher.pipe(copies))
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    protocol = f"concept_matcher over {label} on {NOTES} MTSamples notes, tokenised beforehand; median of {ROUNDS} passes in one process."
    table = Table(f"matcher, {name}", f"Matcher: {label}", protocol, ["measure", "value", "target"])
    table.add("names looked for", len(matcher), None)
    table.add("seconds to build (names from the knowledge base)", built, "< 10")
    table.add("words", words, None)
    table.add("entities found", sum(len(doc.ents) for doc in copies), None)
    table.add("words/s", words / median, "≥ 20,000")
    table.add("notes/s", len(notes) / median, None)
    return table, copies


def link(linker: Path, path: Path, docs: list[Doc], name: str, label: str) -> Table:
    """Measure our linkers and scispaCy on the same Docs, with a cold and a warm cache."""
    kb = KnowledgeBase(linker / bundle.KB)
    mentions = sum(len(doc.ents) for doc in docs)
    distinct = len({ent.text.lower() for doc in docs for ent in doc.ents})
    title = f"Linker: {label}, {mentions:,} mentions ({distinct:,} distinct), {kb.n_surface_forms:,} names"
    columns = ["system", "cache", "mentions/s", "notes/s", "ratio", "target", "peak MB"]
    table = Table(f"linker, {name}", title, PROTOCOL, columns)
    try:
        peer = scispacy_peer.peer(kb, name)
    except Missing as why:
        peer = None
        table.notes.append(f"scispaCy: not measured. {why}")
    ours = {"sapbert_linker, Annoy": linker, "sapbert_linker, engine auto": auto_linker(linker, name)}
    found: dict[str, list[dict[str, Any]]] = {}
    for _ in range(ROUNDS):
        for system, folder in ours.items():
            found.setdefault(system, []).append(measure("throughput_ours", folder, path))
        if peer is not None:
            found.setdefault(SCISPACY, []).append(measure("throughput_scispacy", peer, path))

    def median(system: str, key: str) -> float:
        return statistics.median(float(result[key]) for result in found[system])

    for cache, target in (("cold", "≥ 3"), ("warm", "≥ 5")):
        for system in found:
            seconds = median(system, f"{cache}_s")
            ratio = median(SCISPACY, f"{cache}_s") / seconds if peer is not None else None
            table.add(system, cache, mentions / seconds, len(docs) / seconds, ratio, target if system in ours else None, median(system, "peak_mb"))
    for system in ours:
        total, inside = median(system, "cold_s"), median(system, "inside_cold_s")
        table.notes.append(
            f"{system}, cold: {100 * (1 - inside / total):.0f}% of the time is spent outside the encoder and the index (target: at most 20%); "
            f"encoder {median(system, 'model_s'):.2f} s, index {median(system, 'index_s'):.2f} s of {total:.2f} s."
        )
    return table


def auto_linker(linker: Path, name: str) -> Path:
    """Return the folder of a linker over the same names, with the same encoder, and with the engine that `index --engine auto` chooses."""

    def build(out: Path) -> None:
        engine, settings, _why = recommended(KnowledgeBase(linker / bundle.KB).n_surface_forms)
        encoder = bundle.open_encoder(linker / bundle.ENCODER, NameEncoder())
        index = registry.sapbert_indexes.get(engine)(**settings)  # type: ignore[attr-defined]
        building.build_linker([], out, kb=linker / bundle.KB, model=encoder, index=index, progress=False)

    return once(f"auto-{name}", build)
