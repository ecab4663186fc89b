"""Link the notes of a command in batches, so that only one batch is in memory, and keep count of the notes that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..corpus.isolated import Isolated, describe
from ..errors import fail
from ..memory import leave_out_of_collections, return_free_memory
from .inputs import Inputs, Read

MAX_NOTES, MAX_CHARACTERS = 256, 1_000_000  # a batch ends when it has so many notes or characters


class LinkedDoc(NamedTuple):
    """A linked note.

    Attributes:
        doc: its Doc.
        note_id: its id.
        kept: values of the columns to keep.
    """

    doc: Any
    note_id: str
    kept: tuple[str | None, ...] = ()


class NotesRun:
    """Links notes. One that cannot be read or linked does not keep the others from being linked. From now on, this process only links notes.

    Args:
        nlp: the pipeline.
        inputs: the notes.

    Attributes:
        linked: number of notes that were linked so far.

    Raises:
        SapbertError: something cannot be loaded.
    """

    def __init__(self, nlp: Any, inputs: Inputs) -> None:
        self._isolated, self._inputs = Isolated(nlp), inputs
        leave_out_of_collections()
        self._failed: list[tuple[str, Exception | str]] = []  # (id, reason) of the first note that failed
        self._failures = 0
        self.linked = 0

    def docs(self) -> Iterator[LinkedDoc]:
        """Yield each note that was linked, in their order."""
        found: dict[int, Any] = {}
        for batch in self._batches(lambda batch: found.__setitem__):
            for i in sorted(found):
                yield LinkedDoc(found.pop(i), batch[i].note_id, batch[i].kept)

    def each(self, take: Callable[[Any, str], None]) -> None:
        """Link all notes.

        Args:
            take: called with the Doc and the id of a note. If it raises an error, this note has failed.
        """
        for _ in self._batches(lambda batch: lambda i, doc: take(doc, batch[i].note_id)):
            pass

    def check(self) -> None:
        """Check that no note has failed.

        Raises:
            SapbertError: E054, some have; if the first one could not be read, and no note was linked, the error of reading it.
        """
        if not self._failed:
            return
        ((note, reason),) = self._failed
        if isinstance(reason, Exception):
            if not self.linked:
                raise reason
            reason = describe(reason)
        raise fail("E054", count=self._failures, total=self._failures + self.linked, note=note, why=reason.rstrip("."))

    def _batches(self, takes: Callable[[list[Read]], Callable[[int, Any], None]]) -> Iterator[list[Read]]:
        """Link the notes, and yield each batch when it is linked."""
        from tqdm import tqdm

        with tqdm(total=self._inputs.total, desc="linking", unit="note", delay=3.0) as bar:

            def shown(docs: Iterator[Any]) -> Iterator[Any]:
                for doc in docs:
                    bar.update()
                    yield doc

            for batch in self._cut():
                reasons = self._isolated.run([read.text if read.error is None else None for read in batch], takes(batch), shown)
                errors: dict[int, Exception | str] = {i: read.error for i, read in enumerate(batch) if read.error is not None}
                errors.update(reasons)
                self.linked += len(batch) - len(errors)
                self._failures += len(errors)
                if errors and not self._failed:
                    self._failed = [(batch[min(errors)].note_id, errors[min(errors)])]
                yield batch
                return_free_memory()

    def _cut(self) -> Iterator[list[Read]]:
        batch: list[Read] = []
        characters = 0
        for read in self._inputs.notes:
            batch.append(read)
            characters += len(read.text)
            if len(batch) >= MAX_NOTES or characters >= MAX_CHARACTERS:
                yield batch
                batch, characters = [], 0
        if batch:
            yield batch
