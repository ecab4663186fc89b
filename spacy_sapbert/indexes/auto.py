"""Which engine for how many names, as `python -m benchmarks engines` measured it (README, *Engines*)."""

from __future__ import annotations

import importlib.util
from typing import Any, Dict, Tuple

EXACT_UP_TO = 20_000  # names: nothing is faster to build, and a batch of mentions costs less than encoding them
GRAPH: Dict[str, Any] = {"dtype": "i8", "pca": 128, "rescore": 100}
MILLIONS = 2_000_000  # names: from here on memory counts, and building on all cores is worth a graph that is not the same each time
SMALL_GRAPH: Dict[str, Any] = {
    "dtype": "i8",
    "pca": 64,
    "connectivity": 12,
    "expansion_add": 64,
    "expansion_search": 300,
    "rescore": 150,
    "build_threads": 0,
}


def recommended(size: int) -> Tuple[str, Dict[str, Any], str]:
    """(registered name, settings, why) for an index of `size` names, of the engines whose libraries are installed."""
    if size <= EXACT_UP_TO:
        return "spacy-sapbert.ExactIndex.v1", {}, f"{size:,} names are compared one by one as fast as by any index, and none is missed."
    if importlib.util.find_spec("usearch") is None:
        why = f'the default; at {size:,} names `pip install "spacy-sapbert[usearch]"` finds more in less time.'
        return "spacy-sapbert.AnnoyIndex.v1", {}, why
    settings = dict(SMALL_GRAPH if size >= MILLIONS else GRAPH)
    why = f"the smallest graph and the fastest: {size:,} names in bytes of {settings['pca']} dimensions, compared in full."
    return "spacy-sapbert.UsearchIndex.v1", settings, why
