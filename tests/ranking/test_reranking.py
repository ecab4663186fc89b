"""Reranking close calls: its scores computed by hand, its file, and a linker with and without it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy

from spacy_sapbert.build.linker import build_linker, read_source
from spacy_sapbert.candidates import Hits, Standing
from spacy_sapbert.encoders.paired import PairedEncoder
from spacy_sapbert.encoders.static import StaticEncoder
from spacy_sapbert.encoders.transformer import NameEncoder
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.ranking.rerank import COMPARED, DEPTH, MOST_NAMES, SHIPPED_RERANKER, NameComparer, Reranker, is_close, read_reranker
from spacy_sapbert.settings import Settings
from spacy_sapbert.types import Floats2d

pytestmark = pytest.mark.usefixtures("one_thread")
DATA = Path(__file__).parents[1] / "data"
VECTORS = {"east": (1.0, 0.0), "north": (0.0, 1.0), "between": (0.6, 0.8), "west": (-1.0, 0.0), "unknown": (0.0, 0.0)}
NAMES = {0: ["north", "between"], 1: ["east"], 2: ["west"], 3: ["unknown"]}
HALF = Reranker((0.5, 0.25), 0.1, "by hand")


def comparer(encoded: list[str] | None = None, names: dict[int, list[str]] = NAMES) -> NameComparer:
    def encode(texts: Sequence[str]) -> Floats2d:
        if encoded is not None:
            encoded.extend(texts)
        return np.array([VECTORS[text] for text in texts], dtype=np.float32)

    return NameComparer(names.__getitem__, encode)


def found(rows: Sequence[tuple[int, int, float]]) -> tuple[Hits, Standing]:
    """Return hits (mention, concept, score) with one name each, and the order by their scores."""
    query, concept, score = (np.array(column) for column in zip(*rows))
    zero = np.zeros(len(rows), dtype=np.int64)
    return Hits(query, concept, zero, score, zero, np.arange(len(rows))), Standing(score, np.stack([score, 0 * score], axis=1))


def test_all_names_and_the_canonical_one_are_compared() -> None:
    """The nearest name of concept 0 to "east" is "between" (0.6), its canonical name is "north" (0)."""
    values = comparer().compared(["north", "east"], np.array([1, 1, 1, 1, 0]), np.array([0, 1, 2, 3, 0]))
    assert values.round(6).tolist() == [[0.6, 0.0], [1.0, 1.0], [-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]]


def test_a_concepts_names_are_encoded_once() -> None:
    encoded: list[str] = []
    one = comparer(encoded)
    for _ in range(2):
        one.compared(["east"], np.array([0, 0]), np.array([0, 1]))
    assert encoded == ["east", "north", "between", "east", "east"]  # the mention each time, the three names once
    assert one.compared([], np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)).shape == (0, 2)


def test_only_so_many_names_are_compared() -> None:
    """The first half of them and the last: names that a user added stand last."""
    half = MOST_NAMES // 2
    names = {0: ["north"] * half + ["east"] + ["north"] * half, 1: ["north"] * 2 * half + ["east"]}
    made = comparer(names=names)
    assert made.compared(["east", "east"], np.array([0, 1]), np.array([0, 1])).tolist() == [[0.0, 0.0], [1.0, 0.0]]
    assert all(vectors.base is None for vectors in made._vectors.values())  # each entry keeps only its own vectors


def test_a_close_call_by_hand() -> None:
    """Concept 0 gets 0.9 + 0.5 · 0.6 + 0.25 · 0 = 1.2, concept 1 gets 0.85 + 0.5 · 1 + 0.25 · 1 = 1.6."""
    hits, first = found([(0, 0, 0.9), (0, 1, 0.85)])
    after = comparer().standing(HALF, ["east"], hits, first)
    assert after.scores.tolist() == [1.2, 1.6]
    assert after.shares.round(6).tolist() == [[0.9, 0.0, 0.3, 0.0], [0.85, 0.0, 0.5, 0.25]]


def test_a_clear_call_keeps_its_scores() -> None:
    """The margin 0.1 is still close, 0.10001 is not; one candidate alone is never close."""
    hits, first = found([(0, 0, 0.9), (0, 1, 0.8), (1, 0, 0.9), (1, 1, 0.79999), (2, 1, 0.7)])
    encoded: list[str] = []
    after = comparer(encoded).standing(HALF, ["east", "east", "east"], hits, first)
    assert after.scores.tolist() == [1.2, 1.55, 0.9, 0.79999, 0.7]
    assert after.shares[2:, 2:].any() == np.False_
    assert encoded == ["east", "north", "between", "east"]  # only one of the three mentions


def test_a_margin_is_rounded() -> None:
    """In floats, 0.9 - 0.85 is a little more than 0.05. It counts as 0.05."""
    assert is_close(np.array([0.9, 0.85]), 0.05)
    assert not is_close(np.array([0.9, 0.85]), 0.04999)
    assert not is_close(np.array([0.9]), 2.0)


def test_the_others_stay_behind() -> None:
    """Only the first ten are compared. The eleventh, which would win, gets what the lowest of the ten got."""
    rows = [(0, 2, 0.9 - i / 1000) for i in range(DEPTH - 1)]
    hits, first = found([*rows, (0, 0, 0.8), (0, 1, 0.79)])
    after = comparer().standing(HALF, ["east"], hits, first)
    assert after.scores[: DEPTH - 1].tolist() == [round(0.9 - i / 1000 - 0.75, 5) for i in range(DEPTH - 1)]
    assert after.scores[DEPTH - 1 :].tolist() == [1.1, round(0.79 - 0.75, 5)]
    assert after.shares[-1].tolist() == [0.79, 0.0, -0.5, -0.25]


def test_nothing_found() -> None:
    empty = np.zeros(0, dtype=np.int64)
    after = comparer().standing(HALF, [], Hits(empty, empty, empty, np.zeros(0), empty, empty), Standing(np.zeros(0), np.zeros((0, 5))))
    assert (after.scores.shape, after.shares.shape) == ((0,), (0, 7))


# -- its file -----------------------------------------------------------------------------------------------------------


def test_the_file_of_the_package(tmp_path: Path) -> None:
    shipped = read_reranker(SHIPPED_RERANKER)
    assert all(0.0 < weight < 1.0 for weight in shipped.weights)
    assert shipped.margin == 0.08
    assert "test" not in shipped.fit_on
    (tmp_path / "again.json").write_text(shipped.to_json())
    assert read_reranker(tmp_path / "again.json") == shipped
    assert (tmp_path / "again.json").read_text() == SHIPPED_RERANKER.read_text()


@pytest.mark.parametrize(
    "change", [{"weights": [0.5]}, {"weights": [0.5, float("nan")]}, {"margin": -0.1}, {"features": ["canonical_name", "nearest_name"]}, {"more": 1}]
)
def test_a_damaged_file(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "reranker.json"
    path.write_text(json.dumps({**json.loads(HALF.to_json()), **change}))
    with pytest.raises(SapbertError, match=r"\[E057\].*reranker\.json"):
        read_reranker(path)


def test_a_missing_file_and_one_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(SapbertError, match=r"\[E057\].*it can't be read"):
        read_reranker(tmp_path / "none.json")
    (tmp_path / "other.json").write_text(json.dumps({"kind": "ranker", "format": 1}))
    with pytest.raises(SapbertError, match=r"\[E106\]"):
        read_reranker(tmp_path / "other.json")


# -- a linker -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A linker of tiny_clinic.tsv with the default encoder."""
    out = tmp_path_factory.mktemp("reranked") / "linker"
    return build_linker([read_source(DATA / "tiny_clinic.tsv")], out, model=NameEncoder(), index=ExactIndex(), progress=False)


