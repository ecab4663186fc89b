"""Short forms of scores and tests directly before their value: "FIM 58", "TUG 38 s", "BM 4.8"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from ..context.sense_words import sole_meanings
from .listed import Listed
from .word_lists import abbreviations, is_plain, meant_abbreviations

# also an interdisciplinary team ("IDT 3 pm"), a grade of strength, the Rivermead mobility index, and a tarsometatarsal joint
_SEVERAL = frozenset(["IDT", "MRC", "RMI", "TMT"])
_KIND = re.compile(
    r"\b(?:assessment|index|inventory|measure|scale|score|test|tool)\b", re.IGNORECASE
)  # in the meaning of a short form that has a value
_DOSE = r"[ \t]?(?:mg|mcg|g|Gy|ml|mL|tabs?|units?|days?|weeks?|months?|years?)\b"  # also of radiation, and a time
# no year, and no strength of muscles: "FIM 2019", "MRC 4/5"
_VALUED = re.compile(
    rf"(?<![\w/.+-])(?P<short>[A-Z]{{2,5}})(?=[ \t]?[:=]?[ \t]?[<>~]?[ \t]?(?!(?:19|20)\d\d\b)(?P<value>\d{{1,4}}(?:\.\d+)?(?:/(?!5\b)\d{{1,4}})?)(?![\w/-]|\.\d)(?!{_DOSE}))"
)
_GLUCOSE, _GLUCOSE_VALUE = "BM", re.compile(r"\d{1,2}\.\d")  # "BM 4.8" is no bowel movement


def valued(text: str) -> Iterator[Listed]:
    """Yield short forms of scores and tests that stand directly before a value.

    Such a short form has one meaning in the table of sense words, and none in the other tables. "BM" before a number with tenths is the blood glucose.

    Args:
        text: the note.
    """
    for found in _VALUED.finditer(text):
        short = found["short"]
        if short == _GLUCOSE:
            name = "blood glucose" if _GLUCOSE_VALUE.fullmatch(found["value"]) else None
        else:
            name = _scores().get(short)
        if name is not None:
            yield Listed(found.start(), found.end(), name)


@lru_cache(maxsize=1)
def _scores() -> dict[str, str]:
    """Return short form -> what it stands for."""
    other = {word.lower() for word in abbreviations()} | meant_abbreviations()
    return {
        form.upper(): meaning
        for form, meaning in sole_meanings().items()
        if len(form) > 2 and form.upper() not in _SEVERAL and _KIND.search(meaning) and form not in other and not is_plain(form)
    }
