"""What the words of a text stand for: a misspelt word, a shortened one, a plural from Latin or Greek, an adjective."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import partial

from ..kb.concept import ENGLISH
from ..kb.forms import nouns, singulars
from .beside import is_after_title
from .phrases import word_hash
from .remembered import Remembered
from .shorthand import written_out
from .spelling import MIN_LETTERS, Spelling, is_other_word
from .word_lists import known_words
from .words import LONG, WORD, form_of

REMEMBERED = 50_000  # words of texts that are remembered at most, for each question


class WordForms:
    """The hashes of words, and what words stand for. It remembers the answers.

    Args:
        language: language of the texts, ISO 639-1.
        stop_words: words that are no names.
        spelling: the vocabulary; None: no word is corrected, and plurals and adjectives stand for themselves.
        cache_size: number of words that are remembered for each question; 0 for none.
    """

    def __init__(self, language: str, stop_words: Collection[str], spelling: Spelling | None, cache_size: int = REMEMBERED) -> None:
        self.language, self.stop_words, self.spelling, self.cache_size = language, stop_words, spelling, cache_size
        self.is_english = language in ENGLISH
        self._hashes: Remembered[str, int] = Remembered(partial(_hash, language), cache_size)
        self._correct: Remembered[str, str | None] = Remembered(partial(_correct_form, language, spelling), cache_size)
        self._others: Remembered[tuple[str, bool], str | None] = Remembered(partial(_other_form, language, spelling), cache_size)

    def with_cache(self, cache_size: int) -> WordForms:
        """Return the same with another `cache_size`. It has not remembered anything yet."""
        return WordForms(self.language, self.stop_words, self.spelling, cache_size)

    def hash_of(self, word: str) -> int:
        """Return the hash of the form of a word."""
        return self._hashes[word] if len(word) <= LONG else _hash(self.language, word)

    def run_of(self, name: str) -> list[int]:
        """Return the hashes of the words of a name."""
        return [self.hash_of(word) for word in WORD.findall(name)]

    def corrections(self, found: Sequence[re.Match[str]], text: str) -> dict[int, str]:
        """Return position -> correct form for the misspelt words of a text.

        Args:
            found: the words.
            text: the text.
        """
        if self.spelling is None:
            return {}
        made: dict[int, str] = {}
        for at, match in enumerate(found):
            word = match.group()
            if MIN_LETTERS <= len(word) <= LONG and _may_be_misspelt(match, text) and (right := self._correct[word]) is not None:
                made[at] = right
        return made

    def full_forms(self, lowered: Sequence[str], without: Collection[int]) -> dict[int, str]:
        """Return position -> what the word stands for, for the words of a text that do not stand for themselves.

        A shortened word stands for its full form, "emboli" for "embolus", and "hypovolemic" for "hypovolemia" unless it describes the word after it.

        Args:
            lowered: the words and marks of the text in lower case.
            without: positions that are left out.
        """
        found = {}
        for at, (word, after) in enumerate(zip(lowered, [*lowered[1:], ""])):
            if at not in without and (form := self._other_form(word, after)) is not None:
                found[at] = form
        return found

    def _other_form(self, word: str, after: str) -> str | None:
        """Return what a word stands for before the word or mark `after` ("" at the end), both in lower case; None if it stands for itself."""
        if len(word) > LONG:
            return written_out(word)
        return self._others[word, not after.isalpha() or after in self.stop_words]


def _hash(language: str, word: str) -> int:
    return word_hash(form_of(word, language))


def _correct_form(language: str, spelling: Spelling | None, word: str) -> str | None:
    """Return the correct form of a misspelt word; None if it is no misspelt word."""
    form = form_of(word, language)
    fixed = None if spelling is None else spelling.correct(form)
    return None if fixed is None or is_other_word(form, fixed, known_words()) else fixed


def _other_form(language: str, spelling: Spelling | None, word_and_place: tuple[str, bool]) -> str | None:
    """Return what a word in lower case stands for; None if it stands for itself. The bool says that it describes no word after it."""
    word, describes_none = word_and_place
    if (full := written_out(word)) is not None or spelling is None:
        return full
    forms = [*singulars(word), *(nouns(word) if describes_none else ())]
    return next((form for form in forms if spelling.is_known(form_of(form, language))), None)


def _may_be_misspelt(match: re.Match[str], text: str) -> bool:
    """Return whether a word may be misspelt. "Johnsen" in the middle of a sentence may not: with its capital, it may be a name of a person."""
    word, before = match.group(), text[max(0, match.start() - 8) : match.start()]
    return word.islower() or word.isupper() or (before.rstrip(" \t")[-1:] in ("", ".", ":", "\n", "-", "•") and not is_after_title(before))
