"""Follow the linkers of a pipeline: the names that a user added to them or removed, and how many words they allow to remember."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Protocol, runtime_checkable

from ..kb.additions import Additions
from ..kb.concept import normalise
from ..kb.knowledge_base import KnowledgeBase, MatchableName
from ..kb.removals import forms_of_name
from .collecting import NameCollector
from .phrases import MAX_WORDS, Collected, Hashes1d, Phrases, union, word_hash
from .word_forms import REMEMBERED
from .words import WORD, form_of

NOTHING = Collected().phrases().hashes  # no hashes of removed names


@runtime_checkable
class HasKnowledgeBase(Protocol):
    """A component of the pipeline, such as `sapbert_linker`, whose knowledge base and additions are looked for in text."""

    @property
    def kb(self) -> KnowledgeBase:
        """The knowledge base."""
        ...

    @property
    def additions(self) -> Additions:
        """Names and concepts that a user added, and names that a user removed. Each change creates a new object."""
        ...

    def load(self) -> None:
        """Read the files, if they have not been read yet."""
        ...


def first_kb(pipeline: Iterable[tuple[str, object]]) -> KnowledgeBase | None:
    """Return the knowledge base of the first linker of a pipeline; None if it has no linker.

    Args:
        pipeline: (name, component) pairs.
    """
    return next((component.kb for _, component in pipeline if isinstance(component, HasKnowledgeBase)), None)


class Linkers:
    """What the linkers of a pipeline say about names and words.

    Attributes:
        more: the phrases of all added names; None before a linker was seen.
        stopped: (s,) hashes of phrases that are not looked for any more, ascending.
        cache_size: number of words that may be remembered: the least `cache_size` of the linkers, and at most `REMEMBERED`.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Additions, Phrases, Phrases]] = {}  # name of a linker -> its additions, their phrases, the removed phrases
        self.more: Phrases | None = None
        self.stopped: Hashes1d = NOTHING
        self.cache_size = REMEMBERED

    def follow(self, pipeline: Iterable[tuple[str, object]], collector: Callable[[], NameCollector]) -> None:
        """Load the linkers, and read the additions of those that changed.

        Args:
            pipeline: (name, component) pairs.
            collector: returns what makes phrases of the added names. It is called only if something changed.
        """
        changed, cache_size = False, REMEMBERED
        for name, component in pipeline:
            if isinstance(component, HasKnowledgeBase):
                component.load()  # the linker's folder may hold additions
                cache_size = min(cache_size, getattr(component, "cache_size", REMEMBERED))
                if name not in self._seen or self._seen[name][0] is not component.additions:  # each change creates a new object
                    kb, additions, collects = component.kb, component.additions, collector()
                    removed = removed_phrases(kb, additions, collects.language)
                    self._seen[name] = additions, collects.collect(added_names(kb, additions, collects.types)), removed
                    changed = True
        self.cache_size = cache_size
        if changed:
            self.more = union(phrases for _, phrases, _ in self._seen.values())
            self.stopped = union(removed for _, _, removed in self._seen.values()).hashes

    def stopped_without(self, names: Collection[str]) -> Hashes1d:
        """Return the hashes of phrases that only linkers with other names than these have stopped."""
        gone = [removed for name, (_, _, removed) in self._seen.items() if name not in names]
        return union(gone).hashes if gone else NOTHING


def added_names(kb: KnowledgeBase, additions: Additions, types: frozenset[str] | None) -> Iterator[MatchableName]:
    """Yield the names that a user added.

    Args:
        kb: the linker's knowledge base.
        additions: what was added to it.
        types: semantic types whose names are looked for; None for all.
    """
    for concept_id, text, language in additions.names:
        tuis = kb.concept(kb.row_of(concept_id)).types
        if types is None or not types.isdisjoint(tuis):
            yield MatchableName(normalise(text, language), tuis[0] if tuis else None)


def removed_phrases(kb: KnowledgeBase, additions: Additions, language: str) -> Phrases:
    """Return the phrases of removed names that no concept has any more, and of the stop list. The label is not used.

    Spellings of the same words are one phrase ("beta-blocker", "beta blocker"). It stays while a concept has a name with one of them.

    Args:
        kb: the linker's knowledge base.
        additions: what was removed from it.
        language: language of the texts, ISO 639-1.
    """
    found = Collected()
    for concept_id, text, written_in in additions.removed:
        norm = normalise(text, written_in)
        bare = [word for word in WORD.findall(norm) if word[0].isalnum()]
        joined = (f"{' '.join(bare[:at])}{mark}{' '.join(bare[at:])}" for at in range(1, len(bare)) for mark in "-/")
        forms: dict[tuple[int, ...], list[str]] = {}  # hashes of words -> what may be a name with these words
        for name in dict.fromkeys([norm, " ".join(bare), "-".join(bare), *joined]):
            run = tuple(word_hash(form_of(word, language)) for word in WORD.findall(name))
            forms.setdefault(run, []).extend(forms_of_name(name))
        for run, names in forms.items():
            if 0 < len(run) <= MAX_WORDS and (concept_id is None or not kb.find(names)):
                found.add(list(run), "")
    return found.phrases()
