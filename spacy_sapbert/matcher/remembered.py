"""Remember the answers of a function, for a bounded number of questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Remembered(dict[Key, Value]):
    """The answers of a function: `remembered[key]` calls it only for a key that is not remembered.

    When it is full, it forgets everything. Several threads may use it. A copy and a pickled one are empty, so that no word of a note is in a file.

    Args:
        function: the function.
        size: number of answers that are remembered; 0 for none.
    """

    def __init__(self, function: Callable[[Key], Value], size: int) -> None:
        super().__init__()
        self.function, self.size = function, size

    def __missing__(self, key: Key) -> Value:
        """Ask the function, and remember the answer."""
        value = self.function(key)
        if self.size:
            if len(self) >= self.size:
                self.clear()
            self[key] = value
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.function, self.size)
