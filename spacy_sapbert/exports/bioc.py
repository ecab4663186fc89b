"""BioC XML: one collection, a document for each note, an annotation for each mention.

Source: Comeau et al., BioC: a minimalist approach to interoperability for biomedical text processing, Database 2013.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TextIO
from xml.etree import ElementTree

from ..render.records import Row, chosen
from .base import LinkedNote, Origin

KEY = "spacy-sapbert.key"
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # characters that XML 1.0 cannot hold


def write(notes: Iterable[LinkedNote], origin: Origin, stream: TextIO) -> int:
    """Write the collection, one document after the other. Offsets are in Unicode characters.

    Returns:
        Number of documents.
    """
    stream.write('<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE collection SYSTEM "BioC.dtd">\n<collection>')
    for name, text in (("source", origin.system), ("date", origin.written.date().isoformat()), ("key", KEY)):
        element = ElementTree.Element(name)
        element.text = text
        stream.write(_xml(element))
    count = 0
    for note in notes:
        stream.write(_xml(_document(note)))
        count += 1
    stream.write("</collection>\n")
    return count


def _xml(element: ElementTree.Element) -> str:
    # a carriage return is written as a character reference, because XML readers turn a plain one into a line feed
    return ElementTree.tostring(element, encoding="unicode").replace("\r", "&#13;")


def _document(note: LinkedNote) -> ElementTree.Element:
    document = ElementTree.Element("document")
    ElementTree.SubElement(document, "id").text = _valid(note.note_id)
    passage = ElementTree.SubElement(document, "passage")
    ElementTree.SubElement(passage, "offset").text = "0"
    ElementTree.SubElement(passage, "text").text = _valid(note.text)
    for number, row in enumerate(chosen(note.rows), 1):
        _annotation(passage, row, f"T{number}")
    return document


def _annotation(passage: ElementTree.Element, row: Row, name: str) -> None:
    annotation = ElementTree.SubElement(passage, "annotation", id=name)
    scores = {key: f"{row[key]:.4f}" for key in ("score", "probability") if row[key] is not None}
    infons = {"type": row["label"], "identifier": row["cui"], "name": row["name"], "status": ",".join(row["status"] or ()), **scores}
    for key, value in infons.items():
        if value:
            ElementTree.SubElement(annotation, "infon", key=key).text = _valid(value)
    ElementTree.SubElement(annotation, "location", offset=str(row["start"]), length=str(row["end"] - row["start"]))
    ElementTree.SubElement(annotation, "text").text = _valid(row["mention"])


def _valid(text: str) -> str:
    """Return a text with a space in place of each character that XML cannot hold, so that offsets stay right."""
    return _NOT_XML.sub(" ", text)
