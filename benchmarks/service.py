"""Compare the service with the library alone: notes per second, latencies at several numbers of clients, and memory under mixed requests."""

from __future__ import annotations

import asyncio
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from training.corpora import read_notes

from .common import Report, Table, data_file, need
from .linking import MTSAMPLES
from .memory import own_mb
from .worker import measure

SECTION = "service"
NOTES = 48
CLIENTS = (1, 8, 64)
ROUNDS = 3
SOAK_SECONDS = 600.0
SOAK_CLIENTS, SOAK_PARTS = 8, 5
PROTOCOL = (
    f"{NOTES} MTSamples notes, the linker `open` with the pipeline of `spacy_sapbert.load()`, one text in a request. Each client sends its next request when it "
    f"has the answer. library: the same notes by `nlp.pipe` in a process of its own, with the records as JSON. The first pass does not count, so caches are "
    f"warm in both; library and clients in turn, {ROUNDS} rounds, medians. CPU: of the service's process, and of the library's. The clients run on the same cores."
)
SOAK_PROTOCOL = (
    "Mixed requests of 8 clients: one text, several texts, own spans, lookups, searches, bad requests, clients that hang up. Memory of the service that is not "
    "mapped from files, and all its resident memory, after each fifth of the time. The linker caches up to 100,000 answers and 20,000 concepts, so it grows until "
    "the caches are full or no new mentions come; pages of mapped files become resident when they are first read."
)

Post = Callable[[str, Any], Awaitable[int]]


def run(data: Path, report: Report) -> None:
    """Measure throughput and latencies, then the memory."""
    need("uvicorn", '".[serve]"')
    need("httpx", "httpx")
    texts = read_notes(data_file(data, MTSAMPLES), NOTES)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as notes:
        json.dump(texts, notes)
        notes.flush()
        report.add(SECTION, throughput(texts, notes.name))
    report.add(SECTION, soak(texts))


def throughput(texts: list[str], notes: str) -> Table:
    """Measure the service and the library in turn.

    Args:
        texts: The notes.
        notes: Path of a JSON file with the same notes.
    """
    import psutil

    rates: dict[str, list[float]] = {}
    work: dict[str, list[float]] = {}
    seconds: dict[int, list[float]] = {count: [] for count in CLIENTS}
    with service() as (url, pid):
        asyncio.run(load(url, texts, 8))  # fills the caches
        for _ in range(ROUNDS):
            alone = measure("library_rate", notes)
            rates.setdefault("library", []).append(alone["notes_s"])
            work.setdefault("library", []).append(alone["cpu_s_note"])
            for count in CLIENTS:
                begun, used = time.perf_counter(), sum(psutil.Process(pid).cpu_times()[:2])
                seconds[count] += asyncio.run(load(url, texts, count))
                work.setdefault(name_of(count), []).append((sum(psutil.Process(pid).cpu_times()[:2]) - used) / len(texts))
                rates.setdefault(name_of(count), []).append(len(texts) / (time.perf_counter() - begun))
    columns = ["who", "notes/s", "of the library, %", "CPU ms a note", "library's CPU, % of it", "p50 ms", "p95 ms", "p99 ms"]
    table = Table("throughput", "The service and the library", PROTOCOL, columns)
    rate, cost = statistics.median(rates["library"]), statistics.median(work["library"])
    table.add("library", rate, 100.0, 1000 * cost, 100.0, None, None, None)
    for count in CLIENTS:
        its_rate, its_cost = statistics.median(rates[name_of(count)]), statistics.median(work[name_of(count)])
        cuts = statistics.quantiles(seconds[count], n=100, method="inclusive")
        latencies = (1000 * cuts[p - 1] for p in (50, 95, 99))
        table.add(name_of(count), its_rate, 100 * its_rate / rate, 1000 * its_cost, 100 * cost / its_cost, *latencies)
    return table


def name_of(clients: int) -> str:
    """Return a number of clients in words."""
    return f"{clients} clients" if clients > 1 else "1 client"


