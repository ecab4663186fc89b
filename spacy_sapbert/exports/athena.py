"""Look up concept ids of OMOP in the files that a user downloaded from Athena: CONCEPT.csv and CONCEPT_RELATIONSHIP.csv."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from ..errors import MissingFile, fail

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
Code = tuple[str, str]  # vocabulary of this package, code


class ConceptIds(NamedTuple):
    """The OMOP concept ids of a code.

    Attributes:
        source: concept_id of the code itself.
        standard: concept_id of the standard concept that the code maps to; 0 if there is none.
    """

    source: int
    standard: int


def find(folder: Path, codes: Collection[Code]) -> dict[Code, ConceptIds]:
    """Find the concept ids of some codes. The files are read line by line, and only the ids of these codes are kept in memory.

    Args:
        folder: folder with Athena's files.
        codes: codes of the vocabularies in `VOCABULARIES`; other codes are not found.

    Returns:
        Code -> its concept ids, for the codes that were found.

    Raises:
        SapbertError: E401, a file is missing; E403, a row is not in Athena's format.
    """
    wanted = {(VOCABULARIES[vocabulary], code): (vocabulary, code) for vocabulary, code in codes if vocabulary in VOCABULARIES}
    found: dict[Code, ConceptIds] = {}
    for number, row in _rows(folder / CONCEPT, ("concept_id", "vocabulary_id", "concept_code", "standard_concept", "invalid_reason")):
        code = wanted.get((row["vocabulary_id"], row["concept_code"]))
        if code is not None:
            concept = _number(folder / CONCEPT, number, row["concept_id"])
            found[code] = ConceptIds(concept, concept if row["standard_concept"] == "S" and not row["invalid_reason"] else 0)
    open_ones = {ids.source: code for code, ids in found.items() if not ids.standard}
    if open_ones:
        for number, row in _rows(folder / RELATIONSHIP, ("concept_id_1", "concept_id_2", "relationship_id", "invalid_reason")):
            if row["relationship_id"] == MAPS_TO and not row["invalid_reason"]:
                code = open_ones.get(_number(folder / RELATIONSHIP, number, row["concept_id_1"]))
                if code is not None and not found[code].standard:  # if there are several, the first one counts
                    found[code] = found[code]._replace(standard=_number(folder / RELATIONSHIP, number, row["concept_id_2"]))
    return found


def _rows(path: Path, columns: Collection[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line number, row) of a file from Athena. Columns are separated by tabs, and quotes are ordinary characters."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            missing = [column for column in columns if column not in (reader.fieldnames or ())]
            if missing:
                raise fail("E403", path=path, line=1, why=f"it has no column {', '.join(missing)}.")
            for row in reader:
                if None in row.values():
                    raise fail("E403", path=path, line=reader.line_num, why="it has fewer columns than the header.")
                yield reader.line_num, row
    except FileNotFoundError as error:
        raise fail("E401", MissingFile, path=path) from error


def _number(path: Path, line: int, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise fail("E403", path=path, line=line, why="a concept id is not a whole number.") from error
