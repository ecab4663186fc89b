"""Numbers of arrays in other precisions."""

from __future__ import annotations

import numpy as np

from spacy_sapbert.arrays import as_float32


def test_every_finite_float16_becomes_the_same_float32() -> None:
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)]
    made = as_float32(finite.reshape(-1, 2))
    assert (made.dtype, made.shape) == (np.float32, (31_744, 2))
    assert (made.ravel().view(np.int32) == finite.astype(np.float32).view(np.int32)).all()  # also the sign of -0.0
    assert as_float32(np.array([1.5, -2.0], dtype=np.float64)).tolist() == [1.5, -2.0]
