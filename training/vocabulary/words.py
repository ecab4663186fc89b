"""Make the list of words that are frequent in notes. `concept_matcher` treats none of them as a misspelling."""

from __future__ import annotations

import gzip
import json
import lzma
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from spacy_sapbert.files import disk_full_as_error

MIN_LETTERS, MIN_NOTES = 4, 3
HEAD = "# Lower-case words of four letters and more that stand in three or more of MTSamples' notes (CC0): made by `python -m training vocabulary words`."


def read_texts(path: Path) -> set[str]:
    """Read the distinct texts of a file of gzipped JSON lines with `transcription`."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return {str(json.loads(line).get("transcription") or "") for line in file}


def frequent(texts: Iterable[str]) -> list[str]:
    """Return the lower-case words of at least four letters that occur in at least three texts, in alphabetic order."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(set(re.findall(r"\b[a-z]+\b", text)))
    return sorted(word for word, count in counts.items() if count >= MIN_NOTES and len(word) >= MIN_LETTERS)


def write_words(notes: Path, out: Path) -> int:
    """Write the list of words that are frequent in notes.

    Args:
        notes: Gzipped JSON lines with `transcription`.
        out: The file to write, compressed with xz.

    Returns:
        Number of words.

    Raises:
        SapbertError: E008 (the disk is full).
    """
    words = frequent(read_texts(notes))
    with disk_full_as_error(out):
        fresh = out.with_name(f".{out.name}.tmp")
        fresh.write_bytes(lzma.compress(("\n".join([HEAD, *words]) + "\n").encode(), preset=9))
        fresh.replace(out)
    return len(words)
