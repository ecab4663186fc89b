"""The protocol of an encoder, and an adapter that makes a plain Thinc model an encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Union, runtime_checkable

import numpy as np

from ..errors import fail
from ..types import Floats2d

if TYPE_CHECKING:
    from thinc.model import Model

Progress = Union[bool, Callable[[int], object]]


@runtime_checkable
class Encoder(Protocol):
    """A model that turns names into vectors.

    To use your own encoder, register a function that returns it in spaCy's registry `architectures`, and name it in the block `model` of the
    linker's config. It must not read from disk or network before `initialize` or `load`.
    """

    @property
    def name(self) -> str:
        """Name or folder of the model; "" for the default of the architecture."""
        ...

    @property
    def architecture(self) -> str:
        """Registered name of the architecture that makes this encoder; "" if there is none. Then other processes can't load it."""
        ...

    @property
    def dim(self) -> int:
        """Width of a vector; 0 before `initialize` or `load`."""
        ...

    @property
    def fingerprint(self) -> str:
        """Hash that is equal if vectors are equal; "" if it is not known. An index is used only with the encoder that it was built with."""
        ...

    def initialize(self) -> object:
        """Read the weights of `name`. Do nothing if there are weights already."""
        ...

    def encode(self, names: Sequence[str], *, progress: Progress = False) -> Floats2d:
        """Turn names into vectors.

        Args:
            names: n texts. They may repeat.
            progress: True shows a bar. A function is called with the number of names that were encoded since its last call; the sum is n.

        Returns:
            float32 (n, dim), L2-normalised. A row of zeros means that the encoder knows nothing about the name.
        """
        ...

    def save(self, folder: Path) -> None:
        """Write everything that `load` needs into an existing empty folder."""
        ...

    def load(self, folder: Path) -> None:
        """Read the weights, and the settings that vectors depend on, from a folder that `save` wrote."""
        ...

    def to(self, device: str) -> None:
        """Move the weights to "cpu" or to a GPU, such as "cuda:0"."""
        ...

    def get_config(self) -> dict[str, Any]:
        """Return the settings with which the architecture makes an equal encoder, also in another process."""
        ...


@runtime_checkable
class SizedInMemory(Protocol):
    """An encoder that knows its size. Without this, estimates of memory leave out the weights."""

    def weight_bytes(self) -> int:
        """Return the bytes that the weights take in memory."""
        ...


@runtime_checkable
class ChecksSaving(Protocol):
    """An encoder that may be impossible to save. This is checked before hours of encoding."""

    def check_saving(self) -> None:
        """Raise the error that `save` would raise."""
        ...


@runtime_checkable
class CarefulWithWords(Protocol):
    """An encoder that can be wrong about an unknown word, for example because it looks only at the word's letters."""

    @property
    def least_word_score(self) -> float:
        """The score that a link must be above, if the mention is a single word and not a name. It is used if the linker's threshold is lower."""
        ...


class ThincEncoder:
    """A Thinc model that maps a list of names to an array (n, d), used as an Encoder.

    It has no registered architecture and no fingerprint. So it encodes only in this process, and a stopped build can't be resumed.

    Args:
        model: The Thinc model. Its dimension "nO" must be set after `initialize`.
    """

    architecture = ""
    fingerprint = ""

    def __init__(self, model: Model[list[str], Floats2d]) -> None:
        self.model = model

    @property
    def name(self) -> str:
        """Return the name of the Thinc model."""
        return str(self.model.name)

    @property
    def dim(self) -> int:
        """Return the width of a vector; 0 before `initialize`."""
        return self.model.get_dim("nO") if self.model.has_dim("nO") else 0

    def initialize(self) -> object:
        """Initialise the Thinc model."""
        return self.model.initialize()

    def encode(self, names: Sequence[str], *, progress: Progress = False) -> Floats2d:
        """Encode all names in one call of the model's `predict`."""
        vectors = np.asarray(self.model.predict(list(names)), dtype=np.float32)
        if callable(progress):
            progress(len(names))
        return vectors

    def save(self, folder: Path) -> None:
        """Write the Thinc model into a folder."""
        self.model.to_disk(folder / "model")

    def load(self, folder: Path) -> None:
        """Read what `save` wrote."""
        self.model.from_disk(folder / "model")

    def to(self, device: str) -> None:
        """Move the model to "cpu" or "cuda:N"."""
        if device.startswith("cuda"):
            self.model.to_gpu(int(device.partition(":")[2] or 0))
        else:
            self.model.to_cpu()

    def get_config(self) -> dict[str, Any]:
        """Return no settings: the model has no registered architecture."""
        return {}

    def weight_bytes(self) -> int:
        """Return the bytes of the model's PyTorch parameters."""
        return weight_bytes(self.model)


def as_encoder(model: object) -> Encoder:
    """Return an encoder as it is, and a plain Thinc model as an encoder.

    Raises:
        SapbertError: E006, it is neither.
    """
    from thinc.model import Model

    if isinstance(model, Encoder):
        return model
    if isinstance(model, Model):
        return ThincEncoder(model)
    raise fail("E006", what="model", got=type(model).__name__, expected="Encoder or Thinc Model")


def weight_bytes(model: Model[Any, Any]) -> int:
    """Return the bytes of the PyTorch parameters of a Thinc model and its layers."""
    modules = [shim._model for layer in model.walk() for shim in layer.shims]
    return sum(p.numel() * p.element_size() for module in modules if hasattr(module, "parameters") for p in module.parameters())
