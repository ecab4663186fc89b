"""Find millions of phrases in text, with sorted arrays of 64-bit hashes that are memory-mapped from files.

A phrase takes about ten bytes. A Python dict of the names of UMLS would take five gigabytes in each process and minutes to build. With n phrases, a
wrong match by an equal hash happens once in 2^64 / n look-ups: for ten million names, once in 10^12.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from ..arrays import open_array
from ..errors import DamagedFile, MissingFile, fail
from ..files import MANIFEST, read_manifest, write_manifest

KIND, VERSION = "phrases", 1
MAX_WORDS = 12
ARRAYS = {"hashes": np.uint64, "labels": np.uint16, "firsts": np.uint64, "lengths": np.uint16}
_STEP = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio (Knuth, TAOCP 3, 6.4); odd, so that no bit is lost
Hashes1d = npt.NDArray[np.uint64]


def word_hash(word: str) -> int:
    """Return the 64-bit hash of a word, the same in every process and on every machine."""
    return int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


NO_WORD = np.uint64(word_hash(""))  # stands between two texts, or for a word that is left out; no phrase holds it


class _Manifest(BaseModel):
    """Content of the manifest of a folder of phrases."""

    model_config = ConfigDict(strict=True)

    labels: list[str]


def open_arrays(folder: Path, kinds: Mapping[str, npt.DTypeLike], prefix: str = "") -> dict[str, npt.NDArray[Any]]:
    """Memory-map arrays (n,) of a folder.

    Args:
        folder: the folder.
        kinds: name of each array -> its dtype.
        prefix: prefix of the file names.

    Raises:
        ValueError: an array is damaged, or has another dtype.
    """
    found = {name: open_array(folder / f"{prefix}{name}.npy", np.dtype(kind).kind, (None,)) for name, kind in kinds.items()}
    for name, kind in kinds.items():
        if found[name].dtype != kind:
            raise ValueError(f"{prefix}{name}.npy holds {found[name].dtype}, not {np.dtype(kind)}")
    return {name: array.view(np.ndarray) for name, array in found.items()}  # a memory map copies its attributes at each access


@contextmanager
def refuse_damaged(folder: Path) -> Iterator[None]:
    """Raise E030 instead of the ValueError for arrays that are damaged or do not fit each other."""
    try:
        yield
    except ValueError as error:
        raise fail("E030", DamagedFile, path=folder, why=f"{error}.") from error


@dataclass
class Phrases:
    """Phrases to look for in text.

    Attributes:
        hashes: (n,) hashes of the phrases, ascending.
        labels: (n,) index of each phrase's label in `names`.
        firsts: (f,) hashes of the first words of phrases, ascending.
        lengths: (f,) bit i is set if a phrase of i + 1 words begins with this word.
        names: the labels.
        folder: folder from which the arrays are mapped; None if they are in memory.
        stopped: (s,) hashes of phrases that are not found any more, ascending.
    """

    hashes: Hashes1d
    labels: npt.NDArray[np.uint16]
    firsts: Hashes1d
    lengths: npt.NDArray[np.uint16]
    names: tuple[str, ...] = ()
    folder: Path | None = field(default=None, compare=False)
    stopped: Hashes1d = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))

    def __getstate__(self) -> dict[str, Any]:
        """Pickle only the folder of mapped arrays, so that each process maps them."""
        kept = self.folder is not None and (self.folder / MANIFEST).is_file()
        return {"folder": self.folder, "stopped": self.stopped} if kept else {**self.__dict__, "folder": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state if "hashes" in state else {**self.from_disk(state["folder"]).__dict__, **state})

    def whole(self) -> Phrases:
        """Return the phrases without those that are stopped, with arrays in memory if there are any."""
        if not len(self.stopped):
            return self
        kept = ~np.isin(self.hashes, self.stopped)
        return Phrases(self.hashes[kept], self.labels[kept], self.firsts, self.lengths, self.names)

    def _found(self, wanted: Hashes1d) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return the index of each hash, and whether it is a phrase that is not stopped."""
        at, there = _look_up(self.hashes, wanted)
        return at, there & ~np.isin(wanted, self.stopped) if len(self.stopped) else there

    def __len__(self) -> int:
        """Return the number of phrases, n."""
        return len(self.hashes)

    def longest(self, words: Hashes1d, more_than: npt.NDArray[np.int64] | None = None) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Find the longest phrase that begins at each word of a text.

        Args:
            words: (m,) hashes of the words, in order.
            more_than: (m,) only phrases of more words than this are looked for; None: all phrases.

        Returns:
            Two arrays (m,): the number of words of the phrase, 0 where none begins, and the index of its label in `names`.
        """
        found, labels = np.zeros(len(words), dtype=np.int64), np.zeros(len(words), dtype=np.int64)
        if not len(self) or not len(words):
            return found, labels
        possible = self.sizes(words).astype(np.int64)
        if more_than is not None:
            few = np.minimum(more_than, MAX_WORDS)
            possible = possible >> few << few
        most = min(int(possible.max()).bit_length(), len(words))
        if not most:
            return found, labels
        run = np.zeros(len(words), dtype=np.uint64)
        runs, starts = [], []
        for length in range(1, most + 1):
            run = _longer(run[: len(words) - length + 1], words[length - 1 :])
            starts.append(np.flatnonzero(possible[: len(run)] & (1 << (length - 1))))
            runs.append(run[starts[-1]])
        place, there = self._found(np.concatenate(runs))  # one look-up for all lengths
        start = np.concatenate(starts)[there]
        lengths = np.repeat(np.arange(1, most + 1), [len(each) for each in starts])[there]
        np.maximum.at(found, start, lengths)
        longest = lengths == found[start]
        labels[start[longest]] = self.labels[place[there][longest]]
        return found, labels

    def longest_of_all(
        self, texts: Sequence[Hashes1d], more_than: Sequence[npt.NDArray[np.int64]] | None = None
    ) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Find the longest phrase that begins at each word of several texts. All are looked up at once, which is faster than one by one.

        Args:
            texts: for each text, the hashes of its words, in order.
            more_than: for each text, see `longest`.

        Returns:
            For each text, what `longest` returns.
        """
        if not texts:
            return []
        ends = np.cumsum([len(text) + 1 for text in texts]).tolist()
        joined = np.concatenate([part for text in texts for part in (text, [NO_WORD])])
        least = None if more_than is None else np.concatenate([part for few in more_than for part in (few, [0])])
        lengths, labels = self.longest(joined, least)
        return [(lengths[end - 1 - len(text) : end - 1], labels[end - 1 - len(text) : end - 1]) for text, end in zip(texts, ends)]

    def sizes(self, words: Hashes1d) -> npt.NDArray[np.uint16]:
        """Return how many words the phrases have that begin with each word: bit i is set if there is one of i + 1 words.

        Args:
            words: (m,) hashes of words.

        Returns:
            An array (m,).
        """
        if not len(self):
            return np.zeros(len(words), dtype=np.uint16)
        at, begins = _look_up(self.firsts, words)
        return np.where(begins, self.lengths[at], np.uint16(0))

    def find(self, runs: Sequence[Sequence[int]]) -> list[str | None]:
        """Return the label of each run of words (given as hashes); None if the run is not a phrase."""
        if not len(self) or not runs:
            return [None] * len(runs)
        counts = np.array([len(run) for run in runs], dtype=np.uint8)
        at, there = self._found(_joined(np.array([word for run in runs for word in run], dtype=np.uint64), counts))
        return [self.names[self.labels[i]] if known else None for i, known in zip(at.tolist(), there.tolist())]

    def to_disk(self, folder: Path) -> None:
        """Write the arrays and a manifest into a folder."""
        for name in ARRAYS:
            np.save(folder / f"{name}.npy", getattr(self, name))
        write_manifest(folder, KIND, VERSION, {"labels": list(self.names)})

    @classmethod
    def from_disk(cls, folder: Path) -> Phrases:
        """Memory-map the arrays of a folder.

        Raises:
            SapbertError: E030, the folder holds no phrases or was changed; E106, it has another format.
        """
        try:
            listed = [f"{name}.npy" for name in ARRAYS]
            manifest = read_manifest(folder, KIND, VERSION, missing="E101", damaged="E102", content=_Manifest, files=listed)
        except (MissingFile, DamagedFile) as error:
            raise fail("E030", type(error), path=folder, why=str(error).partition(": ")[2]) from error
        with refuse_damaged(folder):
            made = cls(**open_arrays(folder, ARRAYS), names=tuple(manifest["labels"]), folder=folder.absolute())
            made.check()
        return made

    def check(self) -> None:
        """Check that the arrays fit each other.

        Raises:
            ValueError: they do not.
        """
        if len(self.hashes) != len(self.labels) or len(self.firsts) != len(self.lengths) or self.labels.max(initial=0) >= max(1, len(self.names)):
            raise ValueError("its arrays do not fit each other")

    def to_dict(self) -> dict[str, Any]:
        """Return the arrays as bytes, for a pipeline's `to_bytes`."""
        return {**{name: getattr(self, name).tobytes() for name in ARRAYS}, "names": list(self.names)}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Phrases:
        """Read what `to_dict` returned.

        Raises:
            SapbertError: E030, the arrays are damaged.
        """
        try:
            arrays: dict[str, Any] = {name: np.frombuffer(content[name], dtype=kind) for name, kind in ARRAYS.items()}
            made = cls(**arrays, names=tuple(content["names"]))
            made.check()
        except (KeyError, TypeError, ValueError) as error:
            raise fail("E030", DamagedFile, path="these bytes", why=f"{error!r}.") from error
        return made


