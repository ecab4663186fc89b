"""Folders with a manifest of checksums. They are written beside their target and then renamed, so a half-written one is never seen."""

from __future__ import annotations

import errno
import glob
import hashlib
import importlib.util
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout
from pydantic import BaseModel, ValidationError

from .errors import DamagedFile, MissingFile, SapbertError, fail

MANIFEST = "manifest.json"
Stored = TypeVar("Stored", bound=BaseModel)
FULL_HASH_BYTES = 64 * 1024 * 1024  # larger files are sampled when opened, so that opening stays under 0.3 s whatever the size
_SAMPLES, _BLOCK = 64, 64 * 1024
_LOCK, _NEW, _OLD = "lock", "new", "old"  # in a temporary folder: a lock held while it is written, the new folder, the one it replaces
_GRACE_SECONDS = 60.0  # a temporary folder younger than this may not be locked yet
_EVERY_BYTE: ContextVar[bool] = ContextVar("every_byte", default=False)
_DISK_FULL = ("no space left", "disk is full", "quota exceeded", " requested and ")  # parts of messages
_TEMPORARY = re.compile(r"\.(.+)\.[a-z0-9_]{8}\.tmp", re.DOTALL)  # a temporary file of `write_text`, and the name of the file that it becomes
_TORCH_SAVE = ("pytorchstreamwriter failed writing", " . unexpected pos ", "iostream error")  # of torch.save, which says no more


def parse_json(text: str | bytes) -> Any:
    """Return the content of a JSON text.

    Raises:
        ValueError: it is not JSON, or is nested too deeply to be read.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


@contextmanager
def every_byte(wanted: bool = True) -> Iterator[None]:
    """Check every byte of the files that are opened in this block, not only samples of files over 64 MiB."""
    token = _EVERY_BYTE.set(wanted or _EVERY_BYTE.get())
    try:
        yield
    finally:
        _EVERY_BYTE.reset(token)


def is_every_byte() -> bool:
    """Return whether the caller is in a block of `every_byte`."""
    return _EVERY_BYTE.get()


def is_looked_through(path: Path) -> bool:
    """Return whether every byte of a file is checked when it is opened: it has at most 64 MiB, or the caller is in a block of `every_byte`."""
    return _EVERY_BYTE.get() or path.stat().st_size <= FULL_HASH_BYTES


def checksum(path: Path, *, full: bool = True) -> str:
    """Return the blake2b hash of a file.

    Args:
        path: the file.
        full: hash every byte; False hashes only the size and 64 evenly spaced blocks of a file over 64 MiB.
    """
    size = path.stat().st_size
    digest = hashlib.blake2b(digest_size=32)
    with open(path, "rb", buffering=0) as file:
        if full or size <= FULL_HASH_BYTES:
            while block := file.read(1 << 20):
                digest.update(block)
        else:
            digest.update(str(size).encode())
            for i in range(_SAMPLES):
                file.seek((size - _BLOCK) * i // (_SAMPLES - 1))
                digest.update(file.read(_BLOCK))
    return digest.hexdigest()


def write_manifest(folder: Path, kind: str, version: int, content: dict[str, Any], *, deep: bool = True) -> dict[str, Any]:
    """Write manifest.json with kind, format version, further content, and the sizes and checksums of all other files. Write it last.

    Args:
        folder: the folder, complete except for the manifest.
        kind: what the folder holds, such as "knowledge base".
        version: number of the format.
        content: further content of the manifest.
        deep: also list the files of folders below; False if these have their own manifests.

    Returns:
        The manifest.
    """
    files = {}
    for path in sorted(p for p in (folder.rglob("*") if deep else folder.glob("*")) if p.is_file() and p != folder / MANIFEST):
        entry: dict[str, Any] = {"bytes": path.stat().st_size, "blake2b": checksum(path)}
        if path.stat().st_size > FULL_HASH_BYTES:
            entry["sampled"] = checksum(path, full=False)
        files[path.relative_to(folder).as_posix()] = entry
    manifest = {"kind": kind, "format": version, **content, "files": files}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return manifest


def read_manifest(
    folder: str | Path,
    kind: str,
    version: int,
    *,
    missing: str,
    damaged: str,
    full: bool = False,
    content: type[BaseModel] | None = None,
    files: Collection[str] = (),
) -> dict[str, Any]:
    """Return the manifest of a folder, after checking that its files are unchanged.

    Args:
        folder: the folder.
        kind: what the folder must hold.
        version: the format that this version reads.
        missing: code of the error for a missing folder or manifest, such as "E101".
        damaged: code of the error for a changed file, such as "E102".
        full: hash every byte, also of files over 64 MiB; a block of `every_byte` does the same.
        content: model of the content that the manifest must have.
        files: names that it must list.

    Raises:
        MissingFile: there is no such folder, or it has no manifest.
        DamagedFile: a file is missing or was changed, or the manifest is of another kind or lacks required content.
        SapbertError: E106, another format.
    """
    folder = Path(folder)
    path = folder / MANIFEST
    if not folder.is_dir():
        raise fail(missing, MissingFile, path=folder, why="there is no such folder.")
    if not path.is_file():
        raise fail(
            missing,
            MissingFile,
            path=folder,
            why=f"the folder holds no {MANIFEST}, so it is not one this package wrote, or its build did not finish.",
        )
    try:
        manifest = parse_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise fail(damaged, DamagedFile, path=folder, why=f"{MANIFEST} is not JSON ({error})") from error
    if not isinstance(manifest, dict) or manifest.get("kind") != kind:
        found = manifest.get("kind") if isinstance(manifest, dict) else type(manifest).__name__
        raise fail(damaged, DamagedFile, path=folder, why=f"{MANIFEST} describes '{found}', not '{kind}'")
    if manifest.get("format") != version:
        raise fail("E106", path=folder, found=manifest.get("format"), expected=version)
    try:
        for name, entry in manifest["files"].items():
            check_file(folder, name, entry, damaged, full or _EVERY_BYTE.get())
    except (AttributeError, KeyError, TypeError) as error:
        raise fail(damaged, DamagedFile, path=folder, why=f"{MANIFEST} has no valid list of files") from error
    if unlisted := sorted(set(files) - set(manifest["files"])):
        raise fail(damaged, DamagedFile, path=folder, why=f"{MANIFEST} does not list '{unlisted[0]}'")
    try:
        if content is not None:
            content.model_validate(manifest)
    except ValidationError as error:
        raise fail(damaged, DamagedFile, path=folder, why=f"{MANIFEST}: {why_invalid(error)}") from error
    return manifest


def changed_files(folder: Path) -> list[str]:
    """Return the files of a folder and of folders below that differ from their manifests, and the manifests that can't be read."""
    changed = []
    for path in sorted(folder.rglob(MANIFEST)):
        try:
            entries = parse_json(path.read_text(encoding="utf-8"))["files"].items()
        except (AttributeError, KeyError, OSError, TypeError, ValueError):
            changed.append(path.relative_to(folder).as_posix())
            continue
        for name, entry in entries:
            try:
                check_file(path.parent, name, entry, "E102", False)
            except (KeyError, OSError, TypeError, SapbertError):
                changed.append((path.parent / name).relative_to(folder).as_posix())
    return changed


