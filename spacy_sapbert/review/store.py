"""The store of a review: notes, the mentions that the linker proposes, and the log with the events of reviewers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..errors import fail
from ..render.records import NIL, Row
from .database import ReviewDatabase
from .events import AddMention, AddName, Event, MoveSpan, Said, StopName, Undo, read_event
from .log import Log, Reviewed

MAX_REVIEWER = 100  # most characters in a reviewer's name
MAX_PAGE = 200  # most notes that are returned at once
Order = Literal["note", "doubt", "random"]


class Note(NamedTuple):
    """A note in the store.

    Attributes:
        number: number of the note in the store.
        note_id: the caller's id of the note.
        text: its text.
        lang: language of its text, ISO 639-1.
        direction: "ltr" or "rtl".
        linked_with: state of the linker that proposed its mentions, see `linker.state_of`.
    """

    number: int
    note_id: str
    text: str
    lang: str
    direction: str
    linked_with: str


class Mention(NamedTuple):
    """A mention of a note, as it was proposed and as it was reviewed.

    Attributes:
        number: number of the mention in the store.
        record: its record, a part of what `render.row_of` returns.
        added: whether a reviewer added it.
        reviewed: what reviewers decided about it.
    """

    number: int
    record: Row
    added: bool
    reviewed: Reviewed


class ReviewStore:
    """Notes, proposed mentions and events in one SQLite file. Several threads and processes may use it.

    Args:
        path: the file; it is created if it does not exist, with access only for its owner.

    Raises:
        DamagedFile: E080, the file is not a review, or is damaged.
        SapbertError: E081, the file cannot be used; E106, it has another format.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._database = ReviewDatabase(self.path)
        self._log, self._lock = Log(), threading.Lock()

    def close(self) -> None:
        """Close this thread's connection."""
        self._database.close()

    # -- notes and proposals --------------------------------------------------------------------------------------------

    def add_note(self, note_id: str, text: str, rows: Iterable[Row], *, linked_with: str = "", lang: str = "en", direction: str = "ltr") -> bool:
        """Add a note with the mentions that the linker proposes.

        Args:
            note_id: the caller's id, unique in the store.
            text: the note.
            rows: records of its mentions, see `render.row_of`; nested ones are left out.
            linked_with: state of the linker, see `linker.state_of`; it shows later whether the linker has changed.
            lang: language of the text, ISO 639-1.
            direction: reading direction of the text, "ltr" or "rtl".

        Returns:
            Whether the note was added. If the store already has it with the same text, it is not changed.

        Raises:
            SapbertError: E083, the store has a note with this id and another text.
        """
        with self._database.writing() as connection:
            there = connection.execute("SELECT text FROM note WHERE id = ?", (note_id,)).fetchone()
            if there is not None:
                if there[0] != text:
                    raise fail("E083", id=note_id)
                return False
            values = (note_id, text, lang, direction, linked_with)
            number = connection.execute("INSERT INTO note (id, text, lang, direction, linked_with) VALUES (?, ?, ?, ?, ?)", values).lastrowid
            connection.executemany(_INSERT, _proposals(number or 0, rows))
        return True

    def propose(self, note: Note, rows: Iterable[Row], linked_with: str) -> None:
        """Replace the proposed mentions of a note after the linker has changed. Mentions with an event of a reviewer are kept.

        A mention that is proposed again with the same span and concept keeps its number, so that a page that was opened before can still write events of it.

        Args:
            note: the note.
            rows: the new records.
            linked_with: state of the linker.
        """
        with_event = set(self.log().mentions())
        with self._database.writing() as connection:
            old = connection.execute("SELECT mention, start, end, cui FROM mention WHERE note = ? AND added = 0", (note.number,)).fetchall()
            # a span that a reviewer corrected, moved or added is not proposed again beside the reviewer's mention
            kept = {(start, end) for mention, start, end, _ in old if mention in with_event}
            kept |= {place_of(mention) for mention in self.mentions(note) if mention.added or mention.number in with_event}
            proposals = list(_proposals(note.number, (row for row in rows if (row["start"], row["end"]) not in kept)))
            again = {(start, end, cui) for _, start, end, cui, *_ in proposals}
            gone = [(mention,) for mention, *place in old if mention not in with_event and tuple(place) not in again]
            # a mention that got an event meanwhile, in another process, is kept
            connection.executemany("DELETE FROM mention WHERE mention = ?1 AND NOT EXISTS (SELECT 1 FROM event WHERE event.mention = ?1)", gone)
            connection.executemany(_UPDATE, proposals)
            connection.executemany(_INSERT.replace("INSERT", "INSERT OR IGNORE", 1), proposals)
            connection.execute("UPDATE note SET linked_with = ? WHERE note = ?", (linked_with, note.number))

    def note(self, note_id: str) -> Note:
        """Return the note with the caller's id.

        Raises:
            SapbertError: E084, there is no such note.
        """
        return Note(*self._found("note", "SELECT note, id, text, lang, direction, linked_with FROM note WHERE id = ?", note_id))

    def note_of(self, mention: int) -> str:
        """Return the id of the note of a mention.

        Raises:
            SapbertError: E084, there is no such mention.
        """
        return str(self._found("mention", "SELECT id FROM note JOIN mention ON mention.note = note.note WHERE mention = ?", mention)[0])

    def _found(self, what: str, sql: str, value: str | int) -> Any:
        """Return the only row of a query.

        Raises:
            SapbertError: E084, there is none.
        """
        rows = self._database.rows(sql, value)
        if not rows:
            raise fail("E084", what=what)
        return rows[0]

    def count(self) -> tuple[int, int]:
        """Return the numbers of notes and of mentions."""
        ((notes, mentions),) = self._database.rows("SELECT (SELECT COUNT(*) FROM note), (SELECT COUNT(*) FROM mention)")
        return notes, mentions

    def ids(self, *, order: Order = "note", limit: int = MAX_PAGE, offset: int = 0) -> list[tuple[str, int, int]]:
        """Return (id, number of linked mentions, number of mentions) for a page of notes.

        Args:
            order: "note": as they were added; "doubt": notes with the most doubtful open link first; "random": random, the same for all callers.
            limit: maximum number of notes to return.
            offset: number of notes to skip.
        """
        if order == "doubt":
            numbers = list(islice(self._by_doubt(), offset, offset + limit))
        else:
            by = "note * 2654435761 % 4294967296" if order == "random" else "note"
            numbers = [number for (number,) in self._database.rows(f"SELECT note FROM note ORDER BY {by} LIMIT ? OFFSET ?", limit, offset)]
        sql = f"SELECT id, (SELECT COUNT(*) FROM mention WHERE note = ?1 AND cui != '{NIL}'), (SELECT COUNT(*) FROM mention WHERE note = ?1) FROM note WHERE note = ?1"
        return [tuple(self._database.rows(sql, number)[0]) for number in numbers]

    def _by_doubt(self) -> Iterator[int]:
        """Yield the numbers of all notes. Notes with the most doubtful link that has no event yet come first."""
        with_event, seen, last = set(self.log().mentions()), set(), (2.0, 0)
        sql = "SELECT note, doubt, mention FROM mention WHERE doubt >= 0 AND (doubt < ?1 OR (doubt = ?1 AND mention > ?2)) ORDER BY doubt DESC, mention LIMIT 1000"
        while page := self._database.rows(sql, *last):
            for note, doubt, mention in page:
                last = (doubt, mention)
                if mention not in with_event and note not in seen:
                    seen.add(note)
                    yield note
        for (note,) in self._database.rows("SELECT note FROM note ORDER BY note"):
            if note not in seen:
                yield note

    def notes(self) -> Iterator[Note]:
        """Yield all notes in the order in which they were added."""
        last = 0
        while page := self._database.rows(
            "SELECT note, id, text, lang, direction, linked_with FROM note WHERE note > ? ORDER BY note LIMIT ?", last, MAX_PAGE
        ):
            yield from (Note(*found) for found in page)
            last = page[-1][0]

    def mentions(self, note: Note) -> list[Mention]:
        """Return the mentions of a note in reading order, without those that a reviewer added and then undid."""
        log = self.log()
        found = self._database.rows("SELECT mention, record, added FROM mention WHERE note = ? ORDER BY start, -end, mention", note.number)
        return [
            Mention(number, json.loads(record), bool(added), log.of(number))
            for number, record, added in found
            if not (added and log.is_withdrawn(number))
        ]

    def links(self, mentions: Iterable[int]) -> list[tuple[int, str, float | None]]:
        """Return (number of the mention, proposed concept, probability) for those of some mentions that the linker proposed."""
        sql = (
            "SELECT mention, cui, CASE WHEN doubt < 0 THEN NULL ELSE 1 - doubt END FROM mention"
            " WHERE added = 0 AND mention IN (SELECT value FROM json_each(?)) ORDER BY mention"
        )
        return [tuple(found) for found in self._database.rows(sql, json.dumps(list(mentions)))]

    def probabilities(self) -> list[tuple[float | None, int]]:
        """Return (probability, number of links) for all links that the linker proposed; the probability is None without a calibration."""
        sql = f"SELECT doubt, COUNT(*) FROM mention WHERE added = 0 AND cui != '{NIL}' GROUP BY doubt"
        return [(None if doubt < 0 else 1 - doubt, count) for doubt, count in self._database.rows(sql)]

    def find(self, text: str) -> list[str]:
        """Return the ids of the notes whose text or id contains a text; the case of ASCII letters is ignored."""
        pattern = "%" + text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        sql = "SELECT id FROM note WHERE text LIKE ?1 ESCAPE '\\' OR id LIKE ?1 ESCAPE '\\' ORDER BY note"
        return [note_id for (note_id,) in self._database.rows(sql, pattern)]

    def with_concept(self, cui: str) -> list[str]:
        """Return the ids of the notes in which a concept is proposed or was added."""
        sql = "SELECT DISTINCT id FROM note JOIN mention ON mention.note = note.note WHERE cui = ? ORDER BY note.note"
        return [note_id for (note_id,) in self._database.rows(sql, cui)]

    def concepts(self) -> list[tuple[str, int]]:
        """Return (concept id, number of mentions) for the concepts of all mentions, the most frequent first."""
        sql = f"SELECT cui, COUNT(*) FROM mention WHERE cui != '{NIL}' GROUP BY cui ORDER BY COUNT(*) DESC, cui"
        return [tuple(found) for found in self._database.rows(sql)]

    # -- events of reviewers --------------------------------------------------------------------------------------------

    def record(self, reviewer: str, given: Any) -> Event:
        """Write an event into the log. When this method returns, the event is on the disk.

        Args:
            reviewer: name of the reviewer.
            given: an event of one of the kinds in `events`, as a dictionary.

        Raises:
            SapbertError: E082, the event is not valid, or it moves a mention to the span of another one; E084, its note, mention or event does not
                exist.
        """
        reviewer, said = reviewer.strip(), read_event(given)
        if not 1 <= len(reviewer) <= MAX_REVIEWER or not reviewer.isprintable():
            raise fail("E082", why=f"the reviewer's name must have 1 to {MAX_REVIEWER} printable characters.")
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        with self._database.writing() as connection:
            mention = self._mention_of(connection, said, reviewer)
            values = (now, reviewer, said.kind, mention, said.model_dump_json())
            number = connection.execute("INSERT INTO event (at, reviewer, kind, mention, data) VALUES (?, ?, ?, ?, ?)", values).lastrowid
        return Event(number or 0, now, reviewer, said, mention)

    def _mention_of(self, connection: Any, said: Said, reviewer: str) -> int | None:
        """Return the number of the mention that an event is about, None if there is none.

        A mention that a reviewer adds is inserted. If the note has one with this span, the event is a decision about that one.

        Raises:
            SapbertError: E082, the span is not in the text or is that of another mention, or the event to undo is of another reviewer; E084, the note,
                mention or event does not exist.
        """
        if isinstance(said, (AddName, StopName)):
            return None
        if isinstance(said, Undo):
            by, kind = self._found("event", "SELECT reviewer, kind FROM event WHERE event = ?", said.event)
            if by != reviewer or kind == "undo":
                raise fail("E082", why="only an event of the same reviewer can be undone, and an undo can't be undone.")
            return None
        if isinstance(said, AddMention):
            note = self.note(said.note)
            start, end = _place(said.start, said.end, note.text)
            if (there := self._mention_at(note, start, end)) is not None:
                return there
            row = {
                "start": start,
                "end": end,
                "mention": note.text[start:end],
                "label": said.label,
                "status": None,
                "nested": False,
                "cui": said.cui,
                "score": None,
                "probability": None,
                "candidates": [],
                "explain": {},
            }
            sql = "INSERT OR IGNORE INTO mention (note, start, end, cui, doubt, added, record) VALUES (?, ?, ?, ?, -1, 1, ?)"
            connection.execute(sql, (note.number, start, end, said.cui, json.dumps(row, ensure_ascii=False)))
            same = "SELECT mention FROM mention WHERE note = ? AND start = ? AND end = ? AND added = 1"
            return int(connection.execute(same, (note.number, start, end)).fetchone()[0])
        note = self.note(self.note_of(said.mention))
        if isinstance(said, MoveSpan):
            start, end = _place(said.start, said.end, note.text)
            if self._mention_at(note, start, end) not in (None, said.mention):
                raise fail("E082", why=f"another mention has the span {start}-{end}.")
        return said.mention

    def _mention_at(self, note: Note, start: int, end: int) -> int | None:
        """Return the number of the mention of a note that has a span now; None if there is none."""
        return next((mention.number for mention in self.mentions(note) if place_of(mention) == (start, end)), None)

    def log(self) -> Log:
        """Return the log with all events that are in the file now. The object is shared, so do not change it."""
        with self._lock:
            self._log.extend(self.events(after=self._log.last))
            return self._log

    def events(self, after: int = 0) -> list[Event]:
        """Return the events with a number above `after`, in their order."""
        found = self._database.rows("SELECT event, at, reviewer, data, mention FROM event WHERE event > ? ORDER BY event", after)
        return [Event(number, at, reviewer, read_event(json.loads(data)), mention) for number, at, reviewer, data, mention in found]


