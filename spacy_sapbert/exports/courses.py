"""Read what a note says about the course of a drug: stopped, on hold, completed, taken now, or to be taken.

Source: the codes of HL7 FHIR R4 (4.0.1), MedicationStatement.status: `stopped` is halted for good, `on-hold` is halted for a time, `completed` is taken
as planned and no longer taken, `active` is still taken, `intended` may be taken in the future.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

STOPPED, ON_HOLD, COMPLETED, ACTIVE, INTENDED = "stopped", "on-hold", "completed", "active", "intended"
KEPT = "kept"  # it is still taken: it must not be stopped, was not, or will be stopped later: "do not stop warfarin", "will stop warfarin"

_FAR = 100  # characters before and after a drug that are read
_DRUG = "\x00"  # stands for another drug, in a list: "stopped aspirin and clopidogrel"
_DC = r"d/c(?:['’]?e?d)?|dc['’]?e?d"
_CHANGED = r"(?:switched|changed|transitioned|converted)(?:[ ]over)?"
_ON = r"(?:[ ](?:back[ ])?on)?"
_WORDS_BEFORE = {
    STOPPED: rf"(?:stop(?:s|ped|ping)?|discontinu(?:e[sd]?|ing)|ceased?|quit|{_DC})(?:[ ](?:taking|using|the[ ]use[ ]of))?|off(?:[ ]of)?|no[ ]longer[ ](?:takes|taking|using|on)"
    rf"|{_CHANGED}[ ]from(?![ ]{_DRUG}[ ]to\b)",
    ON_HOLD: r"(?:hold(?:s|ing)?|held)(?:[ ]off(?:[ ]on)?)?|withh(?:old(?:s|ing)?|eld)|suspend(?:ed|ing)?|paus(?:ed?|ing)",
    COMPLETED: r"(?:completed|finished)(?:[ ](?:taking|(?:a|an|the|his|her|their)[ ](?:[\w-]+[ ]){0,3}?course[ ]of))?",
    ACTIVE: rf"takes|(?<!was )(?<!were )(?<!had been )taking|(?:continu(?:e[sd]?|ing)|(?:re)?started|resumed|initiated|maintained){_ON}|(?:is|are|am|remains?|stays?|now|currently)[ ]on"
    rf"|{_CHANGED}(?:[ ]from[ ]{_DRUG})?[ ]to",
    INTENDED: r"(?:re)?start|resume|initiate|begin",
}
_BARE = r"(?=[ ]?(?:$|[).,;\n]|\b(?:for|until|x|on|at|after|tomorrow|next|in)\b))"  # "lisinopril - HOLD", not "IV fluids, hold diet"
_WORDS_AFTER = {
    STOPPED: rf"stopped|discontinued|ceased|(?:stop|discontinue){_BARE}|{_DC}",
    ON_HOLD: rf"on[ ]hold|(?:with)?held|hold{_BARE}|suspended|paused",
    COMPLETED: r"completed|finished",
    ACTIVE: rf"(?:re)?started|resumed|continued|initiated|continue{_BARE}",
}
_WORKS = r"(?![ ](?:working|helping|being[ ]effective))"  # "ibuprofen stopped working" is about its effect


def _any_of(words: dict[str, str]) -> str:
    """Return a pattern of words with a group for each course; in its name, "_" stands for "-"."""
    return "|".join(rf"(?P<{course.replace('-', '_')}>{each})" for course, each in words.items())


_BEFORE = re.compile(rf"(?<![\w/-])(?:{_any_of(_WORDS_BEFORE)})(?![\w/'’-])")
_LISTED = rf"{_DRUG}|[ ,/+&]|\b(?:and|or|both|as[ ]well[ ]as|along[ ]with)\b"
# words that may stand between such a word and the drug; others may say something else: "stopped smoking", "held a talk about"
_GAP = re.compile(
    rf"(?![ ]?(?:[,/+&]|(?:and|or)\b))(?:{_LISTED}|\b(?:the|a|an|any|all|of|his|her|their|my|your|this|these|home|oral|iv|po|daily|prior|previous|recent|current|usual|chronic|outpatient|"
    r"meds?|medications?|drugs?|doses?|then|also|again|patient['’]s|pt['’]s|low|high|therapy|including|such[ ]as)\b)*"
)
_AFTER = re.compile(
    rf"(?:(?:{_LISTED})+{_DRUG}(?=[ ,]*(?:both[ ]|all[ ])?(?:were|are|have|had|will[ ]be)\b))?(?:[ ,(:–—-]|\b(?:which|that|was|were|is|are|has|have|had|been|being|will(?:[ ]be)?|to[ ]be|plan(?:s|ned)?[ ]to|then|also|later|recently|subsequently|now|currently|again|therapy|"
    rf"treatment)\b)*\b(?:{_any_of(_WORDS_AFTER)})(?![\w-]){_WORKS}"
    rf"(?![ ](?:(?:the|a|an|his|her|their|on|taking)[ ])*{_DRUG})"  # not "aspirin, started warfarin", and not "the gel stopped the bleeding"
    r"(?![ ](?:the|a|an|his|her|their)[ ](?!(?:day|night|evening|morning|week|month|year|few|couple)\b))"
)
_HEADING = re.compile(
    r"\b(stop(?:ped)?(?:[ ]taking)?|discontinued?|held|hold|continued?|start(?:ed)?|resumed?|completed)[ ]?:[ ]?"
)  # "Stopped: aspirin"
_CLAUSE = re.compile(r"[.;:!?](?=[ \n]|$)|\n|•|\b(?:but|however|although|though|because|since|after)\b")
_NEGATED = re.compile(
    r"(?:\b(?:not|never|without|no[ ](?:need|plans?|reasons?|indications?|intention)[ ](?:to|for))\b|n['’]t\b)(?:[ ][\w'’]+){0,3}[ ]*$"
)
# what makes it no fact: "consider holding", "if SBP < 100, hold", "asked whether to stop"
_NO_FACT = re.compile(
    r"\b(?:if|unless|until|when|once|before|prior[ ]to|whether)\b|\b(?:denie[ds]|cannot|consider(?:ed|ing)?|may|might|could|would|should|advised|asked|wants?|wishes|hopes?|"
    r"request\w*|recommend\w*|refus\w+|risks?|options?|discuss\w*|reluctan\w+|approved|allowed|desirable|okay|must|wean|going[ ]to[ ]be|unsuccessful\w*)\b(?:[ ][\w'’]+){0,5}[ ]*$"
    r"|\b(?:unable|declin\w+|forg[eo]t\w*|fail(?:ed|s|ing)?)[ ]to[ ]*$"
)
_NOT_STARTED = re.compile(r"\b(?:not|never|no|without|wants?|wanted|if|unless|whether|may|might|could|would|should)\b|n['’]t\b")
# "was held on admission and restarted on 3/4", but not "held, and the diet was resumed"
_AGAIN = re.compile(
    rf"[^.;:\n{_DRUG}]{{0,60}}?(?:,|\b(?:and|but|then)\b)(?:[ ](?:and|but|then|it|was|were|has|have|been|later|subsequently|now|since|is|being))*[ ]"
    r"(?:re-?started|resumed|re-?initiated)(?=[ ]?(?:$|[.,;)\n]|\b(?:on|in|at|before|prior|after|when|once|upon|for|by|during|today|yesterday|this|last|with|post\w*)\b|\d))"
)
# it has not happened yet: "will stop", "plan to hold", "are going to discontinue"
_FUTURE = r"\b(?:will|['’]ll|shall|(?:is|are|am)[ ](?:to|going[ ]to|about[ ]to)|to[ ]be|plan(?:s|ned)?(?:[ ]is)?[ ](?:to|for)|planning[ ](?:to|on)|intend(?:s|ing)?[ ]to|scheduled[ ]to)\b"
_WILL = re.compile(rf"{_FUTURE}(?:[ ][\w'’]+){{0,3}}[ ]*$")
_WILL_BE = re.compile(_FUTURE)
# "stop aspirin tomorrow", but not "stopped aspirin in 2 days"
_ORDER = re.compile(r"(?:stop(?:ping)?|discontinu(?:e|ing)|d/?c|(?:with)?hold(?:ing)?|suspend(?:ing)?|pause|pausing|off)(?![\w'’])")
_LATER = re.compile(
    r"(?:[ ,](?:on|from|starting|beginning|effective|the|morning|of))*[ ](?:tomorrow|next[ ](?:week|month|visit|appointment|monday|tuesday|wednesday|thursday|friday|saturday|sunday)|in[ ](?:\d{1,2}|an?|one|two|three|four|five|six|seven|"
    r"ten|few|several)(?:[ ](?:more|few))?(?:[ ]?(?:-|to)[ ]?\d{1,2})?[ ](?:days?|weeks?|months?))\b"
)
_NOW = re.compile(r"[^.;:\n]{0,40}?\b(?:now|today|immediately|at[ ]this[ ](?:time|point))\b")  # "will hold aspirin for now"
_FROM = re.compile(rf"[^.;:\n{_DRUG}]{{0,60}}?\b(?:from|starting)[ ](?:tomorrow|tmrw|tmw|tom|today|tonight)\b")  # "stop A, B from tomorrow"
# "hold if SBP < 100", "stop 5 days before surgery"
_CONDITION = re.compile(r"[^.;:\n]{0,60}?\b(?:if|unless|prior[ ]to|before|for[ ](?:sbp|dbp|bp|map|hr|rr|pulse|systolic|heart|sedation|inr))\b")


def course_of(text: str, start: int, end: int, others: Sequence[tuple[int, int]] = ()) -> str | None:
    """Return the course of a drug, as a code of FHIR's MedicationStatement.status, or `KEPT`; None if the words around it do not say it.

    Args:
        text: the note.
        start: offset of the drug, or of its dose if that is before it.
        end: offset of the end of the drug and its dose.
        others: (start, end) of the drugs near it, with their doses.
    """
    before, after = _shown(text, max(start - _FAR, 0), start, others), _shown(text, end, end + _FAR, others)
    ends = [found.end() for found in _CLAUSE.finditer(before)]
    clause = before[ends[-1] if ends else 0 :]
    earlier = next((found for found in reversed(list(_BEFORE.finditer(clause))) if _GAP.fullmatch(clause, found.end())), None)
    later = _AFTER.match(after)
    if later is not None and _course(later) == ACTIVE and _NOT_STARTED.search(clause):
        later = None
    # what is said after a list counts for all its drugs, but not for the first one in "continue lisinopril, metoprolol stopped"
    if later is not None and (earlier is None or _DRUG not in later[0] or _DRUG in clause[earlier.end() :]):
        course, future = _course(later), _WILL_BE.search(later[0]) is not None
        if course == ACTIVE:
            return ACTIVE if not future else KEPT if _said(later).startswith("continue") else INTENDED
        if _AGAIN.match(after, later.end()):
            return ACTIVE
        if _CONDITION.match(after, later.end()):
            return None
        future = future and not _NOW.match(after, later.end())
        return KEPT if future or (_ORDER.match(_said(later)) and _LATER.match(after, later.end())) else course
    if earlier is None or _NO_FACT.search(clause, 0, earlier.start()):
        return None
    course, future = _course(earlier), _WILL.search(clause, 0, earlier.start()) is not None
    halted = course in (STOPPED, ON_HOLD)
    if _NEGATED.search(clause, 0, earlier.start()):
        return KEPT if halted else None
    if not halted:
        return KEPT if future and _said(earlier).startswith("continu") else course
    if _AGAIN.match(after):
        return ACTIVE
    if _CONDITION.match(after) or (_DRUG in clause[earlier.end() :] and _FROM.match(after)):
        return None
    future = future and not _NOW.match(after)
    return KEPT if _ORDER.match(_said(earlier)) and (future or _LATER.match(after)) else course


def _said(found: re.Match[str]) -> str:
    """Return the words that name a course."""
    return found[str(found.lastgroup)]


def _course(found: re.Match[str]) -> str:
    return str(found.lastgroup).replace("_", "-")


def _shown(text: str, start: int, end: int, others: Sequence[tuple[int, int]]) -> str:
    """Return a part of a note in lower case, with a sign for each other drug, and single spaces."""
    parts, at = [], start
    for first, last in sorted(others):
        if at <= first and last <= end:
            parts += [text[at:first], _DRUG]
            at = last
    return _HEADING.sub(r"\1 ", re.sub(r"[ \t]+", " ", "".join([*parts, text[at:end]]).lower()))
