"""Open plain, .gz, .xz and .zst files, and .zip files with one file inside, as bytes or as numbered lines, with coded errors."""

from __future__ import annotations

import csv
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

from ..errors import DamagedFile, MissingFile, SapbertError, fail
from .limits import OfLines, OfRatio

GZIP, ZSTD, ZIP, XZ = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"\xfd7zXZ\0"
BOM = b"\xef\xbb\xbf"
_BLOCK = 1 << 17
_PIECE = 1 << 11  # bytes of zstd that are unpacked at once; they may become 64 MB


class _Zstd(io.RawIOBase):
    """A stream of an unpacked zstd file. zstandard's own stream ends without an error if the file is cut short; this one raises EOFError."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        try:
            import zstandard
        except ImportError:
            raise fail("E407", path=path, package="zstandard") from None
        self._new: Any = zstandard.ZstdDecompressor().decompressobj
        self._file, self._frame, self._open = file, self._new(), False
        self._left = memoryview(b"")  # a view, so that the rest is not copied with each read
        self.error = zstandard.ZstdError

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            data = self._file.read(_PIECE)
            if not data:
                if self._open:
                    raise EOFError("a zstd frame is not complete")
                return 0
            try:
                while data:
                    self._open = True
                    self._left = memoryview(bytes(self._left) + self._frame.decompress(data))
                    if not self._frame.eof:
                        break
                    data, self._frame, self._open = self._frame.unused_data, self._new(), False  # files may hold several frames
            except self.error as error:
                raise EOFError(str(error)) from None
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size

    def close(self) -> None:
        self._file.close()
        super().close()


@contextmanager
def guard(path: Path) -> Iterator[None]:
    """Turn the errors that a damaged archive raises while it is read into E402."""
    try:
        yield
    except (EOFError, zlib.error, zipfile.BadZipFile, lzma.LZMAError) as error:
        raise fail("E402", DamagedFile, path=path, expected="a whole file", why=f"it is truncated or damaged ({error})") from error
    except OSError as error:
        if type(error).__name__ != "BadGzipFile":
            raise
        raise fail("E402", DamagedFile, path=path, expected="a whole gzip file", why=str(error)) from error


@contextmanager
def opening(path: Path) -> Iterator[None]:
    """Turn the errors that a damaged, encrypted or unusual zip, or a file in it, raises when it is opened into E402."""
    try:
        yield
    except SapbertError:
        raise
    except (NotImplementedError, RuntimeError, ValueError, OverflowError, OSError, struct.error) as error:
        raise fail("E402", DamagedFile, path=path, expected="a whole zip", why=str(error) or type(error).__name__) from error


def unpacked(file: BinaryIO, path: Path, *, member: bool = False) -> BinaryIO:
    """Return the file itself, or its unpacked content if its first bytes are those of gzip, xz or zstd.

    The name of the file is not used. A byte-order mark is skipped.

    Args:
        file: the file, or a file in a zip.
        path: the path of the file, or of the zip.
        member: whether it is a file in a zip.

    Raises:
        SapbertError: E411, while it is read, if it unpacks to too many bytes.
    """
    start = file.read(6)
    magic = start[:4]
    file.seek(0)
    if magic.startswith(GZIP):
        import gzip

        file = gzip.GzipFile(fileobj=file)  # type: ignore[assignment]
    elif start == XZ:
        file = lzma.LZMAFile(file)  # type: ignore[assignment]  # noqa: SIM115
    elif magic == ZSTD:
        file = _Zstd(file, path)  # type: ignore[assignment]
    packed = member or start == XZ or magic == ZSTD or magic.startswith(GZIP)
    buffered = io.BufferedReader(OfRatio(file, path) if packed else file, _BLOCK)  # type: ignore[type-var]
    if buffered.peek(3)[:3] == BOM:
        buffered.read(3)
    return buffered


@contextmanager
def open_binary(path: Path) -> Iterator[BinaryIO]:
    """Open a plain, gzip, xz or zstd file, or the only file in a zip, as bytes.

    Raises:
        SapbertError: E401, it is missing; E402, it is a folder, a damaged archive, or a zip of several files; E407, zstandard is not installed;
            E411, while it is read.
    """
    if not path.exists():
        raise fail("E401", MissingFile, path=path)
    if path.is_dir():
        raise fail("E402", path=path, expected="a file", why="it is a folder")
    with guard(path), open(path, "rb") as raw:
        if raw.read(4) != ZIP:
            raw.seek(0)
            with unpacked(raw, path) as file:
                yield file
            return
        with opening(path):
            archive = zipfile.ZipFile(raw)
        with archive:
            names = [n for n in archive.namelist() if not n.endswith("/") and not n.startswith("__MACOSX")]
            if len(names) != 1:
                why = f"it holds {len(names)} files: {', '.join(names[:5])}. Unpack the one you mean."
                raise fail("E402", path=path, expected="a zip of one file", why=why)
            with opening(path):
                member = archive.open(names[0])
            with member, unpacked(member, path, member=True) as file:  # type: ignore[arg-type]
                yield file


def decoded(file: IO[bytes], path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Yield the number, from 1, and the text of each line, without its end (LF or CRLF).

    Raises:
        SapbertError: E404, with the line that cannot be decoded; E410, a line is too long.
    """
    number = 0
    try:
        with io.TextIOWrapper(
            io.BufferedReader(OfLines(file, path), _BLOCK), encoding=encoding, errors="strict", newline="\n"
        ) as text:  # a CR alone does not end a line here
            for number, line in enumerate(text, 1):
                yield number, line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        # all lines before this chunk were yielded, so the chunk starts in the next line
        line_number = number + 1 + error.object[: error.start].count(b"\n")
        raise fail("E404", DamagedFile, path=path, line=line_number) from error


def lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Open a file with `open_binary` and yield its lines as `decoded` does. Raises E402 if the file is binary."""
    with open_binary(path) as file:
        if not encoding.lower().replace("_", "-").startswith(("utf-16", "utf-32")) and b"\0" in file.peek(1024)[:1024]:  # type: ignore[attr-defined]
            raise fail("E402", DamagedFile, path=path, expected="a text file", why="it is binary")
        yield from decoded(file, path, encoding)


def quoted(path: Path, numbered: Iterable[tuple[int, str]], delimiter: str, before: int) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of the row's last line, its cells), with quotes read as in CSV.

    Args:
        path: the file, for messages.
        numbered: (number, line) of each line.
        delimiter: character between cells.
        before: number of lines that were read before.

    Raises:
        SapbertError: E403, a quote is not closed. Without this check, the rest of the file would become one cell.
    """
    cells = csv.reader((line + "\n" for _, line in numbered), delimiter=delimiter, strict=True)
    while True:
        try:
            row = next(cells)
        except StopIteration:
            return
        except csv.Error as error:
            raise fail("E403", path=path, line=before + cells.line_num, why=str(error)) from error
        yield before + cells.line_num, row
