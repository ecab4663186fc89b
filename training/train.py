"""The one command that trains: `python -m training.train RECIPE.cfg [--section.key value ...]`. A recipe of phases runs several trainings.

Reads top to bottom: the recipe's schema, the command, one training, what is restored, what is saved.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from configparser import Error as ConfigParserError
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, List, Literal, NoReturn, Optional

import numpy as np
import typer
from confection import Config, ConfigValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from spacy.cli._util import parse_config_overrides
from spacy.util import load_config

from spacy_sapbert.encoders.transformer import BASE_NAME, use_bfloat16
from spacy_sapbert.errors import MissingFile, SapbertError
from spacy_sapbert.files import is_disk_full, writing_folder

from .errors import fail
from .loop.card import write_card
from .paths import stamp_of
from .registry import registry
from .task import Prepared, Task

LOG = "train_log.jsonl"
RECIPE = "recipe.cfg"
REPORT = "training.json"
FIGURES = ("_at1", "_at5", "_spearman")  # how the names end of what is measured before and after


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class Paths(_Section):
    """pairs: folder of `python -m training.data.pairs`. kb: the knowledge base it was made of (both: where the task reads them). out: the
    encoder's folder. base: "" is the default. definitions: folder of `python -m training.data.definitions`, for recipes of phases (`${paths.definitions}`)."""

    pairs: str = ""
    kb: str = ""
    out: str
    base: str = ""
    definitions: str = ""


class Encoder(_Section):
    """See `training.loop.model`. train_embeddings: whether the word embeddings learn too. frozen_layers: lowest layers that do not."""

    pooling: Literal["auto", "cls", "mean"] = "auto"
    max_length: int = Field(25, ge=3)
    dropout: float = Field(0.1, ge=0, lt=1)
    train_embeddings: bool = True
    frozen_layers: int = Field(0, ge=0)
    adapter: Optional[Any] = None


