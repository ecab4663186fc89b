"""Recommend an engine for a number of names, by the results of `python -m benchmarks engines` (docs/guides/engines.md)."""

from __future__ import annotations

import importlib.util
import math
from typing import Any

ANNOY = "spacy-sapbert.AnnoyIndex.v1"
EXACT_UP_TO = 20_000  # names: no index is built faster, and searching for mentions takes less time than encoding them
GRAPH: dict[str, Any] = {"dtype": "i8", "pca": 128, "rescore": 100}
MILLIONS = 2_000_000  # names: with more, memory matters, and a graph with few edges misses too many names
LISTS: dict[str, Any] = {"pca": 96, "search": 64, "rescore": 150, "build_threads": 0}  # for `lists_of` lists: one byte per dimension, no edges
# if Faiss is not installed. It is built on all cores, although the graph then differs from build to build
SMALL_GRAPH: dict[str, Any] = {
    "dtype": "i8",
    "pca": 64,
    "connectivity": 12,
    "expansion_add": 64,
    "expansion_search": 300,
    "rescore": 150,
    "build_threads": 0,
}


def recommended(size: int) -> tuple[str, dict[str, Any], str]:
    """Return the recommended engine for `size` names: registered name, settings, reason. Its library is installed."""
    if size <= EXACT_UP_TO:
        return "spacy-sapbert.ExactIndex.v1", {}, f"{size:,} names can be compared one by one as fast as any index searches them, and none is missed."
    if size >= MILLIONS and _installed("faiss"):
        settings = {"factory": f"IVF{lists_of(size)},SQ8", **LISTS}
        return (
            "spacy-sapbert.FaissIndex.v1",
            settings,
            f"{size:,} names in lists: smaller than a graph, faster to build, and more accurate for difficult mentions.",
        )
    if not _installed("usearch"):
        better = "faiss" if size >= MILLIONS else "usearch"
        why = f'the default; at {size:,} names `pip install "spacy-sapbert[{better}]"` has a better recall and is faster.'
        return ANNOY, {}, why
    if size < MILLIONS:
        why = f"the smallest and fastest graph: {size:,} names as {GRAPH['pca']} bytes each; candidates are compared in full."
        return "spacy-sapbert.UsearchIndex.v1", dict(GRAPH), why
    why = f'a graph of {size:,} names that fits into memory; `pip install "spacy-sapbert[faiss]"` has a better recall and uses less memory.'
    return "spacy-sapbert.UsearchIndex.v1", dict(SMALL_GRAPH), why


def default(size: int) -> tuple[str, dict[str, Any], str]:
    """Return the engine that is used if none is named: Annoy below `MILLIONS` names, otherwise the one that `recommended` returns."""
    if size < MILLIONS:
        return ANNOY, {}, f"the default below {MILLIONS:,} names; --engine auto takes the best installed one for {size:,}."
    name, settings, why = recommended(size)
    if name == ANNOY:  # nothing better is installed
        return name, settings, why
    return name, settings, f"{size:,} names are too many for Annoy, which would keep whole vectors and still miss more. {why[:1].upper()}{why[1:]}"


def lists_of(size: int) -> int:
    """Return the number of lists for `size` names: four times the square root (Faiss's guidelines: four to sixteen), rounded up to a power of two."""
    return int(2 ** math.ceil(math.log2(4 * math.sqrt(size))))


def _installed(library: str) -> bool:
    return importlib.util.find_spec(library) is not None
