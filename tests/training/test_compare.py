"""The comparison of recipes with a transformer of two layers: what a row changes, what is trained again, and the table."""

from __future__ import annotations

import json
import os
from pathlib import Path
from threading import Lock
from typing import Any, List

import pytest
from confection import Config
from trainings import command

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from training.compare import Folders, bases, compare, inputs, read_comparison, recipes, run_apart
from training.data.pairs import build_pairs
from training.fit import fit, read_recipe
from training.recipe import changed

pytestmark = pytest.mark.usefixtures("one_thread")

ROOT = Path(__file__).parents[2]
ROWS = """
[compare]
recipe = "training/configs/sap.cfg"
seeds = [0, 1]
once = ["unmined"]

[every]

[every.batches]
pairs = 16

[every.training]
max_steps = 2
eval_every = 2
learning_rate = 1e-3

[rows]

[rows.plain]

[rows.unmined]

[rows.unmined.miner]
@miners = "spacy-sapbert.NoMining.v1"

[rows.unmined.loss]
@losses = "spacy-sapbert.InfoNCE.v1"
temperature = 0.05
"""


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(ROOT)
    path = tmp_path / "compare.cfg"
    path.write_text(ROWS)
    return path


def test_a_named_function_replaces_a_section_and_settings_join_it() -> None:
    recipe = Config({"loss": {"@losses": "a", "margin": 1}, "training": {"seed": 0, "epochs": 1}, "encoder": {"max_length": 25}})
    made = changed(recipe, {"loss": {"@losses": "b"}, "training": {"epochs": 2}, "augment": {"@augmenters": "c"}})
    assert made["loss"] == {"@losses": "b"}  # without a's margin
    assert made["training"] == {"seed": 0, "epochs": 2}
    assert made["augment"] == {"@augmenters": "c"}
    assert recipe["training"] == {"seed": 0, "epochs": 1}


def test_rows_of_the_project_are_recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    comparison = read_comparison(ROOT / "training" / "configs" / "compare.cfg")
    made = recipes(comparison, {"kb": "kb", "pairs": "pairs"}, Path("out"), {"gpu_id": -1})
    assert len(made) == (len(comparison.rows) - len(comparison.once)) * len(comparison.seeds) + len(comparison.once)
    assert [name for name in made if name.startswith("mined-circle")] == ["mined-circle#0"]
    losses = {config["loss"]["@losses"].split(".")[1] for config in made.values()}
    assert losses == {"Circle", "Cosine", "InfoNCE", "LiftedStructure", "MultiSimilarity", "NCA", "Triplet"}
    assert made["adapters-13-per-cent#1"]["encoder"]["adapter"]["share"] == 0.13
    assert made["without-mining#2"]["miner"] == {"@miners": "spacy-sapbert.NoMining.v1"}
    assert made["without-mining#2"]["training"]["seed"] == 2
    assert len({config["paths"]["out"] for config in made.values()}) == len(made)


def test_losses_that_stand_beside_each_other_have_the_constants_of_the_released_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    rows = read_comparison(ROOT / "training" / "configs" / "compare.cfg").rows
    assert {name: {key: value for key, value in row["loss"].items() if key != "@losses"} for name, row in rows.items() if "loss" in row} == {
        "self-alignment": {"alpha": 1.0, "beta": 60.0, "base": 0.5},
        "without-mining": {"alpha": 1.0, "beta": 60.0, "base": 0.5},
        "mined-InfoNCE": {"temperature": 0.07},  # not 0.05 as in the recipe that the rows start from
        "mined-cosine": {},
        "mined-triplet": {"margin": 0.05},
        "mined-NCA": {"softmax_scale": 1.0},
        "mined-lifted-structure": {"margin": 1.0},
        "mined-circle": {"m": 0.4, "gamma": 80.0},
    }


