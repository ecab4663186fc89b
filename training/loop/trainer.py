"""The loop: sentence-transformers' trainer with our batches and losses, held-out accuracy, and a log in names a second."""

from __future__ import annotations

import json
import math
import resource
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
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
Part = tuple[list[int], int]  # a micro-batch: rows of the batch, by length, and the longest one's tokens
MIN_ROWS = 16  # names in a micro-batch before a longer name may begin the next
CPU_TOKENS = 1024  # of a micro-batch on a CPU
GPU_TOKENS = 16_384  # of a micro-batch on a GPU, where gradients are cached to save memory
OBJECTIVE = "objective.safetensors"  # in a checkpoint: what the loss has learned beside the encoder
ENCODED = {"cpu": 64, "cuda": 512}  # texts that are encoded at a time, to measure


def _on_cpu(storage: Any, location: str) -> Any:
    return storage if location.startswith("cpu:") else None


# of several processes on a CPU each calls its device "cpu:0", which the trainer hands to torch.load with a checkpoint, which knows only "cpu"
torch.serialization.register_package(5, lambda storage: None, _on_cpu)


class NameCollator:
    """Turn rows of pairs into the tokens of the names in them, each name once.

    A row is {"anchor", "positive", "label"}. The result has "name_input_ids" and "name_attention_mask", both (n, longest), and "label" (n,):
    the form in which the trainer hands a batch to a loss.

    Args:
        tokenizer: The tokenizer of the encoder.
        max_length: Tokens of a name at most.
        augment: See `training.data.augment`; None leaves names as they are.
        seed: Decides, with the pair, how a name is changed.
    """

    valid_label_columns = ["label"]

    def __init__(self, tokenizer: Any, max_length: int, augment: Augment | None = None, seed: int = 0) -> None:
        self.tokenizer, self.max_length, self.augment, self.seed = tokenizer, max_length, augment, seed

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Return the tokens of the distinct names in the rows, and their labels."""
        labels: dict[str, int] = {}
        for row in rows:
            for column, other in (("anchor", "positive"), ("positive", "anchor")):
                name = row[column] if self.augment is None else self.augment(row[column], f"{self.seed}\t{row[other]}")
                labels.setdefault(name, int(row["label"]))
        return features(self.tokenizer, list(labels), self.max_length, torch.tensor(list(labels.values()), dtype=torch.long))


def features(tokenizer: Any, texts: list[str], max_length: int, label: torch.Tensor) -> dict[str, torch.Tensor]:
    """Tokenise texts, in the form in which the trainer hands a batch to a loss.

    Args:
        tokenizer: The tokenizer of the encoder.
        texts: (n,) texts.
        max_length: Tokens of a text at most.
        label: (n,) or (n, d), what the loss compares with.

    Returns:
        The tokens, with keys that begin with the name of a column, and "label".
    """
    tokens = tokenizer(texts, padding=True, truncation=True, max_length=max_length, return_tensors="pt")
    return {"name_input_ids": tokens["input_ids"], "name_attention_mask": tokens["attention_mask"], "label": label}


class TextCollator:
    """Turn rows into the tokens of the texts in some columns, column after column, with a label.

    The result is that of `NameCollator`, with len(columns) x len(rows) texts.

    Args:
        tokenizer: The tokenizer of the encoder.
        max_length: Tokens of a text at most.
        columns: Names of the columns that hold texts.
        label: Makes "label", of any shape, from rows.
    """

    valid_label_columns = ["label"]

    def __init__(self, tokenizer: Any, max_length: int, columns: Sequence[str], label: Callable[[Sequence[dict[str, Any]]], torch.Tensor]) -> None:
        self.tokenizer, self.max_length, self.columns, self.label = tokenizer, max_length, columns, label

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Return the tokens of the texts, column after column, and the label of the rows."""
        texts = [str(row[column]) for column in self.columns for row in rows]
        return features(self.tokenizer, texts, self.max_length, self.label(rows))


