"""The base that a workflow trains from, with a hub on this machine, a hub that does not answer, and no hub."""

from __future__ import annotations

import http.server
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spacy_sapbert.errors import MissingFile
from training.data.bases import choose_base, why_not_from_hub
from training.evaluation.evaluate import parse_encoders
from training.paths import named
from training.train import overridden

ROOT = Path(__file__).parents[3]
NAME = "toy/base"
FILES = {
    "config.json": b'{"model_type": "bert"}',
    "vocab.txt": b"[PAD]\n",
    "model.safetensors": b"weights",
    "flax_model.msgpack": b"of another library",
}
SHA = "0" * 39 + "1"


class _Hub(http.server.BaseHTTPRequestHandler):
    """The part of the hub's interface that its client uses."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        file = self.path.rpartition("/")[2]
        if self.path.startswith(f"/api/models/{NAME}"):
            siblings = [{"rfilename": name} for name in self.server.files]  # type: ignore[attr-defined]
            body = json.dumps({"id": NAME, "sha": SHA, "siblings": siblings, "private": False, "tags": [], "downloads": 0}).encode()
        elif self.path.startswith(f"/{NAME}/resolve/") and file in self.server.files:  # type: ignore[attr-defined]
            body = self.server.files[file]  # type: ignore[attr-defined]
        else:
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.end_headers()
            return
        self.send_response(200)
        for header, value in (
            ("ETag", f'"{file}"'),
            ("X-Repo-Commit", SHA),
            ("Content-Length", str(len(body))),
            ("Content-Type", "application/json"),
        ):
            self.send_header(header, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[http.server.ThreadingHTTPServer]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    server.files = dict(FILES)  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def chosen(tmp_path: Path, *arguments: str, port: int, offline: bool = False) -> tuple[str, str]:
    """Run `training base` in a separate process, because the hub's client reads its settings when it is imported; return base and message."""
    out = tmp_path / "base.txt"
    settings = {
        "HF_ENDPOINT": f"http://127.0.0.1:{port}",
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_OFFLINE": str(int(offline)),
        "NO_PROXY": "127.0.0.1",
    }
    command = [sys.executable, "-m", "training", "base", *arguments, "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **settings}, capture_output=True, text=True, timeout=120, check=True)
    return out.read_text().strip(), done.stderr.strip().splitlines()[-1]


@pytest.mark.e2e
def test_the_hubs_base_is_taken_where_the_hub_answers(tmp_path: Path, hub: http.server.ThreadingHTTPServer) -> None:
    port = hub.server_address[1]
    assert chosen(tmp_path, "", "--hub", NAME, port=port) == (NAME, f"base: {NAME}")
    (snapshot,) = (tmp_path / "hf").rglob("snapshots/*")
    assert {path.name for path in snapshot.iterdir()} == {"config.json", "vocab.txt", "model.safetensors"}
    hub.shutdown()
    assert chosen(tmp_path, "", "--hub", NAME, port=port, offline=True)[0] == NAME  # it is in the cache


@pytest.mark.e2e
def test_where_the_hub_has_no_such_weights_the_installed_base_is_taken(tmp_path: Path, hub: http.server.ThreadingHTTPServer) -> None:
    del hub.files["model.safetensors"]  # type: ignore[attr-defined]
    base, said = chosen(tmp_path, "", "--hub", NAME, port=hub.server_address[1])
    assert base == ""
    assert said.startswith(f"base: all-MiniLM-L6-v2, because '{NAME}' can't be downloaded from the hub (its weights are missing)")
    assert said.endswith("--vars.base FOLDER")


@pytest.mark.e2e
def test_a_hub_that_never_answers_costs_seconds(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        start = time.perf_counter()
        base, said = chosen(tmp_path, "", "--hub", NAME, port=silent.getsockname()[1])
        assert (base, "Timeout" in said) == ("", True)
        assert time.perf_counter() - start < 30  # about five seconds are waiting, the rest are imports; the retries of the client would take 54


@pytest.mark.e2e
def test_a_training_whose_base_is_on_a_hub_that_is_gone_says_so_at_once(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # nobody listens at this port
        settings = {
            "HF_ENDPOINT": f"http://127.0.0.1:{free.getsockname()[1]}",
            "HF_HOME": str(tmp_path),
            "HF_HUB_OFFLINE": "0",
            "NO_PROXY": "127.0.0.1",
        }
        code = f"from training.loop.model import open_base; open_base('{NAME}')"
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={**os.environ, **settings}, capture_output=True, text=True, timeout=120)
    said = done.stderr.strip().splitlines()[-1]
    assert f"[E512] Base encoder '{NAME}' can't be loaded: it is no folder, and the hub doesn't have it, or can't be reached (ConnectionError" in said
    assert said.endswith("or its folder (--paths.base FOLDER).")
    assert "Retrying" not in done.stderr  # the client would try 12 times, and take most of a minute


def test_a_name_that_no_hub_can_have_is_a_reason() -> None:
    assert why_not_from_hub("no/such/folder").startswith("HFValidationError")


def test_offline_says_so_and_a_named_base_asks_no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    out = tmp_path / "base.txt"
    assert "can't be downloaded from the hub (" in choose_base("", "toy/no-such-base", out)  # HF_HUB_OFFLINE of the tests
    assert out.read_text() == "\n"
    assert choose_base("my/folder", "toy/no-such-base", out) == "base: my/folder"
    assert out.read_text() == "my/folder\n"
    assert choose_base("", "", out) == "base: all-MiniLM-L6-v2"


def test_options_take_the_name_in_a_file(tmp_path: Path) -> None:
    out = tmp_path / "base.txt"
    choose_base("my/base", "", out)
    assert named(f"@{out}") == "my/base"
    assert named("other") == "other"
    assert parse_encoders([f"base=@{out}"]) == {"base": "my/base"}
    assert overridden(Path("sap.cfg"), ["--paths.base", f"@{out}", "--training.seed", "8"]) == {"paths.base": "my/base", "training.seed": 8}
    with pytest.raises(MissingFile, match="E401"):
        named("@nowhere.txt")
