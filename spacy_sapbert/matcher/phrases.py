"""Runs of words to look for in text, millions of them: 64-bit hashes in sorted arrays, some ten bytes each, that processes can map from files.

A dictionary of UMLS's names takes five gigabytes of each process and minutes to make. Two runs share a hash by chance once in
2^64 / n look-ups: for ten million names, once in 10^12.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Tuple

import numpy as np
import numpy.typing as npt

from ..errors import DamagedFile, MissingFile, fail
from ..files import MANIFEST, read_manifest, write_manifest

KIND, VERSION = "phrases", 1
MAX_WORDS = 12
ARRAYS = {"hashes": np.uint64, "labels": np.uint16, "firsts": np.uint64, "lengths": np.uint16}
_STEP = np.uint64(0x9E3779B97F4A7C15)  # odd, so that no bit is lost: 2^64 over the golden ratio (Knuth, TAOCP 3, 6.4)
Hashes1d = npt.NDArray[np.uint64]


def word_hash(word: str) -> int:
    """64 bits, the same in every process and on every machine."""
    return int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


@dataclass
class Phrases:
    """hashes (n,), ascending, and for each the place of its label in `names`: labels (n,). firsts (f,), ascending: the words that phrases begin
    with; lengths (f,): bit i is set where one of i + 1 words begins so."""

    hashes: Hashes1d
    labels: npt.NDArray[np.uint16]
    firsts: Hashes1d
    lengths: npt.NDArray[np.uint16]
    names: Tuple[str, ...] = ()
    folder: Optional[Path] = field(default=None, compare=False)  # that the arrays are mapped from

    def __getstate__(self) -> Dict[str, Any]:
        """What is mapped goes to another process as the name of its folder."""
        kept = self.folder is not None and (self.folder / MANIFEST).is_file()
        return {"folder": self.folder} if kept else {**self.__dict__, "folder": None}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state if "hashes" in state else self.from_disk(state["folder"]).__dict__)

    def __len__(self) -> int:
        return len(self.hashes)

    def longest(self, words: Hashes1d) -> Tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """words (m,) of a text in order -> at each the number of words of the longest phrase that begins there, 0 where none does, and its
        label: (m,), (m,)."""
        found, labels = np.zeros(len(words), dtype=np.int64), np.zeros(len(words), dtype=np.int64)
        if not len(self) or not len(words):
            return found, labels
        at, begins = _look_up(self.firsts, words)
        if not begins.any():
            return found, labels
        possible = np.where(begins, self.lengths[at], 0)
        run = np.zeros(len(words), dtype=np.uint64)
        for length in range(1, min(int(possible.max()).bit_length(), len(words)) + 1):
            run = _longer(run[: len(words) - length + 1], words[length - 1 :])
            some = np.flatnonzero(possible[: len(run)] >> (length - 1) & 1)
            place, there = _look_up(self.hashes, run[some])
            found[some[there]], labels[some[there]] = length, self.labels[place[there]]
        return found, labels

    def to_disk(self, folder: Path) -> None:
        for name in ARRAYS:
            np.save(folder / f"{name}.npy", getattr(self, name))
        write_manifest(folder, KIND, VERSION, {"labels": list(self.names)})

    @classmethod
    def from_disk(cls, folder: Path) -> Phrases:
        """Mapped, not read. RAISES: SapbertError E030, E106 (of another format)."""
        try:
            manifest = read_manifest(folder, KIND, VERSION, missing="E101", damaged="E102")
        except (MissingFile, DamagedFile) as error:
            raise fail("E030", type(error), path=folder, why=str(error).partition(": ")[2]) from error
        arrays: Dict[str, Any] = {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in ARRAYS}
        return cls(**arrays, names=tuple(manifest["labels"]), folder=folder.absolute())

    def to_dict(self) -> Dict[str, Any]:
        return {**{name: getattr(self, name).tobytes() for name in ARRAYS}, "names": list(self.names)}

    @classmethod
    def from_dict(cls, content: Dict[str, Any]) -> Phrases:
        """RAISES: SapbertError E030."""
        try:
            arrays: Dict[str, Any] = {name: np.frombuffer(content[name], dtype=kind) for name, kind in ARRAYS.items()}
            made = cls(**arrays, names=tuple(content["names"]))
            if len(made.hashes) != len(made.labels) or len(made.firsts) != len(made.lengths) or made.labels.max(initial=0) >= max(1, len(made.names)):
                raise ValueError("its arrays do not fit each other")
        except (KeyError, TypeError, ValueError) as error:
            raise fail("E030", DamagedFile, path="these bytes", why=f"{error!r}.") from error
        return made


@dataclass
class Collected:
    """Phrases on their way into arrays: the words of all, one after another."""

    words: array[int] = field(default_factory=lambda: array("Q"))
    counts: array[int] = field(default_factory=lambda: array("B"))
    labels: array[int] = field(default_factory=lambda: array("H"))
    names: Dict[str, int] = field(default_factory=dict)

    def add(self, words: Sequence[int], label: str) -> None:
        """words: hashes, MAX_WORDS at most."""
        self.words.extend(words)
        self.counts.append(len(words))
        self.labels.append(self.names.setdefault(label, len(self.names)))

    def phrases(self) -> Phrases:
        """Of equal ones, the first keeps its label."""
        words, counts = np.frombuffer(self.words, dtype=np.uint64), np.frombuffer(self.counts, dtype=np.uint8)
        starts = np.cumsum(counts, dtype=np.int64) - counts
        hashes = np.zeros(len(counts), dtype=np.uint64)
        for length in range(1, int(counts.max(initial=0)) + 1):
            longer = np.flatnonzero(counts >= length)
            hashes[longer] = _longer(hashes[longer], words[starts[longer] + length - 1])
        bits = np.left_shift(1, counts.astype(np.uint16) - 1, dtype=np.uint16)
        labels = np.frombuffer(self.labels, dtype=np.uint16)
        return _sorted(hashes, labels, words[starts] if len(starts) else words, bits, tuple(self.names))


def union(parts: Iterable[Phrases]) -> Phrases:
    """Of equal phrases, the first part's label."""
    parts = list(parts)
    names: Dict[str, int] = {}
    places: List[npt.NDArray[np.uint16]] = []
    for part in parts:
        new = np.array([names.setdefault(name, len(names)) for name in part.names] or [0], dtype=np.uint16)
        places.append(new[part.labels])
    hashes, firsts = (np.concatenate([getattr(part, name) for part in parts]) for name in ("hashes", "firsts"))
    return _sorted(hashes, np.concatenate(places), firsts, np.concatenate([part.lengths for part in parts]), tuple(names))


def _sorted(hashes: Hashes1d, labels: npt.NDArray[np.uint16], firsts: Hashes1d, bits: npt.NDArray[np.uint16], names: Tuple[str, ...]) -> Phrases:
    unique, first = np.unique(hashes, return_index=True)
    order = np.argsort(firsts, kind="stable")
    begins, at = np.unique(firsts[order], return_index=True)
    lengths = np.bitwise_or.reduceat(bits[order], at) if len(at) else np.zeros(0, dtype=np.uint16)
    return Phrases(unique, labels[first], begins, lengths, names)


def _longer(run: Hashes1d, word: Hashes1d) -> Hashes1d:
    """The hashes of runs with one word more."""
    mixed = (run ^ word) * _STEP
    return mixed ^ (mixed >> np.uint64(29))


def _look_up(among: Hashes1d, wanted: Hashes1d) -> Tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Where each is in an ascending array, and whether it is there."""
    at = np.minimum(np.searchsorted(among, wanted), len(among) - 1)
    return at, among[at] == wanted