class Training(_Section):
    """gpu_id: -1 is the CPU. precision: "auto" is bf16 where the hardware computes in it, else fp32. max_steps: -1 is all of the epochs.

    warmup: share of the steps. eval_every, checkpoint: steps. patience: evaluations without a better held-out accuracy before it stops; 0: never.
    eval_queries, eval_names: how many held-out queries, and names beside those of their concepts. batch_tokens: of a micro-batch.
    cache_gradients: memory of one micro-batch whatever the batch, for a fifth more time. processes: that share the work,
    each with its own batches, mined together; on a CPU, two of one thread are half as fast again as one of two threads.
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
    max_grad_norm: float = Field(1.0, gt=0)
    eval_every: int = Field(200, ge=1)
    eval_queries: int = Field(1000, ge=1)
    eval_names: int = Field(10000, ge=0)
    patience: int = Field(5, ge=0)
    log_every: int = Field(10, ge=1)
    batch_tokens: int = Field(1024, ge=25)
    cache_gradients: bool = False
    processes: int = Field(1, ge=1)


class Recipe(_Section):
    """A recipe's sections, with `[task]`, `[batches]`, `[loss]`, `[miner]`, `[perturb]` and `[encoder.adapter]` made by what they name. Which
    of them there must be, the task says; without `[task]` it is self-alignment."""

    paths: Paths
    encoder: Encoder
    training: Training
    task: Any = None
    batches: Any = None
    loss: Any = None
    miner: Any = None
    perturb: Any = None

    @model_validator(mode="after")
    def _with_task(self) -> Recipe:
        if self.task is None:
            from .tasks.self_alignment import self_alignment

            self.task = self_alignment()
        if not isinstance(self.task, Task):
            raise ValueError("[task] must name a task: @tasks = …")
        self.task.check(self)
        return self


# -- command ------------------------------------------------------------------------------------------------------------

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def main(
    context: typer.Context, recipe: Path = typer.Argument(..., help="a .cfg of training/configs; --section.key value changes a setting")
) -> None:
    """Train an encoder. Killed, it goes on from its last checkpoint when the same command is given again."""
    try:
        try:
            overrides = parse_config_overrides(list(context.args))
        except SystemExit:
            raise fail("E510", path=recipe, why=f"'{' '.join(context.args)}' is not --section.key value …") from None
        config = _load(recipe, overrides)
        if "phases" in config:
            from . import phases

            print(json.dumps(phases.run(config, recipe), indent=1))
            return
        config = read_recipe(recipe, overrides)
        given = resolve(config).training
        processes = given.processes if given.gpu_id < 0 else 1  # torchrun starts one for each GPU
        if processes > 1 and "RANK" not in os.environ:
            _launch(processes, [str(recipe), *context.args])
        report = train(config)
    except SapbertError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from None
    if report:
        print(json.dumps({key: report[key] for key in ("steps", "names_per_second", "peak_memory_mb", "before", "after")}, indent=1))


def _launch(processes: int, arguments: List[str]) -> NoReturn:
    """This command again, in so many processes that torch's launcher joins. It takes this process's place: who ends one ends the other."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes), "-m", "training.train", *arguments]
    os.execve(sys.executable, command, {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // processes)), **os.environ})


def read_recipe(path: Path, overrides: Optional[Dict[str, Any]] = None) -> Config:
    """The recipe with what was overridden, checked as far as it can be without reading data. RAISES: SapbertError E510, E511."""
    config = _load(path, overrides or {})
    with _named(path):
        resolve(config)
    return config


def _load(path: Path, overrides: Dict[str, Any]) -> Config:
    with _named(path):
        config: Config = load_config(path, overrides=overrides, interpolate=True)
    return config


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors of reading a recipe as one that names it."""
    try:
        yield
    except (ConfigValidationError, ValidationError, ConfigParserError, OSError, ValueError, TypeError) as error:
        if isinstance(error, SapbertError):
            raise
        raise fail("E510", MissingFile if isinstance(error, OSError) else SapbertError, path=path, why=_why(error)) from error


def _why(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
    return " ".join(str(error).split())


def resolve(config: Config) -> Recipe:
    """What the sections name, made. RAISES: ValidationError, ConfigValidationError, SapbertError."""
    from .data import augment as perturb  # noqa: F401  (they register)

    made = registry.resolve(config)
    return Recipe(**made)


def is_main_process() -> bool:
    """Whether this is the only process, or the first that torchrun started."""
    return int(os.environ.get("RANK", "0")) == 0


# -- one training -------------------------------------------------------------------------------------------------------


def train(config: Config) -> Dict[str, Any]:
    """Train by a recipe; the folder `paths.out` appears when all is done. Checkpoints lie in `<out>.checkpoints` until then.

    RETURNS (Dict[str, Any]): steps, names/s, peak memory, held-out figures before and after, settings; empty in all processes but the first.
    RAISES: SapbertError E51x, and those of the task.
    """
    recipe = resolve(config)
    given = recipe.training
    _use_device(given)
    _quiet()

    import torch.distributed as dist
    from datasets import disable_progress_bars
    from transformers import EarlyStoppingCallback, set_seed
    from transformers.trainer_callback import PrinterCallback, ProgressCallback

    from .loop import model
    from .loop import trainer as loop

    disable_progress_bars()
    set_seed(given.seed)
    encoder = model.open_base(recipe.paths.base, pooling=recipe.encoder.pooling, max_length=recipe.encoder.max_length, dropout=recipe.encoder.dropout)
    model.freeze(encoder, embeddings=not recipe.encoder.train_embeddings, layers=recipe.encoder.frozen_layers)
    if recipe.encoder.adapter is not None:
        model.add_adapter(encoder, recipe.encoder.adapter)
    prepared = recipe.task.prepare(recipe, encoder)
    checkpoints = Path(f"{recipe.paths.out}.checkpoints")
    settings = _settings(config, prepared)
    last = _last_checkpoint(checkpoints, settings)
    if is_main_process() and last is None:
        _begin(checkpoints, settings)

    log = loop.Log(checkpoints / LOG, *prepared.objectives)
    callbacks: List[Any] = [log]
    if given.patience and prepared.evaluator is not None:
        callbacks.append(EarlyStoppingCallback(given.patience))
    trainer: Any = loop.Trainer(
        model=encoder,
        args=_arguments(recipe, prepared, checkpoints, last is not None),
        course=loop.Course(prepared.evaluator is not None),
        batches=prepared.batches,
        mix=prepared.mix,
        train_dataset=prepared.data,
        loss=prepared.objective,
        evaluator=prepared.evaluator,
        data_collator=prepared.collator,
        callbacks=callbacks,
    )
    for callback in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(callback)
    trainer.add_callback(loop.Progress(log, prepared.metric))
    learning, total = model.trainable(encoder)
    try:
        trainer.train(resume_from_checkpoint=last)
    except (OSError, RuntimeError) as error:
        if is_disk_full(error):
            raise fail("E516", path=checkpoints, error=error, checkpoint=loop.last_good(str(checkpoints)).capitalize()) from error
        raise
    if dist.is_initialized():
        dist.barrier()  # every process has read what it needs of the checkpoints
    if not is_main_process():
        return {}
    scores = [line for line in trainer.state.log_history if f"eval_{prepared.metric}" in line]
    best = str(trainer.state.best_model_checkpoint or "").rpartition("-")[2]
    after = [line for line in scores if str(line["step"]) == best] or scores[-1:]
    report = {
        "steps": trainer.state.global_step,
        "best_step": after[0]["step"] if after else trainer.state.global_step,
        **_course_of(checkpoints / LOG),
        "trainable_parameters": learning,
        "parameters": total,
        "pooling": encoder[1].pooling_mode,
        "before": _figures(scores[:1]),
        "after": _figures(after[:1]),
        **prepared.report,
        "settings": {
            **_flat(
                recipe.model_dump(include={"encoder": {"pooling", "max_length", "dropout", "train_embeddings", "frozen_layers"}, "training": True})
            ),
            **settings,
        },
    }
    _save(encoder, recipe, config, checkpoints, report, prepared)
    shutil.rmtree(checkpoints)
    return report


def _figures(lines: List[Dict[str, Any]]) -> Dict[str, Any]:
    return {key.removeprefix("eval_"): value for line in lines for key, value in line.items() if key.endswith(FIGURES)}


def _use_device(given: Training) -> None:
    """Before torch looks for GPUs: of several, the trainer would else split each batch over all. RAISES: SapbertError E513."""
    import torch

    if given.gpu_id < 0:
        return
    count = torch.cuda.device_count()  # is_available() would fix the list of GPUs
    if not count:
        raise fail("E513", gpu_id=given.gpu_id, why="torch finds none (a CPU build of torch, or no driver)")
    wanted = int(os.environ.get("LOCAL_RANK", given.gpu_id))  # torchrun gives each process its own
    if wanted >= count:
        raise fail("E513", gpu_id=wanted, why=f"this machine has {count}, numbered from 0")
    if "LOCAL_RANK" not in os.environ:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        os.environ["CUDA_VISIBLE_DEVICES"] = visible[wanted] if len(visible) == count else str(wanted)


def _quiet() -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    logging.getLogger("sentence_transformers").setLevel(logging.WARNING)


def precision(given: Training) -> str:
    """ "bf16", "fp16" or "fp32". RAISES: SapbertError E511."""
    import torch

    if given.precision == "fp16" and given.gpu_id < 0:
        raise fail("E511", setting="training.precision", value="fp16", why="a CPU has no fp16 training; 'auto' takes what it has")
    if given.precision != "auto":
        return given.precision
    device = torch.device("cpu" if given.gpu_id < 0 else "cuda")
    if use_bfloat16("auto", device):
        return "bf16"
    return "fp16" if device.type == "cuda" else "fp32"


def _arguments(recipe: Recipe, prepared: Prepared, checkpoints: Path, resumes: bool) -> Any:
    from sentence_transformers import SentenceTransformerTrainingArguments

    metric = prepared.metric
    given, chosen, evaluates = recipe.training, precision(recipe.training), metric is not None
    os.environ["ACCELERATE_MIXED_PRECISION"] = "no"  # what a training before this one in the same process left there would count for this one
    return SentenceTransformerTrainingArguments(
        output_dir=str(checkpoints),
        use_cpu=given.gpu_id < 0,
        per_device_train_batch_size=prepared.batch_size,
        num_train_epochs=given.epochs,
        max_steps=given.max_steps,
        learning_rate=given.learning_rate,
        weight_decay=given.weight_decay,
        warmup_ratio=given.warmup,
        lr_scheduler_type=given.schedule,
        max_grad_norm=given.max_grad_norm,
        optim="adamw_torch_fused",
        bf16=chosen == "bf16",
        fp16=chosen == "fp16",
        seed=given.seed,
        data_seed=given.seed,
        eval_strategy="steps" if evaluates else "no",
        eval_on_start=evaluates and not resumes,
        restore_callback_states_from_checkpoint=True,  # patience goes on from where it was
        eval_steps=given.eval_every,
        save_strategy="steps",
        save_steps=given.eval_every,
        save_total_limit=2,
        load_best_model_at_end=evaluates,
        metric_for_best_model=f"eval_{metric}" if evaluates else None,
        greater_is_better=True if evaluates else None,
        logging_strategy="steps",
        logging_steps=given.log_every,
        logging_first_step=True,
        logging_nan_inf_filter=False,
        logging_dir=f"{recipe.paths.out}.tensorboard",
        report_to=["tensorboard"],
        dataloader_num_workers=0,
        ddp_find_unused_parameters=False,
        disable_tqdm=not is_main_process(),
    )


# -- what is restored ---------------------------------------------------------------------------------------------------

_FREE = ("paths.out", "paths.pairs", "paths.kb", "paths.definitions", "training.log_every")  # may differ: places, and what changes no result


def _settings(config: Config, prepared: Prepared) -> Dict[str, Any]:
    """What decides the result, flat: "section.key" -> value."""
    from .phases import contents

    flat = {key: value for key, value in _flat(json.loads(json.dumps(dict(config)))).items() if key not in _FREE and not _is_place(key, prepared)}
    flat.update(prepared.data_settings)
    base = config["paths"].get("base")
    if base and (weights := contents(Path(base))):  # a folder's name stays when what lies in it is made anew
        flat["base"] = weights
    flat["processes"] = int(os.environ.get("WORLD_SIZE", "1"))
    return flat


def _is_place(key: str, prepared: Prepared) -> bool:
    return key.startswith("task.") and key.rpartition(".")[2] in prepared.places


def _flat(value: Any, prefix: str = "") -> Dict[str, Any]:
    if not isinstance(value, dict):
        return {prefix: value}
    return {key: found for name, below in value.items() for key, found in _flat(below, f"{prefix}.{name}" if prefix else name).items()}


def _last_checkpoint(checkpoints: Path, settings: Dict[str, Any]) -> Optional[str]:
    """The checkpoint to go on from, None for none. RAISES: SapbertError E514."""
    from .loop.trainer import last_checkpoint

    last = last_checkpoint(checkpoints)
    if last is None or not (checkpoints / REPORT).is_file():
        return None
    before = json.loads((checkpoints / REPORT).read_text(encoding="utf-8"))
    changed = [f"{key}: {before.get(key)!r} -> {settings.get(key)!r}" for key in sorted({*before, *settings}) if before.get(key) != settings.get(key)]
    if changed:
        raise fail("E514", path=checkpoints, differences="; ".join(changed))
    return last


def _begin(checkpoints: Path, settings: Dict[str, Any]) -> None:
    """An empty folder but for the settings; what a kill left of a first checkpoint goes."""
    checkpoints.mkdir(parents=True, exist_ok=True)
    for path in checkpoints.glob("checkpoint-*"):
        shutil.rmtree(path)
    _write_json(checkpoints / REPORT, settings)


# -- what is saved ------------------------------------------------------------------------------------------------------


def _save(encoder: Any, recipe: Recipe, config: Config, checkpoints: Path, report: Dict[str, Any], prepared: Prepared) -> None:
    from .loop import model

    try:
        with writing_folder(recipe.paths.out) as folder:
            model.save_model(encoder, folder, recipe.paths.base or BASE_NAME)
            shutil.copyfile(checkpoints / LOG, folder / LOG)
            (folder / RECIPE).write_text(config.to_str(), encoding="utf-8")
            _write_json(folder / REPORT, report)
            write_card(folder / "README.md", report, prepared.words(report))
        stamp_of(recipe.paths.out).unlink(missing_ok=True)  # phases that lie there from before are not what made this one
    except OSError as error:
        if is_disk_full(error):
            raise fail("E516", path=recipe.paths.out, error=error, checkpoint="The checkpoints are kept") from error
        raise


def _course_of(log: Path) -> Dict[str, Any]:
    """Of the whole training, whatever the number of resumes: median names/s, peak memory of the first process, seconds of its steps."""
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.is_file() else []
    speeds = [line["names_per_second"] for line in lines if line.get("names_per_second")]
    return {
        "names": sum(line.get("names", 0) for line in lines),
        "names_per_second": round(float(np.median(speeds)), 1) if speeds else 0.0,
        "peak_memory_mb": max((line["peak_memory_mb"] for line in lines), default=0),
        "seconds": round(sum(line.get("busy_seconds", 0.0) for line in lines), 1),
    }


def _write_json(path: Path, content: Any) -> None:
    scratch = path.with_name(f".{path.name}.tmp")  # another process may be reading
    scratch.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(scratch, path)


if __name__ == "__main__":
    app()
