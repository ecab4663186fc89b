"""Return decisions as annotated notes: JSON Lines, or a DocBin for `calibrate`, `train-ranker` and `spacy train`, without disputed mentions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.util import filter_spans

from ..doc.own import OWN, Place, with_spans
from ..render.records import NIL
from .events import UNKNOWN
from .store import Note, ReviewStore, place_of


class Gold(NamedTuple):
    """A mention with a final decision.

    Attributes:
        start: its first character.
        end: the character after its last one.
        text: text of the mention.
        label: semantic group.
        cui: id of the right concept; NIL also if the link was rejected and no other concept was chosen.
        status: statuses that hold; None if they are not known.
        proposed: id of the concept that the linker proposed, NIL for none; "" for a mention that a reviewer added.
        probability: probability of the proposed link; None without a calibration.
        reviewer: reviewer of the final decision.
        at: time of the final decision, ISO 8601.
    """

    start: int
    end: int
    text: str
    label: str
    cui: str
    status: list[str] | None
    proposed: str
    probability: float | None
    reviewer: str
    at: str


def gold_of(store: ReviewStore, note: Note) -> tuple[list[Gold], bool]:
    """Return the mentions of a note with a final decision, in reading order, and whether these are all its mentions."""
    found: dict[tuple[int, int], Gold] = {}
    whole = True
    for mention in store.mentions(note):
        final = mention.reviewed.final
        if final is None:
            whole = False
            continue
        start, end = place_of(mention)
        record = mention.record
        found[start, end] = Gold(
            start,
            end,
            note.text[start:end],
            record["label"],
            NIL if final.cui == UNKNOWN else final.cui,
            record["status"] if mention.reviewed.status is None else mention.reviewed.status,
            "" if mention.added else record["cui"],
            record["probability"],
            final.reviewer,
            final.at,
        )
    return [found[place] for place in sorted(found, key=lambda place: (place[0], -place[1]))], whole


def golds(store: ReviewStore) -> Iterator[tuple[Note, list[Gold], bool]]:
    """Yield (note, mentions, complete) for each note that has a mention with a final decision; see `gold_of`."""
    for note in store.notes():
        found, whole = gold_of(store, note)
        if found:
            yield note, found, whole


def to_jsonl(store: ReviewStore) -> Iterator[str]:
    """Yield a line of JSON for each note with a decided mention: id, text, complete (True if all its mentions are decided), mentions."""
    for note, found, whole in golds(store):
        mentions = [{key: value for key, value in each._asdict().items() if key != "text"} | {"mention": each.text} for each in found]
        yield json.dumps({"id": note.note_id, "text": note.text, "complete": whole, "mentions": mentions}, ensure_ascii=False) + "\n"


def to_docbin(store: ReviewStore, nlp: Language) -> DocBin:
    """Return the notes with a decided mention as Docs. The `kb_id_` of an entity is the id of the right concept.

    Among overlapping mentions the longest becomes an entity. If a mention of the note is not decided, the tokens outside of entities are annotated as
    "missing", so that a recogniser does not learn that they are no mentions.

    Args:
        store: the review.
        nlp: pipeline whose tokenizer is used.
    """
    bin_ = DocBin()
    for note, found, whole in golds(store):
        bin_.add(_doc(nlp, note, found, whole))
    return bin_


def _doc(nlp: Language, note: Note, found: list[Gold], whole: bool) -> Doc:
    doc = with_spans(nlp, note.text, [Place(each.start, each.end, each.label) for each in found])
    by_place = {(each.start, each.end): each for each in found}
    spans = [Span(doc, span.start, span.end, span.label_, kb_id=by_place[span.start_char, span.end_char].cui) for span in doc.spans[OWN]]
    del doc.spans[OWN]
    doc.set_ents(filter_spans(spans), default="outside" if whole else "missing")
    return doc
