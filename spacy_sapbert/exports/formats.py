"""Write notes in an export format that is given by its name."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

from ..errors import fail
from . import athena, bioc, brat, comprehend, fhir, omop, phenopackets
from .base import LinkedNote, Origin
from .names import FOLDERS


class Exporter:
    """Writes linked notes in the export formats.

    Args:
        kb: knowledge base of the linker.
        origin: origin of the links.
        find: function that finds concept ids of OMOP, see `athena.ConceptTable`; None: they are 0.
    """

    def __init__(self, kb: Any, origin: Origin, find: athena.Find | None = None) -> None:
        self._kb, self._origin, self._find = kb, origin, find

    def write(self, name: str, notes: Iterable[LinkedNote], stream: TextIO, *, lines: bool = False) -> None:
        """Write notes in a format that is not in `FOLDERS`.

        Args:
            name: the format.
            notes: the notes.
            stream: a file that was opened with newline="".
            lines: FHIR: write one Bundle for each note, each on its own line; otherwise one Bundle.
        """
        if name == "omop":
            omop.write(notes, self._origin, stream, self._find)
        elif name == "comprehend":
            comprehend.write(notes, self._origin, stream, self._codes)
        elif name == "fhir":
            (fhir.write_lines if lines else fhir.write)(notes, self._origin, stream)
        else:
            {"phenopackets": phenopackets.write, "bioc": bioc.write}[name](notes, self._origin, stream)

    def write_folder(self, notes: Iterable[LinkedNote], folder: Path) -> None:
        """Write notes for brat into a folder."""
        brat.write(notes, self._origin, folder)

    def to_bytes(self, name: str, notes: Sequence[LinkedNote]) -> bytes:
        """Return notes in a format; for brat a zip archive of its files."""
        if name not in FOLDERS:
            text = io.StringIO(newline="")
            self.write(name, notes, text)
            return text.getvalue().encode("utf-8", "backslashreplace")
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path, content in brat.files(notes):
                archive.writestr(path, content.encode("utf-8", "backslashreplace"))
        return packed.getvalue()

    def _codes(self, concept_id: str) -> dict[str, list[str]]:
        kb = self._kb
        codes: dict[str, list[str]] = kb.codes(kb.row_of(concept_id)) if concept_id in kb else {}
        return codes


def check_athena(name: str, folder: Path | None, component: str) -> None:
    """Check the option `--athena`.

    Args:
        name: the format.
        folder: value of the option.
        component: the command, for the message.

    Raises:
        SapbertError: E002, the format is not omop; E401, Athena's files are missing.
    """
    if folder is None:
        return
    if name != "omop":
        raise fail("E002", setting="--athena", component=component, value=str(folder), why="it is for --format omop.")
    athena.check_files(folder)
