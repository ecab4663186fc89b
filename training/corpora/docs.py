"""Make Docs with gold spans from a corpus, check offsets, and resolve abbreviations over a text."""

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

GOLD = "gold"  # the span group of gold mentions; they may overlap, so doc.ents cannot hold them


def by_document(corpus: Corpus) -> dict[str, list[GoldMention]]:
    """Group mentions by document. Documents are in the order in which a pipeline gets them; those without a text come last."""
    found: dict[str, list[GoldMention]] = {document: [] for document in corpus.documents}
    for mention in corpus.mentions:
        found.setdefault(mention.document, []).append(mention)
    return found


def fitting(corpus: Corpus) -> tuple[Corpus, list[GoldMention]]:
    """Separate the mentions whose text is not at their offsets.

    Returns:
        The corpus without them, and these mentions. Mentions without offsets stay in the corpus.
    """
    # compare the length too: a slice that ends beyond the text raises no error
    fits = [
        not placed(corpus, m) or (m.end - m.start == len(m.text) and corpus.documents[m.document][m.start : m.end] == m.text) for m in corpus.mentions
    ]
    kept = [mention for mention, ok in zip(corpus.mentions, fits) if ok]
    return corpus._replace(mentions=kept), [mention for mention, ok in zip(corpus.mentions, fits) if not ok]


def make_docs(corpus: Corpus, nlp: object) -> list[tuple[Doc, list[GoldMention]]]:
    """Make a Doc for each text, with its mentions as the span group `gold`. Tokens are split at gold offsets where needed.

    Each mention whose document has no text becomes its own Doc, after those of the texts. Ids of a whole document have no span; only
    `by_document` has them.

    Args:
        corpus: The corpus.
        nlp: A pipeline with the tokenizer.

    Returns:
        Docs, each with the mentions of its spans in the same order.

    Raises:
        SapbertError: E543, if the text of a mention is not at its offsets.
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
            raise fail("E543", document=document, start=start, end=end, length=len(mention.text))
        spans.append(span)
    doc.spans[GOLD] = spans
    return doc


def resolved_texts(corpus: Corpus) -> tuple[list[str], list[str]]:
    """Resolve the abbreviations of a corpus, over the whole of each document.

    Args:
        corpus: The corpus.

    Returns:
        The resolved text of each mention, in the order of `by_document`: first as our linker resolves it (whole mentions and words in them), then as
        scispaCy's linker does (only whole mentions).

    Raises:
        SapbertError: E546, without scispaCy, whose detector (Schwartz and Hearst 2003) finds the long forms; E543.
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
    """Return a Doc of the same text whose tokens are also split at these character offsets."""
    inside = sorted(set(cuts))
    text = doc.text  # spaCy joins the tokens at each access
    words: list[str] = []
    spaces: list[bool] = []
    for token in doc:
        start, end = token.idx, token.idx + len(token)
        edges = [start, *inside[bisect_right(inside, start) : bisect_left(inside, end)], end]
        words.extend(text[a:b] for a, b in zip(edges, edges[1:]))
        spaces.extend([False] * (len(edges) - 2) + [bool(token.whitespace_)])
    return Doc(vocab, words=words, spaces=spaces)
