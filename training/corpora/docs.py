"""Corpus -> Docs with gold spans, offsets that fit, and abbreviations over a text."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

import spacy
from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

from spacy_sapbert.doc.spans import detected, get_mention, long_forms

from ..errors import fail
from .corpus import Corpus, placed
from .mention import GoldMention

GOLD = "gold"  # the span group: gold mentions may overlap, which doc.ents may not


def by_document(corpus: Corpus) -> dict[str, list[GoldMention]]:
    """Every document's mentions, in the order of documents: the order in which a pipeline comes to them. Documents without a text come last."""
    found: dict[str, list[GoldMention]] = {document: [] for document in corpus.documents}
    for mention in corpus.mentions:
        found.setdefault(mention.document, []).append(mention)
    return found


def fitting(corpus: Corpus) -> tuple[Corpus, list[GoldMention]]:
    """The corpus with only those mentions that stand at their offsets or have none, and the others."""
    # the length too: a slice is silent where it ends beyond the text
    fits = [
        not placed(corpus, m) or (m.end - m.start == len(m.text) and corpus.documents[m.document][m.start : m.end] == m.text) for m in corpus.mentions
    ]
    kept = [mention for mention, ok in zip(corpus.mentions, fits) if ok]
    return corpus._replace(mentions=kept), [mention for mention, ok in zip(corpus.mentions, fits) if not ok]


def make_docs(corpus: Corpus, nlp: object) -> list[tuple[Doc, list[GoldMention]]]:
    """A Doc for each text, with its mentions as the span group `gold`: exactly the gold offsets, tokens are cut where they must be.

    A mention whose document has no text is a Doc of its own, after those of the texts. The list beside a Doc has the mention of each
    span, in their order; ids of a whole document have no span, and are in `by_document` alone.
    RAISES: SapbertError E543 where a mention's text does not stand at its offsets.
    """
    docs: list[tuple[Doc, list[GoldMention]]] = []
    for document, mentions in by_document(corpus).items():
        if document not in corpus.documents:
            docs.extend((_doc(document, mention.text, [mention], [(0, len(mention.text))], nlp), [mention]) for mention in mentions)
            continue
        within = [mention for mention in mentions if placed(corpus, mention)]
        docs.append((_doc(document, corpus.documents[document], within, [(m.start, m.end) for m in within], nlp), within))
    return docs


def _doc(document: str, text: str, mentions: list[GoldMention], places: list[tuple[int, int]], nlp: object) -> Doc:
    doc = aligned(nlp.make_doc(text), nlp.vocab, [cut for place in places for cut in place])  # type: ignore[attr-defined]
    spans: list[Span] = []
    for mention, (start, end) in zip(mentions, places):
        span = doc.char_span(start, end)
        if span is None or span.text != mention.text:
            raise fail("E543", document=document, text=mention.text, start=start, end=end, found=text[start:end])
        spans.append(span)
    doc.spans[GOLD] = spans
    return doc


def resolved_texts(corpus: Corpus) -> tuple[list[str], list[str]]:
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
    text = doc.text  # spaCy joins it anew each time
    words: list[str] = []
    spaces: list[bool] = []
    for token in doc:
        start, end = token.idx, token.idx + len(token)
        edges = [start, *inside[bisect_right(inside, start) : bisect_left(inside, end)], end]
        words.extend(text[a:b] for a, b in zip(edges, edges[1:]))
        spaces.extend([False] * (len(edges) - 2) + [bool(token.whitespace_)])
    return Doc(vocab, words=words, spaces=spaces)
