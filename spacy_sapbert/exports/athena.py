"""Look up concept ids of OMOP in the files that a user downloaded from Athena: CONCEPT.csv and CONCEPT_RELATIONSHIP.csv, in a folder or a zip archive.

These files have millions of rows. They are read once, into a small database in the cache; later runs only open the database.
"""

from __future__ import annotations

import lzma
import os
import sqlite3
import tempfile
import threading
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from ..build.default_linkers import ATHENA, cache_folder, check_cache, fingerprint_of
from ..errors import DamagedFile, MissingFile, fail, logger
from ..files import disk_full_as_error

CONCEPT, RELATIONSHIP = "CONCEPT.csv", "CONCEPT_RELATIONSHIP.csv"
MAPS_TO = "Maps to"
# vocabulary of this package -> vocabulary_id of OMOP; the first ones are preferred for the source concept
VOCABULARIES = {
    "SNOMEDCT_US": "SNOMED",
    "RXNORM": "RxNorm",
    "ICD10CM": "ICD10CM",
    "LNC": "LOINC",
    "ICD9CM": "ICD9CM",
    "MSH": "MeSH",
    "HPO": "HPO",
    "NCI": "NCIt",
}
File = Path | zipfile.Path  # a file of a folder, or of an archive
Code = tuple[str, str]  # vocabulary of this package, code
MAX_ID = 2**31 - 1  # concept ids are 32-bit integers
FORMAT = 1  # of the database; it is part of the name of its file
_TABLE = "CREATE TABLE code (vocabulary TEXT, code TEXT, source INTEGER, standard INTEGER, PRIMARY KEY (vocabulary, code)) WITHOUT ROWID"


class ConceptIds(NamedTuple):
    """The OMOP concept ids of a code.

    Attributes:
        source: concept_id of the code itself.
        standard: concept_id of the standard concept that the code maps to; 0 if there is none.
    """

    source: int
    standard: int


Find = Callable[[Collection[Code]], Mapping[Code, ConceptIds]]  # codes -> the concept ids of those that Athena's files have


