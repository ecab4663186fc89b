"""Notes without gold, and pairs of texts with a human score."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Dict, List, NamedTuple

from .corpus import open_lines


def read_notes(path: Path, count: int) -> List[str]:
    """The first `count` distinct transcriptions of MTSamples."""
    notes: Dict[str, None] = {}
    for line in open_lines(path):
        text = (json.loads(line).get("transcription") or "").strip()
        if text:
            notes.setdefault(text)
        if len(notes) == count:
            break
    return list(notes)


class TextPair(NamedTuple):
    """Two terms or sentences and what people say of their likeness, on the corpus's own scale."""

    left: str
    right: str
    score: float


def read_umnsrs(lines: Iterable[str]) -> List[TextPair]:
    """UMNSRS (Pakhomov et al. 2010): CSV with Mean, Term1 and Term2."""
    return [TextPair(row["Term1"], row["Term2"], float(row["Mean"])) for row in csv.DictReader(lines)]


def read_stsb(lines: Iterable[str]) -> List[TextPair]:
    """STS-B (Cer et al. 2017): CSV without a head, sentence, sentence, score."""
    return [TextPair(left, right, float(score)) for left, right, score in csv.reader(lines)]
