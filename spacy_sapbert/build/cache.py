"""Show what is in the cache folder and what of it this version uses, and remove the rest."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ..bundle import CALIBRATION, KB, KIND, RANKER, VERSION
from ..files import MANIFEST, clear_abandoned, is_being_written, is_older_than, parse_json
from ..kb.additions import FILE as ADDITIONS
from ..kb.knowledge_base import DATABASE
from .default_linkers import ATHENA, FROM_CONFIG, NAMES, cache_folder, current_folders, folder_name, lock_of
from .vectors import LOCK, SUFFIX, folder_of

DATA = Path(__file__).parents[1] / "data"  # calibrations and rankers of this package
PHRASES = "phrases"  # kind of the folders that hold the names that `concept_matcher` looks for
DAY = 86_400.0  # seconds; a file that has no lock is taken for a leftover if nobody has written into it for so long
_MADE = re.compile(r"(?P<name>.+?)-v(?P<format>\d+)-(?P<version>\d+\.\d[^-]*)(?:-(?P<parts>.+))?")  # see `default_linkers.folder_name`
_HASH = re.compile("[0-9a-f]{16}")  # a folder of `loaders.from_sources`
_SCRATCH = re.compile(r"\.(?P<of>.+)\.[a-z0-9_]+\.tmp")
_TRIAL = re.compile(r"\.[a-z0-9_]{8}\.tmp")  # see `default_linkers.check_cache`
_TABLE = re.compile(r"[0-9a-f]{12}-[0-9a-f]{16}\.sqlite")


class State(Enum):
    """What is known about an entry of the cache."""

    USED = "used by this version"
    UNKNOWN = "may be in use"  # linkers of configs and of other packages, names of other vocabularies, tables of Athena
    CHANGED = "not used, but holds what was added or fit"
    UNUSED = "not used by this version"
    LEFT = "left by a stopped build"
    LOCK = "lock file that no build uses"
    BUILDING = "being built"
    FOREIGN = "not made by this package"


CLEANED = (State.UNUSED, State.LEFT, State.LOCK)  # what `cache --clean` removes
OURS = (*CLEANED, State.USED, State.UNKNOWN, State.CHANGED)  # what `cache --clean --all` removes


@dataclass(frozen=True)
class Entry:
    """A folder or file in the cache.

    Attributes:
        path: where it is.
        state: what is known about it.
        bytes: size of its files.
        last_use: time when a file of it was last read or written, in seconds since 1970. Most systems note one reading a day, some none.
        owner: the folder of the cache, built or not, whose lock guards the entry; None if none does.
    """

    path: Path
    state: State
    bytes: int
    last_use: float
    owner: Path | None = None


def entries(rules: str) -> list[Entry]:
    """Return everything that is in the cache folder, sorted by path.

    Args:
        rules: fingerprint of the rules by which this version's `concept_matcher` makes phrases from names.

    Raises:
        SapbertError: E055, the user has no home folder.
        OSError: the folder cannot be read.
    """
    folder = cache_folder()
    if not folder.is_dir():
        return []
    versions = _Versions(rules)
    found: list[Entry] = []
    for path in sorted(folder.iterdir()):
        if path.name == FROM_CONFIG and _is_folder(path):
            found += [_entry_of(each, _HASH, versions) for each in sorted(path.iterdir())]
        elif path.name == ATHENA and _is_folder(path):
            found += [_table_entry(each) for each in sorted(path.iterdir())]
        else:
            found.append(_entry_of(path, _MADE, versions))
    return found


def remove(entry: Entry) -> bool:
    """Remove an entry that this package made. A folder disappears at once, so that no other process finds a part of it.

    Returns:
        Whether it was removed; False if another process builds it now.

    Raises:
        OSError: it cannot be removed, for example because it belongs to another user.
    """
    if entry.owner is None:
        entry.path.unlink(missing_ok=True)
        return True
    lock = lock_of(entry.owner)
    held = FileLock(lock, timeout=0)
    try:
        held.acquire()
    except Timeout:
        return False
    try:
        if _parts_are_written(entry.owner):
            return False
        if _SCRATCH.fullmatch(entry.path.name):
            clear_abandoned(entry.owner)  # it puts the folder back that a killed build was about to replace
        if entry.path != lock and entry.path.exists():
            gone = entry.path.with_name(f".{entry.owner.name}.{secrets.token_hex(4)}.tmp")
            os.replace(entry.path, gone)
            shutil.rmtree(gone, ignore_errors=True)
        with suppress(PermissionError):  # Windows keeps a file that is open
            lock.unlink(missing_ok=True)  # while it is held; who waits for it sees that it is gone
    finally:
        held.release()
    return True


class _Versions:
    """Knows which folders this version uses.

    Args:
        rules: see `entries`.
    """

    def __init__(self, rules: str) -> None:
        self._rules = rules
        self._current = current_folders()
        linkers = [path for path in cache_folder().iterdir() if (made := _MADE.fullmatch(path.name)) and made["name"] != NAMES]
        self._used = {_kb_fingerprint(path) for path in linkers if self.state(path) is State.USED}  # of knowledge bases
        self._unused = {_kb_fingerprint(path) for path in linkers if self.state(path) is State.UNUSED}

    def state(self, path: Path) -> State:
        """Return whether this version uses a folder, by its name."""
        made = _MADE.fullmatch(path.name)
        if made is None:  # of `loaders.from_sources`: only a config says which one is used
            return State.UNKNOWN if _manifest(path).get("format") == VERSION else State.UNUSED
        name = made["name"]
        if name != NAMES and name not in self._current:
            return State.UNKNOWN  # another package registered it, or a user put it here
        if not f"{path.name}-".startswith(f"{folder_name(name, [])}-"):
            return State.UNUSED
        if name == NAMES:
            return self._state_of_names((made["parts"] or "").split("-"))
        current = self._current[name]
        return State.UNKNOWN if current is None else State.USED if path == current else State.UNUSED

    def _state_of_names(self, parts: list[str]) -> State:
        """Return whether names are used; their parts are the fingerprint of the knowledge base, that of the rules, and that of the settings."""
        if len(parts) != 3 or parts[1] != self._rules:
            return State.UNUSED
        if parts[0] in self._used:
            return State.USED
        return State.UNUSED if parts[0] in self._unused else State.UNKNOWN


def _entry_of(path: Path, made: re.Pattern[str], versions: _Versions) -> Entry:
    """Return the entry of a path in the cache or in a folder of it.

    Args:
        path: the path.
        made: pattern of the names of the folders that this package makes there.
        versions: knows which folders this version uses.
    """
    name = path.name
    size, last_use = _size_and_last_use(path)
    if _TRIAL.fullmatch(name) and _is_file(path):
        return Entry(path, State.LEFT if is_older_than(path, DAY) else State.BUILDING, size, last_use)
    scratch = _SCRATCH.fullmatch(name)
    of = scratch["of"].removesuffix(SUFFIX) if scratch else name.removesuffix(".lock" if _is_file(path) else SUFFIX)
    if not made.fullmatch(of) or not (_is_folder(path) or (_is_file(path) and name == f"{of}.lock")):
        return Entry(path, State.FOREIGN, size, last_use)
    owner = path.with_name(of)
    if path == owner and _manifest(path).get("kind") not in (KIND, PHRASES):
        return Entry(path, State.FOREIGN, size, last_use)
    if _is_held(lock_of(owner)) or _parts_are_written(owner):
        state = State.BUILDING
    elif path != owner:
        state = State.LOCK if _is_file(path) else State.LEFT
    else:
        state = versions.state(path)
        if state is State.UNUSED and _is_changed(path):
            state = State.CHANGED
    return Entry(path, state, size, last_use, owner)


def _is_changed(linker: Path) -> bool:
    """Return whether a linker has names that a user added, or a calibration or ranker that this package did not bring."""
    fit = (linker / name for name in (CALIBRATION, RANKER))
    return (linker / ADDITIONS).is_file() or any(file.is_file() and _json(file).get("fit_on") not in _fit_here() for file in fit)


@cache
def _fit_here() -> frozenset[str]:
    """Return what the calibrations and rankers of this package were fit on."""
    return frozenset(str(_json(file).get("fit_on")) for name in ("calibration", "ranker") for file in DATA.glob(f"{name}*.json"))


def _table_entry(path: Path) -> Entry:
    """Return the entry of a table of Athena's concept ids; which one is used depends on the files that the user gives."""
    scratch = _SCRATCH.fullmatch(path.name)
    if not _is_file(path) or not _TABLE.fullmatch(scratch["of"] if scratch else path.name):
        state = State.FOREIGN
    elif scratch:
        state = State.LEFT if is_older_than(path, DAY) else State.BUILDING
    else:
        state = State.UNKNOWN
    return Entry(path, state, *_size_and_last_use(path))


