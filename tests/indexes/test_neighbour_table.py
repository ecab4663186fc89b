"""The table of neighbours of an index: which rows it names, its file, and folders without it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spacy_sapbert.errors import DamagedFile, SapbertError
from spacy_sapbert.files import MANIFEST, checksum, every_byte
from spacy_sapbert.indexes import neighbours, rescored
from spacy_sapbert.indexes.annoy import AnnoyIndex
from spacy_sapbert.indexes.base import KeepsNeighbours
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.indexes.neighbours import find_neighbours, pack, unpack
from spacy_sapbert.indexes.rescored import NEIGHBOURS
from spacy_sapbert.indexes.stored import exact_search

pytestmark = pytest.mark.usefixtures("one_thread")


def at_degrees(*degrees: float) -> Any:
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def clustered(n: int, dim: int = 16) -> Any:
    """Return vectors (n, dim) around n / 20 directions."""
    chance = np.random.default_rng(7)
    found = np.repeat(chance.standard_normal((n // 20, dim)), 20, axis=0) + 0.5 * chance.standard_normal((n, dim))
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


def index_of(vectors: Any, **settings: Any) -> AnnoyIndex:
    index = AnnoyIndex(**{"n_trees": 4, "pca": 0, "tune": False, "threads": 1, **settings})
    index.build(vectors)
    return index


def test_the_nearest_other_rows_come_first() -> None:
    assert find_neighbours(at_degrees(0, 10, 25, 45), 2, seed=0).tolist() == [[1, 2], [0, 2], [1, 3], [2, 1]]


def test_a_row_is_no_neighbour_of_itself_among_equal_rows() -> None:
    found = find_neighbours(at_degrees(0, 0, 0, 0, 90), 2, seed=0)
    assert all(row not in near for row, near in enumerate(found.tolist()))
    assert all(set(near) <= {0, 1, 2, 3} for near in found[:4].tolist())


def test_lists_find_most_neighbours_of_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = clustered(4_000)
    truth, _ = exact_search(vectors, vectors, 11)
    monkeypatch.setattr(neighbours, "EXACT_UP_TO", 100)
    monkeypatch.setattr(neighbours, "_BLOCK", 900)
    ticks: list[int] = []
    found = find_neighbours(vectors, 10, 0, ticks.append)
    assert ticks == [900, 900, 900, 900, 400]
    shared = [len(set(near) & set(right[1:])) for near, right in zip(found.tolist(), truth.tolist())]
    assert np.mean(shared) > 9.5
    for row, near in enumerate(found):
        assert row not in near
        assert len(set(near.tolist())) == 10
        assert (np.diff(vectors[near] @ vectors[row]) < 1e-6).all()  # the nearest first


def test_rows_in_lists_with_too_few_vectors_are_searched_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.concatenate([at_degrees(*np.linspace(0, 5, 200)), at_degrees(179, 180)])
    monkeypatch.setattr(neighbours, "EXACT_UP_TO", 100)
    monkeypatch.setattr(neighbours, "IN_LIST", 20)
    monkeypatch.setattr(neighbours, "PROBES", 1)
    found = find_neighbours(vectors.astype(np.float16), 3, 0)
    assert (found[200].tolist()[0], found[201].tolist()[0]) == (201, 200)
    assert set(found[200].tolist()[1:]) <= set(range(190, 200))


def test_many_equal_rows_take_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pairs of 2,000 equal rows would be 4 million. Names whose words an encoder does not know are equal, and may be many."""
    vectors = clustered(4_000)
    vectors[:2_000] = vectors[0]
    monkeypatch.setattr(neighbours, "EXACT_UP_TO", 100)
    monkeypatch.setattr(neighbours, "_CELLS", 50_000)
    pairs = list(neighbours._Lists(vectors, 0).compare(0, 4_000, 5))
    assert sum(len(number) for number, _, _ in pairs) < 4_000 * 5 * neighbours._TIES * neighbours.PROBES
    found = find_neighbours(vectors, 5, 0)
    assert (found[:2_000] < 2_000).all()
    assert all(row not in near and len(set(near)) == 5 for row, near in enumerate(found.tolist()))


@pytest.mark.parametrize("zeros", [3_000, 3_997, 4_000])
def test_rows_of_zeros_are_not_compared(monkeypatch: pytest.MonkeyPatch, zeros: int) -> None:
    vectors = clustered(4_000)
    right, _ = exact_search(vectors[zeros:], vectors[zeros:], min(4, 4_000 - zeros)) if zeros < 4_000 else (np.zeros((0, 0)), None)
    vectors[:zeros] = 0
    monkeypatch.setattr(neighbours, "EXACT_UP_TO", 1_000)
    ticks: list[int] = []
    found = find_neighbours(vectors.astype(np.float16), 3, 0, ticks.append)
    assert sum(ticks) == 4_000
    assert all(row not in near and len(set(near)) == 3 for row, near in enumerate(found.tolist()))
    if 4_000 - zeros > 3:
        assert np.mean([len(set(near) & set(of[1:])) for near, of in zip((found[zeros:] - zeros).tolist(), right.tolist())]) > 2.9


def test_a_row_takes_nearer_neighbours_from_the_rows_that_have_it() -> None:
    # row 3 names row 0 with 0.9, which is nearer to row 0 than its own last neighbour; row 1 is already a neighbour of row 0
    found = np.array([[1, 2], [0, 2], [0, 1], [0, 1]], dtype=np.int32)
    cosines = np.array([[0.8, 0.5], [0.8, 0.4], [0.5, 0.4], [0.9, 0.3]], dtype=np.float32)
    neighbours._take_from_others(found, cosines)
    assert found.tolist() == [[3, 1], [0, 2], [0, 1], [0, 1]]
    np.testing.assert_allclose(cosines[0], [0.9, 0.8])


