"""Read a corpus of any layout. The layout is given, or recognised from the content."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from spacy_sapbert.errors import MissingFile
from spacy_sapbert.errors import fail as base_fail
from spacy_sapbert.readers.medic import identifier
from spacy_sapbert.readers.text import lines as numbered_lines
from spacy_sapbert.readers.text import open_binary

from ..errors import fail
from .bars import CUI, read_biosyn, read_dictionary, read_xlbel
from .bionne import COLUMNS as BIONNE
from .bionne import read_bionne
from .brat import read_brat
from .cadec import read_cadec
from .corpus import Corpus, shape, wanted
from .docbin import read_docbin
from .hpo import GOLD_JSON, read_gsc, read_jax
from .ids import NIL, gold_ids
from .labeledin import read_labeledin
from .psytar import SHEETS, read_psytar
from .pubtator import read_pubtator
from .tables import SMM4H, read_askapatient, read_biomap, read_cometa, read_smm4h, read_tsv

_LINES_TO_RECOGNISE = 50  # number of lines from which a layout is recognised
_ZLIB = b"\x78"  # first byte of a DocBin. A text may begin with it too ("x"), but then the second byte is printable ASCII


class Layout(NamedTuple):
    """The reader of a layout.

    Attributes:
        read: The reader.
        lines: Whether the reader takes lines; if not, it takes a path.
    """

    read: Callable[..., Corpus]
    lines: bool


LAYOUTS: Mapping[str, Layout] = {
    "askapatient": Layout(read_askapatient, True),
    "biomap": Layout(read_biomap, True),
    "bionne": Layout(read_bionne, False),
    "biosyn": Layout(read_biosyn, False),
    "brat": Layout(read_brat, False),
    "cadec": Layout(read_cadec, False),
    "cometa": Layout(read_cometa, True),
    "dictionary": Layout(read_dictionary, True),
    "docbin": Layout(read_docbin, False),
    "gsc": Layout(read_gsc, True),
    "jax": Layout(read_jax, False),
    "labeledin": Layout(read_labeledin, True),
    "psytar": Layout(read_psytar, False),
    "pubtator": Layout(read_pubtator, True),
    "smm4h": Layout(read_smm4h, True),
    "tsv": Layout(read_tsv, True),
    "xlbel": Layout(read_xlbel, True),
}
_PER_CALL = ("source", "kinds", "encoding")  # parameters of readers that `read_corpus` sets itself


def read_corpus(
    path: str | Path,
    layout: str | None = None,
    *,
    kinds: Collection[str] | None = None,
    documents: Collection[str] | None = None,
    encoding: str | None = None,
    **options: Any,
) -> Corpus:
    """Read a corpus of any layout of LAYOUTS. Files may be plain, .gz or .zst.

    Args:
        path: The file or folder.
        layout: The layout; None: it is recognised from the content.
        kinds: Only mentions of these kinds (PubTator's kinds, semantic types, labels); None: all.
        documents: Only these documents, such as those of a split (`read_split`); None: all.
        encoding: Encoding of the files; None: what the layout prescribes, or UTF-8.
        options: Options of the reader: granularity of COMETA, group of a DocBin, vocabulary of bare ids, texts of a TSV.

    Raises:
        SapbertError: E401 (no such path), E404 (encoding), E561 (no such layout), E562 (none is recognised), E563 (no mentions), E564 (no ids),
            E568 (an option that the reader does not have), and those of the reader: E560 (a line), E565, E566, E567.
    """
    path = Path(path)
    if layout is not None and layout not in LAYOUTS:
        raise fail("E561", name=layout, known=", ".join(LAYOUTS))
    if not path.exists():
        raise base_fail("E401", MissingFile, path=path)
    name = layout or recognise(path, encoding or "utf-8")
    read, by_lines = LAYOUTS[name]
    parameters = inspect.signature(read).parameters
    own = [key for key, p in parameters.items() if p.kind is p.KEYWORD_ONLY and key not in _PER_CALL]
    for key, value in options.items():
        if key not in own:
            raise fail("E568", option=key, layout=name, value=value, why=f"there is no such option. It has: {', '.join(own) or 'none'}")
    if by_lines:
        corpus = read((line for _, line in numbered_lines(path, encoding or "utf-8")), source=path, **options)
    else:
        corpus = read(path, **options, **({"encoding": encoding} if encoding and "encoding" in parameters else {}))
    if documents is not None:
        texts = {document: text for document, text in corpus.documents.items() if document in documents}
        corpus = corpus._replace(documents=texts, mentions=[mention for mention in corpus.mentions if mention.document in documents])
    if kinds is not None:
        corpus = corpus._replace(mentions=[mention for mention in corpus.mentions if wanted(mention.kind, kinds)])
    if not corpus.mentions:
        raise fail("E563", path=path, documents=len(corpus.documents), kinds=f" of the kinds {', '.join(kinds)}" if kinds else "")
    if all(i == NIL for mention in corpus.mentions for ids in mention.gold for i in ids):
        raise fail("E564", path=path, mentions=len(corpus.mentions), where=f"layout '{name}'")
    return corpus


def read_split(path: Path) -> frozenset[str]:
    """Read the ids of the documents of a split, one a line, as MedMentions lists them (`corpus_pubtator_pmids_test.txt`)."""
    return frozenset(line.strip() for _, line in numbered_lines(path) if line.strip())


def vocabulary_of_layout(layout: str) -> str:
    """Return the vocabulary that the reader of a layout assumes for ids without a prefix; "" for most layouts."""
    parameter = inspect.signature(LAYOUTS[layout].read).parameters.get("vocabulary")
    return str(parameter.default) if parameter else ""


def recognise(path: Path, encoding: str = "utf-8") -> str:
    """Recognise the layout of a file or folder from its content. File names are used only for folders whose layout prescribes them.

    Args:
        path: The file or folder.
        encoding: Encoding of the file.

    Raises:
        SapbertError: E562, which describes the first line; E563 (it is empty); E404.
    """
    if path.is_dir():
        sheet = f"{SHEETS['ADR'][0]}.csv"
        for pattern, found in ((GOLD_JSON, "jax"), ("sct/*.ann", "cadec"), ("**/*.ann", "brat"), ("*.concept", "biosyn"), (sheet, "psytar")):
            if next(path.glob(pattern), None):
                return found
        table = next(path.rglob("*.tsv"), None)
        if table is not None and tuple(next(iter(numbered_lines(table, encoding)), (0, ""))[1].split("\t")) == BIONNE:
            return "bionne"
        raise fail("E562", path=path, number=0, shape=f"a folder without {GOLD_JSON}, .ann, .concept or {sheet}", known=", ".join(LAYOUTS))
    if path.name.endswith(".tar.gz"):
        return "bionne"
    if path.suffix in (".ann", ".xlsx"):
        return "brat" if path.suffix == ".ann" else "psytar"
    with open_binary(path) as file:
        start = file.read(2)
    if not start:
        raise fail("E563", path=path, documents=0, kinds="")
    if start[:1] == _ZLIB and len(start) == 2 and not 32 <= start[1] < 127 and start[1] != 9:
        return "docbin"
    head = list(islice(((n, line) for n, line in numbered_lines(path, encoding) if line.strip()), _LINES_TO_RECOGNISE))
    if not head:
        raise fail("E563", path=path, documents=0, kinds="")
    layout = _by_lines([line for _, line in head])
    if layout is None:
        raise fail("E562", path=path, number=head[0][0], shape=shape(head[0][1]), known=", ".join(LAYOUTS))
    return layout


def _by_lines(lines: list[str]) -> str | None:
    first = lines[0]
    cells = first.split("\t")
    if re.match(r"[^|\t]+\|[ta]\|", first):
        return "pubtator"
    if any('<annotation cui="' in line and line.count("|") >= 2 for line in lines):
        return "labeledin"
    if {"Term", "General SNOMED ID"} <= set(cells) or {"Term", "Specific SNOMED ID"} <= set(cells):
        return "cometa"
    if {"mention", "mondo_id"} <= set(first.split(",")):
        return "biomap"
    if any({mention, ids} <= {*cells, *first.split(",")} for mention, ids in zip(SMM4H["mention"], SMM4H["ids"])):
        return "smm4h"
    if {"mention", "ids"} <= set(cells):
        return "tsv"
    if re.match(r"[^|]+\|\|\d+\|\d+\|\|", first):
        return "biosyn"
    if "||" in first:
        return _bars(lines)
    if len(cells) == 1 and any(re.match(r"\d+\t\d+\t[^\t]+\tHP:", line) for line in lines[2:]):
        return "gsc"
    if len(cells) == 3 and all(re.fullmatch(r"[^\t]+\t[^\t]+\t1\d{7}", line) for line in lines):  # MedDRA's codes
        return "smm4h"
    if len(cells) == 3 and all(re.match(r"\d+\t", line) for line in lines):
        return "askapatient"
    rows: list[tuple[str, ...]] = [tuple(line.split("\t")) for line in lines]
    if len(cells) in (2, 3, 5) and all(len(row) == len(cells) and _known_ids(row[1]) and not identifier(row[0]) for row in rows):
        return "tsv"
    return None


def _bars(lines: list[str]) -> str | None:
    """Distinguish XL-BEL from a dictionary with other ids: both write `id||…`. Most ids of XL-BEL are CUIs, but not all."""
    ids: dict[str, None] = dict.fromkeys(line.partition("||")[0] for line in lines)
    if 2 * sum(any(CUI.fullmatch(i) for i in text.split("|")) for text in ids) > len(ids):
        return "xlbel"
    return "dictionary" if all(gold_ids(text) and not re.search(r"\s", text.strip()) for text in ids) else None


def _known_ids(text: str) -> bool:
    """Say whether all ids have a known form. Without this check any table would be taken for a table of mentions."""
    return all(i == NIL or identifier(i) for ids in gold_ids(text) for i in ids) and bool(gold_ids(text))
