"""The figures of `python -m training reranker`, computed by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spacy_sapbert.build.linker import read_source
from spacy_sapbert.encoders.transformer import NameEncoder
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.kb.builder import build_kb
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.ranking.fit import Example
from spacy_sapbert.ranking.pairs import cross_encoder
from spacy_sapbert.ranking.rerank import DEPTH, SHIPPED_CROSS_RERANKER, SHIPPED_CROSS_RERANKER_FAST, Reranker, is_close, read_reranker
from spacy_sapbert.search import CandidateSearch
from training.evaluation.benchmarks import BenchmarkReader
from training.evaluation.reranker import (
    Change,
    Part,
    changes,
    first_after,
    fitted,
    make_search,
    p_value,
    train_and_write,
    train_reranker,
    train_reranker_of_cross_encoder,
)

TINY = Path(__file__).parents[2] / "data" / "tiny_clinic.tsv"
WEIGHTS = (1.0, 0.5, 0.25)


def example(rows: list[tuple[float, float, float]], right: int) -> Example:
    return Example(np.array(rows).reshape(-1, 3), np.arange(len(rows)) == right)


SECOND_IS_BETTER = [(0.9, 0.2, 0.0), (0.85, 0.8, 0.4)]  # 0.9 + 0.1 = 1.0 and 0.85 + 0.4 + 0.1 = 1.35


def test_the_first_candidate_after_reranking() -> None:
    assert first_after(example(SECOND_IS_BETTER, 0), WEIGHTS) == 1
    assert first_after(example([(0.9, 0.5, 0.0), (0.9, 0.5, 0.0)], 0), WEIGHTS) == 0
    beyond = [(0.9, 0.0, 0.0)] * DEPTH + [(0.9, 1.0, 1.0)]
    assert first_after(example(beyond, 0), WEIGHTS) == 0


def test_changes_by_hand() -> None:
    """One is won, one is lost, one is wrong before and after, one is no close call, and for one nothing was found."""
    clear = [(0.9, 0.0, 0.0), (0.5, 1.0, 1.0)]
    examples = [example(SECOND_IS_BETTER, 1), example(SECOND_IS_BETTER, 0), example(SECOND_IS_BETTER, -1), example(clear, 0), example([], 0)]
    found = changes(examples, WEIGHTS, 0.08)
    assert found == Change(close=3, before=2, won=1, lost=1)
    assert found.after == 2
    assert changes(examples, WEIGHTS, 2.0) == Change(close=4, before=2, won=1, lost=2)


def test_p_values_by_hand() -> None:
    assert p_value(3, 0) == pytest.approx(2 * 0.5**3)
    assert p_value(3, 1) == pytest.approx(2 * (1 + 4) / 16)
    assert p_value(0, 0) == 1.0


def test_bad_input(tmp_path: Path) -> None:
    none = BenchmarkReader(tmp_path, Path("none"), Path("none"), Path("none"))
    with pytest.raises(SapbertError, match=r"\[E548\].*--fit"):
        train_reranker([], [], none)
    with pytest.raises(SapbertError, match=r"\[E519\].*gsc-dev"):
        train_reranker(["gsc-dev"], ["gsc-dev"], none)
    with pytest.raises(SapbertError, match=r"\[E548\].*--test.*a cross-encoder is measured on annotated mentions"):
        train_reranker_of_cross_encoder([], none)
    with pytest.raises(SapbertError, match=r"\[E548\].*'all': it must be names, cross_encoder or context"):
        train_and_write([], [], tmp_path, tmp_path, tmp_path / "out.json", rerank="all")
    with pytest.raises(SapbertError, match=r"\[E548\].*'names': with --fast, it must be cross_encoder"):
        train_and_write([], [], tmp_path, tmp_path, tmp_path / "out.json", fast=True)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> CandidateSearch:
    folder = tmp_path_factory.mktemp("kb") / "kb"
    build_kb([read_source(TINY)], folder, progress=False)
    return make_search(KnowledgeBase(folder), NameEncoder().initialize())


def test_each_corpus_is_measured_with_weights_of_the_other_dictionaries(search: CandidateSearch) -> None:
    """In `a` and `b` the nearest name tells the right candidate, in `c` it tells the wrong one; `c` has the dictionary of `a`."""
    helps = [example([(0.9, 0.2, 0.0), (0.89, 0.8, 0.0)], 1)] * 150 + [example([(0.9, 0.8, 0.0), (0.7, 0.2, 0.0)], 0)] * 150
    harms = [example([(0.9, 0.2, 0.0), (0.89, 0.8, 0.0)], 0)] * 10
    parts = {
        "a": Part("one", helps, [], [], search),
        "b": Part("two", helps, [], [], search),
        "c": Part("one", harms, [], [], search),
    }
    made, figures = fitted(parts, ["a", "b"])
    assert isinstance(made, Reranker)
    assert made.weights[0] > 0.1
    assert made.fit_on == "gold mentions of a, b"
    assert [figures["corpora"]["a"][key] for key in ("n", "close", "before", "after", "won", "lost")] == [300, 50.0, 50.0, 100.0, 150, 0]
    assert [figures["corpora"]["c"][key] for key in ("n", "before", "after", "won", "lost")] == [10, 100.0, 0.0, 0, 10]
    assert figures["corpora"]["c"]["p"] == pytest.approx(2 / 2**10)
    every = figures["margins"]["2.0"]
    assert (every["n"], every["close"], every["won"], every["lost"]) == (610, 100.0, 300, 10)


@pytest.mark.parametrize(
    ("fast", "ranked", "weights", "won", "figures"),
    [
        (False, False, (13 / 7, 0.0, 20 / 7), 2, "metrics/cross-encoder.json"),
        (False, True, (0.0, 0.0, 1.0), 1, "metrics/cross-encoder.json"),  # the ranker's score has the cosine of the fast encoder
        (True, False, (0.0, 0.0, 1.0), 1, "metrics/cross-encoder-fast.json"),
    ],
)
def test_the_reranker_of_the_cross_encoder(
    search: CandidateSearch,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fast: bool,
    ranked: bool,
    weights: tuple[float, ...],
    won: int,
    figures: str,
) -> None:
    """Values: score, nearest name, canonical name, agreement. The agreement tells the right candidate of the first mention, the nearest name that of the second.

    The first: 0.90 + w · 0.1 against 0.89 + w · 0.5. The second: 0.90 + w · 0.2 against 0.89 + w · 0.9; with the fast encoder this w is 0.
    """
    rows = [[(0.9, 0.2, 0.9, 0.1), (0.89, 0.2, 0.0, 0.5)], [(0.9, 0.2, 0.9, 0.1), (0.89, 0.9, 0.0, 0.1)]]
    part = Part("one", [Example(np.array(each), np.array([False, True])) for each in rows], [], [], search)
    assert search.ranker is not None
    monkeypatch.setattr(search, "ranker", search.ranker if ranked else None)
    asked: list[dict[str, object]] = []

    def parts(names: Sequence[str], reader: BenchmarkReader, **settings: object) -> dict[str, Part]:
        asked.append(settings)
        return dict.fromkeys(names, part)

    monkeypatch.setattr("training.evaluation.reranker.read_parts", parts)
    monkeypatch.chdir(tmp_path)
    shown = train_and_write([], ["ncbi-dev"], tmp_path, tmp_path, rerank="cross_encoder", fast=fast, reranker=tmp_path / "reranker.json")
    search.reranker = None
    made, found = read_reranker(tmp_path / "reranker.json"), json.loads((tmp_path / figures).read_text())
    assert asked == [{"rerank": "cross_encoder", "fast": fast, "reads": cross_encoder, "progress": False}]
    assert made.weights == pytest.approx(weights)
    assert [found["corpora"]["ncbi-dev"][key] for key in ("n", "close", "before", "won", "lost")] == [2, 100.0, 0.0, won, 0]
    assert made == read_reranker(
        SHIPPED_CROSS_RERANKER_FAST if fast or ranked else SHIPPED_CROSS_RERANKER
    )  # that of the package was made in this way
    assert "by the cross-encoder" in shown


def test_a_cross_encoder_of_ones_own_is_measured(search: CandidateSearch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agreement of a pair is one hundredth of the characters of its text, instead of what the cross-encoder of the package says."""

    read: list[str] = []
    opened: list[Any] = []

    class Own:
        def agreements(self, texts: Sequence[str]) -> Any:
            read.extend(texts)
            return np.array([len(text) / 100 for text in texts])

        def forget(self) -> None:
            read.clear()

    kb = search.bundle.kb
    own = make_search(kb, search.bundle.encoder, rerank="cross_encoder", reads=Own)  # type: ignore[arg-type]
    (made,) = own.reranking_examples([("disease of the heart", None)], [kb.concept_id(0)])
    assert all(text.startswith("disease of the heart [SEP] ") for text in read)
    assert sorted(made.values[:, 3]) == sorted(len(text) / 100 for text in read)

    def parts(names: Sequence[str], reader: BenchmarkReader, **settings: Any) -> dict[str, Part]:
        opened.append(settings["reads"]())
        return dict.fromkeys(names, Part("one", [], [], [], own))

    monkeypatch.setattr("training.evaluation.reranker.read_parts", parts)
    monkeypatch.setattr("training.evaluation.reranker.open_cross_encoder", lambda _: Own())
    (tmp_path / "encoder").mkdir()
    given: dict[str, Any] = {"rerank": "cross_encoder", "folder": tmp_path / "encoder"}
    with pytest.raises(SapbertError, match=r"\[E548\] .*--reranker"):
        train_and_write([], ["ncbi-dev"], tmp_path, tmp_path, tmp_path / "m.json", **given)
    with pytest.raises(SapbertError, match=r"\[E548\] .*--cross-encoder"):
        train_and_write([], ["ncbi-dev"], tmp_path, tmp_path, tmp_path / "m.json", **{**given, "rerank": "names"})
    given["reranker"] = tmp_path / "reranker.json"
    with pytest.raises(SapbertError, match=r"\[E541\] .*encoder"):
        train_and_write([], ["ncbi-dev"], tmp_path, tmp_path, tmp_path / "m.json", **given)
    (tmp_path / "encoder" / "adapter_config.json").touch()
    train_and_write([], ["ncbi-dev"], tmp_path, tmp_path, tmp_path / "m.json", **given)
    assert [type(one) for one in opened] == [Own]
    assert (tmp_path / "reranker.json").is_file()


