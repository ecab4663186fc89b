"""Process requests in batches: a queue with a limit, and one thread that takes batches from it.

The thread does not wait until a batch is full. While it works on one batch, the next requests collect in the queue. So a single client gets its
answer at once, and many clients share batches.
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
SMOOTHING = 0.2  # weight of the newest batch in the average time of an item
FIRST_GUESS = 0.1  # seconds per item, until a batch has been measured
MAX_RETRY_SECONDS = 60


class QueueFull(SapbertError):
    """The queue is full.

    Attributes:
        retry_after: seconds after which the queue should have room again.
    """

    retry_after: int = 1


class _Waiting(NamedTuple):
    item: object
    future: Future[object]


class Batcher(Generic[Item, Answer]):
    """Processes items in batches, in the order in which they arrive, in its own thread.

    Args:
        work: function that takes the items of a batch and returns for each an answer, or the exception that the item caused.
        batch_size: maximum number of items in a batch.
        max_queue: maximum number of items that wait.
        seen: called after each batch with its number of items and its duration in seconds.
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
        """Start the thread."""
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of items that are waiting."""
        return len(self._queue)

    @property
    def retry_after(self) -> int:
        """Seconds after which the items that are waiting now should be finished, 1 to `MAX_RETRY_SECONDS`."""
        return min(MAX_RETRY_SECONDS, max(1, round(self.waiting * self._seconds)))

    def submit(self, items: Sequence[Item]) -> list[Future[Answer]]:
        """Put items into the queue: all of them, or none if there is no room.

        Returns:
            A future for each item. An item whose future is cancelled while it waits is not processed.

        Raises:
            QueueFull: E072, the queue has no room for them.
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
        """Accept no more items, finish the items in the queue, and end the thread."""
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
        """Wait for items and return a batch of them; an empty list when the queue is closed and empty."""
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
        except Exception as error:  # an error must not end the thread
            answers = [error] * len(batch)
        for entry, answer in zip(batch, answers, strict=True):
            if isinstance(answer, Exception):
                entry.future.set_exception(answer)
            else:
                entry.future.set_result(answer)
