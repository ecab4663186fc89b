"""Write decisions as tables of mention and concept: Usagi's columns, SSSOM, and added names for `kb build`. The tables hold no notes."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, TextIO

from ..kb.additions import COLUMNS, SOURCE
from ..kb.concept import is_cui
from ..render.csv import harmless
from ..render.records import NIL, one_line
from .gold import golds
from .store import ReviewStore

USAGI = (
    *("sourceCode", "sourceName", "sourceFrequency", "matchScore", "mappingStatus", "equivalence", "statusSetBy", "statusSetOn"),
    *("conceptId", "conceptName", "mappingType", "createdBy", "createdOn"),
)
SSSOM = (
    "subject_label",
    "subject_type",
    "predicate_id",
    "object_id",
    "object_label",
    "mapping_justification",
    "author_label",
    "mapping_date",
    "other",
)
NO_TERM = "sssom:NoTermFound"

NameOf = Callable[[str], str]  # concept id -> canonical name


class Mapping(NamedTuple):
    """The decisions about equal mentions with the same concept.

    Attributes:
        mention: text of the first of them.
        cui: id of the concept, or NIL.
        mentions: number of these mentions.
        reviewer: reviewer of the latest decision.
        at: time of the latest decision, ISO 8601.
        accepted: whether the linker had proposed this concept for the latest one.
    """

    mention: str
    cui: str
    mentions: int
    reviewer: str
    at: str
    accepted: bool


def mappings(store: ReviewStore) -> list[Mapping]:
    """Return the decisions about equal mentions (case is ignored), the most frequent first. A mention with several concepts has an item for each."""
    counts: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], str] = {}
    last: dict[tuple[str, str], tuple[str, str, bool]] = {}
    for _, found, _ in golds(store):
        for each in found:
            text = one_line(each.text)
            key = (text.lower(), each.cui)
            counts[key] += 1
            first.setdefault(key, text)
            if key not in last or each.at >= last[key][0]:
                last[key] = each.at, each.reviewer, each.proposed == each.cui
    return [
        Mapping(first[key], key[1], n, last[key][1], last[key][0], last[key][2]) for key, n in sorted(counts.items(), key=lambda it: (-it[1], it[0]))
    ]


def write_usagi(store: ReviewStore, name_of: NameOf, stream: TextIO) -> int:
    """Write a table with the columns of Usagi's saved mappings. Its concept ids are those of the knowledge base, not of OMOP.

    Args:
        store: the review.
        name_of: function that returns the name of a concept id.
        stream: a file that was opened with newline="".

    Returns:
        Number of rows, without the header.
    """
    found = mappings(store)
    writer = csv.DictWriter(stream, USAGI)
    writer.writeheader()
    for each in found:
        nil = each.cui == NIL
        row = {
            "sourceCode": each.mention.lower(),
            "sourceName": each.mention,
            "sourceFrequency": each.mentions,
            "matchScore": "" if nil else 1,
            "mappingStatus": "INVALID_TARGET" if nil else "APPROVED",
            "equivalence": "UNMATCHED" if nil else "EQUAL",
            "statusSetBy": each.reviewer,
            "statusSetOn": each.at,
            "conceptId": "" if nil else each.cui,
            "conceptName": "" if nil else name_of(each.cui),
            "mappingType": "MAPS_TO",
            "createdBy": "spacy-sapbert" if each.accepted else each.reviewer,
            "createdOn": each.at,
        }
        writer.writerow({key: harmless(value) for key, value in row.items()})
    return len(found)


def write_sssom(store: ReviewStore, name_of: NameOf, stream: TextIO) -> int:
    """Write an SSSOM table (TSV) whose subjects are texts. The object of a mention without a concept is `sssom:NoTermFound`.

    Args:
        store: the review.
        name_of: function that returns the name of a concept id.
        stream: the file.

    Returns:
        Number of mappings.

    Source:
        Literal mappings of SSSOM 1.0, mapping-commons.github.io/sssom.
    """
    found = mappings(store)
    stream.write("# curie_map:\n#   UMLS: https://uts.nlm.nih.gov/uts/umls/concept/\n")
    stream.write("\t".join(SSSOM) + "\n")
    for each in found:
        nil = each.cui == NIL
        target = NO_TERM if nil else f"UMLS:{each.cui}" if is_cui(each.cui) else each.cui
        name = "" if nil else name_of(each.cui)
        justified = "semapv:ManualMappingCuration"
        fields = [each.mention, "rdfs literal", "skos:exactMatch", target, name, justified, each.reviewer, each.at[:10], f"mentions={each.mentions}"]
        stream.write("\t".join(map(one_line, fields)) + "\n")
    return len(found)


def write_names(store: ReviewStore, stream: TextIO) -> int:
    """Write the added names as a table that `kb build` can read as one more source.

    Returns:
        Number of names.
    """
    added = [(change.cui, change.name) for change in store.log().names() if change.adds and change.cui is not None]
    stream.write("\t".join(COLUMNS) + "\n")
    for cui, name in added:
        stream.write("\t".join([cui, one_line(name), "en", SOURCE, "SY", *[""] * (len(COLUMNS) - 5)]) + "\n")
    return len(added)
