"""Texts with very long words are tokenized in linear time, and other texts as spaCy does."""

from __future__ import annotations

import pickle
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import spacy
from spacy.language import Language
from spacy.matcher import Matcher
from spacy.tokenizer import Tokenizer

import spacy_sapbert
from spacy_sapbert.doc.brackets import MOST_BRACKETS, FewBrackets, bound_detector
from spacy_sapbert.doc.tokens import LONGEST_WORD, BoundedTokenizer, bound_tokenizer

NOTES = sorted((Path(__file__).parents[2] / "examples" / "notes").glob("*.txt"))


@pytest.fixture
def bounded() -> Language:
    nlp = spacy.blank("en")
    nlp.tokenizer.add_special_case("c/o", [{"ORTH": "c/", "NORM": "complains"}, {"ORTH": "o", "NORM": "of"}])
    bound_tokenizer(nlp)
    return nlp


def test_other_texts_have_the_tokens_of_spacy(bounded: Language) -> None:
    plain = spacy.blank("en")
    plain.tokenizer.add_special_case("c/o", [{"ORTH": "c/", "NORM": "complains"}, {"ORTH": "o", "NORM": "of"}])
    assert type(bounded.tokenizer) is BoundedTokenizer
    for text in [*(path.read_text(encoding="utf-8") for path in NOTES), "", "  ", "c/o pain", "can't " * 300, "x" * LONGEST_WORD + ")"]:
        doc, same = bounded(text), plain(text)
        assert [(token.text, token.norm_, token.whitespace_) for token in doc] == [(token.text, token.norm_, token.whitespace_) for token in same]


def test_a_long_word_is_split_by_hand(bounded: Language) -> None:
    word = "(ab1," + "-" * LONGEST_WORD
    doc = bounded(f"c/o  {word} can't\n\n{word}")
    cut = ["(", "ab1", ",", *"-" * LONGEST_WORD]
    assert [token.text for token in doc] == ["c/", "o", " ", *cut, "ca", "n't", "\n\n", *cut]
    assert doc.text == f"c/o  {word} can't\n\n{word}"
    assert [doc[0].norm_, doc[1].norm_] == ["complains", "of"]  # outside the word, spaCy's rules hold
    assert bounded(word).text == word
    assert bounded(f" {word} ").text == f" {word} "


def test_brackets_by_the_hundred_thousand_take_a_second_not_an_hour(bounded: Language) -> None:
    for text in ("(" * 100_000, '{"a":' * 20_000, "x)" * 50_000):
        begun = time.process_time()
        assert bounded(text).text == text
        assert time.process_time() - begun < 10


def test_it_is_pickled_and_saved_as_spacys_own(bounded: Language, tmp_path: Path) -> None:
    word = "(" * (LONGEST_WORD + 1)
    again = pickle.loads(pickle.dumps(bounded.tokenizer))
    assert type(again) is BoundedTokenizer
    assert len(again(word)) == LONGEST_WORD + 1
    bounded.to_disk(tmp_path / "saved")
    loaded = spacy.load(tmp_path / "saved")
    assert type(loaded.tokenizer) is Tokenizer
    assert [token.norm_ for token in loaded("c/o pain")] == ["complains", "of", "pain"]


def test_a_tokenizer_of_another_kind_is_kept() -> None:
    class Words:
        def __init__(self, vocab: spacy.vocab.Vocab) -> None:
            self.vocab = vocab

    nlp = spacy.blank("en")
    words = nlp.tokenizer = Words(nlp.vocab)
    bound_tokenizer(nlp)
    assert nlp.tokenizer is words


def test_a_pipeline_links_a_text_of_brackets(tiny_linker: Path) -> None:
    nlp = spacy_sapbert.load(str(tiny_linker))
    begun = time.process_time()
    doc = nlp("(" * 20_000 + " fever and cough")
    assert [(ent.text, ent.kb_id_) for ent in doc.ents] == [("fever", "C9100027"), ("cough", "C9100028")]
    assert time.process_time() - begun < 30


def test_scispacys_detector_finds_what_it_did_and_leaves_out_brackets_without_end(tiny_linker: Path) -> None:
    pytest.importorskip("scispacy")
    nlp = spacy_sapbert.load(str(tiny_linker))
    detector = nlp.get_pipe("abbreviation_detector")
    assert isinstance(detector.matcher, FewBrackets)
    text = "Ventricular septal defect (VSD) was seen. "
    assert nlp(text)._.abbreviations[0]["long_text"] == "Ventricular septal defect"
    assert nlp(text + "( " * (MOST_BRACKETS - 1))._.abbreviations[0]["long_text"] == "Ventricular septal defect"
    assert nlp(text + "( " * MOST_BRACKETS)._.abbreviations == []


@pytest.mark.parametrize("name", ["abbreviation_detector", "short_forms"])
def test_the_detector_of_a_given_pipeline_is_bounded_too(tiny_linker: Path, tmp_path: Path, name: str) -> None:
    pytest.importorskip("scispacy")
    from scispacy.abbreviation import AbbreviationDetector  # noqa: F401  registers the factory

    given = spacy.blank("en")
    given.add_pipe("abbreviation_detector", name=name, config={"make_serializable": True})
    given.to_disk(tmp_path / "given")
    nlp = spacy_sapbert.load(str(tiny_linker), pipeline=str(tmp_path / "given"), abbreviations=name == "abbreviation_detector")
    text = "Ventricular septal defect (VSD) was seen. "
    assert nlp(text)._.abbreviations[0]["long_text"] == "Ventricular septal defect"
    assert nlp(text + "( " * MOST_BRACKETS)._.abbreviations == []


def test_a_component_without_a_matcher_is_kept_and_a_detector_is_bounded_once() -> None:
    nlp = spacy.blank("en")
    component = nlp.add_pipe("sentencizer")
    bound_detector(component)
    assert not hasattr(component, "matcher")
    detector = SimpleNamespace(matcher=Matcher(nlp.vocab))
    bound_detector(detector)
    bounded = detector.matcher
    bound_detector(detector)
    assert type(bounded) is FewBrackets
    assert detector.matcher is bounded
