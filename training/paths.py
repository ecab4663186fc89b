"""Where a recipe of phases leaves what: beside the encoder `<out>` its phases in `<out>.phases/NAME`, and a stamp of each, `NAME.made`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import List, Union

NAMES = "phases.json"  # of the phases behind an encoder, in their order; folders of another recipe may lie beside them


def phases_of(out: Union[str, Path]) -> Path:
    return Path(f"{out}.phases")


def stamp_of(out: Union[str, Path]) -> Path:
    """Says of what an encoder was made, by phases; a training by itself takes it away."""
    return Path(f"{out}.made")


def phases_behind(out: Union[str, Path]) -> List[Path]:
    """The phases that made the encoder in `out`, in their order; none where the stamp is not there: what lies there is of another training."""
    names = phases_of(out) / NAMES
    if not (stamp_of(out).is_file() and names.is_file()):
        return []
    return [phases_of(out) / name for name in json.loads(names.read_text(encoding="utf-8"))]
