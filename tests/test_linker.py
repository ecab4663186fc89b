"""The linker with the real encoder and a real index over about seventy invented concepts (tests/data/tiny_clinic.tsv)."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np
import pytest
import spacy
import torch
from catalogue import RegistryError
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.tokens.underscore import Underscore
from spacy.training import Example
from thinc.api import ConfigValidationError

from spacy_sapbert import bundle
from spacy_sapbert.build import default_linkers
from spacy_sapbert.encoders.transformer import NameEncoder, use_bfloat16
from spacy_sapbert.errors import DamagedFile, MissingFile, SapbertError
from spacy_sapbert.files import folder_to_bytes, write_manifest
from spacy_sapbert.indexes.annoy import AnnoyIndex
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.linker import SapBertLinker
from spacy_sapbert.settings import Settings

pytestmark = pytest.mark.usefixtures("one_thread")

BLANK = spacy.blank("en")
CONVERTS = version("confection").startswith("0.")  # it converts 2.5 to 2, and 3 to "3", before the factory is called
Mentions = List[str]


def make(text: str, mentions: Mentions, label: str = "PROBLEM", nlp: Language = BLANK) -> Doc:
    doc = nlp.make_doc(text)
    spans, at = [], 0
    for mention in mentions:
        start = text.index(mention, at)
        at = start + len(mention)
        span = doc.char_span(start, at, label=label, alignment_mode="expand")
        assert span is not None
        spans.append(span)
    doc.ents = spans
    return doc


def mention(text: str, label: str = "PROBLEM") -> Doc:
    doc = BLANK.make_doc(text)
    doc.ents = [Span(doc, 0, len(doc), label=label)] if len(doc) else []
    return doc


def links(doc: Doc) -> List[Tuple[str, str]]:
    return [(ent.text, ent.kb_id_) for ent in doc.ents]


def result(doc: Doc) -> List[Any]:
    """Return everything that was written, except whether it came from the cache."""
    return [
        (e.text, e.kb_id_, [c for c, _ in e._.kb_ents], {k: list(v) for k, v in e._.kb_codes.items()}, {**_told(e._.kb_explain), "cached": None})
        for e in doc.ents
    ]


def _told(explain: Dict[str, Any]) -> Dict[str, Any]:
    return {key: value for key, value in explain.items() if key not in ("score", "margin", "runner_up")}  # they differ by 1e-7 between batches


def scores(doc: Doc) -> List[float]:
    return [s for e in doc.ents for _, s in e._.kb_ents]


@pytest.fixture(scope="module")
def nlp(tiny_linker: Path) -> Language:
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker), "threshold": 0.5})
    nlp.get_pipe("sapbert_linker").load()  # type: ignore[attr-defined]
    return nlp


@pytest.fixture(scope="module")
def linker(nlp: Language) -> Any:
    return nlp.get_pipe("sapbert_linker")


@pytest.fixture(scope="module")
def other(linker: SapBertLinker, tiny_linker: Path) -> Callable[..., SapBertLinker]:
    """Return a function that makes the linker with other settings and the same encoder."""

    def build(**settings: Any) -> SapBertLinker:
        made = SapBertLinker(linker.model, linker.index, settings.pop("name", "other"), **{"threshold": 0.5, **settings})
        made.set_folder(tiny_linker, exclude=["model", "index"])
        return made

    return build


@pytest.fixture
def extensions() -> Iterator[None]:
    docs, spans = dict(Underscore.doc_extensions), dict(Underscore.span_extensions)
    yield
    for now, was in ((Underscore.doc_extensions, docs), (Underscore.span_extensions, spans)):
        now.clear()
        now.update(was)


# -- construction ---------------------------------------------------------------------------------------------------------


def test_default_config():
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker")
    config = nlp.get_pipe_config("sapbert_linker")
    assert {key: value for key, value in config.items() if not isinstance(value, dict)} == {
        "factory": "sapbert_linker",
        "linker_name": None,
        "encoder": None,
        "resolve_abbreviations": True,
        "rank": None,
        "rerank": None,
        "k": 30,
        "threshold": 0.8,
        "new_words": True,
        "no_definition_threshold": 0.95,
        "filter_for_definitions": False,
        "max_entities_per_mention": 5,
        "target_precision": None,
        "coverage": None,
        "spans_key": None,
        "attr_name": "kb_ents",
        "labels_discard": [],
        "overwrite": True,
        "nil": "",
        "types": None,
        "vocabularies": None,
        "languages": None,
        "exact_match": True,
        "candidates_batch_size": 4096,
        "cache_size": 100_000,
        "verify": "sampled",
    }
    assert config["model"]["@architectures"] == "spacy-sapbert.NameEncoder.v1"
    assert config["index"]["@sapbert_indexes"] == "spacy-sapbert.AnnoyIndex.v1"
    made = SapBertLinker(NameEncoder(), AnnoyIndex())
    for setting in fields(Settings):  # the config and the constructor mean the same
        value = getattr(made.settings, setting.name)
        assert (list(value) if isinstance(value, tuple) else value) == config.get(setting.name, ""), setting.name
    assert {setting.name for setting in fields(Settings)} - set(config) == {"language"}


_seen: List[str] = []
_watching = False


def _audit(event: str, args: Tuple[Any, ...]) -> None:
    if _watching and (event in ("open", "sqlite3.connect") or event.startswith("socket.")):
        _seen.append(f"{event} {args[0] if args else ''}")


def test_constructor_touches_neither_disk_nor_network(tiny_linker: Path):
    global _watching
    sys.addaudithook(_audit)  # an audit hook cannot be removed, so it is switched on and off
    spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker)})  # so that all late imports are already done
    nlp = spacy.blank("en")
    _watching = True
    try:
        linker: Any = nlp.add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker)})
    finally:
        _watching = False
    assert linker.folder is None
    parts = [str(tiny_linker), "minilm", "hp.obo", "socket", "sqlite3", str(default_linkers.cache_folder())]
    assert [event for event in _seen if any(part in event for part in parts)] == []
    linker.load()
    assert linker.folder == tiny_linker


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"k": 0}, "E002"),
        ({"k": "30"}, "E002"),
        ({"cache_size": "5"}, "E002"),
        ({"verify": "half"}, "E002"),
        ({"threshold": "0.5"}, "E002"),
        ({"max_entities_per_mention": 0}, "E002"),
        ({"threshold": 1.5}, "E002"),
        ({"no_definition_threshold": -2.0}, "E002"),
        ({"candidates_batch_size": 0}, "E002"),
        ({"cache_size": -1}, "E002"),
        ({"nil": "none"}, "E002"),
        ({"attr_name": "kb ents"}, "E002"),
        ({"attr_name": ""}, "E002"),
        ({"spans_key": ""}, "E002"),
        ({"spans_key": []}, "E002"),
        ({"types": []}, "E002"),
        ({"types": {"DRUG": []}}, "E002"),
        ({"vocabularies": []}, "E002"),
        ({"filter_for_definitions": True, "threshold": 0.8, "no_definition_threshold": 0.7}, "E002"),
        ({"types": ["T999"]}, "E104"),
        ({"types": {"DRUG": ["CHEM", "medicine"]}}, "E104"),
        ({"linker_name": "umls2"}, "E001"),
        ({"linker_name": "/no/such/folder"}, "E001"),
    ],
)
def test_wrong_settings_are_refused_with_a_code(linker: Any, config: Dict[str, Any], code: str):
    with pytest.raises(SapbertError) as info:
        SapBertLinker(linker.model, linker.index, **config)
    assert info.value.code == code
    assert str(info.value).startswith(f"[{code}]")
    assert code != "E002" or any(f"'{name}'" in str(info.value) for name in config)


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"k": 0}, "E002"),
        ({"types": {"DRUG": ["medicine"]}}, "E104"),
        ({"linker_name": "umls2"}, "E001"),
        ({"model": {"@architectures": "spacy-sapbert.NameEncoder.v1", "pooling": "max"}}, "E303"),
        ({"index": {"@sapbert_indexes": "spacy-sapbert.AnnoyIndex.v1", "n_trees": 0}}, "E002"),
    ],
)
def test_wrong_settings_in_a_config(config: Dict[str, Any], code: str):
    with pytest.raises(SapbertError) as info:
        BLANK.add_pipe("sapbert_linker", config=config)
    assert info.value.code == code
    assert BLANK.pipe_names == []


@pytest.mark.parametrize("setting", ["index", "model"])
def test_something_else_than_an_engine_or_an_encoder_is_refused(setting: str):
    """The error is E006; confection 0.1 checks the types before the component is made, and names the setting."""
    with pytest.raises((SapbertError, ConfigValidationError)) as info:
        BLANK.add_pipe("sapbert_linker", config={setting: {"@misc": "spacy.first_longest_spans_filter.v1"}})
    if isinstance(info.value, SapbertError):
        assert info.value.code == "E006"
    else:
        assert version("confection").startswith("0.")
        assert f"sapbert_linker -> {setting}" in str(info.value)
    assert BLANK.pipe_names == []


def test_a_number_in_quotes_is_refused_or_read_as_a_number():
    """Newer versions of spaCy pass the string on, older ones convert it to a number."""
    nlp = spacy.blank("en")
    found: Any = None
    try:
        found = nlp.add_pipe("sapbert_linker", config={"k": "30"})
    except SapbertError as error:
        found = error.code
    assert found == "E002" or found.settings.k == 30


@pytest.mark.parametrize(
    "config",
    [
        {"treshold": 0.5},
        pytest.param({"k": 2.5}, marks=pytest.mark.skipif(CONVERTS, reason="confection 0 converts it")),
        {"threshold": "high"},
        {"labels_discard": "PROBLEM"},
        {"overwrite": "sometimes"},
        pytest.param({"spans_key": 3}, marks=pytest.mark.skipif(CONVERTS, reason="confection 0 converts it")),
        {"index": {"@sapbert_indexes": "spacy-sapbert.SomeIndex.v1"}},
        {"model": {"@architectures": "spacy-sapbert.NameEncoder.v1", "poling": "cls"}},
    ],
)
def test_misspelt_and_wrongly_typed_settings_are_refused_by_spacy(config: Dict[str, Any]):
    with pytest.raises((ConfigValidationError, RegistryError)) as info:
        BLANK.add_pipe("sapbert_linker", config=config)
    key = {"index": "sapbert_indexes", "model": "poling"}.get(next(iter(config)), next(iter(config)))
    assert key in str(info.value)


def test_an_attribute_of_someone_else_is_refused(extensions: None):
    Span.set_extension("theirs", default=None)
    with pytest.raises(SapbertError, match="E005"):
        spacy.blank("en").add_pipe("sapbert_linker", config={"attr_name": "theirs"})


# -- linking --------------------------------------------------------------------------------------------------------------


def test_links_names_other_word_order_plurals_and_lay_words(linker: Any):
    text = "CHF, heart attacks, infarct of the heart muscle, tummy aches, Parkinson’s  disease and kidney disease, chronic"
    doc = linker(
        make(text, ["CHF", "heart attacks", "infarct of the heart muscle", "tummy aches", "Parkinson’s  disease", "kidney disease, chronic"])
    )
    assert [kb_id for _, kb_id in links(doc)] == ["C9100002", "C9100003", "C9100003", "C9100037", "C9100023", "C9100019"]
    assert [e._.kb_explain["exact"] for e in doc.ents] == [True, True, False, False, True, False]
    assert all(t.ent_kb_id_ == e.kb_id_ for e in doc.ents for t in e)


def test_candidates_codes_and_explanation(linker: Any, monkeypatch: pytest.MonkeyPatch):
    (ent,) = linker(mention("decompensated heart failures")).ents
    assert ent.kb_id_ == "C9100002"
    assert 1 <= len(ent._.kb_ents) <= 5
    assert all(type(c) is str and type(s) is float and 0.5 < s <= 1 for c, s in ent._.kb_ents)
    assert [s for _, s in ent._.kb_ents] == sorted((s for _, s in ent._.kb_ents), reverse=True)
    assert ent._.kb_codes == {"UMLS": ["C9100002"], "ICD10CM": ["I50.9"], "SNOMEDCT_US": ["42343007"]}
    explain = ent._.kb_explain
    assert {k: explain[k] for k in ("mention", "long_form", "linked", "exact", "threshold", "id", "name", "term_type", "ties")} == {
        "mention": "decompensated heart failures",
        "long_form": None,
        "linked": True,
        "exact": True,
        "threshold": 0.5,
        "id": "C9100002",
        "name": "decompensated heart failure",
        "term_type": "SY",
        "ties": [],
    }
    second_id, second_name, second_score = explain["runner_up"]
    monkeypatch.setattr(linker, "threshold", 0.3)  # so that the runner-up is a candidate
    assert (second_id, second_score) == linker(mention("decompensated heart failures")).ents[0]._.kb_ents[1]
    assert linker.kb.cui_to_entity[second_id].canonical_name
    assert second_name
    assert explain["margin"] == round(explain["score"] - second_score, 5)
    assert json.loads(json.dumps(explain)) == explain


def test_score_is_the_cosine_of_the_nearest_name(linker: Any):
    (ent,) = linker(mention("heart attacking")).ents
    vectors = linker.model.predict(["heart attacking", "heart attack"])
    assert ent._.kb_ents[0] == ("C9100003", pytest.approx(float(vectors[0] @ vectors[1]), abs=2e-3))  # vectors may be rounded to bfloat16 or float16


def test_ties_are_told_and_ordered_by_rule(linker: Any):
    (cold,) = linker(mention("Cold")).ents
    assert cold._.kb_ents[:2] == [("C9100020", 1.0), ("C9100029", 1.0)]  # both have it as a synonym, so they are ordered by id
    assert cold._.kb_explain["ties"] == ["C9100020", "C9100029"]
    assert cold._.kb_explain["margin"] == 0.0
    assert cold._.kb_explain["runner_up"] == ["C9100029", "cold", 1.0]
    assert {i: linker(mention(i)).ents[0]._.kb_explain["ties"] for i in ("MI", "PE", "COPD")} == {
        "MI": ["C9100003", "C9100005"],
        "PE": ["C9100018", "C9100035"],
        "COPD": [],
    }


def test_without_exact_match_names_are_found_by_their_vectors(other: Any):
    (ent,) = other(exact_match=False)(mention("hypertension")).ents
    assert ent.kb_id_ == "C9100009"
    assert not ent._.kb_explain["exact"]
    assert ent._.kb_ents[0][1] == pytest.approx(1.0, abs=2e-3)


def nearest(linker: Any, text: str, keep: Callable[[Any], bool]) -> str:
    """Return the nearest concept by brute force over the names of allowed concepts."""
    concepts = [c for c in linker.kb.concepts() if keep(c)]
    names = [(c.concept_id, name.text.lower()) for c in concepts for name in c.names]
    vectors = linker.model.predict([text, *(name for _, name in names)])
    return names[int((vectors[1:] @ vectors[0]).argmax())][0]


def test_types_are_kept_before_the_top_k_not_after(linker: Any, other: Any):
    text = "heart attack with ventilator"
    unfiltered = other(k=1, threshold=-1.0)(mention(text)).ents[0].kb_id_
    assert linker.kb.cui_to_entity[unfiltered].types == ["T047"]  # if only the one name that was found were filtered, nothing would be left
    for types in (["T061"], ["PROC"], ["therapeutic or preventive procedure"]):
        (ent,) = other(k=1, threshold=-1.0, types=types)(mention(text)).ents
        assert ent.kb_id_ == nearest(linker, text, lambda c: "T061" in c.types) == "C9100051"
    # also for an exact match of a concept with another type
    (ent,) = other(types=["T061"], threshold=-1.0)(mention("heart attack")).ents
    assert not ent._.kb_explain["exact"]
    assert {t for c, _ in ent._.kb_ents for t in linker.kb.cui_to_entity[c].types} == {"T061"}
    assert next(c for c, _ in other(types=["T033"])(mention("cold")).ents[0]._.kb_ents) == "C9100029"
    assert other(types=["T033"])(mention("cold")).ents[0]._.kb_explain["ties"] == []


def test_types_by_label(other: Any):
    by_label = other(types={"SIGN": ["T033"], "DRUG": ["CHEM"]}, threshold=-1.0)
    doc = make("cold cold cold", ["cold", "cold", "cold"])
    doc.ents = [Span(doc, i, i + 1, label=label) for i, label in enumerate(["SIGN", "DRUG", "ELSE"])]
    found = [e._.kb_ents for e in by_label(doc).ents]
    assert [found[0][0][0], found[2][0][0]] == ["C9100029", "C9100020"]
    assert all("T121" in by_label.kb.cui_to_entity[c].types for c, _ in found[1])
    with_rest = other(types={"SIGN": ["T033"], "": ["T061"]}, threshold=-1.0)
    assert with_rest.kb.cui_to_entity[with_rest(mention("cold", "ELSE")).ents[0].kb_id_].types == ["T061"]


def test_vocabularies(linker: Any, other: Any):
    (ent,) = other(vocabularies=["RXNORM"], threshold=-1.0, rank="cosine")(mention("paracetamol")).ents
    assert ent.kb_id_ == nearest(linker, "paracetamol", lambda c: any(v == "RXNORM" for v, _ in c.codes))
    (ranked,) = other(vocabularies=["RXNORM"], threshold=-1.0)(mention("paracetamol")).ents
    for one in (ent, ranked):
        assert one.kb_id_ in {c for c, _ in one._.kb_ents} <= {"C9100053", "C9100054", "C9100055"}
    both = other(vocabularies=["RXNORM", "SNOMEDCT_US"], types=["T033"], threshold=-1.0)(mention("fevers"))
    assert [c for c, _ in both.ents[0]._.kb_ents] == ["C9100027"]  # the only finding with a SNOMED CT code


def test_an_unknown_vocabulary_is_refused_again_and_again(other: Any, tiny_linker: Path):
    with pytest.raises(SapbertError, match=r"E105.*'ICD9'.*ICD10CM"):
        other(vocabularies=["ICD9"])
    linker: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker), "vocabularies": ["ICD9"]})
    for _ in range(2):
        with pytest.raises(SapbertError, match="E105"):
            linker(mention("cold"))


def test_some_docs_with_other_settings(nlp: Language, linker: Any):
    docs = lambda: [mention("cold"), mention("hypertension")]  # noqa: E731
    only = linker.search_with(types=["T033"], nil="NIL", threshold=0.9)
    assert [links(doc) for doc in nlp.pipe(docs(), component_cfg={"sapbert_linker": {"search": only}})] == [
        [("cold", "C9100029")],
        [("hypertension", "NIL")],
    ]
    assert [links(doc) for doc in nlp.pipe(docs())] == [[("cold", "C9100020")], [("hypertension", "C9100009")]]
    assert linker.settings.types is None
    assert only.bundle is linker.bundle
    with pytest.raises(SapbertError, match=r"E002.*linker_name"):
        linker.search_with(linker_name="hpo")
    with pytest.raises(SapbertError, match="E104"):
        linker.search_with(types=["T999"])


def test_threshold_nil_and_number_of_candidates(other: Any):
    doc = lambda: make("a purple bicycle and heart attacks", ["purple bicycle", "heart attacks"])  # noqa: E731
    for nil in ("", "NIL"):
        out = other(threshold=0.7, nil=nil)(doc())
        assert links(out) == [("purple bicycle", nil), ("heart attacks", "C9100003")]
        assert out.ents[0]._.kb_ents == []
        assert out.ents[0]._.kb_codes == {}
        assert not out.ents[0]._.kb_explain["linked"]
        assert out.ents[0]._.kb_explain["score"] <= 0.7  # the nearest concept is still reported
    assert [len(e._.kb_ents) for e in other(threshold=-1.0, max_entities_per_mention=3)(doc()).ents] == [3, 3]
    best = other(threshold=0.5)(doc()).ents[1]._.kb_ents[0][1]
    assert other(threshold=best)(doc()).ents[1]._.kb_ents == []  # a score must be above the threshold, not equal
    assert other(threshold=1.0)(mention("hypertension")).ents[0].kb_id_ == ""


def test_filter_for_definitions(linker: Any, other: Any):
    texts = ["gastric reflux disease", "narrow mitral valve", "hypertension", "high fevers"]
    strict = other(filter_for_definitions=True, no_definition_threshold=0.95)
    dropped = 0
    for text in texts:
        everything = [(c, s) for c, s in other(max_entities_per_mention=50)(mention(text)).ents[0]._.kb_ents]
        kept = [(c, s) for c, s in everything if linker.kb.cui_to_entity[c].definition or s >= 0.95]
        dropped += len(everything) - len(kept)
        assert strict(mention(text)).ents[0]._.kb_ents == kept[:5]
    assert dropped >= 3
    assert strict(mention("hypertension")).ents[0].kb_id_ == "C9100009"  # an exact match has score 1.0


def test_k_larger_than_the_index(other: Any):
    doc = other(k=10_000, max_entities_per_mention=10_000, threshold=-1.0)(mention("cold"))
    assert len(doc.ents[0]._.kb_ents) == len({c for c, _ in doc.ents[0]._.kb_ents}) == len(other().kb)


def test_labels_discard_and_overwrite(other: Any):
    doc = make("fever cough cold", ["fever", "cough", "cold"])
    doc.ents = [Span(doc, 0, 1, label="SKIP"), Span(doc, 1, 2, label="X", kb_id="OLD"), Span(doc, 2, 3, label="X")]
    kept = other(labels_discard=["SKIP"], overwrite=False)(doc.copy())
    assert links(kept) == [("fever", ""), ("cough", "OLD"), ("cold", "C9100020")]
    assert kept.ents[0]._.kb_ents == []
    assert kept.ents[1]._.kb_ents[0] == ("C9100028", 1.0)
    assert links(other()(doc)) == [("fever", "C9100027"), ("cough", "C9100028"), ("cold", "C9100020")]


def test_span_groups_and_two_linkers(nlp: Language, tiny_linker: Path, extensions: None):
    two = spacy.blank("en")
    two.add_pipe("sapbert_linker", name="a", config={"linker_name": str(tiny_linker)})
    two.add_pipe(
        "sapbert_linker",
        name="b",
        config={"linker_name": str(tiny_linker), "attr_name": "other_ents", "spans_key": ["sc", "missing"], "types": ["T033"], "threshold": 0.9},
    )
    doc = make("a cold and fever", ["cold"], nlp=two)
    doc.spans["sc"] = [Span(doc, 1, 2, label="S", span_id="one"), Span(doc, 3, 4, label="S")]
    doc.spans["else"] = [Span(doc, 3, 4, label="S")]
    doc = two(doc)
    assert links(doc) == [("cold", "C9100020")]
    assert [(s.text, s.kb_id_, s.id_, s._.other_ents[0]) for s in doc.spans["sc"]] == [
        ("cold", "C9100029", "one", ("C9100029", 1.0)),
        ("fever", "C9100027", "", ("C9100027", 1.0)),
    ]
    assert doc.ents[0]._.kb_ents[0] == ("C9100020", 1.0)
    assert doc.ents[0]._.kb_codes == {"UMLS": ["C9100020"]}
    assert doc.ents[0]._.other_codes == {"UMLS": ["C9100029"]}
    assert doc.ents[0]._.kb_explain["ties"] == ["C9100020", "C9100029"]
    assert doc.ents[0]._.other_explain["ties"] == []
    assert doc.spans["else"][0].kb_id_ == ""
    assert "missing" not in doc.spans


# -- abbreviations --------------------------------------------------------------------------------------------------------

MS = "She has multiple sclerosis (MS). The MS is stable, no MS relapses."


@pytest.mark.parametrize("serializable", [False, True])
def test_after_scispacys_abbreviation_detector(tiny_linker: Path, serializable: bool, extensions: None):
    pytest.importorskip("scispacy")
    from scispacy.abbreviation import AbbreviationDetector  # noqa: F401

    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "PROBLEM", "pattern": "MS"}])  # type: ignore[attr-defined]
    nlp.add_pipe("abbreviation_detector", config={"make_serializable": serializable})
    # the one line that a scispaCy user changes
    nlp.add_pipe("sapbert_linker", config={"resolve_abbreviations": True, "linker_name": str(tiny_linker)})
    doc = nlp(MS)
    linker: Any = nlp.get_pipe("sapbert_linker")
    assert links(doc) == [("MS", "C9100006")] * 3
    assert all(e._.kb_explain["long_form"] == e._.kb_explain["mention"] == "multiple sclerosis" for e in doc.ents)
    for ent in doc.ents:
        for cui, score in ent._.kb_ents:
            assert score > linker.rules.threshold
            assert repr(linker.kb.cui_to_entity[cui]).startswith(f"CUI: {cui}, Name: ")
    linker.resolve_abbreviations = False
    assert nlp(MS).ents[0]._.kb_explain["ties"] == ["C9100004", "C9100006"]  # MS also means mitral stenosis
    if serializable:
        assert Doc(nlp.vocab).from_bytes(doc.to_bytes()).ents[0].kb_id_ == "C9100006"


# -- batches, processes, threads, cache -----------------------------------------------------------------------------------

# in bfloat16, a vector depends on its batch, because of rounding to 8 bits; differences of up to 7e-4 were seen
NOISE = 2e-3 if use_bfloat16("auto", torch.device("cpu")) else 1e-4
NOTES = [
    ("heart attacks and itchy skins", ["heart attacks", "itchy skins"]),
    ("", []),
    ("nothing to see", []),
    ("MI, CHF, and infection of the urine tract", ["MI", "CHF", "infection of the urine tract"]),
    ("a cold; the cold.", ["cold", "cold"]),
    ("!? and purple bicycle", ["!?", "purple bicycle"]),
    ("an extraordinarily long mention of chronic obstructive disease of the lungs with oxygen at home", ["an extraordinarily long mention of chronic obstructive disease of the lungs with oxygen at home"]),
    ("heart attacks", ["heart attacks"]),
    ("tummy pains, racing hearts, kidney dialysis", ["tummy pains", "racing hearts", "kidney dialysis"]),
    ("alpha tocopherols 1,1-dimethylbiguanid", ["alpha tocopherols", "1,1-dimethylbiguanid"]),
]  # fmt: skip


def notes() -> List[Doc]:
    return [make(text, mentions) for text, mentions in NOTES]


@pytest.fixture(scope="module")
def one_by_one(other: Any) -> List[Doc]:
    return [other()(doc) for doc in notes()]


def same(found: List[Doc], expected: List[Doc]) -> None:
    assert [doc.text for doc in found] == [doc.text for doc in expected]
    assert [result(doc) for doc in found] == [result(doc) for doc in expected]
    for a, b in zip(found, expected):
        assert scores(a) == pytest.approx(scores(b), abs=NOISE)


@pytest.mark.parametrize(("batch_size", "settings"), [(3, {}), (128, {}), (128, {"candidates_batch_size": 2, "cache_size": 0})])
def test_batches_give_what_single_docs_give(other: Any, one_by_one: List[Doc], batch_size: int, settings: Dict[str, int]):
    same(list(other(**settings).pipe(iter(notes()), batch_size=batch_size)), one_by_one)


def test_order_does_not_matter(other: Any, one_by_one: List[Doc]):
    order = list(range(len(NOTES)))
    random.Random(3).shuffle(order)
    found = list(other().pipe(notes()[i] for i in order))
    same(found, [one_by_one[i] for i in order])


def test_two_processes(nlp: Language, one_by_one: List[Doc]):
    nlp.get_pipe("sapbert_linker").forget()  # type: ignore[attr-defined]
    found = list(nlp.pipe(notes(), n_process=2, batch_size=2))
    same(found, one_by_one)
    types = [[type(candidate) for doc in docs for ent in doc.ents for candidate in ent._.kb_ents] for docs in (found, one_by_one)]
    assert types[0] == types[1] == [tuple] * len(types[0])
    assert types[0]


@pytest.mark.e2e
def test_a_spawned_process_opens_the_files_again(linker: Any, one_by_one: List[Doc], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    data = pickle.dumps(linker)
    assert len(data) < 10_000
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        same(pool.map(linker, notes()), one_by_one)


def test_pickled_component_keeps_its_settings(linker: Any, other: Any, tiny_linker: Path):
    copy = pickle.loads(pickle.dumps(other(name="mine", k=7, types=["T033"], nil="NIL", attr_name="kb_ents")))
    assert (copy.name, copy.k, copy.nil, copy.folder) == ("mine", 7, "NIL", tiny_linker)
    assert copy(mention("cold")).ents[0].kb_id_ == "C9100029"
    unloaded = SapBertLinker(NameEncoder(max_length=11), ExactIndex(), linker_name=str(tiny_linker))
    copy = pickle.loads(pickle.dumps(unloaded))
    assert copy.folder is None
    assert type(copy.index) is ExactIndex
    assert copy.model.max_length == 11


def test_threads_share_one_linker(tiny_linker: Path, one_by_one: List[Doc]):
    linker: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker), "threshold": 0.5, "cache_size": 2})
    start = threading.Barrier(6)

    def work(part: int) -> List[Doc]:
        start.wait()
        return [linker(doc) for doc in notes()[part % 3 :]] + list(linker.pipe(notes()))

    with ThreadPoolExecutor(6) as pool:
        for part, found in enumerate(pool.map(work, range(6))):
            same(found, one_by_one[part % 3 :] + one_by_one)


def test_cache_is_bounded_and_says_so(other: Any):
    linker = other(cache_size=2)
    seen = [linker(mention(text)).ents[0]._.kb_explain["cached"] for text in ("fever", "Fever ", "cough", "cold", "cough", "fever")]
    assert seen == [False, True, False, False, True, False]  # "cold" replaced "fever" in the cache
    assert linker.search.n_cached() == 2
    list(linker.pipe(notes()))
    assert linker.search.n_cached() == 2
    never = other(cache_size=0)
    assert [never(mention("fever")).ents[0]._.kb_explain["cached"] for _ in range(2)] == [False, False]
    assert never.search.n_cached() == 0


def test_equal_mentions_are_encoded_once(other: Any):
    linker = other()
    asked: List[str] = []
    encode = linker.model.encode

    class Counting:
        architecture, name = linker.model.architecture, linker.model.name

        def encode(self, names: List[str]) -> Any:
            asked.extend(names)
            return encode(names)

    linker.bundle = replace(linker.bundle, encoder=Counting())
    list(
        linker.pipe(
            [
                make("Heart Attacked, heart  attacked; fever", ["Heart Attacked", "heart  attacked", "fever"]),
                mention("HEART ATTACKED"),
                mention("heart attacked"),
            ]
        )
    )
    list(linker.pipe([mention("heart attacked")]))
    assert asked == ["heart attacked"]  # "fever" is an exact match


def test_what_a_user_does_to_a_span_stays_there(other: Any):
    linker = other()
    ent = linker(mention("cold")).ents[0]
    ent._.kb_ents.clear()
    ent._.kb_codes["UMLS"].append("X")
    ent._.kb_explain["ties"].append("X")
    ent._.kb_explain["runner_up"].clear()
    again = linker(mention("cold")).ents[0]
    assert again._.kb_ents[0] == ("C9100020", 1.0)
    assert again._.kb_codes == {"UMLS": ["C9100020"]}
    assert again._.kb_explain["ties"] == ["C9100020", "C9100029"]
    assert again._.kb_explain["runner_up"] == ["C9100029", "cold", 1.0]


def test_predict_writes_nothing(linker: Any):
    doc = make("a cold", ["cold"])
    before = doc.to_bytes()
    (prediction,) = linker.predict([doc])
    assert doc.to_bytes() == before
    assert [m.text for m in prediction.mentions] == ["cold"]


# -- errors in a stream ---------------------------------------------------------------------------------------------------


@pytest.fixture
def broken() -> Iterator[Callable[[str], Doc]]:
    """Return a Doc whose abbreviations do not have the form that scispaCy writes."""
    had = Doc.has_extension("abbreviations")
    if not had:
        Doc.set_extension("abbreviations", default=[])

    def build(text: str) -> Doc:
        doc = mention(text)
        doc._.abbreviations = [{"short_text": text}]
        return doc

    yield build
    if not had:
        Doc.remove_extension("abbreviations")


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_one_bad_doc_goes_to_the_error_handler_and_the_rest_goes_on(nlp: Language, broken: Any, batch_size: int):
    bad: List[Tuple[str, List[str], str]] = []
    nlp.set_error_handler(lambda name, proc, docs, error: bad.append((name, [d.text for d in docs], type(error).__name__)))
    try:
        docs = [mention("fever"), broken("cough"), mention("cold"), broken("nausea"), mention("tremor")]
        found = list(nlp.pipe(docs, batch_size=batch_size))
        assert [links(doc)[0] for doc in found] == [("fever", "C9100027"), ("cold", "C9100020"), ("tremor", "C9100042")]
        assert bad == [("sapbert_linker", ["cough"], "KeyError"), ("sapbert_linker", ["nausea"], "KeyError")]
        bad.clear()
        component: Any = nlp.get_pipe("sapbert_linker")
        assert component(broken("cough")).text == "cough"
        assert bad == [("sapbert_linker", ["cough"], "KeyError")]
    finally:
        from spacy.util import raise_error

        nlp.set_error_handler(raise_error)


def test_without_a_handler_an_error_is_raised(linker: Any, broken: Any):
    with pytest.raises(KeyError, match="long_text"):
        linker(broken("cough"))
    with pytest.raises(KeyError, match="long_text"):
        list(linker.pipe([mention("cold"), broken("cough")]))


# -- odd mentions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "\n\n", "\u200b\u200b", "\u200bfever\u200d", "🤒🤒", "ارتفاع ضغط الدم", "\u202efever\u202c", "a" * 100_000, "cold " * 20_000, "\x00\x07", "fe\x00ver",
        "...!?", "-", "½", "١٢٣", "Å", "ﬁts", "\ufeff", "é" * 600, "<script>", "' OR 1=1 --", "\u0345\u0345", "１２", "%s {} \\1",
    ],
)  # fmt: skip
def test_odd_mentions_do_no_harm(other: Any, text: str):
    linker = other(threshold=0.7)
    doc = BLANK.make_doc(text + (" and fever" if text.strip() else ""))
    if len(doc):
        spans = [Span(doc, 0, max(1, len(doc) - 2), label="X")]
        doc.ents = [*spans, Span(doc, len(doc) - 1, len(doc), label="X")] if text.strip() else spans
    out = linker(doc)
    assert out.text == doc.text
    for ent in out.ents:
        assert all(np.isfinite(score) for _, score in ent._.kb_ents)
    if text.strip():
        assert (out.ents[-1].text, out.ents[-1].kb_id_) == ("fever", "C9100027")


@pytest.mark.parametrize("text", ["...!?", "\u200b", "—", "\x07\x07", "( )"])
def test_mentions_without_a_letter_or_digit_find_nothing(other: Any, text: str):
    ent = other(threshold=-1.0, nil="NIL")(mention(text)).ents[0]
    assert (ent.kb_id_, ent._.kb_ents, ent._.kb_codes) == ("NIL", [], {})


def test_invisible_characters_dashes_quotes_and_ligatures_make_no_difference(linker: Any):
    for text in (
        "iron–deficiency\u00a0anaemia",
        "IRON\u2010DEFICIENCY  ANAEMIA",
        "iron-defi\u00adciency anaemia",
        "ﬁt",
        "Parkinson´s disease",
        "Α-TOCOPHEROL",
    ):
        assert linker(mention(text)).ents[0]._.kb_explain["exact"], text


# -- Docs elsewhere -------------------------------------------------------------------------------------------------------


def test_docs_in_bytes_docbin_and_pickle(linker: Any):
    doc = linker(make("heart attacks and a cold", ["heart attacks", "cold"]))
    box = DocBin(store_user_data=True, docs=[doc]).to_bytes()
    others = [
        Doc(BLANK.vocab).from_bytes(doc.to_bytes()),
        next(iter(DocBin().from_bytes(box).get_docs(BLANK.vocab))),
        pickle.loads(pickle.dumps(doc)),
        doc.copy(),
        doc[0:5].as_doc(copy_user_data=True),
    ]
    for again in others:
        assert links(again) == links(doc) == [("heart attacks", "C9100003"), ("cold", "C9100020")]
        assert [[tuple(c) for c in e._.kb_ents] for e in again.ents] == [e._.kb_ents for e in doc.ents]
        assert [{k: list(v) for k, v in e._.kb_codes.items()} for e in again.ents] == [e._.kb_codes for e in doc.ents]
        assert [e._.kb_explain["name"] for e in again.ents] == ["heart attack", "cold"]


def test_select_pipes(nlp: Language):
    with nlp.select_pipes(disable=["sapbert_linker"]):
        assert links(nlp(make("a cold", ["cold"]))) == [("cold", "")]
    with nlp.select_pipes(enable="sapbert_linker"):
        assert links(nlp(make("a cold", ["cold"]))) == [("cold", "C9100020")]


def test_score_by_hand(nlp: Language, other: Any):
    text, mentions = "fever cough cold tremor bicycle tricycle", ["fever", "cough", "cold", "tremor", "bicycle", "tricycle"]
    gold_ids = ["C9100027", "C9100028", "C9100029", "", "", "C9100043"]
    gold = make(text, mentions)
    for ent, kb_id in zip(gold.ents, gold_ids):
        for token in ent:
            token.ent_kb_id_ = kb_id
    for nil in ("", "NIL"):
        linker = other(nil=nil, threshold=0.75)
        linker.scorer = nlp.get_pipe("sapbert_linker").scorer  # type: ignore[attr-defined]
        predicted = linker(make(text, mentions))
        assert [k for _, k in links(predicted)] == ["C9100027", "C9100028", "C9100020", "C9100042", nil, nil]
        found = linker.score([Example(predicted, gold)])
        # right: fever, cough. cold: one wrong and one missed. tremor: wrong. bicycle: correctly not linked. tricycle: missed
        assert found["nel_micro_p"] == pytest.approx(2 / 4)
        assert found["nel_micro_r"] == pytest.approx(2 / 4)
        assert found["nel_micro_f"] == pytest.approx(0.5)
    without = other()
    assert without.score([]) == {}


def test_language_evaluate(nlp: Language):
    gold = make("a fever", ["fever"])
    gold[1].ent_kb_id_ = "C9100027"
    predicted = make("a fever", ["fever"])
    assert nlp.evaluate([Example(predicted, gold)])["nel_micro_f"] == 1.0


# -- attributes of scispaCy -----------------------------------------------------------------------------------------------


def test_candidate_generator(linker: Any):
    texts = ["Heart Attacks", "cold", "", "...", "fever"]
    found = linker.candidate_generator(texts, 10)
    assert [len(c) > 0 for c in found] == [True, True, False, False, True]
    first = found[0][0]
    assert (first.concept_id, first.aliases[0]) == ("C9100003", "heart attack")
    assert found[1][0].concept_id == "C9100020"
    for candidates in found:
        best = [max(c.similarities) for c in candidates]
        assert best == sorted(best, reverse=True) or np.allclose(best, sorted(best, reverse=True), atol=1e-5)
        assert not candidates or sum(len(c.aliases) for c in candidates) >= 10  # there are k names, and one name can belong to several concepts
        for c in candidates:
            assert len(c.aliases) == len(c.similarities) == len(set(c.aliases))
            assert all(type(s) is float for s in c.similarities)
            assert set(c.aliases) <= set(linker.kb.cui_to_entity[c.concept_id].aliases)
    assert found[1][0].similarities[0] == found[4][0].similarities[0] == 1.0  # a name itself, though stored vectors are rounded
    assert linker.candidate_generator([], 3) == []
    assert len(linker.candidate_generator(["cold"], 10_000)[0]) == len(linker.kb)


def test_kb_is_scispacys(linker: Any):
    assert linker.umls is linker.kb
    entity = linker.kb.cui_to_entity["C9100026"]
    assert entity.canonical_name == "gastro-oesophageal reflux disease"
    assert entity._fields == ("concept_id", "canonical_name", "aliases", "types", "definition")
    assert linker.kb.alias_to_cuis["cold"] == {"C9100020", "C9100029"}
    with pytest.raises(KeyError):
        linker.kb.cui_to_entity["C0000000"]


# -- files ----------------------------------------------------------------------------------------------------------------


def copy_of(folder: Path, target: Path) -> Path:
    """Return a copy of a linker folder that a test can damage: small files are copied, weights are linked."""

    def put(source: str, to: str) -> None:
        if os.path.getsize(source) > 5_000_000:
            os.link(source, to)
        else:
            shutil.copyfile(source, to)

    shutil.copytree(folder, target, copy_function=put)
    return target


def test_pipeline_to_disk_and_back(nlp: Language, tmp_path: Path, one_by_one: List[Doc]):
    nlp.to_disk(tmp_path / "pipe")
    nlp.to_disk(tmp_path / "pipe")  # into the folder that it was loaded from
    again = spacy.load(tmp_path / "pipe")
    linker: Any = again.get_pipe("sapbert_linker")
    assert linker.folder == tmp_path / "pipe" / "sapbert_linker" / "linker"
    assert linker.rules.threshold == 0.5
    again.to_disk(tmp_path / "pipe")  # into the folder whose files it has mapped
    same(list(again.pipe(notes())), one_by_one)
    assert {p.suffix for p in (tmp_path / "pipe" / "sapbert_linker").rglob("*") if p.is_file()} <= {
        ".json",
        ".sqlite",
        ".npy",
        ".ann",
        ".safetensors",
        ".txt",
    }


def test_a_saved_pipeline_runs_no_code_of_its_encoder(nlp: Language, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Tested with `spacy.load`, and with the linker folder by its name, whatever the config says."""
    asked: List[str] = []
    monkeypatch.setattr("builtins.input", lambda prompt="": asked.append(prompt) or "y")
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    pipe, marker = tmp_path / "pipe", tmp_path / "marker"
    nlp.to_disk(pipe)
    folder = pipe / "sapbert_linker" / "linker"
    config = json.loads((folder / "encoder" / "config.json").read_text())
    config.update(model_type="own-bert", auto_map={"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"})
    (folder / "encoder" / "config.json").write_text(json.dumps(config))
    for code in (f"open({str(marker)!r}, 'w').close()", None):
        if code is None:
            (folder / "encoder" / "own.py").unlink()
        else:
            (folder / "encoder" / "own.py").write_text(code)
        write_manifest(folder / "encoder", "encoder", 1, {"name": "", "architecture": bundle.NAME_ENCODER})
        for trust in ({}, {"trust_remote_code": True}):
            settings = {"components": {"sapbert_linker": {"model": {"transformer_config": trust, "tokenizer_config": trust}}}}
            with pytest.raises(SapbertError, match="E307"):
                spacy.load(pipe, config=settings)
            made: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(folder), **settings["components"]["sapbert_linker"]})
            with pytest.raises(SapbertError, match="E307"):
                made(mention("cold"))
        with pytest.raises(SapbertError, match="E307"):
            bundle.worker_encoder(folder / "encoder", {}, "cpu")
    assert (asked, marker.exists()) == ([], False)


