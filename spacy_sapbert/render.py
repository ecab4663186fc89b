"""Linked Docs for people and machines: JSON Lines, CSV, a terminal table, one HTML page. It shows links, it makes none."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from html import escape
from itertools import groupby
from typing import Any, Dict, Iterable, Iterator, List, Optional, TextIO, Tuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from spacy.displacy import get_doc_settings
from spacy.displacy.render import EntityRenderer
from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from .doc.spans import attribute_names
from .kb.concept import is_cui

Row = Dict[str, Any]

NIL = "NIL"
CSV_COLUMNS = ["note", "start", "end", "mention", "label", "cui", "name", "types", "type_names", "score", "probability", "codes"]
MIN_WIDTH, MAX_WIDTH = 100, 140  # of a table; a pipe or a log has no width of its own

# label -> (what the legend calls it, hue). Labels are UMLS semantic groups; any other label is "other" and grey.
GROUPS: Dict[str, Tuple[str, int]] = {
    "DISO": ("Disorder or finding", 8),
    "ANAT": ("Anatomy", 200),
    "PROC": ("Procedure", 265),
    "CHEM": ("Drug or chemical", 140),
    "PHYS": ("Physiology", 45),
    "GENE": ("Gene or protein", 320),
    "DEVI": ("Device", 225),
    "LIVB": ("Living being", 85),
    "PHEN": ("Phenomenon", 170),
    "ACTI": ("Activity", 65),
    "CONC": ("Concept", 290),
    "OBJC": ("Object", 30),
}


# --- rows -----------------------------------------------------------------------------------------------------------------


def linked_spans(doc: Doc, attr: str = "kb_ents") -> List[Span]:
    """The entities, and those spans of any span group that carry a link, in reading order; equal offsets count once."""
    spans = {(span.start, span.end): span for group in doc.spans.values() for span in group if span.kb_id_ or _extension(span, attr)}
    spans.update({(span.start, span.end): span for span in doc.ents})
    return [spans[key] for key in sorted(spans, key=lambda key: (key[0], -key[1]))]


def rows(doc: Doc, kb: Any, attr: str = "kb_ents", note_id: str = "") -> Iterator[Row]:
    """One JSON-able record for each span; see `row_of`."""
    for span in linked_spans(doc, attr):
        yield row_of(span, kb, attr, note_id)


def row_of(span: Span, kb: Any, attr: str = "kb_ents", note_id: str = "") -> Row:
    """note, start, end (characters), mention, label, cui ("NIL" for none), name, types (TUIs), type_names, score (None for
    NIL), probability (None without a calibration), candidates [[id, name, score] …] best first, codes, explain."""
    _, codes_attr, explain_attr, prob_attr = attribute_names(attr)
    candidates: List[List[Any]] = [
        [str(identifier), _name(kb, str(identifier)), round(float(score), 6)] for identifier, score in _extension(span, attr) or []
    ]
    explain: Dict[str, Any] = _plain(_extension(span, explain_attr) or {})
    cui = span.kb_id_ or NIL
    score: Optional[float] = None
    if cui != NIL:
        # the primary id may stand outside the candidates, e.g. where a filter or a later component chose it
        score = next((c[2] for c in candidates if c[0] == cui), explain.get("score"))
    entity = _entity(kb, cui)
    types = [str(tui) for tui in entity.types] if entity is not None else []
    return {
        "note": note_id,
        "start": span.start_char,
        "end": span.end_char,
        "mention": span.text,
        "label": span.label_,
        "cui": cui,
        "name": _name(kb, cui),
        "types": types,
        "type_names": [_type_name(kb, tui) for tui in types],
        "score": score,
        "probability": _plain(_extension(span, prob_attr)) if candidates and candidates[0][0] == cui else None,
        "candidates": candidates,
        "codes": _plain(_extension(span, codes_attr) or {}),
        "explain": explain,
    }


def _extension(span: Span, attr: str) -> Any:
    return span._.get(attr) if Span.has_extension(attr) else None


def _entity(kb: Any, concept_id: str) -> Any:
    try:
        return kb.cui_to_entity[concept_id]
    except KeyError:
        return None


def _name(kb: Any, concept_id: str) -> str:
    entity = _entity(kb, concept_id)
    return str(entity.canonical_name) if entity is not None else ""


def _type_name(kb: Any, tui: str) -> str:
    tree = getattr(kb, "semantic_type_tree", None)
    try:
        return str(tree.get_canonical_name(tui)) if tree is not None else tui
    except KeyError:  # a type newer than the tree
        return tui


def _plain(value: Any) -> Any:
    """numpy scalars, tuples and sets as what JSON knows."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(_plain(item) for item in value)
    return value.item() if hasattr(value, "item") else value


