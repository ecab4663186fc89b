"""Show where a system is right and where it fails: accuracy by group of mentions, and the most frequent wrong answers with a reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from spacy_sapbert.doc.abbreviations import is_short
from spacy_sapbert.kb.concept import normalise

from ..corpora.mention import GoldMention
from .metrics import Floats1d

MOST = 30  # number of confusions that are kept, the most frequent ones
NAMED = 5  # number of gold names that are shown for a confusion
LONG = 4  # number of words from which mentions are in one group
SHARE = 1e-9  # a mention counts as right if its probability of being right is this near to 1
_WORD = re.compile(r"\w+")


def groupings(
    mentions: Sequence[GoldMention], queries: Sequence[Sequence[str]], names: Collection[str], train: Collection[str] | None = None
) -> dict[str, list[str]]:
    """Put mentions into groups: exact match or not, seen in training or not, abbreviation or not, number of words, type.

    Args:
        mentions: The mentions of a benchmark.
        queries: The texts that are looked up for each mention, normalised; several for a composite that is split.
        names: Names of the dictionary, normalised.
        train: Normalised mentions of the corpus's train part; None if it has none; then the grouping "seen" is left out.

    Returns:
        Grouping -> the group of each mention. "kind" is the mention's semantic type, if the corpus gives types.
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


def by_group(groups: dict[str, list[str]], at_1: Floats1d, at_5: Floats1d) -> dict[str, dict[str, dict[str, Any]]]:
    """Compute the accuracy of each group.

    Args:
        groups: Grouping -> the group of each mention.
        at_1: (m,) probability that a mention is right at 1.
        at_5: (m,) probability that it is right at 5.

    Returns:
        Grouping -> group, in the order of their names -> n, at1 and at5, the last two in per cent.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for grouping, of in groups.items():
        rows: dict[str, list[int]] = {group: [] for group in sorted(set(of))}
        for i, group in enumerate(of):
            rows[group].append(i)
        found[grouping] = {
            group: {"n": len(at), "at1": 100.0 * float(at_1[at].mean()), "at5": 100.0 * float(at_5[at].mean())} for group, at in rows.items()
        }
    return found


class WrongFirst(NamedTuple):
    """A first candidate that is wrong, or that is right only if a tie is resolved by luck.

    Attributes:
        label: Its label in the dictionary; in a tie, the first wrong one.
        score: Its score, at most 1.0: a cosine, or for a stage of the linker the score that ranks it.
        query: The text that was looked up.
        equal: Whether a right candidate has the same score.
    """

    label: int
    score: float
    query: str
    equal: bool


class DictionaryView(NamedTuple):
    """The parts of a dictionary that the breakdown needs.

    Attributes:
        entry: Label -> id and preferred name.
        names: Label -> its normalised names.
    """

    entry: Callable[[int], tuple[str, str]]
    names: Callable[[int], list[str]]


def confusions(
    mentions: Sequence[GoldMention],
    wanted: Sequence[frozenset[int]],
    answerable: Sequence[bool],
    firsts: Sequence[WrongFirst | None],
    known: DictionaryView,
) -> list[dict[str, Any]]:
    """Count the wrong answers. Equal mentions with the same gold and the same answer are counted together.

    Args:
        mentions: The mentions of a benchmark.
        wanted: The gold labels of each mention that are in the dictionary.
        answerable: Whether the dictionary has a right answer for each mention.
        firsts: The wrong first candidate of each mention; None if it is right or nothing was found.
        known: The dictionary.

    Returns:
        The most frequent ones, at most MOST, each with mention, gold (ids), gold_names, predicted (id), predicted_name, score, count, why.
    """
    counted: dict[tuple[str, tuple[str, ...], int], list[int]] = {}
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


def why(mention: GoldMention, wanted: frozenset[int], answerable: bool, first: WrongFirst, known: DictionaryView) -> str:
    """Return the first reason that holds for a wrong answer.

    Reasons are facts about the mention, the gold and the dictionary, not guesses about what the system did. "broader or narrower": the preferred
    name of one concept has all words of the other's preferred name, and more words; the text that was looked up counts as a name of the gold here.
    Other names are not compared, because nearly every pair would then have this reason ("tumor" is in "tumor lysis syndrome").

    Args:
        mention: The mention.
        wanted: Its gold labels that are in the dictionary.
        answerable: Whether the dictionary has a right answer.
        first: The wrong answer.
        known: The dictionary.
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


def _words(name: str) -> frozenset[str]:
    return frozenset(_WORD.findall(normalise(name)))