def check_file(folder: Path, name: str, entry: dict[str, Any], damaged: str, full: bool) -> None:
    """Compare a file with its entry in the manifest.

    Raises:
        DamagedFile: with the code `damaged`, if the file is missing, was changed or is outside the folder.
    """
    file = folder / name
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise fail(damaged, DamagedFile, path=folder, why=f"{MANIFEST} names '{name[:100]}', which is outside the folder")
    try:
        there = file.is_file()
    except (OSError, ValueError) as error:  # the name is too long, or has a character that is not allowed
        raise fail(damaged, DamagedFile, path=folder, why=f"{MANIFEST} names {name[:100]!r}, which is not a valid file name") from error
    if not there:
        raise fail(damaged, DamagedFile, path=folder, why=f"'{name}' is missing")
    size, listed = file.stat().st_size, entry["bytes"]
    if not isinstance(listed, int):
        raise TypeError("a size is no number")
    if size != listed:
        raise fail(damaged, DamagedFile, path=folder, why=f"'{name}' has {size:,} bytes, not {listed:,}")
    expected = entry["blake2b"] if full or "sampled" not in entry else entry["sampled"]
    if checksum(file, full=full) != expected:
        raise fail(damaged, DamagedFile, path=folder, why=f"the checksum of '{name}' is not the one in {MANIFEST}")


