"""The figures of `python -m training ranker`, computed by hand, and on a small linker."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from spacy_sapbert.encoders.static import StaticEncoder
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.ranking.fit import Example
from spacy_sapbert.ranking.ranker import FEATURES, Ranker, read_ranker
from spacy_sapbert.search import CandidateSearch, Query
from training.evaluation.benchmarks import BenchmarkReader
from training.evaluation.ranker import Part, fitted, measured, of_all, right_within, train_and_write, train_ranker, train_ranker_of_encoder

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


class Search:
    """A search whose mentions are all right with a ranker that has a weight for names_near, and wrong without."""

    def __init__(self, ranker: Ranker | None = None) -> None:
        self.ranker, self.bundle = ranker, SimpleNamespace(encoder=SimpleNamespace(fingerprint="e"))

    def observe(self, queries: Sequence[Query], gold: Sequence[str]) -> list[Any]:
        return [SimpleNamespace(right=self.ranker is not None and self.ranker.uses("names_near")) for _ in queries]


def part(group: str, examples: list[Example], search: Search) -> Part:
    return Part(group, examples, [Query("one"), Query("two")], ["A", "B"], cast("CandidateSearch", search))


def test_the_share_of_all_mentions_leaves_the_ranker_as_it_was() -> None:
    search = Search(Ranker(COSINE, "e", "before"))
    assert of_all(part("a", [], search), None) == 0.0
    assert of_all(part("a", [], search), (1.0, *[0.5] * (len(FEATURES) - 1))) == 100.0
    assert search.ranker == Ranker(COSINE, "e", "before")


def near(names: list[float], right: int) -> Example:
    """Return candidates with equal cosines and some names near."""
    one = example([0.9] * len(names), right)
    one.values[:, FEATURES.index("names_near")] = names
    return one


def test_a_part_is_measured_with_the_weights_of_other_groups() -> None:
    """In group a, the right concept has the most names near; in group b, the fewest. So each is wrong with the weights of the other."""
    rng = np.random.default_rng(0)
    mixed = [example([cosine, 0.5], 0) for cosine in rng.uniform(0.4, 0.9, 150)]  # a higher cosine is often right, so that its weight is above 0
    parts = {
        "a-train": part("a", [*mixed, *[near([0.0, 1.0], 1)] * 150], Search()),
        "b-train": part("b", [*mixed, *[near([1.0, 0.0], 1)] * 150], Search()),
        "b-dev": part("b", [near([1.0, 0.0], 1)], Search()),
        "c-dev": part("c", [near([0.0, 1.0], 1)], Search()),
    }
    weights, found = fitted(parts, ["a-train", "b-train"], without=["cui"])
    assert found["weights"] == dict(zip(FEATURES, weights))
    assert found["weights"]["cui"] == 0.0
    rows = found["corpora"]
    assert rows["b-dev"]["ranker"] == {"at1": 0.0, "at5": 100.0}
    assert rows["b-dev"]["ablation"] == {"names_near": {"at1": 0.0, "at5": 100.0}}  # without it the two are equal, and the first one is wrong
    assert rows["b-dev"]["of_all_parts"] == measured(parts["b-dev"].examples, weights)
    assert rows["a-train"]["of_all_parts"] is None
    assert rows["b-dev"]["all"] == {"n": 2, "cosine": 0.0, "ranker": 100.0}
    only, _ = fitted({name: parts[name] for name in ("a-train", "c-dev")}, ["a-train"], without=[]), None
    assert only[1]["corpora"]["c-dev"]["ranker"] == {"at1": 100.0, "at5": 100.0}
    assert only[1]["corpora"]["a-train"]["ranker"] is None  # no other group to train on
    assert only[1]["corpora"]["a-train"]["ablation"] == {}


def reader(data: Path) -> BenchmarkReader:
    return BenchmarkReader(data, Path("none"), Path("none"), Path("none"))


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(SapbertError, match=r"\[E548\].*--fit"):
        train_ranker("open", [], [], reader(tmp_path))
    with pytest.raises(SapbertError, match=r"\[E519\].*gsc-dev"):
        train_ranker("open", ["gsc-dev"], ["gsc-dev"], reader(tmp_path))

    with pytest.raises(SapbertError, match=r"\[E548\].*'--encoder' of the evaluation is 'mine'.*default, fast, paired"):
        train_ranker_of_encoder("mine", ["gsc-dev"], [], reader(tmp_path))
    with pytest.raises(SapbertError, match=r"\[E548\].*--linker"):
        train_and_write("open", ["gsc-dev"], [], tmp_path, tmp_path / "metrics.json", encoder="fast")


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
    assert found["weights"]["words_missing"] == 0.0


def test_the_ranker_of_an_encoder(data_folder: Path, tmp_path: Path) -> None:
    """Each corpus is searched in its own dictionary, MEDIC and MONDO, and measured with the weights of the other one."""
    shown = train_and_write(
        *(None, ["ncbi-train", "biomap"], ["ncbi-dev"], data_folder, tmp_path / "metrics.json"),
        encoder="fast",
        work=tmp_path / "work",
        ranker=tmp_path / "ranker.json",
    )
    found = json.loads((tmp_path / "metrics.json").read_text())
    assert read_ranker(tmp_path / "ranker.json").encoder == StaticEncoder().initialize().fingerprint
    assert found["weights"]["cui"] == found["weights"]["weak_name"] == found["weights"]["static"] == 0.0
    for name, row in found["corpora"].items():
        assert row["ranker"]["at1"] > row["cosine"]["at1"]
        assert row["all"]["ranker"] > row["all"]["cosine"]
        assert f"{name}, all {row['all']['n']:,} mentions: {row['all']['cosine']:.1f} -> {row['all']['ranker']:.1f}" in shown
    assert found["corpora"]["ncbi-dev"]["all"]["n"] == 787 - 10  # without the mentions of two concepts, for which no first candidate is right
