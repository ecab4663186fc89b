"""A ranker: a weight for each feature of a concept. It holds numbers and no clinical text."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from ..errors import DamagedFile, fail
from ..files import read_stored

FORMAT = 1
FEATURES = ("cosine", "cui", "weak_name", "number_missing", "number_added")


@dataclass(frozen=True)
class Ranker:
    """A linear ranking of concepts.

    Args:
        weights: a weight for each of FEATURES, relative to the weight of "cosine", which is 1.
        encoder: fingerprint of the encoder whose cosines it was trained with.
        fit_on: a description of the data, in words.
    """

    weights: tuple[float, ...]
    encoder: str
    fit_on: str

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the features and weights, which decide a ranking."""
        return hashlib.blake2b(repr((FEATURES, self.weights)).encode(), digest_size=16).hexdigest()

    def to_json(self) -> str:
        """Return the text that `read_ranker` reads."""
        content = {
            "kind": "ranker",
            "format": FORMAT,
            "features": FEATURES,
            "weights": self.weights,
            "encoder": self.encoder,
            "fit_on": self.fit_on,
        }
        return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


class _Stored(BaseModel):
    """The content of a ranker's file."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    kind: Literal["ranker"]
    format: Literal[1]
    features: tuple[str, ...]
    weights: tuple[float, ...]
    encoder: str
    fit_on: str


def read_ranker(path: Path) -> Ranker:
    """Read a ranker's file.

    Raises:
        DamagedFile: E048, the file is damaged.
        SapbertError: E106, it is of another kind or format; E049, it has other features.
        FileNotFoundError: there is no such file.
    """
    stored = read_stored(path, _Stored, kind="ranker", version=FORMAT, damaged="E048")
    if stored.features != FEATURES:
        raise fail("E049", path=path, theirs=", ".join(stored.features), ours=", ".join(FEATURES))
    if len(stored.weights) != len(FEATURES):
        raise fail("E048", DamagedFile, path=path, why=f"it has {len(stored.weights)} weights for {len(FEATURES)} features")
    if stored.weights[0] <= 0.0:
        raise fail("E048", DamagedFile, path=path, why="the weight of the cosine is not above 0")
    return Ranker(stored.weights, stored.encoder, stored.fit_on)
