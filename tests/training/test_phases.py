"""Recipes of phases: the recipe of each phase, what is skipped, what is refused; and the recipes of the project."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest
import torch
from confection import Config
from safetensors.torch import load_file
from trainings import LINES, PHASES, RECIPE, write

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.signals import Ended
from training import fit, phases
from training.compare import bases, inputs, read_comparison, recipes
from training.data.definitions import build_grounding
from training.evaluation.evaluate import with_phases
from training.fit import load, read_recipe, resolve

pytestmark = pytest.mark.usefixtures("one_thread")
ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "training" / "configs"


@pytest.fixture
def path(tmp_path: Path, tiny_base: Path) -> Path:
    """A recipe with three trainings on pairs of sentences, and the mean of two."""
    write(tmp_path / "train.csv", LINES)
    recipe = RECIPE.replace("train.csv", str(tmp_path / "train.csv")).replace('dev = "dev.csv"', "")
    (tmp_path / "sts.cfg").write_text(recipe)
    text = PHASES.replace("OUT", str(tmp_path / "out")).replace("BASE", str(tiny_base)).replace("RECIPE", str(tmp_path / "sts.cfg"))
    (tmp_path / "phases.cfg").write_text(text)
    return tmp_path / "phases.cfg"


class Here:
    """Train phases in this process and record their names. `fails` names a phase whose training ends with exit code 1."""

    def __init__(self) -> None:
        self.trained: list[str] = []
        self.fails = ""

    def __call__(self, recipe: Path) -> int:
        if recipe.stem == self.fails:
            return 1
        self.trained.append(recipe.stem)
        fit.fit(read_recipe(recipe))
        return 0


@pytest.fixture
def here() -> Here:
    return Here()


def test_what_a_phase_becomes(path: Path, tmp_path: Path) -> None:
    first, a, b, mean = phases.read_phases(load(path), path)
    assert [phase.name for phase in (first, a, b, mean)] == ["first", "a", "b", "mean"]
    assert [phase.out for phase in (first, a, b)] == [tmp_path / "out.phases" / name for name in ("first", "a", "b")]
    assert mean.out == tmp_path / "out"
    assert a.config is not None
    assert b.config is not None
    assert a.config["paths"] == {"out": str(a.out), "base": str(first.out)}
    assert (a.config["training"]["seed"], b.config["training"]["seed"]) == (5, 6)
    assert (a.config["training"]["learning_rate"], b.config["training"]["learning_rate"]) == (1e-3, 2e-3)
    assert a.config["training"]["max_steps"] == 2
    assert a.config["task"]["pairs"] == 4
    as_they_say = phases.read_phases(load(path, {"training.max_steps": -1}), path)[0]
    assert as_they_say.config is not None
    assert as_they_say.config["training"]["max_steps"] == 4


@pytest.mark.e2e
def test_what_is_there_is_skipped_and_what_depends_on_a_change_is_made_again(path: Path, tmp_path: Path, here: Here) -> None:
    report = phases.run(load(path), path, here)
    assert here.trained == ["first", "a", "b"]
    assert report["mean"] == {"folder": str(tmp_path / "out"), "was_there": False}
    a, b, mean = (
        load_file(folder / "model.safetensors") for folder in (tmp_path / "out.phases" / "a", tmp_path / "out.phases" / "b", tmp_path / "out")
    )
    assert all(torch.allclose(mean[key], (a[key] + b[key]) / 2, atol=1e-7) for key in mean)
    assert any(not torch.equal(a[key], b[key]) for key in a)
    assert list(with_phases({"x": str(tmp_path / "out")})) == ["x-first", "x-a", "x-b", "x"]

    here.trained.clear()
    assert all(phase["was_there"] for phase in phases.run(load(path), path, here).values())
    assert here.trained == []
    (tmp_path / "phases.cfg").write_text(path.read_text().replace("2e-3", "3e-3"))
    report = phases.run(load(path), path, here)
    assert here.trained == ["b"]
    assert [name for name, phase in report.items() if not phase["was_there"]] == ["b", "mean"]
    here.trained.clear()
    write(tmp_path / "train.csv", LINES[:7])  # the same path with other pairs
    phases.run(load(path), path, here)
    assert here.trained == ["first", "a", "b"]


def test_a_phase_that_fails_is_named_and_the_others_are_kept(path: Path, tmp_path: Path, here: Here) -> None:
    here.fails = "b"
    with pytest.raises(SapbertError, match=r"Phase 'b' failed \(its training ended with 1") as error:
        phases.run(load(path), path, here)
    here.fails = ""
    assert error.value.code == "E524"
    assert here.trained == ["first", "a"]
    here.trained.clear()
    phases.run(load(path), path, here)
    assert here.trained == ["b"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("[phases.mean]", "[loss]\nx = 1\n\n[phases.mean]"), r"a recipe with \[phases\] can't have a section \[loss\]"),
        (('soup = ["a", "b"]', 'soup = ["a", "z"]'), r"'z' is not an earlier phase \(first, a, b\)"),
        (('soup = ["a", "b"]', 'soup = ["a", "b"]\nmost = 3'), "most"),
        (('soup = ["a", "b"]', "seed = 3"), "give either `recipe` or `soup`"),
        (("learning_rate = 2e-3", "learningrate = 2e-3"), r"\[phases\.b\].*learningrate"),
        (("[phases.b.training]", "[phases.b.loss]"), r"\[phases\.b\].*loss"),
        (("out = ", "outs = "), "E510"),
    ],
)
def test_bad_recipes(path: Path, change: Any, said: str) -> None:
    path.write_text(path.read_text().replace(*change))
    with pytest.raises(SapbertError, match=said) as error:
        phases.read_phases(load(path), path)
    assert error.value.code == "E510"


@pytest.mark.nightly
@pytest.mark.e2e
def test_torchrun_makes_the_phases_together(path: Path, tmp_path: Path, here: Here) -> None:
    recipe = tmp_path / "sts.cfg"
    recipe.write_text(recipe.read_text().replace("max_length = 64", "max_length = 64\ndropout = 0.0"))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "-m", "training", "train", str(path)]
    done = subprocess.run([*words, "--paths.out", str(tmp_path / "two")], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    phases.run(load(path), path, here)  # in one process
    base = load_file(Path(load(path)["paths"]["base"]) / "model.safetensors")
    one, two = (load_file(tmp_path / out / "model.safetensors") for out in ("out", "two"))
    moved = max(float((one[key] - base[key]).abs().max()) for key in base)
    assert max(float((one[key] - two[key]).abs().max()) for key in one) < 0.05 * moved
    report = json.loads((tmp_path / "two.phases" / "a" / "training.json").read_text())
    assert report["settings"]["processes"] == 2
    again = phases.run(load(path, {"paths.out": str(tmp_path / "two")}), path, here)  # with another number of processes
    assert all(phase["was_there"] for phase in again.values())


@pytest.mark.parametrize("name", ["sap", "sap_small", "biolord_sts", "biolord_contrastive", "biolord_distil", "multilingual"])
def test_recipes_of_the_project(name: str) -> None:
    """Each recipe names its task, and has exactly the settings that the task needs."""
    recipe = resolve(read_recipe(CONFIGS / f"{name}.cfg"))
    tasks = {"biolord_sts": "SentenceSimilarity", "biolord_contrastive": "Multitask", "biolord_distil": "SelfDistillation"}
    expected = {**tasks, "multilingual": "CrossLingualDistillation"}.get(name, "SelfAlignment")
    assert type(recipe.task).__name__ == f"{expected}Task"
    assert (recipe.loss is not None) == (recipe.miner is not None) == ("loss" in recipe.task.needs)
    assert recipe.training.seed == 0
    assert recipe.paths.out.startswith("artifacts/")


def test_phases_of_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    # as project.yml calls it
    overrides: Dict[str, Any] = {"paths.pairs": "p", "paths.kb": "k", "paths.out": "o", "paths.base": "", "training.seed": 3, "training.gpu_id": -1}
    made = {phase.name: phase for phase in phases.read_phases(load(CONFIGS / "biolord.cfg", {**overrides, "training.max_steps": -1}), CONFIGS)}
    assert list(made) == ["sts", "contrastive", "sts_again", "distil_a", "distil_b", "distil_c", "mean"]
    configs: Dict[str, Config] = {name: phase.config for name, phase in made.items() if phase.config is not None}
    assert configs["contrastive"]["paths"]["base"] == "o.phases/sts"
    assert configs["contrastive"]["training"]["max_steps"] == 500
    assert configs["contrastive"]["task"]["main"] == {"@tasks": "spacy-sapbert.SelfAlignment.v1"}
    assert configs["distil_c"]["task"]["teacher"] == "o.phases/sts_again"
    assert configs["distil_c"]["paths"]["base"] == "o.phases/sts"  # it does not start from the contrastive phase
    assert [configs[f"distil_{letter}"]["training"]["seed"] for letter in "abc"] == [3, 4, 5]
    assert made["mean"].out == Path("o")
    other = phases.read_phases(load(CONFIGS / "sap_then_biolord.cfg", {}), CONFIGS)
    assert [phase.name for phase in other] == ["sap", "contrastive", "sts"]


def test_biolord_2023_has_the_papers_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    """No phase ends early, all weights are trained, and this project's own methods are switched off."""
    monkeypatch.chdir(ROOT)
    made = {phase.name: phase for phase in phases.read_phases(load(CONFIGS / "biolord_2023.cfg"), CONFIGS)}
    assert list(made) == ["sts", "contrastive", "sts_again", "distil_a", "distil_b", "distil_c", "mean"]
    configs = {name: phase.config for name, phase in made.items() if phase.config is not None}
    assert configs["sts"]["paths"]["base"] == "sentence-transformers/all-mpnet-base-v2"
    for name, config in configs.items():
        assert (config["training"].get("max_steps", -1), config["training"].get("patience"), config["training"]["learning_rate"]) == (-1, 0, 2e-5), (
            name
        )
        assert (config["encoder"]["frozen_layers"], config["encoder"]["train_embeddings"]) == (0, True), name
    contrastive = configs["contrastive"]
    assert contrastive["task"]["main"] == {"@tasks": "spacy-sapbert.SelfAlignment.v1", "against": "texts"}
    assert "near" not in contrastive["batches"]
    assert [len(contrastive["task"]["also"][key]) for key in ("train", "ranges")] == [5, 5]
    assert [(configs[f"distil_{x}"]["task"]["head"], configs[f"distil_{x}"]["task"]["dimensions"]) for x in "abc"] == [("random", 64)] * 3
    assert [configs[f"distil_{x}"]["training"]["seed"] for x in "abc"] == [0, 1, 2]
    assert made["mean"].soup is not None


