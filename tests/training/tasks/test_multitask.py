"""Two tasks in one training: the order of the batches, for one process and for two, and a training that is resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

import pytest
import torch
from safetensors.torch import load_file
from trainings import LINES, Killed, kill_at, write

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from training import fit
from training.fit import read_recipe
from training.loop.batches import ShuffledBatches
from training.tasks import multitask as mixture
from training.tasks.multitask import Evaluators

pytestmark = pytest.mark.usefixtures("one_thread")
RECIPE = """
[paths]
pairs = "pairs"
kb = "kb"
out = "out"
base = ""

[encoder]
max_length = 32
dropout = 0.1

[task]
@tasks = "spacy-sapbert.Multitask.v1"
every = 2

[task.main]
@tasks = "spacy-sapbert.SelfAlignment.v1"

[task.also]
@tasks = "spacy-sapbert.SentenceSimilarity.v1"
train = ["train.csv"]
dev = "dev.csv"
pairs = 3

[batches]
@batches = "spacy-sapbert.ConceptBatches.v1"
pairs = 8

[miner]
@miners = "spacy-sapbert.NoMining.v1"

[loss]
@losses = "spacy-sapbert.InfoNCE.v1"

[training]
max_steps = 6
eval_every = 3
log_every = 1
learning_rate = 1e-3
batch_tokens = 64
precision = "fp32"
cache_gradients = true
"""


def interleaved(world: int) -> List[List[int]]:
    sampler = mixture.Interleaved(ShuffledBatches(list(range(10)), 2), ShuffledBatches(list(range(4)), 4), 10, 2)
    sampler.world = world
    sampler.set_epoch(3)
    batches = list(sampler)
    assert len(batches) == len(sampler)
    return batches


def test_after_so_many_batches_comes_one_of_the_other() -> None:
    kinds = ["also" if batch[0] >= 10 else "main" for batch in interleaved(1)]
    assert kinds == ["main", "main", "also", "main", "main", "also", "main"]
    for batch, kind in zip(interleaved(1), kinds):
        assert len(batch) == (2 if kind == "main" else 4)
        assert kind == "main" or set(batch) == {10, 11, 12, 13}
    assert interleaved(1) == interleaved(1)


def test_processes_of_one_step_do_the_same() -> None:
    kinds = ["also" if batch[0] >= 10 else "main" for batch in interleaved(2)]
    assert kinds == ["main"] * 4 + ["also"] * 2  # the fifth batch of main is left out, because it has no partner
    assert all(kinds[i] == kinds[i + 1] for i in range(0, 6, 2))


@pytest.fixture
def settings(tmp_path: Path, tiny_base: Path, tiny_pairs: Path, tiny_kb: KnowledgeBase) -> Dict[str, Any]:
    (tmp_path / "both.cfg").write_text(RECIPE)
    return {
        "paths.pairs": str(tiny_pairs),
        "paths.kb": str(tiny_kb.path),
        "paths.base": str(tiny_base),
        "paths.out": str(tmp_path / "out"),
        "task.also.train": [str(write(tmp_path / "train.csv", LINES))],
        "task.also.dev": str(write(tmp_path / "dev.csv", ["Birds fly.,A bird is in the air.,4.0", "Bread is baked.,A bus stops.,0.2"])),
    }


def run(settings: Dict[str, Any], tmp_path: Path, **more: Any) -> Dict[str, Any]:
    return fit.fit(read_recipe(tmp_path / "both.cfg", {**settings, **{key.replace("__", "."): value for key, value in more.items()}}))


@pytest.mark.e2e
def test_both_are_learnt_and_measured_and_training_goes_on(settings: Dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: List[str] = []
    for name, cls in (("main", mixture_objectives()[0]), ("also", mixture_objectives()[1])):
        original = cls.measure
        monkeypatch.setattr(cls, "measure", lambda self, *given, name=name, original=original: [calls.append(name), original(self, *given)][1])
    report = run(settings, tmp_path, paths__out=str(tmp_path / "whole"))
    assert calls == ["main", "main", "also"] * 2
    assert set(report["after"]) >= {"held_out_at1", "sts_spearman"}
    assert report["sources"][-1] == "train.csv"
    with monkeypatch.context() as patch:
        kill_at(5, patch)
        with pytest.raises(Killed):
            run(settings, tmp_path)
    run(settings, tmp_path)
    whole, resumed = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "out"))
    assert all(torch.equal(whole[key], resumed[key]) for key in whole)
    card = (tmp_path / "whole" / "README.md").read_text()
    assert "held-out synonym of a concept of the training" in card
    assert "| sentence similarity |" in card


def mixture_objectives() -> List[Any]:
    from training.loop.trainer import SelfAlignment
    from training.tasks.sentence_similarity import SimilarityLoss

    return [SelfAlignment, SimilarityLoss]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"task.every": 0}, r"E511.*task\.every"),
        ({"task.also.@tasks": "spacy-sapbert.Nothing.v1"}, "Nothing"),
        ({"task.main": {"@tasks": "spacy-sapbert.SentenceSimilarity.v1", "train": ["a.csv"]}}, r"E511.*another task"),
        ({"task.also": "sts"}, r"E511.*single task"),
        ({"paths.kb": ""}, r"E510.*paths\.kb is missing"),
    ],
)
def test_bad_settings(settings: Dict[str, Any], tmp_path: Path, changed: Dict[str, Any], said: str) -> None:
    with pytest.raises(SapbertError, match=said):
        run({key: value for key, value in settings.items() if not key.startswith("task.also")} | changed, tmp_path)


def test_the_figure_of_the_main_task_decides_where_both_have_one() -> None:
    class Fixed:
        primary_metric = "held_out_at1"

        def __init__(self, value: float) -> None:
            self.value = value

        def __call__(self, *_: Any) -> Dict[str, float]:
            return {"held_out_at1": self.value, f"only_{self.value:.0f}": 1.0}

    assert Evaluators([Fixed(80.0), Fixed(5.0)])(None) == {"held_out_at1": 80.0, "only_80": 1.0, "only_5": 1.0}
