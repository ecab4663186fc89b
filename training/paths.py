"""Where the phases of a recipe lie: beside the encoder `<out>`, in `<out>.phases/NAME`, each with its stamp. And names that stand in files."""

from __future__ import annotations

import json
from pathlib import Path

from spacy_sapbert.errors import MissingFile, fail

from .made import stamp_of

NAMES = "phases.json"  # the names of the phases behind an encoder, in their order; folders of another recipe may lie beside them


def phases_of(out: str | Path) -> Path:
    """Return the folder of the phases behind an encoder."""
    return Path(f"{out}.phases")


def phases_behind(out: str | Path) -> list[Path]:
    """Return the folders of the phases that made an encoder, in their order.

    Without the stamp of a recipe of phases there are none: what lies in their folder is of another training.
    """
    names = phases_of(out) / NAMES
    if not (stamp_of(out).is_file() and names.is_file()):
        return []
    return [phases_of(out) / name for name in json.loads(names.read_text(encoding="utf-8"))]


def named(text: str) -> str:
    """Return the name of an encoder as an option gives it: `@FILE` stands for the name in that file, see `training base`.

    Raises:
        SapbertError: E401, there is no such file.
    """
    if not text.startswith("@"):
        return text
    file = Path(text[1:])
    if not file.is_file():
        raise fail("E401", MissingFile, path=file)
    return file.read_text(encoding="utf-8").strip()
