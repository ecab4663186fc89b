"""The GPU of a command: chosen before any library looks at the GPUs, and checked when it is used.

CUDA reads `CUDA_VISIBLE_DEVICES` once, and importing spaCy or PyTorch is enough for that. A trainer that sees four GPUs splits each batch over all
of them. So `python -m training` reads the number of the GPU from its arguments, or from the recipe, and names that GPU alone before it imports
anything else. Under torchrun each process keeps the whole list and takes the GPU of its local rank.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import MutableMapping, Sequence
from configparser import ConfigParser
from configparser import Error as ConfigParserError

from spacy_sapbert.devices import VISIBLE, listed, named_gpus

from .errors import fail

OPTIONS = ("--gpu-id", "--gpu_id", "--training.gpu_id", "--training.gpu-id")
CHOSEN = "SPACY_SAPBERT_GPU"  # the number that `choose` has made the only GPU
BEFORE = "SPACY_SAPBERT_GPUS"  # what VISIBLE was before, "all" for nothing: processes that are started choose from it again
LOCAL_RANK = "LOCAL_RANK"  # by which torchrun numbers its processes on a machine


def choose(arguments: Sequence[str], environment: MutableMapping[str, str] | None = None) -> None:
    """Make the GPU that a command asks for the only one that this process sees.

    Args:
        arguments: Of the command line, the command first.
        environment: Default: that of this process.

    Raises:
        SapbertError: E513 (the list of GPUs has no such place), E315 (the list has an empty part).
    """
    environment = os.environ if environment is None else environment
    gpu_id = asked_for(arguments)
    if gpu_id is None or gpu_id < 0 or LOCAL_RANK in environment:
        return
    before = environment.setdefault(BEFORE, environment.get(VISIBLE, "all"))
    named = None if before == "all" else named_gpus({VISIBLE: before})
    if named is not None and gpu_id >= len(named):
        raise fail("E513", gpu_id=gpu_id, why=f"{VISIBLE} is '{before}': there are {listed(len(named))}")
    environment[VISIBLE] = str(gpu_id) if named is None else named[gpu_id]
    environment[CHOSEN] = str(gpu_id)


def asked_for(arguments: Sequence[str]) -> int | None:
    """Return the number of the GPU that a command asks for, by an option or in `[training]` of its recipe; None for none."""
    found: str | None = None
    for place, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name in OPTIONS:
            found = value if equals else next(iter(arguments[place + 1 : place + 2]), None)
    if found is None:
        recipe = next((word for word in arguments[1:] if word.endswith(".cfg")), None)
        found = None if recipe is None else _of_recipe(recipe)
    try:
        return int(json.loads(found or "null"))
    except (ValueError, TypeError):  # the command itself says what is wrong
        return None


def _of_recipe(path: str) -> str | None:
    parser = ConfigParser(interpolation=None)
    try:
        parser.read(path, encoding="utf-8")
        return parser.get("training", "gpu_id", fallback=None)
    except (ConfigParserError, OSError, ValueError):
        return None


def use(gpu_id: int) -> str:
    """Check the device of a command, and make it the one that PyTorch computes on.

    Args:
        gpu_id: -1 is the CPU.

    Returns:
        "cpu", or "cuda:0" with the number that the GPU has in this process.

    Raises:
        SapbertError: E513.
    """
    if gpu_id < 0:
        return "cpu"
    import torch

    local = os.environ.get(LOCAL_RANK)
    if local is not None:
        gpu_id = number = int(local)  # each process has its own
    else:
        number = 0 if os.environ.get(CHOSEN) == str(gpu_id) else gpu_id
    if number >= torch.cuda.device_count():
        there = _there()
        raise fail(
            "E513",
            gpu_id=gpu_id,
            why=f"there are {listed(there)}" if there else "PyTorch finds none (a CPU build of PyTorch, no driver, or an empty list of GPUs)",
        )
    torch.cuda.set_device(number)
    return f"cuda:{number}"


def _there() -> int:
    """Count the GPUs of this machine in a process that sees them as this one did before `choose`."""
    environment = dict(os.environ)
    before = environment.pop(BEFORE, None)
    if before is not None:
        environment.pop(VISIBLE, None)
        if before != "all":
            environment[VISIBLE] = before
    words = [sys.executable, "-c", "import torch; print(torch.cuda.device_count())"]
    found = subprocess.run(words, env=environment, capture_output=True, text=True)
    return int(found.stdout) if found.returncode == 0 and found.stdout.strip().isdecimal() else 0
