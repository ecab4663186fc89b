"""Pipelines on whole texts, counted by hand on three small documents."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import spacy

from spacy_sapbert.errors import SapbertError
from training.evaluation.end_to_end import BENCHMARKS, TextBenchmark, evaluate_pipelines, found_by, gold_of, measure_pipeline, read_benchmark
from training.evaluation.metrics import PredictedMention

ALL = TextBenchmark("hand", "", "gsc")

pytestmark = pytest.mark.usefixtures("one_thread")

GSC = """1
Chronic kidney disease with a common cold and odd feet.
0\t22\tChronic kidney disease\tC9100019
30\t41\tcommon cold\tC9100020
46\t54\todd feet\tC0000404

2
No kidney disease here but heart attack.
27\t39\theart attack\tC9100001

3
Nothing at all.
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """GSC+ dev. "heart attack" is C9100003, not the concept of this gold; C0000404 is not in the knowledge base."""
    folder = tmp_path / "data" / "corpora" / "gsc_plus"
    folder.mkdir(parents=True)
    (folder / "GSCplus_dev_gold.tsv").write_text(GSC)
    return tmp_path / "data"


@pytest.fixture(scope="module")
def nlp(tiny_linker: Path) -> Any:
    """A pipeline that marks three mentions in the first document, one of them one word too long, and the last two words of the second document."""
    nlp = spacy.blank("en")
    marks = ["Chronic kidney disease", "a common cold", "heart attack", "Nothing"]
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "PROBLEM", "pattern": mark} for mark in marks])
    nlp.add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker), "threshold": 0.7})
    return nlp


def test_what_is_found(nlp: Any, data: Path):
    found = found_by(nlp, read_benchmark("gsc-dev", data), ALL)
    assert [(one.start, one.end) for one in found if not one.ids] == [(0, 7)]  # "Nothing" is a mention without a link
    found = [one for one in found if one.ids]
    assert [(one.document, one.start, one.end, one.ids[0]) for one in found] == [
        ("1", 0, 22, "C9100019"),
        ("1", 28, 41, "C9100020"),
        ("2", 27, 39, "C9100003"),
    ]
    assert all(isinstance(one, PredictedMention) for one in found)


def test_nested_mentions_count_where_the_corpus_has_them(tiny_linker: Path, data: Path):
    nlp = spacy.blank("en")
    nlp.add_pipe("concept_matcher", config={"linker_name": str(tiny_linker), "all_key": "sapbert"})
    nlp.add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker)})
    corpus = read_benchmark("gsc-dev", data)
    spans = {nested: [(one.document, one.start, one.end) for one in found_by(nlp, corpus, ALL._replace(nested=nested))] for nested in (False, True)}
    assert set(spans[False]) < set(spans[True])
    assert len(spans[True]) == len(set(spans[True]))  # no span is counted twice
    assert ("1", 0, 22) in spans[False]
    assert any(a <= start and end <= b for d, start, end in set(spans[True]) - set(spans[False]) for c, a, b in spans[False] if d == c)


def test_figures_by_hand(nlp: Any, data: Path):
    """Gold: four mentions, four (document, concept) pairs. Found: three mentions; one is right with the exact span, two with overlap."""
    made = measure_pipeline(nlp, read_benchmark("gsc-dev", data), ALL)
    assert (made["n_documents"], made["n_gold"], made["n_predicted"]) == (3, 4, 3)
    intervals = {key: made[key].pop("f1_ci") for key in ("mention_exact", "mention_overlap", "document", "span_exact", "span_overlap")}
    assert made["span_exact"] == {"precision": 50.0, "recall": 50.0, "f1": 50.0}  # two of four spans, whatever they are linked to
    assert made["span_overlap"]["recall"] == 75.0
    became = {"right": 1, "wrong span": 1, "not in the dictionary": 1, "wrong meaning": 1, "not found": 0, "another id of the same meaning": 0}
    assert made["outcomes"] == became
    assert made["mention_exact"] == {"precision": pytest.approx(100 / 3), "recall": 25.0, "f1": pytest.approx(200 / 7)}
    assert made["mention_overlap"] == {"precision": pytest.approx(200 / 3), "recall": 50.0, "f1": pytest.approx(400 / 7)}
    assert intervals["mention_overlap"] == [0.0, 80.0]  # 80.0 is for the first document alone: 2 right, 2 found and 3 gold
    assert made["document"] == made["mention_overlap"]
    assert made["documents_per_second"] > 0
    assert made["note"] == "gold ids that the knowledge base does not have: 1, C0000404"


def test_gold_in_the_knowledge_bases_ids(nlp: Any, data: Path):
    """The gold may be a source's own id of a concept that has a CUI."""
    kb = nlp.get_pipe("sapbert_linker").kb
    corpus = read_benchmark("gsc-dev", data)
    given = (f"TOY:{i:07}" for i in range(1, 40))
    other = next(one for one in given if one in kb and kb.concept_id(kb.row_of(one)) != one)
    corpus = corpus._replace(mentions=[corpus.mentions[0]._replace(gold=((other, other), ("NOWHERE:1",)))])
    assert gold_of(corpus, kb)[0].gold == ((kb.concept_id(kb.row_of(other)),), ("NOWHERE:1",))


