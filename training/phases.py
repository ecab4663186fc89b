"""A recipe of phases: several trainings, each from what the ones before it made. `python -m training.train` runs it when a recipe has `[phases]`.

Each `[phases.NAME]` names a recipe and changes sections of it (`[phases.NAME.training]` …; a section with an `@` replaces the recipe's), or
names the phases that are averaged (`average = ["a", "b"]`, with `greedy = true` and what `training.soup` measures). They run in the order
of the file. A phase lies in `<paths.out>.phases/NAME`, the last one in `paths.out`; `[paths]` may hold more names, for `${paths.…}`. `[training]`
holds for all phases, above their own; its seed is added to theirs, and max_steps = -1 leaves them theirs.

A phase that is there already, made by the same recipe from the same inputs, is skipped: killed, the same command goes on. Edited code makes nothing
anew: remove `<paths.out>.phases` then.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

from confection import Config
from pydantic import BaseModel, ConfigDict, Field

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.files import MANIFEST, checksum, write_text

from .errors import fail
from .paths import NAMES, phases_of, stamp_of

MADE = "training.json"
Sections = Dict[str, Dict[str, Any]]


class Average(BaseModel):
    """The settings of a phase that averages. average: names of phases. weights, greedy, pairs, kb, sts: as `training.soup` takes them."""

    model_config = ConfigDict(extra="forbid")
    average: List[str] = Field(min_length=2)
    weights: Optional[List[float]] = None
    greedy: bool = False
    pairs: str = ""
    kb: str = ""
    sts: str = ""


class Phase(NamedTuple):
    """config: a recipe to train, or averaging: encoders to average."""

    name: str
    out: Path
    config: Optional[Config] = None
    averaging: Optional[Average] = None


def changed(recipe: Config, changes: Sections) -> Config:
    """The recipe with the changes: a section with an `@` replaces the recipe's, another one changes the settings it names."""
    made = copy.deepcopy(recipe)
    for section, values in changes.items():
        replaces = any(key.startswith("@") for key in values) or not isinstance(made.get(section), dict)
        made[section] = copy.deepcopy(values) if replaces else {**made[section], **copy.deepcopy(values)}
    return made


def read_phases(config: Config, path: Path) -> List[Phase]:
    """All phases, each checked before the first is trained. RAISES: SapbertError E510, E511."""
    from .train import read_recipe, resolve

    if "RANK" in os.environ:
        raise fail("E510", path=path, why="a recipe of phases starts its own processes (training.processes of a phase); run it without torchrun")
    unknown = [section for section in config if section not in ("paths", "training", "phases")]
    if unknown or not config["phases"]:
        why = f"section [{unknown[0]}] is not read beside [phases]" if unknown else "[phases] is empty"
        raise fail("E510", path=path, why=why)
    if not isinstance(config.get("paths"), dict) or not config["paths"].get("out"):
        raise fail("E510", path=path, why="paths.out is missing")
    target, last = Path(config["paths"]["out"]), list(config["phases"])[-1]
    overall = dict(config.get("training", {}))
    seed = overall.pop("seed", 0)
    if overall.get("max_steps") == -1:  # no limit for the whole is no reason to lift a phase's own
        overall.pop("max_steps")
    phases: List[Phase] = []
    for name, given in config["phases"].items():
        where = f"{path}, [phases.{name}]"
        out = target if name == last else phases_of(target) / name
        if not isinstance(given, dict) or ("recipe" in given) == ("average" in given):
            raise fail("E510", path=where, why="give either a recipe or phases to average")
        if "average" in given:
            phases.append(Phase(name, out, averaging=_average(given, phases, where)))
            continue
        sections = {key: value for key, value in given.items() if key != "recipe"}
        wrong = [key for key, value in sections.items() if not isinstance(value, dict)]
        if wrong:
            raise fail("E510", path=where, why=f"'{wrong[0]}' is no section; changes of the recipe stand in [phases.{name}.SECTION]")
        made = changed(read_recipe(Path(given["recipe"])), sections)
        made = changed(made, {"training": {**overall, "seed": made["training"].get("seed", 0) + seed}, "paths": {"out": str(out)}})
        try:
            resolve(made)
        except (ValueError, TypeError) as error:
            if isinstance(error, SapbertError):
                raise
            raise fail("E510", path=where, why=" ".join(str(error).split())) from error
        phases.append(Phase(name, out, config=made))
    return phases


