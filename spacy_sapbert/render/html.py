"""Write linked notes as one HTML page: a Jinja template with autoescape, a style sheet and a script. The review page of the service shares them."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from spacy.displacy import get_doc_settings
from spacy.displacy.render import EntityRenderer
from spacy.tokens import Doc

from ..kb.concept import concept_url
from ..kb.knowledge_base import KnowledgeBase
from .records import (
    GROUPS,
    NIL,
    STATUS_NAMES,
    Row,
    count,
    distinct,
    entity_of,
    group_of,
    linked_spans,
    nested_places,
    one_line,
    reasons,
    row_of,
    same,
    status_names,
    summary,
)

# displaCy fills this in for every mention and escapes {text}. The card comes from a template that escapes its values. There is no white space
# around the tags, because it would be visible: the text is shown with `white-space: pre-wrap`
MARK = (
    '<mark class="m g-{group}{nil}{status}" data-s="{says}" data-c="{cui}" data-p="{probability}" id="{id}" tabindex="0" aria-describedby="{card_id}">'
    "{text}{card}</mark>"
)
MAX_CANDIDATES, MAX_CODES = 5, 6
MAX_DEFINITION = 280
PLACE = "<!--pages-->"  # where the number of the page and the links to the other pages are filled in
POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # the page loads nothing, and runs only its own script, whatever a note contains
HEAD_BYTES = 2048  # the title of a page is in its first bytes
DOUBTFUL = 0.6  # links with a lower probability are marked as doubtful


class Pages(NamedTuple):
    """The files of a set of pages, and which of them a page is.

    Attributes:
        number: number of this page, from 0.
        files: addresses of the files, relative to their folder and percent-encoded.
        first: id of the first note of each page.
    """

    number: int
    files: Sequence[str]
    first: Sequence[str]

    @property
    def previous(self) -> str:
        """Address of the page before, "" for the first page."""
        return self.files[self.number - 1] if self.number else ""

    @property
    def following(self) -> str:
        """Address of the next page, "" for the last page."""
        return self.files[self.number + 1] if self.number + 1 < len(self.files) else ""


def to_html(
    docs_with_ids: Iterable[tuple[Doc, str]],
    kb: KnowledgeBase,
    title: str,
    attr: str = "kb_ents",
    extensions: Sequence[str] = (),
    *,
    pages: Pages | None = None,
    later: bool = False,
) -> str:
    """Return one page that needs no other file and no network, readable on a phone, on paper and in dark mode.

    Its own script searches, filters and sorts, and copies the card of a mention for equal ones. Without it, as in the preview of a mail program, the
    page can be read all the same, with the tables below the notes.

    Args:
        docs_with_ids: (Doc, id of the note) pairs, as `nlp.pipe(…, as_tuples=True)` yields them.
        kb: the linker's knowledge base.
        title: heading of the page.
        attr: the linker's `attr_name`.
        extensions: names of Span extensions, of any component, to show in the card of a mention.
        pages: if the notes are on several pages, the files of all pages; None: this is the only page.
        later: leave room for `pages`, which `fill_pages` fills in when it is known how many pages there are.
    """
    notes: list[dict[str, Any]] = []
    every: list[Row] = []
    cards: dict[str, str] = {}
    lang = "en"
    for n, (doc, note_id) in enumerate(docs_with_ids):
        lang = doc.lang_ or lang
        nested = nested_places(doc)
        spans = [span for span in linked_spans(doc, attr) if (span.start, span.end) not in nested]
        note_rows = [row_of(span, kb, attr, note_id, extensions, nested=False) for span in spans]
        every += note_rows
        notes.append(_note(doc.text, note_rows, get_doc_settings(doc), note_id, n, kb, cards))
    page, groups = _environment().get_template("page.html.jinja"), {group_of(row) for row in every}
    rendered = page.render(
        lang=lang,
        title=title,
        place=Markup(PLACE),
        style=Markup(page_style()),
        script=Markup(page_script()),
        kinds=[(group, name) for group, name in _kinds() if group in groups],
        statuses=STATUS_NAMES.items(),
        more=(),
        summary=summary(every),
        legend=_legend(every),
        notes=notes,
        concepts=_concepts(notes),
    )
    return rendered if later else fill_pages(rendered, title, pages)


def fill_pages(page: str, title: str, pages: Pages | None) -> str:
    """Return a page that `to_html` made with `later=True`, with its number and the links to the other pages.

    Args:
        page: the page.
        title: heading of the page.
        pages: the files of all pages; None: this is the only page.
    """
    macros = _environment().get_template("pages.html.jinja").module
    before, links, after = page.split(f"{PLACE}\n", 2)  # no note can hold this place, because "<" is escaped
    return f"{before}{macros.head(title, pages)}{links}{macros.links(pages)}{after}"  # type: ignore[attr-defined]


def is_page(begin: str, title: str, number: int) -> bool:
    """Return whether a file is one of several pages that this module wrote.

    Args:
        begin: the first `HEAD_BYTES` of the file.
        title: heading of the pages.
        number: number of the page, from 1.
    """
    head = str(_environment().get_template("pages.html.jinja").module.head(title, Pages(number - 1, [], [])))  # type: ignore[attr-defined]
    return POLICY in begin and head.partition(" of ")[0] + " of " in begin


@lru_cache(maxsize=1)
def _environment() -> Environment:
    loader = PackageLoader("spacy_sapbert.render")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.globals["concept_url"] = concept_url
    digest = b64encode(hashlib.sha256(page_script().encode("utf-8")).digest()).decode("ascii")
    environment.globals["policy"] = Markup(f"{POLICY}; script-src 'sha256-{digest}'")
    environment.filters["breakable"] = _breakable
    return environment


def page_style() -> str:
    """Return the style sheet of the page, with the colours of all groups."""
    hues = "".join(f".g-{group}{{--h:{hue}}}" for group, (_, hue) in GROUPS.items())
    return _source("page.css").replace("/*groups*/", hues)


def page_script() -> str:
    """Return the script of the page."""
    return _source("shared.js") + _source("page.js")


def review_page() -> tuple[str, str, str]:
    """Return the review page of the service, its style sheet and its script. The page holds no notes: its script asks for them."""
    more = [("open", "open"), ("disputed", "disputed")]
    page = _environment().get_template("review.html.jinja").render(kinds=_kinds(), statuses=STATUS_NAMES.items(), more=more)
    return page, page_style() + _source("review.css"), _source("shared.js") + _source("review.js")


def _kinds() -> list[tuple[str, str]]:
    """Return (group, name) of every kind of mention."""
    return [*((group, name) for group, (name, _) in GROUPS.items()), ("other", "Other")]


def _source(name: str) -> str:
    return resources.files("spacy_sapbert.render").joinpath("templates").joinpath(name).read_text(encoding="utf-8")


def _breakable(name: str) -> Markup:
    """Return a file name in HTML that may be broken after its underscores, and not in the middle of a word."""
    return Markup(str(escape(name)).replace("_", "_<wbr>"))


def _note(text: str, rows: list[Row], settings: dict[str, Any], note_id: str, n: int, kb: KnowledgeBase, cards: dict[str, str]) -> dict[str, Any]:
    """Return the values that the template needs for one note.

    Args:
        text: the note.
        rows: records of its mentions.
        settings: displaCy's settings of the Doc.
        note_id: id of the note.
        n: number of the note on the page.
        kb: the linker's knowledge base.
        cards: values of a card -> id of its element; those of this note are added. Equal cards are in the page once, because they are most of it: the
            script of the page copies the card of the first mention for the others.
    """
    marks = []
    for i, row in enumerate(rows):
        values = _card(row, kb)
        card_id = cards.setdefault(repr(values), f"card-{n}-{i}")
        first = card_id == f"card-{n}-{i}"
        card = _environment().get_template("card.html.jinja").render(card=values, id=card_id) if first else ""
        marks.append({"id": f"m-{n}-{i}", "card_id": card_id, "card": card})
    marked, also = _marked(text, rows, marks, settings)
    nil = sum(row["cui"] == NIL for row in rows)
    table = _table(rows)
    concepts = [(row["cui"], row["name"] or row["cui"], f"m-{n}-{i}") for i, row in enumerate(rows) if row["cui"] != NIL]
    return {
        "concepts": concepts,
        "id": note_id,
        "linked": len(rows) - nil,
        "nil": nil,
        "text": marked,
        "also": also,
        "table": table,
        "shown": count(len(table), "mention"),
    }


def _concepts(notes: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
    """Return (name, id of its first mention's element, number of mentions) of every linked concept, the most frequent first."""
    counts: Counter[str] = Counter()
    first: dict[str, tuple[str, str]] = {}
    for note in notes:
        for cui, name, mark in note["concepts"]:
            counts[cui] += 1
            first.setdefault(cui, (name, mark))
    return [(*first[cui], number) for cui, number in sorted(counts.items(), key=lambda item: (-item[1], first[item[0]][0]))]


def marked_note(
    text: str, rows: list[Row], ids: Sequence[str], card_id: str, lang: str = "en", direction: str = "ltr"
) -> tuple[Markup, list[Markup]]:
    """Return a note in HTML with its mentions marked, but without cards, and the mentions that are inside others or overlap them.

    Args:
        text: the note.
        rows: records of its mentions.
        ids: id of each mention's element.
        card_id: id of the element with the details of the chosen mention.
        lang: language of the text.
        direction: "ltr" or "rtl".
    """
    marks = [{"id": each, "card_id": card_id, "card": ""} for each in ids]
    return _marked(text, rows, marks, {"lang": lang, "direction": direction})


def _marked(text: str, rows: list[Row], marks: list[dict[str, Any]], settings: dict[str, Any]) -> tuple[Markup, list[Markup]]:
    """Return a text with marked mentions. Marks can't be nested: of overlapping mentions the longest is marked; the others are returned separately."""
    renderer = EntityRenderer(options={"template": MARK})

    def show(shown: str, ents: list[dict[str, Any]]) -> Markup:
        return Markup(renderer.render([{"text": shown, "ents": ents, "settings": settings}]).strip())

    taken: list[tuple[int, int]] = []
    for row in sorted(rows, key=lambda row: (row["start"] - row["end"], row["start"])):
        if all(row["end"] <= start or row["start"] >= end for start, end in taken):
            taken.append((row["start"], row["end"]))
    inside, kept, also = set(taken), [], []
    for row, mark in zip(rows, marks):
        params = {
            "group": group_of(row),
            "nil": " nil" if row["cui"] == NIL else "",
            "status": _classes(row),
            "says": status_names(row),
            "cui": escape(row["cui"]),  # displaCy escapes only the text
            "probability": "" if row["probability"] is None else f"{row['probability']:.3g}",
            **mark,
        }
        ent = {"start": row["start"], "end": row["end"], "label": row["label"], "params": params}
        if (row["start"], row["end"]) in inside:
            inside.remove((row["start"], row["end"]))
            kept.append(ent)
        else:
            also.append(show(text[row["start"] : row["end"]], [{**ent, "start": 0, "end": row["end"] - row["start"]}]))
    return show(text, sorted(kept, key=lambda ent: ent["start"])), also


def _classes(row: Row) -> str:
    doubtful = row["cui"] != NIL and row["probability"] is not None and row["probability"] < DOUBTFUL
    return "".join(f" s-{status}" for status in row["status"] or ()) + (" doubt" if doubtful else "")


def _card(row: Row, kb: KnowledgeBase) -> dict[str, Any]:
    """Return the values that the template needs for the card of one mention."""
    why = [*(f"{name}: {value}" for name, value in row.get("extensions", {}).items()), *reasons(row)]
    entity = entity_of(kb, row["cui"])
    definition = one_line(entity.definition or "") if entity is not None else ""
    if len(definition) > MAX_DEFINITION:
        definition = definition[:MAX_DEFINITION].rsplit(" ", 1)[0] + " …"
    kind = GROUPS[row["label"]][0] if row["label"] in GROUPS else row["label"]
    return {
        "nil": row["cui"] == NIL,
        "cui": row["cui"],
        "name": row["name"] or row["cui"],
        "kind": kind if row["cui"] == NIL else " · ".join(row["type_names"]) or kind,
        "status": status_names(row),
        "why": "; ".join(why),
        "definition": definition,
        "candidates": [
            {"id": identifier, "name": name or identifier, "score": f"{score:.2f}", "share": f"{100 * min(max(score, 0.0), 1.0):.0f}"}
            for identifier, name, score in row["candidates"][:MAX_CANDIDATES]
        ],
        **_codes(row),
    }


def _codes(row: Row) -> dict[str, Any]:
    """Return at most `MAX_CODES` codes of a record's concept, by vocabulary, and whether there are more."""
    every = [(vocabulary, code) for vocabulary, some in row["codes"].items() for code in some if code != row["cui"]]
    shown: dict[str, list[str]] = {}
    for vocabulary, code in every[:MAX_CODES]:
        shown.setdefault(vocabulary, []).append(code)
    return {"codes": shown, "more_codes": len(every) > MAX_CODES}


def _table(rows: list[Row]) -> list[dict[str, Any]]:
    """Return the rows of the table below a note. The table serves for printing, for phones and for copying into a spreadsheet."""
    times = Counter(same(row) for row in rows)
    return [
        {
            "nil": row["cui"] == NIL,
            "group": group_of(row),
            "classes": _classes(row),
            "status": status_names(row),
            "mention": one_line(row["mention"]),
            "times": times[same(row)],
            "cui": row["cui"],
            "name": row["name"],
            "types": ", ".join(row["type_names"]),
            "score": "" if row["score"] is None else f"{row['score']:.2f}",
        }
        for row in distinct(rows)
    ]


def _legend(rows: list[Row]) -> list[tuple[str, str, int]]:
    """Return (class of the dot, text, number of links) of every colour on the page."""
    counts = Counter(group_of(row) for row in rows if row["cui"] != NIL)
    nil = sum(row["cui"] == NIL for row in rows)
    labels = {row["label"] for row in rows if group_of(row) == "other"}
    other = labels.pop() if len(labels) == 1 else "Other"  # if the pipeline has only one other label, the legend shows this label
    items = [(f"g-{group}", name, counts[group]) for group, (name, _) in GROUPS.items() if counts[group]]
    if counts["other"]:
        items.append(("g-other", other or "Other", counts["other"]))
    if nil:
        items.append(("nil", "No concept near", nil))
    held = Counter(status for row in rows for status in row["status"] or ())
    return [*items, *((f"s-{status}", name.capitalize(), held[status]) for status, name in STATUS_NAMES.items() if held[status])]
