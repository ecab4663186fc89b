"""Read a knowledge base's SQLite file. It may come from somebody else, so it can't run code, write files or make a reader wait for ever.

A view instead of a table could compute for ever, so the schema is checked first. In a damaged file, pages can refer to each other in a cycle, so
a statement is stopped when it takes longer than reading the whole file could.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import DamagedFile, SapbertError, fail

COLUMNS = {
    "concept": ("row", "id", "name", "definition", "source"),
    "string": ("row", "norm"),
    "name": ("string", "concept", "text", "source", "language", "term_type", "rank"),
    "type": ("concept", "tui"),
    "code": ("concept", "vocabulary", "code", "rank"),
    "parent": ("concept", "parent"),
    "other_id": ("id", "concept", "kind"),
    "relation": ("concept", "relation", "target"),
    "definition": ("concept", "place", "text", "source"),
    "type_sets": ("no", "members"),
    "vocabulary_sets": ("no", "members"),
}
MAPPED_UP_TO = 1 << 30  # bytes; a larger database is not memory-mapped
LONGEST_VALUE = 1 << 26  # bytes
_LIMIT_LENGTH, _LIMIT_ATTACHED = 0, 7  # SQLite's numbers of these limits; Python 3.10 has no names for them
_ERRORS = (sqlite3.Error, UnicodeDecodeError)  # the second one: if SQLite's message quotes damaged text
_STEPS_AT_ONCE = 100_000  # steps of SQLite's machine between two checks of the count
_STEPS, _STEPS_PER_BYTE = 20_000_000, 4  # limits for a statement: reading and sorting a whole file takes less than one step per byte


class Rows:
    """The rows of a statement. If the file turns out to be damaged while they are read, E102 is raised."""

    def __init__(self, cursor: sqlite3.Cursor, folder: Path) -> None:
        self._cursor, self._folder = cursor, folder

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self._cursor
        except _ERRORS as error:
            raise damaged(self._folder, error) from error

    def fetchone(self) -> Any:
        """Return the next row, None after the last."""
        try:
            return self._cursor.fetchone()
        except _ERRORS as error:
            raise damaged(self._folder, error) from error

    def fetchall(self) -> list[Any]:
        """Return all rows."""
        return list(self)

    def one(self) -> Any:
        """Return the next row, which must exist.

        Raises:
            DamagedFile: E102, there is no such row.
        """
        row = self.fetchone()
        if row is None:
            raise damaged(self._folder, "a row that others lead to is missing")
        return row


class Database:
    """A SQLite file, opened read-only and memory-mapped. Each thread and process has its own connection.

    Args:
        path: the file.

    Raises:
        DamagedFile: E102, the file is damaged, or is not a knowledge base.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._folder = path, path.parent
        self._local = threading.local()
        self._identity = _identity(path)
        self._most = (_STEPS + _STEPS_PER_BYTE * path.stat().st_size) // _STEPS_AT_ONCE
        self._check_schema()

    def sql(self, statement: str, *values: Any) -> Rows:
        """Run a statement.

        Raises:
            DamagedFile: E102, the file is damaged.
            SapbertError: E108, the file was replaced since it was opened.
        """
        local, folder = self._local, self._folder
        try:
            if getattr(local, "pid", None) != os.getpid():  # a connection must not cross a fork or a thread
                local.connection = self._connect()
                local.pid = os.getpid()
                if _identity(self.path) != self._identity:  # its rows would not match the open name table
                    local.pid = None
                    raise fail("E108", path=folder)
            local.looks = 0
            connection: sqlite3.Connection = local.connection
            return Rows(connection.execute(statement, values), folder)
        except _ERRORS as error:
            raise damaged(folder, error) from error

    def check_pages(self) -> None:
        """Check every page of the file.

        Raises:
            DamagedFile: E102, SQLite's quick check finds damage.
        """
        found = self.sql("PRAGMA quick_check(1)").one()[0]
        if found != "ok":
            raise damaged(self.path.parent, found)

    def _connect(self) -> sqlite3.Connection:
        local = self._local
        connection = sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)
        guard(connection, LONGEST_VALUE)

        def takes_too_long() -> bool:
            local.looks = getattr(local, "looks", 0) + 1
            return bool(local.looks > self._most)

        connection.set_progress_handler(takes_too_long, _STEPS_AT_ONCE)
        # a small file is mapped completely. The map of a large file would grow with every look-up in every worker, and the system caches it anyway
        size = self.path.stat().st_size
        mapped = size if size <= MAPPED_UP_TO else 0
        for setting in (
            "query_only = ON",
            f"mmap_size = {mapped}",
            f"cache_size = {-2000 if mapped else -16000}",
        ):
            connection.execute(f"PRAGMA {setting}")
        return connection

    def _check_schema(self) -> None:
        """Check that all tables are plain tables and have their columns.

        Raises:
            DamagedFile: E102, a table or column is missing, or something else is there.
        """
        folder = self.path.parent
        found = {}
        for kind, name, text in self.sql("SELECT type, name, sql FROM sqlite_master"):
            if kind not in ("table", "index") or "virtual" in str(text or "").lower().split("(")[0].split():
                raise damaged(folder, f"it holds the {kind} '{name}', and a knowledge base has only plain tables")
            found[name] = kind
        for table, wanted in COLUMNS.items():
            if found.get(table) != "table":
                raise damaged(folder, f"it has no table '{table}'")
            columns = {name: hidden for _, name, _, _, _, _, hidden in self.sql(f"PRAGMA table_xinfo({table})")}
            if any(columns.values()) or not columns.keys() >= set(wanted):
                raise damaged(folder, f"table '{table}' has the columns {', '.join(map(str, columns))}")

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"])  # type: ignore[misc]


def damaged(folder: Path, why: object) -> SapbertError:
    """Return the error for a damaged database, E102."""
    reason = "a statement takes longer than the whole file could need" if str(why) == "interrupted" else " ".join(str(why).split())[:200]
    return fail("E102", DamagedFile, path=folder, why=f"kb.sqlite: {reason}")


def _identity(path: Path) -> str:
    """Return an identifier of the file at a path. It is another one after the file was replaced."""
    found = path.stat()
    return f"{found.st_dev}:{found.st_ino}"


def guard(connection: sqlite3.Connection, longest: int) -> None:
    """Set the limits for a file from somebody else: it can't run code or attach files, and its values can't be endless.

    Args:
        connection: a connection that was just opened.
        longest: largest number of bytes of a value.
    """
    if hasattr(connection, "setlimit"):  # from Python 3.11 on
        connection.setlimit(_LIMIT_LENGTH, longest)
        connection.setlimit(_LIMIT_ATTACHED, 0)
    for setting in ("trusted_schema = OFF", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {setting}")
