"""Milvus (Zilliz): one `uri`, of a file here (milvus-lite, in this process) or of a server or cluster: that line is all that changes.

The vectors also lie in the index's folder, as float16: Milvus names candidates, we compare them in full, and a filter that leaves few rows is
searched exactly, as with every engine. What is sent to Milvus are vectors and row numbers: no names, no text.
"""

from __future__ import annotations

import hashlib
import json
import logging
import multiprocessing
import os
import re
import shutil
import socket
import sys
import tempfile
import threading
import time
import uuid
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple
from urllib.parse import urlsplit

import numpy as np

from ..errors import DamagedFile, SapbertError, fail
from ..types import Floats2d, Ints2d
from .rescored import RescoredIndex

DATABASE = "milvus.db"  # of milvus-lite, in the index's folder
ROW, VECTOR = "row", "vector"
# what is looked at per query: Milvus's own names of it, by kind of index; "" where there is no such setting
SEARCH_SETTINGS: Dict[str, str] = {
    "AUTOINDEX": "",
    "FLAT": "",
    "HNSW": "ef",
    "HNSW_SQ": "ef",
    "HNSW_PQ": "ef",
    "HNSW_PRQ": "ef",
    "IVF_FLAT": "nprobe",
    "IVF_SQ8": "nprobe",
    "IVF_PQ": "nprobe",
    "IVF_RABITQ": "nprobe",
    "SCANN": "nprobe",
    "DISKANN": "search_list",
}
LITE = ("AUTOINDEX", "FLAT", "HNSW", "HNSW_SQ", "IVF_FLAT", "IVF_SQ8")  # what milvus-lite has of them
BUILD: Dict[str, Dict[str, Any]] = {"ef": {"M": 16, "efConstruction": 128}, "nprobe": {"nlist": 1024}}
SEARCH_TO_TRY: Dict[str, List[int]] = {
    "ef": [32, 64, 128, 256, 512, 1024],
    "nprobe": [4, 8, 16, 32, 64, 128, 256],
    "search_list": [64, 128, 256, 512, 1024],
}
MOST_CANDIDATES = 16_384  # Milvus gives no more of a query; where that is too few, rows are searched exactly
_MESSAGE_BYTES = 32 << 20  # vectors in one message; servers take 64 MB
_LEFTOVER_DAYS = 2  # after which an unfinished collection of another machine is taken for abandoned
_COMPARED_ROWS = 8  # vectors that are read back when a collection is opened
_AGAIN = ("DEADLINE_EXCEEDED", "UNAVAILABLE", "ABORTED")  # the same request may go well the next time
_REFUSED = ("UNAUTHENTICATED", "PERMISSION_DENIED", 1400, 1401)
# pymilvus pings every 10 s; milvus-lite was seen to hang up ("too_many_pings") while a large index was built. Every request has a time-out anyway
_CHANNEL = {"grpc.keepalive_time_ms": 330_000, "grpc.keepalive_permit_without_calls": 0}
_SERVERS = ("http://", "https://", "tcp://", "unix:")
_HERE = ("localhost", "127.0.0.1", "::1")
TRUSTED = "MILVUS_URI"  # the environment variable that names a server to which a folder may lead
_LOAD_SECONDS = 120.0  # for a server to have a collection in memory, when a linker is opened

_LOCK = threading.Lock()
_INHERITED: List[Any] = []  # sessions of the process that this one was forked from: neither used nor closed here


def _new_lock() -> None:
    global _LOCK
    _LOCK = threading.Lock()  # another thread of the parent may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)


