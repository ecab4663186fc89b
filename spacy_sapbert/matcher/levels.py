"""Levels of the spine: "L5 root" is a nerve root and no vertebra, the "S2" of a cyst no heart sound, "L5-S1" the level between two vertebrae."""

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


# -- bones and the levels between them ----------------------------------------------------------------------------------

_SPINE = [*(f"C{n}" for n in range(1, 8)), *(f"T{n}" for n in range(1, 13)), *(f"L{n}" for n in range(1, 6)), "S1"]
_LEVEL = re.compile(r"[CTL]\d")
_FIRST_LEVEL = 1  # index of C2 in `_SPINE`: between C1 and C2 is no disc
_PAIR = re.compile(r"(?<![\w./–-])(?P<first>[CTL]\d{1,2})(?P<sign>[ \t]?[-–/][ \t]?)(?P<part>[CTLS]?)(?P<number>\d{1,2})(?![\w/%]|[.–-]\w)")
_BONE = re.compile(r"(?<![\w./–-])(?:C[1-7]|T(?:1[0-2]|[1-9]))(?![\w/%]|[.–-]\w)")
_OF_NERVE = re.compile(
    r"[ \t-]+(?:cells?\b|cord|dermatom|distribution|flair|(?:hyper|hypo)(?:a?esthe|alge|intens|reflex)|images?\b|lymph|myotom|nerves?\b|neurolog|paraplegi|prolong|"
    r"quadriplegi|radicul|roots?\b|sensory|sequenc|signal|spinal cord|tetraplegi|weighted)",
    re.IGNORECASE,
)
_SPINAL = (
    r"anterolisthesis|bur?st|cages?|corpectom\w+|dis[ck]s?|disc?ectom\w+|foramin\w+|fusion|fused|instrumented|kyphoplast\w+|kyphosis|lamin\w+|pedicles?|plates?|"
    r"retrolisthesis|rods?|scoliosis|screws?|spine|spinous|spondyl\w+|vertebra\w*"
)
_REGIONS = (  # "cervical cancer", "thoracic surgery" and "lumbar puncture" are not about vertebrae
    r"cervical(?![ \t]+(?:adenopath|biops|cancer|carcinoma|cytolog|dysplasia|intraepithelial|lymph|motion|mucus|node|os\b|polyp|smear))|lumbar(?![ \t]+puncture)|"
    r"thoracic(?![ \t]+(?:aort|surg))"
)
_OF_SPINE = re.compile(rf"\b(?:{_SPINAL}|{_REGIONS})\b", re.IGNORECASE)
_OF_IMAGE = re.compile(r"\b(?:flair|hyperintens\w+|hypointens\w+|images?|sequences?|signal|weighted)\b", re.IGNORECASE)
_DOUBTFUL = frozenset(["C3", "C4", "T1", "T2", "T3", "T4"])  # complement, thyroid hormones, tumour stages and images have these letters, too
_OF_BONE = re.compile(rf"\b(?:{_SPINAL})\b", re.IGNORECASE)  # near a doubtful level, "cervical" alone says too little
_IS_BONE = re.compile(rf"[ \t]+(?:{_SPINAL}|compression|fractures?)\b", re.IGNORECASE)
_CANCER = r"(?:\w*carcinoma|cancer|melanoma|sarcoma|tumou?r)"
_OTHER_BEFORE = re.compile(rf"\bstag(?:e|ed|ing)\b[^.;\n]{{0,12}}$|\b{_CANCER}[ \t,(:-]*$", re.IGNORECASE)
_CANCER_AFTER = re.compile(rf"[ \t]+(?:(?!(?:and|due|for|from|mets|metast\w+|of|to|with)\b)[a-z-]+[ \t]+){{0,3}}{_CANCER}\b", re.IGNORECASE)
# after one level: "T3 120", "T4: 8.1", "C3 and C4 low", but not "C3 2 mm"
_VALUE_AFTER = re.compile(
    r"[ \t]*(?:[:=]|\b(?:at|is|of|was)\b)?[ \t]*[<>]?\d+(?:\.\d+)?(?![\d.]|[ \t]*(?:cm|levels?|mm)\b)|[^.;\n]{0,20}?\b(?:elevated|high|low|normal)\b",
    re.IGNORECASE,
)
_NEAR = 60  # characters beside a level that are read


def vertebrae(text: str) -> Iterator[Listed]:
    """Yield the levels between two vertebrae that follow each other ("L5-S1", "C3-4"), and cervical and thoracic vertebrae ("T12").

    Every vertebra but those from T7 to T12 counts only with a word of the spine near it; a doubtful one ("T3"), and a pair with one, only with a bone, a disc
    or an operation on them. Vertebrae of the lumbar spine have no other meaning, and are names by themselves.

    Args:
        text: the note.
    """
    if _LEVEL.search(text) is None:
        return
    for pair in _PAIR.finditer(text):
        first, second = pair["first"], (pair["part"] or pair["first"][0]) + pair["number"]
        at = _SPINE.index(first) if first in _SPINE else -1
        if at < _FIRST_LEVEL or _SPINE[at + 1 : at + 2] != [second] or _OF_NERVE.match(text, pair.end()):
            continue
        if not {first, second} & _DOUBTFUL or _is_of_spine(text, *pair.span(), doubtful=True):
            yield Listed(pair.start(), pair.end(), f"{first}-{second} intervertebral level")
    for bone in _BONE.finditer(text):
        if _OF_NERVE.match(text, bone.end()) is not None:
            continue
        if _SPINE.index(bone[0]) >= _SPINE.index("T7") or _is_of_spine(text, *bone.span(), doubtful=bone[0] in _DOUBTFUL):
            yield Listed(bone.start(), bone.end(), f"{bone[0]} vertebra")


def _is_of_spine(text: str, start: int, end: int, *, doubtful: bool) -> bool:
    """Return whether words near a level, on its line, are about the spine, and not about images.

    Args:
        text: the note.
        start: first character of the level.
        end: the character after it.
        doubtful: whether the level may be a laboratory value or a stage. Then a bone, a disc or an operation on them must be near, and no value and no tumour.
    """
    before = text[max(0, start - _NEAR) : start].rpartition("\n")[2]
    after = text[end : end + _NEAR].partition("\n")[0]
    if doubtful and _IS_BONE.match(after) is None:
        is_value = _BONE.fullmatch(text, start, end) is not None and _VALUE_AFTER.match(after) is not None
        if is_value or _OTHER_BEFORE.search(before) or _CANCER_AFTER.match(after):
            return False
    words = _OF_BONE if doubtful else _OF_SPINE
    return any(words.search(part) for part in (before, after)) and not (
        text[start] == "T" and any(_OF_IMAGE.search(part) for part in (before, after))
    )
