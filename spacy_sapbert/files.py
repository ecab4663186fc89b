"""Artefact folders: a manifest with checksums, written beside and renamed, so that nothing half-written is ever seen."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Union

from .errors import DamagedFile, Errors, MissingFile, SapbertError, fail

MANIFEST = "manifest.json"
FULL_HASH_BYTES = 64 * 1024 * 1024  # larger files are sampled when opened, so that opening stays under 0.3 s whatever the size
_SAMPLES, _BLOCK = 64, 64 * 1024


def checksum(path: Path, *, full: bool = True) -> str:
    """blake2b of a file; with `full=False` files over 64 MiB give the hash of their size and 64 evenly spaced blocks."""
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


def write_manifest(folder: Path, kind: str, version: int, content: Dict[str, Any], *, deep: bool = True) -> Dict[str, Any]:
    """Write manifest.json last: `content` plus kind, format version, and size and checksums of every other file.

    deep (bool): also of files in folders below; False where these have manifests of their own.
    """
    files = {}
    for path in sorted(p for p in (folder.rglob("*") if deep else folder.glob("*")) if p.is_file() and p.name != MANIFEST):
        entry: Dict[str, Any] = {"bytes": path.stat().st_size, "blake2b": checksum(path)}
        if path.stat().st_size > FULL_HASH_BYTES:
            entry["sampled"] = checksum(path, full=False)
        files[path.relative_to(folder).as_posix()] = entry
    manifest = {"kind": kind, "format": version, **content, "files": files}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return manifest


def read_manifest(folder: Union[str, Path], kind: str, version: int, *, missing: str, damaged: str, full: bool = False) -> Dict[str, Any]:
    """The manifest of an artefact folder, after checking that its files are the ones that were written.

    missing, damaged (str): codes of the errors to raise, e.g. "E101" and "E102".
    full (bool): hash every byte, also of files over 64 MiB.
    RAISES: MissingFile, DamagedFile, SapbertError (another format version).
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
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise fail(damaged, DamagedFile, path=folder, why=f"{MANIFEST} is not JSON ({error})") from error
    if not isinstance(manifest, dict) or manifest.get("kind") != kind:
        found = manifest.get("kind") if isinstance(manifest, dict) else type(manifest).__name__
        raise fail(damaged, DamagedFile, path=folder, why=f"{MANIFEST} describes '{found}', not '{kind}'")
    if manifest.get("format") != version:
        raise fail("E106", path=folder, found=manifest.get("format"), expected=version)
    for name, entry in manifest["files"].items():
        check_file(folder, name, entry, damaged, full)
    return manifest


def check_file(folder: Path, name: str, entry: Dict[str, Any], damaged: str, full: bool) -> None:
    file = folder / name
    if not file.is_file():
        raise fail(damaged, DamagedFile, path=folder, why=f"'{name}' is missing")
    size = file.stat().st_size
    if size != entry["bytes"]:
        raise fail(damaged, DamagedFile, path=folder, why=f"'{name}' has {size:,} bytes, not {entry['bytes']:,}")
    expected = entry["blake2b"] if full or "sampled" not in entry else entry["sampled"]
    if checksum(file, full=full) != expected:
        raise fail(damaged, DamagedFile, path=folder, why=f"the checksum of '{name}' is not the one in {MANIFEST}")


@contextmanager
def writing_folder(target: Union[str, Path]) -> Iterator[Path]:
    """A temporary sibling folder that takes the target's place when the block ends well, and is removed when it does not.

    RAISES: SapbertError E008 where the disk is full.
    """
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent))
    try:
        os.chmod(temporary, 0o777 & ~_umask())
        yield temporary
        _replace_folder(temporary, target)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise SapbertError("E008", Errors.E008.format(path=target, error=error.strerror, env="SPACY_SAPBERT_CACHE")) from error
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _replace_folder(temporary: Path, target: Path) -> None:
    if not target.exists():
        os.replace(temporary, target)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".old", dir=target.parent))
    os.replace(target, old / "was")
    try:
        os.replace(temporary, target)
    except OSError:
        os.replace(old / "was", target)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def copy_folder(source: Path, target: Path, names: List[str]) -> None:
    """Copy the named files (relative paths) and the manifest."""
    for name in [*names, MANIFEST]:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)


def folder_to_bytes(folder: Path) -> Dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def folder_from_bytes(content: Dict[str, bytes], folder: Path) -> None:
    """RAISES: DamagedFile where a name would leave the folder."""
    for name, data in content.items():
        path = (folder / name).resolve()
        if folder.resolve() not in path.parents:
            raise fail("E102", DamagedFile, path=name, why="the name points outside its folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
