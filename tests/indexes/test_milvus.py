"""Milvus: servers that are gone, silent, slow or strict; wrong collections; killed builds; processes that share a file."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np
import pytest
from milvus_servers import Standalone, fresh, milvus_server, serve, standalone

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.files import folder_to_bytes
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.indexes.milvus import MilvusIndex, collection

grpc = pytest.importorskip("grpc")


pytestmark = pytest.mark.e2e


def unit(size: int, seed: int, dim: int = 16) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(size, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


VECTORS, QUERIES = unit(90, 1), unit(5, 2)
SERVERS = pytest.mark.parametrize("kind", ["lite", "standalone"])
RIGHT = np.argsort(-(QUERIES @ VECTORS.T), axis=1)[:, :3].tolist()


def made(uri: str = "", **settings: Any) -> MilvusIndex:
    index = MilvusIndex(uri, **{"token_env": "", "tune": False, "rescore": 90, "timeout": 30.0, **settings})
    index.build(VECTORS)
    return index


def at(place: str) -> str:
    return {"folder": lambda: "", "server": milvus_server, "standalone": lambda: standalone().uri}[place]()


def client(uri: str) -> Any:
    from pymilvus import MilvusClient

    return MilvusClient(uri)


def code_of(act: Callable[[], Any]) -> Tuple[str, str]:
    with pytest.raises(SapbertError) as error:
        act()
    return error.value.code, str(error.value)


class Between(grpc.ServerInterceptor):
    """A proxy before a server: it counts calls, and gives prepared answers to calls of a method."""

    def __init__(self) -> None:
        self.calls: List[str] = []
        self.answers: Dict[str, List[Callable[[Any], Any]]] = {}  # method -> answers, one for each call; after these, the server answers
        self.messages: Dict[str, List[Callable[[Any], Any]]] = {}  # the same, if the answer is a message
        self.gone_after: Dict[str, int] = {}  # method -> number of calls after which the server seems to be gone
        self.losses: Dict[str, int] = {}  # method -> number of answers of the server that are lost
        self.token = ""

    def intercept_service(self, continuation: Any, details: Any) -> Any:
        name = details.method.rpartition("/")[2]
        self.calls.append(name)
        told = self.answers.get(name, [])
        sent = dict(details.invocation_metadata).get("authorization", "")
        if self.token and sent != self.token:
            return grpc.unary_unary_rpc_method_handler(lambda _request, context: context.abort(grpc.StatusCode.UNAUTHENTICATED, "auth check failure"))
        if told:
            answer = told.pop(0)
            return grpc.unary_unary_rpc_method_handler(lambda _request, context: answer(context))
        if self.calls.count(name) > self.gone_after.get(name, len(self.calls)):
            return grpc.unary_unary_rpc_method_handler(lambda _request, context: context.abort(grpc.StatusCode.UNAVAILABLE, "gone"))
        handler = continuation(details)
        if self.messages.get(name):
            answer = self.messages[name].pop(0)
            return grpc.unary_unary_rpc_method_handler(
                lambda _request, context: answer(context), handler.request_deserializer, handler.response_serializer
            )
        if self.losses.get(name, 0):
            self.losses[name] -= 1

            def lost(request: Any, context: Any) -> Any:
                handler.unary_unary(request, context)
                context.abort(grpc.StatusCode.UNAVAILABLE, "connection reset")

            return grpc.unary_unary_rpc_method_handler(lost, handler.request_deserializer, handler.response_serializer)
        return handler


@pytest.fixture
def between() -> Iterator[Tuple[Between, str]]:
    stands = Between()
    uri, stop = serve(stands)
    yield stands, uri
    stop()


def refuse(status: str) -> Callable[[Any], Any]:
    return lambda context: context.abort(getattr(grpc.StatusCode, status), "said so")


# -- settings ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("uri", "localhost:19530"),
        ("uri", "/somewhere/file"),
        ("params", "M=16"),
        ("index_type", "HNSW32"),
        ("collection", "1st"),
        ("collection", "a-b"),
        ("search", 0),
        ("insert_batch", 0),
        ("search_batch", 0),
        ("timeout", 0.0),
        ("build_timeout", -1.0),
        ("retries", -1),
        ("rescore", 0),
    ],
)
def test_settings_are_checked(setting: str, value: Any) -> None:
    code, text = code_of(lambda: MilvusIndex(**{setting: value}))
    assert code == "E002"
    assert f"'{setting}' of 'MilvusIndex' is {value!r}" in text


@pytest.mark.parametrize(
    "uri",
    [
        "https://root:hunter2@host:19530",
        "HTTPS://root:hunter2@host",
        "root:hunter2@host:19530",
        "https://root:a/hunter2@host",
        "https://root:a#hunter2@host",
        "https://host:19530?token=hunter2",
    ],
)
def test_a_password_in_the_uri_is_refused_and_not_repeated(uri: str) -> None:
    code, text = code_of(lambda: MilvusIndex(uri))
    assert code == "E002"
    assert "token_env" in text
    assert "host" in text
    assert "hunter2" not in text


def test_a_folder_leads_to_no_server_elsewhere_that_the_reader_did_not_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri, elsewhere = milvus_server(), "http://milvus.example:19530"
    made(uri).to_disk(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["config"]["uri"] = elsewhere
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    opened: List[str] = []
    monkeypatch.setattr(MilvusIndex, "_open_engine", lambda self, path: opened.append(self.uri))
    monkeypatch.delenv("MILVUS_URI", raising=False)
    code, text = code_of(lambda: MilvusIndex().from_disk(tmp_path))
    assert code == "E237"
    assert f"'{elsewhere}'" in text
    assert "MILVUS_URI" in text
    assert opened == []
    MilvusIndex(elsewhere).from_disk(tmp_path)
    MilvusIndex(uri).from_disk(tmp_path)
    monkeypatch.setenv("MILVUS_URI", elsewhere)
    MilvusIndex().from_disk(tmp_path)
    assert opened == [elsewhere, uri, elsewhere]


def test_a_relative_file_is_found_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    made("all.db").to_disk(tmp_path / "index")
    monkeypatch.chdir(tmp_path)
    assert MilvusIndex().from_disk(tmp_path / "index").query(QUERIES, 3)[0].tolist() == RIGHT


@pytest.mark.parametrize(
    ("index_type", "params", "search", "fetch", "sent"),
    [
        ("HNSW", None, 64, 50, {"ef": 64}),
        ("HNSW", None, 64, 200, {"ef": 200}),  # fewer nodes than candidates are refused by Milvus
        ("DISKANN", None, 20, 50, {"search_list": 50}),
        ("IVF_FLAT", {"nlist": 8}, 64, 50, {"nprobe": 8}),
        ("IVF_SQ8", None, 16, 50, {"nprobe": 16}),
        ("FLAT", None, 64, 50, {}),
        ("AUTOINDEX", None, 64, 50_000, {}),
    ],
)
def test_what_a_search_asks_for(monkeypatch: pytest.MonkeyPatch, index_type: str, params: Any, search: int, fetch: int, sent: Any) -> None:
    asked: List[Any] = []

    class Fake:
        def call(self, doing: str, method: str, name: str, **given: Any) -> Any:
            asked.append(given)
            return [SimpleNamespace(ids=[]) for _ in given["data"]]

    index = MilvusIndex("http://localhost:1", index_type=index_type, params=params, search=search)
    index._named = {"collection": "x"}
    monkeypatch.setattr(index, "_opened", Fake)
    rows = index._nearest(QUERIES, fetch, 1.0)
    assert asked[0]["search_params"] == {"metric_type": "COSINE", "params": sent}
    assert asked[0]["limit"] == min(fetch, 16_384)
    assert (rows == -1).all()


@pytest.mark.parametrize("index_type", ["FLAT", "AUTOINDEX", "HNSW_SQ", "IVF_FLAT", "IVF_SQ8"])
def test_kinds_of_index_that_milvus_lite_has(index_type: str) -> None:
    index = made(index_type=index_type, params={"nlist": 4} if "IVF" in index_type else None)
    assert index.query(QUERIES, 3)[0].tolist() == RIGHT
    index.close()


def test_a_kind_of_index_that_needs_a_server_is_refused_before_building() -> None:
    code, text = code_of(lambda: MilvusIndex(index_type="DISKANN").require())
    assert code == "E002"
    assert "others need a server" in text


@pytest.mark.parametrize("index_type", ["FLAT", "AUTOINDEX", "IVF_FLAT", "IVF_SQ8", "IVF_PQ", "SCANN", "DISKANN"])
def test_kinds_of_index_that_a_server_has(index_type: str) -> None:
    params = {"IVF_PQ": {"nlist": 4, "m": 8}, "IVF_FLAT": {"nlist": 4}, "IVF_SQ8": {"nlist": 4}, "SCANN": {"nlist": 4}}.get(index_type)
    index = made(standalone().uri, index_type=index_type, params=params)
    assert index.query(QUERIES, 3)[0].tolist() == RIGHT
    index.close()


def test_a_kind_of_index_that_the_server_does_not_have() -> None:
    """Servers from 2.6 on have it. The message of this server is shown, and no collection is left on it."""
    uri, stop = fresh("standalone")
    code, text = code_of(lambda: made(uri, index_type="HNSW_SQ"))
    assert (code, "asked to index the collection and says: invalid index type: HNSW_SQ" in text) == ("E236", True)
    assert client(uri).list_collections() == []
    stop()


def test_settings_that_building_tries() -> None:
    assert [tried["search"] for tried in MilvusIndex().settings_to_try(150)] == [32, 64, 128, 150]
    assert [tried["search"] for tried in MilvusIndex(index_type="IVF_FLAT").settings_to_try(20)] == [4, 8, 16, 20]
    assert MilvusIndex(index_type="FLAT").settings_to_try(150) == []


@pytest.mark.parametrize("missing", ["pymilvus", "milvus_lite"])
def test_without_its_library_the_error_says_what_to_type(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str) -> None:
    made().to_disk(tmp_path)
    monkeypatch.setitem(sys.modules, missing, None)
    for act in (lambda: MilvusIndex().build(VECTORS), lambda: MilvusIndex().from_disk(tmp_path), lambda: MilvusIndex().require()):
        code, text = code_of(act)
        assert code == "E205"
        assert 'pip install "spacy-sapbert[milvus]"' in text
    MilvusIndex()  # needs no server and no library


def test_the_linker_is_measured_with_settings_that_are_dicts() -> None:
    from spacy_sapbert.build.tune import tune

    oracle = ExactIndex()
    oracle.build(VECTORS)
    index = MilvusIndex(milvus_server(), "", params={"M": 8, "efConstruction": 40}, rescore=20)
    found, report = tune(index, VECTORS, oracle, VECTORS[:30], lambda rows: rows == np.arange(30), lambda: None)
    assert report["chosen"]["acc_at_1"] == 1.0
    assert found.get_config()["params"] == {"M": 8, "efConstruction": 40}


# -- servers that do not answer ----------------------------------------------------------------------------------------------


def acts(uri: str, folder: Path) -> List[Callable[[], Any]]:
    settings = {"token_env": "", "timeout": 0.6}
    return [
        lambda: MilvusIndex(uri, **settings).require(),
        lambda: MilvusIndex(uri, **settings).build(VECTORS),
        lambda: MilvusIndex(uri, **settings).from_disk(folder),
    ]


def test_a_closed_port_and_one_that_never_answers(tmp_path: Path) -> None:
    made(milvus_server()).to_disk(tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{free.getsockname()[1]}"
        for act in acts(closed, tmp_path):  # the port is bound, but nobody listens
            code, text = code_of(act)
            assert (code, closed in text, "0.6 s" in text) == ("E230", True, True)
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        for act in acts(f"http://127.0.0.1:{mute.getsockname()[1]}", tmp_path):
            assert code_of(act)[0] == "E230"


def test_a_lost_request_is_sent_again_and_a_wrong_one_is_not(between: Tuple[Between, str], tmp_path: Path) -> None:
    stands, uri = between
    index = made(uri, timeout=5.0, retries=2)
    index.query(QUERIES, 3)
    for status, code, calls in (("ABORTED", "", 2), ("INVALID_ARGUMENT", "E236", 1)):
        stands.calls.clear()
        stands.answers["Search"] = [refuse(status)]
        if code:
            assert code_of(lambda: index.query(QUERIES, 3)) == (code, f"[{code}] Milvus at '{uri}' was asked to search and says: said so")
        else:
            assert index.query(QUERIES, 3)[0].tolist() == RIGHT
        assert stands.calls.count("Search") == calls, status
    index.close()


def test_slow_answers_are_given_up_after_the_last_try(between: Tuple[Between, str]) -> None:
    stands, uri = between
    index = made(uri)
    index.query(QUERIES, 3)
    index._opened().timeout, index._opened().retries = 0.3, 1
    released = threading.Event()
    stands.answers["Search"] = [lambda _context: released.wait(10)] * 2
    stands.calls.clear()
    code, text = code_of(lambda: index.query(QUERIES, 3))
    assert (code, stands.calls.count("Search")) == ("E232", 2)
    assert "asked to search and did not answer within 0.3 s, 2 times" in text
    released.set()
    index._opened().timeout = 5.0
    assert index.query(QUERIES, 3)[0].tolist() == RIGHT  # the connection is still good
    index.close()


def test_a_request_that_the_server_ends_when_its_time_is_over_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy server of version 2.3.5 answered with an error of its own, instead of gRPC's DEADLINE_EXCEEDED."""
    from pymilvus import MilvusException

    index = made(milvus_server(), retries=1)
    index.query(QUERIES, 3)
    search, late = index._opened().client.search, [2]

    def ended(*given: Any, **named: Any) -> Any:
        if late[0]:
            late[0] -= 1
            error = MilvusException(code=65535, message="proxy TaskCondition context Done")
            raise MilvusException(code=65535, message="[search] Retry timeout: 30.0s, message=proxy TaskCondition context Done") from error
        return search(*given, **named)

    monkeypatch.setattr(index._opened().client, "search", ended)
    code, text = code_of(lambda: index.query(QUERIES, 3))
    assert (code, "did not answer within 30 s, 2 times" in text) == ("E232", True)
    late[0] = 1
    assert index.query(QUERIES, 3)[0].tolist() == RIGHT
    index.close()