@contextmanager
def writing_folder(target: str | Path) -> Iterator[Path]:
    """Give a new folder that replaces the target when the block ends without an error, and is removed otherwise.

    It is a temporary folder beside the target. If a process is killed, the next process that writes the same target removes what it left.

    Args:
        target: where the folder will be.

    Raises:
        SapbertError: E008, the disk is full.
    """
    target = Path(target)
    with disk_full_as_error(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        clear_abandoned(target)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent))
    try:
        with disk_full_as_error(target), FileLock(scratch / _LOCK):
            (scratch / _NEW).mkdir()
            if target.is_dir():  # a folder that only its owner may read stays so
                (scratch / _NEW).chmod(stat.S_IMODE(target.stat().st_mode))
            yield scratch / _NEW
            _let_others_read_weights(scratch / _NEW)
            _replace_folder(scratch, target)
    finally:
        if (scratch / _OLD).exists() and not target.exists():  # interrupted between the two renames
            os.replace(scratch / _OLD, target)
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def disk_full_as_error(path: Path) -> Iterator[None]:
    """Turn every error that means a full disk into E008.

    Args:
        path: what is written, for the message.

    Raises:
        SapbertError: E008, the disk is full.
    """
    try:
        yield
    except Exception as error:
        if not is_disk_full(error):
            raise
        cause: object = error
        if isinstance(error, SapbertError) and error.code == "E008":  # already raised for a file in the folder
            cause = error.__cause__ or error
        elif (
            isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list)
        ):  # raised by copytree: (source, target, why) of each file
            cause = next((why for _, _, why in error.args[0] if is_disk_full(OSError(why))), error)
        raise fail("E008", path=path, error=cause, env="SPACY_SAPBERT_CACHE") from error


def keep_other_files(old: Path, new: Path, replaced: Iterable[str]) -> None:
    """Copy everything from an old folder to a new one, except the parts that are replaced.

    Files become hard links if the file system supports them. This is safe, because this package never changes a file in place.

    Args:
        old: the old folder.
        new: the new folder.
        replaced: names in the old folder that are not copied.
    """
    for path in sorted(old.iterdir()) if old.is_dir() else ():
        if path.name in replaced:
            continue
        if path.is_symlink():
            os.symlink(os.readlink(path), new / path.name)
        elif path.is_dir():
            shutil.copytree(path, new / path.name, symlinks=True, copy_function=_link)
        else:
            _link(path, new / path.name)


def _link(source: Any, target: Any) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def valid_text(text: object) -> str:
    """Return a text that can be encoded in UTF-8. File names may hold other bytes, and JSON may hold half surrogate pairs; these are escaped."""
    return str(text).encode("utf-8", "backslashreplace").decode("utf-8")


def unusable(error: OSError) -> SapbertError:
    """Return E053, the error with a code for an error of the operating system."""
    return fail("E053", path=valid_text(error.filename or "?"), error=error.strerror or type(error).__name__)


def write_text(path: Path, text: str) -> None:
    """Write a text file that appears complete or not at all. Temporary files that killed processes left for it are removed.

    They are looked for when this process first writes into the folder, because a folder may hold very many files.

    Raises:
        SapbertError: E008, the disk is full.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in _temporary_files(os.path.abspath(path.parent)).get(path.name, ()):
        with suppress(OSError):
            if not _is_fresh(left):
                left.unlink()
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(scratch, "x", encoding="utf-8") as file:  # with the permissions that the umask leaves
            file.write(text)
        os.replace(scratch, path)
    except BaseException as error:
        scratch.unlink(missing_ok=True)
        if is_disk_full(error):
            raise fail("E008", path=path, error=error, env="SPACY_SAPBERT_CACHE") from error
        raise


@lru_cache(maxsize=64)
def _temporary_files(folder: str) -> dict[str, list[Path]]:
    """Return name of a file -> the temporary files of `write_text` for it, which were in a folder when it was first asked for."""
    found: dict[str, list[Path]] = {}
    with suppress(OSError), os.scandir(folder) as entries:  # a folder may be one to write into, but not to read
        for entry in entries:
            if match := _TEMPORARY.fullmatch(entry.name):
                found.setdefault(match[1], []).append(Path(entry.path))
    return found


def is_disk_full(error: BaseException) -> bool:
    """Return whether an error means that the disk is full.

    Python's own file calls set errno. NumPy, SQLite, Annoy and safetensors only give a message, and each gives a different one.
    """
    message = str(error).lower()
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or any(words in message for words in (*_DISK_FULL, *_TORCH_SAVE))


def reserve(path: Path) -> None:
    """Reserve the disk space of a sparse file before it is written through a memory map: a full disk is then an OSError, not a bus error."""
    if hasattr(os, "posix_fallocate"):
        with open(path, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


def _let_others_read_weights(folder: Path) -> None:
    """Give new safetensors files the permissions that the umask leaves: the library writes files that only their owner can read.

    Other files, and files that were linked from an older folder, keep their permissions.
    """
    allowed = stat.S_IMODE(folder.stat().st_mode) & 0o666
    for path in folder.rglob("*.safetensors"):
        found = path.lstat()
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and not found.st_mode & 0o077:
            path.chmod(allowed)


def _replace_folder(scratch: Path, target: Path) -> None:
    """Move the new folder to the target. If that fails, the caller moves the old one back."""
    if target.exists():
        os.replace(target, scratch / _OLD)
    os.replace(scratch / _NEW, target)


def clear_abandoned(target: Path) -> None:
    """Remove the temporary folders of killed builds. If a build was killed while it replaced the target, put the old folder back."""
    for scratch in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
        if "." in scratch.name[len(target.name) + 2 : -len(".tmp")]:
            continue  # it belongs to a target with a longer name
        with suppress(Timeout, OSError):  # a running build holds it
            lost = (scratch / _OLD).exists() and not target.exists()  # killed between the two renames
            if _is_fresh(scratch) and not lost:
                continue  # it may have been made just now, and not be locked yet
            with FileLock(scratch / _LOCK, timeout=0):
                if (scratch / _OLD).exists() and not target.exists():
                    os.replace(scratch / _OLD, target)
                shutil.rmtree(scratch, ignore_errors=True)


def is_being_written(scratch: Path) -> bool:
    """Return whether a temporary folder of `writing_folder` may be one of a running build: it is locked, or was made in the last minute."""
    try:
        if _is_fresh(scratch):
            return True
        if (scratch / _LOCK).is_file():
            with FileLock(scratch / _LOCK, timeout=0):
                pass
    except Timeout:
        return True
    except OSError:  # it was removed meanwhile, or belongs to another user
        pass
    return False


def is_older_than(path: Path, seconds: float) -> bool:
    """Return whether a file was last written so many seconds ago. One from the future is old, too: the clock was set back since it was written."""
    return abs(_now(path.parent) - path.stat().st_mtime) >= seconds


def _is_fresh(path: Path) -> bool:
    """Return whether a temporary file was made in the last minute."""
    return not is_older_than(path, _GRACE_SECONDS)


def _now(folder: Path) -> float:
    """Return the time by the clock that dates the files of a folder. That of a file server may differ from this machine's."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError:  # the folder cannot be written, and then nothing is removed from it either
        return time.time()


