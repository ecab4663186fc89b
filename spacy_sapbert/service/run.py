"""Run the service in this process until it is told to stop."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from spacy.language import Language

from ..errors import fail, logger
from .app import create_app
from .settings import ServiceSettings

MORE_SECONDS = 5  # for a graceful stop, beside what a request may take
BACKLOG = 512


class _Server(uvicorn.Server):
    """uvicorn's server. SIGTERM and SIGINT stop it gracefully and are not raised again, so that the exit code is 0."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(make: Callable[[], Language], settings: ServiceSettings, listening: Callable[[str], None] = lambda url: None) -> None:
    """Listen and answer until SIGTERM or SIGINT. What was accepted is answered first.

    Args:
        make: makes the pipeline.
        settings: of the service.
        listening: called with the service's address.

    Raises:
        SapbertError: E079, the address cannot be used; what loading the pipeline raises.
    """
    settings.check_reach()
    errors: list[Exception] = []

    def failed(error: Exception) -> None:
        errors.append(error)
        server.should_exit = True

    app = create_app(make, settings, failed)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,  # it would have the queries
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
    """Return a socket that listens.

    Raises:
        SapbertError: E079.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family, kind)
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
