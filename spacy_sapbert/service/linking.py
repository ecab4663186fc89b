"""The work of the service: link texts, spans that a user gives, and mentions without a text, with a pipeline of this package."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cachetools import LRUCache
from spacy.language import Language
from spacy.tokens import Doc

from ..corpus.pipeline import load_components
from ..doc.own import OWN, Place, with_spans
from ..render import NIL, Places, row_of, rows
from ..search import CandidateSearch
from .concepts import candidates_of

LINKER = "sapbert_linker"
STATUS = "clinical_status"
SEARCHES = 16  # searches with changed settings that are kept
WARM_UP = "She takes aspirin for chest pain."

Changes = Mapping[str, Any]  # settings of the linker -> values


@dataclass(frozen=True)
class Text:
    """A task: find and link the mentions of a text.

    Attributes:
        text: the text.
        changes: settings of the linker to change, as JSON, see `as_key`.
    """

    text: str
    changes: str


@dataclass(frozen=True)
class Spans:
    """A task: link given spans of a text.

    Attributes:
        text: the text.
        places: the spans.
        changes: settings of the linker to change, as JSON, see `as_key`.
    """

    text: str
    places: tuple[Place, ...]
    changes: str


@dataclass(frozen=True)
class Lookup:
    """A task: find the k best candidates of a mention without a text."""

    mention: str
    k: int


Task = Text | Spans | Lookup


class Linked(NamedTuple):
    """The answer to a task.

    Attributes:
        json: a list of records or candidates, as JSON.
        mentions: number of mentions in it.
        linked: number of mentions with a link.
    """

    json: str
    mentions: int = 0
    linked: int = 0


def as_key(changes: Changes) -> str:
    """Return settings as JSON with sorted keys, so that equal settings are equal texts."""
    return json.dumps(dict(changes), sort_keys=True)


class Linking:
    """Answers tasks with a pipeline. Only one thread at a time may use it.

    Args:
        nlp: a pipeline with `sapbert_linker`.
    """

    def __init__(self, nlp: Language) -> None:
        self.nlp = nlp
        self.linker: Any = nlp.get_pipe(LINKER)
        self._searches: LRUCache[str, CandidateSearch] = LRUCache(SEARCHES)

    def warm_up(self) -> None:
        """Load the files that the pipeline needs, and link a sentence once, so that the first request is fast.

        Raises:
            SapbertError: errors of loading.
        """
        load_components(self.nlp)
        for answer in self.answer([Text(WARM_UP, "{}"), Spans(WARM_UP, (Place(10, 17),), "{}"), Lookup("aspirin", 1)]):
            if isinstance(answer, Exception):
                raise answer
        self.linker.forget()

    def answer(self, tasks: Sequence[Task]) -> list[Linked | Exception]:
        """Answer tasks. Tasks of one kind with equal settings are processed together. An error in one task does not affect the others.

        Returns:
            For each task its answer, or the exception that it caused.
        """
        groups: dict[tuple[type, str], list[int]] = {}
        for i, task in enumerate(tasks):
            groups.setdefault((type(task), "" if isinstance(task, Lookup) else task.changes), []).append(i)
        answers: dict[int, Linked | Exception] = {}
        for (kind, changes), places in groups.items():
            answers.update(zip(places, self._together(kind, changes, [tasks[i] for i in places])))
        return [answers[i] for i in range(len(tasks))]

    def _together(self, kind: type, changes: str, tasks: list[Any]) -> Sequence[Linked | Exception]:
        try:
            if kind is Text:
                return self._texts(tasks, changes)
            return self._spans(tasks, changes) if kind is Spans else self._lookups(tasks)
        except Exception as error:
            if len(tasks) == 1:
                return [error]
        return [self._together(kind, changes, [task])[0] for task in tasks]

    def _texts(self, tasks: list[Text], changes: str) -> list[Linked]:
        docs = self.nlp.pipe([task.text for task in tasks], batch_size=len(tasks), component_cfg=self._with(changes))
        return [self._records(doc) for doc in docs]

    def _spans(self, tasks: list[Spans], changes: str) -> list[Linked]:
        """Link the spans of tasks as `sapbert_linker` links a span group, and set their status."""
        docs = [with_spans(self.nlp, task.text, task.places) for task in tasks]
        search = self._search(changes, new_words=True, spans_key=OWN)  # a span that a user gives need not be a name
        list(self.linker.pipe(docs, batch_size=len(docs), search=search))
        if STATUS in self.nlp.pipe_names:
            status: Any = self.nlp.get_pipe(STATUS)
            for doc in docs:
                status(doc)
        return [self._records(doc, task.places) for doc, task in zip(docs, tasks)]

    def _lookups(self, tasks: list[Lookup]) -> list[Linked]:
        found = candidates_of(self.linker, [task.mention for task in tasks], max(task.k for task in tasks))
        return [Linked(json.dumps(each[: task.k], ensure_ascii=False)) for each, task in zip(found, tasks)]

    def _with(self, changes: str) -> dict[str, dict[str, Any]]:
        """Return the argument `component_cfg` of `nlp.pipe` that makes the linker use changed settings."""
        return {} if changes == "{}" else {self.linker.name: {"search": self._search(changes)}}

    def _search(self, changes: str, **more: Any) -> CandidateSearch:
        """Return a search with changed settings. The search of an earlier request is used again, if the linker has not changed since."""
        values = {**more, **json.loads(changes)}
        key = as_key(values)
        search = self._searches.get(key)
        if search is None or search.bundle is not self.linker.bundle:
            search = self._searches[key] = self.linker.search_with(**values)
        return search

    def _records(self, doc: Doc, places: Sequence[Place] | None = None) -> Linked:
        """Return the records of a Doc, as `link --format jsonl` writes them, without fields that depend on earlier requests."""
        kb, attr = self.linker.kb, self.linker.attr_name
        if places is None:
            found = list(rows(doc, kb, attr))
        else:  # each span of the request, in its order
            by_place = {(span.start_char, span.end_char): span for span in doc.spans[OWN]}
            where = Places(doc)
            found = [{**row_of(by_place[place.start, place.end], kb, attr, nested=False, places=where), "label": place.label} for place in places]
        for row in found:
            del row["note"]
            row["explain"].pop("cached", None)
        linked = sum(row["cui"] != NIL for row in found)
        return Linked(json.dumps(found, ensure_ascii=False), len(found), linked)