def test_to_disk_and_from_disk_exclude(linker: Any, other: Any, tiny_linker: Path, tmp_path: Path):
    linker.to_disk(tmp_path / "all")
    linker.to_disk(tmp_path / "few", exclude=["model", "index"])
    assert sorted(p.name for p in (tmp_path / "few" / "linker").iterdir()) == ["kb", "manifest.json", "ranker.json"]
    made = other()
    made.from_disk(tmp_path / "few", exclude=["model", "index"])
    assert made.folder == tmp_path / "few" / "linker"
    assert links(made(mention("cold"))) == [("cold", "C9100020")]
    made.from_disk(tmp_path / "all", exclude=["kb", "model"])
    assert links(made(mention("a cold"))) == [("a cold", "C9100020")]
    for part, code in (("model", "E003"), ("index", "E203")):
        with pytest.raises(SapbertError, match=code):
            SapBertLinker(NameEncoder(), AnnoyIndex()).from_disk(tmp_path / "all", exclude=[part])
    with pytest.raises(SapbertError, match="E101") as info:
        other().from_disk(tmp_path / "nowhere")
    assert isinstance(info.value, FileNotFoundError)


@pytest.mark.parametrize("part", ["kb", "index"])
def test_a_part_that_was_kept_is_saved_and_pickled_with_the_others(linker: Any, other: Any, tiny_linker: Path, tmp_path: Path, part: str):
    linker.to_disk(tmp_path / "few", exclude=[part])
    made = linker_of(tiny_linker)
    made.load()
    made.from_disk(tmp_path / "few", exclude=[part])
    made.to_disk(tmp_path / "whole")
    assert folder_to_bytes(tmp_path / "whole" / "linker") == folder_to_bytes(tiny_linker)
    assert links(pickle.loads(pickle.dumps(made))(mention("cold"))) == [("cold", "C9100020")]
    made.to_disk(tmp_path / "few")  # the folder in use becomes complete
    assert folder_to_bytes(tmp_path / "few" / "linker") == folder_to_bytes(tiny_linker)


