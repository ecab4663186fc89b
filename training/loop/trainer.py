"""The loop: sentence-transformers' trainer with our loss, batches of unique names, held-out accuracy, and a log in names a second."""

from __future__ import annotations

import json
import math
import resource
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers.base.evaluation import BaseEvaluator
from sentence_transformers.base.losses.gradcache import RandContext
from transformers.trainer_callback import ProgressCallback, TrainerCallback

from spacy_sapbert.types import Floats2d

from ..data.augment import Augment
from ..data.pairs import HELD_OUT
from ..errors import fail
from .model import HEAD, load_head, transformer_of
from .retrieval import retrieval_accuracy

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
LossFunction = Callable[..., torch.Tensor]
Miner = Callable[[torch.Tensor, torch.Tensor], Any]
Part = Tuple[List[int], int]  # a micro-batch: rows of the batch, by length, and the longest one's tokens
MIN_ROWS = 16  # names in a micro-batch before a longer name may begin the next


def _on_cpu(storage: Any, location: str) -> Any:
    return storage if location.startswith("cpu:") else None


# of several processes on a CPU each calls its device "cpu:0", which the trainer hands to torch.load with a checkpoint, which knows only "cpu"
torch.serialization.register_package(5, lambda storage: None, _on_cpu)


class NameCollator:
    """Pairs -> the names in them, each once, tokenised. Rows: {"anchor", "positive", "label"}.

    augment: see `training.data.augment`; None leaves names as they are. seed (int): decides, with the pair, what becomes of a name.
    RETURNS: "name_input_ids" and "name_attention_mask", both (n, longest), and "label" (n,): the form that the trainer hands to a loss.
    """

    valid_label_columns = ["label"]

    def __init__(self, tokenizer: Any, max_length: int, augment: Optional[Augment] = None, seed: int = 0) -> None:
        self.tokenizer, self.max_length, self.augment, self.seed = tokenizer, max_length, augment, seed

    def __call__(self, rows: Sequence[Dict[str, Any]]) -> Dict[str, torch.Tensor]:
        labels: Dict[str, int] = {}
        for row in rows:
            for column, other in (("anchor", "positive"), ("positive", "anchor")):
                name = row[column] if self.augment is None else self.augment(row[column], f"{self.seed}\t{row[other]}")
                labels.setdefault(name, int(row["label"]))
        return features(self.tokenizer, list(labels), self.max_length, torch.tensor(list(labels.values()), dtype=torch.long))


def features(tokenizer: Any, texts: List[str], max_length: int, label: torch.Tensor) -> Dict[str, torch.Tensor]:
    """Texts and their label in the form that the trainer hands to a loss, each key after the name of a column."""
    tokens = tokenizer(texts, padding=True, truncation=True, max_length=max_length, return_tensors="pt")
    return {"name_input_ids": tokens["input_ids"], "name_attention_mask": tokens["attention_mask"], "label": label}


class TextCollator:
    """Rows -> the texts in `columns`, column after column, tokenised, with a label.

    label: rows -> "label", of any shape.
    RETURNS: as `NameCollator`, with len(columns) x len(rows) texts.
    """

    valid_label_columns = ["label"]

    def __init__(self, tokenizer: Any, max_length: int, columns: Sequence[str], label: Callable[[Sequence[Dict[str, Any]]], torch.Tensor]) -> None:
        self.tokenizer, self.max_length, self.columns, self.label = tokenizer, max_length, columns, label

    def __call__(self, rows: Sequence[Dict[str, Any]]) -> Dict[str, torch.Tensor]:
        texts = [str(row[column]) for column in self.columns for row in rows]
        return features(self.tokenizer, texts, self.max_length, self.label(rows))