def place_of(mention: Mention) -> tuple[int, int]:
    """Return (start, end) of a mention in characters: as the last reviewer set it, or else as it was proposed."""
    return mention.reviewed.span or (mention.record["start"], mention.record["end"])


_INSERT = "INSERT INTO mention (note, start, end, cui, doubt, added, record) VALUES (?, ?, ?, ?, ?, 0, ?)"
# a mention that got an event meanwhile, in another process, stays as the reviewer saw it
_UPDATE = """UPDATE mention SET doubt = ?5, record = ?6 WHERE note = ?1 AND start = ?2 AND end = ?3 AND cui = ?4 AND added = 0
    AND NOT EXISTS (SELECT 1 FROM event WHERE event.mention = mention.mention)"""

# fields of a record that are not stored: those of the note and of the concept are found again when they are needed, the others are not shown
_FOUND_AGAIN = frozenset(["note", "codes", "types", "type_names", "name", "section"])


def doubt_of(row: Row) -> float:
    """Return how doubtful a link is: 1 minus its probability, 0 to 1; -1 for no link, or a link without a probability."""
    return -1.0 if row["cui"] == NIL or row["probability"] is None else 1.0 - float(row["probability"])


def _proposals(note: int, rows: Iterable[Row]) -> Iterator[tuple[Any, ...]]:
    for row in rows:
        if not row.get("nested"):
            stored = {key: value for key, value in row.items() if key not in _FOUND_AGAIN}
            stored["candidates"] = [
                [concept_id, score] for concept_id, *_, score in row["candidates"]
            ]  # names are left out, because they come from the knowledge base
            yield note, row["start"], row["end"], row["cui"], doubt_of(row), json.dumps(stored, ensure_ascii=False)


def _place(start: int, end: int, text: str) -> tuple[int, int]:
    if not start < end <= len(text) or text[start:end] != text[start:end].strip():
        raise fail("E082", why=f"{start}-{end} is not a part of the text without white space at its ends.")
    return start, end
