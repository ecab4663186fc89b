"""A collection of Milvus. It is written completely or not at all, and compared with the index before it is searched."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import SapbertError, ServerError, fail
from ...types import Floats2d, Ints1d
from .library import load_library
from .session import Session

ROW, VECTOR = "row", "vector"
_MESSAGE_BYTES = 32 << 20  # bytes of vectors in one message; servers accept 64 MB
_LEFTOVER_DAYS = 2  # an unfinished collection of another machine that is older was left by a killed build
_COMPARED_ROWS = 8  # vectors that are read back and compared when a collection is opened
_LOAD_SECONDS = 120.0  # that a server may take to load a collection into memory when a linker is opened


class Content(NamedTuple):
    """The required content of a collection."""

    name: str
    size: int  # number of vectors
    dim: int
    read: Callable[[Ints1d], Floats2d]  # rows (r,) -> vectors (r, dim) that were written
    timeout: float  # seconds that loading may take, if more than _LOAD_SECONDS


class Plan(NamedTuple):
    """How a collection is written."""

    prefix: str  # beginning of the names of this linker's collections (setting `collection`)
    local: bool
    index_type: str
    params: dict[str, Any]
    insert_batch: int  # number of vectors in one request
    timeout: float  # seconds that one step may take on the server


def open_collection(milvus: Session, content: Content) -> None:
    """Load a collection and check that it is the one that was built. No other collection is ever searched.

    Raises:
        SapbertError: E233, the collection does not exist; E234, it has other content.
    """
    name = content.name
    if not milvus.call("look for a collection", "has_collection", name):
        raise fail("E233", ServerError, collection=name, uri=milvus.shown)

    def other(why: str) -> SapbertError:
        return fail("E234", ServerError, collection=name, uri=milvus.shown, why=why)

    fields = {field["name"]: field for field in milvus.call("describe a collection", "describe_collection", name)["fields"]}
    dim = int(fields.get(VECTOR, {}).get("params", {}).get("dim", 0))
    if ROW not in fields or dim != content.dim:
        raise other(f"it has {dim} dimensions, {content.dim} were built" if ROW in fields and dim else f"its fields are {', '.join(fields)}")
    milvus.call("load the collection", "load_collection", name, timeout=max(_LOAD_SECONDS, content.timeout), tries=1)
    there = _count(milvus, name)
    if there != content.size:
        raise other(f"it has {there:,} vectors, {content.size:,} were built")
    rows = np.unique(np.linspace(0, content.size - 1, _COMPARED_ROWS).astype(np.int64))
    got = {hit[ROW]: hit[VECTOR] for hit in milvus.call("read vectors", "get", name, ids=rows.tolist(), output_fields=[ROW, VECTOR])}
    ours = content.read(rows)
    if len(got) != len(rows) or not np.allclose(np.array([got[row] for row in rows.tolist()]), ours, atol=2e-3):  # float16, and rounding
        raise other("its vectors are others")


def is_whole(milvus: Session, content: Content) -> bool:
    """Return whether a collection has the required content, and drop it if it was changed. Only a complete collection has its final name."""
    try:
        open_collection(milvus, content)
    except SapbertError as error:
        if error.code != "E234":
            raise
        milvus.call("drop a collection", "drop_collection", content.name)
        return False
    return True


def ensure_collection(milvus: Session, content: Content, plan: Plan, blocks: Iterator[tuple[int, Floats2d]]) -> None:
    """Write a collection, unless it already exists."""
    names = milvus.call("list its collections", "list_collections")
    if content.name not in names or not is_whole(milvus, content):
        _write(milvus, names, content, plan, blocks)


def _write(milvus: Session, names: list[str], content: Content, plan: Plan, blocks: Iterator[tuple[int, Floats2d]]) -> None:
    """Write a collection under another name, and rename it when it is complete. So the collection of a killed build is never searched."""
    final, building = content.name, f"{content.name}{_builder()}"
    for name in names:
        if name == building or _is_leftover(name, plan.prefix):
            milvus.call("drop a leftover", "drop_collection", name)
    try:
        library = load_library(plan.local)
        schema = library.MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field(ROW, library.DataType.INT64, is_primary=True)
        schema.add_field(VECTOR, library.DataType.FLOAT_VECTOR, dim=content.dim)
        milvus.call("make a collection", "create_collection", building, schema=schema, consistency_level="Bounded")
        size = max(1, min(plan.insert_batch, _MESSAGE_BYTES // (4 * content.dim)))
        for start, block in blocks:
            for first in range(0, len(block), size):
                rows = [{ROW: start + i, VECTOR: block[i]} for i in range(first, min(first + size, len(block)))]
                milvus.call("take vectors", "upsert", building, rows)  # an upsert, because pymilvus may send rows twice if an answer is lost
        milvus.call("write the collection", "flush", building, timeout=plan.timeout)
        index = library.MilvusClient.prepare_index_params()
        index.add_index(VECTOR, index_type=plan.index_type, metric_type="COSINE", params=plan.params)
        milvus.call("index the collection", "create_index", building, index, timeout=plan.timeout)
        milvus.call("load the collection", "load_collection", building, timeout=plan.timeout)
        there = _count(milvus, building)
        if there != content.size:
            raise fail("E234", collection=building, uri=milvus.shown, why=f"{there:,} of {content.size:,} vectors arrived")
        try:
            milvus.call("name the collection", "rename_collection", building, final)
        except SapbertError:  # another process may have built the same collection at the same time
            if final not in milvus.call("list its collections", "list_collections") or not is_whole(milvus, content):
                raise
            milvus.call("drop a collection", "drop_collection", building)
    except BaseException:
        with suppress(Exception):
            milvus.call("drop a leftover", "drop_collection", building)
        raise


def _count(milvus: Session, name: str) -> int:
    """Return the number of vectors in a collection."""
    found = milvus.call("count vectors", "query", name, filter="", output_fields=["count(*)"], consistency_level="Strong")
    return int(found[0]["count(*)"])


def _builder() -> str:
    """Return the end of an unfinished collection's name: the time when the build began, its machine and its process."""
    return f"_building_{int(time.time()) // 60:x}_{_machine()}_{os.getpid()}"


def _machine() -> str:
    """Return a hash that differs between machines, and between containers on one machine."""
    named = [socket.gethostname(), str(uuid.getnode())]
    with suppress(OSError):  # containers on one host may share name and network, but each numbers its own processes
        named.append(os.readlink("/proc/self/ns/pid"))
    with suppress(OSError):
        named.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
    return hashlib.blake2b(" ".join(named).encode(), digest_size=4).hexdigest()


def _is_leftover(name: str, collection: str) -> bool:
    """Return whether a collection was left by a killed build: its process no longer exists on this machine, or it is days old."""
    match = re.fullmatch(rf"{re.escape(collection)}_[0-9a-f]{{16}}_building_([0-9a-f]+)_([0-9a-f]{{8}})_(\d+)", name)
    if match is None:
        return False
    if time.time() // 60 - int(match[1], 16) > _LEFTOVER_DAYS * 24 * 60:
        return True
    if match[2] != _machine() or os.name != "posix":
        return False
    try:
        os.kill(int(match[3]), 0)
    except ProcessLookupError:
        return True
    except OSError:  # another user's process
        return False
    return False
