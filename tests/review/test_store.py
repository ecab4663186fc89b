"""The review store: its log keeps everything, with several writers and after a kill; its results are as computed by hand."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from spacy_sapbert.errors import DamagedFile, SapbertError
from spacy_sapbert.review.events import NIL, UNKNOWN, Event, read_event
from spacy_sapbert.review.log import Log
from spacy_sapbert.review.store import MAX_PAGE, ReviewStore, doubt_of, place_of

TEXT = "Fever and cold. <b>MI</b> in 2001."


def row(mention: str, cui: str, probability: float | None = None, text: str = TEXT, **more: Any) -> dict[str, Any]:
    start = text.index(mention)
    return {
        "start": start,
        "end": start + len(mention),
        "mention": mention,
        "label": "DISO",
        "status": [],
        "nested": False,
        "cui": cui,
        "score": None,
        "probability": probability,
        "candidates": [[cui, "a name", 0.9]],
        "explain": {},
        "note": "n1",
        "codes": {},
        "types": [],
        "type_names": [],
        "name": "a name",
        **more,
    }


ROWS = [row("Fever", "C1", 0.9), row("cold", "C2", 0.5), row("MI", "NIL")]


@pytest.fixture
def store(tmp_path: Path) -> ReviewStore:
    made = ReviewStore(tmp_path / "review.sqlite")
    assert made.add_note("n1", TEXT, ROWS, linked_with="a")
    return made


def numbers(store: ReviewStore, note_id: str = "n1") -> dict[str, int]:
    return {mention.record["mention"]: mention.number for mention in store.mentions(store.note(note_id))}


def test_a_note_and_its_mentions_come_back(store: ReviewStore) -> None:
    note = store.note("n1")
    assert (note.text, note.lang, note.linked_with) == (TEXT, "en", "a")
    found = [(m.record["mention"], m.record["cui"], m.record["probability"], m.record["candidates"]) for m in store.mentions(note)]
    assert found == [("Fever", "C1", 0.9, [["C1", 0.9]]), ("cold", "C2", 0.5, [["C2", 0.9]]), ("MI", "NIL", None, [["NIL", 0.9]])]
    assert not store.add_note("n1", TEXT, [])  # it is already there, with its mentions
    assert store.count() == (1, 3)
    with pytest.raises(SapbertError, match="E083"):
        store.add_note("n1", "another text", [])


def test_nested_mentions_are_left_out(store: ReviewStore) -> None:
    store.add_note("n2", TEXT, [row("Fever", "C1", nested=True)])
    assert store.count() == (2, 3)


@pytest.mark.parametrize(("cui", "probability", "doubt"), [("C1", 0.75, 0.25), ("C1", None, -1.0), ("NIL", 0.75, -1.0)])
def test_doubt(cui: str, probability: float | None, doubt: float) -> None:
    assert doubt_of(row("Fever", cui, probability)) == doubt


def test_the_last_decision_of_a_reviewer_counts_and_undo_brings_the_one_before(store: ReviewStore) -> None:
    fever = numbers(store)["Fever"]
    store.record("ann", {"kind": "accept", "mention": fever, "cui": "C1"})
    second = store.record("ann", {"kind": "choose", "mention": fever, "cui": "C7"})

    def final() -> str | None:
        decision = store.log().of(fever).final
        return None if decision is None else decision.cui

    assert final() == "C7"
    store.record("ann", {"kind": "undo", "event": second.number})
    assert final() == "C1"
    assert len(store.events()) == 3  # nothing is removed from the log


def test_reviewers_who_differ_are_settled_by_an_adjudicator(store: ReviewStore) -> None:
    cold = numbers(store)["cold"]
    store.record("ann", {"kind": "accept", "mention": cold, "cui": "C2"})
    store.record("bob", {"kind": "reject", "mention": cold, "cui": "C2"})
    found = store.log().of(cold)
    assert (found.final, found.disputed) == (None, True)
    assert {name: decision.cui for name, decision in found.decisions.items()} == {"ann": "C2", "bob": UNKNOWN}
    settled = store.record("eve", {"kind": "nil", "mention": cold, "settles": True})
    found = store.log().of(cold)
    assert found.final is not None
    assert (found.final.cui, found.final.reviewer, found.disputed) == (NIL, "eve", False)
    store.record("eve", {"kind": "undo", "event": settled.number})
    assert store.log().of(cold).disputed


def test_span_and_status(store: ReviewStore) -> None:
    cold = numbers(store)["cold"]
    start = TEXT.index("and cold")
    store.record("ann", {"kind": "span", "mention": cold, "start": start, "end": start + 8})
    store.record("ann", {"kind": "status", "mention": cold, "status": ["negated"]})
    found = store.log().of(cold)
    assert (found.span, found.status, found.final) == ((start, start + 8), ["negated"], None)


def test_a_mention_that_a_reviewer_adds_and_takes_back(store: ReviewStore) -> None:
    start = TEXT.index("2001")
    added = store.record("ann", {"kind": "add", "note": "n1", "start": start, "end": start + 4, "cui": "C9"})
    (mention,) = [each for each in store.mentions(store.note("n1")) if each.added]
    assert mention.number == added.mention
    assert mention.reviewed.final is not None
    assert (mention.record["mention"], mention.reviewed.final.cui) == ("2001", "C9")
    store.record("ann", {"kind": "undo", "event": added.number})
    assert [each for each in store.mentions(store.note("n1")) if each.added] == []


def test_adding_a_mention_that_is_there_decides_about_it(store: ReviewStore) -> None:
    fever, note = numbers(store)["Fever"], store.note("n1")
    added = store.record("ann", {"kind": "add", "note": "n1", "start": 0, "end": 5, "cui": "C9"})
    assert added.mention == fever
    assert store.count() == (1, 3)
    final = store.log().of(fever).final
    assert final is not None
    assert (final.cui, final.kind) == ("C9", "add")
    store.record("ann", {"kind": "undo", "event": added.number})
    assert store.log().of(fever).final is None
    assert store.mentions(note)[0].number == fever  # the proposed mention stays


def test_a_span_is_that_of_the_mention_that_has_it_now(store: ReviewStore) -> None:
    cold, note = numbers(store)["cold"], store.note("n1")
    wide, narrow = (TEXT.index("and cold"), TEXT.index("cold") + 4), (TEXT.index("cold"), TEXT.index("cold") + 4)
    store.record("ann", {"kind": "span", "mention": cold, "start": wide[0], "end": wide[1]})
    assert store.record("bob", {"kind": "add", "note": "n1", "start": wide[0], "end": wide[1], "cui": "C2"}).mention == cold
    other = store.record("bob", {"kind": "add", "note": "n1", "start": narrow[0], "end": narrow[1], "cui": "C2"}).mention
    assert other not in (None, cold)  # its place is free since the first one was moved
    assert sorted(place_of(mention) for mention in store.mentions(note))[1:3] == [wide, narrow]
    for mention, (start, end) in ((cold, narrow), (other, wide), (numbers(store)["MI"], narrow)):
        with pytest.raises(SapbertError, match=r"E082.*another mention has the span"):
            store.record("ann", {"kind": "span", "mention": mention, "start": start, "end": end})
    store.record("ann", {"kind": "span", "mention": cold, "start": wide[0], "end": wide[1]})  # its own span is allowed


def test_a_mention_that_was_added_and_moved_comes_back_when_it_is_added_again(store: ReviewStore) -> None:
    start = TEXT.index("2001")
    add = {"kind": "add", "note": "n1", "start": start, "end": start + 4, "cui": "C9"}
    number = store.record("ann", add).mention
    store.record("ann", {"kind": "span", "mention": number, "start": start - 3, "end": start + 4})
    assert store.record("bob", add).mention == number
    (mention,) = [each for each in store.mentions(store.note("n1")) if each.added]
    assert place_of(mention) == (start, start + 4)


def test_names_the_last_event_counts(store: ReviewStore) -> None:
    store.record("ann", {"kind": "name", "cui": "C1", "name": "the heat"})
    store.record("ann", {"kind": "stop", "name": "cold"})
    store.record("ann", {"kind": "stop", "cui": "C1", "name": "the heat"})
    taken = store.record("bob", {"kind": "name", "cui": "C2", "name": "sniffles"})
    assert store.log().names() == [(None, "cold", False), ("C1", "the heat", False), ("C2", "sniffles", True)]
    store.record("bob", {"kind": "undo", "event": taken.number})
    assert [change for change in store.log().names() if change.adds] == []


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"kind": "accept", "mention": 99, "cui": "C1"}, "E084"),
        ({"kind": "accept", "cui": "C1"}, "E082"),
        ({"kind": "accept", "mention": "1", "cui": "C1"}, "E082"),
        ({"kind": "bribe", "mention": 1}, "E082"),
        ({"kind": "choose", "mention": 1, "cui": ""}, "E082"),
        ({"kind": "span", "mention": 1, "start": 5, "end": 5}, "E082"),
        ({"kind": "span", "mention": 1, "start": 0, "end": 6}, "E082"),  # ends with a space
        ({"kind": "span", "mention": 1, "start": 0, "end": 10_000}, "E082"),
        ({"kind": "add", "note": "n7", "start": 0, "end": 5, "cui": "C1"}, "E084"),
        ({"kind": "status", "mention": 1, "status": ["dead"]}, "E082"),
        ({"kind": "undo", "event": 1}, "E084"),
        ({"kind": "name", "cui": "C1", "name": ""}, "E082"),
        ("accept", "E082"),
    ],
    ids=str,
)
def test_what_is_not_valid_is_refused_and_not_written(store: ReviewStore, given: Any, code: str) -> None:
    with pytest.raises(SapbertError, match=code):
        store.record("ann", given)
    assert store.events() == []
    assert store.count() == (1, 3)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"kind": "nil", "mention": 1, "smith": 1}, "it has a field that is not known."),
        ({"kind": "smith", "mention": 1}, "its kind is not known. Known: 'accept', 'reject', 'choose', 'nil', "),
    ],
    ids=["field", "kind"],
)
def test_what_is_not_known_is_not_repeated(store: ReviewStore, given: Any, why: str) -> None:
    with pytest.raises(SapbertError) as info:
        store.record("ann", given)
    assert f"not valid: {why}" in str(info.value)
    assert "smith" not in str(info.value)


@pytest.mark.parametrize("reviewer", ["", "  ", "a\nb", "x" * 101])
def test_a_reviewer_has_a_name(store: ReviewStore, reviewer: str) -> None:
    with pytest.raises(SapbertError, match="E082"):
        store.record(reviewer, {"kind": "stop", "name": "cold"})


def test_only_ones_own_events_can_be_undone_and_an_undo_cannot(store: ReviewStore) -> None:
    said = store.record("ann", {"kind": "stop", "name": "cold"})
    with pytest.raises(SapbertError, match="E082"):
        store.record("bob", {"kind": "undo", "event": said.number})
    undo = store.record("ann", {"kind": "undo", "event": said.number})
    with pytest.raises(SapbertError, match="E082"):
        store.record("ann", {"kind": "undo", "event": undo.number})


def test_the_log_cannot_be_changed(store: ReviewStore) -> None:
    store.record("ann", {"kind": "stop", "name": "cold"})
    with sqlite3.connect(store.path) as connection:
        for statement in ("DELETE FROM event", "UPDATE event SET reviewer = 'bob'"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(statement)
    assert [event.reviewer for event in store.events()] == ["ann"]


# -- proposals after a change of the linker -----------------------------------------------------------------------------


def test_new_proposals_replace_what_nobody_spoke_about(store: ReviewStore) -> None:
    before = numbers(store)
    store.record("ann", {"kind": "reject", "mention": before["Fever"], "cui": "C1"})
    store.propose(store.note("n1"), [row("Fever", "C5"), row("cold", "C6"), row("2001", "C7")], "b")
    found = {m.record["mention"]: (m.record["cui"], m.number) for m in store.mentions(store.note("n1"))}
    assert found["Fever"] == ("C1", before["Fever"])  # a reviewed mention stays as the reviewer saw it
    assert {mention: cui for mention, (cui, _) in found.items()} == {"Fever": "C1", "cold": "C6", "2001": "C7"}
    assert store.note("n1").linked_with == "b"


def test_a_mention_that_is_proposed_again_keeps_its_number(store: ReviewStore) -> None:
    """A page that was opened before the change can still write an event of it; not of a mention that has another concept now, or is nested."""
    before = numbers(store)
    assert set(before) == {"Fever", "cold", "MI"}
    store.propose(store.note("n1"), [row("Fever", "C1", 0.7), row("cold", "C6"), row("2001", "C7")], "b")
    after = numbers(store)
    assert after["Fever"] == before["Fever"]
    assert after["cold"] not in before.values()
    assert {m.number: m.record["probability"] for m in store.mentions(store.note("n1"))}[before["Fever"]] == 0.7
    store.record("ann", {"kind": "accept", "mention": before["Fever"], "cui": "C1"})
    with pytest.raises(SapbertError, match="E084"):
        store.record("ann", {"kind": "accept", "mention": before["cold"], "cui": "C2"})
    store.propose(store.note("n1"), [{**row("2001", "C7"), "nested": True}], "c")
    assert set(numbers(store)) == {"Fever"}


def test_new_proposals_leave_out_what_a_reviewer_added_or_moved(store: ReviewStore) -> None:
    """The linker finds "2001" after a reviewer added it, and "and cold" after a reviewer moved "cold" there."""
    year, wide = TEXT.index("2001"), TEXT.index("and cold")
    store.record("ann", {"kind": "add", "note": "n1", "start": year, "end": year + 4, "cui": "C9"})
    store.record("ann", {"kind": "span", "mention": numbers(store)["cold"], "start": wide, "end": wide + 8})
    store.propose(store.note("n1"), [row("2001", "C7"), row("and cold", "C8"), row("cold", "C8"), row("Fever", "C1")], "b")
    found = [(place_of(mention), mention.added) for mention in store.mentions(store.note("n1"))]
    assert sorted(found) == [((0, 5), False), ((wide, wide + 8), False), ((year, year + 4), True)]


# -- order and search ---------------------------------------------------------------------------------------------------


def test_notes_by_doubt_until_their_links_are_reviewed(store: ReviewStore) -> None:
    store.add_note("n2", TEXT, [row("Fever", "C1", 0.2)])
    store.add_note("n3", TEXT, [row("Fever", "C1", 0.4)])
    store.add_note("n4", TEXT, [])
    assert [found[0] for found in store.ids(order="doubt")] == ["n2", "n3", "n1", "n4"]
    store.record("ann", {"kind": "accept", "mention": numbers(store, "n2")["Fever"], "cui": "C1"})
    assert [found[0] for found in store.ids(order="doubt")] == ["n3", "n1", "n2", "n4"]
    assert store.ids(order="doubt", limit=2, offset=1) == [("n1", 2, 3), ("n2", 1, 1)]
    assert store.ids() == [("n1", 2, 3), ("n2", 1, 1), ("n3", 1, 1), ("n4", 0, 0)]
    assert sorted(store.ids(order="random")) == sorted(store.ids())
    assert [note.note_id for note in store.notes()] == ["n1", "n2", "n3", "n4"]


def test_search_takes_marks_as_they_are(store: ReviewStore) -> None:
    store.add_note("n2", "100% of them_all", [])
    assert store.find("FEVER") == ["n1"]
    assert store.find("0% o") == ["n2"]
    assert store.find("m_a") == ["n2"]
    assert store.find("r_a") == []  # _ is not a wildcard
    assert store.find("n2") == ["n2"]
    assert store.with_concept("C2") == ["n1"]
    assert store.concepts() == [("C1", 1), ("C2", 1)]


def test_a_search_finds_more_notes_than_a_page_has(store: ReviewStore) -> None:
    for number in range(MAX_PAGE + 5):
        store.add_note(f"m{number}", "no murmur", [row("murmur", "C9", 0.9, text="no murmur")])
    assert len(store.find("murmur")) == len(store.with_concept("C9")) == MAX_PAGE + 5


# -- the file -----------------------------------------------------------------------------------------------------------


def test_only_the_owner_may_read_the_file(store: ReviewStore) -> None:
    os.chmod(store.path, 0o644)
    ReviewStore(store.path).record("ann", {"kind": "stop", "name": "cold"})
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in store.path.parent.iterdir()}
    assert modes
    assert set(modes.values()) == {0o600}


def damage(path: Path, how: str) -> None:
    if how == "text":
        path.write_text("no database, but a text that is long enough to be looked at as one. " * 20)
        return
    if how == "pages":
        content = bytearray(path.read_bytes())
        content[5000:9000] = b"\xff" * 4000
        path.write_bytes(content)
        return
    statement = {
        "others": "PRAGMA application_id = 7",
        "version": "PRAGMA user_version = 99",
        "view": "CREATE VIEW extra AS SELECT 1",
        "trigger": "CREATE TRIGGER evil AFTER INSERT ON event BEGIN DELETE FROM note; END",
        "table": "DROP TABLE about",
        "stays": "DROP TRIGGER event_stays",
    }[how]
    with sqlite3.connect(path) as connection:
        connection.execute(statement)


@pytest.mark.parametrize("how", ["text", "pages", "others", "version", "view", "trigger", "table", "stays"])
def test_damaged_and_strange_files_are_refused(store: ReviewStore, how: str) -> None:
    path = store.path
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()
    for beside in path.parent.glob("*-wal"):
        beside.unlink()
    damage(path, how)
    with pytest.raises(SapbertError) as caught:
        ReviewStore(path)
    assert caught.value.code == ("E106" if how == "version" else "E080")
    assert isinstance(caught.value, DamagedFile) == (how != "version")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SapbertError, match="E081"):
        ReviewStore(tmp_path / "none" / "review.sqlite")


def test_writers_in_threads_lose_nothing(store: ReviewStore) -> None:
    other = ReviewStore(store.path)

    def write(who: str, where: ReviewStore) -> None:
        for i in range(25):
            where.record(who, {"kind": "stop", "name": f"{who} {i}"})

    threads = [threading.Thread(target=write, args=(f"r{i}", [store, other][i % 2])) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = [event.said.name for event in store.events()]  # type: ignore[union-attr]
    assert sorted(said) == sorted(f"r{i} {j}" for i in range(4) for j in range(25))
    assert len(other.log().events) == len(store.log().events) == 100


WRITER = """
import sys
from spacy_sapbert.review.store import ReviewStore
store = ReviewStore(sys.argv[1])
for i in range(1_000_000):
    store.record(sys.argv[2], {"kind": "stop", "name": f"name {i}"})
    print(i, flush=True)
