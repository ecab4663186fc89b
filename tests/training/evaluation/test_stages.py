"""The ranker and the cross-encoder on benchmarks; the rankers have weights from which the order is computed by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
import spacy
from spacy.tokens import Span

from spacy_sapbert.build import linker as building
from spacy_sapbert.encoders.static import StaticEncoder
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.kb.builder import Source
from spacy_sapbert.kb.concept import Concept, Name
from spacy_sapbert.ranking.ranker import FEATURES, NUMBER_MISSING, Ranker
from spacy_sapbert.ranking.rerank import READ
from training.corpora.mention import Gold
from training.data.similarity import TextPair
from training.evaluation import benchmarks, dictionaries, stages, systems

NAMES = [
    "diabetes mellitus",
    "type 1 diabetes mellitus",
    "type 2 diabetes mellitus",
    "insulin resistant diabetes",
    "cerebellar ataxia 2",
    "gait ataxia",
]
LABELS = [0, 1, 2, 2, 3, 4]


@pytest.fixture(scope="module")
def fast():
    return StaticEncoder().initialize()


def made(names, labels, entry=None):
    return dictionaries.make_dictionary(names, np.arange(len(names)), np.array(labels), max(labels) + 1, {"source": "hand"}, entry)


def task(queries, golds, dictionary, **more):
    return benchmarks.ConceptBenchmark("hand", "Hand", "As was said.", queries, [Gold(((gold,),), ()) for gold in golds], dictionary, **more)


def measure(fast, benchmark, stage):
    encoded = systems.encode_benchmarks(fast, [benchmark])
    return stages.measure_stages(fast, [benchmark], encoded, [stage])[stage]["hand"].values


def only_numbers(monkeypatch, fast):
    """Make a ranker the one of the package: the cosine, minus 1 if no name that was found has the numbers of the mention."""
    weights = tuple({"cosine": 1.0, NUMBER_MISSING: -1.0}.get(name, 0.0) for name in FEATURES)
    monkeypatch.setattr(stages, "shipped_ranker", lambda encoder, kb: Ranker(weights, encoder.fingerprint, "by hand"))


def test_names_of_systems():
    assert stages.named_with("shipped", "ranker") == "shipped + ranker"
    assert stages.named_with("recipe#2", "cross_encoder") == "recipe + cross_encoder#2"


@pytest.mark.parametrize(
    ("given", "folders", "words"),
    [(["ranker", "rank"], ["fast"], "'rank'.*ranker, cross_encoder"), (["ranker"], ["", "artifacts/encoder"], "only for its own encoders")],
)
def test_stages_that_cannot_be_measured(given, folders, words):
    with pytest.raises(SapbertError, match=rf"\[E548\].*'--stages'.*{words}"):
        stages.check_stages(given, folders)
    stages.check_stages([], folders)  # nothing is asked for


def test_the_encoder_of_a_stage():
    assert stages.alone("mine + ranker") == "mine"
    assert stages.alone("mine + more + cross_encoder") == "mine + more"
    assert stages.alone("mine + more") is None


def test_a_knowledge_base_has_the_labels_as_ids_and_the_canonical_name_first(tmp_path):
    rows, labels = np.array([0, 1, 1, 2]), np.array([0, 0, 3, 3])
    dictionary = dictionaries.make_dictionary(
        ["cold", "flu", "chill"], rows, labels, 4, {}, lambda label: (str(label), {0: "Flu", 3: "elsewhere"}[label])
    )
    kb = stages.knowledge_base_of(dictionary, tmp_path / "kb")
    found = {kb.concept_id(row): [name.text for name in kb.names_of(row)] for row in range(len(kb))}
    assert found == {"LABEL:0": ["flu", "cold"], "LABEL:3": ["flu", "chill"]}


def test_the_ranker_decides_the_order(fast, monkeypatch):
    """The cosine prefers "gait ataxia", which lacks the number."""
    benchmark = task(["gait ataxia 2", "ataxia of gait"], [3, 4], made(NAMES, LABELS))
    assert systems.measure_encoder(fast, [benchmark])["hand"].values["strict_at1"].tolist() == [0.0, 1.0]
    only_numbers(monkeypatch, fast)
    ranked = measure(fast, benchmark, "ranker")
    assert ranked["strict_at1"].tolist() == ranked["strict_mrr"].tolist() == [1.0, 1.0]


def test_all_parts_of_a_mention_must_be_right(fast, monkeypatch):
    only_numbers(monkeypatch, fast)
    benchmark = task(["gait ataxia 2", "gait ataxia", "gait ataxia 2", "gait ataxia"], [3, 4, 3, 3], made(NAMES, LABELS), parts=(2, 2))
    assert measure(fast, benchmark, "ranker")["strict_at1"].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("stage", stages.STAGES)
def test_concepts_with_the_same_name_count_as_their_expectation(fast, stage):
    """The first three queries are names; the last is not, so that the stages rank it, and they can't tell the two concepts apart either."""
    rows, labels = np.array([0, 0, 1]), np.array([0, 1, 2])
    dictionary = dictionaries.make_dictionary(["common cold", "influenza"], rows, labels, 4, {"source": "hand"})  # label 3 has no name
    benchmark = task(["common cold", "common cold", "influenza", "a very common cold", "influenza"], [0, 1, 2, 1, 3], dictionary)
    values = measure(fast, benchmark, stage)
    assert values["strict_at1"].tolist() == [0.5, 0.5, 1.0, 0.5, 0.0]
    assert values["strict_at5"].tolist() == [1.0, 1.0, 1.0, 1.0, 0.0]
    assert values["strict_mrr"] == pytest.approx([0.75, 0.75, 1.0, 0.75, 0.0])


