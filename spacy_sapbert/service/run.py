"""Run the service in this process until it gets a signal to stop."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import h11
import uvicorn
from spacy.language import Language
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..errors import fail, logger
from .app import create_app
from .settings import ServiceSettings

MORE_SECONDS = 5  # a graceful stop may take so many seconds longer than a request
BACKLOG = 512  # connections that wait to be accepted
HEAD_SECONDS = 10.0  # after which the head of a request (its first line and headers) must have arrived


class _Protocol(H11Protocol):
    """uvicorn's protocol for HTTP/1.1. It closes a connection if the head of a request does not arrive in time, which uvicorn would wait for without limit."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(HEAD_SECONDS, self._end)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:  # the head is complete
            self._cancel()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._end)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        super().connection_lost(exc)

    def _end(self) -> None:
        self._deadline = None
        if self.conn.their_state is h11.IDLE:
            self.timeout_keep_alive_handler()  # it closes the connection

    def _cancel(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _Server(uvicorn.Server):
    """uvicorn's server, which SIGTERM, SIGINT and SIGHUP stop gracefully. They are not raised again afterwards, so that the exit code is 0."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # by nohup
        numbers = (signal.SIGTERM, signal.SIGINT, *(() if ignored else (signal.SIGHUP,)))
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(make: Callable[[], Language], settings: ServiceSettings, listening: Callable[[str], None] = lambda url: None) -> None:
    """Run the service until SIGTERM, SIGINT or SIGHUP. Requests that were accepted before are still answered.

    Args:
        make: function that creates the pipeline.
        settings: settings of the service.
        listening: called with the URL of the service.

    Raises:
        SapbertError: E079, the address cannot be used; errors of loading the pipeline.
    """
    settings.check_reach()
    errors: list[Exception] = []

    def failed(error: Exception) -> None:
        errors.append(error)
        server.should_exit = True

    app = create_app(make, settings, failed)
    config = uvicorn.Config(
        app,
        http=_Protocol,
        log_config=None,
        access_log=False,  # it would hold the queries
        log_level="warning",
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=int(settings.timeout) + MORE_SECONDS,
    )
    server = _Server(config)
    with _listen(settings) as listener:
        host, port = listener.getsockname()[:2]
        listening(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        server.run(sockets=[listener])
    if errors:
        raise errors[0]
    logger.info("stopped")


def _listen(settings: ServiceSettings) -> socket.socket:
    """Return a listening socket.

    Raises:
        SapbertError: E079, the address cannot be used.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family, kind, protocol)  # asyncio sends small answers at once only if the protocol is given
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise fail("E079", host=settings.host, port=settings.port, error=error.strerror or error) from error
    listener.setblocking(False)
    return listener
