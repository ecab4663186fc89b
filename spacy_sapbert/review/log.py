"""Evaluate the log of a review: who decided what about each mention, and which decision is final. Undone events are ignored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from .events import AddMention, AddName, Event, MoveSpan, SetStatus, StopName, Undo, decided


class Decision(NamedTuple):
    """The decision of one reviewer about a mention.

    Attributes:
        event: number of the event.
        reviewer: name of the reviewer.
        kind: "accept", "reject", "choose", "nil" or "add".
        cui: id of the concept, `NIL`, or `UNKNOWN` if the link was only rejected.
        settles: whether it is a decision of the adjudicator.
        at: time, ISO 8601.
    """

    event: int
    reviewer: str
    kind: str
    cui: str
    settles: bool
    at: str


class NameChange(NamedTuple):
    """A name that a reviewer added or removed.

    Attributes:
        cui: id of the concept; None: the name was removed from all concepts.
        name: the name.
        adds: whether it was added.
    """

    cui: str | None
    name: str
    adds: bool


@dataclass
class Reviewed:
    """All that reviewers decided about one mention.

    Attributes:
        decisions: reviewer -> the last decision of this reviewer.
        settled: the adjudicator's decision, None if there is none.
        span: the last (start, end) that a reviewer set, in characters; None if nobody did.
        status: the last statuses that a reviewer set; None if nobody did.
    """

    decisions: dict[str, Decision] = field(default_factory=dict)
    settled: Decision | None = None
    span: tuple[int, int] | None = None
    status: list[str] | None = None

    @property
    def final(self) -> Decision | None:
        """The final decision: the adjudicator's; without one, the decision on which all reviewers agree; None if they differ or nobody decided."""
        if self.settled is not None:
            return self.settled
        last = list(self.decisions.values())
        return last[-1] if last and len({decision.cui for decision in last}) == 1 else None

    @property
    def disputed(self) -> bool:
        """True if reviewers decided differently and the adjudicator has not decided."""
        return self.final is None and len(self.decisions) > 1


@dataclass
class Log:
    """The events of a review in their order, with an index by mention. To update it, only new events need to be read."""

    events: dict[int, Event] = field(default_factory=dict)
    undone: set[int] = field(default_factory=set)
    _by_mention: dict[int, list[int]] = field(default_factory=dict)

    @property
    def last(self) -> int:
        """Number of the last event, 0 if there is none."""
        return max(self.events, default=0)

    def extend(self, events: Iterable[Event]) -> None:
        """Add later events."""
        for event in events:
            self.events[event.number] = event
            if isinstance(event.said, Undo):
                self.undone.add(event.said.event)
            elif event.mention is not None:
                self._by_mention.setdefault(event.mention, []).append(event.number)

    def standing(self) -> list[Event]:
        """Return the events that count, in their order."""
        return [event for number, event in self.events.items() if number not in self.undone and not isinstance(event.said, Undo)]

    def mentions(self) -> list[int]:
        """Return the numbers of all mentions that some event is about."""
        return list(self._by_mention)

    def of(self, mention: int) -> Reviewed:
        """Return what reviewers decided about the mention with a number."""
        found = Reviewed()
        for number in self._by_mention.get(mention, ()):
            event = self.events[number]
            if number in self.undone:
                continue
            said, cui = event.said, decided(event.said)
            if cui is not None:
                decision = Decision(number, event.reviewer, said.kind, cui, getattr(said, "settles", False), event.at)
                if decision.settles:
                    found.settled = decision
                else:
                    found.decisions.pop(event.reviewer, None)  # so that the newest decision is the last one in the dict
                    found.decisions[event.reviewer] = decision
            if isinstance(said, (MoveSpan, AddMention)):  # who adds a mention says where it is, also if it was moved before
                found.span = said.start, said.end
            elif isinstance(said, SetStatus):
                found.status = list(said.status)
        return found

    def is_withdrawn(self, mention: int) -> bool:
        """Return whether a mention was added by reviewers who have all undone this."""
        added = [number for number in self._by_mention.get(mention, ()) if isinstance(self.events[number].said, AddMention)]
        return bool(added) and all(number in self.undone for number in added)

    def names(self) -> list[NameChange]:
        """Return the names that were added and removed, in the order of their last events: for each concept and name the last event counts."""
        last: dict[tuple[str | None, str], NameChange] = {}
        for event in self.standing():
            said = event.said
            if isinstance(said, (AddName, StopName)):
                last.pop((said.cui, said.name), None)
                last[said.cui, said.name] = NameChange(said.cui, said.name, isinstance(said, AddName))
        return list(last.values())