def test_the_bases_of_table_1_and_the_grid_of_table_9(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    paths = {"kb": "kb", "pairs": "pairs"}
    comparison = read_comparison(ROOT / "training" / "configs" / "sapbert_bases.cfg")
    made = recipes(comparison, paths, Path("out"), {})
    started = bases(comparison, made)
    assert list(started) == [f"{name}.base" for name in ("BERT", "BioBERT", "BlueBERT", "ClinicalBERT", "SciBERT", "UmlsBERT", "PubMedBERT")]
    assert started["BioBERT.base"] == made["BioBERT#0"]["paths"]["base"] == "dmis-lab/biobert-v1.1"
    assert (
        made["BioBERT#0"]["loss"]
        == made["BERT#0"]["loss"]
        == {"@losses": "spacy-sapbert.MultiSimilarity.v1", "alpha": 1.0, "beta": 60.0, "base": 0.5}
    )

    comparison = read_comparison(ROOT / "training" / "configs" / "sapbert_grid.cfg")
    grid = {name.partition("#")[0]: config for name, config in recipes(comparison, {**paths, "base": "mine"}, Path("out"), {}).items()}
    assert bases(comparison, recipes(comparison, {**paths, "base": "mine"}, Path("out"), {})) == {"base": "mine"}
    recipe = read_recipe(ROOT / "training" / "configs" / "sap.cfg", {"paths.kb": "kb", "paths.pairs": "pairs", "paths.base": "mine"})
    varied: dict[str, list[float]] = {}
    for row, config in grid.items():
        differs = [
            (f"{section}.{key}", config[section][key])
            for section in recipe
            for key in {**recipe[section], **config[section]}
            if key != "out" and config[section].get(key) != recipe[section].get(key)
        ]
        assert len(differs) == (row != "paper"), row  # one setting at a time
        for key, value in differs:
            varied.setdefault(key, []).append(value)
    assert varied == {
        "training.learning_rate": [1e-4, 5e-5, 1e-5, 1e-6],
        "batches.pairs": [64, 128, 512],
        "training.max_steps": [10_000, 20_000, 30_000, 40_000],
        "training.epochs": [2],
        "encoder.max_length": [15, 20, 30],
        "miner.margin": [0.05, 0.1, 0.3],
        "loss.alpha": [2.0, 3.0],
        "loss.beta": [40.0, 50.0],
        "loss.base": [1.0],
    }


class Here:
    """Train rows in this process, one after another, because torch's random state belongs to the whole process."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.trained: list[str] = []

    def __call__(self, recipe: Path, environment: dict[str, str]) -> str:
        with self.lock:
            self.trained.append(str(recipe.relative_to(recipe.parents[1])))
            try:
                fit(read_recipe(recipe))
            except SapbertError as error:
                return f"ended with 1: {error}"
            return ""


@pytest.fixture
def folders(tiny_kb: KnowledgeBase, tiny_pairs: Path, tmp_path: Path) -> Folders:
    return Folders(kb=tiny_kb.path, pairs=tiny_pairs, data=Path("assets"), work=tmp_path / "work", runs=tmp_path / "runs")


def run(rows: Path, folders: Folders, tiny_base: Path, here: Here) -> Path:
    """Compare, with two trainings at the same time; return the file of figures."""
    out = rows.with_name("table.json")
    settings: dict[str, Any] = {"benchmarks": "held_out,zero_shot", "limit": 400, "pool": 1500, "jobs": 2, "training": {"gpu_id": -1, "processes": 1}}
    compare(rows, folders, out, base=str(tiny_base), run=here, **settings)
    return out


@pytest.mark.e2e
def test_means_of_seeds_and_what_is_there_is_not_trained_again(rows: Path, folders: Folders, tiny_base: Path, tmp_path: Path) -> None:
    here = Here()
    result = json.loads(run(rows, folders, tiny_base, here).read_text())
    assert sorted(here.trained) == ["plain/0.cfg", "plain/1.cfg", "unmined/0.cfg"]
    systems = result["benchmarks"]["held_out"]["systems"]
    assert {name: row["seeds"] for name, row in systems.items()} == {"base": 1, "plain": 2, "unmined": 1}
    runs = [run["at1"] for run in systems["plain"]["runs"]]
    assert systems["plain"]["at1"] == pytest.approx(sum(runs) / 2)
    assert result["costs"]["plain"]["names"] > 0
    assert result["rows"]["unmined"]["miner"] == {"@miners": "spacy-sapbert.NoMining.v1"}
    table = (tmp_path / "table.md").read_text()
    assert table.count("| unmined |") == 3  # in the tables of figures, intervals and costs
    assert "2 trainings at a time" in table

    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("model.safetensors")}
    assert len(stamps) == 3
    rows.write_text(ROWS.replace("temperature = 0.05", "temperature = 0.1"))
    here.trained.clear()
    run(rows, folders, tiny_base, here)
    assert here.trained == ["unmined/0.cfg"]
    again = {str(path.relative_to(tmp_path)) for path, stamp in stamps.items() if path.stat().st_mtime_ns != stamp}
    assert again == {"runs/unmined/0/model.safetensors"}


def test_other_pairs_at_the_same_place_are_another_training(rows: Path, tiny_kb: KnowledgeBase, tmp_path: Path) -> None:
    config = recipes(read_comparison(rows), {"kb": str(tiny_kb.path), "pairs": str(tmp_path / "pairs")}, tmp_path, {})["plain#0"]
    found = []
    for seed in (0, 0, 1):
        build_pairs(tiny_kb, tmp_path / "pairs", held_out=0.1, zero_shot=0.1, seed=seed)
        found.append(inputs(config))
    assert found[0] == found[1] != found[2]


def test_a_training_that_fails_is_named_and_the_others_are_kept(rows: Path, folders: Folders, tiny_base: Path, tmp_path: Path) -> None:
    rows.write_text(
        ROWS.replace("[0, 1]", "[0]").partition("[rows.unmined]")[0].replace("unmined", "plain")
        + "\n[rows.broken]\n\n[rows.broken.encoder]\nfrozen_layers = 9\n"
    )
    with pytest.raises(SapbertError) as error:
        run(rows, folders, tiny_base, Here())
    assert error.value.code == "E518"
    assert "1 of 2" in str(error.value)
    assert "'broken#0'" in str(error.value)
    assert "2 layers" in str(error.value)  # the message of the training
    assert (tmp_path / "runs" / "plain" / "0" / "model.safetensors").is_file()
    assert not (tmp_path / "table.json").exists()


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("[compare]", "[compared]", "recipe"),
        ("seeds = [0, 1]", "seeds = []", "seeds"),
        ('["unmined"]', '["other"]', "other"),
        ("[rows.plain]", "[rows.base]", "'base'"),
        ("[rows.plain]", "[rows.a#b]", "a#b"),
        ("NoMining", "Nothing", "Nothing"),
        ("max_steps = 2", "max_stepz = 2", "max_stepz"),
        ("[rows.plain]", "[rows.unmined]", "already exists"),  # a row that was copied but not renamed
    ],
)
def test_bad_rows_are_refused_before_anything_is_trained(rows: Path, old: str, new: str, named: str) -> None:
    rows.write_text(ROWS.replace(old, new))
    with pytest.raises(SapbertError) as error:
        recipes(read_comparison(rows), {"kb": "kb", "pairs": "pairs"}, Path("out"), {})
    assert error.value.code == "E510"
    assert named in str(error.value)


@pytest.mark.parametrize(
    ("more", "code", "named"),
    [
        (["--jobs", "0"], "E548", "--jobs"),
        (["--limit", "-5"], "E548", "--limit"),
        (["--benchmarks", "ncbi-dev", "--data", "nowhere"], "E542", "nowhere"),
        (["--recipe", "nowhere.cfg"], "E510", "nowhere.cfg"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_trained(
    rows: Path, folders: Folders, tmp_path: Path, more: List[str], code: str, named: str
) -> None:
    given = ["--kb", folders.kb, "--pairs", folders.pairs, "--runs", folders.runs, "--work", folders.work, "--out", tmp_path / "table.json"]
    ended = command("compare", rows, *given, "--benchmarks", "held_out,zero_shot", *more)
    assert ended.exit_code == 1
    assert code in ended.stderr
    assert named in ended.stderr
    assert not (tmp_path / "runs").exists()


def test_a_row_with_a_setting_out_of_range_keeps_its_own_code(rows: Path) -> None:
    rows.write_text(ROWS.replace("temperature = 0.05", "temperature = -1"))
    with pytest.raises(SapbertError, match="temperature") as error:
        recipes(read_comparison(rows), {"kb": "kb", "pairs": "pairs"}, Path("out"), {})
    assert error.value.code == "E521"


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(SapbertError, match="nowhere") as error:
        read_comparison(Path("nowhere.cfg"))
    assert error.value.code == "E510"


@pytest.mark.e2e
def test_a_training_apart_says_how_it_ended(tmp_path: Path) -> None:
    """A training in a separate process, as in the command."""
    failure = run_apart(tmp_path / "nowhere.cfg", dict(os.environ))
    assert failure.startswith("ended with 1: ")
    assert "E510" in failure
    assert "nowhere.cfg" in failure
    assert "Traceback" not in failure
