"""What a reviewer may say, one event for each: checked when it comes, and never changed after it is in the log."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ..errors import fail
from ..kb.concept import MAX_NAME_CHARS
from ..render.records import NIL

UNKNOWN = "?"  # the link is wrong, and the reviewer does not say which concept is right

ConceptId = Annotated[str, Field(min_length=1, max_length=256)]
NameText = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]
Place = Annotated[int, Field(ge=0)]


class _Event(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _OfMention(_Event):
    mention: int = Field(description="Number of the mention.")
    settles: bool = Field(default=False, description="It is the adjudicator's: it counts before what others decided.")


class Accept(_OfMention):
    """The link is right. `cui` is the concept that the reviewer saw."""

    kind: Literal["accept"]
    cui: ConceptId


class Reject(_OfMention):
    """The link is wrong, and which concept is right is not said."""

    kind: Literal["reject"]
    cui: ConceptId


class Choose(_OfMention):
    """Another concept is right."""

    kind: Literal["choose"]
    cui: ConceptId


class Nil(_OfMention):
    """The knowledge base has no concept for the mention."""

    kind: Literal["nil"]


class MoveSpan(_OfMention):
    """The mention is another part of the text."""

    kind: Literal["span"]
    start: Place
    end: Place


class SetStatus(_OfMention):
    """The statuses that hold for the mention."""

    kind: Literal["status"]
    status: list[Literal["negated", "uncertain", "hypothetical", "historical", "family"]]


class AddMention(_Event):
    """A mention that was not found."""

    kind: Literal["add"]
    note: Annotated[str, Field(max_length=1000)]
    start: Place
    end: Place
    cui: ConceptId
    label: Annotated[str, Field(max_length=64)] = ""


class AddName(_Event):
    """A concept has one more name."""

    kind: Literal["name"]
    cui: ConceptId
    name: NameText


class StopName(_Event):
    """A name does not stand for a concept; without a concept, for none."""

    kind: Literal["stop"]
    name: NameText
    cui: ConceptId | None = None


class Undo(_Event):
    """An earlier event of the same reviewer does not count any more."""

    kind: Literal["undo"]
    event: int


Said = Annotated[
    Accept | Reject | Choose | Nil | MoveSpan | SetStatus | AddMention | AddName | StopName | Undo,
    Field(discriminator="kind"),
]
SAID: TypeAdapter[Said] = TypeAdapter(Said)
DECISIONS = ("accept", "reject", "choose", "nil")


class Event(NamedTuple):
    """A line of the log.

    Attributes:
        number: of the event; later ones have higher numbers.
        at: when it was written, ISO 8601 in UTC.
        reviewer: who said it.
        said: what.
        mention: number of the mention that it is about, None for names and undo.
    """

    number: int
    at: str
    reviewer: str
    said: Said
    mention: int | None


def read_event(given: Any) -> Said:
    """Return what a reviewer says.

    Raises:
        SapbertError: E082, it is not valid; the message does not repeat it.
    """
    try:
        return SAID.validate_python(given)
    except ValidationError as error:
        first = error.errors()[0]
        raise fail("E082", why=f"{'.'.join(map(str, first['loc'])) or 'event'}: {first['msg']}.") from error


def decided(said: Said) -> str | None:
    """Return the concept that a decision is for: its id, `NIL` or `UNKNOWN`; None for an event that is no decision."""
    if isinstance(said, (Accept, Choose, AddMention)):
        return said.cui
    if isinstance(said, Reject):
        return UNKNOWN
    return NIL if isinstance(said, Nil) else None
