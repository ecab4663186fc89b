"""Return memory that this process no longer uses to the system.

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


def return_free_memory() -> bool:
    """Return the free memory of this process to the system. It takes milliseconds.

    Returns:
        Whether this is possible here: only glibc can do it.
    """
    trim = _trim()
    if trim is None:
        return False
    trim(ctypes.c_size_t(0))
    return True
