"""Corpora -> documents and gold mentions; notes. Each reader takes lines, so that a test can give it a few."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

import spacy
from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

from spacy_sapbert.readers.medic import identifier
from spacy_sapbert.spans import detected, get_mention, long_forms

from .errors import fail
from .metrics import Mention

GOLD = "gold"  # the span group: gold mentions may overlap, which doc.ents may not


class Corpus(NamedTuple):
    """documents: id -> text. mentions: in the order of the file."""

    documents: Dict[str, str]
    mentions: List[Mention]


def open_lines(path: Path) -> Iterator[str]:
    """Lines of a plain or gzipped UTF-8 file, without their ends."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    yield from text.replace("\r\n", "\n").removesuffix("\n").split("\n")  # splitlines would also cut at form feeds and the like


def read_gsc(lines: Iterable[str]) -> Corpus:
    """GSC+: a PubMed id, a line of text, then `start TAB end TAB mention TAB HP:…` lines; blocks end with an empty line."""
    documents: Dict[str, str] = {}
    mentions: List[Mention] = []
    block: List[str] = []
    for line in [*lines, ""]:
        if line:
            block.append(line)
            continue
        if len(block) >= 2:
            document, text = block[0].strip(), block[1]
            documents[document] = text
            for annotation in block[2:]:
                start, end, mention, concept_id = annotation.split("\t")
                mentions.append(Mention(document, int(start), int(end), mention, ((concept_id.strip(),),)))
        block = []
    return Corpus(documents, mentions)


def read_pubtator(lines: Iterable[str], kinds: Optional[Collection[str]] = None) -> Corpus:
    """PubTator: `id|t|title`, `id|a|abstract`, then `id TAB start TAB end TAB mention TAB kind TAB ids`.

    Offsets count the title, one character, and the abstract. In ids, `|` parts alternatives and `+` the parts of a composite;
    bare MeSH ids (D…, C…) and OMIM numbers get their prefix. BC5CDR names a composite's parts in a seventh field: there `|` parts
    its ids. kinds: mentions of other kinds are left out, None for all.
    """
    titles: Dict[str, str] = {}
    abstracts: Dict[str, str] = {}
    mentions: List[Mention] = []
    for line in lines:
        if head := re.match(r"(\d+)\|([ta])\|(.*)", line):
            (titles if head[2] == "t" else abstracts)[head[1]] = head[3]
        elif line.count("\t") in (5, 6):
            document, start, end, text, kind, ids, *parts = line.split("\t")
            if kinds is None or kind in kinds:
                mentions.append(Mention(document, int(start), int(end), text, gold_ids(ids.replace("|", "+") if parts else ids)))
    return Corpus({i: f"{title} {abstracts.get(i, '')}" for i, title in titles.items()}, mentions)


def gold_ids(text: str) -> Tuple[Tuple[str, ...], ...]:
    """`D001943|D010051+OMIM:1` -> ((MESH:D001943,), (MESH:D010051, OMIM:1))."""
    alternatives = []
    for alternative in text.strip().split("|"):
        ids = [identifier(part) or part.strip() for part in alternative.split("+")]
        alternatives.append(tuple(dict.fromkeys(i for i in ids if i)))
    return tuple(a for a in alternatives if a)


def read_notes(path: Path, count: int) -> List[str]:
    """The first `count` distinct transcriptions of MTSamples."""
    notes: Dict[str, None] = {}
    for line in open_lines(path):
        text = (json.loads(line).get("transcription") or "").strip()
        if text:
            notes.setdefault(text)
        if len(notes) == count:
            break
    return list(notes)


def read_biomap(lines: Iterable[str]) -> Corpus:
    """biomap's CSV `pmid,mention,cui,mondo_id`: mentions without their texts, so without documents and offsets (0, 0)."""
    return Corpus({}, [Mention(row["pmid"], 0, 0, row["mention"], ((row["mondo_id"],),)) for row in csv.DictReader(lines)])


# -- Docs ---------------------------------------------------------------------------------------------------------------


def by_document(corpus: Corpus) -> Dict[str, List[Mention]]:
    """Every document's mentions, in the order of documents: the order in which a pipeline comes to them."""
    found: Dict[str, List[Mention]] = {document: [] for document in corpus.documents}
    for mention in corpus.mentions:
        found[mention.document].append(mention)
    return found


def fitting(corpus: Corpus) -> Tuple[Corpus, List[Mention]]:
    """The corpus with only those mentions that stand at their offsets, and the others."""
    fits = [corpus.documents[m.document][m.start : m.end] == m.text for m in corpus.mentions]
    kept = [mention for mention, ok in zip(corpus.mentions, fits) if ok]
    return corpus._replace(mentions=kept), [mention for mention, ok in zip(corpus.mentions, fits) if not ok]


def make_docs(corpus: Corpus, nlp: object) -> List[Tuple[Doc, List[Mention]]]:
    """A Doc for each text, with its mentions as the span group `gold`: exactly the gold offsets, tokens are cut where they must be.

    RAISES: SapbertError E543 where a mention's text does not stand at its offsets.
    """
    docs = []
    for document, mentions in by_document(corpus).items():
        text = corpus.documents[document]
        doc = aligned(nlp.make_doc(text), nlp.vocab, [cut for m in mentions for cut in (m.start, m.end)])  # type: ignore[attr-defined]
        spans: List[Span] = []
        for mention in mentions:
            span = doc.char_span(mention.start, mention.end)
            if span is None or span.text != mention.text:
                raise fail(
                    "E543", document=document, text=mention.text, start=mention.start, end=mention.end, found=text[mention.start : mention.end]
                )
            spans.append(span)
        doc.spans[GOLD] = spans
        docs.append((doc, mentions))
    return docs


def resolved_texts(corpus: Corpus) -> Tuple[List[str], List[str]]:
    """The text of each mention, in the order of `by_document`, with abbreviations resolved over the whole document: as our linker does it
    (whole mentions and words in them), and as scispaCy's does it (whole mentions only).

    RAISES: SapbertError E546 without scispaCy, whose detector (Schwartz and Hearst 2003) finds the long forms; E543.
    """
    try:
        import scispacy.abbreviation  # noqa: F401
    except ImportError as error:
        raise fail("E546", what="Resolving abbreviations", package="scispacy") from error

    nlp = spacy.blank("en")
    nlp.add_pipe("abbreviation_detector")
    words, whole = [], []
    for doc, _ in make_docs(corpus, nlp):
        forms, theirs = long_forms(nlp(doc)), detected(doc)
        for span in doc.spans[GOLD]:
            words.append(get_mention(span, forms).text)
            whole.append(theirs.get(span.text, span.text))
    return words, whole


def aligned(doc: Doc, vocab: Vocab, cuts: Iterable[int]) -> Doc:
    """The same text with tokens also cut at these characters."""
    inside = sorted(set(cuts))
    words: List[str] = []
    spaces: List[bool] = []
    for token in doc:
        start, end = token.idx, token.idx + len(token)
        edges = [start, *(cut for cut in inside if start < cut < end), end]
        words.extend(doc.text[a:b] for a, b in zip(edges, edges[1:]))
        spaces.extend([False] * (len(edges) - 2) + [bool(token.whitespace_)])
    return Doc(vocab, words=words, spaces=spaces)
