"""Compare index engines: build time, files, memory, recall and speed, on real names and on synthetic vectors that resemble them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from spacy_sapbert import bundle
from spacy_sapbert.build.default_linkers import find_linker
from spacy_sapbert.build.tune import misspell
from spacy_sapbert.encoders.transformer import NameEncoder
from spacy_sapbert.indexes.auto import GRAPH, LISTS, SMALL_GRAPH, lists_of
from spacy_sapbert.indexes.stored import exact_search
from spacy_sapbert.kb.knowledge_base import KnowledgeBase

from .common import ARTEFACTS, Report, Table, hpo_mondo_linker
from .filters import filters
from .memory import pss_mb
from .vectors import like
from .worker import measure

SECTION = "engines"
QUERIES, DEPTH = 2_000, 10
SIZES: tuple[int, ...] = (0, 1_000_000)  # 0: only the real names. For ten million: --size 10000000
LINKER = ""  # --linker: the linker whose names are measured instead of those of HPO and MONDO
MILVUS, MILVUS_PID = "", 0  # --milvus, --milvus-pid: the address of a server, and its process id if it is on this machine
E, A, L, U, F, M = (f"spacy-sapbert.{name}Index.v1" for name in ("Exact", "Annoy", "Lists", "Usearch", "Faiss", "Milvus"))
# (engine, settings, largest number of vectors at which it is measured); settings have the engine's own names
SETTINGS: list[tuple[str, dict[str, Any], float]] = [
    (E, {}, 2e6),
    (A, {"search_k": 0, "pca": 0, "rescore": 10}, 4e5),
    (A, {"search_k": 5_000, "pca": 64}, 4e5),
    (A, {"search_k": 20_000, "pca": 64}, 2e7),
    (A, {"search_k": 20_000, "pca": 128}, 4e5),
    (L, {}, 4e5),
    (U, {"dtype": "f32"}, 4e5),
    (U, {}, 4e5),
    (U, {"expansion_search": 128, "rescore": 100}, 4e5),
    (U, {"dtype": "i8"}, 2e6),
    (U, dict(GRAPH), 2e6),  # what `auto` takes below two million names
    (U, dict(SMALL_GRAPH), 2e6),  # what `auto` takes for millions, if Faiss is not installed
    (F, {}, 4e5),
    (F, {"factory": "IVF1024,SQ8", "search": 16}, 4e5),
    (F, {"factory": "IVF4096,PQ64", "search": 32, "pca": 128, "rescore": 200}, 2e6),
    (F, {"factory": f"IVF{lists_of(1_000_000)},SQ8", **LISTS}, 2e6),
    (F, {"factory": f"IVF{lists_of(10_000_000)},SQ8", **LISTS}, 2e7),  # what `auto` takes for ten million
    (M, {}, 4e5),  # milvus-lite
    (M, {"pca": 128, "rescore": 100}, 4e5),
]
# with --milvus: what is measured beside the server, and the server's settings
BESIDE: list[tuple[str, dict[str, Any]]] = [(E, {}), (A, {"search_k": 20_000, "pca": 64}), (L, {}), (U, dict(GRAPH)), (F, {})]
SERVED: list[dict[str, Any]] = [{}, {"pca": 128, "rescore": 100}, {"index_type": "IVF_SQ8", "params": {"nlist": 1024}, "search": 16}]
TIMEOUT = 300.0  # seconds for an answer of a server: other programs may use its machine
PROTOCOL = (
    f"{QUERIES:,} names with a typo, another word order or a word less, none of which is in the dictionary, encoded by the linker's encoder; exact float32 "
    f"search is the truth; every setting that is not named is the engine's default. Each index is built and searched in its own processes, on two threads (Annoy is built "
    "on one). build: seconds, without encoding. files: the index folder, with the float16 vectors for rescoring. memory: resident after the queries, "
    "minus what Python and its libraries take; of mapped files the parts that were read; for a server also the growth of its process since the run began, with one collection "
    "at a time. exact = 1: queries per second as a multiple of "
    "ExactIndex's in the same run."
)


def run(data: Path, report: Report) -> None:
    """Measure the engines at each size."""
    linker = find_linker(LINKER) if LINKER else hpo_mondo_linker(data)
    folder = ARTEFACTS / "engines" / (Path(LINKER).name if LINKER else "")
    real = np.load(linker / bundle.INDEX / "vectors.npy", mmap_mode="r", allow_pickle=False)
    asked = queries(linker, folder)
    for size in SIZES if not LINKER else (0,):
        vectors = linker / bundle.INDEX / "vectors.npy"
        if size:
            vectors = folder / f"like-{size}.npy"
            if not vectors.is_file():
                like(real, size, vectors)
        report.add(SECTION, engines(vectors, asked, folder, size))
    if MILVUS:
        report.add(SECTION, filters(linker, MILVUS, asked, folder))
        drop_collection(folder / "index")


def engines(vectors: Path, asked: Path, folder: Path, size: int) -> Table:
    """Measure every engine on a file of vectors."""
    stored = np.load(vectors, mmap_mode="r", allow_pickle=False)
    truth, _ = exact_search(stored, np.load(asked, allow_pickle=False), DEPTH)
    np.save(folder / "truth.npy", truth)
    what = (
        f"names of the linker {LINKER}"
        if LINKER
        else "real names (HPO and MONDO)"
        if not size
        else "vectors with the real ones' spectrum and neighbour distances (benchmarks/vectors.py)"
    )
    columns = ["engine", "setting", "build, s", "files, MB", "memory, MB", "recall@1", "recall@10", "queries/s", "exact = 1"]
    table = Table(f"engines-{len(stored)}", f"Engines, {len(stored):,} {what}", PROTOCOL, columns)
    exact, idle = 0.0, pss_mb(MILVUS_PID) or 0.0 if MILVUS_PID else 0.0
    given = [(engine, settings) for engine, settings, largest in SETTINGS if len(stored) <= largest]
    if MILVUS:  # after the exact search: if the server fails, that is seen before the other engines are measured
        given = [*BESIDE[:1], *((M, {**settings, "uri": MILVUS}) for settings in SERVED), *BESIDE[1:]]
    for engine, settings in given:
        out = folder / "index"
        shutil.rmtree(out, ignore_errors=True)
        patient = {"timeout": TIMEOUT} if "uri" in settings else {}
        built = measure("build_engine", engine, json.dumps({**settings, **patient}), vectors, out)
        found = measure("query_engine", engine, out, asked, folder / "truth.npy", json.dumps(patient))
        if "uri" in settings:
            found["memory_mb"] += (pss_mb(MILVUS_PID) or 0.0) - idle if MILVUS_PID else 0.0
            drop_collection(out)
        if engine == E:
            exact = found["queries_per_s"]
        table.add(
            engine.removeprefix("spacy-sapbert.").removesuffix(".v1"),
            setting_of(settings),
            built["seconds"],
            sum(file.stat().st_size for file in out.rglob("*") if file.is_file()) / 1e6,
            found["memory_mb"],
            found["recall_at_1"],
            found["recall_at_10"],
            found["queries_per_s"],
            found["queries_per_s"] / exact if exact else None,
        )
    shutil.rmtree(folder / "index", ignore_errors=True)
    return table


def setting_of(settings: dict[str, Any]) -> str:
    """Return the settings of an engine in words; "as it comes" for none."""
    flat = {name: value for key, given in settings.items() for name, value in (given if isinstance(given, dict) else {key: given}).items()}
    return ", ".join("server" if key == "uri" else f"{key} {value}" for key, value in flat.items()) or "as it comes"


def drop_collection(index: Path) -> None:
    """Drop the collection of an index from the server, so that the next index is measured without it."""
    from pymilvus import MilvusClient

    client = MilvusClient(MILVUS)
    client.drop_collection(json.loads((index / "manifest.json").read_text(encoding="utf-8"))["milvus"]["collection"])
    client.close()


def queries(linker: Path, folder: Path) -> Path:
    """Return the file with the vectors of misspelt names, float32 (q, d), and make it if it is missing."""
    path = folder / "queries.npy"
    if not path.is_file():
        kb = KnowledgeBase(linker / bundle.KB)
        texts = [text for text, _ in misspell(list(kb.surface_forms()), lambda text: bool(kb.find([text])), QUERIES)]
        folder.mkdir(parents=True, exist_ok=True)
        np.save(path, bundle.open_encoder(linker / bundle.ENCODER, NameEncoder()).encode(texts))
    return path
