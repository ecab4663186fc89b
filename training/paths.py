"""The folder of this repository, the paths of the phases of a recipe (`<out>.phases/NAME` next to the encoder `<out>`), and names read from files."""

from __future__ import annotations

import json
from pathlib import Path

from spacy_sapbert.errors import MissingFile, fail

from .made import stamp_of

REPOSITORY = Path(__file__).resolve().parents[1]
NAMES = "phases.json"  # names of an encoder's phases in their order; the folder may also hold phases of another recipe


def phases_of(out: str | Path) -> Path:
    """Return the folder of the phases of an encoder."""
    return Path(f"{out}.phases")


def phases_behind(out: str | Path) -> list[Path]:
    """Return the folders of the phases of an encoder, in their order.

    Without the stamp of a recipe of phases the list is empty, because the folders are of another training.
    """
    names = phases_of(out) / NAMES
    if not (stamp_of(out).is_file() and names.is_file()):
        return []
    return [phases_of(out) / name for name in json.loads(names.read_text(encoding="utf-8"))]


def named(text: str) -> str:
    """Return the name of an encoder from the value of an option: `@FILE` means the name in that file, see `training base`.

    Raises:
        SapbertError: E401 (there is no such file).
    """
    if not text.startswith("@"):
        return text
    file = Path(text[1:])
    if not file.is_file():
        raise fail("E401", MissingFile, path=file)
    return file.read_text(encoding="utf-8").strip()
