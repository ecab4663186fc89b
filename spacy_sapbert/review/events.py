"""The kinds of events that a reviewer can send. An event is checked when it arrives, and never changed after it is in the log."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ..errors import fail
from ..kb.concept import MAX_NAME_CHARS
from ..render.records import NIL

UNKNOWN = "?"  # stands for the right concept, if the link is wrong and the reviewer does not say which concept is right

ConceptId = Annotated[str, Field(min_length=1, max_length=256)]
NameText = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]
MAX_NUMBER = 2**63 - 1  # the largest number that SQLite stores
Place = Annotated[int, Field(ge=0, le=MAX_NUMBER)]
Number = Annotated[int, Field(ge=-MAX_NUMBER, le=MAX_NUMBER)]


class _Event(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _OfMention(_Event):
    mention: Number = Field(description="Number of the mention.")
    settles: bool = Field(default=False, description="True if this is a decision of the adjudicator, which overrides the decisions of others.")


class Accept(_OfMention):
    """The link is right. `cui` is the linked concept that the reviewer saw."""

    kind: Literal["accept"]
    cui: ConceptId


class Reject(_OfMention):
    """The link is wrong; the reviewer does not say which concept is right. `cui` is the linked concept that the reviewer saw."""

    kind: Literal["reject"]
    cui: ConceptId


class Choose(_OfMention):
    """Another concept is right, the one in `cui`."""

    kind: Literal["choose"]
    cui: ConceptId


class Nil(_OfMention):
    """The knowledge base has no concept for the mention."""

    kind: Literal["nil"]


class MoveSpan(_OfMention):
    """The mention has another span: start is its first character, end the character after its last one."""

    kind: Literal["span"]
    start: Place
    end: Place


class SetStatus(_OfMention):
    """Set the statuses that hold for the mention."""

    kind: Literal["status"]
    status: list[Literal["negated", "uncertain", "hypothetical", "historical", "family"]]


class AddMention(_Event):
    """Add a mention that was not found; start is its first character, end the character after its last one."""

    kind: Literal["add"]
    note: Annotated[str, Field(max_length=1000)]
    start: Place
    end: Place
    cui: ConceptId
    label: Annotated[str, Field(max_length=64)] = ""


class AddName(_Event):
    """Add a name to a concept."""

    kind: Literal["name"]
    cui: ConceptId
    name: NameText


class StopName(_Event):
    """Remove a name from a concept; without a concept, from all concepts."""

    kind: Literal["stop"]
    name: NameText
    cui: ConceptId | None = None


class Undo(_Event):
    """Undo an earlier event of the same reviewer."""

    kind: Literal["undo"]
    event: Number


Said = Annotated[
    Accept | Reject | Choose | Nil | MoveSpan | SetStatus | AddMention | AddName | StopName | Undo,
    Field(discriminator="kind"),
]
SAID: TypeAdapter[Said] = TypeAdapter(Said)


class Event(NamedTuple):
    """An entry of the log.

    Attributes:
        number: number of the event; later events have higher numbers.
        at: time when it was written, ISO 8601 in UTC.
        reviewer: name of the reviewer.
        said: content of the event.
        mention: number of the mention that it is about; None for names and undo.
    """

    number: int
    at: str
    reviewer: str
    said: Said
    mention: int | None


def read_event(given: Any) -> Said:
    """Check an event that a reviewer sends, and return it.

    Raises:
        SapbertError: E082, it is not valid; the message does not repeat its content.
    """
    try:
        return SAID.validate_python(given)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "extra_forbidden":  # the name of the field may be text of a note
            raise fail("E082", why="it has a field that is not known.") from None
        if first["type"] == "union_tag_invalid":
            raise fail("E082", why=f"its kind is not known. Known: {first['ctx']['expected_tags']}.") from None
        raise fail("E082", why=f"{'.'.join(map(str, first['loc'])) or 'event'}: {first['msg']}.") from error


def decided(said: Said) -> str | None:
    """Return the concept that an event decides for: its id, `NIL` or `UNKNOWN`; None if the event is not a decision."""
    if isinstance(said, (Accept, Choose, AddMention)):
        return said.cui
    if isinstance(said, Reject):
        return UNKNOWN
    return NIL if isinstance(said, Nil) else None
