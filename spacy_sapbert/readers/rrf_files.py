"""Find UMLS's RRF tables in a folder, in its META folder or in the release's zip, and read their rows."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import BinaryIO, cast

from ..errors import DamagedFile, MissingFile, fail
from ..kb.concept import CUI_PATTERN
from .stats import ReadStats
from .text import ZIP, decoded, guard, lines, opening, unpacked

TABLES = ("MRCONSO", "MRSTY", "MRDEF", "MRREL", "MRSAB", "MRRANK", "MRCUI", "MRFILES")
# table -> number of columns, and the columns that hold CUIs
COLUMNS: dict[str, tuple[int, tuple[int, ...]]] = {
    "MRCONSO": (18, (0,)),
    "MRSTY": (6, (0,)),
    "MRDEF": (8, (0,)),
    "MRREL": (16, (0, 4)),
    "MRSAB": (25, ()),
    "MRRANK": (4, ()),
    "MRCUI": (7, (0,)),
    "MRFILES": (6, ()),
}
_CHECKED = 1000  # lines at the beginning of a table that are always checked


class Tables:
    """The tables of one release: `found["MRCONSO"]` is a path, or if `archive` is true, the name of a file in the zip.

    Raises:
        SapbertError: E401, the path does not exist; E402, there is no MRCONSO.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise fail("E401", MissingFile, path=path)
        self.path, self.archive, self.found = path, False, {}  # type: Path, bool, dict[str, str]
        self.listed: dict[str, int] = {}  # table -> its rows by MRFILES; `check` fills it
        if path.is_dir():
            for folder in (path / "META", path):  # the folder's own tables come last, so they replace those of META
                self._add(str(p) for p in sorted(folder.glob("MR*.RRF*")))
        elif is_zip(path):
            self.archive = True
            with guard(path), opening(path), zipfile.ZipFile(path) as archive:
                self._add(n for n in sorted(archive.namelist()) if not n.startswith("__MACOSX"))
        elif table_of(path.name) == "MRCONSO":
            self._add(str(p) for p in sorted(path.parent.glob("MR*.RRF*")))
            self.found["MRCONSO"] = str(path)
        else:
            self.found["MRCONSO"] = str(path)
        if "MRCONSO" not in self.found:
            raise fail("E402", path=path, expected="a UMLS release", why="it holds no MRCONSO.RRF (nor META/MRCONSO.RRF), plain or .gz")

    def _add(self, names: Iterator[str]) -> None:
        for name in names:
            table = table_of(name)
            if table and not (name.endswith(".gz") and name[:-3] == self.found.get(table)):  # if both are there, the plain one is faster
                self.found[table] = name

    def __contains__(self, table: str) -> bool:
        return table in self.found

    def check(self, encoding: str) -> None:
        """Compare the tables with MRFILES, which lists each table of a release with its numbers of rows and bytes, if MRFILES is there.

        Sizes are compared now, rows when a table has been read (the size of a .gz says nothing). A table may be larger, or smaller by one byte for
        each row: line ends can have changed. Only tables beside MRFILES are compared, and sizes only in UTF-8, in which a release comes.

        Args:
            encoding: Encoding of the tables.

        Raises:
            SapbertError: E412, a table is smaller than MRFILES says.
        """
        self.listed = {}
        if "MRFILES" not in self:
            return
        listing = self.found["MRFILES"]
        for row in self.rows("MRFILES", ReadStats(Path(listing)), encoding):
            table = table_of(row[0])
            beside = table in self.found and PurePath(self.found[table]).parent == PurePath(listing).parent
            if table and table != "MRFILES" and beside and row[4].isdigit() and row[5].isdigit():
                self.listed[table] = int(row[4])
                size = self._size(self.found[table])
                if size is not None and _is_utf8(encoding) and size + int(row[4]) < int(row[5]):
                    raise fail("E412", DamagedFile, path=self.found[table], found=size, listed=int(row[5]), what="bytes")

    def _size(self, name: str) -> int | None:
        """Return the bytes of a table; None for a .gz, whose size is known only after it was read."""
        if name.endswith(".gz"):
            return None
        if not self.archive:
            return Path(name).stat().st_size
        with guard(self.path), opening(self.path), zipfile.ZipFile(self.path) as archive:
            return archive.getinfo(name).file_size

    def text(self, table: str, encoding: str) -> Iterator[tuple[int, str]]:
        """Yield the lines of a table with their numbers."""
        if not self.archive:
            yield from lines(Path(self.found[table]), encoding)
            return
        with guard(self.path), opened_member(self.path, self.found[table]) as member:
            with unpacked(member, self.path, member=True) as file:
                yield from decoded(file, self.path / self.found[table], encoding)

    def rows(self, table: str, stats: ReadStats, encoding: str, must_hold: Sequence[str] = ()) -> Iterator[list[str]]:
        """Yield the well-formed rows of a table as lists of columns, and count all rows and malformed rows in `stats`.

        Args:
            table: Name of the table, such as "MRCONSO".
            stats: Counters; the share of malformed rows is checked at the end.
            encoding: Encoding of the file.
            must_hold: After line 1,000, rows without any of these texts are skipped unchecked. This saves time in MRREL, where splitting rows is
                slow.

        Raises:
            SapbertError: E402, MRCONSO is empty; E404 and E405; E412, there are fewer rows than MRFILES says; E413, the last row is not whole.
        """
        width, cuis = COLUMNS[table]
        number, blank, line = 0, 0, ""
        whole, checked = CUI_PATTERN.fullmatch, ["|"] * width  # rows of one concept follow each other: its CUI is checked once
        for number, line in self.text(table, encoding):
            if number > _CHECKED and must_hold and not any(map(line.__contains__, must_hold)):
                continue
            row = line.split("|")  # no csv: a quote is an ordinary character here
            size = len(row)
            if size != width and not (size == width + 1 and not row[-1]):
                if line.strip():
                    stats.bad(number, f"{table} has {width} columns, this row has {size - (not row[-1])}")
                else:
                    blank += 1
                continue
            for at in cuis:
                if row[at] == checked[at]:
                    continue
                if whole(row[at]):
                    checked[at] = row[at]
                else:
                    stats.bad(number, f"'{row[at][:20]}' is not a CUI")
                    break
            else:
                yield row
        stats.rows = number - blank
        if table == "MRCONSO" and not stats.rows:  # other tables may be empty in a release that was cut down
            raise fail("E402", DamagedFile, path=self.found[table], expected="MRCONSO.RRF", why="it is empty")
        stats.finish()
        if line.strip() and (columns := len(line.split("|"))) < width:
            raise fail("E413", DamagedFile, path=self.found[table], line=number, found=columns, width=width)
        if stats.rows < (listed := self.listed.get(table, 0)):
            raise fail("E412", DamagedFile, path=self.found[table], found=stats.rows, listed=listed, what="rows")


def _is_utf8(encoding: str) -> bool:
    return encoding.lower().replace("_", "-") in ("utf-8", "utf8", "utf-8-sig")


def table_of(name: str) -> str | None:
    """Return the name of the table in a file: "MRCONSO" for `2024AA/META/MRCONSO.RRF.gz`."""
    base = name.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".gz")
    return base[:-4] if base.endswith(".RRF") and base[:-4] in TABLES else None


@contextmanager
def opened_member(path: Path, name: str) -> Iterator[BinaryIO]:
    """Open a file in a zip.

    Raises:
        SapbertError: E402, the zip is damaged or encrypted.
    """
    with opening(path):
        archive = zipfile.ZipFile(path)
    with archive:
        with opening(path):
            member = archive.open(name)
        with member:
            yield cast(BinaryIO, member)


def is_zip(path: Path) -> bool:
    """Return whether a file is a zip, by its first bytes."""
    with open(path, "rb") as file:
        return file.read(4) == ZIP
