"""The same tests for every engine, compared with plain NumPy."""

from __future__ import annotations

import inspect
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict

import numpy as np
import pytest
from milvus_servers import milvus_server, standalone

from spacy_sapbert.errors import DamagedFile, MissingFile, SapbertError
from spacy_sapbert.files import folder_to_bytes
from spacy_sapbert.indexes import auto, rescored, stored
from spacy_sapbert.indexes.annoy import AnnoyIndex
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.indexes.faiss import FaissIndex
from spacy_sapbert.indexes.lists import ListsIndex
from spacy_sapbert.indexes.milvus import MilvusIndex
from spacy_sapbert.indexes.usearch import UsearchIndex
from spacy_sapbert.registry import registry
from spacy_sapbert.types import VectorIndex

ENGINES: Dict[str, Callable[[], Any]] = {
    "exact": ExactIndex,
    # search_k is far above n × n_trees, so every leaf is searched
    "annoy": lambda: AnnoyIndex(n_trees=5, search_k=100_000, pca=0, tune=False, threads=2),
    "annoy pca": lambda: AnnoyIndex(n_trees=5, search_k=100_000, pca=8, rescore=400, tune=False),
    "usearch": lambda: UsearchIndex(dtype="f32", expansion_search=400, tune=False),
    "usearch bf16": lambda: UsearchIndex(rescore=200, tune=False),
    "usearch i8 pca": lambda: UsearchIndex(dtype="i8", pca=8, rescore=400, tune=False),
    "faiss": lambda: FaissIndex(search=400, tune=False),
    "faiss pca": lambda: FaissIndex("HNSW16,SQ8", pca=8, rescore=400, tune=False),
    "faiss flat": lambda: FaissIndex("Flat", tune=False),
    "lists": lambda: ListsIndex(lists=9, probe=9, pca=0, tune=False, threads=2),
    "lists pca": lambda: ListsIndex(lists=9, probe=9, pca=8, rescore=400, tune=False),
    "milvus": lambda: MilvusIndex(search=400, tune=False),
    "milvus server pca": lambda: MilvusIndex(milvus_server(), "", pca=8, rescore=400, tune=False),
    "milvus standalone": lambda: MilvusIndex(standalone().uri, "", search=400, tune=False, timeout=60.0),
}
LISTS_FILES = {f"lists_{part}.npy" for part in ("bounds", "centres", "rows", "seen")}
FILES = {"lists": LISTS_FILES, "annoy": {"forest.ann"}, "usearch": {"graph.usearch"}, "faiss": {"index.faiss"}, "exact": set()}  # besides the vectors
DIM, SIZE = 24, 400


def unit(size: int, seed: int, dim: int = DIM) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(size, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


VECTORS, QUERIES = unit(SIZE, 1), unit(70, 2)


# Milvus runs in a separate process, and takes as long as all others together
@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.e2e) if "milvus" in name else name for name in ENGINES])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def index(engine: str) -> Any:
    made = ENGINES[engine]()
    made.build(VECTORS)
    return made


