"""Oxygen saturations on air: "OA" in "sats 98% OA" is room air, and no osteoarthritis."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .listed import Listed

_SATURATION = re.compile(
    r"\b(?:SpO2|SaO2|O2|[Ss]ats?|SATS?|[Ss]aturations?)\b[ \t]{0,3}(?:[:=]|of|are|is|was)?[ \t]{0,3}\d{2,3}(?:-\d{2,3})?[ \t]?%?[ \t]?\(?(?:on[ \t])?(?P<place>OA)\b"
)


def on_air(text: str) -> Iterator[Listed]:
    """Yield each "OA" after an oxygen saturation.

    Args:
        text: the note.
    """
    for found in _SATURATION.finditer(text) if "OA" in text else ():
        yield Listed(*found.span("place"), "room air")
