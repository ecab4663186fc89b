"""Run a recipe of phases: several trainings, which can use the results of earlier ones.

`python -m training train` does this if a recipe has `[phases]`. Each `[phases.NAME]` names a recipe and changes sections of it
(`[phases.NAME.training]` …; a section with an `@` replaces the recipe's section), or names phases whose weights are averaged (`soup = ["a", "b"]`,
with `greedy = true` and the inputs of the measure in `training.soup`). Phases run in the order of the file. A phase is saved in
`<paths.out>.phases/NAME`, the last one in `paths.out`. `[paths]` may hold more names, for `${paths.…}`. The settings of `[training]` replace those of
all phases, but its seed is added to theirs, and max_steps = -1 keeps theirs.

A phase that was already made from the same recipe and inputs is skipped, so the same command resumes a killed run. A change of the code is not
noticed: after one, remove `<paths.out>.phases`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from confection import Config
from pydantic import BaseModel, ConfigDict, Field

from spacy_sapbert.files import write_text
from spacy_sapbert.signals import ENDING, Ended, describe_interrupt, raise_on_signals

from .errors import fail
from .fit import LAUNCHED, fit, is_main_process, join, naming, read_recipe, resolve, wait_for_all
from .launcher import PARENT_SAYS
from .made import Stamp, contents_of, flat, stamp_of
from .paths import NAMES, phases_of
from .recipe import REPORT, changed

ENDED = {code: what for what, code in (describe_interrupt(Ended(number)) for number in (signal.SIGINT, *ENDING))}  # exit code -> the signal
END_SECONDS = 30.0  # most time that a training gets to end after Ctrl-C


class Soup(BaseModel):
    """The settings of a phase that averages weights.

    Attributes:
        soup: Names of phases.
        weights, greedy, pairs, kb, sts: See `training.soup`.
    """

    model_config = ConfigDict(extra="forbid")
    soup: list[str] = Field(min_length=2)
    weights: list[float] | None = None
    greedy: bool = False
    pairs: str = ""
    kb: str = ""
    sts: str = ""


class Phase(NamedTuple):
    """One step of a recipe of phases: either a recipe to train (`config`) or encoders to average (`soup`)."""

    name: str
    out: Path
    config: Config | None = None
    soup: Soup | None = None


def read_phases(config: Config, path: Path) -> list[Phase]:
    """Return all phases. All are checked before the first one is trained.

    Args:
        config: The whole recipe.
        path: Its file, for error messages.

    Raises:
        SapbertError: E510, E511.
    """
    unknown = [section for section in config if section not in ("paths", "training", "phases")]
    if unknown or not config["phases"]:
        why = f"a recipe with [phases] can't have a section [{unknown[0]}]" if unknown else "[phases] is empty"
        raise fail("E510", path=path, why=why)
    if not isinstance(config.get("paths"), dict) or not config["paths"].get("out"):
        raise fail("E510", path=path, why="paths.out is missing")
    target, last = Path(config["paths"]["out"]), list(config["phases"])[-1]
    overall = dict(config.get("training", {}))
    seed = overall.pop("seed", 0)
    if overall.get("max_steps") == -1:  # no limit for the whole recipe keeps the limits of the phases
        overall.pop("max_steps")
    phases: list[Phase] = []
    for name, given in config["phases"].items():
        where = f"{path}, [phases.{name}]"
        out = target if name == last else phases_of(target) / name
        if not isinstance(given, dict) or ("recipe" in given) == ("soup" in given):
            raise fail("E510", path=where, why="give either `recipe` or `soup`")
        if "soup" in given:
            phases.append(Phase(name, out, soup=_soup(given, phases, where)))
            continue
        sections = {key: value for key, value in given.items() if key != "recipe"}
        wrong = [key for key, value in sections.items() if not isinstance(value, dict)]
        if wrong:
            raise fail("E510", path=where, why=f"'{wrong[0]}' is not a section; write changes of the recipe into [phases.{name}.SECTION]")
        made = changed(read_recipe(Path(given["recipe"])), sections)
        made = changed(made, {"training": {**overall, "seed": made["training"].get("seed", 0) + seed}, "paths": {"out": str(out)}})
        with naming(where):
            resolve(made)
        phases.append(Phase(name, out, config=made))
    return phases


def _soup(given: dict[str, Any], before: list[Phase], where: str) -> Soup:
    with naming(where):
        made = Soup(**given)
    known = [phase.name for phase in before]
    for name in made.soup:
        if name not in known:
            raise fail("E510", path=where, why=f"'{name}' is not an earlier phase ({', '.join(known)})")
    return made


def run(config: Config, path: Path, train: Callable[[Path], int] | None = None) -> dict[str, Any]:
    """Make the phases that are not made yet.

    Under torchrun all processes train each phase together, one phase after the other. Everything else is done only by the first process.

    Args:
        config: The whole recipe.
        path: Its file, for error messages.
        train: Trains a recipe file and returns an exit status; None: `train_apart`, under torchrun `train_here`.

    Returns:
        For each phase its folder, whether it was already made, and figures before and after.

    Raises:
        SapbertError: E510, E511, E524 (a phase failed; those before it are kept).
    """
    phases = read_phases(config, path)
    folders = {phase.name: phase.out for phase in phases}
    together, first = LAUNCHED in os.environ, is_main_process()
    if together:
        join(next(resolve(phase.config).training for phase in phases if phase.config is not None))
    report: dict[str, Any] = {}
    for phase in phases:
        stamp, wanted = Stamp(stamp_of(phase.out)), inputs(phase, folders)
        was_there = is_made(phase, wanted)
        wait_for_all()  # no process starts before all have checked
        if not was_there:
            if first:
                print(f"phase {phase.name}: {phase.out}", file=sys.stderr, flush=True)
                stamp.remove()
            if first or phase.config is not None:
                _make(phase, folders, train or (train_here if together else train_apart))
            if first:
                stamp.write(wanted)
            wait_for_all()
        if not first:
            continue
        written = json.loads((phase.out / REPORT).read_text(encoding="utf-8"))
        figures = {key: written[key] for key in ("steps", "seconds", "before", "after", "alone", "averaged") if key in written}
        report[phase.name] = {"folder": str(phase.out), "was_there": was_there, **figures}
    if first and len(phases) > 1:
        write_text(phases[0].out.parent / NAMES, json.dumps([phase.name for phase in phases[:-1]]) + "\n")
    return report


def _make(phase: Phase, folders: dict[str, Path], train: Callable[[Path], int]) -> None:
    if phase.soup is not None:
        from .soup import chosen_measure, make_soup  # loads torch

        given = phase.soup
        pairs, kb, sts = (Path(path) if path else None for path in (given.pairs, given.kb, given.sts))
        make_soup(phase.out, [folders[name] for name in given.soup], weights=given.weights, **chosen_measure(given.greedy, pairs, kb, sts))
        return
    assert phase.config is not None
    recipe = phase.out.with_name(f"{phase.out.name}.cfg")
    if is_main_process():
        write_text(recipe, phase.config.to_str())
    wait_for_all()
    status = train(recipe)
    if status in ENDED:
        why = f"its training was stopped by {ENDED[status]}"
        raise fail("E524", phase=phase.name, why=why, folder=phase.out.parent)
    if status:
        raise fail("E524", phase=phase.name, why=f"its training ended with {status}; its own message is printed above", folder=phase.out.parent)
    if is_main_process() and not (phase.out / REPORT).is_file():
        raise fail("E524", phase=phase.name, why=f"it wrote no encoder into '{phase.out}'", folder=phase.out.parent)


def train_apart(recipe: Path) -> int:
    """Train a recipe in a new process, so that its memory is free for the next one and several processes can share the work.

    Returns:
        The exit status of the process.
    """
    command = [sys.executable, "-m", "training", "train", str(recipe)]
    with _ending(subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, PARENT_SAYS: "1"})) as process:
        return process.wait()


def train_here(recipe: Path) -> int:
    """Train a recipe file in this process, together with the other processes that torchrun started."""
    fit(read_recipe(recipe))
    return 0


@contextmanager
def _ending(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Give the process, and terminate it if the block ends before it, also on a signal."""
    with raise_on_signals():
        try:
            yield process
        except KeyboardInterrupt as interrupt:
            if not isinstance(interrupt, Ended):  # a terminal sends Ctrl-C to the process, too, which is removing what it had begun
                with suppress(subprocess.TimeoutExpired):
                    process.wait(END_SECONDS)
            raise
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()


def is_made(phase: Phase, wanted: dict[str, Any]) -> bool:
    """Say whether a phase was already made from these inputs, see `inputs`."""
    return (phase.out / REPORT).is_file() and Stamp(stamp_of(phase.out)).matches(wanted)


def inputs(phase: Phase, folders: dict[str, Path]) -> dict[str, Any]:
    """Return what decides the result of a phase: its settings, and the checksums of the files and folders that they name.

    Args:
        phase: The phase.
        folders: Name of a phase -> its folder.
    """
    if phase.config is not None:
        settings: Any = json.loads(json.dumps(dict(phase.config)))
        settings["paths"].pop("out")
        for free in ("log_every", "gpu_id", "processes"):
            settings["training"].pop(free, None)
    else:
        assert phase.soup is not None
        settings = phase.soup.model_dump()
        settings["soup"] = [str(folders[name]) for name in phase.soup.soup]
    return {**flat(settings), **contents_of(_strings(settings))}


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for below in value.values() if isinstance(value, dict) else value:
            yield from _strings(below)
