"""Write linked notes as one HTML page: a Jinja template with autoescape, and a style sheet."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from spacy.displacy import get_doc_settings
from spacy.displacy.render import EntityRenderer
from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from ..kb.concept import is_cui
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
    row_of,
    same,
    status_names,
    summary,
)

# displaCy fills this for every mention and escapes {text}; the card is made by the template, which escapes its values. There is no white
# space around the tags, because the text is in `white-space: pre-wrap`, where it would show
MARK = '<mark class="m g-{group}{nil}{status}" data-s="{says}" tabindex="0" aria-describedby="{card_id}">{text}{card}</mark>'
MAX_CANDIDATES, MAX_CODES = 5, 6
MAX_DEFINITION = 280


def concept_url(concept_id: str) -> str:
    """Return the public page of a concept, "" if there is none."""
    if is_cui(concept_id):
        return f"https://uts.nlm.nih.gov/uts/umls/concept/{concept_id}"
    if re.fullmatch(r"HP:\d{7}", concept_id):
        return f"https://hpo.jax.org/browse/term/{concept_id}"
    if match := re.fullmatch(r"([A-Za-z]+):([A-Za-z]?\d+)", concept_id):
        return f"https://purl.obolibrary.org/obo/{match.group(1)}_{match.group(2)}"
    return ""


def to_html(docs_with_ids: Iterable[tuple[Doc, str]], kb: KnowledgeBase, title: str, attr: str = "kb_ents", extensions: Sequence[str] = ()) -> str:
    """Return one page that needs no other file: no script and no network, readable on a phone, on paper and in dark mode.

    Args:
        docs_with_ids: (Doc, id of the note), as `nlp.pipe(…, as_tuples=True)` gives them.
        kb: the linker's knowledge base.
        title: heading of the page.
        attr: the linker's `attr_name`.
        extensions: names of Span extensions, of any component, that cards show.
    """
    renderer = EntityRenderer(options={"template": MARK})
    notes: list[dict[str, Any]] = []
    every: list[Row] = []
    lang = "en"
    for n, (doc, note_id) in enumerate(docs_with_ids):
        lang = doc.lang_ or lang
        nested = nested_places(doc)
        spans = [span for span in linked_spans(doc, attr) if (span.start, span.end) not in nested]
        note_rows = {(span.start, span.end): row_of(span, kb, attr, note_id, extensions, nested=False) for span in spans}
        every += note_rows.values()
        notes.append(_note(renderer, doc, note_id, n, spans, note_rows, kb))
    page = _environment().get_template("page.html.jinja")
    return page.render(lang=lang, title=title, style=_style(), summary=summary(every), legend=_legend(every), notes=notes)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    loader = PackageLoader("spacy_sapbert.render")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.globals["concept_url"] = concept_url
    environment.filters["breakable"] = _breakable
    return environment


def _style() -> Markup:
    environment = _environment()
    assert environment.loader is not None
    style, _, _ = environment.loader.get_source(environment, "page.css")
    hues = "".join(f".g-{group}{{--h:{hue}}}" for group, (_, hue) in GROUPS.items())
    return Markup(style.replace("/*groups*/", hues))


def _breakable(name: str) -> Markup:
    """Let file names break after their underscores, not in the middle of a word."""
    return Markup(str(escape(name)).replace("_", "_<wbr>"))


def _note(
    renderer: EntityRenderer, doc: Doc, note_id: str, n: int, spans: list[Span], rows: dict[tuple[int, int], Row], kb: KnowledgeBase
) -> dict[str, Any]:
    """Return what the template shows of one note."""
    kept = sorted(filter_spans(spans), key=lambda span: span.start)  # marks in the text can't be nested; the other spans are listed below it
    inside = {(span.start, span.end) for span in kept}
    rest = [span for span in spans if (span.start, span.end) not in inside]
    settings = get_doc_settings(doc)

    def marked(text: str, ents: list[dict[str, Any]]) -> Markup:
        return Markup(renderer.render([{"text": text, "ents": ents, "settings": settings}]).strip())

    ents = [_mark(rows[span.start, span.end], kb, f"card-{n}-{i}") for i, span in enumerate(kept)]
    also = []
    for i, span in enumerate(rest, start=len(kept)):
        mark = _mark(rows[span.start, span.end], kb, f"card-{n}-{i}")
        also.append(marked(span.text, [{**mark, "start": 0, "end": len(span.text)}]))
    nil = sum(row["cui"] == NIL for row in rows.values())
    table = _table(list(rows.values()))
    shown = count(len(table), "mention")
    return {"id": note_id, "linked": len(rows) - nil, "nil": nil, "text": marked(doc.text, ents), "also": also, "table": table, "shown": shown}


def _mark(row: Row, kb: KnowledgeBase, card_id: str) -> dict[str, Any]:
    """Return a mention as displaCy takes it."""
    card = _environment().get_template("card.html.jinja").render(card=_card(row, kb), id=card_id)
    params = {
        "group": group_of(row),
        "nil": " nil" if row["cui"] == NIL else "",
        "status": _classes(row),
        "says": status_names(row),
        "card_id": card_id,
        "card": card,
    }
    return {"start": row["start"], "end": row["end"], "label": row["label"], "params": params}


def _classes(row: Row) -> str:
    return "".join(f" s-{status}" for status in row["status"] or ())


def _card(row: Row, kb: KnowledgeBase) -> dict[str, Any]:
    """Return what the template shows of one mention."""
    explain = row["explain"]
    why = [f"{name}: {value}" for name, value in row.get("extensions", {}).items()]
    if explain.get("long_form"):
        why.append(f"short for “{explain['long_form']}”")
    if explain.get("name"):
        how = "same name as" if explain.get("exact") else "nearest name"
        why.append(f"{how} “{explain['name']}”" + (f" ({explain['source']})" if explain.get("source") else ""))
    if row["probability"] is not None:
        why.append(f"right with a probability of {row['probability']:.0%}")
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
        "codes": [(vocabulary, code) for vocabulary, some in row["codes"].items() for code in some if code != row["cui"]],
        "max_codes": MAX_CODES,
    }


def _table(rows: list[Row]) -> list[dict[str, Any]]:
    """Return the rows of the table below a note, for paper, for phones and for copying into a sheet."""
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
    other = labels.pop() if len(labels) == 1 else "Other"  # if a pipeline has one label of its own, the legend shows it
    items = [(f"g-{group}", name, counts[group]) for group, (name, _) in GROUPS.items() if counts[group]]
    if counts["other"]:
        items.append(("g-other", other or "Other", counts["other"]))
    if nil:
        items.append(("nil", "No concept near", nil))
    held = Counter(status for row in rows for status in row["status"] or ())
    return [*items, *((f"s-{status}", name.capitalize(), held[status]) for status, name in STATUS_NAMES.items() if held[status])]
