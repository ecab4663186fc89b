"""Milvus servers of this machine: milvus-lite's own, in the process of the tests, and the real one, in a process of its own."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Tuple

import pytest
from filelock import FileLock


def serve(intercept: Any = None) -> Tuple[str, Callable[[], None]]:
    """A fresh, empty server at a free port. RETURNS: its uri, and what stops it."""
    import grpc
    from milvus_lite.adapter.grpc.servicer import MilvusServicer
    from milvus_lite.db import MilvusLite
    from pymilvus.grpc_gen import milvus_pb2_grpc

    folder = tempfile.mkdtemp()
    database = MilvusLite(folder)
    server = grpc.server(ThreadPoolExecutor(4), interceptors=[intercept] if intercept is not None else [])
    milvus_pb2_grpc.add_MilvusServiceServicer_to_server(MilvusServicer(database), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()

    def stop() -> None:
        server.stop(grace=None).wait()
        database.close()
        shutil.rmtree(folder, ignore_errors=True)

    return f"http://127.0.0.1:{port}", stop


@functools.cache
def milvus_server() -> str:
    """One for all tests."""
    uri, stop = serve()
    atexit.register(stop)
    return uri


class Standalone:
    """The server itself, from PyPI's package `milvus` (Linux on x86-64), in a process of its own with a fresh folder."""

    def __init__(self, **config: Any) -> None:
        milvus = pytest.importorskip("milvus", reason="the server is not installed: pip install milvus==2.3.5")
        self._folder = tempfile.mkdtemp()
        self._server = milvus.MilvusServer()
        self._server.set_base_dir(self._folder)
        self._server.config.update(**config)
        self._server.config.set("common.session.ttl", 300)  # seconds; else it ends itself where a busy machine keeps it waiting for 30
        self.start()
        atexit.register(self.stop)
        self._server.config.update(proxy_port=self._server.listen_port)  # where it is started again
        self.address = f"127.0.0.1:{self._server.listen_port}"
        self.uri = f"http://{self.address}"

    def start(self) -> None:
        """Start it, and wait until it says that it is healthy."""
        with FileLock(Path(tempfile.gettempdir()) / "spacy-sapbert-milvus.lock"):  # it looks for free ports, which others do at the same time
            self._server.start()

    def kill(self) -> None:
        """Kill it, as a machine that fails would; its data stay."""
        self._server.server_proc.kill()
        self._server.server_proc.wait()

    def stop(self) -> None:
        """Stop it, and remove its data."""
        self._server.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


@functools.cache
def standalone() -> Standalone:
    """One for all tests of this process, or skip."""
    return Standalone()


def fresh(kind: str) -> Tuple[str, Callable[[], None]]:
    """A server without collections: "lite" or "standalone". RETURNS: its uri, and what stops it."""
    if kind == "lite":
        return serve()
    from pymilvus import MilvusClient

    uri = standalone().uri
    client = MilvusClient(uri)
    for name in client.list_collections():
        client.drop_collection(name)
    return uri, client.close
