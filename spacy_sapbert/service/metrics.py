"""What the service counts, for Prometheus. Only sizes, counts and times; no text and no names of concepts."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The counters of one service. Each service has its own, so that several can live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        of = self.registry
        self.requests = Counter("sapbert_requests", "Requests by route, method and status.", ["route", "method", "status"], registry=of)
        self.seconds = Histogram("sapbert_request_seconds", "Seconds of a request.", ["route"], buckets=SECONDS, registry=of)
        self.body_bytes = Counter("sapbert_body_bytes", "Bytes of all bodies that were read.", registry=of)
        self.texts = Counter("sapbert_texts", "Texts that were linked.", registry=of)
        self.characters = Counter("sapbert_characters", "Characters of the texts that were linked.", registry=of)
        self.mentions = Counter("sapbert_mentions", "Mentions that were found.", registry=of)
        self.linked = Counter("sapbert_mentions_linked", "Mentions with a link.", registry=of)
        self.batch_size = Histogram("sapbert_batch_size", "Texts and lookups that were worked on together.", buckets=SIZES, registry=of)
        self.batch_seconds = Histogram("sapbert_batch_seconds", "Seconds of a batch.", buckets=SECONDS, registry=of)
        self.waiting = Gauge("sapbert_waiting", "Texts and lookups that wait.", registry=of)
        self.ready = Gauge("sapbert_ready", "1 when the linker is loaded.", registry=of)

    def watch_queue(self, waiting: Callable[[], int]) -> None:
        """Show the length of the queue at the time of asking."""
        self.waiting.set_function(waiting)

    def saw_batch(self, size: int, seconds: float) -> None:
        """Count a batch."""
        self.batch_size.observe(size)
        self.batch_seconds.observe(seconds)

    def saw_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests.labels(route, method, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def saw_texts(self, texts: int, characters: int, mentions: int, linked: int) -> None:
        """Count the texts of a request that was answered."""
        self.texts.inc(texts)
        self.characters.inc(characters)
        self.mentions.inc(mentions)
        self.linked.inc(linked)

    def exposition(self) -> bytes:
        """Return all figures in Prometheus' text format."""
        return generate_latest(self.registry)
