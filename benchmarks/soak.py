"""Run for a long time: link mixed Docs, then load and unload the linker many times, and measure at intervals what a process may leak."""

from __future__ import annotations

import gc
import json
import os
import random
import re
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spacy_sapbert.memory import return_free_memory

from .common import ROOT, Missing, Report, Table
from .memory import PROC, own_mb, tree

DOCS = 20_000
LOADS = 200
ROWS = 20  # rows of each table
LINKER = "hpo"
SEED = 20
TEXTS = 5_000  # different texts, from which the Docs are drawn: each new word stays in spaCy's vocabulary and in caches, which must first be full
BATCH = 64
GROWTH = 1.05  # the memory at the end may be so many times that of the middle
LEAKS = ("descriptors", "threads", "processes", "temporary files")
COLUMNS = ["after", "memory MB", "given back MB", *LEAKS, "strings", "seconds"]
PROTOCOL = (
    "Docs are drawn from {texts} texts: sentences, pieces and whole notes of examples/, some with misspelt words, other scripts, control characters or nothing at all. "
    "They go through the pipeline of `spacy_sapbert.load()` with the linker {linker} on one thread; each Doc becomes JSON records. memory: not mapped from files; given back: after the free memory was given back to the system, "
    "as a worker of `annotate` does after each partition, and the service after a thousand texts. "
    "temporary files: in the folder of temporary files, which was empty. strings: in spaCy's vocabulary, which keeps each new word. Loads: load the pipeline, link a sentence, drop it."
)
STRANGE = [
    "",
    " \n\t",
    "発熱と咳",
    "لا يوجد حمى",
    "fever\u0000cough",
    "a" * 3000,
    "\u202efever\u202c",
    "1/2/3 " * 200,
    "🫀 pain",
    "Z" + "\u0301" * 50,
]


def run(data: Path, report: Report) -> None:
    """Link Docs, then load and unload, and print a table of each.

    Args:
        data: not used.
        report: takes the tables.

    Raises:
        Missing: something grew; the message says what.
    """
    import torch

    import spacy_sapbert
    from spacy_sapbert.render import rows

    torch.set_num_threads(1)
    texts = mixed(notes(), TEXTS)
    chance = random.Random(SEED)
    protocol = PROTOCOL.format(linker=LINKER, texts=f"{TEXTS:,}")
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        os.environ["TMPDIR"], tempfile.tempdir = folder, None
        nlp = spacy_sapbert.load(LINKER)
        linker: Any = nlp.get_pipe("sapbert_linker")
        docs = Table("soak", "Many Docs in one process", protocol, COLUMNS)
        begun, mentions = time.perf_counter(), 0
        every = max(1, DOCS // ROWS)
        for number, doc in enumerate(nlp.pipe((chance.choice(texts) for _ in range(DOCS)), batch_size=BATCH), start=1):
            mentions += sum(1 for row in rows(doc, linker.kb) if json.dumps(row))
            if number % every == 0:
                docs.add(number, *measure(Path(folder)), len(nlp.vocab.strings), time.perf_counter() - begun)
        docs.notes.append(f"{DOCS:,} Docs with {mentions:,} mentions.")
        report.add("soak", docs)
        del nlp, linker, doc
        loads = Table("loads", "Loads and unloads in one process", protocol, COLUMNS)
        begun = time.perf_counter()
        for number in range(1, LOADS + 1):
            nlp = spacy_sapbert.load(LINKER)
            assert nlp("He has a fever and seizures.").ents
            strings = len(nlp.vocab.strings)
            del nlp
            gc.collect()
            if number % max(1, LOADS // ROWS) == 0:
                loads.add(number, *measure(Path(folder)), strings, time.perf_counter() - begun)
        report.add("soak", loads)
    if found := [*grown(docs), *grown(loads)]:
        raise Missing(f"Something grew: {'; '.join(found)}.")


def notes() -> list[str]:
    """Return the invented notes of examples/, as texts."""
    return [path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples" / "notes").glob("*.txt"))]


def mixed(texts: list[str], count: int) -> list[str]:
    """Return `count` texts of many kinds; the same count gives the same texts."""
    return list(_mixed(texts, count))


def _mixed(texts: list[str], count: int) -> Iterator[str]:
    chance = random.Random(SEED)
    sentences = [part for text in texts for part in re.split(r"(?<=[.:])\s+", text) if part]
    words = sorted({word for text in texts for word in re.findall(r"[a-z]{4,}", text)})
    for _ in range(count):
        kind = chance.random()
        if kind < 0.03:
            yield chance.choice(texts)
        elif kind < 0.06:
            yield chance.choice(STRANGE)
        elif kind < 0.16:
            yield f"{chance.choice(sentences)} {' '.join(_misspelt(chance, chance.choice(words)) for _ in range(2))}."
        elif kind < 0.3:
            text = chance.choice(texts)
            start = chance.randrange(len(text))
            yield text[start : start + chance.randrange(300)]
        else:
            yield " ".join(chance.choices(sentences, k=chance.randrange(1, 4)))


def _misspelt(chance: random.Random, word: str) -> str:
    place = chance.randrange(len(word))
    return word[:place] + chance.choice("abcdefghijklmnopqrstuvwxyz") + word[place + chance.randrange(2) :]


def measure(folder: Path) -> tuple[float | None, float | None, int, int, int, int]:
    """Return memory in MB before and after it is given back, and the numbers of descriptors, threads, processes, and temporary files."""
    gc.collect()
    before = own_mb()
    return_free_memory()
    files = len(list((PROC / "self" / "fd").iterdir())) - 1  # without the one that reads this folder
    return before, own_mb(), files, threading.active_count(), len(tree()), sum(1 for _ in folder.rglob("*"))


def grown(table: Table) -> list[str]:
    """Return in words what grew between the middle of a table and its end."""
    if len(table.rows) < 4:
        return []
    middle, end = (dict(zip(table.columns, table.rows[place])) for place in (len(table.rows) // 2 - 1, -1))
    found = [f"{table.name}: {name} {middle[name]} -> {end[name]}" for name in LEAKS if (end[name] or 0) > (middle[name] or 0)]  # type: ignore[operator]
    memory = (middle["given back MB"], end["given back MB"])
    if isinstance(memory[0], float) and isinstance(memory[1], float) and memory[1] > GROWTH * memory[0]:
        found.append(f"{table.name}: memory {memory[0]:.0f} -> {memory[1]:.0f} MB")
    return found
