"""Limits against small files that would fill the memory when they are unpacked or parsed.

Sources come from elsewhere. A few kilobytes can unpack to gigabytes, all of it can be one line, and JSON can be nested a million levels deep.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import IO, Any

from ..errors import DamagedFile, fail

LINE_VARIABLE, RATIO_VARIABLE = "SPACY_SAPBERT_MAX_LINE_MB", "SPACY_SAPBERT_MAX_RATIO"
MAX_LINE_MB = 16.0  # the longest line of a UMLS release or of an ontology has less than 1 MB
MAX_RATIO = 200.0  # unpacked bytes for each byte of the file; text has 5 to 30
FREE_BYTES = 64 << 20  # any file may unpack to this many bytes
MAX_DEPTH = 200  # levels of JSON; an ontology has fewer than 20


def _limit(variable: str, default: float) -> float:
    """Return a limit from an environment variable, or the default if it is not set.

    Raises:
        SapbertError: E002, the variable is not a number above 0.
    """
    text = os.environ.get(variable)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise fail("E002", setting=variable, component="the environment", value=text, why="it must be a number above 0.")
    return value


class _Counted(io.RawIOBase):
    """A file whose bytes are checked while they are read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read1(len(buffer)) if hasattr(self._file, "read1") else self._file.read(len(buffer))
        self._look(data)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()

    def _look(self, data: bytes) -> None:
        """Check the bytes that were read."""


class OfRatio(_Counted):
    """The content of an archive, with a limit for its size relative to the archive's.

    Args:
        file: the content.
        path: the archive.

    Raises:
        DamagedFile: E411, while it is read.
    """

    def __init__(self, file: IO[bytes], path: Path) -> None:
        super().__init__(file)
        self._path, self._read, self._size = path, 0, path.stat().st_size
        self._ratio = _limit(RATIO_VARIABLE, MAX_RATIO)
        self._most = max(FREE_BYTES, int(self._ratio * self._size))

    def _look(self, data: bytes) -> None:
        self._read += len(data)
        if self._read > self._most:
            raise fail("E411", DamagedFile, path=self._path, size=self._size, limit=self._ratio, variable=RATIO_VARIABLE)


class OfLines(_Counted):
    """A text file with a limit for the length of its lines.

    Args:
        file: the text.
        path: its file, for messages.

    Raises:
        DamagedFile: E410, while it is read.
    """

    def __init__(self, file: IO[bytes], path: Path) -> None:
        super().__init__(file)
        self._path, self._limit = path, _limit(LINE_VARIABLE, MAX_LINE_MB)
        self._lines, self._since = 0, 0  # line ends so far, and bytes since the last one

    def _look(self, data: bytes) -> None:
        last = data.rfind(b"\n")
        if last < 0:
            self._since += len(data)
        else:
            self._lines += data.count(b"\n")
            self._since = len(data) - last - 1
        if self._since > self._limit * 1e6:
            raise fail("E410", DamagedFile, path=self._path, line=self._lines + 1, limit=self._limit, variable=LINE_VARIABLE)


class OfDepth:
    """A JSON text with a limit for its depth. A parser needs memory for each level, and some need the square of their number.

    Args:
        file: the text.
        path: its file, for messages.

    Raises:
        DamagedFile: E402, while it is read.
    """

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._path = file, path
        self._depth, self._quotes, self._rest = 0, 0, b""

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        data = self._file.read(size)
        self._look(data)
        return data

    def _look(self, data: bytes) -> None:
        import numpy as np

        text = self._rest + data
        ends = len(text) - len(text.rstrip(b"\\"))
        self._rest = b"\\" if ends % 2 else b""  # the character that it escapes comes with the next bytes
        text = text[: len(text) - len(self._rest)].replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
        signs = np.frombuffer(text, dtype=np.uint8)
        inside = (np.cumsum(signs == ord('"')) + self._quotes) & 1
        opens = (signs == ord("[")) | (signs == ord("{"))
        closes = (signs == ord("]")) | (signs == ord("}"))
        depths = self._depth + np.cumsum((opens.astype(np.int8) - closes) * (1 - inside))
        if len(depths):
            if int(depths.max()) > MAX_DEPTH:
                raise fail(
                    "E402", DamagedFile, path=self._path, expected="JSON that can be read", why=f"it is nested more than {MAX_DEPTH} levels deep"
                )
            self._depth, self._quotes = int(depths[-1]), int(inside[-1])
