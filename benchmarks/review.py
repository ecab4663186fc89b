"""Measure the review page by the number of notes: its files, and the time until a browser shows the first note."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import spacy_sapbert
from spacy_sapbert.render import rows, to_html
from spacy_sapbert.review.linker import state_of
from spacy_sapbert.review.report import report as figures_of
from spacy_sapbert.review.store import ReviewStore

from .browser import NO_CHROMIUM, find_chromium
from .common import Missing, Report, Table
from .service import service

SECTION = "review"
SIZES = (14, 200, 10_000)
ROUNDS = 5
NOTES = Path(__file__).parents[1] / "examples"
PROTOCOL = (
    "The invented notes of examples/, repeated under other ids, linked by `spacy_sapbert.load()`. open: from the address to the first note with its mentions marked, in a new window "
    "of Chromium without a cache, median of five; sent: all bytes sent for it. note: from a click to the next note. report: precision, agreement and links not yet reviewed. one file: `link --format html --notes-per-page 0`, and the time until its mentions are marked and its filters can be used. "
    "Equal cards are in this file once, so that notes which are repeated, as here, take less than others."
)


def run(data: Path, report: Report) -> None:
    """Measure reviews of `SIZES` notes."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise Missing("playwright is not installed: pip install playwright==1.55.0") from error
    chromium = find_chromium()
    if chromium is None:
        raise Missing(NO_CHROMIUM)
    nlp = spacy_sapbert.load()
    linker: Any = nlp.get_pipe("sapbert_linker")
    docs = [nlp(path.read_text(encoding="utf-8")) for path in sorted(NOTES.rglob("*.txt"))]
    found = [(doc.text, list(rows(doc, linker.kb))) for doc in docs]
    table = Table(
        "page",
        "The review page",
        PROTOCOL,
        ["review", "mentions", "open s", "sent kB", "note ms", "report ms", "review MB", "one file MB", "one file s"],
    )
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for size in SIZES:
            path = Path(folder) / f"{size}.sqlite"
            store = ReviewStore(path)
            for i in range(size):
                text, records = found[i % len(found)]
                store.add_note(f"note {i}", text, records, linked_with=state_of(linker))
            begun = time.perf_counter()
            figures_of(store, 0.95)
            reporting = 1000 * (time.perf_counter() - begun)
            with service("--review", str(path)) as (url, _):
                opened, sent, noted = zip(*(open_page(browser, url) for _ in range(ROUNDS)))
            one_file, read = None, None
            if size <= 200:
                html = Path(folder) / f"{size}.html"
                html.write_text(to_html([(docs[i % len(docs)], f"note {i}") for i in range(size)], linker.kb, "Notes"), encoding="utf-8", newline="")
                one_file = html.stat().st_size / 1e6
                read = statistics.median(open_file(browser, html) for _ in range(ROUNDS))
            table.add(
                f"{size:,} notes",  # with a number, docs/generate.py would not find the row
                store.count()[1],
                *map(statistics.median, (opened, sent, noted)),
                reporting,
                sum(path.parent.joinpath(name).stat().st_size for name in os.listdir(path.parent) if name.startswith(path.name)) / 1e6,
                one_file,
                read,
            )
        browser.close()
    report.add(SECTION, table)


def open_file(browser: Any, path: Path) -> float:
    """Return the seconds until a page of `link --format html` can be used, in a new browser context."""
    context = browser.new_context()
    page = context.new_page()
    begun = time.perf_counter()
    page.goto(path.as_uri())
    page.wait_for_selector(".tools:visible")
    page.wait_for_selector("main mark")
    seconds = time.perf_counter() - begun
    context.close()
    return seconds


def open_page(browser: Any, url: str) -> tuple[float, float, float]:
    """Open the page in a new browser context.

    Returns:
        Seconds until the first note is shown, kilobytes that were sent, and milliseconds from a click until the second note is shown.
    """
    context = browser.new_context()
    page = context.new_page()
    answers: list[Any] = []
    page.on("response", lambda answer: answers.append(answer))
    begun = time.perf_counter()
    page.goto(url)
    page.wait_for_selector("#note mark")
    seconds = time.perf_counter() - begun
    sent = sum(len(answer.body()) for answer in answers) / 1000
    first = page.inner_text("#note h2")
    begun = time.perf_counter()
    page.click("#notes li:nth-child(2) a")
    page.wait_for_function("first => document.querySelector('#note h2').textContent !== first", arg=first)
    noted = 1000 * (time.perf_counter() - begun)
    context.close()
    return seconds, sent, noted