class Objective(torch.nn.Module):
    """Encode the texts of a batch, and take a loss over all of them. Subclasses define `measure`.

    On a CPU, texts are sorted by length and cut into micro-batches, so that little padding is computed. On a GPU they are one padded pass: many
    small ones would wait for their kernels to be started. The loss sees all of them at once.

    Args:
        model: The encoder.
        batch_tokens: Tokens of a micro-batch, on any device; 0: CPU_TOKENS on a CPU, the whole batch on a GPU.
        cache_gradients: Use GradCache. The texts are first encoded without a graph, and the loss gives the gradient of each vector. Then each
            micro-batch is encoded again, with the same dropout, and takes its part of the gradient. The gradient is that of the whole
            batch; the memory is that of one micro-batch; it takes about a fifth more time (measured here, and in the paper).

    Source:
        GradCache: Gao et al., RepL4NLP 2021, section 3.
    """

    output = "sentence_embedding"  # which of the model's outputs

    def __init__(self, model: SentenceTransformer, batch_tokens: int, cache_gradients: bool = False) -> None:
        super().__init__()
        self.model = model
        self.batch_tokens = batch_tokens
        self.cache_gradients = cache_gradients
        self.names = 0  # texts encoded so far, of all processes

    def measure(self, vectors: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss of a batch, and count its texts.

        Args:
            vectors: (n, d) in the order of the batch.
            labels: What the collator calls "label".

        Returns:
            A scalar.
        """
        raise NotImplementedError

    def own_state(self) -> dict[str, torch.Tensor]:
        """Return what a checkpoint holds of the loss beside the encoder, on the CPU; empty for nothing."""
        return {}

    def load_own_state(self, state: dict[str, torch.Tensor]) -> None:
        """Take what `own_state` gave, out of a checkpoint."""

    def forward(self, sentence_features: Iterable[dict[str, torch.Tensor]], labels: torch.Tensor) -> torch.Tensor:
        """Return the loss of a batch, a scalar.

        Args:
            sentence_features: One dictionary of the tokens of n texts.
            labels: What the collator calls "label".
        """
        (found,) = sentence_features
        ids, mask = found["input_ids"], found["attention_mask"]
        parts = self._parts(mask)
        if parts is None:
            return self.measure(self._embed(ids, mask, None), labels)
        if self.cache_gradients and torch.is_grad_enabled():
            return self._cached(ids, mask, parts, labels)
        vectors = torch.cat([self._embed(ids, mask, part) for part in parts])  # (n, d)
        return self.measure(vectors[_back(parts, ids.device)], labels)

    def _parts(self, mask: torch.Tensor) -> list[Part] | None:
        """Return the micro-batches; None for one pass over the whole batch."""
        on_cpu = by_length(mask.device)
        tokens = self.batch_tokens or (CPU_TOKENS if on_cpu else GPU_TOKENS if self.cache_gradients else 0)
        if not tokens or (not on_cpu and mask.numel() <= tokens):
            return None
        lengths = mask.sum(dim=1).tolist()
        order = sorted(range(len(lengths)), key=lambda row: lengths[row])
        ranges = micro_batches([lengths[row] for row in order], tokens, MIN_ROWS if on_cpu else len(order))
        return [([order[i] for i in part], lengths[order[part[-1]]]) for part in ranges]

    def _embed(self, ids: torch.Tensor, mask: torch.Tensor, part: Part | None) -> torch.Tensor:
        if part is not None:
            rows, longest = part
            ids, mask = ids[rows, :longest], mask[rows, :longest]
        found = self.model({"input_ids": ids, "attention_mask": mask})
        vectors: torch.Tensor = found[self.output]
        if HEAD in found and self.output != HEAD:  # a gradient of zero: processes that train together wait for one of each weight
            vectors = vectors + 0 * found[HEAD].sum()
        return vectors

    def _cached(self, ids: torch.Tensor, mask: torch.Tensor, parts: list[Part], labels: torch.Tensor) -> torch.Tensor:
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


def _back(parts: list[Part], device: torch.device) -> torch.Tensor:
    """Return the row in the micro-batches of each row of the batch."""
    order = torch.tensor([row for rows, _ in parts for row in rows], device=device)
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order), device=device)
    return back


class SelfAlignment(Objective):
    """The loss of self-alignment: gather the names of all processes, mine, and weigh.

    Args:
        model: The encoder.
        loss: A loss of `training.loop.losses`.
        miner: A miner of `training.loop.mining`.
        batch_tokens: See `Objective`.
        cache_gradients: See `Objective`.

    Source:
        Liu et al., NAACL 2021, section 2.
    """

    def __init__(self, model: SentenceTransformer, loss: LossFunction, miner: Miner, batch_tokens: int, cache_gradients: bool = False) -> None:
        super().__init__(model, batch_tokens, cache_gradients)
        self.loss = loss
        self.miner = miner

    def measure(self, vectors: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss of vectors (n, d) with labels (n,), a scalar."""
        vectors, labels, scale = gather(vectors, labels)
        self.names += len(labels)
        loss = self.loss(vectors, labels, self.miner(vectors, labels))
        return loss * scale - loss.detach() * (scale - 1)  # the gradient is scaled, the value that is logged is not


def labels_twice(rows: Sequence[dict[str, Any]]) -> torch.Tensor:
    """Return the label of each row, for the texts of two columns: (2n,)."""
    return torch.tensor([int(row["label"]) for row in rows], dtype=torch.long).repeat(2)


class TextsForNames(SelfAlignment):
    """The loss of names against the texts of the batch: a name has the texts of its concept as positives, those of the others as negatives.

    A batch is n names and then their n texts. Names are no negatives of each other, nor are texts. The miner is not asked.

    Source:
        Remy et al., JAMIA 2024: the contrastive phase.
    """

    def measure(self, vectors: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss of vectors (2n, d) with labels (2n,), a scalar."""
        is_text = torch.arange(len(labels), device=labels.device) >= len(labels) // 2
        vectors, coded, scale = gather(vectors, 2 * labels + is_text)
        labels, is_text = coded // 2, coded % 2 == 1
        self.names += len(labels)
        same, across = labels[:, None] == labels, ~is_text[:, None] & is_text  # (m, m): rows are names, columns texts
        loss = self.loss(vectors, labels, (*torch.where(same & across), *torch.where(~same & across)))
        return loss * scale - loss.detach() * (scale - 1)


def by_length(device: torch.device) -> bool:
    """Say whether texts are encoded in small batches of one length on this device: on a CPU, which computes padding as slowly as tokens."""
    return device.type != "cuda"


def micro_batches(lengths: Sequence[int], batch_tokens: int, min_rows: int = MIN_ROWS) -> list[range]:
    """Cut texts into micro-batches.

    A micro-batch ends before it would have more than `batch_tokens` tokens with its padding; a single text may have more. It also ends where the
    length grows and it has `min_rows` texts.

    Args:
        lengths: Tokens of each text, in ascending order.
        batch_tokens: Tokens of a micro-batch at most.
        min_rows: Texts in a micro-batch before a longer text may begin the next.

    Returns:
        Ranges of rows.
    """
    cuts = [0]
    for row, length in enumerate(lengths):
        first = cuts[-1]
        full = (row - first + 1) * length > batch_tokens
        grows = length > lengths[first] and row - first >= min_rows
        if row > first and (full or grows):
            cuts.append(row)
    return [range(a, b) for a, b in zip(cuts, [*cuts[1:], len(lengths)])]


def processes() -> int:
    """Return how many processes train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def shared(sampler: Any) -> Any:
    """Return the sampler, or where several processes train together one that cuts each of its batches into a part for each."""
    return sampler if processes() == 1 else Parts(sampler, processes())


class Parts:
    """The batches of a sampler in equal parts, one after the other: accelerate gives each process the next.

    So a step learns from the same batch, however many processes share it. Where the sampler knows labels, a label's rows stay together.

    Args:
        sampler: Of batches; it may have `labels`, of the data set's rows.
        count: Number of parts.
    """

    batch_size = None  # parts may differ by a row
    drop_last = True

    def __init__(self, sampler: Any, count: int) -> None:
        self.sampler, self.count = sampler, count
        self.labels: Any = getattr(sampler, "labels", None)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which decides the order."""
        self.sampler.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self.sampler) * self.count

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.sampler:
            if len(batch) >= self.count:  # else a process would have none
                cuts = self.cuts(batch)
                yield from (batch[a:b] for a, b in zip(cuts, cuts[1:]))

    def cuts(self, batch: Sequence[int]) -> list[int]:
        """Return where the parts of a batch begin, and its end."""
        n = len(batch)
        cuts = [n * part // self.count for part in range(self.count + 1)]
        if self.labels is not None:
            of = self.labels[np.asarray(batch)]
            starts = np.flatnonzero(np.r_[True, of[1:] != of[:-1], True])  # where a label begins, and the end
            nearest = [int(starts[np.abs(starts - cut).argmin()]) for cut in cuts]
            if all(a < b for a, b in zip(nearest, nearest[1:])):
                return nearest
        return cuts


def gather(vectors: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, float]:
    """Gather the vectors of all processes, so that mining sees the whole batch.

    Gradients flow into this process's own vectors. DistributedDataParallel averages them over the processes, while the gradient of the loss
    over the whole batch is their sum. So the loss has to be multiplied by a factor.

    Args:
        vectors: (n, d) of this process.
        labels: (n,) of this process.

    Returns:
        Vectors and labels of all processes, and the factor.
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


def mean_over_processes(loss: torch.Tensor, rows: int) -> torch.Tensor:
    """Weigh the mean over this process's rows, so that the average over the processes is the mean over the rows of all."""
    if processes() == 1:
        return loss
    every = torch.tensor(float(rows), device=loss.device)
    dist.all_reduce(every)
    return loss * (rows * processes() / every)


class HeldOut(NamedTuple):
    """Held-out queries and a dictionary that holds none of them.

    Attributes:
        queries: (q,) texts.
        query_labels: (q,) label of the right concept.
        splits: (q,) name of the split.
        names: (n,) the dictionary.
        name_labels: (n,) label of each name.
    """

    queries: list[str]
    query_labels: Ints
    splits: list[str]
    names: list[str]
    name_labels: Ints


def primary_split(data: HeldOut) -> str:
    """Return the split whose accuracy decides: held-out synonyms, or unseen concepts where there are no such synonyms."""
    return HELD_OUT if HELD_OUT in data.splits or not data.splits else data.splits[0]


class HeldOutAccuracy(BaseEvaluator):
    """Measure the per cent of held-out queries whose concept is nearest by exact search; ties count as their expectation.

    The dictionary is a sample, so the figures are higher than over the whole knowledge base: they compare steps, not systems.
    """

    def __init__(self, data: HeldOut) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.data = data
        self.primary_metric = f"{primary_split(data)}_at1"

    def __call__(self, model: Any, output_path: str | None = None, epoch: int = -1, steps: int = -1) -> dict[str, float]:
        """Return the accuracy at 1 and at 5 of each group of queries, in per cent."""
        names, queries = (encode(model, texts) for texts in (self.data.names, self.data.queries))
        found: dict[str, float] = {}
        for split, rows in self.groups().items():
            at = retrieval_accuracy(queries[rows], names, self.data.name_labels, self.data.query_labels[rows])
            found[f"{split}_at1"], found[f"{split}_at5"] = (round(float(value), 3) for value in at)
        return of_the_first(found)

    def groups(self) -> dict[str, Bools]:
        """Return name -> bool (q,): which queries are measured together."""
        return {split: np.array([s == split for s in self.data.splits]) for split in sorted(set(self.data.splits))}


def encode(model: SentenceTransformer, texts: list[str]) -> Floats2d:
    """Encode texts; each process encodes its share, and all get the whole.

    Returns:
        (n, d) in the order of the texts.
    """
    world, rank = processes(), dist.get_rank() if processes() > 1 else 0
    encoded = model.encode(texts[rank::world], batch_size=together(model), show_progress_bar=False, convert_to_numpy=True)
    mine = np.asarray(encoded, dtype=np.float32)
    if world == 1:
        return mine
    parts: list[Any] = [None] * world
    dist.all_gather_object(parts, mine)
    vectors = np.empty((len(texts), parts[0].shape[-1]), dtype=np.float32)
    for start, part in enumerate(parts[: len(texts)]):  # fewer texts than processes: the others have none
        vectors[start::world] = part
    return vectors


def together(model: Any) -> int:
    """Return how many texts a model encodes at a time on its device."""
    device = getattr(model, "device", None)
    return ENCODED["cpu" if device is None or by_length(device) else "cuda"]


def of_the_first(found: dict[str, float]) -> dict[str, float]:
    """Return the first process's figures in all processes.

    They may differ in the last digit; then one process would stop early while the others wait for it.
    """
    if processes() > 1:
        shared = [found]
        dist.broadcast_object_list(shared, src=0)
        (found,) = shared
    return found


class Trainer(SentenceTransformerTrainer):
    """The trainer with our batches. It stops where the loss is not finite, before that reaches the weights.

    Args:
        batches: Makes the sampler of a data set.
        hooks: See `Hooks`.
        mix: Makes one sampler of those of several data sets.
    """

    def __init__(self, *arguments: Any, batches: Callable[..., Any], hooks: Hooks, mix: Callable[..., Any] | None = None, **settings: Any) -> None:
        self.batches, self.hooks, self.mix = batches, hooks, mix
        super().__init__(*arguments, **settings)
        self.add_callback(hooks)  # type: ignore[attr-defined]

    def get_batch_sampler(self, dataset: Any, batch_size: int, drop_last: bool, *_: Any, seed: int = 0, **__: Any) -> Any:
        """Make the sampler of one data set: its batches are of all processes together, and each process takes its part of one."""
        self.hooks.sampler = shared(self.batches(dataset, batch_size, drop_last, seed=seed))
        return self.hooks.sampler

    def get_multi_dataset_batch_sampler(self, dataset: Any, batch_samplers: list[Any], *_: Any, seed: int | None = 0, **__: Any) -> Any:
        """Make one sampler of those of several data sets."""
        assert self.mix is not None
        self.hooks.sampler = self.mix(dataset, batch_samplers, seed=seed)
        return self.hooks.sampler

    def save_model(self, *arguments: Any, **settings: Any) -> None:
        """Save a checkpoint; every process waits until the first has written it.

        Otherwise a process could look for the best checkpoint before it exists and skip loading it. The first process would then wait for ever at
        the barrier that comes before loading.
        """
        super().save_model(*arguments, **settings)  # type: ignore[misc]
        state = self.loss.own_state() if isinstance(self.loss, Objective) else {}
        if state and self.state.is_world_process_zero:  # type: ignore[attr-defined]
            save_file(state, str(Path(arguments[0] if arguments else settings["output_dir"]) / OBJECTIVE))
        self.accelerator.wait_for_everyone()  # type: ignore[attr-defined]

    def _load_best_model(self) -> None:  # where this fails, sentence-transformers' own method would keep the last weights
        best = self.state.best_model_checkpoint  # type: ignore[attr-defined]
        if best is not None:
            self._load_from_checkpoint(best)

    def _load_from_checkpoint(self, checkpoint_path: str) -> None:
        """Load a checkpoint, of adapters too: sentence-transformers would look for the keys of a whole model."""
        if (path := Path(checkpoint_path) / OBJECTIVE).is_file():
            self.loss.load_own_state(load_file(str(path)))  # type: ignore[attr-defined]
        inner = transformer_of(self.model)
        if not hasattr(inner, "merge_and_unload"):
            super()._load_from_checkpoint(checkpoint_path)
            return
        from peft import set_peft_model_state_dict

        set_peft_model_state_dict(inner, load_file(str(Path(checkpoint_path) / "adapter_model.safetensors")))
        load_head(self.model, Path(checkpoint_path))

    def training_step(self, *arguments: Any, **settings: Any) -> torch.Tensor:
        """Train one step.

        Raises:
            SapbertError: E515 for a loss that is not finite.
        """
        loss: torch.Tensor = super().training_step(*arguments, **settings)  # type: ignore[misc]
        if not math.isfinite(float(loss)):
            raise fail("E515", loss=float(loss), step=self.state.global_step + 1, checkpoint=last_good(self.args.output_dir))  # type: ignore[attr-defined]
        return loss


def last_good(folder: str | None) -> str:
    """Say in words which checkpoint is the last one."""
    found = last_checkpoint(Path(folder)) if folder else None
    return f"the last good checkpoint is '{found}'" if found else "no checkpoint was written yet"


def last_checkpoint(folder: Path) -> str | None:
    """Return the newest checkpoint that was written whole (its state is written last); None for none."""
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
    """What the trainer does not do by itself.

    Batches differ between epochs; the last step is evaluated and saved; a gradient that is not finite stops the training; gradients of a loss's own
    weights are cleared.
    """

    def __init__(self, evaluates: bool) -> None:
        self.evaluates = evaluates
        self.sampler: Any = None

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Tell the sampler its epoch."""
        if self.sampler is not None:
            self.sampler.set_epoch(int(state.epoch + 1e-6))

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Check that all gradients are finite.

        Raises:
            SapbertError: E515.
        """
        if args.fp16:  # its scaler meets infinite gradients, and leaves such steps out
            return
        sums = [parameter.grad.sum() for parameter in model.parameters() if parameter.grad is not None]
        if sums and not math.isfinite(float(torch.stack(sums).sum())):
            raise fail("E515", loss="finite, but its gradient is not,", step=state.global_step + 1, checkpoint=last_good(args.output_dir))

    def on_optimizer_step(self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any) -> None:
        """Clear all gradients: the trainer clears those of the encoder, not those of weights that a loss learns."""
        optimizer.zero_grad()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Save and evaluate after the last step."""
        if state.global_step >= state.max_steps:
            control.should_save = True
            control.should_evaluate = self.evaluates


class Limit(TrainerCallback):
    """Stop after the step in which a number of seconds is over, in all processes at the same step."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.began = seconds, time.monotonic()

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start the clock at the first step."""
        if state.global_step == 0:
            self.began = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Look at the clock of the first process."""
        over = of_the_first({"over": float(time.monotonic() - self.began >= self.seconds)})
        if over["over"]:
            control.should_training_stop = control.should_save = True


class Log(TrainerCallback):
    """Write a line of JSON for each log and each evaluation.

    A line has step, epoch, loss, learning rate, names a second since the line before, seconds, and peak memory in MB. Names a second count
    training steps alone, of all processes together. A resumed training continues the file after the lines up to its checkpoint.

    Args:
        path: The file.
        losses: The losses that count names.
    """

    def __init__(self, path: Path, *losses: Objective) -> None:
        self.path, self.losses = path, losses
        self.began = self.step_began = time.monotonic()
        self.names, self.busy = 0, 0.0
        self.speed = 0.0

    def encoded(self) -> int:
        """Return the names encoded so far."""
        return sum(loss.names for loss in self.losses)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Keep the lines up to the checkpoint that the training is resumed from."""
        if not state.is_world_process_zero:
            return
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.is_file() and state.global_step else []
        kept = [line for line in lines if _step_of(line) <= state.global_step]
        self.path.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start the clock of a step."""
        self.step_began = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop the clock of a step."""
        self.busy += time.monotonic() - self.step_began
        self.speed = (self.encoded() - self.names) / self.busy

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        """Append a line."""
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
    """Return the step of a line; infinity for a line that a kill cut short."""
    try:
        return float(json.loads(line)["step"])
    except ValueError:
        return math.inf


def peak_memory_mb() -> int:
    """Return the peak memory of this process so far, in MB; of its GPU where one is used."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return int(torch.cuda.max_memory_allocated() >> 20)
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)


class Progress(ProgressCallback):
    """A progress bar with steps and time left, the loss and names a second, instead of a printed line for each log."""

    def __init__(self, log: Log, metric: str | None = None) -> None:
        super().__init__()
        self.log, self.metric = log, metric

    def on_step_end(self, args: Any, state: Any, control: Any, **settings: Any) -> None:
        """Show names a second."""
        super().on_step_end(args, state, control, **settings)  # type: ignore[no-untyped-call]
        if self.training_bar is not None:
            self.training_bar.set_postfix_str(f"{self.log.speed:.0f} names/s", refresh=False)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        """Show the loss, or the figure of an evaluation."""
        if self.training_bar is not None and logs:
            for key in ("loss", f"eval_{self.metric}"):
                if key in logs:
                    self.training_bar.set_description_str(f"{key.removeprefix('eval_')} {logs[key]:.3f}", refresh=False)
