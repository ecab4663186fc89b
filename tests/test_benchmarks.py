"""The benchmarks' systems, tables and measuring."""

from __future__ import annotations

import json

import pytest

from benchmarks import common, linking, memory, systems, worker

ROWS = {"A": 1, "B": 2, "C": 3, "old A": 1}


# -- systems, tables, measuring -----------------------------------------------------------------------------------------


def test_scispacy_candidates_are_ranked_by_their_best_name():
    class KB:
        def row_of(self, concept_id):
            return ROWS[concept_id]

    class Candidate:
        def __init__(self, concept_id, similarities):
            self.concept_id, self.similarities = concept_id, similarities

    def generator(texts, k):
        assert texts == ["x", "y"]  # equal mentions once
        return [[Candidate("A", [0.2, 0.5]), Candidate("B", [0.4, 0.9])], []]

    ranked = systems.scispacy_candidates(["x", "y", "x"], KB(), generator)
    assert ranked.concepts == [[2, 1], [], [2, 1]]
    assert ranked.scores == [0.9, float("-inf"), 0.9]


def test_noise_holds_no_names_and_does_not_change():
    class Matcher:
        def predict(self, docs):
            return [[token for token in doc if token.text == "seizure"] for doc in docs]

    notes = ["The patient came after a seizure, walking slowly towards admission. Doctor Smith spoke quietly."]
    found = linking.noise_texts(notes, Matcher(), 5)
    assert len(found) == 5
    assert found == linking.noise_texts(notes, Matcher(), 5)
    assert not any("seizure" in text or "," in text or "." in text for text in found)
    assert not any(text.split()[0].lower() in ("the", "after", "a") for text in found)


def test_table():
    table = common.Table("t", "Title", "As was said.", ["system", "x"], notes=["a note"])
    table.add("ours", 81.25)
    table.add("theirs", None)
    assert table.render() == "## Title\nAs was said.\n\nsystem     x\n------  ----\nours    81.2\ntheirs     –\n* a note\n"
    assert table.as_dict()["rows"] == [{"system": "ours", "x": 81.25}, {"system": "theirs", "x": None}]
    with pytest.raises(ValueError, match="1 cells for 2 columns"):
        table.add("short")


def test_report_keeps_what_other_runs_left(tmp_path, capsys):
    path = tmp_path / "metrics" / "benchmarks.json"
    for section in ("linking", "load"):
        common.Report(path).add(section, common.Table("t", "Title", "p", ["x"], [[1]]))
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["linking"]["t"]["rows"] == content["load"]["t"]["rows"] == [{"x": 1}]
    assert str(tmp_path) not in path.read_text(encoding="utf-8")
    assert "## Title" in capsys.readouterr().out


def test_a_missing_data_folder_is_named(tmp_path, monkeypatch):
    from benchmarks.__main__ import main

    monkeypatch.setattr(common, "REPORT", tmp_path / "report.json")
    with pytest.raises(common.Missing, match="no data folder"):
        common.data_folder(str(tmp_path / "none"))
    assert main(["kb", "--data", str(tmp_path / "none")]) == 1
    monkeypatch.setenv(common.DATA_VARIABLE, str(tmp_path))
    assert common.data_folder(None) == tmp_path
    with pytest.raises(common.Missing, match="is not in the data folder"):
        common.data_file(tmp_path, "a.txt")


def test_memory_fields(tmp_path):
    path = tmp_path / "status"
    path.write_text("Name:\tpython\nVmRSS:\t  2000 kB\n", encoding="ascii")
    assert memory.field_mb(path, "VmRSS") == pytest.approx(2.048)
    assert memory.field_mb(path, "Pss") is None
    assert memory.field_mb(tmp_path / "none", "Pss") is None
    assert memory.peak_mb() > 10


def test_clock_times_only_what_it_is_told():
    class Slow:
        dim = 3

        def query(self, x, *, k):
            return x + k

        def __len__(self):
            return 7

    clock = worker.Clock(Slow(), ["query"])
    assert clock.query(1, k=2) == 3
    assert clock.dim == 3
    assert len(clock) == 7
    assert clock.seconds > 0
