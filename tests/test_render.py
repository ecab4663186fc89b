"""Rendering, tested on Docs made by hand, without a model and a knowledge base."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
from html import unescape
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any, Dict, Iterator, List, Optional, Tuple

import numpy as np
import pytest
import spacy
from rich.console import Console
from spacy import displacy
from spacy.tokens import Doc, Span

from spacy_sapbert import render
from spacy_sapbert.kb.knowledge_base import Entity
from spacy_sapbert.render.html import marked_note, page_script
from spacy_sapbert.render.records import count, percent, reasons

VOID = {"meta", "br", "wbr", "hr", "img", "link", "input"}
TEXT = 'Mother had fits.\n\n  - floppy baby, <b>fits</b> & "zorbing"\n'


class FakeTree:
    def get_canonical_name(self, tui: str) -> str:
        return {"T047": "Disease or Syndrome", "T184": "Sign or Symptom"}[tui]


def entity(concept_id: str, name: str, types: List[str], definition: Optional[str] = None) -> SimpleNamespace:
    return SimpleNamespace(concept_id=concept_id, canonical_name=name, aliases=[name], types=types, definition=definition)


@pytest.fixture
def kb() -> SimpleNamespace:
    entities = [
        entity("C0036572", "Seizure", ["T184"], "A sudden, <i>abnormal</i> discharge of neurons."),
        entity("C0026827", "Hypotonia <script>alert(1)</script>", ["T184", "T999"]),
        entity("HP:0000002", "Abnormality of body height", ["T047"]),
    ]
    return SimpleNamespace(cui_to_entity={e.concept_id: e for e in entities}, semantic_type_tree=FakeTree())


@pytest.fixture(autouse=True)
def extensions() -> Iterator[None]:
    """Remove the extensions after a test, because the linker registers them with its own defaults."""
    made = [name for name in ("kb_ents", "kb_codes", "kb_explain") if not Span.has_extension(name)]
    for name in made:
        Span.set_extension(name, default=None)
    yield
    for name in made:
        Span.remove_extension(name)


def link(doc: Doc, mentions: List[Tuple[str, str, str, List[Tuple[str, float]]]], **more: Dict[str, Any]) -> Doc:
    """Write links into a Doc; mentions: (text, label, kb_id, candidates), in order of appearance."""
    ents, at = [], 0
    for text, label, kb_id, candidates in mentions:
        start = doc.text.index(text, at)
        at = start + len(text)
        span = doc.char_span(start, at, label=label, kb_id=kb_id)
        assert span is not None, text
        span._.kb_ents = candidates
        ents.append(span)
        for name, values in more.items():
            setattr(span._, name, values.get(text))
    doc.ents = ents
    return doc


@pytest.fixture
def doc() -> Doc:
    return link(
        spacy.blank("en")(TEXT),
        [
            ("fits", "DISO", "C0036572", [("C0036572", np.float32(0.91)), ("C0026827", 0.4)]),
            ("floppy", "DISO", "C0026827", [("C0026827", 0.83), ("HP:0000002", 0.5)]),
            ("baby", "LIVB", "HP:0000002", [("HP:0000002", 0.77)]),
            ("zorbing", "ACTI", "NIL", [("C0036572", 0.31)]),
        ],
        kb_codes={"fits": {"HPO": ["HP:0001250"], "SNOMEDCT_US": ["91175000"]}},
        kb_explain={"fits": {"name": "Fits", "source": "HPO", "exact": True, "runner_up": ("C0026827", "x", np.float64(0.4)), "margin": 0.51}},
    )


class Page(HTMLParser):
    """A parser that collects the parts that tests need, and fails if tags are not closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: List[str] = []
        self.tags: List[Tuple[str, Dict[str, Optional[str]]]] = []
        self.entities = ""  # the text inside displaCy's container, without the cards
        self.hidden = 0
        self.feed(html)
        self.close()
        assert not self.stack, self.stack

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if tag == "br" and "div.entities" in self.stack:
            self.entities += "\n"
        if tag not in VOID:
            self.stack.append(f"{tag}.{attributes['class']}" if attributes.get("class") in ("entities", "card") else tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop().partition(".")[0] == tag

    def handle_data(self, data: str) -> None:
        if "div.entities" in self.stack and "span.card" not in self.stack:
            self.entities += data

    def all(self, tag: str) -> List[Dict[str, Optional[str]]]:
        return [attributes for name, attributes in self.tags if name == tag]


def test_rows(doc: Doc, kb: SimpleNamespace) -> None:
    fits, floppy, baby, zorbing = render.rows(doc, kb, note_id="n1")
    assert (fits["note"], fits["mention"], fits["label"], fits["cui"], fits["name"]) == ("n1", "fits", "DISO", "C0036572", "Seizure")
    assert TEXT[fits["start"] : fits["end"]] == "fits"
    assert fits["candidates"] == [["C0036572", "Seizure", pytest.approx(0.91)], ["C0026827", kb.cui_to_entity["C0026827"].canonical_name, 0.4]]
    assert fits["codes"] == {"HPO": ["HP:0001250"], "SNOMEDCT_US": ["91175000"]}
    assert fits["explain"]["runner_up"] == ["C0026827", "x", 0.4]
    assert floppy["types"] == ["T184", "T999"]
    assert floppy["type_names"] == ["Sign or Symptom", "T999"]  # a type that is not in the tree keeps its number
    assert (baby["score"], baby["codes"], baby["explain"]) == (0.77, {}, {})
    assert (zorbing["cui"], zorbing["name"], zorbing["types"], zorbing["score"]) == ("NIL", "", [], None)
    assert zorbing["candidates"] == [["C0036572", "Seizure", 0.31]]


def test_score_is_the_primary_ids(kb: SimpleNamespace) -> None:
    doc = link(spacy.blank("en")("fits"), [("fits", "DISO", "C0026827", [("C0036572", 0.9), ("C0026827", 0.8)])])
    assert next(render.rows(doc, kb))["score"] == 0.8


def test_empty_kb_id_is_nil_and_an_unknown_id_is_shown(kb: SimpleNamespace) -> None:
    doc = link(spacy.blank("en")("fits here"), [("fits", "DISO", "", []), ("here", "CONC", "C9999999", [("C9999999", 0.5)])])
    nil, unknown = render.rows(doc, kb)
    assert (nil["cui"], nil["score"]) == ("NIL", None)
    assert (unknown["cui"], unknown["name"], unknown["type_names"]) == ("C9999999", "", [])
    assert "C9999999" in render.to_html([(doc, "n")], kb, "t")


def test_no_extension_registered(kb: SimpleNamespace) -> None:
    doc = spacy.blank("en")("fits")
    doc.ents = [Span(doc, 0, 1, label="DISO", kb_id="C0036572")]
    assert next(render.rows(doc, kb, attr="never_registered"))["name"] == "Seizure"


def test_jsonl_round_trip(doc: Doc, kb: SimpleNamespace) -> None:
    stream = io.StringIO()
    expected = list(render.rows(doc, kb, note_id="é\n1"))
    assert render.to_jsonl(expected, stream) == 4
    lines = stream.getvalue().splitlines()
    assert [json.loads(line) for line in lines] == expected
    assert "é" in lines[0]


def test_csv_quoting(kb: SimpleNamespace) -> None:
    mention = 'fits, "grand mal"\nor not'
    doc = link(spacy.blank("en")(mention), [(mention, "DISO", "C0036572", [("C0036572", 0.91234)])], kb_codes={mention: {"HPO": ["HP:1", "HP:2"]}})
    stream = io.StringIO(newline="")
    assert render.to_csv(render.rows(doc, kb, note_id="a,b"), stream) == 1
    (row,) = csv.DictReader(io.StringIO(stream.getvalue(), newline=""))
    assert list(row) == render.CSV_COLUMNS
    assert (row["note"], row["mention"], row["score"], row["codes"]) == ("a,b", mention, "0.9123", "HPO=HP:1|HPO=HP:2")
    assert (row["section"], row["candidates"]) == ("other", "C0036572=0.9123")
    stream = io.StringIO(newline="")
    render.to_csv(render.rows(doc, kb, sentences=True), stream, sentences=True)
    (row,) = csv.DictReader(io.StringIO(stream.getvalue(), newline=""))
    assert (list(row), row["sentence"]) == ([*render.CSV_COLUMNS, "sentence"], mention)


def test_sections_and_sentences_of_records(kb: SimpleNamespace) -> None:
    text = "PMH: fits since\nlast May. Now floppy.\n\nExam:\n- baby, 1.5 kg"
    mentions = [("fits", "DISO", "C0036572", []), ("floppy", "DISO", "C0026827", []), ("baby", "LIVB", "HP:0000002", [])]
    found = [(row["section"], row["sentence"]) for row in render.rows(link(spacy.blank("en")(text), mentions), kb, sentences=True)]
    assert found == [("history", "PMH: fits since\nlast May."), ("history", "Now floppy."), ("exam", "- baby, 1.5 kg")]
    doc = link(spacy.blank("de")(text), mentions)
    for token in doc:
        token.is_sent_start = token.text == "Now"  # sentences that the pipeline has set are used
    found = [(row["section"], row["sentence"]) for row in render.rows(doc, kb, sentences=True)]
    assert found == [(None, "PMH: fits since\nlast May."), (None, text[text.index("Now") :]), (None, text[text.index("Now") :])]


def test_the_sentences_of_a_mention_over_two(kb: SimpleNamespace) -> None:
    doc = spacy.blank("en")("No rash. High blood. Pressure too. End.")
    doc.ents = [doc.char_span(14, 29, label="DISO", kb_id="C0036572")]
    assert next(render.rows(doc, kb, sentences=True))["sentence"] == "High blood. Pressure too."
    doc = spacy.blank("en")(" \n ")
    doc.ents = [Span(doc, 0, 1, "DISO", kb_id="C0036572")]
    assert next(render.rows(doc, kb, sentences=True))["sentence"] == doc[0].text


def table(rows: List[render.Row], **console: Any) -> str:
    stream = io.StringIO()
    render.to_table(rows, Console(file=stream, **console))
    return stream.getvalue()


def test_nested_mentions_are_marked_and_not_in_the_table(kb: SimpleNamespace) -> None:
    doc = spacy.blank("en")("cleft lip and palate; fits")
    doc.ents = [Span(doc, 0, 4, "DISO", kb_id="C0036572"), Span(doc, 5, 6, "DISO", kb_id="C0036572")]
    doc.spans["sapbert"] = [
        Span(doc, 0, 4, "DISO", kb_id="C0036572"),
        Span(doc, 1, 2, "ANAT", kb_id="C0036572"),
        Span(doc, 0, 2, "DISO", kb_id="C0036572", span_id="cleft lip"),
        Span(doc, 5, 6, "DISO", kb_id="C0036572"),
    ]
    doc.spans["theirs"] = [Span(doc, 3, 4, "ANAT", kb_id="C0036572")]
    rows = list(render.rows(doc, kb))
    assert {row["mention"]: row["nested"] for row in rows} == {
        "cleft lip and palate": False,
        "cleft lip": False,
        "lip": True,
        "palate": False,
        "fits": False,
    }
    assert "1 note, 4 mentions, 4 linked" in table(rows)
    assert render.to_html([(doc, "n1")], kb, "Notes").count("<mark") == 4


def test_a_number_has_its_noun() -> None:
    assert [count(n, "open link") for n in (0, 1, 2, 1234)] == ["0 open links", "1 open link", "2 open links", "1,234 open links"]


def test_table_without_a_terminal(doc: Doc, kb: SimpleNamespace) -> None:
    text = table([*render.rows(doc, kb, note_id="n1"), *render.rows(doc, kb, note_id="[n2]")], width=80)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= render.MIN_WIDTH
    assert text.index("n1") < text.index("C0036572") < text.index("[n2]")
    line = next(line for line in text.splitlines() if "C0036572" in line)
    assert "Score" in text  # not cut, because the columns fit the width
    assert re.search(r"fits +C0036572 +Seizure +Sign or Symptom +0\.91", line)
    assert re.search(r"zorbing +NIL", text)
    assert "2 notes, 8 mentions, 6 linked, 3 concepts, 2 NIL" in text


def test_table_folds_repeats_in_order(kb: SimpleNamespace) -> None:
    again = [("C0036572", 0.9)]
    doc = link(
        spacy.blank("en")("fits and baby and Fits"),
        [("fits", "DISO", "C0036572", again), ("baby", "LIVB", "HP:0000002", []), ("Fits", "DISO", "C0036572", again)],
    )
    text = table(list(render.rows(doc, kb)))
    assert text.count("C0036572") == 1
    assert re.search(r"fits [×x]2", text)
    assert text.index("fits") < text.index("baby")


def test_table_on_a_narrow_terminal_and_with_markup_in_names(doc: Doc, kb: SimpleNamespace) -> None:
    kb.cui_to_entity["C0036572"] = entity("C0036572", "Seizure [/bold] [red]", ["T184"])
    text = table(list(render.rows(doc, kb, note_id="n1")), width=60, force_terminal=True, no_color=True)
    assert "[/bold]" in text


def test_html_keeps_text_and_order(doc: Doc, kb: SimpleNamespace) -> None:
    page = Page(render.to_html([(doc, "n1")], kb, "Links"))
    assert page.entities == TEXT
    marks = page.all("mark")
    assert [mark["class"] for mark in marks] == ["m g-DISO", "m g-DISO", "m g-LIVB", "m g-ACTI nil"]
    assert all(mark["tabindex"] == "0" for mark in marks)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {mark["aria-describedby"] for mark in marks} <= set(ids)


def test_html_colours_labels_of_others_by_the_concept(kb: SimpleNamespace) -> None:
    doc = spacy.blank("en")("fits or zorbing or thing")
    doc.ents = [
        Span(doc, 0, 1, "PROBLEM", kb_id="C0036572"),
        Span(doc, 2, 3, "PROBLEM", kb_id="NIL"),
        Span(doc, 4, 5, "CHEM", kb_id="C0036572"),  # the group is the label of the recogniser
    ]
    html = render.to_html([(doc, "n1")], kb, "Links")
    assert [mark["class"] for mark in Page(html).all("mark")] == ["m g-DISO", "m g-other nil", "m g-CHEM"]
    assert "Disorder or finding <b>1</b>" in html


def test_html_links(doc: Doc, kb: SimpleNamespace) -> None:
    hrefs = {a["href"] for a in Page(render.to_html([(doc, "n1")], kb, "Links")).all("a")}
    assert {href for href in hrefs if not href.startswith("#m-0-")} == {
        "#notes",
        "#note-0",
        "https://uts.nlm.nih.gov/uts/umls/concept/C0036572",
        "https://uts.nlm.nih.gov/uts/umls/concept/C0026827",
        "https://hpo.jax.org/browse/term/HP:0000002",
        "https://hpo.jax.org/browse/term/HP:0001250",
    }


@pytest.mark.parametrize(
    ("concept_id", "url"),
    [
        ("MONDO:0005148", "https://purl.obolibrary.org/obo/MONDO_0005148"),
        ("NIL", ""),
        ("", ""),
        ("javascript:alert(1)", ""),
        ('HP:1" onclick="x', ""),
        ("local-17", ""),
    ],
)
def test_concept_url(concept_id: str, url: str) -> None:
    assert render.concept_url(concept_id) == url
    assert Entity(concept_id, "a name", ["a name"]).url == url


def test_displacy_links_to_the_page_of_a_concept(doc: Doc) -> None:
    linked = next(ent for ent in doc.ents if ent.kb_id_.startswith("C"))
    template = render.concept_url("C0000000").replace("C0000000", "{}")
    page = displacy.render(doc, style="ent", options={"kb_url_template": template}, jupyter=False)
    assert f'href="https://uts.nlm.nih.gov/uts/umls/concept/{linked.kb_id_}"' in page


def test_html_escapes_everything(kb: SimpleNamespace) -> None:
    evil = '<script>alert("x")</script>'
    for concept in kb.cui_to_entity.values():
        concept.canonical_name = concept.definition = evil
    kb.semantic_type_tree = SimpleNamespace(get_canonical_name=lambda tui: evil)
    explain = {"name": evil, "source": evil, "long_form": evil}
    doc = link(
        spacy.blank("en")(f"{evil} fits {{text}} {evil}"),
        [("fits", evil, "C0036572", [("C0036572", 0.9), (evil, 0.1)])],
        kb_codes={"fits": {evil: [evil, "HP:" + evil]}},
        kb_explain={"fits": explain},
    )
    html = render.to_html([(doc, evil)], kb, evil)
    page = Page(html)
    assert "<script" not in html.replace(f"<script>{page_script()}</script>", "", 1)  # the page's own script, which is the same in every page
    assert page.all("script") == [{}]
    assert page.entities == doc.text
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert "&lt;script&gt;" in html


def test_html_loads_nothing(doc: Doc, kb: SimpleNamespace) -> None:
    html = render.to_html([(doc, "n1")], kb, "Links")
    page = Page(html)
    assert not [tag for tag, _ in page.tags if tag in {"link", "img", "iframe", "object", "embed", "video", "audio", "source", "base", "form"}]
    assert not [attributes for _, attributes in page.tags if "src" in attributes or "srcset" in attributes]
    assert "@import" not in html
    assert "url(" not in html
    assert "default-src 'none'" in html


def test_html_allows_only_its_own_script(doc: Doc, kb: SimpleNamespace) -> None:
    html = render.to_html([(doc, "n1")], kb, "Links")
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', html)
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("):
        assert way not in script


def test_html_without_notes_has_no_script(kb: SimpleNamespace) -> None:
    assert Page(render.to_html([], kb, "Links")).all("script") == []


def test_html_with_overlapping_spans(doc: Doc, kb: SimpleNamespace) -> None:
    inner, outer = Span(doc, 1, 2, label="DISO", kb_id="C0026827"), Span(doc, 0, 3, label="DISO", kb_id="HP:0000002")
    doc.spans["sc"] = [inner, outer, Span(doc, 2, 3, label="DISO", kb_id="C0036572"), Span(doc, 0, 1, label="unlinked")]
    assert [row["mention"] for row in render.rows(doc, kb)][:3] == ["Mother had fits", "had", "fits"]
    html = render.to_html([(doc, "n1")], kb, "Links")
    page = Page(html)
    assert "Inside or across other mentions" in html
    assert page.entities.startswith(TEXT)
    assert len(page.all("mark")) == 6
    assert "unlinked" not in html


def test_html_of_nothing(kb: SimpleNamespace) -> None:
    assert "No notes." in render.to_html([], kb, "Links")
    assert "No mention found." in render.to_html([(spacy.blank("en")(""), "n1")], kb, "Links")
    assert "0 mentions" in table([])


def test_html_lists_concepts_with_their_counts(doc: Doc, kb: SimpleNamespace) -> None:
    page = render.to_html([(doc, "one"), (doc, "two")], kb, "Notes")  # type: ignore[arg-type]
    listed = re.findall(r'<li><a href="#(m-[\d-]+)"><span>([^<]*)</span> <b>(\d+)</b></a></li>', page)
    linked = [row for row in render.rows(doc, kb) if row["cui"] != render.NIL]  # type: ignore[arg-type]
    assert sum(int(number) for _, _, number in listed) == 2 * len(linked)
    assert {unescape(name) for _, name, _ in listed} == {row["name"] or row["cui"] for row in linked}
    for mark, _, _ in listed:
        assert page.count(f'id="{mark}"') == 1


def test_html_on_several_pages(doc: Doc, kb: SimpleNamespace) -> None:
    files, first = ["a%20b.html", "a%20b-2.html", "a%20b-3.html"], ["n_1", "n3", "<n5>"]
    found = [render.to_html([(doc, "x")], kb, "Links", pages=render.Pages(number, files, first)) for number in range(3)]  # type: ignore[arg-type]
    assert [unescape(re.findall("<title>(.*?)</title>", html)[0]) for html in found] == [f"Links, page {number} of 3" for number in (1, 2, 3)]
    turns = [[(a["rel"], a["href"]) for a in Page(html).all("a") if a.get("rel") in ("prev", "next")] for html in found]
    assert turns == [[("next", files[1])], [("prev", files[0]), ("next", files[2])], [("prev", files[1])]]
    listed = re.findall(r'<li><a href="([^"#]*)"( aria-current="page")?>from (.*?)</a></li>', found[1])
    assert listed == [(files[0], "", "n_<wbr>1"), (files[1], ' aria-current="page"', "n3"), (files[2], "", "&lt;n5&gt;")]
    assert "Pages" not in render.to_html([(doc, "x")], kb, "Links")  # type: ignore[arg-type]


@pytest.mark.parametrize(("probability", "doubtful"), [(0.59, True), (0.6, False), (None, False)])
def test_doubtful_links_are_hatched(probability: float | None, doubtful: bool) -> None:
    row = {"start": 0, "end": 4, "label": "DISO", "cui": "C1", "types": [], "status": ["family"], "probability": probability}
    html, also = marked_note("fits", [row, {**row, "cui": "NIL", "start": 1}], ["m-1", "m-2"], "panel")
    assert (' doubt" data-s="family"' in html) == doubtful
    assert len(also) == 1
    assert "doubt" not in also[0]  # a mention without a link is not doubtful


def test_equal_cards_are_in_the_page_once(doc: Doc, kb: SimpleNamespace) -> None:
    page = Page(render.to_html([(doc, "n1"), (doc, "n2")], kb, "Links"))  # type: ignore[arg-type]
    cards = [tag["id"] for tag in page.all("span") if tag.get("class") == "card"]
    assert cards == ["card-0-0", "card-0-1", "card-0-2", "card-0-3"]
    assert [mark["aria-describedby"] for mark in page.all("mark")] == 2 * cards


def test_codes_stand_behind_their_vocabulary_once(kb: SimpleNamespace) -> None:
    codes = {"ICD10CM": ["I10", "I11"], "MESH": ["MESH:D1"]}
    doc = link(spacy.blank("en")("fits"), [("fits", "DISO", "C0036572", [("C0036572", 0.9)])], kb_codes={"fits": codes})
    (shown,) = re.findall(r'<span class="codes">(.*?)</span>', render.to_html([(doc, "n")], kb, "Notes"))  # type: ignore[arg-type]
    assert re.sub(r"<[^>]*>", "", shown).split() == ["ICD10CM", "I10,", "I11;", "MESH", "MESH:D1"]


def test_html_right_to_left(kb: SimpleNamespace) -> None:
    doc = spacy.blank("he")("שלום fits")
    doc.ents = [Span(doc, 1, 2, label="DISO", kb_id="C0036572")]
    html = render.to_html([(doc, "n1")], kb, "Links")
    assert "direction: rtl" in html
    assert '<html lang="he">' in html


def test_html_index_has_counts(doc: Doc, kb: SimpleNamespace) -> None:
    html = render.to_html([(doc, "first"), (doc, "second")], kb, "Links")
    items = re.findall(r'<li><a href="(#note-\d)"><span>(\w+)</span> <b title="linked mentions">(\d)', html)
    assert items == [("#note-0", "first", "3"), ("#note-1", "second", "3")]
    assert "2 notes · 8 mentions · 6 linked · 3 concepts · 2 NIL" in html


# -- status and extensions ------------------------------------------------------------------------------------------------


@pytest.fixture
def judged(doc: Doc) -> Iterator[Doc]:
    """Return the Doc with statuses (the first mention is denied, the second is about the family's past) and an extension of another component."""
    made = [name for name in ("assertion", "is_negated_elsewhere") if not Span.has_extension(name)]
    for name in made:
        Span.set_extension(name, default=None)
    for span, held in zip(doc.ents, (["negated"], ["historical", "family"], [], [])):
        span._.assertion = {status: status in held for status in ("negated", "uncertain", "hypothetical", "historical", "family")}
        span._.is_negated_elsewhere = "negated" in held
    yield doc
    for name in made:
        Span.remove_extension(name)


def test_status_is_in_every_record(judged: Doc, doc: Doc, kb: SimpleNamespace) -> None:
    rows = list(render.rows(judged, kb, extensions=["is_negated_elsewhere"]))
    assert [row["status"] for row in rows] == [["negated"], ["historical", "family"], [], []]
    assert [row["extensions"] for row in rows] == [{"is_negated_elsewhere": negated} for negated in (True, False, False, False)]
    text = io.StringIO()
    render.to_csv(rows, text, ["is_negated_elsewhere"])
    read = list(csv.DictReader(io.StringIO(text.getvalue())))
    assert [(row["status"], row["is_negated_elsewhere"]) for row in read[:2]] == [("negated", "True"), ("historical|family", "False")]
    lines = io.StringIO()
    render.to_jsonl(rows, lines)
    assert json.loads(lines.getvalue().splitlines()[1])["status"] == ["historical", "family"]


def test_without_clinical_status_nothing_is_said(doc: Doc, kb: SimpleNamespace) -> None:
    rows = list(render.rows(doc, kb))
    assert [row["status"] for row in rows] == [None] * 4
    assert "extensions" not in rows[0]
    assert "Status" not in printed(rows)


def printed(rows: List[Dict[str, Any]]) -> str:
    console = Console(file=io.StringIO(), width=120, force_terminal=False)
    render.to_table(rows, console)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_the_table_shows_status(judged: Doc, kb: SimpleNamespace) -> None:
    shown = printed(list(render.rows(judged, kb)))
    fits = next(line for line in shown.splitlines() if line.strip().startswith("fits"))
    assert "denied" in fits
    assert "1 denied" in shown
    assert "past, family" in shown


def test_what_is_denied_does_not_look_like_what_is_there(judged: Doc, kb: SimpleNamespace) -> None:
    html = render.to_html([(judged, "n")], kb, "t", extensions=["is_negated_elsewhere"])
    marks = Page(html).all("mark")
    classes = [str(mark["class"]).split() for mark in marks]
    assert ["s-negated" in names for names in classes] == [True, False, False, False]
    assert [mark["data-s"] for mark in marks] == ["denied", "past, family", "", ""]
    assert "is_negated_elsewhere: True" in html
    style = html.partition("</style>")[0]
    assert ".m.s-negated{text-decoration:line-through" in style
    assert '.m[class*=" s-"],.dot[class*=" s-"]{background:none' in style


@pytest.mark.parametrize(
    ("explain", "cui", "probability", "expected"),
    [
        (
            {"name": "cold", "source": "MONDO", "exact": True},
            "C1",
            0.814,
            ["exact match with the concept's name “cold” (MONDO)", "right with a probability of 81%"],
        ),
        ({"name": "coryza", "source": "MONDO", "exact": False}, "C1", None, ["no exact match; the concept's most similar name is “coryza” (MONDO)"]),
        ({"name": "coryza", "source": ""}, "C1", None, ["no exact match; the concept's most similar name is “coryza”"]),
        (
            {"name": "myocardial infarction", "source": "MONDO", "exact": True, "meaning": "heart attack"},  # the mention is "MI"
            "C1",
            None,
            ["taken to mean “myocardial infarction”, by its spelling and the text around it"],
        ),
        ({"name": "PALE", "source": "MINE", "exact": True}, "NIL", None, ["not linked; the best candidate is “PALE” (MINE)"]),
        (
            {"name": "asthma", "exact": True, "long_form": "bronchial asthma"},
            "C1",
            None,
            ["short for “bronchial asthma”", "exact match with the concept's name “asthma”"],
        ),
        ({}, "C1", None, []),
    ],
    ids=["exact", "similar", "no source", "meaning", "not linked", "long form", "nothing"],
)
def test_why_a_mention_is_linked_in_words(explain: dict[str, Any], cui: str, probability: float | None, expected: list[str]) -> None:
    assert reasons({"explain": explain, "cui": cui, "probability": probability}) == expected


@pytest.mark.parametrize(
    ("share", "digits", "words"),
    [
        (1.0, 0, "100%"),
        (0.995, 0, "over 99%"),  # it would be rounded to 100%
        (0.9999, 0, "over 99%"),
        (0.994, 0, "99%"),
        (0.004, 0, "under 1%"),
        (0.0, 0, "0%"),
        (0.995, 1, "99.5%"),
        (0.9996, 1, "over 99.9%"),
        (0.0004, 1, "under 0.1%"),
        (1.0, 1, "100.0%"),
        (1 - 2**-52, 1, "100.0%"),  # a 1 that was computed
    ],
)
def test_only_certain_shares_are_100_percent(share: float, digits: int, words: str) -> None:
    assert percent(share, digits) == words


def test_a_link_that_may_be_wrong_is_not_right_with_a_probability_of_100_percent() -> None:
    assert reasons({"explain": {}, "cui": "C1", "probability": 0.995}) == ["right with a probability of over 99%"]
