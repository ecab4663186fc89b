"""The command `train` with a transformer of two layers: what is saved, resumed and refused."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from trainings import Killed, command, kill_at

from spacy_sapbert.encoders.transformer import NameEncoder
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from training import fit
from training.fit import read_recipe, resolve
from training.loop import model
from training.loop import trainer as loop
from training.tasks.self_alignment import held_out_sample
from training.train import overridden

pytestmark = pytest.mark.usefixtures("one_thread")
ROOT = Path(__file__).parents[2]
SAP = ROOT / "training" / "configs" / "sap.cfg"
SMALL = ROOT / "training" / "configs" / "sap_small.cfg"  # the default recipe, with two processes
NAMES = ["fever", "ventricular septal defect", "low muscle tone", "a"]


@pytest.fixture
def settings(tiny_kb: KnowledgeBase, tiny_pairs: Path, tiny_base: Path, tmp_path: Path) -> Dict[str, Any]:
    return {
        "paths.pairs": str(tiny_pairs),
        "paths.kb": str(tiny_kb.path),
        "paths.base": str(tiny_base),
        "paths.out": str(tmp_path / "encoder"),
        "batches.pairs": 16,
        "training.max_steps": 4,
        "training.eval_every": 2,
        "training.log_every": 1,
        "training.learning_rate": 1e-3,
    }


def run(settings: Dict[str, Any], **more: Any) -> Dict[str, Any]:
    return fit.fit(read_recipe(SAP, {**settings, **{key.replace("__", "."): value for key, value in more.items()}}))


def weights(folder: Path) -> Dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def test_what_is_saved_gives_equal_vectors_in_three_libraries(settings: Dict[str, Any], tmp_path: Path, tiny_base: Path) -> None:
    report = run(settings)
    out = tmp_path / "encoder"
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel, AutoTokenizer

    ours = NameEncoder(name=str(out), dtype="float32")
    ours.initialize()
    linker = ours.predict(NAMES)
    sentence = SentenceTransformer(str(out), device="cpu").encode(NAMES)
    plain, tokenizer = AutoModel.from_pretrained(out).eval(), AutoTokenizer.from_pretrained(out)
    tokens = tokenizer(NAMES, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = plain(**tokens).last_hidden_state[:, 0]  # "auto" pooling of a plain base is [CLS], as in SapBERT
    by_hand = torch.nn.functional.normalize(hidden, dim=1).numpy()
    assert np.allclose(linker, sentence, atol=1e-5)
    assert np.allclose(linker, by_hand, atol=1e-5)

    before = NameEncoder(name=str(tiny_base), dtype="float32")
    before.initialize()
    assert np.abs(linker - before.predict(NAMES)).max() > 1e-3  # the vectors have changed
    assert not list(out.rglob("*.bin"))
    assert not list(out.rglob("*.pt"))
    assert not (tmp_path / "encoder.checkpoints").exists()
    assert report["steps"] == 4
    assert report["names"] > 60
    card = (out / "README.md").read_text()
    assert f"{report['pairs']['pairs']:,} pairs" in card
    assert '"training.seed": 0' in card
    assert str(report["after"]["held_out_at1"]) in card
    lines = [json.loads(line) for line in (out / "train_log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "loss" in line] == [1, 2, 3, 4]
    assert [line["step"] for line in lines if "eval_held_out_at1" in line] == [0, 2, 4]
    assert all(line["names_per_second"] > 0 for line in lines if "loss" in line)
    assert (tmp_path / "encoder.tensorboard").is_dir()


def test_the_loss_falls(settings: Dict[str, Any], tmp_path: Path) -> None:
    run(settings, **{"loss__@losses": "spacy-sapbert.InfoNCE.v1", "training__max_steps": 30, "training__eval_every": 30})
    losses = [line["loss"] for line in map(json.loads, (tmp_path / "encoder" / "train_log.jsonl").read_text().splitlines()) if "loss" in line]
    assert len(losses) == 30
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.15


def test_same_seed_same_weights_and_another_seed_others(settings: Dict[str, Any], tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b", "c")]
    for folder, seed in zip(folders, (1, 1, 2)):
        run(settings, paths__out=str(folder), training__seed=seed)
    a, b, c = map(weights, folders)
    assert all(torch.equal(a[key], b[key]) for key in a)
    assert any(not torch.equal(a[key], c[key]) for key in a)


def whole_and_killed(settings: Dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Train six steps in the folder "whole", and again in the folder of the settings, killed before the sixth step."""
    run(settings, training__max_steps=6, paths__out=str(tmp_path / "whole"))
    with monkeypatch.context() as patch:
        kill_at(5, patch)
        with pytest.raises(Killed):
            run(settings, training__max_steps=6)


