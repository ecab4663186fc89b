"""A connection to Milvus: to a server, or to a local database that this process serves."""

from __future__ import annotations

import os
import socket
import time
import weakref
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from ...errors import SapbertError, ServerError, fail
from .database import DATABASE, Scratch, copy_database
from .library import load_library
from .servers import AUTHORITY, tls_options

_LOST = ("UNAVAILABLE", 1, 2)  # no connection, or a server that is starting: the request is repeated until the timeout is over
_AGAIN = (*_LOST, "DEADLINE_EXCEEDED", "ABORTED")  # the same request may succeed the next time
_NOT_LOADED = (101, 103)  # the server was restarted after the collection was loaded
_OUT_OF_TIME = "Retry timeout: "  # pymilvus's words if a server itself ended a request whose time was over; its error number says nothing about this
_REFUSED = ("UNAUTHENTICATED", "PERMISSION_DENIED", 1400, 1401)
# pymilvus pings every 10 s. milvus-lite sometimes closed the connection ("too_many_pings") during large builds. Each request has a timeout anyway
_CHANNEL = {"grpc.keepalive_time_ms": 330_000, "grpc.keepalive_permit_without_calls": 0}


class Session:
    """The connection of one process: to a server, or to a local database that is served only to this process.

    Args:
        uri: Uri of the server; "" for a local database.
        token: The server's token; "" for none.
        token_env: The environment variable that the token comes from, for error messages.
        database: The folder of a local database; None for a server.
        private: Open a copy of the local database, so that others can search the same files, which are not changed.
        timeout: Seconds to wait for an answer of a server.
        retries: How often a request that was lost or took too long is sent again.
        build_timeout: Seconds to wait for an answer of a local database.

    Raises:
        SapbertError: E002 and E401 (certificates), E205, E230, E231, E233, E235, E236.
    """

    def __init__(
        self, uri: str, token: str, token_env: str, database: Path | None, private: bool, timeout: float, retries: int, build_timeout: float
    ) -> None:
        self.pid, self.shown = os.getpid(), str(database) if database is not None else uri
        self.token_env, self.timeout, self.retries = token_env, timeout, retries
        self._scratch: Scratch | None = None
        self._served: tuple[Any, Any] = (None, None)
        library = load_library(database is not None)
        try:
            if database is not None:
                self.timeout = build_timeout  # a short timeout would not help, because the work is done in this process
                uri = self._serve(database, private)
            self.client = library.MilvusClient(uri, token=token, timeout=timeout, dedicated=True, grpc_options=_CHANNEL, **tls_options(uri))
        except BaseException as error:
            self.close()
            if isinstance(error, Exception) and not isinstance(error, SapbertError):
                raise self._explained(error, "answer", timeout, connecting=True) from error
            raise
        self._finalizer = weakref.finalize(self, _shut, self.client, self._served, self.pid)

    def _serve(self, database: Path, private: bool) -> str:
        """Serve a local database to this process, and return its uri."""
        from milvus_lite.adapter.grpc.server import start_server_in_thread
        from milvus_lite.exceptions import DataDirLockedError

        self._scratch = Scratch()
        if private:
            copy_database(database, self._scratch.path / DATABASE, link=True)
            database = self._scratch.path / DATABASE
        # a port is open to every user, so a socket in a folder that only this user may enter is better, if the system has it and its path is short
        path = self._scratch.path / "socket"
        host = f"unix:{path}" if hasattr(socket, "AF_UNIX") and len(str(path)) < 90 else "127.0.0.1"
        try:
            server, opened, port = start_server_in_thread(str(database), host=host, port=0)
        except DataDirLockedError as error:
            raise fail("E235", path=database) from error
        except OSError as error:
            raise fail("E236", uri=self.shown, doing="open the file", why=str(error)) from error
        self._served = (server, opened)
        return f"{host}:0" if host.startswith("unix:") else f"http://{host}:{port}"

    def call(self, doing: str, method: str, *args: Any, timeout: float | None = None, tries: int = 0, **kwargs: Any) -> Any:
        """Call a method of the client. If that may help, repeat the call after growing pauses.

        Args:
            doing: What Milvus is asked to do, for error messages.
            method: Name of the method.
            *args: Arguments of the method.
            timeout: Seconds to wait for an answer; None for the session's timeout.
            tries: How often to try; 0 for `retries` + 1. If the connection is lost, the call is repeated until `timeout` is over.
            **kwargs: Keyword arguments of the method.

        Returns:
            The result of the method.

        Raises:
            SapbertError: E230, E231, E232, E236.
        """
        limit, tries = timeout or self.timeout, tries or self.retries + 1
        begun = time.monotonic()
        for attempt in count():
            try:
                return getattr(self.client, method)(*args, timeout=limit, **kwargs)
            except Exception as error:
                status = _status(error)
                waiting = status in _LOST and time.monotonic() - begun < limit
                if not waiting and (attempt >= tries - 1 or status not in _AGAIN):
                    raise self._explained(error, doing, limit, tries=tries) from error
            time.sleep(min(0.2 * 2**attempt, 5.0))
        raise AssertionError("unreachable")

    def _explained(self, error: Exception, doing: str, limit: float, *, connecting: bool = False, tries: int = 1) -> SapbertError:
        """Return this package's error for an error of pymilvus."""
        status, why = _status(error), _message(error)
        if status in _REFUSED:
            what = "holds this token" if os.environ.get(self.token_env) else "is not set, or empty"
            return fail("E231", ServerError, uri=self.shown, env=self.token_env or "that token_env should name", what=what, why=why)
        if connecting or status in _LOST:
            if self.shown.startswith("https://") and not os.environ.get(AUTHORITY):
                why += f". If an authority of your own signed its certificate, name the authority's file in {AUTHORITY}"
            return fail("E230", ServerError, uri=self.shown, seconds=limit, why=why)
        if status == "DEADLINE_EXCEEDED":
            return fail("E232", ServerError, uri=self.shown, doing=doing, seconds=limit, times=tries)
        return fail("E236", ServerError, uri=self.shown, doing=doing, why=why)

    def close(self) -> None:
        """Close the connection and remove temporary files."""
        if hasattr(self, "_finalizer"):
            self._finalizer()
        elif self._served[0] is not None:
            _shut(None, self._served, self.pid)
        if self._scratch is not None:
            self._scratch.remove()


