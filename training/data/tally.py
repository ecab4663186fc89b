"""Count texts by their source and by what was done with them."""

from __future__ import annotations

from collections import Counter
from typing import Any

_SHOWN = 5  # number of ids that are shown for each reason


class Tally:
    """Counts of texts by source: read, kept, and left out by reason, with the first ids for each reason."""

    def __init__(self) -> None:
        """Start without counts."""
        self._counts: dict[str, Counter[str]] = {}
        self._first: dict[str, dict[str, list[str]]] = {}

    def add(self, source: str, what: str, concept_id: str = "") -> None:
        """Count one text.

        Args:
            source: The source of the text.
            what: What was done with it: "read", "kept", or the reason why it was left out.
            concept_id: Its concept, to be shown as an example.
        """
        self._counts.setdefault(source, Counter())[what] += 1
        if concept_id:
            first = self._first.setdefault(source, {}).setdefault(what, [])
            if len(first) < _SHOWN and concept_id not in first:
                first.append(concept_id)

    def move(self, source: str, what: str, concept_id: str) -> None:
        """Count a text as left out that was counted as kept before."""
        self._counts[source]["kept"] -= 1
        self.add(source, what, concept_id)

    def first(self, source: str, what: str) -> list[str]:
        """Return the first ids of a reason."""
        return self._first.get(source, {}).get(what, [])

    def as_dict(self) -> dict[str, Any]:
        """Return the counts and first ids by source, for the manifest."""
        return {
            source: {**dict(sorted(counts.items())), "first_ids": {what: ", ".join(ids) for what, ids in sorted(self._first.get(source, {}).items())}}
            for source, counts in sorted(self._counts.items())
        }