def test_a_part_that_came_in_bytes_stays_while_it_is_kept(linker: Any, other: Any, tiny_linker: Path):
    data = linker.to_bytes(exclude=["model", "index"])
    made = other()
    made.from_bytes(data, exclude=["model", "index"])
    folder = made.folder
    made.set_folder(tiny_linker, exclude=["kb", "model", "index"])
    assert (made.bundle.parts["kb"], (folder / "kb").is_dir()) == (folder / "kb", True)
    assert links(pickle.loads(pickle.dumps(made))(mention("cold"))) == [("cold", "C9100020")]
    made.set_folder(tiny_linker, exclude=["model", "index"])
    assert not folder.exists()


def linker_of(folder: Path) -> SapBertLinker:
    return SapBertLinker(NameEncoder(), AnnoyIndex(), linker_name=str(folder))


def test_what_is_excluded_stays_as_it_was_saved_before(linker: Any, tmp_path: Path):
    """Other files in the folder are kept too, and a second save leaves no other folder next to it."""
    linker.to_disk(tmp_path)
    folder = tmp_path / "linker"
    (folder / "difference.json").write_text("{}")
    (folder / "encoder" / "note.txt").write_text("of the first save")
    (folder / "kb" / "note.txt").write_text("of the first save")
    linker.to_disk(tmp_path, exclude=["model"])
    assert sorted(p.name for p in folder.iterdir()) == ["difference.json", "encoder", "index", "kb", "manifest.json", "ranker.json"]
    assert (folder / "encoder" / "note.txt").read_text() == "of the first save"
    assert not (folder / "kb" / "note.txt").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["linker"]
    assert (folder / "kb").stat().st_mode & 0o777 == (tmp_path / "linker").stat().st_mode & 0o777