"""


@pytest.mark.e2e
def test_what_was_confirmed_is_there_after_a_kill(store: ReviewStore) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(store.path), who], stdout=subprocess.PIPE, text=True) for who in ("ann", "bob")]
    confirmed = []
    for writer in writers:  # each writer has written some events, and is writing more
        assert writer.stdout is not None
        for _ in range(20):
            writer.stdout.readline()
    time.sleep(0.2)
    for writer in writers:
        os.kill(writer.pid, signal.SIGKILL)
    for writer in writers:
        assert writer.stdout is not None
        confirmed.append(20 + len(writer.stdout.read().split()))
        writer.wait()
    again = ReviewStore(store.path)
    for who, count in zip(("ann", "bob"), confirmed):
        names = [event.said.name for event in again.events() if event.reviewer == who]  # type: ignore[union-attr]
        assert names[:count] == [f"name {i}" for i in range(count)]
        assert len(names) <= count + 1  # one may be written but not yet confirmed
    assert again.count() == (1, 3)


# -- the meaning of the log ---------------------------------------------------------------------------------------------

KINDS = st.sampled_from(["accept", "reject", "nil", "undo"])


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 2), KINDS, st.integers(1, 12)), max_size=12))
@hypothesis_settings(max_examples=200, deadline=None)
def test_a_log_read_in_parts_is_the_log_read_at_once(said: list[tuple[str, int, str, int]]) -> None:
    events: list[Event] = []
    for number, (who, mention, kind, target) in enumerate(said, 1):
        given: dict[str, Any] = {"kind": kind, "mention": mention, "cui": "C1"}
        if kind == "nil":
            del given["cui"]
        if kind == "undo":
            given = {"kind": "undo", "event": target}
        events.append(Event(number, "", who, read_event(given), None if kind == "undo" else mention))
    whole, parts = Log(), Log()
    whole.extend(events)
    for event in events:
        parts.extend([event])
    undone = {target for _, _, kind, target in said if kind == "undo"}
    for mention in (1, 2):
        assert whole.of(mention) == parts.of(mention)
        stands = [e for e in events if e.mention == mention and e.number not in undone]
        last = {e.reviewer: e.number for e in stands}
        assert {who: decision.event for who, decision in whole.of(mention).decisions.items()} == last
