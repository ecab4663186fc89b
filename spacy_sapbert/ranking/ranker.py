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
COSINE, CUI, WEAK_NAME, NUMBER_MISSING, NUMBER_ADDED = "cosine", "cui", "weak_name", "number_missing", "number_added"
STATIC, WORDS_MISSING, WORDS_ADDED, NAMES_NEAR = "static", "words_missing", "words_added", "names_near"
FEATURES = (COSINE, CUI, WEAK_NAME, NUMBER_MISSING, NUMBER_ADDED, STATIC, WORDS_MISSING, WORDS_ADDED, NAMES_NEAR)


@dataclass(frozen=True)
class Ranker:
    """A linear ranking of concepts.

    Args:
        weights: a weight for each of the features. Those of "cosine" and "static" add up to 1, so that the ranker's score has the unit of a cosine.
        encoder: fingerprint of the encoder whose cosines it was trained with.
        fit_on: a description of the data, in words.
        features: what the weights belong to: all of FEATURES, or some of them in this order, "cosine" first. Rankers of earlier versions have five.
    """

    weights: tuple[float, ...]
    encoder: str
    fit_on: str
    features: tuple[str, ...] = FEATURES

    def __post_init__(self) -> None:
        if len(self.weights) != len(self.features):
            raise ValueError(f"{len(self.weights)} weights for {len(self.features)} features")

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the features and weights, which decide a ranking."""
        return hashlib.blake2b(repr((self.features, self.weights)).encode(), digest_size=16).hexdigest()

    @cached_property
    def weight_of_all(self) -> tuple[float, ...]:
        """The weight of each of FEATURES; 0 for one that this ranker does not use."""
        weight = dict(zip(self.features, self.weights))
        return tuple(weight.get(name, 0.0) for name in FEATURES)

    def uses(self, feature: str) -> bool:
        """Return whether a feature has a weight."""
        return self.weight_of_all[FEATURES.index(feature)] != 0.0

    @property
    def has_both_cosines(self) -> bool:
        """Whether its score holds the cosines of the linker's encoder and of the static encoder."""
        return self.uses(STATIC)

    def to_json(self) -> str:
        """Return the text that `read_ranker` reads."""
        content = {
            "kind": "ranker",
            "format": FORMAT,
            "features": self.features,
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
    if stored.features[:1] != FEATURES[:1] or stored.features != tuple(name for name in FEATURES if name in stored.features):
        raise fail("E049", path=path, theirs=", ".join(stored.features), ours=", ".join(FEATURES))
    if len(stored.weights) != len(stored.features):
        raise fail("E048", DamagedFile, path=path, why=f"it has {len(stored.weights)} weights for {len(stored.features)} features")
    if stored.weights[0] <= 0.0:
        raise fail("E048", DamagedFile, path=path, why="the weight of the cosine is not above 0")
    return Ranker(stored.weights, stored.encoder, stored.fit_on, stored.features)
