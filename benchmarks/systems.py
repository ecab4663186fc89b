"""The compared systems: ways to rank the concepts of a knowledge base for a mention. All give rows of the same knowledge base, best first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import spacy
from spacy.language import Language
from spacy.tokens import Doc

from spacy_sapbert import bundle
from spacy_sapbert.candidates import Rules, rank
from spacy_sapbert.indexes.stored import exact_search
from spacy_sapbert.kb.concept import normalise
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.types import Floats2d, Ints2d
from training.corpora import GOLD, Corpus, make_docs
from training.corpora.mention import GoldMention

NAMES = 30  # number of nearest names that every system looks at
DEPTH = 5
EVERYTHING = Rules(threshold=-2.0, max_entities=DEPTH)


class Ranked(NamedTuple):
    """The ranking of a system.

    Attributes:
        concepts: For each mention, rows of concepts in the knowledge base, best first.
        scores: For each mention, the score of the best concept, -inf if there is none.
    """

    concepts: list[list[int]]
    scores: list[float]


def pipeline(linker: Path, *, abbreviations: bool, **settings: Any) -> Language:
    """Make a blank pipeline with a linker that links the gold spans and keeps all candidates."""
    nlp = spacy.blank("en")
    if abbreviations:
        import scispacy.abbreviation  # noqa: F401  (registers the detector)

        nlp.add_pipe("abbreviation_detector")
    config = {"linker_name": str(linker), "spans_key": GOLD, "threshold": -1.0, "max_entities_per_mention": DEPTH, "k": NAMES}
    nlp.add_pipe("sapbert_linker", config={**config, "resolve_abbreviations": abbreviations, **settings})
    return nlp


def gold_docs(corpus: Corpus) -> tuple[list[Doc], list[GoldMention]]:
    """Return Docs with their gold spans, and the mentions in the order in which a linker reads them."""
    pairs = make_docs(corpus, spacy.blank("en"))
    return [doc for doc, _ in pairs], [mention for _, mentions in pairs for mention in mentions]


def ours(corpus: Corpus, linker: Path, *, abbreviations: bool, **settings: Any) -> Ranked:
    """Rank with the component `sapbert_linker` itself, on Docs."""
    nlp = pipeline(linker, abbreviations=abbreviations, **settings)
    kb = KnowledgeBase(linker / bundle.KB)
    docs = [doc for doc, _ in make_docs(corpus, nlp)]
    spans = [span for doc in nlp.pipe(docs) for span in doc.spans[GOLD]]
    concepts = [[kb.row_of(concept_id) for concept_id, _ in span._.kb_ents] for span in spans]
    return Ranked(concepts, [span._.kb_ents[0][1] if span._.kb_ents else -np.inf for span in spans])


def _ranked(kb: KnowledgeBase, rows: Ints2d, cosines: Floats2d) -> Ranked:
    rankings = rank(rows, cosines, kb.name_table, EVERYTHING)
    return Ranked([[c.concept for c in r.kept] for r in rankings], [r.kept[0].score if r.kept else -np.inf for r in rankings])


def exact_encoder(texts: Sequence[str], kb: KnowledgeBase, linker: Path, model: Any) -> Ranked:
    """Rank by exact search with the encoder alone: no abbreviations and no exact matches of names."""
    index = bundle.open_index(linker)
    stored = index.vectors(np.arange(len(index)))
    queries = model.predict([normalise(text) for text in texts])
    return _ranked(kb, *exact_search(stored, queries, NAMES))


def tfidf(texts: Sequence[str], kb: KnowledgeBase, analyzer: str = "char") -> Ranked:
    """Rank by the cosine of TF-IDF over character 3-grams of the same names, with exact search.

    Args:
        texts: The mentions.
        kb: The knowledge base whose names are searched.
        analyzer: Of scikit-learn's TfidfVectorizer: "char", or "char_wb" for 3-grams within words.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(analyzer=analyzer, ngram_range=(3, 3), dtype=np.float32)
    names = vectorizer.fit_transform(list(kb.surface_forms())).T.tocsc()
    queries = vectorizer.transform([normalise(text) for text in texts])
    rows = np.full((len(texts), NAMES), -1, dtype=np.int64)
    cosines = np.full((len(texts), NAMES), -np.inf, dtype=np.float32)
    for start in range(0, len(texts), 256):
        part = (queries[start : start + 256] @ names).toarray()
        for i, line in enumerate(part, start):
            top = np.lexsort((np.arange(len(line)), -line))[:NAMES]
            rows[i], cosines[i] = top, line[top]
    rows[cosines <= 0] = -1
    return _ranked(kb, rows, cosines)


def exact_match(texts: Sequence[str], kb: KnowledgeBase) -> Ranked:
    """Rank by exact match of normalised names; the score is 1.0."""
    found = kb.find(texts)
    rows = np.array([[found.get(text, -1)] for text in texts], dtype=np.int64)
    return _ranked(kb, rows, np.ones(rows.shape, dtype=np.float32))


def scispacy_candidates(texts: Sequence[str], kb: KnowledgeBase, generator: Callable[[list[str], int], Iterable[Any]]) -> Ranked:
    """Rank with scispaCy's CandidateGenerator. It gives concepts in the order of their ids, so sort them by the similarity of their best name."""
    concepts: list[list[int]] = []
    scores: list[float] = []
    unique = list(dict.fromkeys(texts))
    found: dict[str, Any] = dict(zip(unique, generator(unique, NAMES)))
    for text in texts:
        best = sorted(found[text], key=lambda c: -max(c.similarities))[:DEPTH]
        concepts.append([kb.row_of(c.concept_id) for c in best])
        scores.append(max(best[0].similarities) if best else -np.inf)
    return Ranked(concepts, scores)
