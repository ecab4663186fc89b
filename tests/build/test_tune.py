"""Measuring an index on misspelt names, and choosing its settings."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from types import SimpleNamespace
from typing import Any, Dict, List, Optional

import numpy as np
import pytest

from spacy_sapbert.build import tune as tune_module
from spacy_sapbert.build.tune import choose, measure, misspell, right_concept, tune
from spacy_sapbert.indexes.annoy import AnnoyIndex
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.kb.name_table import NameTable

NAMES = [f"{a} {b} {c}" for a in ("acute", "chronic", "mild") for b in ("left", "right") for c in ("knee pain", "hip ache", "toe itch", "arm cramp")]


# -- misspelt names -----------------------------------------------------------------------------------------------------


def test_misspelt_names_are_never_known_and_come_from_their_row() -> None:
    known = {*NAMES, *(" ".join(name.split()[1:]) for name in NAMES)}  # also allow names without the first word
    made = misspell(NAMES, known.__contains__, count=20)
    assert 10 < len(made) <= 20
    assert len({row for _, row in made}) == len(made)
    for text, row in made:
        assert text not in known
        words, was = Counter(text.split()), Counter(NAMES[row].split())
        typo = abs(len(text) - len(NAMES[row])) <= 1
        assert words == was or not words - was or typo, (text, NAMES[row])  # another order, a dropped word, or a typo


def test_misspelling_is_seeded() -> None:
    nothing = set().__contains__
    assert misspell(NAMES, nothing) == misspell(NAMES, nothing) == misspell(NAMES, nothing, seed=13)
    assert misspell(NAMES, nothing, seed=14) != misspell(NAMES, nothing)
    assert misspell(NAMES, nothing, count=5) == misspell(NAMES, nothing)[:5]


def test_all_kinds_of_change_are_made() -> None:
    made = misspell([f"alpha beta gamma delta n{n}" for n in range(300)], set().__contains__)
    dropped = sum(len(text.split()) == 4 for text, _ in made)
    moved = sum(sorted(text.split()) == sorted(f"alpha beta gamma delta n{row}".split()) for text, row in made)
    assert dropped > 50
    assert moved > 50
    assert len(made) - dropped - moved > 50  # the others have typos


@pytest.mark.parametrize("names", [[], ["a"], ["ab", "abc", ""], ["é"]])
def test_names_too_short_to_change_give_no_queries(names: List[str]) -> None:
    assert misspell(names, set().__contains__) == []


def test_if_all_is_known_there_is_nothing() -> None:
    assert misspell(NAMES, lambda text: True) == []


# -- measuring -----------------------------------------------------------------------------------------------------------


class Fake:
    """An index with given answers, which takes a given time on a fake clock."""

    dim = 2

    def __init__(self, clock: Any = None, search_k: int = 1, n_trees: int = 1, log: Optional[List[Any]] = None, **rest: Any) -> None:
        self.clock, self.search_k, self.n_trees, self.log = clock, search_k, n_trees, [] if log is None else log
        self.accuracy: Dict[int, float] = rest.get("accuracy", {})
        self.seconds: Dict[int, float] = rest.get("seconds", {})

    def get_config(self) -> Dict[str, Any]:
        return {"search_k": self.search_k, "n_trees": self.n_trees}

    def __len__(self) -> int:
        return 1000


def make_fake(clock: Any, log: List[Any], accuracy: Dict[Any, float], seconds: Dict[Any, float], settings: List[Dict[str, int]]) -> Any:
    """Return a class of indexes that are right for a share of 1,000 queries, which depends on (n_trees, search_k)."""

    class Index(Fake):
        build_params = ("n_trees",)

        def __init__(self, search_k: int = 1, n_trees: int = 1) -> None:
            super().__init__(clock, search_k, n_trees, log)

        def settings_to_try(self, size: int) -> List[Dict[str, int]]:
            assert size == 1000
            return settings

        def set_search(self, settings: Dict[str, int]) -> None:
            assert settings["n_trees"] == self.n_trees
            self.search_k = settings["search_k"]

        def build(self, vectors: np.ndarray) -> None:
            log.append(("build", self.n_trees))

        def query(self, vectors: np.ndarray, k: int) -> Any:
            key = (self.n_trees, self.search_k)
            log.append(key)
            clock.now += seconds[key]
            right = round(accuracy[key] * len(vectors))
            rows = np.tile(np.arange(k), (len(vectors), 1)) + 1
            rows[right:, 0] = 500
            return rows, np.ones(rows.shape, dtype=np.float32)

    return Index


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(tune_module.time, "perf_counter", lambda: clock.now)
    return clock


def test_measure_adds_up(clock: Any) -> None:
    truth = np.array([[1, 2, 3], [1, 2, 3], [1, 2, -1], [9, 8, 7]])

    class Three:
        def query(self, vectors: np.ndarray, k: int) -> Any:
            clock.now += 0.5
            return np.array([[1, 2, 3], [1, 7, 9], [2, 1, 5], [5, 9, 4]]), None

    found = measure(Three(), np.zeros((4, 2)), truth, lambda rows: np.isin(rows, [1, 5]))
    # firsts equal: lines 0 and 1. shared: 3/3, 1/3, 2/2, 1/3. right: 1, 1, 5 of [1, 1, 2, 5]; all among the first five. 4 queries in 0.5 s
    assert found == {"recall_at_1": 0.5, "recall_at_10": 0.6667, "acc_at_1": 0.75, "acc_at_5": 1.0, "queries_per_s": 8.0}


def test_the_right_concept() -> None:
    names = NameTable.from_rows((form, concept, 0, 0, 0, 0) for form, concept in [(0, 5), (0, 6), (1, 6), (2, 7), (3, 5)])
    concepts = names.concepts_of([0, 1, 2, 3, 4, -1, 0])
    assert concepts == [frozenset({5, 6}), frozenset({6}), frozenset({7}), frozenset({5}), frozenset(), frozenset(), frozenset({5, 6})]
    right = right_concept([0, 0, 1, 1, 2, 3], names)
    assert right(np.array([1, 2, 0, 3, -1, 0])).tolist() == [True, False, True, False, False, True]


def test_choose() -> None:
    exact = {"acc_at_1": 0.9}
    cheap, dearer, dearest = ({"acc_at_1": a, "queries_per_s": q} for a, q in ((0.8969, 10.0), (0.8971, 50.0), (0.9, 99.0)))
    assert choose([cheap, dearer, dearest], exact) == (dearer, True)  # 0.3 points are 0.003; the time does not matter
    assert choose([cheap], exact) == (cheap, False)
    worse = {"acc_at_1": 0.8, "queries_per_s": 500.0}
    assert choose([worse, cheap, {**cheap, "queries_per_s": 600.0}], exact) == (cheap, False)  # of equal ones, the first


ORACLE = (0, 0)
STEPS = [10, 20, 40, 80, 160]


def run(clock: Any, accuracy: Dict[Any, float], seconds: Dict[Any, float], settings: List[Dict[str, int]]) -> Any:
    log: List[Any] = []
    make = make_fake(clock, log, {ORACLE: 0.9, **accuracy}, {ORACLE: 1.0, **seconds}, settings)
    ticks: List[int] = []
    oracle = make(search_k=0, n_trees=0)
    right = lambda rows: rows == 1  # noqa: E731
    best, report = tune(make(), np.zeros((1000, 2)), oracle, np.zeros((1000, 2)), right, lambda: ticks.append(1))
    json.dumps(report)
    assert len(ticks) == len(report["measured"])
    return best, report, [entry for entry in log if entry != ORACLE]


def test_bisection_finds_the_cheapest_that_is_near_enough(clock: Any) -> None:
    accuracy = dict(zip([(1, k) for k in STEPS], [0.7, 0.85, 0.8975, 0.9, 0.9])) | dict(zip([(2, k) for k in STEPS], [0.8, 0.898, 0.9, 0.9, 0.9]))
    seconds = {(trees, k): trees * k / 100 for trees in (1, 2) for k in STEPS}
    settings = [{"n_trees": trees, "search_k": k} for k in STEPS for trees in (1, 2)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        best, report, log = run(clock, accuracy, seconds, settings)
    # with one tree, 40 is needed; with two trees, 20 is enough, and this comes first
    assert best.get_config() == {"n_trees": 2, "search_k": 20}
    chosen = {key: report["chosen"][key] for key in ("n_trees", "search_k", "acc_at_1", "recall_at_1", "queries_per_s")}
    # the fake's first row is right for 898 of 1,000 (0.898); the oracle's for 900, and is row 500 as well for the other 100
    assert chosen == {"n_trees": 2, "search_k": 20, "acc_at_1": 0.898, "recall_at_1": 0.998, "queries_per_s": 2500.0}
    assert report["within_0.3_points"] is True
    assert report["exact_is_as_fast"] is False
    assert [entry for entry in log if entry[0] == "build"] == [("build", 1), ("build", 2)]  # one forest for each set of build params
    assert len(report["measured"]) < len(settings)
    assert "1000 misspelt names" in report["protocol"]


def test_a_clock_that_lies_changes_nothing(clock: Any) -> None:
    settings = [{"n_trees": trees, "search_k": 10} for trees in (1, 2, 3)]
    accuracy = {(1, 10): 0.5, (2, 10): 0.9, (3, 10): 0.9}
    for seconds in ((0.1, 0.2, 0.5), (0.5, 0.2, 0.1), (0.2, 0.5, 0.1)):
        best, report, _ = run(clock, accuracy, dict(zip(accuracy, seconds)), settings)
        assert best.get_config() == {"n_trees": 2, "search_k": 10}
        assert [each["n_trees"] for each in report["measured"]] == [1, 2, 3]


def test_where_none_reaches_it_the_most_accurate_is_taken_with_a_warning(clock: Any) -> None:
    settings = [{"n_trees": 1, "search_k": k} for k in STEPS]
    accuracy = dict(zip([(1, k) for k in STEPS], [0.1, 0.2, 0.5, 0.7, 0.89]))
    with pytest.warns(UserWarning, match=r"\[W003\].*within 0\.3 points.*Acc@1 0\.8900, exact 0\.9000"):
        best, report, _ = run(clock, accuracy, dict.fromkeys(accuracy, 2.0), settings)
    assert best.search_k == 160
    assert report["within_0.3_points"] is False
    assert report["exact_is_as_fast"] is True


def test_without_settings_the_index_is_measured_as_it_is(clock: Any) -> None:
    best, report, log = run(clock, {(1, 1): 0.9}, {(1, 1): 0.5}, [])
    assert best.get_config() == {"n_trees": 1, "search_k": 1}
    assert len(report["measured"]) == 1
    assert log.count(("build", 1)) == 1


def test_a_real_forest_reaches_exact_search() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(1500, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    queries = vectors[:200] + rng.normal(scale=0.05, size=(200, 32)).astype(np.float32)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    oracle = ExactIndex()
    oracle.build(vectors)
    index = AnnoyIndex(n_trees=4, pca=16)
    right = right_concept(list(range(200)), NameTable.from_rows((row, row, 0, 0, 0, 0) for row in range(1500)))
    best, report = tune(index, vectors, oracle, queries, right, lambda: None)
    assert report["within_0.3_points"]
    assert report["chosen"]["acc_at_1"] >= report["exact"]["acc_at_1"] - 0.003
    assert report["exact"]["recall_at_1"] == report["exact"]["recall_at_10"] == 1.0
    assert best.get_config() == {**best.get_config(), "search_k": report["chosen"]["search_k"], "pca": report["chosen"]["pca"], "n_trees": 4}
    rows, _ = best.query(queries, 1)
    assert (rows[:, 0] == np.arange(200)).mean() == pytest.approx(report["chosen"]["acc_at_1"], abs=1e-4)