def oracle(index: Any, queries: np.ndarray, k: int, allowed: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the result of a full sort by cosine, then by row, over the vectors that the index has stored."""
    cosines = queries @ index.vectors(np.arange(len(index))).T
    if allowed is not None:
        cosines[:, ~allowed] = -np.inf
    rows = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
    found = np.take_along_axis(cosines, rows, axis=1)
    rows[np.isneginf(found)] = -1
    pad = ((0, 0), (0, k - rows.shape[1]))
    return np.pad(rows, pad, constant_values=-1), np.pad(found, pad, constant_values=-np.inf)


def assert_same(index: Any, queries: np.ndarray, found: tuple, expected: tuple) -> None:
    """Check that rows are equal, except for neighbours whose cosines differ by less than the rounding of float32 sums."""
    (rows, cosines), (expected_rows, scores) = found, expected
    np.testing.assert_allclose(cosines, scores, atol=1e-6)
    assert ((rows == -1) == (expected_rows == -1)).all()
    assert all(len(set(line)) == len(line) for line in (line[line >= 0].tolist() for line in rows))
    full = queries @ index.vectors(np.arange(len(index))).T
    there = rows >= 0
    np.testing.assert_allclose(np.take_along_axis(full, np.where(there, rows, 0), axis=1)[there], scores[there], atol=1e-6)
    assert (rows == expected_rows).mean() > 0.99


# -- what every engine must do -------------------------------------------------------------------------------------------


def test_it_is_a_vector_index(index: Any) -> None:
    assert isinstance(index, VectorIndex)
    assert (len(index), index.dim) == (SIZE, DIM)
    json.dumps(index.get_config())
    assert type(index)(**index.get_config()).get_config() == index.get_config()


@pytest.mark.parametrize("k", [1, 10, SIZE, SIZE + 5])
def test_neighbours_and_cosines_are_those_of_a_full_sort(index: Any, engine: str, k: int) -> None:
    rows, cosines = index.query(QUERIES, k)
    assert (rows.dtype, cosines.dtype, rows.shape, cosines.shape) == (np.int64, np.float32, (70, k), (70, k))
    assert_same(index, QUERIES, (rows, cosines), oracle(index, QUERIES, k))
    true = np.take_along_axis(QUERIES @ VECTORS.T, rows[:, : min(k, SIZE)], axis=1)
    assert np.abs(cosines[:, : min(k, SIZE)] - true).max() < (1e-6 if engine == "exact" else 1e-3)


def test_a_vector_finds_itself(index: Any, engine: str) -> None:
    rows, cosines = index.query(VECTORS, 1)
    assert (rows[:, 0] == np.arange(SIZE)).all()
    assert np.abs(cosines - 1).max() < (1e-6 if engine == "exact" else 1e-3)
    np.testing.assert_allclose(index.vectors(np.array([3, 0, 399])), VECTORS[[3, 0, 399]], atol=(1e-6 if engine == "exact" else 1e-3))
    assert index.vectors(np.array([3])).dtype == np.float32


def test_one_query_is_answered_as_in_a_batch(index: Any) -> None:
    rows, cosines = index.query(QUERIES, 7)
    for line in (0, 33, 69):
        alone_rows, alone_cosines = index.query(QUERIES[line : line + 1], 7)
        assert (alone_rows[0] == rows[line]).all()
        np.testing.assert_allclose(alone_cosines[0], cosines[line], atol=1e-6)


def test_k_over_the_size_is_padded(engine: str) -> None:
    index = ENGINES[engine]()
    index.build(VECTORS[:3])
    rows, cosines = index.query(QUERIES[:2], 6)
    assert np.sort(rows[:, :3]).tolist() == [[0, 1, 2]] * 2
    assert rows[:, 3:].tolist() == [[-1] * 3] * 2
    assert np.isneginf(cosines[:, 3:]).all()


@pytest.mark.parametrize("equal", [3, 40, 300])
def test_ties_are_in_the_order_of_rows_at_the_edge_too(engine: str, equal: int) -> None:
    axes = np.eye(8, dtype=np.float32)  # cosines are 0 or 1, without rounding
    vectors = np.concatenate([axes[1:4], np.repeat(axes[:1], equal, axis=0), axes[4:]])
    index = ENGINES[engine]()
    index.build(vectors)
    if engine != "exact":
        index.rescore = 1000
    for k in (1, 2, 7):
        rows, cosines = index.query(axes[:1].repeat(40, axis=0), k)
        expected = [3 + i for i in range(min(k, equal))] + [i if i < 3 else i + equal for i in range(max(0, k - equal))]
        assert rows.tolist() == [expected] * 40
        assert cosines[0].tolist() == [1.0] * min(k, equal) + [0.0] * max(0, k - equal)


@pytest.mark.parametrize("share", [0.0, 1 / SIZE, 0.1, 0.2, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("k", [1, 20, SIZE + 1])
@pytest.mark.parametrize("exactly", [rescored.EXACT_PER_FETCHED, 1], ids=["few", "many"])  # many: the engines are asked
def test_only_allowed_rows_and_all_of_them_up_to_k(index: Any, share: float, k: int, exactly: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescored, "EXACT_PER_FETCHED", exactly)
    allowed = np.zeros(SIZE, dtype=np.bool_)
    allowed[np.random.default_rng(5).permutation(SIZE)[: round(share * SIZE)]] = True
    rows, cosines = index.query(QUERIES, k, allowed=allowed)
    assert ((rows >= 0).sum(axis=1) == min(k, int(allowed.sum()))).all()
    assert allowed[rows[rows >= 0]].all()
    assert_same(index, QUERIES, (rows, cosines), oracle(index, QUERIES, k, allowed))


def test_the_farthest_rows_are_found_when_only_they_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescored, "EXACT_PER_FETCHED", 0)
    index = AnnoyIndex(n_trees=1, search_k=10, pca=0, rescore=1, tune=False)  # a search that visits almost no nodes
    index.build(VECTORS)
    cosines = VECTORS @ QUERIES[0]
    allowed = cosines < np.sort(cosines)[100]  # a quarter, all of them far from the query
    rows, _ = index.query(QUERIES[:1], 30, allowed=allowed)
    assert (rows == oracle(index, QUERIES[:1], 30, allowed)[0]).all()


@pytest.mark.parametrize(
    ("k", "share", "rescore", "fetched"),
    [
        (10, 200, 1, 40),  # half of the rows are allowed: 10 × 400 / 200 × 1.5, plus 10
        (10, 400, 1, 25),  # all are allowed
        (1, 400, 1, 11),  # 1 × 1.5, rounded down, plus 10
        (4, 300, 1, 18),  # 4 × 400 / 300 × 1.5, plus 10
        (10, 200, 90, 90),  # never fewer than are compared at full precision
        (10, 20, 1, 310),  # 10 × 400 / 20 × 1.5, plus 10
        (30, 20, 1, 400),  # 910, but never more than there are rows
    ],
)
def test_more_rows_are_fetched_under_a_filter(k: int, share: int, rescore: int, fetched: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescored, "EXACT_PER_FETCHED", 0)  # the engine is asked, however few rows are allowed
    index = AnnoyIndex(n_trees=5, search_k=100_000, pca=0, rescore=rescore, tune=False, threads=1)
    index.build(VECTORS)
    asked = []
    nearest = index._nearest

    def counting(queries: np.ndarray, fetch: int, budget: float) -> np.ndarray:
        asked.append((fetch, budget))
        return nearest(queries, fetch, budget)

    monkeypatch.setattr(index, "_nearest", counting)
    allowed = np.zeros(SIZE, dtype=np.bool_)
    allowed[np.random.default_rng(5).permutation(SIZE)[:share]] = True
    rows, _ = index.query(QUERIES[:3], k, allowed=allowed, budget=0.75)
    assert asked == [(fetched, 0.75)]
    assert ((rows >= 0).sum(axis=1) == min(k, share)).all()
    asked.clear()
    index.query(QUERIES[:3], k)
    assert asked == [(max(k, rescore), 1.0)]  # without a filter, no more than needed


@pytest.mark.parametrize(("share", "exactly"), [(45, True), (46, False)])
def test_few_allowed_rows_are_searched_exactly(share: int, exactly: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 45 or 46 allowed rows, k = 1 fetches 1 × 400 / 46 × 1.5 + 10 = 23 rows, which costs as much as comparing 2 × 23 = 46 rows."""
    monkeypatch.setattr(rescored, "EXACT_PER_FETCHED", 2)
    index = AnnoyIndex(n_trees=5, search_k=100_000, pca=0, rescore=1, tune=False, threads=1)
    index.build(VECTORS)
    asked = []
    nearest = index._nearest
    monkeypatch.setattr(index, "_nearest", lambda *given: asked.append(given) or nearest(*given))
    allowed = np.arange(SIZE) < share
    rows, _ = index.query(QUERIES[:3], 1, allowed=allowed)
    assert (not asked) == exactly
    assert (rows == oracle(index, QUERIES[:3], 1, allowed)[0]).all()


@pytest.mark.parametrize(("budget", "fetch", "nodes"), [(1.0, 30, 1000), (0.5, 30, 500), (0.2, 15, 200), (0.001, 15, 15)])
def test_the_search_budget_is_a_share_of_the_nodes(budget: float, fetch: int, nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search budget scales Annoy's search_k, but there are never fewer nodes than fetched rows. With a small one, half as many rows are fetched."""
    index = AnnoyIndex(n_trees=5, search_k=1000, pca=0, rescore=30, tune=False, threads=1)
    index.build(VECTORS)
    seen = []

    class Engine:
        def get_nns_by_vector(self, query: Any, fetch: int, search_k: int) -> Any:
            seen.append((fetch, search_k))
            return list(range(fetch))

    index._engine = Engine()
    index.query(QUERIES[:2], 5, budget=budget)
    assert seen == [(fetch, nodes)] * 2


def test_a_narrow_search_still_gives_k_rows() -> None:
    index = AnnoyIndex(n_trees=1, search_k=1, pca=0, rescore=1, tune=False)
    index.build(VECTORS)
    for k in (1, 5, 50, SIZE):
        assert ((index.query(QUERIES, k)[0] >= 0).sum(axis=1) == k).all()


def test_lists_hold_each_name_once_with_its_nearest_centre() -> None:
    index = ListsIndex(lists=7, pca=0, tune=False)
    index.build(VECTORS)
    lists = index._engine
    assert sorted(lists.rows.tolist()) == list(range(SIZE))
    np.testing.assert_array_equal(lists.seen, VECTORS[lists.rows])
    np.testing.assert_allclose(np.linalg.norm(lists.centres, axis=1), 1, atol=1e-6)
    of = np.repeat(np.arange(7), np.diff(lists.bounds))
    np.testing.assert_array_equal(of, np.argmax(lists.seen @ lists.centres.T, axis=1))


@pytest.mark.parametrize(("budget", "probes"), [(1.0, 6), (0.5, 3), (0.001, 1)])
def test_the_search_budget_is_a_share_of_the_lists(budget: float, probes: int) -> None:
    """For each query, compute by hand one candidate and the rows of the lists whose centres are nearest."""
    index = ListsIndex(lists=20, probe=6, pca=0, rescore=1, tune=False, threads=1)
    index.build(VECTORS)
    lists = index._engine
    of = np.repeat(np.arange(20), np.diff(lists.bounds))
    rows, _ = index.query(QUERIES, 1, budget=budget)
    for query, row in zip(QUERIES, rows[:, 0].tolist()):
        near = np.argsort(-(lists.centres @ query))[:probes]
        inside = lists.rows[np.isin(of, near)]
        assert row == inside[np.argmax(VECTORS[inside] @ query)]


def test_lists_of_few_names_still_give_k_rows() -> None:
    index = ListsIndex(lists=100, probe=1, pca=0, rescore=1, tune=False)
    index.build(VECTORS)
    for k in (1, 50, SIZE):
        assert ((index.query(QUERIES, k)[0] >= 0).sum(axis=1) == k).all()


@pytest.mark.parametrize(("size", "given", "expected"), [(300_000, 0, 2048), (10_000, 0, 512), (3, 0, 3), (300_000, 77, 77), (50, 77, 50)])
def test_number_of_lists(size: int, given: int, expected: int) -> None:
    assert ListsIndex(lists=given).lists_of(size) == expected  # 4 × √300,000 = 2,191; 4 × √10,000 = 400


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="Linux tells what is resident")
def test_of_a_large_file_nothing_stays_resident(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = ENGINES["usearch"]()
    first.build(VECTORS)
    first.to_disk(tmp_path)

    def resident() -> int:
        """Return how many kB of the vectors' file are in memory."""
        size, ours = 0, False
        for line in Path("/proc/self/smaps").read_text().splitlines():
            if "-" in line.split()[0]:  # a line with an address range begins a mapping
                ours = line.endswith(str(tmp_path / "vectors.npy"))
            elif ours and line.startswith("Rss:"):
                size += int(line.split()[1])
        return size

    index = ENGINES["usearch"]().from_disk(tmp_path)
    found, allowed = index.query(QUERIES, 5), np.arange(SIZE) < 20
    assert resident() > 0
    few = index.query(QUERIES, 5, allowed=allowed)
    del index
    monkeypatch.setattr(stored, "KEPT_MAPPED", 0)
    index = ENGINES["usearch"]().from_disk(tmp_path)
    before = resident()
    for one, other in ((index.query(QUERIES, 5), found), (index.query(QUERIES, 5, allowed=allowed), few)):
        assert (one[0] == other[0]).all()
        assert (one[1] == other[1]).all()
    assert (index.vectors(np.array([7, 0, 7])) == VECTORS.astype(np.float16).astype(np.float32)[[7, 0, 7]]).all()
    assert index.vectors(np.array([], dtype=np.int64)).shape == (0, DIM)
    assert resident() <= before
    again = pickle.loads(pickle.dumps(index))
    assert (again.query(QUERIES, 5)[0] == found[0]).all()


@pytest.mark.parametrize("k", [0, -1])
def test_k_must_be_positive(index: Any, k: int) -> None:
    with pytest.raises(SapbertError, match=f"got {k}") as error:
        index.query(QUERIES, k)
    assert error.value.code == "E206"


@pytest.mark.parametrize("shape", [(3, DIM + 1), (DIM,), (3, DIM, 1), (0,)])
def test_wrong_shapes(index: Any, shape: tuple) -> None:
    with pytest.raises(SapbertError, match=rf"\(n, {DIM}\)") as error:
        index.query(np.zeros(shape, dtype=np.float32), 3)
    assert error.value.code == "E204"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite(index: Any, engine: str, value: float) -> None:
    wrong = QUERIES.copy()
    wrong[[2, 5], 3] = value
    for act in (lambda: index.query(wrong, 3), lambda: ENGINES[engine]().build(wrong)):
        with pytest.raises(SapbertError, match="2 rows with NaN or infinite") as error:
            act()
        assert error.value.code == "E204"


def test_masks_of_another_length(index: Any) -> None:
    with pytest.raises(SapbertError, match="a mask of shape") as error:
        index.query(QUERIES, 3, allowed=np.ones(SIZE - 1, dtype=np.bool_))
    assert error.value.code == "E204"


def test_no_queries_and_no_vectors(index: Any, engine: str) -> None:
    rows, cosines = index.query(np.zeros((0, DIM), dtype=np.float32), 4)
    assert (rows.shape, cosines.shape, rows.dtype, cosines.dtype) == ((0, 4), (0, 4), np.int64, np.float32)
    assert index.query(np.zeros((0, DIM)), 4, allowed=np.ones(SIZE, dtype=np.bool_))[0].shape == (0, 4)
    with pytest.raises(SapbertError, match="no vectors"):
        ENGINES[engine]().build(np.zeros((0, DIM), dtype=np.float32))


def test_a_single_vector(engine: str) -> None:
    index = ENGINES[engine]()
    index.build(VECTORS[:1])
    assert index.query(QUERIES[:2], 2)[0].tolist() == [[0, -1], [0, -1]]


def test_double_precision_and_strided_queries(index: Any) -> None:
    expected = index.query(QUERIES, 5)[0]
    assert (index.query(QUERIES.astype(np.float64), 5)[0] == expected).all()
    assert (index.query(np.asfortranarray(QUERIES), 5)[0] == expected).all()
    assert (index.query(np.repeat(QUERIES, 2, axis=0)[::2], 5)[0] == expected).all()


def test_small_blocks_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    index = ExactIndex()
    index.build(VECTORS)
    expected = index.query(QUERIES, 25)
    monkeypatch.setattr(stored, "_BLOCK_CELLS", 70 * 13)  # 13 rows at a time, fewer than k
    rows, cosines = index.query(QUERIES, 25)
    assert (rows == expected[0]).all()
    np.testing.assert_allclose(cosines, expected[1], atol=1e-6)


@pytest.mark.parametrize("make", [AnnoyIndex, ExactIndex, FaissIndex, ListsIndex, MilvusIndex, UsearchIndex])
def test_annotations_are_types(make: Any) -> None:
    """Older versions of spaCy's config library cannot resolve annotations that are strings."""
    assert [name for name, setting in inspect.signature(make).parameters.items() if isinstance(setting.annotation, str)] == []


# -- folders -------------------------------------------------------------------------------------------------------------


def test_saved_and_read_again_it_is_the_same(index: Any, engine: str, tmp_path: Path) -> None:
    index.report = {"measured": [1, 2], "built_for": {"kb": "x"}}
    expected = index.query(QUERIES, 9)
    index.to_disk(tmp_path / "index")
    again = type(index)().from_disk(tmp_path / "index")
    assert (len(again), again.dim, again.report) == (SIZE, DIM, index.report)
    assert isinstance(again._stored, np.memmap)
    for one in (again, index):  # the index that was saved can still be searched
        rows, cosines = one.query(QUERIES, 9)
        assert (rows == expected[0]).all()
        assert (cosines == expected[1]).all()
    assert again.vectors(np.arange(SIZE)).tolist() == index.vectors(np.arange(SIZE)).tolist()
    again.to_disk(tmp_path / "third")
    before = folder_to_bytes(tmp_path / "index")
    third = folder_to_bytes(tmp_path / "third")
    assert {n: b for n, b in third.items() if n != "manifest.json"} == {n: b for n, b in before.items() if n != "manifest.json"}
    manifest = json.loads((tmp_path / "index" / "manifest.json").read_text())
    assert (manifest["size"], manifest["dim"], manifest["config"], manifest["report"]) == (SIZE, DIM, index.get_config(), index.report)


@pytest.mark.e2e
def test_writing_over_the_folder_it_is_mapped_from(engine: str, tmp_path: Path) -> None:
    built = ENGINES[engine]()
    built.build(VECTORS)
    built.to_disk(tmp_path)
    before = folder_to_bytes(tmp_path)
    # in a separate process, because a truncated mapped file raises SIGBUS
    code = (
        f"import sys; from pathlib import Path; from {type(built).__module__} import {type(built).__name__}\n"
        f"index = {type(built).__name__}(**{built.get_config()}).from_disk(Path(sys.argv[1])); index.to_disk(Path(sys.argv[1]))\n"
        f"print(index.query(index.vectors(__import__('numpy').arange(2)), 1)[0].tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[[0], [1]]"), done.stderr
    assert folder_to_bytes(tmp_path) == before


def test_the_same_seed_gives_the_same_bytes(engine: str, tmp_path: Path) -> None:
    folders = []
    for name, threads in (("a", 1), ("b", 2)):
        index = ENGINES[engine]()
        if engine != "exact":
            index.threads = threads
        index.build(VECTORS)
        index.to_disk(tmp_path / name)
        folders.append({n: b for n, b in folder_to_bytes(tmp_path / name).items() if n != "manifest.json"})
        folders[-1] = {n: b for n, b in folders[-1].items() if not n.startswith("milvus.db/")}  # its graph is built with all cores, so it may differ
    assert folders[0] == folders[1]
    assert set(folders[0]) == {"vectors.npy", *FILES.get(engine.split(" ")[0], set()), *(["projection.npy"] if "pca" in engine else [])}


def test_another_seed_gives_another_forest(tmp_path: Path) -> None:
    forests = []
    for seed in (1, 2):
        index = AnnoyIndex(n_trees=3, pca=0, seed=seed)
        index.build(VECTORS)
        index.to_disk(tmp_path / str(seed))
        forests.append((tmp_path / str(seed) / "forest.ann").read_bytes())
    assert forests[0] != forests[1]


def test_damage_to_any_file_is_seen(index: Any, tmp_path: Path) -> None:
    index.to_disk(tmp_path)
    names = [name for name in folder_to_bytes(tmp_path) if name != "manifest.json"]
    for name in names:
        content = (tmp_path / name).read_bytes()
        changed = bytearray(content)
        changed[len(content) // 2] ^= 1
        for wrong in (bytes(changed), content[:-1], b"", None):
            if wrong is None:
                (tmp_path / name).unlink()
            else:
                (tmp_path / name).write_bytes(wrong)
            with pytest.raises(DamagedFile, match=f"'{name}'") as error:
                type(index)().from_disk(tmp_path)
            assert error.value.code == "E202"
        (tmp_path / name).write_bytes(content)
    assert len(type(index)().from_disk(tmp_path)) == SIZE


def test_missing_and_foreign_folders(index: Any, engine: str, tmp_path: Path) -> None:
    with pytest.raises(MissingFile) as error:
        type(index)().from_disk(tmp_path / "nowhere")
    assert error.value.code == "E201"
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingFile, match=r"no manifest\.json"):
        type(index)().from_disk(tmp_path / "empty")
    other = AnnoyIndex(n_trees=1) if engine == "exact" else ExactIndex()
    other.build(VECTORS)
    other.to_disk(tmp_path / "other")
    with pytest.raises(DamagedFile, match=f"describes '{other.kind}', not '{index.kind}'") as foreign:
        type(index)().from_disk(tmp_path / "other")
    assert foreign.value.code == "E202"


def test_a_pickle_is_its_folder(index: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="to_disk"):
        pickle.dumps(index)
    index.to_disk(tmp_path)
    read = type(index)().from_disk(tmp_path)
    data = pickle.dumps(read)
    assert len(data) < 1000
    again = pickle.loads(data)
    assert again.get_config() == read.get_config()
    assert (again.query(QUERIES, 5)[0] == read.query(QUERIES, 5)[0]).all()


# -- Annoy ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("setting", "value"), [("n_trees", 0), ("search_k", -1), ("pca", -1), ("rescore", 0), ("threads", -2)])
def test_settings_are_checked(setting: str, value: int) -> None:
    with pytest.raises(SapbertError, match=f"'{setting}' of 'AnnoyIndex' is {value}") as error:
        AnnoyIndex(**{setting: value})
    assert error.value.code == "E002"
    AnnoyIndex(**{setting: {"search_k": 0, "pca": 0, "threads": 0}.get(setting, 1)})


def test_without_annoy_the_error_says_what_to_type(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    built = ENGINES["annoy"]()
    built.build(VECTORS)
    built.to_disk(tmp_path)
    monkeypatch.setitem(sys.modules, "annoy", None)
    for act in (lambda: AnnoyIndex().build(VECTORS), lambda: AnnoyIndex().from_disk(tmp_path)):
        with pytest.raises(SapbertError, match=r"pip install annoy.*ExactIndex") as error:
            act()
        assert error.value.code == "E205"


def test_a_folder_brings_what_was_measured_unless_the_reader_tunes_nothing(tmp_path: Path) -> None:
    built = AnnoyIndex(n_trees=4, search_k=777, pca=8, rescore=55, seed=3)
    built.build(VECTORS)
    built.to_disk(tmp_path)
    read = AnnoyIndex(threads=1).from_disk(tmp_path)
    assert read.get_config() == {"n_trees": 4, "search_k": 777, "pca": 8, "rescore": 55, "tune": True, "threads": 1, "seed": 3}
    own = AnnoyIndex(search_k=9999, rescore=60, tune=False).from_disk(tmp_path)
    assert own.get_config() == {"n_trees": 4, "search_k": 9999, "pca": 8, "rescore": 60, "tune": False, "threads": 0, "seed": 3}


def test_float16_costs_next_to_nothing() -> None:
    vectors = unit(300, 7, 384)
    index = AnnoyIndex(n_trees=1, pca=0)
    index.build(vectors)
    assert index._stored.dtype == np.float16
    kept = index.vectors(np.arange(300))
    # rounding to 11 bits: each value within 2**-11 of itself, so a cosine within 2**-11 of the vectors' lengths
    assert np.abs(kept - vectors).max() <= np.abs(vectors).max() * 2**-11
    assert np.abs(kept @ vectors.T - vectors @ vectors.T).max() < 2**-11


def test_the_projection_is_of_the_axes_with_most_in_them() -> None:
    rng = np.random.default_rng(4)
    vectors = rng.normal(size=(500, 6)).astype(np.float32) * np.array([9, 0.1, 5, 0.1, 0.1, 0.1], dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    index = AnnoyIndex(n_trees=2, pca=2)
    index.build(vectors)
    assert index._projection is not None
    assert index._projection.shape == (6, 2)
    np.testing.assert_allclose(index._projection.T @ index._projection, np.eye(2), atol=1e-5)
    assert (np.abs(index._projection[[0, 2], [0, 1]]) > 0.99).all()
    index = AnnoyIndex(n_trees=2, pca=6)  # all dimensions are kept, so no PCA is needed
    index.build(vectors)
    assert index._projection is None


def test_settings_to_try_rise_to_the_size() -> None:
    index = AnnoyIndex(n_trees=7, rescore=90)
    index.build(unit(200, 3, 100))
    tried = index.settings_to_try(3000)
    assert [(s["pca"], s["search_k"]) for s in tried] == [(p, k) for k in (1000, 2000, 3000) for p in (100, 64)]
    assert {(s["n_trees"], s["rescore"]) for s in tried} == {(7, 90)}
    assert AnnoyIndex(tune=False).settings_to_try(3000) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_reads_the_same_map(index: Any, tmp_path: Path) -> None:
    index.to_disk(tmp_path)
    read = type(index)().from_disk(tmp_path)
    if hasattr(read, "threads"):
        read.threads = 1
    expected = read.query(QUERIES[:1], 3)[0].tolist()
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.write(theirs, json.dumps(read.query(QUERIES[:1], 3)[0].tolist()).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        assert json.loads(pipe.read()) == expected
    assert os.waitpid(pid, 0)[1] == 0


# -- graphs ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "setting", "value"),
    [
        (UsearchIndex, "dtype", "f8"),
        (UsearchIndex, "connectivity", 1),
        (UsearchIndex, "expansion_add", 0),
        (UsearchIndex, "expansion_search", 0),
        (UsearchIndex, "build_threads", -1),
        (UsearchIndex, "rescore", 0),
        (FaissIndex, "search", 0),
        (FaissIndex, "build_threads", -1),
        (FaissIndex, "pca", -1),
    ],
)
def test_settings_of_other_engines_are_checked(make: Any, setting: str, value: Any) -> None:
    with pytest.raises(SapbertError, match=f"'{setting}' of '{make.__name__}' is {value!r}") as error:
        make(**{setting: value})
    assert error.value.code == "E002"


@pytest.mark.parametrize(("make", "library", "extra"), [(UsearchIndex, "usearch", "usearch"), (FaissIndex, "faiss", "faiss")])
def test_without_its_library_the_error_says_what_to_type(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, make: Any, library: str, extra: str
) -> None:
    built = make()
    built.build(VECTORS)
    built.to_disk(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.setitem(sys.modules, name, None)
    for act in (lambda: make().build(VECTORS), lambda: make().from_disk(tmp_path), lambda: make().require()):
        with pytest.raises(SapbertError, match=rf'pip install "spacy-sapbert\[{extra}\]".*AnnoyIndex') as error:
            act()
        assert error.value.code == "E205"


@pytest.mark.parametrize("factory", ["Nonsense7", "IVF500,Flat", "PQ7"])
def test_a_factory_that_faiss_can_not_build(factory: str) -> None:
    """An unknown word; more clusters than vectors; codes that do not divide the dimensions."""
    with pytest.raises(SapbertError, match=f"'factory' of 'FaissIndex' is '{factory}': Faiss says: [a-zA-Z]") as error:
        FaissIndex(factory).build(VECTORS)
    assert error.value.code == "E002"


def test_clusters_are_learnt_and_lists_searched(tmp_path: Path) -> None:
    index = FaissIndex("IVF8,SQ8", search=8, rescore=400, tune=False)
    index.build(VECTORS)
    assert index.search_setting == "nprobe"
    assert_same(index, QUERIES, index.query(QUERIES, 5), oracle(index, QUERIES, 5))
    index.to_disk(tmp_path)
    read = FaissIndex().from_disk(tmp_path)
    assert (read.factory, read.search) == ("IVF8,SQ8", 8)
    few = FaissIndex(search=1, tune=False).from_disk(tmp_path)  # with one list of eight, the recall is lower, but five rows are found
    found = few.query(QUERIES, 5)[0]
    assert ((found >= 0).sum(axis=1) == 5).all()
    assert 0.1 < (found == oracle(index, QUERIES, 5)[0]).mean() < 0.9
    assert (few.query(QUERIES, 5, budget=8.0)[0] == read.query(QUERIES, 5)[0]).all()
    assert (few.query(QUERIES, 5, budget=0.4)[0] == found).all()  # never fewer than one list


@pytest.mark.parametrize("queries", [1, 10, 100])
def test_a_search_leaves_pytorch_its_threads(queries: int) -> None:
    """Both use the same setting of OpenMP: if a search left only one thread, the encoder would be slow from the first Doc on."""
    import faiss
    import torch

    index = FaissIndex("IVF8,SQ8", tune=False, threads=2)
    index.build(VECTORS)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        index.query(np.repeat(QUERIES, 30, axis=0)[:queries], 3)
        assert (torch.get_num_threads(), faiss.omp_get_max_threads()) == (3, 3)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("factory", "sample"), [("IVF8,SQ8", 80), ("IVF4,SQ8", 50), ("SQ8", 50)])
def test_clusters_are_learnt_from_enough_vectors(monkeypatch: pytest.MonkeyPatch, factory: str, sample: int) -> None:
    """Clusters are learnt from at least 50 vectors, and from ten for each list."""
    from spacy_sapbert.indexes import faiss as module

    monkeypatch.setattr(module, "TRAINED_ON", 50)
    monkeypatch.setattr(module, "PER_LIST", 10)
    index, seen = FaissIndex(factory, tune=False), []
    read = index.vectors
    monkeypatch.setattr(index, "vectors", lambda rows: seen.append(len(rows)) or read(rows))
    index.build(VECTORS)
    assert sum(seen) == sample


@pytest.mark.parametrize(
    ("make", "setting", "values"),
    [
        (lambda: UsearchIndex(connectivity=8), "expansion_search", [32, 64, 128, 150]),
        (FaissIndex, "search", [16, 32, 64, 128, 150]),
        (lambda: FaissIndex("IVF16,Flat"), "search", [4, 8, 16, 32, 64, 128, 150]),
        (lambda: FaissIndex("Flat"), "", []),
        (lambda: FaissIndex("NSG32"), "", []),
        (lambda: UsearchIndex(tune=False), "", []),
    ],
)
def test_settings_that_building_tries(make: Any, setting: str, values: Any) -> None:
    assert [tried[setting] for tried in make().settings_to_try(150)] == values


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8"])
def test_a_smaller_dtype_makes_a_smaller_graph_and_is_compared_in_full(dtype: str, tmp_path: Path) -> None:
    vectors = unit(300, 7, 384)
    index = UsearchIndex(dtype=dtype, rescore=30, tune=False)
    index.build(vectors)
    index.to_disk(tmp_path)
    bytes_each = {"f32": 4, "bf16": 2, "i8": 1}[dtype] * 384
    assert 0 < (tmp_path / "graph.usearch").stat().st_size / 300 - bytes_each < 400  # edges
    rows, cosines = index.query(vectors[:50], 3)
    assert (rows[:, 0] == np.arange(50)).all()
    full = np.take_along_axis(vectors[:50] @ index.vectors(np.arange(300)).T, rows, axis=1)
    np.testing.assert_allclose(cosines, full, atol=1e-6)


@pytest.mark.parametrize("make", [lambda: UsearchIndex(build_threads=2, rescore=200), lambda: FaissIndex(build_threads=2, rescore=200)])
def test_two_threads_build_a_graph_that_finds_as_much(make: Any) -> None:
    index = make()
    index.build(VECTORS)
    assert (index.query(QUERIES, 5)[0] == oracle(index, QUERIES, 5)[0]).mean() > 0.8  # the graph differs each time; .94 to 1 were seen


@pytest.mark.e2e
def test_faiss_lives_beside_usearch() -> None:
    """Faiss crashed earlier when USearch was loaded before it."""
    code = (
        "import numpy as np; from spacy_sapbert.indexes.usearch import UsearchIndex; from spacy_sapbert.indexes.faiss import FaissIndex\n"
        "vectors = np.eye(8, dtype=np.float32)\n"
        "for make in (UsearchIndex, FaissIndex):\n    index = make(); index.build(vectors); print(index.query(vectors[:1], 1)[0].tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["[[0]]", "[[0]]"]), done.stderr


SMALL, LISTS = {"dtype": "i8", "pca": 128, "rescore": 100}, {"pca": 96, "search": 64, "rescore": 150, "build_threads": 0}


@pytest.mark.parametrize(
    ("size", "installed", "name", "settings"),
    [
        (20_000, "usearch faiss", "Exact", {}),
        (20_001, "usearch faiss", "Usearch", SMALL),
        (20_001, "faiss", "Annoy", {}),
        (1_999_999, "usearch faiss", "Usearch", SMALL),
        (2_000_000, "usearch faiss", "Faiss", {"factory": "IVF8192,SQ8", **LISTS}),  # 4 sqrt(2,000,000) = 5,657
        (12_000_000, "faiss", "Faiss", {"factory": "IVF16384,SQ8", **LISTS}),  # 13,856
        (20_000_000, "faiss", "Faiss", {"factory": "IVF32768,SQ8", **LISTS}),  # 17,889
        (12_000_000, "usearch", "Usearch", auto.SMALL_GRAPH),
        (12_000_000, "", "Annoy", {}),
    ],
)
def test_the_engine_that_is_recommended(monkeypatch: pytest.MonkeyPatch, size: int, installed: str, name: str, settings: Dict[str, Any]) -> None:
    monkeypatch.setattr(auto.importlib.util, "find_spec", lambda package: object() if package in installed.split() else None)
    found, given, why = auto.recommended(size)
    assert (found, given) == (f"spacy-sapbert.{name}Index.v1", settings)
    registry.sapbert_indexes.get(found)(**given)  # type: ignore[attr-defined]
    assert f"{size:,}" in why
    assert ("[faiss]" in why) == (size >= 2_000_000 and "faiss" not in installed)


@pytest.mark.parametrize(
    ("size", "installed", "name", "said"),
    [
        (100, "usearch faiss", "Annoy", "the default below 2,000,000 names"),
        (1_999_999, "usearch faiss", "Annoy", "--engine auto"),
        (2_000_000, "usearch faiss", "Faiss", "2,000,000 names are too many for Annoy"),
        (2_000_000, "usearch", "Usearch", "too many for Annoy"),
        (2_000_000, "", "Annoy", "[faiss]"),
    ],
)
def test_the_engine_where_none_is_named(monkeypatch: pytest.MonkeyPatch, size: int, installed: str, name: str, said: str) -> None:
    monkeypatch.setattr(auto.importlib.util, "find_spec", lambda package: object() if package in installed.split() else None)
    found, given, why = auto.default(size)
    assert found == f"spacy-sapbert.{name}Index.v1"
    assert said in why
    assert (given == {}) == (name == "Annoy")
