"""Return a note of a review as the page needs it: its mentions with the present decisions, and each of their concepts once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..kb import semantic_types
from ..kb.concept import concept_url
from ..kb.knowledge_base import KnowledgeBase
from ..render.html import MAX_DEFINITION, marked_note
from ..render.records import NIL, Row, entity_of, group_of, one_line, reasons
from .events import UNKNOWN
from .store import Mention, Note, ReviewStore, place_of

MAX_CODES = 12


def note_view(store: ReviewStore, note: Note, kb: KnowledgeBase) -> dict[str, Any]:
    """Return a note as a dict that can be written as JSON.

    Args:
        store: the review.
        note: the note.
        kb: the linker's knowledge base.

    Returns:
        id, html (the text with marked mentions; a mention is the element `m-NUMBER`), also (HTML of mentions that overlap a marked one), mentions,
        concepts (by id).
    """
    mentions = store.mentions(note)
    shown = [_row(mention, note.text, kb) for mention in mentions]
    html, also = marked_note(note.text, shown, [f"m-{mention.number}" for mention in mentions], "panel", note.lang, note.direction)
    records = [_record(mention, row) for mention, row in zip(mentions, shown)]
    ids = {cui for record in records for cui in (record["cui"], record["now"], *(cui for cui, _ in record["candidates"]))}
    return {"id": note.note_id, "html": str(html), "also": [str(each) for each in also], "mentions": records, "concepts": concepts(kb, ids)}


def concepts(kb: KnowledgeBase, ids: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return concept id -> name, semantic types, codes, definition and address of its page, for the concepts that the knowledge base has."""
    found = {}
    tree = kb.semantic_type_tree.type_id_to_node
    for concept_id in sorted(set(ids) - {NIL, UNKNOWN}):
        entity = entity_of(kb, concept_id)
        if entity is None:
            continue
        definition = one_line(entity.definition or "")
        codes: dict[str, list[str]] = {}
        for vocabulary, some in kb.codes(kb.row_of(concept_id)).items():
            left = MAX_CODES - sum(map(len, codes.values()))
            if kept := [code for code in some if code != concept_id][: max(left, 0)]:
                codes[vocabulary] = kept
        found[concept_id] = {
            "name": str(entity.canonical_name),
            "types": [tree[tui].full_name if tui in tree else tui for tui in entity.types],
            "codes": codes,
            "definition": definition[:MAX_DEFINITION].rsplit(" ", 1)[0] + " …" if len(definition) > MAX_DEFINITION else definition,
            "url": concept_url(concept_id),
        }
    return found


def _row(mention: Mention, text: str, kb: KnowledgeBase) -> Row:
    """Return the present record of a mention: with the span, the status and the concept that reviewers decided."""
    start, end = place_of(mention)
    final = mention.reviewed.final
    cui = _now(mention)
    entity = entity_of(kb, cui)
    known = semantic_types.load()
    types = [str(tui) for tui in entity.types] if entity is not None else []
    return {
        **mention.record,
        "start": start,
        "end": end,
        "mention": text[start:end],
        "cui": cui,
        "types": [tui for tui in types if tui in known],
        "status": mention.record["status"] if mention.reviewed.status is None else mention.reviewed.status,
        "probability": mention.record["probability"] if final is None else None,  # a decided mention must not look doubtful
    }


def _now(mention: Mention) -> str:
    final = mention.reviewed.final
    if final is None:
        return str(mention.record["cui"])
    return NIL if final.cui == UNKNOWN else final.cui


def _record(mention: Mention, row: Row) -> dict[str, Any]:
    record, reviewed = mention.record, mention.reviewed
    return {
        "number": mention.number,
        "start": row["start"],
        "end": row["end"],
        "mention": row["mention"],
        "group": group_of(row),
        "status": row["status"] or [],
        "cui": record["cui"],
        "now": row["cui"],
        "probability": record["probability"],
        "score": record["score"],
        "candidates": record["candidates"],
        "why": reasons(record),
        "added": mention.added,
        "decisions": [decision._asdict() for decision in reviewed.decisions.values()],
        "settled": None if reviewed.settled is None else reviewed.settled._asdict(),
        "decided": None if reviewed.final is None else reviewed.final.kind,
        "disputed": reviewed.disputed,
    }
