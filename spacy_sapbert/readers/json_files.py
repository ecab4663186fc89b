"""Stream JSON with ijson, with coded errors. However large a file is, only one record is in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ijson

from ..errors import DamagedFile, SapbertError, fail
from .limits import OfDepth
from .text import open_binary


@contextmanager
def _guard(path: Path) -> Iterator[None]:
    try:
        yield
    except SapbertError:
        raise
    except (ijson.JSONError, UnicodeDecodeError, ValueError, OverflowError) as error:  # the last two: numbers with thousands of digits
        # JSON must be UTF-8 by its standard, so there is no encoding to choose: wrong bytes mean a damaged file
        why = " ".join(str(error).split())[:160] or "it ends too early"
        raise fail("E402", DamagedFile, path=path, expected="a whole JSON file in UTF-8", why=why) from error


def items(path: Path, prefix: str) -> Iterator[Any]:
    """Yield the objects at `prefix` ("graphs.item.nodes.item"), one by one."""
    with open_binary(path) as file, _guard(path):
        yield from ijson.items(OfDepth(file, path), prefix, use_float=True)


def pairs(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of a file that is one large object."""
    with open_binary(path) as file, _guard(path):
        yield from ijson.kvitems(OfDepth(file, path), "", use_float=True)


def are_texts(value: Any) -> bool:
    """Return whether a JSON value is a list of texts."""
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
