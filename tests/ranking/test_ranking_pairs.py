"""The cross-encoder: the text that it reads, its agreements, and how a linker uses them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy

from spacy_sapbert.build.linker import build_linker, read_source
from spacy_sapbert.candidates import Hits, Standing
from spacy_sapbert.encoders.base import Encoder as AnyEncoder
from spacy_sapbert.encoders.paired import PairedEncoder
from spacy_sapbert.encoders.static import StaticEncoder
from spacy_sapbert.encoders.transformer import NameEncoder
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.ranking import pairs
from spacy_sapbert.ranking.pairs import AGREEMENT, DEFINITION_READ, MAX_TOKENS, PAD_TO, SHIPPED_CROSS_ENCODER, CrossEncoder, cross_encoder, pair_text
from spacy_sapbert.ranking.rerank import (
    READ,
    SHIPPED_CROSS_RERANKER,
    SHIPPED_CROSS_RERANKER_FAST,
    NameComparer,
    Reranker,
    read_reranker,
)
from spacy_sapbert.search import Query
from spacy_sapbert.types import Floats2d

DATA = Path(__file__).parents[1] / "data"

VECTORS = {AGREEMENT: (1.0, 0.0), "a [SEP] east ; north": (0.6, 0.8), "a [SEP] west": (0.0, 1.0), "b [SEP] west": (-1.0, 0.0)}
NAMES = {"east": (1.0, 0.0), "north": (0.0, 1.0), "west": (-1.0, 0.0), "a": (1.0, 0.0), "b": (0.0, 1.0)}


class Encoder:
    """Returns the vectors above, and records what it reads."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def initialize(self) -> Encoder:
        return self

    def encode(self, texts: Sequence[str], *, pad_to: int = 1) -> Floats2d:
        self.read.extend(texts)
        return np.array([VECTORS[text] for text in texts], dtype=np.float32)


def test_a_pair_is_one_text() -> None:
    assert (
        pair_text("heart attack", ["myocardial infarction", "heart attack", "myocardial infarction"])
        == "heart attack [SEP] myocardial infarction ; heart attack"
    )
    assert pair_text("x", list("abcdef")) == "x [SEP] a ; b ; c ; d"
    assert pair_text("x", ["a"], "no [MASK] now", "An  A. " * 100) == "x [SEP] a [SEP] no [MASK] now [SEP] " + ("an a. " * 100)[:DEFINITION_READ]
    assert pair_text("x", ["a"], "no [MASK]") == "x [SEP] a [SEP] no [MASK] [SEP] "
    assert pair_text("x", ["a"], "", "An A.") == "x [SEP] a [SEP]  [SEP] an a."


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


def test_the_names_of_a_concept_are_looked_up_once() -> None:
    asked: list[int] = []

    def names(row: int) -> list[str]:
        asked.append(row)
        return ["west"] * 4_000

    comparer = NameComparer(
        names,
        lambda texts: np.array([NAMES[text] for text in texts], dtype=np.float32),
        CrossEncoder(Encoder()).agreements,  # type: ignore[arg-type]
        lambda rows: ["west"] * len(rows),
    )
    one = np.zeros(1, dtype=np.int64)
    hits = Hits(one, one, np.array([12]), np.array([0.9]), one, one)
    found = [comparer.values([mention], hits, one).tolist() for mention in ("a", "b", "a")]
    assert found == [[[-1.0, -1.0, 0.0]], [[0.0, 0.0, -1.0]], [[-1.0, -1.0, 0.0]]]
    assert asked == [0, 0]  # for the vectors of its names, and for its canonical name


# -- the cross-encoder of this package -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mention", "right", "wrong"),
    [
        ("vein thrombosis", ["venous thrombosis"], ["cerebral venous thrombosis"]),
        ("low ferritin level", ["decreased circulating ferritin concentration"], ["increased circulating ferritin concentration"]),
    ],
)
def test_it_knows_which_words_change_the_concept(mention: str, right: list[str], wrong: list[str]) -> None:
    higher, lower = cross_encoder().agreements([pair_text(mention, right), pair_text(mention, wrong)])
    assert higher > lower


def test_an_agreement_does_not_depend_on_the_other_pairs() -> None:
    names = ["heart", "heart failure with preserved ejection fraction", "renal disease"]
    texts = [pair_text(" ".join(["chronic heart failure"] * repeat), names[:count]) for repeat in range(1, 16, 2) for count in (1, 2, 3)]
    made = cross_encoder()
    made.forget()
    together = made.agreements(texts)
    alone: list[float] = []
    for text in texts:
        made.forget()
        alone.extend(made.agreements([text]))
    made.forget()
    np.testing.assert_allclose(together, alone, atol=1e-12)
    np.testing.assert_allclose(together, made.agreements(texts[::-1])[::-1], atol=1e-12)