@pytest.mark.e2e
def test_a_killed_training_goes_on_to_the_same_weights(settings: Dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole_and_killed(settings, tmp_path, monkeypatch)
    assert not (tmp_path / "encoder").exists()
    assert (tmp_path / "encoder.checkpoints" / "checkpoint-4").is_dir()
    report = run(settings, training__max_steps=6)
    whole, resumed = weights(tmp_path / "whole"), weights(tmp_path / "encoder")
    assert all(torch.equal(whole[key], resumed[key]) for key in whole)
    assert report["steps"] == 6
    lines = [json.loads(line) for line in (tmp_path / "encoder" / "train_log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "loss" in line] == [1, 2, 3, 4, 5, 6]  # no step twice


@pytest.mark.e2e
def test_adapters_resume_too_and_the_best_weights_are_kept(settings: Dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lora = {
        "encoder__adapter": {"@adapters": "spacy-sapbert.Lora.v1", "rank": 4},
        "training__max_steps": 6,
        "training__keep": "best",
        "training__learning_rate": 5e-2,
        "training__precision": "fp32",  # because vectors are compared
    }
    scores = iter([10.0, 20.0, 90.0, 30.0, 40.0] + [90.0, 30.0])
    seen: Dict[int, torch.Tensor] = {}

    def measure(self: Any, opened: Any, *_: Any, steps: int = -1, **__: Any) -> Dict[str, float]:
        seen[steps] = opened.encode(NAMES, convert_to_tensor=True)
        return {"held_out_at1": next(scores), "held_out_at5": 99.0}

    monkeypatch.setattr(loop.HeldOutAccuracy, "__call__", measure)
    with monkeypatch.context() as patch:
        kill_at(3, patch)
        with pytest.raises(Killed):
            run(settings, **lora)  # evaluated at steps 0 and 2
    report = run(settings, **lora)  # step 4 is the best, then 6
    assert report["best_step"] == 4
    assert report["after"]["held_out_at1"] == 90.0
    encoder = NameEncoder(name=str(tmp_path / "encoder"), dtype="float32").initialize()
    assert np.allclose(encoder.predict(NAMES), seen[4].numpy(), atol=1e-4)
    assert not np.allclose(encoder.predict(NAMES), seen[6].numpy(), atol=1e-4)


def test_the_papers_recipe_writes_its_last_weights(settings: Dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the figures fall, the epoch is not stopped and no other weights are chosen; the learning rate is constant, and gradients are not clipped."""
    scores = iter([90.0, 80.0, 70.0, 60.0])
    seen: Dict[int, torch.Tensor] = {}
    arguments: List[Any] = []

    def measure(self: Any, opened: Any, *_: Any, steps: int = -1, **__: Any) -> Dict[str, float]:
        seen[steps] = opened.encode(NAMES, convert_to_tensor=True)
        return {"held_out_at1": next(scores), "held_out_at5": 99.0}

    def begin(self: Any, args: Any, *_: Any, **__: Any) -> None:
        arguments.append(args)

    monkeypatch.setattr(loop.HeldOutAccuracy, "__call__", measure)
    monkeypatch.setattr(loop.Hooks, "on_train_begin", begin)
    report = run(settings, training__max_steps=6, training__precision="fp32", training__learning_rate=5e-2)
    assert (report["steps"], report["best_step"], report["after"]["held_out_at1"]) == (6, 6, 60.0)
    found = NameEncoder(name=str(tmp_path / "encoder"), dtype="float32").initialize().predict(NAMES)
    assert np.allclose(found, seen[6].numpy(), atol=1e-4)
    assert not np.allclose(found, seen[2].numpy(), atol=1e-4)
    (args,) = arguments
    assert (args.max_grad_norm, args.lr_scheduler_type, args.warmup_ratio, args.load_best_model_at_end) == (0.0, "constant", 0.0, False)


def test_an_override_that_names_another_function_drops_the_settings_of_the_first() -> None:
    given = {"paths.base": "b", "loss.@losses": "spacy-sapbert.InfoNCE.v1", "loss.temperature": 0.1}
    assert read_recipe(SAP, given)["loss"] == {"@losses": "spacy-sapbert.InfoNCE.v1", "temperature": 0.1}
    assert read_recipe(SAP, {"loss.alpha": 2.0})["loss"] == {"@losses": "spacy-sapbert.MultiSimilarity.v1", "alpha": 2.0, "beta": 60.0, "base": 0.5}
    with pytest.raises(SapbertError, match=r"E510.*keep = .*patience = 0"):
        read_recipe(SAP, {"training.patience": 3})


def test_the_last_step_is_measured(settings: Dict[str, Any], tmp_path: Path) -> None:
    report = run(settings, training__max_steps=5)
    lines = [json.loads(line) for line in (tmp_path / "encoder" / "train_log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "eval_held_out_at1" in line] == [0, 2, 4, 5]
    assert report["best_step"] in (2, 4, 5)  # never the weights of the base


def test_the_time_limit_makes_a_step_the_last_one(settings: Dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit ends the third of six steps: between two evaluations, and between two lines of the log. It has the best figures, so its weights stay."""
    scores = iter([10.0, 20.0, 90.0])
    seen: Dict[int, torch.Tensor] = {}

    def measure(self: Any, opened: Any, *_: Any, steps: int = -1, **__: Any) -> Dict[str, float]:
        seen[steps] = opened.encode(NAMES, convert_to_tensor=True)
        return {"held_out_at1": next(scores), "held_out_at5": 99.0}

    def begin(self: Any, args: Any, state: Any, *_: Any, **__: Any) -> None:
        if state.global_step == 2:
            self.seconds = 0.0

    monkeypatch.setattr(loop.HeldOutAccuracy, "__call__", measure)
    monkeypatch.setattr(loop.Limit, "on_step_begin", begin)
    more = {
        "training__max_steps": 6,
        "training__keep": "best",
        "training__log_every": 10,
        "training__precision": "fp32",
        "training__learning_rate": 5e-2,
    }
    report = run(settings, training__max_seconds=1e6, **more)
    assert (report["steps"], report["best_step"], report["after"]["held_out_at1"]) == (3, 3, 90.0)
    lines = [json.loads(line) for line in (tmp_path / "encoder" / "train_log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "eval_held_out_at1" in line] == [0, 2, 3]
    assert [line["step"] for line in lines if "loss" in line] == [1, 3]
    found = NameEncoder(name=str(tmp_path / "encoder"), dtype="float32").initialize().predict(NAMES)
    assert np.allclose(found, seen[3].numpy(), atol=1e-4)
    assert not np.allclose(found, seen[2].numpy(), atol=1e-4)


@pytest.mark.e2e
def test_a_checkpoint_that_a_kill_cut_short_is_passed_over(settings: Dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole_and_killed(settings, tmp_path, monkeypatch)
    checkpoints = tmp_path / "encoder.checkpoints"
    (checkpoints / "checkpoint-4" / "trainer_state.json").unlink()
    with open(checkpoints / "train_log.jsonl", "a") as file:
        file.write('{"step": 5, "lo')
    assert str(checkpoints / "checkpoint-2") in loop.last_good(str(checkpoints))
    run(settings, training__max_steps=6)
    whole, resumed = weights(tmp_path / "whole"), weights(tmp_path / "encoder")
    assert all(torch.equal(whole[key], resumed[key]) for key in whole)


@pytest.mark.e2e
@pytest.mark.parametrize("keep", ["last", "best"])
def test_a_training_killed_after_its_last_step_trains_no_more(
    settings: Dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: str
) -> None:
    def killing(*_: Any) -> None:
        raise Killed

    whole = run(settings, training__keep=keep, paths__out=str(tmp_path / "whole"))
    with monkeypatch.context() as patch:
        patch.setattr(fit, "_save", killing)
        with pytest.raises(Killed):
            run(settings, training__keep=keep)
    assert (tmp_path / "encoder.checkpoints" / "checkpoint-4").is_dir()
    resumed = run(settings, training__keep=keep)
    assert (resumed["steps"], resumed["best_step"], resumed["after"]) == (4, whole["best_step"], whole["after"])
    a, b = weights(tmp_path / "whole"), weights(tmp_path / "encoder")
    assert all(torch.equal(a[key], b[key]) for key in a)
    lines = [json.loads(line) for line in (tmp_path / "encoder" / "train_log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "loss" in line] == [1, 2, 3, 4]


def test_a_gradient_that_is_not_a_number_stops_before_it_reaches_the_weights(settings: Dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    original = loop.SelfAlignment.forward

    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, value: torch.Tensor) -> torch.Tensor:
            return value.clone()

        @staticmethod
        def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
            return gradient * float("nan")

    monkeypatch.setattr(loop.SelfAlignment, "forward", lambda self, features, labels: Broken.apply(original(self, features, labels)))
    with pytest.raises(SapbertError, match="gradient is not") as error:
        run(settings)
    assert error.value.code == "E515"


def test_epochs_have_batches_of_their_own(settings: Dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    epochs: List[int] = []
    original = loop.Hooks.on_epoch_begin

    def watch(self: Any, *arguments: Any, **more: Any) -> None:
        original(self, *arguments, **more)
        epochs.append(self.sampler.epoch)

    monkeypatch.setattr(loop.Hooks, "on_epoch_begin", watch)
    run(settings, training__max_steps=-1, training__epochs=2, batches__pairs=64, training__eval_every=1000)
    assert epochs == [0, 1]


def test_resuming_with_other_settings_is_refused(settings: Dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        kill_at(3, patch)
        with pytest.raises(Killed):
            run(settings)
    with pytest.raises(SapbertError, match=r"training\.learning_rate: 0\.001 -> 0\.002") as error:
        run(settings, training__learning_rate=2e-3)
    assert error.value.code == "E514"
    assert str(tmp_path / "encoder.checkpoints") in str(error.value)
    run(settings, training__log_every=2)  # this setting does not change the result


def test_a_loss_that_is_not_a_number_stops_with_the_step_and_the_last_good_checkpoint(
    settings: Dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = loop.SelfAlignment.forward

    def broken(self: Any, features: Any, labels: Any) -> torch.Tensor:
        loss = original(self, features, labels)
        return loss * float("nan") if self.names > 70 else loss

    monkeypatch.setattr(loop.SelfAlignment, "forward", broken)
    with pytest.raises(SapbertError, match=r"nan at step \d.*checkpoint-2") as error:
        run(settings, training__max_steps=20)
    assert error.value.code == "E515"
    assert not (tmp_path / "encoder").exists()


def test_adapters_are_merged_and_lie_beside(settings: Dict[str, Any], tmp_path: Path, tiny_base: Path) -> None:
    report = run(settings, encoder__adapter={"@adapters": "spacy-sapbert.Lora.v1", "rank": 4}, training__learning_rate=1e-2)
    out = tmp_path / "encoder"
    merged, alone = NameEncoder(name=str(out), dtype="float32"), NameEncoder(name=str(out / "adapter"), pooling="cls", dtype="float32")
    merged.initialize()
    alone.initialize()
    assert np.allclose(merged.predict(NAMES), alone.predict(NAMES), atol=2e-3)  # the adapter is in half precision
    # rank 4 on the linear layers of two transformer layers: four of 32 x 32, one of 32 x 64 and one of 64 x 32
    assert report["trainable_parameters"] == 2 * 4 * (4 * (32 + 32) + 2 * (32 + 64))
    base, trained = load_file(tiny_base / "model.safetensors"), weights(out)
    changed = {key for key in base if not torch.equal(base[key], trained[key])}
    assert changed
    assert all("dense" in key or "query" in key or "key" in key or "value" in key for key in changed)


@pytest.mark.parametrize("share", [0.13, 0.01])
def test_adapter_of_a_share_of_the_parameters(tiny_base: Path, share: float) -> None:
    opened = model.open_base("")
    total = model.trainable(opened)[1]
    model.freeze(opened, embeddings=True, layers=0)
    model.add_adapter(opened, model.lora(share=share))
    assert model.trainable(opened)[0] == pytest.approx(share * total, rel=0.15)


def test_frozen_layers_stay_as_they_are(settings: Dict[str, Any], tmp_path: Path, tiny_base: Path) -> None:
    run(settings, encoder__frozen_layers=1, encoder__train_embeddings=False)
    base, trained = load_file(tiny_base / "model.safetensors"), weights(tmp_path / "encoder")
    changed = {key.split(".")[2] for key in base if not torch.equal(base[key], trained[key])}
    assert changed == {"1"}


LATE = """
import os, pathlib, time
made = os.makedirs
def makedirs(name, *arguments, **settings):
    if os.environ.get("RANK") == "0" and "checkpoint-" in str(name):
        pathlib.Path(__file__).with_name("was-late").touch()
        time.sleep(3)
    return made(name, *arguments, **settings)
os.makedirs = makedirs
"""


def words(settings: Dict[str, Any], *launcher: str) -> List[str]:
    """Return the command for a training that torch's launcher starts."""
    arguments = [item for key, value in settings.items() for item in (f"--{key}", str(value))]
    return [sys.executable, "-m", "torch.distributed.run", *launcher, "-m", "training", "train", str(SAP), *arguments]


def environment(**more: str) -> Dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **more}


def learn_what_one_learns(settings: Dict[str, Any], tmp_path: Path, train: Callable[[Dict[str, Any]], None]) -> None:
    """Train in one process, and with `train` in two; compare the reports and the weights."""
    settings.update({"training.eval_every": 4, "training.precision": "fp32", "encoder.dropout": 0.0, "batches.pairs": 17})
    alone = run(settings, paths__out=str(tmp_path / "alone"))
    train({**settings, "paths.out": str(tmp_path / "two")})
    report = json.loads((tmp_path / "two" / "training.json").read_text())
    assert report["settings"]["processes"] == 2
    assert report["steps"] == report["best_step"] == 4  # otherwise the test would not cover waiting for a checkpoint
    assert report["names"] == alone["names"]
    base = load_file(Path(settings["paths.base"]) / "model.safetensors")
    one, both = weights(tmp_path / "alone"), weights(tmp_path / "two")
    moved = max(float((one[key] - base[key]).abs().max()) for key in base)
    assert max(float((one[key] - both[key]).abs().max()) for key in one) < 0.05 * moved


@pytest.mark.e2e
def test_two_processes_learn_what_one_process_learns(settings: Dict[str, Any], tmp_path: Path) -> None:
    """Both processes share the recipe's batch. An earlier bug: the first process wrote its only checkpoint late, and both waited for ever."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(LATE)

    def train(given: Dict[str, Any]) -> None:
        two = words(given, "--standalone", "--nproc_per_node", "2")
        found = subprocess.run(two, cwd=ROOT, env=environment(PYTHONPATH=str(tmp_path / "site")), capture_output=True, text=True, timeout=900)
        assert found.returncode == 0, found.stderr[-2000:]

    learn_what_one_learns(settings, tmp_path, train)
    assert (tmp_path / "site" / "was-late").exists()


@pytest.mark.nightly
@pytest.mark.e2e
def test_two_nodes_learn_what_one_process_learns(settings: Dict[str, Any], tmp_path: Path) -> None:
    def train(given: Dict[str, Any]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        each = ["--nnodes", "2", "--nproc_per_node", "1", "--master_addr", "127.0.0.1", "--master_port", port]
        nodes = [subprocess.Popen(words(given, *each, "--node_rank", rank), cwd=ROOT, env=environment()) for rank in "01"]
        assert [node.wait(900) for node in nodes] == [0, 0]

    learn_what_one_learns(settings, tmp_path, train)


@pytest.mark.nightly
@pytest.mark.e2e
def test_a_training_goes_on_with_another_number_of_processes(settings: Dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.update({"training.precision": "fp32", "encoder.dropout": 0.0, "training.max_steps": 6})
    whole_and_killed(settings, tmp_path, monkeypatch)
    two = words(settings, "--standalone", "--nproc_per_node", "2")
    found = subprocess.run(two, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=900)
    assert found.returncode == 0, found.stderr[-2000:]
    lines = [json.loads(line) for line in (tmp_path / "encoder" / "train_log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "loss" in line] == [1, 2, 3, 4, 5, 6]
    whole, resumed = weights(tmp_path / "whole"), weights(tmp_path / "encoder")
    base = load_file(Path(settings["paths.base"]) / "model.safetensors")
    moved = max(float((whole[key] - base[key]).abs().max()) for key in base)
    assert max(float((whole[key] - resumed[key]).abs().max()) for key in whole) < 0.05 * moved


@pytest.mark.parametrize(
    ("arguments", "variable", "shown"),
    [
        (["max_steps", "5"], "", "'max_steps 5'"),
        (["--max_steps", "5"], "", "'--max_steps 5'"),  # the setting has no section
        ([], "--max_steps 5", "'--max_steps 5'"),
    ],
)
def test_a_wrong_override_is_a_coded_error(
    arguments: List[str], variable: str, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPACY_CONFIG_OVERRIDES", variable)
    with pytest.raises(SapbertError, match="E510") as error:
        overridden(SAP, arguments)
    assert f"{shown} is not --section.key value" in str(error.value)
    assert capsys.readouterr().out == ""


def test_dictionary_of_the_held_out_queries_holds_no_query(settings: Dict[str, Any], tiny_kb: KnowledgeBase) -> None:
    sample = held_out_sample(tiny_kb, resolve(read_recipe(SAP, settings)))
    assert sample.queries
    assert not set(sample.queries) & set(sample.names)
    assert set(sample.query_labels) <= set(sample.name_labels)  # each query has a right name


@pytest.mark.parametrize(
    ("changed", "code", "named"),
    [
        ({"paths.base": "nobody/no-such-model"}, "E512", "nobody/no-such-model"),
        ({"paths.pairs": "nowhere"}, "E502", "nowhere"),
        ({"paths.kb": "nowhere"}, "E101", "nowhere"),
        ({"training.learning_rate": -1}, "E510", "learning_rate"),
        ({"training.learningrate": 1}, "E510", "learningrate"),
        ({"loss.@losses": "spacy-sapbert.Nothing.v1"}, "E510", "Nothing"),
        ({"batches.pairs": 1}, "E511", "batches.pairs"),
        ({"encoder.frozen_layers": 9}, "E511", "2 layers"),
    ],
)
def test_bad_input_names_what_is_wrong(
    settings: Dict[str, Any], changed: Dict[str, Any], code: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(SapbertError, match=named) as error:
        run({**settings, **changed})
    assert error.value.code == code


def small_words(settings: Dict[str, Any]) -> List[str]:
    """Return the arguments to train the tiny base with the default recipe."""
    given = {**settings, "encoder.frozen_layers": 1, "training.eval_names": 50}
    return ["train", str(SMALL), *(word for key, value in given.items() for word in (f"--{key}", str(value)))]


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"paths.pairs": "nowhere"}, "[E502] 'nowhere' is not a folder of pairs: there is no such folder."),
        ({"paths.kb": "nowhere"}, "[E101] No knowledge base at 'nowhere': there is no such folder."),
        ({"paths.base": "nobody/no-such-model"}, "[E512] Base encoder 'nobody/no-such-model' can't be loaded: "),
        ({"encoder.frozen_layers": 9}, "[E511] Setting 'encoder.frozen_layers' is 9: the base has 2 layers."),
        pytest.param(
            {"training.gpu_id": 0},
            "[E513] GPU 0 was requested, but PyTorch finds none",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
    ],
)
def test_the_default_recipe_is_checked_before_its_processes_start(
    settings: Dict[str, Any], changed: Dict[str, Any], error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def launched(*_: Any) -> None:
        raise AssertionError

    assert resolve(read_recipe(SMALL)).training.processes == 2
    monkeypatch.setattr(os, "execve", launched)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    ended = command(*small_words(settings), *(word for key, value in changed.items() for word in (f"--{key}", str(value))))
    assert ended.exit_code == 1
    assert ended.stderr.startswith(error)
    assert ended.stderr.count("\n") == 1


@pytest.mark.e2e
def test_an_error_of_both_processes_is_shown_once(settings: Dict[str, Any], tmp_path: Path) -> None:
    """The checkpoints are of other settings, which only the processes of the training see."""
    checkpoint = tmp_path / "encoder.checkpoints" / "checkpoint-2"
    checkpoint.mkdir(parents=True)
    (checkpoint / "trainer_state.json").write_text("{}")
    (checkpoint.parent / fit.SETTINGS).write_text('{"training.epochs": 9}')
    found = subprocess.run(
        [sys.executable, "-m", "training", *small_words(settings)], cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=900
    )
    assert found.returncode == 1
    assert found.stderr.startswith(f"[E514] '{checkpoint.parent}' holds checkpoints of a training with other settings (")
    assert "training.epochs: 9 -> 0.5" in found.stderr
    assert found.stderr.count("\n") == 1
    assert found.stdout == ""


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there(settings: Dict[str, Any]) -> None:
    with pytest.raises(SapbertError, match=r"GPU 0 .*gpu_id -1") as error:
        run(settings, training__gpu_id=0)
    assert error.value.code == "E513"


def test_pairs_of_another_knowledge_base(settings: Dict[str, Any], tmp_path: Path) -> None:
    from spacy_sapbert.kb.builder import Source, build_kb
    from spacy_sapbert.kb.concept import Concept, Name

    build_kb([Source("x", [Concept("A:1", "T", names=[Name("fever", "T")])])], tmp_path / "other")
    with pytest.raises(SapbertError, match="another knowledge base") as error:
        run({**settings, "paths.kb": str(tmp_path / "other")})
    assert error.value.code == "E502"


@pytest.mark.e2e
@pytest.mark.parametrize(("number", "what"), [(signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "Ctrl-C")])
def test_two_processes_end_together_and_say_it_once(settings: Dict[str, Any], tmp_path: Path, number: signal.Signals, what: str) -> None:
    words = small_words({**settings, "training.max_steps": 4000})
    run_it = [sys.executable, "-c", "import signal, runpy; signal.signal(signal.SIGINT, signal.default_int_handler); runpy.run_module('training')"]
    process = subprocess.Popen(
        [*run_it, *words], cwd=ROOT, env=environment(), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        deadline = time.monotonic() + 300
        while not loop.last_checkpoint(tmp_path / "encoder.checkpoints"):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.send_signal(number)
        stderr = process.communicate(timeout=120)[1]
        with pytest.raises(ProcessLookupError):  # no process of the group is left
            os.killpg(process.pid, 0)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 128 + number
    assert stderr.count(f"[E058] Stopped by {what}") == 1
    assert "Traceback" not in stderr
    assert loop.last_checkpoint(tmp_path / "encoder.checkpoints")


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 8044352 vs 8044240"),
        RuntimeError("basic_ios::clear: iostream error"),
        Exception("No space left on device (os error 28)"),  # tokenizers
    ],
    ids=["system", "torch", "stream", "tokenizers"],
)
def test_every_way_to_say_that_the_disk_is_full(settings: Dict[str, Any], monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(fit, "_begin", full)  # the first thing that is written
    with pytest.raises(SapbertError, match=r"E516.*No checkpoint was written yet"):
        run(settings)


def test_no_room_left(settings: Dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(loop.Trainer, "_save", full)
    with pytest.raises(SapbertError, match="No disk space is left") as error:
        run(settings)
    assert error.value.code == "E516"
    assert not (tmp_path / "encoder").exists()


def test_a_full_disk_in_a_thread_prints_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(error: Exception) -> None:
        raise error

    printed: List[str] = []

    def record(args: threading.ExceptHookArgs) -> None:
        printed.append(str(args.exc_value))

    monkeypatch.setattr(threading, "excepthook", record)
    with fit.naming_full_disk(tmp_path):
        for error in (OSError(28, "No space left on device"), ValueError("another error")):
            thread = threading.Thread(target=write, args=[error])
            thread.start()
            thread.join()
    assert printed == ["another error"]
    assert threading.excepthook is record


def test_command_line(settings: Dict[str, Any]) -> None:
    wrong = command("train", SAP, "--training.gpu")
    assert wrong.exit_code == 1
    assert "E51" in wrong.stderr
    missing = command("train", "no.cfg")
    assert missing.exit_code == 1
    assert "no.cfg" in missing.stderr
    trained = command("train", SAP, *(word for key, value in settings.items() for word in (f"--{key}", value)))
    assert trained.exit_code == 0, trained.stderr
    assert json.loads(trained.stdout)["steps"] == 4


def test_a_gpu_whose_memory_is_full(settings: Dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 4 GiB. More words. And more.")

    monkeypatch.setattr(loop.SelfAlignment, "forward", full)
    with pytest.raises(
        SapbertError, match=r"Tried to allocate 2\.00 GiB.*cache_gradients true.*batch_tokens.*max_length \(25\).*batch \(16;"
    ) as error:
        run(settings)
    assert error.value.code == "E529"
    with pytest.raises(SapbertError) as error:
        run(settings, training__cache_gradients=True)
    assert "cache_gradients true" not in str(error.value)


@pytest.mark.e2e
def test_a_compiled_transformer_learns_the_same(settings: Dict[str, Any], tmp_path: Path) -> None:
    same = {"training__max_steps": 2, "training__precision": "fp32", "encoder__dropout": 0.0}
    run(settings, **same)
    run(settings, **same, training__compile=True, paths__out=str(tmp_path / "compiled"))
    plain, compiled = weights(tmp_path / "encoder"), weights(tmp_path / "compiled")
    assert plain.keys() == compiled.keys()
    base = load_file(Path(settings["paths.base"]) / "model.safetensors")
    moved = max(float((plain[key] - base[key]).abs().max()) for key in base)
    assert max(float((plain[key] - compiled[key]).abs().max()) for key in plain) < 0.05 * moved