def test_an_exact_match_comes_before_a_name_with_the_same_vector(fast):
    """The static encoder does not know the order of words."""
    benchmark = task(["ataxia gait", "gait ataxia"], [0, 1], made(["ataxia gait", "gait ataxia"], [0, 1]))
    assert systems.measure_encoder(fast, [benchmark])["hand"].values["strict_at1"].tolist() == [0.5, 0.5]
    assert measure(fast, benchmark, "ranker")["strict_at1"].tolist() == [1.0, 1.0]


def test_a_concept_that_is_not_among_the_nearest_names_is_never_right(fast):
    """The linker fetches 30 names; the 31st name is that of the gold of the first query."""
    names = [f"heart disease of type {number}" for number in range(30)] + ["finger"]
    benchmark = task(["heart disease", "fingers"], [30, 30], made(names, range(31)))
    assert systems.measure_encoder(fast, [benchmark])["hand"].values["strict_mrr"][0] > 0
    values = measure(fast, benchmark, "ranker")
    assert values["strict_at5"].tolist() == values["strict_mrr"].tolist() == [0.0, 1.0]


def test_names_with_capitals(fast):
    benchmark = task(["Fever of unknown origin"], [0], made(["Fever", "AIDS", "aids"], [0, 1, 2]))
    assert measure(fast, benchmark, "ranker")["strict_at1"].tolist() == [1.0]


def test_mentions_that_were_seen_come_first(fast):
    benchmark = task(["gait ataxia"], [0], made(NAMES, LABELS), seen={"gait ataxia": {0: 2}})
    assert measure(fast, benchmark, "ranker")["strict_at1"].tolist() == [1.0]


def test_benchmarks_of_pairs_and_of_names_are_left_out(fast):
    names = task(["gait ataxia"], [5], made(NAMES, range(6)), by_names=True)
    pairs = benchmarks.SimilarityBenchmark("pairs", "Pairs", "As was said.", [TextPair("gait", "walk", 1.0), TextPair("gait", "eye", 0.0)])
    encoded = systems.encode_benchmarks(fast, [names, pairs])
    assert stages.measure_stages(fast, [names, pairs], encoded, ["ranker"]) == {"ranker": {}}