def test_it_is_read_once_by_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs._read.cache_clear()
    made: list[str] = []
    monkeypatch.setattr(pairs, "NameEncoder", lambda name, max_length: made.append(name) or Encoder())
    try:
        with ThreadPoolExecutor(4) as pool:
            assert len({id(one) for one in pool.map(lambda _: cross_encoder(), range(8))}) == 1
        assert made == [str(SHIPPED_CROSS_ENCODER)]
    finally:
        pairs._read.cache_clear()


def test_a_missing_or_damaged_cross_encoder_is_no_error_of_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = build_linker([read_source(DATA / "tiny_clinic.tsv")], tmp_path / "linker", model=StaticEncoder(), index=ExactIndex(), progress=False)
    damaged = tmp_path / "cross_encoder"
    shutil.copytree(SHIPPED_CROSS_ENCODER, damaged)
    (damaged / "adapter_model.safetensors").write_bytes(b"damaged")
    linker: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(folder)})
    linker.load()
    pairs._read.cache_clear()
    try:
        for path in (tmp_path / "nowhere", damaged):
            monkeypatch.setattr(pairs, "SHIPPED_CROSS_ENCODER", path)
            with pytest.raises(SapbertError, match=rf"\[E057\].*{path}.*weights.*Install this package again"):
                linker.rerank = "cross_encoder"
            assert linker.rerank is None
    finally:
        pairs._read.cache_clear()


@pytest.mark.parametrize(
    ("model", "rank", "file"),
    [
        (NameEncoder, "learned", SHIPPED_CROSS_RERANKER_FAST),  # the ranker's score has the cosine of the static encoder
        (NameEncoder, "cosine", SHIPPED_CROSS_RERANKER),
        (StaticEncoder, "cosine", SHIPPED_CROSS_RERANKER_FAST),
        (PairedEncoder, "cosine", SHIPPED_CROSS_RERANKER_FAST),
    ],
)
def test_a_linker_with_the_cross_encoder(model: type[AnyEncoder], rank: str, file: Path, tmp_path: Path) -> None:
    build_linker([read_source(DATA / "tiny_clinic.tsv")], tmp_path / "linker", model=model(), index=ExactIndex(), progress=False)
    config = {"linker_name": str(tmp_path / "linker"), "threshold": 0.0, "rerank": "cross_encoder", "rank": rank}
    linker: Any = spacy.blank("en").add_pipe("sapbert_linker", config=config)
    reranker = read_reranker(file)
    assert reranker.features == READ
    mentions = ["diabetes", "disorder of the mitral valve", "venous thrombosis in the leg", "disease of the heart", "pneumonias of lungs"]
    found = [each.answer for each in linker.search.find([(mention, None) for mention in mentions])]
    close = [(mention, answer.explain) for mention, answer in zip(mentions, found) if "rerank" in answer.explain]
    assert close
    encoder = NameEncoder(str(SHIPPED_CROSS_ENCODER), max_length=MAX_TOKENS).initialize()
    for mention, explain in close:
        names = [name.text.lower() for name in linker.kb.names_of(linker.kb.row_of(explain["id"]))]
        near = sorted(names, key=lambda name: -float(linker.bundle.encoder.encode([name])[0] @ linker.bundle.encoder.encode([mention])[0]))
        # it reads the canonical name, and those of the nearest ones that the search found: one or more
        texts = [pair_text(mention, [names[0], *near[:found]]) for found in (1, 2, 3, 4)]
        pairs = encoder.encode(texts, pad_to=PAD_TO)  # as the linker encodes them: padding changes the last digits
        agreements = reranker.weights[2] * (pairs @ encoder.encode([AGREEMENT], pad_to=PAD_TO)[0])
        assert np.abs(agreements - explain["rerank"]["agreement"]).min() < 1e-3
        assert explain["rerank"]["score"] == pytest.approx(sum(explain["rerank"][name] for name in ("first", *READ)), abs=1e-4)
    with ThreadPoolExecutor(4) as pool:  # two linkers of two threads share the cross-encoder
        others = [spacy.blank("en").add_pipe("sapbert_linker", config=config) for _ in range(4)]
        again = list(pool.map(lambda one: [each.answer for each in one.search.find([(mention, None) for mention in mentions])], others))
    assert again == [found] * 4


