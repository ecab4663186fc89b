"""MONDO and other ontologies in the JSON of cellxgene-ontology-guide: one object, id -> label, synonyms, description, ancestors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..kb import curies
from ..kb.concept import Concept, Name
from . import json_files
from .names import RANKS
from .stats import ReadStats, reader


@reader("mondo_json")
def read_mondo_json(path: Path, stats: ReadStats) -> Iterator[Concept]:
    """Read `{id: {label, synonyms, description, ancestors: {id: distance}, deprecated, replaced_by}}`, plain, gzip or zstd.

    An ancestor at distance 1 is a parent. The file does not give the kind of its synonyms; they count as exact ("SY"). A deprecated term
    with one `replaced_by` gives `Concept(replaced_by, retired=[id])`; other deprecated terms give nothing.

    Args:
        path: the file.
        stats: counters of the reading; `stats.version` is the date in the file's name.

    Raises:
        SapbertError: E402 and E405.

    Source:
        chanzuckerberg/cellxgene-ontology-guide, ontology-assets/.
    """
    date = re.search(r"\d{4}-\d\d-\d\d", path.name)
    stats.version = date[0] if date else None
    for stats.rows, (key, entry) in enumerate(json_files.pairs(path), 1):
        if not _is_whole(entry):
            stats.bad(stats.rows, f"{key[:60]}: not an object with a `label` and `ancestors`")
            continue
        concept_id = curies.canonical(key)
        source = curies.vocabulary_of(concept_id)
        if not entry.get("deprecated"):
            yield _concept(concept_id, source, entry)
        elif isinstance(entry.get("replaced_by"), str):
            yield Concept(curies.canonical(entry["replaced_by"]), source, retired=[concept_id])


def _is_whole(entry: Any) -> bool:
    """Return whether an entry has a label, and all its parts have the right types."""
    if not isinstance(entry, dict) or not isinstance(entry.get("label"), str) or not isinstance(entry.get("ancestors") or {}, dict):
        return False
    return json_files.are_texts(entry.get("synonyms") or []) and isinstance(entry.get("description") or "", str)


def _concept(concept_id: str, source: str, entry: Any) -> Concept:
    names = [Name(entry["label"], source, term_type="PT", rank=RANKS["PT"])]
    names += [Name(text, source, term_type="SY", rank=RANKS["SY"]) for text in entry.get("synonyms") or ()]
    own = curies.code(concept_id)
    return Concept(
        concept_id,
        source,
        names=names,
        definition=entry.get("description") or None,
        codes=[own] if own else [],
        parents=[curies.canonical(a) for a, distance in (entry.get("ancestors") or {}).items() if distance == 1],
    )