def folder_is_there(folder: Path) -> bool:
    """Return whether a folder is there. If a process was killed while it replaced the folder, the old one is put back first."""
    if not folder.is_dir():
        clear_abandoned(folder)
    return folder.is_dir()


def package_file(package: str, file: str, install: str = "") -> Path:
    """Return the path of a file in an installed package, without importing the package.

    Args:
        package: the package's name in Python.
        file: the path in the package.
        install: the name that pip installs it by; "" for the package's name.

    Raises:
        SapbertError: E004, the package is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise fail("E004", package=package, install=install or package.replace("_", "-"))
    return Path(spec.origin).parent / file


def copy_folder(source: Path, target: Path, names: list[str]) -> None:
    """Copy some files, named by their paths relative to the folder, and the manifest."""
    for name in [*names, MANIFEST]:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)


def folder_to_bytes(folder: Path) -> dict[str, bytes]:
    """Return the content of every file below a folder, by its relative path."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def folder_from_bytes(content: dict[str, bytes], folder: Path) -> None:
    """Write what `folder_to_bytes` returned.

    Raises:
        DamagedFile: E102, a name points outside the folder.
    """
    for name, data in content.items():
        path = (folder / name).resolve()
        if folder.resolve() not in path.parents:
            raise fail("E102", DamagedFile, path=name, why="the name points outside its folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def read_stored(path: Path, model: type[Stored], *, kind: str, version: int, damaged: str, older: Collection[int] = ()) -> Stored:
    """Return the checked content of a JSON file that has the keys `kind` and `format`.

    Args:
        path: the file.
        model: model of the content.
        kind: the kind that the file must have.
        version: the format that the file must have.
        damaged: code of the error for a damaged file.
        older: older formats that the model reads too.

    Raises:
        DamagedFile: with the code `damaged`, if the file is damaged.
        SapbertError: E106, it is of another kind or format.
        FileNotFoundError: there is no such file.
    """
    try:
        text = path.read_text(encoding="utf-8")
        content = parse_json(text)
        found = content["format"] if content["kind"] == kind else None
        if found == version or found in older:
            return model.model_validate_json(text)
    except ValidationError as error:
        raise fail(damaged, DamagedFile, path=path, why=why_invalid(error)) from error
    except (KeyError, TypeError, ValueError) as error:
        raise fail(damaged, DamagedFile, path=path, why=f"{type(error).__name__}: {error}") from error
    raise fail("E106", path=path, found=found, expected=version)


def why_invalid(error: ValidationError) -> str:
    """Return the first thing that is wrong with a file's content, in one line."""
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else str(first["msg"])
