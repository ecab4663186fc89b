"""brat standoff: a text file and a file with its annotations."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from spacy_sapbert.errors import fail as base_fail
from spacy_sapbert.readers.medic import identifier
from spacy_sapbert.readers.text import lines as numbered_lines

from ..errors import fail
from .corpus import Corpus, misfit
from .ids import gold_ids
from .mention import GoldMention, Ids

_ENTITY = re.compile(r"(T\S+)\t(\S+) (\d+ \d+(?:;\d+ \d+)*)\t(.*)")
_REFERENCE = re.compile(r"N\S+\tReference (T\S+) (\S+)(?:\t.*)?")
_NOTE = re.compile(r"#\S*\t\S+ (T\S+)\t(.*)")
_OTHER = re.compile(r"[REAM*#]\S*\t.+")  # relations, events, attributes, equivalences, and notes on these


class _Entity(NamedTuple):
    """An entity of brat.

    Attributes:
        kind: Its type.
        pieces: (start, end) of each piece.
        text: The text of the pieces with a space between them, as the .ann file has it.
    """

    kind: str
    pieces: list[tuple[int, int]]
    text: str


def read_brat(path: Path, *, vocabulary: str = "", optional_texts: bool = False, encoding: str = "utf-8") -> Corpus:
    """Read a folder of brat's standoff files, with its subfolders, or one .ann file. A document is named by its path.

    The ids of an entity are those of its `N` lines (`N1 TAB Reference T1 UMLS:C0011849`; several are alternatives). Without `N` lines they are those
    of a `#` note that holds only ids. An entity in pieces (`0 5;16 23`) becomes the text from its first character to its last. The reader counts
    entities in pieces, .ann files without their text, and the lines that it leaves out: relations, events, attributes and other notes.

    Args:
        path: The folder or file.
        vocabulary: Vocabulary of ids without a prefix, as in `gold_id`.
        optional_texts: Also read .ann files without their .txt (TwiMed's tweets): their mentions have no offsets.
        encoding: Encoding of both files; offsets count characters.

    Raises:
        SapbertError: E560 (a line), E567 (no .ann, or one without its .txt), E404 (not in this encoding).

    Source:
        Stenetorp et al., EACL 2012.
    """
    path = Path(path)
    root = path.parent if path.is_file() else path
    files = [path] if path.is_file() else sorted(path.rglob("*.ann"))
    if not files:
        raise fail("E567", path=path, layout="brat", why="it holds no .ann")
    documents: dict[str, str] = {}
    mentions: list[GoldMention] = []
    counts: Counter[str] = Counter()
    for file in files:
        document = file.relative_to(root).with_suffix("").as_posix()
        without_text = optional_texts and not file.with_suffix(".txt").is_file()
        if not without_text:
            documents[document] = _text(file.with_suffix(".txt"), encoding)
        entities, ids = _annotations(file, vocabulary, encoding, counts)
        if without_text:
            counts["without_text"] += 1
            mentions += [GoldMention(document, 0, 0, entity.text, ids.get(key, ()), entity.kind) for key, entity in entities.items()]
            continue
        for key, entity in entities.items():
            start, end = entity.pieces[0][0], entity.pieces[-1][1]
            joined = " ".join(documents[document][a:b] for a, b in entity.pieces)
            counts["in_pieces"] += len(entity.pieces) > 1
            # brat writes a line end as a space; if the texts differ in more than that, keep the entity's text: the check of offsets will report it
            fits = joined.split() == entity.text.split()
            text = documents[document][start:end] if fits else entity.text
            mentions.append(GoldMention(document, start, end, text, ids.get(key, ()), entity.kind))
    return Corpus(documents, mentions, {name: count for name, count in counts.items() if count})


def _text(path: Path, encoding: str) -> str:
    """Return the whole text. CRLF stays, because brat counts both characters."""
    if not path.is_file():
        raise fail("E567", path=path.with_suffix(".ann"), layout="brat", why=f"its text {path.name} is not next to it")
    try:
        return path.read_bytes().decode(encoding)
    except UnicodeDecodeError as error:
        raise base_fail("E404", path=path, line=error.object[: error.start].count(b"\n") + 1) from error


def _annotations(path: Path, vocabulary: str, encoding: str, counts: Counter[str]) -> tuple[dict[str, _Entity], dict[str, tuple[Ids, ...]]]:
    """Read an .ann file.

    Args:
        path: The file.
        vocabulary: Vocabulary of ids without a prefix.
        encoding: Encoding of the file.
        counts: Counts; those of this file are added.

    Returns:
        Entities by their key (T1), and ids by the key of their entity.
    """
    entities: dict[str, _Entity] = {}
    references: dict[str, list[str]] = {}
    notes: dict[str, list[str]] = {}
    for number, line in numbered_lines(path, encoding):
        if found := _ENTITY.fullmatch(line):
            pieces = sorted((int(a), int(b)) for a, b in (piece.split() for piece in found[3].split(";")))
            entities[found[1]] = _Entity(found[2], pieces, found[4])
        elif found := _REFERENCE.fullmatch(line):
            references.setdefault(found[1], []).append(found[2])
        elif (found := _NOTE.fullmatch(line)) and _are_ids(found[2], vocabulary):
            notes.setdefault(found[1], []).append(found[2])
        elif _OTHER.fullmatch(line):
            counts["other_lines"] += 1
        elif line.strip():
            raise misfit(
                path, number, line, "a line of brat (`T1 TAB kind start end TAB text`, `N1 TAB Reference T1 id TAB text`, R, E, A, M, * or #)"
            )
    return entities, {key: gold_ids("|".join(ids), vocabulary) for key, ids in {**notes, **references}.items()}


def _are_ids(note: str, vocabulary: str) -> bool:
    """Say whether a note holds only ids; other notes are remarks such as "check this"."""
    parts = re.split(r"[|+,]", note.strip())
    return all(re.fullmatch(r"\S+", part.strip()) and (identifier(part) or (vocabulary and part.strip().isdecimal())) for part in parts)