@dataclass
class Collected:
    """Phrases that are collected, before they are sorted into arrays.

    Attributes:
        words: hashes of the words of all phrases, one after another.
        counts: number of words of each phrase.
        labels: index of each phrase's label in `names`.
        names: label -> its index.
    """

    words: array[int] = field(default_factory=lambda: array("Q"))
    counts: array[int] = field(default_factory=lambda: array("B"))
    labels: array[int] = field(default_factory=lambda: array("H"))
    names: dict[str, int] = field(default_factory=dict)

    def add(self, words: Sequence[int], label: str) -> None:
        """Add a phrase of at most MAX_WORDS words, given by their hashes."""
        self.words.extend(words)
        self.counts.append(len(words))
        self.labels.append(self.names.setdefault(label, len(self.names)))

    def phrases(self) -> Phrases:
        """Return the collected phrases. Equal phrases become one, with the label of the first."""
        words, counts = np.frombuffer(self.words, dtype=np.uint64), np.frombuffer(self.counts, dtype=np.uint8)
        starts = np.cumsum(counts, dtype=np.int64) - counts
        hashes = _joined(words, counts)
        bits = np.left_shift(1, counts.astype(np.uint16) - 1, dtype=np.uint16)
        labels = np.frombuffer(self.labels, dtype=np.uint16)
        return _sorted(hashes, labels, words[starts] if len(starts) else words, bits, tuple(self.names))


