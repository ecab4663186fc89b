"""Find the scopes of triggers: the characters before or after a trigger where its category holds."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property

from .clauses import Span
from .items import (
    MONTHS,
    alternatives,
    comma_before,
    ends_item,
    is_awaited,
    is_dated_by,
    is_resumed,
    is_year,
    item_before_comma,
    last_item,
    listed_items,
    main_clause,
    names_a_test,
    own_item,
)
from .relatives import statements_about_relatives
from .terminators import Terminators
from .triggers import AWAITED, DECIDED, LACKING, NARROWED, PAST, SCOPED, Rule

HALTED = frozenset(["done", "omitted"])
PASSED = frozenset(["historical", "over", "resolved", "done"])
_BEFORE_ITEM = frozenset([",", ":", "(", "-", "/", "and", "&", "we", "i"])
_ENDS_ITEM = frozenset([",", ":", ")"])
_ORDERED = frozenset(
    ["give", "offer", "repeat", "restart", "rpt", "then", "transfuse", "use"]
)  # before the treatment of "restart ramipril if BP >150"
_STOP = frozenset(["stop", "discontinue"])
_DROP = "drop"
_SCORED_WORDS = 25  # words and marks before and after a score in which another one is looked for
_LOWERED_WORDS = 6  # words and marks after "drop" in which the new dose is looked for
_LATER = frozenset(["if", "unless", "when", "once", "before", "prior", "pre"])  # "stop oxaliplatin if neuropathy worsens"
_LATER_WORDS = 8  # words and marks after "stop"
_AMOUNTS = frozenset(
    ["ml", "mls", "cc", "l", "mg", "mcg", "g", "kg", "iu", "u", "units", "kcal", "cal", "calories", "h", "hrs", "hours", "x", "/", ":", "%"]
)
_AGE = re.compile(
    r"\b(?P<number>\d{1,3})[\s-]*(?:(?P<years>years?|yrs?|y)|months?|mo|weeks?|wk|days?)[\s./-]*(?:old|o)\b"
    r"|\b(?P<short>\d{2,3})\s?(?-i:[MF])\b|\baged (?P<aged>\d{1,3})\b(?! (?:months|weeks|days))",  # "72M", "aged 72"
    re.IGNORECASE,
)
_PARENT = re.compile(r"\b(?:mother|mom|father|dad|born to)\b", re.IGNORECASE)
_GROWN = 16  # years
_INTRODUCES = re.compile(r"[^.:;\n]{0,80}:")  # what may stand between a trigger and its list
_MARKER = r"(?:(?:and\s+)?\(?(?:\d{1,2}|[a-h])[.)]|[-*•](?=\s))"
_LISTED = re.compile(rf"[\s,]*{_MARKER}(?:(?![.;](?:[\s,]|\Z)|\n|,\s*{_MARKER}).){{1,300}}[.;]?")
_MOST_ITEMS = 30
_MARKS_PER_WORD = 12  # marks that a scope may have for each word
_BRACKETED_WORDS = 15  # words and marks before a statement among which an opening bracket is looked for
_FUTURE = frozenset(["plan", "instructions"])  # kinds of sections where a year may be in the future
# words that may follow a treatment that was discussed; others are about it: "discussed lumpectomy results"
_GO_ON = frozenset(
    """
    a again and as at but by due for given if in instead including now on option options or risk risks so the then to today tomorrow using versus via vs
    when which with without
    """.split()  # noqa: SIM905
)
_OFFERED = frozenset(["considered", "for", "if", "needs", "offered", "pending", "possible", "recommended"])  # words before or after what was not done
_UNABLE = frozenset(["unable", "cannot", "impossible"])
_UNABLE_WORDS = 8  # words and marks before "without" in which "cannot" is looked for
_NEW_STATEMENT = frozenset([",", "and", "but", ":", "(", ")", "because", "due", "has", "is", "secondary", "since", "who"])
_DASHES = frozenset("-–—")
_TWO = "both"  # "both negative": the two items before it
_LEADING = 3  # a trigger begins its clause if fewer words than this stand before it: "About two years ago"


class Scopes:
    """The scopes of the triggers of a note.

    Args:
        triggers: (first token, last token + 1, rules) of each trigger.
        terminators: where scopes end, with the note, its clauses, its mentions and the words of items.
    """

    def __init__(self, triggers: Sequence[tuple[int, int, Sequence[Rule]]], terminators: Terminators) -> None:
        note = terminators.note
        self.triggers, self.terminators = triggers, terminators
        self.note, self.bounds, self.mentions, self.item_words = note, terminators.bounds, terminators.mentions, terminators.item_words
        self.text, self.words, self.starts, self.ends = note.text, note.words, note.starts, note.ends

    def ranges(self) -> list[tuple[tuple[str, bool], list[Span]]]:
        """Return ((category, whether the range is after its trigger), sorted disjoint ranges in characters) where categories hold."""
        found: dict[tuple[str, bool], list[Span]] = {(category, ahead): [] for category in SCOPED for ahead in (True, False)}
        # "my daughter has chickenpox and now a rash on my chest"
        last_words = [last for first, last in self._statements if last < self.bounds[bisect_right(self.bounds, first)]]
        all_stops = {**self.terminators.stops, "family": sorted([*self.terminators.stops["family"], *last_words])}
        for first, last, rules in self.triggers:
            for rule in rules:
                if rule.category not in SCOPED or (rule.sections and (self.note.kind(self.starts[first]) in rule.sections) == rule.outside):
                    continue
                if rule.adult and not self.adult:
                    continue
                place = bisect_right(self.bounds, first)
                begin, end = self.bounds[place - 1], self.bounds[place]
                if rule.category in HALTED and is_resumed(self.words, last, end, self.item_words):
                    continue
                if rule.category == "done" and (
                    is_awaited(self.words, first, last, begin, self.item_words) or (self.words[first] in _STOP and self._is_later(last, end))
                ):
                    continue  # "no driving until she is off her opioids", "stop aspirin if dizzy"
                if rule.category == LACKING and rule.direction == "own" and self._has_other_score(first, last, begin, end):
                    continue  # "pain 0/10 at rest, 7/10 with walking"
                if rule.category == "omitted" and self.words[first] == _DROP and self._is_lowered(last, end):
                    continue
                if self.words[first] == "without" and rule.category == "negated" and self._is_unable(first, begin):
                    continue
                stops = all_stops[rule.category]
                leading = rule.direction == "leading" and sum(word[0].isalnum() for word in self.words[begin : min(first, begin + 12)]) < _LEADING
                if rule.direction == "first":  # numbers may precede: "2) Start aspirin"
                    from_colon = self.words[first - 1] == ":" and rule.category == "done" and first > begin  # "ACB score 5: stop oxybutynin"
                    leading = from_colon or (first - begin < 4 and not any(word[0].isalpha() for word in self.words[begin:first]))
                after = last  # where a scope ahead begins
                if rule.direction == "inside" and last > first + 1:
                    found[rule.category, True].append((self.starts[first + 1], self.ends[last - 1]))
                    after = self._mention_end(first + 1, last)
                if rule.direction == "list" and (listed := self._list(last)):
                    found[rule.category, True].append(listed)
                stop = bisect_left(stops, after)
                end_here = min(end, stops[stop]) if stop < len(stops) else end
                if rule.direction == "either":
                    own = self._counted(last, end_here, rule.scope, 1) if rule.scope else last
                    own = next((at for at in range(last, own) if self.words[at] == ","), own)  # "does not smoke, COPD"
                    to = max(alternatives(self.words, last, end_here, self.item_words), own)
                    found[rule.category, True].append((self.starts[last - 1], self.ends[to - 1]))
                if rule.direction == "opening":  # not after a mention: "HIV negative, …"
                    leading = not self._ends_item(rule.category, first, last, begin, end) and not self._is_compound(first)
                if rule.direction == "beside":
                    named = self._named.get(rule.category, self._named[""])
                    leading = last in named and (first == begin or self.words[first - 1] in _BEFORE_ITEM)
                if (rule.direction in ("forward", "both", "list", "aside", "near") or leading or after > last) and after < end:
                    to = self._counted(after, end_here, rule.scope, 1)
                    if rule.direction == "near":
                        goes_on = rule.category == "negated" and self.terminators.joins(after)  # "not nauseated, vomiting or dizzy"
                        limit = to
                        if not goes_on and (mark := bisect_left(self._item_ends, after)) < len(self._item_ends):
                            to = min(to, self._item_ends[mark])
                        if rule.category == "uncertain" and (dash := bisect_left(self._dashes, after)) < len(self._dashes):
                            to = min(to, self._dashes[dash])  # "?PE - breathless, CTPA today"
                        if rule.category in ("uncertain", "omitted"):  # "?PE, DVT or ACS", "not for ITU, dialysis or NIV"
                            to = max(to, alternatives(self.words, after, limit, self.item_words))
                    if rule.direction == "beside" and rule.category == "family" and self.words[first] not in self.item_words.relative:
                        to = next((at for at in range(after, to) if self.words[at] == ","), to)  # "husband low mood, gout"
                    if rule.direction == "aside":
                        to = main_clause(self.words, after, to, self.item_words)
                    drugs = self.terminators.drug_stops[rule.category]
                    stop = bisect_left(drugs, after)
                    if stop < len(drugs) and drugs[stop] < to and rule.category == "historical":
                        found[PAST, True].append((self.starts[drugs[stop]], self.ends[to - 1]))
                        to = drugs[stop]
                    narrowed = self.terminators.narrowed.get(rule.category, [])
                    stop = bisect_left(narrowed, after)
                    if stop < len(narrowed) and narrowed[stop] < to:
                        found[NARROWED[rule.category], True].append((self.starts[narrowed[stop]], self.ends[to - 1]))
                        to = narrowed[stop]
                    if to > after:
                        found[rule.category, True].append((self.starts[after], self.ends[to - 1]))
                ending = rule.direction in ("ending", "closing", "items") and not any(
                    word[0].isalnum() or word == "#" for word in self.words[last : min(end, last + 12)]
                )
                if (
                    rule.direction in ("backward", "both", "own", "sole")
                    or ending
                    or (rule.direction == "items" and self._ends_item(rule.category, first, last, begin, end))
                ):
                    alone = (ending or self.words[last - 1] == ",") and place > 1 and not any(word[0].isalnum() for word in self.words[begin:first])
                    if alone and ("\n" not in (gap := self.text[self.ends[max(begin - 2, 0)] : self.starts[first]]) or ":" in gap):
                        # a trigger alone in its table cell, such as "| no |", or below its heading, applies to the cell or the heading
                        begin = self.bounds[place - 2]
                    if rule.category in PASSED and is_awaited(self.words, first, last, begin, self.item_words):
                        continue
                    stop = bisect_left(stops, first) - 1
                    from_here = max(begin, stops[stop] + 1) if stop >= 0 else begin
                    from_here = self._in_brackets(from_here, first)
                    start, to = (
                        self._items(first, last, from_here, rule)
                        if rule.direction == "items"
                        else self._own(first, from_here, rule.scope)
                        if rule.direction == "own"
                        else self._sole(first, begin)
                        if rule.direction == "sole"
                        else (self._counted(first, from_here, rule.scope, -1), first)
                    )
                    if rule.direction == "ending" and rule.category == "negated":
                        start = self._after_answer(start, first)
                    if rule.direction in ("backward", "ending") and (rule.category == "negated" or rule.category in PASSED):
                        start = self._own_doubt(start, first)
                    if rule.category in PASSED and rule.direction in ("backward", "ending") and "resolved" in self.words[first:last]:
                        start = self._last_listed(start, first, begin)
                    if rule.direction == "backward" and rule.category in PASSED:
                        start = self._after_value(start, first)
                    if rule.direction in ("backward", "ending") and rule.category == "uncertain":
                        start = self._last_doubted(start, first)
                    if rule.direction == "ending" and rule.category == "negated":
                        start = self._after_dose(start, first)
                    if rule.direction == "closing":
                        start = last_item(self.words, start, first, self.mentions.findings.keys(), self.item_words)
                    if start < to:
                        found[rule.category, False].append((self.starts[start], self.ends[to - 1]))
        found["historical", False] += self._dated()
        found["family", True] += [(self.starts[first], self.ends[last - 1]) for first, last in self._statements]
        return [(key, _merged(spans)) for key, spans in found.items() if spans]

    @cached_property
    def _statements(self) -> list[tuple[int, int]]:
        """(first token, last token + 1) of what a writer says of a relative: "My mum is confused. She has a water infection."."""
        hidden = {token for first, last, rules in self.triggers if any(rule.category == "pseudo" for rule in rules) for token in range(first, last)}
        return statements_about_relatives(self.words, self.bounds, hidden, self.item_words)

    @cached_property
    def _named(self) -> dict[str, AbstractSet[int]]:
        """Category of a trigger with the direction "beside" -> the first tokens of what may follow it: "Was MST 60 bd", "Discussed CABG"; "": findings, for the others."""
        bounds = set(self.bounds)
        treatments = {
            first
            for end, first in self.mentions.procedure_ends.items()
            if not names_a_test(self.words[first:end], self.item_words)
            and (end in bounds or not self.words[end][0].isalpha() or self.words[end] in _GO_ON)
        }
        return {"done": self.mentions.drugs, "planned": treatments, "": frozenset(self.mentions.finding_starts)}

    def _dated(self) -> list[Span]:
        """Return (start, end) in characters of the findings and operations with a date directly after them: "CVA 2015", "Chlamydia 2016 treated", "Stroke Feb"."""
        found = []
        for at, word in enumerate(self.words):
            year = is_year(word)
            if not (year or self._is_month(at)) or (at + 1 < len(self.words) and self.words[at + 1] in _AMOUNTS):
                continue
            end = self._before_date(at)  # the token after the mention
            finding = end in self.mentions.findings
            first = self.mentions.findings.get(end, self.mentions.procedure_ends.get(end) if year else None)
            if first is None or self.note.kind(self.starts[first]) in _FUTURE:
                continue
            place = bisect_right(self.bounds, first)
            if not year and self.item_words.event.isdisjoint(self.words[first:end]):
                continue
            if is_dated_by(self.words, first, at, self.bounds[place - 1], self.bounds[place], self.item_words, finding=finding):
                found.append((self.starts[first], self.ends[end - 1]))
                found += self._done_then(at + 1, self.bounds[place])
        return found

    def _is_month(self, at: int) -> bool:
        """Return whether a token is a month without a year, with a capital letter: "Feb"."""
        return (
            self.words[at] in MONTHS and self.text[self.starts[at]].isupper() and not (at + 1 < len(self.words) and self.words[at + 1][0].isdigit())
        )

    def _before_date(self, at: int) -> int:
        """Return the token after what stands before a year or month at token `at`, its month, and a number of times: after "epidural" in "epidural x2 Feb 2019"."""
        if at and is_year(self.words[at]) and self.words[at - 1] in MONTHS:
            at -= 1
        if at > 1 and self.words[at - 2] == "x" and self.words[at - 1].isdigit():
            at -= 2
        return at

    def _done_then(self, at: int, end: int) -> list[Span]:
        """Return (start, end) in characters of the operations in the brackets that open at token `at`, after a date: "NSTEMI 2019 (PCI to LAD)"."""
        if at >= end or self.words[at] != "(":
            return []
        close = next((place for place in range(at, min(end, at + _BRACKETED_WORDS)) if self.words[place] == ")"), at)
        if not (self.item_words.due | self.item_words.goeson - {"with"}).isdisjoint(self.words[at:close]):
            return []
        found = []
        for last in range(at + 1, close + 1):
            first = self.mentions.procedure_ends.get(last, at)
            offered = self.words[first - 1] in _OFFERED or self.words[last] in _OFFERED - {"for"}  # "(for PCI)", but not "(PCI for STEMI)"
            if first > at and not offered and not names_a_test(self.words[first:last], self.item_words):
                found.append((self.starts[first], self.ends[last - 1]))
        return found

    def _after_answer(self, start: int, first: int) -> int:
        """Return the token after the answer of another label between token `start` and the answer at token `first`: "Rash: no" in "Cough: yes, Rash: no"."""
        colons = [at for at in range(start, first - 1) if self.words[at] == ":"]
        if not colons or self.words[first - 1] != ":":
            return start
        return next((at + 1 for at in range(colons[-1], first) if self.words[at] == ","), start)

    def _own_doubt(self, start: int, first: int) -> int:
        """Return the comma before the item of token `first`, if a doubt stands between token `start` and token `first`.

        It is about its own item: "possible pneumonia, PE ruled out", "COPD exacerbation, ?PE unlikely".
        """
        comma = comma_before(self.words, first, start, self.item_words)
        if comma is None:
            return start
        place = bisect_left(self.terminators.doubts, start)
        return comma if place < len(self.terminators.doubts) and self.terminators.doubts[place] < first else start

    def _last_listed(self, start: int, first: int, begin: int) -> int:
        """Return where the last item between token `start` and "resolved" at token `first` begins, if a finding has a figure: "arm weakness 1/5, hemianopia, neglect resolved".

        Otherwise `start`: all of "nausea, vomiting resolved" and "day 3: nausea, vomiting resolved" are over. The clause begins at token `begin`.
        """
        if not self._has_figure(start, first, begin):
            return start
        last = last_item(self.words, start, first, self.mentions.findings.keys(), self.item_words)
        return max(start, listed_items(self.words, last, begin, self.item_words, joined=False)) if last > start else start

    def _has_figure(self, start: int, end: int, begin: int) -> bool:
        """Return whether a figure from token `start` to token `end` - 1 follows a mention in its item, in a clause that begins at token `begin`: "weakness 1/5", but not "day 3"."""
        named = False
        for at in range(max(begin, start - _BRACKETED_WORDS), end):
            named = (named and self.words[at] not in _ENDS_ITEM) or at in self.mentions.mention_ends
            if named and at >= start and self.words[at].isdigit():
                return True
        return False

    def _in_brackets(self, start: int, first: int) -> int:
        """Return the token after an opening bracket between token `start` and token `first`, if a mention begins in it: "NIPE due (red reflex not seen)"."""
        for at in range(first - 1, max(start, first - _BRACKETED_WORDS) - 1, -1):
            if self.words[at] in (")", "("):
                return at + 1 if self.words[at] == "(" and any(token in self.mentions.mention_ends for token in range(at + 1, first)) else start
        return start

    def _last_doubted(self, start: int, first: int) -> int:
        """Return where the last item between token `start` and a doubt at token `first` begins: "consolidation" in "effusion, consolidation cannot be excluded".

        A question mark is not about the label of its item either: "VE: retroverted?".
        """
        if self.words[first] == "?":
            colon = next((at for at in range(first - 1, start - 1, -1) if self.words[at] == ":"), start - 1)
            start = max(start, colon + 1) if colon < first - 1 else start
        return last_item(self.words, start, first, self.mentions.findings.keys(), self.item_words)

    def _after_value(self, start: int, first: int) -> int:
        """Return the token after the last comma between token `start` and token `first`, if it stands between a figure and a mention.

        It is "MoCA" in "AMTS 3/10, MoCA 14 last year". "Fracture of C6, repaired last year" has none.
        """
        comma = next((at for at in range(first - 1, start, -1) if self.words[at] == ","), None)
        return comma + 1 if comma is not None and comma + 1 in self.mentions.mention_ends and self.words[comma - 1].isdigit() else start

    def _after_dose(self, start: int, first: int) -> int:
        """Return the token after the last item with the dose of a drug or a score between token `start` and a denial at token `first`.

        It is "bleeding" in "aspirin 75 od, bleeding denied", and "fever" in "pain 4/10, fever denied". "SOB 3 days" has no dose.
        """
        comma, dosed = None, False
        for at in range(first - 1, start - 1, -1):
            if self.words[at] == ",":
                comma, dosed = at, False
            elif comma is None:
                continue
            elif (dosed and at in self.mentions.drugs) or (self.words[at] == "/" and self.words[at + 1] == "10" and self.words[at - 1].isdigit()):
                return comma + 1
            elif self.words[at][0].isdigit() and at and self.starts[at] > self.ends[at - 1]:  # not the "12" of "B12"
                dosed = True
        return start

    def _mention_end(self, first: int, last: int) -> int:
        """Return the token after the longest mention that begins at a token from `first` to `last` - 1 and goes on after them; `last` if there is none."""
        return max(last, *(self.mentions.mention_ends.get(token, last) for token in range(first, last)))

    def _ends_item(self, category: str, first: int, last: int, begin: int, end: int) -> bool:
        """Return whether the trigger of the tokens from `first` to `last` - 1 ends its item, or stands after a mention: it is about what is before it.

        Its clause has the tokens from `begin` to `end` - 1. "Pending" after a mention may be about what follows: "fracture pending surgery".
        """
        return ends_item(self.words, last, end, self.item_words) or (
            category not in (AWAITED, DECIDED) and first > begin and first in self.mentions.after_mention
        )

    def _is_unable(self, at: int, begin: int) -> bool:
        """Return whether somebody is said to be unable to do something without what token `at` begins: "cannot walk without pain".

        Its clause begins at token `begin`.
        """
        near = self.words[max(begin, at - _UNABLE_WORDS) : at]
        near = near[next((place for place in range(len(near), 0, -1) if near[place - 1] in _NEW_STATEMENT), 0) :]
        pairs = zip(near, near[1:])
        return not _UNABLE.isdisjoint(near) or any(word in ("can", "could") and after == "not" for word, after in pairs)

    @cached_property
    def _dashes(self) -> list[int]:
        """The dashes with a space on both sides, in order."""
        return [
            at
            for at, word in enumerate(self.words)
            if word in _DASHES and 0 < at < len(self.words) - 1 and self.ends[at - 1] < self.starts[at] and self.ends[at] < self.starts[at + 1]
        ]

    def _is_compound(self, at: int) -> bool:
        """Return whether a hyphen joins a token to the word before it: "culture-negative endocarditis"."""
        return at > 1 and self.words[at - 1] == "-" and self.ends[at - 2] == self.starts[at - 1] and self.ends[at - 1] == self.starts[at]

    def _items(self, first: int, after: int, begin: int, rule: Rule) -> tuple[int, int]:
        """Return (first token, last token + 1) of the items that a rule is about, before its trigger; both are equal if there is none.

        The trigger has the tokens from `first` to `after` - 1. No item begins before token `begin`.
        """
        start, last = own_item(self.words, first, begin, self.item_words)
        most = 1 if _TWO in self.words[first:after] else _MOST_ITEMS
        if start == last and rule.category != AWAITED:
            return item_before_comma(self.words, first, begin, self.item_words, most)
        if start == last or (rule.category == AWAITED and not self._is_assay(start, last)):
            return last, last
        whole = listed_items(self._glued, start, begin, self.item_words, joined=rule.category == AWAITED, most=most)
        return (whole, last) if whole < start else (self._counted(last, start, rule.scope, -1), last)

    def _own(self, first: int, begin: int, scope: int) -> tuple[int, int]:
        """Return (first token, last token + 1) of the last words of the item before token `first`, and of its list with "and": of "stroke or falls" in "…, stroke or falls risk"."""
        start, _ = own_item(self.words, first, begin, self.item_words)
        if self.words[first] == "(" and start > begin and self.words[start - 1] == "on":  # "AKI on CKD (resolved)"
            return own_item(self.words, start - 1, begin, self.item_words)
        alone = start < first and self.words[start] in self.item_words.degree
        for at in range(start + 1, first):
            if self.words[at] in self.item_words.degree or (
                self.words[at] == "-" and self.ends[at - 1] < self.starts[at] and self.ends[at] < self.starts[at + 1]
            ):
                start, alone = at, True
        if start < first and not alone:
            start = listed_items(self.words, start, begin, self.item_words, joined=True)
        return max(start, self._counted(first, begin, scope, -1)), first

    def _sole(self, first: int, begin: int) -> tuple[int, int]:
        """Return (first token, last token + 1) of the item before a condition at token `first`, if a mention begins it: "TPN if not eating"; otherwise an empty range."""
        start, last = own_item(self.words, first, begin, self.item_words)
        if start > begin and self.words[start - 1] == "with":  # "ORIF with a screw if …"
            start, _ = own_item(self.words, start - 1, begin, self.item_words)
        opens = start == begin or not self.words[start - 1][0].isalnum() or self.words[start - 1] in self.item_words.link
        start = next((at for at in range(start, last) if self.words[at][0].isalnum()), last)  # after the mark of an item: "- TPN if …"
        start += start < last and self.words[start] in _ORDERED
        label = first > begin and self.words[first - 1] == ":"  # "Metformin: if eGFR falls, stop it"
        return (start, last) if opens and not label and start in self.mentions.mention_ends else (first, first)

    def _is_later(self, at: int, end: int) -> bool:
        """Return whether a condition or a time follows an order to stop what token `at` names: "stop aspirin if dizzy"; `end` is the end of its clause."""
        near = self.words[at : min(end, at + _LATER_WORDS)]
        return not _LATER.isdisjoint(near[: near.index(",")] if "," in near else near)

    def _has_other_score(self, first: int, last: int, begin: int, end: int) -> bool:
        """Return whether the tokens from `first` to `last` - 1 are a score of 0 of 10, and their clause, from `begin` to `end` - 1, has a higher one."""
        if self.words[last - 1] != "10":
            return False
        near = self.words[max(begin, first - _SCORED_WORDS) : min(end, last + _SCORED_WORDS)]
        triples = zip(near, near[1:], near[2:])
        return any(word[0] in "123456789" and mark in ("/", "out", "of") and most in ("10", "of") for word, mark, most in triples)

    def _is_lowered(self, at: int, end: int) -> bool:
        """Return whether "to" and a figure soon follow token `at`, in a clause that ends before token `end`: "drop bisoprolol to 1.25 mg"."""
        near = self.words[at : min(end, at + _LOWERED_WORDS)]
        return any(word == "to" and after[0].isdigit() for word, after in zip(near, near[1:]))

    def _is_assay(self, start: int, last: int) -> bool:
        """Return whether some tokens are the name of a disease and words for its test: "hepatitis C antibodies"."""
        at = last
        while (
            at > start and at not in self.mentions.findings and (self.words[at - 1] in self.item_words.assay or not self.words[at - 1][0].isalnum())
        ):
            at -= 1
        return at > start and at in self.mentions.findings

    @cached_property
    def _item_ends(self) -> list[int]:
        """The commas, colons and closing brackets, in order."""
        return [at for at, word in enumerate(self.words) if word in _ENDS_ITEM]

    @cached_property
    def _glued(self) -> list[str]:
        """The tokens; a figure that touches the letters before it is no figure: the "2" of "JAK2"."""
        words = self.words
        return [
            f"x{word}" if at and word[0].isdigit() and self.starts[at] == self.ends[at - 1] and words[at - 1][-1].isalpha() else word
            for at, word in enumerate(words)
        ]

    @cached_property
    def adult(self) -> bool:
        """Whether the first age in the note is that of an adult, who is not called someone's mother or father."""
        age = _AGE.search(self.text)
        if age is None:
            return False
        years = age["number"] if age["years"] else age["short"] or age["aged"]
        if not years or int(years) < _GROWN:
            return False
        return _PARENT.search(self.text, max(age.start() - 40, 0), age.end() + 15) is None

    def _list(self, token: int) -> Span | None:
        """Return (start, end) in characters of the numbered or marked list that the words before a token introduce: "Risks include:,1. Bleeding."."""
        start = self.ends[token - 1]
        colon = _INTRODUCES.match(self.text, start)
        if colon is None:
            return None
        end = colon.end()
        for _ in range(_MOST_ITEMS):
            item = _LISTED.match(self.text, end)
            if item is None:
                break
            end = item.end()
        place = bisect_right(self.note.section_starts, start) - 1
        return (start, min(end, self.note.sections[place].end)) if end > colon.end() else None

    def _counted(self, at: int, limit: int, scope: int, step: int) -> int:
        """Return the token that is `scope` words from token `at`, in the direction `step`, but not beyond `limit`; scope 0: the limit."""
        if not scope:
            return limit
        most = _MARKS_PER_WORD * (scope + 1)  # in a long line of marks, no word ends the scope
        limit = min(limit, at + most) if step > 0 else max(limit, at - most)
        count = 0
        while at != limit and count <= scope:
            word = self.words[at if step > 0 else at - 1]
            count += word[0].isalnum()
            if count > scope:
                break
            at += step
        return at


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