@pytest.mark.e2e
def test_biolord_2023_runs_whole_on_a_small_base(tmp_path: Path, tiny_kb: KnowledgeBase, tiny_pairs: Path, tiny_base: Path, here: Here) -> None:
    build_grounding(tiny_kb, tmp_path / "texts", held_out=tiny_pairs, shares={"definitions": 1, "descriptions": 1, "names": 1})
    (tmp_path / "similarity").mkdir()
    for name in ("stsb-en-train.csv", "stsb-en-dev.csv"):
        write(tmp_path / "similarity" / name, LINES if "train" in name else LINES[:4])
    write(tmp_path / "similarity" / "SICK_train.txt", ["sentence_A\tsentence_B\trelatedness_score", "one\ttwo\t1", "two\tthree\t5"])
    for path in (tmp_path / "similarity").iterdir():
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    paths = {"kb": tiny_kb.path, "pairs": tiny_pairs, "definitions": tmp_path / "texts", "similarity": tmp_path / "similarity", "base": tiny_base}
    given = {f"paths.{key}": str(value) for key, value in {**paths, "out": tmp_path / "out"}.items()}
    small = {
        "training.max_steps": 2,
        "training.eval_every": 2,
        "training.eval_names": 50,
        "phases.contrastive.batches.pairs": 8,
        **{f"phases.distil_{letter}.task.dimensions": 4 for letter in "abc"},
    }
    report = phases.run(load(CONFIGS / "biolord_2023.cfg", {**given, **small}), CONFIGS, here)
    assert here.trained == ["sts", "contrastive", "sts_again", "distil_a", "distil_b", "distil_c"]
    assert [report[name]["steps"] for name in here.trained] == [2] * 6
    said = json.loads((tmp_path / "out.phases" / "sts" / "training.json").read_text())
    assert (said["sts"]["pairs"], said["sts"]["files_not_there"]) == (6, 3)  # 4 of STS-B without its dev part, 2 of SICK
    a, b, mean = (load_file(tmp_path / folder / "model.safetensors") for folder in ("out.phases/distil_a", "out.phases/distil_b", "out"))
    assert any(not torch.equal(a[key], b[key]) for key in a)
    assert set(mean) == set(a)


