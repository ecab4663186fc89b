"""Signals that end a process become exceptions, so that what was begun is removed and workers are stopped."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

ENDING = (signal.SIGTERM, signal.SIGHUP)  # Python itself raises KeyboardInterrupt for SIGINT (Ctrl-C)


class Ended(KeyboardInterrupt):
    """The process was told to end.

    Attributes:
        number: number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """Raise `Ended` in this block when the process gets one of the signals `ENDING`. Signals that are ignored or have another handler are left alone."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise Ended(number)

    changed = [number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL]
    try:
        for number in changed:
            signal.signal(number, end)
    except ValueError:  # not in the main thread
        changed = []
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)


def describe_interrupt(interrupt: KeyboardInterrupt) -> tuple[str, int]:
    """Return the name of the signal that ended a process, "Ctrl-C" for SIGINT, and the exit code for it."""
    number = getattr(interrupt, "number", signal.SIGINT)
    return "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name, 128 + number
