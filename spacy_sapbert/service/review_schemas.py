"""The shapes of the answers of a review's routes, with examples. The OpenAPI description is made from these models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, RootModel

from .schemas import URL, example_of

_ACCEPTED = {"event": 1, "reviewer": "Ann", "kind": "accept", "cui": "C0015967", "settles": False, "at": "2026-11-25T15:31:53.154+00:00"}
_FEVER = {  # of `schemas.NOTE`
    "number": 2,
    "start": 15,
    "end": 20,
    "mention": "fever",
    "group": "DISO",
    "status": ["negated"],
    "cui": "C0015967",
    "now": "C0015967",
    "probability": 0.97372,
    "score": 1.0,
    "candidates": [["C0015967", 1.0], ["C0034362", 0.91048]],
    "why": ["exact match with the concept's name “Fever” (HPO)", "right with a probability of 97%"],
    "added": False,
    "decisions": [_ACCEPTED],
    "settled": None,
    "decided": "accept",
    "disputed": False,
}
_FEVER_CONCEPT = {
    "name": "Fever",
    "types": ["Sign or Symptom"],
    "codes": {"HPO": ["HP:0001945"], "SNOMEDCT_US": ["386661006"]},
    "definition": "Body temperature elevated above the normal range.",
    "url": f"{URL}C0015967",
}
_Q_FEVER_CONCEPT = {
    "name": "Q fever",
    "types": ["Disease or Syndrome"],
    "codes": {"MONDO": ["MONDO:0019186"], "ICD10CM": ["A78"]},
    "definition": "A bacterial infection caused by Coxiella burnetii.",
    "url": f"{URL}C0034362",
}
_HTML = (
    '<div class="entities" style="line-height: 2.5; direction: ltr">72M c/o CP, no <mark class="m g-DISO s-negated" data-s="denied" data-c="C0015967"'
    ' data-p="" id="m-2" tabindex="0" aria-describedby="panel">fever</mark>. Takes ASA 81.</div>'
)
EVENTS: dict[str, dict[str, Any]] = {  # name -> an event that a reviewer sends
    "accept": {"kind": "accept", "mention": 2, "cui": "C0015967"},
    "reject": {"kind": "reject", "mention": 2, "cui": "C0015967"},
    "choose another concept": {"kind": "choose", "mention": 2, "cui": "C0034362"},
    "choose another concept, as the adjudicator": {"kind": "choose", "mention": 2, "cui": "C0034362", "settles": True},
    "no concept": {"kind": "nil", "mention": 2},
    "change the span": {"kind": "span", "mention": 2, "start": 12, "end": 20},
    "set the status": {"kind": "status", "mention": 2, "status": ["negated"]},
    "add a mention": {"kind": "add", "note": "17", "start": 0, "end": 3, "cui": "NIL"},
    "add a name": {"kind": "name", "cui": "C0015967", "name": "the heat"},
    "remove a name from a concept": {"kind": "stop", "name": "the heat", "cui": "C0015967"},
    "remove a name from all concepts": {"kind": "stop", "name": "the heat"},
    "undo": {"kind": "undo", "event": 1},
}


class NotesOfReview(BaseModel):
    """A page of the list of notes: `total` is the number of all notes that fit.

    Each note is (id, number of linked mentions, number of mentions); the numbers are null if notes were searched.
    """

    model_config = example_of({"total": 2, "notes": [["17", 3, 3], ["18", 1, 1]]})
    total: int
    notes: list[tuple[str, int | None, int | None]]


class DecisionOfReviewer(BaseModel):
    """What a reviewer decided about a mention."""

    event: int
    reviewer: str
    kind: Literal["accept", "reject", "choose", "nil", "add"]
    cui: str = Field(description="The concept; NIL if there is none, ? if the reviewer does not say which one is right.")
    settles: bool = Field(description="Whether it is a decision of the adjudicator.")
    at: str


class MentionOfReview(BaseModel):
    """A mention with the link that was proposed (`cui`), the present one (`now`), and what reviewers decided."""

    number: int = Field(description="Number of the mention, for events.")
    start: int
    end: int
    mention: str
    group: str
    status: list[str]
    cui: str
    now: str
    probability: float | None
    score: float | None
    candidates: list[tuple[str, float]]
    why: list[str]
    added: bool = Field(description="Whether a reviewer added it.")
    decisions: list[DecisionOfReviewer]
    settled: DecisionOfReviewer | None
    decided: str | None = Field(description="Kind of the final decision; null if nobody decided, or reviewers differ.")
    disputed: bool


class ConceptOfReview(BaseModel):
    """A concept in short."""

    name: str
    types: list[str]
    codes: dict[str, list[str]]
    definition: str
    url: str


class NoteOfReview(BaseModel):
    """A note with marked mentions as HTML, the mentions, and their concepts by id. `also`: HTML of mentions that overlap a marked one."""

    model_config = example_of(
        {
            "id": "17",
            "html": _HTML,
            "also": [],
            "mentions": [_FEVER],
            "concepts": {"C0015967": _FEVER_CONCEPT, "C0034362": _Q_FEVER_CONCEPT},
        }
    )
    id: str
    html: str
    also: list[str]
    mentions: list[MentionOfReview]
    concepts: dict[str, ConceptOfReview]


class ConceptsOfReview(BaseModel):
    """A page of the list of concepts: `total` is the number of all concepts that fit. Each concept is (id, name, number of mentions)."""

    model_config = example_of({"total": 2, "concepts": [["C0015967", "Fever", 2], ["C0004057", "Aspirin", 1]]})
    total: int
    concepts: list[tuple[str, str, int]]


class RecordedEvent(BaseModel):
    """An event that was written: its number, its mention and note (null for a name), and the time. After an undo, those of the undone event."""

    model_config = example_of({"event": 1, "mention": 2, "note": "17", "at": "2026-11-25T15:31:53.154+00:00"})
    event: int
    mention: int | None
    note: str | None
    at: str


class _Event(BaseModel):
    event: int
    at: str
    reviewer: str
    mention: int | None


class MentionEvent(_Event):
    """An event about a mention."""

    kind: Literal["accept", "reject", "choose", "nil", "span", "status", "add"]


class NameEvent(_Event):
    """A name that was added to a concept or removed from it; without `cui`, from all concepts. `concept` is the concept's name."""

    kind: Literal["name", "stop"]
    name: str
    cui: str | None
    concept: str


