"""Sutures with their size: "7-0 Vicryl" is one mention, whatever the size."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .listed import Listed

_SIZED = re.compile(
    r"(?<![\w./–-])\d{1,2}-0[ \t]+(?P<kind>[A-Za-z]{3,})\b(?:[ \t]+(?:cat)?gut\b)?(?:[ \t]+(?:sutures?|stitch(?:es)?)\b(?![ \t]+ligat))?"
)
_SIZES = ("0", "2-0", "3-0", "4-0")  # usual sizes, with which a name of a suture may be stored
_MATERIALS = frozenset(["gut", "nylon", "polyester", "polypropylene", "silk", "steel"])  # also names of a substance or a part of the body
_MADE_OF = {"dacron": "polyester"}  # a name of a graft, too


def sutures(text: str) -> Iterator[Listed]:
    """Yield sutures with their size: "7-0 Vicryl", "10-0 nylon suture". Their names have another size, or none.

    Args:
        text: the note.
    """
    for found in _SIZED.finditer(text):
        kind = found["kind"]
        material = _MADE_OF.get(kind.lower(), kind.lower())
        for name in (*(f"{size} {kind}" for size in _SIZES), *([f"{material} suture"] if material in _MATERIALS else [])):
            yield Listed(found.start(), found.end(), name)
