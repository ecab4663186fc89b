"""Find where the scopes of triggers end: at terminators such as "but", at tests, drugs and new statements, and at lines about now."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from functools import cached_property

from .clauses import TokenizedNote
from .items import Words, comma_before, has_more, is_stated, is_statement, is_valued, is_year, study_item, undated
from .mention_tokens import MentionTokens
from .triggers import (
    AT_DRUG,
    AT_FINAL,
    AT_FINDINGS,
    AT_ITEM,
    AT_LAST,
    AT_REASON,
    AT_REMARK,
    AT_SENTENCE,
    AT_STATEMENT,
    AT_STUDY,
    DRUG,
    HINTED,
    LACKING,
    NARROWED,
    PRESENT,
    PROCEDURE,
    RESOLVED,
    SCOPED,
    UNJOINED,
    Rule,
)

_NEW_LINE = re.compile(r"\s+[A-Z][a-z]|[ \t]*\n[ \t]*\n")  # after a list on the line of its heading: "Given nebs", but not "2. ACS" or "PE"
DOUBTS = frozenset(["uncertain", "suspected"])
ENDED_NOW = frozenset(["family", "historical", "listed"])  # what a line about now ends; not a condition: "Return if:", "Temp 101"
_JOINED_WORDS = 25  # words and marks in which the "and" or "or" of a list is looked for
_LISTED_WORDS = 80  # words and marks in which the "or" at the end of a list of denied findings is looked for
_SPACED_BREAKS = 6
_DATED_WORDS = 15  # words and marks after a statement in which a year is looked for
_BEFORE_FINDING = frozenset(["a", "an", "the", "history", "hx", "of"])  # words between the beginning of an item and its finding
_LISTS = frozenset(["denies", "denied", "denying", "deny", "history", "hx", "negative", "h"])  # words of denials that lists follow; "h" of "h/o"
_TOLD = frozenset(["had", "was", "were", "did", "died"])  # words of a sentence that tells what was, and is no plan
_OF = frozenset(["", "of", "in", "on", "to", "from", "with"])  # words after the noun that names a finding; "": it is the last word
# a line that begins with a time, a vital sign or a laboratory value is about now: "10:30 vomited", "15min: nausea", "HR 140, pale", "CRP 188", but not "T2DM"
_NOW_LINE = re.compile(
    r"[ \t]*(?:\d{1,2}:\d\d\b|\d{4} ?(?:hrs?|h)\b|0\d{3}\b|\d{1,3} ?min\b|(?:HR|BP|RR|SpO2|Sats?|GCS|Temp|Fever|Na|K|Urea|Creat?|CRP|ESR|WCC|WBC|Hb|Hgb|Plts?|ALT|AST|ALP|Bili|INR|Trop|Lactate)[ :]{0,2}\d|T(?:[ :]{1,2}\d|(?:3\d|9\d|10\d)\b))"
)
_BLANK = re.compile(r"\n[ \t]*\n")
_TIGHT = re.compile(r"\S[ \t]*\n[ \t]*\S")  # two lines without a blank one between them
_MARKED = re.compile(r"[ \t]*(?:\d{1,2}[.)]|[-*•])")
LISTED = "listed"


class Terminators:
    """The places where the scopes of a note end.

    Args:
        note: the note.
        bounds: the first token of each clause, and the number of tokens.
        triggers: (first token, last token + 1, rules) of each trigger.
        mentions: the tokens of the mentions.
        item_words: the words that tell the items of a list apart.

    Attributes:
        stops: category -> tokens that end its scopes, in order.
        drug_stops: category -> tokens that end its scopes for drugs only, in order.
        narrowed: category -> tokens after which its scopes hold for findings only, in order.
        doubts: the first tokens of words such as "possible", in order.
    """

    def __init__(
        self, note: TokenizedNote, bounds: list[int], triggers: Sequence[tuple[int, int, Sequence[Rule]]], mentions: MentionTokens, item_words: Words
    ) -> None:
        self.note, self.bounds, self.mentions, self.item_words = note, bounds, mentions, item_words
        self.words, self.starts = note.words, note.starts
        # the commas of ", and" and ", or"
        self.list_ends = [at - 1 for at, word in enumerate(self.words) if word in item_words.link and at and self.words[at - 1] == ","]
        self.stops: dict[str, list[int]] = {category: [] for category in SCOPED}
        self.drug_stops: dict[str, list[int]] = {category: [] for category in SCOPED}
        self.narrowed: dict[str, list[int]] = {category: [] for category in NARROWED}
        self.doubts: list[int] = []
        denials: dict[int, int] = {}
        for first, last, rules in triggers:
            for rule in rules:
                if rule.category in ("negated", "omitted") and rule.direction == "forward":
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
                elif rule.direction in ("forward", "items", "near") and rule.category in DOUBTS:
                    self.doubts.append(first)
        self.stops[RESOLVED] += self.stops["over"]
        self.stops[HINTED] += self.stops["uncertain"]
        self.stops[LACKING] += self.stops["negated"]
        self.narrowed[HINTED] += self.narrowed["uncertain"]
        for comma in self._stated_items(denials):
            self.stops["negated"].append(comma)
            self.stops["omitted"].append(comma)
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
            (UNJOINED in kinds and self.joins(first))
            or (AT_SENTENCE in kinds and not self._follows_a_sentence(first, last))
            or (AT_REASON in kinds and not self._gives_reason(first))
            or (AT_FINAL in kinds and self._has_mention(last))
            or (AT_LAST in kinds and not self._is_last(first, last))
            or (AT_STATEMENT in kinds and not is_statement(self.words, last, self.item_words))
        ):
            place = None
        return place, self.stops

    def _has_mention(self, at: int) -> bool:
        """Return whether a mention ends after a token in its clause."""
        end = self.bounds[bisect_right(self.bounds, at - 1)]
        return any(last in self.mentions.mention_ends for last in range(at + 1, min(end, at + _LISTED_WORDS) + 1))

    def _gives_reason(self, first: int) -> bool:
        """Return whether a token stands after a drug or procedure, and, if it is a mark, before a finding: the dash of "no metformin - CKD"."""
        if first not in self.mentions.treatment_ends:
            return False
        spaced = self.words[first] == "(" or (first > 0 and self.starts[first] > self.note.ends[first - 1])
        first += 1
        near = self.mentions.begins_finding(first) or (first not in self.mentions.mention_ends and self.mentions.begins_finding(first + 1))
        return self.words[first - 1][0].isalpha() or (spaced and near)  # a word may stand before it: "- severe CKD"

    def _is_last(self, first: int, last: int) -> bool:
        """Return whether no finding follows the item of the tokens `first` to `last` - 1 of a denial, and the denial is no list such as "denies …"."""
        place = bisect_right(self.bounds, first)
        begin, end = self.bounds[place - 1], self.bounds[place]
        if not _LISTS.isdisjoint(self.words[max(begin, first - _LISTED_WORDS) : first]):
            return False
        comma = next((at for at in range(last, min(end, last + _JOINED_WORDS)) if self.words[at] == ","), end)
        at = bisect_right(self.mentions.finding_starts, comma)
        return comma == end or at == len(self.mentions.finding_starts) or self.mentions.finding_starts[at] > comma + 1

    def _follows_a_sentence(self, first: int, last: int) -> bool:
        """Return whether the tokens from `first` to `last` - 1 begin a clause that is not about the past, and not the first one of its section."""
        place = bisect_right(self.note.section_starts, self.starts[first]) - 1
        begins = self.bounds[bisect_right(self.bounds, first) - 1] == first and place >= 0 and self.starts[first] > self.note.sections[place].body
        return begins and not self._is_dated(first, last)

    def _is_dated(self, first: int, last: int, limit: int | None = None) -> bool:
        """Return whether a year or a word such as "previously" stands in the clause of token `first`, soon after the token `last` - 1, before `limit`."""
        end = self.bounds[bisect_right(self.bounds, first)]
        end = end if limit is None else min(end, limit)
        return any(is_year(word) or word in self.item_words.earlier for word in self.words[last : min(end, last + _DATED_WORDS)])

    def _names_a_treatment(self, first: int, last: int) -> bool:
        """Return whether the tokens from `first` to `last` - 1 join a finding with the drug that is taken for it now: "asthma on albuterol".

        A drug is not taken any more if a year or a word such as "previously" follows, and not for the finding if it may cause it: "rash on penicillin".
        """
        if last not in self.mentions.drugs and last - 1 not in self.mentions.drugs:  # "on home" may end inside a name: "on home oxygen"
            return False
        end = first - 1 if first and self.words[first - 1] == "," else first
        while end and self.words[end - 1] in self.item_words.side:
            end -= 1
        before = undated(self.words, end, self.mentions.findings.keys(), self.item_words)
        if self.words[first] == "," and before in self.mentions.procedure_ends:
            pass  # "coronary disease s/p stent, on clopidogrel"
        elif before not in self.mentions.findings or self._is_reaction(before):
            return False
        return not self._is_dated(first, last, self._next_item(last))

    def _is_remark(self, first: int, last: int) -> bool:
        """Return whether the tokens from `first` to `last` - 1 stand between a finding and a remark on what is done for it now: the colon of "asthma: continue albuterol"."""
        end = min(self.bounds[bisect_right(self.bounds, first)], last + _DATED_WORDS)
        said = self.words[last:end]
        return first in self.mentions.findings and not self._is_dated(first, last) and self.item_words.finished.isdisjoint(said)

    def _follows_a_finding(self, at: int) -> bool:
        """Return whether a finding stands before a token, or before a word such as "seen": before "on" in "no mass seen on CT"."""
        words = self.item_words
        while at and (self.words[at - 1] in words.side or self.words[at - 1] in words.seen):
            at -= 1
        return at in self.mentions.findings or (at > 0 and self.words[at - 1] in words.matter)

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
            end = self.bounds[place]
            found += [at for at in range(begin, end) if self.words[at] == "," and self._begins_statement(at, end) and not self.joins(at)]
        return found

    def _begins_statement(self, comma: int, end: int) -> bool:
        """Return whether the item after a comma says that it is there: it ends so, or is a test with a value or after a finding: "no ICH, MRI old infarct"."""
        if is_stated(self.words, comma, end, self.item_words):
            return True
        first = comma + 1
        if first < end and comma in self.mentions.findings and self.words[first] in self.item_words.study and has_more(self.words, first, end):
            return True
        after = self.mentions.mention_ends.get(first)
        return after is not None and after in self.mentions.procedure_ends and is_valued(self.words, after, end, self.item_words)

    def _is_reaction(self, end: int) -> bool:
        """Return whether the finding that ends before a token is one that a drug may cause: "GI bleed", "swelling of the lips"."""
        words = self.words[self.mentions.findings[end] : end]
        return any(word in self.item_words.reaction and after in _OF for word, after in zip(words, [*words[1:], ""]))

    def _next_item(self, at: int) -> int:
        """Return the token from `at` where the next item of a list begins, if it is a finding: "prior stroke" in "…, prior stroke"; else the last one + 1."""
        starts = self.mentions.finding_starts
        for place in range(bisect_left(starts, at), bisect_left(starts, at + _DATED_WORDS)):
            start = starts[place]
            while start > at and (self.words[start - 1] in self.item_words.earlier or self.words[start - 1] in _BEFORE_FINDING):
                start -= 1
            if start > at and (self.words[start - 1] == "," or self.words[start - 1] in self.item_words.link):
                return start
        return len(self.words)

    def joins(self, at: int) -> bool:
        """Return whether "or" follows a token in its clause: then it is in a list."""
        end = self.bounds[bisect_right(self.bounds, at)]
        return not {"or", "nor"}.isdisjoint(self.words[at : min(end, at + _LISTED_WORDS)])

    def ended(self, category: str, char: int, kind: str) -> bool:
        """Return whether the category of a whole section has ended before a mention of a kind at a character: "She now has asthma" in a past history.

        It ends for the clause. The status family ends for the rest of the section, because "she" is then the patient.
        """
        token = bisect_right(self.starts, char) - 1
        if category in ENDED_NOW and self._is_now(char):
            return True
        if category == "uncertain" and self._is_below(char):
            return True
        if category == "family":
            if (kind in (DRUG, PROCEDURE) and self._is_plan(token)) or self._is_after_paragraph(token):
                return True
            place = bisect_right(self.note.section_starts, char) - 1
            begin = bisect_left(self.starts, self.note.sections[place].body)
        elif category == LISTED and self._is_after_list(token):
            return True
        else:
            begin = self.bounds[bisect_right(self.bounds, token) - 1]
        return any(
            (stop := bisect_left(stops, token) - 1) >= 0 and stops[stop] >= begin
            for stops in (self.stops[category], self.drug_stops[category] if kind == DRUG else [])
        )

    def _is_plan(self, at: int) -> bool:
        """Return whether a token is in a clause of a family history that is about no relative: "Family history: DM in mother. Start metformin".

        It is not the first clause of the section, and has no word of the past, as in "Father MI. He had a stent."
        """
        clause = bisect_right(self.bounds, at) - 1
        section = self.note.sections[bisect_right(self.note.section_starts, self.starts[at]) - 1]
        end = self.bounds[clause + 1]
        told = not _TOLD.isdisjoint(self.words[self.bounds[clause] : min(end, self.bounds[clause] + _DATED_WORDS)])
        return self.starts[self.bounds[clause]] > section.body and clause not in self._clauses_with_relatives and not told

    def _is_now(self, char: int) -> bool:
        """Return whether a character is in a line that begins with a time or a vital sign, after the first line of its section."""
        section = self.note.sections[bisect_right(self.note.section_starts, char) - 1]
        line = self.note.text.rfind("\n", section.body, char)
        return line >= 0 and _NOW_LINE.match(self.note.text, line + 1) is not None

    def _is_below(self, char: int) -> bool:
        """Return whether a character is below the list of diagnoses on the line of a heading: the cough of "DDx: PE, ACS", a line end, "Given nebs. Cough persists"."""
        return char >= self._list_ends_of_headings[bisect_right(self.note.section_starts, char) - 1]

    def _is_after_paragraph(self, at: int) -> bool:
        """Return whether a blank line stands between a token and what follows the heading on its line: "FHx: mother DM", a blank line, "Fever, cough"."""
        section = bisect_right(self.note.section_starts, self.starts[at]) - 1
        clause = bisect_right(self.bounds, at) - 1
        return self._paragraphs[section] <= self.starts[self.bounds[clause]] and clause not in self._clauses_with_relatives

    def _is_after_list(self, at: int) -> bool:
        """Return whether a blank line ends the past history before a token: "PMH: asthma, gout", a blank line, "Chest clear".

        It does not if the lines of the whole note, or the items of the list, are separated by blank lines.
        """
        section = bisect_right(self.note.section_starts, self.starts[at]) - 1
        end, body, text = self._paragraphs[section], self.note.sections[section].body, self.note.text
        if end > self.starts[at] or self._is_spaced:
            return False
        return _MARKED.match(text, body) is None or _MARKED.match(text, end) is None

    @cached_property
    def _is_spaced(self) -> bool:
        """Whether a blank line stands after each line of a note with several lines."""
        return self.note.text.count("\n") > _SPACED_BREAKS and _TIGHT.search(self.note.text) is None

    @cached_property
    def _clauses_with_relatives(self) -> set[int]:
        """The places in `bounds` of the clauses that name a relative."""
        return {bisect_right(self.bounds, at) - 1 for at, word in enumerate(self.words) if word in self.item_words.relative}

    @cached_property
    def _list_ends_of_headings(self) -> list[int]:
        """For each section, the character after a list on the line of its heading, if other text follows; otherwise the character after the text.

        A list has a comma or ends with a full stop. It goes on after a comma, and with a line that begins with a number, a mark or a small letter.
        """
        found, text = [], self.note.text
        for section in self.note.sections:
            line = text.find("\n", section.body, section.end)
            beside = line >= 0 and "\n" not in text[section.start : section.body].strip(" ")
            items = text[section.body : line].rstrip() if beside else ""
            ended = ("," in items or items.endswith(".")) and not items.endswith(",") and _NEW_LINE.match(text, line) is not None
            found.append(line if ended else len(text) + 1)
        return found

    @cached_property
    def _paragraphs(self) -> list[int]:
        """For each section, the character after the first blank line, if words stand on the line of its heading; otherwise the character after the text."""
        found, text = [], self.note.text
        for section in self.note.sections:
            line = text.find("\n", section.body, section.end)
            beside = line >= 0 and text[section.body : line].strip() and "\n" not in text[section.start : section.body].strip(" ")
            blank = _BLANK.search(text, line, section.end) if beside else None
            found.append(blank.end() if blank is not None else len(text) + 1)
        return found
