"""Where a system is right and where it fails: mentions in groups, and its most frequent wrong firsts with a reason. No systems, no output."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Tuple

from spacy_sapbert.doc.abbreviations import is_short
from spacy_sapbert.kb.concept import normalise

from ..corpora.mention import GoldMention
from .metrics import Floats1d

MOST = 30  # confusions that are kept, the most frequent
NAMED = 5  # gold names of one
LONG = 4  # words: so many and more are one group
SHARE = 1e-9  # a mention that is right with a probability this near to 1 is right
_WORD = re.compile(r"\w+")


def groupings(
    mentions: Sequence[GoldMention], queries: Sequence[Sequence[str]], names: Collection[str], train: Optional[Collection[str]] = None
) -> Dict[str, List[str]]:
    """Grouping -> the group of each mention.

    queries: what is looked up for each mention, normalised (several for a composite that is split). names: of the dictionary, normalised.
    train: the normalised mentions of the corpus's train part; None: it has none, so that no mention is seen or unseen. kind is the
    mention's semantic type, where the corpus gives one.
    """
    groups = {"exact": ["exact" if all(query in names for query in parts) else "inexact" for parts in queries]}
    if train is not None:
        groups["seen"] = ["seen" if normalise(mention.text) in train else "unseen" for mention in mentions]
    groups["abbreviation"] = ["abbreviation" if is_short(mention.text) else "other" for mention in mentions]
    groups["length"] = [_length(mention.text) for mention in mentions]
    kinds = [mention.kind for mention in mentions]
    if any(kinds):
        groups["kind"] = [kind or "none" for kind in kinds]
    return groups


def _length(text: str) -> str:
    words = max(1, len(text.split()))
    return f"{LONG}+" if words >= LONG else str(words)


def by_group(groups: Dict[str, List[str]], at_1: Floats1d, at_5: Floats1d) -> Dict[str, Dict[str, Dict[str, Any]]]:
    """Grouping -> group, in the order of their names -> n, at1 and at5 in per cent. at_1, at_5 (m,): probabilities of being right."""
    found: Dict[str, Dict[str, Dict[str, Any]]] = {}
    for grouping, of in groups.items():
        rows: Dict[str, List[int]] = {group: [] for group in sorted(set(of))}
        for i, group in enumerate(of):
            rows[group].append(i)
        found[grouping] = {
            group: {"n": len(at), "at1": 100.0 * float(at_1[at].mean()), "at5": 100.0 * float(at_5[at].mean())} for group, at in rows.items()
        }
    return found


class WrongFirst(NamedTuple):
    """A first that is not, or not surely, right. label: of the dictionary; of equal ones, the first that is wrong. score: at most 1.0.
    query: what was looked up. equal: whether a right one has the same score."""

    label: int
    score: float
    query: str
    equal: bool


class DictionaryView(NamedTuple):
    """Of a dictionary. entry: label -> id and preferred name. names: label -> its normalised names."""

    entry: Callable[[int], Tuple[str, str]]
    names: Callable[[int], List[str]]


def confusions(
    mentions: Sequence[GoldMention],
    wanted: Sequence[FrozenSet[int]],
    answerable: Sequence[bool],
    firsts: Sequence[Optional[WrongFirst]],
    known: DictionaryView,
) -> List[Dict[str, Any]]:
    """The most frequent wrong firsts, equal mentions with the same gold and prediction counted together.

    wanted: the gold labels of each mention that are in the dictionary. firsts: None for a mention that is right or for which nothing was
    found. Gives dicts with mention, gold (ids), gold_names, predicted (id), predicted_name, score, count, why.
    """
    counted: Dict[Tuple[str, Tuple[str, ...], int], List[int]] = {}
    for i, (mention, first) in enumerate(zip(mentions, firsts)):
        if first is not None:
            ids = tuple(dict.fromkeys(concept_id for alternative in mention.gold for concept_id in alternative))
            counted.setdefault((normalise(mention.text), ids, first.label), []).append(i)
    found = []
    for (_, ids, label), at in sorted(counted.items(), key=lambda item: (-len(item[1]), item[0]))[:MOST]:
        first = firsts[at[0]]
        assert first is not None
        predicted, name = known.entry(label)
        found.append(
            {
                "mention": mentions[at[0]].text,
                "gold": list(ids),
                "gold_names": list(dict.fromkeys(known.entry(row)[1] for row in sorted(wanted[at[0]])[:NAMED])),
                "predicted": predicted,
                "predicted_name": name,
                "score": round(first.score, 4),
                "count": len(at),
                "why": why(mentions[at[0]], wanted[at[0]], answerable[at[0]], first, known),
            }
        )
    return found


def why(mention: GoldMention, wanted: FrozenSet[int], answerable: bool, first: WrongFirst, known: DictionaryView) -> str:
    """The first reason that holds: facts of the mention, the gold and the dictionary, not a guess at what the system did.

    "broader or narrower": all words of the preferred name of one concept stand, with others, in the other's; what was looked up stands
    for the gold too. With all names of the concepts nearly every pair would be: "tumor" is in "tumor lysis syndrome".
    """
    if not answerable:
        return "no gold id in the dictionary"
    theirs = set(known.names(first.label))
    ours = {name for row in wanted for name in known.names(row)}
    if first.equal and ours & theirs:
        return "same name, several concepts"
    if is_short(mention.text) and first.query == normalise(mention.text):
        return "abbreviation not resolved"
    if mention.gold and all(len(alternative) > 1 for alternative in mention.gold):
        return "composite"
    right = _words(known.entry(first.label)[1])
    if any(left and right and (left < right or right < left) for left in map(_words, [first.query, *(known.entry(row)[1] for row in wanted)])):
        return "broader or narrower"
    return "other"


def _words(name: str) -> FrozenSet[str]:
    return frozenset(_WORD.findall(normalise(name)))