@pytest.mark.parametrize("failing", ["the third file", "the manifest", "the additions"])
def test_a_full_disk_keeps_the_linker_that_was_saved_before(tiny_linker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str):
    made: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker)})
    made.add_alias("C9100020", "the sniffles of May")
    made.to_disk(tmp_path)
    before = folder_to_bytes(tmp_path)
    made.add_alias("C9100020", "the sniffles of June")
    copied: List[str] = []

    copyfile = shutil.copyfile

    def full(source: Any, target: Any, **more: Any) -> Any:
        copied.append(str(target))
        if (failing == "the third file" and len(copied) >= 3) or (failing == "the manifest" and Path(source) == tiny_linker / "manifest.json"):
            raise OSError(errno.ENOSPC, "No space left on device", str(target))
        return copyfile(source, target, **more)

    monkeypatch.setattr(shutil, "copyfile", full)  # all copying in shutil uses this function
    if failing == "the additions":
        monkeypatch.setattr(np, "save", lambda *args: (_ for _ in ()).throw(OSError("1000000 requested and 393200 written")))
    with pytest.raises(SapbertError, match="E008") as error:
        made.to_disk(tmp_path)
    assert str(error.value).count("E008") == 1
    assert str(tmp_path / "linker") in str(error.value)
    assert folder_to_bytes(tmp_path) == before
    monkeypatch.undo()
    again = SapBertLinker(NameEncoder(), AnnoyIndex()).from_disk(tmp_path)
    assert links(again(mention("the sniffles of May"))) == [("the sniffles of May", "C9100020")]
    made.to_disk(tmp_path)  # with free space again
    assert links(SapBertLinker(NameEncoder(), AnnoyIndex()).from_disk(tmp_path)(mention("the sniffles of June")))[0][1] == "C9100020"


