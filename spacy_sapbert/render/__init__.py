"""Write linked Docs for people and programs: JSON Lines, CSV, a table in the terminal, one HTML page. Nothing is linked here."""

from ..kb.concept import concept_url
from .csv import CSV_COLUMNS, to_csv
from .html import HEAD_BYTES, Pages, fill_pages, is_page, to_html
from .jsonl import to_jsonl
from .records import GROUPS, NIL, STATUS, STATUS_NAMES, Places, Row, linked_spans, row_of, rows
from .table import MAX_WIDTH, MIN_WIDTH, to_table

__all__ = [
    "CSV_COLUMNS",
    "GROUPS",
    "HEAD_BYTES",
    "MAX_WIDTH",
    "MIN_WIDTH",
    "NIL",
    "STATUS",
    "STATUS_NAMES",
    "Pages",
    "Places",
    "Row",
    "concept_url",
    "fill_pages",
    "is_page",
    "linked_spans",
    "row_of",
    "rows",
    "to_csv",
    "to_html",
    "to_jsonl",
    "to_table",
]
