"""The application: HTTP routes that call `linking` within the limits of `settings`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Query, Request
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from spacy.language import Language
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from ..about import __version__
from ..doc.own import Place, trimmed
from ..errors import SapbertError, fail, logger
from ..exports import athena
from ..exports.base import LinkedNote, origin_of
from ..exports.formats import Exporter
from ..exports.names import FORMATS
from ..memory import return_free_memory
from . import schemas
from .about import about_linker
from .batching import Batcher
from .concepts import concept_of, search_concepts
from .exported import link_responses, metrics_responses
from .guard import PROBLEM, REQUEST_ID, ClientGone, Guard, problem_of
from .linking import Linked, Linking, Lookup, Spans, Task, Text, as_key
from .metrics import CONTENT_TYPE, Metrics
from .problems import NO_CONCEPT, PROBLEMS, no_concept
from .review import add_review
from .settings import ServiceSettings

AnswerFormat = Literal["json", "fhir", "omop", "phenopackets", "bioc", "brat", "comprehend"]
RETURN_MEMORY_EVERY = 1000  # tasks, after which free memory is returned to the system
MAX_CONCEPTS = 100  # most concepts that a search returns


class Service:
    """Objects that the routes of one application share.

    Args:
        make: function that creates the pipeline; it is called in a thread when the application starts.
        settings: settings of the service.
        failed: called with the error if the pipeline cannot be loaded; None: the error is logged and raised.
    """

    def __init__(self, make: Callable[[], Language], settings: ServiceSettings, failed: Callable[[Exception], None] | None = None) -> None:
        self.settings, self.metrics = settings, Metrics()
        self._make, self._failed = make, failed
        self._linking: Linking | None = None
        self._answered = 0  # number of tasks since free memory was returned
        self._table: athena.ConceptTable | None = None
        self.batcher: Batcher[Task, Linked] = Batcher(
            self._answer, batch_size=settings.batch_size, max_queue=settings.max_queue, seen=self.metrics.saw_batch
        )
        self.metrics.watch_queue(lambda: self.batcher.waiting)

    @property
    def linking(self) -> Linking:
        """The object that answers tasks.

        Raises:
            SapbertError: E075, the pipeline is not loaded yet.
        """
        if self._linking is None:
            raise fail("E075")
        return self._linking

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """Load the linker in the background, so that /health answers from the start. At the end, answer the requests that were accepted."""
        self.batcher.start()
        loading = asyncio.create_task(run_in_threadpool(self._load))
        yield
        self.metrics.ready.set(0)
        try:
            await loading
        finally:
            await run_in_threadpool(self.batcher.close)
            if self._table is not None:
                self._table.close()

    def _load(self) -> None:
        try:
            linking = Linking(self._make())
            linking.warm_up()
            if self.settings.athena is not None:
                self._table = athena.open_table(self.settings.athena)
        except Exception as error:
            if self._failed is None:
                logger.error("the linker can't be opened: %s", error)
                raise
            self._failed(error)
            return
        self._linking = linking
        self.metrics.ready.set(1)
        logger.info("ready: %s concepts", f"{len(linking.linker.kb):,}")

    def _answer(self, tasks: Sequence[Task]) -> Sequence[Linked | Exception]:
        answers = self.linking.answer(tasks)
        self._answered += len(tasks)
        if self._answered >= RETURN_MEMORY_EVERY:
            self._answered = 0
            return_free_memory()
        return answers

    def export(self, form: str, texts: Sequence[schemas.TextWithId], answers: Sequence[Linked]) -> bytes:
        """Return linked texts in an export format.

        Args:
            form: one of `FORMATS`.
            texts: the texts.
            answers: their answers.
        """
        bundle = self.linking.linker.bundle
        notes = [LinkedNote(each.id, each.text, json.loads(answer.json)) for each, answer in zip(texts, answers)]
        find = None if self._table is None else self._table.find
        return Exporter(self.linking.linker.kb, origin_of(bundle), find).to_bytes(form, notes)

    # -- requests -------------------------------------------------------------------------------------------------------

    def key_of(self, settings: schemas.LinkSettings) -> str:
        """Return the settings that a request changes, see `as_key`.

        Raises:
            SapbertError: E076, the service does not allow changing one of them.
        """
        changes = settings.changes()
        for setting in changes:
            if setting not in self.settings.allow:
                raise fail("E076", setting=setting, known=", ".join(self.settings.allow) or "none")
        return as_key(changes)

    def check_count(self, count: int, what: str) -> None:
        """Check the number of texts or mentions of a request.

        Raises:
            SapbertError: E071, there are none or too many.
        """
        if not 1 <= count <= self.settings.max_texts:
            raise fail("E071", why=f"it has {count:,} {what}; a request must have 1 to {self.settings.max_texts:,}.")

    def check_text(self, text: str) -> None:
        """Check one text.

        Raises:
            SapbertError: E071, it is too long, or holds half of a surrogate pair.
        """
        if len(text) > self.settings.max_characters:
            raise fail("E071", why=f"a text has {len(text):,} characters; at most {self.settings.max_characters:,} are allowed.")
        if not _encodable(text):
            raise fail("E071", why="a text holds half of a surrogate pair, which is no character.")

    async def answers(self, request: Request, tasks: Sequence[Task]) -> list[Linked]:
        """Return the answers to tasks. After the time limit, or if the client disconnects, tasks that still wait are cancelled.

        Raises:
            QueueFull: E072, the queue is full.
            SapbertError: E073, the time limit was reached; E075, the service is not ready; errors of linking.
            ClientGone: the client disconnected.
        """
        _ = self.linking
        futures = self.batcher.submit(tasks)
        waited = [asyncio.ensure_future(asyncio.wrap_future(future)) for future in futures]
        everything = asyncio.gather(*waited)
        gone = asyncio.create_task(_disconnected(request))
        try:
            both: list[asyncio.Future[Any]] = [everything, gone]
            await asyncio.wait(both, timeout=self.settings.timeout, return_when=asyncio.FIRST_COMPLETED)
            if everything.done():
                return everything.result()
            if gone.done():
                raise ClientGone
            raise fail("E073", seconds=self.settings.timeout)
        finally:
            gone.cancel()
            _cancel(futures)
            everything.cancel()
            with suppress(Exception, asyncio.CancelledError):
                await everything


def _cancel(futures: Sequence[Future[Linked]]) -> None:
    for future in futures:
        future.cancel()  # a task that is already being processed is finished, and its answer is ignored


async def _disconnected(request: Request) -> None:
    """Wait until the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _json(text: str) -> Response:
    return Response(text.encode("utf-8", "backslashreplace"), media_type="application/json")