def test_models_are_fine_tuned_alike_before_they_are_compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """There are three runs of each model. Sentence similarity reads no pairs, so there need not be any."""
    monkeypatch.chdir(ROOT)
    comparison = read_comparison(CONFIGS / "biolord_2023_models.cfg")
    made = recipes(comparison, {"kb": "nowhere", "pairs": "nowhere"}, tmp_path, {})
    assert [name for name in made if name.startswith("SapBERT#")] == ["SapBERT#0", "SapBERT#1", "SapBERT#2"]
    assert made["SapBERT#1"]["task"] == made["trained#1"]["task"]
    assert "content of the pairs" not in inputs(made["SapBERT#0"])
    assert list(bases(comparison, made)) == [f"{row}.base" for row in comparison.rows]


INTERRUPTED = """
import signal, sys

def end(*_):
    sys.exit(143 if signal.sigtimedwait([signal.SIGTERM], 0.2) else 130)

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
signal.signal(signal.SIGINT, end)
print("ready", flush=True)
signal.pause()
"""


@pytest.mark.parametrize(("raised", "code"), [(KeyboardInterrupt(), 130), (Ended(signal.SIGTERM), 143)])
def test_a_training_that_got_ctrl_c_may_end_by_itself(raised: BaseException, code: int) -> None:
    process = subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    with pytest.raises(type(raised)), phases._ending(process):
        raise raised
    assert process.returncode == code


def test_a_training_whose_parent_says_what_ended_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\necho "$@" $SPACY_SAPBERT_PARENT_SAYS > {tmp_path}/said\nexit 143\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    assert phases.train_apart(tmp_path / "a.cfg") == 143
    assert (tmp_path / "said").read_text() == f"-m training train {tmp_path}/a.cfg 1\n"


def test_a_phase_that_a_signal_stopped_is_named(path: Path, tmp_path: Path) -> None:
    with pytest.raises(SapbertError, match=r"\[E524\] Phase 'first' failed \(its training was stopped by SIGTERM\)"):
        phases.run(load(path), path, lambda recipe: 143)
