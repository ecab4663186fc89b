"""The parts of the training loop: the loss gets the vectors of the model, from one process or from two."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from transformers import TrainerControl, TrainerState, TrainingArguments

from training.loop import trainer as loop
from training.loop.losses import make_info_nce, make_multi_similarity
from training.loop.mining import make_hard_triplets
from training.loop.model import open_base
from training.loop.trainer import HeldOut, HeldOutAccuracy, Log, NameCollator, Parts, SelfAlignment, gather, last_good, micro_batches

pytestmark = pytest.mark.usefixtures("one_thread")

NAMES = [
    "fever",
    "ventricular septal defect",
    "low muscle tone since birth",
    "gout",
    "x",
    "inherited disorder of the connective tissue of joints",
    "rash",
]


def test_collator_gives_each_name_once(tiny_base: Path) -> None:
    model = open_base(str(tiny_base))
    rows = [
        {"anchor": "fever", "positive": "pyrexia", "label": 3},
        {"anchor": "fever", "positive": "high temperature", "label": 3},
        {"anchor": "a", "positive": "b", "label": 5},
    ]
    batch = NameCollator(model.tokenizer, 25)(rows)
    texts = model.tokenizer.batch_decode(batch["name_input_ids"], skip_special_tokens=True)
    assert texts == ["fever", "pyrexia", "high temperature", "a", "b"]
    assert batch["label"].tolist() == [3, 3, 3, 5, 5]
    assert batch["name_attention_mask"].sum(dim=1).tolist() == [len(model.tokenizer(t)["input_ids"]) for t in texts]


def test_collator_reads_max_length_tokens(tiny_base: Path) -> None:
    batch = NameCollator(open_base(str(tiny_base)).tokenizer, 6)([{"anchor": "one two three four five six seven", "positive": "b", "label": 0}])
    assert batch["name_input_ids"].shape == (2, 6)


@pytest.mark.parametrize(
    ("lengths", "tokens", "expected"),
    [
        ([3, 3, 3], 9, [[0, 1, 2]]),
        ([3, 3, 3], 8, [[0, 1], [2]]),  # 3 names of 3 tokens are 9
        ([3, 4, 9], 10, [[0, 1], [2]]),
        ([30], 10, [[0]]),  # longer than a micro-batch: alone
        ([2] * 16 + [3], 1000, [list(range(16)), [16]]),  # a longer name would pad 16 others
        ([2] * 15 + [3], 1000, [list(range(16))]),
    ],
)
def test_micro_batches(lengths: List[int], tokens: int, expected: List[List[int]]) -> None:
    assert [list(rows) for rows in micro_batches(lengths, tokens)] == expected


@pytest.mark.parametrize("batch_tokens", [25, 1024])
def test_micro_batches_change_no_vector(tiny_base: Path, batch_tokens: int) -> None:
    model = open_base(str(tiny_base), dropout=0.0)
    seen: List[torch.Tensor] = []

    def loss(vectors: torch.Tensor, labels: torch.Tensor, mined: Any) -> torch.Tensor:
        seen.append(vectors.detach())
        return vectors.sum()

    aligned = SelfAlignment(model, loss, lambda vectors, labels: None, batch_tokens)
    rows = [{"anchor": name, "positive": name, "label": i} for i, name in enumerate(NAMES)]
    batch = NameCollator(model.tokenizer, 25)(rows)
    aligned([{"input_ids": batch["name_input_ids"], "attention_mask": batch["name_attention_mask"]}], batch["label"]).backward()
    model.eval()
    assert np.allclose(seen[0].numpy(), model.encode(NAMES), atol=1e-5)  # in the order of the batch
    assert aligned.names == len(NAMES)


@pytest.mark.parametrize(("dropout", "same"), [(0.0, True), (0.1, False)])
def test_dropout_reaches_attention_too(tiny_base: Path, dropout: float, same: bool) -> None:
    model = open_base(str(tiny_base), dropout=dropout).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0  # the only other dropout is in fused attention
    tokens = NameCollator(model.tokenizer, 25)([{"anchor": name, "positive": name, "label": i} for i, name in enumerate(NAMES)])
    features = {"input_ids": tokens["name_input_ids"], "attention_mask": tokens["name_attention_mask"]}
    first, second = (model(dict(features))["sentence_embedding"] for _ in range(2))
    assert torch.allclose(first, second, atol=1e-6) == same


VECTORS = torch.tensor([[1.0, 0.0], [0.9, 0.3], [0.2, 1.0], [0.1, 0.8], [-1.0, 0.2], [-0.9, 0.1], [0.3, -1.0]])
LABELS = torch.tensor([0, 1, 1, 0, 2, 2, 3])  # so that there are hard triplets, also across the two parts
SHARES = (range(4), range(4, 7))  # parts of unequal size


def whole_gradient(weight: torch.Tensor) -> Tuple[float, torch.Tensor]:
    weight = weight.clone().requires_grad_(True)
    vectors = torch.nn.functional.normalize(VECTORS @ weight, dim=1)
    loss = make_multi_similarity()(vectors, LABELS, make_hard_triplets()(vectors, LABELS))
    loss.backward()
    return float(loss.detach()), weight.grad  # type: ignore[return-value]


def in_two_processes(work: Callable[[int, int, str], None], folder: Path) -> None:
    """Run `work(rank, free port, folder)` in two processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    multiprocessing.spawn(work, (port, str(folder)), nprocs=2)


