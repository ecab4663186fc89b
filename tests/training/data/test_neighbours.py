"""Concepts with similar names."""

from __future__ import annotations

import shutil
from itertools import product
from pathlib import Path
from typing import List, Tuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from training.data import neighbours
from training.data.neighbours import nearest_labels
from training.data.pairs import SCHEMA


def write(folder: Path, rows: List[Tuple[str, str, int]]) -> Path:
    pq.write_table(pa.Table.from_pylist([dict(zip(("anchor", "positive", "label"), row)) for row in rows], schema=SCHEMA), folder / "pairs.parquet")
    return folder


def test_the_nearest_share_character_n_grams(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        [
            ("muscular dystrophy", "dystrophy of muscle", 0),
            ("myotonic dystrophy", "dystrophia myotonica", 2),  # label 1 is in no pair
            ("kidney stone", "renal calculus", 3),
            ("gallstone", "stone of the gallbladder", 4),
        ],
    )
    found = nearest_labels(folder, count=2)
    assert found.shape == (5, 2)
    assert found.dtype == np.int32
    assert 2 in found[0]
    assert 0 in found[2]
    assert 4 in found[3]
    assert 3 in found[4]
    assert (found[1] == -1).all()
    assert all(label not in found[label] for label in (0, 2, 3, 4))
    assert np.array_equal(found, nearest_labels(folder, count=2))


def test_fewer_concepts_than_asked_for(tmp_path: Path) -> None:
    found = nearest_labels(write(tmp_path, [("a fever", "b fever", 0), ("rash", "skin rash", 1), ("gout", "podagra", 2)]), count=8)
    assert sorted(found[0][found[0] >= 0]) == [1, 2]
    assert (nearest_labels(write(tmp_path, [("a", "b", 0)]), count=3) == -1).all()


def test_many_concepts_go_through_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        (f"{word} {kind}", f"{kind} of the {word}", i)
        for i, (word, kind) in enumerate(product(("kidney", "liver", "bone", "lung", "skin"), ("cancer", "stone", "abscess")))
    ]
    folder = write(tmp_path, rows)
    exact = nearest_labels(folder, count=3)
    monkeypatch.setattr(neighbours, "EXACT", 0)
    assert np.array_equal(np.sort(nearest_labels(folder, count=3)), np.sort(exact))
    assert all(label not in exact[label] for label in range(len(rows)))


def test_what_was_found_is_kept_for_the_same_pairs(tiny_pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "pairs"
    shutil.copytree(tiny_pairs, folder)
    first = neighbours.kept_nearest_labels(folder, "a" * 64)
    assert np.array_equal(first, neighbours.nearest_labels(folder))
    monkeypatch.setattr(neighbours, "nearest_labels", lambda pairs: np.zeros((1, 1), dtype=np.int32))
    assert np.array_equal(neighbours.kept_nearest_labels(folder, "a" * 64), first)
    assert neighbours.kept_nearest_labels(folder, "b" * 64).shape == (1, 1)  # other pairs
    assert not list(folder.glob(".*"))
