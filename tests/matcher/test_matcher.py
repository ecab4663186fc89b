"""Finding names in text: a matcher with hand-made names, and one with the tiny knowledge base."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Tuple

import pytest
import spacy
import srsly
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokenizer import Tokenizer
from spacy.tokens import Doc, Span

from spacy_sapbert.context import sense_words
from spacy_sapbert.errors import DamagedFile, MissingFile, SapbertError, fail
from spacy_sapbert.kb.concept import stem
from spacy_sapbert.kb.knowledge_base import KnowledgeBase, MatchableName
from spacy_sapbert.matcher.beside import glued, is_title, means_something_else
from spacy_sapbert.matcher.component import ConceptMatcher, words
from spacy_sapbert.matcher.spelling import is_other_word


class Names:
    """The part of a knowledge base that the matcher uses."""

    def __init__(self, names: Iterable[Tuple[str, Optional[str]]]) -> None:
        self.names = [MatchableName(name, tui) for name, tui in names]
        self.n_surface_forms = len(self.names)

    def matchable_names(self, *, weak_names: bool = True, tuis: Any = None) -> Iterable[MatchableName]:
        return iter(self.names)

    def find(self, names: Iterable[str]) -> Dict[str, int]:
        known = [name.name for name in self.names]
        return {name: known.index(name) for name in names if name in known}

    def rows_of(self, concept_id: str) -> List[int]:
        return [0] if concept_id == "C1" else []

    def types_of(self, row: int) -> List[str]:
        return ["T061"]


def matcher(*names: str, nlp: Optional[Language] = None, tui: Optional[str] = "T047", **settings: Any) -> ConceptMatcher:
    made = ConceptMatcher(nlp or spacy.blank("en"), **settings)
    made.set_kb(Names((name, tui) for name in names))  # type: ignore[arg-type]
    return made


def found(component: ConceptMatcher, text: str) -> List[str]:
    return [ent.text for ent in component(component.nlp.make_doc(text)).ents]


@pytest.fixture(scope="module")
def nlp(tiny_linker: Path) -> Language:
    nlp = spacy.blank("en")
    nlp.add_pipe("concept_matcher", config={"linker_name": str(tiny_linker)})
    nlp.get_pipe("concept_matcher").load()  # type: ignore[attr-defined]
    return nlp


# -- words ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "stemmed"),
    [
        ("crohn's", "crohn"), ("crohn’s", "crohn"), ("crohns", "crohn"), ("palates", "palate"), ("biopsies", "biopsy"), ("abscesses", "abscess"),
        ("masses", "mass"), ("mass", "mass"), ("rashes", "rash"), ("reflexes", "reflex"), ("virus", "virus"), ("stenosis", "stenosis"), ("gas", "gas"),
        ("ties", "tie"), ("seizures", "seizure"), ("parents'", "parent"), ("as", "as"), ("a", "a"), ("", ""), ("s", "s"), ("'s", ""), ("2s", "2s"),
    ],
)  # fmt: skip
def test_stem(word: str, stemmed: str):
    assert stem(word) == stemmed


def test_words_keep_their_places():
    text = "Crohn’s_disease (β2-Agonists)"
    assert words(text) == [("crohn", 0, 7), ("_", 7, 8), ("disease", 8, 15), ("(", 16, 17), ("β2", 17, 19), ("agonist", 20, 28), (")", 28, 29)]
    assert words("a\n \nb\nc") == [("a", 0, 1), ("\n \n", 1, 4), ("b", 4, 5), ("c", 6, 7)]
    assert words("İ " + text)[1] == ("crohn", 2, 9)  # the lower case of İ has two characters


# -- matching -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Cleft Palates, CROHN'S DISEASE; crohn disease and Crohns’ diseases", ["Cleft Palates", "CROHN'S DISEASE", "crohn disease", "Crohns’ diseases"]),
        ("ventricular septal defect", ["ventricular septal defect"]),  # the longest
        ("septal defect of the ventricular septum", ["septal defect"]),
        ("septal defect ventricular septal defect", ["septal defect", "ventricular septal defect"]),
        ("cleft-palate cleft / palate cleft–palate", ["cleft-palate", "cleft / palate", "cleft–palate"]),
        ("a cleft\npalate", ["cleft\npalate"]),
        ("a cleft\r\npalate", ["cleft\r\npalate"]),
        ("cleft. Palate", []),
        ("cleft, palate", []),
        ("cleft\n\npalate", []),
        ("cleft\n \t\npalate", []),
        ("cleft\r\n\r\npalate", []),
        ("cleft: palate; cleft(palate) cleft_palate", []),
        ("cleftpalate unclefts palate", []),
        ("septal septal defect defect", ["septal defect"]),
        ("", []),
        ("   \n\n ", []),
("🤒cleft palate🤒", ["cleft palate"]),
        ("\ufeffcrohn's disease", ["crohn's disease"]),  # spaCy makes one token of it
    ],
)  # fmt: skip
def test_what_is_found(text: str, expected: List[str]):
    component = matcher("cleft palate", "crohn's disease", "septal defect", "ventricular septal defect")
    assert found(component, text) == expected


def test_left_to_right_without_overlap():
    component = matcher("acute kidney", "kidney injury today", "injury")
    assert found(component, "acute kidney injury today") == ["acute kidney", "injury"]


def test_a_shorter_name_where_punctuation_breaks_the_longer():
    component = matcher("pain", "chest", "chest pain and fever")
    assert found(component, "chest pain, and fever") == ["chest", "pain"]


def test_names_with_punctuation():
    component = matcher("hypotonia, generalized", "absent toenails (anonychia)", "gain of 2.5 kg", "lipoprotein(a)", "hypotonia")
    text = "Generalized hypotonia. Hypotonia, Generalized; hypotonia generalized, Hypotonia. Generalized"
    assert found(component, text) == ["hypotonia", "Hypotonia, Generalized", "hypotonia generalized", "Hypotonia"]
    assert found(component, "Absent toenail (anonychia), absent toenails anonychia") == ["Absent toenail (anonychia)", "absent toenails anonychia"]
    assert found(component, "gain of 2.5 kg; lipoprotein(a) and lipoprotein (a)") == ["gain of 2.5 kg", "lipoprotein(a)", "lipoprotein (a)"]


@pytest.mark.parametrize("name", ["a", "I", "x", "as", "the", "it was", "123", "a 1", "2 3", "to be", "s's", "wells", "hers", "…", "", "was 4"])
def test_names_that_are_no_names_are_ignored(name: str):
    assert len(matcher("fever", name)) == 1
    with pytest.raises(SapbertError, match="E103"):
        matcher(name)


def test_min_chars_and_long_names():
    assert found(matcher("ra", "fever", "ache"), "ra fever ache") == ["ra", "fever", "ache"]
    assert found(matcher("ra", "fever", "ache", min_chars=5), "ra fever ache") == ["fever"]
    long = " ".join(f"word{i}" for i in range(13))
    assert len(matcher("fever", long)) == 1
    assert found(matcher(long[:-7]), f"x {long}") == [long[:-7]]
    for wrong in (0, -3):
        with pytest.raises(SapbertError, match=r"E002.*min_chars"):
            matcher("fever", min_chars=wrong)


def test_one_word_with_a_sign_is_not_the_word_alone():
    assert found(matcher("HR+", "# clinic"), "HR+ cancer, HR 80, # clinic, clinic") == ["HR+", "# clinic"]


def test_digits_and_greek_letters():
    component = matcher("type 2 diabetes", "vitamin d", "α-thalassaemia", "factor viii")
    assert found(component, "Type 2 diabetes, Vitamin D, Α-Thalassaemia; FACTOR VIII. type 1 diabetes") == [
        "Type 2 diabetes",
        "Vitamin D",
        "Α-Thalassaemia",
        "FACTOR VIII",
    ]


def test_offsets_with_other_tokenizers():
    text = "Post-cleft palate, (seizure)."
    nlp = spacy.blank("en")
    nlp.tokenizer = Tokenizer(nlp.vocab)  # it splits only at spaces, so a name may end within a token
    assert found(matcher("cleft palate", "seizure", nlp=nlp), text) == ["cleft palate", "seizure"]
    nlp.tokenizer = lambda text: Doc(nlp.vocab, list(text), [False] * len(text))  # each character is a token
    assert found(matcher("cleft palate", "seizure", nlp=nlp), text) == ["cleft palate", "seizure"]
    assert found(matcher("cleft palate", "palate seizure", "post"), "post-cleft palate seizure") == ["post", "cleft palate"]
    nlp.tokenizer = Tokenizer(nlp.vocab)
    assert found(matcher("post", "cleft palate", nlp=nlp), "post-cleft palate") == ["post", "cleft palate"]  # two names in one token


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


@pytest.mark.parametrize(
    ("label", "tui", "expected"),
    [("group", "T047", "DISO"), ("group", "T121", "CHEM"), ("group", None, "CONC"), ("type", "T047", "T047"), ("type", None, "UNKNOWN"), ("PROBLEM", "T047", "PROBLEM")],
)  # fmt: skip
def test_labels(label: str, tui: Optional[str], expected: str):
    component = matcher("fever", tui=tui, label=label)
    assert [e.label_ for e in component(component.nlp.make_doc("fever")).ents] == [expected]


# -- over a knowledge base ------------------------------------------------------------------------------------------------

NOTE = "Pneumonia with FEVERS; Parkinson disease. Takes aspirin, had knee replacements. Heart attacks run in the family. A cold."


def seen(nlp: Language, text: str = NOTE) -> List[Tuple[str, str]]:
    return [(e.text, e.label_) for e in nlp(text).ents]


EXPECTED = [
    ("Pneumonia", "DISO"),
    ("FEVERS", "DISO"),
    ("Parkinson disease", "DISO"),
    ("aspirin", "CHEM"),
    ("knee replacements", "PROC"),
    ("Heart attacks", "DISO"),
    ("cold", "DISO"),
]


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
def test_settings_over_a_kb(tiny_linker: Path, config: Dict[str, Any], expected: List[Tuple[str, str]]):
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
    seen_errors: List[Tuple[List[str], str]] = []
    match = component._match
    monkeypatch.setattr(component, "_match", lambda text: 1 / 0 if text == "bad" else match(text))
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


# -- many names -------------------------------------------------------------------------------------------------------------


def test_many_names_are_made_ready_once(nlp: Language, tiny_linker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPACY_SAPBERT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("spacy_sapbert.matcher.component.KEPT_FROM", 1)
    read: List[Dict[str, Any]] = []
    names = KnowledgeBase.matchable_names
    monkeypatch.setattr(KnowledgeBase, "matchable_names", lambda self, **settings: read.append(settings) or names(self, **settings))

    def fresh(**settings: Any) -> Language:
        made = spacy.blank("en")
        made.add_pipe("concept_matcher", config={"linker_name": str(tiny_linker), **settings})
        return made

    assert seen(fresh()) == seen(fresh()) == EXPECTED
    assert len(read) == 1
    kept = next((tmp_path / "cache").glob("names-*/manifest.json")).parent
    assert b"fever" not in b"".join(file.read_bytes() for file in kept.iterdir())  # no name, only hashes
    for own in ({"weak_names": False}, {"types": ["T047"]}, {"label": "type"}, {"min_chars": 5}):
        before = len(read)
        assert seen(fresh(**own)) == seen(fresh(**own))
        assert len(read) == before + 1, own
    before = len(read)
    (kept / "hashes.npy").write_bytes(b"")
    assert seen(fresh()) == seen(fresh()) == EXPECTED  # made again
    assert len(read) == before + 1
    for rule in ("RULES", "VERSION"):
        monkeypatch.setattr(f"spacy_sapbert.matcher.component.{rule}", 77)
        assert seen(fresh()) == EXPECTED
    assert len(read) == before + 3
    copy = pickle.dumps(fresh().get_pipe("concept_matcher"))
    assert [e.text for e in pickle.loads(copy)(fresh().make_doc(NOTE)).ents] == [text for text, _ in EXPECTED]


def test_many_names_without_a_cache(tiny_linker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("spacy_sapbert.matcher.component.KEPT_FROM", 1)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SPACY_SAPBERT_CACHE", str(tmp_path / "file" / "cache"))  # the cache cannot be made
    made = spacy.blank("en")
    made.add_pipe("concept_matcher", config={"linker_name": str(tiny_linker)})
    with pytest.warns(UserWarning, match=r"W009.*SPACY_SAPBERT_CACHE"):
        assert seen(made) == EXPECTED

    def full(*_: Any) -> Path:
        raise fail("E008", path="cache", error="No space left on device", env="SPACY_SAPBERT_CACHE")

    monkeypatch.setattr("spacy_sapbert.build.default_linkers.cached", full)
    with pytest.warns(UserWarning, match=r"W009.*No space left"):
        made.get_pipe("concept_matcher").set_kb(KnowledgeBase(tiny_linker / "kb"))  # type: ignore[attr-defined]
    assert seen(made) == EXPECTED


def test_what_else_is_in_the_folder_stays(nlp: Language, tmp_path: Path):
    (tmp_path / "precious.txt").write_text("mine")
    nlp.get_pipe("concept_matcher").to_disk(tmp_path)  # type: ignore[attr-defined]
    nlp.get_pipe("concept_matcher").to_disk(tmp_path)  # type: ignore[attr-defined]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["phrases", "precious.txt"]


def test_another_thread_changes_what_is_looked_for(nlp: Language):
    """While one thread matches, `load` in another thread, which has seen an added name, replaces the phrases."""
    component = matcher("fever")
    component._more = matcher("ward seven", tui="T121")._phrases
    longest = component._phrases.longest  # type: ignore[union-attr]

    def swapping(words: Any) -> Any:
        component._more, component._phrases = None, None
        return longest(words)

    component._phrases.longest = swapping  # type: ignore[union-attr, method-assign]
    doc = component.nlp.make_doc("fever on ward seven")
    assert [(doc.text[one.start : one.end], one.label) for one in component._match(doc.text)] == [("fever", "DISO"), ("ward seven", "CHEM")]


def test_a_pipeline_is_saved_over_the_one_it_was_loaded_from(nlp: Language, tmp_path: Path):
    nlp.to_disk(tmp_path / "pipe")
    again = spacy.load(tmp_path / "pipe")
    again.to_disk(tmp_path / "pipe")  # the folder whose files it has mapped
    assert seen(again) == seen(spacy.load(tmp_path / "pipe")) == EXPECTED


@settings(max_examples=100, deadline=None)
@given(st.text("abeichsxyzu", max_size=8), st.sampled_from(["", "s", "es", "ies", "'s", "’s", "'", "s'", "ss", "us"]))
def test_stemming_twice_changes_nothing_more(word: str, ending: str) -> None:
    assert stem(stem(word + ending)) == stem(word + ending)


# -- which words are looked for -------------------------------------------------------------------------------------------


def written(*names: Tuple[str, str, str], **settings: Any) -> ConceptMatcher:
    """Return a matcher for names given as (text of the source, semantic type, a second text or "")."""
    made = ConceptMatcher(spacy.blank("en"), **settings)
    kb = Names(())
    kb.names = [MatchableName(text.lower(), tui, (tui,), tuple(filter(None, (text, other)))) for text, tui, other in names]
    kb.n_surface_forms = len(kb.names)
    made.set_kb(kb)  # type: ignore[arg-type]
    return made


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("COPD", "COPD and copd, COPDs", ["COPD", "COPDs"]),  # an acronym is found only as its source writes it
        ("CHILD", "The child has CHILD, a syndrome.", []),  # a plain English word, and not a clinical abbreviation
        ("SCAN", "A SCAN was seen; SCAN HEAD WITHOUT CONTRAST\nTHE SCAN WAS READ TODAY AT NOON", []),
        ("QX", "QX was seen", []),  # two letters that are not a clinical abbreviation
        ("MI", "acute MI, mi", ["MI"]),
        ("Pap", "Pap smear, pap", ["Pap"]),  # a symbol
        ("mm", "4 mm nodule, 3.5mm, 4-mm and mm alone", ["mm"]),  # a unit after a number
        ("nodule", "Nodules and NODULE", ["Nodules", "NODULE"]),
        ("GAVE", "She gave consent.", []),
        ("rich", "A rich history", []),
    ],
)
def test_single_words_by_how_their_source_writes_them(name: str, text: str, expected: List[str]):
    assert found(written((name, "T047", ""), ("cleft palate", "T047", "")), text) == expected


def test_a_source_that_writes_it_small_allows_it_small():
    assert found(written(("AFIB", "T047", "afib")), "afib and AFIB") == ["afib", "AFIB"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CA 19-9 and CA-125", ["CA 19-9", "CA-125"]),
        ("Ca 19-9, ca-125", ["Ca 19-9", "ca-125"]),  # a hyphen
        ("ca 125 ml", []),
        ("her 2 children, HER-2", ["HER-2"]),
        ("at 11 pm, AT 11", []),  # an ordinary word
    ],
)
def test_markers_of_tumors_are_names_though_their_letters_are_a_word(text: str, expected: List[str]):
    component = written(("CA 19-9", "T059", ""), ("CA 125", "T059", ""), ("HER-2", "T059", ""), ("AT 11", "T121", ""), ("gout", "T047", ""))
    assert found(component, text) == expected


def test_letters_joined_with_a_sign():
    component = written(("G&S", "T059", ""), ("U&Es", "T059", ""), ("urea and electrolytes", "T059", ""))
    assert found(component, "G&S, U&Es, g&s") == ["G&S", "U&Es"]
    doc = component(component.nlp.make_doc("U/E sent"))
    assert [(ent.text, ent._.corrected_text) for ent in doc.ents] == [("U/E", "urea and electrolytes")]


def test_the_person_who_speaks_is_no_part_of_a_name():
    component = written(("I STOP", "T058", ""), ("I-cell disease", "T047", ""), ("type I diabetes", "T047", ""))
    assert found(component, "Should I stop it? i-cell disease, type I diabetes, type i diabetes") == ["i-cell disease", "type I diabetes"]


def test_a_plain_word_is_no_mention_though_its_plural_is_a_name():
    component = written(("palps", "T184", ""), ("cx", "T059", ""), ("urine cx", "T059", ""))
    assert found(component, "Palps. On palp: soft. Cx sent, urine cx") == ["Palps", "urine cx"]
    assert found(matcher("palp"), "On palp: soft") == ["palp"]  # a name that a user added has no texts


def test_a_heading_that_is_a_statement_is_a_mention():
    component = written(("NKDA", "T033", ""), ("heme", "T121", ""))
    assert found(component, "PMH: gout\nNKDA\nMeds: none") == ["NKDA"]
    assert found(component, "NKDA.") == ["NKDA"]


def test_a_heading_of_a_system_is_a_mention_only_if_it_is_a_part_of_the_body():
    component = written(("heme", "T121", ""), ("lungs", "T023", ""), ("gout", "T047", ""), join=True)
    doc = component.nlp.make_doc("Heme: stable\nLungs: clear\nMSK: gout")
    doc.ents = [Span(doc, at, at + 1, label="PROC") for at, token in enumerate(doc) if token.text in ("Heme", "Lungs", "MSK")]
    assert [ent.text for ent in component(doc).ents] == ["Lungs", "gout"]


def test_qualifiers_are_looked_for_when_asked_for():
    names = (("right", "T082", ""), ("mildly impaired", "T080", ""), ("impaired vision", "T033", ""))
    text = "Mildly impaired on the right; impaired vision."
    assert found(written(*names), text) == ["impaired vision"]
    assert found(written(*names, qualifiers=True), text) == ["Mildly impaired", "impaired vision"]  # "right" is a plain word
    assert found(written(*names, types=["T080"]), text)[:1] == ["Mildly impaired"]
    assert written(*names, types="T080").types == frozenset(["T080"])  # one type, not a list of four letters


def test_headings_and_removed_parts_are_no_mentions():
    component = written(("allergies", "T033", ""), ("penicillin", "T121", ""), ("john", "T033", ""))
    assert found(component, "ALLERGIES: penicillin\n\nSeen by [**John 12**]; allergies to penicillin") == ["penicillin", "allergies", "penicillin"]
    assert found(written(("mm", "T024", "")), "DOB: MM/DD/YYYY, MM") == ["MM"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CXR: clear", ["CXR"]),  # the heading names the test
        ("- CXR: clear", ["CXR"]),
        ("CXR\nclear", []),  # a heading alone on its line is not a mention
        ("Findings: CXR clear", ["CXR"]),
    ],
)
def test_a_heading_that_names_a_test_with_its_result_is_a_mention(text: str, expected: List[str]):
    assert found(written(("CXR", "T060", ""), ("findings", "T033", "")), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hb 98 g/L", ["Hb"]),
        ("Hb: 98", ["Hb"]),
        ("Hb is <98", ["Hb"]),
        ("Weight of 71 kg", ["Weight"]),
        ("Hb was normal", []),
        ("hb 98", []),  # no source writes it in lower case
        ("a weight on her mind", []),
        ("Mg 0.6", ["Mg"]),
        ("Mg was low", []),
        ("K 5.9, k 5.9", ["K"]),
        ("K: 5.9", ["K"]),
        ("K+ 5.9", ["K"]),
        ("K was low", []),
        ("Mr K. sat", []),
    ],
)
def test_short_symbols_and_plain_words_of_tests_are_found_before_a_value(text: str, expected: List[str]):
    assert found(written(("Hb", "T059", ""), ("weight", "T201", ""), ("Mg", "T196", ""), ("K", "T059", "")), text) == expected
    assert found(written(("Hb", "T047", ""), ("weight", "T047", ""), ("gout", "T047", ""), ("K", "T047", "")), text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abdo pain, Abd pain", [("abdo pain", "abdominal pain"), ("Abd pain", "abdominal pain")]),
        ("haemorrhagic shock", [("haemorrhagic shock", "hemorrhagic shock")]),
        ("Oedema", [("Oedema", "edema")]),  # only the spelling differs; the capital letter does not count
        ("abdo", []),
        ("ca of unknown origin, ca ovary", []),  # short words alone, or not in a name
        ("pulm abdo pain", [("abdo pain", "abdominal pain")]),
        ("liver mets, mets", [("liver mets", "liver metastases")]),
    ],
)
def test_words_that_notes_write_short_and_british_ones(text: str, expected: List[Tuple[str, str]]):
    component = written(
        ("abdominal pain", "T184", ""),
        ("hemorrhagic shock", "T047", ""),
        ("edema", "T046", ""),
        ("cancer", "T191", ""),
        ("abdominal", "T082", ""),
        ("liver metastases", "T191", ""),
    )
    doc = component(component.nlp.make_doc(text))
    assert [(ent.text, ent._.corrected_text) for ent in doc.ents] == expected


def test_a_name_as_it_stands_counts_before_one_written_out():
    component = written(("abd girth", "T201", ""), ("abdominal girth", "T201", ""))
    doc = component(component.nlp.make_doc("her abd girth was 90"))
    assert [(ent.text, ent._.corrected_text) for ent in doc.ents] == [("abd girth", None)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Septic emboli.", [("Septic emboli", "Septic embolus")]),
        ("deep vein thromboses", [("deep vein thromboses", "deep vein thrombosis")]),
        ("He was hypovolemic and weak.", [("hypovolemic", "hypovolemia")]),
        ("He was hypovolemic.", [("hypovolemic", "hypovolemia")]),
        ("a hypovolemic patient", []),  # it describes the patient
        ("hypovolemic shock", [("hypovolemic shock", None)]),
    ],
)
def test_plurals_from_latin_and_adjectives_of_findings(text: str, expected: List[Tuple[str, Optional[str]]]):
    names = ("septic embolus", "deep vein thrombosis", "hypovolemia", "hypovolemic shock")
    component = written(*((name, "T047", "") for name in names))
    doc = component(component.nlp.make_doc(text))
    assert [(ent.text, ent._.corrected_text) for ent in doc.ents] == expected


def test_what_a_word_stands_for_depends_on_the_names_that_are_looked_for_now(tmp_path: Path):
    component, other = written(("fever", "T047", "")), written(("zorbulus", "T047", ""))
    text = "He has zorbuli and thromboses."

    def found() -> list[tuple[str, str | None]]:
        return [(ent.text, ent._.corrected_text) for ent in component(component.nlp.make_doc(text)).ents]

    assert found() == []
    other.to_disk(tmp_path)
    component.from_disk(tmp_path)
    assert found() == [("zorbuli", "zorbulus")]
    component.set_kb(Names([("thrombosis", "T047")]))  # type: ignore[arg-type]
    assert found() == [("thromboses", "thrombosis")]


def test_plurals_from_latin_are_not_looked_for_without_corrections():
    component = written(("septic embolus", "T047", ""), spelling=False)
    assert not component(component.nlp.make_doc("Septic emboli.")).ents


def test_a_plural_in_a_name_as_it_stands_is_not_changed():
    component = written(("septic emboli", "T047", ""), ("embolus", "T047", ""))
    doc = component(component.nlp.make_doc("septic emboli, other emboli"))
    assert [(ent.text, ent._.corrected_text) for ent in doc.ents] == [("septic emboli", None), ("emboli", "embolus")]


def whole_and_nested(text: str) -> Tuple[List[str], List[str]]:
    names = [("swelling", "T184"), ("knee swelling", "T184"), ("enlarged liver", "T033"), ("lesion", "T033"), ("pain", "T184"), ("mri", "T060")]
    body = [("knee", "T023"), ("liver", "T023"), ("hand", "T023"), ("joint", "T023")]
    component = written(*((name, tui, "") for name, tui in names + body), all_key="sapbert")
    doc = component(component.nlp.make_doc(text))
    chosen = [ent.text for ent in doc.ents]
    return chosen, [span.text for span in doc.spans["sapbert"] if span.text not in chosen]


@pytest.mark.parametrize(
    ("text", "expected", "nested"),
    [
        ("swelling of the left knee", ["swelling of the left knee"], ["swelling", "knee"]),  # a name in another order
        ("swelling of both knees.", ["swelling of both knees"], ["swelling", "knees"]),
        ("The liver was enlarged.", ["liver was enlarged"], ["liver"]),
        ("The liver is not enlarged.", ["liver is not enlarged"], ["liver"]),
        ("Liver not enlarged", ["Liver not enlarged"], ["Liver"]),
        ("Liver not seen, not enlarged", ["Liver"], []),
        ("liver lesion", ["lesion"], ["liver"]),  # the whole is not a name, but the liver only says where the lesion is
        ("lesion in the right hand", ["lesion"], ["hand"]),
        ("pain of the joints of the hands", ["pain"], ["joints", "hands"]),
        ("had MRI knee today", ["MRI"], ["knee"]),
        ("liver, lesion", ["liver", "lesion"], []),
        ("lesion\nliver", ["lesion", "liver"], []),  # they are on two lines of a list
        ("liver and lesion", ["liver", "lesion"], []),
        ("liver examined", ["liver"], []),
    ],
)
def test_parts_of_the_body_that_say_where_a_finding_is(text: str, expected: List[str], nested: List[str]):
    assert whole_and_nested(text) == (expected, nested)


def test_without_a_group_for_all_mentions_no_part_of_the_body_is_left_out():
    assert found(written(("lesion", "T033", ""), ("liver", "T023", "")), "liver lesion") == ["liver", "lesion"]


def test_words_with_one_wrong_letter():
    component = written(("pneumonia", "T047", ""), ("atrial fibrillation", "T047", ""), ("consent", "T033", ""))
    doc = component(component.nlp.make_doc("Atrial fibrilation, pnuemonia and pneumonias; the content; Dr. Pneumonio was here."))
    assert [(ent.text, ent._.corrected_text) for ent in doc.ents] == [
        ("Atrial fibrilation", "Atrial fibrillation"),
        ("pnuemonia", "pneumonia"),
        ("pneumonias", None),
    ]
    assert found(written(("pneumonia", "T047", ""), spelling=False), "pnuemonia") == []


def test_words_that_are_not_misspelt():
    rare = written(("ipodate", "T121", ""))
    assert found(rare, "the isodate line") == []  # a short word, and only one name holds it
    assert found(rare, "ipodate") == ["ipodate"]
    several = written(*((f"{kind} embolism", "T047", "") for kind in ("fat", "air", "lung", "leg", "arm", "brain", "late", "early")))
    assert found(several, "fat emboliism") == ["fat emboliism"]
    usual = written(("guarding", "T033", ""), ("swelling", "T184", ""))
    assert found(usual, "her guardian is selling the house") == []
    assert found(usual, "gaurding, sweling") == ["gaurding", "sweling"]
    assert is_other_word("handing", "landing", {"hand"})  # a form of "hand"
    assert not is_other_word("bleding", "bleeding", {"bed"})
    assert not is_other_word("coughng", "coughing", {"cough"})
    assert not is_other_word("restricting", "restriction", {"restrict"})  # both are forms of it


def test_tokens_that_hold_more_than_a_name_are_split():
    component = written(("GERD", "T047", ""), ("headaches", "T033", ""), ("grandmother", "T033", ""))
    doc = component(component.nlp.make_doc("Has GERD.3 and grandmother,,headaches."))
    assert [ent.text for ent in doc.ents][-1] == "headaches"
    assert "GERD" in [token.text for token in doc]
    assert doc.text == "Has GERD.3 and grandmother,,headaches."


def test_an_abbreviation_that_the_text_defines_is_a_mention_everywhere():
    component = written(("von hippel-lindau disease", "T047", ""))
    text = "VHL; von Hippel-Lindau disease (VHL). In VHL, VHLX and GALT (VHL)."
    assert found(component, text) == ["VHL", "von Hippel-Lindau disease", "VHL", "VHL", "VHL"]


def test_corrections_are_saved(tmp_path: Path):
    component = written(("pneumonia", "T047", ""))
    component.to_disk(tmp_path / "m")
    for other in (ConceptMatcher(spacy.blank("en")).from_disk(tmp_path / "m"), ConceptMatcher(spacy.blank("en")).from_bytes(component.to_bytes())):
        assert found(other, "pnuemonia") == ["pnuemonia"]


# -- how notes write lists and names of people ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("HR91, BP158/92 and rr16", [("HR", "heart rate"), ("BP", "blood pressure"), ("rr", "respiratory rate")]),
        ("WBC14.3K", [("WBC", "white blood cell count")]),
        ("XHR91 A-BP12 HRX", []),
    ],
)
def test_tests_that_touch_their_values(text: str, expected: List[Tuple[str, str]]):
    assert [(text[one.start : one.end], one.name) for one in glued(text)] == expected


@pytest.mark.parametrize(
    ("text", "word", "other"),
    [
        ("cold knife conization", "cold", True),
        ("the common cold", "cold", False),
        ("a cold, and cough", "cold", False),
        ("sensitive to cold", "cold", True),
        ("STRESS TEST today", "STRESS", True),
        ("rest-stress images", "stress", True),
        ("under stress", "stress", False),
        ("intra-abdominal air", "abdominal", True),
        ("non-scarring", "scarring", True),
        ("Faint pulses", "Faint", True),
        ("feels faint", "faint", False),
        ("a scaly plaque", "plaque", False),
        ("x-scarring", "scarring", False),
        ("antibiotic-impregnated beads", "antibiotic", True),
        ("Betadine-soaked gauze", "Betadine", True),
        ("antibiotic-resistant", "antibiotic", False),
        ("albumin to creatinine ratio", "albumin", True),
        ("head to abdomen circumference ratio", "head", True),
        ("head to toe", "head", False),
        ("round of cold blood", "cold", True),
        ("post-anesthesia care", "anesthesia", True),
        ("T2-weighted", "T2", True),
        ("L5 versus S1 radiculopathy", "S1", True),
        ("S1 and S2 are normal", "S1", False),
        ("cold", "cold", False),
        ("unresponsive to therapy", "unresponsive", True),
        ("found unresponsive", "unresponsive", False),
        ("an allergy doctor", "allergy", True),
        ("second-hand smoke", "hand", True),
        ("low-fat cheese", "fat", True),
        ("sinus rhythm", "sinus", True),
        ("sinus pain", "sinus", False),
        ("by mouth daily", "mouth", True),
        ("pain by the mouth", "mouth", False),
        ("a beam's-eye view", "eye", True),
        ("the beam’s eye view", "eye", True),
        ("Ms. Q was", "Ms", True),
        ("Mr Jones", "Mr", True),
        ("MS. Stable", "MS", False),  # multiple sclerosis
        ("hepatitis serology", "hepatitis", False),  # only of a finding
        ("had a fall in hemoglobin", "had a fall", True),
        ("a fall in his blood pressure", "fall", True),
        ("had a fall in the shower", "had a fall", False),
        ("a drop in hemoglobin", "drop", False),  # only of a fall
        ("Received radiation to the neck", "radiation to the neck", True),
        ("radiation to the neck for lymphoma", "radiation to the neck", True),
        ("radiation to the neck, 60 Gy", "radiation to the neck", True),
        ("pain with radiation to the neck", "radiation to the neck", False),
        ("radiation to the back, cancer was ruled out", "radiation to the back", False),
    ],
)
def test_words_beside_a_name(text: str, word: str, other: bool):
    start = text.index(word)
    assert means_something_else(text, start, start + len(word)) is other


def test_titles_are_no_mentions():
    assert [is_title(text) for text in ("Past Medical  History", "family history", "history of asthma", "natural history")] == [
        True,
        True,
        False,
        False,
    ]
    assert [is_title(text) for text in ("FHx", "PMH", "fx", "hx")] == [True, True, False, False]
    assert found(written(("FHx", "T033", ""), ("asthma", "T047", "")), "No FHx of asthma") == ["asthma"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hepatitis C serology", []),
        ("hepatitis C titers were low", []),
        ("Hepatitis C, serology", ["Hepatitis C"]),
        ("infectious disease consult", []),
        ("infectious disease is likely", ["infectious disease"]),
        ("the stroke team", []),
        ("brain MRI consultation", ["brain MRI"]),  # a procedure
    ],
)
def test_a_finding_before_a_test_or_a_specialty_is_no_mention(text: str, expected: List[str]):
    names = [("hepatitis C", "T047", ""), ("infectious disease", "T047", ""), ("stroke", "T047", ""), ("brain MRI", "T060", "")]
    assert found(written(*names), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Facial features", []),
        ("the vascular graft", []),
        ("facial and vascular", ["facial", "vascular"]),
        ("highly vascular.", ["vascular"]),
        ("canal stenosis", ["canal"]),  # a noun
        ("septic workup", ["septic"]),  # a finding
    ],
)
def test_adjectives_of_parts_of_the_body_are_no_mentions_before_another_word(text: str, expected: List[str]):
    component = written(("facial", "T023", ""), ("vascular", "T023", ""), ("canal", "T023", ""), ("septic", "T047", ""))
    assert found(component, text) == expected
    assert found(matcher("facial", nlp=spacy.blank("es"), tui="T023"), "zona facial derecha") == ["facial"]  # there, it follows its noun


@pytest.mark.parametrize(
    ("text", "expected", "looked_up"),
    [
        ("Lung, wedge biopsy", ["Lung, wedge biopsy"], "Lung biopsy"),
        ("Lung, left, core needle biopsy:", ["Lung, left, core needle biopsy"], "Lung biopsy"),
        ("the lung, and a biopsy", ["lung"], None),
        ("CT of the lung, liver biopsy", ["lung", "liver biopsy"], None),
        ("Calf swollen R, tender", ["Calf swollen"], "swollen Calf"),
        ("stools pale", ["stools pale"], "pale stools"),
    ],
)
def test_specimens_and_states_in_another_order(text: str, expected: List[str], looked_up: Optional[str]):
    names = [("lung biopsy", "T060"), ("liver biopsy", "T060"), ("lung", "T023"), ("swollen calf", "T184"), ("pale stools", "T184")]
    component = written(*((name, tui, "") for name, tui in names))
    doc = component(component.nlp.make_doc(text))
    assert [ent.text for ent in doc.ents] == expected
    assert doc.ents[0]._.corrected_text == looked_up


def test_a_length_in_feet_is_no_foot():
    component = written(("feet", "T023", ""))
    assert found(component, "Height 5 feet 6 inches, swollen feet") == ["feet"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("denies N/V/D", [("N", "nausea"), ("V", "vomiting"), ("D", "diarrhea")]),
        ("n/v, N+V x 8", [("n", "nausea"), ("v", "vomiting"), ("N", "nausea"), ("V", "vomiting")]),
        ("no m/r/g", [("m", "heart murmur"), ("r", "pericardial friction rub"), ("g", "gallop")]),
        ("no c/c/e", [("c", "clubbing"), ("c", "cyanosis"), ("e", "edema")]),
        ("n/v/d/c", [("n", "nausea"), ("v", "vomiting"), ("d", "diarrhea"), ("c", "constipation")]),
        ("f/c", [("f", "fever"), ("c", "chills")]),
        ("d/c home, C/S, s/p, N/A, M/R, n/V, a/n/v/d, w/o n", []),  # other lists, and mixed case
    ],
)
def test_letters_that_stand_for_findings(text: str, expected: List[Tuple[str, str]]):
    names = ("nausea", "vomiting", "diarrhea", "heart murmur", "pericardial friction rub", "gallop", "clubbing", "cyanosis", "edema")
    component = written(*((name, "T184", "") for name in (*names, "constipation", "fever", "chills")))
    doc = component(component.nlp.make_doc(text))
    assert [(ent.text, ent._.corrected_text) for ent in doc.ents] == expected


def test_letters_before_vital_signs_are_mentions():
    component = written(("body temperature", "T201", ""), ("pulse", "T201", ""), ("respiratory rate", "T201", ""), ("T", "T116", ""))
    doc = component(component.nlp.make_doc("VS: T 37.2 P 88 R16, T cells"))
    expected = [("T", "body temperature"), ("P", "pulse"), ("R", "respiratory rate")]
    assert [(ent.text, ent._.corrected_text) for ent in doc.ents] == expected
    assert found(written(("pulse", "T201", "")), "T 37.2 P 88") == ["P"]  # the knowledge base has no temperature


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("No dysuria, urgency or frequency.", ["dysuria", "urgency", "frequency"]),
        ("Frequency and hesitancy", ["Frequency", "hesitancy"]),
        ("urgency/frequency, no nocturia", ["urgency", "frequency", "nocturia"]),
        ("frequency and severity of headaches, urgency of the operation", []),  # no urinary symptom beside them
        ("urgency\nfrequency", []),  # two lines
        ("urinary frequency or urgency", ["urinary frequency", "urgency"]),
    ],
)
def test_plain_words_in_a_list_of_urinary_symptoms(text: str, expected: List[str]):
    names = ("dysuria", "urinary urgency", "urinary frequency", "urinary hesitancy", "nocturia")
    assert found(written(*((name, "T184", "") for name in names)), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Denies alcohol or drugs.", ["alcohol", "drugs"]),
        ("Denies tobacco, alcohol, and drugs", ["tobacco", "alcohol", "drugs"]),
        ("no smoking, no drugs, occasional alcohol", ["smoking", "drugs", "alcohol"]),
        ("alcohol and other drugs, alcohol or prescription drugs", ["alcohol", "alcohol"]),
        ("drugs given: aspirin. She takes no drugs.", []),  # no habit beside them
        ("tobacco\ndrugs", ["tobacco"]),  # two lines
        ("Denies drugs, alcohol. He used drugs and alcohol. Drugs, alcohol: no", ["drugs", "alcohol"] * 2 + ["Drugs", "alcohol"]),
        ("Cardiac drugs, tobacco; avoid sedating drugs and alcohol; antihypertensive drugs or alcohol", ["tobacco", "alcohol", "alcohol"]),
    ],
)
def test_drugs_in_a_list_of_habits(text: str, expected: List[str]):
    names = ("tobacco", "alcohol", "smoking", "illicit drug use")
    assert found(written(*((name, "T033", "") for name in names)), text) == expected


def test_a_letter_whose_finding_is_no_name_is_no_mention():
    assert found(written(("nausea", "T184", "")), "N/V") == ["N"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Addison's, hx of Addison’s", ["Addison's", "Addison’s"]),
        ("Addison was seen; addison's", []),  # a person, or no name of a person
        ("Dr. Addison's note, Mr Addison's son", []),
        ("has Graves' and Crohn's", ["Graves'", "Crohn's"]),
        ("Graves, graves", []),
        ("Crohn, crohns", ["Crohn", "crohns"]),  # a source also has it without the possessive
    ],
)
def test_a_name_that_is_always_in_the_possessive_is_found_in_that_form_only(text: str, expected: List[str]):
    component = written(("Addison's", "T047", ""), ("Graves'", "T047", ""), ("Crohn's", "T047", ""), ("Crohn", "T047", ""))
    assert found(component, text) == expected


@pytest.mark.parametrize(("text", "expected"), [("IT band pain", ["IT band"]), ("her family, HER family", ["HER family"]), ("put it band on", [])])
def test_a_stop_word_in_capitals_counts_in_capitals_only(text: str, expected: List[str]):
    assert found(written(("IT band", "T023", ""), ("HER family", "T116", "")), text) == expected


def test_two_capitals_with_an_ampersand_are_a_name_in_capitals_only():
    component = written(("D&C", "T061", "D and C"), ("T&A", "T061", ""), ("U&Es", "T059", ""))
    assert found(component, "D&C, D & C, T&A, U&Es; d&c, t & a, D C, vitamin D and C") == ["D&C", "D & C", "T&A", "U&Es"]


@pytest.mark.parametrize(("text", "expected"), [("pRBC, 2 units of pRBCs, PRBC", ["pRBC", "pRBCs", "PRBC"]), ("prbc, Prbc, pRbc, packRBC", [])])
def test_small_letters_before_an_acronym(text: str, expected: List[str]):
    assert found(written(("PRBC", "T121", "")), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("QX of the brain, AIR in the brain", ["QX", "AIR"]),
        ("AS of the brain; as in the brain, As in the brain", ["AS"]),  # a stop word
        ("QX of the lung, AIR in the lung", []),
        ("qx of the brain, air in the brain", []),  # in capitals only
        ("QV of the brain; qv of the brain", ["QV"]),  # no name of the knowledge base, but the table knows its meaning
        ("QW of the brain", []),  # the knowledge base does not have the meaning
        ("levo, pro and MAP for the brain; LEVO, PRO and map for the brain", ["levo", "LEVO", "PRO"]),
        ("levo of the lung", []),
    ],
)
def test_plain_words_and_two_letters_count_with_support_of_the_context(text: str, expected: List[str], monkeypatch: pytest.MonkeyPatch):
    def row(concept: str, capitals: bool = False) -> Any:
        return [(sense_words.Hint(concept, "meaning", sense_words.NEAR), frozenset(["brain"]), capitals)]

    table = {
        "qx": row("C1"),
        "air": row("C1"),
        "as": row("C1"),
        "qv": row("C1"),
        "qw": row("C2"),
        "plaque": row("C1"),
        "levo": row("C1"),
        "pro": row("C1", True),
    }
    monkeypatch.setattr(sense_words, "_rows", lambda: table)
    sense_words.short_forms.cache_clear()
    try:
        assert sense_words.short_forms().keys() == {"qx", "air", "as", "qv", "qw", "levo", "pro"}  # "plaque" is no short form
        assert sense_words.short_forms()["pro"] == (("C1",), True)
        assert found(written(("QX", "T047", ""), ("AIR", "T047", ""), ("AS", "T047", ""), ("gout", "T047", "")), text) == expected
    finally:
        sense_words.short_forms.cache_clear()


def test_short_forms_are_added_in_one_order(monkeypatch: pytest.MonkeyPatch):
    forms = [f"q{letter}" for letter in "nbvcxzlkjhgfdsapoiuytrewqm"]
    monkeypatch.setattr(sense_words, "short_forms", lambda: {form: sense_words.ShortForm(("C1",), False) for form in forms})
    names = written(("gout", "T047", ""))._hinted_names(Names(()))  # type: ignore[arg-type]
    assert [name.name for name in names] == sorted(forms)


def test_a_name_that_lists_disorders_is_one_mention_for_each():
    names = [("nausea and vomiting", "T184"), ("nausea", "T184"), ("vomiting", "T184"), ("head and neck", "T023"), ("head", "T023"), ("neck", "T023")]
    component = written(*((name, tui, "") for name, tui in [*names, ("hand, foot and mouth disease", "T047")]), all_key="sapbert")
    doc = component(component.nlp.make_doc("Nausea and vomiting; head and neck; hand, foot and mouth disease."))
    assert [ent.text for ent in doc.ents] == ["Nausea", "vomiting", "head and neck", "hand, foot and mouth disease"]
    assert "Nausea and vomiting" in [span.text for span in doc.spans["sapbert"]]


def test_a_word_in_capitals_before_a_value_is_no_unit():
    component = written(("HR", "T201", ""), ("mg", "T196", ""))
    assert found(component, "T 36.4  HR 134, seen for 2 HR today") == ["HR"]


@pytest.mark.parametrize(("tui", "expected"), [("T060", ["CT abdomen and pelvis"]), ("T047", ["noncontrast CT"])])
def test_the_much_longer_name_of_a_test_needs_no_word_before_it(tui: str, expected: List[str]):
    component = matcher("noncontrast CT", "CT abdomen and pelvis", tui=tui, label="group")
    assert found(component, "noncontrast CT abdomen and pelvis") == expected
