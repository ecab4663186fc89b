"""Score the mentions that a recogniser finds: by exact span and by overlap, for each kind and for all kinds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from spacy.tokens import Doc

Mention = tuple[int, int, str]  # first token, one past the last token, kind


def score(gold: Sequence[Sequence[Mention]], found: Sequence[Sequence[Mention]], kinds: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return precision, recall and F1 in per cent for each kind, for "all", and for "any kind", which ignores the kinds.

    Exact: the same tokens and kind. Overlapping: a found mention is right if it shares a token with a gold mention of its kind, and a gold
    mention is found if a found mention of its kind shares a token with it.

    Args:
        gold: The gold mentions of each document.
        found: The found mentions of each document.
        kinds: Kinds to show.
    """
    kinds = list(kinds)
    counts = {kind: _count(gold, found, {kind}) for kind in kinds}
    counts["all"] = {name: sum(counts[kind][name] for kind in kinds) for name in counts[kinds[0]]}
    gold_without_kind, found_without_kind = (
        [[(start, end, "") for start, end, kind in some if kind in kinds] for some in side] for side in (gold, found)
    )
    counts["any kind"] = _count(gold_without_kind, found_without_kind, {""})
    return {
        kind: {
            "gold": row["gold"],
            "found": row["found"],
            "exact": _prf(row["exact"], row["found"], row["exact"], row["gold"]),
            "overlapping": _prf(row["found_right"], row["found"], row["gold_right"], row["gold"]),
        }
        for kind, row in counts.items()
    }


def _count(gold: Sequence[Sequence[Mention]], found: Sequence[Sequence[Mention]], kinds: set[str]) -> dict[str, int]:
    row = {"gold": 0, "found": 0, "exact": 0, "found_right": 0, "gold_right": 0}
    for wanted, given in zip(gold, found):
        mine, theirs = [m for m in wanted if m[2] in kinds], [m for m in given if m[2] in kinds]
        exact = set(mine)
        row["gold"] += len(mine)
        row["found"] += len(theirs)
        row["exact"] += sum(mention in exact for mention in theirs)
        row["found_right"] += sum(any(_overlap(a, b) for b in mine) for a in theirs)
        row["gold_right"] += sum(any(_overlap(a, b) for b in theirs) for a in mine)
    return row


def mentions_of(doc: Doc) -> list[Mention]:
    """Return the entities of a Doc as mentions."""
    return [(span.start, span.end, span.label_) for span in doc.ents]


def _overlap(one: Mention, other: Mention) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _prf(right_found: int, found: int, right_gold: int, gold: int) -> dict[str, float]:
    p, r = right_found / found if found else 0.0, right_gold / gold if gold else 0.0
    return {"p": round(100 * p, 1), "r": round(100 * r, 1), "f": round(200 * p * r / (p + r), 1) if p + r else 0.0}
