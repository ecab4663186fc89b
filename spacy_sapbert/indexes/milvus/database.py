"""Local databases of milvus-lite: temporary folders, and copies that share large files with the original."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from multiprocessing.util import Finalize
from pathlib import Path

from ...errors import fail

DATABASE = "milvus.db"  # in the index's folder


class Scratch:
    """A temporary folder. It is removed with this object, but only in the process that made it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="milvus-"))
        self._finalizer = weakref.finalize(self, _remove, self.path, os.getpid())
        if multiprocessing.parent_process() is not None:  # a worker process ends without running weakref's finalizers
            Finalize(None, _remove, (self.path, os.getpid()), exitpriority=10)

    def remove(self) -> None:
        """Remove the folder now."""
        self._finalizer()


def _remove(path: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


def copy_database(source: Path, target: Path, *, link: bool) -> None:
    """Copy a database.

    milvus-lite never changes the files of segments and indexes, which are large, so they can be linked. All other files are copied.

    Args:
        source: The database's folder.
        target: The copy's folder.
        link: Link large files, if the file system supports it.

    Raises:
        SapbertError: E233, the database does not exist.
    """
    if not source.is_dir():
        raise fail("E233", collection="of the index", uri=source)
    for path in sorted(source.rglob("*")):
        if not path.is_file() or path.name == "LOCK" or path.suffix == ".tmp":
            continue
        there = target / path.relative_to(source)
        there.parent.mkdir(parents=True, exist_ok=True)
        if not (link and path.suffix in (".parquet", ".idx") and _linked(path.resolve(), there)):
            shutil.copyfile(path, there)


def _linked(path: Path, there: Path) -> bool:
    """Link a file, and return whether that was possible."""
    for link in (os.link, os.symlink):  # only the second works across file systems
        with suppress(OSError):
            link(path, there)
            return True
    return False