def create_app(make: Callable[[], Language], settings: ServiceSettings | None = None, failed: Callable[[Exception], None] | None = None) -> FastAPI:
    """Return the service as an ASGI application.

    Args:
        make: function that creates the pipeline, which must have `sapbert_linker`; it is called in a thread when the application starts.
        settings: settings of the service; None: the defaults.
        failed: called with the error if the pipeline cannot be loaded; None: the error ends the application.

    Raises:
        SapbertError: E080, E081, E106, the review cannot be used.
    """
    settings = settings or ServiceSettings()
    service = Service(make, settings, failed)
    app = FastAPI(
        title="spacy-sapbert",
        version=__version__,
        description="Find the mentions of clinical text and link them to UMLS concepts.",
        lifespan=service.lifespan,
        docs_url=None,  # these pages load scripts from other servers
        redoc_url=None,
    )
    app.state.service = service
    _add_links(app, service)
    _add_concepts(app, service)
    _add_state(app, service)
    if settings.review is not None:
        add_review(app, service, settings.review)
    app.add_exception_handler(SapbertError, _problem)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_middleware(Guard, settings=settings, metrics=service.metrics)
    if settings.cors_origins:
        headers = ["authorization", "content-type", "x-api-key", REQUEST_ID]
        app.add_middleware(CORSMiddleware, allow_origins=list(settings.cors_origins), allow_methods=["GET", "POST"], allow_headers=headers)
    return app


# -- routes -------------------------------------------------------------------------------------------------------------


def _add_links(app: FastAPI, service: Service) -> None:
    @app.post(
        "/link",
        response_model=schemas.LinkResponse,
        responses={**PROBLEMS, **link_responses()},
        tags=["link"],
        summary="Find and link the mentions of texts",
    )
    async def link(
        asked: schemas.LinkRequest,
        request: Request,
        form: Annotated[AnswerFormat, Query(alias="format", description="json, or the format of another tool or standard.")] = "json",
    ) -> Response:
        if (asked.text is None) == (asked.texts is None):
            raise fail("E071", why="give either 'text' or 'texts'.")
        given = [asked.text] if asked.text is not None else asked.texts or []
        texts = [schemas.TextWithId(text=each) if isinstance(each, str) else each for each in given]
        service.check_count(len(texts), "texts")
        for each in texts:
            service.check_text(each.text)
        changes = service.key_of(asked.settings)
        answers = await service.answers(request, [Text(each.text, changes) for each in texts])
        _count(service, [each.text for each in texts], answers)
        if form != "json":
            return Response(await run_in_threadpool(service.export, form, texts, answers), media_type=FORMATS[form].media_type)
        parts = [f'{{"id":{json.dumps(each.id)},"mentions":{answer.json}}}' for each, answer in zip(texts, answers)]
        return _json('{"results":[' + ",".join(parts) + "]}")

    @app.post("/mentions:link", response_model=schemas.MentionsResponse, responses=PROBLEMS, tags=["link"], summary="Link your own spans of a text")
    async def link_mentions(asked: schemas.MentionsRequest, request: Request) -> Response:
        service.check_count(len(asked.mentions), "mentions")
        service.check_text(asked.text)
        places = tuple(_place(asked.text, mention) for mention in asked.mentions)
        answers = await service.answers(request, [Spans(asked.text, places, service.key_of(asked.settings))])
        _count(service, [asked.text], answers)
        return _json('{"mentions":' + answers[0].json + "}")

    @app.post("/lookup", response_model=schemas.LookupResponse, responses=PROBLEMS, tags=["link"], summary="The nearest concepts of mentions")
    async def lookup(asked: schemas.LookupRequest, request: Request) -> Response:
        service.check_count(len(asked.mentions), "mentions")
        for mention in asked.mentions:
            service.check_text(mention)
        answers = await service.answers(request, [Lookup(mention, asked.k) for mention in asked.mentions])
        parts = [f'{{"mention":{json.dumps(mention)},"candidates":{answer.json}}}' for mention, answer in zip(asked.mentions, answers)]
        return _json('{"results":[' + ",".join(parts) + "]}")


