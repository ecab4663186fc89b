"""Split composite mentions: "breast and ovarian cancer" stands for "breast cancer" and "ovarian cancer"."""

from __future__ import annotations

import re
from collections.abc import Sequence

_OF = re.compile(r"(?P<head>[^\W\d_][\w-]*) of (?:both )?(?:the )?(?P<first>[\w -]+?) (?:and|or) (?:the )?(?P<second>[\w -]+)")
_LIST = re.compile(r"(?P<before>[\w, -]+?),? (?:and/or|and|or) (?:the )?(?P<last>[\w-]+) (?P<shared>.+)")
_SLASH = re.compile(r"(?P<before>(?:.* )?)(?P<left>[^\s/]+)/(?P<right>[^\s/]+)(?P<after>(?: .*)?)")


def parts(mention: str, count: int) -> list[str] | None:
    """Return the `count` mentions that a composite mention stands for; None if no rule gives this number.

    The first rule that fits is used: `X of A and B`; `A, B and C X`, where C is one word and everything after it is shared; `A/B X`; one word for
    each part.

    Source:
        Based on the preprocessing of BioSyn (Sung et al., ACL 2020), which is based on D'Souza and Ng, ACL 2015.
    """
    found: list[str] = []
    if match := _OF.fullmatch(mention):
        found = [f"{match['head']} of {match['first']}", f"{match['head']} of {match['second']}"]
    elif match := _LIST.fullmatch(mention):
        items = [*match["before"].split(","), match["last"]]
        found = [f"{item.strip()} {match['shared']}" for item in items if item.strip()]
    elif (match := _SLASH.fullmatch(mention)) and "and/or" not in mention:
        found = [f"{match['before']}{side}{match['after']}".strip() for side in (match["left"], match["right"])]
    if not found:
        found = mention.split()
    return found if count > 1 and len(found) == count else None


def looked_up(mention: str, gold: Sequence[Sequence[str]]) -> tuple[list[str], list[str]]:
    """Return the mentions under which a mention is looked up, and its gold ids. For each of these mentions any of the ids is right.

    If there are ids of MeSH and OMIM, only those of MeSH count. A mention is looked up whole if no rule splits it into as many parts as it has ids.

    Args:
        mention: The mention, in lower case.
        gold: Its alternatives, each of one id or of several.
    """
    named = list(dict.fromkeys(concept_id for alternative in gold for concept_id in alternative))
    kept = [concept_id for concept_id in named if not concept_id.startswith("OMIM:")] or named
    return parts(mention, len(kept)) or [mention], kept
