"""Read notes without gold."""

from __future__ import annotations

import json
from pathlib import Path

from .corpus import open_lines


def read_notes(path: Path, count: int) -> list[str]:
    """Read the first `count` distinct transcriptions of MTSamples."""
    notes: dict[str, None] = {}
    for line in open_lines(path):
        text = (json.loads(line).get("transcription") or "").strip()
        if text:
            notes.setdefault(text)
        if len(notes) == count:
            break
    return list(notes)
