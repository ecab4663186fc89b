"""The schema of a recipe, and the base class of tasks. This module imports no task.

A recipe names its task in `[task]`; without one it is self-alignment (`training.fit.resolve` adds it). Schedule, precision, checkpoints, log,
early stopping and processes belong to `training.fit`, for all tasks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from confection import Config
from pydantic import BaseModel, ConfigDict, Field, model_validator

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

REPORT = "training.json"  # in the folder of a trained encoder
SECTIONS = ("batches", "loss", "miner", "augment")  # sections of a recipe that only some tasks use
Sections = dict[str, dict[str, Any]]  # section -> settings


# -- the schema of a recipe ---------------------------------------------------------------------------------------------


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class Paths(_Section):
    """Files and folders.

    Attributes:
        pairs: Folder of `python -m training pairs`, for tasks that read pairs.
        kb: The knowledge base that the pairs were made from.
        out: The folder of the trained encoder.
        base: A Hugging Face or sentence-transformers name, or a folder; "" is the default base.
        definitions: Folder of `python -m training definitions`, for recipes of phases (`${paths.definitions}`).
    """

    pairs: str = ""
    kb: str = ""
    out: str
    base: str = ""
    definitions: str = ""


class Encoder(_Section):
    """How the base is opened, see `training.loop.model`.

    Attributes:
        pooling: How token vectors become the vector of a name.
        max_length: Greatest number of tokens that are read of a text.
        dropout: Share of the units that are dropped.
        train_embeddings: Whether the word embeddings learn too.
        frozen_layers: Number of layers that do not learn, counted from the lowest.
        adapter: Adapter that the function of `@adapters` makes; None: the weights themselves are trained.
    """

    pooling: Literal["auto", "cls", "mean"] = "auto"
    max_length: int = Field(25, ge=3)
    dropout: float = Field(0.1, ge=0, lt=1)
    train_embeddings: bool = True
    frozen_layers: int = Field(0, ge=0)
    adapter: Any | None = None


class Training(_Section):
    """The schedule.

    Attributes:
        gpu_id: Number of the GPU; -1 is the CPU.
        precision: "auto" is bf16 if the hardware computes in it, else fp16 on a GPU and fp32 on a CPU.
        max_steps: Number of optimiser steps; -1: all steps of the epochs.
        warmup: Share of the steps in which the learning rate rises.
        eval_every: Number of steps between evaluations, each with a checkpoint.
        eval_queries: Greatest number of held-out queries.
        eval_names: Number of names in the dictionary of the queries, in addition to those of their concepts.
        max_grad_norm: Norm to which gradients are clipped; 0: they are not clipped.
        keep: Which weights are written: those with the best held-out accuracy, or the last.
        patience: Number of evaluations without a better held-out accuracy before training stops; 0: it never stops early.
        batch_tokens: Tokens of a micro-batch; 0: 1,024 on a CPU, the whole batch in one padded pass on a GPU.
        cache_gradients: Whether to keep memory at that of one micro-batch, for any size of the batch; it takes about a fifth more time.
        processes: Number of processes that share the work on a CPU: each takes a part of every batch, and miners get the whole batch. Two processes
            of one thread are one and a half times as fast as one process of two threads.
        compile: Whether to compile the transformer (`torch.compile`): the first steps take minutes, the others less time on a recent GPU.
        max_seconds: Stop after the step in which this number of seconds is reached, as if it were the last step; 0: no limit.
    """

    seed: int = 0
    gpu_id: int = -1
    precision: Literal["auto", "bf16", "fp16", "fp32"] = "auto"
    epochs: float = Field(1.0, gt=0)
    max_steps: int = -1
    learning_rate: float = Field(2e-5, gt=0)
    weight_decay: float = Field(0.01, ge=0)
    warmup: float = Field(0.1, ge=0, lt=1)
    schedule: Literal["linear", "cosine", "constant", "constant_with_warmup", "polynomial", "inverse_sqrt"] = "linear"
    max_grad_norm: float = Field(1.0, ge=0)
    eval_every: int = Field(200, ge=1)
    eval_queries: int = Field(1000, ge=1)
    eval_names: int = Field(10000, ge=0)
    keep: Literal["best", "last"] = "best"
    patience: int = Field(5, ge=0)
    log_every: int = Field(10, ge=1)
    batch_tokens: int = Field(0, ge=0)
    cache_gradients: bool = False
    processes: int = Field(1, ge=1)
    compile: bool = False
    max_seconds: float = Field(0.0, ge=0)

    @model_validator(mode="after")
    def _patience_needs_best(self) -> Training:
        if self.keep == "last" and self.patience:
            raise ValueError('keep = "last" writes the last weights, so patience has no use: set patience = 0')
        return self


class Recipe(_Section):
    """All sections of a recipe. `task`, `batches`, `loss`, `miner`, `augment` and `encoder.adapter` are the objects that the sections name.

    The task decides which of them are required.
    """

    paths: Paths
    encoder: Encoder
    training: Training
    task: Any
    batches: Any = None
    loss: Any = None
    miner: Any = None
    augment: Any = None

    @model_validator(mode="after")
    def _fits_its_task(self) -> Recipe:
        if not isinstance(self.task, Task):
            raise ValueError("[task] must name a task: @tasks = …")
        self.task.check(self)
        return self


def changed(recipe: Config, changes: Sections) -> Config:
    """Return a copy of the recipe with the changes.

    Args:
        recipe: Sections of settings; not modified.
        changes: Section -> settings. A section with an `@` replaces the recipe's section; any other section changes only the settings that it names.
    """
    made = copy.deepcopy(recipe)
    for section, values in changes.items():
        replaces = any(key.startswith("@") for key in values) or not isinstance(made.get(section), dict)
        made[section] = copy.deepcopy(values) if replaces else {**made[section], **copy.deepcopy(values)}
    return made


# -- tasks --------------------------------------------------------------------------------------------------------------


class Table(NamedTuple):
    """Figures of a model card, before and after training.

    Attributes:
        columns: Headings.
        rows: For each row its title, and for each column a key of the figures `before` and `after`.
    """

    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]


class Words(NamedTuple):
    """Texts of a model card about a training.

    Attributes:
        method: Text after "Trained by".
        what: What the training does, in a few words.
        data: A paragraph about the data.
        measured: What the figures measure; "" if nothing was measured.
        tables: The figures.
        tag: A tag in the card's header.
        language: The language in the card's header.
        limits: What the encoder is not suited for.
    """

    method: str
    what: str
    data: str
    measured: str = ""
    tables: Sequence[Table] = ()
    tag: str = "sapbert"
    language: str = "en"
    limits: str = "Not suited for names that are not English, whole sentences, or abbreviations without their long form."


@dataclass
class Prepared:
    """What a task prepares for the training loop.

    Attributes:
        data: A `datasets.Dataset`, or a `DatasetDict` of several.
        batch_size: Number of rows of a batch, of all processes together.
        batches: Makes the sampler of a data set, see `training.loop.trainer.Trainer`.
        collator: Makes the loop's input from rows.
        objective: The loss, or one for each data set.
        words: Makes the texts of the model card from the report.
        evaluator: The evaluator, with a `primary_metric`; None if there is nothing to measure.
        data_settings: Fingerprints of the data; a checkpoint of other data is refused.
        report: Counts for training.json.
        mix: Makes one sampler from the samplers of several data sets.
        paths: Settings of `[task]` that name files or folders; they may differ when a training is resumed.
        rates: Learning rates of weights of the loss, by name; other weights have that of the recipe.
    """

    data: Any
    batch_size: int
    batches: Callable[..., Any]
    collator: Any
    objective: Any
    words: Callable[[dict[str, Any]], Words]
    evaluator: Any = None
    data_settings: dict[str, Any] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)
    mix: Callable[..., Any] | None = None
    paths: tuple[str, ...] = ()
    rates: dict[str, float] = field(default_factory=dict)

    @property
    def objectives(self) -> list[Any]:
        """All losses, as a list."""
        return list(self.objective.values()) if isinstance(self.objective, dict) else [self.objective]

    @property
    def metric(self) -> str | None:
        """The figure that decides which weights are kept."""
        return None if self.evaluator is None else str(self.evaluator.primary_metric)


class Task:
    """A kind of training. Its settings are the arguments of the function that makes it, which a recipe names with `@tasks`.

    Attributes:
        needs: Sections of `SECTIONS` that a recipe must have.
        takes: Sections of `SECTIONS` that a recipe may have.
        paths: Entries of `[paths]` that a recipe must have.
    """

    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    def prepare(self, recipe: Recipe, encoder: SentenceTransformer) -> Prepared:
        """Read the data and prepare the training. A task may add modules to the encoder that are trained with it.

        Raises:
            SapbertError: The data cannot be used.
        """
        raise NotImplementedError

    def extent(self, recipe: Recipe) -> tuple[int, int, int]:
        """Return the number of rows of the training data, of rows of a batch, and of texts of a row, without reading texts.

        Raises:
            SapbertError: The data cannot be used.
        """
        raise NotImplementedError

    def check(self, recipe: Recipe) -> None:
        """Check that the recipe has the sections and paths that this task needs, and no sections that it does not use.

        Raises:
            ValueError: A section or path is missing, or a section is not used by this task.
        """
        for section in SECTIONS:
            given = getattr(recipe, section) is not None
            if section in self.needs and not given:
                raise ValueError(f"section [{section}] is missing")
            if given and section not in (*self.needs, *self.takes):
                raise ValueError(f"section [{section}] is not used by this task; leave it out")
        for path in self.paths:
            if not getattr(recipe.paths, path):
                raise ValueError(f"paths.{path} is missing")


def listed(counts: dict[str, int]) -> str:
    """Return counts as text: {"name": 2, "synonym": 1} becomes "2 name, 1 synonym"."""
    return ", ".join(f"{count:,} {what}" for what, count in counts.items())
