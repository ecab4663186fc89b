"""Train with a recipe file of any kind: a single training, in one or several processes, or a recipe of phases."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path
from typing import Any

from click import NoSuchOption
from spacy.cli._util import parse_config_overrides
from spacy.util import ENV_VARS

from . import phases
from .errors import fail
from .fit import LAUNCHED, check, fit, load, read_recipe, resolve
from .launcher import start
from .paths import named


def train(path: Path, arguments: list[str]) -> dict[str, Any]:
    """Train with a recipe file.

    Args:
        path: A .cfg file, with `[phases]` or without.
        arguments: `--section.key value` …, as on the command line.

    Returns:
        The report of the training, see `fit.fit` and `phases.run`.

    Raises:
        SapbertError: E510 to E516, E524 (a phase), and the errors of the task.
    """
    overrides = overridden(path, arguments)
    if "phases" in (config := load(path, overrides)):
        return phases.run(config, path)
    config = read_recipe(path, overrides)
    given = resolve(config).training
    processes = given.processes if given.gpu_id < 0 else 1  # with GPUs, torchrun starts one process for each GPU
    if processes > 1 and LAUNCHED not in os.environ:
        check(config)  # once, before each process says the same
        start(processes, [str(path), *arguments])
    return fit(config)


def overridden(path: Path, arguments: list[str]) -> dict[str, Any]:
    """Read `--section.key value` … from a command line, and from the environment variable that spaCy reads too.

    Raises:
        SapbertError: E510.
    """
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # spaCy prints its error messages there
            found = dict(parse_config_overrides(list(arguments)))
    except (SystemExit, NoSuchOption):
        given = " ".join([*arguments, os.environ.get(ENV_VARS.CONFIG_OVERRIDES, "")]).strip()
        why = f"'{given}' is not --section.key value …; give the recipe first: `python -m training train RECIPE.cfg --section.key value`."
        raise fail("E510", path=path, why=why) from None
    if isinstance(base := found.get("paths.base"), str):
        found["paths.base"] = named(base)
    return found
