"""The figures of `python -m training ranker`, computed by hand, and on a small linker."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.ranking.fit import Example
from spacy_sapbert.ranking.ranker import FEATURES, Ranker, read_ranker
from training.evaluation.benchmarks import BenchmarkReader
from training.evaluation.ranker import measured, right_within, train_and_write, train_ranker

COSINE = (1.0, *(0.0 for _ in FEATURES[1:]))


def example(cosines: list[float], right: int) -> Example:
    values = np.zeros((len(cosines), len(FEATURES)))
    values[:, 0] = cosines
    return Example(values, np.arange(len(cosines)) == right)


def test_depth_by_hand() -> None:
    one = example([0.9, 0.8, 0.7], 1)
    assert [right_within(one, COSINE, depth) for depth in (1, 2, 5)] == [False, True, True]
    assert not right_within(example([0.9, 0.8], -1), COSINE, 5)
    assert right_within(one, (-1.0, *COSINE[1:]), 2)


def test_equal_scores_keep_the_linkers_order() -> None:
    assert right_within(example([0.9, 0.9], 0), COSINE, 1)
    assert not right_within(example([0.9, 0.9], 1), COSINE, 1)
    assert not right_within(example([0.9, 0.900000001], 1), COSINE, 1)  # the difference is below the rounding error of a cosine


def test_shares_by_hand() -> None:
    examples = [example([0.9, 0.8], 0), example([0.9, 0.8], 1), example([0.9], -1), example([0.9] * 6, 5)]
    assert measured(examples, COSINE) == {"at1": 25.0, "at5": 50.0}
    assert measured([], COSINE) == {"at1": 0.0, "at5": 0.0}


def reader(data: Path) -> BenchmarkReader:
    return BenchmarkReader(data, Path("none"), Path("none"), Path("none"))


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(SapbertError, match=r"\[E548\].*--fit"):
        train_ranker("open", [], [], reader(tmp_path))
    with pytest.raises(SapbertError, match=r"\[E519\].*gsc-dev"):
        train_ranker("open", ["gsc-dev"], ["gsc-dev"], reader(tmp_path))


@pytest.mark.parametrize("shared", [False, True])
def test_the_ranker_is_written_into_no_linker_that_other_programs_share(shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache" / "linker"
    folder.mkdir(parents=True)
    if shared:
        monkeypatch.setenv("SPACY_SAPBERT_CACHE", str(tmp_path / "cache"))
    made = Ranker(COSINE, "an encoder", "some data")
    monkeypatch.setattr("training.evaluation.ranker.train_ranker", lambda *_, **__: (made, {"corpora": {}, "weights": {"cosine": 1.0}}, folder))
    shown = train_and_write(str(folder), ["gsc-dev"], [], tmp_path, tmp_path / "metrics.json").splitlines()
    note = "Other programs share this linker, so it was only measured. --ranker FILE writes the ranker."
    assert shown[1:] == ["weights: cosine 1.000", *[note] * shared]
    assert (folder / "ranker.json").exists() is not shared


def test_on_real_corpora(data_folder: Path, tmp_path: Path) -> None:
    """With the linker `open`, the ranker is better on every corpus, and the file and the figures agree."""
    shown = train_and_write(
        "open", ["ncbi-train", "bc5cdr-train", "labeledin"], ["ncbi-dev"], data_folder, tmp_path / "metrics.json", ranker=tmp_path / "ranker.json"
    )
    found = json.loads((tmp_path / "metrics.json").read_text())
    assert read_ranker(tmp_path / "ranker.json").weights == pytest.approx(tuple(found["weights"].values()))
    for name, row in found["corpora"].items():
        assert f"{name}: {row['n']:,}" in shown
        assert row["ranker"]["at1"] > row["cosine"]["at1"]
    assert found["weights"]["cui"] > 0.0 > found["weights"]["number_added"]
