"""Concepts as the service returns them: one concept, a search for concepts, the candidates of a mention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..kb.knowledge_base import KnowledgeBase
from ..render import concept_url

FETCHED = 30  # nearest names that a search looks at, at least: one concept may have several of them
MAX_NAMES = 200  # most names of a concept that are returned


def concept_of(kb: KnowledgeBase, concept_id: str) -> dict[str, Any] | None:
    """Return everything that is known about the concept with an identifier or code; None if there is no such concept."""
    rows = kb.rows_of(concept_id)
    if not rows:
        return None
    concept = kb.concept(rows[0])
    names = [{"text": name.text, "source": name.source, "language": name.language, "term_type": name.term_type} for name in concept.names]
    return {
        **_summary(kb, rows[0]),
        "definition": concept.definition,
        "names": names[:MAX_NAMES],
        "codes": kb.codes(rows[0]),
        "parents": [{"id": parent, "name": _name(kb, parent)} for parent in concept.parents],
        "retired_ids": concept.retired,
        "others": [kb.concept_id(row) for row in rows[1:]],  # other concepts with the same code
    }


def search_concepts(linker: Any, query: str, limit: int) -> list[dict[str, Any]]:
    """Return concepts that match a query: by identifier or code, then by an equal name, then by the beginning of a name, then by a near name.

    Args:
        linker: the component.
        query: text that a user typed.
        limit: maximum number of concepts.
    """
    found: dict[int, dict[str, Any]] = {}
    for row, name, how, score in _found(linker, query, limit):
        if row not in found:
            found[row] = {**_summary(linker.kb, row), "by": how, "matched": name, "score": score}
        if len(found) == limit:
            break
    return list(found.values())


def _found(linker: Any, query: str, limit: int) -> Iterator[tuple[int, str, str, float | None]]:
    """Yield (row of the concept, name that matched, how it matched, score), the best first; a concept may come several times."""
    kb: KnowledgeBase = linker.kb
    yield from ((row, query, "id", None) for row in kb.rows_of(query.strip()))
    for row in kb.find([query]).values():
        yield from ((concept, name.text, "name", 1.0) for concept, name in kb.names_of_surface_form(row))
    yield from ((concept, name, "beginning", None) for concept, name in kb.names_that_begin(query, limit))
    for candidate in candidates_of(linker, [query], limit)[0]:
        yield kb.row_of(candidate["id"]), candidate["matched"], "nearest", candidate["score"]


def candidates_of(linker: Any, mentions: Sequence[str], k: int) -> list[list[dict[str, Any]]]:
    """Return the nearest concepts of each mention, best first, as the command `lookup` does.

    Args:
        linker: the component.
        mentions: texts of mentions.
        k: maximum number of concepts for each mention.
    """
    kb = linker.kb
    return [
        [
            {
                **_summary(kb, kb.row_of(candidate.concept_id)),
                "matched": candidate.aliases[0],
                "score": min(1.0, round(float(candidate.similarities[0]), 6)),
            }
            for candidate in candidates[:k]
        ]
        for candidates in linker.candidate_generator(list(mentions), max(FETCHED, k))
    ]


def _summary(kb: KnowledgeBase, row: int) -> dict[str, Any]:
    entity = kb.entity(row)
    tree = kb.semantic_type_tree.type_id_to_node
    types = [{"id": tui, "name": tree[tui].full_name if tui in tree else tui} for tui in entity.types]
    return {"id": entity.concept_id, "name": entity.canonical_name, "types": types, "url": concept_url(entity.concept_id)}


def _name(kb: KnowledgeBase, concept_id: str) -> str:
    entity = kb.get(concept_id)
    return "" if entity is None else entity.canonical_name
