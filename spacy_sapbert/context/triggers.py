"""Read the table of triggers, and find them in the words of a note."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import fail
from .clauses import HEADING, SIGN, TOKEN, word_of
from .items import Words
from .sections import section_kinds

SHIPPED = Path(__file__).parents[1] / "data" / "status_rules.tsv"
STATUSES = ("negated", "uncertain", "hypothetical", "historical", "family")
SUBSTANCE = "substance"  # the class of `Rules.substances`
TAKEN = "treatment"  # the class of `TriggerTable.treatments`
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
SCOPED = (*STATUSES, *PARTIAL, PRESENT, DECIDED)
SECTION = "section"  # the direction that means all mentions of a section
ADULT = "adult"  # a rule that holds in notes about an adult only
DIRECTIONS = frozenset(
    [
        *("forward", "backward", "both", "leading", "first", "ending", "inside", "list", "opening", "items", "either", "closing", "aside", "own"),
        *("near", "beside", "sole", SECTION),
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
AT_FINAL = "final"  # after "@", of a terminator: only if no mention begins after it in its clause: "no infection before the surgery"
TERMINATED = (AT_FINAL, AT_LAST, AT_STUDY, UNJOINED, AT_SENTENCE, AT_DRUG, AT_REMARK, AT_FINDINGS, AT_REASON, AT_STATEMENT, AT_ITEM)
_LONGEST_TRIGGER = 100  # words and marks
_CLASS = re.compile(r"<([^<>]+)>")
_PART = re.compile(r"(?:<[^<>]+>|\S)+")  # of a trigger: what stands between spaces
_BUILT_IN = frozenset(["number", "year", *(sign.strip("<>") for sign in SIGN.values())])  # in triggers they are written like classes


class Rule(NamedTuple):
    """The effect of a trigger.

    Attributes:
        category: a status, a category of `PARTIAL`, "present", "decided", "end" or "pseudo".
        direction: forward, backward, both, leading, first, ending, closing, inside, list, opening, items, either, aside, own, sole, near or beside; for "end" the categories
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


class TriggerTable:
    """A table of triggers, read and checked.

    Args:
        text: the table, in the format of data/status_rules.tsv.
        name: name of the table in error messages.

    Attributes:
        tree: the triggers as a tree: each word -> what may follow it. Under "" is the list of rules of the trigger that ends there.
        sections: kind of section, or "heading:" and a title in lower case -> categories of all mentions in it.
        substances: names of substances of the body that are findings, in lower case.
        treatments: names of procedures and devices that are taken like drugs, in lower case: "dialysis".
        item_words: the words that tell the items of a list apart.

    Raises:
        SapbertError: E403, a row is not a rule.
    """

    def __init__(self, text: str, name: str = "status_rules.tsv") -> None:
        self.sections: dict[str, set[str]] = {}
        self.substances: frozenset[str] = frozenset()
        self.treatments: frozenset[str] = frozenset()
        classes: dict[str, list[str]] = {}
        trees, branches = [], _Branches()
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
                elif trigger == TAKEN:
                    self.treatments = frozenset(classes[trigger])
            elif direction == SECTION:
                for kind in trigger.split(";"):
                    self.sections.setdefault(kind.strip(), set()).add(category)
            else:
                direction, _, kinds = direction.partition("@")
                outside, kinds = kinds.startswith("!"), kinds.removeprefix("!")
                adult = kinds == ADULT
                rule = Rule(category, direction, int(scope or 0), frozenset(kinds.split(";")) if kinds and not adult else frozenset(), outside, adult)
                parts = [[_trigger_words(each) for each in _expanded(part, classes)] for part in _PART.findall(trigger)]
                if sum(max(map(len, choices)) for choices in parts) > _LONGEST_TRIGGER:
                    raise fail("E403", path=name, line=number, why=f"a trigger has at most {_LONGEST_TRIGGER} words.")
                trees.append(branches.of_row(parts, rule))
        self.tree: dict[str, Any] = branches.union(trees)
        self.item_words = Words.of(classes)