class Objective(torch.nn.Module):
    """What is learnt from a batch: its texts, encoded in micro-batches, and a loss over all of them. Subclasses say `measure`.

    batch_tokens (int): of a micro-batch. Texts are sorted by length and cut into micro-batches, so that padding is hardly computed; the loss
        sees all of them at once.
    cache_gradients (bool): GradCache (Gao et al., RepL4NLP 2021, section 3): the texts are first encoded without a graph, the loss gives the
        gradient of each vector, and micro-batch by micro-batch is encoded again, with the same dropout, and handed its part. The
        gradient is that of the whole batch, memory that of one micro-batch, time about a fifth more (measured; so the paper).
    """

    output = "sentence_embedding"  # which of the model's outputs

    def __init__(self, model: SentenceTransformer, batch_tokens: int, cache_gradients: bool = False) -> None:
        super().__init__()
        self.model = model
        self.batch_tokens = batch_tokens
        self.cache_gradients = cache_gradients
        self.names = 0  # texts encoded so far, of all processes

    def measure(self, vectors: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """(n, d) in the order of the batch, what the collator calls "label" -> scalar. Counts the texts."""
        raise NotImplementedError

    def forward(self, sentence_features: Iterable[Dict[str, torch.Tensor]], labels: torch.Tensor) -> torch.Tensor:
        """One feature dictionary of n texts, labels -> scalar."""
        (found,) = sentence_features
        ids, mask = found["input_ids"], found["attention_mask"]
        parts = self._parts(mask)
        if self.cache_gradients and torch.is_grad_enabled():
            return self._cached(ids, mask, parts, labels)
        vectors = torch.cat([self._embed(ids, mask, part) for part in parts])  # (n, d)
        return self.measure(vectors[_back(parts, ids.device)], labels)

    def _parts(self, mask: torch.Tensor) -> List[Part]:
        lengths = mask.sum(dim=1).tolist()
        order = sorted(range(len(lengths)), key=lambda row: lengths[row])
        ranges = micro_batches([lengths[row] for row in order], self.batch_tokens)
        return [([order[i] for i in part], lengths[order[part[-1]]]) for part in ranges]

    def _embed(self, ids: torch.Tensor, mask: torch.Tensor, part: Part) -> torch.Tensor:
        rows, longest = part
        found = self.model({"input_ids": ids[rows, :longest], "attention_mask": mask[rows, :longest]})
        vectors: torch.Tensor = found[self.output]
        if HEAD in found and self.output != HEAD:  # a gradient of zero: processes that train together wait for one of each weight
            vectors = vectors + 0 * found[HEAD].sum()
        return vectors

    def _cached(self, ids: torch.Tensor, mask: torch.Tensor, parts: List[Part], labels: torch.Tensor) -> torch.Tensor:
        kind = ids.device.type
        # as around this call, also in the backward pass; weights that were cast without a graph must not be taken for those with one
        precision = partial(torch.autocast, kind, dtype=torch.get_autocast_dtype(kind), enabled=torch.is_autocast_enabled(kind), cache_enabled=False)
        states, found = [], []
        for part in parts:
            states.append(RandContext(ids))
            with torch.no_grad(), precision():
                found.append(self._embed(ids, mask, part))
        vectors = torch.cat(found)[_back(parts, ids.device)].requires_grad_()
        value = self.measure(vectors, labels)
        (gradient,) = torch.autograd.grad(value, vectors)  # (n, d)
        loss = value.detach().requires_grad_()
        once = getattr(self.model, "no_sync", nullcontext)  # processes exchange gradients once, at the end

        def replay(scale: torch.Tensor) -> None:
            for i, (part, state) in enumerate(zip(parts, states)):
                with torch.enable_grad(), once() if i + 1 < len(parts) else nullcontext():
                    with state, precision():
                        again = self._embed(ids, mask, part)
                    ((again.float() * gradient[part[0]].float()).sum() * scale).backward()

        loss.register_hook(replay)
        return loss


def _back(parts: List[Part], device: torch.device) -> torch.Tensor:
    """Where each row of the batch stands among the micro-batches."""
    order = torch.tensor([row for rows, _ in parts for row in rows], device=device)
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order), device=device)
    return back