def test_a_full_disk_under_the_folder_in_use(tiny_linker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """In the folder in use, only additions and the calibration are written."""
    linker_of(tiny_linker).to_disk(tmp_path)
    made = SapBertLinker(NameEncoder(), AnnoyIndex()).from_disk(tmp_path)
    made.add_alias("C9100020", "the sniffles of May")
    made.to_disk(tmp_path)
    before = folder_to_bytes(tmp_path)
    made.add_alias("C9100020", "the sniffles of June")

    def full(file: Any, array: Any) -> None:
        file.write(b"half")
        raise OSError("1000000 requested and 393200 written")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(SapbertError, match="E008"):
        made.to_disk(tmp_path)
    assert folder_to_bytes(tmp_path) == before
    monkeypatch.undo()
    made.to_disk(tmp_path)
    assert folder_to_bytes(tmp_path) != before


def test_a_linked_folder_is_written_where_it_leads(linker: Any, tmp_path: Path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "pipe").mkdir()
    (tmp_path / "pipe" / "linker").symlink_to(tmp_path / "elsewhere")
    linker.to_disk(tmp_path / "pipe")
    assert (tmp_path / "pipe" / "linker").is_symlink()
    assert sorted(p.name for p in (tmp_path / "elsewhere").iterdir()) == ["encoder", "index", "kb", "manifest.json", "ranker.json"]


SAVING = """
import os, shutil, sys, time
import spacy
linker = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": sys.argv[1]})
linker.load()
copy, replace = shutil.copyfile, os.replace
def stop():
    print("in the middle", flush=True)
    time.sleep(600)  # it is killed before
def slow(source, target, **more):
    if "/index/" in os.fspath(source):
        stop()
    return copy(source, target, **more)
def rename(source, target):
    replace(source, target)
    if str(source).endswith("/linker"):
        stop()
if sys.argv[3] == "copying":
    shutil.copyfile = slow
else:
    os.replace = rename
linker.to_disk(sys.argv[2])
"""


@pytest.mark.e2e
@pytest.mark.parametrize("when", ["copying", "between two renames"])
def test_a_process_killed_while_it_saves_leaves_the_linker_that_was_there(linker: Any, tiny_linker: Path, tmp_path: Path, when: str):
    linker.to_disk(tmp_path)
    before = folder_to_bytes(tmp_path / "linker")
    process = subprocess.Popen([sys.executable, "-c", SAVING, str(tiny_linker), str(tmp_path), when], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "in the middle\n"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    made = SapBertLinker(NameEncoder(), AnnoyIndex(), linker_name=str(tmp_path / "linker"))
    assert links(made(mention("cold"))) == [("cold", "C9100020")]
    assert folder_to_bytes(tmp_path / "linker") == before
    for left in tmp_path.glob(".linker.*.tmp"):
        os.utime(left, (0, 0))
    linker.to_disk(tmp_path)  # removes the files that the killed process has left
    assert folder_to_bytes(tmp_path) == {f"linker/{path}": data for path, data in before.items()}


def test_to_bytes_and_from_bytes(nlp: Language, other: Any, linker: Any, one_by_one: List[Doc]):
    data = linker.to_bytes()
    made: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"threshold": 0.5})
    made.from_bytes(data)
    same(list(made.pipe(notes())), one_by_one)
    small = linker.to_bytes(exclude=["model"])
    assert len(small) < len(data) / 10
    same([other().from_bytes(small, exclude=["model"])(doc) for doc in notes()], one_by_one)
    with pytest.raises((ValueError, TypeError)):
        other().from_bytes(data[: len(data) // 2])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()  # it may be a link
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("kb/kb.sqlite", "E102"),
        ("kb/names.npy", "E102"),
        ("index/forest.ann", "E202"),
        ("index/vectors.npy", "E202"),
        ("encoder/config.json", "E110"),
    ],
)
@pytest.mark.parametrize("how", ["changed", "truncated", "missing"])
def test_damaged_files_are_refused(tiny_linker: Path, tmp_path: Path, file: str, code: str, how: str):
    folder = copy_of(tiny_linker, tmp_path / "linker")
    if how == "changed":
        flip(folder / file)
    elif how == "truncated":
        os.truncate(folder / file, (folder / file).stat().st_size // 2)
    else:
        (folder / file).unlink()
    linker = SapBertLinker(NameEncoder(), AnnoyIndex(), linker_name=str(folder))
    with pytest.raises(DamagedFile, match=code):
        linker(mention("cold"))
    with pytest.raises(DamagedFile, match=code):  # the second try fails too, because no half-loaded linker is used
        linker.load()


@pytest.mark.parametrize("part", ["", "kb", "index", "encoder"])
def test_missing_and_foreign_manifests(tiny_linker: Path, tmp_path: Path, part: str):
    folder = copy_of(tiny_linker, tmp_path / "linker")
    manifest = folder / part / "manifest.json"
    manifest.write_text('{"kind": "recipe", "format": 1, "files": {}}')
    missing, damaged = {"": ("E101", "E102"), "kb": ("E101", "E102"), "index": ("E201", "E202"), "encoder": ("E109", "E110")}[part]
    with pytest.raises(DamagedFile, match=rf"{damaged}.*'recipe'"):
        SapBertLinker(NameEncoder(), AnnoyIndex(), linker_name=str(folder)).load()
    manifest.write_text("{")
    with pytest.raises(DamagedFile, match="not JSON"):
        SapBertLinker(NameEncoder(), AnnoyIndex(), linker_name=str(folder)).load()
    manifest.unlink()
    with pytest.raises(MissingFile, match=missing):
        SapBertLinker(NameEncoder(), AnnoyIndex(), linker_name=str(folder)).load()


def rebuilt(folder: Path, vectors: np.ndarray, built_for: Dict[str, str]) -> None:
    index = ExactIndex()
    index.build(vectors.astype(np.float32))
    index.report = {"built_for": built_for}
    shutil.rmtree(folder / "index")
    index.to_disk(folder / "index")
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "index": "spacy-sapbert.ExactIndex.v1"}))