# --- files ----------------------------------------------------------------------------------------------------------------


def to_jsonl(rows: Iterable[Row], stream: TextIO) -> int:
    """One JSON object a line. RETURNS (int): lines written."""
    count = 0
    for row in rows:
        stream.write(json.dumps(row, ensure_ascii=False) + "\n")
        count += 1
    return count


def to_csv(rows: Iterable[Row], stream: TextIO) -> int:
    """The flat columns; lists are joined with "|". Open the file with newline="". RETURNS (int): rows written."""
    writer = csv.writer(stream)
    writer.writerow(CSV_COLUMNS)
    count = 0
    for row in rows:
        flat = {
            **row,
            "types": "|".join(row["types"]),
            "type_names": "|".join(row["type_names"]),
            "score": "" if row["score"] is None else f"{row['score']:.4f}",
            "probability": "" if row["probability"] is None else f"{row['probability']:.4f}",
            "codes": "|".join(f"{vocabulary}={code}" for vocabulary, codes in row["codes"].items() for code in codes),
        }
        writer.writerow([flat[column] for column in CSV_COLUMNS])
        count += 1
    return count


# --- terminal -------------------------------------------------------------------------------------------------------------


def to_table(rows: Iterable[Row], console: Console) -> None:
    """A table for each note. A mention that comes again with the same concept is one line with a count."""
    was = console.width
    if not console.is_terminal:
        console.width = max(MIN_WIDTH, min(was, MAX_WIDTH))
    try:
        shown = list(rows)
        for note, group in groupby(shown, key=lambda row: row["note"]):
            console.print(_note_table(note, list(group), console))
        console.print(Text(_summary(shown), style="bold"))
    finally:
        if not console.is_terminal:
            console.width = was