class SelfAlignment(Objective):
    """Encode the names of a batch, gather those of the other processes, mine, and weigh (Liu et al. 2021, section 2)."""

    def __init__(self, model: SentenceTransformer, loss: LossFunction, miner: Miner, batch_tokens: int, cache_gradients: bool = False) -> None:
        super().__init__(model, batch_tokens, cache_gradients)
        self.loss = loss
        self.miner = miner

    def measure(self, vectors: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """(n, d), (n,) -> scalar."""
        vectors, labels, scale = gather(vectors, labels)
        self.names += len(labels)
        loss = self.loss(vectors, labels, self.miner(vectors, labels))
        return loss * scale - loss.detach() * (scale - 1)  # the gradient is scaled, the value that is logged is not


def micro_batches(lengths: Sequence[int], batch_tokens: int) -> List[range]:
    """Ascending lengths -> ranges of at most `batch_tokens` tokens with their padding (one name may have more), cut too where the length
    grows and MIN_ROWS names are in."""
    cuts = [0]
    for row, length in enumerate(lengths):
        first = cuts[-1]
        full = (row - first + 1) * length > batch_tokens
        grows = length > lengths[first] and row - first >= MIN_ROWS
        if row > first and (full or grows):
            cuts.append(row)
    return [range(a, b) for a, b in zip(cuts, [*cuts[1:], len(lengths)])]


def processes() -> int:
    """How many train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def gather(vectors: torch.Tensor, labels: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, float]:
    """(n, d), (n,) of this process -> those of all processes, so that mining sees the whole batch; what the loss is multiplied by.

    Gradients flow into this process's own vectors. DistributedDataParallel averages them over the processes, where the gradient of the
    loss over the whole batch is their sum: hence the factor.
    """
    world = processes()
    if world == 1:
        return vectors, labels, 1.0
    rank = dist.get_rank()
    sizes = [torch.zeros(1, dtype=torch.long, device=labels.device) for _ in range(world)]
    dist.all_gather(sizes, torch.tensor([len(labels)], device=labels.device))
    longest = max(int(size) for size in sizes)
    rest = longest - len(labels)
    padded = torch.nn.functional.pad(vectors.detach(), (0, 0, 0, rest)).contiguous(), torch.nn.functional.pad(labels, (0, rest)).contiguous()
    every = []
    for mine in padded:
        parts = [torch.zeros_like(mine) for _ in range(world)]
        dist.all_gather(parts, mine)
        every.append([part[: int(size)] for part, size in zip(parts, sizes)])
    every[0][rank] = vectors
    return torch.cat(every[0]), torch.cat(every[1]), float(world)


class HeldOut(NamedTuple):
    """queries, query_labels, splits: one for each query; names, name_labels: the dictionary, in which no query is."""

    queries: List[str]
    query_labels: Ints
    splits: List[str]
    names: List[str]
    name_labels: Ints


def primary_split(data: HeldOut) -> str:
    """Whose accuracy decides: synonyms of concepts that are in training, or where there are none, unseen concepts."""
    return HELD_OUT if HELD_OUT in data.splits or not data.splits else data.splits[0]


class HeldOutAccuracy(BaseEvaluator):
    """Per cent of held-out synonyms whose concept is nearest by exact search; ties as their expectation. For early stopping.

    The dictionary is a sample, so the figures are higher than over the whole knowledge base: they compare steps, not systems.
    """

    def __init__(self, data: HeldOut, batch_size: int = 64) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.data = data
        self.batch_size = batch_size
        self.primary_metric = f"{primary_split(data)}_at1"

    def __call__(self, model: Any, output_path: Optional[str] = None, epoch: int = -1, steps: int = -1) -> Dict[str, float]:
        names, queries = (encode(model, texts, self.batch_size) for texts in (self.data.names, self.data.queries))
        found: Dict[str, float] = {}
        for split, rows in self.groups().items():
            at = retrieval_accuracy(queries[rows], names, self.data.name_labels, self.data.query_labels[rows])
            found[f"{split}_at1"], found[f"{split}_at5"] = (round(float(value), 3) for value in at)
        return of_the_first(found)

    def groups(self) -> Dict[str, Bools]:
        """Name -> which queries, bool (q,): what is measured apart."""
        return {split: np.array([s == split for s in self.data.splits]) for split in sorted(set(self.data.splits))}


def encode(model: SentenceTransformer, texts: List[str], batch_size: int = 64) -> Floats2d:
    """(n, d); each process encodes its share."""
    world, rank = processes(), dist.get_rank() if processes() > 1 else 0
    encoded = model.encode(texts[rank::world], batch_size=batch_size, show_progress_bar=False, convert_to_numpy=True)
    mine = np.asarray(encoded, dtype=np.float32)
    if world == 1:
        return mine
    parts: List[Any] = [None] * world
    dist.all_gather_object(parts, mine)
    vectors = np.empty((len(texts), parts[0].shape[-1]), dtype=np.float32)
    for start, part in enumerate(parts[: len(texts)]):  # fewer texts than processes: the others have none
        vectors[start::world] = part
    return vectors


def of_the_first(found: Dict[str, float]) -> Dict[str, float]:
    """The first process's figures for all: a difference in the last digit, and one would stop while the others wait for it."""
    if processes() > 1:
        shared = [found]
        dist.broadcast_object_list(shared, src=0)
        (found,) = shared
    return found


class Trainer(SentenceTransformerTrainer):
    """With our batches; stops where the loss is not finite, before it reaches the weights."""

    def __init__(self, *arguments: Any, batches: Callable[..., Any], hooks: Hooks, mix: Optional[Callable[..., Any]] = None, **settings: Any) -> None:
        self.batches, self.hooks, self.mix = batches, hooks, mix
        super().__init__(*arguments, **settings)
        self.add_callback(hooks)  # type: ignore[attr-defined]

    def get_batch_sampler(self, dataset: Any, batch_size: int, drop_last: bool, *_: Any, seed: int = 0, **__: Any) -> Any:
        self.hooks.sampler = self.batches(dataset, batch_size, drop_last, seed=seed)
        return self.hooks.sampler

    def get_multi_dataset_batch_sampler(self, dataset: Any, batch_samplers: List[Any], *_: Any, seed: Optional[int] = 0, **__: Any) -> Any:
        assert self.mix is not None
        self.hooks.sampler = self.mix(dataset, batch_samplers, seed=seed)
        return self.hooks.sampler

    def save_model(self, *arguments: Any, **settings: Any) -> None:
        """Every process goes on when the first has written: those that look for the best checkpoint before it is there would not wait at
        the barrier before it is loaded, and the first would wait there for ever."""
        super().save_model(*arguments, **settings)  # type: ignore[misc]
        self.accelerator.wait_for_everyone()  # type: ignore[attr-defined]

    def _load_best_model(self) -> None:  # sentence-transformers' own goes on with the last weights where this fails
        best = self.state.best_model_checkpoint  # type: ignore[attr-defined]
        if best is not None:
            self._load_from_checkpoint(best)

    def _load_from_checkpoint(self, checkpoint_path: str) -> None:
        """Adapters too: sentence-transformers would look for the keys of a whole model."""
        inner = transformer_of(self.model)
        if not hasattr(inner, "merge_and_unload"):
            super()._load_from_checkpoint(checkpoint_path)
            return
        from peft import set_peft_model_state_dict

        set_peft_model_state_dict(inner, load_file(str(Path(checkpoint_path) / "adapter_model.safetensors")))
        load_head(self.model, Path(checkpoint_path))

    def training_step(self, *arguments: Any, **settings: Any) -> torch.Tensor:
        loss: torch.Tensor = super().training_step(*arguments, **settings)  # type: ignore[misc]
        if not math.isfinite(float(loss)):
            raise fail("E515", loss=float(loss), step=self.state.global_step + 1, checkpoint=last_good(self.args.output_dir))  # type: ignore[attr-defined]
        return loss


def last_good(folder: Optional[str]) -> str:
    """The last checkpoint in words."""
    found = last_checkpoint(Path(folder)) if folder else None
    return f"the last good checkpoint is '{found}'" if found else "no checkpoint was written yet"


def last_checkpoint(folder: Path) -> Optional[str]:
    """The newest checkpoint that was written to its end (its state comes last), None for none."""
    steps = sorted(
        (int(path.name.rpartition("-")[2]) for path in folder.glob("checkpoint-*") if (path / "trainer_state.json").is_file()), reverse=True
    )
    for step in steps:
        path = folder / f"checkpoint-{step}"
        try:
            json.loads((path / "trainer_state.json").read_text(encoding="utf-8"))
        except ValueError:
            continue
        return str(path)
    return None


class Hooks(TrainerCallback):
    """What the trainer leaves out: batches that differ between epochs, an evaluation after the last step, gradients that are no numbers."""

    def __init__(self, evaluates: bool) -> None:
        self.evaluates = evaluates
        self.sampler: Any = None

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.sampler is not None:
            self.sampler.set_epoch(int(state.epoch + 1e-6))

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        if args.fp16:  # its scaler meets infinite gradients, and leaves such steps out
            return
        sums = [parameter.grad.sum() for parameter in model.parameters() if parameter.grad is not None]
        if sums and not math.isfinite(float(torch.stack(sums).sum())):
            raise fail("E515", loss="finite, but its gradient is not,", step=state.global_step + 1, checkpoint=last_good(args.output_dir))

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step >= state.max_steps:
            control.should_save = True
            control.should_evaluate = self.evaluates


class Log(TrainerCallback):
    """A line of JSON for each log and evaluation: step, epoch, loss, learning rate, names/s since the line before, seconds, peak memory in MB.

    names/s: of training steps alone, all processes together. A resumed training goes on in the same file, after the lines up to its checkpoint.
    """

    def __init__(self, path: Path, *losses: Objective) -> None:
        self.path, self.losses = path, losses
        self.began = self.step_began = time.monotonic()
        self.names, self.busy = 0, 0.0
        self.speed = 0.0

    def encoded(self) -> int:
        """Names so far."""
        return sum(loss.names for loss in self.losses)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if not state.is_world_process_zero:
            return
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.is_file() and state.global_step else []
        kept = [line for line in lines if _step_of(line) <= state.global_step]
        self.path.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.step_began = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.busy += time.monotonic() - self.step_began
        self.speed = (self.encoded() - self.names) / self.busy

    def on_log(self, args: Any, state: Any, control: Any, logs: Optional[Dict[str, float]] = None, **_: Any) -> None:
        if not state.is_world_process_zero or not logs:
            return
        line = {"step": state.global_step, **logs}
        if "loss" in logs and self.busy:
            line["names_per_second"] = round(self.speed, 1)
            line["names"], line["busy_seconds"] = self.encoded() - self.names, round(self.busy, 2)
            self.names, self.busy = self.encoded(), 0.0
        line["seconds"] = round(time.monotonic() - self.began, 1)
        line["peak_memory_mb"] = peak_memory_mb()
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _step_of(line: str) -> float:
    """Infinity for a line that a kill cut short."""
    try:
        return float(json.loads(line)["step"])
    except ValueError:
        return math.inf


def peak_memory_mb() -> int:
    """Of this one process so far; of its GPU where one is used."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return int(torch.cuda.max_memory_allocated() >> 20)
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)


class Progress(ProgressCallback):
    """transformers' bar (steps, time left) with the loss and names/s beside it, instead of a line printed for each log."""

    def __init__(self, log: Log, metric: Optional[str] = None) -> None:
        super().__init__()
        self.log, self.metric = log, metric

    def on_step_end(self, args: Any, state: Any, control: Any, **settings: Any) -> None:
        super().on_step_end(args, state, control, **settings)  # type: ignore[no-untyped-call]
        if self.training_bar is not None:
            self.training_bar.set_postfix_str(f"{self.log.speed:.0f} names/s", refresh=False)

    def on_log(self, args: Any, state: Any, control: Any, logs: Optional[Dict[str, float]] = None, **_: Any) -> None:
        if self.training_bar is not None and logs:
            for key in ("loss", f"eval_{self.metric}"):
                if key in logs:
                    self.training_bar.set_description_str(f"{key.removeprefix('eval_')} {logs[key]:.3f}", refresh=False)
