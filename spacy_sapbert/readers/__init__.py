"""Readers turn a path into an iterator of Concepts. They make no decisions: a concept may come in many parts, and the knowledge base joins them.

stats = ReadStats()
for concept in read("hp.obo", stats=stats): ...
print(stats.version, stats.rows, stats.malformed)
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import MissingFile, fail
from ..kb.concept import Concept
from .sniff import sniff
from .stats import MAX_BAD_SHARE, ReadStats

__all__ = ["READERS", "ReadStats", "get_reader", "read", "sniff"]

# kind -> module and function; a module is imported when it is first used, because it may need ijson or fastobo
_FUNCTIONS: dict[str, str] = {
    "babelon": "babelon.read_babelon",
    "biosyn": "medic.read_biosyn",
    "ctd": "ctd.read_ctd",
    "mondo_json": "mondo_json.read_mondo_json",
    "obo": "obo.read_obo",
    "obograph": "obograph.read_obograph",
    "rrf": "rrf.read_rrf",
    "scispacy": "scispacy_jsonl.read_scispacy",
    "sssom": "sssom.read_sssom",
    "table": "table.read_table",
}


def get_reader(kind: str) -> Callable[..., Iterator[Concept]]:
    """Return the function that reads a kind of file: `read_xxx(path, stats, *, options)`.

    Raises:
        SapbertError: E406 (the kind is not known), E407 (its parser is not installed).
    """
    if kind not in _FUNCTIONS:
        raise fail("E406", name=kind, known=", ".join(sorted(_FUNCTIONS)))
    module, function = _FUNCTIONS[kind].split(".")
    try:
        found: Callable[..., Iterator[Concept]] = getattr(importlib.import_module(f"{__name__}.{module}"), function)
    except ModuleNotFoundError as error:
        raise fail("E407", path=f"a file of kind '{kind}'", package=error.name) from error
    return found


def _call(kind: str, path: Path, stats: ReadStats, **options: Any) -> Iterator[Concept]:
    return get_reader(kind)(path, stats, **options)


READERS: dict[str, Callable[..., Iterator[Concept]]] = {kind: partial(_call, kind) for kind in _FUNCTIONS}


def read(
    path: str | Path, *, kind: str | None = None, stats: ReadStats | None = None, max_bad_share: float = MAX_BAD_SHARE, **options: Any
) -> Iterator[Concept]:
    """Read a file or folder of any kind; plain, .gz, .xz, .zst and .zip are read alike. The call itself checks for the errors below.

    Args:
        path: the file or folder.
        kind: one of READERS; None finds it from the content (`sniff`).
        stats: counters, filled while the iterator runs.
        max_bad_share: 0 to 1; if a larger share of the rows is malformed, the iterator raises E405.
        options: the reader's own options, see its docstring.

    Raises:
        SapbertError: E002, the reader has no such option; E401, the path is missing; E402, the content is not recognised; E406, the kind is not
            known; E407, a library is not installed.
    """
    path = Path(path)
    if kind is not None:
        get_reader(kind)
    if not path.exists():
        raise fail("E401", MissingFile, path=path)
    kind = kind or sniff(path, options.get("encoding", "utf-8"))
    function = get_reader(kind)
    allowed = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for name, value in options.items():
        if name not in allowed:
            why = f"this reader has no such option. It has: {', '.join(allowed) or 'none'}."
            raise fail("E002", setting=name, component=f"reader '{kind}'", value=value, why=why)
    stats = ReadStats() if stats is None else stats
    stats.max_bad_share = max_bad_share
    return function(path, stats, **options)
