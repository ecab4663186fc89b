"""Findings whose heading is a part of their name: "NECK: Supple" is "supple neck", "UROLOGIC: No frequency" is "urinary frequency"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..context.sections import PART, Section, kind_of

KINDS = frozenset([PART, "exam"])  # kinds of headings that may be a part of a name: "Lungs:", "Mood:"
TITLES = frozenset(["anesthesia", "anaesthesia", "diet"])  # headings of other kinds that may be, too
# findings under the heading of a system that need it: "GI: Pain" is abdominal pain
GENERAL = frozenset(["bleeding", "cramp", "cramping", "cramps", "discomfort", "pain", "pains", "tenderness"])
READ = 400  # characters after a heading that are read
MAX_TITLE = 2  # words of a heading
MAX_WORDS = 3  # words of an item
# other forms of a heading, in names of findings
_FORMS = {
    "abd": ("abdomen", "abdominal"),
    "abdomen": ("abdominal",),
    "cardiac": ("heart",),
    "cardiovascular": ("heart",),
    "chest": ("lung",),
    "cv": ("heart",),
    "cvs": ("heart",),
    "ext": ("extremity",),
    "gastrointestinal": ("GI",),
    "genitourinary": ("urinary",),
    "gu": ("urinary",),
    "lymph": ("lymph node",),
    "lymphatic": ("lymph node",),
    "nodes": ("lymph node",),
    "pulmonary": ("lung",),
    "resp": ("lung",),
    "respiratory": ("lung",),
    "thoughts": ("thinking", "thought"),
    "urologic": ("urinary",),
    "urological": ("urinary",),
}
# headings of a system of the body, whose name is no part of the name of a finding below it: "stroke" under "CARDIOVASCULAR" is no "heart stroke"
SYSTEMS = frozenset(
    """
    cardiac cardiopulmonary cardiorespiratory cardiovascular cv cvs dermatologic endo endocrine ent gastrointestinal genitourinary gi gu gyn
    heme hematologic immunologic integument integumentary lymph lymphatic metabolic msk musculoskeletal neuro neurologic neurological psych
    psychiatric pulm pulmonary resp respiratory urologic urological vascular
    """.split()  # noqa: SIM905
)
_ITEM = re.compile(r"[^.,;:\n/()]+")
_JOIN = re.compile(r"\b(?:and|or)\b", re.IGNORECASE)
_FIRST = re.compile(r"\s*(?:(?:no|not|denies|denied|without|with|is|are|was|were|appears?|has|have|any)\s+)*", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_][\w'’-]*")
# two words that mean one thing: "dry" in "SKIN: Warm, dry and intact" is no dry skin
_WARM_AND_DRY = "warm and dry"
_NEAR = 12  # characters before "dry" that are read
_WITH = r"[ \t]*(?:[,/&+]|,?[ \t]*and\b)[ \t]*"
_WARM_BEFORE = re.compile(rf"\bwarm{_WITH}$", re.IGNORECASE)
_WARM_AFTER = re.compile(rf"{_WITH}warm\b", re.IGNORECASE)
# words that may follow the words of a name in an item: "supple without", "clear bilaterally"
_BEHIND = re.compile(
    r"\s*(?:$|\d|(?:and|appreciated|as|at|bilaterally|but|by|diffusely|for|from|heard|identified|in|is|noted|on|palpable|palpated|present|seen|throughout|to|today|via|was|"
    r"were|when|with|without)\b)",
    re.IGNORECASE,
)
_SUBJECT = re.compile(r"([^\W\d_]+)\s+(?:is|are|was|were|appears?)\b", re.IGNORECASE)  # what a sentence is about: "Fontanelles are soft and flat"
_PRONOUNS = frozenset(["it", "there", "this", "that", "these", "which", "they", "he", "she", "patient", "exam", "examination"])
_EXAMINATION = re.compile(r"(?:.* )?exam(?:ination)?|anatomy")  # these headings say nothing about what follows


class Headed(NamedTuple):
    """Words under a heading that may form a name together with it.

    Attributes:
        start: their first character.
        end: the character after their last one.
        names: the possible names, the most likely one first.
        of_system: whether the heading is one of `SYSTEMS`, and the words are none of `GENERAL`. A finding that is a name without it keeps this name.
    """

    start: int
    end: int
    names: tuple[str, ...]
    of_system: bool = False


def headed(text: str, sections: Sequence[Section]) -> Iterator[list[Headed]]:
    """Yield for each item under a heading what may be a name, the longest first: "supple neck" and "neck supple" for "NECK: Supple".

    Args:
        text: the note.
        sections: its sections.
    """
    for section in sections:
        title = " ".join(section.title.lower().split())
        if not title or len(title.split()) > MAX_TITLE or (title not in TITLES and kind_of(title) not in KINDS) or _EXAMINATION.fullmatch(title):
            continue
        forms = (title, *_FORMS.get(title, ()))
        stop = min(section.end, section.body + READ)
        line = text.find("\n", section.body, stop)
        for sentence in _ITEM.finditer(text, section.body, stop if line < 0 else line):
            first = sentence.start()
            for end in [*(join.start() for join in _JOIN.finditer(text, *sentence.span())), sentence.end()]:
                found = _item(text, first, end, forms)
                if found and not _is_about_other(text, sentence.start(), first, forms):
                    yield [one._replace(of_system=text[one.start : one.end].lower() not in GENERAL) for one in found] if title in SYSTEMS else found
                first = end + len(joined[0]) if (joined := _JOIN.match(text, end)) else end


def is_warm_and_dry(text: str, start: int, end: int) -> bool:
    """Return whether a word is "dry" with "warm" beside it, which together say that the skin is normal: "Warm, dry and intact"."""
    if text[start:end].lower() != "dry":
        return False
    return _WARM_BEFORE.search(text, max(0, start - _NEAR), start) is not None or _WARM_AFTER.match(text, end) is not None


def _is_about_other(text: str, start: int, end: int, forms: Sequence[str]) -> bool:
    """Return whether a sentence is, before one of its items, about something else than its heading: "flat" in "HEAD: Fontanelles are soft and flat"."""
    subject = _SUBJECT.search(text, start, end)
    return subject is not None and subject[1].lower() not in _PRONOUNS and all(subject[1].lower() not in form.lower() for form in forms)


def _item(text: str, start: int, end: int, forms: Sequence[str]) -> list[Headed]:
    begins = _FIRST.match(text, start, end)
    assert begins is not None  # it matches the empty text
    words = list(_WORD.finditer(text, begins.end(), end))[:MAX_WORDS]
    made = []
    for last in reversed(words):
        if _BEHIND.match(text[last.end() : end]) is None:
            continue
        item = text[words[0].start() : last.end()]
        if is_warm_and_dry(text, words[0].start(), last.end()):
            item = _WARM_AND_DRY
        made.append(Headed(words[0].start(), last.end(), tuple(name for form in forms for name in (f"{item} {form}", f"{form} {item}"))))
    return made
