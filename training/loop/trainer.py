"""The training loop: sentence-transformers' trainer with our batches and losses, held-out accuracy, and a log with names per second."""

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
from transformers.trainer_callback import ProgressCallback, TrainerCallback, TrainerState

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
Part = tuple[list[int], int]  # a micro-batch: rows of the batch in the order of their lengths, and the number of tokens of the longest
MIN_ROWS = 16  # names that a micro-batch has before a longer name may begin the next one
CPU_TOKENS = 1024  # tokens of a micro-batch on a CPU
GPU_TOKENS = 16_384  # tokens of a micro-batch on a GPU with cached gradients
OBJECTIVE = "objective.safetensors"  # file of a checkpoint: weights of the loss, in addition to the encoder's
ENCODED = {"cpu": 64, "cuda": 512}  # texts that are encoded at the same time when measuring


def _on_cpu(storage: Any, location: str) -> Any:
    return storage if location.startswith("cpu:") else None


# with several processes on a CPU, the trainer passes the device name "cpu:0" to torch.load, which knows only "cpu"
torch.serialization.register_package(5, lambda storage: None, _on_cpu)


class NameCollator:
    """Convert rows of pairs into the tokens of their distinct names.

    A row is {"anchor", "positive", "label"}. The result has "name_input_ids" and "name_attention_mask", both (n, longest), and "label" (n,):
    the form in which the trainer passes a batch to a loss.

    Args:
        tokenizer: The tokenizer of the encoder.
        max_length: Greatest number of tokens of a name.
        augment: See `training.data.augment`; None: names are not changed.
        seed: Decides, together with the pair, how a name is changed.
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
    """Tokenise texts, in the form in which the trainer passes a batch to a loss.

    Args:
        tokenizer: The tokenizer of the encoder.
        texts: (n,) texts.
        max_length: Greatest number of tokens of a text.
        label: (n,) or (n, d), values that the loss compares with.

    Returns:
        The tokens, with keys that begin with the name of a column, and "label".
    """
    tokens = tokenizer(texts, padding=True, truncation=True, max_length=max_length, return_tensors="pt")
    return {"name_input_ids": tokens["input_ids"], "name_attention_mask": tokens["attention_mask"], "label": label}


class TextCollator:
    """Convert rows into the tokens of the texts in some columns, column after column, with a label.

    The result has the form of `NameCollator`, with len(columns) x len(rows) texts.

    Args:
        tokenizer: The tokenizer of the encoder.
        max_length: Greatest number of tokens of a text.
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
    """Encode the texts of a batch, and compute a loss over all of them. Subclasses define `measure`.

    On a CPU, texts are sorted by length and divided into micro-batches, so that little padding is computed. On a GPU they are encoded in one padded
    pass, because many small passes would spend their time starting kernels. The loss gets all texts together.

    Args:
        model: The encoder.
        batch_tokens: Tokens of a micro-batch, on any device; 0: CPU_TOKENS on a CPU, the whole batch on a GPU.
        cache_gradients: Whether to use GradCache. The texts are first encoded without a graph, and the loss gives the gradient of each vector. Then
            each micro-batch is encoded again, with the same dropout, and gets its part of the gradient. The gradient is that of the whole batch, and
            the memory that of one micro-batch; it takes about a fifth more time (measured here, and in the paper).

    Source:
        GradCache: Gao et al., RepL4NLP 2021, section 3.
    """

    output = "sentence_embedding"  # key of the model's output that is used

    def __init__(self, model: SentenceTransformer, batch_tokens: int, cache_gradients: bool = False) -> None:
        super().__init__()
        self.model = model
        self.batch_tokens = batch_tokens
        self.cache_gradients = cache_gradients
        self.names = 0  # number of texts encoded so far, by all processes

    def measure(self, vectors: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss of a batch, and count its texts.

        Args:
            vectors: (n, d) in the order of the batch.
            labels: The "label" of the collator.

        Returns:
            The loss, a scalar.
        """
        raise NotImplementedError

    def own_state(self) -> dict[str, torch.Tensor]:
        """Return the loss's own weights for a checkpoint, on the CPU; empty if it has none."""
        return {}

    def load_own_state(self, state: dict[str, torch.Tensor]) -> None:
        """Load weights that `own_state` returned, from a checkpoint."""

    def forward(self, sentence_features: Iterable[dict[str, torch.Tensor]], labels: torch.Tensor) -> torch.Tensor:
        """Return the loss of a batch, a scalar.

        Args:
            sentence_features: One dictionary of the tokens of n texts.
            labels: The "label" of the collator.
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
        if (
            HEAD in found and self.output != HEAD
        ):  # gives the head a gradient of zero: processes that train together wait for a gradient of each weight
            vectors = vectors + 0 * found[HEAD].sum()
        return vectors

    def _cached(self, ids: torch.Tensor, mask: torch.Tensor, parts: list[Part], labels: torch.Tensor) -> torch.Tensor:
        kind = ids.device.type
        # the autocast settings around this call, also for the backward pass; no cache, because weights cast without a graph must not be used with one
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
        once = getattr(self.model, "no_sync", nullcontext)  # processes exchange gradients only once, at the end

        def replay(scale: torch.Tensor) -> None:
            for i, (part, state) in enumerate(zip(parts, states)):
                with torch.enable_grad(), once() if i + 1 < len(parts) else nullcontext():
                    with state, precision():
                        again = self._embed(ids, mask, part)
                    ((again.float() * gradient[part[0]].float()).sum() * scale).backward()

        loss.register_hook(replay)
        return loss


def _back(parts: list[Part], device: torch.device) -> torch.Tensor:
    """Return for each row of the batch its row in the concatenated micro-batches."""
    order = torch.tensor([row for rows, _ in parts for row in rows], device=device)
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order), device=device)
    return back


class SelfAlignment(Objective):
    """The objective of self-alignment: gather the names of all processes, mine pairs, and compute the loss.

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
        return loss * scale - loss.detach() * (scale - 1)  # scale the gradient, but not the logged value


def labels_twice(rows: Sequence[dict[str, Any]]) -> torch.Tensor:
    """Return the labels (2n,) of the texts in two columns of n rows."""
    return torch.tensor([int(row["label"]) for row in rows], dtype=torch.long).repeat(2)


class TextsForNames(SelfAlignment):
    """The objective of names against texts: the positives of a name are the texts of its concept, its negatives the other texts of the batch.

    A batch is n names followed by their n texts. Names are not negatives of each other, and neither are texts. The miner is not used.

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
    """Say whether this device encodes texts in small batches of similar length. A CPU does, because it computes padding as slowly as tokens."""
    return device.type != "cuda"


def micro_batches(lengths: Sequence[int], batch_tokens: int, min_rows: int = MIN_ROWS) -> list[range]:
    """Divide texts into micro-batches.

    A micro-batch ends before it would have more than `batch_tokens` tokens, with padding; a single text may have more. It also ends before a longer
    text if it has `min_rows` texts.

    Args:
        lengths: Number of tokens of each text, in ascending order.
        batch_tokens: Greatest number of tokens of a micro-batch.
        min_rows: Number of texts that a micro-batch has before a longer text may begin the next one.

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
    """Return the number of processes that train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def shared(sampler: Any) -> Any:
    """Return the sampler. If several processes train together, return a sampler that divides each of its batches into one part per process."""
    return sampler if processes() == 1 else Parts(sampler, processes())


class Parts:
    """The batches of a sampler, divided into equal parts that follow each other. accelerate gives each process the next part.

    So a step learns from the same batch, independent of the number of processes. If the sampler has labels, the rows of a label are kept together.

    Args:
        sampler: Sampler of batches; it may have `labels`, one for each row of the data set.
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
            if len(batch) >= self.count:  # with fewer rows, a process would have none
                cuts = self.cuts(batch)
                yield from (batch[a:b] for a, b in zip(cuts, cuts[1:]))

    def cuts(self, batch: Sequence[int]) -> list[int]:
        """Return the starts of the parts of a batch, and the end of the batch."""
        n = len(batch)
        cuts = [n * part // self.count for part in range(self.count + 1)]
        if self.labels is not None:
            of = self.labels[np.asarray(batch)]
            starts = np.flatnonzero(np.r_[True, of[1:] != of[:-1], True])  # starts of labels, and the end
            nearest = [int(starts[np.abs(starts - cut).argmin()]) for cut in cuts]
            if all(a < b for a, b in zip(nearest, nearest[1:])):
                return nearest
        return cuts


def gather(vectors: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, float]:
    """Gather the vectors of all processes, so that miners get the whole batch.

    Gradients flow only into this process's own vectors. DistributedDataParallel averages them over the processes, but the gradient of the loss
    over the whole batch is their sum. So the loss must be multiplied by a factor.

    Args:
        vectors: (n, d) vectors of this process.
        labels: (n,) labels of this process.

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
    """Weight the mean over this process's rows, so that the average over the processes is the mean over all rows.

    Args:
        loss: Mean over the rows of this process, a scalar.
        rows: Number of these rows.
    """
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
    """Return the split whose accuracy decides which checkpoint is best: held-out synonyms, or unseen concepts if there are no such synonyms."""
    return HELD_OUT if HELD_OUT in data.splits or not data.splits else data.splits[0]


class HeldOutAccuracy(BaseEvaluator):
    """Measure the per cent of held-out queries whose concept is nearest by exact search. In a tie the expected value counts.

    The dictionary is a sample, so the figures are higher than with the whole knowledge base. They serve to compare steps, not systems.
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
        """Return name -> mask (q,) of queries that are measured together."""
        return {split: np.array([s == split for s in self.data.splits]) for split in sorted(set(self.data.splits))}


def encode(model: SentenceTransformer, texts: list[str]) -> Floats2d:
    """Encode texts. Each process encodes a share of them, and all processes get all vectors.

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
    for start, part in enumerate(parts[: len(texts)]):  # if there are fewer texts than processes, the other parts are empty
        vectors[start::world] = part
    return vectors


def together(model: Any) -> int:
    """Return the number of texts that a model encodes at the same time on its device."""
    device = getattr(model, "device", None)
    return ENCODED["cpu" if device is None or by_length(device) else "cuda"]


def of_the_first(found: dict[str, float]) -> dict[str, float]:
    """Return the figures of the first process in all processes.

    Figures may differ in the last digit between processes. Without this, one process could stop early while the others wait for it.
    """
    if processes() > 1:
        shared = [found]
        dist.broadcast_object_list(shared, src=0)
        (found,) = shared
    return found


class Trainer(SentenceTransformerTrainer):
    """The trainer with our batches. It stops if the loss is not finite, before the weights are changed.

    Args:
        batches: Makes the sampler of a data set.
        hooks: See `Hooks`.
        mix: Makes one sampler from the samplers of several data sets.
    """

    def __init__(self, *arguments: Any, batches: Callable[..., Any], hooks: Hooks, mix: Callable[..., Any] | None = None, **settings: Any) -> None:
        self.batches, self.hooks, self.mix = batches, hooks, mix
        super().__init__(*arguments, **settings)
        self.add_callback(hooks)  # type: ignore[attr-defined]

    def get_batch_sampler(self, dataset: Any, batch_size: int, drop_last: bool, *_: Any, seed: int = 0, **__: Any) -> Any:
        """Make the sampler of one data set. A batch is that of all processes together, and each process takes its part."""
        self.hooks.sampler = shared(self.batches(dataset, batch_size, drop_last, seed=seed))
        return self.hooks.sampler

    def get_multi_dataset_batch_sampler(self, dataset: Any, batch_samplers: list[Any], *_: Any, seed: int | None = 0, **__: Any) -> Any:
        """Make one sampler from the samplers of several data sets."""
        assert self.mix is not None
        self.hooks.sampler = self.mix(dataset, batch_samplers, seed=seed)
        return self.hooks.sampler

    def save_model(self, *arguments: Any, **settings: Any) -> None:
        """Save a checkpoint. All processes wait until the first one has written it.

        Otherwise a process could look for the best checkpoint before it exists, and skip loading it. The first process would then wait for ever at
        the barrier before loading.
        """
        super().save_model(*arguments, **settings)  # type: ignore[misc]
        state = self.loss.own_state() if isinstance(self.loss, Objective) else {}
        if state and self.state.is_world_process_zero:
            save_file(state, str(Path(arguments[0] if arguments else settings["output_dir"]) / OBJECTIVE))
        self.accelerator.wait_for_everyone()  # type: ignore[attr-defined]

    def take_over(self, checkpoint: str) -> None:
        """Load the result of a training that had ended, from its last checkpoint, instead of training."""
        self.state = TrainerState.load_from_json(str(Path(checkpoint) / "trainer_state.json"))
        self._load_from_checkpoint(checkpoint)
        if self.args.load_best_model_at_end:
            self._load_best_model()

    def _load_best_model(self) -> None:  # if this fails, it must raise: sentence-transformers' own method would keep the last weights
        best = self.state.best_model_checkpoint
        if best is not None:
            self._load_from_checkpoint(best)

    def _load_from_checkpoint(self, checkpoint_path: str) -> None:
        """Load a checkpoint, which may hold only adapters: sentence-transformers would look for the keys of a whole model."""
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
            SapbertError: E515, if the loss is not finite.
        """
        loss: torch.Tensor = super().training_step(*arguments, **settings)  # type: ignore[misc]
        if not math.isfinite(float(loss)):
            raise fail("E515", loss=float(loss), step=self.state.global_step + 1, checkpoint=last_good(self.args.output_dir))
        return loss


def has_ended(checkpoint: str) -> bool:
    """Say whether a training had ended when it wrote a checkpoint. The trainer would train one more step from it."""
    state = json.loads((Path(checkpoint) / "trainer_state.json").read_text(encoding="utf-8"))
    control = state.get("stateful_callbacks", {}).get("TrainerControl", {}).get("args", {})
    return state["global_step"] >= state["max_steps"] or bool(control.get("should_training_stop"))


def last_good(folder: str | None) -> str:
    """Say in words which checkpoint is the last one."""
    found = last_checkpoint(Path(folder)) if folder else None
    return f"the last good checkpoint is '{found}'" if found else "no checkpoint was written yet"


def last_checkpoint(folder: Path) -> str | None:
    """Return the newest complete checkpoint (its state is written last); None if there is none."""
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
    """Additions to the trainer.

    Batches differ between epochs; the last step is evaluated, logged and saved; a gradient that is not finite stops the training; gradients of a loss's own
    weights are cleared.
    """

    def __init__(self, evaluates: bool) -> None:
        self.evaluates = evaluates
        self.sampler: Any = None

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Set the epoch of the sampler."""
        if self.sampler is not None:
            self.sampler.set_epoch(int(state.epoch + 1e-6))

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Check that all gradients are finite.

        Raises:
            SapbertError: E515.
        """
        if args.fp16:  # the scaler of fp16 detects infinite gradients and skips such steps
            return
        sums = [parameter.grad.sum() for parameter in model.parameters() if parameter.grad is not None]
        if sums and not math.isfinite(float(torch.stack(sums).sum())):
            raise fail("E515", loss="finite, but its gradient is not,", step=state.global_step + 1, checkpoint=last_good(args.output_dir))

    def on_optimizer_step(self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any) -> None:
        """Clear all gradients. The trainer clears only those of the encoder, not those of a loss's own weights."""
        optimizer.zero_grad()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Save, log and evaluate after the last step, also if the time limit has made it the last one."""
        if control.should_training_stop:
            control.should_save = control.should_log = True
            control.should_evaluate = self.evaluates


class Limit(TrainerCallback):
    """Stop after the step in which the time limit in seconds is reached, in all processes at the same step.

    It must come before `Hooks` in the list of callbacks, so that they treat this step as the last one.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self.began = seconds, time.monotonic()

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start the clock at the first step."""
        if state.global_step == 0:
            self.began = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Check the clock of the first process."""
        over = of_the_first({"over": float(time.monotonic() - self.began >= self.seconds)})
        if over["over"]:
            control.should_training_stop = True


class Log(TrainerCallback):
    """Write a line of JSON for each log and each evaluation.

    A line has step, epoch, loss, learning rate, names per second since the previous line, seconds, and peak memory in MB. Names per second are over
    training steps only, of all processes together. A resumed training keeps the lines up to its checkpoint and continues the file.

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
        """Return the number of names encoded so far."""
        return sum(loss.names for loss in self.losses)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Keep only the lines up to the checkpoint from which the training is resumed."""
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
    """Return the step of a line; infinity for an incomplete line of a killed training."""
    try:
        return float(json.loads(line)["step"])
    except ValueError:
        return math.inf


def peak_memory_mb() -> int:
    """Return the peak memory of this process so far, in MB; that of its GPU if one is used."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return int(torch.cuda.max_memory_allocated() >> 20)
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)


class Progress(ProgressCallback):
    """A progress bar with steps, remaining time, loss and names per second, instead of a printed line for each log."""

    def __init__(self, log: Log, metric: str | None = None) -> None:
        super().__init__()
        self.log, self.metric = log, metric

    def on_step_end(self, args: Any, state: Any, control: Any, **settings: Any) -> None:
        """Show names per second."""
        super().on_step_end(args, state, control, **settings)  # type: ignore[no-untyped-call]
        if self.training_bar is not None:
            self.training_bar.set_postfix_str(f"{self.log.speed:.0f} names/s", refresh=False)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        """Show the loss, or the figure of an evaluation."""
        if self.training_bar is not None and logs:
            for key in ("loss", f"eval_{self.metric}"):
                if key in logs:
                    self.training_bar.set_description_str(f"{key.removeprefix('eval_')} {logs[key]:.3f}", refresh=False)
