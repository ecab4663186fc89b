"""LabeledIn: the indications of drug labels, with the CUIs of diseases written into the text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from .corpus import Corpus, misfit
from .ids import gold_id
from .mention import GoldMention

_ANNOTATION = re.compile(r'<annotation cui="([^"]*)">(.*?)</annotation>')
_MARK = re.compile(r"</?(?:br|div|li|ol|ul|p|i|b|u|annotation)(?:\s[^<>]*)?/?>")  # "<18 years" is text
_BREAKS = ("br", "div", "li", "ol", "ul", "p")


def read_labeledin(lines: Iterable[str], *, source: str | Path = "LabeledIn") -> Corpus:
    """Read LabeledIn's `LabeledIn_annotated_XML.txt`: `drug|label|text|other labels`, with `<annotation cui="C…">mention</annotation>` in the text.

    HTML tags are removed; those of paragraphs and lists become line breaks. Two CUIs (`C1;C2`) are the parts of a composite mention. Generic drugs
    repeat the text of a label, so of equal texts only the first is kept. The reader counts what it leaves out: such documents, and mentions without
    a CUI.

    Args:
        lines: The lines.
        source: File name for error messages.

    Raises:
        SapbertError: E560, for a line.

    Source:
        Khare et al., Database 2014.
    """
    documents: dict[str, str] = {}
    mentions: list[GoldMention] = []
    known: set[str] = set()
    counts = {"documents_with_a_text_seen_before": 0, "mentions_without_id": 0}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        fields = line.split("|")
        if len(fields) < 3 or not fields[0].strip():
            raise misfit(source, number, line, "`drug|label|text|other labels`")
        marked = "|".join(fields[2:-1]) if len(fields) > 3 else fields[2]
        text, found = _plain(marked)
        if text in known:
            counts["documents_with_a_text_seen_before"] += 1
            continue
        known.add(text)
        document = f"{fields[0].strip()}-{fields[1].strip()}"
        documents[document] = text
        for start, end, cuis in found:
            ids = tuple(dict.fromkeys(gold_id(cui) for cui in cuis.split(";") if cui.strip()))
            if ids and start < end:
                mentions.append(GoldMention(document, start, end, text[start:end], (ids,), "Disease"))
            else:
                counts["mentions_without_id"] += 1
    return Corpus(documents, mentions, {name: count for name, count in counts.items() if count})


def _plain(marked: str) -> tuple[str, list[tuple[int, int, str]]]:
    """Return a text without HTML tags, and (start, end, CUIs) of its annotations."""
    made, at, length = [], 0, 0
    found: list[tuple[int, int, str]] = []

    def add(piece: str) -> None:
        nonlocal length
        made.append(piece)
        length += len(piece)

    for match in _ANNOTATION.finditer(marked):
        add(_without_marks(marked[at : match.start()]))
        inner = _without_marks(match.group(2))
        mention = inner.strip()
        start = length + len(inner) - len(inner.lstrip())
        add(inner)
        found.append((start, start + len(mention), match.group(1)))
        at = match.end()
    add(_without_marks(marked[at:]))
    return "".join(made), found


def _without_marks(text: str) -> str:
    return _MARK.sub(lambda match: "\n" if re.sub(r"\W", "", match.group().split()[0]) in _BREAKS else "", text)
