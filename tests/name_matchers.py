"""Matchers with names that a test gives, for several test modules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import spacy
from spacy.language import Language

from spacy_sapbert.kb.knowledge_base import MatchableName
from spacy_sapbert.matcher.component import ConceptMatcher


class Names:
    """The part of a knowledge base that the matcher uses."""

    def __init__(self, names: Iterable[tuple[str, str | None]]) -> None:
        self.names = [MatchableName(name, tui) for name, tui in names]
        self.n_surface_forms = len(self.names)

    def matchable_names(self, *, weak_names: bool = True, tuis: Any = None) -> Iterable[MatchableName]:
        return iter(self.names)

    def find(self, names: Iterable[str]) -> dict[str, int]:
        known = [name.name for name in self.names]
        return {name: known.index(name) for name in names if name in known}

    def rows_of(self, concept_id: str) -> list[int]:
        return [0] if concept_id == "C1" else []

    def types_of(self, row: int) -> list[str]:
        return ["T061"]


def matcher(*names: str, nlp: Language | None = None, tui: str | None = "T047", **settings: Any) -> ConceptMatcher:
    made = ConceptMatcher(nlp or spacy.blank("en"), **settings)
    made.set_kb(Names((name, tui) for name in names))  # type: ignore[arg-type]
    return made


def written(*names: tuple[str, str, str], **settings: Any) -> ConceptMatcher:
    """Return a matcher for names given as (text of the source, semantic type, a second text or "")."""
    made = ConceptMatcher(spacy.blank("en"), **settings)
    kb = Names(())
    kb.names = [MatchableName(text.lower(), tui, (tui,), tuple(filter(None, (text, other)))) for text, tui, other in names]
    kb.n_surface_forms = len(kb.names)
    made.set_kb(kb)  # type: ignore[arg-type]
    return made


def found(component: ConceptMatcher, text: str) -> list[str]:
    return [ent.text for ent in component(component.nlp.make_doc(text)).ents]


NOTE = "Pneumonia with FEVERS; Parkinson disease. Takes aspirin, had knee replacements. Heart attacks run in the family. A cold."


EXPECTED = [
    ("Pneumonia", "DISO"),
    ("FEVERS", "DISO"),
    ("Parkinson disease", "DISO"),
    ("aspirin", "CHEM"),
    ("knee replacements", "PROC"),
    ("Heart attacks", "DISO"),
    ("cold", "DISO"),
]


def seen(nlp: Language, text: str = NOTE) -> list[tuple[str, str]]:
    return [(e.text, e.label_) for e in nlp(text).ents]
