"""The plan of a training: steps, memory and disk computed by hand, existing files, and a real measurement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from trainings import LINES, PHASES, RECIPE, Killed, command, kill_at, write

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from training import fit
from training.data import pairs as pairs_module
from training.fit import read_recipe, resolve
from training.plan import _texts_in_memory, in_words, plan, state

pytestmark = pytest.mark.usefixtures("one_thread")
SAP = Path(__file__).parents[2] / "training" / "configs" / "sap.cfg"


@pytest.fixture
def settings(tiny_kb: KnowledgeBase, tiny_pairs: Path, tiny_base: Path, tmp_path: Path) -> Dict[str, Any]:
    paths = {"pairs": tiny_pairs, "kb": tiny_kb.path, "base": tiny_base, "out": tmp_path / "encoder"}
    return {
        **{f"paths.{name}": str(path) for name, path in paths.items()},
        "batches.pairs": 16,
        "training.eval_every": 5,
        "training.precision": "fp32",
    }


def test_what_is_computed(settings: Dict[str, Any], tiny_pairs: Path) -> None:
    (made,) = plan(SAP, settings, seconds=0)
    pairs = pairs_module.check_folder(tiny_pairs)["counts"]["pairs"]
    steps = -(-pairs // 16)
    assert made.lines["data"] == f"{pairs:,} rows; 16 in a batch, 2 texts in a row"
    assert made.lines["steps"].startswith(f"{steps:,} (")
    assert f"measured at most {-(-steps // 5) + 1} times" in made.lines["steps"]
    assert "in fp32 on cpu" in made.lines["encoder"]
    assert made.lines["time"] == "not measured"
    assert made.lines["state"] == "starts from the beginning"
    assert made.seconds is None
    # a hundred times the batch: activations of 2 layers of 32 units for 2 x 1,584 more texts of 25 tokens, in float32
    (larger,) = plan(SAP, {**settings, "batches.pairs": 1600}, seconds=0)
    more = 2 * 1584 * 25 * 2 * 32 * 34 * 2 / 1e9
    first, second = (float(one.lines["memory"].split()[3]) for one in (made, larger))
    assert second - first == pytest.approx(more, abs=0.1)
    (limited,) = plan(SAP, {**settings, "training.max_steps": 7}, seconds=0)
    assert limited.lines["steps"].startswith("7 (")


def test_texts_that_are_held_in_memory_are_counted(settings: Dict[str, Any], tmp_path: Path) -> None:
    """110 bytes for each text, and three times its 40 characters and 4 bytes of length. Pairs are mapped from a file."""
    texts = [f"{i:040}" for i in range(2000)]
    table = {"label": pa.array(range(2000), pa.int32()), "text": pa.array(texts, pa.large_string()), "kind": ["name"] * 2000}
    pq.write_table(pa.table(table), tmp_path / "texts.parquet")
    distilled = read_recipe(SAP.parent / "biolord_distil.cfg", {"task.teacher": "t", "task.texts": str(tmp_path)})
    assert _texts_in_memory(resolve(distilled)) == pytest.approx(2000 * (110 + 3 * 44), rel=0.05)
    assert _texts_in_memory(resolve(read_recipe(SAP, settings))) == 0


def test_pairs_that_are_not_made_yet_are_estimated(settings: Dict[str, Any], tiny_pairs: Path, tmp_path: Path) -> None:
    (made,) = plan(SAP, {**settings, "paths.pairs": str(tmp_path / "nothing")}, seconds=0)
    rows = int(made.lines["data"].split()[0].replace(",", ""))
    assert f"'{tmp_path / 'nothing'}' is not made yet" in made.lines["data"]
    counts = pairs_module.check_folder(tiny_pairs)["counts"]  # pairs of the same knowledge base, with a fifth held out
    assert counts["pairs"] <= rows <= 1.6 * counts["pairs"]


def test_what_would_be_resumed_or_refused(settings: Dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = {**settings, "training.max_steps": 4, "training.eval_every": 2}
    with monkeypatch.context() as patch:
        kill_at(3, patch)
        with pytest.raises(Killed):
            fit.fit(read_recipe(SAP, short))
    assert state(read_recipe(SAP, short)) == "resumed from step 2"
    assert state(read_recipe(SAP, {**short, "training.processes": 2})) == "resumed from step 2"
    assert "refused (E514)" in state(read_recipe(SAP, {**short, "training.learning_rate": 1.0}))
    assert "training.learning_rate: 2e-05 -> 1.0" in state(read_recipe(SAP, {**short, "training.learning_rate": 1.0}))
    fit.fit(read_recipe(SAP, short))
    assert state(read_recipe(SAP, short)) == f"starts from the beginning; '{tmp_path / 'encoder'}' already exists and would be replaced"


@pytest.mark.e2e
def test_phases_are_measured_before_there_are_encoders_to_begin_from(tmp_path: Path, tiny_base: Path) -> None:
    write(tmp_path / "train.csv", LINES)
    (tmp_path / "sts.cfg").write_text(RECIPE.replace("train.csv", str(tmp_path / "train.csv")).replace('dev = "dev.csv"', ""))
    text = PHASES.replace("OUT", str(tmp_path / "out")).replace("BASE", str(tiny_base)).replace("RECIPE", str(tmp_path / "sts.cfg"))
    (tmp_path / "phases.cfg").write_text(text)
    shown = command("plan", tmp_path / "phases.cfg", "--seconds", "300", "--training.max_steps", "3")
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    assert [line for line in lines if not line.startswith(" ")][:-1] == ["first", "a", "b", "mean"]
    assert sum("measured: 2 steps" in line for line in lines) == 3
    assert lines[-1].startswith("together: ")
    assert not (tmp_path / "out.phases").exists()


def test_the_plan_of_a_recipe_that_is_wrong(settings: Dict[str, Any]) -> None:
    with pytest.raises(SapbertError, match="E502"):
        plan(SAP, {**settings, "paths.pairs": str(SAP.parent)}, seconds=0)
    wrong = command("plan", "no.cfg")
    assert wrong.exit_code == 1
    assert "no.cfg" in wrong.stderr
    assert json.dumps(in_words([])) == '""'
