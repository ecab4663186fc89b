"""A whole review in a real browser: open the page, reject links, add a name, see that it links the next note, export, calibrate; precision rises."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from spacy.language import Language
from typer.testing import CliRunner

from spacy_sapbert.cli import app as commands
from spacy_sapbert.corpus.pipeline import load
from spacy_sapbert.review.linker import add_docs
from spacy_sapbert.review.store import ReviewStore
from spacy_sapbert.service.app import create_app
from spacy_sapbert.service.settings import ServiceSettings

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("one_thread")]
SECONDS = 60
HOSTILE = "<script>window.hacked = 1</script> Fever <img src=x onerror='window.hacked = 1'>\nsecond 🤒 line: asthma"
CLEAR = [f"Patient {i}. Fever and hypertension. Known asthma." for i in range(20)]
AMBIGUOUS = ["Old MI.", "MS in the chart.", "PE was seen.", "Another MI.", "History of MS."]  # abbreviations with two meanings
BLOBBY = "Blobby since Monday."


@pytest.fixture
def linker_folder(tiny_linker: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_linker, tmp_path / "linker"))


class Served:
    """A review that is served in this process."""

    def __init__(self, nlp: Language, path: Path, **settings: Any) -> None:
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        made = create_app(lambda: nlp, ServiceSettings(review=path, **settings))
        self.server = uvicorn.Server(uvicorn.Config(made, log_config=None))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listener]}, daemon=True)
        self.thread.start()
        end = time.monotonic() + SECONDS
        while made.state.service._linking is None:
            assert time.monotonic() < end
            time.sleep(0.05)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(SECONDS)


@pytest.fixture
def served(linker_folder: Path, tmp_path: Path) -> Iterator[Callable[..., tuple[ReviewStore, Served]]]:
    """Serve a review of some notes."""
    running = []

    def serve(notes: list[str], probability: float | dict[str, float] | None = None, **settings: Any) -> tuple[ReviewStore, Served]:
        nlp = load(str(linker_folder))
        store = ReviewStore(tmp_path / "review.sqlite")
        docs = [(nlp(text), f"note_{i}") for i, text in enumerate(notes)]
        for ent in (ent for doc, _ in docs for ent in doc.ents if probability is not None):
            ent._.kb_prob = probability.get(ent.text) if isinstance(probability, dict) else probability
        add_docs(store, nlp.get_pipe("sapbert_linker"), docs)
        running.append(Served(nlp, store.path, **settings))
        return store, running[-1]

    yield serve
    for each in running:
        each.stop()


def open_page(browser: Any, url: str, name: str = "Ann", width: int = 1280) -> Any:
    """Open the page as a reviewer; errors on the page fail the test."""
    page = browser.new_page(viewport={"width": width, "height": 900}, accept_downloads=True)
    page.set_default_timeout(20_000)
    page.on("pageerror", lambda error: pytest.fail(f"the page failed: {error}"))
    page.goto(url)
    page.fill("#reviewer", name)
    return page


def open_note(page: Any, note: str) -> None:
    page.click(f"#notes a:has-text('{note}')")
    page.wait_for_selector(f"#note h2:text-is('{note}')")


def until(page: Any, done: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until something is so; let the page work meanwhile."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        page.wait_for_timeout(20)


def decide(page: Any, mention: str, key: str) -> None:
    """Choose a mention and press a key; wait until the decision is written."""
    mark = page.locator("#note mark", has_text=mention).first
    mark.click()
    with page.expect_response(lambda answer: answer.url.endswith("/review/events") and answer.request.method == "POST") as said:
        page.keyboard.press(key)
    assert said.value.status == 200
    page.wait_for_selector(f"#note mark.decided:has-text('{mention}')")


def right_links(linker: Path, **settings: Any) -> tuple[int, int]:
    """Return the number of right links and of all links in all notes. No concept is right for the abbreviations."""
    nlp = load(str(linker))
    component: Any = nlp.get_pipe("sapbert_linker")
    component.change_settings(**settings)
    right = [sum(bool(ent.kb_id_) for ent in doc.ents) for doc in nlp.pipe(CLEAR)]
    wrong = [sum(bool(ent.kb_id_) for ent in doc.ents) for doc in nlp.pipe(AMBIGUOUS)]
    return sum(right), sum(right) + sum(wrong)


def test_a_note_that_was_opened_before_a_new_name_was_written_is_shown_with_it(browser: Any, served: Any) -> None:
    _, running = served([CLEAR[0], BLOBBY])
    page = open_page(browser, running.url)
    page.select_option("#order", "note")
    open_note(page, "note_0")
    page.locator("#note mark").first.click()
    page.fill("#new-name", "blobby")
    held: list[Any] = []
    page.route("**/review/events", lambda route: held.append(route) if route.request.method == "POST" else route.continue_())
    page.click("text=Add as a name")
    open_note(page, "note_1")
    until(page, lambda: bool(held))
    assert page.locator("#note mark:has-text('Blobby')").count() == 0
    held[0].continue_()
    page.wait_for_selector("#note mark:has-text('Blobby')")
    assert page.inner_text("#note h2") == "note_1"
    page.close()


def test_the_whole_loop(browser: Any, served: Any, linker_folder: Path, tmp_path: Path) -> None:
    store, running = served([*AMBIGUOUS, *CLEAR, "Nothing yet.", BLOBBY])
    for note in store.notes():  # decisions that another reviewer made before
        if note.text in CLEAR:
            for mention in store.mentions(note):
                store.record("Bo", {"kind": "accept", "mention": mention.number, "cui": mention.record["cui"]})
    page = open_page(browser, running.url)
    page.select_option("#order", "note")
    for note, mention in (("note_0", "MI"), ("note_1", "MS"), ("note_2", "PE")):
        open_note(page, note)
        decide(page, mention, "r")
    page.wait_for_selector("#summary:has-text('60 of 63 right')")

    open_note(page, "note_26")
    assert page.locator("#note mark:has-text('Blobby')").count() == 0
    open_note(page, "note_5")
    page.locator("#note mark", has_text="hypertension").click()
    page.fill("#new-name", "blobby")
    page.click("text=Add as a name")
    open_note(page, "note_26")
    page.wait_for_selector("#note mark:has-text('Blobby')")
    page.locator("#note mark", has_text="Blobby").click()
    assert page.inner_text("#panel h3") == "hypertension"

    page.click("#exports summary")
    with page.expect_download() as download:
        page.click("text=gold, DocBin")
    gold = tmp_path / "gold.spacy"
    download.value.save_as(gold)
    before = right_links(linker_folder)
    done = CliRunner().invoke(commands, ["calibrate", str(linker_folder), str(gold)])
    assert done.exit_code == 0, done.output
    after = right_links(linker_folder, target_precision=0.95)
    assert before[0] / before[1] < 0.95
    assert after[0] / after[1] > before[0] / before[1]
    assert after[0] == before[0]
    page.close()


def test_a_name_is_rejected_for_good_and_comes_back_with_undo(browser: Any, served: Any) -> None:
    store, running = served(["Fever and asthma.", "Asthma, then fever.", "Still asthma."])
    page = open_page(browser, running.url)
    page.select_option("#order", "note")
    open_note(page, "note_0")
    page.locator("#note mark", has_text="asthma").click()
    page.click("text=Never this concept")
    page.wait_for_selector("#note mark.wrong:has-text('asthma')")  # the mention stays, as a rejected one
    page.wait_for_function("() => document.querySelectorAll('#note mark').length === 2")
    open_note(page, "note_1")
    assert page.locator("#note mark:not(.nil)").all_inner_texts() == ["fever"]
    page.locator("#note mark", has_text="fever").click()
    page.click("text=Never any concept")
    page.wait_for_selector("#note mark.wrong:has-text('fever')")
    open_note(page, "note_2")
    assert page.locator("#note mark:not(.nil)").count() == 0
    assert [event.said.kind for event in store.events()] == ["reject", "stop", "reject", "stop"]
    page.evaluate("document.activeElement.blur()")
    for _ in range(4):
        with page.expect_response(lambda answer: answer.url.endswith("/review/events") and answer.request.method == "POST"):
            page.keyboard.press("u")
    page.wait_for_selector("#note mark:not(.nil):has-text('asthma')")
    assert store.log().names() == []
    page.close()


def test_undo_works_after_a_reload_and_opens_the_note_of_the_decision(browser: Any, served: Any) -> None:
    store, running = served(["Fever and asthma.", "Asthma, then fever."])
    page = open_page(browser, running.url)
    page.select_option("#order", "note")
    open_note(page, "note_1")
    decide(page, "fever", "a")
    store.record("Bo", {"kind": "stop", "name": "asthma"})
    page.reload()
    page.wait_for_selector("#note h2:text-is('note_0')")
    assert page.input_value("#reviewer") == "Ann"
    page.wait_for_selector("#name-list li", state="attached")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("u")
    page.wait_for_selector("#note h2:text-is('note_1')")
    page.wait_for_selector("#message:text-is('Undone: accept.')")
    assert page.inner_text("#note mark.chosen") == "fever"
    assert page.locator("#note mark.decided").count() == 0
    page.keyboard.press("u")  # Bo's name is not Ann's to undo
    page.wait_for_selector("#message.error:has-text('Ann has done nothing yet')")
    assert [event.said.kind for event in store.events()] == ["accept", "stop", "undo"]
    page.close()


def test_a_stopped_name_is_taken_back_from_the_list_of_names_after_a_reload(browser: Any, served: Any) -> None:
    store, running = served(["Fever and asthma.", "Still asthma."])
    page = open_page(browser, running.url)
    page.select_option("#order", "note")
    page.locator("#note mark", has_text="asthma").click()
    page.click("text=Never this concept")
    page.wait_for_selector("#name-list li", state="attached")
    page.wait_for_selector("#summary:has-text('0 of 1 right')")
    decide(page, "Fever", "a")
    store.record("Bo", {"kind": "stop", "name": "blobby"})
    page.reload()
    page.click("#names summary")
    page.wait_for_selector("#name-list li:nth-child(2)")
    assert page.locator("#name-list li span").all_inner_texts() == ["“blobby” is never linked (Bo)", "“asthma” is never asthma (Ann)"]
    assert page.locator("#name-list button").count() == 1  # only Ann's own
    page.click("#name-list button")
    page.wait_for_selector("#message:text-is('Undone: “asthma” is never asthma.')")
    assert page.locator("#name-list li").count() == 1
    assert [change.name for change in store.log().names()] == ["blobby"]
    assert [event.said.kind for event in store.events()] == ["reject", "stop", "accept", "stop", "undo"]
    page.select_option("#order", "note")
    open_note(page, "note_1")
    page.wait_for_selector("#note mark:not(.nil):has-text('asthma')")
    page.close()


def test_a_mention_is_rejected_only_if_the_rejected_name_is_its_text(browser: Any, served: Any) -> None:
    store, running = served(["Fever and heart\nattack."])
    page = open_page(browser, running.url)
    page.wait_for_selector("#summary:has-text('1 note · 2 mentions · 2 links still open')")
    reports: list[str] = []  # the page asks for one after each event, when it has opened the note again
    page.on("response", lambda answer: reports.append(answer.url) if "/review/report" in answer.url else None)

    def reject_name(mention: str, name: str | None, events: int) -> None:
        page.locator("#note mark", has_text=mention).click()
        if name is not None:
            page.fill("#new-name", name)
        wanted = len(reports) + events
        page.click("text=Never this concept")
        until(page, lambda: len(reports) >= wanted)

    reject_name("Fever", "pyrexia", 1)
    assert [event.said.kind for event in store.events()] == ["stop"]
    reject_name("Fever", "FEVER ", 2)
    reject_name("heart", None, 2)  # the field has the name without the end of the line
    assert [event.said.kind for event in store.events()] == ["stop", "reject", "stop", "reject", "stop"]
    assert store.events()[-1].said.name == "heart attack"
    page.close()


def test_two_browsers_see_each_other_and_differ(browser: Any, served: Any) -> None:
    store, running = served(["Fever and asthma."])
    ann, bo = open_page(browser, running.url, "Ann"), open_page(browser, running.url, "Bo")
    decide(ann, "Fever", "a")
    bo.wait_for_selector("#note mark.decided:has-text('Fever')")  # the page loads the decisions of others
    bo.locator("#note mark", has_text="Fever").first.click()
    bo.keyboard.press("r")
    bo.wait_for_selector("#note mark.disputed:has-text('Fever')")
    bo.wait_for_selector("#summary:has-text('Ann and Bo: the same for 0 of 1 mention, kappa 0.00')")
    bo.locator("#note mark", has_text="Fever").first.click()
    shown = bo.text_content("#panel")
    (accepted, rejected) = store.events()
    assert f"Ann: accept, {accepted.at[:10]} {accepted.at[11:16]} UTC" in shown  # who and when
    assert f"Bo: reject, {rejected.at[:10]} {rejected.at[11:16]} UTC" in shown
    bo.check("#settles")
    bo.locator("#note mark", has_text="Fever").first.click()
    bo.keyboard.press("a")
    bo.wait_for_selector("#note mark.decided:has-text('Fever')")
    assert [event.said.kind for event in store.events()] == ["accept", "reject", "accept"]
    bo.keyboard.press("u")
    bo.wait_for_selector("#note mark.disputed:has-text('Fever')")
    ann.close()
    bo.close()


def test_markup_in_a_note_does_nothing_and_places_are_those_of_the_text(browser: Any, served: Any) -> None:
    store, running = served([HOSTILE])
    page = open_page(browser, running.url)
    page.wait_for_selector("#note mark")
    assert page.evaluate("window.hacked") is None
    assert page.locator("#note img, #note script").count() == 0
    select(page, "line")
    page.keyboard.press("m")
    page.wait_for_selector("#note mark:has-text('line')")
    (said,) = [event.said for event in store.events()]
    assert HOSTILE[said.start : said.end] == "line"
    page.close()


def select(page: Any, text: str) -> None:
    """Select the first occurrence of a text that lies in one element of the note, and leave the fields."""
    page.evaluate(
        """(text) => {
            document.activeElement.blur();
            const nodes = document.createTreeWalker(document.querySelector('#note .entities'), NodeFilter.SHOW_TEXT);
            while (nodes.nextNode()) {
                const at = nodes.currentNode.data.indexOf(text);
                if (at >= 0) return getSelection().setBaseAndExtent(nodes.currentNode, at, nodes.currentNode, at + text.length);
            }
        }""",
        text,
    )


def test_the_text_of_a_mention_is_not_added_twice(browser: Any, served: Any) -> None:
    store, running = served(["Fever and asthma."])
    page = open_page(browser, running.url)
    page.wait_for_selector("#note mark.chosen:has-text('Fever')")
    select(page, "asthma")
    page.keyboard.press("m")
    page.wait_for_selector("#message:has-text('This text is a mention already.')")
    assert page.inner_text("#note mark.chosen") == "asthma"
    assert store.events() == []
    page.fill("#added-concept", "C9100027")  # with a concept, it is a decision about the mention
    select(page, "asthma")
    page.keyboard.press("m")
    page.wait_for_selector("#note mark.decided.wrong:has-text('asthma')")
    assert page.locator("#note mark").count() == 2
    assert page.inner_text("#why").startswith("The linker proposed asthma: exact match with the concept's name “asthma” (")
    assert [(m.record["mention"], m.reviewed.final and m.reviewed.final.cui) for m in store.mentions(store.note("note_0"))] == [
        ("Fever", None),
        ("asthma", "C9100027"),
    ]
    page.close()


def test_links_left_for_a_wished_precision(browser: Any, served: Any) -> None:
    """With two links of probability 0.4, 0.8 right ones are expected; for a precision of a half, at most 0.8 wrong ones may be left."""
    _, running = served(["Fever and asthma."], probability=0.4)
    page = open_page(browser, running.url)
    page.wait_for_selector("#summary:has-text('2 links left to review for 95.0%')")
    page.fill("#wished", "0.5")
    page.keyboard.press("Tab")
    page.wait_for_selector("#summary:has-text('1 link left to review for 50.0%')")
    page.close()


def test_doubtful_first_goes_through_the_mentions_of_a_note_by_doubt(browser: Any, served: Any) -> None:
    store, running = served(["Fever, asthma, hypertension, cold."], probability={"Fever": 0.9, "asthma": 0.4, "hypertension": 0.7})
    page = open_page(browser, running.url)
    page.wait_for_selector("#note mark.chosen:has-text('asthma')")  # the most doubtful one; "cold" has no probability
    page.evaluate("document.activeElement.blur()")
    for key, chosen in (("j", "hypertension"), ("j", "Fever"), ("j", "cold"), ("k", "Fever"), ("k", "hypertension"), ("k", "asthma")):
        page.keyboard.press(key)
        assert page.inner_text("#note mark.chosen") == chosen
    for chosen in ("hypertension", "Fever", "cold"):
        page.keyboard.press("a")
        page.wait_for_selector(f"#note mark.chosen:has-text('{chosen}')")
    page.select_option("#order", "note")
    page.wait_for_selector("#note mark.chosen:has-text('cold')")  # the only open one
    page.evaluate("document.activeElement.blur()")
    for chosen in ("hypertension", "asthma", "Fever"):
        page.keyboard.press("k")
        assert page.inner_text("#note mark.chosen") == chosen
    assert [event.said.kind for event in store.events()] == ["accept"] * 3
    page.close()


def test_accepting_nil_says_that_no_concept_is_right(browser: Any, served: Any) -> None:
    store, running = served(["Fever."])
    note = store.note("note_0")
    (fever,) = store.mentions(note)
    store.propose(note, [{**fever.record, "cui": "NIL", "candidates": [], "codes": {}, "types": [], "type_names": []}], note.linked_with)
    page = open_page(browser, running.url)
    page.wait_for_selector("#note mark.nil.chosen:has-text('Fever')")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("r")
    page.wait_for_selector("#message.error:has-text('There is no link to reject.')")
    assert store.events() == []
    page.keyboard.press("a")
    page.wait_for_selector("#note mark.decided:not(.wrong):has-text('Fever')")
    assert page.locator("#message:empty").count() == 1
    (event,) = store.events()
    assert (event.said.kind, event.mention) == ("nil", fever.number + 1)
    page.close()


def test_a_key_without_a_chosen_mention_says_so(browser: Any, served: Any) -> None:
    _, running = served(["Nothing here."])
    page = open_page(browser, running.url)
    page.wait_for_selector("#note h2:text-is('note_0')")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("a")
    page.wait_for_selector("#message.error:has-text('Choose a mention first')")
    page.close()


def test_a_long_list_of_concepts_says_how_many_are_left(browser: Any, served: Any) -> None:
    store, running = served(["Fever."])
    (fever,) = store.mentions(store.note("note_0"))
    names = [f"X{number}" for number in range(249)]  # concepts that the linker does not have, one mention each
    text = " ".join(names)
    rows = []
    for name in names:
        start = text.index(f"{name} ") if name != names[-1] else text.index(name)
        rows.append({**fever.record, "start": start, "end": start + len(name), "mention": name, "cui": name, "candidates": []})
    store.add_note("many", text, rows)
    page = open_page(browser, running.url)
    page.click("#concepts summary")
    page.wait_for_selector("#more-concepts:has-text('More concepts (150 left)')")
    page.click("#more-concepts")
    page.wait_for_selector("#more-concepts:has-text('More concepts (50 left)')")
    page.click("#more-concepts")
    page.wait_for_function("() => document.querySelectorAll('#concept-list li').length === 250")
    assert page.locator("#more-concepts:visible").count() == 0
    page.fill("#find-concept", "x24")  # also those of later pages are found
    page.wait_for_function("() => document.querySelectorAll('#concept-list li').length === 10")  # X24 and X240 to X248
    page.close()


def test_the_key_is_asked_for(browser: Any, served: Any) -> None:
    _, running = served(["Fever."], api_key="secret")
    page = open_page(browser, running.url)
    page.wait_for_selector("#key-label:not([hidden])")
    assert page.locator("#note mark").count() == 0
    page.fill("#key", "secret")
    page.keyboard.press("Tab")
    page.wait_for_selector("#note mark")
    page.close()


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_window(browser: Any, served: Any, width: int) -> None:
    _, running = served([CLEAR[0], *AMBIGUOUS])
    page = open_page(browser, running.url, width=width)
    page.wait_for_selector("#note mark")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.keyboard.press("Tab")
    page.close()


def test_the_keyboard_is_enough(browser: Any, served: Any) -> None:
    store, running = served(["Fever, then asthma, then MI."])
    page = open_page(browser, running.url)
    page.wait_for_selector("#note mark.chosen:has-text('Fever')")
    page.evaluate("document.activeElement.blur()")
    for key, kind in (("a", "accept"), ("r", "reject"), ("2", "choose")):
        with page.expect_response(lambda answer: answer.request.method == "POST"):
            page.keyboard.press(key)
        end = time.monotonic() + 20
        while store.events()[-1].said.kind != kind:
            assert time.monotonic() < end
            time.sleep(0.05)
        page.wait_for_function("n => document.querySelectorAll('#note mark.decided').length === n", arg=len(store.events()))
    assert [event.said.kind for event in store.events()] == ["accept", "reject", "choose"]
    page.close()


def test_moving_by_keys(browser: Any, served: Any) -> None:
    _, running = served(["Fever, then asthma.", "Old MI."])
    page = open_page(browser, running.url)
    page.select_option("#order", "note")
    page.wait_for_selector("#note mark.chosen:has-text('Fever')")
    page.evaluate("document.activeElement.blur()")
    for key, chosen in (("j", "asthma"), ("j", "asthma"), ("k", "Fever")):
        page.keyboard.press(key)
        assert page.inner_text("#note mark.chosen") == chosen
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.closest('#candidates') !== null")
    page.keyboard.press("n")
    page.wait_for_selector("#note h2:text-is('note_1')")
    page.keyboard.press("p")
    page.wait_for_selector("#note h2:text-is('note_0')")
    page.close()


def test_a_mention_that_is_chosen_while_notes_are_listed_stays_chosen(browser: Any, served: Any) -> None:
    _, running = served(["Fever and asthma.", "Still asthma."])
    page = open_page(browser, running.url)
    page.wait_for_selector("#note mark.chosen:has-text('Fever')")
    held: list[Any] = []
    page.route("**/review/notes*", lambda route: held.append(route))
    page.select_option("#order", "note")
    page.locator("#note mark", has_text="asthma").click()
    page.wait_for_selector("#note mark.chosen:has-text('asthma')")
    until(page, lambda: bool(held))
    with page.expect_response("**/review/notes*") as listed:
        held[0].continue_()
    listed.value.finished()
    page.wait_for_timeout(300)  # a note would be opened now
    assert page.locator("#note mark.chosen").all_inner_texts() == ["asthma"]
    assert page.locator("#panel h3").inner_text().lower().startswith("asthma")
    page.close()


def test_a_mention_that_is_chosen_while_a_decision_is_written_stays_chosen(browser: Any, served: Any) -> None:
    store, running = served(["Fever, asthma, fever."])
    page = open_page(browser, running.url)
    page.wait_for_selector("#note mark.chosen:has-text('Fever')")
    held: list[Any] = []
    page.route("**/review/events", lambda route: held.append(route) if route.request.method == "POST" else route.continue_())
    page.locator("#note mark", has_text="Fever").first.click()
    page.keyboard.press("a")
    until(page, lambda: bool(held))
    page.locator("#note mark", has_text="asthma").click()
    held[0].continue_()
    page.wait_for_selector("#note mark.decided:has-text('Fever')")
    page.wait_for_selector("#note mark.chosen")
    assert page.locator("#note mark.chosen").all_inner_texts() == ["asthma"]
    assert [(event.said.kind, event.reviewer) for event in store.events()] == [("accept", "Ann")]
    page.close()


def test_a_note_that_is_opened_while_notes_are_listed_stays_open(browser: Any, served: Any) -> None:
    _, running = served(["Fever.", "Known asthma."])
    page = open_page(browser, running.url)
    page.wait_for_selector("#note mark.chosen:has-text('Fever')")
    held: list[Any] = []
    page.route("**/review/notes*", lambda route: held.append(route))
    page.select_option("#order", "note")
    until(page, lambda: bool(held))
    open_note(page, "note_1")
    with page.expect_response("**/review/notes*") as listed:
        held[0].continue_()
    listed.value.finished()
    page.wait_for_timeout(300)  # the first note would be opened now
    assert page.inner_text("#note h2") == "note_1"
    page.close()


def test_a_mention_that_is_chosen_while_the_first_note_of_a_list_loads_stays_chosen(browser: Any, served: Any) -> None:
    _, running = served(["Fever.", "Known asthma, fever."])
    page = open_page(browser, running.url)
    open_note(page, "note_1")
    held: list[Any] = []
    page.route("**/review/note?*id=note_0*", lambda route: held.append(route))
    page.select_option("#order", "note")
    until(page, lambda: bool(held))
    page.locator("#note mark", has_text="fever").click()
    with page.expect_response("**/review/note?*id=note_0*") as loaded:
        held[0].continue_()
    loaded.value.finished()
    page.wait_for_timeout(300)  # the first note would be shown now
    assert page.inner_text("#note h2") == "note_1"
    assert page.locator("#note mark.chosen").all_inner_texts() == ["fever"]
    page.close()


def test_a_click_on_a_note_while_another_note_is_shown_is_not_lost(browser: Any, served: Any) -> None:
    _, running = served(["Fever.", "Known asthma."])
    page = open_page(browser, running.url)
    page.wait_for_selector("#note mark.chosen:has-text('Fever')")
    page.evaluate("window.link = document.querySelectorAll('#notes a')[0]")
    open_note(page, "note_1")
    assert page.evaluate("window.link.isConnected")  # the list was not built again between the press and the release of a mouse button
    assert page.locator("#notes a[aria-current]").all_inner_texts() == page.locator("#notes a:has-text('note_1')").all_inner_texts()
    page.close()


def test_a_note_that_is_opened_while_a_decision_is_undone_stays_open(browser: Any, served: Any) -> None:
    store, running = served(["Fever.", "Known asthma.", "Hypertension."])
    page = open_page(browser, running.url)
    page.wait_for_selector("#note mark.chosen:has-text('Fever')")
    decide(page, "Fever", "r")
    open_note(page, "note_1")
    held: list[Any] = []
    page.route("**/review/events", lambda route: held.append(route) if route.request.method == "POST" else route.continue_())
    page.keyboard.press("u")
    until(page, lambda: bool(held))
    open_note(page, "note_2")
    held[0].continue_()
    page.wait_for_selector("#message:has-text('Undone: reject.')")
    assert page.inner_text("#note h2") == "note_2"
    assert [event.said.kind for event in store.events()] == ["reject", "undo"]
    page.close()


def test_a_name_is_taken_back_while_no_note_is_shown(browser: Any, served: Any) -> None:
    store, running = served(["Fever."])
    store.record("Ann", {"kind": "stop", "name": "heat"})
    page = open_page(browser, running.url)
    page.wait_for_selector("#note mark")
    page.fill("#find", "no such word")
    page.press("#find", "Enter")
    page.wait_for_selector("#note p:has-text('No notes.')")
    page.click("#names summary")
    page.click("#name-list button:has-text('Take back')")
    page.wait_for_selector("#message:has-text('Undone')")
    assert [event.said.kind for event in store.events()] == ["stop", "undo"]
    page.close()


def test_filters_of_the_review(browser: Any, served: Any) -> None:
    _, running = served(["No fever. Known asthma. Mother had hypertension. Blobby."])
    page = open_page(browser, running.url)
    page.wait_for_selector("#note mark")

    def shown() -> list[str]:
        return [text for text in page.locator("#note mark:not(.off)").all_inner_texts() if text != "Blobby"]

    assert shown() == ["fever", "asthma", "hypertension"]
    for field, value, wanted in (
        ("status", "negated", ["fever"]),
        ("status", "family", ["hypertension"]),
        ("status", "present", ["asthma"]),
        ("status", "", ["fever", "asthma", "hypertension"]),
        ("kind", "CHEM", []),
        ("kind", "DISO", ["fever", "asthma", "hypertension"]),
        ("which", "nil", []),
        ("which", "open", ["fever", "asthma", "hypertension"]),
    ):
        page.select_option(f"#{field}", value)
        assert shown() == wanted, (field, value)
    page.click("#concepts summary")
    page.fill("#find-concept", "hypert")
    page.click("#concept-list button:visible")
    page.wait_for_selector("#note mark:not(.off):has-text('hypertension')")
    page.wait_for_function("() => document.querySelectorAll('#note mark:not(.off)').length === 1")
    page.close()