def test_an_index_of_another_encoder_dimension_or_kb_is_refused(linker: Any, other: Any, tiny_linker: Path, tmp_path: Path):
    folder = copy_of(tiny_linker, tmp_path / "linker")
    kb = KnowledgeBase(folder / "kb")
    vectors = linker.model.predict(list(kb.surface_forms()))
    right = {"encoder": linker.model.fingerprint, "encoder_name": "the right one", "kb": kb.fingerprint}
    rebuilt(folder, vectors, right)
    made = other()
    made.set_folder(folder, exclude=["model"])
    assert type(made.index) is ExactIndex  # a linker has the engine that it was built with
    expected = result(made(mention("heart attacks")))
    for wrong, matrix, different in (
        ({**right, "encoder": "0" * 32, "encoder_name": "biolord"}, vectors, "encoder"),
        ({**right, "kb": "0" * 64}, vectors, "knowledge base"),
        (right, vectors[:, :100], "number of dimensions"),
        (right, vectors[:-1], "number of names"),
    ):
        rebuilt(folder, matrix, wrong)
        with pytest.raises(SapbertError, match=rf"E203.*they differ in {different}\.") as info:
            made.set_folder(folder, exclude=["model"])
        assert wrong["encoder_name"] in str(info.value)
        assert result(made(mention("heart attacks"))) == expected  # a refused folder does not change the linker


