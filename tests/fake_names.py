"""Names for `concept_matcher`, given by a test instead of a knowledge base."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spacy_sapbert.kb.knowledge_base import MatchableName


class Names:
    """The part of a knowledge base that the matcher uses.

    Args:
        names: The names to look for.
    """

    def __init__(self, names: Iterable[MatchableName]) -> None:
        self.names = list(names)
        self.n_surface_forms = len(self.names)

    def matchable_names(self, **_: object) -> Iterator[MatchableName]:
        """Yield the names, whatever the settings of the matcher."""
        return iter(self.names)

    def find(self, names: Iterable[str]) -> dict[str, int]:
        """Return a row for every name that is asked for, so that the short forms of `context.sense_words` add none."""
        return dict.fromkeys(names, 0)
