"""Damaged indexes with correct checksums: links to items that do not exist are refused before a library maps the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spacy_sapbert import files
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.files import MANIFEST, checksum, every_byte
from spacy_sapbert.indexes import lists
from spacy_sapbert.indexes.annoy import FOREST, AnnoyIndex
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.indexes.faiss import FILE, FaissIndex
from spacy_sapbert.indexes.lists import ListsIndex
from spacy_sapbert.indexes.usearch import GRAPH, UsearchIndex

SIZE, DIM = 300, 16
MAKERS: dict[str, Callable[[], Any]] = {
    "annoy": lambda: AnnoyIndex(n_trees=3, pca=8, threads=1),
    "usearch": lambda: UsearchIndex(connectivity=4, threads=1),
    "faiss": lambda: FaissIndex(factory="HNSW8", threads=1),
    "faiss-lists": lambda: FaissIndex(factory="IVF4,SQ8", threads=1),
    "lists": lambda: ListsIndex(pca=8, threads=1),
    "exact": ExactIndex,
}
FILES = {"annoy": FOREST, "usearch": GRAPH, "faiss": FILE, "faiss-lists": FILE}


def vectors(seed: int = 0, size: int = SIZE) -> Any:
    found = np.random.default_rng(seed).standard_normal((size, DIM)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def saved(engine: str, folder: Path) -> Path:
    index = MAKERS[engine]()
    index.build(vectors())
    index.to_disk(folder)
    return folder


def seal(folder: Path, name: str) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"][name] = {"bytes": (folder / name).stat().st_size, "blake2b": checksum(folder / name)}
    (folder / MANIFEST).write_text(json.dumps(manifest))


def refused(engine: str, folder: Path, says: str = "E202") -> None:
    with pytest.raises(SapbertError, match=says) as error:
        MAKERS[engine]().from_disk(folder)
    assert error.value.code == "E202"


def write(path: Path, at: int, number: int, kind: str = "<i4") -> None:
    data = bytearray(path.read_bytes())
    wide = np.dtype(kind).itemsize
    at %= len(data)
    data[at : at + wide] = np.array([number], dtype=kind).tobytes()
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    ("node", "word", "value", "says"),
    [
        (-1, 1, 5_000_000, "a child that does not come before it"),
        (-1, 1, -3, "a child that does not come before it"),
        (-1, 0, 7, "not with a root of 300"),
        (SIZE, 1, 2**30, "a leaf leads to an item that does not exist"),
        (SIZE, 0, -1, "-1 descendants"),
        (SIZE, 0, 301, "301 descendants"),
        (3, 0, 2, "an item has descendants"),
        (3, 5, 0x7FC00000, "an item is not finite"),
    ],
)
def test_a_forest_that_leads_nowhere(tmp_path: Path, node: int, word: int, value: int, says: str) -> None:
    folder, wide = saved("annoy", tmp_path / "x"), 4 * (8 + 3)
    write(folder / FOREST, node * wide + 4 * word if node >= 0 else -wide + 4 * word, value)
    seal(folder, FOREST)
    refused("annoy", folder, says)


@pytest.mark.parametrize(("at", "value", "kind", "says"), [
    (0, 2**20, "<u4", "holds 1,048,576 vectors"),
    (8 + SIZE * 2 * DIM, 0, "<u4", "its header is of another kind"),
    (8 + SIZE * 2 * DIM + 64, 10**9, "<u8", "nodes, and begins at"),
    (8 + SIZE * 2 * DIM + 64 + 32, 10**9, "<u8", "begins at 1,000,000,000"),
    (8 + SIZE * 2 * DIM + 64 + 8, 2**40, "<u8", "edges"),
    (8 + SIZE * 2 * DIM + 104, 90, "<i2", "the levels of its nodes"),
    (-8, 10**9, "<u4", "a node"),
])  # fmt: skip
def test_a_graph_of_usearch_that_leads_nowhere(tmp_path: Path, at: int, value: int, kind: str, says: str) -> None:
    folder = saved("usearch", tmp_path / "x")
    if at == -8:  # the first edge of the first node
        data = (folder / GRAPH).read_bytes()
        at = 8 + SIZE * 2 * DIM + 104 + 2 * SIZE + 10 + 4
        assert int.from_bytes(data[at - 4 : at], "little") > 0
    write(folder / GRAPH, at, value, kind)
    seal(folder, GRAPH)
    refused("usearch", folder, says)


@pytest.mark.parametrize("engine", FILES)
@pytest.mark.parametrize("bytes_left", [0, 1, 100, -17, -1000])
def test_an_engines_file_that_is_cut_short(tmp_path: Path, engine: str, bytes_left: int) -> None:
    folder = saved(engine, tmp_path / "x")
    path = folder / FILES[engine]
    path.write_bytes(path.read_bytes()[:bytes_left])
    seal(folder, path.name)
    refused(engine, folder)


@pytest.mark.parametrize("part", ["rows", "bounds", "centres", "seen"])
def test_lists_that_lead_nowhere(tmp_path: Path, part: str) -> None:
    folder = saved("lists", tmp_path / "x")
    path = folder / f"lists_{part}.npy"
    array = np.load(path)
    array.flat[1] = np.nan if array.dtype.kind == "f" else 2**31
    np.save(path, array)
    seal(folder, path.name)
    refused("lists", folder)


@pytest.mark.parametrize("array", [
    np.zeros((SIZE, DIM), dtype=np.int32), np.zeros((SIZE, DIM), dtype=np.float64), np.zeros((SIZE, DIM + 1), dtype=np.float16),
    np.zeros(SIZE, dtype=np.float16), np.full((SIZE, DIM), np.nan, dtype=np.float16), np.full((SIZE, DIM), np.inf, dtype=np.float32),
], ids=["whole numbers", "doubles", "wide", "flat", "nan", "infinite"])  # fmt: skip
@pytest.mark.parametrize("engine", MAKERS)
def test_vectors_that_are_others(tmp_path: Path, engine: str, array: Any) -> None:
    folder = saved(engine, tmp_path / "x")
    np.save(folder / "vectors.npy", array)
    seal(folder, "vectors.npy")
    refused(engine, folder, "vectors.npy")


@pytest.mark.parametrize(("key", "value"), [
    ("report", []), ("size", "300"), ("size", 0), ("dim", -1), ("config", None), ("files", {}), ("report", {"built_for": []}),
])  # fmt: skip
def test_a_manifest_of_other_types(tmp_path: Path, key: str, value: Any) -> None:
    folder = saved("annoy", tmp_path / "x")
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**manifest, key: value}))
    refused("annoy", folder, key if key != "files" else "does not list")


@pytest.mark.parametrize(("setting", "value"), [("search_k", "9"), ("n_trees", 0), ("pca", None), ("rescore", 1.5), ("search_k", True)])
def test_a_setting_of_another_type(tmp_path: Path, setting: str, value: Any) -> None:
    folder = saved("annoy", tmp_path / "x")
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["config"][setting] = value
    (folder / MANIFEST).write_text(json.dumps(manifest))
    refused("annoy", folder, f"setting '{setting}'")


def test_a_precision_that_there_is_not(tmp_path: Path) -> None:
    folder = saved("usearch", tmp_path / "x")
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["config"]["dtype"] = "f64"
    (folder / MANIFEST).write_text(json.dumps(manifest))
    refused("usearch", folder, "setting 'dtype' is 'f64'")


def test_a_large_file_is_looked_through_when_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = saved("lists", tmp_path / "x")
    rows = np.load(folder / "lists_rows.npy")
    rows[:] = 2**31
    np.save(folder / "lists_rows.npy", rows)
    seal(folder, "lists_rows.npy")
    monkeypatch.setattr(lists, "is_looked_through", lambda path: files._EVERY_BYTE.get())  # as for a file over 64 MiB
    index = ListsIndex(pca=8, threads=1).from_disk(folder)
    with pytest.raises(SapbertError, match=r"E202.*names row 2,147,483,648 of 300"):
        index.query(vectors(1, 2), 3)
    with every_byte(), pytest.raises(SapbertError, match=r"lists_rows\.npy has values"):
        ListsIndex(pca=8, threads=1).from_disk(folder)