def test_an_encoder_that_the_linker_was_not_built_with_is_refused(tiny_linker: Path):
    """Without the error, the name of another encoder would be silently ignored."""
    model = {"@architectures": "spacy-sapbert.NameEncoder.v1", "name": "cambridgeltl/SapBERT-from-PubMedBERT-fulltext"}
    linker: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker), "model": model})
    for _ in range(2):
        with pytest.raises(SapbertError, match=r"E203.*all-MiniLM-L6-v2.*SapBERT-from-PubMedBERT-fulltext"):
            linker(mention("cold"))


# -- building from a config -----------------------------------------------------------------------------------------------

CONFIG = """
[nlp]
lang = "en"
pipeline = ["concept_matcher", "sapbert_linker"]

[components]

[components.concept_matcher]
factory = "concept_matcher"

[components.sapbert_linker]
factory = "sapbert_linker"
threshold = 0.8

[components.sapbert_linker.index]
@sapbert_indexes = "spacy-sapbert.ExactIndex.v1"

[initialize]

[initialize.components]

[initialize.components.sapbert_linker]

[initialize.components.sapbert_linker.kb_loader]
"""


def from_config(text: str) -> Language:
    from spacy.util import load_model_from_config
    from thinc.api import Config

    return load_model_from_config(Config().from_str(text), auto_fill=True)


