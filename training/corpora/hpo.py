"""Corpora of the Human Phenotype Ontology: GSC+ (mentions) and JAX (whole documents)."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from spacy_sapbert.files import parse_json

from ..errors import fail
from .corpus import Corpus, misfit
from .ids import gold_ids
from .mention import GoldMention

GOLD_JSON, TEXTS = "*_gold.json", "*.tar.gz"


def read_gsc(lines: Iterable[str], *, source: str | Path = "GSC+") -> Corpus:
    """Read GSC+: a PubMed id, a line of text, then `start TAB end TAB mention TAB HP:…` lines. Blocks end with an empty line.

    Args:
        lines: The lines.
        source: File name for error messages.

    Raises:
        SapbertError: E560, for a line, or an id without a text.
    """
    documents: dict[str, str] = {}
    mentions: list[GoldMention] = []
    block: list[tuple[int, str]] = []
    for number, line in [*enumerate(lines, 1), (0, "")]:
        if line.strip():
            block.append((number, line))
            continue
        if len(block) == 1:
            raise misfit(source, *block[0], "a block of an id, a text and its mentions")
        if block:
            document = block[0][1].strip()
            documents[document] = block[1][1]
        for number, annotation in block[2:]:
            fields = annotation.split("\t")
            if len(fields) != 4 or not (fields[0].isdecimal() and fields[1].isdecimal()):
                raise misfit(source, number, annotation, "`start TAB end TAB mention TAB id`")
            mentions.append(GoldMention(document, int(fields[0]), int(fields[1]), fields[2], gold_ids(fields[3])))
        block = []
    return Corpus(documents, mentions)


def read_jax(path: Path) -> Corpus:
    """Read JAX: a folder with `…_gold.json` ({document: {HPO id: label}}) and the texts, `document.txt`, as files or in a tar.gz.

    Ids belong to the whole document, so mentions have no text and no offsets. Gold documents without a text are counted and left out; texts without
    gold are counted and kept.

    Args:
        path: The folder.

    Raises:
        SapbertError: E567.

    Source:
        PhenoTagger's corpora: Luo et al., Bioinformatics 2021.
    """
    path = Path(path)
    gold = _gold(path)
    documents = _texts(path)
    if not documents:
        raise fail("E567", path=path, layout="jax", why=f"neither it nor a {TEXTS} in it holds a document.txt")
    mentions = [
        GoldMention(document, 0, 0, "", ((concept_id,),))
        for document, ids in gold.items()
        if document in documents
        for concept_id in dict.fromkeys(i for text in ids for alternative in gold_ids(text) for i in alternative)
    ]
    counts = {"documents_without_text": len(gold.keys() - documents.keys()), "texts_without_gold": len(documents.keys() - gold.keys())}
    return Corpus(documents, mentions, {name: count for name, count in counts.items() if count})


def _gold(path: Path) -> dict[str, dict[str, Any]]:
    files = sorted(path.glob(GOLD_JSON))
    if len(files) != 1:
        raise fail("E567", path=path, layout="jax", why=f"it holds {len(files)} files {GOLD_JSON}, not one")
    try:
        found = parse_json(files[0].read_text(encoding="utf-8"))
    except ValueError as error:
        raise fail("E567", path=files[0], layout="jax", why=f"it is not JSON ({type(error).__name__})") from error
    if not isinstance(found, dict) or not all(isinstance(ids, dict) for ids in found.values()):
        raise fail("E567", path=files[0], layout="jax", why="it is not {document: {HPO id: label}}")
    return found


def _texts(path: Path) -> dict[str, str]:
    """Return document -> text, in the order of ids. Nothing is unpacked to the disk."""
    found = {file.stem: file.read_bytes() for file in path.rglob("*.txt")}
    for packed in sorted(path.glob(TEXTS)):
        try:
            with tarfile.open(packed, "r:gz") as archive:
                for member in archive:
                    file = archive.extractfile(member) if member.name.endswith(".txt") else None
                    if file is not None:
                        found[Path(member.name).stem] = file.read()
        except (tarfile.TarError, OSError, EOFError) as error:
            raise fail("E567", path=packed, layout="jax", why=f"it is damaged ({type(error).__name__})") from error
    try:
        return {document: found[document].decode("utf-8").replace("\r\n", "\n") for document in sorted(found)}
    except UnicodeDecodeError as error:
        raise fail("E567", path=path, layout="jax", why="a text is not UTF-8") from error
