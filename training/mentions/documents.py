"""Make spaCy documents to train on from corpora. Mentions become entities; tokens for which a corpus has no annotation are missing values."""

from __future__ import annotations

import tarfile
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.util import filter_spans

from spacy_sapbert.errors import MissingFile

from ..corpora import Corpus, by_document, read_corpus
from ..corpora.brat import read_brat
from ..errors import fail
from .kinds import ALL, CORPORA, Annotated

MEASURED = "maccrobat"  # the corpus that is split into parts and measured on
ADDRESS = "https://github.com/Saieiei/NLP, folder MACCROBAT2020, commit f2b522984cc621d5c7e00fbce02ddeee2a5b8077 (CC BY 4.0)"
FILES = {  # below the folder of assets; MACCROBAT has many files and is not an asset
    "bc5cdr": "corpora/bc5cdr/train.pubtator.txt.gz",
    "ncbi_disease": "corpora/ncbi_disease/train.pubtator.txt.gz",
    "gsc_plus": "corpora/gsc_plus/GSCplus_dev_gold.tsv",
    "labeledin": "corpora/labeledin/LabeledIn_annotated_XML.txt.gz",
}


def split_of(document: str) -> str:
    """Return the part of a document, chosen by the hash of its name: three of 20 are "test", two "dev", the others "train"."""
    place = zlib.crc32(document.encode()) % 20
    return "test" if place < 3 else "dev" if place < 5 else "train"


def read_maccrobat(path: Path) -> Corpus:
    """Read MACCROBAT.

    Args:
        path: A folder of brat files, a tar.gz of them, or a folder with the tar.gz.

    Raises:
        SapbertError: E567 (it is missing or damaged), and those of `read_brat`.
    """
    archives = [path] if path.is_file() else sorted(path.glob("*.tar.gz"))
    if not path.exists() or not (archives or any(path.rglob("*.ann"))):
        raise fail(
            "E567", MissingFile, path=path, layout="brat", why=f"it holds no .ann files and no tar.gz of them. Get MACCROBAT2020 from {ADDRESS}"
        )
    if not archives:
        return read_brat(path)
    with tempfile.TemporaryDirectory() as folder:
        try:
            with tarfile.open(archives[0]) as archive:
                archive.extractall(folder, filter="data")
        except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
            raise fail("E567", path=archives[0], layout="brat", why=f"it is not a readable tar.gz ({type(error).__name__})") from error
        return read_brat(Path(folder))


def read(name: str, data: Path, maccrobat: Path) -> Corpus:
    """Read a corpus of `CORPORA`.

    Args:
        name: Its name.
        data: Folder of the assets.
        maccrobat: See `read_maccrobat`.

    Raises:
        SapbertError: E620 (no such corpus), and those of `read_corpus` and `read_maccrobat`.
    """
    if name not in CORPORA:
        raise fail("E620", setting="corpora", value=name, why=f"it must be one of {', '.join(CORPORA)}")
    return read_maccrobat(maccrobat) if name == MEASURED else read_corpus(data / FILES[name])


def make_documents(corpus: Corpus, annotated: Annotated, nlp: Language) -> tuple[dict[str, Doc], dict[str, int]]:
    """Make Docs with the mentions of the five kinds as `ents`.

    Of overlapping mentions, the longest is kept. A mention in pieces goes from its first character to its last. A mention that begins or ends
    within a token is extended to the whole token. A token outside mentions is "O" if the corpus annotates all five kinds, else a missing value.

    Args:
        corpus: The corpus.
        annotated: How it is annotated.
        nlp: A pipeline with the tokenizer.

    Returns:
        Document -> Doc, and counts of what was changed or left out.

    Raises:
        SapbertError: E621 (a type that `annotated` does not have).
    """
    counts: Counter[str] = Counter()
    found: dict[str, Doc] = {}
    for document, mentions in by_document(corpus).items():
        if document not in corpus.documents:
            counts["without_text"] += len(mentions)
            continue
        doc = nlp.make_doc(corpus.documents[document])
        spans = []
        for mention in mentions:
            kind = "problem" if annotated.kinds is None else annotated.kinds.get(mention.kind)
            if kind is None:
                raise fail("E621", path=document, found=mention.kind, known=", ".join(annotated.kinds or ()))
            if not kind or mention.start >= mention.end:
                counts["of_no_kind"] += 1
                continue
            span = doc.char_span(mention.start, mention.end, label=kind, alignment_mode="expand")
            if span is None or corpus.documents[document][mention.start : mention.end] != mention.text:
                counts["misplaced"] += 1
                continue
            counts["grown"] += (span.start_char, span.end_char) != (mention.start, mention.end)
            spans.append(span)
        kept = filter_spans(spans)
        counts["overlapping"] += len(spans) - len(kept)
        counts["mentions"] += len(kept)
        doc.set_ents(kept, default="outside" if annotated.complete == ALL else "missing")
        found[document] = doc
    return found, {name: count for name, count in counts.items() if count}


def write_documents(data: Path, maccrobat: Path, out: Path, names: Iterable[str] = CORPORA) -> dict[str, Mapping[str, int]]:
    """Write `train/CORPUS.spacy` for each corpus, and `dev/maccrobat.spacy` and `test/maccrobat.spacy`.

    Args:
        data: Folder of the assets.
        maccrobat: See `read_maccrobat`.
        out: Folder to write.
        names: Corpora of `CORPORA`.

    Returns:
        The counts of each part.

    Raises:
        SapbertError: Those of `read` and `make_documents`.
    """
    nlp = spacy.blank("en")
    counts: dict[str, Mapping[str, int]] = {}
    for name in names:
        docs, changed = make_documents(read(name, data, maccrobat), CORPORA[name], nlp)
        counts[name] = {"documents": len(docs), "tokens": sum(map(len, docs.values())), **changed}
        parts: dict[str, list[Doc]] = {}
        for document, doc in docs.items():
            parts.setdefault(split_of(Path(document).name) if name == MEASURED else "train", []).append(doc)
        for part, some in parts.items():
            (out / part).mkdir(parents=True, exist_ok=True)
            DocBin(attrs=["ENT_IOB", "ENT_TYPE", "SPACY"], docs=some).to_disk(out / part / f"{name}.spacy")
            if name == MEASURED:
                counts[f"{name}/{part}"] = {"documents": len(some), "mentions": sum(len(doc.ents) for doc in some)}
    return counts
