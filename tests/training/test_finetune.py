"""Fine-tuning on annotated mentions: what may be trained on, the pairs, the training."""

from __future__ import annotations

import json
import logging
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from trainings import command, mesh_kb

from spacy_sapbert.kb.builder import Source, build_kb
from spacy_sapbert.kb.concept import Concept, Name
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from training.finetune import looks_like_test

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    return mesh_kb(tmp_path_factory.mktemp("finetune") / "kb")


def corpus(path: Path, *lines: str) -> Path:
    """Write a corpus in PubTator from lines `document text mention id`; the mention is in the text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    blocks = []
    for line in lines:
        document, text, mention, concept = line.split("|")
        start = text.index(mention)
        blocks.append(f"{document}|t|{text}\n{document}|a|\n{document}\t{start}\t{start + len(mention)}\t{mention}\tDisease\t{concept}\n")
    path.write_text("\n".join(blocks))
    return path


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        *(
            (name, True)
            for name in ("test.pubtator.txt.gz", "NCBItestset_corpus.txt", "CDR_TestSet.PubTator.txt", "GSCplus_test_gold.tsv", "TEST.tsv")
        ),
        *((name, True) for name in ("ncbi/processed_test", "ncbi/test/corpus.txt", "fold-0.test.txt", "testing_data.tsv")),
        *(
            (name, False)
            for name in ("train.txt", "NCBItrainset_corpus.txt", "latest.tsv", "contest/notes.txt", "test/train.txt", "protest.ann", "devel.gz")
        ),
    ],
)
def test_names_of_test_parts(path: str, expected: bool, tmp_path: Path) -> None:
    assert looks_like_test(Path("/corpora") / path) is expected


def test_each_mention_learns_the_names_of_its_concept(kb: KnowledgeBase, tiny_base: Path, tmp_path: Path) -> None:
    train = corpus(
        tmp_path / "parts" / "train.txt",
        "1|A growth was seen|growth|D009369",
        "2|Sugar disease of adults|Sugar disease|D003924",
        "3|NIDDM is frequent|NIDDM|D003924",
        "4|Nothing known|Nothing|D000001",
    )
    dev = corpus(tmp_path / "parts" / "dev.txt", "3|NIDDM is frequent|NIDDM|D003924", "9|A new growth|new growth|D009369")
    out = tmp_path / "tuned"
    given = ["--kb", kb.path, "--encoder", tiny_base, "--out", out, "--dev", dev, "--layout", "pubtator"]
    ended = command("finetune", train, *given, "--batches.pairs", "2", "--training.epochs", "2", "--training.learning_rate", "1e-3")
    assert ended.exit_code == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert report["steps"] == 8  # 7 pairs: four batches of two, the last one filled up, in two epochs
    pairs = pq.read_table(tmp_path / "tuned.pairs" / "pairs.parquet").to_pylist()
    assert {(row["anchor"], row["positive"]) for row in pairs} == {
        ("growth", "neoplasms"),
        ("growth", "tumors"),
        ("sugar disease", "diabetes mellitus, type 2"),
        ("sugar disease", "niddm"),
        ("sugar disease", "adult onset diabetes"),
        ("niddm", "diabetes mellitus, type 2"),
        ("niddm", "adult onset diabetes"),
    }
    said = report["mentions"]
    assert {key: said[key] for key in ("mentions", "not_in_kb", "already_a_name", "held_out_queries", "documents_in_both")} == {
        "mentions": 4,
        "not_in_kb": 1,
        "already_a_name": 1,
        "held_out_queries": 1,
        "documents_in_both": 1,
    }
    assert set(report["before"]) == set(report["after"]) == {"held_out_at1", "held_out_at5"}
    settings = json.loads((out / "training.json").read_text())["settings"]
    assert {key: settings[key] for key in ("training.epochs", "loss.alpha", "loss.beta", "miner.margin", "training.keep")} == {
        "training.epochs": 2,
        "loss.alpha": 1.0,
        "loss.beta": 60.0,
        "miner.margin": 0.2,
        "training.keep": "last",
    }
    assert "Do not measure on the corpora from which the mentions were taken" in (out / "README.md").read_text()


def test_a_corpus_of_one_file_is_split_by_lists_of_documents(tiny_base: Path, tmp_path: Path) -> None:
    """MedMentions is one file of all parts, with a list of document ids for each part."""
    names = {"C0027651": ("Neoplasms", "Tumors"), "C0011860": ("Diabetes mellitus, type 2", "NIDDM")}
    kb = build_kb([Source("umls", [Concept(i, "T", names=[Name(name, "T") for name in found]) for i, found in names.items()])], tmp_path / "kb")
    every = corpus(
        tmp_path / "data" / "corpus_pubtator.txt",
        "25763772|A growth was seen|growth|UMLS:C0027651",
        "25847295|Sugar disease of adults|Sugar disease|UMLS:C0011860",
        "26316050|A new growth|new growth|UMLS:C0027651",
        "26406200|An odd growth|odd growth|UMLS:C0027651",
    )
    trng, dev, test = (every.with_name(f"corpus_pubtator_pmids_{name}.txt") for name in ("trng", "dev", "test"))
    trng.write_text("25763772\n25847295\n")
    dev.write_text("26316050\n")
    test.write_text("26406200\n")
    given = ["--kb", kb.path, "--encoder", tiny_base, "--out", tmp_path / "tuned", "--batches.pairs", "2"]
    ended = command("finetune", every, "--split", trng, "--dev", every, "--dev-split", dev, *given)
    assert ended.exit_code == 0, ended.stderr
    pairs = pq.read_table(tmp_path / "tuned.pairs" / "pairs.parquet").to_pylist()
    assert {row["anchor"] for row in pairs} == {"growth", "sugar disease"}
    said = json.loads(ended.stdout)["mentions"]
    assert (said["mentions"], said["held_out_queries"], said["documents_in_both"]) == (2, 1, 0)
    for wrong, named in (
        (["--split", trng, "--split", test], "E528"),
        (["--dev-split", dev], "E511"),
        (["--split", every.with_name("none.txt")], "E401"),
    ):
        ended = command("finetune", every, *wrong, *given)
        assert (ended.exit_code, ended.stderr[1:5]) == (1, named), ended.stderr


def test_what_cannot_be_trained_on(kb: KnowledgeBase, tiny_base: Path, tmp_path: Path) -> None:
    part = corpus(tmp_path / "parts" / "test.txt", "1|A growth was seen|growth|D009369")
    unknown = corpus(tmp_path / "parts" / "train.txt", "1|A growth was seen|growth|D000001")
    given = ["--kb", kb.path, "--encoder", tiny_base, "--out", tmp_path / "tuned"]
    for arguments, named in (
        ([part], "E528"),
        ([unknown], "E504"),
        ([part, "--allow-test", "--training.epoch", "1"], "E510"),
        ([tmp_path / "parts" / "none.txt"], "E401"),
        ([part, "--allow-test", "--recipe", "none.cfg"], "E510"),
        ([unknown, "--layout", "pubtater"], "E561"),
        ([unknown, "--vocabulary", "MSH"], "E568"),
    ):
        ended = command("finetune", *arguments, *given)
        assert (ended.exit_code, ended.stderr[1:5]) == (1, named), ended.stderr
    assert not (tmp_path / "tuned").exists()


def test_a_word_of_the_notes_is_only_in_the_pairs(
    kb: KnowledgeBase, tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    word = "Zyxwvutsmith"
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "tmp").mkdir()
    notes = corpus(tmp_path / "notes" / "train.txt", f"1|{word} has a growth|growth|D009369", f"2|{word} and the {word} sugar|{word} sugar|D003924")
    dev = corpus(tmp_path / "notes" / "dev.txt", f"9|{word} has a new growth|new growth|D009369", f"8|The {word} tumor|{word} tumor|D009369")
    out = tmp_path / "tuned"
    given = ["--kb", kb.path, "--encoder", tiny_base, "--layout", "pubtator", "--batches.pairs", "2", "--training.epochs", "1"]
    ended = command("finetune", notes, "--out", out, "--dev", dev, *given)
    assert ended.exit_code == 0, ended.stderr
    (tmp_path / "notes" / "broken.txt").write_text(f"1|t|{word} has a growth\n1|a|\n1\t0\t5\t{word}\n{word} {word}\n")
    failed = command("finetune", tmp_path / "notes" / "broken.txt", "--out", tmp_path / "other", *given)
    assert failed.exit_code == 1
    said = ended.stdout + ended.stderr + failed.stdout + failed.stderr + caplog.text
    assert word.lower() not in said.lower()
    holders = [
        path.relative_to(tmp_path) for path in sorted(tmp_path.rglob("*")) if path.is_file() and word.lower().encode() in path.read_bytes().lower()
    ]
    assert {path.parts[0] for path in holders} == {"notes", "tuned.pairs"}
