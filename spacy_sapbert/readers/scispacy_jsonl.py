"""scispaCy's knowledge bases: JSON lines, or one JSON list, of concept_id, canonical_name, aliases, types, definition."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..files import parse_json
from ..kb import curies
from ..kb.concept import Concept, Name
from . import json_files
from .json_files import are_texts
from .names import RANKS
from .stats import ReadStats, reader
from .text import lines, open_binary


@reader("scispacy")
def read_scispacy(path: Path, stats: ReadStats, *, source: str | None = None, language: str = "en", encoding: str = "utf-8") -> Iterator[Concept]:
    """Read a knowledge base in scispaCy's format. Names and ids are not changed.

    The canonical name gets the term type "PT". Aliases get "SY"; one that repeats the canonical name is left out. Records without a
    `concept_id` or `canonical_name` are malformed.

    Args:
        path: the file.
        stats: counters of the reading.
        source: vocabulary of ids and names; None is "UMLS" for CUIs, otherwise that of the id's prefix, otherwise "LOCAL".
        language: language of the names.
        encoding: encoding of JSON lines (a JSON list is UTF-8).

    Raises:
        SapbertError: E402, E404 and E405.

    Source:
        scispacy.linking_utils.KnowledgeBase.
    """
    for number, record in _records(path, encoding):
        stats.rows += 1
        problem = _problem(record)
        if problem:
            stats.bad(number, problem)
            continue
        concept_id, canonical = record["concept_id"], record["canonical_name"]
        vocabulary = source or curies.vocabulary_of(concept_id)
        aliases = dict.fromkeys(a for a in record.get("aliases") or () if a != canonical)
        own = curies.code(concept_id)
        yield Concept(
            concept_id,
            vocabulary,
            names=[Name(canonical, vocabulary, language, "PT", RANKS["PT"])] + [Name(a, vocabulary, language, "SY", RANKS["SY"]) for a in aliases],
            types=list(record.get("types") or ()),
            definition=record.get("definition") or None,
            codes=[own] if own else [],
        )


def _records(path: Path, encoding: str) -> Iterator[tuple[int, Any]]:
    with open_binary(path) as file:
        is_list = file.peek(64)[:64].lstrip().startswith(b"[")  # type: ignore[attr-defined]
    if is_list:
        yield from enumerate(json_files.items(path, "item"), 1)
        return
    for number, line in lines(path, encoding):
        if line.strip():
            try:
                yield number, parse_json(line)
            except ValueError as error:
                yield number, error


def _problem(record: Any) -> str:
    if isinstance(record, ValueError):
        return f"not JSON: {getattr(record, 'msg', record)}"
    if not isinstance(record, dict):
        return "not an object"
    missing = [key for key in ("concept_id", "canonical_name") if not isinstance(record.get(key), str) or not record[key].strip()]
    if missing:
        return f"no {' and no '.join(missing)}"
    lists = [key for key in ("aliases", "types") if not are_texts(record.get(key) or [])]
    definition = record.get("definition")
    wrong = [*lists, *(["definition"] if definition is not None and not isinstance(definition, str) else [])]
    return f"wrong type of {' and '.join(wrong)}" if wrong else ""
