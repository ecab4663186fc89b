"""Jobs that are measured in their own process, so that imports, caches and memory of one measurement do not affect another.

`python -m benchmarks.worker JOB ARGUMENTS…` prints one line of JSON. Only the standard library is imported before the job begins.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from . import memory

JSON_MARK = "RESULT "
# the same for our linker and scispaCy's, whatever their defaults are
SETTINGS: dict[str, Any] = {
    "k": 30,
    "threshold": 0.7,
    "max_entities_per_mention": 5,
    "resolve_abbreviations": False,
    "filter_for_definitions": False,
}


def measure(job: str, *arguments: Any) -> dict[str, Any]:
    """Run a job in a new process, and return its result.

    Args:
        job: Name of a function in JOBS.
        arguments: Its arguments; they are passed as text.

    Raises:
        RuntimeError: the job failed; the message holds the end of what it printed on stderr.
    """
    environment = {**os.environ, "TQDM_DISABLE": "1", "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "benchmarks.worker", job, *map(str, arguments)]
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=root)
    lines = [line for line in done.stdout.splitlines() if line.startswith(JSON_MARK)]
    if done.returncode or not lines:
        raise RuntimeError(f"{job} failed: {done.stderr[-2000:]}")
    return dict(json.loads(lines[-1][len(JSON_MARK) :]))


# -- service ------------------------------------------------------------------------------------------------------------


def library_rate(notes: str) -> dict[str, Any]:
    """Measure `nlp.pipe` with its records as JSON in a second pass: notes per second, CPU seconds per note, bytes."""
    import spacy_sapbert
    from spacy_sapbert.render import rows

    texts = json.loads(Path(notes).read_text(encoding="utf-8"))
    nlp = spacy_sapbert.load()
    linker: Any = nlp.get_pipe("sapbert_linker")
    for _ in range(2):
        start, used = time.perf_counter(), time.process_time()
        written = [json.dumps(list(rows(doc, linker.kb))) for doc in nlp.pipe(texts, batch_size=16)]
        seconds, cpu = time.perf_counter() - start, time.process_time() - used
    return {"notes_s": len(texts) / seconds, "cpu_s_note": cpu / len(texts), "bytes": sum(map(len, written))}


# -- pipeline -----------------------------------------------------------------------------------------------------------


def pipeline_parts(notes: str, recogniser: str) -> dict[str, Any]:
    """Measure the components of `spacy_sapbert.load()` on notes, twice.

    Args:
        notes: JSON file with a list of texts.
        recogniser: "1" with `clinical_mentions`, "0" without.

    Returns:
        For the pass "cold", and for "warm" over the same notes: component -> CPU seconds for a note; and the words and mentions of a note.
    """
    import torch

    import spacy_sapbert
    from spacy_sapbert.memory import leave_out_of_collections

    torch.set_num_threads(1)
    texts = json.loads(Path(notes).read_text(encoding="utf-8"))
    nlp = spacy_sapbert.load(recogniser=bool(int(recogniser)))
    list(nlp.pipe(["No zebra was seen."]))  # loads all files
    linker: Any = nlp.get_pipe("sapbert_linker")
    linker.index.threads = 1
    leave_out_of_collections()
    found: dict[str, Any] = {}
    for label in ("cold", "warm"):
        start = time.process_time()
        docs = [nlp.make_doc(text) for text in texts]
        found[label] = {"tokenizer": (time.process_time() - start) / len(texts)}
        for name, component in nlp.pipeline:
            start = time.process_time()
            whole = getattr(component, "pipe", None)
            docs = [component(doc) for doc in docs] if whole is None else list(whole(docs, batch_size=64))
            found[label][name] = (time.process_time() - start) / len(texts)
    words = sum(not token.is_space and not token.is_punct for doc in docs for token in doc)
    return {**found, "words": words / len(texts), "mentions": sum(len(doc.ents) for doc in docs) / len(texts)}


# -- load ---------------------------------------------------------------------------------------------------------------


def load_first_doc(folder: str) -> dict[str, Any]:
    """Measure the seconds of the imports, the seconds from add_pipe to the first linked Doc, and memory."""
    start = time.perf_counter()
    import annoy  # noqa: F401
    import spacy
    from transformers import AutoModel, AutoTokenizer, BertModel, BertTokenizerFast  # noqa: F401

    import spacy_sapbert.encoders.transformer
    import spacy_sapbert.indexes.annoy
    import spacy_sapbert.linker  # noqa: F401

    for engine in ("faiss", "usearch.index"):
        with contextlib.suppress(ImportError):
            importlib.import_module(engine)

    imported = time.perf_counter()
    before = memory.rss_mb()
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker", config={"linker_name": folder})
    doc = nlp.make_doc("low muscle tone and seizures of the newborn")
    doc.set_ents([span for span in (doc.char_span(0, 15, label="X"), doc.char_span(20, 43, label="X")) if span is not None])
    linked = nlp(doc)
    end = time.perf_counter()
    return {
        "imports_s": imported - start,
        "load_s": end - imported,
        "linked": [ent.kb_id_ for ent in linked.ents],
        "rss_imports_mb": before,
        "rss_mb": memory.rss_mb(),
        "pss_mb": memory.pss_mb(),
        "peak_mb": memory.peak_mb(),
    }


def open_kb(folder: str) -> dict[str, Any]:
    """Measure the knowledge base alone: open it, look up one name, read its concept."""
    start = time.perf_counter()
    from spacy_sapbert.kb.knowledge_base import KnowledgeBase

    imported = time.perf_counter()
    kb = KnowledgeBase(folder)
    opened = time.perf_counter()
    row = next(iter(kb.find(["seizure"]).values()))
    concept = kb.concept(kb.names_of_surface_form(row)[0][0])
    end = time.perf_counter()
    return {
        "imports_s": imported - start,
        "open_s": opened - imported,
        "first_concept_s": end - opened,
        "concept": concept.concept_id,
        "concepts": len(kb),
        "rss_mb": memory.rss_mb(),
        "pss_mb": memory.pss_mb(),
    }


def pipe_memory(folder: str, notes: str, processes: str) -> dict[str, Any]:
    """Measure the PSS of a pipeline and its workers: the highest of samples that are taken while Docs come out."""
    import spacy

    texts = json.loads(Path(notes).read_text(encoding="utf-8"))
    nlp = spacy.blank("en")
    nlp.add_pipe("concept_matcher", config={"linker_name": folder})
    nlp.add_pipe("sapbert_linker", config={"linker_name": folder})
    nlp(texts[0])
    start, most, workers, mentions = time.perf_counter(), 0.0, 0, 0
    for number, doc in enumerate(nlp.pipe(texts, n_process=int(processes), batch_size=16)):
        mentions += len(doc.ents)
        if number % 16 == 0:
            most, workers = max(most, memory.total_pss_mb() or 0.0), max(workers, len(memory.tree()))
    seconds = time.perf_counter() - start
    return {"pss_mb": most or None, "processes": workers, "seconds": seconds, "notes": len(texts), "mentions": mentions}


def pipe_entities(folder: str, path: str, processes: str, sampled: str) -> dict[str, Any]:
    """Link Docs that have entities, in several processes.

    Returns:
        Seconds, with the start of the workers. If `sampled` is "1", also the highest PSS in MB of all processes together, sampled while
        Docs come out; reading PSS takes as long as linking.
    """
    import spacy

    nlp = spacy.blank("en")
    linker: Any = nlp.add_pipe("sapbert_linker", config={"linker_name": folder})
    docs = _read_docs(path, nlp)
    linker(nlp.make_doc("loaded before the workers start"))
    start, most, own, mentions = time.perf_counter(), 0.0, 0.0, 0
    for number, doc in enumerate(nlp.pipe(docs, n_process=int(processes), batch_size=64)):
        mentions += len(doc.ents)
        if int(sampled) and (number % 16 == 0 or number == len(docs) - 1):
            most, own = max(most, memory.total_pss_mb() or 0.0), max(own, memory.total_own_mb() or 0.0)
    return {"pss_mb": most or None, "own_mb": own or None, "seconds": time.perf_counter() - start, "docs": len(docs), "mentions": mentions}


def annotate_notes(source: str, out: str, engine: str, count: str, address: str) -> dict[str, Any]:
    """Annotate a corpus with local workers or those of a Ray cluster; see `benchmarks/workers.py`."""
    from . import workers

    return workers.annotate_notes(source, out, engine, count, address)


def pipe_texts(folder: str, notes: str, processes: str, threads: str) -> dict[str, Any]:
    """Time a pipeline from texts to links: concept_matcher, `widened`, sapbert_linker.

    Args:
        folder: Folder of the linker.
        notes: JSON file with a list of texts.
        processes: Number of processes.
        threads: Threads of PyTorch and of the index in each process.
    """
    import spacy
    import torch
    from spacy.language import Language

    torch.set_num_threads(int(threads))
    texts = json.loads(Path(notes).read_text(encoding="utf-8"))
    Language.component("widened", func=widened)
    nlp = spacy.blank("en")
    nlp.add_pipe("concept_matcher", config={"linker_name": folder})
    nlp.add_pipe("widened")
    linker: Any = nlp.add_pipe("sapbert_linker", config={"linker_name": folder})
    nlp("Loaded before the workers start: seizures.")
    linker.index.threads = int(threads)
    start, mentions = time.perf_counter(), 0
    for doc in nlp.pipe(texts, n_process=int(processes), batch_size=64):
        mentions += len(doc.ents)
    return {"seconds": time.perf_counter() - start, "docs": len(texts), "mentions": mentions}


def widened(doc: Any) -> Any:
    """Widen each entity by the word before it, if it is a word outside other entities: a recogniser also marks more than a name."""
    from spacy.tokens import Span

    spans, last = [], 0
    for ent in doc.ents:
        start = ent.start - 1 if ent.start > last and doc[ent.start - 1].is_alpha else ent.start
        spans.append(Span(doc, start, ent.end, label=ent.label_))
        last = ent.end
    doc.ents = spans
    return doc


# -- as large as UMLS ---------------------------------------------------------------------------------------------------


def make_umls(folder: str, concepts: str, seed: str, relations: str) -> dict[str, Any]:
    """Write a synthetic release, and return its counts, CPU seconds and peak memory."""
    from .umls_release import write_release

    counts = write_release(Path(folder), int(concepts), seed=int(seed), relations=float(relations))
    return {**counts._asdict(), "cpu_s": time.process_time(), "peak_mb": memory.peak_mb()}


def build_umls(release: str, out: str) -> dict[str, Any]:
    """Measure `kb build` from a release, without the imports."""
    from spacy_sapbert.build.linker import read_source
    from spacy_sapbert.kb.builder import build_kb

    start, cpu = time.perf_counter(), time.process_time()
    source = read_source(Path(release))
    kb = build_kb([source], Path(out))
    counts = kb.manifest["counts"]
    return {
        "cpu_s": time.process_time() - cpu,
        "wall_s": time.perf_counter() - start,
        "peak_mb": memory.peak_mb(),
        "rows": source.stats.rows,
        **{key: counts[key] for key in ("concepts", "names", "strings", "strings_of_several_concepts")},
        "mb": sum(file.stat().st_size for file in Path(out).iterdir()) / 1e6,
        "name": kb.surface_forms_at([kb.n_surface_forms // 2])[0],
    }


def ask_umls(folder: str, name: str) -> dict[str, Any]:
    """Time a large knowledge base: opening, the first lookups, a lookup of 1,000 names, and the linker's mask for semantic types."""
    from types import SimpleNamespace

    from spacy_sapbert.kb.knowledge_base import KnowledgeBase
    from spacy_sapbert.kb.semantic_types import expand

    times = [time.perf_counter()]

    def lap() -> float:
        times.append(time.perf_counter())
        return times[-1] - times[-2]

    kb = KnowledgeBase(folder)
    laps = {"open_s": lap()}
    row = kb.find([name])[name]
    laps["find_s"] = lap()
    concept = kb.concept(kb.names_of_surface_form(row)[0][0])
    laps["concept_s"] = lap()
    found = kb.alias_to_cuis[concept.names[0].text]
    laps["alias_s"] = lap()
    names = kb.surface_forms_at(range(0, kb.n_surface_forms, max(1, kb.n_surface_forms // 1000)))[:1000]
    lap()
    kb.find(names)
    laps["find_1000_s"] = lap()
    peak = memory.peak_mb()
    from spacy_sapbert.search import CandidateSearch
    from spacy_sapbert.settings import Settings

    lap()
    part = SimpleNamespace(kb=kb)  # a real linker would need an index
    search: Any = SimpleNamespace(settings=Settings(), bundle=part, _masks={}, _not_removed=lambda: None)
    mask = CandidateSearch._mask(search, expand(["DISO"]))
    laps["mask_s"] = lap()
    assert mask.names is not None
    return {**laps, "peak_mb": peak, "found": concept.concept_id in found, "masked": int(mask.names.sum())}


def open_matcher(kb: str, cache: str, notes: str) -> dict[str, Any]:
    """Measure concept_matcher: loading, memory, and words per second in the faster of two passes. `cache` keeps its prepared names."""
    import spacy

    os.environ["SPACY_SAPBERT_CACHE"] = cache
    nlp = spacy.blank("en")
    docs = [nlp.make_doc(text) for text in json.loads(Path(notes).read_text(encoding="utf-8"))]
    matcher: Any = nlp.add_pipe("concept_matcher", config={"linker_name": kb})
    before, start, cpu = memory.own_mb() or 0.0, time.perf_counter(), time.process_time()
    matcher.load()
    loaded, took = time.perf_counter() - start, time.process_time() - cpu
    fastest = min(_seconds_of_pass(matcher, docs) for _ in range(2))
    words = sum(not token.is_space and not token.is_punct for doc in docs for token in doc)
    return {
        "phrases": len(matcher),
        "load_s": loaded,
        "load_cpu_s": took,
        "own_mb": (memory.own_mb() or 0.0) - before,
        "peak_mb": memory.peak_mb(),
        "words_per_s": words / fastest,
    }


def _seconds_of_pass(matcher: Any, docs: list[Any]) -> float:
    copies = [doc.copy() for doc in docs]
    start = time.perf_counter()
    for _ in matcher.pipe(copies):
        pass
    return time.perf_counter() - start


# -- engines ------------------------------------------------------------------------------------------------------------


@runtime_checkable
class BuildsInThreads(Protocol):
    """An engine that builds with several threads."""

    build_threads: int  # 0 for one per core


def build_engine(engine: str, settings: str, vectors: str, out: str) -> dict[str, Any]:
    """Build an index of the vectors in a file, on all cores if the engine can, and write it."""
    import numpy as np

    from spacy_sapbert.registry import registry

    index = registry.sapbert_indexes.get(engine)(**json.loads(settings))  # type: ignore[attr-defined]
    if isinstance(index, BuildsInThreads):
        index.build_threads = 0
    stored = np.load(vectors, mmap_mode="r", allow_pickle=False)
    start = time.perf_counter()
    with memory.Peak() as own:
        index.build(stored)
        index.to_disk(Path(out))
    return {"seconds": time.perf_counter() - start, "peak_mb": memory.peak_mb(), "peak_own_mb": own.mb}


def build_fast(kb: str, out: str) -> dict[str, Any]:
    """Build a linker as `index KB --encoder fast --engine auto` does. The time of encoding is also measured on its own."""
    from contextlib import contextmanager

    from spacy_sapbert import bundle
    from spacy_sapbert.build import linker as building
    from spacy_sapbert.encoders.static import StaticEncoder
    from spacy_sapbert.indexes.auto import recommended
    from spacy_sapbert.kb.knowledge_base import KnowledgeBase
    from spacy_sapbert.registry import registry

    names = KnowledgeBase(kb).n_surface_forms
    engine, settings, _why = recommended(names)
    index = registry.sapbert_indexes.get(engine)(**settings)  # type: ignore[attr-defined]
    encode, encoding = building.encoded, []

    @contextmanager
    def timed(*args: Any, **kwargs: Any) -> Any:
        begun = time.perf_counter()
        with encode(*args, **kwargs) as vectors:
            encoding.append(time.perf_counter() - begun)
            yield vectors

    building.encoded = timed
    start = time.perf_counter()
    with memory.Peak() as own:
        building.build_linker([], out, kb=kb, model=StaticEncoder(), index=index, progress=False)
    seconds = time.perf_counter() - start
    report = json.loads((Path(out) / bundle.INDEX / "manifest.json").read_text(encoding="utf-8"))["report"]
    return {
        "engine": engine,
        "seconds": seconds,
        "encoding_s": encoding[0],
        "names": names,
        "peak_mb": memory.peak_mb(),
        "peak_own_mb": own.mb,
        "exact": report["exact"],
        "chosen": report["chosen"],
    }


def query_engine(engine: str, folder: str, queries: str, truth: str, settings: str = "{}") -> dict[str, Any]:
    """Open an index and search it twice. Return recall, queries per second of the second round, and memory in MB."""
    import numpy as np
    import torch  # noqa: F401  # every linker imports it, so its memory does not count

    from spacy_sapbert.registry import registry

    make = registry.sapbert_indexes.get(engine)  # type: ignore[attr-defined]
    vectors, right = np.load(queries, allow_pickle=False), np.load(truth, allow_pickle=False)
    before = memory.rss_mb() or 0.0
    index = make(**json.loads(settings)).from_disk(Path(folder))
    seconds = 0.0
    for _ in range(2):
        start = time.perf_counter()
        rows, _cosines = index.query(vectors, right.shape[1])
        seconds = time.perf_counter() - start
    shared = [len(set(a) & set(b)) / len(b) for a, b in zip(rows.tolist(), right.tolist())]
    return {
        "recall_at_1": float((rows[:, 0] == right[:, 0]).mean()),
        "recall_at_10": float(np.mean(shared)),
        "queries_per_s": len(vectors) / seconds,
        "memory_mb": (memory.rss_mb() or 0.0) - before,
    }


def query_filtered(folder: str, queries: str, mask: str) -> dict[str, Any]:
    """Search a Milvus index with a filter that is applied here, and by the server; see `benchmarks/filters.py`."""
    from . import filters

    return filters.query_filtered(folder, queries, mask)


def encode_and_bare(kb: str, count: str) -> dict[str, Any]:
    """Return names per second of the encoder, and of its transformer alone on tokenised and sorted names; the faster of two rounds each."""
    import numpy as np
    import torch

    from spacy_sapbert.encoders.transformer import NameEncoder, use_bfloat16
    from spacy_sapbert.kb.knowledge_base import KnowledgeBase

    opened = KnowledgeBase(kb)
    names = opened.surface_forms_at(np.sort(np.random.default_rng(13).permutation(opened.n_surface_forms)[: int(count)]).tolist())
    model = NameEncoder().initialize()
    objects = model.hf_model
    ids = sorted(objects.tokenizer(names, truncation=True, max_length=25)["input_ids"], key=len)
    batches = [objects.tokenizer.pad({"input_ids": ids[i : i + 64]}, return_tensors="pt") for i in range(0, len(ids), 64)]
    fastest = {"bare": 0.0, "ours": 0.0}
    for _ in range(2):
        start = time.perf_counter()
        with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=use_bfloat16("auto", torch.device("cpu"))):
            for batch in batches:
                objects.transformer(**batch)
        fastest["bare"] = max(fastest["bare"], len(names) / (time.perf_counter() - start))
        start = time.perf_counter()
        model.predict(names)
        fastest["ours"] = max(fastest["ours"], len(names) / (time.perf_counter() - start))
    return {**fastest, "ratio": fastest["ours"] / fastest["bare"]}


# -- throughput ---------------------------------------------------------------------------------------------------------


class Clock:
    """Proxy for an object that adds up the time spent in some of its methods."""

    def __init__(self, behind: Any, methods: list[str]) -> None:
        self.__dict__.update(_behind=behind, _methods=methods, seconds=0.0)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._behind, name)
        if name not in self._methods:
            return found

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return found(*args, **kwargs)
            finally:
                self.__dict__["seconds"] += time.perf_counter() - start

        return timed

    def __len__(self) -> int:
        return len(self._behind)


def _read_docs(path: str, nlp: Any) -> list[Any]:
    from spacy.tokens import DocBin

    return list(DocBin().from_disk(path).get_docs(nlp.vocab))


def _passes(link: Callable[[list[Any]], None], path: str, nlp: Any, passes: int) -> list[float]:
    seconds = []
    for _ in range(passes):
        docs = _read_docs(path, nlp)  # fresh copies: only the linker's own cache remembers the previous pass
        gc.collect()  # else the objects of loading are collected while the linker is timed
        start = time.perf_counter()
        link(docs)
        seconds.append(time.perf_counter() - start)
    return seconds


def throughput_ours(folder: str, path: str) -> dict[str, Any]:
    """Time two passes of the linker over the same Docs: cold, then warm."""
    import spacy

    nlp = spacy.blank("en")
    linker: Any = nlp.add_pipe("sapbert_linker", config={"linker_name": folder, **SETTINGS})
    loaded = _loaded(linker, nlp)
    model, index = Clock(linker.model, ["encode"]), Clock(linker.index, ["query", "vectors", "neighbours"])
    linker.bundle = replace(linker.bundle, encoder=model, index=index)
    inside: list[float] = []

    def link(docs: list[Any]) -> None:
        before = model.seconds + index.seconds
        for _ in linker.pipe(docs):
            pass
        inside.append(model.seconds + index.seconds - before)

    cold, warm = _passes(link, path, nlp, 2)
    return {**loaded, "cold_s": cold, "warm_s": warm, "inside_cold_s": inside[0], "model_s": model.seconds, "index_s": index.seconds, **_end()}


def throughput_scispacy(folder: str, path: str) -> dict[str, Any]:
    """Time two passes of scispaCy's EntityLinker. It has no cache, so both do the same work."""
    import spacy

    from .scispacy_peer import load

    nlp = spacy.blank("en")
    linker = load(Path(folder), **SETTINGS)
    loaded = _loaded(linker, nlp)

    def link(docs: list[Any]) -> None:
        for doc in docs:
            linker(doc)

    cold, warm = _passes(link, path, nlp, 2)
    return {**loaded, "cold_s": cold, "warm_s": warm, **_end()}


def _loaded(linker: Any, nlp: Any) -> dict[str, Any]:
    """Link one Doc, so that the later timing does not include loading."""
    doc = nlp.make_doc("a mention of nothing")
    doc.set_ents([doc.char_span(2, 20, label="X")])
    linker(doc)
    return {"loaded_rss_mb": memory.rss_mb()}


def _end() -> dict[str, Any]:
    return {"peak_mb": memory.peak_mb(), "rss_mb": memory.rss_mb(), "pss_mb": memory.pss_mb()}


JOBS: dict[str, Callable[..., dict[str, Any]]] = {
    job.__name__: job
    for job in (
        library_rate,
        pipeline_parts,
        load_first_doc,
        open_kb,
        pipe_memory,
        pipe_entities,
        annotate_notes,
        pipe_texts,
        encode_and_bare,
        make_umls,
        build_umls,
        ask_umls,
        open_matcher,
        build_engine,
        build_fast,
        query_engine,
        query_filtered,
        throughput_ours,
        throughput_scispacy,
    )
}

if __name__ == "__main__":
    print(JSON_MARK + json.dumps(JOBS[sys.argv[1]](*sys.argv[2:])))