def leave() -> None:
    """End this process at once. Otherwise torch joins the thread of gloo while it holds the interpreter's lock, and that thread may wait for
    the lock to free the last exchange of gradients: a third of the processes hung for ever."""
    sys.stdout.flush()
    os._exit(0)


def share_of_work(rank: int, port: int, folder: str) -> None:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    layer = torch.nn.Linear(2, 2, bias=False)
    torch.nn.init.eye_(layer.weight)
    model = torch.nn.parallel.DistributedDataParallel(layer)
    rows = list(SHARES[rank])
    vectors, labels, scale = gather(torch.nn.functional.normalize(model(VECTORS[rows]), dim=1), LABELS[rows])
    loss = make_multi_similarity()(vectors, labels, make_hard_triplets()(vectors, labels))
    (loss * scale).backward()
    assert layer.weight.grad is not None
    torch.save({"loss": float(loss.detach()), "labels": labels, "gradient": layer.weight.grad}, Path(folder) / f"{rank}.pt")
    leave()


@pytest.mark.e2e
def test_two_processes_mine_over_the_whole_batch_and_give_its_gradient(tmp_path: Path) -> None:
    in_two_processes(share_of_work, tmp_path)
    loss, gradient = whole_gradient(torch.eye(2))
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert found["labels"].tolist() == LABELS.tolist()
        assert found["loss"] == pytest.approx(loss, rel=1e-5)
        assert torch.allclose(found["gradient"].T, gradient, atol=1e-5)
    assert gradient.abs().max() > 1e-3


def test_one_process_gathers_nothing() -> None:
    vectors, labels, scale = gather(VECTORS, LABELS)
    assert vectors is VECTORS
    assert labels is LABELS
    assert scale == 1.0


# -- gradient caching ---------------------------------------------------------------------------------------------------


def gradients(model: Any, cached: bool, bfloat16: bool = False) -> Tuple[float, Dict[str, torch.Tensor], float]:
    """Return loss, gradients, and the next random number for a batch in micro-batches of 25 tokens."""
    aligned = SelfAlignment(model, make_info_nce(0.1), lambda vectors, labels: None, 25, cached)
    rows = [{"anchor": name, "positive": f"{name} syndrome", "label": i} for i, name in enumerate(NAMES)]
    batch = NameCollator(model.tokenizer, 25)(rows)
    model.train().zero_grad()
    torch.manual_seed(3)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bfloat16):
        loss = aligned([{"input_ids": batch["name_input_ids"], "attention_mask": batch["name_attention_mask"]}], batch["label"])
    (loss * 2).backward()  # like a scaled loss
    assert aligned.names == 2 * len(NAMES)
    found = {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}
    return float(loss.detach()), found, float(torch.rand(1))


# in bfloat16 the sum over micro-batches is rounded too
@pytest.mark.parametrize(("bfloat16", "tolerance"), [(False, 1e-5), (True, 0.03)])
def test_cached_gradients_are_those_of_the_whole_batch(tiny_base: Path, bfloat16: bool, tolerance: float) -> None:
    model = open_base(str(tiny_base), dropout=0.1)
    plain, cached = gradients(model, False, bfloat16), gradients(model, True, bfloat16)
    assert cached[0] == pytest.approx(plain[0], rel=1e-6)
    assert cached[2] == plain[2]  # later random numbers are the same
    assert cached[1].keys() == plain[1].keys()
    assert len(cached[1]) > 30
    for name, gradient in plain[1].items():
        assert (cached[1][name] - gradient).norm() <= tolerance * gradient.norm() + 1e-6, name
    assert max(gradient.abs().max() for gradient in plain[1].values()) > 0.05


