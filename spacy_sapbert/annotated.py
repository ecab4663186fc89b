"""Train a ranker and fit a calibration for a linker on annotated Docs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from spacy.tokens import Doc, Span
from spacy.training import Example

from .bundle import LinkerBundle
from .calibration import Observed, fit_calibration
from .doc.around import around_span
from .doc.spans import Mention, Spans, get_mention, is_part, long_forms, spans_to_link
from .errors import fail
from .kb.knowledge_base import KnowledgeBase
from .ranking.fit import Example as Ranked
from .ranking.fit import fit_ranker_weights
from .ranking.ranker import Ranker
from .search import CandidateSearch, Query
from .settings import CONTEXT, Settings


def get_mentions(doc: Doc, settings: Settings, kb: KnowledgeBase) -> tuple[Spans, list[Mention]]:
    """Return the spans of a Doc that are to be linked, and the text to look up for each.

    Args:
        doc: the Doc.
        settings: settings of the linker.
        kb: the linker's knowledge base, see `_as_named`.
    """
    spans = spans_to_link(doc, settings.spans_key, settings.labels_discard)
    forms = long_forms(doc, english=settings.english) if settings.resolve_abbreviations else {}
    mentions = [get_mention(span, forms, english=settings.english, part=is_part(group, span)) for group, _, span in spans]
    named: dict[tuple[Mention, str], Mention] = {}
    for mention, (_, _, span) in zip(mentions, spans):
        if mention.long_form not in (None, mention.text) and (mention, span.text) not in named:
            named[mention, span.text] = _as_named(mention, mention.long_form, span.text, forms, kb)
    if not named:
        return spans, mentions
    return spans, [named.get((mention, span.text), mention) for mention, (_, _, span) in zip(mentions, spans)]


def _as_named(mention: Mention, long: str, written: str, forms: dict[str, str], kb: KnowledgeBase) -> Mention:
    """Return the mention with its text as it is written, if that is a name and the text with the long form is none.

    In a text that defines COPD, "COPD exacerbation" is a name, and "chronic obstructive pulmonary disease exacerbation" is none. The short form must
    have the defined meaning in that name: it has no other meaning in the knowledge base, or the name's concept has a name with the long form.

    Args:
        mention: the text to look up, with the long form.
        long: the long form.
        written: the text of the span.
        forms: short form -> long form.
        kb: the knowledge base.
    """
    short = next((form for form, meant in forms.items() if meant == long and re.search(rf"(?<!\w){re.escape(form)}(?!\w)", written)), None)
    if short is None:
        return mention
    found = kb.find([written, mention.text, long, short])
    if mention.text in found or not {written, long, short} <= found.keys():
        return mention
    concepts = {text: {row for row, _ in kb.names_of_surface_form(found[text])} for text in (written, long, short)}
    same = concepts[short] == concepts[long] or any(long.lower() in name.text.lower() for row in concepts[written] for name in kb.names_of(row))
    return Mention(written, None) if same and concepts[short] & concepts[long] else mention


def query_of(mention: Mention, span: Span, settings: Settings, *, around: bool = False) -> Query:
    """Return what is looked up for a span.

    Args:
        mention: the text to look up.
        span: the span.
        settings: settings of the linker.
        around: take the text around the span even if the linker does not read it.
    """
    reads = around or settings.rerank == CONTEXT
    return Query(mention.text, settings.types_of(span.label_), around_span(span) if reads else "")


def read_gold(docs: Iterable[Doc | Example], settings: Settings, kb: KnowledgeBase, *, around: bool = False) -> tuple[list[Query], list[str]]:
    """Return the mentions of all spans that have a `kb_id`, and these gold ids. For an Example, its reference Doc is read.

    Args:
        docs: the Docs.
        settings: settings of the linker.
        kb: the linker's knowledge base.
        around: see `query_of`.
    """
    queries: list[Query] = []
    gold: list[str] = []
    for given in docs:
        spans, mentions = get_mentions(given.reference if isinstance(given, Example) else given, settings, kb)
        for (_, _, span), mention in zip(spans, mentions):
            if span.kb_id_:
                queries.append(query_of(mention, span, settings, around=around))
                gold.append(span.kb_id_)
    return queries, gold


def observe(search: CandidateSearch, docs: Iterable[Doc | Example]) -> list[Observed]:
    """Return how a search ranks annotated mentions, in the order of the mentions."""
    return search.observe(*read_gold(docs, search.settings, search.bundle.kb))


def ranked(search: CandidateSearch, sets: Iterable[Iterable[Doc | Example]], fit_on: str) -> LinkerBundle:
    """Return the search's linker with a ranker that is trained on annotated Docs. Its calibration is removed: it was fit on another ranking.

    Args:
        search: a search with the linker, without targets.
        sets: the Docs of each corpus; their spans have gold ids as `kb_id_`. See `fit_weights` for the weight of each corpus.
        fit_on: a description of the data, in words.

    Raises:
        SapbertError: E014, E016, E047, E051, see `SapBertLinker.train_ranker`.
    """
    bundle = search.bundle
    if not bundle.encoder.fingerprint:
        raise fail("E051")
    examples: list[list[Ranked]] = []
    every: list[str] = []
    for docs in sets:
        queries, gold = read_gold(docs, search.settings, search.bundle.kb)
        every += gold
        examples.append(search.examples(queries, gold) if queries else [])
    if not every:
        raise fail("E014", where=f"looked in {search.settings.spans_key or 'doc.ents'}")
    search.check_gold(every)
    made = Ranker(fit_ranker_weights(examples), bundle.encoder.fingerprint, fit_on)
    return replace(bundle, ranker=made, calibration=None, why_not_ranked="", why_not_calibrated=" that was fit for this ranker")


def calibrated(search: CandidateSearch, docs: Iterable[Doc | Example], fit_on: str) -> LinkerBundle:
    """Return the search's linker with a calibration that is fit on annotated Docs.

    Args:
        search: a search with the linker, without targets.
        docs: annotated Docs; their spans have gold ids as `kb_id_`.
        fit_on: a description of the data, in words.

    Raises:
        SapbertError: E012, E014, E016, see `SapBertLinker.calibrate`.
    """
    queries, gold = read_gold(docs, search.settings, search.bundle.kb)
    if not queries:
        raise fail("E014", where=f"looked in {search.settings.spans_key or 'doc.ents'}")
    search.check_gold(gold)
    observed, bundle = search.observe(queries, gold), search.bundle
    built_for = {"encoder": bundle.encoder.fingerprint, "kb": bundle.kb.fingerprint}
    if bundle.ranker is not None:
        built_for["ranker"] = bundle.ranker.fingerprint
    made = fit_calibration(observed, fit_on=fit_on, built_for=built_for, settings=search.settings.scores_depend_on())
    return replace(bundle, calibration=made, why_not_calibrated="")
