"""The routes of a review: access, notes, decisions, and no text in the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from described import check_answers, example_of, fields, shape
from spacy.language import Language
from starlette.testclient import TestClient

from spacy_sapbert.corpus.pipeline import load
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.review.events import read_event
from spacy_sapbert.review.linker import add_docs
from spacy_sapbert.review.store import ReviewStore
from spacy_sapbert.service import review_schemas as schemas
from spacy_sapbert.service.app import create_app
from spacy_sapbert.service.settings import ServiceSettings

pytestmark = pytest.mark.usefixtures("one_thread")

HOSTILE = "<script>alert(1)</script> Fever <img src=x onerror=alert(2)> </mark>"
NOTES = {"ward/1": "Fever and a cold.", "ward/2": "Blobby now.", "x": HOSTILE}
ANN = {"X-Reviewer": "Ann%20%C3%84"}


@pytest.fixture(scope="module")
def nlp(tiny_linker: Path) -> Language:
    return load(str(tiny_linker))


Start = Callable[..., TestClient]


@pytest.fixture
def start(nlp: Language, tmp_path: Path) -> Iterator[Start]:
    """Start services for one review."""
    linker: Any = nlp.get_pipe("sapbert_linker")
    bundle = linker.bundle
    store = ReviewStore(tmp_path / "review.sqlite")
    add_docs(store, linker, [(nlp(text), note_id) for note_id, text in NOTES.items()])
    with ExitStack() as stack:

        def make(host: str = "127.0.0.1", **settings: Any) -> TestClient:
            app = create_app(lambda: nlp, ServiceSettings(review=store.path, **settings))
            client = stack.enter_context(TestClient(app, base_url=f"http://{host}:8000"))
            end = time.monotonic() + 60
            while client.get("/ready").status_code != 200:
                assert time.monotonic() < end
                time.sleep(0.01)
            return client

        yield make
    linker.bundle = bundle


def mention_of(client: TestClient, note: str, text: str) -> dict[str, Any]:
    shown = client.get("/review/note", params={"id": note}).json()
    return next(mention for mention in shown["mentions"] if mention["mention"] == text)


def say(client: TestClient, **event: Any) -> Any:
    return client.post("/review/events", json=event, headers=ANN)


def test_a_note_and_a_decision(start: Start) -> None:
    client = start()
    listed = client.get("/review/notes").json()
    assert listed == {"total": 3, "notes": [["ward/1", 2, 2], ["ward/2", 0, 0], ["x", 1, 1]]}
    note = client.get("/review/note", params={"id": "ward/1"}).json()
    assert [(each["mention"], each["cui"], each["decided"]) for each in note["mentions"]] == [("Fever", "C9100027", None), ("cold", "C9100020", None)]
    assert note["concepts"]["C9100027"]["name"] == "fever"
    assert f'id="m-{note["mentions"][0]["number"]}"' in note["html"]
    answer = say(client, kind="reject", mention=note["mentions"][1]["number"], cui="C9100020")
    assert answer.status_code == 200
    cold = mention_of(client, "ward/1", "cold")
    assert (cold["decided"], cold["now"], cold["decisions"][0]["reviewer"]) == ("reject", "NIL", "Ann Ä")
    assert say(client, kind="undo", event=answer.json()["event"]).status_code == 200
    assert mention_of(client, "ward/1", "cold")["decided"] is None
    assert [each["kind"] for each in client.get("/review/events", params={"after": 0}).json()] == ["reject", "undo"]
    assert client.get("/review/report").json()["open"] == 3


def test_a_name_links_the_next_note_and_an_undone_one_does_not(start: Start) -> None:
    client = start()
    assert client.get("/review/note", params={"id": "ward/2"}).json()["mentions"] == []
    event = say(client, kind="name", cui="C9100009", name="blobby").json()["event"]
    (found,) = client.get("/review/note", params={"id": "ward/2"}).json()["mentions"]
    assert (found["mention"], found["cui"]) == ("Blobby", "C9100009")
    say(client, kind="undo", event=event)
    assert client.get("/review/note", params={"id": "ward/2"}).json()["mentions"] == []


def test_concepts_of_the_review_come_in_pages(start: Start) -> None:
    client = start()
    fever, cold = ["C9100027", "fever", 2], ["C9100020", "common cold", 1]
    assert client.get("/review/concepts").json() == {"total": 2, "concepts": [fever, cold]}
    assert client.get("/review/concepts", params={"limit": 1}).json() == {"total": 2, "concepts": [fever]}
    assert client.get("/review/concepts", params={"limit": 1, "offset": 1}).json() == {"total": 2, "concepts": [cold]}
    assert client.get("/review/concepts", params={"find": " FEVER"}).json() == {"total": 1, "concepts": [fever]}
    assert client.get("/review/concepts", params={"find": "c9100020"}).json() == {"total": 1, "concepts": [cold]}
    assert client.get("/review/concepts", params={"find": "nothing"}).json() == {"total": 0, "concepts": []}
    assert client.get("/review/concepts", params={"limit": 0}).status_code == 422


def test_problems_of_the_review_are_described(start: Start) -> None:
    paths = start().get("/openapi.json").json()["paths"]
    for path, method in (("/review/note", "get"), ("/review/events", "post")):
        answers = paths[path][method]["responses"]
        for status, code in (("404", "E084"), ("403", "E085"), ("422", "E071")):
            content = answers[status]["content"]["application/json"]
            assert content["example"]["error"]["code"] == code
            assert content["schema"]["$ref"].endswith("/ProblemResponse")


def test_each_answer_of_the_review_has_an_example(start: Start) -> None:
    client = start()
    checked = check_answers(client, "/review")
    answered = {("get", "notes"), ("get", "note"), ("get", "concepts"), ("post", "events"), ("get", "events"), ("get", "report")}
    assert {(method, path.removeprefix("/review/")) for method, path, status in checked if status == "200"} == answered
    export = client.get("/openapi.json").json()["paths"]["/review/export"]["get"]["responses"]["200"]["content"]
    assert set(export) == {"application/octet-stream", "application/x-ndjson", "text/csv", "text/tab-separated-values"}


def test_an_example_of_the_review_has_the_fields_of_a_real_answer(start: Start) -> None:
    client = start()
    fever = mention_of(client, "ward/1", "Fever")["number"]
    recorded = say(client, kind="accept", mention=fever, cui="C9100027")
    client.post("/review/events", json={"kind": "reject", "mention": fever, "cui": "C9100027"}, headers={"X-Reviewer": "Ben"})
    named = say(client, kind="name", cui="C9100027", name="the heat").json()["event"]
    say(client, kind="undo", event=named)
    asked = {
        schemas.NotesOfReview: client.get("/review/notes"),
        schemas.NoteOfReview: client.get("/review/note", params={"id": "ward/1"}),
        schemas.ConceptsOfReview: client.get("/review/concepts"),
        schemas.RecordedEvent: recorded,
        schemas.EventsOfReview: client.get("/review/events"),
        schemas.ReportOfReview: client.get("/review/report"),
    }
    assert recorded.json()["note"] == "ward/1"
    for model, answer in asked.items():
        found, example = answer.json(), example_of(model)
        assert model.model_validate_json(answer.text, strict=True).model_dump(mode="json") == found
        if model is schemas.NoteOfReview:
            assert found["mentions"][0]["disputed"]
            found["concepts"], example["concepts"] = list(found["concepts"].values()), list(example["concepts"].values())
        assert fields(found) == fields(example), model
        if model is schemas.EventsOfReview:
            by_kind = {each["kind"]: set(each) for each in example}
            assert [set(each) for each in found if each["kind"] != "reject"] == [by_kind[kind] for kind in ("accept", "name", "undo")]


def test_each_kind_of_event_has_an_example() -> None:
    shown = {read_event(event).kind for event in schemas.EVENTS.values()}
    assert shown == {"accept", "reject", "choose", "nil", "span", "status", "add", "name", "stop", "undo"}


def test_events_say_which_names_they_are_about_and_what_was_undone(start: Start) -> None:
    client = start()
    fever = mention_of(client, "ward/1", "Fever")["number"]
    accepted = say(client, kind="accept", mention=fever, cui="C9100027").json()["event"]
    named = say(client, kind="name", cui="C9100027", name="the heat").json()["event"]
    stopped = say(client, kind="stop", name="cold").json()["event"]
    answer = say(client, kind="undo", event=accepted).json()
    assert (answer["mention"], answer["note"]) == (fever, "ward/1")
    answer = say(client, kind="undo", event=stopped).json()
    assert (answer["mention"], answer["note"]) == (None, None)
    found = client.get("/review/events", params={"after": accepted}).json()
    assert [{key: each[key] for key in each.keys() - {"at", "event", "mention"}} for each in found] == [
        {"reviewer": "Ann Ä", "kind": "name", "name": "the heat", "cui": "C9100027", "concept": "fever"},
        {"reviewer": "Ann Ä", "kind": "stop", "name": "cold", "cui": None, "concept": ""},
        {"reviewer": "Ann Ä", "kind": "undo", "undoes": accepted},
        {"reviewer": "Ann Ä", "kind": "undo", "undoes": stopped},
    ]
    assert found[0]["event"] == named


def test_a_removed_name_has_an_effect_at_once_and_none_when_undone(start: Start) -> None:
    client = start()

    def links() -> list[tuple[str, str]]:
        found = client.post("/link", json={"text": "Fever, no asthma."}).json()["results"][0]["mentions"]
        return [(each["mention"], each["cui"]) for each in found if each["cui"] != "NIL"]

    def shown() -> list[tuple[str, str]]:
        note = client.get("/review/note", params={"id": "ward/1"}).json()
        return [(each["mention"], each["cui"]) for each in note["mentions"] if each["cui"] != "NIL"]

    assert links() == [("Fever", "C9100027"), ("asthma", "C9100013")]
    assert shown() == [("Fever", "C9100027"), ("cold", "C9100020")]
    stopped = say(client, kind="stop", name="FEVER").json()["event"]
    assert links() == [("asthma", "C9100013")]
    assert shown() == [("cold", "C9100020")]
    removed = say(client, kind="stop", name="asthma", cui="C9100013").json()["event"]
    assert links() == []
    assert client.get("/version").json()["linker"]["removed_names"] == 2
    say(client, kind="undo", event=stopped)
    assert links() == [("Fever", "C9100027")]
    assert shown() == [("Fever", "C9100027"), ("cold", "C9100020")]
    say(client, kind="undo", event=removed)
    assert links() == [("Fever", "C9100027"), ("asthma", "C9100013")]


def test_notes_are_found_by_text_and_concept(start: Start) -> None:
    client = start()
    assert client.get("/review/notes", params={"find": "BLOBBY"}).json()["notes"][0][0] == "ward/2"
    assert [each[0] for each in client.get("/review/notes", params={"cui": "C9100027"}).json()["notes"]] == ["ward/1", "x"]
    assert client.get("/review/notes", params={"limit": 1, "offset": 1}).json()["notes"][0][0] == "ward/2"
    assert client.get("/review/concepts").json()["concepts"][0] == ["C9100027", "fever", 2]
    assert client.get("/review/notes", params={"order": "doubt"}).json()["total"] == 3


def test_markup_of_a_note_is_text(start: Start) -> None:
    client = start()
    html = client.get("/review/note", params={"id": "x"}).json()["html"]
    assert "<script" not in html
    assert "<img" not in html
    assert html.count("</mark>") == 1
    page = client.get("/")
    assert "script-src 'self';" in page.headers["content-security-policy"]
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("event", "status", "code"),
    [
        ({"kind": "accept", "mention": 10**9, "cui": "C1"}, 404, "E084"),
        ({"kind": "choose", "mention": 1, "cui": "C0000000"}, 404, "E084"),
        ({"kind": "name", "cui": "C9100009", "name": "..."}, 422, "E024"),
        ({"kind": "add", "note": "ward/1", "start": 0, "end": 999, "cui": "NIL"}, 422, "E082"),
        ({"kind": "stop", "cui": "C0000000", "name": "cold"}, 404, "E084"),
        ({"kind": "stop", "name": "..."}, 422, "E024"),
        ({"kind": "delete everything"}, 422, "E082"),
        ({}, 422, "E082"),
        ([], 422, "E071"),
    ],
)
def test_what_cannot_be_said(start: Start, event: Any, status: int, code: str) -> None:
    answer = start().post("/review/events", json=event, headers=ANN)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_who_may_ask(start: Start) -> None:
    client = start(api_key="secret")
    for path in ("/", "/review/page.js", "/review/page.css"):  # these pages hold no notes
        assert client.get(path).status_code == 200
    for path in ("/review/notes", "/review/note?id=x", "/review/export?format=jsonl", "/review/report", "/review/events", "/review/concepts"):
        assert client.get(path).status_code == 401
        assert client.get(path, headers={"X-API-Key": "secret"}).status_code == 200
    without_name = client.post("/review/events", json={"kind": "nil", "mention": 1}, headers={"X-API-Key": "secret"})
    assert without_name.status_code == 422


def test_another_name_of_this_machine_is_refused(start: Start) -> None:
    client = start(host="evil.example")
    for path in ("/", "/review/notes"):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "E085")
    assert start(host="localhost").get("/review/notes").status_code == 200
    assert start(host="[::1]").get("/review/notes").status_code == 200


def test_a_review_is_not_opened_to_others_without_a_key(tmp_path: Path) -> None:
    with pytest.raises(SapbertError, match="E086"):
        ServiceSettings(host="0.0.0.0", review=tmp_path / "r.sqlite").check_reach()
    ServiceSettings(host="0.0.0.0", review=tmp_path / "r.sqlite", api_key="k").check_reach()


def test_the_log_has_no_text(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client = start()
    client.get("/review/notes", params={"find": "marzipan"})
    client.get("/review/note", params={"id": "ward/1"})
    say(client, kind="name", cui="C9100009", name="marzipan")
    say(client, kind="name", cui="marzipan", name="x")
    logged = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith(("spacy_sapbert", "uvicorn")))
    assert "/review/note" in logged
    for word in ("marzipan", "Fever", "ward", "Ann"):
        assert word not in logged


@pytest.mark.parametrize("kind", ["gold", "jsonl", "usagi", "sssom", "names"])
def test_what_comes_out(start: Start, kind: str) -> None:
    client = start()
    fever = mention_of(client, "ward/1", "Fever")
    say(client, kind="accept", mention=fever["number"], cui=fever["cui"])
    say(client, kind="name", cui="C9100027", name="hot head")
    answer = client.get("/review/export", params={"format": kind})
    assert answer.status_code == 200
    assert "attachment" in answer.headers["content-disposition"]
    media_type = answer.headers["content-type"].partition(";")[0]
    described = client.get("/openapi.json").json()["paths"]["/review/export"]["get"]["responses"]["200"]["content"][media_type]
    if kind != "gold":
        assert "C9100027" in answer.text
        assert shape(media_type, answer.text) == shape(media_type, described["examples"][kind]["value"])


def test_without_a_review_there_is_no_page(nlp: Language) -> None:
    with TestClient(create_app(lambda: nlp), base_url="http://127.0.0.1") as client:
        assert client.get("/").status_code == 404
        assert client.get("/review/notes").status_code == 404
