"""What follows from the log: who decided what about each mention, and which decision counts. Undone events count for nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from .events import AddMention, AddName, Event, MoveSpan, SetStatus, StopName, Undo, decided


class Decision(NamedTuple):
    """What one reviewer decided about a mention.

    Attributes:
        event: number of the event.
        reviewer: who.
        kind: "accept", "reject", "choose", "nil" or "add".
        cui: the concept, `NIL`, or `UNKNOWN` where the link was only rejected.
        settles: whether it is the adjudicator's.
        at: when.
    """

    event: int
    reviewer: str
    kind: str
    cui: str
    settles: bool
    at: str


@dataclass
class Reviewed:
    """What reviewers said about one mention.

    Attributes:
        decisions: the last decision of each reviewer, by reviewer.
        settled: the adjudicator's decision, None if there is none.
        span: (start, end) that the last reviewer gave, None if nobody did.
        status: statuses that the last reviewer gave, None if nobody did.
    """

    decisions: dict[str, Decision] = field(default_factory=dict)
    settled: Decision | None = None
    span: tuple[int, int] | None = None
    status: list[str] | None = None

    @property
    def final(self) -> Decision | None:
        """The decision that counts: the adjudicator's, else one that all reviewers share; None where they differ or none was made."""
        if self.settled is not None:
            return self.settled
        last = list(self.decisions.values())
        return last[-1] if last and len({decision.cui for decision in last}) == 1 else None

    @property
    def disputed(self) -> bool:
        """Whether reviewers decided differently and nobody has settled it."""
        return self.final is None and len(self.decisions) > 1


@dataclass
class Log:
    """The events of a review in their order, and what follows from them. Only new events need to be read to keep it current."""

    events: dict[int, Event] = field(default_factory=dict)
    undone: set[int] = field(default_factory=set)
    _by_mention: dict[int, list[int]] = field(default_factory=dict)

    @property
    def last(self) -> int:
        """Number of the last event, 0 if there is none."""
        return max(self.events, default=0)

    def extend(self, events: Iterable[Event]) -> None:
        """Take in later events."""
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
        """Return the mentions that an event is about."""
        return list(self._by_mention)

    def of(self, mention: int) -> Reviewed:
        """Return what reviewers said about a mention."""
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
                    found.decisions.pop(event.reviewer, None)  # the last one is the last in the order
                    found.decisions[event.reviewer] = decision
            if isinstance(said, MoveSpan):
                found.span = said.start, said.end
            elif isinstance(said, SetStatus):
                found.status = list(said.status)
        return found

    def is_withdrawn(self, mention: int) -> bool:
        """Return whether a mention was added by a reviewer who took that back."""
        added = [number for number in self._by_mention.get(mention, ()) if isinstance(self.events[number].said, AddMention)]
        return bool(added) and all(number in self.undone for number in added)

    def names(self) -> tuple[list[tuple[str, str]], list[tuple[str | None, str]]]:
        """Return the names that were added, as (concept id, name), and those that were stopped, as (concept id or None, name).

        Of one concept and name, the last event counts.
        """
        last: dict[tuple[str | None, str], bool] = {}
        for event in self.standing():
            said = event.said
            if isinstance(said, (AddName, StopName)):
                key = (said.cui, said.name)
                last.pop(key, None)
                last[key] = isinstance(said, AddName)
        added = [(cui, name) for (cui, name), adds in last.items() if adds and cui is not None]
        return added, [key for key, adds in last.items() if not adds]
