"""Milvus servers on this machine: that of milvus-lite in the process of the tests, and the real server in a separate process."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import socket
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable, Optional, Tuple

import pytest
from filelock import FileLock


def free_port() -> int:
    """Return a port of this machine that is not in use."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def listening(port: int) -> Optional[socket.socket]:
    """Return a socket that listens at a port, even if old connections of a killed server still exist. None: the port is in use."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(("127.0.0.1", port))
        found.listen()
    except OSError:
        found.close()
        return None
    return found


def serve(intercept: Any = None, credentials: Any = None) -> Tuple[str, Callable[[], None]]:
    """Start an empty server at a free port, with `credentials` of gRPC at https://. Return its uri and the function that stops it."""
    import grpc
    from milvus_lite.adapter.grpc.servicer import MilvusServicer
    from milvus_lite.db import MilvusLite
    from pymilvus.grpc_gen import milvus_pb2_grpc

    folder = tempfile.mkdtemp()
    database = MilvusLite(folder)
    server = grpc.server(ThreadPoolExecutor(4), interceptors=[intercept] if intercept is not None else [])
    milvus_pb2_grpc.add_MilvusServiceServicer_to_server(MilvusServicer(database), server)
    port = server.add_insecure_port("127.0.0.1:0") if credentials is None else server.add_secure_port("127.0.0.1:0", credentials)
    server.start()

    def stop() -> None:
        server.stop(grace=None).wait()
        database.close()
        shutil.rmtree(folder, ignore_errors=True)

    return f"{'http' if credentials is None else 'https'}://127.0.0.1:{port}", stop


@functools.cache
def milvus_server() -> str:
    """One server for all tests."""
    uri, stop = serve()
    atexit.register(stop)
    return uri


class Standalone:
    """The real server from the package `milvus` on PyPI (Linux on x86-64), in a separate process with an empty folder."""

    def __init__(self, lease: int = 300, **config: Any) -> None:
        if os.environ.get("SPACY_SAPBERT_MILVUS") == "required":  # `make test-milvus`: these tests must not be skipped
            import milvus
        else:
            milvus = pytest.importorskip("milvus", reason="the server is not installed: pip install milvus==2.3.5")
        self._folder = Path(tempfile.mkdtemp())
        self._server = milvus.MilvusServer(wait_for_started=False)
        self._server.set_base_dir(str(self._folder))
        self._server.config.try_bind_port = listening
        config = {"proxy_port": free_port(), **config}
        self._server.config.update(**config)
        for name, value in config.items():
            self._server.config.set(name, value)
        # seconds: a server that cannot renew its lease for this time stops; a killed server is noticed only after this time
        self._server.config.set("common.session.ttl", lease)
        peers, clients = (f"http://localhost:{free_port()}" for _ in range(2))  # the default ports are the same for all servers of a machine
        urls = {"listen-peer-urls": peers, "initial-advertise-peer-urls": peers, "initial-cluster": f"default={peers}"}
        urls.update({"listen-client-urls": clients, "advertise-client-urls": clients})
        (self._folder / "etcd.json").write_text(json.dumps(urls))  # JSON is YAML
        known = self._server.config.template_text
        self._server.config.template_text = known.replace("  use:\n    embed", f"  config:\n    path: {self._folder}/etcd.json\n  use:\n    embed", 1)
        atexit.register(self.stop)
        self.start()
        self.address = f"127.0.0.1:{config['proxy_port']}"
        self.uri = f"http://{self.address}"

    def start(self, seconds: float = 240.0) -> None:
        """Start it, and wait until it says that it is healthy."""
        with FileLock(Path(tempfile.gettempdir()) / "spacy-sapbert-milvus.lock"):  # it looks for free ports, as other processes may do
            self._server.start()
            process, before = self._server.server_proc, time.monotonic()
            while process.poll() is None and time.monotonic() < before + seconds:
                with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self._server.webservice_port}/healthz", timeout=10) as answer:
                    if b"OK" in answer.read():
                        return
                time.sleep(0.2)
        raise RuntimeError(f"the server did not start: {(self._folder / 'logs' / 'milvus-stderr.log').read_text()[-2000:]}")

    def kill(self) -> None:
        """Kill it, as when a machine fails; its data are kept."""
        self._server.server_proc.kill()
        self._server.server_proc.wait()

    def stop(self) -> None:
        """Stop it, and remove its data."""
        self._server.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


@functools.cache
def standalone() -> Standalone:
    """One server for all tests of this process; skip if there is none."""
    return Standalone()


def fresh(kind: str) -> Tuple[str, Callable[[], None]]:
    """Start a server without collections, "lite" or "standalone". Return its uri and the function that stops it."""
    if kind == "lite":
        return serve()
    from pymilvus import MilvusClient

    uri = standalone().uri
    client = MilvusClient(uri)
    for name in client.list_collections():
        client.drop_collection(name)
    return uri, client.close
