"""What the encoders of this package share: settings that Thinc saves, pooling, progress bars and threads in worker processes."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import torch
from thinc.model import Model
from tqdm import tqdm

from ..errors import DamagedFile, MissingFile, fail
from ..files import parse_json
from .base import Progress

SETTINGS = "spacy_sapbert_encoder.json"  # in the folder that `save` writes
PROGRESS_FROM = 1_000  # names; fewer take less than 3 s
T = TypeVar("T")


def read_settings(folder: Path, wanted: dict[str, type]) -> dict[str, Any]:
    """Return the settings that `save` wrote into an encoder's folder.

    Args:
        folder: the encoder's folder.
        wanted: settings that must be there, with their types.

    Raises:
        SapbertError: E301, the settings are missing or damaged.
    """
    path = folder / SETTINGS
    if not path.is_file():
        raise fail("E301", MissingFile, name=folder, why=f"it holds no {SETTINGS}, so it is not a linker's encoder.")
    try:
        settings = parse_json(path.read_text(encoding="utf-8"))
        wrong = [key for key, kind in wanted.items() if type(settings[key]) is not kind]
    except (KeyError, TypeError, ValueError) as error:
        raise fail("E301", DamagedFile, name=folder, why=f"{SETTINGS} is damaged ({type(error).__name__}: {error}).") from error
    if wrong or settings.get("max_length", 1) < 1:
        raise fail("E301", DamagedFile, name=folder, why=f"{SETTINGS} is damaged ({', '.join(wrong) or 'max_length'}).")
    return dict(settings)


class Kept(Generic[T]):
    """An attribute of an encoder that is stored in Thinc's `attrs`, so that `to_bytes` writes it and `from_bytes` restores it."""

    def __set_name__(self, owner: type, key: str) -> None:
        self.key = key

    def __get__(self, model: Model[Any, Any], owner: type) -> T:
        return cast(T, model.attrs[self.key])

    def __set__(self, model: Model[Any, Any], value: T) -> None:
        model.attrs[self.key] = value


def progress_bar(total: int, progress: Progress) -> tqdm[Any]:
    """Return a bar for `total` names. It is shown only if `progress` is True and there are many names."""
    hidden = progress is not True or total < PROGRESS_FROM
    return tqdm(total=total, desc="encoding names", unit="name", mininterval=1.0, disable=hidden)


def settle_in_worker() -> None:
    """Use one thread in a worker process.

    A forked process would wait for ever for the threads of its parent's OpenMP pool. And several workers share the cores anyway.
    """
    if multiprocessing.parent_process() is not None and torch.get_num_threads() > 1:
        torch.set_num_threads(1)
        os.environ["TOKENIZERS_PARALLELISM"] = "false"


def pool(hidden: torch.Tensor, mask: torch.Tensor, pooling: str) -> torch.Tensor:
    """Pool the token vectors of each name into one vector of length 1: that of the first token, or the mean of all tokens.

    Args:
        hidden: (n, length, d).
        mask: (n, length), 1 for tokens and 0 for padding.
        pooling: "cls" or "mean".

    Returns:
        (n, d), L2-normalised.
    """
    if pooling == "cls":
        pooled = hidden[:, 0]
    else:
        weights = mask[..., None].to(hidden.dtype)  # (n, length, 1)
        pooled = (hidden * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)
    return torch.nn.functional.normalize(pooled, dim=1)
