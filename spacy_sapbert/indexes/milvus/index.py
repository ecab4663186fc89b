"""The engine for Milvus. Milvus finds candidates, which are compared here in full precision. If a filter leaves few rows, they are searched exactly.

The vectors are also in the index's folder, as float16. Only vectors and row numbers are sent to Milvus: no names and no text.
"""

import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np

from ...errors import DamagedFile, ServerError, fail
from ...types import Floats2d, Ints2d
from ..params import build_param, param, reader_param, search_param
from ..rescored import RescoredIndex
from .collection import ROW, VECTOR, Content, Plan, ensure_collection, open_collection
from .database import DATABASE, Scratch, copy_database
from .kinds import BUILD, LITE, MOST_CANDIDATES, SEARCH_SETTINGS, SEARCH_TO_TRY
from .library import load_library
from .servers import SERVERS, check_trusted, check_uri
from .session import Session, is_not_loaded

_LOCK = threading.Lock()
_INHERITED: list[Any] = []  # sessions of the process that this one was forked from; they are neither used nor closed here


def _new_lock() -> None:
    global _LOCK
    _LOCK = threading.Lock()  # another thread of the parent may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)


@dataclass(eq=False)
class MilvusIndex(RescoredIndex):
    """`spacy-sapbert.MilvusIndex.v1`; `pip install spacy-sapbert[milvus]`.

    Args:
        uri: "http://localhost:19530", "https://…" (a server, a cluster, Zilliz Cloud), or a local file that ends in ".db" (milvus-lite);
            "" for a file in the index's own folder. An opened folder uses the uri that it was built with, unless you give another one. If that
            is a server on another machine, you must name it too, here or in the environment variable MILVUS_URI, because vectors of mentions
            are sent there.
        token_env: The environment variable that holds the token ("user:password", or an API key). The token is never written to a file. The
            name of the variable is never read from a folder: a folder of unknown origin must not choose which of your secrets is sent where. If
            the system does not know the authority of a server at https://, or the server requires a certificate of the client, name the files in
            environment variables too: MILVUS_CA_FILE, MILVUS_CLIENT_CERTIFICATE, MILVUS_CLIENT_KEY, and MILVUS_SERVER_NAME.
        collection: The beginning of the collection's name. A fingerprint of vectors and settings follows, so that linkers on one server never
            collide, and the same content is not stored twice. Complete collections are never deleted: drop old ones yourself.
        index_type: AUTOINDEX, FLAT, HNSW, HNSW_SQ, HNSW_PQ, HNSW_PRQ, IVF_FLAT, IVF_SQ8, IVF_PQ, IVF_RABITQ, SCANN or DISKANN; milvus-lite has
            only AUTOINDEX, FLAT, HNSW, HNSW_SQ, IVF_FLAT and IVF_SQ8.
        params: Build params of the index, with Milvus's names: {"M": 16, "efConstruction": 128}, {"nlist": 1024} …
        search: Number of nodes or lists that a query looks at (ef, nprobe, search_list); AUTOINDEX and FLAT have no such setting.
        insert_batch: Number of vectors in one request of a build.
        search_batch: Number of vectors in one request of a search.
        timeout: Seconds to wait for an answer.
        retries: How often a request that took too long is sent again, after growing pauses. If the connection is lost, requests are repeated
            until `timeout` is over, so that a server can be restarted.
        build_timeout: Seconds that one step of a build may take on the server: to write, index or load the collection.
        pca: Number of dimensions that Milvus uses; 0 for all.
        rescore: Number of candidates per query that are compared in full precision.
        tune: As for `AnnoyIndex`, with values of `search`.
        threads: Number of requests at the same time; 0 for one per core.
        seed: Seed of the PCA's sample.

    Raises:
        SapbertError: E002, a setting is wrong; E205, a library is not installed; E230, the server can't be reached; E231, the token is refused;
            E232, an answer takes too long; E233, the collection does not exist; E234, it has other content; E235, a local file is in use; E236,
            Milvus reports another error; E237, a server on another machine was not named.
    """

    uri: str = reader_param("")
    token_env: str = reader_param("MILVUS_TOKEN")
    collection: str = build_param("spacy_sapbert")
    index_type: str = build_param("HNSW")
    params: Optional[dict[str, Any]] = build_param(None)  # noqa: RUF009 (it is a field)
    search: int = search_param(64, least=1)
    insert_batch: int = reader_param(5_000, least=1)
    search_batch: int = reader_param(256, least=1)
    timeout: float = reader_param(10.0)
    retries: int = reader_param(2, least=0)
    build_timeout: float = reader_param(3600.0)
    pca: int = build_param(0, least=0)
    rescore: int = search_param(50, least=1)
    tune: bool = param(True)
    threads: int = reader_param(0, least=0)
    seed: int = build_param(13)

    kind = "milvus index"

    def __post_init__(self) -> None:
        if self.params is not None and not isinstance(self.params, dict):
            raise fail("E002", setting="params", component="MilvusIndex", value=self.params, why='give names and values, such as {"M": 16}.')
        super().__post_init__()
        self.params = dict(self.params or {})
        for name in ("timeout", "build_timeout"):
            if not getattr(self, name) > 0:
                raise fail("E002", setting=name, component="MilvusIndex", value=getattr(self, name), why="it must be more than 0 seconds.")
        if self.index_type not in SEARCH_SETTINGS:
            raise fail("E002", setting="index_type", component="MilvusIndex", value=self.index_type, why=f"known are {', '.join(SEARCH_SETTINGS)}.")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", self.collection):
            why = "it must be letters, digits and underscores, at most 100, and must not begin with a digit."
            raise fail("E002", setting="collection", component="MilvusIndex", value=self.collection, why=why)
        check_uri(self.uri)
        if self.uri and self.local:
            self.uri = os.path.abspath(self.uri)  # absolute, because it is saved in the folder and used from any working directory
        self._named: dict[str, str] = {}  # the collection's full name, and the fingerprint of its content
        self._database: Optional[Path] = None  # folder of milvus-lite's database; None with a server
        self._session: Optional[Session] = None

    @property
    def queries_at_once(self) -> int:
        """Number of queries in one request."""
        return self.search_batch

    @property
    def search_setting(self) -> str:
        """Milvus's name for `search` with this kind of index; "" if there is no such setting."""
        return SEARCH_SETTINGS[self.index_type]

    def settings_to_try(self, size: int) -> list[dict[str, Any]]:
        """Return rising values of `search`; [] for an index without such a setting. See `Tunable`."""
        return self._rising("search", SEARCH_TO_TRY[self.search_setting], size) if self.search_setting else []

    def require(self) -> None:
        """Load the library, and request the list of collections from the server; see `NeedsLibrary`.

        Raises:
            SapbertError: E002, E205, E230, E231, E232, E235.
        """
        load_library(self.local)
        if self.local and self.index_type not in LITE:
            why = f"milvus-lite has {', '.join(LITE)}; others need a server."
            raise fail("E002", setting="index_type", component="MilvusIndex", value=self.index_type, why=why)
        if self.uri:
            with self._writing(Path(self.uri) if self.local else None) as milvus:
                milvus.call("list its collections", "list_collections")

    # -- building ---------------------------------------------------------------------------------------------------------

    @property
    def local(self) -> bool:
        """Whether the database is a local one of milvus-lite."""
        return not self.uri.startswith(SERVERS)

    def _build_engine(self, blocks: Iterator[tuple[int, Floats2d]], total: int) -> Any:
        self.require()
        self.close()
        fingerprint = self._fingerprint()
        self._named = {"collection": f"{self.collection}_{fingerprint[:16]}", "fingerprint": fingerprint}
        self._database = Path(self.uri) if self.uri and self.local else None
        scratch = None
        if not self.uri:
            scratch = Scratch()
            self._database = scratch.path / DATABASE
        plan = Plan(self.collection, self.local, self.index_type, self._engine_params(), self.insert_batch, self.build_timeout)
        with self._writing(self._database) as milvus:
            ensure_collection(milvus, self._content(), plan, blocks)
        return scratch or True  # the scratch folder's files exist as long as its object

    def _content(self) -> Content:
        """Return the required content of the collection."""
        return Content(self._named["collection"], len(self), self.tree_dim, lambda rows: self._project(self.vectors(rows)), self.timeout)

    def _fingerprint(self) -> str:
        """Hash the vectors and all settings that decide how Milvus stores them."""
        digest = hashlib.blake2b(digest_size=32)
        made_by = [self.index_type, self._engine_params(), self.tree_dim, self.seed if self._projection is not None else None]
        digest.update(json.dumps([*made_by, str(self._stored.dtype), self._stored.shape], sort_keys=True).encode())
        for start in range(0, len(self), 100_000):
            digest.update(np.ascontiguousarray(self._stored[start : start + 100_000]).data)
        return digest.hexdigest()

    def _engine_params(self) -> dict[str, Any]:
        """Return the build params of the index, with Milvus's names."""
        return {**BUILD.get(self.search_setting, {}), **(self.params or {})}

    # -- searching --------------------------------------------------------------------------------------------------------

    def _nearest(self, queries: Floats2d, fetch: int, budget: float) -> Ints2d:
        fetch = min(fetch, MOST_CANDIDATES)
        params: dict[str, Any] = {}
        if self.search_setting:
            looked_at = max(1, int(self.search * budget))
            lists = self._engine_params().get("nlist")
            params[self.search_setting] = min(looked_at, lists) if self.search_setting == "nprobe" and lists else max(looked_at, fetch)
        asked: dict[str, Any] = {
            "data": list(queries),
            "anns_field": VECTOR,
            "limit": fetch,
            "search_params": {"metric_type": "COSINE", "params": params},
            "output_fields": [ROW],  # for milvus-lite, an empty list means all fields
        }
        session = self._opened()
        try:
            found = session.call("search", "search", self._named["collection"], **asked)
        except ServerError as error:
            if not is_not_loaded(error):
                raise
            open_collection(session, self._content())
            found = session.call("search", "search", self._named["collection"], **asked)
        rows = np.full((len(queries), fetch), -1, dtype=np.int64)
        for line, hits in zip(rows, found):
            ids = np.unique(np.fromiter(hits.ids, dtype=np.int64))  # in any order, because they are compared in full
            line[: len(ids)] = ids
        return rows

    def _opened(self) -> Session:
        """Return this process's own connection. A gRPC connection can't be used after a fork, and a file of milvus-lite belongs to one process."""
        if self._session is None or self._session.pid != os.getpid():
            with _LOCK:
                if self._session is not None and self._session.pid != os.getpid():
                    _INHERITED.append(self._session)
                    self._session = None
                if self._session is None:
                    session = self._connect(self._database, private=True)
                    try:
                        open_collection(session, self._content())
                    except BaseException:
                        session.close()
                        raise
                    self._session = session
        return self._session

    def close(self) -> None:
        """Close the connection; the next query makes another."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    @contextmanager
    def _writing(self, database: Optional[Path]) -> Iterator[Session]:
        session = self._connect(database, private=False)
        try:
            yield session
        finally:
            session.close()

    def _connect(self, database: Optional[Path], *, private: bool) -> Session:
        token = os.environ.get(self.token_env, "") if self.token_env and not self.local else ""
        return Session(self.uri, token, self.token_env, database, private, self.timeout, self.retries, self.build_timeout)

    # -- the folder -------------------------------------------------------------------------------------------------------

    def _save_engine(self, path: Path) -> None:
        if self.uri or self._database is None:
            return
        fresh, old = path / f"{DATABASE}.new", path / f"{DATABASE}.old"
        for left in (fresh, old):
            shutil.rmtree(left, ignore_errors=True)
        copy_database(self._database, fresh, link=False)
        if (path / DATABASE).exists():
            os.replace(path / DATABASE, old)
        os.replace(fresh, path / DATABASE)
        shutil.rmtree(old, ignore_errors=True)

    def _write_folder(self, path: Path, **content: Any) -> None:
        super()._write_folder(path, **content, milvus=self._named)

    def _read_folder(self, path: Path) -> dict[str, Any]:
        manifest = super()._read_folder(path)
        named = manifest.get("milvus", {})
        if not isinstance(named, dict) or not named.get("collection"):
            raise fail("E202", DamagedFile, path=path, why="the manifest names no collection")
        self._named = named
        uri = str(manifest["config"]["uri"])
        if not self.uri and uri.startswith(SERVERS):
            check_trusted(path, uri)
        self.uri = self.uri or uri
        return manifest

    def _open_engine(self, path: Path) -> Any:
        load_library(self.local)
        self.close()
        self._database = None if not self.local else Path(self.uri) if self.uri else path / DATABASE
        if self._database is not None and not self._database.is_dir():
            raise fail("E233", collection=self._named["collection"], uri=self._database)
        if self.uri:  # a file in the folder was checked with the folder; another uri is checked now
            self._opened()
            self.close()  # no connection should be open when a process forks
        return True
