"""The queue of the service: order, sizes, limits, requests that are left out, and the shutdown."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError

import pytest

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.service.batching import MAX_RETRY_SECONDS, Batcher, QueueFull

SECONDS = 30


class Held:
    """Work that doubles numbers, waits for `go` when it gets a 0, and records its batches."""

    def __init__(self) -> None:
        self.go, self.begun = threading.Event(), threading.Event()
        self.batches: list[list[int]] = []

    def __call__(self, items: Sequence[int]) -> list[int | Exception]:
        self.batches.append(list(items))
        if 0 in items:
            self.begun.set()
            assert self.go.wait(SECONDS)
        return [2 * item for item in items]


def held(batch_size: int = 4, max_queue: int = 10) -> tuple[Held, Batcher[int, int]]:
    """A batcher that is busy with a 0 until `go`."""
    work = Held()
    batcher: Batcher[int, int] = Batcher(work, batch_size=batch_size, max_queue=max_queue)
    batcher.start()
    batcher.submit([0])
    assert work.begun.wait(SECONDS)
    return work, batcher


def test_what_comes_together_is_worked_on_together_in_order() -> None:
    work, batcher = held(batch_size=4)
    futures = [future for items in ([1, 2, 3], [4, 5], [6]) for future in batcher.submit(items)]
    assert batcher.waiting == 6
    work.go.set()
    assert [future.result(SECONDS) for future in futures] == [2, 4, 6, 8, 10, 12]
    assert work.batches == [[0], [1, 2, 3, 4], [5, 6]]
    batcher.close()


def test_a_full_queue_takes_all_items_of_a_request_or_none() -> None:
    work, batcher = held(max_queue=5)
    batcher.submit([1, 2, 3])
    with pytest.raises(QueueFull, match=r"^\[E072\] 3 texts are waiting, and at most 5 may wait\.") as error:
        batcher.submit([4, 5, 6])
    assert 1 <= error.value.retry_after <= MAX_RETRY_SECONDS
    assert batcher.waiting == 3
    fits = batcher.submit([4, 5])
    work.go.set()
    assert [future.result(SECONDS) for future in fits] == [8, 10]
    batcher.close()


def test_what_was_cancelled_is_not_worked_on() -> None:
    work, batcher = held(batch_size=2)
    one, two, three = batcher.submit([1, 2, 3])
    assert two.cancel()
    work.go.set()
    assert [one.result(SECONDS), three.result(SECONDS)] == [2, 6]
    assert work.batches == [[0], [1, 3]]
    with pytest.raises(CancelledError):
        two.result(SECONDS)
    batcher.close()


def test_closing_answers_what_was_taken_and_takes_no_more() -> None:
    work, batcher = held(batch_size=1)
    futures = batcher.submit([1, 2, 3])
    closing = threading.Thread(target=batcher.close)
    closing.start()
    work.go.set()
    closing.join(SECONDS)
    assert [future.result(0) for future in futures] == [2, 4, 6]
    with pytest.raises(SapbertError, match=r"^\[E075\]"):
        batcher.submit([7])


def test_work_that_raises_is_an_answer_and_the_thread_goes_on() -> None:
    def work(items: Sequence[int]) -> list[int | Exception]:
        if 13 in items:
            raise RuntimeError("thirteen")
        return [ValueError("odd") if item % 2 else item for item in items]

    batcher: Batcher[int, int] = Batcher(work, batch_size=8, max_queue=8)
    (bad,) = batcher.submit([13])
    batcher.start()
    with pytest.raises(RuntimeError, match="thirteen"):
        bad.result(SECONDS)
    odd, even = batcher.submit([1, 2])
    with pytest.raises(ValueError, match="odd"):
        odd.result(SECONDS)
    assert even.result(SECONDS) == 2
    batcher.close()


def test_sizes_and_seconds_of_batches_are_told() -> None:
    seen: list[int] = []
    batcher: Batcher[int, int] = Batcher(lambda items: [*items], batch_size=3, max_queue=9, seen=lambda size, seconds: seen.append(size))
    futures = batcher.submit([1, 2, 3, 4])
    batcher.start()
    assert [future.result(SECONDS) for future in futures] == [1, 2, 3, 4]
    batcher.close()
    assert seen == [3, 1]


def test_the_wait_grows_with_the_queue_and_has_a_limit() -> None:
    batcher: Batcher[int, int] = Batcher(lambda items: [*items], batch_size=1, max_queue=5000)
    assert batcher.retry_after == 1
    batcher.submit(range(100))
    assert batcher.retry_after == 10  # a tenth of a second for each text, before the time was measured
    batcher.submit(range(4000))
    assert batcher.retry_after == MAX_RETRY_SECONDS
