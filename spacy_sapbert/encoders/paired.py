"""A transformer and a static encoder as one encoder: the cosine of two names is the weighted mean of their two cosines."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import MissingFile, fail
from ..types import Floats2d
from .base import Progress
from .common import SETTINGS, read_settings
from .static import StaticEncoder
from .transformer import NameEncoder

# confection reads the annotations of an architecture at run time: no `from __future__ import annotations` in this module

ARCHITECTURE = "spacy-sapbert.PairedEncoder.v1"
TRANSFORMER, STATIC = "transformer", "static"  # folders in the encoder's folder


class PairedEncoder:
    """Architecture `spacy-sapbert.PairedEncoder.v1`: n names -> float32 (n, d), L2-normalised, by a transformer and a static encoder.

    A vector is the two vectors side by side, each multiplied by the square root of its weight. So one index searches by both encoders, and also
    finds names that are near for only one of them. Nothing is read before `initialize`.

    Args:
        name: Name of the transformer, see `NameEncoder`; "" is the one that comes with this package.
        static: Name of the static encoder, see `StaticEncoder`; "" is the one that comes with this package.
        share: Weight of the transformer's cosine, between 0 and 1; the static encoder's weight is the rest. A loaded linker has its own share.

    Raises:
        SapbertError: E002, the share is not between 0 and 1.
    """

    architecture = ARCHITECTURE

    def __init__(self, name: str = "", static: str = "", share: float = 0.5) -> None:
        if not 0 < share < 1:
            raise fail("E002", setting="share", component="PairedEncoder", value=share, why="it must be between 0 and 1.")
        self.share = share
        self.transformer, self.static = NameEncoder(name), StaticEncoder(static)

    @property
    def name(self) -> str:
        """Name of the transformer."""
        return str(self.transformer.name)

    @property
    def max_length(self) -> int:
        """Number of tokens of a name that the transformer reads."""
        return self.transformer.max_length

    @max_length.setter
    def max_length(self, tokens: int) -> None:
        self.transformer.max_length = tokens

    @property
    def dim(self) -> int:
        """Width of a vector; 0 before the weights are read."""
        return self.transformer.dim + self.static.dim if self.transformer.dim and self.static.dim else 0

    @property
    def fingerprint(self) -> str:
        """Hash that is equal if vectors are equal; "" before the weights are read."""
        if not self.dim:
            return ""
        return hashlib.blake2b(f"{self.transformer.fingerprint} {self.static.fingerprint} {self.share!r}".encode(), digest_size=16).hexdigest()

    def initialize(self) -> object:
        """Read the weights of both encoders."""
        self.transformer.initialize()
        self.static.initialize()
        return self

    def encode(self, names: Sequence[str], *, progress: Progress = False) -> Floats2d:
        """Turn names into vectors; see `Encoder.encode`. If the static encoder knows no part of a name, only the transformer's vector is used.

        Raises:
            SapbertError: E302 before `initialize`; E304, see `NameEncoder.encode`.
        """
        near, far = self.transformer.encode(names, progress=progress), self.static.encode(names)
        vectors = np.concatenate([np.float32(np.sqrt(self.share)) * near, np.float32(np.sqrt(1.0 - self.share)) * far], axis=1)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        paired: Floats2d = np.divide(vectors, lengths, out=vectors, where=lengths > 0)
        return paired

    def to(self, device: str) -> None:
        """Move the transformer's weights. The static encoder always runs on the CPU."""
        self.transformer.to(device)

    def weight_bytes(self) -> int:
        """Return the bytes of the weights of both encoders."""
        return self.transformer.weight_bytes() + self.static.weight_bytes()

    def check_saving(self) -> None:
        """Refuse a transformer whose classes come from its repository.

        Raises:
            SapbertError: E308, the classes come from its repository.
        """
        self.transformer.check_saving()

    def get_config(self) -> dict[str, Any]:
        """Return the settings of the constructor."""
        return {"name": self.name, "static": self.static.name, "share": self.share}

    def save(self, folder: Path) -> None:
        """Write each encoder into its own folder, and the share.

        Raises:
            SapbertError: E302 before `initialize`; E308.
        """
        for part, encoder in ((TRANSFORMER, self.transformer), (STATIC, self.static)):
            (folder / part).mkdir()
            encoder.save(folder / part)
        (folder / SETTINGS).write_text(
            json.dumps({"architecture": ARCHITECTURE, "share": self.share, "dim": self.dim}, indent=1) + "\n", encoding="utf-8"
        )

    def load(self, folder: Path) -> None:
        """Load what `save` wrote. The share is read from the folder, because the index was built with it.

        Raises:
            SapbertError: E301, E307, E309.
        """
        settings = read_settings(folder, {"architecture": str, "share": float})
        if settings["architecture"] != ARCHITECTURE or not 0 < settings["share"] < 1:
            raise fail("E301", MissingFile, name=folder, why="it does not hold two encoders that were saved as one.")
        self.transformer.load(folder / TRANSFORMER)
        self.static.load(folder / STATIC)
        self.share = settings["share"]
