"""Reliability computed by hand, and the command on a small corpus."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any, List

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_sapbert import bundle
from spacy_sapbert.calibration import Calibration, Evidence, Observed, read_calibration
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from training.corpora import GOLD, Corpus
from training.corpora.mention import GoldMention
from training.evaluation.benchmarks import BenchmarkReader
from training.evaluation.calibrate import (
    calibration_error,
    can_be_judged,
    check_parts,
    curve,
    measure_calibration,
    measure_judged,
    reliability,
    summary,
    to_fit_on,
)
from training.evaluation.parts import gold_docs, read_part

pytestmark = pytest.mark.usefixtures("one_thread")


def test_reliability_and_its_error():
    bins = reliability([0.05, 0.91, 0.99, 1.0, 0.45], [False, True, False, True, True])
    assert [(b["low"], b["high"], b["n"]) for b in bins] == [(0.0, 0.1, 1), (0.4, 0.5, 1), (0.9, 1.0, 3)]
    assert [b["confidence"] for b in bins] == pytest.approx([0.05, 0.45, 2.9 / 3])
    assert [b["accuracy"] for b in bins] == pytest.approx([0, 1, 2 / 3])
    assert calibration_error(bins) == pytest.approx((0.05 + 0.55 + 3 * (2.9 / 3 - 2 / 3)) / 5)


STATED = st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), min_size=1, max_size=40)


@settings(deadline=None)
@given(STATED)
def test_bins_keep_every_mention_and_their_order(stated):
    """Bins and their confidences are in order, and each mention is in exactly one bin."""
    bins = reliability([p for p, _ in stated], [right for _, right in stated])
    assert sum(b["n"] for b in bins) == len(stated)
    assert sum(b["n"] * b["accuracy"] for b in bins) == pytest.approx(sum(right for _, right in stated))
    assert [b["confidence"] for b in bins] == sorted(b["confidence"] for b in bins)
    assert all(b["low"] - 1e-9 <= b["confidence"] <= b["high"] + 1e-9 for b in bins)
    assert 0.0 <= calibration_error(bins) <= 1.0


@settings(deadline=None)
@given(STATED)
def test_a_lower_threshold_keeps_more(stated):
    """Compared with counting at each threshold; when the threshold falls, the share of kept mentions rises to all."""
    found = curve([p for p, _ in stated], [right for _, right in stated])
    thresholds, kept = [row["threshold"] for row in found], [row["kept"] for row in found]
    assert thresholds == sorted({p for p, _ in stated}, reverse=True)
    assert kept == sorted(set(kept))
    assert kept[-1] == 1.0
    for row in found:
        above = [right for p, right in stated if p >= row["threshold"]]
        assert (row["kept"], row["precision"]) == pytest.approx((len(above) / len(stated), sum(above) / len(above)))


def test_curve_keeps_equal_probabilities_together():
    assert curve([0.5, 0.9, 0.5, 0.2], [True, True, False, False]) == [
        {"threshold": 0.9, "precision": 1.0, "kept": 0.25},
        {"threshold": 0.5, "precision": pytest.approx(2 / 3), "kept": 0.75},
        {"threshold": 0.2, "precision": 0.5, "kept": 1.0},
    ]


class NoLinker:
    """A linker that always returns one and four candidates."""

    def set_targets(self, **asked: Any) -> None:
        pass

    def predict(self, docs: Any) -> List[Any]:
        found = [SimpleNamespace(answer=SimpleNamespace(candidates=[("A", 1.0)] * n)) for n in (1, 4)]
        return [SimpleNamespace(found=found)]


def test_measure_by_hand():
    by_hand = Calibration((0.0, 2.0, *[0.0] * 9), "hand", {}, {}, tuple([0.9] * 9 + [0.6]), tuple([True] * 9 + [False]), tuple([0.0] * 9 + [0.3]))
    found = measure_calibration(
        by_hand,
        [Observed(Evidence(score, 0, False), right, behind) for score, right, behind in ((1.0, True, 0.0), (0.1, False, 0.2), (0.9, False, None))],
        NoLinker(),
        [],
    )
    assert found["n_test"] == 3
    p = [0.880797, 0.549834, 0.858149]
    assert found["ece"] == pytest.approx((abs(p[0] + p[2] - 1) + p[1]) / 3, abs=1e-5)
    assert found["ece_raw"] == pytest.approx((1 + 0.1 - 1 + 1.0 * 0 + 0.9) / 3, abs=1e-5)
    # ten links, one of which is wrong, give 1 - 2/11; nine right ones give 1 - 1/10; the three others have probabilities below 0.9
    assert [(row["target_precision"], row["least_probability"], row["kept"]) for row in found["targets"]] == [
        (0.8, 0.6, pytest.approx(2 / 3)),
        (0.85, 0.9, 0.0),
        (0.9, 0.9, 0.0),
    ]
    assert [row["precision"] for row in found["targets"]] == [0.5, None, None]
    assert len(found["not_reached"]) == 3  # precision 0.95 and 0.98, and a coverage of 0.95 with eleven mentions
    assert {row["size"] for row in found["conformal"]} == {2.5}
    assert [(row["asked"], row["score_gap"], row["covered"]) for row in found["conformal"]] == [(0.8, 0.0, 0.5), (0.85, 0.3, 1.0), (0.9, 0.3, 1.0)]


def test_measure_judged_by_hand():
    """Two links with the probabilities 0.5 and 0.73: the error is the mean distance to right (1) and wrong (0)."""
    by_hand = Calibration((0.0, 1.0, *[0.0] * 9), "hand", {}, {}, (0.9,) * 9, (True,) * 9, (0.0,))
    found = measure_judged(by_hand, [Observed(Evidence(0.0, 1, False), True, 0.0), Observed(Evidence(1.0, 1, False), False, 0.1)])
    assert (found["n"], found["ece"]) == (2, pytest.approx((0.5 + 0.731059) / 2, abs=1e-5))
    assert [row["kept"] for row in found["targets"]] == [0.0, 0.0, 0.0]  # 0.9 with ten links, one of them wrong: 0.95 and 0.98 cannot be reached


def test_links_that_the_gold_can_judge(tiny_linker: Path):
    """C9100002 has codes of ICD10CM and SNOMEDCT_US, and is a CUI; C9100011 has no code but its CUI."""
    kb = KnowledgeBase(tiny_linker / "kb")

    def judged(concept: Any, *vocabularies: str) -> bool:
        return can_be_judged(Observed(Evidence(1.0, 0.1, True), True, 0.0, concept), vocabularies, kb)

    assert judged("C9100002", "ICD10CM")
    assert judged("C9100002", "MSH", "SNOMEDCT_US")
    assert judged("C9100011", "UMLS")
    assert not judged("C9100011", "ICD10CM", "MSH")
    assert judged(None, "MSH")  # nothing was found, which is wrong in every vocabulary


def test_mentions_to_fit_on_are_judged_and_evenly_spread(tiny_linker: Path):
    """Of five exact matches with ICD-10-CM gold, the one to a concept without such a code is left out, and of the other four every third is kept."""
    nlp = spacy.blank("en")
    linker: Any = nlp.add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker), "spans_key": GOLD})
    names = ["heart disease", "community-acquired pneumonia", "mitral stenosis", "hypertension", "asthma"]
    mentions = [GoldMention(str(i), 0, len(name), name, (("ICD10CM:I51.9",),)) for i, name in enumerate(names)]
    docs = gold_docs(Corpus({str(i): name for i, name in enumerate(names)}, mentions), nlp)
    every, left_out = to_fit_on(docs, linker, 100)
    assert ([span.text for doc in every for span in doc.spans[GOLD]], left_out) == ([name for name in names if "pneumonia" not in name], 1)
    two, _ = to_fit_on(docs, linker, 2)
    assert [span.text for doc in two for span in doc.spans[GOLD]] == ["heart disease", "asthma"]
    assert [len(doc.spans[GOLD]) for doc in docs] == [1] * 5  # the given Docs are not changed


def test_parts_of_the_gold_notes(tmp_path: Path):
    reader = BenchmarkReader(tmp_path, tmp_path, tmp_path, tmp_path)
    every, odd, even = (read_part(reader, name) for name in ("notes", "notes-odd", "notes-even"))
    assert list(every.documents)[::2] == list(odd.documents)
    assert sorted(every.documents) == sorted([*odd.documents, *even.documents])
    assert len(every.mentions) == len(odd.mentions) + len(even.mentions) == 1501
    assert sum(mention.gold == (("-1",),) for mention in every.mentions) == 86  # of 181 without a CUI, 95 have another id
    with pytest.raises(SapbertError, match="E519"):
        check_parts(["notes"], ["notes-odd"])
    check_parts(["notes-even", "bc5cdr-chemicals-train", "labeledin"], ["notes-odd"])
    with pytest.raises(SapbertError, match=r"E540.*labeledin.*notes-odd"):
        check_parts(["labeled"], ["notes"])


@pytest.fixture
def data(tiny_linker: Path, tmp_path: Path) -> Path:
    """GSC+ with every name of the tiny linker in dev; in test with one more word, and every third is not a name."""
    folder = tmp_path / "data" / "corpora" / "gsc_plus"
    folder.mkdir(parents=True)
    kb = KnowledgeBase(tiny_linker / "kb")
    names = [(entity.canonical_name, cui) for cui, entity in kb.cui_to_entity.items()]
    for part, word in (("dev", "mild"), ("test", "severe")):
        blocks = []
        for i, (name, cui) in enumerate(names):
            text = f"{word} {name}" if i % 3 else f"a {word} letter"
            blocks.append(f"{part}{i}\n{text}\n0\t{len(text)}\t{text}\t{cui}\n")
        (folder / f"GSCplus_{part}_gold.tsv").write_text("\n".join(blocks))
    return tmp_path / "data"


def test_command(tiny_linker: Path, data: Path, tmp_path: Path, command: Any):
    given = ["--linker", str(tiny_linker), "--data", str(data), "--calibration", str(tmp_path / "c.json"), "--out", str(tmp_path / "m.json")]
    shown = command("calibrate", given)
    found = json.loads((tmp_path / "m.json").read_text())
    made = read_calibration(tmp_path / "c.json")
    assert found["kind"] == "calibration"
    assert found["n_fit"] == found["n_test"] == len(made.right) == len(KnowledgeBase(tiny_linker / "kb"))
    assert found["weights"] == list(made.weights)
    assert 90 < found["index"]["recall"]["at_10"] <= found["index"]["recall"]["at_1"] == 100.0  # with 150 names, Annoy misses almost nothing
    assert found["index"]["mentions"] == found["n_test"] - 20  # a third are the same text, which counts once
    assert "gsc-dev" in made.fit_on
    assert 0.5 < sum(made.right) / len(made.right) < 0.7  # a third are not names
    assert found["ece"] < found["ece_raw"]
    assert len(found["targets"]) + len(found["conformal"]) + len(found["not_reached"]) == 9
    assert summary(found) in shown
    assert not (tiny_linker / bundle.CALIBRATION).exists()


@pytest.mark.parametrize("shared", [False, True])
def test_a_linker_that_other_programs_share_is_only_measured(
    shared: bool, tiny_linker: Path, data: Path, tmp_path: Path, command: Any, monkeypatch: pytest.MonkeyPatch
):
    cache = tmp_path / "cache"
    shutil.copytree(tiny_linker, cache / "linker")
    if shared:
        monkeypatch.setenv("SPACY_SAPBERT_CACHE", str(cache))
    shown = command("calibrate", ["--linker", str(cache / "linker"), "--data", str(data), "--out", str(tmp_path / "m.json")])
    found = json.loads((tmp_path / "m.json").read_text())
    assert "ece" in found
    assert found["linker"] == "linker"  # a path of this machine is not written
    assert shown.endswith("it was only measured. --calibration FILE writes the calibration.\n") is shared
    assert (cache / "linker" / bundle.CALIBRATION).exists() is not shared


def test_a_calibration_for_a_linker_that_reranks(tiny_linker: Path, data: Path, tmp_path: Path, command: Any):
    """The linker has a calibration for another order. It is replaced, so no warning tells that it does not fit."""
    linker = tmp_path / "linker"
    shutil.copytree(tiny_linker, linker)
    (linker / bundle.RANKER).unlink()
    given = ["--linker", str(linker), "--data", str(data), "--out", str(tmp_path / "m.json")]
    command("calibrate", given)
    plain = read_calibration(linker / bundle.CALIBRATION)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", r"\[W004\]")
        command("calibrate", [*given, "--rerank", "names"])
        spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(linker), "rerank": "names"}).load()  # type: ignore[attr-defined]
    made = read_calibration(linker / bundle.CALIBRATION)
    assert (plain.settings.get("rerank"), made.settings["rerank"]) == (None, "names")
    assert json.loads((tmp_path / "m.json").read_text())["settings"]["rerank"] == "names"
    assert made.probabilities != plain.probabilities


def test_several_parts(tiny_linker: Path, data: Path, tmp_path: Path, command: Any):
    """With two parts, every name is there twice."""
    gsc = data / "corpora" / "gsc_plus" / "GSCplus_dev_gold.tsv"
    lines = gsc.read_text().replace("mild", "dull").splitlines()
    pubtator = data / "corpora" / "ncbi_disease" / "train.pubtator.txt.gz"
    pubtator.parent.mkdir()
    blocks = [f"{i[3:]}|t|{text}\n{i[3:]}|a|\n{i[3:]}\t0\t{end}\t{text}\tDisease\t{cui}\n" for i, text, (_, end, _, cui) in _blocks(lines)]
    pubtator.write_bytes(gzip.compress("\n".join(blocks).encode()))
    given = ["--linker", str(tiny_linker), "--data", str(data), "--calibration", str(tmp_path / "c.json"), "--out", str(tmp_path / "m.json")]
    command("calibrate", [*given, "--fit", "gsc-dev, ncbi-train"])
    found = json.loads((tmp_path / "m.json").read_text())
    assert found["n_fit"] == 2 * found["n_test"]
    assert found["data"]["fit"] == f"gold mentions of gsc-dev, ncbi-train ({found['n_fit']} documents)"


def _blocks(lines: List[str]) -> List[Any]:
    return [(lines[i], lines[i + 1], lines[i + 2].split("\t")) for i in range(0, len(lines) - 2, 4)]


def test_documents_of_both_parts_are_left_out_of_the_measured_one(tiny_linker: Path, data: Path, tmp_path: Path, command: Any):
    """Ten documents of test have ids of dev documents."""
    gsc = data / "corpora" / "gsc_plus" / "GSCplus_test_gold.tsv"
    blocks = gsc.read_text().split("\n\n")
    gsc.write_text("\n\n".join(block.replace("test", "dev", 1) if i < 10 else block for i, block in enumerate(blocks)))
    given = ["--linker", str(tiny_linker), "--data", str(data), "--calibration", str(tmp_path / "c.json"), "--out", str(tmp_path / "m.json")]
    command("calibrate", given)
    found = json.loads((tmp_path / "m.json").read_text())
    (shared,) = found["left_out_of_test"]
    assert shared["corpora"] == ["gsc-dev", "gsc-test"]
    assert (shared["documents"], found["n_test"]) == (10, len(blocks) - 10)
    assert found["counts"]["gsc-dev"] == {
        "mentions": found["n_fit"],
        "off_offsets": 0,
        "without_id": 0,
        "missing_ids": 0,
        "missing_ids_most_frequent": {},
    }


def test_too_little_to_fit_on_leaves_the_linker_without(tiny_linker: Path, data: Path, tmp_path: Path, command: Any):
    gsc = data / "corpora" / "gsc_plus" / "GSCplus_dev_gold.tsv"
    gsc.write_text("\n\n".join(gsc.read_text().split("\n\n")[:20]))
    shown = command("calibrate", ["--linker", str(tiny_linker), "--data", str(data), "--out", str(tmp_path / "m.json")])
    assert "[E012]" in json.loads((tmp_path / "m.json").read_text())["absent"]
    assert "at least 50" in shown
    assert not (tiny_linker / bundle.CALIBRATION).exists()


def test_nothing_to_fit_on_is_said(tmp_path: Path, command: Any):
    shown = command("calibrate", ["--fit", "", "--out", str(tmp_path / "m.json")])
    assert json.loads((tmp_path / "m.json").read_text())["absent"].startswith("No calibration was fit")
    assert "No calibration was fit" in shown


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (["--test", "gsc-dev"], "E519"),
        (["--test", ""], "E548"),
        (["--fit", "gsc"], "E540"),
        (["--fit", "ncbi-train"], "E542"),
        (["--linker", "nowhere"], "E001"),
        (["--rerank", "all"], "E002"),
    ],
)
def test_bad_input(tiny_linker: Path, data: Path, tmp_path: Path, command: Any, change: List[str], code: str):
    with pytest.raises(SapbertError, match=re.escape(code)):
        command("calibrate", ["--linker", str(tiny_linker), "--data", str(data), "--out", str(tmp_path / "m.json"), *change])
    assert not (tmp_path / "m.json").exists()
