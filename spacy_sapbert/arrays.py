"""Open NumPy files that may come from somebody else. A file that does not hold the expected array is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_ROWS = 50_000  # checked at once
_WITHOUT_GAP = np.int32(-0x70000001)  # all bits but the three that a float16 does not have, between its sign and its exponent
_BIAS = np.float32(2.0**112)  # the exponents of float32 and float16 count from 127 and from 15


def open_array(path: Path, kinds: str, shape: tuple[int | None, ...], *, mapped: bool = True) -> npt.NDArray[Any]:
    """Open an array, read-only. Nothing is unpickled.

    Args:
        path: the file.
        kinds: kinds of numbers that it may hold, as NumPy's `dtype.kind` names them: "f" for floats, "iu" for whole numbers.
        shape: the expected size of each axis, None for any size.
        mapped: memory-map the file; False reads it into memory.

    Raises:
        ValueError: the file is missing, damaged, cut short, or holds another array; the message says so and names the file.
    """
    try:
        array = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except Exception as error:  # NumPy's reader of headers lets its parser's own errors through: SyntaxError, TokenError, RecursionError …
        raise ValueError(f"{path.name}: {' '.join(str(error).split())[:120] or type(error).__name__}") from error
    if not isinstance(array, np.ndarray):  # an archive of arrays
        raise ValueError(f"{path.name} is not an array")
    wanted = ", ".join("any" if size is None else f"{size:,}" for size in shape)
    if array.dtype.kind not in kinds:
        raise ValueError(f"{path.name} holds {array.dtype}, not numbers of kind '{kinds}'")
    if array.ndim != len(shape) or any(size is not None and size != has for size, has in zip(shape, array.shape)):
        raise ValueError(f"{path.name} has the shape {array.shape}, not ({wanted})")
    return array


def as_float32(array: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return finite floats as float32. For float16 this takes a quarter of the time of NumPy's own conversion, which also looks for infinity.

    Args:
        array: any shape, strides and byte order. Infinity and NaN of a float16 become numbers from 65,536 on: see `check_finite`.
    """
    if array.dtype != np.float16:
        return np.asarray(array, dtype=np.float32)
    bits = array.view(np.int16).astype(np.int32)
    bits <<= 16
    bits >>= 3  # the sign stays, and fills the three bits after it
    bits &= _WITHOUT_GAP
    made = bits.view(np.float32)
    made *= _BIAS
    return made


def check_finite(array: npt.NDArray[Any], name: str) -> None:
    """Check that all values of an array (n, …) are finite.

    Raises:
        ValueError: a value is NaN or infinite.
    """
    for start in range(0, len(array), _ROWS):
        block = array[start : start + _ROWS]
        if not np.isfinite(block).all():
            raise ValueError(f"{name} holds NaN or infinite values, the first in row {start + int(np.argwhere(~np.isfinite(block))[0][0]):,}")


def check_between(array: npt.NDArray[Any], name: str, least: int, below: int) -> None:
    """Check that all values of an array of whole numbers are in a range.

    Args:
        array: the array, of any shape.
        name: name of the array, for the message.
        least: the smallest value that is allowed.
        below: all values must be below this one.

    Raises:
        ValueError: a value is outside.
    """
    if array.size and not (least <= int(array.min()) and int(array.max()) < below):
        raise ValueError(f"{name} has values from {int(array.min()):,} to {int(array.max()):,}; they must be {least:,} to {below - 1:,}")
