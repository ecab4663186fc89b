"""Write records as CSV."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from .records import Row

CSV_COLUMNS = [
    *("note", "start", "end", "mention", "label", "section", "status", "nested", "cui", "name", "types", "type_names", "score", "probability"),
    *("codes", "candidates"),
]

_NUMBER = re.compile(r"-?\d+\.\d+")  # a score or probability
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet reads a cell that begins with one of these as a formula, and runs it


def to_csv(rows: Iterable[Row], stream: TextIO, extensions: Sequence[str] = (), *, raw: bool = False, sentences: bool = False) -> int:
    """Write a header and one row for each record. The items of a list are joined by "|".

    Args:
        rows: the records.
        stream: a file that was opened with newline="".
        extensions: names of the extensions that the records have; each is a column.
        sentences: the records have sentences, which become a column.
        raw: write texts unchanged. Otherwise a text that a spreadsheet would read as a formula gets an apostrophe in front.

    Returns:
        Number of rows, without the header.
    """
    writer = csv.writer(stream)
    columns = [*CSV_COLUMNS, *(["sentence"] if sentences else []), *extensions]
    writer.writerow(columns if raw else map(harmless, columns))
    count = 0
    for row in rows:
        flat = {
            **row,
            **row.get("extensions", {}),
            "section": row["section"] or "",
            "status": "|".join(row["status"] or ()),
            "nested": "true" if row["nested"] else "",
            "types": "|".join(row["types"]),
            "type_names": "|".join(row["type_names"]),
            "score": "" if row["score"] is None else f"{row['score']:.4f}",
            "probability": "" if row["probability"] is None else f"{row['probability']:.4f}",
            "codes": "|".join(f"{vocabulary}={code}" for vocabulary, codes in row["codes"].items() for code in codes),
            "candidates": "|".join(f"{concept}={score:.4f}" for concept, _, score in row["candidates"]),
        }
        writer.writerow([flat[column] if raw else harmless(flat[column]) for column in columns])
        count += 1
    return count


def harmless(cell: Any) -> Any:
    """Return a cell with an apostrophe in front if a spreadsheet would read it as a formula; numbers are not changed."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) and not _NUMBER.fullmatch(cell) else cell