def find_triggers(words: Sequence[str], tree: dict[str, Any], fixed: set[int]) -> list[tuple[int, int, Sequence[Rule]]]:
    """Return (first token, last token + 1, rules) of the longest trigger at each place, from left to right.

    Args:
        words: the words of a note.
        tree: the tree of a `TriggerTable`.
        fixed: tokens that begin a line, a section or a known sentence; no trigger crosses these boundaries.
    """
    found = []
    n, at = len(words), 0
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


class _Branches:
    """Branches of trees of triggers, in which equal branches are one object. Most are equal, because triggers differ in their first words.

    So 140,000 triggers take 2,500 objects, and are not made one by one. A branch is never changed after it is made.
    """

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}  # the content of a branch, with a branch in it given by its identity -> the branch
        self._unions: dict[tuple[int, ...], dict[str, Any]] = {}  # identities of branches -> their union

    def of_row(self, parts: list[list[list[str]]], rule: Rule) -> dict[str, Any]:
        """Return the tree of the triggers of one row. parts: for each part of the trigger, the words that can stand there."""
        tree = self._one({"": self._rules((rule,))})
        for choices in reversed(parts):
            tree = self.union([self._before(words, tree) for words in choices])
        return tree

    def union(self, trees: list[dict[str, Any]]) -> dict[str, Any]:
        """Return a tree with the triggers of all `trees`; the rules of a trigger are in the order of the trees."""
        if len(trees) == 1:
            return trees[0]
        key = tuple(map(id, trees))
        if key not in self._unions:
            after: dict[str, list[Any]] = {}
            for tree in trees:
                for word, branch in tree.items():
                    after.setdefault(word, []).append(branch)
            rules = tuple(rule for each in after.pop("", ()) for rule in each)
            made: dict[str, Any] = {word: self.union(each) for word, each in after.items()}
            self._unions[key] = self._one({**made, "": self._rules(rules)} if rules else made)
        return self._unions[key]

    def _before(self, words: list[str], tree: dict[str, Any]) -> dict[str, Any]:
        for word in reversed(words):
            tree = self._one({word: tree})
        return tree

    def _rules(self, rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
        # the first rule shows whether the trigger does more than end a scope
        rules = tuple(sorted(rules, key=lambda rule: rule.category == "end"))
        known: tuple[Rule, ...] = self._known.setdefault(rules, rules)
        return known

    def _one(self, branch: dict[str, Any]) -> dict[str, Any]:
        known: dict[str, Any] = self._known.setdefault(frozenset((word, id(after)) for word, after in branch.items()), branch)
        return known


def _figure(word: str, node: dict[str, Any]) -> Any:
    """Return the branch for a number (a year or any number) in the tree of triggers."""
    year = node.get("<year>") if len(word) == 4 and word[:2] in ("19", "20") else None
    return year or node.get("<number>")


def _trigger_words(words: str) -> list[str]:
    return [token for word in words.split() for token in _split(word)]


@lru_cache(maxsize=10_000)  # the triggers share few words
def _split(word: str) -> tuple[str, ...]:
    return (word,) if word.startswith("<") and word.endswith(">") else tuple(map(word_of, TOKEN.finditer(word.lower())))


def _expanded(part: str, classes: dict[str, list[str]]) -> list[str]:
    """Return all that a part of a trigger with classes, such as "<class>", stands for: one for each member."""
    pieces = _CLASS.split(part)  # every second piece is the name of a class
    choices = [classes.get(piece, [f"<{piece}>"]) if place % 2 else [piece] for place, piece in enumerate(pieces)]
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
        if wrong := [kind for kind in kinds if kind not in section_kinds() and not (way == SECTION and kind.removeprefix(HEADING) not in ("", kind))]:
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
