"""Middleware before all routes: request ids, the API key, limits of body and time, one log line per request, and errors without any text of a note.

It is plain ASGI middleware, so that the routes notice when a client disconnects.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import re
import time
import uuid
from contextlib import suppress
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..corpus.isolated import describe
from ..errors import SapbertError, ServerError, fail, logger
from .batching import QueueFull
from .metrics import Metrics
from .settings import ServiceSettings

OPEN_PATHS = ("/health", "/ready")  # need no key, because programs that monitor the service have none
PAGE_PATHS = ("/", "/review/page.js", "/review/page.css")  # need no key, because the page holds no notes; its script asks for the key
REQUEST_ID = "x-request-id"
PROBLEM = "spacy_sapbert.problem"  # key of a scope: the code of the error that the request is answered with
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_DIGITS = re.compile(r"[0-9]+")  # `str.isdigit` also accepts "²", of which `int` makes no number
MOST_DIGITS = 18  # of a length in bytes
_PORT = re.compile(r":\d+$")
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
_METHODS = ("GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE")
# code of an error -> HTTP status, mostly for errors of the client
STATUS = {
    "E070": 413,
    "E071": 422,
    "E072": 429,
    "E073": 504,
    "E074": 401,
    "E075": 503,
    "E076": 422,
    "E077": 404,
    "E081": 503,
    "E082": 422,
    "E084": 404,
    "E085": 403,
}
NOT_READY = "E075"  # while the linker is being loaded or the service stopped, this answer is no fault
REQUEST_ERRORS = ("E002", "E010", "E011", "E024", "E050", "E104", "E105", "E107")
# a refused body is received up to so many bytes and seconds, as long as parts of it come within so many seconds
DISCARD_BYTES, DISCARD_SECONDS, DISCARD_IDLE_SECONDS = 1 << 28, 10.0, 1.0
CLIENT_GONE = 499  # the status that nginx logs if the client disconnected before the answer


class ClientGone(Exception):
    """The client disconnected before it got an answer."""


def status_of(error: Exception) -> int:
    """Return the HTTP status of an exception."""
    if isinstance(error, ServerError):
        return 503
    code = error.code if isinstance(error, SapbertError) else ""
    return STATUS.get(code, 422 if code in REQUEST_ERRORS else 500)


def problem_of(error: Exception) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Return (HTTP status, JSON body, headers) of the answer that reports an exception to the client."""
    status = status_of(error)
    shown = error if isinstance(error, SapbertError) and status != 500 else fail("E078", why=describe(error))
    headers = {"retry-after": str(error.retry_after)} if isinstance(error, QueueFull) else {}
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return status, {"error": {"code": shown.code, "message": str(shown)}}, headers


