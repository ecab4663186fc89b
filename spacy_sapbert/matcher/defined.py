"""Abbreviations that a text defines right after a name: "VHL" in "von Hippel-Lindau disease (VHL)"."""

from __future__ import annotations

import re

from ..doc.abbreviations import definitions
from .joining import Match, Places

_IN_BRACKETS = re.compile(r"\s*[(\[,]\s*([^\s()\[\]]{2,12}?)\s*[,;)\]]")  # an abbreviation after its long form: "(SF)", or "(long form, SF)"


def with_defined(matches: list[Match], text: str, skipped: Places, *, is_english: bool) -> list[Match]:
    """Add all places of an abbreviation that the text defines right after a name that was found.

    Args:
        matches: the names that were found, in order.
        text: the text.
        skipped: places (characters) in which nothing is looked for.
        is_english: whether the text is in English.
    """
    if "(" not in text and "[" not in text:
        return matches
    defined = definitions(text, english=is_english)
    behind = ((match.label, _IN_BRACKETS.match(text, match.end)) for match in matches)
    forms = {bracket[1]: label for label, bracket in behind if bracket is not None and bracket[1] in defined}
    if not forms:
        return matches
    each = "|".join(map(re.escape, sorted(forms, key=len, reverse=True)))
    taken = Places([*((match.start, match.end) for match in matches), *skipped])
    every = re.finditer(rf"(?<!\w)(?:{each})(?!\w)", text)
    return sorted([*matches, *(Match(*found.span(), forms[found[0]]) for found in every if not taken.overlap(*found.span()))])
