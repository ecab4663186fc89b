"""What is looked for in texts at one moment: the phrases, their labels, and what words stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..kb import semantic_types
from .linkers import Linkers
from .phrases import Phrases
from .sites import BODY
from .word_forms import WordForms


@dataclass(frozen=True)
class Lookup:
    """Finds labels of runs of words. It never changes: another thread that looks for other names uses another one.

    Attributes:
        phrases: the names of the knowledge base.
        more: the names that a user added to linkers; they count first. None if there are none.
        forms: what words stand for.
        label: what labels are: "group", "type", or any other text for all names, see `ConceptMatcher`.
    """

    phrases: Phrases
    more: Phrases | None
    forms: WordForms
    label: str

    def following(self, linkers: Linkers) -> Lookup:
        """Return what is looked for with the additions and the `cache_size` of linkers; itself if nothing is different."""
        made = self
        if made.phrases.stopped is not linkers.stopped:
            made = replace(made, phrases=replace(made.phrases, stopped=linkers.stopped))
        if made.more is not linkers.more:
            made = replace(made, more=linkers.more)
        if made.forms.cache_size != linkers.cache_size:
            made = replace(made, forms=made.forms.with_cache(linkers.cache_size))
        return made

    @property
    def sets(self) -> list[Phrases]:
        """The sets of phrases, the one that counts first before the other."""
        return [self.phrases] if self.more is None else [self.more, self.phrases]

    def labels(self, runs: Sequence[Sequence[int]]) -> list[str | None]:
        """Return the label of each run of words (given as hashes); None if it is no name."""
        return [next(filter(None, each), None) for each in zip(*(phrases.find(runs) for phrases in self.sets))]

    def labels_of(self, names: Sequence[str]) -> list[str | None]:
        """Return the label of each text; None if it is no name."""
        return self.labels([self.forms.run_of(name) for name in names])

    def group_of(self, label: str) -> str:
        """Return the semantic group of a label, without how the word must be written; "" if labels are neither types nor groups."""
        label = label.partition("\t")[0]
        if self.label == "group":
            return label
        kind = semantic_types.load().get(label) if self.label == "type" else None
        return kind.group if kind else ""

    def is_body(self, text: str) -> bool:
        """Return whether a text is a name of a part of the body; of anything, if labels are neither types nor groups."""
        run = self.forms.run_of(text)
        label = self.phrases.find([run])[0] if run else None
        return label is not None and self.group_of(label) in (BODY, "")
