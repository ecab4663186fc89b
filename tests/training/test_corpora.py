"""Readers of corpora, offsets, and abbreviations over a text."""

from __future__ import annotations

import json

import pytest
import spacy

from spacy_sapbert.errors import SapbertError
from training import corpora
from training.metrics import Mention

GSC = """100
Short stature and low muscle tone.
0\t13\tShort stature\tHP:0004322
18\t33\tlow muscle tone\tHP:0001252

200
No finding here.

300
Tone.
0\t4\tTone\tHP:1
"""
PUBTATOR = """7|t|WD and cancer.
7|a|Wilson disease (WD) is rare.
7\t0\t2\tWD\tSpecificDisease\tD006527
7\t15\t29\tWilson disease\tSpecificDisease\tOMIM:277900|C535918+D006527

8|t|Nothing.
8|a|
"""


def test_gsc():
    corpus = corpora.read_gsc(GSC.splitlines())
    assert list(corpus.documents) == ["100", "200", "300"]
    assert corpus.mentions[1] == Mention("100", 18, 33, "low muscle tone", (("HP:0001252",),))
    assert len(corpus.mentions) == 3


def test_pubtator():
    corpus = corpora.read_pubtator(PUBTATOR.splitlines())
    assert corpus.documents == {"7": "WD and cancer. Wilson disease (WD) is rare.", "8": "Nothing. "}
    assert corpus.mentions[0] == Mention("7", 0, 2, "WD", (("MESH:D006527",),))
    assert corpus.mentions[1].gold == (("OMIM:277900",), ("MESH:C535918", "MESH:D006527"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("D001943", (("MESH:D001943",),)),
        ("D001943|D010051", (("MESH:D001943",), ("MESH:D010051",))),
        ("D007674+D006222", (("MESH:D007674", "MESH:D006222"),)),
        ("OMIM:300322+OMIM:102600", (("OMIM:300322", "OMIM:102600"),)),
        ("D1+D1", (("D1",),)),  # an id of no known form stays as it is, once
        (" ", ()),
    ],
)
def test_gold_ids(text, expected):
    assert corpora.gold_ids(text) == expected


def test_docs_have_spans_at_the_gold_offsets_even_within_tokens_and_overlapping():
    text = "The BCCs/tumours are many."
    mentions = [Mention("1", 4, 7, "BCC", ()), Mention("1", 4, 16, "BCCs/tumours", ()), Mention("1", 9, 16, "tumours", ())]
    ((doc, same),) = corpora.make_docs(corpora.Corpus({"1": text}, mentions), spacy.blank("en"))
    assert doc.text == text
    assert [span.text for span in doc.spans[corpora.GOLD]] == ["BCC", "BCCs/tumours", "tumours"]
    assert same == mentions


def test_offsets_that_do_not_fit_the_text_are_refused():
    corpus = corpora.Corpus({"1": "some text"}, [Mention("1", 0, 4, "other", ())])
    with pytest.raises(SapbertError, match=r"\[E543\] Document 1: 'other' does not stand at 0-4, where 'some' is"):
        corpora.make_docs(corpus, spacy.blank("en"))


def test_lines_end_only_at_line_ends(tmp_path):
    import gzip

    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress("a\fb\r\nc\u2028d\n\ne\n".encode()))
    assert list(corpora.open_lines(path)) == ["a\fb", "c\u2028d", "", "e"]


def test_notes_are_distinct(tmp_path):
    path = tmp_path / "notes.jsonl"
    path.write_text("\n".join(json.dumps({"transcription": text}) for text in ["a", " a ", None, "b", "c"]), encoding="utf-8")
    assert corpora.read_notes(path, 2) == ["a", "b"]
    assert corpora.read_notes(path, 9) == ["a", "b", "c"]


def test_a_mention_off_its_offsets_is_told_from_those_that_fit():
    good, bad = Mention("1", 0, 4, "some", ()), Mention("1", 1, 5, "text", ())
    fits, misfits = corpora.fitting(corpora.Corpus({"1": "some text"}, [good, bad]))
    assert (fits.mentions, misfits) == ([good], [bad])


def test_bc5cdr_names_the_parts_of_a_composite():
    lines = [
        "1|t|Liver and lung disease by lithium.",
        "1|a|",
        "1\t0\t22\tLiver and lung disease\tDisease\tD000001|D000002\tLiver disease|lung disease",
        "1\t26\t33\tlithium\tChemical\tD000003",
        "1\tCID\tD000003\tD000001",
    ]
    assert [m.gold for m in corpora.read_pubtator(lines).mentions] == [(("MESH:D000001", "MESH:D000002"),), (("MESH:D000003",),)]
    assert [m.text for m in corpora.read_pubtator(lines, ("Disease",)).mentions] == ["Liver and lung disease"]


def test_biomap():
    assert corpora.read_biomap(["pmid,mention,cui,mondo_id", '7,"cancer, lung",C1,MONDO:1']).mentions == [
        Mention("7", 0, 0, "cancer, lung", (("MONDO:1",),))
    ]


def test_abbreviations_are_resolved_whole_and_within_mentions():
    text = "Ventricular septal defect (VSD) was seen. VSD repair and VSD."
    spans = [(42, 52), (57, 60), (0, 25)]
    corpus = corpora.Corpus({"1": text}, [Mention("1", a, b, text[a:b], ()) for a, b in spans])
    words, whole = corpora.resolved_texts(corpus)
    assert words == ["Ventricular septal defect repair", "Ventricular septal defect", "Ventricular septal defect"]
    assert whole == ["VSD repair", "Ventricular septal defect", "Ventricular septal defect"]


def test_mentions_are_in_the_order_of_documents():
    first, second, third = Mention("b", 0, 1, "x", ()), Mention("a", 0, 1, "x", ()), Mention("b", 1, 2, "y", ())
    found = corpora.by_document(corpora.Corpus({"a": "x", "b": "xy"}, [first, second, third]))
    assert found == {"a": [second], "b": [first, third]}
