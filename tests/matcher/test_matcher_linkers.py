"""The matcher follows the linkers of its pipeline: how many words it remembers."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
import spacy

from spacy_sapbert.kb.additions import Additions
from spacy_sapbert.matcher.component import ConceptMatcher
from spacy_sapbert.matcher.linkers import Linkers
from spacy_sapbert.matcher.word_forms import REMEMBERED

WORD = "zyxwvuti"  # a word of a note, which may be misspelt, or a plural from Latin
NOTE = f"He has fever and {WORD}, {WORD.capitalize()} and some {WORD}."


def texts_in(*roots: object) -> set[str]:
    """Return all texts that objects hold, and those that these hold, but not what classes, functions and modules refer to."""
    seen: set[int] = set()
    found: set[str] = set()
    left = list(roots)
    while left:
        one = left.pop()
        if isinstance(one, str):
            found.add(one)
        elif id(one) not in seen and not isinstance(one, (type, FunctionType, ModuleType)):
            seen.add(id(one))
            left.extend(gc.get_referents(one))
    return found


def words_kept(matcher: Any) -> set[str]:
    """Return the texts that a matcher and the caches of the functions of its room hold, in lower case."""
    room = [module for name, module in sys.modules.items() if name.startswith("spacy_sapbert.matcher.")]
    caches = [value for module in room for value in vars(module).values() if hasattr(value, "cache_info")]
    return {text.lower() for text in texts_in(matcher._lookup, matcher._linkers, *caches)}


def pipeline(linker: Path, **settings: Any) -> Any:
    nlp = spacy.blank("en")
    nlp.add_pipe("concept_matcher")
    nlp.add_pipe("sapbert_linker", config={"linker_name": str(linker), **settings})
    return nlp


def test_a_matcher_beside_a_linker_without_a_cache_keeps_no_word_of_a_note(tiny_linker: Path) -> None:
    for settings, kept in (({}, True), ({"cache_size": 0}, False)):
        nlp = pipeline(tiny_linker, **settings)
        assert "fever" in [ent.text for ent in nlp(NOTE).ents]
        assert (WORD in words_kept(nlp.get_pipe("concept_matcher"))) is kept


def test_a_cache_size_that_is_changed_holds_for_the_next_doc(tiny_linker: Path) -> None:
    nlp = pipeline(tiny_linker)
    before = [(ent.text, ent.kb_id_) for ent in nlp(NOTE).ents]
    nlp.get_pipe("sapbert_linker").cache_size = 0
    assert [(ent.text, ent.kb_id_) for ent in nlp(NOTE).ents] == before
    assert WORD not in words_kept(nlp.get_pipe("concept_matcher"))
    nlp.get_pipe("sapbert_linker").cache_size = 3
    assert [(ent.text, ent.kb_id_) for ent in nlp(NOTE).ents] == before
    forms = nlp.get_pipe("concept_matcher")._lookup.forms
    assert 0 < max(map(len, (forms._hashes, forms._correct, forms._others))) <= 3


class Linker:
    """A linker without additions.

    Args:
        cache_size: Its setting.
    """

    def __init__(self, cache_size: int) -> None:
        self.cache_size = cache_size
        self.kb, self.additions = None, Additions()

    def load(self) -> None:
        """Read nothing."""


@pytest.mark.parametrize(("sizes", "expected"), [([], REMEMBERED), ([100_000], 50_000), ([7, 3, 100_000], 3), ([7, 0], 0)])
def test_the_least_cache_size_of_the_linkers_counts(sizes: list[int], expected: int) -> None:
    linkers, matcher = Linkers(), ConceptMatcher(spacy.blank("en"))
    linkers.follow([("other", object()), *((str(size), Linker(size)) for size in sizes)], matcher._collector)
    assert linkers.cache_size == expected
