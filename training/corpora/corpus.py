"""What all readers of corpora share: the type that they return, opening a file's lines, and the error for a line that does not fit."""

from __future__ import annotations

import gzip
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from spacy_sapbert.errors import SapbertError

from ..errors import fail
from .mention import GoldMention

MADE_UP = "#"  # first character of document ids that a reader made from a number: equal ones in two files do not mean the same document
SHOWN = 80  # greatest number of characters in the description of a line
_SHOWN = re.compile(r"\d{1,12}|[A-Za-z_]{1,12}:\w{1,12}|[A-Z]\d{3,9}")
NOTHING: Mapping[str, int] = MappingProxyType({})


class Corpus(NamedTuple):
    """Documents and their gold mentions, as every reader returns them.

    A mention may have no offsets. If the layout has no texts, the mention's document is not in `documents` (and is "" if the layout has no documents
    either). If annotators gave an id to a whole document, the document is there, but the mention has no text, and start and end are 0.

    Attributes:
        documents: Id -> text.
        mentions: Gold mentions in the order of the file.
        counts: What the reader counted, left out or changed -> how often.
    """

    documents: dict[str, str]
    mentions: list[GoldMention]
    counts: Mapping[str, int] = NOTHING


def placed(corpus: Corpus, mention: GoldMention) -> bool:
    """Say whether the mention has offsets in a text of the corpus, right or wrong."""
    return (mention.start, mention.end) != (0, 0) and mention.document in corpus.documents


def wanted(kind: str, kinds: Collection[str] | None) -> bool:
    """Say whether one of the kinds of a mention ("T047", "T116,T123", "Disease") is among `kinds`; always true if `kinds` is None."""
    return kinds is None or not set(kind.split(",")).isdisjoint(kinds)


def open_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a plain or gzipped UTF-8 file, without their ends."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    yield from text.replace("\r\n", "\n").removesuffix("\n").split("\n")  # splitlines would also split at form feeds and similar characters


def shape(line: str) -> str:
    """Describe a line without its text: `7 TAB 0 TAB Wilson` is "3 fields by tab: 7, 0, 6 characters".

    Numbers and ids are shown. Of text only the length is shown, because it may be about a patient. At most 80 characters.
    """
    mark = next((mark for mark in ("\t", "||") if mark in line), None)
    fields = line.split(mark) if mark else [line]
    shown = ", ".join(field if _SHOWN.fullmatch(field.strip()) else f"{len(field)} characters" for field in fields)
    by = {"\t": " by tab", "||": " by ||", None: ""}[mark]
    return f"{len(fields)} field{'s' if len(fields) > 1 else ''}{by}: {shown}"[:SHOWN]


def misfit(source: str | Path, number: int, line: str, expected: str) -> SapbertError:
    """Make the error for a line that does not fit its layout.

    Args:
        source: File name for the message.
        number: Number of the line, from 1.
        line: The line.
        expected: What the line should look like.
    """
    return fail("E560", path=source, line=number, expected=expected, shape=shape(line))
