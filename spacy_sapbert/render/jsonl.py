"""Write records as JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TextIO

from .records import Row


def to_jsonl(rows: Iterable[Row], stream: TextIO) -> int:
    """Write each record as one line of JSON.

    Returns:
        Number of lines.
    """
    count = 0
    for row in rows:
        stream.write(json.dumps(row, ensure_ascii=False) + "\n")
        count += 1
    return count
