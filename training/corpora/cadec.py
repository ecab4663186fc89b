"""CADEC: posts of a forum about medicines, whose mentions have codes of SNOMED CT or MedDRA."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from spacy_sapbert.errors import fail as base_fail
from spacy_sapbert.readers.text import lines as numbered_lines

from ..errors import fail
from .corpus import Corpus, misfit
from .ids import NIL, gold_ids
from .mention import GoldMention, Ids

TERMINOLOGIES = {"sct": "SNOMEDCT_US", "meddra": "MDR"}  # folder of the corpus -> vocabulary of its codes
_ANNOTATION = re.compile(r"TT?(\S+)\s+(\S.*?)\s+(\d+ \d+(?:\s*;\s*\d+ \d+)*)(?:\t|\s{2,})\s*(\S.*)")  # some lines have spaces instead of tabs
_OR = re.compile(r"\|?\s*\bor\s+(?=\d{6})")
_CODE = re.compile(r"(?<![\w.])\d{6,18}(?!\w)")  # a SNOMED CT name may hold shorter numbers


def read_cadec(path: Path, *, terminology: str = "sct", encoding: str = "latin-1") -> Corpus:
    """Read CADEC's folder: `text/NAME.txt`, `original/NAME.ann`, `sct/NAME.ann`, `meddra/NAME.ann`.

    A line is `TT1 TAB code | name | start end TAB text` (sct) or `TT1 TAB code start end TAB text` (meddra). `+` and `/` separate the codes of a
    composite, `or` separates alternatives, CONCEPT_LESS means that there is no concept. The kind of a mention (ADR, Drug …) is that of `original`.
    A mention in pieces (`0 5;16 23`) has the text of its pieces and therefore no offsets; such mentions are counted. Lines that are not annotations
    are counted and left out.

    Args:
        path: The folder.
        terminology: Which codes are gold, "sct" or "meddra". Only adverse reactions have MedDRA's.
        encoding: Encoding of the annotations; the texts are UTF-8.

    Raises:
        SapbertError: E560 (a line), E567 (a folder is missing), E568 (terminology), E404 (encoding).

    Source:
        Karimi et al., Journal of Biomedical Informatics 2015.
    """
    if terminology not in TERMINOLOGIES:
        raise fail("E568", option="terminology", layout="cadec", value=terminology, why=f"it must be one of {', '.join(TERMINOLOGIES)}")
    path = Path(path)
    files = sorted((path / terminology).glob("*.ann"))
    if not files or not (path / "text").is_dir():
        raise fail("E567", path=path, layout="cadec", why=f"it has no folder 'text', or no .ann in '{terminology}'")
    documents: dict[str, str] = {}
    mentions: list[GoldMention] = []
    counts: Counter[str] = Counter()
    for file in files:
        document = file.stem
        documents[document] = _text(path / "text" / f"{document}.txt")
        kinds = _kinds(path / "original" / file.name, encoding)
        for number, line in numbered_lines(file, encoding):
            found = _ANNOTATION.fullmatch(line.strip())
            if not line.strip() or (found is None and line.startswith("#")):
                counts["other_lines"] += bool(line.strip())
                continue
            gold = _gold(found[2], TERMINOLOGIES[terminology]) if found else ()
            if found is None or not gold:
                raise misfit(file, number, line, "`TT1 TAB code | name | start end TAB text` (sct), `TT1 TAB code start end TAB text` (meddra)")
            pieces = [(int(start), int(end)) for start, end in (piece.split() for piece in found[3].split(";"))]
            counts["in_pieces"] += len(pieces) > 1
            place = (document, *pieces[0]) if len(pieces) == 1 else ("", 0, 0)
            mentions.append(GoldMention(*place, " ".join(found[4].split()), gold, kinds.get(found[1], "")))
    return Corpus(documents, mentions, {name: count for name, count in counts.items() if count})


def _gold(text: str, vocabulary: str) -> tuple[Ids, ...]:
    """Return the alternatives that the annotation of a mention gives; none if there is neither a code nor CONCEPT_LESS."""
    if text.startswith("CONCEPT_LESS"):
        return ((NIL,),)
    return gold_ids("|".join("+".join(_CODE.findall(alternative)) for alternative in _OR.split(text)), vocabulary)


def _kinds(path: Path, encoding: str) -> dict[str, str]:
    """Return number of an entity -> its kind, from a file of `original`; empty if there is no such file."""
    lines = [line.split(None, 2) for _, line in numbered_lines(path, encoding)] if path.is_file() else []
    return {fields[0][1:]: fields[1] for fields in lines if len(fields) == 3 and fields[0].startswith("T")}


def _text(path: Path) -> str:
    """Return the whole text; E567 if it is missing, E404 if it is not UTF-8."""
    if not path.is_file():
        raise fail("E567", path=path.with_suffix(".ann"), layout="cadec", why=f"its text '{path.name}' is not in the folder 'text'")
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise base_fail("E404", path=path, line=error.object[: error.start].count(b"\n") + 1) from error
