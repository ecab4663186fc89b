"""Milvus servers of this machine: milvus-lite's own, in the process of the tests."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Tuple


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
