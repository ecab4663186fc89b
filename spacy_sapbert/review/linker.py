"""Connect a review with a linker: add notes with the links that the linker proposes, and apply the names that reviewers added and removed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from ..build.default_linkers import fingerprint_of
from ..errors import SapbertError, logger
from ..kb.additions import Additions
from ..render.records import rows
from .log import Log, NameChange
from .store import ReviewStore


def state_of(linker: Any) -> str:
    """Return a short hash of all that a linker's answers depend on. If it differs, proposed links of a note are out of date."""
    bundle, calibration = linker.bundle, linker.bundle.calibration
    settings = {key: sorted(value) if isinstance(value, (set, frozenset)) else value for key, value in dataclasses.asdict(linker.settings).items()}
    fit = None if calibration is None else (calibration.fit_on, len(calibration.right), sum(calibration.right))
    return fingerprint_of([bundle.kb.fingerprint, bundle.encoder.fingerprint, bundle.additions.content(), fit, sorted(settings.items())])


def add_docs(store: ReviewStore, linker: Any, docs: Iterable[tuple[Any, str]]) -> int:
    """Add linked notes to a review. Notes that are already in the review are not changed.

    Args:
        store: the review.
        linker: the component that linked them.
        docs: (Doc, id of the note) pairs.

    Returns:
        Number of notes that were added.

    Raises:
        SapbertError: E083, the review has a note with the same id and another text.
    """
    state, added = state_of(linker), 0
    for doc, note_id in docs:
        direction = doc.vocab.writing_system.get("direction", "ltr")
        found = rows(doc, linker.kb, linker.attr_name, note_id)
        added += store.add_note(note_id, doc.text, found, linked_with=state, lang=doc.lang_ or "en", direction=direction)
    return added


class AppliedNames:
    """Applies the names of a review to a linker. A change takes effect with the next Doc; if the event of a name was undone, it has no effect any more.

    Args:
        linker: the component. Names that it had, or did not have, before are kept.
    """

    def __init__(self, linker: Any) -> None:
        self.linker = linker
        self._base: Additions = linker.bundle.additions
        self._applied: list[NameChange] = []

    def apply(self, log: Log) -> bool:
        """Add to the linker the names that reviewers added, and remove those that they removed, in the order of the log.

        Returns:
            Whether the linker was changed.
        """
        changes = log.names()
        if changes == self._applied:
            return False
        kb, additions = self.linker.bundle.kb, self._base
        language = "en" if self.linker.settings.english else self.linker.settings.language
        for change in changes:
            try:
                concept = None if change.cui is None else kb.concept_id(kb.row_of(change.cui))
                if not change.adds:
                    additions = additions.without_names(concept, [change.name], language)
                elif concept is not None:
                    additions = additions.with_names(concept, [change.name], language)
            except (KeyError, SapbertError):  # the concept is from another linker
                logger.warning("a name that a reviewer added to %s, or removed from it, is left out: this linker has no such concept", change.cui)
        self.linker.bundle = self.linker.bundle.with_additions(additions)
        self._applied = changes
        return True
