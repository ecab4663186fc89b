"""The sign "#" for a fracture, beside its site: "# L distal radius" is a fracture of the distal radius, "T12 wedge #" a wedge fracture."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .listed import Listed

_MOST = 3  # most words of a site
_SIDES = r"(?:(?P<side>left|right|l|r|lt|rt|both|bilateral|bilat)[ \t]+)?"
# "#1" is the number of an item; "#" at the beginning of a line heads a problem, too: "# Pneumonia", "# Left knee pain"
_BEFORE = re.compile(
    rf"(?<![\w#])#[ \t]?{_SIDES}(?P<site>[a-z]{{3,}}(?:[ \t]+(?:of[ \t]+(?:the[ \t]+)?)?[a-z]{{3,}}){{0,{_MOST - 1}}})", re.IGNORECASE
)
_SIGN = re.compile(r"(?<=[\w \t])#(?![\w#]|[ \t]*\d)")  # not "tooth # 14"
_SITE = re.compile(rf"(?<![\w-])[a-z]{{3,}}(?:[ \t]+[a-z]{{3,}}){{0,{_MOST - 1}}}[ \t]*$", re.IGNORECASE)
_READ = 40  # characters before a sign that are read
# what follows a fracture at the beginning of a line, where "# Knee" or "# Shoulder and neck pain" may head a problem
_SURE = re.compile(r"[ \t]+(?:l|r|lt|rt|left|right|post|s/p|from|treated|managed|healed|healing|fixed)\b", re.IGNORECASE)
_LETTER = re.compile(r"[lr]t?", re.IGNORECASE)  # the short form of a side
_WORD = re.compile(r"[a-z]+", re.IGNORECASE)
# what may follow a site; after another word, as in "# Left knee pain", "#" heads a problem
_ENDS = re.compile(
    r"[ \t]*(?:$|[^\w\s:]|\n|\d|(?:l|r|lt|rt|left|right|and|w|with|on|in|at|after|post|s/p|from|seen|for|due|is|was|treated|managed|healed|healing|fixed|plan)\b)",
    re.IGNORECASE,
)


def hash_fractures(text: str) -> Iterator[Listed]:
    """Yield what may be a fracture that is written with "#", with its name. A longer one comes before a shorter one that begins at the same place.

    Args:
        text: the note.
    """
    if "#" not in text:
        return
    for found in _BEFORE.finditer(text):
        ends = _SURE if _may_head_a_problem(text, found) else _ENDS
        words = list(_WORD.finditer(text, found.start("site"), found.end()))
        for last in reversed(words):
            if ends.match(text, last.end()) is None:
                continue
            site = text[found.start("site") : last.end()]
            yield Listed(found.start(), last.end(), f"{site} fracture")
            if " of " in site:
                yield Listed(found.start(), last.end(), f"fracture of {site}")
    for sign in _SIGN.finditer(text):
        before = _SITE.search(text, max(0, sign.start() - _READ), sign.start())
        if before is not None:
            for word in _WORD.finditer(text, before.start(), before.end()):
                yield Listed(word.start(), sign.end(), f"{text[word.start() : sign.start()].strip()} fracture")


def _may_head_a_problem(text: str, found: re.Match[str]) -> bool:
    """Return whether "#" may head a problem: it begins a line, and neither a side in short form ("# L wrist") nor a part of a bone ("# neck of femur") follows."""
    line = text[max(text.rfind("\n", 0, found.start()) + 1, found.start() - _READ) : found.start()]
    is_short = found["side"] is not None and _LETTER.fullmatch(found["side"]) is not None
    return not line.strip(" \t-*.0123456789") and not is_short and " of " not in found["site"]
