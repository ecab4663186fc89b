"""Numbers of arrays in other precisions."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from spacy_sapbert.arrays import as_float32


def test_every_finite_float16_becomes_the_same_float32() -> None:
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)]
    made = as_float32(finite.reshape(-1, 2))
    assert (made.dtype, made.shape) == (np.float32, (31_744, 2))
    assert (made.ravel().view(np.int32) == finite.astype(np.float32).view(np.int32)).all()  # also the sign of -0.0
    assert as_float32(np.array([1.5, -2.0], dtype=np.float64)).tolist() == [1.5, -2.0]


def test_other_layouts_and_byte_orders_give_the_same_numbers(tmp_path: Path) -> None:
    rows = np.arange(12, dtype=np.float16).reshape(3, 4) - 2.5
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    for array in (rows[:, ::2], rows.T, rows[::-1], rows[:0], rows.astype(">f2"), rows.astype("<f2"), mapped):
        made = as_float32(array)
        assert (made.dtype, made.tolist()) == (np.float32, [[float(value) for value in row] for row in array])