@pytest.mark.parametrize("batch_tokens", [0, 60])
def test_a_gpu_takes_the_batch_in_one_padded_pass(tiny_base: Path, monkeypatch: pytest.MonkeyPatch, batch_tokens: int) -> None:
    """If batch_tokens is given, passes have this size, whatever the lengths of the names are."""
    model = open_base(str(tiny_base), dropout=0.0)
    passes: List[Tuple[int, ...]] = []
    model.register_forward_pre_hook(lambda _, given: passes.append(tuple(given[0]["input_ids"].shape)))
    rows = [{"anchor": name, "positive": f"{name} syndrome of {name}", "label": i} for i, name in enumerate(NAMES)]
    batch = NameCollator(model.tokenizer, 25)(rows)
    found = []
    for on_gpu in (False, True):
        if on_gpu:
            monkeypatch.setattr(loop, "by_length", lambda device: False)
        passes.clear()
        model.zero_grad()
        aligned = SelfAlignment(model, make_info_nce(0.1), lambda vectors, labels: None, batch_tokens if on_gpu else 25)
        loss = aligned([{"input_ids": batch["name_input_ids"], "attention_mask": batch["name_attention_mask"]}], batch["label"])
        loss.backward()
        found.append(({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}, list(passes)))
    (small, several), (padded, few) = found
    assert len(several) > len(few)
    assert few == [tuple(batch["name_input_ids"].shape)] if not batch_tokens else all(a * b <= 60 for a, b in few)
    for name, gradient in small.items():
        assert (padded[name] - gradient).norm() <= 1e-5 * gradient.norm() + 1e-6, name


def test_parts_of_a_batch_keep_labels_together() -> None:
    sampler = [[0, 1, 2, 3, 4], [5, 6, 7, 8], [9]]
    assert list(Parts(sampler, 2)) == [[0, 1], [2, 3, 4], [5, 6], [7, 8]]  # a batch of one row gives the second process none

    class Labelled(List[List[int]]):
        labels = np.array([0, 0, 0, 1, 2, 3, 4, 4, 4, 4])

    # rows 0 to 2 are of one label, as are 6 to 9: the cut at the middle moves to the nearest other label
    assert list(Parts(Labelled([[0, 1, 2, 3, 4], [5, 6, 7, 8], [6, 7, 8, 9]]), 2)) == [[0, 1, 2], [3, 4], [5], [6, 7, 8], [6, 7], [8, 9]]
    assert len(Parts(sampler, 2)) == 6


