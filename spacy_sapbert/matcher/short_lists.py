"""What short lists in notes leave out: "replace K + Mg" and "urine dip bld 3+ prot 1+"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .listed import Listed

_ELEMENTS = {"k": "potassium", "mg": "magnesium", "po4": "phosphate", "phos": "phosphate", "ca": "calcium", "na": "sodium"}
_ELEMENT = r"(?:K|Mg|PO4|Phos|phos|Ca|Na)\+{0,2}(?![\w/+-])"
_REPLACED = re.compile(
    rf"\b(?:[Rr]eplac(?:e[ds]?|ing)|[Rr]eplet(?:e[ds]?|ing)|[Ss]upplement(?:ed|ing|s)?|[Tt]op[ \t]+up|[Cc]orrect(?:ed|ing|s)?)[ \t]+(?:[a-z]{{2}}[ \t]+)?"
    rf"(?P<list>{_ELEMENT}(?:[ \t]*(?:,|\+|/|&|and|,[ \t]*and)[ \t]*{_ELEMENT}){{0,3}})"
)
_ONE = re.compile(r"(?<![A-Za-z])(?:K|Mg|PO4|Phos|phos|Ca|Na)(?![A-Za-z])")
# the result of a urine dipstick: substance -> the finding
_FOUND = {
    "bl": "hematuria",
    "bld": "hematuria",
    "blood": "hematuria",
    "prot": "proteinuria",
    "protein": "proteinuria",
    "gluc": "glycosuria",
    "glucose": "glycosuria",
    "ket": "ketonuria",
    "ketones": "ketonuria",
}
_DIP = re.compile(r"\b(?:urine[ \t]+dip\w*|dip(?:stick)?|urinalysis|u/?a)\b[^.\n]*", re.IGNORECASE)
_DIP_READ = 120  # characters after the name of the test that are read
_RESULT = re.compile(rf"(?<![\w/-])(?:{'|'.join(_FOUND)})[ \t]*[:=]?[ \t]*(?:[1-4]\+|\+{{1,4}})(?![\w+])", re.IGNORECASE)


def short_lists(text: str) -> Iterator[Listed]:
    """Yield the items of short lists with their names.

    - Elements that are replaced: "replace K + Mg" is potassium and magnesium.
    - Results of a urine dipstick: "bld 3+" is hematuria, "prot ++" proteinuria.

    Args:
        text: the note.
    """
    for replaced in _REPLACED.finditer(text):
        for one in _ONE.finditer(text, replaced.start("list"), replaced.end("list")):
            yield Listed(one.start(), one.end(), _ELEMENTS[one[0].lower()])
    for dip in _DIP.finditer(text) if "+" in text else ():
        for result in _RESULT.finditer(text, dip.start(), min(dip.end(), dip.start() + _DIP_READ)):
            name = _FOUND[re.split(r"[ \t:=\d+]", result[0], maxsplit=1)[0].lower()]
            yield Listed(result.start(), result.end(), name)
