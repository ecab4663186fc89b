"""What the recogniser knows of each token: its word, its shape, and the names of ontologies that it is part of."""

import re
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from spacy.tokens import Doc

from ..matcher.phrases import MAX_WORDS, Collected, Phrases, word_hash

WINDOW = 64  # tokens that the network sees at once
GROUPS = ("DISO", "CHEM", "PROC", "ANAT", "OTHER")  # of names in the lexicon
IN_NAME = 1 + 4 * len(GROUPS)  # outside; begin, inside, last, only word of a name, for each group
ROWS = {"word": 8192, "prefix": 2048, "suffix": 2048, "shape": 1024}  # of the hashed tables
COLUMNS = ("word", "word", "prefix", "suffix", "shape")  # of `hashed`: a word has two rows, so that few words share both
_WORD = re.compile(r"[^\W_]+|[^\s\w\-‐‑–/'’]|_|\n\s*\n")
_ENDS = frozenset(".;!?")
Ints2d = npt.NDArray[np.int64]


class Window(NamedTuple):
    """A part of a Doc that the network sees at once.

    Attributes:
        doc: Place of the Doc in the batch.
        start: Its first token.
        end: Behind its last token.
    """

    doc: int
    start: int
    end: int


def words_of(doc: Doc) -> list[str]:
    """Return the texts of the tokens."""
    return [token.text for token in doc]


def windows(texts: Sequence[Sequence[str]], size: int = WINDOW) -> Iterator[Window]:
    """Cut the tokens of Docs into windows of at most `size` tokens, behind a line or sentence where one ends in the window's second half.

    No sentence boundaries need be set, and a Doc of any length is cut.
    """
    for number, doc in enumerate(texts):
        ends = {at for at, word in enumerate(doc, 1) if word in _ENDS or word.isspace()}
        start = 0
        while start < len(doc):
            end = min(start + size, len(doc))
            if end < len(doc):
                end = next((at for at in range(end, start + size // 2, -1) if at in ends), end)
            yield Window(number, start, end)
            start = end


@lru_cache(maxsize=100_000)
def hashed(word: str) -> tuple[int, ...]:
    """Return the row of a word in each of the tables of `COLUMNS`."""
    lower = unicodedata.normalize("NFKC", word[:64]).lower()
    parts = (lower, lower + "\x00", lower[:3], lower[-3:], _shape(word))
    return tuple(zlib.crc32(part.encode("utf-8", "surrogatepass")) % ROWS[column] for part, column in zip(parts, COLUMNS))


def _shape(word: str) -> str:
    """Return the shape of a word, "Xxx-d" for "Aspirin-5"; of a run of equal signs at most three are kept."""
    signs = "".join("X" if c.isupper() else "x" if c.islower() else "d" if c.isdigit() else c for c in word[:32])
    return re.sub(r"(.)\1{3,}", r"\1\1\1", signs)


def name_words(text: str) -> list[tuple[str, int, int]]:
    """Return (word, start, end) of a text as names are compared: lower-cased, without a plural's s. Hyphens, slashes and apostrophes separate words."""
    return [(_singular(found.group().lower()), found.start(), found.end()) for found in _WORD.finditer(text)]


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


@lru_cache(maxsize=50_000)
def _hash(word: str) -> int:
    return word_hash(word)


def make_lexicon(names: Iterable[tuple[str, str]]) -> Phrases:
    """Make the lexicon of names and their groups. Names of one or two letters, or of digits, are left out; the first group of a name counts."""
    collected = Collected()
    for text, group in names:
        words = [word for word, _, _ in name_words(text)]
        if words and len(words) <= MAX_WORDS and len(text) > 2 and not all(word.isdigit() for word in words):
            collected.add([word_hash(word) for word in words], group if group in GROUPS else "OTHER")
    return collected.phrases()


def in_names(doc: Doc, lexicon: Phrases) -> npt.NDArray[np.int64]:
    """Say of each token in which place of a name of the lexicon it stands, the longest names from left to right.

    Returns:
        (tokens,): 0 outside; 1 + 4 × group + (0 first, 1 inside, 2 last, 3 only token).
    """
    places = np.zeros(len(doc), dtype=np.int64)
    found = name_words(doc.text)
    lengths, labels = lexicon.longest(np.fromiter((_hash(word) for word, _, _ in found), dtype=np.uint64, count=len(found)))
    starts = doc.to_array("IDX").reshape(-1).astype(np.int64)
    taken = 0
    for at in np.flatnonzero(lengths).tolist():
        if at < taken:
            continue
        taken = at + int(lengths[at])
        first = int(np.searchsorted(starts, found[at][1], side="right")) - 1
        last = int(np.searchsorted(starts, found[taken - 1][2], side="left")) - 1
        base = 1 + 4 * GROUPS.index(lexicon.names[labels[at]])
        if places[first]:  # another name ends within this token
            continue
        if first == last:
            places[first] = base + 3
        else:
            places[first : last + 1] = base + 1
            places[first], places[last] = base, base + 2
    return places


class Batch(NamedTuple):
    """What the network gets: distinct words, and the tokens of n windows, padded to t.

    Attributes:
        hashed: (words, columns) rows in the hashed tables.
        vectors: (words, d) vectors of the static encoder.
        words: (n, t) place of each token's word.
        names: (n, t) what `in_names` says.
        lengths: (n,) tokens of each window.
    """

    hashed: Ints2d
    vectors: npt.NDArray[np.float32]
    words: Ints2d
    names: Ints2d
    lengths: npt.NDArray[np.int64]


def make_batch(
    texts: Sequence[Sequence[str]], names: Sequence[npt.NDArray[np.int64]], encode: Callable[[list[str]], npt.NDArray[np.float32]]
) -> Batch:
    """Make a batch.

    Args:
        texts: The tokens of each window.
        names: Of each window, what `in_names` says.
        encode: Gives words their vectors.
    """
    lengths = np.array([len(window) for window in texts], dtype=np.int64)
    longest = int(lengths.max(initial=0))
    known: dict[str, int] = {"": 0}
    words, places = np.zeros((len(texts), longest), dtype=np.int64), np.zeros((len(texts), longest), dtype=np.int64)
    for row, (window, of_window) in enumerate(zip(texts, names)):
        words[row, : len(window)] = [known.setdefault(word, len(known)) for word in window]
        places[row, : len(window)] = of_window
    return Batch(np.array([hashed(word) for word in known], dtype=np.int64), encode(list(known)), words, places, lengths)
