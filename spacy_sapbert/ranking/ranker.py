"""A learned ranking as a value: a weight for each feature of a concept, and how frequent words are in names. Numbers and words of the vocabulary only."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import DamagedFile, fail
from ..files import why_invalid
from .words import split_words

FORMAT = 1
MOST_COUNTED = 30_000  # words: then the file is smaller than 1 MB
# the number of a concept's names is no feature: annotators with MeSH prefer general concepts, which have many names, others do not
FEATURES = (
    "cosine",
    "preferred",
    "preferred_cosine",
    "name_covered",
    "mention_covered",
    "weakest_word",
    "number_missing",
    "number_added",
    "negation",
    "near",
)


@dataclass(frozen=True)
class Ranker:
    """A linear ranking of concepts.

    Args:
        weights: one for each of FEATURES, in the units of a cosine: that of "cosine" is 1.
        counts: word -> number of names that have it, of the most frequent words.
        n_names: number of names that were counted.
        encoder: fingerprint of the encoder whose cosines it was trained with.
        fit_on: which data, in words.
    """

    weights: tuple[float, ...]
    counts: dict[str, int]
    n_names: int
    encoder: str
    fit_on: str

    def word_weight(self, word: str) -> float:
        """Return what a word counts: inverse document frequency, at least 1. A word that was not counted is as rare as a word can be."""
        return 1.0 + math.log((self.n_names + 1) / (self.counts.get(word, 0) + 1))

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all that decides a ranking."""
        return hashlib.blake2b(repr((self.weights, self.n_names, sorted(self.counts.items()))).encode(), digest_size=16).hexdigest()

    def to_json(self) -> str:
        """Return the text that `read_ranker` reads."""
        content = {
            "kind": "ranker",
            "format": FORMAT,
            "features": FEATURES,
            "weights": self.weights,
            "encoder": self.encoder,
            "fit_on": self.fit_on,
            "n_names": self.n_names,
            "counts": self.counts,
        }
        return json.dumps(content, ensure_ascii=False) + "\n"


def count_words(names: Iterable[str]) -> tuple[dict[str, int], int]:
    """Count in how many of some names each word stands.

    Returns:
        The most frequent words with their counts, the most frequent first, and the number of names.
    """
    counts: Counter[str] = Counter()
    n_names = 0
    for name in names:
        counts.update(set(split_words(name)))
        n_names += 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return dict(ordered[:MOST_COUNTED]), n_names


class _Stored(BaseModel):
    """The content of a ranker's file."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    kind: Literal["ranker"]
    format: Literal[1]
    features: tuple[str, ...]
    weights: tuple[float, ...]
    encoder: str
    fit_on: str
    n_names: Annotated[int, Field(ge=0)]
    counts: dict[str, Annotated[int, Field(ge=0)]]


def read_ranker(path: Path) -> Ranker:
    """Read a ranker's file.

    Raises:
        DamagedFile: E048.
        SapbertError: E106, it is of another kind or format; E049, it has other features.
        FileNotFoundError: it is not there.
    """
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text)
        found = content["format"] if content["kind"] == "ranker" else None
        if found != FORMAT:
            raise fail("E106", path=path, found=found, expected=FORMAT)
        stored = _Stored.model_validate_json(text)
    except ValidationError as error:
        raise fail("E048", DamagedFile, path=path, why=why_invalid(error)) from error
    except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise fail("E048", DamagedFile, path=path, why=f"{type(error).__name__}: {error}") from error
    if stored.features != FEATURES:
        raise fail("E049", path=path, theirs=", ".join(stored.features), ours=", ".join(FEATURES))
    if len(stored.weights) != len(FEATURES):
        raise fail("E048", DamagedFile, path=path, why=f"it has {len(stored.weights)} weights for {len(FEATURES)} features")
    return Ranker(stored.weights, stored.counts, stored.n_names, stored.encoder, stored.fit_on)
