"""The cross-encoder: the text that it reads, its agreements, and how a linker uses them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from spacy_sapbert.candidates import Hits, Standing
from spacy_sapbert.ranking.pairs import AGREEMENT, CrossEncoder, pair_text
from spacy_sapbert.ranking.rerank import READ, NameComparer, Reranker
from spacy_sapbert.types import Floats2d

VECTORS = {AGREEMENT: (1.0, 0.0), "a [SEP] east ; north": (0.6, 0.8), "a [SEP] west": (0.0, 1.0), "b [SEP] west": (-1.0, 0.0)}
NAMES = {"east": (1.0, 0.0), "north": (0.0, 1.0), "west": (-1.0, 0.0), "a": (1.0, 0.0), "b": (0.0, 1.0)}


class Encoder:
    """Returns the vectors above, and records what it reads."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def initialize(self) -> Encoder:
        return self

    def encode(self, texts: Sequence[str]) -> Floats2d:
        self.read.extend(texts)
        return np.array([VECTORS[text] for text in texts], dtype=np.float32)


def test_a_pair_is_one_text() -> None:
    assert (
        pair_text("heart attack", ["myocardial infarction", "heart attack", "myocardial infarction"])
        == "heart attack [SEP] myocardial infarction ; heart attack"
    )
    assert pair_text("x", list("abcdef")) == "x [SEP] a ; b ; c ; d"


def test_agreements_are_cosines_and_cached() -> None:
    encoder = Encoder()
    made = CrossEncoder(encoder)  # type: ignore[arg-type]
    texts = ["a [SEP] west", "a [SEP] east ; north", "a [SEP] west"]
    for _ in range(2):
        assert made.agreements(texts).round(6).tolist() == [0.0, 0.6, 0.0]
    assert encoder.read == [AGREEMENT, "a [SEP] west", "a [SEP] east ; north"]
    made.forget()
    made.agreements(["a [SEP] west"])
    assert encoder.read[-1] == "a [SEP] west"
    assert made.agreements([]).shape == (0,)


def test_more_pairs_than_the_cache_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spacy_sapbert.ranking.pairs.CACHED", 1)
    made = CrossEncoder(Encoder())  # type: ignore[arg-type]
    assert made.agreements(list(VECTORS)[1:]).round(6).tolist() == [0.6, 0.0, -1.0]
    assert made.agreements(list(VECTORS)[1:]).round(6).tolist() == [0.6, 0.0, -1.0]


def test_a_close_call_with_the_cross_encoder_by_hand() -> None:
    """Concept 0 has the names "east" and "north", both found; concept 1 has "west". The mention "a" has the static vector of "east".

    Concept 0: 0.8 + 0.5 · 1 + 0.25 · 1 + 2 · 0.6 = 2.75. Concept 1: 0.85 + 0.5 · -1 + 0.25 · -1 + 2 · 0 = 0.1. The mention "b" has one candidate: no close call.
    """
    names = {0: ["east", "north"], 1: ["west"]}
    forms = {10: "north", 11: "east", 12: "west"}
    comparer = NameComparer(
        names.__getitem__,
        lambda texts: np.array([NAMES[text] for text in texts], dtype=np.float32),
        CrossEncoder(Encoder()).agreements,  # type: ignore[arg-type]
        lambda rows: [forms[row] for row in rows],
    )
    query, concept, form = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]), np.array([10, 11, 12, 12])
    score = np.array([0.8, 0.7, 0.85, 0.9])
    hits = Hits(query, concept, form, score, np.zeros(4, dtype=np.int64), np.array([0, 2, 3]))
    first = Standing(score[[0, 2, 3]], score[[0, 2, 3], None])
    after = comparer.standing(Reranker((0.5, 0.25, 2.0), 0.1, "by hand"), ["a", "b"], hits, first)
    assert after.scores.tolist() == [2.75, 0.1, 0.9]
    assert after.shares.round(6).tolist() == [[0.8, 0.5, 0.25, 1.2], [0.85, -0.5, -0.25, 0.0], [0.9, 0.0, 0.0, 0.0]]
    assert READ == ("nearest_name", "canonical_name", "agreement")
