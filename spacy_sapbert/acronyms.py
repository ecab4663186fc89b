"""Do not link a word in small letters to an acronym: "scar" does not mean SCAR, "pale" does not mean PALE, "arms" does not mean ARMS."""

from __future__ import annotations

from functools import partial

from .context.base import Choice
from .kb.concept import normalise, other_numbers, stem
from .kb.writing import ACRONYM_LETTERS, CAPITALS, fits, is_acronym, texts_of
from .search import Answer, CandidateSearch, Found
from .settings import Filter


def as_written(search: CandidateSearch, text: str, types: Filter, found: Found) -> Found:
    """Return the answer for a mention. Unless the mention is written as an acronym, concepts that it names only as an acronym are removed.

    If no concept is left, the concept of the singular is used ("arms": arm). If there is none either, the mention has no link.

    Args:
        search: the search that found the answer.
        text: the mention as it is written.
        types: semantic types that the mention may be linked to; None is all.
        found: the answer for the text in lower case.
    """
    if not found.answer.explain.get("exact") or not _is_word(text):
        return found
    return Found(search.remembered((text, types), partial(_answer, search, text, types, found.answer)), found.cached)


def _is_word(text: str) -> bool:
    """Return whether a text is one short word that is not written as an acronym."""
    return len(text) <= ACRONYM_LETTERS + 1 and text.isalpha() and not fits(text, CAPITALS)


def _answer(search: CandidateSearch, text: str, types: Filter, answer: Answer) -> Answer:
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
    name = kb.entity(kb.row_of(meant[0])).canonical_name if meant else ""
    return search.decided(rest, Choice([(concept, answer.probability or 0.0) for concept in meant], name, bool(meant)), types)