def union(parts: Iterable[Phrases]) -> Phrases:
    """Join several sets of phrases. A phrase in several sets gets its label from the first of them."""
    parts = list(parts)
    names: dict[str, int] = {}
    places: list[npt.NDArray[np.uint16]] = []
    for part in parts:
        new = np.array([names.setdefault(name, len(names)) for name in part.names] or [0], dtype=np.uint16)
        places.append(new[part.labels])
    hashes, firsts = (np.concatenate([getattr(part, name) for part in parts]) for name in ("hashes", "firsts"))
    return _sorted(hashes, np.concatenate(places), firsts, np.concatenate([part.lengths for part in parts]), tuple(names))


def _sorted(hashes: Hashes1d, labels: npt.NDArray[np.uint16], firsts: Hashes1d, bits: npt.NDArray[np.uint16], names: tuple[str, ...]) -> Phrases:
    unique, first = np.unique(hashes, return_index=True)
    order = np.argsort(firsts, kind="stable")
    begins, at = np.unique(firsts[order], return_index=True)
    lengths = np.bitwise_or.reduceat(bits[order], at) if len(at) else np.zeros(0, dtype=np.uint16)
    return Phrases(unique, labels[first], begins, lengths, names)


def _joined(words: Hashes1d, counts: npt.NDArray[np.uint8]) -> Hashes1d:
    """Return the hash of each run of words, (n,). `words` holds the hashes of all runs one after another, counts[i] of them for run i."""
    starts = np.cumsum(counts, dtype=np.int64) - counts
    hashes = np.zeros(len(counts), dtype=np.uint64)
    for length in range(1, int(counts.max(initial=0)) + 1):
        longer = np.flatnonzero(counts >= length)
        hashes[longer] = _longer(hashes[longer], words[starts[longer] + length - 1])
    return hashes


def _longer(run: Hashes1d, word: Hashes1d) -> Hashes1d:
    """Return the hashes (n,) of runs that are extended by one word each."""
    mixed = (run ^ word) * _STEP
    return mixed ^ (mixed >> np.uint64(29))


def _look_up(among: Hashes1d, wanted: Hashes1d) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the index of each hash in an ascending array, and whether the array holds it."""
    order = np.argsort(wanted)  # in order, one look-up reads what is still in the processor's cache from the one before it
    at = np.empty(len(wanted), dtype=np.int64)
    at[order] = np.minimum(np.searchsorted(among, wanted[order]), len(among) - 1)
    return at, among[at] == wanted
