"""The SQLite file of a review: its schema, how it is opened and checked, and transactions for several threads and processes.

The log of events is append-only: triggers refuse to change or delete its rows. The file holds clinical text, so only its owner may read it.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import DamagedFile, SapbertError, fail
from ..kb.database import guard

VERSION = 1
APPLICATION = 0x53425256  # "SBRV"
BUSY_SECONDS = 30.0  # how long a writer waits for another writer
LONGEST_VALUE = 1 << 28  # bytes, most in one value
MODE = 0o600  # only the owner may read and write the file
SCHEMA = {
    "about": "CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "note": (
        "CREATE TABLE note (note INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, text TEXT NOT NULL, lang TEXT NOT NULL, "
        "direction TEXT NOT NULL, linked_with TEXT NOT NULL)"
    ),
    "mention": (
        "CREATE TABLE mention (mention INTEGER PRIMARY KEY AUTOINCREMENT, note INTEGER NOT NULL REFERENCES note, start INTEGER NOT NULL, "
        "end INTEGER NOT NULL, cui TEXT NOT NULL, doubt REAL NOT NULL, added INTEGER NOT NULL, record TEXT NOT NULL, "
        "UNIQUE (note, start, end, added))"
    ),
    "mention_doubt": "CREATE INDEX mention_doubt ON mention (doubt, cui, added)",
    "event": (
        "CREATE TABLE event (event INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, reviewer TEXT NOT NULL, kind TEXT NOT NULL, "
        "mention INTEGER, data TEXT NOT NULL)"
    ),
    "event_stays": "CREATE TRIGGER event_stays BEFORE DELETE ON event BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END",
    "event_is_final": "CREATE TRIGGER event_is_final BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END",
}


# table -> a condition for rows that no version of this package writes; SQLite checks neither the types of values nor that a text is JSON
WRONG = {
    "note": "typeof(id) || typeof(text) || typeof(lang) || typeof(direction) || typeof(linked_with) != 'texttexttexttexttext'",
    "mention": "typeof(note) || typeof(start) || typeof(end) || typeof(added) != 'integerintegerintegerinteger' OR typeof(cui) != 'text' "
    "OR typeof(doubt) != 'real' OR typeof(record) != 'text' OR NOT json_valid(record) OR json_type(record) != 'object'",
    "event": "typeof(at) || typeof(reviewer) || typeof(kind) || typeof(data) != 'texttexttexttext' OR NOT json_valid(data) "
    "OR typeof(mention) NOT IN ('integer', 'null')",
}


class ReviewDatabase:
    """A review's SQLite file. Each thread and process has its own connection.

    Args:
        path: the file; it is created if it does not exist.

    Raises:
        DamagedFile: E080, the file is not a review, or is damaged.
        SapbertError: E081, the file cannot be used; E106, it has another format.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        with self._coded():
            new = _make_private(path)
            if new or not path.stat().st_size:
                self._create()
            self._check()

    def rows(self, statement: str, *values: Any) -> list[Any]:
        """Run a statement that only reads, and return its rows."""
        with self._coded():
            return self._connection().execute(statement, values).fetchall()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Run a write transaction, of which there is only one at a time. It is committed at the end; an exception rolls it back."""
        with self._coded():
            connection = self._connection()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def close(self) -> None:
        """Close the connection of this thread."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def _connection(self) -> sqlite3.Connection:
        local = self._local
        if getattr(local, "connection", None) is None or local.pid != os.getpid():  # a connection must not cross a fork or a thread
            local.connection, local.pid = self._connect(), os.getpid()
        connection: sqlite3.Connection = local.connection
        return connection

    def _connect(self) -> sqlite3.Connection:
        uri = f"{self.path.resolve().as_uri()}?mode=rw"
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        guard(connection, LONGEST_VALUE)
        for setting in ("foreign_keys = ON", "synchronous = FULL"):
            connection.execute(f"PRAGMA {setting}")
        return connection

    def _create(self) -> None:
        connection = self._connection()
        connection.execute("PRAGMA journal_mode = WAL")
        with self.writing():
            if not connection.execute("SELECT 1 FROM sqlite_master").fetchone():  # another process may have created the schema meanwhile
                for statement in SCHEMA.values():
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")

    def _check(self) -> None:
        """Check that the schema of the file is exactly that of this version, so that it holds no foreign view or trigger."""
        connection = self._connection()
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise self._damaged("it is another program's database")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != VERSION:
            raise fail("E106", path=self.path, found=version, expected=VERSION)
        found = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name != 'sqlite_sequence'"))
        if found != SCHEMA:
            raise self._damaged("its tables are not those of a review")
        result = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if result != "ok":
            raise self._damaged(result)
        for table, wrong in WRONG.items():
            if (found := connection.execute(f"SELECT rowid FROM {table} WHERE {wrong} LIMIT 1").fetchone()) is not None:
                raise self._damaged(f"row {found[0]} of its table '{table}' holds values of another type")

    def _damaged(self, why: object) -> SapbertError:
        return fail("E080", DamagedFile, path=self.path, why=" ".join(str(why).split())[:200])

    @contextmanager
    def _coded(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:  # locked, full, read-only
            raise fail("E081", path=self.path, error=error) from error
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # what SQLite says about a damaged schema need not be UTF-8
            raise self._damaged(error) from error
        except OSError as error:
            raise fail("E081", path=self.path, error=error.strerror or error) from error


def _make_private(path: Path) -> bool:
    """Create the file if it does not exist, with access only for its owner. Return whether it was created. SQLite's other files get the same mode."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, MODE))
    except FileExistsError:
        os.chmod(path, MODE)
        return False
    return True
