"""Plain words that are findings in a list of others: "frequency" in "no dysuria, urgency or frequency", "drugs" in "denies alcohol or drugs"."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from spacy.lang.en.stop_words import STOP_WORDS

_JOIN = r"(?:[ \t]*[,;/&][ \t]*(?:(?:and|or|nor)[ \t]+)?|[ \t]+(?:and|or|nor)[ \t]+)(?:no[ \t]+)?"
_FAR = 16  # characters before a word that are read
_WORD_BEFORE = re.compile(r"(\w+)[ \t]+$")


class Listed(NamedTuple):
    """A word that stands for a finding.

    Attributes:
        start: its place in the text, in characters.
        end: the character after it.
        name: what it stands for.
    """

    start: int
    end: int
    name: str


class _List:
    """Words that are findings beside others of their kind."""

    def __init__(self, names: Mapping[str, str], others: str, parts: str, before: str, after: str, verbs: Collection[str] = ()) -> None:
        """Prepare the patterns.

        Args:
            names: word, in small letters -> name of the finding.
            others: a pattern of the findings that stand beside it.
            parts: a pattern of words directly before it, with which it is a part of a longer name of its own.
            before: a pattern of words directly before it, which say that it is something else: "fluid retention". It holds for the words that it is
                joined to, too: "stool frequency and urgency".
            after: the same of what follows it: "frequency of stools".
            verbs: verbs that may stand before the word if it is the first of the list. Any other word but a stop word is a part of its name, as in
                "cardiac drugs, tobacco". Empty: any word may stand there, as in "increased frequency, dysuria".
        """
        word = rf"(?:{'|'.join(names)})"
        other = rf"(?:{others}|{word})"
        self._names, self._verbs = names, frozenset(verbs)
        self._after = re.compile(rf"\b{other}{_JOIN}(?={word}\b)", re.IGNORECASE)
        self._before = re.compile(rf"\b(?={word}{_JOIN}{other}\b)", re.IGNORECASE)
        self._part = re.compile(rf"\b(?:{parts})[ \t]+$", re.IGNORECASE)
        self._one = re.compile(rf"{word}\b", re.IGNORECASE)
        self._join = re.compile(_JOIN, re.IGNORECASE)
        self._other_before = re.compile(rf"\b(?:{before})[ \t-]+$", re.IGNORECASE)
        self._other_after = re.compile(rf"[ \t]+(?:{after})", re.IGNORECASE)

    def find(self, text: str) -> Iterator[Listed]:
        """Yield the words that stand for findings, from left to right."""
        lowered = text.lower()
        if not any(name in lowered for name in self._names):
            return
        after = {match.end() for match in self._after.finditer(text)}
        first = {match.start() for match in self._before.finditer(text)} - after
        places = after | {place for place in first if self._may_be_first(text, place)}
        found = [match for place in sorted(places) if (match := self._one.match(text, place)) is not None]
        joined = [self._join.fullmatch(text, one.end(), other.start()) is not None for one, other in zip(found, found[1:])]
        chain: list[re.Match[str]] = []
        for match, goes_on in zip(found, [*joined, False]):
            chain.append(match)
            if not goes_on:
                yield from self._of(text, chain)
                chain = []

    def _may_be_first(self, text: str, place: int) -> bool:
        """Return whether the word before the first of a list is none that belongs to its name."""
        before = _WORD_BEFORE.search(text, max(0, place - _FAR), place)
        return not self._verbs or before is None or before[1].lower() in STOP_WORDS or before[1].lower() in self._verbs

    def _of(self, text: str, chain: Sequence[re.Match[str]]) -> Iterator[Listed]:
        """Yield the findings among words that are joined to each other, if these are no other thing."""
        first, end = chain[0].start(), chain[-1].end()
        if self._other_before.search(text, max(0, first - _FAR), first) or self._other_after.match(text, end):
            return
        for match in chain:
            name = self._names.get(match[0].lower())  # a pattern without case takes "ı" for "i"
            if name is not None and self._part.search(text, max(0, match.start() - _FAR), match.start()) is None:
                yield Listed(match.start(), match.end(), name)


_LISTS = (
    _List(
        {"frequency": "urinary frequency", "urgency": "urinary urgency", "hesitancy": "urinary hesitancy", "retention": "urinary retention"},
        r"dysuria|nocturia|ha?ematuria|polyuria|pyuria|(?:urge )?incontinence|dribbling|straining",
        "urinary|bladder|voiding",
        "bowel|rectal|f(?:a?e)cal|stool|defecation|hypertensive|fluid|water|sodium|salt|urate|co2|carbon dioxide|gastric|food|placental|seizure|headache|migraine|"
        "attack|episode|speech|word|verbal|medication|drug|dose|dosing|heart|respiratory|breathing|high|low|radio|meal|feeding|visit",
        r"of[ \t]+(?!(?:the |her |his )?(?:urin|void|mict|bladder))",
    ),
    _List(
        {"drugs": "illicit drug use"},
        r"alcohol|etoh|tobacco|smok(?:es?|ing)|cigarettes|nicotine|vap(?:es?|ing)|drink(?:s|ing)?|marijuana|cannabis|cocaine|heroin|caffeine",
        "illicit|illegal|recreational|street|prescription|other|prescribed|psychiatric|new|any|for|of|iv|intravenous",
        "certain|some|these|those",
        r"(?:that|which|such as|like|known|containing)\b",
        "avoid avoids avoiding deny denies denied denying quit stopped take takes took taking use uses".split(),  # noqa: SIM905
    ),
)


def listed(text: str) -> Iterator[Listed]:
    """Yield the words that stand for findings because another finding of their kind is beside them in a list: urinary symptoms, and habits."""
    for each in _LISTS:
        yield from each.find(text)
