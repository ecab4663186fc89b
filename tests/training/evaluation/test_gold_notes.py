"""The results of a pipeline on the gold notes, counted by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spacy_sapbert.context.rules import STATUSES
from spacy_sapbert.errors import SapbertError
from training.corpora.mention import GoldMention
from training.evaluation.end_to_end import BENCHMARKS, read_benchmark
from training.evaluation.gold_notes import ALL, judge, read_gold_notes
from training.evaluation.metrics import PredictedMention


def status(*held: str) -> dict[str, bool]:
    return {name: name in held for name in STATUSES}


def gold(start: int, end: int, *ids: str, kind: str = "DISO") -> GoldMention:
    return GoldMention("x", start, end, "", tuple((i,) for i in ids), kind)


def found(start: int, end: int, *ids: str, kind: str = "DISO", held: dict[str, bool] | None = None) -> PredictedMention:
    return PredictedMention("x", start, end, ids, kind, held)


def test_judged_by_hand():
    mentions = [gold(0, 5, "C1"), gold(10, 20, "C2", "HP:2"), gold(30, 40), gold(50, 60, "C5", kind="CHEM"), gold(70, 80, "C7")]
    statuses = [status(), status("negated"), status(), status(), status("family", "negated")]
    said = [
        found(0, 5, "C1", "C9", held=status()),  # same span, right
        found(8, 20, "HP:2", held=status("negated")),  # another span, another id of the same meaning
        found(10, 12, "C3", held=status()),  # false: another concept in the same place
        found(30, 40, "C4", held=status()),  # false: no gold mention has this concept
        found(55, 57, kind="CHEM", held=status("historical")),  # found, without a link, wrong status
        found(90, 95, "C8", kind="PROC"),  # false: there is no gold mention
    ]
    made = judge(said, mentions, statuses)
    assert made[ALL] == {"mentions": 5, "exact": 2, "found": 4, "with_concept": 4, "right": 2, "status": 3, "links": 5, "false": 3, "parts": 1}
    assert made["DISO"] == {"mentions": 4, "exact": 2, "found": 3, "with_concept": 3, "right": 2, "status": 3, "links": 4, "false": 2, "parts": 1}
    assert made["CHEM"] == {"mentions": 1, "exact": 0, "found": 1, "with_concept": 1, "right": 0, "status": 0, "links": 0, "false": 0, "parts": 0}
    assert made["PROC"]["false"] == 1


def test_a_link_of_another_document_is_not_near():
    made = judge([found(0, 5, "C1")._replace(document="y")], [gold(0, 5, "C1")], [status()])
    assert (made[ALL]["found"], made[ALL]["right"], made[ALL]["false"]) == (0, 0, 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "notes").mkdir()
    (tmp_path / "gold").mkdir()
    (tmp_path / "notes" / "n.txt").write_bytes(b"No fever,\r\nflap.")
    return tmp_path / "gold"


def test_reading(folder: Path):
    mentions = [
        {"start": 3, "end": 8, "text": "fever", "kind": "DISO", "cui": "C0015967", "also": ["HP:0001945"], "status": status("negated")},
        {"start": 11, "end": 15, "text": "flap", "kind": "DISO", "cui": None, "status": status()},
    ]
    (folder / "gold.jsonl").write_text(json.dumps({"note": "n", "mentions": mentions}) + "\n")
    corpus, statuses = read_gold_notes(folder / "gold.jsonl")
    assert corpus.documents == {"n": "No fever,\r\nflap."}
    assert [mention.gold for mention in corpus.mentions] == [(("C0015967",), ("HP:0001945",)), ()]
    assert [mention.document for mention in corpus.mentions] == ["n", "n"]
    assert statuses[0]["negated"]
    assert not statuses[1]["negated"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("{", "E560"),
        ('{"note": "n"}', "E560"),
        ('{"note": "n", "mentions": [{"start": 0}]}', "E560"),
        ('{"note": "m", "mentions": []}', "E401"),
        ("[]", "E560"),
    ],
)
def test_bad_input(folder: Path, line: str, code: str):
    (folder / "gold.jsonl").write_text(line + "\n")
    with pytest.raises(SapbertError, match=code):
        read_gold_notes(folder / "gold.jsonl")


def test_a_missing_file(tmp_path: Path):
    with pytest.raises(SapbertError, match="E401"):
        read_gold_notes(tmp_path / "gold.jsonl")


def test_the_benchmark_is_there(tmp_path: Path):
    corpus = read_benchmark("gold", tmp_path)
    assert len(corpus.documents) == 20
    assert {mention.document for mention in corpus.mentions} == set(corpus.documents)
    assert not BENCHMARKS["gold"].vocabularies