def linker(folder: Path, **settings: Any) -> Any:
    config = {"linker_name": str(folder), "threshold": 0.0, "rank": "cosine", **settings}
    return spacy.blank("en").add_pipe("sapbert_linker", config=config)


def answer(component: Any, text: str) -> Any:
    return component.search.find([(text, None)])[0].answer


def close_and_clear(component: Any) -> tuple[str, str]:
    """Return a mention that is a close call, and one that is not."""
    margins = {
        text: answer(component, text).explain["margin"]
        for text in ("diabetes", "disorder of the mitral valve", "disease of the heart", "venous thrombosis in the leg", "pneumonias of lungs")
    }
    close = [text for text, margin in margins.items() if margin <= 0.08]
    clear = [text for text, margin in margins.items() if margin > 0.08]
    assert close, margins
    assert clear, margins
    return close[0], clear[0]


def test_a_linker_reranks_close_calls(folder: Path) -> None:
    off, on = linker(folder), linker(folder, rerank="names")
    close, clear = close_and_clear(off)
    assert answer(on, clear) == answer(off, clear)
    assert "rerank" not in answer(off, close).explain
    exact = on.kb.entity(0).canonical_name
    assert answer(on, exact) == answer(off, exact)
    explain = answer(on, close).explain
    static, weights = StaticEncoder().initialize(), dict(zip(COMPARED, read_reranker(SHIPPED_RERANKER).weights))
    names = [name.text.lower() for name in on.kb.names_of(on.kb.row_of(explain["id"]))]
    cosines = static.encode(names) @ static.encode([close])[0]
    shares = {"nearest_name": weights["nearest_name"] * cosines.max(), "canonical_name": weights["canonical_name"] * cosines[0]}
    found = explain["rerank"]
    assert {name: found[name] for name in COMPARED} == pytest.approx(shares, abs=1e-5)
    assert found["first"] == explain["score"]  # no ranker is used
    assert found["score"] == pytest.approx(explain["score"] + sum(shares.values()), abs=2e-5)
    assert "rank" not in explain


