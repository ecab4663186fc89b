"""Decide the statuses of mentions (negated, uncertain, …) in a plain text, without spaCy.

`clauses` splits a note into words and clauses, `triggers` finds the triggers of a table in it, `terminators` finds where scopes end, and `scopes`
where categories hold. Here it is decided what the categories of a mention mean together.

Source: NegEx (Chapman et al., A simple algorithm for identifying negated findings and diseases in discharge summaries, J Biomed Inform 2001) and
ConText (Harkema et al., ConText: an algorithm for determining negation, experiencer, and temporal status, J Biomed Inform 2009). A trigger
has a scope: the words before or after it, up to the end of the clause, a terminator, or a number of words.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from .clauses import Span, TokenizedNote, find_sentences
from .mention_tokens import MentionTokens
from .scopes import Scopes
from .sections import find_sections
from .terminators import Terminators
from .triggers import (
    AWAITED,
    DECIDED,
    DRUG,
    FINDING,
    HINTED,
    LACKING,
    OTHER,
    PARTIAL,
    PRESENT,
    PROCEDURE,
    RESOLVED,
    SHIPPED,
    STATUSES,
    TriggerTable,
    find_triggers,
)

__all__ = ["DRUG", "FINDING", "OTHER", "PROCEDURE", "SHIPPED", "STATUSES", "Rules", "find_sentences"]

ALL = frozenset(STATUSES)
UNDECIDED = frozenset(["suspected", "feared"])


class Rules:
    """The rules of a table, ready to be applied.

    Args:
        text: the table, in the format of data/status_rules.tsv.
        name: name of the table in error messages.

    Raises:
        SapbertError: E403, a row is not a rule.
    """

    def __init__(self, text: str, name: str = "status_rules.tsv") -> None:
        self.text = text
        table = TriggerTable(text, name)
        self._tree, self._sections, self._item_words = table.tree, table.sections, table.item_words
        self.substances: frozenset[str] = table.substances
        """Names of substances of the body that are findings ("no exudate"), in lower case."""
        self._treatments = table.treatments

    def statuses(
        self, text: str, mentions: Sequence[Span], breaks: Iterable[int] = (), kinds: Mapping[Span, str] = MappingProxyType({})
    ) -> list[dict[str, bool]]:
        """Return the statuses of each mention: a dict with True or False for each of the five.

        Args:
            text: a note.
            mentions: (start, end) of each mention, in characters.
            breaks: offsets in characters where sentences begin, if known; clauses end there, too.
            kinds: mention -> "drug" or "procedure", for drugs, procedures, tests and devices, or "other" for what is no problem of the
                patient, such as a part of the body. The others are findings: in "We will treat the pneumonia with azithromycin", only the drug is hypothetical.
        """
        if not mentions:
            return []
        note = TokenizedNote(text, find_sections(text))
        fixed = note.fixed(breaks)
        triggers = find_triggers(note.words, self._tree, fixed)
        bounds = note.bounds(fixed, triggers)
        kinds = {place: self._kind(kind, text[slice(*place)]) for place, kind in kinds.items()}
        tokens = MentionTokens(note.starts, [(*place, kinds.get(place, FINDING)) for place in mentions])
        terminators = Terminators(note, bounds, triggers, tokens, self._item_words)
        ranges = Scopes(triggers, terminators).ranges()
        found = []
        for start, end in mentions:
            kind = kinds.get((start, end), FINDING)
            held = {category for (category, ahead), spans in ranges if _inside(spans, start if ahead else end - 1)}
            for section in note.names(start):
                held |= {category for category in self._sections.get(section, ()) if not terminators.ended(category, start, kind)}
            if "negated" in held or LACKING in held:
                held.discard(HINTED)
            if DECIDED in held:
                held.discard(DECIDED)
                held -= UNDECIDED
                if "absent" in held or "negated" in held:
                    held.discard("uncertain")  # "suspected influenza or RSV, both negative", "possible PE, ruled out"
            true = held & ALL
            if len(true) < len(held):
                if kind == OTHER:
                    held.discard(AWAITED)
                    kind = FINDING
                true |= {status for status, of in map(PARTIAL.__getitem__, held - true - {PRESENT}) if kind in of}
                if PRESENT in held and RESOLVED not in held and kind == FINDING:
                    true.discard("historical")
                if "planned" in held and kind != FINDING:
                    true -= {"historical", "uncertain"}  # "discussed before, she decided to have surgery", "?CABG"
                if AWAITED in held and kind == FINDING:
                    true.discard("negated")  # "negative fungi, and chlamydia is pending"
            if "negated" in true or "family" in true:
                true.discard("historical")  # a finding that never was, or was a relative's, is not in the patient's past
            found.append({status: status in true for status in STATUSES})
        return found

    def _kind(self, kind: str, mention: str) -> str:
        """Return the kind of a mention: a procedure or device that is taken like a drug counts as a drug: "CKD, on dialysis"."""
        return DRUG if kind == PROCEDURE and " ".join(mention.lower().split()).removeprefix("home ") in self._treatments else kind


def _inside(spans: list[Span], char: int) -> bool:
    place = bisect_right(spans, (char, sys.maxsize)) - 1
    return place >= 0 and spans[place][0] <= char < spans[place][1]