class ConceptTable:
    """The concept ids of all codes of the vocabularies in `VOCABULARIES`. Several threads and processes may use one database.

    The database stays open until `close` is called, so that it can be read even after `open_table` has deleted it from the cache, because Athena's files have changed.

    Args:
        path: the database, see `open_table`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)
        self._lock = threading.Lock()

    def find(self, codes: Collection[Code]) -> dict[Code, ConceptIds]:
        """Return code -> its concept ids, for the codes that were found."""
        found: dict[Code, ConceptIds] = {}
        with self._lock:
            for code in sorted(codes):
                row = self._database.execute("SELECT source, standard FROM code WHERE vocabulary = ? AND code = ?", code).fetchone()
                if row is not None:
                    found[code] = ConceptIds(*row)
        return found

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._database.close()


def check_files(folder: Path) -> None:
    """Check that a folder, or a zip archive, holds the two files of Athena.

    Raises:
        SapbertError: E401, one of them is missing; E402, it is a file of another kind.
    """
    _files(folder)


def _files(folder: Path) -> tuple[File, File]:
    """Return CONCEPT.csv and CONCEPT_RELATIONSHIP.csv of a folder or a zip archive.

    Raises:
        SapbertError: E401, E402, see `check_files`.
    """
    place: File = folder
    if folder.is_file():
        try:
            place = zipfile.Path(folder)
        except zipfile.BadZipFile as error:
            why = f"give the folder, or the zip archive, that has {CONCEPT} and {RELATIONSHIP}."
            raise fail("E402", DamagedFile, path=folder, expected="a download from Athena", why=why) from error
    if isinstance(place, zipfile.Path) and not (place / CONCEPT).is_file():  # it was packed again, as a folder
        inner = [folder for folder in place.iterdir() if (folder / CONCEPT).is_file()]
        place = inner[0] if len(inner) == 1 else place
    files = place / CONCEPT, place / RELATIONSHIP
    for file in files:
        if not file.is_file():
            raise fail("E401", MissingFile, path=file)
    return files


def fingerprint(folder: Path) -> str:
    """Return a short hash of sizes and times of Athena's files, or of their archive.

    Raises:
        SapbertError: E401, a file is missing; E402, there is neither a folder nor an archive.
    """
    states = [(file if isinstance(file, Path) else folder).stat() for file in _files(folder)]
    return fingerprint_of([FORMAT, [[state.st_size, state.st_mtime_ns] for state in states]])


def open_table(folder: Path) -> ConceptTable:
    """Open the concept ids of Athena's files. If they are not in the cache yet, they are read; a full download takes minutes.

    What the cache has of the same folder, from before its files were changed, is deleted.

    Args:
        folder: folder with Athena's files, or the zip archive that Athena sends.

    Raises:
        SapbertError: E401, a file is missing; E402, the archive is damaged, or it is none; E403, a row is not in Athena's format; E404, a file is not
            UTF-8; E008, E055, the cache cannot be written.
    """
    place = cache_folder() / ATHENA
    of_folder = fingerprint_of([str(folder.absolute())])[:12]
    path = place / f"{of_folder}-{fingerprint(folder)}.sqlite"
    if not path.is_file():
        check_cache(place)
        logger.info("Reading the concept ids of %s into the cache", folder)
        with disk_full_as_error(path):
            handle, scratch = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=place)
            os.close(handle)
            try:
                _build(folder, Path(scratch))
                os.replace(scratch, path)
            finally:
                Path(scratch).unlink(missing_ok=True)
        for older in place.glob(f"{of_folder}-*.sqlite"):  # of the same folder, before its files were changed
            if older != path:
                with suppress(OSError):  # it is of no use, but does no harm either
                    older.unlink()
    return ConceptTable(path)


def _build(folder: Path, path: Path) -> None:
    ours = {theirs: vocabulary for vocabulary, theirs in VOCABULARIES.items()}
    concepts, relationships = _files(folder)
    without: set[int] = set()  # concepts that are not standard

    def codes() -> Iterator[tuple[str, str, int, int, bool]]:
        names = ("concept_id", "vocabulary_id", "concept_code", "standard_concept", "invalid_reason")
        for line, (number, vocabulary, code, standard, invalid) in _rows(concepts, names):
            if vocabulary in ours:
                concept = _number(concepts, line, number)
                if standard == "S" and not invalid:
                    yield ours[vocabulary], code, concept, concept, True
                else:
                    without.add(concept)
                    yield ours[vocabulary], code, concept, 0, not invalid

    def mapped() -> Iterator[tuple[int, int]]:
        names = ("concept_id_1", "concept_id_2", "relationship_id", "invalid_reason")
        for line, (one, other, relationship, invalid) in _rows(relationships, names):
            if relationship == MAPS_TO and not invalid:
                source = _number(relationships, line, one)
                if source in without:
                    without.discard(source)  # if there are several, the first one counts
                    yield _number(relationships, line, other), source

    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("PRAGMA synchronous = OFF")
        database.execute(_TABLE)
        # a code that is there twice: a valid concept replaces one that is not
        database.executemany(
            "INSERT INTO code VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET source = excluded.source, standard = excluded.standard "
            "WHERE code.standard = 0 AND ?",
            codes(),
        )
        database.execute("CREATE INDEX open_ones ON code (source) WHERE standard = 0")
        database.executemany("UPDATE code SET standard = ? WHERE source = ? AND standard = 0", mapped())
        database.execute("DROP INDEX open_ones")
        database.commit()


def _rows(path: File, columns: Collection[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, values of the columns) of a file from Athena. Columns are separated by tabs, and quotes are ordinary characters.

    Raises:
        SapbertError: E401, E402, E403, E404, see `open_table`.
    """
    line = 0
    try:
        with path.open("r", encoding="utf-8-sig", newline="\n") as file:
            header = file.readline().rstrip("\r\n").lower().split("\t")
            line = 1
            missing = [column for column in columns if column not in header]
            if missing:
                raise fail("E403", path=path, line=1, why=f"it has no column {', '.join(missing)}. Athena's files have tabs between the columns.")
            places = [header.index(column) for column in columns]
            for line, text in enumerate(file, 2):
                values = text.rstrip("\r\n").split("\t")
                if len(values) < len(header):
                    if not text.strip():
                        continue
                    raise fail("E403", path=path, line=line, why="it has fewer columns than the header.")
                yield line, [values[place] for place in places]
    except FileNotFoundError as error:
        raise fail("E401", MissingFile, path=path) from error
    except UnicodeDecodeError as error:
        raise fail("E404", path=path, line=line + 1) from error
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError) as error:
        raise fail("E402", DamagedFile, path=path, expected="whole", why=f"{error}. Get the archive again.") from error
    except RuntimeError as error:  # of `zipfile`: a password is needed, or it does not know the compression
        raise fail("E402", DamagedFile, path=path, expected="readable", why=f"{error}. Unpack the archive, and give the folder.") from error


def _number(path: File, line: int, text: str) -> int:
    try:
        number = int(text)
    except ValueError as error:
        raise fail("E403", path=path, line=line, why="a concept id is not a whole number.") from error
    if abs(number) > MAX_ID:
        raise fail("E403", path=path, line=line, why=f"a concept id is beyond {MAX_ID}, the largest integer of OMOP.")
    return number
