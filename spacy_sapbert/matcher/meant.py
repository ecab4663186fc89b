"""Which of the names that were found are kept: whether words of a text are meant as the name that they equal."""

from __future__ import annotations

from collections.abc import Sequence

from ..kb.writing import CAPITALS, POSSESSIVE
from .beside import FINDING, is_adjective, is_department, is_title, means_something_else
from .joining import Match
from .letter_case import has_capitals, is_written_so
from .lookup import Lookup
from .reading import Reading
from .sites import BODY
from .skipped import headings_of_tests, places_without_mentions

DESCRIBING = frozenset([BODY, "PHYS"])  # groups whose adjectives are no mentions before another word: "facial features"


class Meant:
    """Makes the matches of one text.

    Args:
        reading: the text.
        lookup: what is looked for.

    Attributes:
        skipped: places (characters) that hold no mention.
    """

    def __init__(self, reading: Reading, lookup: Lookup) -> None:
        self._reading, self._lookup = reading, lookup
        self.skipped = places_without_mentions(reading.text, is_english=lookup.forms.is_english)
        self._tests = headings_of_tests(reading.text)

    def match(self, places: Sequence[int], given: str, *, nested: bool = False, part: bool = False) -> Match | None:
        """Return the match of the words at some positions; None if they are not meant as the name.

        Args:
            places: positions of the words, in the order of the name.
            given: label of the phrase; after a tab, how the words must be written, see `letter_case`.
            nested: see `Match`.
            part: see `Match`.
        """
        reading, text = self._reading, self._reading.text
        label, _, required = given.partition("\t")
        first, last = reading.found[min(places)].start(), reading.found[max(places)].end()
        if self.skipped.overlap(first, last) and (first, last) not in self._tests:
            return None
        if required == POSSESSIVE and text[last : last + 1] in ("'", "’"):  # "Graves' "
            last += 1
        group = self._lookup.group_of(label)
        if len(places) > 1:
            is_written = required != CAPITALS or has_capitals([reading.found[i] for i in places], text, self._lookup.forms.stop_words)
        else:
            is_written = places[0] in reading.added or self._stands_for_name(first, last, required, group, nested)
        if (
            not is_written
            or is_title(text[first:last])
            or is_department(text, first, last)
            or (group == FINDING and means_something_else(text, first, last, group))
        ):
            return None
        corrected = self._right(places, last, part)
        if (
            required == POSSESSIVE
            and len(places) == 1
            and corrected is None
            and text[last - 1] == "s"
            and "'" not in text[first:last].replace("’", "'")
        ):
            corrected = f"{text[first : last - 1]}'s"  # "Hashimotos"
        return Match(first, last, label, corrected, nested, part)

    def _stands_for_name(self, first: int, last: int, required: str, group: str, nested: bool) -> bool:
        """Return whether one word of the text is meant as a name of one word of the knowledge base."""
        text = self._reading.text
        if means_something_else(text, first, last, group) or not is_written_so(text, first, last, required):
            return False
        return nested or group not in DESCRIBING or not self._lookup.forms.is_english or not is_adjective(text, first, last)

    def _right(self, places: Sequence[int], last: int, part: bool) -> str | None:
        """Return the text to look up instead of the words of the text, of which the last ends at `last`; None if they are looked up themselves."""
        reading = self._reading
        found, right = reading.found, reading.right
        if part:
            return " ".join(filter(None, (right.get(i, found[i].group()) for i in places)))
        if not any(i in right for i in places):
            return None
        ends = [*(found[i].start() for i in places[1:]), last]
        each = (right.get(i, found[i].group()) + reading.text[found[i].end() : stop] for i, stop in zip(places, ends) if right.get(i) != "")
        return "".join(each).rstrip()