def test_reranking_examples_of_a_search(search: CandidateSearch) -> None:
    """The search gives the candidates in the order of their scores; the order after reranking is the one that the training counts on."""
    kb = search.bundle.kb
    mentions = ["diabetes", "disorder of the mitral valve", "disease of the heart", "venous thrombosis in the leg", "pneumonias of lungs"]
    gold = [kb.concept_id(0)] * len(mentions)
    examples = search.reranking_examples([(text, None) for text in mentions], gold)
    assert len(examples) == len(mentions)
    assert all((np.diff(one.values[:, 0]) <= 0).all() for one in examples)
    assert all((one.values[:, 1] >= one.values[:, 2] - 1e-6).all() for one in examples)  # the nearest name is at least as near as the canonical one
    search.reranker = Reranker((0.5, 0.25), 0.08, "by hand")
    try:
        again = search.find([(text, None) for text in mentions])
        reranked = [("rerank" in found.answer.explain) for found in again]
        assert reranked == [is_close(one.values[:, 0], 0.08) for one in examples]
        assert True in reranked
        for one, found in zip(examples, again):
            if "rerank" in found.answer.explain:
                best = one.values[:DEPTH] @ np.array([1.0, 0.5, 0.25])
                assert found.answer.explain["rerank"]["score"] == pytest.approx(best.max(), abs=2e-5)
    finally:
        search.reranker = None
        search.forget()
