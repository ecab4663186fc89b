"""`index`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import fail
from .app import app, command

if TYPE_CHECKING:
    from ..build.vectors import Workers


N_TREES = 10  # the default of AnnoyIndex


@command(app, "index")
def index(
    kb: Path = typer.Argument(..., help="Folder of a knowledge base."),
    out: Path = typer.Option(..., help="Folder of the linker to write, with knowledge base, encoder and index."),
    encoder: str = typer.Option(
        "",
        help="Name or folder of a Hugging Face or sentence-transformers model, or a model2vec folder; default: the shipped default encoder; 'fast': the shipped static encoder; 'paired': both shipped encoders.",
    ),
    pooling: str = typer.Option("auto", help="How the vectors of the tokens become one vector: cls, mean, or auto (as the model's settings say)."),
    max_length: int | None = typer.Option(None, help="Number of tokens of a name that the encoder reads; default: 25, or all for a static encoder."),
    engine: str = typer.Option(
        "default",
        help="A registered engine; 'auto': the best installed engine for this number of names; default: Annoy, or the same as 'auto' from two million names on.",
    ),
    setting: list[str] = typer.Option([], help="A setting of the engine, NAME=VALUE: uri=http://localhost:19530. May be given several times."),
    n_trees: int = typer.Option(N_TREES, help="Annoy: number of trees."),
    processes: int = typer.Option(1, help="Number of processes that encode, each on its own core."),
    gpu_ids: str = typer.Option("", help="GPUs to encode on, with one process each: 0,1; default: all GPUs that PyTorch sees; -1: no GPU."),
    check: bool = typer.Option(True, help="Do not start if there is too little disk space or memory."),
    trust_remote_code: bool = typer.Option(
        False, "--trust-remote-code", help="Run Python code from the encoder's repository, if the encoder needs it."
    ),
) -> None:
    """Build a linker from a knowledge base: encode its names, build the index and measure it. Run the same command again to resume a killed build."""
    from .. import bundle
    from ..build import linker as building
    from ..encoders.transformer import NameEncoder
    from ..indexes.auto import default, recommended
    from ..indexes.base import report_of
    from ..kb.knowledge_base import KnowledgeBase
    from ..registry import check_engine, registry

    model = _encoder(encoder, pooling, max_length, trust_remote_code)
    settings: dict[str, Any] = {}
    if engine in ("default", "auto"):
        asked = engine
        engine, settings, why = (default if asked == "default" else recommended)(KnowledgeBase(kb).n_surface_forms)
        if asked == "auto" or "Annoy" not in engine:
            typer.echo(f"{engine}: {why}")
    if "Annoy" in engine:
        settings = {**settings, "n_trees": n_trees}
    elif n_trees != N_TREES:
        raise fail("E002", setting="--n-trees", component="index", value=n_trees, why=f"{engine} has no trees.")
    check_engine(engine)
    made = _engine(engine, registry.sapbert_indexes.get(engine), {**settings, **dict(_setting(text) for text in setting)})  # type: ignore[attr-defined]
    workers = encoding_workers(processes, gpu_ids, static=not isinstance(model, NameEncoder))
    if trust_remote_code:
        typer.echo(f"--trust-remote-code: Python code from the repository '{encoder}' is run, if the encoder needs it.", err=True)
    building.build_linker([], out, kb=kb, model=model, index=made, workers=workers, check=check)
    report = report_of(bundle.open_index(out, made))
    typer.echo(f"{out}: {report.get('protocol', 'the engine has no report')}")
    for label in ("exact", "chosen"):
        typer.echo(f"  {label}: {report.get(label)}")
    if report.get("exact_is_as_fast"):
        typer.echo("  With this number of names exact search is as fast and misses no name: --engine spacy-sapbert.ExactIndex.v1")


def encoding_workers(processes: int, gpu_ids: str, *, static: bool) -> Workers:
    """Return the settings of the processes that encode. If they use GPUs, print which ones.

    Args:
        processes: The option --processes.
        gpu_ids: The option --gpu-ids.
        static: The encoder is static; a GPU does not make it faster.

    Raises:
        SapbertError: E002, E305, E315.
    """
    from ..build.vectors import Workers

    workers = Workers.found(processes, "-1" if static and not gpu_ids else gpu_ids)
    if any(device.startswith("cuda") for device in workers.devices):
        typer.echo(workers.in_words(), err=True)
    return workers


def _setting(text: str) -> tuple[str, Any]:
    """Return name and value of NAME=VALUE. A value that is valid JSON is parsed; another one stays a text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise fail("E002", setting="--setting", component="index", value=text, why="give it as NAME=VALUE.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _engine(name: str, make: Callable[..., Any], settings: dict[str, Any]) -> Any:
    known = {key: parameter.default for key, parameter in inspect.signature(make).parameters.items()}
    for setting, value in settings.items():
        if setting not in known:
            raise fail("E002", setting=setting, component=name, value=value, why=f"it has no such setting. Known are {', '.join(known) or 'none'}.")
        wanted = type(known[setting])
        if known[setting] is not None and type(value) is not wanted and not (wanted is float and type(value) is int):
            raise fail("E002", setting=setting, component=name, value=value, why=f"it must be of type {wanted.__name__}, as {known[setting]!r} is.")
    return make(**settings)


def _encoder(name: str, pooling: str, max_length: int | None, trust_remote_code: bool) -> Any:
    """Create the encoder that the options name.

    Raises:
        SapbertError: E002, a static encoder does not have this setting, or the encoder has no code of its own.
    """
    from .. import bundle
    from ..encoders.paired import PairedEncoder
    from ..encoders.static import StaticEncoder, is_static
    from ..encoders.transformer import NameEncoder

    if name == bundle.PAIRED:
        for option, given in (("--pooling", pooling != "auto"), ("--max-length", max_length is not None), ("--trust-remote-code", trust_remote_code)):
            if given:
                why = "'paired' uses the two shipped encoders without changes. Leave the option out."
                raise fail("E002", setting=option, component="index", value=name, why=why)
        return PairedEncoder()
    static = name == bundle.FAST or (bool(name) and is_static(name))
    if trust_remote_code and (static or not name):
        why = "this encoder has no code of its own. Leave the option out, or name another --encoder."
        raise fail("E002", setting="--trust-remote-code", component="index", value=name or "the shipped encoder", why=why)
    if not static:
        trust = {"trust_remote_code": trust_remote_code}
        length = 25 if max_length is None else max_length
        return NameEncoder(name, pooling, length, tokenizer_config=dict(trust), transformer_config=dict(trust))
    if pooling != "auto":
        raise fail(
            "E002",
            setting="--pooling",
            component="index",
            value=pooling,
            why=f"encoder '{name}' is static: it always adds up the vectors of a table.",
        )
    return StaticEncoder("" if name == bundle.FAST else name, **({} if max_length is None else {"max_length": max_length}))