@contextmanager
def service(*options: str) -> Iterator[tuple[str, int]]:
    """Run the service in its own process while the block runs, and give its address and process id."""
    command = [sys.executable, "-m", "spacy_sapbert", "serve", "--port", "0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        url = ""
        for line in process.stderr:
            if match := re.match(r"Listening on (\S+)", line):
                url = match[1]
            if line.startswith("ready: "):
                break
        else:
            raise RuntimeError("the service did not start")
        drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)  # the service would block if nobody read its log
        yield url, process.pid
        drain.kill()
    finally:
        process.terminate()
        process.wait()


async def load(url: str, texts: list[str], clients: int) -> list[float]:
    """Send each text once with a number of parallel clients, and return the seconds of each request."""
    import httpx

    waiting = list(texts)
    seconds: list[float] = []

    async def send(client: httpx.AsyncClient) -> None:
        while waiting:
            body = {"text": waiting.pop()}
            begun = time.perf_counter()
            (await client.post("/link", json=body)).raise_for_status()
            seconds.append(time.perf_counter() - begun)

    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)
    async with httpx.AsyncClient(base_url=url, timeout=600, limits=limits) as client:
        await asyncio.gather(*(send(client) for _ in range(clients)))
    return seconds


def soak(texts: list[str], seconds: float = SOAK_SECONDS) -> Table:
    """Send mixed requests for some seconds, and measure the service's memory."""
    import psutil

    table = Table("soak", "Mixed requests for a while", SOAK_PROTOCOL, ["measure", "value"])
    statuses: dict[str, int] = {}
    sizes: list[tuple[float, float]] = []
    with service("--timeout", "120") as (url, pid):
        for part in range(SOAK_PARTS):
            for status, count in asyncio.run(mixed(url, texts, seconds / SOAK_PARTS, part)).items():
                statuses[status] = statuses.get(status, 0) + count
            sizes.append((own_mb(pid) or 0.0, psutil.Process(pid).memory_info().rss / 1e6))
    table.add("seconds", seconds)
    table.add("requests", sum(statuses.values()))
    for status, count in sorted(statuses.items()):
        table.add(f"requests that ended with {status}", count)
    for part, (own, resident) in enumerate(sizes, 1):
        table.add(f"own memory after {part}/{SOAK_PARTS} of the time, MB", own)
        table.add(f"RSS after {part}/{SOAK_PARTS} of the time, MB", resident)
    return table


async def mixed(url: str, texts: list[str], seconds: float, part: int) -> dict[str, int]:
    """Send mixed requests for some seconds, and return the number of requests by how they ended: a status code, or "hung up"."""
    import httpx

    end = time.monotonic() + seconds
    statuses: dict[str, int] = {}

    async def one(client: httpx.AsyncClient, choice: random.Random) -> str:
        text = choice.choice(texts)[:4000]
        what = choice.randrange(8)
        if what == 0:
            return str(
                (await client.post("/link", json={"texts": [text[:500]] * 5, "settings": {"types": [choice.choice(["DISO", "CHEM"])]}})).status_code
            )
        if what == 1:
            return str((await client.post("/mentions:link", json={"text": text, "mentions": [{"start": 0, "end": 9}]})).status_code)
        if what == 2:
            return str((await client.post("/lookup", json={"mentions": text.split()[:20]})).status_code)
        if what == 3:
            return str((await client.get("/concepts", params={"query": choice.choice(text.split())})).status_code)
        if what == 4:
            return str((await client.post("/link", content=choice.randbytes(5000), headers={"content-type": "application/json"})).status_code)
        if what == 5:
            with suppress(httpx.TimeoutException):
                await client.post("/link", json={"text": text}, timeout=0.05)
            return "hung up"
        return str((await client.post("/link", json={"text": text})).status_code)

    async def send(client: httpx.AsyncClient, seed: int) -> None:
        choice = random.Random(seed)
        while time.monotonic() < end:
            ended = await one(client, choice)
            statuses[ended] = statuses.get(ended, 0) + 1

    async with httpx.AsyncClient(base_url=url, timeout=600) as client:
        await asyncio.gather(*(send(client, SOAK_CLIENTS * part + i) for i in range(SOAK_CLIENTS)))
    return statuses