def test_initialize_from_a_folder(tiny_linker: Path, tmp_path: Path):
    nlp = from_config(CONFIG + f'@misc = "spacy-sapbert.Folder.v1"\npath = "{tiny_linker}"\n')
    nlp.remove_pipe("concept_matcher")
    nlp.initialize()
    assert nlp.get_pipe("sapbert_linker").folder == tiny_linker  # type: ignore[attr-defined]
    assert links(nlp.get_pipe("sapbert_linker")(mention("tummy aches")))[0][1] == "C9100037"  # type: ignore[operator]
    nlp.config["initialize"]["components"]["sapbert_linker"]["kb_loader"]["path"] = str(tmp_path / "nowhere")
    with pytest.raises(MissingFile, match="E101"):
        nlp.initialize()


def test_initialize_without_a_loader_reads_what_is_named(tiny_linker: Path):
    nlp = spacy.blank("en")
    linker: Any = nlp.add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker)})
    nlp.initialize()
    assert linker.folder == tiny_linker


@pytest.mark.e2e
def test_assemble_package_and_load_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`spacy assemble` builds a linker from a source file without a script; the pipeline then needs neither source nor cache."""
    from spacy.cli._util import app
    from spacy.cli.package import package
    from typer.testing import CliRunner

    (tmp_path / "drugs.tsv").write_text(
        "concept_id\tname\tsynonyms\ttypes\nC0000001\taspirin\tacetylsalicylic acid\tT121\nC0000002\tmetformin\t\tT121\n"
    )
    source = f'@misc = "spacy-sapbert.Sources.v1"\npaths = ["{tmp_path / "drugs.tsv"}"]\nout = "{tmp_path / "built"}"\nprogress = false\n'
    (tmp_path / "config.cfg").write_text(CONFIG + source)
    monkeypatch.setenv(default_linkers.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    result = CliRunner().invoke(app, ["assemble", str(tmp_path / "config.cfg"), str(tmp_path / "pipe")])
    assert result.exit_code == 0, (result.output, result.exception)
    for gone in ("drugs.tsv", "built", "cache"):
        path = tmp_path / gone
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    package(tmp_path / "pipe", tmp_path, name="drugs", version="1.0.0", create_sdist=False, create_wheel=False, silent=True)
    packaged = tmp_path / "en_drugs-1.0.0"
    meta = json.loads((packaged / "meta.json").read_text())
    assert any(requirement.startswith("spacy-sapbert>=") for requirement in meta["requirements"])
    code = (
        "import spacy, sys; nlp = spacy.load(sys.argv[1]); doc = nlp('Acetylsalicylic acid, Metformins, no seizures.');"
        "print([(e.text, e.label_, e.kb_id_) for e in doc.ents], type(nlp.get_pipe('sapbert_linker').index).__name__)"
    )
    inner = next(packaged.glob("en_drugs/en_drugs-1.0.0"))
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(inner)], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip().endswith("[('Acetylsalicylic acid', 'CHEM', 'C0000001'), ('Metformins', 'CHEM', 'C0000002')] ExactIndex")
    assert not (tmp_path / "cache").exists()
