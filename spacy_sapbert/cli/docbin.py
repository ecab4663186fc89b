"""Annotated Docs that a command is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import MissingFile, fail


def read_docs(path: Path) -> list[Any]:
    """Read the Docs of a DocBin.

    Raises:
        SapbertError: E401, there is no such file; E402, it is not a DocBin.
    """
    import spacy
    from spacy.tokens import DocBin

    if not path.is_file():
        raise fail("E401", MissingFile, path=path)
    try:
        return list(DocBin().from_disk(path).get_docs(spacy.blank("en").vocab))
    except Exception as error:  # msgpack, zlib and srsly raise different errors
        raise fail("E402", path=path, expected="a DocBin", why=f"{type(error).__name__}: {error}") from error
