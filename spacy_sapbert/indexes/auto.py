"""Which engine for how many names, as `python -m benchmarks engines` measured it (README, *Engines*)."""

from __future__ import annotations

import importlib.util
from typing import Any, Dict, Tuple

EXACT_UP_TO = 20_000  # names: nothing is faster to build, and a batch of mentions costs less than encoding them
MILLIONS = 2_000_000  # names: from here on building on all cores is worth a graph that is not the same each time
GRAPH: Dict[str, Any] = {"dtype": "i8", "pca": 128, "rescore": 100}


def recommended(size: int) -> Tuple[str, Dict[str, Any], str]:
    """(registered name, settings, why) for an index of `size` names, of the engines whose libraries are installed."""
    if size <= EXACT_UP_TO:
        return "spacy-sapbert.ExactIndex.v1", {}, f"{size:,} names are compared one by one as fast as by any index, and none is missed."
    if importlib.util.find_spec("usearch") is None:
        why = f'the default; at {size:,} names `pip install "spacy-sapbert[usearch]"` finds more in less time.'
        return "spacy-sapbert.AnnoyIndex.v1", {}, why
    settings = {**GRAPH, "build_threads": 0} if size >= MILLIONS else dict(GRAPH)
    return (
        "spacy-sapbert.UsearchIndex.v1",
        settings,
        f"the smallest graph and the fastest: {size:,} names in bytes of 128 dimensions, compared in full.",
    )
