"""Compare two ways to search Milvus with a filter: rows are left out here, as the engine does it, or by the server, which gets their numbers."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from spacy_sapbert import bundle
from spacy_sapbert.indexes.milvus import MilvusIndex
from spacy_sapbert.indexes.milvus.collection import ROW
from spacy_sapbert.indexes.rescored import EXACT_PER_FETCHED, EXTRA, OVERFETCH
from spacy_sapbert.indexes.stored import exact_search
from spacy_sapbert.kb import semantic_types
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.types import Bools1d

from .common import Table
from .worker import measure

GROUPS = ("DISO", "CHEM")
QUERIES, DEPTH = 256, 30  # one request of the engine; the candidates that a linker asks for
BUDGETS = (1, 4)
TIMEOUT = 300.0
PROTOCOL = (
    f"One request of {QUERIES} misspelt names for {DEPTH} names each; the truth is exact search among the allowed names. here: the engine asks for more rows "
    "than needed, and leaves out those that are not allowed. server: it gets the numbers of the allowed rows, or of the others, whichever is shorter, and searches with the "
    "same `ef`, or with four times as many. bytes: length of that filter. The faster of two rounds, one thread."
)


def filters(linker: Path, uri: str, asked: Path, out: Path) -> Table:
    """Measure both ways on the linker's names, for the groups of semantic types of which so many names are allowed that the engine is asked."""
    index = MilvusIndex(uri, tune=False, timeout=TIMEOUT)
    index.build(np.load(linker / bundle.INDEX / "vectors.npy", mmap_mode="r", allow_pickle=False))
    index.to_disk(out / "index")
    index.close()
    columns = ["filter", "way", "share", "bytes", "ef", "recall@30", "queries/s"]
    table = Table("filters", f"Filters, {len(index):,} names on a server of Milvus", PROTOCOL, columns)
    for group in GROUPS:
        allowed = of_group(linker, group)
        if not allowed.any() or allowed.sum() < EXACT_PER_FETCHED * fetched(allowed):
            continue
        np.save(out / "allowed.npy", allowed)
        for row in measure("query_filtered", out / "index", asked, out / "allowed.npy")["rows"]:
            table.add(group, *row)
    return table


def of_group(linker: Path, group: str) -> Bools1d:
    """Return a mask (n,) of the names of concepts in a group of semantic types."""
    kb = KnowledgeBase(linker / bundle.KB)
    rows = kb.allowed_type_sets(semantic_types.expand([group]))[kb.name_table.types]
    return kb.name_table.surface_forms_of(rows, kb.n_surface_forms)


def fetched(allowed: Bools1d) -> int:
    """Return how many rows an engine is asked for under a filter."""
    return int(DEPTH * len(allowed) / int(allowed.sum()) * OVERFETCH) + EXTRA


def expression(allowed: Bools1d) -> str:
    """Return Milvus's filter for the allowed rows: their numbers, or those of the others if that is shorter."""
    few, sign = min((np.flatnonzero(allowed), "in"), (np.flatnonzero(~allowed), "not in"), key=lambda pair: len(pair[0]))
    return f"{ROW} {sign} [{','.join(map(str, few.tolist()))}]"


class FilteredIndex(MilvusIndex):
    """A Milvus index whose searches send a filter."""

    sent = ""

    def _opened(self) -> Any:
        return _Filtering(super()._opened(), self.sent)


class _Filtering:
    """A session that adds a filter to each search."""

    def __init__(self, session: Any, sent: str) -> None:
        self.session, self.sent = session, sent

    def call(self, doing: str, method: str, *args: Any, **named: Any) -> Any:
        return self.session.call(doing, method, *args, **named, **({"filter": self.sent} if method == "search" else {}))


def query_filtered(folder: str, queries: str, mask: str) -> dict[str, Any]:
    """Search an index both ways. Return the rows of the table, without their first column."""
    allowed = np.load(mask, allow_pickle=False)
    index = FilteredIndex(timeout=TIMEOUT, threads=1)
    index.from_disk(Path(folder))
    vectors = np.load(queries, allow_pickle=False)[:QUERIES]
    truth, _ = exact_search(index._stored, vectors, DEPTH, np.flatnonzero(allowed))
    share, fetch, rows = float(allowed.mean()), fetched(allowed), []

    def timed(search: Any) -> tuple[float, float]:
        seconds, found = [], truth
        for _ in range(2):
            start = time.perf_counter()
            found, _cosines = search()
            seconds.append(time.perf_counter() - start)
        recall = float(np.mean([len(set(one) & set(other)) / DEPTH for one, other in zip(found.tolist(), truth.tolist())]))
        return recall, len(vectors) / min(seconds)

    rows.append(["here", share, None, max(index.search, fetch), *timed(lambda: index.query(vectors, DEPTH, allowed=allowed))])
    index.sent = expression(allowed)
    for times in BUDGETS:
        index.search = times * max(64, fetch)
        # the engine's own search, but without more rows than are compared
        rows.append([f"server, {times}", share, len(index.sent), index.search, *timed(lambda: index._search(vectors, DEPTH, DEPTH, allowed, 1.0))])
    index.close()
    return dict(json.loads(json.dumps({"rows": rows})))
