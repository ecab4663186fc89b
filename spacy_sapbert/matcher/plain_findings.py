"""Plain words that are findings only with certain words around them: "awake" in "awake, alert", "complications" in "no complications"."""

from __future__ import annotations

import re

_READ = 48  # characters before and after a word that are read
_STATE = (
    r"(?:active|alert|appropriate|arousable|attentive|awake|calm|comfortable|conscious|conversant|cooperative|drowsy|interactive|lethargic|oriented|orientated|pleasant|"
    r"responsive|in[ \t]+(?:no|mild|moderate|severe)|no[ \t]+(?:acute|apparent)|NAD)"
)
_MORE = r"(?:fully|much|now|quite|still|very|wide)"
_JOIN = r"(?:[ \t]*[,;/&][ \t]*(?:(?:and|but)[ \t]+)?|[ \t]+(?:and|but)[ \t]+)"
_IS = r"(?:appears?|appeared|are|be|became|becomes|being|is|remains?|remained|was|were|when|while)"
_STATE_BEFORE = re.compile(rf"\b{_STATE}{_JOIN}(?:{_MORE}[ \t]+)?$|\b{_IS}[ \t]+(?:{_MORE}[ \t]+)*$", re.IGNORECASE)
_STATE_AFTER = re.compile(rf"{_JOIN}(?:{_MORE}[ \t]+)*{_STATE}\b", re.IGNORECASE)
_STATE_FIRST = re.compile(rf"(?:^|[:\n]|[.][ \t,])[ \t,]*(?:{_MORE}[ \t]+)*$", re.IGNORECASE)  # "General: alert."
_STATE_ALONE = re.compile(r"[ \t]*(?:[.,;]|\n|$)")
# "awake all night" is no state of consciousness, "alert to danger" none either
_OTHER_STATE = re.compile(r"[ \t]+(?:all|at|craniotom\w+|during|for|fatigue|in[ \t]+the|most|intubation|since|through\w*|to|until)\b", re.IGNORECASE)
_DEGREE = (
    r"(?:acute|additional|anesthetic|apparent|early|evident|further|immediate|intra-?operative|known|late|major|new|obvious|operative|other|peri-?operative|post-?operative|"
    r"procedural|serious|significant|surgical|such|unexpected)"
)
_DENIED_BEFORE = re.compile(rf"\b(?:any|denie[sd]|no|nor|without|w/o)[ \t]+(?:{_DEGREE}[ \t]+(?:(?:and|or)[ \t]+)?){{0,3}}$", re.IGNORECASE)
NONE_AFTER = re.compile(r"[ \t]*:[ \t,]*(?:nil|none|no(?=[ \t]*(?:[.,;\n]|$)))\b", re.IGNORECASE)

PLAIN_FINDINGS = frozenset(["alert", "awake", "complication", "complications"])


def is_finding(text: str, start: int, end: int) -> bool:
    """Return whether a word of `PLAIN_FINDINGS` is a finding where it stands.

    - "awake" and "alert" after "is", beside another state ("alert and oriented"), or as the first word of a sentence or under a heading ("General: alert.").
    - "complications" that are denied or asked for ("no immediate complications", "any complications"), and the heading "COMPLICATIONS: None".

    Args:
        text: the text.
        start: first character of the word.
        end: the character after it.
    """
    word = text[start:end].lower()
    if word not in PLAIN_FINDINGS:  # "complicating", which is corrected to one of them
        return False
    if word.startswith("complication"):
        return _DENIED_BEFORE.search(text, max(0, start - 2 * _READ), start) is not None or NONE_AFTER.match(text, end) is not None
    if _OTHER_STATE.match(text, end):
        return False
    if _STATE_BEFORE.search(text, max(0, start - _READ), start) or _STATE_AFTER.match(text, end):
        return True
    return _STATE_FIRST.search(text, max(0, start - _READ), start) is not None and _STATE_ALONE.match(text, end) is not None
