"""What reviewers decided, as annotated notes: JSON Lines, and a DocBin for `calibrate`, `train-ranker` and `spacy train`. Disputed mentions are left out."""

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
from .store import Mention, Note, ReviewStore


class Gold(NamedTuple):
    """A mention that is decided.

    Attributes:
        start: its first character.
        end: the character after its last one.
        text: of the note.
        label: semantic group.
        cui: the right concept; NIL also where the link was rejected and no other concept named.
        status: names of those that hold, None if nothing said so.
        proposed: the concept that the linker proposed, NIL for none; "" for a mention that a reviewer added.
        probability: of the proposed link, None without a calibration.
        reviewer: whose decision counts.
        at: when it was made.
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


def place_of(mention: Mention) -> tuple[int, int]:
    """Return where a mention is: as the last reviewer said, else as it was proposed."""
    return mention.reviewed.span or (mention.record["start"], mention.record["end"])


def gold_of(store: ReviewStore, note: Note) -> tuple[list[Gold], bool]:
    """Return the decided mentions of a note in reading order, and whether none is open or disputed."""
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
    """Yield the notes with a decided mention, with what `gold_of` returns."""
    for note in store.notes():
        found, whole = gold_of(store, note)
        if found:
            yield note, found, whole


def to_jsonl(store: ReviewStore) -> Iterator[str]:
    """Yield a line of JSON for each note with a decided mention: id, text, complete (no mention is open), mentions."""
    for note, found, whole in golds(store):
        mentions = [{key: value for key, value in each._asdict().items() if key != "text"} | {"mention": each.text} for each in found]
        yield json.dumps({"id": note.note_id, "text": note.text, "complete": whole, "mentions": mentions}, ensure_ascii=False) + "\n"


def to_docbin(store: ReviewStore, nlp: Language) -> DocBin:
    """Return the notes with a decided mention as Docs; entities have the right concept as `kb_id_`.

    Of mentions that overlap the longest is an entity. Where a mention of the note is still open, the tokens outside of entities are "missing", so that
    a training of a recogniser does not learn that they are none.

    Args:
        store: the review.
        nlp: its tokenizer is used.
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