def _parts_are_written(owner: Path) -> bool:
    """Return whether a build writes a temporary folder or the vectors of a folder."""
    every = (path for path in owner.parent.iterdir() if (match := _SCRATCH.fullmatch(path.name)) and match["of"] == owner.name)
    return any(_is_folder(path) and is_being_written(path) for path in every) or _is_held(folder_of(owner) / LOCK)


def _is_held(lock: Path) -> bool:
    """Return whether a process holds a lock; False if this user may not find out, and then may not remove anything either."""
    if not lock.is_file():
        return False
    try:
        with FileLock(lock, timeout=0):
            return False
    except Timeout:
        return True
    except OSError:
        return False


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a folder; {} if there is none that can be read."""
    return _json(folder / MANIFEST)


def _json(file: Path) -> dict[str, Any]:
    """Return the object in a JSON file; {} if it cannot be read."""
    try:
        found = parse_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _kb_fingerprint(linker: Path) -> str | None:
    """Return the fingerprint of a linker's knowledge base, as `KnowledgeBase` does; None if it cannot be read."""
    try:
        return str(_manifest(linker / KB)["files"][DATABASE]["blake2b"])
    except (KeyError, TypeError):
        return None


def _size_and_last_use(path: Path) -> tuple[int, float]:
    """Return the bytes of a file or folder, and when it was last read or written. Manifests don't count, because this module reads them."""
    states = list(_states(path))
    times = [max(state.st_atime, state.st_mtime) for name, state in states if name != MANIFEST] or [state.st_mtime for _, state in states]
    return sum(state.st_size for _, state in states), max(times, default=time.time())


def _states(path: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield name and state of each file of a folder, or those of the file."""
    if not _is_folder(path):
        with suppress(OSError):
            yield path.name, path.lstat()
        return
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):  # it was removed meanwhile
                yield name, os.lstat(os.path.join(folder, name))
