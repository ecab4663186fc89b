"""Choose the GPU of a command before any library looks at the GPUs, and check it when it is used.

CUDA reads `CUDA_VISIBLE_DEVICES` only once, when spaCy or PyTorch is imported. A trainer that sees four GPUs splits each batch over all of them.
So `python -m training` reads the number of the GPU from its arguments or from the recipe, and makes only that GPU visible before it imports
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
CHOSEN = "SPACY_SAPBERT_GPU"  # number of the GPU that `choose` has made the only visible one
BEFORE = "SPACY_SAPBERT_GPUS"  # value of VISIBLE before `choose`, "all" if it was not set: child processes choose from this list again
LOCAL_RANK = "LOCAL_RANK"  # number of a process on its machine, set by torchrun


def choose(arguments: Sequence[str], environment: MutableMapping[str, str] | None = None) -> None:
    """Make the GPU that a command asks for the only one that this process sees.

    Args:
        arguments: Arguments of the command line, the command first.
        environment: Environment variables; None: those of this process.

    Raises:
        SapbertError: E513 (the list of GPUs is shorter than that), E315 (the list has an empty part).
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
    """Return the number of the GPU that an option of a command, or `[training]` in its recipe, asks for; None if there is none."""
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
    except (ValueError, TypeError):  # the command itself reports the error
        return None


def _of_recipe(path: str) -> str | None:
    parser = ConfigParser(interpolation=None)
    try:
        parser.read(path, encoding="utf-8")
        return parser.get("training", "gpu_id", fallback=None)
    except (ConfigParserError, OSError, ValueError):
        return None


def use(gpu_id: int) -> str:
    """Check the device of a command, and make PyTorch compute on it.

    Args:
        gpu_id: Number of the GPU; -1 is the CPU.

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
        gpu_id = number = int(local)  # each process has its own GPU
    else:
        number = 0 if os.environ.get(CHOSEN) == str(gpu_id) else gpu_id
    if number >= torch.cuda.device_count():
        count = _gpus_of_machine()
        raise fail(
            "E513",
            gpu_id=gpu_id,
            why=f"there are {listed(count)}" if count else "PyTorch finds none (a CPU build of PyTorch, no driver, or an empty list of GPUs)",
        )
    torch.cuda.set_device(number)
    return f"cuda:{number}"


def _gpus_of_machine() -> int:
    """Count the GPUs of this machine, in a new process with the GPUs that were visible before `choose`."""
    environment = dict(os.environ)
    before = environment.pop(BEFORE, None)
    if before is not None:
        environment.pop(VISIBLE, None)
        if before != "all":
            environment[VISIBLE] = before
    words = [sys.executable, "-c", "import torch; print(torch.cuda.device_count())"]
    found = subprocess.run(words, env=environment, capture_output=True, text=True)
    return int(found.stdout) if found.returncode == 0 and found.stdout.strip().isdecimal() else 0
