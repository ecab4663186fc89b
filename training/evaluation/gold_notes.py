"""Read the gold notes of `examples/gold` (mentions with kind, concept and status), and judge a pipeline by them.

corpus, statuses = read_gold_notes(GOLD)
judged = judge(found_by(nlp, corpus, benchmark), corpus.mentions, statuses)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spacy_sapbert.errors import MissingFile
from spacy_sapbert.errors import fail as base_fail

from ..corpora import Corpus
from ..corpora.corpus import misfit
from ..corpora.mention import GoldMention
from ..paths import REPOSITORY
from .metrics import PredictedMention, is_right, overlapping

GOLD = REPOSITORY / "examples" / "gold" / "gold.jsonl"
ALL = "all"
Status = Mapping[str, bool]


def read_gold_notes(path: Path) -> tuple[Corpus, list[Status]]:
    """Read the gold notes.

    Args:
        path: The file of annotations, one JSON object per line. The texts are in the folder `notes` next to the file's folder.

    Returns:
        The corpus, and the status of each of its mentions. A mention's alternatives are its CUI and the ids of the same meaning in "also". A
        mention for which there is no concept has no alternatives.

    Raises:
        SapbertError: E401 (no such file), E560 (a line).
    """
    if not path.is_file():
        raise base_fail("E401", MissingFile, path=path)
    documents: dict[str, str] = {}
    mentions: list[GoldMention] = []
    statuses: list[Status] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            given = json.loads(line)
            note = str(given["note"])
            for one in given["mentions"]:
                ids = [one["cui"]] if one["cui"] else []
                gold = tuple((i,) for i in [*ids, *one.get("also", ())])
                mentions.append(GoldMention(note, one["start"], one["end"], one["text"], gold, one["kind"]))
                statuses.append(one["status"])
        except (ValueError, KeyError, TypeError) as error:
            raise misfit(path, number, line, "JSON with a note and its mentions: start, end, text, kind, cui, status") from error
        text = path.parent.parent / "notes" / f"{note}.txt"
        if not text.is_file():
            raise base_fail("E401", MissingFile, path=text)
        documents[note] = text.read_bytes().decode("utf-8")
    return Corpus(documents, mentions), statuses


def judge(found: Sequence[PredictedMention], gold: Sequence[GoldMention], statuses: Sequence[Status]) -> dict[str, dict[str, Any]]:
    """Count, by kind, how many gold mentions a pipeline finds, links correctly and gives the right status, and how many links are false.

    A gold mention is found if a found mention shares a character with it. It is right if one of these is linked to its concept. Its status is taken
    from the found mention that shares most characters with it, and is right if all its parts are right. A link is false if it is right for no gold
    mention: another concept is meant, no concept fits, or there is no gold mention at that place.

    Args:
        found: The mentions that the pipeline found, with status.
        gold: The gold mentions, with the knowledge base's own ids.
        statuses: Their statuses.

    Returns:
        Kind, or ALL -> counts: mentions; exact (found with the same span); found; with_concept (mentions that have a concept); right (of these);
        status (found mentions with the right status); links (by the kind of the linked concept); false (false links); parts (false links within
        a longer gold mention, such as "liver" in "liver lesion").
    """
    near: dict[str, list[PredictedMention]] = {}
    longer = {(mention.document, at): mention for mention in gold for at in range(mention.start, mention.end)}  # gold mentions do not overlap
    for one in found:
        near.setdefault(one.document, []).append(one)
    made: dict[str, dict[str, Any]] = {}
    right_links: set[PredictedMention] = set()
    keys = ("mentions", "exact", "found", "with_concept", "right", "status", "links", "false", "parts")

    def count(kind: str, key: str) -> None:
        for of in (ALL, kind):
            made.setdefault(of, dict.fromkeys(keys, 0))[key] += 1

    for mention, status in zip(gold, statuses):
        here = [one for one in near.get(mention.document, ()) if overlapping(one, mention)]
        right = [one for one in here if mention.gold and is_right(one, mention)]
        right_links.update(one._replace(status=None) for one in right)
        count(mention.kind, "mentions")
        if mention.gold:
            count(mention.kind, "with_concept")
        if any((one.start, one.end) == (mention.start, mention.end) for one in here):
            count(mention.kind, "exact")
        if right:
            count(mention.kind, "right")
        if here:
            count(mention.kind, "found")
            best = max(here, key=lambda one: (min(one.end, mention.end) - max(one.start, mention.start), one.start - one.end))
            if best.status is not None and dict(best.status) == dict(status):
                count(mention.kind, "status")
    for one in found:
        if one.ids:
            count(one.kind or "none", "links")
            if one._replace(status=None) not in right_links:
                count(one.kind or "none", "false")
                around = longer.get((one.document, one.start))
                if around is not None and one.end <= around.end and one.end - one.start < around.end - around.start:
                    count(one.kind or "none", "parts")
    return made
