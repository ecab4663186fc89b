"""The names of the export formats, with media types and endings of files. This module imports nothing, so that `annotate` starts fast."""

from __future__ import annotations

from typing import NamedTuple


class ExportFormat(NamedTuple):
    """A format.

    Attributes:
        media_type: media type of an answer in this format.
        ending: ending of a file with many notes; "" for brat, which has a folder of files.
    """

    media_type: str
    ending: str


FORMATS = {
    "fhir": ExportFormat("application/fhir+json", ".ndjson"),
    "omop": ExportFormat("text/csv; charset=utf-8", ".csv"),
    "phenopackets": ExportFormat("application/x-ndjson", ".jsonl"),
    "bioc": ExportFormat("application/xml", ".xml"),
    "brat": ExportFormat("application/zip", ""),
    "comprehend": ExportFormat("application/x-ndjson", ".jsonl"),
}
FOLDERS = ("brat",)  # formats that have several files
