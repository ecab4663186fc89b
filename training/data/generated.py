"""Read files of generated definitions (AGCT: Remy et al., BioNLP 2023) and find the concepts that they define."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.readers import ReadStats
from spacy_sapbert.readers.text import lines

from ..errors import fail
from .labels import Ints
from .tally import Tally

ID_COLUMNS = ("cui", "concept_id", "conceptid", "id", "code", "curie", "sctid", "snomedid", "snomed_id")
TEXT_COLUMNS = ("definition", "text", "description")
VOCABULARY_COLUMNS = ("vocabulary", "sab", "source")
TABLES = """
CREATE TABLE given (file TEXT, id TEXT, vocabulary TEXT, text TEXT);
CREATE TABLE generated (label INTEGER, file TEXT, id TEXT, text TEXT);
"""


class Generated(NamedTuple):
    """A line of a file of generated definitions.

    Attributes:
        concept_id: CUI, CURIE or bare code.
        vocabulary: Vocabulary of a bare code; "" if the file does not say it.
        text: The definition.
    """

    concept_id: str
    vocabulary: str
    text: str


def read_generated(path: str | Path, stats: ReadStats | None = None) -> Iterator[Generated]:
    """Read the definitions of a tab-separated file in UTF-8, plain or compressed.

    With a header, the file has a column of ids (`ID_COLUMNS`), one of texts (`TEXT_COLUMNS`), and optionally one of vocabularies
    (`VOCABULARY_COLUMNS`) for ids that are bare codes. Without a header, it has two columns, id and text. Ids are CUIs, CURIEs
    (SNOMEDCT_US:84757009) or bare codes. Lines at the beginning that start with `#` are comments.

    A line with a wrong number of cells, or without an id, is malformed and counted in `stats`. A few cause a warning (W001), too many an error.

    Args:
        path: The file.
        stats: Receives the counts.

    Raises:
        SapbertError: E401 (no file), E402 (empty or binary), E404 (not UTF-8), E405 (too many malformed lines), E591 (columns).
    """
    path, stats = Path(path), stats if stats is not None else ReadStats()
    stats.path, stats.kind = path, "generated definitions"
    columns: tuple[int, int, int] | None = None  # of id, text and vocabulary (-1: none)
    width = 0
    for number, line in lines(path):
        if not line.strip() or (columns is None and line.startswith("#")):
            continue
        cells = line.split("\t")
        if columns is None:
            columns, is_header = _columns(path, number, cells)
            width = len(cells)
            if is_header:
                continue
        stats.rows += 1
        if len(cells) != width:
            stats.bad(number, f"{len(cells)} cells, not {width}")
        elif not cells[columns[0]].strip():
            stats.bad(number, "no id")
        else:
            at, text, vocabulary = columns
            yield Generated(cells[at].strip(), cells[vocabulary].strip() if vocabulary >= 0 else "", cells[text])
    stats.finish()


def _columns(path: Path, number: int, cells: list[str]) -> tuple[tuple[int, int, int], bool]:
    """Find the columns of a file by its first line.

    Args:
        path: The file.
        number: Number of the line.
        cells: Cells of the line.

    Returns:
        Places of id, text and vocabulary (-1: no such column); and whether the line is a header.

    Raises:
        SapbertError: E591 if the line is not a header and does not have two cells.
    """
    names = [cell.strip().lower().replace(" ", "_") for cell in cells]

    def place(known: Sequence[str]) -> int:
        """Return the place of the first known name that is in the header, -1 if there is none."""
        return next((names.index(name) for name in known if name in names), -1)

    columns = place(ID_COLUMNS), place(TEXT_COLUMNS), place(VOCABULARY_COLUMNS)
    if columns[0] >= 0 and columns[1] >= 0:
        return columns, True
    if len(cells) != 2:
        shown = f"{len(cells)} column{'s' * (len(cells) != 1)} ({', '.join(cell[:20] for cell in cells[:6])})"
        raise fail("E591", path=path, line=number, found=shown, ids=", ".join(ID_COLUMNS), texts=", ".join(TEXT_COLUMNS))
    return (0, 1, -1), False


def stage_generated(kb: KnowledgeBase, path: Path, labels: Ints, stage: sqlite3.Connection, tally: Tally) -> None:
    """Write a file's definitions, with the labels of their concepts, into the table `generated`.

    Args:
        kb: The knowledge base.
        path: The file.
        labels: The label of each concept row, (concepts,).
        stage: The database.
        tally: Receives the counts.

    Raises:
        SapbertError: E592 if no definition is of a concept of `kb`, and the errors of `read_generated`.
    """
    stats = ReadStats()
    file = path.name
    stage.execute("DELETE FROM given")
    stage.executemany(
        "INSERT INTO given VALUES (?, ?, ?, ?)", ((file, one.concept_id, one.vocabulary, one.text) for one in read_generated(path, stats))
    )
    found = _labels_of_ids(kb, stage.execute("SELECT DISTINCT id, vocabulary FROM given"), labels)
    known = 0
    for concept_id, vocabulary, text in stage.execute("SELECT id, vocabulary, text FROM given ORDER BY rowid"):
        tally.add(file, "read")
        mine = found[concept_id, vocabulary]
        known += bool(mine)
        if len(mine) != 1:
            tally.add(file, "several_concepts" if mine else "unknown_concept", concept_id)
        else:
            stage.execute("INSERT INTO generated VALUES (?, ?, ?, ?)", (next(iter(mine)), file, concept_id, text))
    for _ in range(stats.malformed):
        tally.add(file, "malformed_lines")
    if not known:
        ids = ", ".join(tally.first(file, "unknown_concept"))
        raise fail("E592", rows=stats.rows, path=path, kb=kb.path, ids=ids, known=", ".join(kb.vocabularies[:12]))


def _labels_of_ids(kb: KnowledgeBase, ids: Iterable[tuple[str, str]], labels: Ints) -> dict[tuple[str, str], set[int]]:
    """Find the labels of ids.

    A bare code may be of any vocabulary.

    Args:
        kb: The knowledge base.
        ids: (id, vocabulary), as in the file.
        labels: The label of each concept row, (concepts,).

    Returns:
        (id, vocabulary) -> labels.
    """
    found: dict[tuple[str, str], set[int]] = {}
    for concept_id, vocabulary in ids:
        curie = f"{vocabulary}:{concept_id}" if vocabulary and ":" not in concept_id else concept_id
        rows = kb.rows_of(curie) or (kb.rows_of_code([curie]) if ":" not in curie else [])
        found[concept_id, vocabulary] = {int(labels[row]) for row in rows}
    return found
