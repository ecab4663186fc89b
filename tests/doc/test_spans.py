"""Where links are written in a Doc: Docs made by hand, without a model and a knowledge base."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Tuple

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc, Span, SpanGroup
from spacy.vocab import Vocab

from spacy_sapbert.doc.spans import Link, Mention, attribute_names, get_mention, get_spans, long_forms, set_extensions, set_spans, write_links
from spacy_sapbert.errors import SapbertError

NLP = spacy.blank("en")
TEXT = "Known ventricular septal defect (VSD). VSD repair in 2009; the VSD has closed."


@pytest.fixture(autouse=True)
def extensions() -> Iterator[None]:
    """Undo the extensions that a test declares or changes, because spaCy keeps them for the whole process."""
    from spacy.tokens.underscore import Underscore

    docs, spans = dict(Underscore.doc_extensions), dict(Underscore.span_extensions)
    yield
    Underscore.doc_extensions.clear()
    Underscore.doc_extensions.update(docs)
    Underscore.span_extensions.clear()
    Underscore.span_extensions.update(spans)


def make(text: str, *spans: Tuple[str, str], group: Optional[str] = None) -> Doc:
    doc = NLP(text)
    found, at = [], 0
    for mention, label in spans:
        start = text.index(mention, at)
        at = start + 1
        found.append(doc.char_span(start, start + len(mention), label=label, alignment_mode="expand"))
    if group is None:
        doc.ents = found
    else:
        doc.spans[group] = found
    return doc


def with_abbreviations(doc: Doc, found: List[Any]) -> Doc:
    Doc.set_extension("abbreviations", default=[], force=True)
    Span.set_extension("long_form", default=None, force=True)
    doc._.abbreviations = found
    return doc


def link(kb_id: str, *candidates: Tuple[str, float]) -> Link:
    return Link(kb_id, list(candidates), {"HPO": ["HP:1"]}, {"name": "x"})


# -- which spans ----------------------------------------------------------------------------------------------------------


def test_entities_one_group_several_groups():
    doc = make("fever and cough and rash", ("fever", "A"), ("cough", "B"))
    doc.spans["one"] = [doc[4:5], doc[0:5]]
    doc.spans["two"] = [doc[2:3]]
    seen = {
        str(key): [(group, place, span.text) for group, place, span in get_spans(doc, key)]
        for key in (None, "one", ["two", "one"], "none", ["none", "two"])
    }
    assert seen == {
        "None": [(None, 0, "fever"), (None, 1, "cough")],
        "one": [("one", 0, "rash"), ("one", 1, "fever and cough and rash")],
        "['two', 'one']": [("two", 0, "cough"), ("one", 0, "rash"), ("one", 1, "fever and cough and rash")],
        "none": [],
        "['none', 'two']": [("two", 0, "cough")],
    }
    assert "none" not in doc.spans  # reading does not create a group


def test_discarded_labels_keep_the_places_of_the_others():
    doc = make("fever cough rash", ("fever", "A"), ("cough", "B"), ("rash", "A"))
    assert [(place, span.text) for _, place, span in get_spans(doc, None, ["A"])] == [(1, "cough")]
    assert get_spans(doc, None, iter(["A", "B"])) == []
    assert get_spans(NLP(""), None) == []


# -- abbreviations --------------------------------------------------------------------------------------------------------


def test_long_forms_as_spans_strings_and_dicts():
    doc = NLP(TEXT)
    short, long = doc[5:6], doc[1:4]
    assert (short.text, long.text) == ("VSD", "ventricular septal defect")
    with_abbreviations(doc, [short])
    for value in (long, long.text):
        short._.long_form = value
        assert long_forms(doc) == {"VSD": "ventricular septal defect"}
    record = {"short_text": "VSD", "short_start": 5, "short_end": 6, "long_text": "ventricular septal defect", "long_start": 1, "long_end": 4}
    doc._.abbreviations = [record]
    assert long_forms(doc) == {"VSD": "ventricular septal defect"}


def test_the_first_long_form_counts_and_missing_ones_do_not():
    doc = with_abbreviations(NLP("MS MS PE"), [{"short_text": "MS", "long_text": "one"}, {"short_text": "MS", "long_text": "two"}])
    doc._.abbreviations = [*doc._.abbreviations, doc[2:3]]  # a Span without a long form
    assert long_forms(doc) == {"MS": "one"}
    doc._.abbreviations = None
    assert long_forms(doc) == {}


def test_without_a_detector_there_are_no_abbreviations():
    Doc.remove_extension("abbreviations") if Doc.has_extension("abbreviations") else None
    assert long_forms(NLP("VSD")) == {}
    Doc.set_extension("abbreviations", default=[])
    Span.remove_extension("long_form") if Span.has_extension("long_form") else None
    doc = NLP("VSD")
    doc._.abbreviations = [doc[0:1]]
    assert long_forms(doc) == {}


def test_abbreviations_that_the_text_defines_are_found_without_a_detector_and_give_way_to_it():
    doc = NLP("Myotonic dystrophy (DM) and ataxia-telangiectasia (A-T): DM is common.")
    assert long_forms(doc) == {"DM": "Myotonic dystrophy", "A-T": "ataxia-telangiectasia"}
    assert get_mention(doc.char_span(doc.text.index(": DM") + 2, doc.text.index(": DM") + 4), long_forms(doc)).text == "Myotonic dystrophy"
    with_abbreviations(doc, [{"short_text": "DM", "long_text": "diabetes mellitus"}])
    assert long_forms(doc)["DM"] == "diabetes mellitus"


def test_long_forms_of_a_detector_need_not_be_defined_in_the_text():
    doc = NLP("VSD seen: a hole in the heart")
    with_abbreviations(doc, [doc[0:1]])
    for value in (doc[3:8], doc[3:8].text):
        doc[0:1]._.long_form = value
        assert long_forms(doc) == {"VSD": "a hole in the heart"}


def test_a_detector_may_compute_its_abbreviations():
    Doc.set_extension("abbreviations", getter=lambda doc: [{"short_text": "AB", "long_text": "a b"}], force=True)
    assert long_forms(NLP("AB")) == {"AB": "a b"}


def test_looking_for_abbreviations_writes_nothing():
    Doc.set_extension("abbreviations", default=[], force=True)
    doc = NLP("VSD")
    assert long_forms(doc) == {}
    assert doc.user_data == {}


def test_only_english_has_english_plurals():
    doc = NLP("ventricular septal defects (VSDs)")
    assert long_forms(doc) == dict.fromkeys(("VSDs", "VSD"), "ventricular septal defects")
    assert long_forms(doc, english=False) == {"VSDs": "ventricular septal defects"}


def test_the_longest_form_is_replaced_first():
    span = Doc(NLP.vocab, ["VA-B", "block"])[:]
    assert get_mention(span, {"VA": "wrong", "VA-B": "long form"}) == Mention("long form block", "long form")


def test_other_languages_have_no_english_plurals():
    span = Doc(NLP.vocab, ["MIs"])[:]
    assert get_mention(span, {"MI": "long form"}, english=False) == Mention("MIs", None)


@pytest.mark.parametrize(("short", "text", "is_plural"), [("MI", "MIs", True), ("TdP", "TdPs", True), ("V", "Vs", False), ("Hb", "Hbs", False)])
def test_plurals_of_abbreviations(short: str, text: str, is_plural: bool):
    span = Doc(NLP.vocab, [text], spaces=[False])[0:1]
    assert get_mention(span, {short: "long form"}) == (Mention("long form", "long form") if is_plural else Mention(text, None))


FORMS = {"VSD": "ventricular septal defect", "V": "ventricle", "AS": "aortic stenosis"}


@pytest.mark.parametrize(
    ("text", "looked_up", "long_form"),
    [
        ("VSD", "ventricular septal defect", "ventricular septal defect"),
        ("VSD repair", "ventricular septal defect repair", "ventricular septal defect"),
        ("large VSD", "large ventricular septal defect", "ventricular septal defect"),
        ("VSDs", "ventricular septal defect", "ventricular septal defect"),
        ("large VSDs", "large ventricular septal defect", "ventricular septal defect"),
        ("VSD and AS", "ventricular septal defect and aortic stenosis", "ventricular septal defect"),
        ("aortic stenosis with ventricular septal defect (AS/VSDs)", "aortic stenosis with ventricular septal defect", None),
        ("aortic stenosis and VSD", "aortic stenosis and ventricular septal defect", "ventricular septal defect"),
        ("V-shaped VSD", "V-shaped ventricular septal defect", "ventricular septal defect"),  # the longest first; "V" is not tried again
        ("post-VSD state", "post-ventricular septal defect state", "ventricular septal defect"),
        ("VSD (VSD)", "ventricular septal defect (ventricular septal defect)", "ventricular septal defect"),
        ("AVSD", "AVSD", None),
        ("VSDx", "VSDx", None),
        ("vsd", "vsd", None),  # "as" is a word, "AS" is aortic stenosis
        ("ventricular septal defect (VSD)", "ventricular septal defect", None),
        ("Ventricular Septal Defect [ VSD ]", "Ventricular Septal Defect", None),
        ("ventricular septal defect (VSD) repair", "ventricular septal defect repair", None),
        ("V enlarged", "ventricle enlarged", "ventricle"),  # one letter, if there is no other form
        ("ventricular septal defect, VSD", "ventricular septal defect, VSD", None),  # the text already has the long form
        ("fever", "fever", None),
        ("", "", None),
    ],
)
def test_text_that_stands_for_a_span(text: str, looked_up: str, long_form: Optional[str]):
    doc = Doc(NLP.vocab, [text] if text else ["x"], spaces=[False])
    span = doc[0:1] if text else doc[0:0]
    assert get_mention(span, FORMS) == Mention(looked_up, long_form)


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("C+", r"a\1 \g<0> \n form"),
        ("(R)", "right"),
        (".*", "anything"),
        ("A|B", "either"),
        ("p[0]", "first"),
        ("\\d", "digit"),
        ("5-HT", "serotonin"),
    ],
)
def test_forms_are_text_not_patterns(short: str, long: str):
    assert get_mention(Doc(NLP.vocab, [short], [False])[0:1], {short: long}) == Mention(long, long)
    doc = Doc(NLP.vocab, ["high", short, "level"], [True, True, False])
    assert get_mention(doc[:], {short: long}) == Mention(f"high {long} level", long)
    assert get_mention(Doc(NLP.vocab, ["fever"], [False])[:], {short: long}) == Mention("fever", None)
    doc = Doc(NLP.vocab, [long, "(", short, ")"], [True, False, False, False])
    assert get_mention(doc[:], {short: long}) == Mention(long, None)


# -- writing --------------------------------------------------------------------------------------------------------------


def test_attribute_names():
    assert attribute_names("kb_ents") == ("kb_ents", "kb_codes", "kb_explain", "kb_prob")
    assert attribute_names("other_ents") == ("other_ents", "other_codes", "other_explain", "other_prob")
    assert attribute_names("mine") == ("mine", "mine_codes", "mine_explain", "mine_prob")


def test_links_of_entities_are_on_their_tokens():
    set_extensions("kb_ents", "test")
    doc = make("acute kidney injury and fever", ("acute kidney injury", "A"), ("fever", "B"))
    write_links(doc, get_spans(doc, None), [link("C1", ("C1", 0.9), ("C2", 0.8)), link("NIL")], "kb_ents", True)
    assert [t.ent_kb_id_ for t in doc] == ["C1", "C1", "C1", "", "NIL"]
    assert [(e.text, e.label_, e.kb_id_, e._.kb_ents) for e in doc.ents] == [
        ("acute kidney injury", "A", "C1", [("C1", 0.9), ("C2", 0.8)]),
        ("fever", "B", "NIL", []),
    ]
    assert doc.ents[0]._.kb_codes == {"HPO": ["HP:1"]}
    assert doc.ents[0]._.kb_explain == {"name": "x"}


def test_neighbouring_entities_stay_two():
    set_extensions("kb_ents", "test")
    doc = make("fever rash", ("fever", "A"), ("rash", "A"))
    write_links(doc, get_spans(doc, None), [link("C1"), link("C1")], "kb_ents", True)
    assert [(e.text, e.kb_id_) for e in doc.ents] == [("fever", "C1"), ("rash", "C1")]


def test_not_overwriting_keeps_the_id_and_still_tells_candidates():
    set_extensions("kb_ents", "test")
    doc = make("fever rash", ("fever", "A"), ("rash", "A"))
    doc.ents = [Span(doc, 0, 1, label="A", kb_id="OLD"), doc.ents[1]]
    doc.spans["sc"] = [Span(doc, 0, 1, label="A", kb_id="OLD"), Span(doc, 1, 2, label="A")]
    for key in (None, "sc"):
        write_links(doc, get_spans(doc, key), [link("C1", ("C1", 0.9)), link("C2", ("C2", 0.8))], "kb_ents", False)
    assert [e.kb_id_ for e in doc.ents] == [s.kb_id_ for s in doc.spans["sc"]] == ["OLD", "C2"]
    assert doc.ents[0]._.kb_ents == [("C1", 0.9)]
    write_links(doc, get_spans(doc, None), [link(""), link("C3")], "kb_ents", True)
    assert [e.kb_id_ for e in doc.ents] == ["", "C3"]  # overwriting also removes an id


def test_a_group_keeps_all_but_the_ids():
    set_extensions("kb_ents", "test")
    doc = NLP("severe acute kidney injury and fever")
    spans = [
        Span(doc, 5, 6, label="SIGN", span_id="third"),
        Span(doc, 0, 4, label="DISEASE", kb_id="OLD", span_id="first"),
        Span(doc, 1, 4, label="SKIP", kb_id="KEPT", span_id="second"),
        Span(doc, 1, 4, label="DISEASE"),
    ]
    doc.spans["sc"] = SpanGroup(doc, name="sc", spans=spans, attrs={"by": "a person", "n": 3})
    found = get_spans(doc, "sc", ["SKIP"])
    write_links(doc, found, [link("C5"), link("C0"), link("C1")], "kb_ents", True)
    group = doc.spans["sc"]
    assert [(s.start, s.end, s.label_, s.id_, s.kb_id_) for s in group] == [
        (5, 6, "SIGN", "third", "C5"),
        (0, 4, "DISEASE", "first", "C0"),
        (1, 4, "SKIP", "second", "KEPT"),
        (1, 4, "DISEASE", "", "C1"),
    ]
    assert group.attrs == {"by": "a person", "n": 3}
    assert group.name == "sc"
    assert [t.ent_kb_id_ for t in doc] == [""] * 6  # a group is not doc.ents


def test_several_groups_and_equal_offsets():
    set_extensions("kb_ents", "test")
    doc = NLP("cold hands")
    doc.spans["a"] = [Span(doc, 0, 1, label="X"), Span(doc, 0, 1, label="Y")]
    doc.spans["b"] = [Span(doc, 0, 1, label="Z")]
    write_links(doc, get_spans(doc, ["a", "b"]), [link("C1", ("C1", 1.0)), link("C2", ("C2", 1.0)), link("C3", ("C3", 1.0))], "kb_ents", True)
    assert [s.kb_id_ for s in doc.spans["a"]] == ["C1", "C2"]
    assert [s.kb_id_ for s in doc.spans["b"]] == ["C3"]
    assert {tuple(s._.kb_ents) for s in (*doc.spans["a"], *doc.spans["b"])} == {(("C3", 1.0),)}  # spaCy has one slot for equal offsets


def test_candidates_are_a_copy():
    set_extensions("kb_ents", "test")
    doc = make("fever fever", ("fever", "A"), ("fever", "A"))
    shared = link("C1", ("C1", 0.9))
    write_links(doc, get_spans(doc, None), [shared, shared], "kb_ents", True)
    doc.ents[0]._.kb_ents.append(("C2", 0.1))
    assert doc.ents[1]._.kb_ents == [("C1", 0.9)]
    assert shared.candidates == [("C1", 0.9)]


# -- extensions -----------------------------------------------------------------------------------------------------------


def test_extensions_declared_twice_are_one():
    Span.set_extension("kb_ents", default=[], force=True)  # as scispaCy does
    set_extensions("kb_ents", "a")
    set_extensions("kb_ents", "b")
    doc = NLP("fever")
    assert (doc[:]._.kb_ents, doc[:]._.kb_codes, doc[:]._.kb_explain) == ([], {}, {})


def test_candidates_are_tuples_also_in_a_doc_from_bytes():
    set_extensions("kb_ents", "test")
    doc = make("cold fever", ("fever", "A"))
    write_links(doc, get_spans(doc, None), [link("C1", ("C1", 0.9), ("C2", 0.5))], "kb_ents", True)
    again = Doc(NLP.vocab).from_bytes(doc.to_bytes())
    assert again.ents[0]._.kb_ents == doc.ents[0]._.kb_ents == [("C1", 0.9), ("C2", 0.5)]
    assert again[1:2].as_doc(copy_user_data=True).ents[0]._.kb_ents == [("C1", 0.9), ("C2", 0.5)]
    again.ents[0]._.kb_ents.append(("C3", 0.1))
    assert again.ents[0]._.kb_ents[2:] == [("C3", 0.1)]


@pytest.mark.parametrize("taken", [{"default": None}, {"getter": lambda span: []}, {"default": ()}])
@pytest.mark.parametrize("name", ["mine_ents", "mine_codes", "mine_explain"])
def test_someone_elses_extension_is_not_overwritten(name: str, taken: Dict[str, Any]):
    Span.set_extension(name, **taken)
    before = Span.get_extension(name)
    with pytest.raises(SapbertError, match=rf"^\[E005\].*'{name}'.*'second'") as info:
        set_extensions("mine_ents", "second")
    assert info.value.code == "E005"
    assert Span.get_extension(name) == before


def test_two_linkers_write_beside_each_other():
    set_extensions("kb_ents", "a")
    set_extensions("other_ents", "b")
    doc = make("fever", ("fever", "A"))
    doc.spans["sc"] = [Span(doc, 0, 1, label="B")]
    write_links(doc, get_spans(doc, None), [link("C1", ("C1", 0.9))], "kb_ents", True)
    write_links(doc, get_spans(doc, "sc"), [link("C2", ("C2", 0.8))], "other_ents", True)
    span = doc[0:1]
    assert (span._.kb_ents, span._.other_ents) == ([("C1", 0.9)], [("C2", 0.8)])
    assert (doc.ents[0].kb_id_, doc.spans["sc"][0].kb_id_) == ("C1", "C2")


def test_what_is_written_survives_bytes():
    set_extensions("kb_ents", "test")
    doc = make("fever", ("fever", "A"))
    doc.spans["sc"] = [Span(doc, 0, 1, label="B", span_id="x")]
    write_links(doc, get_spans(doc, None), [link("C1", ("C1", 0.9))], "kb_ents", True)
    write_links(doc, get_spans(doc, "sc"), [link("C1", ("C1", 0.9))], "kb_ents", True)
    again = Doc(NLP.vocab).from_bytes(doc.to_bytes())
    assert again.ents[0].kb_id_ == again.spans["sc"][0].kb_id_ == "C1"
    assert [tuple(c) for c in again.ents[0]._.kb_ents] == [("C1", 0.9)]
    assert again.ents[0]._.kb_codes == {"HPO": ["HP:1"]}


def test_all_of_a_link_is_written():
    set_extensions("kb_ents", "test")
    doc = make("fever", ("fever", "A"))
    write_links(doc, get_spans(doc, None), [Link("C1", [("C1", 0.9)], {"HPO": ["HP:1"]}, {"name": "x"}, 0.75)], "kb_ents", True)
    written = doc.ents[0]._
    assert (written.kb_ents, written.kb_codes, written.kb_explain, written.kb_prob) == ([("C1", 0.9)], {"HPO": ["HP:1"]}, {"name": "x"}, 0.75)


def test_set_spans():
    doc = NLP("fever and rash")
    set_spans(doc, None, [Span(doc, 0, 1, label="A")])
    set_spans(doc, "sc", [doc[0:3], doc[2:3]])
    assert [e.text for e in doc.ents] == ["fever"]
    assert [s.text for s in doc.spans["sc"]] == ["fever and rash", "rash"]


def test_a_second_linker_that_finds_nothing_leaves_the_first_ones_id() -> None:
    doc = Doc(spacy.blank("en").vocab, words=["cold"])
    doc.ents = [Span(doc, 0, 1, label="X")]
    for name in ("kb_ents", "second_ents"):
        set_extensions(name, "test")
    write_links(doc, get_spans(doc, None), [Link("C0000001", [("C0000001", 1.0)], {}, {})], "kb_ents", True)
    write_links(doc, get_spans(doc, None), [Link("", [], {}, {})], "second_ents", True)
    assert doc.ents[0].kb_id_ == "C0000001"
    write_links(doc, get_spans(doc, None), [Link("NIL", [], {}, {})], "second_ents", True)
    assert doc.ents[0].kb_id_ == "C0000001"
    write_links(doc, get_spans(doc, None), [Link("C0000002", [("C0000002", 1.0)], {}, {})], "second_ents", True)
    assert doc.ents[0].kb_id_ == "C0000002"


WORDS = st.sampled_from(["pain", "in", "left", "knee", "repair", "of"])
DEFINED = st.dictionaries(
    st.sampled_from(["AB", "ABC", "CA", "B1", "X-A"]), st.sampled_from(["long one", "far two words", "short (three)"]), max_size=4
)


@settings(max_examples=100, deadline=None)
@given(DEFINED, st.lists(WORDS | st.sampled_from(["AB", "ABC", "CA", "B1"]), min_size=1, max_size=6))
def test_each_word_that_is_an_abbreviation_takes_its_long_form(forms: Dict[str, str], given_words: List[str]) -> None:
    """Compare with a slow reference that goes word by word. The text has none of the long forms, so none is left out as a repetition."""
    doc = Doc(Vocab(), words=given_words)
    used = [forms[word] for word in given_words if word in forms]
    mention = get_mention(doc[:], forms, english=False)
    assert mention.text.strip() == " ".join(forms.get(word, word) for word in given_words)
    assert mention.long_form == (used[0] if used else None)
