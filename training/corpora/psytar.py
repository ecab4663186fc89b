"""PsyTAR: patients' reviews of four antidepressants, as a workbook or as its sheets in CSV files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from spacy_sapbert.readers.text import lines, quoted

from ..errors import fail
from .corpus import Corpus
from .ids import gold_ids
from .mention import GoldMention

COLUMNS = {"umls": ("UMLS1", "UMLS2"), "snomed": ("SNOMED-CT", "SNOMED-CT.1")}  # the second of two columns with the same name gets `.1`
SHEETS = {"ADR": ("ADR_Mapped", "ADRs"), "WD": ("WD-Mapped", "WDs"), "SSI": ("SSI_Mapped", "SSI"), "DI": ("DI_Mapped", "DIs")}
VOCABULARIES = {"umls": "", "snomed": "SNOMEDCT_US"}
_ID = re.compile(r"\s*(C\d{7}|\d{6,18})(?:\.0)?\b")  # `C0917801 / Insomnia`; a number may come as 193462001.0


def read_psytar(path: Path, *, terminology: str = "umls") -> Corpus:
    """Read PsyTAR's workbook, or a folder with its sheets as CSV files (`ADR_Mapped.csv`, `WD-Mapped.csv`, `SSI_Mapped.csv`, `DI_Mapped.csv`).

    A row of a mapped sheet has a mention (column ADRs, WDs, SSI or DIs) and up to two concepts, `id / name`, which are the parts of a composite.
    The kind of a mention is that of its sheet: ADR, WD, SSI, DI. A review (drug_id) is a document without a text. Rows without a concept are counted
    and kept as mentions without an id.

    Args:
        path: The workbook or the folder.
        terminology: Which ids are gold, "umls" or "snomed".

    Raises:
        SapbertError: E567 (no such sheet, no such column), E568 (terminology), E546 (a workbook without openpyxl), E403, E404 (a sheet as CSV).

    Source:
        Zolnoori et al., Journal of Biomedical Informatics 2019; Data in Brief 2019.
    """
    if terminology not in COLUMNS:
        raise fail("E568", option="terminology", layout="psytar", value=terminology, why=f"it must be one of {', '.join(COLUMNS)}")
    path = Path(path)
    sheets = _folder(path) if path.is_dir() else _workbook(path)
    missing = [sheet for sheet, _ in SHEETS.values() if sheet not in sheets]
    if len(missing) == len(SHEETS):
        raise fail("E567", path=path, layout="psytar", why=f"it has none of the sheets {', '.join(missing)}")
    mentions: list[GoldMention] = []
    counts: Counter[str] = Counter()
    for kind, (sheet, column) in SHEETS.items():
        for row in _records(sheets.get(sheet, [])):
            for needed in ("drug_id", column, COLUMNS[terminology][0]):
                if needed not in row:
                    raise fail("E567", path=path, layout="psytar", why=f"sheet {sheet} has no column {needed}")
            text = " ".join(row[column].split())
            ids = [found[1] for name in COLUMNS[terminology] if (found := _ID.match(row.get(name, "")))]
            if text:
                counts["without_concept"] += not ids
                mentions.append(GoldMention(row["drug_id"], 0, 0, text, gold_ids("+".join(ids), VOCABULARIES[terminology]), kind))
    return Corpus({}, mentions, {name: count for name, count in counts.items() if count})


def _records(rows: Sequence[Sequence[str]]) -> Iterator[dict[str, str]]:
    """Yield the rows of a sheet by column name; the second of two columns with the same name gets `.1`."""
    header: list[str] = []
    for name in rows[0] if rows else ():
        header.append(name if name not in header else f"{name}.1")
    for row in rows[1:]:
        yield {name: (row[i] if i < len(row) else "") for i, name in enumerate(header) if name}


def _folder(path: Path) -> dict[str, list[list[str]]]:
    """Return sheet -> rows of the CSV files of a folder."""
    found = {}
    for file in sorted(path.glob("*.csv")):
        found[file.stem.strip()] = [[cell.strip() for cell in row] for _, row in quoted(file, lines(file), ",", 0)]
    return found


def _workbook(path: Path) -> dict[str, list[list[str]]]:
    """Return sheet -> rows of a workbook. Spaces around the names of sheets and columns are removed: one sheet is called `WD-Mapped `."""
    try:
        import openpyxl
    except ImportError as error:
        raise fail("E546", what="Reading a workbook (.xlsx)", package="openpyxl") from error
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        return {
            sheet.title.strip(): [["" if cell is None else str(cell).strip() for cell in row] for row in sheet.iter_rows(values_only=True)]
            for sheet in book.worksheets
        }
    except Exception as error:  # an error of zipfile, openpyxl or XML, depending on where the file is damaged
        raise fail("E567", path=path, layout="psytar", why=f"it is not a workbook ({type(error).__name__})") from error