@pytest.mark.parametrize(("largest", "width"), [(0, 1), (255, 1), (256, 2), (65_536, 3), (2**31 - 1, 4)])
def test_rows_are_packed_in_as_few_bytes_as_the_largest_needs(largest: int, width: int) -> None:
    rows = np.array([[0, largest], [largest // 2, largest // 3]], dtype=np.int32)
    packed = pack(rows)
    assert packed.shape == (2, 2, width)
    assert unpack(packed).tolist() == rows.tolist()


def test_an_index_answers_from_its_table_what_exact_search_finds(tmp_path: Path) -> None:
    vectors = clustered(400)
    index = index_of(vectors)
    assert isinstance(index, KeepsNeighbours)
    assert not isinstance(ExactIndex(), KeepsNeighbours)
    assert index.neighbours(np.array([3]), 5) is None  # there is no table yet
    index.find_neighbours()
    index.to_disk(tmp_path)
    asked = np.array([3, 399, 3])
    right, cosines = exact_search(vectors.astype(np.float16), vectors.astype(np.float16)[asked].astype(np.float32), 30)
    for one in (index, AnnoyIndex().from_disk(tmp_path)):
        found = one.neighbours(asked, 30)
        assert found is not None
        assert found[0].tolist() == right.tolist()
        np.testing.assert_allclose(found[1], cosines, atol=1e-6)
        few = one.neighbours(asked, 4)
        assert few is not None
        assert few[0].tolist() == right[:, :4].tolist()
        assert one.neighbours(asked, 31) is None
    assert (tmp_path / NEIGHBOURS).stat().st_size == pytest.approx(index.neighbour_bytes(400), abs=200)  # 400 × 29 × 2 bytes, and a header


def test_few_names_have_all_others_as_neighbours() -> None:
    index = index_of(at_degrees(0, 10, 25))
    index.find_neighbours()
    found = index.neighbours(np.array([2]), 3)
    assert found is not None
    assert found[0].tolist() == [[2, 1, 0]]
    alone = index_of(at_degrees(0))
    alone.find_neighbours()
    assert alone.neighbours(np.array([0]), 1) is None


def test_very_many_names_get_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescored, "MOST_WITH_NEIGHBOURS", 399)
    index = index_of(clustered(400))
    index.find_neighbours()
    assert index.neighbours(np.array([0]), 5) is None
    assert index.neighbour_bytes(400) == 0


def test_a_build_forgets_the_table_and_a_saved_folder_loses_it(tmp_path: Path) -> None:
    index = index_of(clustered(400))
    index.find_neighbours()
    index.to_disk(tmp_path)
    index.build(clustered(200))
    index.to_disk(tmp_path)
    assert not (tmp_path / NEIGHBOURS).exists()
    opened = AnnoyIndex().from_disk(tmp_path)  # as a folder of an older version
    assert opened.neighbours(np.array([0]), 5) is None
    assert opened.query(clustered(200)[:1], 5)[0][0, 0] == 0


def test_an_opened_table_can_be_saved_into_its_own_folder(tmp_path: Path) -> None:
    index = index_of(clustered(400))
    index.find_neighbours()
    index.to_disk(tmp_path)
    before = (tmp_path / NEIGHBOURS).read_bytes()
    opened = AnnoyIndex().from_disk(tmp_path)
    opened.to_disk(tmp_path)
    assert (tmp_path / NEIGHBOURS).read_bytes() == before
    assert opened.neighbours(np.array([7]), 3)[0][0, 0] == 7  # type: ignore[index]


def damage(folder: Path, table: Any) -> None:
    np.save(folder / NEIGHBOURS, table)
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"][NEIGHBOURS] = {"bytes": (folder / NEIGHBOURS).stat().st_size, "blake2b": checksum(folder / NEIGHBOURS)}
    (folder / MANIFEST).write_text(json.dumps(manifest))


@pytest.mark.parametrize("shape", [(399, 29, 2), (400, 29, 5), (400, 400, 2), (400, 0, 2), (400, 29, 0), (400, 29)])
def test_a_table_of_another_shape_is_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    index_of(clustered(400)).to_disk(tmp_path)
    damage(tmp_path, np.zeros(shape, dtype=np.uint8))
    with pytest.raises(DamagedFile, match=r"E202.*neighbours\.npy"):
        AnnoyIndex().from_disk(tmp_path)


@pytest.mark.parametrize("row", [400, 65_535, 2**31])
def test_a_table_that_names_a_row_which_does_not_exist_is_refused_when_it_is_read(tmp_path: Path, row: int) -> None:
    index_of(clustered(400)).to_disk(tmp_path)
    rows = np.zeros((400, 29), dtype="<u4")
    rows[5, 3] = row
    damage(tmp_path, rows.view(np.uint8).reshape(400, 29, 4))
    opened = AnnoyIndex().from_disk(tmp_path)
    assert opened.neighbours(np.array([4]), 5) is not None
    with pytest.raises(SapbertError, match="E202"):
        opened.neighbours(np.array([5]), 5)
    with every_byte(), pytest.raises(DamagedFile, match="E202"):
        AnnoyIndex().from_disk(tmp_path)