class MilvusIndex(RescoredIndex):
    """`spacy-sapbert.MilvusIndex.v1`; `pip install spacy-sapbert[milvus]`.

    uri (str): "http://localhost:19530", "https://…" (a server, a cluster, Zilliz Cloud), or a local file that ends in ".db" (milvus-lite); empty: a file
        in the index's own folder. A folder that is read brings the uri it was built with, unless the reader gives another. To a server that is not on
        this machine it leads only a reader who names that server too, here or in the environment variable MILVUS_URI: vectors of mentions are sent there.
    token_env (str): the environment variable that holds the token ("user:password", or an API key). It is never written to a file, and never taken from a
        folder that is read: somebody else's folder must not choose which of your secrets is sent where.
    collection (str): what the collection's name begins with; a fingerprint of vectors and settings follows, so that linkers on one server never collide,
        and the same content is not stored twice. Nothing deletes a finished collection: old ones are yours to drop.
    index_type (str): AUTOINDEX, FLAT, HNSW, HNSW_SQ, HNSW_PQ, HNSW_PRQ, IVF_FLAT, IVF_SQ8, IVF_PQ, IVF_RABITQ, SCANN or DISKANN; of these milvus-lite has
        AUTOINDEX, FLAT, HNSW, HNSW_SQ, IVF_FLAT and IVF_SQ8.
    params (Optional[Dict[str, Any]]): of the index, in Milvus's words: {"M": 16, "efConstruction": 128}, {"nlist": 1024} …
    search (int): nodes or lists looked at per query (ef, nprobe, search_list); AUTOINDEX and FLAT have no such setting.
    pca (int): dimensions that Milvus sees; 0 for all. rescore (int): candidates per query compared in full.
    tune (bool): as of `AnnoyIndex`, over `search`. threads (int): requests at once; 0 for one per core.
    insert_batch, search_batch (int): vectors in one request.
    timeout (float): seconds for an answer. retries (int): how often a request that was lost or took too long is sent again, after growing pauses.
    build_timeout (float): seconds for one step of building on the side of the server: to write, index or load the collection.
    seed (int): of the PCA's sample.
    RAISES: SapbertError E002 (a setting), E205 (a library is not installed), E230 (no server), E231 (token), E232 (too slow), E233 (no such collection),
        E234 (another one), E235 (a local file in use), E236 (anything else Milvus says), E237 (a server that the reader did not name).
    """

    kind = "milvus index"
    own = (
        "uri",
        "token_env",
        "collection",
        "index_type",
        "params",
        "search",
        "insert_batch",
        "search_batch",
        "timeout",
        "retries",
        "build_timeout",
    )
    grown = ("collection", "index_type", "params", "pca")
    searched = ("search", "rescore")
    readers = ("threads", "uri", "token_env", "insert_batch", "search_batch", "timeout", "retries", "build_timeout")

    def __init__(
        self,
        uri: str = "",
        token_env: str = "MILVUS_TOKEN",
        collection: str = "spacy_sapbert",
        index_type: str = "HNSW",
        params: Optional[Dict[str, Any]] = None,
        search: int = 64,
        pca: int = 0,
        rescore: int = 50,
        tune: bool = True,
        threads: int = 0,
        insert_batch: int = 5_000,
        search_batch: int = 256,
        timeout: float = 10.0,
        retries: int = 2,
        build_timeout: float = 3600.0,
        seed: int = 13,
    ) -> None:
        super().__init__(pca, rescore, tune, threads, seed)
        self.uri, self.token_env, self.collection, self.index_type = uri, token_env, collection, index_type
        if params is not None and not isinstance(params, dict):
            raise fail("E002", setting="params", component="MilvusIndex", value=params, why='give names and values, such as {"M": 16}.')
        self.params: Dict[str, Any] = dict(params or {})
        self.search, self.insert_batch, self.search_batch = search, insert_batch, search_batch
        self.timeout, self.retries, self.build_timeout = timeout, retries, build_timeout
        self._at_least(search=1, insert_batch=1, search_batch=1, retries=0)
        for name in ("timeout", "build_timeout"):
            if not getattr(self, name) > 0:
                raise fail("E002", setting=name, component="MilvusIndex", value=getattr(self, name), why="it must be more than 0 seconds.")
        if index_type not in SEARCH_SETTINGS:
            raise fail("E002", setting="index_type", component="MilvusIndex", value=index_type, why=f"known are {', '.join(SEARCH_SETTINGS)}.")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", collection):
            why = "it must be letters, digits and underscores, at most 100, and begin with no digit."
            raise fail("E002", setting="collection", component="MilvusIndex", value=collection, why=why)
        _check_uri(uri)
        if uri and self.local:
            self.uri = os.path.abspath(uri)  # it is written into the folder, and read from wherever
        self._named: Dict[str, str] = {}  # the collection's whole name, and the fingerprint of what is in it
        self._database: Optional[Path] = None  # of milvus-lite; None on a server
        self._session: Optional[_Session] = None

    @property
    def queries_at_once(self) -> int:
        return self.search_batch

    @property
    def search_setting(self) -> str:
        """What Milvus calls `search` for this kind of index; "" where it has nothing of the kind."""
        return SEARCH_SETTINGS[self.index_type]

    def settings_to_try(self, size: int) -> List[Dict[str, Any]]:
        """As `AnnoyIndex.settings_to_try`, `search` rising; of an index without such a setting there is nothing to try."""
        return self._rising("search", SEARCH_TO_TRY[self.search_setting], size) if self.search_setting else []

    def require(self) -> None:
        """RAISES: SapbertError E002, E205, E230, E231, E232, E235: now, and not after hours of encoding."""
        _library(self.local)
        if self.local and self.index_type not in LITE:
            why = f"milvus-lite has {', '.join(LITE)}; others need a server."
            raise fail("E002", setting="index_type", component="MilvusIndex", value=self.index_type, why=why)
        if self.uri:
            with self._writing(Path(self.uri) if self.local else None) as milvus:
                milvus.call("list its collections", "list_collections")

    # -- building ---------------------------------------------------------------------------------------------------------

    @property
    def local(self) -> bool:
        return not self.uri.startswith(_SERVERS)

    def _grow(self, blocks: Iterator[Tuple[int, Floats2d]], total: int) -> Any:
        self.require()
        self.close()
        fingerprint = self._fingerprint()
        self._named = {"collection": f"{self.collection}_{fingerprint[:16]}", "fingerprint": fingerprint}
        self._database = Path(self.uri) if self.uri and self.local else None
        scratch = None
        if not self.uri:
            scratch = _Scratch()
            self._database = scratch.path / DATABASE
        with self._writing(self._database) as milvus:
            names = milvus.call("list its collections", "list_collections")
            if self._named["collection"] not in names or not self._is_whole(milvus):
                self._write(milvus, names, blocks, total)
        return scratch or True  # kept: its files go with it

    def _fingerprint(self) -> str:
        """Of the vectors and of all that says how Milvus stores them."""
        digest = hashlib.blake2b(digest_size=32)
        grown = [self.index_type, self._build_params(), self.tree_dim, self.seed if self._projection is not None else None]
        digest.update(json.dumps([*grown, str(self._stored.dtype), self._stored.shape], sort_keys=True).encode())
        for start in range(0, len(self), 100_000):
            digest.update(np.ascontiguousarray(self._stored[start : start + 100_000]).data)
        return digest.hexdigest()

    def _build_params(self) -> Dict[str, Any]:
        return {**BUILD.get(self.search_setting, {}), **self.params}

    def _is_whole(self, milvus: _Session) -> bool:
        """A collection has its final name only when it is whole; whoever changed it since has spoilt it, and it is made anew."""
        try:
            self._open_collection(milvus)
        except SapbertError as error:
            if error.code != "E234":
                raise
            milvus.call("drop a collection", "drop_collection", self._named["collection"])
            return False
        return True

    def _write(self, milvus: _Session, names: List[str], blocks: Iterator[Tuple[int, Floats2d]], total: int) -> None:
        """Into a collection of another name, which gets its own when it is whole: a build that is killed leaves nothing that is ever searched."""
        final, building = self._named["collection"], f"{self._named['collection']}{_builder()}"
        for name in names:
            if name == building or _is_leftover(name, self.collection):
                milvus.call("drop a leftover", "drop_collection", name)
        try:
            library = _library(self.local)
            schema = library.MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
            schema.add_field(ROW, library.DataType.INT64, is_primary=True)
            schema.add_field(VECTOR, library.DataType.FLOAT_VECTOR, dim=self.tree_dim)
            milvus.call("make a collection", "create_collection", building, schema=schema, consistency_level="Bounded")
            size = max(1, min(self.insert_batch, _MESSAGE_BYTES // (4 * self.tree_dim)))
            for start, block in blocks:
                for first in range(0, len(block), size):
                    rows = [{ROW: start + i, VECTOR: block[i]} for i in range(first, min(first + size, len(block)))]
                    milvus.call("take vectors", "upsert", building, rows)  # pymilvus repeats by itself: of a lost answer the rows may be there
            long = self.build_timeout
            milvus.call("write the collection", "flush", building, timeout=long)
            plan = library.MilvusClient.prepare_index_params()
            plan.add_index(VECTOR, index_type=self.index_type, metric_type="COSINE", params=self._build_params())
            milvus.call("index the collection", "create_index", building, plan, timeout=long)
            milvus.call("load the collection", "load_collection", building, timeout=long)
            there = _count(milvus, building)
            if there != total:
                raise fail("E234", collection=building, uri=milvus.shown, why=f"{there:,} of {total:,} vectors arrived")
            try:
                milvus.call("name the collection", "rename_collection", building, final)
            except SapbertError:  # somebody else built the same at the same time
                if final not in milvus.call("list its collections", "list_collections") or not self._is_whole(milvus):
                    raise
                milvus.call("drop a collection", "drop_collection", building)
        except BaseException:
            with suppress(Exception):
                milvus.call("drop a leftover", "drop_collection", building)
            raise

    # -- searching --------------------------------------------------------------------------------------------------------

    def _nearest(self, queries: Floats2d, fetch: int, effort: float) -> Ints2d:
        fetch = min(fetch, MOST_CANDIDATES)
        params: Dict[str, Any] = {}
        if self.search_setting:
            looked_at = max(1, int(self.search * effort))
            lists = self._build_params().get("nlist")
            params[self.search_setting] = min(looked_at, lists) if self.search_setting == "nprobe" and lists else max(looked_at, fetch)
        found = self._opened().call(
            "search",
            "search",
            self._named["collection"],
            data=list(queries),
            anns_field=VECTOR,
            limit=fetch,
            search_params={"metric_type": "COSINE", "params": params},
            output_fields=[ROW],  # of an empty list milvus-lite makes all fields
        )
        rows = np.full((len(queries), fetch), -1, dtype=np.int64)
        for line, hits in zip(rows, found):
            ids = np.unique(np.fromiter(hits.ids, dtype=np.int64))  # sorted: they are compared in full
            line[: len(ids)] = ids
        return rows

    def _opened(self) -> _Session:
        """This process's own connection: gRPC's does not outlive a fork, and milvus-lite lets one process have a file."""
        if self._session is None or self._session.pid != os.getpid():
            with _LOCK:
                if self._session is not None and self._session.pid != os.getpid():
                    _INHERITED.append(self._session)
                    self._session = None
                if self._session is None:
                    session = self._connect(self._database, private=True)
                    try:
                        self._open_collection(session)
                    except BaseException:
                        session.close()
                        raise
                    self._session = session
        return self._session

    def _open_collection(self, milvus: _Session) -> None:
        """RAISES: SapbertError E233 where the collection is gone, E234 where it is not the one that was built: nothing else is ever searched."""
        name = self._named["collection"]
        if not milvus.call("look for a collection", "has_collection", name):
            raise fail("E233", collection=name, uri=milvus.shown)

        def other(why: str) -> SapbertError:
            return fail("E234", collection=name, uri=milvus.shown, why=why)

        fields = {field["name"]: field for field in milvus.call("describe a collection", "describe_collection", name)["fields"]}
        dim = int(fields.get(VECTOR, {}).get("params", {}).get("dim", 0))
        if ROW not in fields or dim != self.tree_dim:
            raise other(f"it has {dim} dimensions, {self.tree_dim} were built" if ROW in fields and dim else f"its fields are {', '.join(fields)}")
        milvus.call("load the collection", "load_collection", name, timeout=max(_LOAD_SECONDS, self.timeout), tries=1)
        there = _count(milvus, name)
        if there != len(self):
            raise other(f"it has {there:,} vectors, {len(self):,} were built")
        rows = np.unique(np.linspace(0, len(self) - 1, _COMPARED_ROWS).astype(np.int64))
        got = {hit[ROW]: hit[VECTOR] for hit in milvus.call("read vectors", "get", name, ids=rows.tolist(), output_fields=[ROW, VECTOR])}
        ours = self._project(self.vectors(rows))
        if len(got) != len(rows) or not np.allclose(np.array([got[row] for row in rows.tolist()]), ours, atol=2e-3):  # float16, and rounding
            raise other("its vectors are others")

    def close(self) -> None:
        """Let the connection go; the next query makes another."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    @contextmanager
    def _writing(self, database: Optional[Path]) -> Iterator[_Session]:
        session = self._connect(database, private=False)
        try:
            yield session
        finally:
            session.close()

    def _connect(self, database: Optional[Path], *, private: bool) -> _Session:
        token = os.environ.get(self.token_env, "") if self.token_env and not self.local else ""
        return _Session(self.uri, token, self.token_env, database, private, self.timeout, self.retries, self.build_timeout)

    # -- the folder -------------------------------------------------------------------------------------------------------

    def _save_engine(self, path: Path) -> None:
        if self.uri or self._database is None:
            return
        fresh, old = path / f"{DATABASE}.new", path / f"{DATABASE}.old"
        for left in (fresh, old):
            shutil.rmtree(left, ignore_errors=True)
        _copy_database(self._database, fresh, link=False)
        if (path / DATABASE).exists():
            os.replace(path / DATABASE, old)
        os.replace(fresh, path / DATABASE)
        shutil.rmtree(old, ignore_errors=True)

    def _write_folder(self, path: Path, **content: Any) -> None:
        super()._write_folder(path, **content, milvus=self._named)

    def _read_folder(self, path: Path) -> Dict[str, Any]:
        manifest = super()._read_folder(path)
        named = manifest.get("milvus", {})
        if not isinstance(named, dict) or not named.get("collection"):
            raise fail("E202", DamagedFile, path=path, why="the manifest names no collection")
        self._named = named
        uri = str(manifest["config"]["uri"])
        if not self.uri and uri.startswith(_SERVERS):
            host = urlsplit(uri).hostname or ""
            if not uri.startswith("unix:") and host not in _HERE and os.environ.get(TRUSTED) != uri:
                raise fail("E237", path=path, uri=uri, env=TRUSTED)
        self.uri = self.uri or uri
        return manifest

    def _open_engine(self, path: Path) -> Any:
        _library(self.local)
        self.close()
        self._database = None if not self.local else Path(self.uri) if self.uri else path / DATABASE
        if self._database is not None and not self._database.is_dir():
            raise fail("E233", collection=self._named["collection"], uri=self._database)
        if self.uri:  # the file in the folder was checked with the folder; what lies elsewhere is looked at now
            self._opened()
            self.close()  # the fewer connections are open where a process forks, the better
        return True


class _Scratch:
    """A temporary folder that goes with its object, unless another process than the one that made it drops it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="milvus-"))
        self._finalizer = weakref.finalize(self, _remove, self.path, os.getpid())
        if multiprocessing.parent_process() is not None:  # a worker process leaves without finalizers of weakref's
            Finalize(None, _remove, (self.path, os.getpid()), exitpriority=10)

    def remove(self) -> None:
        self._finalizer()