def test_a_ranker_that_compares_the_names_is_not_reranked_by_them(folder: Path) -> None:
    """The linker of the package's default encoder has a ranker with the cosine of the fast encoder."""
    ranked = linker(folder, rank=None)
    close, _ = close_and_clear(linker(folder))
    assert answer(ranked, close).explain["rank"]["static"] != 0.0
    with pytest.raises(SapbertError, match=r"\[E087\].*without a ranker.*rank=\"cosine\""):
        answer(linker(folder, rank=None, rerank="names"), close)
    with pytest.raises(SapbertError, match=r"\[E087\]"):
        ranked.rerank = "names"
    assert ranked.rerank is None


def test_it_can_be_switched_and_saved(folder: Path, tmp_path: Path) -> None:
    component = linker(folder)
    close, _ = close_and_clear(component)
    without = answer(component, close)
    component.rerank = "names"
    with_it = answer(component, close)
    assert "rerank" in with_it.explain
    component.rerank = None
    assert answer(component, close) == without
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker", config={"linker_name": str(folder), "threshold": 0.0, "rank": "cosine", "rerank": "names"})
    nlp.to_disk(tmp_path / "pipeline")
    again: Any = spacy.load(tmp_path / "pipeline").get_pipe("sapbert_linker")
    assert again.rerank == "names"
    assert answer(again, close) == with_it


def test_wrong_settings(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(SapbertError, match=r"\[E002\].*rerank.*'names'"):
        linker(folder, rerank="all")
    fast = build_linker([read_source(DATA / "tiny_clinic.tsv")], tmp_path / "fast", model=StaticEncoder(), index=ExactIndex(), progress=False)
    with pytest.raises(SapbertError, match=r"\[E056\].*default encoder"):
        answer(linker(fast, rerank="names"), "diabetes")
    paired = build_linker([read_source(DATA / "tiny_clinic.tsv")], tmp_path / "paired", model=PairedEncoder(), index=ExactIndex(), progress=False)
    for rank in ("learned", "cosine"):
        with pytest.raises(SapbertError, match=r"\[E056\].*default encoder"):
            answer(linker(paired, rank=rank, rerank="names"), "diabetes")


def test_scores_depend_on_it() -> None:
    """Without it, the settings that a calibration stores are those of a calibration that knows nothing of it."""
    assert "rerank" not in Settings().scores_depend_on()
    assert Settings(rerank="names").scores_depend_on() == {**Settings().scores_depend_on(), "rerank": "names"}


def test_a_calibration_without_it_is_noticed(folder: Path) -> None:
    from spacy_sapbert.build.default_linkers import HPO_CALIBRATION
    from spacy_sapbert.calibration import read_calibration
    from spacy_sapbert.errors import SapbertWarning

    stored = read_calibration(HPO_CALIBRATION)
    settings = Settings(rerank="names")
    bundle = replace(linker(folder).search.bundle, calibration=replace(stored, settings=Settings().scores_depend_on()))
    with pytest.warns(SapbertWarning, match=r"\[W004\].*rerank=None, not 'names'"):
        bundle.check_settings(settings)
