"""Do not link an ordinary word to an acronym: "scar" does not mean SCAR, "pale" does not mean PALE, "arms" does not mean ARMS."""

from __future__ import annotations

from functools import partial

from .context.base import Choice
from .kb.concept import normalise, other_numbers, stem
from .kb.no_words import is_no_word
from .kb.writing import ACRONYM_LETTERS, CAPITALS, fits, is_acronym, texts_of
from .search import Answer, CandidateSearch, Found
from .settings import Filter


def as_written(search: CandidateSearch, text: str, types: Filter, found: Found, *, capitals: bool = False) -> Found:
    """Return the answer for a mention. Unless the mention is written as an acronym, concepts that it names only as an acronym are removed.

    Small letters that are no word count as an acronym: "copd", "tsat".

    If no concept is left, the concept of the singular is used ("arms": arm). If there is none either, the mention has no link.

    In a text in capitals, a word may be an acronym or not. The concepts that it names only as an acronym are removed there if another concept is left.

    Args:
        search: the search that found the answer.
        text: the mention as it is written.
        types: semantic types that the mention may be linked to; None is all.
        found: the answer for the text in lower case.
        capitals: the mention and the text around it are written in capitals.
    """
    if not found.answer.explain.get("exact") or not (is_short_word(text) and (capitals or not (fits(text, CAPITALS) or is_no_word(text.lower())))):
        return found
    return Found(search.remembered((text, types), partial(_answer, search, text, types, found.answer, capitals)), found.cached)


def is_short_word(text: str) -> bool:
    """Return whether a text is one word that is short enough for an acronym."""
    return len(text) <= ACRONYM_LETTERS + 1 and text.isalpha()


def _answer(search: CandidateSearch, text: str, types: Filter, answer: Answer, capitals: bool) -> Answer:
    kb, form = search.bundle.kb, normalise(search.normal(text))
    forms = {form, *other_numbers(form)}

    def is_meant(concept: str) -> bool:
        texts = texts_of(kb, concept, forms)
        return not texts or not all(map(is_acronym, texts))

    tied = [answer.explain["id"], *(concept for concept in answer.explain.get("ties", ()) if concept != answer.explain["id"])]
    meant = [concept for concept in tied if is_meant(concept)]
    if len(meant) == len(tied):
        return answer
    removed = set(tied) - set(meant)
    rest = answer._replace(
        candidates=[(concept, score) for concept, score in answer.candidates if concept not in removed],
        explain={**answer.explain, "ties": meant if len(meant) > 1 else []},
    )
    if meant and meant[0] == tied[0]:
        return rest
    if not meant and stem(form) != form:
        other = search.find([(stem(form), types)])[0].answer
        if other.explain.get("exact") and is_meant(other.explain["id"]):
            return other
    if not meant and capitals:
        return answer
    name = kb.canonical_name_of(kb.row_of(meant[0])) if meant else ""
    return search.decided(rest, Choice([(concept, answer.probability or 0.0) for concept in meant], name, bool(meant)), types, text)
