"""Helpers for tests of trainings: run a command or a step of a workflow in this process, a kill at a step, small files of scored sentence pairs."""

from __future__ import annotations

import itertools
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any, List
from unittest import mock

import pytest
from click.testing import Result
from typer.testing import CliRunner

from spacy_sapbert.kb.builder import Source, build_kb
from spacy_sapbert.kb.concept import Concept, Name
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from training.cli import app
from training.loop import trainer as loop

MESH_NAMES = {
    "MESH:D009223": ("Dystrophia myotonica", "Steinert disease"),
    "MESH:D009369": ("Neoplasms", "Tumors"),
    "MESH:D003924": ("Diabetes mellitus, type 2", "NIDDM", "adult onset diabetes"),
}
LINES = [
    '"A man is eating, and drinking.",A man eats.,4.2',
    "A plane is taking off.,An air plane is taking off.,5.0",
    "A cat sleeps.,A car drives.,0.0",
    "Two dogs run.,Two dogs are running.,4.8",
    "A woman sings.,A man plays the flute.,1.25",
    "Rain falls.,It is raining.,4.6",
    "The boy reads.,The girl swims.,0.5",
    "A horse jumps.,A horse is jumping over a wall.,3.4",
]
RECIPE = """
[paths]
out = "out"
base = ""

[encoder]
pooling = "mean"
max_length = 64

[task]
@tasks = "spacy-sapbert.SentenceSimilarity.v1"
train = ["train.csv"]
dev = "dev.csv"
pairs = 4

[training]
max_steps = 4
eval_every = 2
log_every = 1
learning_rate = 1e-3
precision = "fp32"
"""

# a recipe of several phases: OUT, BASE and RECIPE are replaced
PHASES = """
[paths]
out = "OUT"
base = "BASE"

[training]
seed = 5
max_steps = 2

[phases]

[phases.first]
recipe = "RECIPE"

[phases.first.paths]
base = "${paths.base}"

[phases.a]
recipe = "RECIPE"

[phases.a.paths]
base = "${paths.out}.phases/first"

[phases.b]
recipe = "RECIPE"

[phases.b.paths]
base = "${paths.out}.phases/first"

[phases.b.training]
seed = 1
learning_rate = 2e-3

[phases.mean]
soup = ["a", "b"]
"""


def write(path: Path, lines: List[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


class Killed(BaseException):
    """The exception that stands for a kill."""


def kill_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    original = loop.Log.on_step_begin

    def killing(self: Any, args: Any, state: Any, control: Any, **more: Any) -> None:
        if state.global_step == step:
            raise Killed
        original(self, args, state, control, **more)

    monkeypatch.setattr(loop.Log, "on_step_begin", killing)


def command(*arguments: Any) -> Result:
    """Run `python -m training` in this process. The result has exit_code, stdout and stderr."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def mesh_kb(folder: Path) -> KnowledgeBase:
    """Build a knowledge base of three disorders with MeSH ids."""
    concepts = [Concept(key, "MSH", names=[Name(name, "MSH", rank=i) for i, name in enumerate(names)]) for key, names in MESH_NAMES.items()]
    return build_kb([Source("test", concepts)], folder)


def run_here(words: List[str], *, capture: bool = False) -> None:
    """Run a command of a step in this process if it is a Python module; in the nightly ring, test_umls_workflow runs them in separate processes."""
    options = list(itertools.takewhile(lambda word: word != "-m", words[1:]))
    if words[0] != sys.executable or words[len(options) + 2] == "pip":
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
        return
    module, *arguments = words[len(options) + 2 :]
    with mock.patch.dict(os.environ), mock.patch.object(sys, "argv", [module, *arguments]), pytest.raises(SystemExit) as end:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    assert end.value.code in (None, 0), words