def _average(given: Dict[str, Any], before: List[Phase], where: str) -> Average:
    try:
        made = Average(**given)
    except ValueError as error:
        raise fail("E510", path=where, why=" ".join(str(error).split())) from error
    known = [phase.name for phase in before]
    for name in made.average:
        if name not in known:
            raise fail("E510", path=where, why=f"'{name}' is no phase before it ({', '.join(known)})")
    return made


def run(config: Config, path: Path) -> Dict[str, Any]:
    """Make what is not there yet. RETURNS: phase -> folder, whether it was there, figures before and after.

    RAISES: SapbertError E510, E511, E524 (a phase failed; those before it are kept).
    """
    phases = read_phases(config, path)
    folders = {phase.name: phase.out for phase in phases}
    report: Dict[str, Any] = {}
    for phase in phases:
        stamp, wanted = stamp_of(phase.out), fingerprint(phase, folders)
        there = (phase.out / MADE).is_file() and stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted
        if not there:
            print(f"phase {phase.name}: {phase.out}", file=sys.stderr, flush=True)
            stamp.unlink(missing_ok=True)
            _make(phase, folders)
            write_text(stamp, wanted)
        said = json.loads((phase.out / MADE).read_text(encoding="utf-8"))
        figures = {key: said[key] for key in ("steps", "seconds", "before", "after", "alone", "averaged") if key in said}
        report[phase.name] = {"folder": str(phase.out), "was_there": there, **figures}
    if len(phases) > 1:
        write_text(phases[0].out.parent / NAMES, json.dumps([phase.name for phase in phases[:-1]]) + "\n")
    return report


def _make(phase: Phase, folders: Dict[str, Path]) -> None:
    if phase.averaging is not None:
        from .soup import average, chosen_measure

        given = phase.averaging
        pairs, kb, sts = (Path(place) if place else None for place in (given.pairs, given.kb, given.sts))
        average(phase.out, [folders[name] for name in given.average], weights=given.weights, **chosen_measure(given.greedy, pairs, kb, sts))
        return
    assert phase.config is not None
    recipe = phase.out.with_name(f"{phase.out.name}.cfg")
    write_text(recipe, phase.config.to_str())
    code = train(recipe)
    if code:
        raise fail("E524", phase=phase.name, why=f"its training ended with {code}; what it said stands above", folder=phase.out.parent)
    if not (phase.out / MADE).is_file():
        raise fail("E524", phase=phase.name, why=f"it left no encoder in '{phase.out}'", folder=phase.out.parent)


def train(recipe: Path) -> int:
    """A recipe's training in a process of its own: what it holds in memory is free for the next one, and several processes can share it.

    RETURNS: its exit status.
    """
    with _ending(subprocess.Popen([sys.executable, "-m", "training.train", str(recipe)], stdout=subprocess.DEVNULL)) as process:
        return process.wait()


@contextmanager
def _ending(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Who ends this process ends that one."""

    def stop(*_: Any) -> None:
        raise SystemExit(143)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield process
    finally:
        signal.signal(signal.SIGTERM, before)
        if process.poll() is None:
            process.terminate()
            process.wait()


def fingerprint(phase: Phase, folders: Dict[str, Path]) -> str:
    """Of what decides a phase's result: its settings, and what lies where they point. RETURNS: hexadecimal digits."""
    if phase.config is not None:
        settings: Any = json.loads(json.dumps(dict(phase.config)))
        settings["paths"].pop("out")
        settings["training"].pop("log_every", None)
    else:
        assert phase.averaging is not None
        settings = phase.averaging.model_dump()
        settings["average"] = [str(folders[name]) for name in phase.averaging.average]
    digest = hashlib.blake2b(json.dumps(settings, sort_keys=True).encode(), digest_size=16)
    for place in sorted(set(_strings(settings))):
        if place:
            digest.update(contents(Path(place)).encode())
    return digest.hexdigest()


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for below in value.values() if isinstance(value, dict) else value:
            yield from _strings(below)


def contents(path: Path) -> str:
    """What a path holds, as a checksum: of a file, of a folder's manifest, of an encoder's weights; "" where there is nothing of these."""
    try:
        if path.is_file():
            return checksum(path)
        if (path / MANIFEST).is_file():
            return checksum(path / MANIFEST)
        found = [
            file
            for name in ("texts.parquet", "parallel.parquet", "model.safetensors", "adapter_model.safetensors")
            if (file := path / name).is_file()
        ]
        return " ".join(checksum(file) for file in found)
    except OSError:  # a text that is no path: too long, say
        return ""