def test_vectors_whose_answer_was_lost_are_not_there_twice(between: Tuple[Between, str]) -> None:
    """The first batch is written, but the answer is lost, so it is sent again."""
    stands, uri = between
    stands.losses["Upsert"] = 1
    index = made(uri, insert_batch=40)
    assert stands.calls.count("Upsert") == 4  # calls for three batches
    assert client(uri).query(index._named["collection"], filter="", output_fields=["count(*)"])[0]["count(*)"] == 90
    assert index.query(QUERIES, 3)[0].tolist() == RIGHT
    index.close()


def test_tokens(between: Tuple[Between, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import base64

    stands, uri = between
    stands.token = base64.b64encode(b"root:hunter2").decode()
    monkeypatch.delenv("OUR_TOKEN", raising=False)
    for value, said in ((None, "OUR_TOKEN is not set, or empty"), ("root:wrong", "OUR_TOKEN holds this token")):
        if value is not None:
            monkeypatch.setenv("OUR_TOKEN", value)
        code, text = code_of(lambda: MilvusIndex(uri, "OUR_TOKEN").require())
        assert code == "E231"
        assert said in text
        assert "root:wrong" not in text
    monkeypatch.setenv("OUR_TOKEN", "root:hunter2")
    made(uri, token_env="OUR_TOKEN").to_disk(tmp_path)
    read = MilvusIndex(token_env="OUR_TOKEN").from_disk(tmp_path)
    assert read.query(QUERIES, 3)[0].tolist() == RIGHT
    assert b"hunter2" not in b"".join(folder_to_bytes(tmp_path).values()) + pickle.dumps(read)
    monkeypatch.setenv("MILVUS_TOKEN", "root:mine")  # the token of the environment is sent, not the folder's OUR_TOKEN
    code, text = code_of(lambda: MilvusIndex().from_disk(tmp_path))
    assert (code, "MILVUS_TOKEN holds this token" in text) == ("E231", True)
    read.close()


# -- certificates --------------------------------------------------------------------------------------------------------------

TLS = ("MILVUS_CA_FILE", "MILVUS_CLIENT_CERTIFICATE", "MILVUS_CLIENT_KEY", "MILVUS_SERVER_NAME")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a certificate authority (ca), a certificate for the server milvus.test (server) and one for a client (client), each as .pem and .key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=Our authority")
    (folder / "names.txt").write_text("subjectAltName=DNS:milvus.test")
    for name in ("server", "client"):
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        signed = ("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-out", f"{name}.pem")
        openssl(*signed, *(("-extfile", "names.txt") if name == "server" else ()))
    return folder


def by_tls(folder: Path, *, mutual: bool) -> Tuple[str, Callable[[], None]]:
    """Start a server at https://; with `mutual` it also asks for the client's certificate."""
    key, chain, authority = ((folder / name).read_bytes() for name in ("server.key", "server.pem", "ca.pem"))
    return serve(credentials=grpc.ssl_server_credentials([(key, chain)], authority if mutual else None, mutual))


def with_variables(monkeypatch: pytest.MonkeyPatch, *values: object) -> None:
    for name in TLS:
        monkeypatch.delenv(name, raising=False)
    for name, value in zip(TLS, values):
        if value:
            monkeypatch.setenv(name, str(value))


def test_a_server_whose_authority_is_our_own(certificates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri, stop = by_tls(certificates, mutual=False)
    with_variables(monkeypatch, "", "", "", "milvus.test")
    code, text = code_of(lambda: made(uri, timeout=3.0))
    assert (code, "MILVUS_CA_FILE" in text) == ("E230", True)
    with_variables(monkeypatch, certificates / "ca.pem")
    assert code_of(lambda: made(uri, timeout=3.0))[0] == "E230"  # its certificate is for milvus.test, not for 127.0.0.1
    with_variables(monkeypatch, certificates / "ca.pem", "", "", "milvus.test")
    index = made(uri)
    index.to_disk(tmp_path)
    assert MilvusIndex(token_env="").from_disk(tmp_path).query(QUERIES, 3)[0].tolist() == RIGHT
    assert b"ca.pem" not in b"".join(folder_to_bytes(tmp_path).values())
    index.close()
    stop()


def test_a_server_that_asks_for_a_certificate_of_the_client(certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri, stop = by_tls(certificates, mutual=True)
    ca, certificate, key = (certificates / name for name in ("ca.pem", "client.pem", "client.key"))
    with_variables(monkeypatch, ca, "", "", "milvus.test")
    assert code_of(lambda: made(uri, timeout=3.0))[0] == "E230"
    with_variables(monkeypatch, ca, certificate, key, "milvus.test")
    index = made(uri)
    assert index.query(QUERIES, 3)[0].tolist() == RIGHT
    index.close()
    stop()


def test_certificates_that_are_half_given_or_not_there(certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ca, certificate, key = (certificates / name for name in ("ca.pem", "client.pem", "client.key"))
    for values, missing in (
        ((ca, certificate), "MILVUS_CLIENT_KEY"),
        ((ca, "", key), "MILVUS_CLIENT_CERTIFICATE"),
        (("", certificate, key), "MILVUS_CA_FILE"),
    ):
        with_variables(monkeypatch, *values)
        code, text = code_of(lambda: made("https://127.0.0.1:1"))
        assert (code, f"name them in {missing}, too" in text) == ("E002", True)
    with_variables(monkeypatch, certificates / "none.pem")
    code, text = code_of(lambda: made("https://127.0.0.1:1"))
    assert (code, "none.pem" in text) == ("E401", True)


# -- collections that are not what was built -----------------------------------------------------------------------------------


@SERVERS
def test_a_collection_that_is_gone_or_another_is_never_searched(kind: str, tmp_path: Path) -> None:
    from pymilvus import DataType

    uri, stop = fresh(kind)
    index = made(uri)
    index.to_disk(tmp_path)
    name = json.loads((tmp_path / "manifest.json").read_text())["milvus"]["collection"]
    server = client(uri)

    def other(dim: int, vectors: np.ndarray) -> None:
        server.drop_collection(name)
        schema = server.create_schema(auto_id=False)
        schema.add_field("row", DataType.INT64, is_primary=True)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dim)
        plan = server.prepare_index_params()
        plan.add_index("vector", index_type="FLAT", metric_type="COSINE")
        server.create_collection(name, schema=schema, index_params=plan)
        server.insert(name, [{"row": i, "vector": v} for i, v in enumerate(vectors)])
        server.flush(name)

    assert MilvusIndex(token_env="").from_disk(tmp_path).query(QUERIES, 3)[0].tolist() == RIGHT
    for dim, vectors, why in (
        (8, unit(90, 3, 8), "it has 8 dimensions, 16 were built"),
        (16, VECTORS[:89], "it has 89 vectors, 90 were built"),
        (16, unit(90, 4), "its vectors are others"),
    ):
        other(dim, vectors)
        code, text = code_of(lambda: MilvusIndex(token_env="").from_disk(tmp_path))
        assert code == "E234"
        assert why in text
        assert name in text
    index.close()
    assert code_of(lambda: index.query(QUERIES, 3))[0] == "E234"  # every connection checks the collection
    again = made(uri)  # building makes the collection again
    assert again.query(QUERIES, 3)[0].tolist() == RIGHT
    again.close()
    server.drop_collection(name)
    code, text = code_of(lambda: MilvusIndex(token_env="").from_disk(tmp_path))
    assert code == "E233"
    assert name in text
    assert uri in text
    stop()


@SERVERS
def test_linkers_on_one_server_do_not_collide_and_the_same_content_is_there_once(kind: str) -> None:
    uri, stop = fresh(kind)
    first, same = made(uri), made(uri)
    other = MilvusIndex(uri, "", tune=False, rescore=90)
    other.build(VECTORS[::-1])
    flat = made(uri, index_type="FLAT")
    names = {index._named["collection"] for index in (first, same, other, flat)}
    assert sorted(names) == sorted(client(uri).list_collections())
    assert len(names) == 3
    for index in (first, same, flat):
        assert index.query(QUERIES, 3)[0].tolist() == RIGHT
    assert (89 - other.query(QUERIES, 3)[0]).tolist() == RIGHT
    for index in (first, same, other, flat):
        index.close()
    stop()


@SERVERS
@pytest.mark.skipif(os.name != "posix", reason="no such signal")
def test_a_build_that_is_killed_is_never_searched_and_is_cleared_away(kind: str) -> None:
    uri, stop = fresh(kind)
    code = (
        "import sys, os, signal; import numpy as np; from spacy_sapbert.indexes.milvus import MilvusIndex, collection\n"
        "collection._count = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"  # all vectors are written, but the collection has not got its name
        "index = MilvusIndex(sys.argv[1], ''); index.build(np.load(sys.argv[2]))"
    )
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/v.npy", VECTORS)
        killed = subprocess.run([sys.executable, "-c", code, uri, f"{folder}/v.npy"], capture_output=True, text=True, timeout=120)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    server = client(uri)
    (left,) = server.list_collections()
    assert "_building_" in left
    stem, _minutes, machine, pid = left.partition("_building_")[0], *left.partition("_building_")[2].split("_")
    assert (machine, int(pid) > 0) == (collection._machine(), True)
    now = int(time.time()) // 60
    kept = [
        f"spacy_sapbert_{'0' * 16}_building_{now:x}_{collection._machine()}_{os.getpid()}",  # from a process that is alive
        f"spacy_sapbert_{'0' * 16}_building_{now:x}_00000000_1",  # from another machine, a moment ago
        f"other_{'0' * 16}_building_1_00000000_1",  # a collection of others
        f"{stem}_mine",
    ]
    old = f"spacy_sapbert_{'1' * 16}_building_{now - 3 * 24 * 60:x}_00000000_1"
    for name in (*kept, old):
        server.create_collection(name, dimension=4)
    index = made(uri)
    assert sorted(server.list_collections()) == sorted([*kept, stem])
    assert index._named["collection"] == stem
    assert index.query(QUERIES, 3)[0].tolist() == RIGHT
    index.close()
    stop()


def test_a_build_that_fails_leaves_nothing(between: Tuple[Between, str]) -> None:
    stands, uri = between
    stands.answers["CreateIndex"] = [refuse("INVALID_ARGUMENT")]
    assert code_of(lambda: made(uri))[0] == "E236"
    assert client(uri).list_collections() == []


# -- local files ---------------------------------------------------------------------------------------------------------------


def test_a_file_of_its_own(tmp_path: Path) -> None:
    """A file with collections of several linkers; the linker folder has only the float16 vectors."""
    file = tmp_path / "all.db"
    one = made(str(file))
    one.to_disk(tmp_path / "one")
    two = MilvusIndex(str(file), tune=False, rescore=90)
    two.build(VECTORS[::-1])
    two.to_disk(tmp_path / "two")
    assert set(folder_to_bytes(tmp_path / "one")) == {"vectors.npy", "manifest.json"}
    assert MilvusIndex().from_disk(tmp_path / "one").query(QUERIES, 3)[0].tolist() == RIGHT
    assert (89 - MilvusIndex().from_disk(tmp_path / "two").query(QUERIES, 3)[0]).tolist() == RIGHT
    file.rename(tmp_path / "moved.db")
    code, text = code_of(lambda: MilvusIndex().from_disk(tmp_path / "one"))
    assert (code, str(file) in text) == ("E233", True)
    moved = MilvusIndex(str(tmp_path / "moved.db")).from_disk(tmp_path / "one")  # only the uri changes
    assert moved.query(QUERIES, 3)[0].tolist() == RIGHT


def test_one_writes_while_others_search(tmp_path: Path) -> None:
    from milvus_lite.db import MilvusLite

    file = tmp_path / "all.db"
    index = made(str(file))
    held = MilvusLite(str(file))  # as another process would
    assert index.query(QUERIES, 3)[0].tolist() == RIGHT
    for act in (lambda: made(str(file)), lambda: MilvusIndex(str(file)).require()):
        code, text = code_of(act)
        assert (code, "milvus-lite server --data-dir" in text) == ("E235", True)
    held.close()
    MilvusIndex(str(file)).require()


def answer(index: MilvusIndex) -> Any:
    return index.query(QUERIES, 3)[0].tolist()


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("place", ["folder", "server", "standalone"])
def test_worker_processes_each_have_their_own_connection(place: str, method: str, tmp_path: Path) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip("no fork here")
    made(at(place)).to_disk(tmp_path)
    index = MilvusIndex(token_env="").from_disk(tmp_path)
    assert answer(index) == RIGHT  # the parent is connected when it forks
    before = folder_to_bytes(tmp_path)
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map_async(answer, [index] * 4).get(timeout=100) == [RIGHT] * 4
        assert answer(index) == RIGHT
    assert folder_to_bytes(tmp_path) == before
    index.close()


def test_threads_share_a_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made().to_disk(tmp_path)
    index = MilvusIndex(search_batch=1, threads=4).from_disk(tmp_path)
    opened: List[Any] = []
    connect = index._connect
    monkeypatch.setattr(index, "_connect", lambda *given, **named: opened.append(1) or connect(*given, **named))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: answer(index), range(8)))
    assert (found, len(opened)) == ([RIGHT] * 8, 1)
    index.close()


def test_temporary_copies_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    index = made()
    index.to_disk(tmp_path / "index")
    assert answer(index) == RIGHT
    read = MilvusIndex().from_disk(tmp_path / "index")
    assert not read._opened()._scratch.path.is_relative_to(tmp_path / "index")  # type: ignore[union-attr]
    assert answer(read) == RIGHT
    assert list((tmp_path / "scratch").iterdir()) != []
    for one in (index, read):
        one.close()
    del index, read, one
    assert list((tmp_path / "scratch").iterdir()) == []
    assert (tmp_path / "index" / "milvus.db").is_dir()


def test_a_folder_that_can_not_be_written_is_searched(tmp_path: Path) -> None:
    made().to_disk(tmp_path)
    for path in [tmp_path, *tmp_path.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    try:
        assert answer(MilvusIndex().from_disk(tmp_path)) == RIGHT
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    finally:
        for path in [tmp_path, *tmp_path.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)


def test_a_manifest_that_names_no_collection(tmp_path: Path) -> None:
    made().to_disk(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    del manifest["milvus"]
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    code, text = code_of(lambda: MilvusIndex().from_disk(tmp_path))
    assert (code, "names no collection" in text) == ("E202", True)


# -- filters in the server, which the benchmark measures (docs/design/decisions/0007-filters-on-this-side.md) ---------------------


@SERVERS
def test_a_server_searches_only_the_rows_of_the_benchmarks_filter(kind: str, tmp_path: Path) -> None:
    from benchmarks import filters

    uri, stop = fresh(kind)
    made(uri).to_disk(tmp_path / "index")
    np.save(tmp_path / "queries.npy", QUERIES)
    for allowed in (np.arange(90) % 3 == 0, np.arange(90) % 3 > 0):  # shorter as `in`, and as `not in`
        index = filters.FilteredIndex(token_env="").from_disk(tmp_path / "index")
        index.sent = filters.expression(allowed)
        found = index._nearest(QUERIES, 10, 1.0)
        assert [sorted(line) for line in found.tolist()] == [
            sorted(np.flatnonzero(allowed)[np.argsort(-(VECTORS[allowed] @ query))[:10]].tolist()) for query in QUERIES
        ]
        index.close()
        np.save(tmp_path / "allowed.npy", allowed)
        rows = filters.query_filtered(str(tmp_path / "index"), str(tmp_path / "queries.npy"), str(tmp_path / "allowed.npy"))["rows"]
        assert [(way, length) for way, _, length, *_ in rows] == [
            ("here", None),
            *((f"server, {n}", len(filters.expression(allowed))) for n in (1, 4)),
        ]
        assert [(share, recall) for _, share, _, _, recall, _ in rows] == [(pytest.approx(allowed.mean()), 1.0)] * 3
    stop()


# -- servers that come back -----------------------------------------------------------------------------------------------------


def test_a_server_that_is_started_again_is_waited_for(between: Tuple[Between, str]) -> None:
    """Requests are repeated until the timeout is over; then the error says that the server is gone."""
    stands, uri = between
    index = made(uri, timeout=4.0, retries=0)
    index.query(QUERIES, 3)
    stands.calls.clear()
    stands.answers["Search"] = [refuse("UNAVAILABLE")] * 2
    assert index.query(QUERIES, 3)[0].tolist() == RIGHT
    assert stands.calls.count("Search") == 3
    index._opened().timeout = 0.5
    stands.answers["Search"] = [refuse("UNAVAILABLE")] * 1000
    code, text = code_of(lambda: index.query(QUERIES, 3))
    assert (code, uri in text) == ("E230", True)
    index.close()


def test_a_collection_that_is_no_longer_in_memory_is_loaded_again(between: Tuple[Between, str]) -> None:
    from pymilvus.grpc_gen import common_pb2, milvus_pb2

    def not_loaded(_context: Any) -> Any:  # the answer of a server that was restarted
        return milvus_pb2.SearchResults(status=common_pb2.Status(error_code=common_pb2.UnexpectedError, code=101, reason="collection not loaded"))

    stands, uri = between
    index = made(uri)
    index.query(QUERIES, 3)
    stands.calls.clear()
    stands.messages["Search"] = [not_loaded]
    assert index.query(QUERIES, 3)[0].tolist() == RIGHT
    assert (stands.calls.count("Search"), stands.calls.count("LoadCollection")) == (2, 1)
    stands.messages["Search"] = [not_loaded] * 2
    code, text = code_of(lambda: index.query(QUERIES, 3))  # an error that is its own cause, as pymilvus raises it
    assert (code, "asked to search and says: collection not loaded" in text) == ("E236", True)
    index.close()


def test_annotate_ends_when_the_server_is_gone_and_goes_on_later(
    between: Tuple[Between, str], tmp_path: Path, tiny_linker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spacy_sapbert.build.linker import build_linker
    from spacy_sapbert.corpus.annotate import annotate
    from spacy_sapbert.corpus.annotator import AnnotationSettings

    monkeypatch.setattr("spacy_sapbert.indexes.rescored.MOST_WITH_NEIGHBOURS", 0)  # without the table, names are searched on the server
    stands, uri = between
    index = MilvusIndex(uri, "", tune=False, timeout=8.0)
    folder = build_linker([], tmp_path / "linker", kb=tiny_linker / "kb", index=index, progress=False)
    notes = [{"id": str(i), "text": f"Fevers and colds, note {i}: hypertensions."} for i in range(12)]
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes))
    settings = AnnotationSettings(str(folder))

    def run(out: str) -> Any:
        return annotate(tmp_path / "notes.jsonl", tmp_path / out, settings, partition_size=2, progress=False)

    whole = run("whole")
    assert (whole.counts.failed, whole.counts.linked > 12) == (0, True)
    searches = stands.calls.count("Search")
    stands.calls.clear()
    stands.gone_after["Search"] = searches // 2
    code, text = code_of(lambda: run("cut"))
    assert (code, uri in text) == ("E230", True)
    done = {path.name for path in (tmp_path / "cut").glob("part-*.parquet")}
    assert 0 < len(done) < 6
    assert not (tmp_path / "cut" / "_failed").exists()  # it is not the fault of a note
    assert not (tmp_path / "cut" / "_summary.json").exists()
    stands.gone_after.clear()  # the server is back
    assert run("cut").kept == len(done)
    whole_files, cut_files = (folder_to_bytes(tmp_path / name) for name in ("whole", "cut"))
    assert cut_files == whole_files


@pytest.mark.nightly
def test_a_real_server_that_is_killed_while_annotate_runs(tmp_path: Path, tiny_linker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run ends with E230 and keeps finished partitions. After a restart of the server, the same command does the rest, with the same bytes."""
    from spacy_sapbert.build.linker import build_linker

    monkeypatch.setattr("spacy_sapbert.indexes.rescored.MOST_WITH_NEIGHBOURS", 0)  # without the table, names are searched on the server
    server = Standalone(lease=60)  # the server that is started again loads nothing until the lease of the killed one is over
    folder = build_linker([], tmp_path / "linker", kb=tiny_linker / "kb", index=MilvusIndex(server.uri, "", tune=False, timeout=60.0), progress=False)
    names = ["fever", "common cold", "hypertension", "cough", "heart attack", "wandering knees"]
    notes = [{"id": str(i), "text": f"Had {names[i % 6]} and {names[(i // 6) % 6]} for {i} days, {names[(i // 36) % 6]} before."} for i in range(60)]
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes))

    def command(out: str) -> List[str]:
        words = [sys.executable, "-m", "spacy_sapbert", "annotate", str(tmp_path / "notes.jsonl"), str(tmp_path / out)]
        return [*words, "--linker-name", str(folder), "--partition-size", "1", "--workers", "1"]

    def parts(out: str) -> List[Path]:
        return sorted((tmp_path / out).glob("part-*.parquet"))

    whole = subprocess.run(command("whole"), capture_output=True, text=True, timeout=300)
    assert whole.returncode == 0, whole.stderr
    cut = subprocess.Popen(command("cut"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while len(parts("cut")) < 5 and cut.poll() is None:
        pass
    server.kill()
    said = cut.communicate(timeout=300)[1]
    done = len(parts("cut"))
    assert (cut.returncode != 0, "[E230]" in said, 5 <= done < 60) == (True, True, True), said
    server.start()
    until = time.monotonic() + 240
    while (again := subprocess.run(command("cut"), capture_output=True, text=True, timeout=300)).returncode and time.monotonic() < until:
        assert "[E2" in again.stderr, again.stderr  # the server may still be loading the collection
    assert again.returncode == 0, again.stderr
    assert folder_to_bytes(tmp_path / "cut") == folder_to_bytes(tmp_path / "whole")
    server.stop()


# -- linkers -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["folder", "server", "standalone"])
def test_a_linker_links_as_with_any_engine(place: str, tmp_path: Path, tiny_linker: Path) -> None:
    """The linker is built and measured, used by several processes, saved and loaded, and updated to a new release."""
    import spacy

    from spacy_sapbert.build.linker import build_linker, read_source
    from spacy_sapbert.build.update import update_linker
    from spacy_sapbert.bundle import open_index

    uri = at(place)
    folder = build_linker([], tmp_path / "linker", kb=tiny_linker / "kb", index=MilvusIndex(uri, tune=False, timeout=20.0), progress=False)
    chosen = json.loads((folder / "index" / "manifest.json").read_text())["report"]["chosen"]
    assert chosen["acc_at_1"] > 0.5

    def load(linker: Path) -> Any:
        nlp = spacy.blank("en")
        ruler = nlp.add_pipe("entity_ruler")
        ruler.add_patterns([{"label": "X", "pattern": "wandering knees"}, {"label": "X", "pattern": "high blod pressure"}])
        nlp.add_pipe("sapbert_linker", config={"linker_name": str(linker), "threshold": 0.0})
        return nlp

    def links(nlp: Any, processes: int = 1) -> Any:
        docs = list(nlp.pipe(["wandering knees and high blod pressure"] * 4, n_process=processes, batch_size=2))
        # the candidates of Annoy agree with it in the nearest names
        return [[(ent.kb_id_, [(i, round(score, 4)) for i, score in ent._.kb_ents][:2]) for ent in doc.ents] for doc in docs]

    expected = links(load(tiny_linker))
    assert [kb_id for kb_id, _ in expected[0]] == ["C9000002", "C9100009"]
    nlp = load(folder)
    assert links(nlp) == expected
    assert links(nlp, processes=2) == expected  # the parent is connected when it forks
    if place == "folder":
        return
    nlp.to_disk(tmp_path / "pipeline")
    again = spacy.load(tmp_path / "pipeline")
    assert again.get_pipe("sapbert_linker").index.get_config()["uri"] == uri  # type: ignore[attr-defined]
    assert links(again) == expected
    updated, _ = update_linker(folder, [read_source(Path(__file__).parents[1] / "data" / "tiny.obo")], tmp_path / "updated", progress=False)
    index = open_index(updated)
    assert (type(index), index.uri) == (MilvusIndex, uri)
    assert index.query(index.vectors(np.arange(3)), 1)[0][:, 0].tolist() == [0, 1, 2]
