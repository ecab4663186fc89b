"""The GPUs that a process sees.

The driver reads its list once, when a library first uses it. So this module imports no such library at its top.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from .errors import fail

VISIBLE = "CUDA_VISIBLE_DEVICES"  # the list that the driver reads


def named_gpus(environment: Mapping[str, str] | None = None) -> list[str] | None:
    """Return the GPUs that `CUDA_VISIBLE_DEVICES` names, in its order; None if it is not set, so that all GPUs are seen.

    Args:
        environment: The environment variables; None is this process's.

    Raises:
        SapbertError: E315, the list has an empty part, where the driver would stop reading.
    """
    text = (os.environ if environment is None else environment).get(VISIBLE)
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if parts == [""]:
        return []
    if "" in parts:
        raise fail("E315", setting=VISIBLE, value=text, why="it has an empty part, where the driver stops reading")
    return parts


def gpu_numbers(text: str, setting: str = "--gpu-ids") -> list[int]:
    """Return the GPU numbers in a list such as `0,1`.

    Args:
        text: The list; GPUs are numbered from 0.
        setting: Name of the setting, for messages.

    Raises:
        SapbertError: E315, a part is empty or not a number, or a number is given twice.
    """
    parts = [part.strip() for part in text.split(",")]
    if "" in parts:
        raise fail("E315", setting=setting, value=text, why="it has an empty part")
    if not all(part.isdecimal() for part in parts):
        raise fail("E315", setting=setting, value=text, why="GPUs are numbered from 0")
    numbers = [int(part) for part in parts]
    if len(set(numbers)) < len(numbers):
        raise fail("E315", setting=setting, value=text, why="it names a GPU twice")
    return numbers


def gpus_there() -> int:
    """Return how many GPUs PyTorch can use in this process."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def check_gpus(gpu_ids: Sequence[int]) -> None:
    """Check that this process has the GPUs with these numbers.

    Raises:
        SapbertError: E305, there is no such GPU; E315, see `named_gpus`.
    """
    named_gpus()  # refuse a bad list now, not when the workers start
    there = gpus_there()
    for gpu in gpu_ids:
        if not 0 <= gpu < there:
            raise fail("E305", gpu=gpu, there=listed(there))


def listed(count: int) -> str:
    """Return the numbers of `count` GPUs as text: "0, 1, 2"; "none" for 0."""
    return ", ".join(map(str, range(count))) or "none"


@contextmanager
def only(gpu: int) -> Iterator[None]:
    """Let the processes that are started in this block see only one GPU, as their GPU 0.

    Args:
        gpu: Number of the GPU in this process.
    """
    before = os.environ.get(VISIBLE)
    named = named_gpus()
    os.environ[VISIBLE] = str(gpu) if named is None else named[gpu]
    try:
        yield
    finally:
        if before is None:
            del os.environ[VISIBLE]
        else:
            os.environ[VISIBLE] = before
