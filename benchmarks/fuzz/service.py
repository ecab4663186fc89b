"""The target of fuzzing that sends requests to the service: bodies, queries, paths and headers."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from .base import Target, must, small_linker
from .notes import review_of

BODY = b"\n\n"  # ends the head of a request; a head is a method and a path, then headers
JSON = {
    "link": {"text": "Fever and cough.", "settings": {"threshold": 0.5, "types": ["T047"], "max_entities_per_mention": 3, "languages": None}},
    "link?format=fhir": {"texts": ["Fever.", {"id": "17", "text": "Cough and pain."}], "settings": {"new_words": True, "coverage": 0.9}},
    "link?format=brat": {"texts": [{"id": "17", "text": "Cough and pain."}]},
    "mentions:link": {"text": "Fever and cough.", "mentions": [{"start": 0, "end": 5, "label": "DISO"}, {"start": 10, "end": 15}]},
    "lookup": {"mentions": ["fever", "dry cough"], "k": 3},
    "review/events": {"kind": "choose", "mention": 1, "cui": "C9100027", "settles": False},
    "review/events?add": {"kind": "add", "note": "n1", "start": 0, "end": 5, "cui": "C9100027", "label": "DISO"},
    "review/events?span": {"kind": "span", "mention": 2, "start": 0, "end": 5},
    "review/events?undo": {"kind": "undo", "event": 1},
    "review/events?name": {"kind": "name", "cui": "C9100027", "name": "high temperature"},
}
GETS = (
    *("concepts?query=fever&limit=3", "concepts/C9100027", "concepts/MESH:D003924", "review/notes?order=doubt&limit=5&offset=0"),
    *("review/notes?find=fever", "review/note?id=n1", "review/events?after=0", "review/report?wished=0.9", "review/export?format=usagi"),
    *("version", "metrics"),
)
LOCAL = b"host: localhost\nx-reviewer: anna\ncontent-type: application/json"
SECONDS = 150.0  # that an answer may take on the clock; a text of 100,000 brackets takes ten of computing time


def service_targets(scratch: Path) -> Iterator[Target]:
    """Yield this target.

    Args:
        scratch: folder for its files.
    """
    linker = small_linker(scratch)
    review = scratch / "made" / "review.sqlite"
    review_of(review, linker)
    bodies = {f"{number}.json": json.dumps(body).encode() for number, body in enumerate(JSON.values())}
    heads = {f"get{number}.txt": b"GET /%s\n%s\n\n" % (path.encode(), LOCAL) for number, path in enumerate(GETS)}
    yield Target("service", 4, bodies | heads, _asks(linker, review), scratch / "service")


def _asks(linker: Path, review: Path) -> Callable[[Path, str], None]:
    def consume(folder: Path, name: str) -> None:
        content = (folder / name).read_bytes()
        if name.endswith(".json"):
            path = list(JSON)[int(name.removesuffix(".json"))]
            content = b"POST /%s\n%s\n\n%s" % (path.encode(), LOCAL, content)
        head, _, body = content.partition(BODY)
        scope = _scope(head)
        if scope is None:
            return
        app, loop = _service(linker, review)
        status, answer = loop.run_until_complete(asyncio.wait_for(_ask(app, scope, body), SECONDS))
        must(status < 500, f"status {status}: {answer[:200]!r}")
        if status >= 400 and status not in (404, 405):  # routes that are not there are Starlette's
            must(json.loads(answer)["error"]["code"].startswith("E"), "an error without a code")

    return consume


def _scope(head: bytes) -> dict[str, Any] | None:
    """Return the ASGI scope of a request; None for a head that a server refuses."""
    first, *lines = head.split(b"\n")
    method, _, target = first.partition(b" ")
    path, _, query = target.partition(b"?")
    headers = [(name.strip().lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
    if not (method.isalpha() and method.isascii() and target.isascii() and path.startswith(b"/")):
        return None
    if not all(name.replace(b"-", b"").isalnum() and not any(byte < 32 and byte != 9 for byte in value) for name, value in headers):
        return None
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "root_path": "", "method": method.decode()}
    return {**scope, "path": unquote(path.decode()), "raw_path": path, "query_string": query, "headers": headers, "client": ("127.0.0.1", 1)}


async def _ask(app: Any, scope: dict[str, Any], body: bytes) -> tuple[int, bytes]:
    """Send a request to an application, and return status and body of the answer."""
    sent, status, answer = False, 0, bytearray()

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if sent:
            await asyncio.Event().wait()  # the client stays
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)
        answer.extend(message.get("body", b""))

    await app(scope, receive, send)
    return status, bytes(answer)


@lru_cache(maxsize=1)
def _service(linker: Path, review: Path) -> tuple[Any, asyncio.AbstractEventLoop]:
    """Start the service in this process, with a copy of the review."""
    from spacy_sapbert.corpus.pipeline import load
    from spacy_sapbert.service.app import create_app
    from spacy_sapbert.service.settings import ServiceSettings

    own = review.with_name(f"review-{os.getpid()}.sqlite")
    shutil.copy(review, own)
    app = create_app(lambda: load(str(linker)), ServiceSettings(review=own))
    loop = asyncio.new_event_loop()

    async def start() -> None:
        app.state.context = app.router.lifespan_context(app)
        await app.state.context.__aenter__()
        head = _scope(b"GET /ready\n" + LOCAL)
        assert head is not None
        while (await _ask(app, dict(head), b""))[0] != 200:
            await asyncio.sleep(0.02)

    loop.run_until_complete(start())
    return app, loop
