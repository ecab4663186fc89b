"""BioNNE-L: nested mentions of NEREL-BIO with CUIs, in a table next to the texts."""

from __future__ import annotations

import tarfile
from pathlib import Path

from ..errors import fail
from .corpus import Corpus, misfit
from .ids import gold_ids
from .mention import GoldMention

COLUMNS = ("document_id", "text", "entity_type", "spans", "UMLS_CUI")


def read_bionne(path: Path) -> Corpus:
    """Read BioNNE-L: a folder, or its tar.gz, with texts `DOCUMENT.txt` and one table `….tsv` of mentions.

    The table has the columns document_id, text, entity_type, spans and UMLS_CUI. Spans are `start-end`; a mention in pieces has several, separated by
    commas, and becomes the text from its first character to its last. Mentions may be nested. Mentions in pieces are counted; mentions whose document
    has no text are counted and left out.

    Args:
        path: The folder or tar.gz.

    Raises:
        SapbertError: E560 (a row), E567 (no table, several, or damaged).

    Source:
        Sakhovskiy et al., BioASQ 2025.
    """
    path = Path(path)
    files = _files(path)
    tables = sorted(name for name in files if name.endswith(".tsv"))
    if len(tables) != 1:
        raise fail("E567", path=path, layout="bionne", why=f"it holds {len(tables)} tables .tsv, not one")
    try:
        documents = {Path(name).stem: files[name].decode("utf-8") for name in sorted(files) if name.endswith(".txt")}
        table = files[tables[0]].decode("utf-8").replace("\r\n", "\n").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise fail("E567", path=path, layout="bionne", why="a file is not UTF-8") from error
    head, *rows = [line.split("\t") for line in table.split("\n")]
    if tuple(head) != COLUMNS:
        raise misfit(tables[0], 1, "\t".join(head), "the columns " + ", ".join(COLUMNS))
    mentions: list[GoldMention] = []
    counts = {"mentions_in_pieces": 0, "mentions_without_text": 0}
    for number, row in enumerate(rows, 2):
        try:
            document, text, kind, spans, ids = row
            pieces = sorted((int(start), int(end)) for start, _, end in (piece.partition("-") for piece in spans.split(",")))
        except ValueError as error:
            raise misfit(tables[0], number, "\t".join(row), "a document, a text, a kind, spans `start-end` and an id") from error
        if document not in documents:
            counts["mentions_without_text"] += 1
            continue
        counts["mentions_in_pieces"] += len(pieces) > 1
        start, end = pieces[0][0], max(end for _, end in pieces)
        mentions.append(GoldMention(document, start, end, documents[document][start:end] if len(pieces) > 1 else text, gold_ids(ids), kind))
    return Corpus(documents, mentions, {name: count for name, count in counts.items() if count})


def _files(path: Path) -> dict[str, bytes]:
    """Return name -> content of the texts and tables. Nothing is unpacked to the disk."""
    if path.is_dir():
        return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.suffix in (".txt", ".tsv")}
    found = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                file = archive.extractfile(member) if member.name.endswith((".txt", ".tsv")) else None
                if file is not None:
                    found[member.name] = file.read()
    except (tarfile.TarError, OSError, EOFError) as error:
        raise fail("E567", path=path, layout="bionne", why=f"it is not a tar.gz, or it is damaged ({type(error).__name__})") from error
    return found
