"""Correct misspelt words to words of a vocabulary by comparing their deletions, in sorted arrays of hashes as in `phrases.py`.

Two words that differ by one edit (a letter added, missing, replaced, or two letters swapped) have a form in common if one letter is deleted.

Source:
    Garbe, SymSpell (2012): the forms of the vocabulary are computed once, so that a look-up needs only the forms of its own word.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .phrases import Hashes1d, open_arrays, refuse_damaged, word_hash

MIN_LETTERS = 7  # a shorter word becomes another word too often by one edit
ARRAYS = {"known": np.uint64, "forms": np.uint64, "targets": np.uint32}
WORDS = "spelling_words.txt"
ENDINGS = ("ing", "ed", "er", "ly")  # endings of other forms of a word
MIN_BASE = 4  # letters


@dataclass(frozen=True)
class Spelling:
    """Words of a vocabulary, and their forms with one letter deleted.

    Attributes:
        known: (w,) hashes of words that are spelt correctly, ascending.
        forms: (f,) hashes of words of the vocabulary and of their forms with one letter deleted, ascending.
        targets: (f,) index of each form's word in `words`.
        words: words of the vocabulary.
    """

    known: Hashes1d
    forms: Hashes1d
    targets: npt.NDArray[np.uint32]
    words: tuple[str, ...]

    @classmethod
    def of(cls, words: Iterable[str], known: Iterable[str] = ()) -> Spelling:
        """Compute the forms of a vocabulary.

        Args:
            words: words of the vocabulary, in lower case and stemmed, the most frequent first. If two words have a form in common, the first counts.
            known: other words that are spelt correctly.
        """
        words = [word for word in words if word.isalpha()]
        pairs: dict[int, int] = {}
        for place, word in enumerate(words):
            if len(word) >= MIN_LETTERS:
                for form in (word, *deletions(word)):
                    pairs.setdefault(word_hash(form), place)
        every = np.unique(np.array([word_hash(word) for word in (*words, *known)], dtype=np.uint64))
        forms = np.fromiter(pairs.keys(), dtype=np.uint64, count=len(pairs))
        order = np.argsort(forms)
        return cls(every, forms[order], np.fromiter(pairs.values(), dtype=np.uint32, count=len(pairs))[order], tuple(words))

    def is_known(self, word: str) -> bool:
        """Return whether a word, in lower case and stemmed, is spelt correctly: it is in the vocabulary or among the other words."""
        return _place(self.known, word_hash(word)) is not None

    def correct(self, word: str) -> str | None:
        """Return the correction of a misspelt word; None if it is spelt correctly, or no word is near.

        Args:
            word: a word, in lower case and stemmed.
        """
        if len(word) < MIN_LETTERS or not word.isalpha() or self.is_known(word):
            return None
        places = (_place(self.forms, word_hash(form)) for form in (word, *deletions(word)))
        at = next((place for place in places if place is not None), None)
        return None if at is None else self.words[int(self.targets[at])]

    def to_disk(self, folder: Path) -> None:
        """Write the arrays and words into a folder."""
        for name in ARRAYS:
            np.save(folder / f"spelling_{name}.npy", getattr(self, name))
        (folder / WORDS).write_text("\n".join(self.words), encoding="utf-8")

    @classmethod
    def from_disk(cls, folder: Path) -> Spelling | None:
        """Memory-map the arrays of a folder; return None if the folder has none.

        Raises:
            DamagedFile: E030.
        """
        if not (folder / WORDS).is_file():
            return None
        with refuse_damaged(folder):
            made = cls(**open_arrays(folder, ARRAYS, "spelling_"), words=tuple((folder / WORDS).read_text(encoding="utf-8").split("\n")))
            made.check()
        return made

    def check(self) -> None:
        """Check that the arrays match each other and the words.

        Raises:
            ValueError: they do not.
        """
        if len(self.forms) != len(self.targets) or int(self.targets.max(initial=0)) >= max(1, len(self.words)):
            raise ValueError("the arrays of its spelling do not fit each other")

    def to_dict(self) -> dict[str, Any]:
        """Return the arrays as bytes, and the words."""
        return {**{name: getattr(self, name).tobytes() for name in ARRAYS}, "words": list(self.words)}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Spelling:
        """Read what `to_dict` returned."""
        arrays: dict[str, Any] = {name: np.frombuffer(content[name], dtype=kind) for name, kind in ARRAYS.items()}
        return cls(**arrays, words=tuple(content["words"]))


def is_other_word(word: str, corrected: str, known: Collection[str]) -> bool:
    """Return whether a word is a form of a known word, and its correction is not: "selling" is a form of "sell", and no misspelt "swelling".

    Args:
        word: a word in lower case.
        corrected: its correction.
        known: words in lower case that are spelt correctly.
    """
    bases = (word.removesuffix(ending) for ending in ENDINGS if word.endswith(ending))
    return any(
        len(base) >= MIN_BASE and not corrected.startswith(base) and any(form in known for form in (base, f"{base}e", f"{base[:-1]}y"))
        for base in bases
    )


def deletions(word: str) -> list[str]:
    """Return a word with each of its letters but the first deleted."""
    return [word[:i] + word[i + 1 :] for i in range(1, len(word))]


def _place(among: npt.NDArray[np.uint64], wanted: int) -> int | None:
    at = int(np.searchsorted(among, np.uint64(wanted)))
    return at if at < len(among) and int(among[at]) == wanted else None
