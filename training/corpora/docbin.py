"""spaCy's DocBin: documents whose entities, or the spans of a group, have a kb_id."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from ..errors import fail
from .corpus import MADE_UP, Corpus
from .ids import gold_ids
from .mention import GoldMention


def read_docbin(path: Path, *, group: str | None = None, vocabulary: str = "") -> Corpus:
    """Read a `.spacy` file.

    A document is named by its position in the file; the kind of a mention is its label. No custom attribute is needed or read. Mentions without a
    kb_id are counted and kept.

    Args:
        path: The file.
        group: The span group that holds the mentions; None: `doc.ents`.
        vocabulary: Vocabulary of ids without a prefix, as in `gold_id`.

    Raises:
        SapbertError: E564 (no link), E565 (no document has the group), E567 (not a DocBin).
    """
    path = Path(path)
    try:
        docs: list[Doc] = list(DocBin().from_disk(path).get_docs(Vocab()))
    except Exception as error:  # an error of zlib, msgpack or spaCy, depending on where the file is damaged
        raise fail("E567", path=path, layout="docbin", why=f"it is damaged, or not a DocBin ({type(error).__name__})") from error
    if group is not None and not any(group in doc.spans for doc in docs):
        known = sorted({key for doc in docs for key in doc.spans})
        raise fail("E565", path=path, group=group, known=", ".join(known) or "none")
    documents: dict[str, str] = {}
    mentions: list[GoldMention] = []
    counts: Counter[str] = Counter()
    for number, doc in enumerate(docs, 1):
        document = f"{MADE_UP}{number}"
        documents[document] = doc.text
        for span in doc.ents if group is None else doc.spans.get(group, ()):
            gold = gold_ids(span.kb_id_, vocabulary)
            counts["without_kb_id"] += not gold
            mentions.append(GoldMention(document, span.start_char, span.end_char, span.text, gold, span.label_))
    if not any(mention.gold for mention in mentions):
        raise fail("E564", path=path, mentions=len(mentions), where="doc.ents" if group is None else f"the span group '{group}'")
    return Corpus(documents, mentions, {name: count for name, count in counts.items() if count})
