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
HEAD = (
    "# Lower-case words of four letters and more that stand in three or more of MTSamples' notes (CC0), and our own list of longer words: "
    "made by `python -m training vocabulary words`."
)
OWN = Path(__file__).with_name("plain_long_words.txt")  # words that are rare in notes, and one letter away from a word of the vocabulary


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


def own_words(path: Path = OWN) -> set[str]:
    """Read the words of our own list: several a line, without the lines that begin with "#"."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {word for line in lines if not line.startswith("#") for word in line.split()}


def write_words(notes: Path, out: Path, own: Path = OWN) -> int:
    """Write the list of words that are frequent in notes, together with our own list.

    Args:
        notes: Gzipped JSON lines with `transcription`.
        out: The file to write, compressed with xz.
        own: Our own list.

    Returns:
        Number of words.

    Raises:
        SapbertError: E008 (the disk is full).
    """
    words = sorted({*frequent(read_texts(notes)), *own_words(own)})
    with disk_full_as_error(out):
        fresh = out.with_name(f".{out.name}.tmp")
        fresh.write_bytes(lzma.compress(("\n".join([HEAD, *words]) + "\n").encode(), preset=9))
        fresh.replace(out)
    return len(words)
