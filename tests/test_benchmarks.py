"""The benchmarks' systems, tables and measuring."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks import common, engines, filters, linking, memory, pipeline, soak, systems, vectors, worker, workers

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
        assert texts == ["x", "y"]  # equal mentions are encoded once
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
    assert table.render() == "## Title\nAs was said.\n\nsystem      x\n─────────────\nours     81.2\ntheirs      –\n* a note\n"
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
    from benchmarks.__main__ import app

    monkeypatch.setattr(common, "REPORT", tmp_path / "report.json")
    with pytest.raises(common.Missing, match="no data folder"):
        common.data_folder(str(tmp_path / "none"))
    ended = CliRunner().invoke(app, ["kb", "--data", str(tmp_path / "none")])
    assert ended.exit_code == 1
    assert "There is no data folder" in ended.output
    monkeypatch.setenv(common.DATA_VARIABLE, str(tmp_path))
    assert common.data_folder(None) == tmp_path
    with pytest.raises(common.Missing, match="is not in the data folder"):
        common.data_file(tmp_path, "a.txt")


@pytest.mark.e2e
def test_memory_fields(tmp_path):
    path = tmp_path / "status"
    path.write_text("Name:\tpython\nVmRSS:\t  2000 kB\n", encoding="ascii")
    assert memory.field_mb(path, "VmRSS") == pytest.approx(2.048)
    assert memory.field_mb(path, "Pss") is None
    assert memory.field_mb(tmp_path / "none", "Pss") is None
    assert memory.peak_mb() > 10
    held = np.ones(400_000_000 // 8)  # a process must not inherit the memory peak of its parent
    code = "from benchmarks import memory; print(memory.peak_mb())"
    alone = float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert 5 < alone < 200 < held.nbytes / 1e6 < memory.peak_mb()


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


# -- pipeline -------------------------------------------------------------------------------------------------------------


def test_speed_and_shares_of_a_pipeline():
    cold = [{"tokenizer": 0.002, "linker": linker} for linker in (0.018, 0.038, 0.008)]
    runs = [{"cold": each, "warm": {"tokenizer": 0.001, "linker": 0.003}, "words": 300.0, "mentions": 40.0} for each in cold]
    assert pipeline.speed({"ours": runs}).rows == [["ours", pytest.approx(1 / 0.02), pytest.approx(250), 300.0, 40.0]]
    table = pipeline.parts("ours", runs)
    assert table.columns == ["component", "cold, ms a note", "cold, %", "warm, ms a note", "warm, %"]
    assert table.rows == [["tokenizer", *map(pytest.approx, (2, 10, 1, 25))], ["linker", *map(pytest.approx, (18, 90, 3, 75))]]


def test_notes_are_cut():
    assert pipeline.cut("no fever") == "no fever"
    assert pipeline.cut("a b\n" * 500) == "a " + "b\na " * 398 + "b\na"


# -- engines --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real():
    """3,000 vectors in 40 dimensions, in clusters and with a falling spectrum, like those of names."""
    chance = np.random.default_rng(3)
    scale = 1 / np.arange(1, 41)
    made = np.repeat(chance.normal(size=(600, 40)) * scale, 5, axis=0) + 0.1 * chance.normal(size=(3000, 40)) * scale
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float16)


def test_vectors_are_like_the_real_ones(real, tmp_path):
    made = vectors.like(real, 12_000, tmp_path / "x" / "like.npy")
    assert (made.shape, made.dtype) == ((12_000, 40), np.float16)
    assert (made[:3000] == real).all()
    new = np.asarray(made[3000:], dtype=np.float32)
    np.testing.assert_allclose(np.linalg.norm(new, axis=1), 1, atol=1e-3)
    assert len(np.unique(new, axis=0)) == 9000
    spectrum = [np.sort(np.linalg.eigvalsh(np.cov(np.asarray(part, dtype=np.float64).T)))[::-1] for part in (real, new)]
    assert np.abs(np.log(spectrum[1][:20] / spectrum[0][:20])).max() < 0.2
    middle = [np.median(vectors.nearest(part, np.asarray(part[-500:], dtype=np.float32))) for part in (real, made)]
    assert 0.5 < middle[1] / middle[0] <= 1.1  # with four times as many vectors, neighbours are somewhat nearer
    again = vectors.like(real, 12_000, tmp_path / "again.npy")
    assert (np.asarray(again) == np.asarray(made)).all()
    assert not (np.asarray(vectors.like(real, 4_000, tmp_path / "other.npy", seed=4))[3000:] == made[3000:4000]).all()
    assert [path.name for path in tmp_path.glob("*.new")] == []


@pytest.mark.e2e
def test_engines_are_measured_against_exact_search(real, tmp_path, monkeypatch):
    np.save(tmp_path / "real.npy", real)
    np.save(tmp_path / "queries.npy", real[::50].astype(np.float32))
    some = [(engines.E, {}, 3000), (engines.A, {"search_k": 50_000, "pca": 0}, 3000), (engines.U, {}, 2999)]
    monkeypatch.setattr(engines, "SETTINGS", some)
    table = engines.engines(tmp_path / "real.npy", tmp_path / "queries.npy", tmp_path, 0)
    exact, annoy = (dict(zip(table.columns, row)) for row in table.rows)  # the third engine is only for fewer vectors
    assert (exact["engine"], exact["setting"], exact["exact = 1"]) == ("ExactIndex", "as it comes", 1.0)
    assert (annoy["engine"], annoy["setting"]) == ("AnnoyIndex", "search_k 50000, pca 0")
    assert exact["recall@1"] > 0.99  # the true neighbours are searched in float32, the index has float16
    assert exact["recall@10"] > 0.99
    assert annoy["recall@10"] > 0.99
    assert exact["files, MB"] == pytest.approx(3000 * 40 * 4 / 1e6, rel=0.05)
    assert annoy["queries/s"] > 0
    assert not (tmp_path / "index").exists()


def test_a_filter_names_the_rows_or_the_others():
    assert filters.expression(np.array([True, False, False, True, False])) == "row in [0,3]"
    assert filters.expression(np.array([True, False, True, True])) == "row not in [1]"
    assert filters.fetched(np.arange(400) % 2 == 0) == 100  # 30 × 400 / 200 × 1.5, plus 10


# -- workers --------------------------------------------------------------------------------------------------------------


@pytest.mark.e2e
def test_workers_are_measured_by_engine_and_number(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr(workers, "ROUNDS", 1)
    monkeypatch.setattr(workers, "PARTITION", 2)
    monkeypatch.setattr(workers, "WORKERS", {1: "one", 2: "two"})
    table = workers.workers([f"Had fever and hypertension for {i} days." for i in range(8)], tmp_path / "workers")
    assert [row[0] for row in table.rows] == ["one local worker", "two local workers", "one Ray worker", "two Ray workers"]
    assert table.rows[0][2] == 1.0
    assert all(row[1] > 0 and row[2] == pytest.approx(row[1] / table.rows[0][1]) for row in table.rows)
    assert not (tmp_path / "workers").exists()


def test_runs_with_other_bytes_are_no_result(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    import ray.cluster_utils

    class Cluster:
        address = "host:1"

        def __init__(self, **_):
            pass

        def shutdown(self):
            pass

    monkeypatch.setattr(ray.cluster_utils, "Cluster", Cluster)
    monkeypatch.setattr(workers, "measure", lambda job, source, out, engine, count, address: {"rate": 1.0, "bytes": f"{engine}"})
    with pytest.raises(RuntimeError, match="other bytes"):
        workers.workers(["A fever."], tmp_path / "workers")


def test_what_grew_from_the_middle_of_a_long_run_to_its_end():
    def grown(*given_back_and_descriptors):
        table = common.Table("soak", "", "", soak.COLUMNS)
        for after, (megabytes, descriptors) in enumerate(given_back_and_descriptors, 1):
            table.add(after, 2 * megabytes, megabytes, descriptors, 2, 1, 1, 1000 * after, float(after))
        return soak.grown(table)

    full = [(50.0, 9), (100.0, 20), (300.0, 90)]
    assert grown(*full, (106.0, 21)) == ["soak: descriptors 20 -> 21", "soak: memory 100 -> 106 MB"]
    assert grown(*full, (105.0, 20)) == []  # five per cent more memory, more strings and less of what grew in between
    assert grown(*full) == []  # too few rows to say


def test_the_texts_of_a_long_run_are_the_same_each_time():
    notes = soak.notes()
    texts = soak.mixed(notes, 200)
    assert texts == soak.mixed(notes, 200)
    assert len(texts) == 200
    assert set(soak.STRANGE) & set(texts)
    assert set(notes) & set(texts)
