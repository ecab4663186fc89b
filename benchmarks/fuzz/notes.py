"""Targets of fuzzing that read notes and what belongs to them: notes in all formats, DocBins, reviews, and Athena's tables."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .base import Target, blank, must, small_linker

TEXTS = [f"Fever and cough for {i} days." for i in range(5)]


def note_targets(scratch: Path) -> Iterator[Target]:
    """Yield these targets.

    Args:
        scratch: folder for their files.
    """
    yield Target("notes-jsonl", 6, {"notes.jsonl": _lines()}, _reads_notes, scratch / "notes")
    table = "id,text,ward\n" + "".join(f'n{i},"{text}",a\n' for i, text in enumerate(TEXTS))
    tables = {"notes.csv": table.encode(), "notes.tsv": table.replace(",", "\t").encode(), "notes.jsonl.gz": gzip.compress(_lines())}
    yield Target("notes-tables", 3, tables, _reads_notes, scratch / "notes-tables")
    yield Target("notes-parquet", 3, {"notes.parquet": _parquet()}, _reads_notes, scratch / "notes-parquet")
    yield Target("docbin", 1, {"docs.spacy": _docbin()}, _reads_docs, scratch / "docbin")
    yield Target("athena", 1, _athena(), _reads_athena, scratch / "athena")
    yield Target(
        "review-file", 1, {"review.sqlite": review_of(scratch / "made" / "review.sqlite", small_linker(scratch))}, _reads_review, scratch / "review"
    )


# -- notes --------------------------------------------------------------------------------------------------------------


def _lines() -> bytes:
    return "".join(json.dumps({"id": f"n{i}", "text": text}) + "\n" for i, text in enumerate(TEXTS)).encode()


def _parquet() -> bytes:
    import pyarrow
    import pyarrow.parquet

    stream = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"id": [f"n{i}" for i in range(len(TEXTS))], "text": TEXTS}), stream)
    return stream.getvalue()


def _reads_notes(folder: Path, name: str) -> None:
    from spacy_sapbert.cli.inputs import open_inputs
    from spacy_sapbert.corpus.notes import NoteReader, open_corpus
    from spacy_sapbert.errors import SapbertError

    corpus, reader = open_corpus(folder / name, 2), NoteReader()
    try:
        for partition in corpus.partitions[:50]:
            for note in reader.read(partition):
                must(note.text is not None or bool(note.error), "a note without text and without a reason")
                note.note_id.encode("utf-8")
    except SapbertError:
        raise
    except Exception as error:  # `NoteReader.read` leaves errors of pyarrow to its callers, see below
        must(corpus.kind == "parquet" or isinstance(error, OSError), f"{type(error).__name__}: {error}")
    for read in open_inputs([str(folder / name)]).notes:
        must(read.error is None or isinstance(read.error, (SapbertError, OSError)), f"a note with the error {type(read.error).__name__}")
        read.note_id.encode("utf-8")


def _docbin() -> bytes:
    from spacy.tokens import DocBin

    docs = [blank()(text) for text in TEXTS]
    for doc in docs:
        doc.ents = [doc.char_span(0, 5, label="DISO", kb_id="C0015967")]
    made: bytes = DocBin(docs=docs).to_bytes()
    return made


def _reads_docs(folder: Path, name: str) -> None:
    from spacy_sapbert.cli.docbin import read_docs

    for doc in read_docs(folder / name):
        must(all(0 <= span.start_char < span.end_char <= len(doc.text) for span in doc.ents), "a span outside its text")


# -- reviews ------------------------------------------------------------------------------------------------------------


def review_of(path: Path, linker: Path) -> bytes:
    """Write a review of three texts, with an event, and return its content.

    Args:
        path: where it is written; nothing is written if it is there.
        linker: folder of the linker.
    """
    if not path.is_file():
        from spacy_sapbert.review.linker import add_docs
        from spacy_sapbert.review.store import ReviewStore

        component: Any = blank().create_pipe("sapbert_linker", config={"linker_name": str(linker)})
        docs = []
        for i, text in enumerate(TEXTS[:3]):
            doc = blank().make_doc(text)
            doc.ents = [doc.char_span(0, 5, label="DISO"), doc.char_span(10, 15, label="DISO")]
            docs.append((component(doc), f"n{i}"))
        path.parent.mkdir(parents=True, exist_ok=True)
        store = ReviewStore(path)
        add_docs(store, component, docs)
        store.record("anna", {"kind": "nil", "mention": 1})
        store.close()
    return path.read_bytes()


def _reads_review(folder: Path, name: str) -> None:
    from spacy_sapbert.review.report import report
    from spacy_sapbert.review.store import ReviewStore

    store = None
    try:
        store = ReviewStore(folder / name)
        for note in store.notes():
            for mention in store.mentions(note):
                must(isinstance(mention.record, dict), "a record that is none")
        store.ids(order="doubt")
        store.record("bert", {"kind": "nil", "mention": 2})
        report(store, 0.95)
    finally:
        if store is not None:
            store.close()
        for rest in folder.glob(f"{name}-*"):
            rest.unlink()


# -- Athena -------------------------------------------------------------------------------------------------------------


def _athena() -> dict[str, bytes]:
    from spacy_sapbert.exports.athena import CONCEPT, RELATIONSHIP

    concepts = [
        ("concept_id", "concept_name", "vocabulary_id", "standard_concept", "concept_code", "invalid_reason"),
        ("437663", "Fever", "SNOMED", "S", "386661006", ""),
        ("35205502", "Essential hypertension", "ICD10CM", "", "I10", ""),
        ("1", "another I10", "ICD10CM", "", "I10", "D"),
    ]
    relations = [("concept_id_1", "concept_id_2", "relationship_id", "invalid_reason"), ("35205502", "320128", "Maps to", "")]
    return {name: "".join("\t".join(row) + "\n" for row in rows).encode() for name, rows in ((CONCEPT, concepts), (RELATIONSHIP, relations))}


def _reads_athena(folder: Path, name: str) -> None:
    from spacy_sapbert.exports.athena import open_table

    cache = folder.parent / "athena-cache"
    shutil.rmtree(cache, ignore_errors=True)
    os.environ["SPACY_SAPBERT_CACHE"] = str(cache)
    table = open_table(folder)
    try:
        for ids in table.find([("SNOMEDCT_US", "386661006"), ("ICD10CM", "I10")]).values():
            must(isinstance(ids.source, int) and isinstance(ids.standard, int), "a concept id that is no number")
    finally:
        table.close()
