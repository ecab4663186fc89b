"""Make the pictures of the pages in docs/images, from the invented notes of examples/, in Chromium: `python docs/screens.py`.

It needs Chromium (`apt-get install chromium`, or the environment variable CHROMIUM). Run it when the look of a page has changed.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))  # for `benchmarks`
IMAGES = DOCS / "images"
EXAMPLES = DOCS.parent / "examples" / "notes"
COLOURS = 256  # of a picture's palette, which keeps its file small
MAX_BYTES = 150_000
WIDE, PHONE = (1280, 860), (390, 844)  # width, height


def main() -> None:
    """Make all pictures."""
    from playwright.sync_api import sync_playwright

    import spacy_sapbert
    from benchmarks.browser import find_chromium
    from benchmarks.service import service
    from spacy_sapbert.render import to_html
    from spacy_sapbert.review.linker import add_docs
    from spacy_sapbert.review.store import ReviewStore

    nlp = spacy_sapbert.load()
    linker: Any = nlp.get_pipe("sapbert_linker")
    docs = [(nlp(path.read_text(encoding="utf-8")), path.stem) for path in sorted(EXAMPLES.glob("*.txt"))]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        page = Path(folder) / "notes.html"
        page.write_text(to_html(docs, linker.kb, "Linked notes"), encoding="utf-8", newline="")
        picture(browser, page.as_uri(), "notes.png", WIDE, look_at_notes)
        picture(browser, page.as_uri(), "notes-390.png", PHONE, look_at_notes)
        store = ReviewStore(Path(folder) / "review.sqlite")
        add_docs(store, linker, docs)
        with service("--review", str(store.path)) as (url, _):
            picture(browser, url, "review-1280.png", WIDE, look_at_review)
            picture(browser, url, "review-390.png", PHONE, look_at_review)
        browser.close()


def picture(browser: Any, url: str, name: str, size: tuple[int, int], look: Callable[[Any], None]) -> None:
    """Open a page, do something on it, and save a picture of the window.

    Args:
        browser: the browser.
        url: address of the page.
        name: name of the picture's file.
        size: width and height of the window.
        look: what to do on the page.
    """
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, reduced_motion="reduce")
    page.goto(url)
    look(page)
    page.wait_for_timeout(500)
    out = io.BytesIO()
    Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    page.close()
    if len(out.getvalue()) > MAX_BYTES:
        raise SystemExit(f"{name} has {len(out.getvalue()):,} bytes, more than {MAX_BYTES:,}")
    (IMAGES / name).write_bytes(out.getvalue())
    print(name, f"{len(out.getvalue()):,} bytes")


def look_at_notes(page: Any) -> None:
    """Show doubtful notes first, and the card of the third mention of the first one."""
    page.wait_for_selector(".tools:visible")
    page.select_option("#order", "doubt")
    page.evaluate("document.activeElement.blur()")
    for _ in range(3):
        page.keyboard.press("j")


def look_at_review(page: Any) -> None:
    """Show a note with three accepted links."""
    page.fill("#reviewer", "Ann")
    page.select_option("#order", "note")
    page.wait_for_selector("#note h2:has-text('01_')")
    page.wait_for_selector("#note mark")
    if page.locator("#note mark.decided").count() == 0:
        for _ in range(3):
            page.evaluate("document.activeElement.blur()")
            with page.expect_response(lambda answer: answer.request.method == "POST"):
                page.keyboard.press("a")
            page.wait_for_timeout(800)
    page.wait_for_timeout(800)
    wide = page.viewport_size["width"] > 1000
    page.evaluate("scrollTo(0, 0)" if wide else "document.querySelector('#note mark.chosen').scrollIntoView({block: 'center'})")


if __name__ == "__main__":
    main()
