"""Connect a review with a linker: add notes with the links that the linker proposes, and add reviewers' names to the linker."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from ..build.default_linkers import fingerprint_of
from ..errors import SapbertError, logger
from ..kb.additions import Additions
from ..render.records import rows
from .log import Log
from .store import ReviewStore


def state_of(linker: Any) -> str:
    """Return a short hash of all that a linker's answers depend on. If it differs, proposed links of a note are out of date."""
    bundle, calibration = linker.bundle, linker.bundle.calibration
    settings = {key: sorted(value) if isinstance(value, (set, frozenset)) else value for key, value in dataclasses.asdict(linker.settings).items()}
    fit = None if calibration is None else (calibration.fit_on, len(calibration.right), sum(calibration.right))
    return fingerprint_of([bundle.kb.fingerprint, bundle.encoder.fingerprint, bundle.additions.names, fit, sorted(settings.items())])


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
    """Applies the names of a review to a linker. A change takes effect with the next Doc; a name whose event was undone is removed.

    Args:
        linker: the component. Names that it had before are kept.
    """

    def __init__(self, linker: Any) -> None:
        self.linker = linker
        self._base: Additions = linker.bundle.additions
        self._applied: list[tuple[str, str]] = []

    def apply(self, log: Log) -> bool:
        """Set the added names of the linker to those of a log, in addition to the names that it had before.

        Returns:
            Whether the linker was changed.
        """
        added, _ = log.names()
        if added == self._applied:
            return False
        kb, additions = self.linker.bundle.kb, self._base
        language = "en" if self.linker.settings.english else self.linker.settings.language
        for cui, name in added:
            try:
                additions = additions.with_names(kb.concept_id(kb.row_of(cui)), [name], language)
            except (KeyError, SapbertError):  # the concept is from another linker
                logger.warning("a name that a reviewer added to %s is left out: this linker has no such concept", cui)
        self.linker.bundle = self.linker.bundle.with_additions(additions)
        self._applied = added
        return True
