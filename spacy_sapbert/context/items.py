"""The items of a list, as far as the status rules need them: "a, b and c negative", "history of x, CT showed y". Words are tokens in lower case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import NamedTuple

# classes of the table of rules that name words of items
NAMES = (
    *("link", "apart", "state", "assay", "study", "former", "after", "be", "tested", "sought", "subject", "reaction", "stated", "side", "finished"),
    *("verb", "until", "dated", "relative", "seen", "matter", "degree", "resumed", "eye", "limb", "exam"),
    *("operation", "event", "symptom", "analyte", "goeson", "due"),
    *("woman", "man", "either", "stranger", "telling", "moved"),
)
_MARKS = frozenset(',;:()[]|"<>')
_OPENING = frozenset(":([=|")  # marks between an item and what is said of it: "HIV: negative", "HIV (negative)", "| HIV | negative |"
_ENDS = frozenset(",;")  # marks that end an item: the comma of "Fever: no, …"
_PRESENT = frozenset(["has", "have", "is", "are"])
_BEFORE_VALUE = frozenset([":", "=", "<", ">"])
_SIZES = frozenset(["cm", "mm", "kg", "lb"])
_UNITS = frozenset(
    ["%", "/", "mg", "g", "ng", "pg", "ug", "mcg", "mmol", "umol", "iu", "u", "ku", "l", "dl", "ml", "c", "f", "s", "h", "hr", *_SIZES]
)
_COMPARED = frozenset(
    ["over", "above", "than", "exceeding", "beyond", "least", ">", "<", "≥", "≤", "under", "below", "up"]
)  # words before a size that is only a limit
_THEN = frozenset(["then", "later", "subsequently", "since", "but", ","])
_STATEMENT_WORDS = 6  # words between "the" and its verb
MONTHS = frozenset(
    """
    jan feb mar apr may jun jul aug sep sept oct nov dec
    january february march april june july august september october november december
    """.split()  # noqa: SIM905
)
_DATE_WORDS = 8  # words and marks of a date
_MINUTES = 60  # four digits that end with this or more are no time
_ORDERS = frozenset(["restart", "start", "resume", "recommence", "stop", "switch", "repeat", "give", "consider", "remove", "change"])
_WILL = frozenset(["will", "can", "should", "may"])
_AWAITED_WORDS = 12  # words and marks between "until" and what is awaited
_MOST_WORDS = 4  # a longer item is not one of a list of names
_LONGEST = 40  # words and marks of the item before or after a statement; what is beyond is not read
_MOST_ITEMS = 30  # of a list
_GRADED = frozenset(["bipolar", "class", "grade", "phase", "stage", "type"])  # words before a figure: the "I" of "stage I" is no person
_GRADES = frozenset("a b c d i ii iii iv".split())  # noqa: SIM905
_STUDY_WORDS = 12  # words among which the test is looked for that showed something


class Words(NamedTuple):
    """The words by which items are told apart. All are sets of words in lower case.

    Attributes:
        link: words that join two items: "and".
        apart: words before which another statement stands: "with", "has".
        state: words that say something of their own item: "positive".
        assay: words between a disease and what is said of its test: "hepatitis C *antibodies* pending".
        study: names of tests that can show something; those that begin with "-" are endings.
        earlier: words that say that a test was done long ago.
        after: words that may follow a statement at the end of its item.
        be: forms of "to be".
        tested: words before what a test looks for: "tested".
        sought: words of names of what a test looks for, which are not said of a patient alone: "HIV".
        subject: words with which a main clause begins after one with "after" or "since": "she".
        reaction: findings that a drug may cause.
        stated: words at the end of an item that say that it is there: "daily".
        side: words for a side of the body: "OU".
        finished: words that say that a treatment is over: "received".
        verb: verbs of a statement: "was".
        until: words before what is awaited: "until".
        dated: words of a date: "in", "ago".
        relative: names of relatives: "mother".
        seen: words between a finding and its test: "no mass *seen* on CT".
        matter: words that stand for a finding: "no *issues* on CT".
        resumed: words that say that a treatment goes on: "restarted".
        degree: words that begin an item of its own: "gout and *high* falls risk".
        eye: words for an eye that begin a finding of it: "*LE* cataract".
        limb: findings after these letters that are of an arm or leg: "LE *edema*".
        exam: more names of tests; a year after a test is the date of its result: "*HRCT* 2024".
        operation: words and endings of operations: "bypass", "-ectomy".
        event: words of diseases that happen on one day, whatever is taken for them now: "stroke".
        symptom: words of symptoms; four digits after them may be a time: "chest *pain* 2015".
        analyte: names of what is measured: "*BNP* 1980".
        goeson: words after a year that say that the disease goes on: "diabetes 2010, *on* insulin".
        due: words before a year that is in the future, or no date of the patient: "*due* 2027".
        woman: relatives and partners who are "she": "mum".
        man: relatives and partners who are "he": "dad".
        either: relatives and partners who may be "she" or "he": "baby".
        stranger: other persons who may be the next "she" or "he": "doctor".
        telling: verbs after which a person says or does something for another: "she *thinks*".
        moved: words for what a person feels about another: "is *worried*".
    """

    link: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()
    state: frozenset[str] = frozenset()
    assay: frozenset[str] = frozenset()
    study: frozenset[str] = frozenset()
    earlier: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    be: frozenset[str] = frozenset()
    tested: frozenset[str] = frozenset()
    sought: frozenset[str] = frozenset()
    subject: frozenset[str] = frozenset()
    reaction: frozenset[str] = frozenset()
    stated: frozenset[str] = frozenset()
    side: frozenset[str] = frozenset()
    finished: frozenset[str] = frozenset()
    verb: frozenset[str] = frozenset()
    until: frozenset[str] = frozenset()
    dated: frozenset[str] = frozenset()
    relative: frozenset[str] = frozenset()
    seen: frozenset[str] = frozenset()
    matter: frozenset[str] = frozenset()
    degree: frozenset[str] = frozenset()
    resumed: frozenset[str] = frozenset()
    eye: frozenset[str] = frozenset()
    limb: frozenset[str] = frozenset()
    exam: frozenset[str] = frozenset()
    operation: frozenset[str] = frozenset()
    event: frozenset[str] = frozenset()
    symptom: frozenset[str] = frozenset()
    analyte: frozenset[str] = frozenset()
    goeson: frozenset[str] = frozenset()
    due: frozenset[str] = frozenset()
    woman: frozenset[str] = frozenset()
    man: frozenset[str] = frozenset()
    either: frozenset[str] = frozenset()
    stranger: frozenset[str] = frozenset()
    telling: frozenset[str] = frozenset()
    moved: frozenset[str] = frozenset()

    @classmethod
    def of(cls, classes: Mapping[str, Sequence[str]]) -> Words:
        """Return the words of some classes; a class that is missing has none."""
        return cls(*(frozenset(classes.get(name, ())) for name in NAMES))


def ends_item(words: Sequence[str], last: int, end: int, kinds: Words) -> bool:
    """Return whether a statement that ends before token `last` ends its item, in a clause that ends before token `end`: "HIV negative, …"."""
    return last >= end or not words[last][0].isalnum() or words[last] in kinds.after or words[last - 1] in _ENDS


def own_item(words: Sequence[str], first: int, begin: int, kinds: Words) -> tuple[int, int]:
    """Return the first token of the item before a statement, and the token after its last one.

    Args:
        words: the tokens of a note.
        first: the first token of the statement.
        begin: the first token of its clause.
        kinds: the words by which items are told apart.
    """
    last = first
    while last > begin and words[last - 1] in _OPENING:
        last -= 1
    return _start(words, last, begin, kinds), last


def listed_items(words: Sequence[str], start: int, begin: int, kinds: Words, *, joined: bool, most: int = _MOST_ITEMS) -> int:
    """Return the first token of the list that ends in an item which starts at token `start`; `start` if it is in no list.

    "a and b", "a, b and c", and "a, b, c" at the beginning of a clause are lists. "a, b" is none: "pneumonia, HIV negative". Before "is", a list
    begins with what a test looks for: "is HIV and hepatitis C negative", but not "is hypertensive and HIV negative".

    Args:
        words: the tokens of a note.
        start: the first token of the last item.
        begin: the first token of the clause.
        kinds: the words by which items are told apart.
        joined: only a list with "and" counts.
        most: number of items before the last one that are read; 1: "both" is said of the two items, which need no "and".
    """
    links: list[bool] = []  # whether the item is joined with a word such as "and"
    at = start
    while at > begin and len(links) < most:
        before = at - 1
        linked = words[before] in kinds.link
        if linked and before > begin and words[before - 1] == ",":
            before -= 1
        if not linked and words[before] != ",":
            break
        item = _start(words, before, begin, kinds)
        names = words[item:before]
        told = any(word in kinds.state or word in kinds.side or word[0].isdigit() for word in names)
        told = told or (not kinds.eye.isdisjoint(names[:1]) and kinds.limb.isdisjoint(names[1:]))
        if told or not 0 < sum(word[0].isalnum() for word in names) <= _MOST_WORDS:
            break
        links.append(linked)
        at = item
    if not links or (at > begin and words[at - 1] in kinds.apart and not (words[at - 1] in kinds.be and _is_sought(words, at, kinds))):
        return start
    alone = len(links) > 1 and not any(links) and (at == begin or words[at - 1] in _OPENING)
    return at if links[0] or most == 1 or (alone and not joined) else start


def item_before_comma(words: Sequence[str], first: int, begin: int, kinds: Words, most: int = _MOST_ITEMS) -> tuple[int, int]:
    """Return the first token of the list before a statement with a comma, and the token after its last one: "influenza and RSV, both negative".

    Args:
        words: the tokens of a note.
        first: the first token of the statement.
        begin: the first token of its clause.
        kinds: the words by which items are told apart.
        most: number of items before the last one that are read.

    Returns:
        Two equal tokens, if there is no list, and no test is named before the comma as in "tested for influenza, positive".
    """
    last = first - 1
    if last <= begin or words[last] not in (_ENDS if most > 1 else (*_ENDS, ".")):
        return first, first
    start = _start(words, last, begin, kinds)
    whole = listed_items(words, start, begin, kinds, joined=True, most=most)
    return (whole, last) if whole < start or (start < last and words[start] in kinds.tested) else (first, first)


def last_item(words: Sequence[str], start: int, end: int, findings: AbstractSet[int], kinds: Words) -> int:
    """Return the token after the last comma or arrow, if a finding stands between it and a statement, and no word such as "and": "[chest pain,] GERD likely".

    Args:
        words: the tokens of a note.
        start: the first token that is read.
        end: the first token of the statement.
        findings: the tokens after findings.
        kinds: the words by which items are told apart.

    Returns:
        `start`, if there is no such item.
    """
    end -= end > start and words[end - 1] == ","
    for at in range(end - 1, start - 1, -1):
        if words[at] in kinds.link:
            return start
        if words[at] == "," or words[at] == "→" or (words[at] == ">" and at > start and words[at - 1] == "-"):
            return at + 1 if not findings.isdisjoint(range(at + 2, end + 1)) else start
    return start


def comma_before(words: Sequence[str], first: int, begin: int, kinds: Words) -> int | None:
    """Return the token of the comma before the item of a statement: before "RSV" in "suspected influenza, RSV negative"; None if there is none.

    Args:
        words: the tokens of a note.
        first: the first token of the statement.
        begin: the first token that is read.
        kinds: the words by which items are told apart.
    """
    start, last = own_item(words, first, begin, kinds)
    return start - 1 if begin < start < last and words[start - 1] == "," else None


def is_statement(words: Sequence[str], start: int, kinds: Words) -> bool:
    """Return whether a verb soon follows token `start`, before a mark or a word such as "and": "[the] decompression was complete"."""
    for at in range(start, min(start + _STATEMENT_WORDS, len(words))):
        if words[at] in kinds.verb:
            return at > start
        if words[at] in kinds.link or not (words[at][0].isalnum() or words[at] in ("-", "'s")):
            return False
    return False


def is_awaited(words: Sequence[str], first: int, last: int, begin: int, kinds: Words) -> bool:
    """Return whether a state is said to be awaited: "until the wound has healed".

    "Until the pain resolved" is in the past, "until it has resolved" is not. "Once" awaits after an order: "restart ramipril once AKI resolved", but
    not in "taken to theatre once the shock resolved".

    Args:
        words: the tokens of a note.
        first: the first token of the state.
        last: the token after its last one.
        begin: the first token of the clause.
        kinds: the words by which items are told apart.
    """
    start = max(begin, first - _AWAITED_WORDS)
    near = words[start:last]
    at = next((place for place, word in enumerate(near) if word in kinds.until), None)
    if at is None and "once" in near:
        once = near.index("once")
        ordered = any(word == "to" and (after in _ORDERS or after == "be") for word, after in zip(near[:once], near[1:once]))
        return "," not in near[once:] and (ordered or not _WILL.isdisjoint(near[:once]) or words[begin] in _ORDERS)
    return at is not None and not _PRESENT.isdisjoint(near[at:])


def undated(words: Sequence[str], end: int, findings: AbstractSet[int], kinds: Words) -> int:
    """Return the token after the finding before a date that ends before token `end`: after "stroke" in "stroke in 2015" and "stroke - last in 2015"; `end` if there is none."""
    for at in range(end, max(end - _DATE_WORDS, 0) - 1, -1):
        if at in findings:
            return at
        if at and not (words[at - 1][0].isdigit() or words[at - 1] in kinds.dated or words[at - 1] in ("(", ")", ",", "/", "-", "–")):
            return end
    return end


def main_clause(words: Sequence[str], start: int, end: int, kinds: Words) -> int:
    """Return the first token from `start` with which a main clause begins, after one with "after" or "since"; `end` if there is none near before it."""
    near = range(start, min(end, start + _LONGEST))
    return next((at for at in near if words[at] in kinds.subject and not (words[at] == "i" and words[at - 1] in _GRADED)), end)


def alternatives(words: Sequence[str], first: int, end: int, kinds: Words) -> int:
    """Return the token after the last item that "or" joins to those before it: after "drugs" in "[does not] smoke, drink or use drugs".

    Args:
        words: the tokens of a note.
        first: the token where the first item starts; it may be empty: "[never smoked] or …".
        end: the token after the last one of the clause.
        kinds: the words by which items are told apart.

    Returns:
        `first` if no item is joined with "or".
    """
    at = found = first
    either = False
    end = min(end, first + _LONGEST)
    while at < end:
        stop = at
        while stop < end and words[stop] not in _MARKS and words[stop] not in kinds.link and words[stop] not in kinds.apart:
            stop += 1
        names = words[at:stop]
        if at > first and not 0 < sum(word[0].isalnum() for word in names) <= _MOST_WORDS:
            break
        if any(word in kinds.state or word[0].isdigit() for word in names):
            break
        if either:
            found = stop
        after = stop + 1 if stop + 1 < end and words[stop] == "," and words[stop + 1] in kinds.link else stop
        if after >= end or (words[after] != "," and words[after] not in kinds.link):
            break
        either = words[after] in ("or", "nor")
        at = after + 1
    return found


def study_item(words: Sequence[str], verb: int, begin: int, kinds: Words) -> int | None:
    """Return the first token of the item that names the test of a verb: of "the CT" in "…, and the CT showed"; None if there is none, or it is old.

    Args:
        words: the tokens of a note.
        verb: the token of the verb.
        begin: the first token of the clause.
        kinds: the words by which items are told apart.
    """
    start = verb
    while (
        start > begin
        and verb - start < _STUDY_WORDS
        and words[start - 1] not in (",", ":", ";", "with", "but")
        and words[start - 1] not in kinds.link
    ):
        start -= 1
    if start == begin or verb - start >= _STUDY_WORDS:
        return None
    item = words[start:verb]
    if any(word in kinds.earlier or is_year(word) for word in item):
        return None
    endings = tuple(word[1:] for word in kinds.study if word.startswith("-"))
    return start if any(word in kinds.study or (endings and word.endswith(endings)) for word in item) else None


def is_resumed(words: Sequence[str], start: int, end: int, kinds: Words) -> bool:
    """Return whether the tokens from `start` to `end` - 1 say that what was stopped or held goes on: "held and restarted", but not "held, aspirin restarted"."""
    end = min(end, start + _LONGEST)
    return any(words[at] in kinds.resumed and (words[at - 1] in kinds.link or words[at - 1] in _THEN) for at in range(max(start, 1), end))


def is_stated(words: Sequence[str], comma: int, end: int, kinds: Words) -> bool:
    """Return whether the item after a comma says at its end that it is there: "cataract 2+" and "alcohol daily", but not "chills".

    Args:
        words: the tokens of a note.
        comma: the token of the comma.
        end: the token after the last one of the clause.
        kinds: the words by which items are told apart.
    """
    last, end = comma + 1, min(end, comma + 1 + _LONGEST)
    while last < end and words[last] not in _MARKS and words[last] not in (".", "-") and words[last] not in kinds.link - {"/"}:
        last += 1
    item = words[comma + 1 : last]
    if len(item) < 2 or not item[0][0].isalpha() or not kinds.apart.isdisjoint(item[:-1]):
        return False
    if item[-1] in ("+", "+ve"):
        return item[-2] != "0"
    if len(item) > 3 and item[-2] == "/" and item[-1][0].isdigit():  # "pain 3/10"
        return item[-3][0].isdigit() and item[-3] != "0"
    if len(item) > 2 and item[-2][0].isdigit() and item[-1] in _SIZES:  # "hiatus hernia 3 cm", but not "mass over 2 cm"
        return _COMPARED.isdisjoint(item)
    if len(item) > 4 and [len(word) for word in item[-4:]] == [1, 1, 1, 1] and [word.isdigit() for word in item[-4:]] == [False, True, False, True]:
        return True  # "Barrett's C0M2"
    if len(item) > 2 and item[-1].isdigit() and item[-2] in _GRADED:  # "pressure ulcer grade 2"
        return item[-1] != "0"
    if len(item) > 2 and item[-2] in ("grade", "stage") and item[-1] in _GRADES:  # "oesophagitis grade B"
        return True
    if item[-1] == "risk" and len(item) > 2:  # "NIPT low risk", but not "bleeding risk"
        return not (kinds.degree - {"no"}).isdisjoint(item)
    return item[-1] in kinds.stated or item[-1] in kinds.side or item[-2] == "last"


def is_valued(words: Sequence[str], start: int, end: int, kinds: Words) -> bool:
    """Return whether a value that ends its item stands from token `start`, after the name of a test: the "12.4" of "IgE 12.4, …", but not the "3" of "x 3 days"."""
    while start < end and words[start] in _BEFORE_VALUE:
        start += 1
    if start >= end or not words[start][0].isdigit():
        return False
    after = start + 1
    while after < end and (words[after] in _UNITS or (words[after - 1] == "/" and words[after].isdigit())):
        after += 1
    return after >= end or not words[after][0].isalnum() or words[after] in kinds.after


def has_more(words: Sequence[str], at: int, end: int) -> bool:
    """Return whether a word of the same item stands after token `at`: after "MRI" in "MRI old infarct", but not in "MRI, CT"."""
    return at + 1 < end and (words[at + 1][0].isalnum() or words[at + 1] == ":")


def _start(words: Sequence[str], last: int, begin: int, kinds: Words) -> int:
    at, begin = last, max(begin, last - _LONGEST)
    while at > begin and words[at - 1] not in _MARKS and words[at - 1] not in kinds.link and words[at - 1] not in kinds.apart:
        at -= 1
    return at


def _is_sought(words: Sequence[str], start: int, kinds: Words) -> bool:
    """Return whether the item that starts at a token is what a test looks for: "HIV", "hepatitis C"."""
    if words[start] in kinds.tested:
        return True
    end = start
    while words[end] not in _MARKS and words[end] not in kinds.link:
        end += 1
    return words[start] in kinds.sought and all(word in kinds.sought or word in kinds.assay or len(word) == 1 for word in words[start:end])


def names_a_test(words: Sequence[str], kinds: Words) -> bool:
    """Return whether one of some words is the name of a test: "HRCT", "colonoscopy"."""
    return _are_some(words, kinds.study) or not kinds.exam.isdisjoint(words)


def is_dated_by(words: Sequence[str], first: int, at: int, begin: int, end: int, kinds: Words, *, finding: bool) -> bool:
    """Return whether a mention directly before four digits is past, because they are the year when it happened: "CVA 2015", "appendicectomy 1990".

    They are no year after what is measured or before other words ("hypertension 2019 guidance"), and may be a time after a symptom. Of findings, only
    events, symptoms and what was treated are past: "diabetes 2010" goes on, "chlamydia 2016 treated" is over.

    Args:
        words: the tokens of a note.
        first: the first token of the mention.
        at: the token of the digits, after the last one of the mention.
        begin: the first token of the clause.
        end: the token after its last one.
        kinds: the words by which items are told apart.
        finding: the mention is a finding, otherwise a procedure.
    """
    names = words[first:at]
    if not kinds.due.isdisjoint(words[max(begin, first - _DATE_WORDS) : first]):
        return False
    if names_a_test(names, kinds) or not kinds.analyte.isdisjoint(names) or not (finding or _are_some(names, kinds.operation)):
        return False
    if words[at].isdigit() and not kinds.symptom.isdisjoint(names) and int(words[at][2:]) < _MINUTES:
        return False
    after = at + 1
    treated = list(words[after : after + 1]) == ["treated"] and list(words[after : after + 2]) != ["treated", "with"]
    if finding and (kinds.event | kinds.symptom).isdisjoint(names) and not treated:
        return False
    if after >= end:
        return True
    if words[after] in kinds.link:  # not "seizures 2030 and 2045"
        return after + 1 >= end or not words[after + 1][0].isdigit()
    return treated or not words[after][0].isalnum() or words[after] in kinds.goeson


def _are_some(words: Sequence[str], names: frozenset[str]) -> bool:
    """Return whether one of some words is a name, or has one of the endings that are written with a dash: "-ectomy"."""
    endings = _endings(names)
    return any(word in names or (endings and word.endswith(endings)) for word in words)


@lru_cache(maxsize=64)
def _endings(names: frozenset[str]) -> tuple[str, ...]:
    """Return the endings among some names."""
    return tuple(name[1:] for name in names if name.startswith("-"))


def is_year(word: str) -> bool:
    """Return whether a token is a year: "2010"."""
    return len(word) == 4 and word.isdigit() and word[:2] in ("19", "20")
