"""The component `concept_matcher`: what it writes into a Doc, its settings, its files."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import spacy
import srsly
from name_matchers import EXPECTED, NOTE, Names, found, matcher, seen, written
from spacy.language import Language
from spacy.tokenizer import Tokenizer
from spacy.tokens import Doc, Span

from spacy_sapbert.errors import DamagedFile, MissingFile, SapbertError
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.matcher.component import ConceptMatcher
from spacy_sapbert.matcher.finding import find_names


def test_offsets_with_other_tokenizers():
    text = "Post-cleft palate, (seizure)."
    nlp = spacy.blank("en")
    nlp.tokenizer = Tokenizer(nlp.vocab)  # it splits only at spaces, so a name may end within a token
    assert found(matcher("cleft palate", "seizure", nlp=nlp), text) == ["cleft palate", "seizure"]
    nlp.tokenizer = lambda text: Doc(nlp.vocab, list(text), [False] * len(text))  # each character is a token
    assert found(matcher("cleft palate", "seizure", nlp=nlp), text) == ["cleft palate", "seizure"]
    assert found(matcher("cleft palate", "palate seizure", "scarred"), "scarred-cleft palate seizure") == ["scarred", "cleft palate"]
    nlp.tokenizer = Tokenizer(nlp.vocab)
    assert found(matcher("scarred", "cleft palate", nlp=nlp), "scarred-cleft palate") == ["scarred", "cleft palate"]  # two names in one token


def test_entities_stay_unless_overwritten():
    text = "acute kidney injury with fever and cough"
    for overwrite, expected in (
        (False, [("acute kidney", "OLD"), ("fever", "DISO"), ("cough", "OLD")]),
        (True, [("kidney injury", "DISO"), ("fever", "DISO"), ("cough", "OLD")]),
    ):
        component = matcher("kidney injury", "fever", overwrite=overwrite)
        doc = component.nlp.make_doc(text)
        doc.ents = [Span(doc, 0, 2, label="OLD", kb_id="Q1"), Span(doc, 6, 7, label="OLD", kb_id="Q2")]
        out = component(doc)
        assert [(e.text, e.label_) for e in out.ents] == expected
        assert out.ents[-1].kb_id_ == "Q2"


def test_span_group_leaves_entities():
    component = matcher("fever", spans_key="concepts")
    doc = component.nlp.make_doc("fever and fevers")
    doc.ents = [Span(doc, 0, 3, label="OLD")]
    out = component(doc)
    assert [(s.text, s.label_) for s in out.spans["concepts"]] == [("fever", "DISO"), ("fevers", "DISO")]
    assert [(e.text, e.label_) for e in out.ents] == [("fever and fevers", "OLD")]
    assert list(component(component.nlp.make_doc("nothing")).spans["concepts"]) == []


def test_a_blank_pipeline_annotates(nlp: Language, tiny_kb: KnowledgeBase):
    assert seen(nlp) == EXPECTED
    assert 150 < len(nlp.get_pipe("concept_matcher")) < 1.1 * tiny_kb.n_surface_forms  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"types": ["T121", "PROC"]}, [("aspirin", "CHEM"), ("knee replacements", "PROC")]),
        ({"types": ["Finding"], "label": "type"}, [("FEVERS", "T033"), ("cold", "T033")]),
        ({"weak_names": False}, [pair for pair in EXPECTED if pair[0] != "Heart attacks"]),
        ({"min_chars": 8}, [pair for pair in EXPECTED if len(pair[0]) > 7]),
    ],
)
def test_settings_over_a_kb(tiny_linker: Path, config: dict[str, Any], expected: list[tuple[str, str]]):
    nlp = spacy.blank("en")
    nlp.add_pipe("concept_matcher", config={"linker_name": str(tiny_linker / "kb"), **config})  # the folder of a knowledge base is enough
    assert seen(nlp) == expected


def test_wrong_settings(tiny_linker: Path, tmp_path: Path):
    for config, code in (({"linker_name": "nowhere"}, "E001"), ({"types": ["T999"]}, "E104"), ({"min_chars": 0}, "E002")):
        with pytest.raises(SapbertError, match=code):
            spacy.blank("en").add_pipe("concept_matcher", config=config)
    for config in ({"lable": "x"}, {"overwrite": "maybe"}):
        with pytest.raises(ValueError, match=next(iter(config))):
            spacy.blank("en").add_pipe("concept_matcher", config=config)
    nlp = spacy.blank("en")
    nlp.add_pipe("concept_matcher", config={"linker_name": str(tiny_linker), "types": ["DEVI"]})
    with pytest.raises(SapbertError, match="E103"):
        nlp("fever")
    nlp = spacy.blank("en")
    nlp.add_pipe("concept_matcher", config={"linker_name": str(tmp_path)})  # a folder, but not of a linker
    with pytest.raises(MissingFile, match="E101"):
        nlp("fever")


def test_it_takes_the_names_of_the_linker_beside_it(tiny_linker: Path, nlp: Language):
    both = spacy.blank("en")
    both.add_pipe("concept_matcher")
    both.add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker)})
    doc = both(NOTE)
    assert [(e.text, e.label_) for e in doc.ents] == EXPECTED
    assert [e.kb_id_ for e in doc.ents] == ["C9100010", "C9100027", "C9100023", "C9100053", "C9100048", "C9100003", "C9100020"]


def test_batches_and_processes_agree(nlp: Language):
    texts = [NOTE, "", "nothing", "cold " * 50, NOTE[::-1], "\x00\u200b🤒"] * 3
    expected = [seen(nlp, text) for text in texts]
    assert [[(e.text, e.label_) for e in doc.ents] for doc in nlp.pipe(texts, batch_size=4)] == expected
    assert [[(e.text, e.label_) for e in doc.ents] for doc in nlp.pipe(texts, batch_size=4, n_process=2)] == expected


def test_files_and_bytes_and_pickle(nlp: Language, tmp_path: Path):
    nlp.to_disk(tmp_path / "pipe")
    config = (tmp_path / "pipe" / "config.cfg").read_text()
    (tmp_path / "pipe" / "config.cfg").write_text(
        "\n".join("linker_name = null" if line.startswith("linker_name") else line for line in config.splitlines())
    )
    again = spacy.load(tmp_path / "pipe")
    assert seen(again) == EXPECTED  # the folder of the linker is not named any more
    empty = spacy.blank("en")
    empty.add_pipe("concept_matcher")
    empty.from_bytes(nlp.to_bytes())
    assert seen(empty) == EXPECTED
    copy = pickle.loads(pickle.dumps(nlp.get_pipe("concept_matcher")))
    assert [e.text for e in copy(nlp.make_doc(NOTE)).ents] == [text for text, _ in EXPECTED]
    damaged = tmp_path / "pipe" / "concept_matcher" / "phrases" / "hashes.npy"
    damaged.write_bytes(damaged.read_bytes()[:-8])
    with pytest.raises(DamagedFile, match=r"E030.*hashes\.npy"):
        spacy.load(tmp_path / "pipe")
    (damaged.parent / "manifest.json").unlink()
    with pytest.raises(MissingFile, match=r"E030.*manifest\.json"):
        spacy.load(tmp_path / "pipe")
    shutil.rmtree(damaged.parent)
    with pytest.raises(MissingFile, match=r"E030.*no such folder.*Save the pipeline again"):
        spacy.load(tmp_path / "pipe")
    with pytest.raises(DamagedFile, match="E030"):
        ConceptMatcher(spacy.blank("en")).from_bytes(srsly.msgpack_dumps({"hashes": b"1234567"}))


def test_errors_in_a_doc_go_to_the_handler(nlp: Language, monkeypatch: pytest.MonkeyPatch):
    component: Any = nlp.get_pipe("concept_matcher")
    seen_errors: list[tuple[list[str], str]] = []
    monkeypatch.setattr("spacy_sapbert.matcher.component.find_names", lambda text, lookup: 1 / 0 if text == "bad" else find_names(text, lookup))
    with pytest.raises(ZeroDivisionError):
        component(nlp.make_doc("bad"))
    component.set_error_handler(lambda name, proc, docs, error: seen_errors.append(([d.text for d in docs], type(error).__name__)))
    try:
        docs = list(component.pipe([nlp.make_doc(t) for t in ("fever", "bad", "cold")]))
    finally:
        from spacy.util import raise_error

        component.set_error_handler(raise_error)
    assert [[e.text for e in doc.ents] for doc in docs] == [["fever"], ["cold"]]
    assert seen_errors == [(["bad"], "ZeroDivisionError")]


def test_a_long_text(nlp: Language):
    text = ("He has fever and tremors with " + "no " * 20) * 2_000
    doc = nlp.get_pipe("concept_matcher")(nlp.make_doc(text))  # type: ignore[operator]
    assert len(doc.ents) == 4_000


def test_what_else_is_in_the_folder_stays(nlp: Language, tmp_path: Path):
    (tmp_path / "precious.txt").write_text("mine")
    nlp.get_pipe("concept_matcher").to_disk(tmp_path)  # type: ignore[attr-defined]
    nlp.get_pipe("concept_matcher").to_disk(tmp_path)  # type: ignore[attr-defined]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["phrases", "precious.txt"]


def test_another_thread_changes_what_is_looked_for(nlp: Language):
    """While one thread matches, `load` in another thread, which has seen an added name, replaces the phrases."""
    component: Any = matcher("fever")
    component._linkers.more = matcher("ward seven", tui="T121")._lookup.phrases  # type: ignore[union-attr]
    component.load()
    longest = component._lookup.phrases.longest

    def swapping(words: Any) -> Any:
        component.set_kb(Names([("ward", "T121")]))
        return longest(words)

    component._lookup.phrases.longest = swapping
    doc = component.nlp.make_doc("fever on ward seven")
    assert [(doc.text[one.start : one.end], one.label) for one in component.predict([doc])[0]] == [("fever", "DISO"), ("ward seven", "CHEM")]
    assert found(component, "fever on ward") == ["ward"]


def test_a_pipeline_is_saved_over_the_one_it_was_loaded_from(nlp: Language, tmp_path: Path):
    nlp.to_disk(tmp_path / "pipe")
    again = spacy.load(tmp_path / "pipe")
    again.to_disk(tmp_path / "pipe")  # the folder whose files it has mapped
    assert seen(again) == seen(spacy.load(tmp_path / "pipe")) == EXPECTED


def test_tokens_that_hold_more_than_a_name_are_split():
    component = written(("GERD", "T047", ""), ("headaches", "T033", ""), ("grandmother", "T033", ""))
    doc = component(component.nlp.make_doc("Has GERD.3 and grandmother,,headaches."))
    assert [ent.text for ent in doc.ents][-1] == "headaches"
    assert "GERD" in [token.text for token in doc]
    assert doc.text == "Has GERD.3 and grandmother,,headaches."
