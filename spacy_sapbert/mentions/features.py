"""Features of tokens for the recogniser: the word, its shape, and the place of the token in a name of an ontology."""

import re
import unicodedata
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from spacy.tokens import Doc

from ..matcher.phrases import MAX_WORDS, Collected, Phrases, word_hash

WINDOW = 64  # tokens that the network reads together
GROUPS = ("DISO", "CHEM", "PROC", "ANAT", "OTHER")  # groups of names in the lexicon
IN_NAME = 1 + 4 * len(GROUPS)  # number of places: outside a name; and for each group first, inside, last, and only token of a name
ROWS = {"word": 8192, "prefix": 2048, "suffix": 2048, "shape": 1024}  # rows of the hashed embedding tables
COLUMNS = (
    "word",
    "word",
    "prefix",
    "suffix",
    "shape",
)  # tables that the values of `hashed` index. A word has two rows in its table, so that few words share both
_WORD = re.compile(r"[^\W_]+|[^\s\w\-‐‑–/'’]|_|\n\s*\n")
_ENDS = frozenset(".;!?")
Ints2d = npt.NDArray[np.int64]


class Window(NamedTuple):
    """A part of a Doc that the network reads together.

    Attributes:
        doc: Index of the Doc in the batch.
        start: Its first token.
        end: The token after its last one.
    """

    doc: int
    start: int
    end: int


def words_of(doc: Doc) -> list[str]:
    """Return the texts of the tokens."""
    return [token.text for token in doc]


def windows(texts: Sequence[Sequence[str]], size: int = WINDOW) -> Iterator[Window]:
    """Cut the tokens of Docs into windows of at most `size` tokens, if possible after a sentence or line in the second half of a window.

    Sentence boundaries need not be set, and Docs may have any length.
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
    """Return the row of a word in the table of each of `COLUMNS`."""
    lower = unicodedata.normalize("NFKC", word[:64]).lower()
    parts = (lower, lower + "\x00", lower[:3], lower[-3:], _shape(word))
    return tuple(zlib.crc32(part.encode("utf-8", "surrogatepass")) % ROWS[column] for part, column in zip(parts, COLUMNS))


def _shape(word: str) -> str:
    """Return the shape of a word: "Xxxx-d" for "Aspirin-5". Of equal signs in a row, three are kept."""
    signs = "".join("X" if c.isupper() else "x" if c.islower() else "d" if c.isdigit() else c for c in word[:32])
    return re.sub(r"(.)\1{3,}", r"\1\1\1", signs)


def name_words(text: str) -> list[tuple[str, int, int]]:
    """Return (word, start, end) of a text, with words in lower case and in the singular. Hyphens, slashes and apostrophes separate words."""
    return [(_singular(found.group().lower()), found.start(), found.end()) for found in _WORD.finditer(text)]


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


@lru_cache(maxsize=50_000)
def _hash(word: str) -> int:
    return word_hash(word)


def make_lexicon(names: Iterable[tuple[str, str]]) -> Phrases:
    """Build the lexicon from (name, group) pairs. Names of one or two characters or only digits are left out. A name keeps its first group."""
    collected = Collected()
    for text, group in names:
        words = [word for word, _, _ in name_words(text)]
        if words and len(words) <= MAX_WORDS and len(text) > 2 and not all(word.isdigit() for word in words):
            collected.add([word_hash(word) for word in words], group if group in GROUPS else "OTHER")
    return collected.phrases()


def in_names(doc: Doc, lexicon: Phrases) -> npt.NDArray[np.int64]:
    """Return the place of each token in a name of the lexicon. Names are the longest ones, from left to right.

    Returns:
        (tokens,): 0 outside; 1 + 4 × group + (0 first, 1 inside, 2 last, 3 only token).
    """
    return in_names_of_all([doc], lexicon)[0]


def in_names_of_all(docs: Sequence[Doc], lexicon: Phrases) -> list[npt.NDArray[np.int64]]:
    """Return the place of each token in a name for several Docs, see `in_names`. All names are looked up at once."""
    found = [name_words(doc.text) for doc in docs]
    hashes = [np.fromiter((_hash(word) for word, _, _ in of_doc), dtype=np.uint64, count=len(of_doc)) for of_doc in found]
    return [_places(doc, of_doc, *names, lexicon) for doc, of_doc, names in zip(docs, found, lexicon.longest_of_all(hashes))]


def _places(
    doc: Doc, found: Sequence[tuple[str, int, int]], lengths: npt.NDArray[np.int64], labels: npt.NDArray[np.int64], lexicon: Phrases
) -> npt.NDArray[np.int64]:
    """Return the place of each token of a Doc in a name, (tokens,), see `in_names`.

    Args:
        doc: The Doc.
        found: Its m words, see `name_words`.
        lengths: (m,) number of words of the longest name that begins at each word.
        labels: (m,) index of its label.
        lexicon: The names.
    """
    places = [0] * len(doc)
    starts = doc.to_array("IDX").reshape(-1).tolist()
    taken = 0
    for at in np.flatnonzero(lengths).tolist():
        if at < taken:
            continue
        taken = at + int(lengths[at])
        first = bisect_right(starts, found[at][1]) - 1
        last = bisect_left(starts, found[taken - 1][2]) - 1
        base = 1 + 4 * GROUPS.index(lexicon.names[labels[at]])
        if places[first]:  # this token already belongs to another name
            continue
        if first == last:
            places[first] = base + 3
        else:
            places[first : last + 1] = [base, *[base + 1] * (last - first - 1), base + 2]
    return np.array(places, dtype=np.int64)


class Batch(NamedTuple):
    """The input of the network: distinct words, and the tokens of n windows, padded to t tokens.

    Attributes:
        hashed: (words, columns) rows in the hashed tables.
        vectors: (words, d) vectors of the static encoder.
        words: (n, t) index of each token's word.
        names: (n, t) place in a name, see `in_names`.
        lengths: (n,) number of tokens of each window.
    """

    hashed: Ints2d
    vectors: npt.NDArray[np.float32]
    words: Ints2d
    names: Ints2d
    lengths: npt.NDArray[np.int64]


def make_batch(
    texts: Sequence[Sequence[str]], names: Sequence[npt.NDArray[np.int64]], encode: Callable[[list[str]], npt.NDArray[np.float32]]
) -> Batch:
    """Build a batch.

    Args:
        texts: The tokens of each window.
        names: For each window, the places of its tokens in names, (tokens,), see `in_names`.
        encode: Function that returns the vectors (n, d) of n words.
    """
    lengths = np.array([len(window) for window in texts], dtype=np.int64)
    longest = int(lengths.max(initial=0))
    known: dict[str, int] = {"": 0}
    words, places = np.zeros((len(texts), longest), dtype=np.int64), np.zeros((len(texts), longest), dtype=np.int64)
    for row, (window, of_window) in enumerate(zip(texts, names)):
        words[row, : len(window)] = [known.setdefault(word, len(known)) for word in window]
        places[row, : len(window)] = of_window
    return Batch(np.array([hashed(word) for word in known], dtype=np.int64), encode(list(known)), words, places, lengths)