class Toy(torch.nn.Module):
    """A model that averages and maps token vectors, and records its calls."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.tokens = torch.nn.Parameter(torch.randn(50, 4, generator=generator))
        self.map = torch.nn.Parameter(torch.randn(4, 3, generator=generator))
        self.events: List[str] = []

    def forward(self, features: Dict[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
        mask = features["attention_mask"].float()[..., None]
        vectors = (self.tokens[features["input_ids"]] * mask).sum(dim=1) / mask.sum(dim=1) @ self.map
        self.events.append("graph" if torch.is_grad_enabled() else "no graph")
        if vectors.requires_grad:
            vectors.register_hook(lambda gradient: self.events.append("backward"))
        return {"sentence_embedding": torch.nn.functional.normalize(vectors, dim=1)}


IDS = torch.arange(1, 29).reshape(7, 4)
LENGTHS = torch.tensor([4, 2, 3, 4, 1, 4, 2])


def toy_batch(rows: List[int]) -> Tuple[Dict[str, torch.Tensor], torch.Tensor]:
    mask = (torch.arange(4) < LENGTHS[rows, None]).long()
    return {"input_ids": IDS[rows], "attention_mask": mask}, LABELS[rows]


def test_one_micro_batch_has_a_graph_at_a_time() -> None:
    toy = Toy()
    features, labels = toy_batch(list(range(7)))
    loss = SelfAlignment(toy, make_info_nce(0.1), lambda vectors, labels: None, 8, True)([features], labels)  # type: ignore[arg-type]
    count = len(toy.events)
    assert toy.events == ["no graph"] * count
    assert count > 2
    loss.backward()
    assert toy.events[count:] == ["graph", "backward"] * count


def toy_share(rank: int, port: int, folder: str) -> None:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    for cached in (False, True):
        toy = Toy()
        model = torch.nn.parallel.DistributedDataParallel(toy)
        features, labels = toy_batch(list(SHARES[rank]))
        aligned = SelfAlignment(model, make_info_nce(0.1), lambda vectors, labels: None, 4, cached)  # type: ignore[arg-type]
        loss = aligned([features], labels)
        loss.backward()
        found = {"loss": loss.detach(), "tokens": toy.tokens.grad, "map": toy.map.grad, "names": torch.tensor(aligned.names)}
        torch.save(found, Path(folder) / f"{rank}-{cached}.pt")
    leave()


@pytest.mark.e2e
def test_cached_gradients_of_two_processes(tmp_path: Path) -> None:
    """Their parts are unequal, so that they have unequal numbers of micro-batches."""
    in_two_processes(toy_share, tmp_path)
    toy = Toy()
    features, labels = toy_batch(list(range(7)))
    loss = SelfAlignment(toy, make_info_nce(0.1), lambda vectors, labels: None, 1024)([features], labels)  # type: ignore[arg-type]
    loss.backward()
    for rank in range(2):
        for cached in (False, True):
            found = torch.load(tmp_path / f"{rank}-{cached}.pt", weights_only=True)
            assert float(found["loss"]) == pytest.approx(float(loss.detach()), rel=1e-5)
            assert torch.allclose(found["map"], toy.map.grad, atol=1e-6)
            assert torch.allclose(found["tokens"], toy.tokens.grad, atol=1e-6)
            assert int(found["names"]) == 7
    assert toy.map.grad is not None
    assert toy.map.grad.abs().max() > 1e-2


class Encodes:
    """An encoder that looks up vectors by text."""

    def __init__(self, vectors: Dict[str, Tuple[float, float]]) -> None:
        self.vectors = vectors

    def encode(self, texts: List[str], **_: Any) -> np.ndarray:
        return np.array([self.vectors[text] for text in texts], dtype=np.float32)


def test_held_out_accuracy_by_hand() -> None:
    model = Encodes({"a": (1, 0), "b": (0, 1), "c": (1, 0), "q1": (0.8, 0.6), "q2": (0.6, 0.8), "q3": (0, 1)})
    data = HeldOut(["q1", "q2", "q3"], np.array([0, 0, 1]), ["held_out", "held_out", "zero_shot"], ["a", "b", "c"], np.array([0, 1, 2]))
    found = HeldOutAccuracy(data)(model)
    # q1: "a" of 0 and "c" of 2 tie at .8: one half. q2: "b" of 1 is first, then the tie: at 5 right. q3: right.
    assert found == {"held_out_at1": 25.0, "held_out_at5": 100.0, "zero_shot_at1": 100.0, "zero_shot_at5": 100.0}


def test_log_counts_names_of_steps_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 10.0, 12.0, 100.0, 103.0, 200.0, 300.0])
    monkeypatch.setattr("training.loop.trainer.time.monotonic", lambda: next(clock))
    aligned = SelfAlignment(torch.nn.Identity(), None, None, 25)  # type: ignore[arg-type]
    log = Log(tmp_path / "log.jsonl", aligned)  # the clock is at 0
    arguments, state, control = TrainingArguments(output_dir=str(tmp_path), report_to=[], use_cpu=True), TrainerState(), TrainerControl()
    for names in (50, 150):  # two steps of 2 and 3 seconds; time between them, such as an evaluation, is not counted
        log.on_step_begin(arguments, state, control)
        aligned.names = names
        log.on_step_end(arguments, state, control)
    state.global_step = 2
    log.on_log(arguments, state, control, logs={"loss": 0.5})
    log.on_log(arguments, state, control, logs={"eval_held_out_at1": 80.0})
    first, second = (json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines())
    assert first["names_per_second"] == 30.0
    assert first["step"] == 2
    assert first["seconds"] == 200.0
    assert first["peak_memory_mb"] > 100
    assert "names_per_second" not in second
    assert second["eval_held_out_at1"] == 80.0


def test_last_good_checkpoint_in_words(tmp_path: Path) -> None:
    assert last_good(str(tmp_path)) == "no checkpoint was written yet" == last_good(None)
    for step in (5, 10):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text("{}")
    (tmp_path / "checkpoint-15").mkdir()  # an incomplete checkpoint
    assert str(tmp_path / "checkpoint-10") in last_good(str(tmp_path))


def test_a_checkpoint_of_several_processes_is_read_again(tmp_path: Path) -> None:
    """The trainer loads the state of the optimiser onto its own device, which is "cpu:0" if there are several processes."""
    torch.save({"step": torch.tensor(7.0)}, tmp_path / "optimizer.pt")
    assert float(torch.load(tmp_path / "optimizer.pt", map_location=torch.device("cpu:0"), weights_only=True)["step"]) == 7.0
