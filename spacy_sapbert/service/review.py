"""The routes of a review: the page, notes one by one, events of reviewers, the report and the exports."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import unquote

from fastapi import Body, FastAPI, Header, Query, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from ..errors import fail
from ..kb.additions import check_names
from ..kb.concept import MAX_NAME_CHARS
from ..render.html import review_page
from ..render.records import NIL, name_of
from ..review import gold, tables
from ..review.events import MAX_NUMBER, AddMention, AddName, Choose, StopName, Undo, read_event
from ..review.linker import AppliedNames, state_of
from ..review.report import report
from ..review.store import MAX_PAGE, ReviewStore
from ..review.view import note_view
from . import review_schemas as schemas
from .exported import REVIEW_FORMATS, export_responses
from .linking import Linked, Linking, Text
from .problems import NOT_IN_REVIEW, REVIEW_PROBLEMS

PAGE = ("text/html", "text/javascript", "text/css")
HEADERS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}
Order = Literal["note", "doubt", "random"]
SKIPPED = "Number of items of the list to skip."
EXPORTS = "gold: a DocBin of spaCy; jsonl: the same as JSON Lines; usagi, sssom: tables of mention and concept; names: the added names."


class Review:
    """A review that belongs to a service.

    Args:
        path: file of the review.
        linking: function that returns the object that answers tasks, or raises E075 if it is not loaded yet.

    Raises:
        SapbertError: E080, E081, E106, the file cannot be used.
    """

    def __init__(self, path: Path, linking: Callable[[], Linking]) -> None:
        self.store = ReviewStore(path)
        self._linking = linking
        self._names: AppliedNames | None = None
        self._named: tuple[Any, dict[str, str]] = (None, {})  # a knowledge base, and the canonical names of its concepts that were searched
        self._lock = threading.Lock()

    @property
    def linker(self) -> Any:
        """The linker, with the names that reviewers added, and without those that they removed."""
        linker = self._linking().linker
        with self._lock:
            if self._names is None or self._names.linker is not linker:
                self._names = AppliedNames(linker)
            self._names.apply(self.store.log())
        return linker

    def record(self, reviewer: str, given: Any) -> dict[str, Any]:
        """Write the event of a reviewer into the log. A name that a reviewer adds or removes takes effect in the linker at once.

        Args:
            reviewer: name of the reviewer.
            given: the event, as a dictionary.

        Returns:
            Number of the event, number of its mention, id of its note, and time; for an undo, mention and note of the event that was undone.

        Raises:
            SapbertError: E024, the name cannot be added or removed; E082, the event is not valid; E084, the concept, note, mention or event does not exist.
        """
        said, kb = read_event(given), self.linker.kb
        if isinstance(said, (AddMention, Choose)) and said.cui != NIL and said.cui not in kb:
            raise fail("E084", what="concept")
        if isinstance(said, (AddName, StopName)):
            if said.cui is not None and said.cui not in kb:
                raise fail("E084", what="concept")
            check_names([said.name], "en", MAX_NAME_CHARS)
        event = self.store.record(reviewer, given)
        _ = self.linker
        mention = self.store.log().events[said.event].mention if isinstance(said, Undo) else event.mention
        note = None if mention is None else self.store.note_of(mention)
        return {"event": event.number, "mention": mention, "note": note, "at": event.at}

    def events(self, after: int) -> list[dict[str, Any]]:
        """Return the events with a number above `after`, in their order, without text of notes.

        Returns:
            event, at, reviewer, kind and mention of each; for an undo also `undoes`, the number of the undone event; for a name also name, cui and
            concept, which is the concept's canonical name, "" if the linker does not have it.
        """
        found = []
        for each in self.store.events(after=after):
            one: dict[str, Any] = {"event": each.number, "at": each.at, "reviewer": each.reviewer, "kind": each.said.kind, "mention": each.mention}
            if isinstance(each.said, Undo):
                one["undoes"] = each.said.event
            elif isinstance(each.said, (AddName, StopName)):
                one |= {"name": each.said.name, "cui": each.said.cui, "concept": name_of(self.linker.kb, each.said.cui) if each.said.cui else ""}
            found.append(one)
        return found

    def concepts(self, find: str, limit: int, offset: int) -> dict[str, Any]:
        """Return a page of the concepts of all mentions, the most frequent first.

        Args:
            find: only concepts whose id or canonical name contains this text; the case is ignored.
            limit: most concepts to return.
            offset: number of concepts to skip.

        Returns:
            total: number of concepts that fit; concepts: (id, canonical name, number of mentions) of each.
        """
        kb, wanted, found = self._linking().linker.kb, find.strip().casefold(), self.store.concepts()
        if wanted:
            with self._lock:
                if self._named[0] is not kb:
                    self._named = (kb, {})
                names = self._named[1]
                names.update((cui, name_of(kb, cui)) for cui, _ in found if cui not in names)
            found = [(cui, count) for cui, count in found if wanted in f"{cui} {names[cui]}".casefold()]
        return {"total": len(found), "concepts": [[cui, name_of(kb, cui), count] for cui, count in found[offset : offset + limit]]}

    def export(self, kind: str) -> bytes:
        """Return the export of the review in a format of `REVIEW_FORMATS`, as bytes."""
        linking, store = self._linking(), self.store
        if kind == "gold":
            return gold.to_docbin(store, linking.nlp).to_bytes()
        if kind == "jsonl":
            return "".join(gold.to_jsonl(store)).encode("utf-8")
        stream, kb = io.StringIO(newline=""), linking.linker.kb
        if kind == "names":
            tables.write_names(store, stream)
        else:
            {"usagi": tables.write_usagi, "sssom": tables.write_sssom}[kind](store, lambda cui: name_of(kb, cui), stream)
        return stream.getvalue().encode("utf-8")


def add_review(app: FastAPI, service: Any, path: Path) -> None:
    """Add the routes of a review to a service.

    Args:
        app: the application.
        service: the `Service` that its routes share.
        path: file of the review.

    Raises:
        SapbertError: E080, E081, E106, the file cannot be used.
    """
    review = Review(path, lambda: service.linking)
    store = review.store
    app.state.review = review
    page, style, script = (part.encode("utf-8") for part in review_page())

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return Response(page, media_type=PAGE[0], headers=HEADERS)

    @app.get("/review/page.js", include_in_schema=False)
    async def page_script() -> Response:
        return Response(script, media_type=PAGE[1], headers=HEADERS)

    @app.get("/review/page.css", include_in_schema=False)
    async def page_css() -> Response:
        return Response(style, media_type=PAGE[2], headers=HEADERS)

    @app.get(
        "/review/notes",
        tags=["review"],
        response_model=schemas.NotesOfReview,
        responses=REVIEW_PROBLEMS,
        summary="Notes of the review, one page of the list",
    )
    async def notes(
        order: Annotated[Order, Query(description="Of the notes: as they were added, the most doubtful first, or random.")] = "note",
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="Most notes to return.")] = 50,
        offset: Annotated[int, Query(ge=0, le=MAX_NUMBER, description=SKIPPED)] = 0,
        find: Annotated[str, Query(max_length=1000, description="Only notes whose id or text contains this.")] = "",
        cui: Annotated[str, Query(max_length=256, description="Only notes with a mention of this concept.")] = "",
    ) -> Response:
        def answer() -> Any:
            if find or cui:
                found = store.find(find) if find else store.with_concept(cui)
                return {"total": len(found), "notes": [[note_id, None, None] for note_id in found[offset : offset + limit]]}
            return {"total": store.count()[0], "notes": store.ids(order=order, limit=limit, offset=offset)}

        return _json(await run_in_threadpool(answer))

    @app.get(
        "/review/note",
        tags=["review"],
        response_model=schemas.NoteOfReview,
        responses={**REVIEW_PROBLEMS, **NOT_IN_REVIEW},
        summary="A note with its mentions; it is linked again if the linker has changed",
    )
    async def note(request: Request, note_id: Annotated[str, Query(alias="id", max_length=1000, description="Id of the note.")]) -> Response:
        found = await run_in_threadpool(store.note, note_id)
        linker = await run_in_threadpool(lambda: review.linker)
        state = state_of(linker)
        if found.linked_with != state:
            answers: list[Linked] = await service.answers(request, [Text(found.text, "{}")])
            await run_in_threadpool(store.propose, found, json.loads(answers[0].json), state)
        return _json(await run_in_threadpool(note_view, store, found, linker.kb))

    @app.get(
        "/review/concepts",
        tags=["review"],
        response_model=schemas.ConceptsOfReview,
        responses=REVIEW_PROBLEMS,
        summary="Concepts of all mentions, with the number of their mentions; one page of the list",
    )
    async def concepts(
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="Most concepts to return.")] = 100,
        offset: Annotated[int, Query(ge=0, le=MAX_NUMBER, description=SKIPPED)] = 0,
        find: Annotated[str, Query(max_length=200, description="Only concepts whose id or name contains this.")] = "",
    ) -> Response:
        return _json(await run_in_threadpool(review.concepts, find, limit, offset))

    @app.post(
        "/review/events",
        tags=["review"],
        response_model=schemas.RecordedEvent,
        responses={**REVIEW_PROBLEMS, **NOT_IN_REVIEW},
        summary="Write an event of a reviewer; the examples show the kinds",
    )
    async def events(
        said: Annotated[dict[str, Any], Body(openapi_examples={name: {"value": event} for name, event in schemas.EVENTS.items()})],
        x_reviewer: Annotated[str, Header(max_length=600, description="Name of the reviewer, in URL encoding if it is not ASCII.", examples=["Ann"])],
    ) -> Response:
        # a page of another site must ask first (CORS preflight) whether it may send this header, and is refused
        return _json(await run_in_threadpool(review.record, unquote(x_reviewer), said))

    @app.get(
        "/review/events",
        tags=["review"],
        response_model=schemas.EventsOfReview,
        responses=REVIEW_PROBLEMS,
        summary="Events after a given one, to follow other reviewers",
    )
    async def later(after: Annotated[int, Query(ge=0, le=MAX_NUMBER, description="Number of the last event that is known already.")] = 0) -> Response:
        return _json(await run_in_threadpool(review.events, after))

    @app.get(
        "/review/report",
        tags=["review"],
        response_model=schemas.ReportOfReview,
        responses=REVIEW_PROBLEMS,
        summary="Precision with intervals, agreement, number of links left to review",
    )
    async def figures(wished: Annotated[float, Query(gt=0, lt=1, description="The precision to reach by reviewing.")] = 0.95) -> Response:
        return _json(await run_in_threadpool(report, store, wished))

    @app.get(
        "/review/export",
        tags=["review"],
        response_class=Response,
        responses={**REVIEW_PROBLEMS, **export_responses()},
        summary="Gold annotations, tables of mentions and concepts, added names",
    )
    async def export(kind: Annotated[Literal["gold", "jsonl", "usagi", "sssom", "names"], Query(alias="format", description=EXPORTS)]) -> Response:
        name, media_type = REVIEW_FORMATS[kind]
        content = await run_in_threadpool(review.export, kind)
        return Response(content, media_type=media_type, headers={**HEADERS, "content-disposition": f'attachment; filename="{name}"'})


def _json(value: Any) -> Response:
    return Response(json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace"), media_type="application/json", headers=HEADERS)
