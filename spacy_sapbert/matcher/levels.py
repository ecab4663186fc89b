"""Levels of the spine: "L5 root" is a nerve root and no vertebra, the "S2" of a cyst no heart sound."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .listed import Listed

_ROOT = re.compile(
    r"\b(?P<level>[CTLS]\d{1,2})[ \t]+(?:nerve[ \t]+)?roots?\b"
    r"(?![ \t]+(?:avulsion|block|compression|decompression|entrapment|impingement|injection|injury|irritation|lesion|pain|sheath|sleeve))"
)
_CYST = r"(?:(?:arachnoid|meningeal|perineural|sacral|synovial|Tarlov|tarlov)[ \t]+)?(?:[Cc]ysts?|[Tt]arlov)"
_SACRAL = re.compile(rf"\b{_CYST}[ \t]+(?:(?:at|in|of)[ \t]+)?(?:the[ \t]+)?(?P<after>S[1-5])\b|\b(?P<before>S[1-5])[ \t]+{_CYST}\b")


def levels(text: str) -> Iterator[Listed]:
    """Yield the nerve roots and the sacral segments that a text names by their level. Of a root, its own name comes before that of any root.

    Args:
        text: the note.
    """
    for root in _ROOT.finditer(text) if "root" in text else ():
        for name in (f"{root['level']} nerve root", "spinal nerve root"):
            yield Listed(root.start(), root.end(), name)
    for found in _SACRAL.finditer(text) if "yst" in text or "arlov" in text else ():
        place = "after" if found["after"] else "before"
        yield Listed(*found.span(place), f"{found[place]} vertebra")
