"""Run one training, from a recipe to the folder of an encoder.

From top to bottom: read and check the recipe, train, resume, save.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
from collections.abc import Iterator
from configparser import Error as ConfigParserError
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from confection import Config, ConfigValidationError
from pydantic import ValidationError
from spacy.util import load_config

from spacy_sapbert.encoders.transformer import BASE_NAME, use_bfloat16
from spacy_sapbert.errors import MissingFile, SapbertError
from spacy_sapbert.files import is_disk_full, write_text, writing_folder

from . import devices
from .errors import fail
from .made import Stamp, contents, flat, stamp_of
from .recipe import REPORT, Prepared, Recipe, Training
from .registry import registry

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

LOG = "train_log.jsonl"
RECIPE = "recipe.cfg"
FIGURES = ("_at1", "_at5", "_spearman", "_weight")  # ends of the names of figures that are reported before and after the training
LAUNCHED = "RANK"  # environment variable in which torchrun gives the number of a process
WORLD = "WORLD_SIZE"  # environment variable in which torchrun gives the number of processes
GPU_LOADERS = 4  # processes that read and tokenise batches in advance for a GPU; each prepares about 15,000 names/s


# -- the recipe ---------------------------------------------------------------------------------------------------------


def read_recipe(path: Path, overrides: dict[str, Any] | None = None) -> Config:
    """Read a recipe and check it as far as possible without reading data.

    Args:
        path: A .cfg file.
        overrides: "section.key" -> value, which replaces the value in the file.

    Raises:
        SapbertError: E510 (the recipe), E511 (a setting).
    """
    config = load(path, overrides)
    with naming(path):
        resolve(config)
    return config


def load(path: Path, overrides: dict[str, Any] | None = None) -> Config:
    """Read a recipe without checking it, because it may be a recipe of phases.

    If an override names another function (`loss.@losses`), the settings of the recipe's own function are dropped, as in phases and comparisons.

    Raises:
        SapbertError: E510.
    """
    given = overrides or {}
    with naming(path):
        config: Config = load_config(path, overrides=given, interpolate=True)
    for section in [key.rpartition(".")[0] for key in given if key.rpartition(".")[2].startswith("@")]:
        found: Any = config
        for part in section.split("."):
            found = found[part]
        for key in [key for key in found if not any(name == f"{section}.{key}" or name.startswith(f"{section}.{key}.") for name in given)]:
            del found[key]
    return config


def resolve(config: Config) -> Recipe:
    """Make the objects that the sections of a recipe name. Without `[task]` the task is self-alignment.

    Raises:
        ValidationError, ConfigValidationError: A section or a setting does not fit.
        SapbertError: E511.
    """
    # importing these modules registers the functions that recipes can name
    from .data import augment  # noqa: F401
    from .loop import batches, losses, mining, model  # noqa: F401
    from .tasks import biosyn, cross_encoder, cross_lingual, distillation, multitask, self_alignment, sentence_similarity  # noqa: F401

    made = dict(registry.resolve(config))
    made.setdefault("task", self_alignment.self_alignment())
    return Recipe(**made)


@contextmanager
def naming(where: Path | str) -> Iterator[None]:
    """Convert errors of reading or checking a recipe into E510, which names the recipe."""
    try:
        yield
    except SapbertError:
        raise
    except (ConfigValidationError, ValidationError, ConfigParserError, OSError, ValueError, TypeError) as error:
        raise fail("E510", MissingFile if isinstance(error, OSError) else SapbertError, path=where, why=_why(error)) from error


def _why(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        places = [(".".join(map(str, e["loc"])), e["msg"].removeprefix("Value error, ")) for e in error.errors()]
        return "; ".join(f"{place}: {message}" if place else message for place, message in places)  # an error of the whole recipe has no place
    return " ".join(str(error).split())


# -- one training -------------------------------------------------------------------------------------------------------


def is_main_process() -> bool:
    """Say whether this is the only process, or the first process that torchrun started."""
    return int(os.environ.get(LAUNCHED, "0")) == 0


def fit(config: Config) -> dict[str, Any]:
    """Train a recipe. The folder `paths.out` appears only when the training is done; until then, checkpoints are in `<out>.checkpoints`.

    Args:
        config: The recipe, from `read_recipe`.

    Returns:
        The content of training.json: steps, names per second, peak memory in MB, held-out figures before and after, settings. Empty in all
        processes except the first.

    Raises:
        SapbertError: E512 to E516, and those of the task.
    """
    recipe = resolve(config)
    join(recipe.training)
    _be_quiet()

    from datasets import disable_progress_bars
    from transformers.trainer_utils import set_seed

    from .loop import model, trainer

    disable_progress_bars()
    set_seed(recipe.training.seed)
    encoder = open_encoder(recipe)
    with naming_memory(recipe, 0):
        prepared = recipe.task.prepare(recipe, encoder)
    world = int(os.environ.get(WORLD, "1"))
    if prepared.batch_size < world:
        why = f"a batch holds {prepared.batch_size} rows, which {world} processes share. Start fewer processes"
        raise fail("E511", setting="training.processes", value=world, why=why)
    checkpoints = Path(f"{recipe.paths.out}.checkpoints")
    settings = _settings(config, prepared)
    last = _last_checkpoint(checkpoints, settings)
    with naming_full_disk(checkpoints):
        if is_main_process() and last is None:
            _begin(checkpoints, settings)
        loop = _make_trainer(encoder, recipe, prepared, checkpoints, is_resumed=last is not None)
        sizes = model.trainable(encoder)
        with naming_memory(recipe, prepared.batch_size):
            if last is not None and trainer.has_ended(last):  # killed between its last checkpoint and its end
                loop.take_over(last)
            else:
                loop.train(resume_from_checkpoint=last)
    wait_for_all()  # the checkpoints are removed below; other processes may still read them
    if not is_main_process():
        return {}
    report = {
        **_outcome(loop.state, prepared, checkpoints / LOG),
        "trainable_parameters": sizes[0],
        "parameters": sizes[1],
        "base": recipe.paths.base or BASE_NAME,
        "pooling": encoder[1].pooling_mode,
        **prepared.report,
        "settings": {
            "processes": world,
            **flat(
                recipe.model_dump(include={"encoder": {"pooling", "max_length", "dropout", "train_embeddings", "frozen_layers"}, "training": True})
            ),
            **settings,
        },
    }
    _save(encoder, recipe, config, checkpoints, report, prepared)
    shutil.rmtree(checkpoints)
    return report


def check(config: Config) -> None:
    """Check what a training needs before it starts: its device, its data as far as `Task.extent` reads them, and its base.

    Raises:
        SapbertError: E511, E512, E513, and those of the task.
    """
    recipe = resolve(config)
    devices.use(recipe.training.gpu_id)
    recipe.task.extent(recipe)
    open_encoder(recipe)


def open_encoder(recipe: Recipe) -> SentenceTransformer:
    """Open the base of a recipe, freeze the weights that do not learn, and add adapters.

    Raises:
        SapbertError: E511, E512.
    """
    from .loop import model

    given = recipe.encoder
    encoder = model.open_base(recipe.paths.base, pooling=given.pooling, max_length=given.max_length, dropout=given.dropout)
    model.freeze(encoder, embeddings=not given.train_embeddings, layers=given.frozen_layers)
    if given.adapter is not None:
        model.add_adapter(encoder, given.adapter)
    if recipe.training.compile:
        model.transformer_of(encoder).compile(
            dynamic=True
        )  # in place, so that the weights keep their names; dynamic, because batches differ in length
    return encoder


def _make_trainer(encoder: SentenceTransformer, recipe: Recipe, prepared: Prepared, checkpoints: Path, *, is_resumed: bool) -> Any:
    from transformers.trainer_callback import EarlyStoppingCallback, PrinterCallback, ProgressCallback

    from .loop import trainer

    log = trainer.Log(checkpoints / LOG, *prepared.objectives)
    callbacks: list[Any] = [log, *([trainer.Limit(recipe.training.max_seconds)] if recipe.training.max_seconds else [])]
    if recipe.training.patience and prepared.evaluator is not None:
        callbacks.append(EarlyStoppingCallback(recipe.training.patience))
    made: Any = trainer.Trainer(
        model=encoder,
        args=_arguments(recipe, prepared, checkpoints, is_resumed),
        hooks=trainer.Hooks(prepared.evaluator is not None),
        batches=prepared.batches,
        mix=prepared.mix,
        train_dataset=prepared.data,
        loss=prepared.objective,
        evaluator=prepared.evaluator,
        data_collator=prepared.collator,
        callbacks=callbacks,
    )
    for callback in (PrinterCallback, ProgressCallback):
        made.remove_callback(callback)
    made.add_callback(trainer.Progress(log, prepared.metric))
    return made


def _outcome(state: Any, prepared: Prepared, log: Path) -> dict[str, Any]:
    """Return steps, speed and figures of a training that has ended."""
    scores = [line for line in state.log_history if f"eval_{prepared.metric}" in line]
    best = str(state.best_model_checkpoint or "").rpartition("-")[2]
    after = [line for line in scores if str(line["step"]) == best] or scores[-1:]
    return {
        "steps": state.global_step,
        "best_step": after[0]["step"] if after else state.global_step,
        **_costs(log),
        "before": _figures(scores[:1]),
        "after": _figures(after[:1]),
    }


def _costs(log: Path) -> dict[str, Any]:
    """Return the costs of a training with all resumed runs: names, median names/s, peak memory of the first process in MB, seconds of its steps."""
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.is_file() else []
    speeds = [line["names_per_second"] for line in lines if line.get("names_per_second")]
    return {
        "names": sum(line.get("names", 0) for line in lines),
        "names_per_second": round(float(np.median(speeds)), 1) if speeds else 0.0,
        "peak_memory_mb": max((line["peak_memory_mb"] for line in lines), default=0),
        "seconds": round(sum(line.get("busy_seconds", 0.0) for line in lines), 1),
    }


def _figures(lines: list[dict[str, Any]]) -> dict[str, Any]:
    return {key.removeprefix("eval_"): value for line in lines for key, value in line.items() if key.endswith(FIGURES)}


def join(given: Training) -> None:
    """Choose the device of this process, and connect to the other processes that torchrun started. It must be called before anything is built.

    Raises:
        SapbertError: E513.
    """
    if devices.use(given.gpu_id) not in ("cpu", "cuda:0") and LAUNCHED not in os.environ:
        why = (
            "this process has looked at several GPUs already. Train with `python -m training train`, or set CUDA_VISIBLE_DEVICES before Python starts"
        )
        raise fail("E513", gpu_id=given.gpu_id, why=why)
    if LAUNCHED in os.environ:
        from accelerate import PartialState

        PartialState(cpu=given.gpu_id < 0)  # as the trainer does later; its call then finds this group


def wait_for_all() -> None:
    """Wait until all processes of this training have reached this call."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        dist.barrier()