class UndoEvent(_Event):
    """An undo; `undoes` is the number of the undone event."""

    kind: Literal["undo"]
    undoes: int


class EventsOfReview(RootModel[list[Annotated[MentionEvent | NameEvent | UndoEvent, Field(discriminator="kind")]]]):
    """The events in their order, without text of notes."""

    model_config = example_of(
        [
            {"event": 1, "at": "2026-11-25T15:31:53.154+00:00", "reviewer": "Ann", "mention": 2, "kind": "accept"},
            {
                "event": 2,
                "at": "2026-11-25T15:31:53.249+00:00",
                "reviewer": "Ann",
                "mention": None,
                "kind": "name",
                "name": "the sugar",
                "cui": "C0011849",
                "concept": "Diabetes mellitus",
            },
            {"event": 3, "at": "2026-11-25T15:31:53.320+00:00", "reviewer": "Ann", "mention": None, "kind": "undo", "undoes": 2},
        ]
    )


class PrecisionOfReview(BaseModel):
    """The share of reviewed links that are right, with its 95% interval."""

    what: str
    right: int
    reviewed: int
    low: float
    high: float
    precision: float


class AgreementOfReview(BaseModel):
    """The agreement of two reviewers about the mentions that both decided. Kappa is null if it is not defined."""

    reviewers: tuple[str, str]
    mentions: int
    same: int
    kappa: float | None
    differ: int


_REPORT: dict[str, Any] = {
    "notes": 2,
    "mentions": 4,
    "precision": [
        {"what": "all links", "right": 1, "reviewed": 1, "low": 0.20654931437723745, "high": 1.0, "precision": 1.0},
        {"what": "probability 0.95 to 1", "right": 1, "reviewed": 1, "low": 0.20654931437723745, "high": 1.0, "precision": 1.0},
    ],
    "agreement": [{"reviewers": ["Ann", "Ben"], "mentions": 2, "same": 1, "kappa": 0.33333333333333337, "differ": 1}],
    "disputed": 1,
    "wished": 0.95,
    "open": 3,
    "expected": 0.9855275,
    "left": 0,
}


class ReportOfReview(BaseModel):
    """The figures of a review. `open`: links that nobody reviewed; `expected`: expected precision now; `left`: links to review for the wished precision.

    The last two are null if the linker has no calibration.
    """

    model_config = example_of(_REPORT)
    notes: int
    mentions: int
    precision: list[PrecisionOfReview]
    agreement: list[AgreementOfReview]
    disputed: int
    wished: float
    open: int
    expected: float | None
    left: int | None
