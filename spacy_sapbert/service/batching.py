"""Link requests that come together in one batch: a queue with a limit, and one thread that works on it.

There is no waiting for a batch to fill. While one batch is worked on, the next one gathers, so that a single client is answered at once and
many clients share the work.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, NamedTuple, TypeVar

from ..errors import SapbertError, fail

Item = TypeVar("Item")
Answer = TypeVar("Answer")
SMOOTHING = 0.2  # weight of the newest batch in the seconds that an item takes
FIRST_GUESS = 0.1  # seconds for an item, before one was measured
MAX_RETRY_SECONDS = 60


class QueueFull(SapbertError):
    """Too much waits already.

    Attributes:
        retry_after: seconds after which there should be room.
    """

    retry_after: int = 1


class _Waiting(NamedTuple):
    item: object
    future: Future[object]


class Batcher(Generic[Item, Answer]):
    """Works on items in the order in which they came, some at a time, in a thread of its own.

    Args:
        work: gets items and returns an answer, or the exception that it raised, for each.
        batch_size: items that are worked on together.
        max_queue: items that may wait.
        seen: called with the number of items and the seconds of each batch.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Item]], Sequence[Answer | Exception]],
        *,
        batch_size: int,
        max_queue: int,
        seen: Callable[[int, float], None] | None = None,
    ) -> None:
        self._work, self.batch_size, self.max_queue = work, batch_size, max_queue
        self._seen = seen
        self._queue: deque[_Waiting] = deque()
        self._there_is_work = threading.Condition()
        self._closed = False
        self._seconds = FIRST_GUESS
        self._thread = threading.Thread(target=self._run, name="linking", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of items that wait."""
        return len(self._queue)

    @property
    def retry_after(self) -> int:
        """Seconds after which the items that wait now should be done."""
        return min(MAX_RETRY_SECONDS, max(1, round(self.waiting * self._seconds)))

    def submit(self, items: Sequence[Item]) -> list[Future[Answer]]:
        """Put items into the queue, all or none.

        Returns:
            A future for each item. An item whose future is cancelled while it waits is left out.

        Raises:
            QueueFull: E072, they do not fit.
            SapbertError: E075, the queue is closed.
        """
        with self._there_is_work:
            if self._closed:
                raise fail("E075")
            if len(self._queue) + len(items) > self.max_queue:
                full = fail("E072", QueueFull, waiting=len(self._queue), most=self.max_queue, seconds=self.retry_after)
                assert isinstance(full, QueueFull)
                full.retry_after = self.retry_after
                raise full
            entries = [_Waiting(item, Future()) for item in items]
            self._queue.extend(entries)
            self._there_is_work.notify()
        return [entry.future for entry in entries]  # type: ignore[misc]

    def close(self) -> None:
        """Take no more items, work on those that were taken, and end."""
        with self._there_is_work:
            self._closed = True
            self._there_is_work.notify()
        if self._thread.is_alive():
            self._thread.join()

    # -- the thread -----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while batch := self._take():
            start = time.perf_counter()
            self._answer(batch)
            seconds = time.perf_counter() - start
            self._seconds += SMOOTHING * (seconds / len(batch) - self._seconds)
            if self._seen is not None:
                self._seen(len(batch), seconds)

    def _take(self) -> list[_Waiting]:
        """Wait for items and return a batch of them; none when the queue is closed and empty."""
        batch: list[_Waiting] = []
        with self._there_is_work:
            while not batch:
                while self._queue and len(batch) < self.batch_size:
                    entry = self._queue.popleft()
                    if entry.future.set_running_or_notify_cancel():
                        batch.append(entry)
                if not batch:
                    if self._closed:
                        return []
                    self._there_is_work.wait()
        return batch

    def _answer(self, batch: list[_Waiting]) -> None:
        try:
            answers: Sequence[object] = self._work([entry.item for entry in batch])  # type: ignore[misc]
        except Exception as error:  # the thread must go on
            answers = [error] * len(batch)
        for entry, answer in zip(batch, answers, strict=True):
            if isinstance(answer, Exception):
                entry.future.set_exception(answer)
            else:
                entry.future.set_result(answer)
