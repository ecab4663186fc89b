"""The metrics of the service, for Prometheus. They are only sizes, counts and times: no text and no names of concepts."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

# upper bounds of the buckets of histograms
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The metrics of one service. Each service has its own, so that several services can run in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        of = self.registry
        self.requests = Counter("sapbert_requests", "Requests by route, method and status.", ["route", "method", "status"], registry=of)
        self.seconds = Histogram("sapbert_request_seconds", "Duration of a request in seconds.", ["route"], buckets=SECONDS, registry=of)
        self.body_bytes = Counter("sapbert_body_bytes", "Bytes of all request bodies that were read.", registry=of)
        self.texts = Counter("sapbert_texts", "Texts that were linked.", registry=of)
        self.characters = Counter("sapbert_characters", "Characters of the texts that were linked.", registry=of)
        self.mentions = Counter("sapbert_mentions", "Mentions that were found.", registry=of)
        self.linked = Counter("sapbert_mentions_linked", "Mentions with a link.", registry=of)
        self.batch_size = Histogram("sapbert_batch_size", "Texts and lookups in one batch.", buckets=SIZES, registry=of)
        self.batch_seconds = Histogram("sapbert_batch_seconds", "Duration of a batch in seconds.", buckets=SECONDS, registry=of)
        self.waiting = Gauge("sapbert_waiting", "Texts and lookups that wait in the queue.", registry=of)
        self.ready = Gauge("sapbert_ready", "1 when the linker is loaded.", registry=of)

    def watch_queue(self, waiting: Callable[[], int]) -> None:
        """Report the length of the queue. `waiting` is called each time that the metrics are read."""
        self.waiting.set_function(waiting)

    def saw_batch(self, size: int, seconds: float) -> None:
        """Record a batch.

        Args:
            size: number of texts and lookups.
            seconds: its duration.
        """
        self.batch_size.observe(size)
        self.batch_seconds.observe(seconds)

    def saw_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Record a request.

        Args:
            route: path of the route.
            method: HTTP method.
            status: HTTP status of the answer.
            seconds: its duration.
        """
        self.requests.labels(route, method, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def saw_texts(self, texts: int, characters: int, mentions: int, linked: int) -> None:
        """Record the numbers of texts, characters, mentions and linked mentions of a request that was answered."""
        self.texts.inc(texts)
        self.characters.inc(characters)
        self.mentions.inc(mentions)
        self.linked.inc(linked)

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)