class Guard:
    """Middleware around all routes.

    Args:
        app: the application.
        settings: settings of the service.
        metrics: metrics in which requests are recorded.
    """

    def __init__(self, app: ASGIApp, settings: ServiceSettings, metrics: Metrics) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        headers = Headers(scope=scope)
        given = headers.get(REQUEST_ID, "")
        request_id = given if _ID.fullmatch(given) else uuid.uuid4().hex
        status, body_bytes, unread = 0, 0, True
        asked = scope["method"]
        if asked == "HEAD":  # it is answered as GET, without the body (RFC 9110, section 9.3.2)
            scope = {**scope, "method": "GET"}

        async def answered(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID] = request_id
            elif asked == "HEAD":
                message = {**message, "body": b""}
            await send(message)

        try:
            self._check_host(scope, headers)
            self._check_key(scope, headers)
            body = await self._body(headers, receive)
            body_bytes, unread = len(body), False
            self.metrics.body_bytes.inc(body_bytes)
            await self.app(scope, _replay(body, receive), answered)
        except ClientGone:
            status = CLIENT_GONE
        except Exception as error:  # it must not reach the server, whose log of an exception may quote a text
            if isinstance(error, SapbertError):
                scope[PROBLEM] = error.code
            if status_of(error) == 500:
                logger.error("request %s failed: %s", request_id, describe(error))
            if not status:
                await _send_error(error, answered, receive if unread else None)
        finally:
            method = asked if asked in _METHODS else "other"
            route = getattr(scope.get("route"), "path", "none")  # the template, never the path itself, which may hold text
            seconds = time.perf_counter() - started
            self.metrics.saw_request(route, method, status, seconds)
            said = f"{status} {scope[PROBLEM]}" if PROBLEM in scope else status
            level = logging.ERROR if status >= 500 and scope.get(PROBLEM) != NOT_READY else logging.INFO
            logger.log(level, "%s %s %s %s, %d bytes, %.0f ms", request_id, method, route, said, body_bytes, 1000 * seconds)

    def _check_host(self, scope: Scope, headers: Headers) -> None:
        """Check the Host header of requests for the review of a local service. Another site may point its own name to this address (DNS rebinding).

        Raises:
            SapbertError: E085.
        """
        asked = self.settings.local and (scope["path"] == "/" or scope["path"].startswith("/review"))
        name = _PORT.sub("", headers.get("host", "")).strip("[]").lower()
        if asked and name not in (*LOCAL_NAMES, self.settings.host.lower()):
            raise fail("E085")

    def _check_key(self, scope: Scope, headers: Headers) -> None:
        """Check the API key.

        Raises:
            SapbertError: E074, it is missing or wrong.
        """
        asks = bool(self.settings.api_key) and scope["path"] not in (*OPEN_PATHS, *PAGE_PATHS)
        if asks:
            kind, _, bearer = headers.get("authorization", "").partition(" ")
            given = bearer.strip() if kind.lower() == "bearer" else headers.get("x-api-key", "")
            if not hmac.compare_digest(given.encode("utf-8", "replace"), self.settings.api_key.encode()):
                raise fail("E074")

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        """Read the whole body.

        Raises:
            SapbertError: E070, it is too long; E073, it did not arrive in time.
            ClientGone: the client disconnected.
        """
        most = self.settings.max_body_bytes
        length = headers.get("content-length", "")
        if _DIGITS.fullmatch(length) and (len(length) > MOST_DIGITS or int(length) > most):
            raise fail("E070", most=most)
        try:
            return await asyncio.wait_for(_read(receive, most), self.settings.timeout)
        except asyncio.TimeoutError as error:
            raise fail("E073", seconds=self.settings.timeout) from error


async def _read(receive: Receive, most: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        body += message.get("body", b"")
        if len(body) > most:
            raise fail("E070", most=most)
        if not message.get("more_body", False):
            return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that first returns the body that was already read, and then passes on later messages."""
    given = False

    async def next_message() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return next_message


async def _send_error(error: Exception, send: Send, unread: Receive | None) -> None:
    """Send the answer for an exception.

    Args:
        error: the exception.
        send: sends messages to the client.
        unread: returns the body that was not read yet; None: it was read. The connection is closed after the rest of it was received.
    """
    status, content, headers = problem_of(error)
    body = json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")
    headers |= {"content-type": "application/json", "content-length": str(len(body))} | ({} if unread is None else {"connection": "close"})
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body, "more_body": unread is not None})
    if unread is not None:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(_discard(unread), DISCARD_SECONDS)
        await send({"type": "http.response.body", "body": b""})


async def _discard(receive: Receive) -> None:
    """Receive the rest of a body and drop it. If the connection is closed before, many clients see no answer, only an error.

    Raises:
        asyncio.TimeoutError: the client sends nothing more.
    """
    left, more = DISCARD_BYTES, True
    while more and left > 0:
        message = await asyncio.wait_for(receive(), DISCARD_IDLE_SECONDS)
        left -= len(message.get("body", b""))
        more = bool(message.get("more_body", False))  # False also if the client disconnected
