"""Where "AF" is a rhythm of the heart, and no absence of fever: "AF controlled", "remains in AF", "AF since 2010"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .listed import Listed

_NEAR = 24  # characters before it that are read
_AF = re.compile(r"(?<![^\W_])AF(?![^\W_])")
_BEFORE = re.compile(
    r"(?:\b(?:h/o|hx|hx of|history of|PMH)[ \t:-]*|\b(?:(?:(?:back|currently|goes|going|is|now|remain(?:s|ed|ing)?|still|was|went)[ \t]+)?(?:in|into)|asymptomatic|chronic|controlled|existing|fast|known|long[ -]?standing|"
    r"new|new-?onset|(?:non-?)?valvular|paroxysmal|permanent|persist(?:ent|ing)|post-?op(?:erative)?|rapid|recurrent|refractory|slow|symptomatic|uncontrolled|underlying)[ \t]+)$",
    re.IGNORECASE,
)
_CARE = (
    r"(?:anti-?coagul|cardiover|(?:under[ \t]+)?(?:good[ \t]+|poor[ \t]+)?(?:(?:rate|rhythm)[ \t-]*)?control(?:led)?\b|diagnosed|managed|treated|uncontrolled|"
    r"(?:rate|rhythm)s?[ \t-]+(?:is[ \t]+)?(?:\d|well|poorly|under))"
)
_AFTER = re.compile(
    # after a comma, what is treated may be something else: "AF, treated with ceftriaxone", "AF, well controlled pain"
    r"(?![ \t]*,[ \t]*(?:managed|treated)\b|[ \t]*,[ \t]*(?:[a-z]+[ \t]+)?controlled[ \t]+(?!by|on|with)[a-z])"
    r"[ \t]*(?:[,:(–-][ \t]*)?(?:(?:and|&)[ \t]+[A-Z]{2,4}[ \t]+)?(?:(?:adequately|better|currently|has[ \t]+been|is|now|poorly|previously|remains|was|well|with)[ \t-]+){0,3}"
    rf"{_CARE}|[ \t]*(?:\(|,)?[ \t]*(?:since|dx|diagnosed|from)[ \t]+(?:19|20)\d\d\b|[ \t]+ablation",
    re.IGNORECASE,
)


def rhythms(text: str) -> Iterator[Listed]:
    """Yield each "AF" that is an atrial fibrillation by the words beside it.

    Args:
        text: the note.
    """
    for found in _AF.finditer(text):
        start, end = found.span()
        if _AFTER.match(text, end) or _BEFORE.search(text, max(0, start - _NEAR), start):
            yield Listed(start, end, "atrial fibrillation")
