"""Give memory back to the system that was freed.

Many Docs leave gaps in the heap of glibc, which keeps them: without this, the memory of a process doubles in 100,000 notes, although no object is left.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=1)
def _trim() -> Any:
    """Return the function of glibc; None with another C library."""
    try:
        return getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):  # no Linux
        return None


def give_back() -> bool:
    """Give the free memory of this process back to the system. It takes milliseconds. Return whether this is possible here."""
    trim = _trim()
    if trim is None:
        return False
    trim(ctypes.c_size_t(0))
    return True
