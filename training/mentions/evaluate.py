"""Measure a recogniser on a part of MACCROBAT."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import spacy
from spacy.tokens import Doc, DocBin

from spacy_sapbert.mentions.labels import KINDS
from spacy_sapbert.mentions.model import MentionModel

from ..errors import fail
from .documents import MEASURED
from .score import mentions_of, score

PARTS = ("dev", "test")


def read_part(folder: Path, part: str) -> list[Doc]:
    """Read the Docs of a part.

    Raises:
        SapbertError: E567 (there are none).
    """
    path = folder / part / f"{MEASURED}.spacy"
    if not path.is_file():
        raise fail("E567", path=path, layout="docbin", why="there is no such file; make it with `python -m training recogniser documents`")
    return list(DocBin().from_disk(path).get_docs(spacy.blank("en").vocab))


def measure(model: MentionModel, docs: Sequence[Doc]) -> dict[str, Any]:
    """Return the figures of `score` for each kind and for all kinds."""
    found = [[(m.start, m.end, m.kind) for m in mentions] for mentions in model.find(docs)]
    return score([mentions_of(doc) for doc in docs], found, KINDS)


def as_table(figures: dict[str, Any]) -> str:
    """Return figures as a Markdown table."""
    head = ["kind", "gold", "found", "exact P", "R", "F1", "overlapping P", "R", "F1"]
    rows = [
        [kind, str(row["gold"]), str(row["found"]), *(f"{row[how][what]:.1f}" for how in ("exact", "overlapping") for what in "prf")]
        for kind, row in figures.items()
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---", *["---:"] * 8], *rows]) + "\n"


def write_figures(model: Path, folder: Path, part: str, out: Path | None) -> dict[str, Any]:
    """Measure the recogniser of a folder, and write the figures as JSON, and as Markdown next to it.

    Args:
        model: Folder of the recogniser.
        folder: Folder of `write_documents`.
        part: "dev" or "test".
        out: The JSON file; None: nothing is written.

    Raises:
        SapbertError: E620 (`part`), E567 (no documents), E040 (not a recogniser).
    """
    if part not in PARTS:
        raise fail("E620", setting="part", value=part, why=f"it must be one of {', '.join(PARTS)}")
    docs = read_part(folder, part)
    figures = measure(MentionModel.from_disk(model), docs)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps({"part": part, "documents": len(docs), "figures": figures}, indent=1) + "\n", encoding="utf-8")
        out.with_suffix(".md").write_text(as_table(figures), encoding="utf-8")
    return figures