@pytest.mark.parametrize("rerank", [None, "cross_encoder"])
def test_the_order_is_that_of_the_linker(fast, tmp_path, rerank):
    """The same names, built into a linker, whose first concepts say what is right. The encoder alone ranks the last two queries otherwise."""
    queries = ["diabetes type two", "juvenile diabetes", "unsteady gait", "resistance to insulin", "cerebellar gait 2", "insulin type 1", "ataxias"]
    concepts = {}
    for name, label in zip(NAMES, LABELS):
        names = concepts.setdefault(label, Concept(f"C{label:07}", "T", [])).names
        names.append(Name(name, "T", rank=min(len(names), 1)))
    folder = tmp_path / "linker"
    building.build_linker([Source("hand", list(concepts.values()))], folder, model=StaticEncoder(), progress=False)
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker", config={"linker_name": str(folder), "rerank": rerank, "threshold": -1.0})
    docs = []
    for query in queries:
        doc = nlp.make_doc(query)
        doc.ents = [Span(doc, 0, len(doc), label="MENTION")]
        docs.append(doc)
    first = [int(doc.ents[0]._.kb_explain["id"][1:]) for doc in nlp.pipe(docs)]
    benchmark = task(queries, first, made(NAMES, LABELS))
    assert measure(fast, benchmark, "ranker" if rerank is None else "cross_encoder")["strict_at1"].tolist() == [1.0] * len(queries)
    assert systems.measure_encoder(fast, [benchmark])["hand"].values["strict_at1"].tolist() == [1.0] * (len(queries) - 2) + [0.0, 0.0]


def test_only_the_cross_encoder_reranks(fast, tmp_path):
    kb = stages.knowledge_base_of(made(NAMES, LABELS), tmp_path / "kb")
    vectors = fast.encode(list(kb.surface_forms()))
    found = {stage: stages.make_search(kb, fast, vectors, stage) for stage in stages.STAGES}
    assert found["ranker"].reranker is None
    assert found["cross_encoder"].reranker.features == READ
    assert found["ranker"].ranker == found["cross_encoder"].ranker
    assert found["ranker"].ranker.encoder == fast.fingerprint


def test_the_command_adds_a_row_for_each_stage(tmp_path, command):
    data = tmp_path / "data"
    (data / "corpora").mkdir(parents=True)
    names = "".join(f"C{label:07}||{name}\n" for name, label in zip(NAMES, LABELS))
    (data / "names.txt").write_text(names, encoding="utf-8")
    (data / "corpora" / "hand.txt").write_text(
        "1|t|Diabetes mellitus 2 and ataxia\n1\t0\t19\tDiabetes mellitus 2\tDisease\tC0000002\n", encoding="utf-8"
    )
    out = tmp_path / "out.json"
    arguments = ["--encoder", "mine=fast", "--encoder", "base=", "--set", f"hand={data / 'corpora' / 'hand.txt'},{data / 'names.txt'}"]
    command("evaluate", [*arguments, "--stages", "ranker,cross_encoder", "--work", str(tmp_path / "work"), "--out", str(out)])
    result = json.loads(out.read_text(encoding="utf-8"))
    assert list(result["benchmarks"]["hand"]["systems"]) == ["mine", "mine + ranker", "mine + cross_encoder", "base"]
    assert result["stages"] == stages.PROTOCOL
    assert result["stages"] in out.with_suffix(".md").read_text(encoding="utf-8")
    command("evaluate", [*arguments, "--work", str(tmp_path / "work"), "--out", str(out)])
    without = json.loads(out.read_text(encoding="utf-8"))
    assert list(without["benchmarks"]["hand"]["systems"]) == ["mine", "base"]
    assert "stages" not in without
