"""Read the parts of corpora that a model is fitted on and measured on, such as "gsc-dev", and their gold."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from spacy.tokens import Doc, Span

from spacy_sapbert.annotated import read_gold
from spacy_sapbert.search import CandidateSearch, Query

from ..corpora import GOLD, Corpus, fitting, make_docs, shared_documents
from ..corpora.ids import NIL
from ..errors import fail
from .benchmarks import BenchmarkReader
from .catalogue import CORPORA
from .gold_notes import GOLD as GOLD_NOTES
from .gold_notes import read_gold_notes

NOTES = ("notes", "notes-odd", "notes-even")  # the gold notes of examples/gold: all, or every second one


def check_part(name: str) -> None:
    """Check that the name of a part of a corpus is known.

    Raises:
        SapbertError: E540.
    """
    corpus, part = _corpus_and_part(name)
    if name not in NOTES and (corpus not in CORPORA or part not in CORPORA[corpus].files):
        known = ", ".join("-".join(filter(None, [one, part])) for one, source in CORPORA.items() for part in source.files)
        raise fail("E540", name=name, known=f"{known}, {', '.join(NOTES)}", groups="none here")


def _corpus_and_part(name: str) -> tuple[str, str]:
    """Split the name of a part: "bc5cdr-chemicals-dev" is the part "dev" of "bc5cdr-chemicals", and "labeledin" the part "" of itself."""
    if name in CORPORA:
        return name, ""
    corpus, _, part = name.rpartition("-")
    return corpus, part


def check_fit_and_test(fit: Sequence[str], test: Sequence[str], needed: str, why: str) -> None:
    """Check the names of parts of corpora before they are read.

    Args:
        fit: Parts to fit on.
        test: Parts to measure on.
        needed: The setting that must name a part, "--fit" or "--test".
        why: Why it must, for the message.

    Raises:
        SapbertError: E519 (a part is in both), E540 (not known), E548 (the setting names none).
    """
    for part in set(fit) & set(test):
        raise fail("E519", part=part)
    halves = {*fit, *test} & set(NOTES[1:])
    if NOTES[0] in (*fit, *test) and halves:
        raise fail("E519", part=min(halves))
    if not (fit if needed == "--fit" else test):
        raise fail("E548", setting=needed, value="", why=why)
    for name in (*fit, *test):
        check_part(name)


def read_part(reader: BenchmarkReader, name: str) -> Corpus:
    """Read a part of a corpus, such as "gsc-dev", or the gold notes: "notes", "notes-odd" (the first, third … note) or "notes-even".

    Raises:
        SapbertError: E401 (the gold notes are not there), E540 (not known), E542 (a file is missing).
    """
    check_part(name)
    if name not in NOTES:
        return reader.corpus(*_corpus_and_part(name))
    corpus, _ = read_gold_notes(GOLD_NOTES)
    corpus = corpus._replace(mentions=[mention if mention.gold else mention._replace(gold=((NIL,),)) for mention in corpus.mentions])
    other = {"notes-odd": 1, "notes-even": 0}
    return without(corpus, list(corpus.documents)[other[name] :: 2]) if name in other else corpus


def read_apart(reader: BenchmarkReader, names: Sequence[str]) -> dict[str, Corpus]:
    """Read parts of corpora so that no two have a document in common: a document that is in two parts is left out of the later one.

    Raises:
        SapbertError: See `read_part`.
    """
    corpora = {name: read_part(reader, name) for name in names}
    for pair in shared_documents(corpora):
        later = max(pair.left, pair.right, key=list(corpora).index)
        corpora[later] = without(corpora[later], pair.documents_of(later))
    return corpora


def without(corpus: Corpus, documents: Collection[str]) -> Corpus:
    """Return the corpus without some documents."""
    kept = {document: text for document, text in corpus.documents.items() if document not in documents}
    return corpus._replace(documents=kept, mentions=[mention for mention in corpus.mentions if mention.document not in documents])


def gold_docs(corpus: Corpus, nlp: Any) -> list[Doc]:
    """Make Docs with the gold ids as kb_ids: `|` between alternatives, `+` in composites. Mentions off their offsets are left out.

    Args:
        corpus: The corpus.
        nlp: A pipeline with the tokenizer.

    Returns:
        Docs with the span group `gold`.
    """
    docs = []
    for doc, mentions in make_docs(fitting(corpus)[0], nlp):
        spans = []
        for span, mention in zip(doc.spans[GOLD], mentions):
            ids = "|".join("+".join(alternative) for alternative in mention.gold)
            spans.append(Span(doc, span.start, span.end, label=span.label, kb_id=ids))
        doc.spans[GOLD] = spans
        docs.append(doc)
    return docs


def known_gold(corpus: Corpus, nlp: Any, search: CandidateSearch, *, around: bool = False) -> tuple[list[Query], list[str]]:
    """Return the mentions of a corpus whose gold concept is in the knowledge base of a search, and their gold ids.

    Args:
        corpus: The corpus.
        nlp: A pipeline with the tokenizer.
        search: The search that will look them up.
        around: Whether the mentions come with the text around them, if they stand in a text, even if the search does not read it.
    """
    queries, gold = read_gold(gold_docs(corpus, nlp), search.settings, search.bundle.kb, around=around)
    known = [at for at, kb_id in enumerate(gold) if search.rows_of_gold(kb_id)]
    return [queries[at] for at in known], [gold[at] for at in known]
