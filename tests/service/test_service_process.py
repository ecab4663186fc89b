"""The service as a process: stopping with open requests, clients that misbehave, and failures at the start."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from spacy_sapbert.service.run import HEAD_SECONDS

pytestmark = pytest.mark.e2e

SECONDS = 120.0
NOTE = "Fevers and a cold. No chest pain.\nTakes aspirin for hypertension. marzipan\n"


class Running:
    """A running service and its standard error."""

    def __init__(self, linker: Path, *options: str, **environment: str) -> None:
        command = [sys.executable, "-m", "spacy_sapbert", "serve", "--port", "0", "--linker-name", str(linker), *options]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1", **environment}
        )
        self.lines: list[str] = []
        self._there_are_lines = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.url = self.wait_for(r"^Listening on (http://127\.0\.0\.1:\d+)$")[1]
        self.wait_for(r"^ready: ")

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._there_are_lines:
                self.lines.append(line.rstrip("\n"))
                self._there_are_lines.notify_all()

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait for a line of the log."""
        found: list[re.Match[str]] = []

        def seen() -> bool:
            found[:] = [match for line in self.lines if (match := re.search(pattern, line))]
            return bool(found)

        with self._there_are_lines:
            assert self._there_are_lines.wait_for(seen, SECONDS), self.lines
        return found[0]

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return host, int(port)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop it gracefully and return its exit code."""
        self.process.send_signal(number)
        code = self.process.wait(SECONDS)
        self._reader.join(SECONDS)
        return code


@pytest.fixture
def start(tiny_linker: Path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def run(*options: str, **environment: str) -> Running:
        started.append(Running(tiny_linker, *options, **environment))
        return started[-1]

    yield run
    for service in started:
        service.process.kill()
        service.process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_stopped_while_requests_are_open_it_answers_them_all(start: Callable[..., Running], number: signal.Signals) -> None:
    service = start("--batch-size", "2")
    asked = {"texts": [NOTE * 40] * 10}

    def ask(number: int) -> httpx.Response:
        return httpx.post(f"{service.url}/link", json=asked, timeout=SECONDS)

    with ThreadPoolExecutor(6) as pool, httpx.Client(base_url=service.url, timeout=SECONDS) as client:
        answers = [pool.submit(ask, number) for number in range(6)]
        waiting = 0.0
        while waiting < 40 and not all(answer.done() for answer in answers):  # until most of the 60 texts wait in the queue
            line = next(line for line in client.get("/metrics").text.splitlines() if line.startswith("sapbert_waiting "))
            waiting = float(line.split()[1])
        assert waiting >= 40
        code = service.stop(number)
        found = [answer.result(SECONDS) for answer in answers]
    assert code == 0
    assert [answer.status_code for answer in found] == [200] * 6
    assert all(len(answer.json()["results"]) == 10 for answer in found)
    assert all(answer.json() == found[0].json() for answer in found)
    assert service.lines[-1] == "stopped"
    assert not [line for line in service.lines if "marzipan" in line]
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{service.url}/health", timeout=SECONDS)


def test_clients_that_misbehave(start: Callable[..., Running]) -> None:
    service = start("--max-body-bytes", "100000", "--timeout", "20", SPACY_SAPBERT_API_KEY="sesame")
    headers = {"x-api-key": "sesame"}

    def post(**what: Any) -> httpx.Response:
        return httpx.post(f"{service.url}/link", headers=headers, timeout=SECONDS, **what)

    wanted = post(json={"text": NOTE}).json()
    before = psutil.Process(service.process.pid).memory_info().rss
    for _ in range(5):
        assert post(content=b"x" * 50_000_000).status_code == 413  # the service receives the rest, so that the client gets the answer
        assert post(content=(b"x" * 1_000_000 for _ in range(50))).status_code == 413
    assert psutil.Process(service.process.pid).memory_info().rss - before < 30_000_000
    body = json.dumps({"text": NOTE * 100}).encode()
    head = b"POST /link HTTP/1.1\r\nHost: here\r\nX-API-Key: sesame\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    for sent in (head % len(body) + body[:10], head % len(body) + body, b"\x16\x03\x01 marzipan\r\n\r\n", b"GET /" + b"a" * 100_000, b""):
        for _ in range(10):
            with socket.create_connection(service.address, SECONDS) as connection:
                connection.sendall(sent)
    assert httpx.post(f"{service.url}/link", json={"text": NOTE}, timeout=SECONDS).status_code == 401
    assert post(json={"text": NOTE}).json() == wanted
    assert service.stop() == 0
    assert not [line for line in service.lines if "marzipan" in line or "Traceback" in line or "sesame" in line]
    assert any(re.search(r" POST /link 499, ", line) for line in service.lines)


def test_an_early_answer_arrives_whole(start: Callable[..., Running]) -> None:
    """This client stops sending. The service then closes the connection, and what it has not yet sent is lost."""
    service = start("--max-body-bytes", "100000")
    request = b"POST /link HTTP/1.1\r\nHost: here\r\nContent-Length: 50000000\r\n\r\n" + b"x" * 1_000_000
    for _ in range(10):
        with socket.create_connection(service.address, SECONDS) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)  # acknowledge late, as on a busy machine
            answer = b""
            with contextlib.suppress(ConnectionError):
                connection.sendall(request)
            with contextlib.suppress(ConnectionError):
                while part := connection.recv(10_000):
                    answer += part
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"[E070]" in answer
        head, _, body = answer.partition(b"\r\n\r\n")
        assert int(re.search(rb"content-length: (\d+)", head)[1]) == len(body)  # type: ignore[index]
    assert service.stop() == 0


def test_a_client_that_sends_slowly_is_not_waited_for(start: Callable[..., Running]) -> None:
    service = start("--timeout", "1")
    with socket.create_connection(service.address, SECONDS) as connection:
        connection.sendall(b"POST /link HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
        begun = time.monotonic()
        answer = b"".join(iter(lambda: connection.recv(10_000), b""))
    assert answer.startswith(b"HTTP/1.1 504 ")
    assert time.monotonic() - begun < 30
    assert b"E073" in answer


def test_headers_that_never_end_are_not_waited_for(start: Callable[..., Running]) -> None:
    service = start()
    whole = b"GET /health HTTP/1.1\r\nHost: here\r\n\r\n"

    def held(first: bytes, drip: bytes) -> tuple[float, bytes]:
        """Send something and then, each second, a little more. Return for how many seconds the connection stayed open, and what was answered."""
        answer, begun = b"", time.monotonic()
        with socket.create_connection(service.address, SECONDS) as connection, contextlib.suppress(ConnectionError):
            connection.settimeout(1)
            connection.sendall(first)
            while time.monotonic() - begun < 60:
                try:
                    part = connection.recv(10_000)
                    answer += part
                    if not part:
                        break
                except TimeoutError:
                    connection.sendall(drip)
        return time.monotonic() - begun, answer

    cases = [(b"", b""), (whole[:10], b"x"), (whole[:-2], b"X-More: 1\r\n"), (whole, whole[:1]), (whole, b"")]
    with ThreadPoolExecutor(len(cases)) as clients:
        silent, drips, headers, second, kept = clients.map(lambda case: held(*case), cases)
    for seconds, answer in (silent, drips, headers):
        assert HEAD_SECONDS - 1 < seconds < HEAD_SECONDS + 5
        assert answer == b""
    assert HEAD_SECONDS - 1 < second[0] < HEAD_SECONDS + 7  # one second passes before the second request begins
    assert second[1].startswith(b"HTTP/1.1 200 ")
    assert kept[0] < HEAD_SECONDS  # uvicorn's own limit, of a connection without a request
    too_long = held(whole[:-2] + b"X-More: " + b"x" * 70_000, b"x")
    assert too_long[1].startswith(b"HTTP/1.1 400 ")
    assert httpx.get(f"{service.url}/health").status_code == 200
    assert service.stop() == 0


def test_it_says_why_it_cannot_start(tiny_linker: Path) -> None:
    def refused(*options: str) -> str:
        command = [sys.executable, "-m", "spacy_sapbert", "serve", *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        return done.stderr.strip().splitlines()[-1]

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert refused("--port", port, "--linker-name", str(tiny_linker)).startswith("[E079]")
    assert refused("--port", "0", "--linker-name", "nowhere").startswith("[E001]")
    assert refused("--allow", "k").startswith("[E002]")
    assert refused("--port", "0", "--linker-name", str(tiny_linker), "--types", "T999").startswith("[E104]")


def test_warm_prepares_a_linker(tiny_linker: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "spacy_sapbert", "warm", "--linker-name", str(tiny_linker)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    assert re.fullmatch(rf"{re.escape(str(tiny_linker))}: \d+ concepts, ready in \d+\.\d s\n", done.stdout)
