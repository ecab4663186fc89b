"""Load encoders by name: a folder, the untrained base, or a shipped encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spacy_sapbert.bundle import FAST, PAIRED
from spacy_sapbert.errors import MissingFile

from .. import devices
from ..errors import fail

SHIPPED = "shipped"  # the encoder that comes with the package


def check_encoder(folder: Path) -> None:
    """Check that a folder holds an encoder.

    Raises:
        SapbertError: E541, if the folder does not exist or holds no model.
    """
    if not folder.is_dir():
        raise fail("E541", MissingFile, path=folder, why="there is no such folder")
    if not any((folder / file).is_file() for file in ("config.json", "adapter_config.json")):
        raise fail("E541", MissingFile, path=folder, why="it holds neither config.json nor adapter_config.json")


def load_encoder(folder: str, gpu_id: int = -1) -> Any:
    """Load an encoder so that it is ready to encode.

    Args:
        folder: A folder or a name on the hub; "" is the untrained base, "shipped" the default encoder, "fast" the fast encoder, "paired" both
            encoders as one.
        gpu_id: Number of the GPU; -1 is the CPU.

    Returns:
        The encoder.

    Raises:
        SapbertError: E301, if it cannot be loaded; E513, if there is no such GPU.
    """
    from spacy_sapbert.encoders.paired import PairedEncoder
    from spacy_sapbert.encoders.static import StaticEncoder, is_static
    from spacy_sapbert.encoders.transformer import BASE_NAME, NameEncoder  # the import takes seconds, and most callers do not need it

    if folder == FAST or (folder and Path(folder).is_dir() and is_static(folder)):
        return StaticEncoder("" if folder == FAST else folder).initialize()
    device = devices.use(gpu_id)
    encoder: Any = PairedEncoder() if folder == PAIRED else NameEncoder(name="" if folder == SHIPPED else folder or BASE_NAME)
    encoder.initialize()
    encoder.to(device)
    return encoder


def use_gpu(linker: Any, gpu_id: int) -> None:
    """Move a linker's encoder to a GPU; -1 leaves it where it is.

    Raises:
        SapbertError: E513, if there is no such GPU.
    """
    device = devices.use(gpu_id)
    if gpu_id >= 0:
        _ = linker.kb  # this also loads the encoder
        linker.model.to(device)
