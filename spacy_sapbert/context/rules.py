"""Rules for the status of a mention (negated, uncertain, …), and how they are applied to a plain text, without spaCy.

Source: NegEx (Chapman et al., A simple algorithm for identifying negated findings and diseases in discharge summaries, J Biomed Inform 2001) and
ConText (Harkema et al., ConText: an algorithm for determining negation, experiencer, and temporal status, J Biomed Inform 2009). A trigger
has a scope: the words before or after it, up to the end of the clause, a terminator, or a number of words.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ..errors import fail
from .items import (
    Words,
    alternatives,
    comma_before,
    ends_item,
    is_awaited,
    is_resumed,
    is_stated,
    is_statement,
    is_year,
    item_before_comma,
    last_item,
    listed_items,
    main_clause,
    own_item,
    study_item,
    undated,
)
from .sections import Section, find_sections, section_kinds

SHIPPED = Path(__file__).parents[1] / "data" / "status_rules.tsv"
STATUSES = ("negated", "uncertain", "hypothetical", "historical", "family")
ALL = frozenset(STATUSES)
SUBSTANCE = "substance"  # the class of `Rules.substances`
HEADER = ["trigger", "category", "direction", "scope"]
FINDING, DRUG, PROCEDURE = "finding", "drug", "procedure"  # kinds of mentions; a test and a device are procedures
OTHER = "other"  # a part of the body, a function, a place: the rules of findings hold for it, but it has no test
AWAITED = "awaited"  # a disease whose test is pending
PAST = "past"
LACKING, HINTED = "lacking", "hinted"
# categories that hold for some kinds of mentions only -> (status, kinds)
PARTIAL = {
    "planned": ("hypothetical", (DRUG, PROCEDURE)),
    "done": ("historical", (DRUG, PROCEDURE)),
    "omitted": ("negated", (DRUG, PROCEDURE)),
    "over": ("historical", (FINDING,)),
    "resolved": ("historical", (FINDING,)),  # as "over", but "present" does not take it away
    "suspected": ("uncertain", (FINDING,)),
    "absent": ("negated", (FINDING, DRUG)),  # a test that is negative was done
    AWAITED: ("uncertain", (FINDING,)),
    "feared": ("hypothetical", (FINDING,)),  # "avoid falls"; a drug that is avoided is omitted
    "listed": ("historical", (FINDING, DRUG, PROCEDURE)),  # in a section; other words end it than the scope of a trigger
    PAST: ("historical", (FINDING, PROCEDURE)),  # after "on prednisone" in "history of asthma on prednisone"
    LACKING: ("negated", (FINDING,)),  # after "on" in "no bleeding on aspirin"
    HINTED: ("uncertain", (FINDING, DRUG, PROCEDURE)),  # not if it is negated, too: "no findings to suggest PE"
}
# category -> what it becomes after a terminator with "@findings"
NARROWED = {"negated": LACKING, "uncertain": "suspected", HINTED: "suspected", "hypothetical": "feared"}
PRESENT, RESOLVED = "present", "resolved"  # "present" takes "historical" from findings: "onset of back pain two months ago"
DECIDED = "decided"  # a finding whose test has a result; it is neither suspected nor feared: "tested for influenza, positive"
UNDECIDED = frozenset(["suspected", "feared"])
DOUBTS = frozenset(["uncertain", "suspected"])
HALTED = frozenset(["done", "omitted"])
PASSED = frozenset(["historical", "over", "resolved", "done"])
ENDED_NOW = frozenset(["family", "historical", "listed"])  # what a line about now ends; not a condition: "Return if:", "Temp 101"
SCOPED = (*STATUSES, *PARTIAL, PRESENT, DECIDED)
SECTION = "section"  # the direction that means all mentions of a section
ADULT = "adult"  # a rule that holds in notes about an adult only
DIRECTIONS = frozenset(
    [
        *("forward", "backward", "both", "leading", "first", "ending", "inside", "list", "opening", "items", "either", "closing", "aside", "own"),
        *("near", "beside", SECTION),
    ]
)
AT_STUDY = "study"  # after "@", of a terminator: the scope ends where the item of the test begins: "and the CT showed"
UNJOINED = "unjoined"  # after "@", of a terminator: not if "or" follows, as in "no rash, small ulcers, or warts"
AT_SENTENCE = "sentence"  # after "@", of a terminator: only if it begins a clause, and not the first one of its section
AT_DRUG = "drug"  # after "@", of a terminator: for drugs only, if it stands between a finding and a drug: "history of asthma on albuterol"
_OF_DRUGS = frozenset(["historical", "listed"])  # the categories whose scope it can end
AT_REMARK = "remark"  # after "@", of a terminator: as "drug", but words may stand before the drug: "history of asthma: continue albuterol"
AT_FINDINGS = "findings"  # after "@", of a terminator: the scope goes on for findings only. A word, not a mark, must stand after a finding: "no bleeding on aspirin"
AT_REASON = "reason"  # after "@", of a terminator: only after a drug or procedure: "no metformin as she has kidney failure"
AT_STATEMENT = "statement"  # after "@", of a terminator: only if a verb soon follows: ", the decompression was complete"
AT_ITEM = "item"  # after "@", of a terminator: the scope ends at the comma before its item: "suspected influenza, RSV negative"
AT_LAST = "last"  # after "@", of a terminator: only if it begins the last item of a short list, and not after "denies" or "no history of": "no edema, prior DVT"
TERMINATED = (AT_LAST, AT_STUDY, UNJOINED, AT_SENTENCE, AT_DRUG, AT_REMARK, AT_FINDINGS, AT_REASON, AT_STATEMENT, AT_ITEM)
_LONGEST_TRIGGER = 100  # words and marks
_JOINED_WORDS = 25  # words and marks in which the "and" or "or" of a list is looked for
_LISTED_WORDS = 80  # words and marks in which the "or" at the end of a list of denied findings is looked for
_DATED_WORDS = 15  # words and marks after a statement in which a year is looked for
_BEFORE_FINDING = frozenset(["a", "an", "the", "history", "hx", "of"])  # words between the beginning of an item and its finding
_BEFORE_ITEM = frozenset([",", ":", "(", "-", "/", "and", "&"])
_ENDS_ITEM = frozenset([",", ":", ")"])
_LISTS = frozenset(["denies", "denied", "denying", "deny", "history", "hx", "negative", "h"])  # words of denials that lists follow; "h" of "h/o"
_TOLD = frozenset(["had", "was", "were", "did", "died"])  # words of a sentence that tells what was, and is no plan
_OF = frozenset(["", "of", "in", "on", "to", "from", "with"])  # words after the noun that names a finding; "": it is the last word
Span = tuple[int, int]  # first and last character + 1

_TOKEN = re.compile(
    r"\d+(?:[.,]\d+)*|(?P<verb>\b(?:do|does|did|is|are|was|were|has|have|had|ca|could|wo|would|should)(?=n['’]?t\b))|(?P<no>(?<=[a-z])n['’]?t\b)"
    r"|[^\W\d_]+(?:['’](?!s\b)[^\W\d_]+)?|['’]s\b|-ve\b|\+ve\b|[^\s\w]|_",
    re.IGNORECASE,
)
_VERBS = {"ca": "can", "wo": "will"}  # the verbs of "can't" and "won't"
_CLASS = re.compile(r"<([^<>]+)>")
_HEADING = "heading:"
_SIGN = {"?": "<query>", "+": "<plus>", "-": "<minus>", "–": "<minus>", "−": "<minus>"}
_BUILT_IN = frozenset(["number", "year", *(sign.strip("<>") for sign in _SIGN.values())])  # in triggers they are written like classes
_ABBREVIATED = frozenset("dr mr mrs ms vs st approx resp temp min max wt ht dx hx rx tx sx fx no pt pts neg pos inc jr sr ed al fig".split())  # noqa: SIM905
_ANSWERS = frozenset(["no", "neg", "pos"])
_ASKS = re.compile(r"(?:\A|[\n,;:(/•*.–-])[ \t]*\Z")  # before the "?" of "- ? PE"
_EXPLAINS = frozenset([("i", ".", "e"), ("e", ".", "g")])
_HARD = frozenset(";|•*!")
_ENDS = frozenset(".?!")  # marks that may end a sentence
_MARKS = frozenset([*_SIGN, *_HARD, ".", ")"])
_ITEM = re.compile(r"[-*•>+]\s|\d{1,3}[.)]\s|[(\[]?[a-z][.)]\s", re.IGNORECASE)
_DOUBTED = re.compile(r"[ \t](?!(?:yes|no|y|n|none|if|when)\b)(?:[a-z]|[A-Z]{2})")  # after the "?" of "pustules ? rosacea"
# a line that begins with a time or a vital sign is about now: "10:30 vomited", "15min: nausea", "HR 140, pale", but not "T2DM"
_NOW_LINE = re.compile(
    r"[ \t]*(?:\d{1,2}:\d\d\b|\d{4} ?(?:hrs?|h)\b|0\d{3}\b|\d{1,3} ?min\b|(?:HR|BP|RR|SpO2|Sats?|GCS|Temp|Fever)[ :]{0,2}\d|T(?:[ :]{1,2}\d|(?:3\d|9\d|10\d)\b))"
)
_BLANK = re.compile(r"\n[ \t]*\n")
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
_TWO = "both"  # "both negative": the two items before it
_CONTINUES = frozenset("a an the of or and nor for with without in on to any by from at as her his their is was has had have denies".split())  # noqa: SIM905
_SIGNED = re.compile(r"\)?[ \t]{0,3}(?=[,;\n]|\.?\s{0,3}\Z)")  # after a sign that ends its item
_SIGNS = re.compile(r"\w ?[+–−-][ \t]{0,3}(?:[,;]|\.?\s{0,3}\Z)")
_SPACED = re.compile(r"[ \t]\w")
_SPACED_SIGNS = re.compile(r"(?:(?<![^\n])|[,;:] )[ \t]{0,3}(?P<sign>[+–−-])[ \t]\w")
_SIGNED_LINE = 200  # characters
_PLUS = re.compile(r"[^\n]{0,200}[ ,;]\+[A-Za-z]")  # in the rest of a line
_LEADING = 3  # a trigger begins its clause if fewer words than this stand before it: "About two years ago"
_IN_BRACKETS = 15  # words and marks; an opening bracket is looked for among as many
_LONG_LINE = 50  # characters; a line of this length may have been wrapped


class Rule(NamedTuple):
    """The effect of a trigger.

    Attributes:
        category: a status, a category of `PARTIAL`, "present", "decided", "end" or "pseudo".
        direction: forward, backward, both, leading, first, ending, closing, inside, list, opening, items, either, aside, own, near or beside; for "end" the categories
            whose scope it ends, separated by commas.
        scope: maximum number of words in the scope; 0: the whole clause. For "end" the number of words of the trigger after which scopes end.
        sections: kinds of the sections in which it has an effect; empty: all. For "end", it may be one of `TERMINATED`.
        outside: it has an effect in the other sections instead.
        adult: it has an effect only in notes about an adult.
    """

    category: str
    direction: str
    scope: int
    sections: frozenset[str] = frozenset()
    outside: bool = False
    adult: bool = False


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
        self._tree: dict[str, Any] = {}
        self._sections: dict[str, set[str]] = {}  # kind of section, or "heading:" and a title in lower case -> categories of all mentions in it
        self.substances: frozenset[str] = frozenset()
        """Names of substances of the body that are findings ("no exudate"), in lower case."""
        classes: dict[str, list[str]] = {}
        rows = [(n, line.split("\t")) for n, line in enumerate(text.splitlines(), 1) if line.strip() and not line.startswith("#")]
        if not rows or rows[0][1] != HEADER:
            raise fail("E403", path=name, line=rows[0][0] if rows else 1, why=f"the first row must be {', '.join(HEADER)}.")
        for number, row in rows[1:]:
            problem = _problem(row, classes)
            if problem:
                raise fail("E403", path=name, line=number, why=problem)
            trigger, category, direction, scope = (*row, "")[:4]
            if category == "class":
                classes[trigger] = direction.split("|")
                if trigger == SUBSTANCE:
                    self.substances = frozenset(classes[trigger])
            elif direction == SECTION:
                for kind in trigger.split(";"):
                    self._sections.setdefault(kind.strip(), set()).add(category)
            else:
                direction, _, kinds = direction.partition("@")
                outside, kinds = kinds.startswith("!"), kinds.removeprefix("!")
                adult = kinds == ADULT
                rule = Rule(category, direction, int(scope or 0), frozenset(kinds.split(";")) if kinds and not adult else frozenset(), outside, adult)
                for each in _expanded(trigger, classes):
                    words = _trigger_words(each)
                    if len(words) > _LONGEST_TRIGGER:
                        raise fail("E403", path=name, line=number, why=f"a trigger has at most {_LONGEST_TRIGGER} words.")
                    self._add(words, rule)
        self._tree = _shared(self._tree, {})
        self._item_words = Words.of(classes)

    def _add(self, words: Iterable[str], rule: Rule) -> None:
        node = self._tree
        for word in words:
            node = node.setdefault(word, {})
        node.setdefault("", []).append(rule)

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
        note = _Note(text, find_sections(text), breaks, self._tree, self._item_words, [(*place, kinds.get(place, FINDING)) for place in mentions])
        ranges = note.ranges()
        found = []
        for start, end in mentions:
            kind = kinds.get((start, end), FINDING)
            held = {category for (category, ahead), spans in ranges if _inside(spans, start if ahead else end - 1)}
            for section in note.names(start):
                held |= {category for category in self._sections.get(section, ()) if not note.ended(category, start, kind)}
            if "negated" in held or LACKING in held:
                held.discard(HINTED)
            if DECIDED in held:
                held.discard(DECIDED)
                held -= UNDECIDED
                if "absent" in held:
                    held.discard("uncertain")  # "suspected influenza or RSV, both negative"
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


def find_sentences(text: str) -> list[Span]:
    """Return (start, end) in characters of the sentences of a note, in order. White space between them is in none.

    A sentence also ends where a line, a list item or a section ends. A line break inside a sentence does not end it.
    """
    return _Note(text, find_sections(text), (), {}).sentences()


class _Note:
    """A text as tokens, clauses and triggers."""

    def __init__(
        self,
        text: str,
        sections: list[Section],
        breaks: Iterable[int],
        tree: dict[str, Any],
        item_words: Words = Words(),  # noqa: B008  it never changes
        mentions: Iterable[tuple[int, int, str]] = (),  # (start, end, kind)
    ) -> None:
        self.text, self.sections, self.item_words = text, sections, item_words
        self.section_starts = [section.start for section in sections]
        lowered = text.lower()
        if len(lowered) != len(text):  # "İ" becomes two characters
            lowered = "".join(char.lower() if len(char.lower()) == 1 else char for char in text)
        matches = list(_TOKEN.finditer(lowered))
        self.starts = [match.start() for match in matches]
        self.ends = [match.end() for match in matches]
        self.words = list(map(_word, matches))
        marks = [at for at, word in enumerate(self.words) if word in _MARKS]
        for at in marks:
            if self.words[at] in _SIGN:
                self.words[at] = self._sign(at)
        self.marks = marks
        marked = [(bisect_left(self.starts, start), bisect_left(self.starts, end), kind) for start, end, kind in mentions if kind != OTHER]
        self.mention_ends: dict[int, int] = {}  # first token of a mention -> the token after the longest one there
        for first, end, _ in marked:
            self.mention_ends[first] = max(end, self.mention_ends.get(first, 0))
        self.after_mention = {end for _, end, _ in marked}  # the tokens after mentions
        self.findings: dict[int, int] = {}  # the token after a finding -> the first token of the longest one that ends there
        for first, end, kind in marked:
            if kind == FINDING:
                self.findings[end] = min(first, self.findings.get(end, first))
        self.finding_starts = sorted(set(self.findings.values()))
        self.procedure_ends = {end for _, end, kind in marked if kind == PROCEDURE}
        # the commas of ", and" and ", or"
        self.list_ends = [at - 1 for at, word in enumerate(self.words) if word in item_words.link and at and self.words[at - 1] == ","]
        self.treatment_ends = {end for _, end, kind in marked if kind in (DRUG, PROCEDURE)}
        self.drugs = {first for first, _, kind in marked if kind == DRUG}
        fixed = self._fixed(breaks)
        self.found = self._triggers(tree, fixed)
        self.bounds = self._bounds(fixed, marks)  # the first token of each clause
        # category -> tokens that end its scopes, in order
        self.stops: dict[str, list[int]] = {category: [] for category in SCOPED}
        self.drug_stops: dict[str, list[int]] = {category: [] for category in SCOPED}  # those that end scopes for drugs only
        self.narrowed: dict[str, list[int]] = {category: [] for category in NARROWED}  # those after which scopes hold for findings only
        self.doubts: list[int] = []  # the first tokens of words such as "possible", in order
        denials: dict[int, int] = {}
        for first, last, rules in self.found:
            for rule in rules:
                if rule.category == "negated" and rule.direction == "forward":
                    denials.setdefault(bisect_right(self.bounds, first), last)
                if rule.category == "end":
                    place: int | None = first + rule.scope  # "INR on": the plan to monitor the INR ends after it
                    kept = self.stops
                    if rule.sections:
                        place, kept = self._stop(rule, first, last)
                    if place is not None:
                        for category in rule.direction.split(","):
                            kept[category].append(place)
                elif rule.category == "historical" and rule.direction == "forward":
                    self.stops[PRESENT].append(first)  # "onset of chest pain after previous stroke"
                elif rule.direction in ("forward", "items") and rule.category in DOUBTS:
                    self.doubts.append(first)
        self.stops[RESOLVED] += self.stops["over"]
        self.stops[HINTED] += self.stops["uncertain"]
        self.narrowed[HINTED] += self.narrowed["uncertain"]
        for comma in self._stated_items(denials):
            self.stops["negated"].append(comma)
            self.stops["absent"].append(comma)
        for places in (*self.stops.values(), *self.drug_stops.values(), *self.narrowed.values()):
            places.sort()

    def _stop(self, rule: Rule, first: int, last: int) -> tuple[int | None, dict[str, list[int]]]:
        """Return the token where scopes end for a terminator with words after "@", None if they don't, and where to note it.

        Args:
            rule: the terminator.
            first: the first token of its trigger.
            last: the token after its last one.
        """
        kinds = rule.sections
        if AT_DRUG in kinds:
            return first + rule.scope if self._names_a_treatment(first, last) else None, self.drug_stops
        if AT_REMARK in kinds:
            return first + rule.scope if self._is_remark(first, last) else None, self.drug_stops
        if AT_FINDINGS in kinds:
            after = self._follows_a_finding(first) if self.words[first][0].isalpha() else self._ends_alternatives(first)
            return first + rule.scope if after else None, self.narrowed
        place: int | None = first + rule.scope
        if AT_STUDY in kinds or AT_ITEM in kinds:
            find = study_item if AT_STUDY in kinds else comma_before
            place = find(self.words, first, self.bounds[bisect_right(self.bounds, first) - 1], self.item_words)
        if (
            (UNJOINED in kinds and self._joins(first))
            or (AT_SENTENCE in kinds and not self._follows_a_sentence(first, last))
            or (AT_REASON in kinds and first not in self.treatment_ends)
            or (AT_LAST in kinds and not self._is_last(first, last))
            or (AT_STATEMENT in kinds and not is_statement(self.words, last, self.item_words))
        ):
            place = None
        return place, self.stops

    def _is_last(self, first: int, last: int) -> bool:
        """Return whether no finding follows the item of the tokens `first` to `last` - 1 of a denial, and the denial is no list such as "denies …"."""
        place = bisect_right(self.bounds, first)
        begin, end = self.bounds[place - 1], self.bounds[place] if place < len(self.bounds) else len(self.words)
        if not _LISTS.isdisjoint(self.words[max(begin, first - _LISTED_WORDS) : first]):
            return False
        comma = next((at for at in range(last, min(end, last + _JOINED_WORDS)) if self.words[at] == ","), end)
        at = bisect_right(self.finding_starts, comma)
        return comma == end or at == len(self.finding_starts) or self.finding_starts[at] > comma + 1

    def _follows_a_sentence(self, first: int, last: int) -> bool:
        """Return whether the tokens from `first` to `last` - 1 begin a clause that is not about the past, and not the first one of its section."""
        place = bisect_right(self.section_starts, self.starts[first]) - 1
        begins = self.bounds[bisect_right(self.bounds, first) - 1] == first and place >= 0 and self.starts[first] > self.sections[place].body
        return begins and not self._is_dated(first, last)

    def _is_dated(self, first: int, last: int, limit: int | None = None) -> bool:
        """Return whether a year or a word such as "previously" stands in the clause of token `first`, soon after the token `last` - 1, before `limit`."""
        place = bisect_right(self.bounds, first)
        end = self.bounds[place] if place < len(self.bounds) else len(self.words)
        end = end if limit is None else min(end, limit)
        return any(is_year(word) or word in self.item_words.earlier for word in self.words[last : min(end, last + _DATED_WORDS)])

    def _names_a_treatment(self, first: int, last: int) -> bool:
        """Return whether the tokens from `first` to `last` - 1 join a finding with the drug that is taken for it now: "asthma on albuterol".

        A drug is not taken any more if a year or a word such as "previously" follows, and not for the finding if it may cause it: "rash on penicillin".
        """
        if last not in self.drugs:
            return False
        end = first - 1 if first and self.words[first - 1] == "," else first
        while end and self.words[end - 1] in self.item_words.side:
            end -= 1
        before = undated(self.words, end, self.findings.keys(), self.item_words)
        if self.words[first] == "," and before in self.procedure_ends:
            pass  # "coronary disease s/p stent, on clopidogrel"
        elif before not in self.findings or self._is_reaction(before):
            return False
        return not self._is_dated(first, last, self._next_item(last))

    def _is_plan(self, at: int) -> bool:
        """Return whether a token is in a clause of a family history that is about no relative: "Family history: DM in mother. Start metformin".

        It is not the first clause of the section, and has no word of the past, as in "Father MI. He had a stent."
        """
        clause = bisect_right(self.bounds, at) - 1
        section = self.sections[bisect_right(self.section_starts, self.starts[at]) - 1]
        end = self.bounds[clause + 1] if clause + 1 < len(self.bounds) else len(self.words)
        told = not _TOLD.isdisjoint(self.words[self.bounds[clause] : min(end, self.bounds[clause] + _DATED_WORDS)])
        return self.starts[self.bounds[clause]] > section.body and clause not in self._clauses_with_relatives and not told

    def _is_now(self, char: int) -> bool:
        """Return whether a character is in a line that begins with a time or a vital sign, after the first line of its section."""
        section = self.sections[bisect_right(self.section_starts, char) - 1]
        line = self.text.rfind("\n", section.body, char)
        return line >= 0 and _NOW_LINE.match(self.text, line + 1) is not None

    def _is_after_paragraph(self, at: int) -> bool:
        """Return whether a blank line stands between a token and what follows the heading on its line: "FHx: mother DM", a blank line, "Fever, cough"."""
        section = bisect_right(self.section_starts, self.starts[at]) - 1
        clause = bisect_right(self.bounds, at) - 1
        return self._paragraphs[section] <= self.starts[self.bounds[clause]] and clause not in self._clauses_with_relatives

    @cached_property
    def _clauses_with_relatives(self) -> set[int]:
        """The places in `bounds` of the clauses that name a relative."""
        return {bisect_right(self.bounds, at) - 1 for at, word in enumerate(self.words) if word in self.item_words.relative}

    @cached_property
    def _paragraphs(self) -> list[int]:
        """For each section, the character after the first blank line, if words stand on the line of its heading; otherwise the character after the text."""
        found, text = [], self.text
        for section in self.sections:
            line = text.find("\n", section.body, section.end)
            beside = line >= 0 and text[section.body : line].strip() and "\n" not in text[section.start : section.body].strip(" ")
            blank = _BLANK.search(text, line, section.end) if beside else None
            found.append(blank.end() if blank is not None else len(text) + 1)
        return found

    def _is_remark(self, first: int, last: int) -> bool:
        """Return whether the tokens from `first` to `last` - 1 stand between a finding and a remark on what is done for it now: the colon of "asthma: continue albuterol"."""
        place = bisect_right(self.bounds, first)
        end = min(self.bounds[place] if place < len(self.bounds) else len(self.words), last + _DATED_WORDS)
        said = self.words[last:end]
        return first in self.findings and not self._is_dated(first, last) and self.item_words.finished.isdisjoint(said)

    def _follows_a_finding(self, at: int) -> bool:
        """Return whether a finding stands before a token, or before a word such as "seen": before "on" in "no mass seen on CT"."""
        words = self.item_words
        while at and (self.words[at - 1] in words.side or self.words[at - 1] in words.seen):
            at -= 1
        return at in self.findings or (at > 0 and self.words[at - 1] in words.matter)

    def _ends_alternatives(self, at: int) -> bool:
        """Return whether a mark is not the comma of a list with "and" or "or": "r/o PE, CTPA ordered", but not "r/o PE, dissection, or MI"."""
        if self.words[at] != ",":
            return True
        place = bisect_right(self.list_ends, at)
        return place == len(self.list_ends) or self.list_ends[place] > at + _JOINED_WORDS

    def _stated_items(self, denials: Mapping[int, int]) -> list[int]:
        """Return the commas before items that say that they are there, and are in no list with "or": "no NVI, cataract 2+".

        Args:
            denials: place of a clause in `bounds` -> the token after its first denial.
        """
        found = []
        for place, begin in denials.items():
            end = self.bounds[place] if place < len(self.bounds) else len(self.words)
            found += [
                at for at in range(begin, end) if self.words[at] == "," and is_stated(self.words, at, end, self.item_words) and not self._joins(at)
            ]
        return found

    def _is_reaction(self, end: int) -> bool:
        """Return whether the finding that ends before a token is one that a drug may cause: "GI bleed", "swelling of the lips"."""
        words = self.words[self.findings[end] : end]
        return any(word in self.item_words.reaction and after in _OF for word, after in zip(words, [*words[1:], ""]))

    def _next_item(self, at: int) -> int:
        """Return the token from `at` where the next item of a list begins, if it is a finding: "prior stroke" in "…, prior stroke"; else the last one + 1."""
        starts = self.finding_starts
        for place in range(bisect_left(starts, at), bisect_left(starts, at + _DATED_WORDS)):
            start = starts[place]
            while start > at and (self.words[start - 1] in self.item_words.earlier or self.words[start - 1] in _BEFORE_FINDING):
                start -= 1
            if start > at and (self.words[start - 1] == "," or self.words[start - 1] in self.item_words.link):
                return start
        return len(self.words)

    def _sign(self, at: int) -> str:
        """Return the name that triggers use for a sign directly before a word: "<query>" for the "?" of "?PE"; otherwise the sign itself."""
        start, end = self.starts[at], self.ends[at]
        word, before = self.words[at], self.text[start - 1] if start else "\n"
        if word == "?" and before in " \t" and _DOUBTED.match(self.text, end) is not None:
            return _SIGN[word]  # "pustules ? rosacea"
        if word != "?" and _SIGNED.match(self.text, end) and (answer := self._answer(at)):
            return answer
        if word != "?" and _SPACED.match(self.text, end) is not None and self._is_spaced_sign(start):
            return _SIGN[word]
        if not self.text[end : end + 1].isalpha() or before not in " \t,;(:/\n":
            return word
        sign = _SIGN[word]
        # a dash at the beginning of a line is an item of a list, if no "+" in the line says that it is a sign: "-chills, +fever"
        return word if sign == "<minus>" and before == "\n" and _PLUS.match(self.text, end) is None else sign

    def _is_spaced_sign(self, start: int) -> bool:
        """Return whether the sign at a character begins an item of a line of items with both signs: "- CP, - SOB, + cough"."""
        line = max(self.text.rfind("\n", max(start - _SIGNED_LINE, 0), start) + 1, start - _SIGNED_LINE, 0)
        end = self.text.find("\n", start, start + _SIGNED_LINE)
        signs = [
            (sign.start("sign"), sign["sign"] == "+") for sign in _SPACED_SIGNS.finditer(self.text, line, end if end >= 0 else start + _SIGNED_LINE)
        ]
        return any(place == start for place, _ in signs) and len({plus for _, plus in signs}) > 1

    def _answer(self, at: int) -> str:
        """Return "+ve" or "-ve" for a sign at the end of its item, which is about what stands before it: "fever +, chills -", "fever (-)"; or ""."""
        text, start = self.text, self.starts[at]
        line = text.rfind("\n", max(start - _SIGNED_LINE, 0), start) + 1 or max(start - _SIGNED_LINE, 0)
        end = text.find("\n", start, start + _SIGNED_LINE)
        line_text = text[line : end if end >= 0 else start + _SIGNED_LINE]
        alone = text[start - 1 : start] == "(" or len(_SIGNS.findall(line_text)) > 1
        if not alone or re.search(r"\w ?\(?\Z", text[max(start - 3, 0) : start]) is None:
            return ""
        return "+ve" if self.words[at] == "+" else "-ve"

    def _fixed(self, breaks: Iterable[int]) -> set[int]:
        """Return the tokens that begin a line, a section or a known sentence. No trigger crosses these boundaries."""
        starts = self.starts
        fixed = {bisect_left(starts, place) for place in breaks}
        for section in self.sections:
            fixed.add(bisect_left(starts, section.start))
            fixed.add(bisect_left(starts, section.body))
        return fixed | self._lines()

    def _lines(self) -> set[int]:
        """Return the tokens that begin a line, without those where a long line was only wrapped."""
        starts, text = self.starts, self.text
        found: set[int] = set()
        place = text.find("\n")
        while place >= 0:
            at = bisect_left(starts, place)
            if at < len(starts) and self._ends_line(at, place):
                found.add(at)
            place = text.find("\n", starts[at] if at < len(starts) else len(text))
        return found

    def sentences(self) -> list[Span]:
        """Return (start, end) in characters of the sentences. A sentence also ends at the end of a line, a list item and a section."""
        n = len(self.words)
        begins = {0} | self._lines() | {bisect_left(self.starts, section.start) for section in self.sections}
        numbers = {at + 1 for at in begins if at < n and self.words[at].isdigit()}  # the full stop of "1. Asthma"
        begins |= {at + 1 for at in self.marks if self.words[at] in _ENDS and at not in numbers and at + 1 < n and self._ends_sentence(at)}
        first = sorted(begins - {n})
        return [(self.starts[one], self.ends[other - 1]) for one, other in zip(first, [*first[1:], n]) if one < other]

    def _triggers(self, tree: dict[str, Any], fixed: set[int]) -> list[tuple[int, int, Sequence[Rule]]]:
        """Return (first token, last token + 1, rules) of the longest trigger at each place, from left to right."""
        found = []
        words, n, at = self.words, len(self.words), 0
        while at < n:
            node = tree.get(words[at])
            if node is None:
                at += 1
                continue
            best, rules, after, shorter = at, None, at, []
            while node is not None:
                after += 1
                if "" in node:
                    if rules is not None:
                        shorter += [rule for rule in rules if rule.category == "end"]
                    best, rules = after, node[""]
                if after >= n or after in fixed:
                    break
                word = words[after]
                node = node.get(word) or (_figure(word, node) if word[0].isdigit() else None)
            if rules is None:
                at += 1
            else:
                # "presenting with" ends what "presenting" ends; "no change" does not end what "no" ends
                if shorter and any(rule.category != "pseudo" and rule.direction != "inside" for rule in rules):
                    rules = [*rules, *shorter]
                found.append((at, best, rules))
                at = (
                    at + 1 if rules[0].category == "end" else best
                )  # a later token may begin another trigger: "with a history of" ends a scope and begins one
        return found

    def _bounds(self, fixed: set[int], marks: list[int]) -> list[int]:
        """Return the tokens that begin a clause: sentences, lines, list items, table cells and sections."""
        words, n = self.words, len(self.words)
        inside = {token for first, last, _ in self.found if last > first + 1 for token in range(first, last)}
        bounds = {0} | fixed
        for at in marks:
            word = words[at]
            if word in _HARD or ((word == "." or word == "?") and at + 1 < n and at not in inside and self._ends_sentence(at)):
                bounds.add(at + 1)
            elif word == ")" and at and at not in inside and self._numbers(at):
                bounds.add(at - 1)
        for first, second in zip(self.ends, self.starts[1:]):  # table cells
            if second - first == 1 and self.text[first] == "\t":
                bounds.add(bisect_left(self.starts, second))
        return sorted(bounds - {n})

    def _numbers(self, at: int) -> bool:
        """Return whether a bracket ends the number of an item inside a line: "5)venous stasis, 6)gout"."""
        number, start = self.words[at - 1], self.starts[at - 1]
        if not number.isdigit() or len(number) > 2 or self.ends[at - 1] != self.starts[at] or (start and self.text[start - 1] not in " \t\n,;.:"):
            return False
        before = next((word for word in reversed(self.words[max(at - 1 - _IN_BRACKETS, 0) : at - 1]) if word in ("(", ")")), ")")
        return before == ")"  # not "(grade 2)"

    def _ends_sentence(self, at: int) -> bool:
        """Return whether a full stop ends a sentence."""
        end = self.ends[at]
        after = self.text[end : end + 1]
        before = self.words[at - 1] if at else ""
        if after and not after.isspace() and after not in ",\"')]":
            return after.isupper() and len(before) > 2 and self.starts[at] == self.ends[at - 1]  # "fever.Cough"
        if self.words[at] == "?" and _ASKS.search(self.text, max(self.starts[at] - 4, 0), self.starts[at]) is not None:
            return False
        if after == "," and tuple(self.words[max(at - 3, 0) : at]) in _EXPLAINS:
            return False
        following = self.text[self.starts[at + 1]] if after != "," else "A"
        if before in _ANSWERS and following.isupper():  # "Chest pain: no. Cough: yes"
            return True
        return before not in _ABBREVIATED and (len(before) > 1 or not following.islower())

    def _ends_line(self, at: int, place: int) -> bool:
        """Return whether the line break before a token ends a clause. It does not where a long line was only wrapped."""
        text, start = self.text, self.starts[at]
        if text.count("\n", place, start) > 1 or _ITEM.match(text, start):
            return True
        before = self.words[at - 1] if at else ""
        if text[start].islower() or before in _CONTINUES:
            return False
        line = text[max(0, place - _LONG_LINE) : place]
        return not ("\n" not in line and len(line) == _LONG_LINE and line.isupper() and line[-1] not in ".:")

    def ranges(self) -> list[tuple[tuple[str, bool], list[Span]]]:
        """Return ((category, whether the range is after its trigger), sorted disjoint ranges in characters) where categories hold."""
        found: dict[tuple[str, bool], list[Span]] = {(category, ahead): [] for category in SCOPED for ahead in (True, False)}
        n = len(self.words)
        for first, last, rules in self.found:
            for rule in rules:
                if rule.category not in SCOPED or (rule.sections and (self.kind(self.starts[first]) in rule.sections) == rule.outside):
                    continue
                if rule.adult and not self.adult:
                    continue
                place = bisect_right(self.bounds, first)
                begin = self.bounds[place - 1]
                end = self.bounds[place] if place < len(self.bounds) else n
                if rule.category in HALTED and is_resumed(self.words, last, end, self.item_words):
                    continue
                if rule.category == "done" and is_awaited(self.words, first, last, begin, self.item_words):
                    continue  # "no driving until she is off her opioids"
                stops = self.stops[rule.category]
                leading = rule.direction == "leading" and sum(word[0].isalnum() for word in self.words[begin : min(first, begin + 12)]) < _LEADING
                if rule.direction == "first":  # numbers may precede: "2) Start aspirin"
                    leading = first - begin < 4 and not any(word[0].isalpha() for word in self.words[begin:first])
                after = last  # where a scope ahead begins
                if rule.direction == "inside" and last > first + 1:
                    found[rule.category, True].append((self.starts[first + 1], self.ends[last - 1]))
                    after = self._mention_end(first + 1, last)
                if rule.direction == "list" and (listed := self._list(last)):
                    found[rule.category, True].append(listed)
                stop = bisect_left(stops, after)
                end_here = min(end, stops[stop]) if stop < len(stops) else end
                if rule.direction == "either":
                    to = max(
                        alternatives(self.words, last, end_here, self.item_words),
                        self._counted(last, end_here, rule.scope, 1) if rule.scope else last,
                    )
                    found[rule.category, True].append((self.starts[last - 1], self.ends[to - 1]))
                if rule.direction == "opening":  # not after a mention: "HIV negative, …"
                    leading = not self._ends_item(rule.category, first, last, begin, end) and not self._is_compound(first)
                if rule.direction == "beside":
                    leading = last in self.finding_starts and (first == begin or self.words[first - 1] in _BEFORE_ITEM)
                if (rule.direction in ("forward", "both", "list", "aside", "near") or leading or after > last) and after < end:
                    to = self._counted(after, end_here, rule.scope, 1)
                    if rule.direction == "near":
                        goes_on = rule.category == "negated" and self._joins(after)  # "not nauseated, vomiting or dizzy"
                        to = next((at for at in range(after, to) if self.words[at] in _ENDS_ITEM and not goes_on), to)
                    if rule.direction == "aside":
                        to = main_clause(self.words, after, to, self.item_words)
                    drugs = self.drug_stops[rule.category]
                    stop = bisect_left(drugs, after)
                    if stop < len(drugs) and drugs[stop] < to and rule.category == "historical":
                        found[PAST, True].append((self.starts[drugs[stop]], self.ends[to - 1]))
                        to = drugs[stop]
                    narrowed = self.narrowed.get(rule.category, [])
                    stop = bisect_left(narrowed, after)
                    if stop < len(narrowed) and narrowed[stop] < to:
                        found[NARROWED[rule.category], True].append((self.starts[narrowed[stop]], self.ends[to - 1]))
                        to = narrowed[stop]
                    if to > after:
                        found[rule.category, True].append((self.starts[after], self.ends[to - 1]))
                ending = rule.direction in ("ending", "closing", "items") and not any(
                    word[0].isalnum() for word in self.words[last : min(end, last + 12)]
                )
                if (
                    rule.direction in ("backward", "both", "own")
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
                    start, to = (
                        self._items(first, last, from_here, rule)
                        if rule.direction == "items"
                        else self._own(first, from_here, rule.scope)
                        if rule.direction == "own"
                        else (self._counted(first, from_here, rule.scope, -1), first)
                    )
                    if rule.direction == "ending" and rule.category == "negated":
                        start = self._after_answer(start, first)
                    if rule.direction in ("backward", "ending") and (rule.category == "negated" or rule.category in PASSED):
                        start = self._own_doubt(start, first)
                    if rule.direction == "closing":
                        start = last_item(self.words, start, first, self.findings.keys(), self.item_words)
                    if start < to:
                        found[rule.category, False].append((self.starts[start], self.ends[to - 1]))
        return [(key, _merged(spans)) for key, spans in found.items() if spans]

    def _after_answer(self, start: int, first: int) -> int:
        """Return the token after the answer of another label between token `start` and the answer at token `first`: "Rash: no" in "Cough: yes, Rash: no"."""
        colons = [at for at in range(start, first - 1) if self.words[at] == ":"]
        if not colons or self.words[first - 1] != ":":
            return start
        return next((at + 1 for at in range(colons[-1], first) if self.words[at] == ","), start)

    def _own_doubt(self, start: int, first: int) -> int:
        """Return the comma before the item of token `first`, if a doubt stands between token `start` and it: "possible pneumonia, PE ruled out"."""
        comma = comma_before(self.words, first, start, self.item_words)
        if comma is None:
            return start
        place = bisect_left(self.doubts, start)
        return comma if place < len(self.doubts) and self.doubts[place] < comma else start

    def _mention_end(self, first: int, last: int) -> int:
        """Return the token after the longest mention that begins at a token from `first` to `last` - 1 and goes on after them; `last` if there is none."""
        return max(last, *(self.mention_ends.get(token, last) for token in range(first, last)))

    def _ends_item(self, category: str, first: int, last: int, begin: int, end: int) -> bool:
        """Return whether the trigger of the tokens from `first` to `last` - 1 ends its item, or stands after a mention: it is about what is before it.

        Its clause has the tokens from `begin` to `end` - 1. "Pending" after a mention may be about what follows: "fracture pending surgery".
        """
        return ends_item(self.words, last, end, self.item_words) or (
            category not in (AWAITED, DECIDED) and first > begin and first in self.after_mention
        )

    def _is_compound(self, at: int) -> bool:
        """Return whether a hyphen joins a token to the word before it: "culture-negative endocarditis"."""
        return at > 1 and self.words[at - 1] == "-" and self.ends[at - 2] == self.starts[at - 1] and self.ends[at - 1] == self.starts[at]

    def _joins(self, at: int) -> bool:
        """Return whether "or" follows a token in its clause: then it is in a list."""
        place = bisect_right(self.bounds, at)
        end = self.bounds[place] if place < len(self.bounds) else len(self.words)
        return not {"or", "nor"}.isdisjoint(self.words[at : min(end, at + _LISTED_WORDS)])

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
        alone = start < first and self.words[start] in self.item_words.degree
        for at in range(start + 1, first):
            if self.words[at] in self.item_words.degree or (
                self.words[at] == "-" and self.ends[at - 1] < self.starts[at] and self.ends[at] < self.starts[at + 1]
            ):
                start, alone = at, True
        if start < first and not alone:
            start = listed_items(self.words, start, begin, self.item_words, joined=True)
        return max(start, self._counted(first, begin, scope, -1)), first

    def _is_assay(self, start: int, last: int) -> bool:
        """Return whether some tokens are the name of a disease and words for its test: "hepatitis C antibodies"."""
        at = last
        while at > start and at not in self.findings and (self.words[at - 1] in self.item_words.assay or not self.words[at - 1][0].isalnum()):
            at -= 1
        return at > start and at in self.findings

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
        place = bisect_right(self.section_starts, start) - 1
        return (start, min(end, self.sections[place].end)) if end > colon.end() else None

    def _counted(self, at: int, limit: int, scope: int, step: int) -> int:
        """Return the token that is `scope` words from token `at`, in the direction `step`, but not beyond `limit`; scope 0: the limit."""
        if not scope:
            return limit
        count = 0
        while at != limit and count <= scope:
            word = self.words[at if step > 0 else at - 1]
            count += word[0].isalnum()
            if count > scope:
                break
            at += step
        return at

    def kind(self, char: int) -> str:
        """Return the kind of the section that holds a character (offset in the note)."""
        place = bisect_right(self.section_starts, char) - 1
        return self.sections[place].kind if place >= 0 else ""

    def names(self, char: int) -> tuple[str, ...]:
        """Return what rules call the section that holds a character: its kind, and its heading."""
        place = bisect_right(self.section_starts, char) - 1
        section = self.sections[place] if place >= 0 else None
        return (section.kind, f"{_HEADING}{section.title.lower()}") if section is not None else ()

    def ended(self, category: str, char: int, kind: str) -> bool:
        """Return whether the category of a whole section has ended before a mention of a kind at a character: "She now has asthma" in a past history.

        It ends for the clause. The status family ends for the rest of the section, because "she" is then the patient.
        """
        token = bisect_right(self.starts, char) - 1
        if category in ENDED_NOW and self._is_now(char):
            return True
        if category == "family":
            if (kind in (DRUG, PROCEDURE) and self._is_plan(token)) or self._is_after_paragraph(token):
                return True
            place = bisect_right(self.section_starts, char) - 1
            begin = bisect_left(self.starts, self.sections[place].body)
        else:
            begin = self.bounds[bisect_right(self.bounds, token) - 1]
        return any(
            (stop := bisect_left(stops, token) - 1) >= 0 and stops[stop] >= begin
            for stops in (self.stops[category], self.drug_stops[category] if kind == DRUG else [])
        )


def _shared(node: dict[str, Any], known: dict[Any, Any]) -> dict[str, Any]:
    """Return a tree of triggers in which equal branches are one object. Most are equal, because triggers differ in their first words.

    The 113,000 triggers take 2,000 objects instead of hundreds of thousands, which Python's garbage collector would look at again and again.

    Args:
        node: the tree. Under "" is the list of rules of the trigger that ends there.
        known: the branches that were seen: their content, with a branch in it given by its identity.
    """
    made: dict[str, Any] = {word: _shared(after, known) for word, after in node.items() if word}
    if "" in node:
        # the first rule shows whether the trigger does more than end a scope
        rules = tuple(sorted(node[""], key=lambda rule: rule.category == "end"))
        made[""] = known.setdefault(rules, rules)
    branch: dict[str, Any] = known.setdefault(tuple((word, id(after)) for word, after in made.items()), made)
    return branch


def _figure(word: str, node: dict[str, Any]) -> Any:
    """Return the branch for a number (a year or any number) in the tree of triggers."""
    year = node.get("<year>") if len(word) == 4 and word[:2] in ("19", "20") else None
    return year or node.get("<number>")


def _trigger_words(trigger: str) -> list[str]:
    return [token for part in trigger.split() for token in _split(part)]


@lru_cache(maxsize=10_000)  # 3,700 rows become 113,000 triggers, which share few words
def _split(part: str) -> tuple[str, ...]:
    return (part,) if part.startswith("<") and part.endswith(">") else tuple(map(_word, _TOKEN.finditer(part.lower())))


def _word(match: re.Match[str]) -> str:
    """Return the word of a token in lower case, as triggers write it: "not" for the end of "isn't", "isn’t" and "isnt"."""
    if match.lastgroup is None:
        return match[0].replace("’", "'")
    return "not" if match.lastgroup == "no" else _VERBS.get(match[0], match[0])


def _expanded(trigger: str, classes: dict[str, list[str]]) -> list[str]:
    """Return all triggers that a trigger with classes, such as "<class>", stands for: one for each member."""
    parts = _CLASS.split(trigger)  # every second part is the name of a class
    choices = [classes.get(part, [f"<{part}>"]) if place % 2 else [part] for place, part in enumerate(parts)]
    return ["".join(words) for words in product(*choices)]


def _problem(row: list[str], classes: Mapping[str, list[str]]) -> str:
    """Return what is wrong with a row after those that define `classes`; "" if it is right."""
    if not 3 <= len(row) <= 4 or not row[0].strip():
        return "it must have a trigger, a category, a direction and a scope."
    category, direction, scope = row[1], row[2], (*row, "")[3]
    if category not in (*SCOPED, "end", "pseudo", "class"):
        return f"category {category!r} is not known. Use {', '.join(SCOPED)}, end, pseudo or class."
    if category == "class" and row[0] in classes:
        return f"the class {row[0]!r} is already defined above."
    way, at, places = direction.partition("@")
    if category in SCOPED and (way not in DIRECTIONS or (way == SECTION and at)):
        return f"direction {direction!r} is not known. Use {', '.join(sorted(DIRECTIONS))}."
    if category in SCOPED and places == ADULT:
        pass
    elif category in SCOPED and (at or way == SECTION):  # "heading:" and a title are a place for all mentions of a section only
        kinds = [kind.strip() for kind in row[0].split(";")] if way == SECTION else places.removeprefix("!").split(";")
        if wrong := [
            kind for kind in kinds if kind not in section_kinds() and not (way == SECTION and kind.removeprefix(_HEADING) not in ("", kind))
        ]:
            return f"{wrong[0]!r} is not a kind of section. Use {', '.join(sorted(section_kinds()))}."
    unknown = [] if category == "class" else [name for name in _CLASS.findall(row[0]) if name not in classes and name not in _BUILT_IN]
    if unknown:
        return f"no class {unknown[0]!r} is defined above."
    if category != "class" and row[0].startswith(("<number>", "<year>")):
        return "a trigger does not begin with a number."
    if category == "end" and (not set(way.split(",")) <= set(SCOPED) or (at and not set(places.split(";")) <= set(TERMINATED))):
        return f"{direction!r} does not name statuses. Use {', '.join(SCOPED)}, separated by commas."
    if category == "end" and places == AT_FINDINGS and not set(way.split(",")) <= set(NARROWED):
        return f"{direction!r}: before @{AT_FINDINGS}, use {' or '.join(sorted(NARROWED))}."
    if category == "end" and places in (AT_DRUG, AT_REMARK) and not set(way.split(",")) <= _OF_DRUGS:
        return f"{direction!r} does not end the past. Before @{places}, use {' or '.join(sorted(_OF_DRUGS))}."
    if scope and not scope.isdigit():
        return f"scope {scope!r} is not a number of words."
    return ""


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _inside(spans: list[Span], char: int) -> bool:
    place = bisect_right(spans, (char, sys.maxsize)) - 1
    return place >= 0 and spans[place][0] <= char < spans[place][1]