def test_concepts_of_other_vocabularies_are_not_found(nlp: Any, data: Path):
    kb = nlp.get_pipe("sapbert_linker").kb
    every = found_by(nlp, read_benchmark("gsc-dev", data), ALL)
    coded = [one for one in every if one.ids and "ICD10CM" in kb.codes(kb.row_of(one.ids[0]))]
    only = ALL._replace(vocabularies=("ICD10CM",))
    assert [one for one in found_by(nlp, read_benchmark("gsc-dev", data), only) if one.ids] == coded != []
    assert [one for one in found_by(nlp, read_benchmark("gsc-dev", data), BENCHMARKS["gsc-dev"]) if one.ids] == []


def test_mentions_of_other_groups_do_not_count(nlp: Any, data: Path):
    corpus = read_benchmark("gsc-dev", data)
    disorders = found_by(nlp, corpus, ALL._replace(groups=("DISO",)))
    assert [(one.start, one.kind) for one in disorders if one.ids] == [(0, "DISO"), (28, "DISO"), (27, "DISO")]
    assert found_by(nlp, corpus, ALL._replace(groups=("PROBLEM",)))[0].ids == ()  # the label of a mention without a link
    assert found_by(nlp, corpus, ALL._replace(groups=("CHEM",))) == []


def test_figures_of_each_kind(nlp: Any, data: Path):
    corpus = read_benchmark("gsc-dev", data)
    kinds = ["Disease", "Disease", "Chemical", "Disease"]
    corpus = corpus._replace(mentions=[mention._replace(kind=kind) for mention, kind in zip(corpus.mentions, kinds)])
    benchmark = ALL._replace(groups=("DISO", "CHEM"), kinds={"Disease": "DISO", "Chemical": "CHEM"})
    made = measure_pipeline(nlp, corpus, benchmark)["kinds"]
    assert (made["DISO"]["n_gold"], made["DISO"]["n_predicted"], made["CHEM"]["n_gold"], made["CHEM"]["n_predicted"]) == (3, 3, 1, 0)
    assert made["DISO"]["document"]["recall"] == pytest.approx(200 / 3)
    assert made["CHEM"]["document"]["f1"] == 0.0


def test_documents_without_places_have_the_document_level_only(nlp: Any, data: Path):
    corpus = read_benchmark("gsc-dev", data)
    corpus = corpus._replace(mentions=[mention._replace(start=0, end=0, text="") for mention in corpus.mentions])
    made = measure_pipeline(nlp, corpus, ALL)
    assert "mention_exact" not in made
    assert made["document"]["recall"] == 50.0


def test_command(tiny_linker: Path, data: Path, tmp_path: Path, command: Any):
    given = ["--linker", str(tiny_linker), "--benchmarks", "gsc-dev", "--data", str(data), "--out", str(tmp_path / "m.json")]
    shown = command("end-to-end", given)
    found = json.loads((tmp_path / "m.json").read_text())
    assert found["kind"] == "end-to-end"
    figures = found["systems"]["default"]["benchmarks"]["gsc-dev"]
    assert figures["n_predicted"] == 0  # the gold ids are from HPO, and no concept of this knowledge base has a code of HPO
    assert found["systems"]["default"]["components"][:2] == ["clinical_mentions", "concept_matcher"]
    assert f"{figures['mention_exact']['f1']:.1f} [" in (tmp_path / "m.md").read_text()
    assert "Only the text is given" in shown


def test_types_keep_what_is_no_phenotype_out(tiny_linker: Path, data: Path, tmp_path: Path, command: Any):
    given = ["--linker", str(tiny_linker), "--benchmarks", "gsc-dev", "--data", str(data), "--out", str(tmp_path / "m.json")]
    command("end-to-end", [*given, "--types", "DISO, T034"])
    found = json.loads((tmp_path / "m.json").read_text())
    assert found["settings"]["types"] == ["DISO", "T034"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (["--types", "NOSUCH"], "E104"),
        (["--benchmarks", "gsc-train"], "E540"),
        (["--benchmarks", "jax"], "E401"),
        (["--system", "x"], "E548"),
        (["--system", "x=nowhere"], "E402"),
    ],
)
def test_bad_input(data: Path, tmp_path: Path, tiny_linker: Path, command: Any, change: Any, code: str):
    given = ["--linker", str(tiny_linker), "--benchmarks", "gsc-dev", "--data", str(data), "--out", str(tmp_path / "m.json")]
    with pytest.raises(SapbertError, match=re.escape(code)):
        command("end-to-end", [*given, *change])
    assert not (tmp_path / "m.json").exists()


def test_nothing_to_measure_is_said(tmp_path: Path, command: Any):
    shown = command("end-to-end", ["--benchmarks", "", "--out", str(tmp_path / "m.json")])
    assert json.loads((tmp_path / "m.json").read_text())["absent"] == shown.strip()


def test_two_systems_side_by_side(nlp: Any, tiny_linker: Path, data: Path, tmp_path: Path):
    nlp.to_disk(tmp_path / "pipeline")
    found = evaluate_pipelines({"ours": "", "ruler": str(tmp_path / "pipeline")}, ["gsc-dev"], data, {"linker_name": str(tiny_linker)})
    assert found["systems"]["ruler"]["benchmarks"]["gsc-dev"]["n_predicted"] == 0
    assert found["systems"]["ours"]["components"][:2] == ["clinical_mentions", "concept_matcher"]
    assert found["systems"]["ruler"]["components"] == ["entity_ruler", "sapbert_linker"]  # the components of the given pipeline
    assert found["systems"]["ruler"]["made_of"] == found["systems"]["ours"]["made_of"]
    assert len(found["files"]["corpora/gsc_plus/GSCplus_dev_gold.tsv"]) == 16
