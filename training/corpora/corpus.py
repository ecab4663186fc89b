"""What every reader of corpora gives, the lines it is given, and how it says which line does not fit. No layouts."""

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

MADE_UP = "#"  # begins document ids that a reader gave by number, since its layout has none: equal ones in two files say nothing
SHOWN = 80  # characters of a line's shape
_SHOWN = re.compile(r"\d{1,12}|[A-Za-z_]{1,12}:\w{1,12}|[A-Z]\d{3,9}")
NOTHING: Mapping[str, int] = MappingProxyType({})


class Corpus(NamedTuple):
    """documents: id -> text. mentions: in the order of the file. counts: what the reader left out or changed, by name -> how often.

    A mention may stand nowhere: where its layout has no texts, its document is not in `documents` (and is "" where the layout has no
    documents either); where a whole document is given an id, it is there, but the mention has no text and start and end are 0.
    """

    documents: dict[str, str]
    mentions: list[GoldMention]
    counts: Mapping[str, int] = NOTHING


def placed(corpus: Corpus, mention: GoldMention) -> bool:
    """Whether the mention has offsets in a text of the corpus, be they right or wrong."""
    return (mention.start, mention.end) != (0, 0) and mention.document in corpus.documents


def wanted(kind: str, kinds: Collection[str] | None) -> bool:
    """Whether one of a mention's kinds ("T047", "T116,T123", "Disease") is among `kinds`; None: any is."""
    return kinds is None or not set(kind.split(",")).isdisjoint(kinds)


def open_lines(path: Path) -> Iterator[str]:
    """Lines of a plain or gzipped UTF-8 file, without their ends."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    yield from text.replace("\r\n", "\n").removesuffix("\n").split("\n")  # splitlines would also cut at form feeds and the like


def shape(line: str) -> str:
    """`7 TAB 0 TAB Wilson` -> "3 fields by tab: 7, 0, 6 characters": numbers and ids are shown, text only by its length, for it may be a
    patient's; at most 80 characters."""
    mark = next((mark for mark in ("\t", "||") if mark in line), None)
    fields = line.split(mark) if mark else [line]
    shown = ", ".join(field if _SHOWN.fullmatch(field.strip()) else f"{len(field)} characters" for field in fields)
    by = {"\t": " by tab", "||": " by ||", None: ""}[mark]
    return f"{len(fields)} field{'s' if len(fields) > 1 else ''}{by}: {shown}"[:SHOWN]


def misfit(source: str | Path, number: int, line: str, expected: str) -> SapbertError:
    """The exception for a line that the layout does not have. number: of the line, from 1. expected: what it should be."""
    return fail("E560", path=source, line=number, expected=expected, shape=shape(line))