def _shut(client: Any, served: tuple[Any, Any], owner: int) -> None:
    if os.getpid() != owner:
        return
    server, database = served
    with suppress(Exception):
        if client is not None:
            client.close()
    with suppress(Exception):
        if server is not None:
            server.stop(grace=None).wait(5)
            database.close()


def is_not_loaded(error: SapbertError) -> bool:
    """Return whether the error means that the server has the collection, but has not loaded it into memory."""
    return _status(error.__cause__) in _NOT_LOADED


def _status(error: BaseException | None) -> Any:
    """Return the name of the gRPC status that caused an error, or Milvus's own error number."""
    number, seen, late = 0, set(), False
    while error is not None and id(error) not in seen:  # pymilvus raises a server's error as its own cause
        seen.add(id(error))
        late = late or _OUT_OF_TIME in str(getattr(error, "message", ""))
        code = getattr(error, "code", None)
        code = code() if callable(code) else code
        if isinstance(code, int):
            number = number or code
        elif code is not None:
            return getattr(code, "name", code)
        error = error.__cause__
    return "DEADLINE_EXCEEDED" if late and number not in _LOST else number


def _message(error: BaseException) -> str:
    """Return the server's own message, if it sent one."""
    details = getattr(error, "details", None)
    if callable(details) and details():
        return str(details())
    if error.__cause__ not in (None, error) and not getattr(error, "message", ""):
        return _message(error.__cause__)
    return str(getattr(error, "message", "") or error)