def _note_table(note: str, rows: List[Row], console: Console) -> Table:
    unicode = console.encoding.lower().startswith("utf")
    width = min(console.width, MAX_WIDTH)
    free = max(width - 10 - 5 - 14, 30)  # what identifier, score and padding leave to mention, name and type
    table = Table(title=Text(note, style="bold") if note else None, title_justify="left", box=box.SIMPLE_HEAD, width=width, pad_edge=False)
    # fixed widths, so that the columns of one note stand under those of the last
    table.add_column("Mention", width=free * 34 // 100, overflow="fold")
    table.add_column("Concept", width=10, no_wrap=True)
    table.add_column("Name", width=free * 38 // 100, overflow="fold")
    table.add_column("Semantic type", width=free - free * 34 // 100 - free * 38 // 100, overflow="fold")
    table.add_column("Score", width=5, justify="right")
    times = Counter(_same(row) for row in rows)
    for row in _distinct(rows):
        mention = Text(_one_line(row["mention"]))
        if (n := times[_same(row)]) > 1:
            mention.append(f" {'×' if unicode else 'x'}{n}", style="dim")
        if row["cui"] == NIL:
            mention.stylize("dim")
            table.add_row(mention, Text(NIL, style="dim"), "", "", "")
        else:
            score = "" if row["score"] is None else f"{row['score']:.2f}"
            table.add_row(mention, Text(row["cui"], style="cyan"), Text(row["name"]), Text(", ".join(row["type_names"])), score)
    return table


def _same(row: Row) -> Tuple[str, str]:
    return _one_line(row["mention"]).lower(), row["cui"]


def _distinct(rows: List[Row]) -> List[Row]:
    first: Dict[Tuple[str, str], Row] = {}
    for row in rows:
        first.setdefault(_same(row), row)
    return list(first.values())


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _summary(rows: List[Row]) -> str:
    linked = [row for row in rows if row["cui"] != NIL]
    notes = len({row["note"] for row in rows})
    parts = [_count(notes, "note"), _count(len(rows), "mention"), f"{len(linked)} linked", _count(len({row["cui"] for row in linked}), "concept")]
    if len(linked) < len(rows):
        parts.append(f"{len(rows) - len(linked)} NIL")
    return ", ".join(parts)


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


# --- HTML -----------------------------------------------------------------------------------------------------------------

# displaCy fills this for every mention and escapes {text}; the other fields come from the "params" of a manual entity and are
# escaped here. No white space around the tags: the text stands in `white-space: pre-wrap`, where it would show.
ENT_TEMPLATE = '<mark class="m g-{group}{nil}" tabindex="0" aria-describedby="{card_id}">{text}{card}</mark>'
MAX_CANDIDATES = 5
MAX_DEFINITION = 280


def concept_url(concept_id: str) -> str:
    """Where a person can read about a concept; "" for identifiers without a public page."""
    if is_cui(concept_id):
        return f"https://uts.nlm.nih.gov/uts/umls/concept/{concept_id}"
    if re.fullmatch(r"HP:\d{7}", concept_id):
        return f"https://hpo.jax.org/browse/term/{concept_id}"
    if match := re.fullmatch(r"([A-Za-z]+):([A-Za-z]?\d+)", concept_id):
        return f"https://purl.obolibrary.org/obo/{match.group(1)}_{match.group(2)}"
    return ""


def to_html(docs_with_ids: Iterable[Tuple[Doc, str]], kb: Any, title: str, attr: str = "kb_ents") -> str:
    """One page that needs nothing but itself: no script, no network, readable on a phone, on paper and in the dark.

    docs_with_ids (Iterable[Tuple[Doc, str]]): (doc, note id), the order of `nlp.pipe(…, as_tuples=True)`.
    """
    renderer = EntityRenderer(options={"template": ENT_TEMPLATE})
    index, articles, every = [], [], []
    lang = "en"
    for n, (doc, note_id) in enumerate(docs_with_ids):
        lang = doc.lang_ or lang
        spans = linked_spans(doc, attr)
        by_span = {(span.start, span.end): row_of(span, kb, attr, note_id) for span in spans}
        note_rows = list(by_span.values())
        every += note_rows
        nil = sum(row["cui"] == NIL for row in note_rows)
        counts = f"{len(note_rows) - nil}" + (f'<span class="nil-count" title="without a concept"> +{nil}</span>' if nil else "")
        index.append(f'<li><a href="#note-{n}"><span>{_breakable(note_id)}</span> <b title="linked mentions">{counts}</b></a></li>')
        articles.append(_article(renderer, doc, note_id, n, spans, by_span, kb))
    body = "\n".join(articles) or '<p class="none">No notes.</p>'
    # the policy makes sure that the page loads and runs nothing, whatever a note contains
    return f"""<!DOCTYPE html>
<html lang="{escape(lang)}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>{_style()}</style>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
<p class="summary">{escape(_summary(every).replace(", ", " · "))}</p>
{_legend(every)}
</header>
<nav aria-label="Notes"><h2>Notes</h2><ol>{"".join(index)}</ol></nav>
<main>
{body}
</main>
</body>
</html>
"""


def _article(renderer: EntityRenderer, doc: Doc, note_id: str, n: int, spans: List[Span], by_span: Dict[Tuple[int, int], Row], kb: Any) -> str:
    kept = sorted(filter_spans(spans), key=lambda span: span.start)  # displaCy's text can't nest; the rest is listed below it
    inside = {(span.start, span.end) for span in kept}
    rest = [span for span in spans if (span.start, span.end) not in inside]
    settings = get_doc_settings(doc)
    ents = [_ent(by_span[span.start, span.end], kb, f"card-{n}-{i}") for i, span in enumerate(kept)]
    text = renderer.render([{"text": doc.text, "ents": ents, "settings": settings}]).strip()
    also = ""
    if rest:
        parts = []
        for i, span in enumerate(rest, start=len(kept)):
            ent = {**_ent(by_span[span.start, span.end], kb, f"card-{n}-{i}"), "start": 0, "end": len(span.text)}
            parts.append("<li>" + renderer.render([{"text": span.text, "ents": [ent], "settings": settings}]).strip() + "</li>")
        also = f'<div class="also"><h3>Inside or across other mentions</h3><ul>{"".join(parts)}</ul></div>'
    return f'<article id="note-{n}"><h2>{escape(note_id)}</h2>\n{text}\n{also}{_concept_table(list(by_span.values()))}</article>'


def _breakable(name: str) -> str:
    """File names break after their underscores, not in the middle of a word."""
    return escape(name).replace("_", "_<wbr>")


def _group(row: Row) -> str:
    return row["label"] if row["label"] in GROUPS else "other"


def _ent(row: Row, kb: Any, card_id: str) -> Dict[str, Any]:
    params = {"group": _group(row), "nil": " nil" if row["cui"] == NIL else "", "card_id": card_id, "card": _card(row, kb, card_id)}
    return {"start": row["start"], "end": row["end"], "label": row["label"], "params": params}


def _link(concept_id: str, url: str = "") -> str:
    url = url or concept_url(concept_id)
    if not url:
        return f"<code>{escape(concept_id)}</code>"
    return f'<a href="{escape(url)}" target="_blank" rel="noopener noreferrer"><code>{escape(concept_id)}</code></a>'


def _card(row: Row, kb: Any, card_id: str) -> str:
    """Phrasing elements only: it stands inside <mark>."""
    parts = []
    explain = row["explain"]
    kind = GROUPS[row["label"]][0] if row["label"] in GROUPS else row["label"]
    if row["cui"] == NIL:
        parts.append(f'<span class="name">No concept near enough</span><span class="meta">{NIL}{escape(" · " + kind if kind else "")}</span>')
    else:
        meta = " · ".join(row["type_names"]) or kind
        parts.append(f'<span class="name">{escape(row["name"] or row["cui"])}</span>')
        parts.append(f'<span class="meta">{_link(row["cui"])}{escape(" · " + meta if meta else "")}</span>')
    why = []
    if explain.get("long_form"):
        why.append(f"short for “{escape(str(explain['long_form']))}”")
    if explain.get("name"):
        how = "same name as" if explain.get("exact") else "nearest name"
        source = f" ({escape(str(explain['source']))})" if explain.get("source") else ""
        why.append(f"{how} “{escape(str(explain['name']))}”{source}")
    if row["probability"] is not None:
        why.append(f"right with a probability of {row['probability']:.0%}")
    if why:
        parts.append(f'<span class="why">{"; ".join(why)}</span>')
    entity = _entity(kb, row["cui"])
    definition = _one_line(entity.definition or "") if entity is not None else ""
    if definition:
        if len(definition) > MAX_DEFINITION:
            definition = definition[:MAX_DEFINITION].rsplit(" ", 1)[0] + " …"
        parts.append(f'<span class="def">{escape(definition)}</span>')
    if row["candidates"]:
        parts.append('<span class="cands">')
        for identifier, name, score in row["candidates"][:MAX_CANDIDATES]:
            share = 100 * min(max(score, 0.0), 1.0)
            here = " here" if identifier == row["cui"] else ""
            parts.append(
                f'<span class="cand{here}"><span class="cname">{escape(name or identifier)}</span><span class="score">{score:.2f}</span>'
                f'<span class="bar"><span style="width:{share:.0f}%"></span></span></span>'
            )
        parts.append("</span>")
    codes = [(vocabulary, code) for vocabulary, some in row["codes"].items() for code in some if code != row["cui"]]
    if codes:
        # only CURIEs: a bare code such as C0036572 of some vocabulary is not the CUI it looks like
        shown = ", ".join(f"{escape(vocabulary)} {_link(code) if ':' in code else escape(code)}" for vocabulary, code in codes[:6])
        parts.append(f'<span class="codes">{shown}{" …" if len(codes) > 6 else ""}</span>')
    return f'<span class="card" id="{card_id}">{"".join(parts)}</span>'


def _concept_table(rows: List[Row]) -> str:
    """What the cards say in short, for paper, for phones and for copying into a sheet."""
    if not rows:
        return '<p class="none">No mention found.</p>'
    times = Counter(_same(row) for row in rows)
    lines = []
    for row in _distinct(rows):
        nil = row["cui"] == NIL
        count = f' <span class="times">×{times[_same(row)]}</span>' if times[_same(row)] > 1 else ""
        score = "" if row["score"] is None else f"{row['score']:.2f}"
        lines.append(
            f'<tr class="{"nil" if nil else ""}"><td><i class="dot g-{_group(row)}"></i>{escape(_one_line(row["mention"]))}{count}</td>'
            f"<td>{NIL if nil else _link(row['cui'])}</td><td>{escape(row['name'])}</td>"
            f'<td class="type">{escape(", ".join(row["type_names"]))}</td><td class="num">{score}</td></tr>'
        )
    head = "<tr><th>Mention</th><th>Concept</th><th>Name</th><th class='type'>Semantic type</th><th class='num'>Score</th></tr>"
    return f"<details><summary>Table of {_count(len(lines), 'mention')}</summary><table><thead>{head}</thead><tbody>{''.join(lines)}</tbody></table></details>"


def _legend(rows: List[Row]) -> str:
    counts = Counter(_group(row) for row in rows if row["cui"] != NIL)
    nil = sum(row["cui"] == NIL for row in rows)
    labels = {row["label"] for row in rows if _group(row) == "other"}
    other = labels.pop() if len(labels) == 1 else "Other"  # a pipeline with one label of its own is named by it
    items = [f'<li><i class="dot g-{group}"></i>{escape(GROUPS[group][0])} <b>{counts[group]}</b></li>' for group in GROUPS if counts[group]]
    if counts["other"]:
        items.append(f'<li><i class="dot g-other"></i>{escape(other or "Other")} <b>{counts["other"]}</b></li>')
    if nil:
        items.append(f'<li><i class="dot nil"></i>No concept near <b>{nil}</b></li>')
    return f'<ul class="legend" aria-label="Colours">{"".join(items)}</ul>' if items else ""


def _style() -> str:
    hues = "".join(f".g-{group}{{--h:{hue}}}" for group, (_, hue) in GROUPS.items())
    return STYLE.replace("/*groups*/", hues)


STYLE = """
:root{color-scheme:light dark;--paper:#fff;--back:#f6f5f2;--ink:#1c1d20;--soft:#5b5f66;--rule:#dedbd4;--link:#0b57a4;
--bg-s:88%;--bg-l:91%;--ln-s:62%;--ln-l:40%;--shade:0 6px 28px rgb(20 20 30/.18),0 1px 3px rgb(20 20 30/.14);
--sans:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
--serif:Charter,"Bitstream Charter","Iowan Old Style","Source Serif 4",Georgia,"DejaVu Serif",serif}
@media (prefers-color-scheme:dark){:root{--paper:#1d1f23;--back:#141518;--ink:#e9e7e2;--soft:#a3a7af;--rule:#363a41;--link:#8dc1ff;
--bg-s:38%;--bg-l:25%;--ln-s:68%;--ln-l:66%;--shade:0 8px 30px rgb(0 0 0/.6)}}
*{box-sizing:border-box}
html{scroll-behavior:smooth;-webkit-text-size-adjust:100%}
body{margin:0 auto;max-width:78rem;padding:0 1.5rem 4rem;background:var(--back);color:var(--ink);font:16px/1.5 var(--sans);
display:grid;grid-template-columns:15rem minmax(0,1fr);column-gap:2.5rem}
a{color:var(--link)}
code{font:.92em ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
header{grid-column:1/-1;padding:2.2rem 0 1.2rem;border-bottom:1px solid var(--rule);margin-bottom:1.8rem}
h1{font:600 1.75rem/1.2 var(--serif);margin:0;overflow-wrap:anywhere}
.summary{margin:.35rem 0 0;color:var(--soft);font-variant-numeric:tabular-nums}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.35rem 1.3rem;margin:.9rem 0 0;padding:0;font-size:.875rem}
.legend b{font-weight:400;color:var(--soft);font-variant-numeric:tabular-nums}
.dot{display:inline-block;width:.85em;height:.85em;margin-right:.45em;border-radius:3px;vertical-align:-.08em;
background:hsl(var(--h) var(--s,var(--bg-s)) var(--bg-l));border:1.5px solid hsl(var(--h) var(--s,var(--ln-s)) var(--ln-l))}
.dot.nil,tr.nil .dot{background:none;border:1.5px dashed var(--soft)}
nav{position:sticky;top:1.2rem;align-self:start;max-height:calc(100vh - 2.4rem);overflow-y:auto;font-size:.875rem}
nav h2,.also h3{margin:0 0 .4rem;font:600 .75rem/1.4 var(--sans);letter-spacing:.07em;text-transform:uppercase;color:var(--soft)}
nav ol{list-style:none;margin:0;padding:0}
nav a{display:flex;justify-content:space-between;gap:.8rem;padding:.28rem .5rem;margin-left:-.5rem;border-radius:6px;color:inherit;text-decoration:none}
nav a:hover{background:var(--rule)}
nav a span:first-child{min-width:0;overflow-wrap:anywhere}
nav b{flex:none;font-weight:400;color:var(--soft);font-variant-numeric:tabular-nums}
main{min-width:0}
article{background:var(--paper);border:1px solid var(--rule);border-radius:10px;padding:1.6rem 2rem 1.4rem;margin-bottom:1.6rem;scroll-margin-top:1rem}
article h2{font:600 .95rem/1.4 var(--sans);color:var(--soft);margin:0 0 .9rem;overflow-wrap:anywhere}
/* displaCy writes its own line height into the element */
.entities{line-height:1.72!important;font-family:var(--serif);font-size:1.06rem;white-space:pre-wrap;overflow-wrap:anywhere;max-width:72ch;tab-size:4}
.g-other{--h:220;--s:9%}/*groups*/
.m{background:hsl(var(--h) var(--s,var(--bg-s)) var(--bg-l));color:inherit;border-bottom:2px solid hsl(var(--h) var(--s,var(--ln-s)) var(--ln-l));
border-radius:3px 3px 0 0;padding:.06em .12em;margin:0 -.02em;cursor:help;-webkit-box-decoration-break:clone;box-decoration-break:clone}
.m.nil{background:none;border-bottom:2px dashed var(--soft)}
a:focus-visible,summary:focus-visible,.m:focus-visible{outline:2px solid var(--link);outline-offset:2px}
.m:focus:not(:focus-visible){outline:none}
.card{display:none;position:fixed;right:1rem;bottom:1rem;z-index:9;width:23rem;max-width:calc(100vw - 2rem);max-height:70vh;overflow-y:auto;
padding:.85rem 1rem .9rem;background:var(--paper);color:var(--ink);border:1px solid var(--rule);border-radius:10px;box-shadow:var(--shade);
font:.875rem/1.45 var(--sans);white-space:normal;cursor:auto;text-align:left}
.m:hover>.card,.m:focus>.card,.m:focus-within>.card{display:block}
.m:hover>.card{z-index:10}
main:has(.m:hover) .m:focus:not(:hover)>.card{display:none}
.card>span{display:block}
.card .name{font:600 1.02rem/1.3 var(--serif)}
.card .meta{color:var(--soft);margin-top:.1rem}
.card .why,.card .def{margin-top:.5rem}
.card .def{color:var(--soft)}
.card .cands{margin-top:.65rem;padding-top:.6rem;border-top:1px solid var(--rule)}
.cand{display:grid;grid-template-columns:minmax(0,1fr) 2.6em 4.2rem;gap:0 .55rem;align-items:center;padding:.07rem 0}
.cand .cname{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.cand .score{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums;color:var(--soft)}
.cand.here .cname,.cand.here .score{font-weight:600;color:var(--ink)}
.bar{height:5px;border-radius:3px;background:var(--rule);overflow:hidden}
.bar span{display:block;height:100%;border-radius:3px;background:hsl(var(--h) var(--s,var(--ln-s)) var(--ln-l));opacity:.45}
.here .bar span{opacity:1}
.card .codes{margin-top:.6rem;padding-top:.5rem;border-top:1px solid var(--rule);font-size:.8rem;color:var(--soft);overflow-wrap:anywhere}
/* beside the mention where the browser knows how; else the corner of the window, which can't overflow either */
@supports (position-area:bottom span-right){@media (min-width:48.01rem){
.m:hover{anchor-name:--hover}.m:focus-within,.m:focus{anchor-name:--focus}.m:hover:focus-within,.m:hover:focus{anchor-name:--hover,--focus}
.card{inset:auto;position-anchor:--focus;position-area:bottom span-right;position-try-fallbacks:flip-inline,flip-block,flip-block flip-inline}
.m:hover>.card{position-anchor:--hover}}}
.also{margin-top:1rem}.also ul{list-style:none;margin:0;padding:0;display:flex;flex-wrap:wrap;gap:.2rem 1.1rem}
details{margin-top:1.1rem;padding-top:.7rem;border-top:1px solid var(--rule);font-size:.875rem}
summary{cursor:pointer;color:var(--soft);width:max-content;max-width:100%}
table{border-collapse:collapse;width:100%;margin-top:.6rem}
th{text-align:left;font-weight:600;color:var(--soft)}
th,td{padding:.3rem .9rem .3rem 0;vertical-align:top;border-bottom:1px solid var(--rule);overflow-wrap:anywhere}
td code{white-space:nowrap}
.num{text-align:right;white-space:nowrap;padding-right:0;font-variant-numeric:tabular-nums}
.times,tr.nil td,.none{color:var(--soft)}
@media (max-width:48rem){
body{display:block;padding:0 .9rem 3rem}
header{padding:1.3rem 0 1rem;margin-bottom:.8rem}
h1{font-size:1.4rem}
nav{position:static;max-height:none;margin-bottom:1rem;overflow:visible}
nav h2{display:none}
nav ol{display:flex;gap:.4rem;overflow-x:auto;padding-bottom:.5rem}
nav li{flex:none}
nav a{margin:0;border:1px solid var(--rule);background:var(--paper);padding:.35rem .65rem}
nav a span:first-child{white-space:nowrap}
article{padding:1.1rem 1rem 1rem}
.type{display:none}
.card{left:0;right:0;bottom:0;width:auto;max-width:none;max-height:55vh;border-radius:14px 14px 0 0;border-width:1px 0 0;padding-bottom:1.4rem}}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
@media print{
:root{--paper:#fff;--back:#fff;--ink:#000;--soft:#444;--rule:#bbb;--link:#000;--bg-s:88%;--bg-l:93%;--ln-s:62%;--ln-l:35%}
body{display:block;max-width:none;padding:0;font-size:10pt}
nav,.card{display:none!important}
article{border:0;padding:0;border-radius:0;break-before:page}
article:first-of-type{break-before:auto}
.entities{font-size:10.5pt;max-width:none;line-height:1.55!important}
.m,.dot{-webkit-print-color-adjust:exact;print-color-adjust:exact}
details::details-content{content-visibility:visible;height:auto;display:block}
summary{list-style:none}tr{break-inside:avoid}a{text-decoration:none}}
"""