def _remove(path: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


class _Session:
    """One process's connection: to a server, or to a local database that is served to this process alone.

    private: open a copy of the local database, of links where they can be made: others may search the same files, and these are not changed.
    """

    def __init__(
        self, uri: str, token: str, token_env: str, database: Optional[Path], private: bool, timeout: float, retries: int, build_timeout: float
    ) -> None:
        self.pid, self.shown = os.getpid(), str(database) if database is not None else uri
        self.token_env, self.timeout, self.retries = token_env, timeout, retries
        self._scratch: Optional[_Scratch] = None
        self._served: Tuple[Any, Any] = (None, None)
        library = _library(database is not None)
        try:
            if database is not None:
                self.timeout = build_timeout  # in this process: nobody else's to wait for
                uri = self._serve(database, private)
            self.client = library.MilvusClient(uri, token=token, timeout=timeout, dedicated=True, grpc_options=_CHANNEL)
        except BaseException as error:
            self.close()
            if isinstance(error, Exception) and not isinstance(error, SapbertError):
                raise self._explained(error, "answer", timeout, connecting=True) from error
            raise
        self._finalizer = weakref.finalize(self, _shut, self.client, self._served, self.pid)

    def _serve(self, database: Path, private: bool) -> str:
        from milvus_lite.adapter.grpc.server import start_server_in_thread
        from milvus_lite.exceptions import DataDirLockedError

        self._scratch = _Scratch()
        if private:
            _copy_database(database, self._scratch.path / DATABASE, link=True)
            database = self._scratch.path / DATABASE
        # a socket in a folder that only we may enter, where there is such a thing and its name is not too long: a port is open to every user
        door = self._scratch.path / "socket"
        host = f"unix:{door}" if hasattr(socket, "AF_UNIX") and len(str(door)) < 90 else "127.0.0.1"
        try:
            server, opened, port = start_server_in_thread(str(database), host=host, port=0)
        except DataDirLockedError as error:
            raise fail("E235", path=database) from error
        except OSError as error:
            raise fail("E236", uri=self.shown, doing="open the file", why=str(error)) from error
        self._served = (server, opened)
        return f"{host}:0" if host.startswith("unix:") else f"http://{host}:{port}"

    def call(self, doing: str, method: str, *args: Any, timeout: Optional[float] = None, tries: int = 0, **kwargs: Any) -> Any:
        """A method of the client; again, after a growing pause, where that may help. tries: 0 for those of `retries`.

        RAISES: SapbertError E230, E231, E232, E236.
        """
        limit, tries = timeout or self.timeout, tries or self.retries + 1
        for attempt in range(tries):
            try:
                return getattr(self.client, method)(*args, timeout=limit, **kwargs)
            except Exception as error:
                if attempt == tries - 1 or _status(error) not in _AGAIN:
                    raise self._explained(error, doing, limit, tries=tries) from error
            time.sleep(min(0.2 * 2**attempt, 5.0))
        raise AssertionError("unreachable")

    def _explained(self, error: Exception, doing: str, limit: float, *, connecting: bool = False, tries: int = 1) -> SapbertError:
        status, why = _status(error), _said(error)
        if status in _REFUSED:
            what = "has" if os.environ.get(self.token_env) else "is not set, or empty"
            return fail("E231", uri=self.shown, env=self.token_env or "that token_env should name", what=what, why=why)
        if connecting or status == "UNAVAILABLE":
            return fail("E230", uri=self.shown, seconds=limit, why=why)
        if status == "DEADLINE_EXCEEDED":
            return fail("E232", uri=self.shown, doing=doing, seconds=limit, times=tries)
        return fail("E236", uri=self.shown, doing=doing, why=why)

    def close(self) -> None:
        if hasattr(self, "_finalizer"):
            self._finalizer()
        elif self._served[0] is not None:
            _shut(None, self._served, self.pid)
        if self._scratch is not None:
            self._scratch.remove()


def _shut(client: Any, served: Tuple[Any, Any], owner: int) -> None:
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


def _count(milvus: _Session, name: str) -> int:
    found = milvus.call("count vectors", "query", name, filter="", output_fields=["count(*)"], consistency_level="Strong")
    return int(found[0]["count(*)"])


def _status(error: Optional[BaseException]) -> Any:
    """The name of gRPC's status behind an error, or Milvus's own number."""
    number = 0
    while error is not None:
        code = getattr(error, "code", None)
        code = code() if callable(code) else code
        if isinstance(code, int):
            number = number or code
        elif code is not None:
            return getattr(code, "name", code)
        error = error.__cause__
    return number


def _said(error: BaseException) -> str:
    """The server's own words, where it said any."""
    details = getattr(error, "details", None)
    if callable(details) and details():
        return str(details())
    if error.__cause__ is not None and not getattr(error, "message", ""):
        return _said(error.__cause__)
    return str(getattr(error, "message", "") or error)


def _builder() -> str:
    """Who builds, and since when: the end of an unfinished collection's name."""
    return f"_building_{int(time.time()) // 60:x}_{_machine()}_{os.getpid()}"


def _machine() -> str:
    named = [socket.gethostname(), str(uuid.getnode())]
    with suppress(OSError):  # containers of one host may share name and network, but number processes by themselves
        named.append(os.readlink("/proc/self/ns/pid"))
    with suppress(OSError):
        named.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
    return hashlib.blake2b(" ".join(named).encode(), digest_size=4).hexdigest()


def _is_leftover(name: str, collection: str) -> bool:
    """Of a build that was killed: its process on this machine is gone, or it is days old."""
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
    except OSError:  # somebody else's
        return False
    return False


def _copy_database(source: Path, target: Path, *, link: bool) -> None:
    """milvus-lite never writes to a segment or an index again, and puts new metadata in the old one's place: these are copied, the large ones linked.

    RAISES: SapbertError E233 where it is gone.
    """
    if not source.is_dir():
        raise fail("E233", collection="of the index", uri=source)
    for path in sorted(source.rglob("*")):
        if not path.is_file() or path.name == "LOCK" or path.suffix == ".tmp":
            continue
        there = target / path.relative_to(source)
        there.parent.mkdir(parents=True, exist_ok=True)
        if not (link and path.suffix in (".parquet", ".idx") and _linked(path.resolve(), there)):
            shutil.copyfile(path, there)


def _linked(path: Path, there: Path) -> bool:
    for link in (os.link, os.symlink):  # from another file system only the second
        with suppress(OSError):
            link(path, there)
            return True
    return False


def _check_uri(uri: str) -> None:
    """RAISES: SapbertError E002."""
    why = ""
    if not uri.endswith(".db") and ("@" in uri or "?" in uri or "#" in uri):
        why = "a uri is written to files: put user and password, as 'user:password', into the environment variable that token_env names."
        uri = "…@" + uri.rpartition("@")[2].partition("?")[0].partition("#")[0] if "@" in uri else re.split(r"[?#]", uri)[0] + " …"
    elif uri.startswith(_SERVERS):
        pass
    elif uri and not uri.endswith(".db"):
        why = "give http://HOST:19530 or https://… of a server, a local file that ends in '.db', or nothing for a file in the index's folder."
    if why:
        raise fail("E002", setting="uri", component="MilvusIndex", value=uri, why=why)


def _library(local: bool) -> Any:
    first = "pymilvus" not in sys.modules
    try:
        import pymilvus as library

        if local:
            import milvus_lite  # noqa: F401
    except ImportError as error:
        known = "spacy-sapbert.AnnoyIndex.v1, spacy-sapbert.ExactIndex.v1"
        raise fail("E205", name="spacy-sapbert.MilvusIndex.v1", package='"spacy-sapbert[milvus]"', error=error, known=known) from error
    if first:  # it prints every error with its traceback; ours say the same in a line
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
    return library