@pytest.mark.parametrize(("model", "mention"), [(NameEncoder, "disorder of the mitral valve"), (StaticEncoder, "diabetes")])
def test_a_linker_that_reads_the_text_around(model: type[AnyEncoder], mention: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same mention in two notes is read twice, with its own text; an exact match is not read, and is one answer."""
    build_linker([read_source(DATA / "tiny_clinic.tsv")], tmp_path / "linker", model=model(), index=ExactIndex(), progress=False)
    config = {"linker_name": str(tmp_path / "linker"), "threshold": 0.0, "rerank": "context"}
    nlp = spacy.blank("en")
    ruler: Any = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "X", "pattern": mention}, {"label": "X", "pattern": "heart attack"}])
    linker: Any = nlp.add_pipe("sapbert_linker", config=config)
    read: list[str] = []
    agreements = CrossEncoder.agreements
    monkeypatch.setattr(CrossEncoder, "agreements", lambda self, texts: read.extend(texts) or agreements(self, texts))
    notes = [f"Known {mention}, stable.", "After a heart attack.", f"No {mention}.", "No heart attack."]
    docs = list(nlp.pipe(notes))
    assert all(text.startswith(f"{mention} [SEP] ") for text in read)
    assert {text.split(" [SEP] ")[2] for text in read} == {"known [MASK] , stable.", "no [MASK] ."}
    definitions = {text.split(" [SEP] ")[1].partition(" ; ")[0]: text.split(" [SEP] ")[3] for text in read}
    assert any(definitions.values())
    for name, definition in definitions.items():
        concept = linker.kb.concept(next(row for row in range(len(linker.kb)) if linker.kb.canonical_name_of(row).lower() == name))
        assert definition == (concept.definition or "").lower()
    assert "agreement" in docs[0].ents[0]._.kb_explain["rerank"]
    assert "rerank" not in docs[1].ents[0]._.kb_explain
    assert linker.search.n_cached() == 3
    alone = [nlp(note).ents[0]._.kb_ents for note in notes]  # from the cache
    assert alone == [doc.ents[0]._.kb_ents for doc in docs]
    linker.forget()
    assert [nlp(note).ents[0]._.kb_ents for note in notes] == alone  # one by one


def test_the_text_around_a_name_of_another_kind_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a filter by types, a name of no allowed concept is no exact match, so that its candidates are reranked."""
    build_linker([read_source(DATA / "tiny_clinic.tsv")], tmp_path / "linker", model=StaticEncoder(), index=ExactIndex(), progress=False)
    linker: Any = spacy.blank("en").add_pipe(
        "sapbert_linker", config={"linker_name": str(tmp_path / "linker"), "threshold": 0.0, "rerank": "context"}
    )
    linker.initialize()
    read: list[str] = []
    agreements = CrossEncoder.agreements
    monkeypatch.setattr(CrossEncoder, "agreements", lambda self, texts: read.extend(texts) or agreements(self, texts))
    monkeypatch.setattr(linker.search, "reranker", replace(linker.search.reranker, margin=9.0))  # all are close calls
    asked = [Query("heart attack", types, "known [MASK] .") for types in (None, frozenset({"T033"}))]
    assert [each.answer.explain["exact"] for each in linker.search.find(asked)] == [True, False]
    assert read
    assert {text.split(" [SEP] ")[2] for text in read} == {"known [MASK] ."}


def test_a_linker_without_a_cache_keeps_no_text(tmp_path: Path) -> None:
    """Neither the mentions nor the text around them, in the search and in the cross-encoder, which all linkers of a process share."""
    build_linker([read_source(DATA / "tiny_clinic.tsv")], tmp_path / "linker", model=StaticEncoder(), index=ExactIndex(), progress=False)
    config = {"linker_name": str(tmp_path / "linker"), "threshold": 0.0, "rerank": "context"}
    for size, kept in ((0, False), (10, True)):
        nlp = spacy.blank("en")
        ruler: Any = nlp.add_pipe("entity_ruler")
        ruler.add_patterns([{"label": "X", "pattern": "type diabetes"}])
        linker: Any = nlp.add_pipe("sapbert_linker", config={**config, "cache_size": size})
        cross_encoder().forget()
        assert "agreement" in nlp("Known type diabetes.").ents[0]._.kb_explain["rerank"]
        held = [*linker.search._cache, *linker.search._words, *cross_encoder()._known]
        assert any("known" in str(each) for each in held) is kept
        assert bool(held) is kept
        linker.forget()
        assert not [*linker.search._cache, *linker.search._words, *cross_encoder()._known]


def test_an_encoder_that_it_does_not_fit(tmp_path: Path) -> None:
    other = NameEncoder(str(SHIPPED_CROSS_ENCODER))
    folder = build_linker([read_source(DATA / "tiny_clinic.tsv")], tmp_path / "linker", model=other, index=ExactIndex(), progress=False)
    linker: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(folder), "rerank": "cross_encoder"})
    with pytest.raises(SapbertError, match=r"\[E056\].*works only with the default, the fast or the paired encoder"):
        linker.search.find([("heart", None)])


@pytest.mark.parametrize("size", [0, 100])
def test_it_keeps_no_mention_if_nothing_is_cached_or_after_forget(size: int, tmp_path: Path) -> None:
    build_linker([read_source(DATA / "tiny_clinic.tsv")], tmp_path / "linker", model=StaticEncoder(), index=ExactIndex(), progress=False)
    config = {"linker_name": str(tmp_path / "linker"), "threshold": 0.0, "rerank": "cross_encoder", "cache_size": size}
    linker: Any = spacy.blank("en").add_pipe("sapbert_linker", config=config)
    cross_encoder().forget()
    assert "rerank" in linker.search.find([("diabetes", None)])[0].answer.explain
    assert bool(cross_encoder()._known) is bool(size)
    linker.forget()
    assert not cross_encoder()._known