def _place(text: str, mention: schemas.OwnMention) -> Place:
    """Return the span of a request, without white space at its ends.

    Raises:
        SapbertError: E071, the span is not in the text, or is empty.
    """
    place = Place(mention.start, mention.end, mention.label)
    if not place.start < place.end <= len(text):
        raise fail("E071", why=f"the mention {place.start}-{place.end} is not a part of the text, which has {len(text):,} characters.")
    inner = trimmed(text, place)
    if inner.start == inner.end:
        raise fail("E071", why=f"the mention {place.start}-{place.end} is only white space.")
    return inner


def _count(service: Service, texts: Sequence[str], answers: Sequence[Linked]) -> None:
    mentions, linked = sum(answer.mentions for answer in answers), sum(answer.linked for answer in answers)
    service.metrics.saw_texts(len(texts), sum(map(len, texts)), mentions, linked)


def _add_concepts(app: FastAPI, service: Service) -> None:
    @app.get("/concepts", response_model=schemas.SearchResponse, responses=PROBLEMS, tags=["concepts"], summary="Search concepts")
    async def search(
        query: Annotated[str, Query(min_length=1, max_length=1000, description="An identifier, a code, a name, or its beginning.")],
        limit: Annotated[int, Query(ge=1, le=MAX_CONCEPTS, description="Most concepts to return.")] = 10,
    ) -> Response:
        service.check_text(query)
        found = await run_in_threadpool(search_concepts, service.linking.linker, query, limit)
        return _json(json.dumps({"concepts": found}, ensure_ascii=False))

    @app.get(
        "/concepts/{concept_id:path}",
        response_model=schemas.ConceptResponse,
        responses={**PROBLEMS, **NO_CONCEPT},
        tags=["concepts"],
        summary="One concept",
    )
    async def concept(
        concept_id: Annotated[str, InPath(max_length=256, description="A CUI, another identifier, or a code such as MESH:D003924.")],
    ) -> Response:
        found = await run_in_threadpool(concept_of, service.linking.linker.kb, concept_id)
        if found is None:
            raise no_concept()
        return _json(json.dumps(found, ensure_ascii=False))


def _add_state(app: FastAPI, service: Service) -> None:
    @app.get("/health", response_model=schemas.State, tags=["state"], summary="Whether the process is running")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/ready", response_model=schemas.State, tags=["state"], responses={503: PROBLEMS[503]}, summary="Whether the linker is loaded")
    async def ready() -> dict[str, str]:
        _ = service.linking
        return {"status": "ready"}

    @app.get(
        "/version",
        response_model=schemas.VersionResponse,
        tags=["state"],
        responses=PROBLEMS,
        summary="Versions, sources, calibration and settings of the service",
    )
    async def version() -> dict[str, Any]:
        return await run_in_threadpool(about_linker, service.linking.nlp, service.linking.linker, service.settings)

    @app.get("/metrics", tags=["state"], summary="Metrics for Prometheus: counts and times", response_class=Response, responses=metrics_responses())
    async def metrics() -> Response:
        return Response(service.metrics.exposition(), media_type=CONTENT_TYPE)


# -- problems -----------------------------------------------------------------------------------------------------------


async def _problem(request: Request, error: Exception) -> Response:
    status, content, headers = problem_of(error)
    if isinstance(error, SapbertError):
        request.scope[PROBLEM] = error.code  # the line that the guard logs for the request holds it
    return JSONResponse(content, status, headers)


async def _invalid(request: Request, error: Exception) -> Response:
    """Answer with the place where a request is wrong, without repeating its content."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return await _problem(request, fail("E071", why=f"the body is not JSON (at character {first['loc'][-1]})."))
    if first["type"] == "model_attributes_type" and first["loc"] == ("body",) and not _is_json(request):
        return await _problem(request, fail("E071", why="send the body as JSON, with the header `Content-Type: application/json`."))
    if first["loc"] == ("body",) and first["type"] in ("model_attributes_type", "dict_type"):
        return await _problem(request, fail("E071", why="the body must be a JSON object, as in /openapi.json."))
    parts = [str(part) for part in first["loc"] if part != "body"]
    place = ".".join(parts) or "the body"
    return await _problem(request, fail("E071", why=f"{place}: {first['msg']}."))


def _is_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind.endswith(("/json", "+json"))


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 400:  # bytes that are not text, or JSON that is nested too deeply
        return await _problem(request, fail("E071", why="the body is not JSON."))
    _, content, _ = problem_of(fail("E077", what="route or method", advice="/openapi.json lists its routes."))
    return JSONResponse(content, error.status_code, error.headers)