@contextmanager
def naming_full_disk(checkpoints: Path) -> Iterator[None]:
    """Convert every error of a full disk into E516, which names the last good checkpoint.

    TensorBoard writes its events in a thread. Its error is not printed there: the main thread soon finds that the disk is full, too.
    """
    from .loop import trainer

    printed = threading.excepthook

    def print_others(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is None or not is_disk_full(args.exc_value):
            printed(args)

    threading.excepthook = print_others
    try:
        yield
    except Exception as error:  # the libraries that write a checkpoint raise many types
        if not is_disk_full(error) and getattr(error, "code", "") != "E008":
            raise
        cause = error.__cause__ if isinstance(error, SapbertError) else error
        raise fail("E516", path=checkpoints, error=cause, checkpoint=trainer.last_good(str(checkpoints)).capitalize()) from error
    finally:
        threading.excepthook = printed


@contextmanager
def naming_memory(recipe: Recipe, batch_size: int) -> Iterator[None]:
    """Convert the error of a GPU whose memory is full into E529, which says which settings to lower."""
    import torch

    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        given = recipe.training
        lower = [] if given.cache_gradients else ["training.cache_gradients true (the same result in less memory)"]
        lower += [f"a lower training.batch_tokens ({given.batch_tokens or 'now the whole batch'}), with cached gradients"]
        lower += [f"a lower encoder.max_length ({recipe.encoder.max_length})", f"a smaller batch ({batch_size}; results change)"]
        message = " ".join(str(error).split())
        raise fail("E529", gpu_id=given.gpu_id, error=". ".join(message.split(". ")[:3]), lower="; ".join(lower)) from error


def _be_quiet() -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    logging.getLogger("sentence_transformers").setLevel(logging.WARNING)


def precision(given: Training) -> str:
    """Return the precision to train in: "bf16", "fp16" or "fp32".

    Raises:
        SapbertError: E511.
    """
    import torch

    if given.precision == "fp16" and given.gpu_id < 0:
        raise fail("E511", setting="training.precision", value="fp16", why="a CPU can't train in fp16; 'auto' chooses what it can")
    if given.precision != "auto":
        return given.precision
    device = torch.device("cpu" if given.gpu_id < 0 else "cuda")
    if use_bfloat16("auto", device):
        return "bf16"
    return "fp16" if device.type == "cuda" else "fp32"


def _arguments(recipe: Recipe, prepared: Prepared, checkpoints: Path, is_resumed: bool) -> Any:
    from sentence_transformers import SentenceTransformerTrainingArguments

    metric = prepared.metric
    given, chosen, evaluates = recipe.training, precision(recipe.training), metric is not None
    best = evaluates and given.keep == "best"
    os.environ["ACCELERATE_MIXED_PRECISION"] = "no"  # an earlier training in this process may have set another value
    on_gpu = given.gpu_id >= 0
    made = SentenceTransformerTrainingArguments(
        output_dir=str(checkpoints),
        use_cpu=not on_gpu,
        per_device_train_batch_size=prepared.batch_size,  # of all processes together: see `training.loop.trainer.shared`
        num_train_epochs=given.epochs,
        max_steps=given.max_steps,
        learning_rate=given.learning_rate,
        learning_rate_mapping=prepared.rates,
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
        eval_on_start=evaluates and not is_resumed,
        restore_callback_states_from_checkpoint=True,  # patience continues from where it was
        eval_steps=given.eval_every,
        save_strategy="steps",
        save_steps=given.eval_every,
        save_total_limit=2,
        load_best_model_at_end=best,
        metric_for_best_model=f"eval_{metric}" if best else None,
        greater_is_better=True if best else None,
        logging_strategy="steps",
        logging_steps=given.log_every,
        logging_first_step=True,
        logging_nan_inf_filter=False,
        logging_dir=f"{recipe.paths.out}.tensorboard",
        report_to=["tensorboard"],
        # other processes tokenise the next batches in advance, into pinned memory, so that a GPU does not wait
        dataloader_num_workers=GPU_LOADERS if on_gpu else 0,
        dataloader_prefetch_factor=4 if on_gpu else None,
        dataloader_persistent_workers=False,  # each epoch has other batches
        dataloader_pin_memory=on_gpu,
        accelerator_config={"non_blocking": on_gpu},
        ddp_find_unused_parameters=False,
        disable_tqdm=not is_main_process(),
    )
    _ = made.device  # this also counts the GPUs
    made._n_gpu = min(made.n_gpu, 1)  # with several visible GPUs the trainer would multiply the batch size and split each batch over them
    return made


# -- resuming -----------------------------------------------------------------------------------------------------------

SETTINGS = "settings.json"  # in the folder of checkpoints: the stamp of the inputs of the training
# settings that may differ when a training is resumed, because they do not change its result: paths, logging, and the machine (a batch is
# that of all processes together)
FREE = ("paths.out", "paths.pairs", "paths.kb", "paths.definitions", "training.log_every", "training.gpu_id", "training.processes")


def _settings(config: Config, prepared: Prepared) -> dict[str, Any]:
    """Return the settings that decide the result, flat: "section.key" -> value."""
    plain = flat(json.loads(json.dumps(dict(config))))
    chosen = {key: value for key, value in plain.items() if key not in FREE and not _is_path(key, prepared)}
    chosen.update(prepared.data_settings)
    base = config["paths"].get("base")
    if base and (weights := contents(base)):  # the folder may hold other weights under the same name
        chosen["base"] = weights
    return chosen


def _is_path(key: str, prepared: Prepared) -> bool:
    return key.startswith("task.") and key.rpartition(".")[2] in prepared.paths


def _last_checkpoint(checkpoints: Path, settings: dict[str, Any]) -> str | None:
    """Return the checkpoint to resume from, or None.

    Raises:
        SapbertError: E514, if the checkpoints were made with other settings.
    """
    from .loop.trainer import last_checkpoint

    last = last_checkpoint(checkpoints)
    differences = Stamp(checkpoints / SETTINGS).differences(settings)
    if last is None or differences is None:
        return None
    if differences:
        raise fail("E514", path=checkpoints, differences="; ".join(differences))
    return last


def _begin(checkpoints: Path, settings: dict[str, Any]) -> None:
    """Make a folder of checkpoints that holds only the settings. Remove an incomplete first checkpoint of a killed training."""
    checkpoints.mkdir(parents=True, exist_ok=True)
    for path in checkpoints.glob("checkpoint-*"):
        shutil.rmtree(path)
    Stamp(checkpoints / SETTINGS).write(settings)


# -- saving -------------------------------------------------------------------------------------------------------------


def _save(encoder: Any, recipe: Recipe, config: Config, checkpoints: Path, report: dict[str, Any], prepared: Prepared) -> None:
    from .loop import model
    from .loop.card import write_card

    try:
        with writing_folder(recipe.paths.out) as folder:
            model.save_model(encoder, folder, recipe.paths.base or BASE_NAME)
            shutil.copyfile(checkpoints / LOG, folder / LOG)
            (folder / RECIPE).write_text(config.to_str(), encoding="utf-8")
            write_text(folder / REPORT, json.dumps(report, indent=1, ensure_ascii=False) + "\n")
            write_card(folder / "README.md", report, prepared.words(report))
    except SapbertError as error:
        if error.code == "E008":  # the disk is full
            raise fail("E516", path=recipe.paths.out, error=error.__cause__, checkpoint="The checkpoints are kept") from error
        raise
    Stamp(stamp_of(recipe.paths.out)).remove()  # a stamp of an earlier recipe of phases does not describe this encoder
