"""The page of `link --format html` in a real browser: search, filters, sorting, concepts and keys, with its own script only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from spacy.tokens import Doc

from spacy_sapbert import render
from spacy_sapbert.corpus.pipeline import load

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("one_thread")]

HOSTILE = "<script>window.hacked = 1</script> Cough <img src=x onerror='window.hacked = 1'> </script><svg onload='window.hacked = 1'>"
NOTES = {
    "ward/1": "Fever and hypertension. Known asthma.",
    "ward/2": "No fever. Mother has asthma.",
    "<b>ward</b>": HOSTILE,
    "ward/4": "Old MI.\nNothing  new.",
    "empty": "See above.",
}
PROBABILITIES = {"Fever": 0.9, "hypertension": 0.7, "asthma": 0.8, "fever": 0.95, "Cough": 0.99, "MI": 0.4}


@pytest.fixture(scope="module")
def docs(tiny_linker: Path) -> list[tuple[Doc, str]]:
    """The notes with links, whose probabilities are set by hand."""
    nlp = load(str(tiny_linker))
    found = [(nlp(text), note_id) for note_id, text in NOTES.items()]
    for doc, _ in found:
        for ent in doc.ents:
            ent._.kb_prob = PROBABILITIES.get(ent.text)
    return found


@pytest.fixture(scope="module")
def file(docs: list[tuple[Doc, str]], tiny_linker: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    kb = load(str(tiny_linker)).get_pipe("sapbert_linker").kb  # type: ignore[attr-defined]
    path = tmp_path_factory.mktemp("page") / "notes.html"
    path.write_text(render.to_html(docs, kb, "Linked notes"), encoding="utf-8", newline="")
    return path


@pytest.fixture
def opened(browser: Any, file: Path) -> Iterator[Callable[..., Any]]:
    """Open the page; errors on it, and everything that its policy blocks, fail the test."""
    pages: list[Any] = []
    said: list[str] = []

    def make(width: int = 1280, **more: Any) -> Any:
        page = browser.new_page(viewport={"width": width, "height": 900}, reduced_motion="reduce", **more)
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("console", lambda message: said.append(message.text))
        page.on("request", lambda request: said.append(request.url) if request.url != file.as_uri() else None)
        page.goto(file.as_uri())
        pages.append(page)
        return page

    yield make
    for page in pages:
        page.close()
    assert said == []


def shown_notes(page: Any) -> list[str]:
    return [each.inner_text() for each in page.locator("main article:visible h2").all()]


def shown_mentions(page: Any) -> list[str]:
    names: list[str] = page.evaluate(
        "[...document.querySelectorAll('main article:not([hidden]) .m:not(.off)')].map(each => each.firstChild.textContent)"
    )
    return names


def listed(page: Any) -> list[tuple[str, str]]:
    items = page.locator("#concept-list li:visible a").all()
    return [(item.locator("span").inner_text(), item.locator("b").inner_text()) for item in items]


ALL = ["Fever", "hypertension", "asthma", "fever", "asthma", "Cough", "MI"]


def test_all_is_shown_at_first(opened: Any) -> None:
    page = opened()
    assert shown_notes(page) == list(NOTES)
    assert [each for each in shown_mentions(page) if each in ALL] == ALL
    assert page.inner_text("#shown") == ""
    assert page.locator("#kind option").all_inner_texts()[:2] == ["all", "Disorder or finding"]


def test_search_in_notes(opened: Any) -> None:
    page = opened()
    page.fill("#find", "NOTHING NEW")  # in any case, and across white space
    assert shown_notes(page) == ["ward/4"]
    assert page.locator("#note-list li:visible").all_inner_texts()[0].startswith("ward/4")
    page.fill("#find", "ward/2")  # also by its id
    assert shown_notes(page) == ["ward/2"]
    page.fill("#find", "pyrexia")  # names of cards are not the text of a note
    assert shown_notes(page) == []
    page.fill("#find", "")
    assert shown_notes(page) == list(NOTES)


def test_filters(opened: Any) -> None:
    page = opened()
    page.select_option("#status", "negated")
    assert (shown_mentions(page), shown_notes(page)) == (["fever"], ["ward/2"])
    assert page.inner_text("#shown").startswith("Shown: 1 of ")
    assert page.inner_text("#shown").endswith(" mentions in 1 of 5 notes")
    page.select_option("#status", "family")
    assert shown_mentions(page) == ["asthma"]
    page.select_option("#status", "present")
    assert {"fever"}.isdisjoint(shown_mentions(page))
    page.select_option("#status", "")
    page.fill("#below", "0.75")
    page.keyboard.press("Tab")
    assert shown_mentions(page) == ["hypertension", "MI"]
    page.fill("#below", "")
    page.keyboard.press("Tab")
    page.select_option("#which", "nil")
    assert not set(ALL) & set(shown_mentions(page))
    page.select_option("#which", "linked")
    assert shown_mentions(page) == ALL
    page.select_option("#kind", "DISO")
    assert shown_mentions(page) == ALL
    off = page.locator("main .m.off").count()
    assert page.locator("main .m.off[tabindex='-1']").count() == off


def test_doubtful_notes_first(opened: Any) -> None:
    page = opened()
    page.select_option("#order", "doubt")
    assert shown_notes(page) == ["ward/4", "ward/1", "ward/2", "<b>ward</b>", "empty"]  # 0.4, 0.7, 0.8, 0.99, none
    assert [text.split()[0] for text in page.locator("#note-list li").all_inner_texts()] == ["ward/4", "ward/1", "ward/2", "<b>ward</b>", "empty"]
    page.select_option("#order", "note")
    assert shown_notes(page) == list(NOTES)


def test_concepts_with_counts(opened: Any) -> None:
    page = opened()
    page.click("#concepts summary")
    every = dict(listed(page))
    assert (every["asthma"], every["fever"], every["hypertension"]) == ("2", "2", "1")
    page.fill("#find-concept", "C9100013")  # by id
    assert listed(page) == [("asthma", "2")]
    page.click("#concept-list li:visible a")
    assert (shown_mentions(page), shown_notes(page)) == (["asthma", "asthma"], ["ward/1", "ward/2"])
    assert page.evaluate("document.activeElement.firstChild.textContent") == "asthma"
    page.select_option("#status", "family")
    assert (shown_mentions(page), listed(page)) == (["asthma"], [("asthma", "1")])
    page.click("#concept-list li:visible a")  # once more: all concepts again
    page.select_option("#status", "")
    assert shown_notes(page) == list(NOTES)


def test_the_keyboard_is_enough(opened: Any) -> None:
    page = opened()

    def focused() -> str:
        text: str = page.evaluate("document.activeElement.firstChild.textContent")
        return text

    seen = []
    for _ in range(3):
        page.keyboard.press("j")
        seen.append(focused())
    assert seen == ["Fever", "hypertension", "asthma"]
    assert page.locator(".card:visible .name").inner_text() == "asthma"
    page.keyboard.press("k")
    assert focused() == "hypertension"
    page.keyboard.press("n")
    assert focused() == "fever"
    page.keyboard.press("p")
    assert focused() == "Fever"
    assert page.evaluate("document.activeElement.classList.contains('m')")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.href") == "https://uts.nlm.nih.gov/uts/umls/concept/C9100027"
    page.keyboard.press("j")  # from there on to the next mention
    assert focused() == "hypertension"
    page.fill("#find", "")
    page.keyboard.type("jk")  # in a field, letters are text
    assert page.input_value("#find") == "jk"


def test_keys_go_over_a_note_without_mentions(browser: Any, docs: list[tuple[Doc, str]], tiny_linker: Path, tmp_path: Path) -> None:
    kb = load(str(tiny_linker)).get_pipe("sapbert_linker").kb  # type: ignore[attr-defined]
    path = tmp_path / "notes.html"
    path.write_text(render.to_html([docs[0], docs[4], docs[1]], kb, "Linked notes"), encoding="utf-8", newline="")
    page = browser.new_page()
    page.goto(path.as_uri())
    assert [page.locator("main article").nth(i).locator(".m").count() > 0 for i in range(3)] == [True, False, True]
    seen = []
    for key in "nnnpp":
        page.keyboard.press(key)
        seen.append(page.evaluate("document.activeElement.firstChild.textContent"))
    assert seen == ["Fever", "Fever", "fever", "fever", "Fever"]  # a note without mentions takes no focus
    page.keyboard.press("j")
    page.locator("main .m", has_text="fever").last.focus()  # by mouse or Tab: keys go on from there
    page.keyboard.press("p")
    page.keyboard.press("p")
    assert page.evaluate("document.activeElement.firstChild.textContent") == "Fever"
    page.close()


def test_each_mention_shows_its_card(browser: Any, docs: list[tuple[Doc, str]], tiny_linker: Path, tmp_path: Path) -> None:
    """Of equal cards only the first is in the file."""
    kb = load(str(tiny_linker)).get_pipe("sapbert_linker").kb  # type: ignore[attr-defined]
    path = tmp_path / "notes.html"
    path.write_text(render.to_html([docs[0], (docs[0][0], "again")], kb, "Linked notes"), encoding="utf-8", newline="")
    page = browser.new_page()
    page.goto(path.as_uri())
    assert 2 * page.locator(".card").count() == page.locator("main .m").count()
    asthma = page.locator("main .m", has_text="asthma").nth(1)
    assert asthma.locator(".card").count() == 0
    asthma.hover()
    assert asthma.locator(".card .name").inner_text() == "asthma"
    assert asthma.locator(".card").is_visible()
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(each => each.id)")
    assert len(ids) == len(set(ids))
    page.close()


def test_markup_of_a_note_does_nothing(opened: Any) -> None:
    page = opened()
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, main script, main svg").count() == 0
    assert HOSTILE in page.locator("main article").nth(2).locator(".entities").evaluate(
        "each => { const copy = each.cloneNode(true); copy.querySelectorAll('.card').forEach(card => card.remove()); return copy.textContent; }"
    )


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_window(opened: Any, width: int, scheme: str) -> None:
    page = opened(width, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.keyboard.press("j")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    box = page.locator(".card:visible").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    for _ in range(7):
        mark, card = page.locator(".m:focus").bounding_box(), page.locator(".card:visible").bounding_box()
        assert mark["y"] + mark["height"] <= card["y"] + 4 or mark["y"] >= card["y"] + card["height"] - 4, "the card hides its mention"
        page.keyboard.press("j")


def test_without_scripts_the_page_is_read_all_the_same(browser: Any, file: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.locator("main article").count() == len(NOTES)
    assert page.locator(".bar-top").is_hidden()
    assert page.locator(".keys").is_hidden()
    page.click("#concepts summary")
    page.click("#concept-list a >> nth=0")
    assert "#m-" in page.url
    context.close()


def test_printed_without_fields(opened: Any) -> None:
    page = opened()
    page.emulate_media(media="print")
    assert page.locator(".bar-top").is_hidden()
    assert page.locator("nav").is_hidden()
    assert page.locator("main article").first.is_visible()
