"""Vectors of a teacher. They are computed once and stored on disk, under a name that depends on the teacher and the texts."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from filelock import FileLock

from spacy_sapbert.encoders.transformer import use_bfloat16
from spacy_sapbert.errors import MissingFile, SapbertError
from spacy_sapbert.files import read_manifest, write_manifest, writing_folder
from spacy_sapbert.types import Floats2d

from ..errors import fail
from ..loop.model import open_base, transformer_of
from ..loop.trainer import Objective, mean_over_processes, processes, together
from ..made import fingerprint

KIND, VERSION = "targets", 1
CHUNK = 5_000  # number of texts whose vectors are in memory at a time
Ints = npt.NDArray[np.int64]


class Distance(Objective):
    """The mean squared error between the student's vectors of texts and their targets, over all texts of a batch and all dimensions.

    Args:
        model: The student.
        output: The output of the model to compare with the targets; `training.loop.model.HEAD` if a linear layer maps to the targets' width.
        batch_tokens: See `Objective`.
        cache_gradients: See `Objective`.
    """

    def __init__(self, model: Any, output: str, batch_tokens: int, cache_gradients: bool = False) -> None:
        super().__init__(model, batch_tokens, cache_gradients)
        self.output = output

    def measure(self, vectors: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss of vectors (n, d) and targets (n, d), a scalar."""
        self.names += len(vectors) * processes()
        return mean_over_processes(torch.nn.functional.mse_loss(vectors.float(), labels.float()), len(vectors))


class Teacher:
    """An encoder whose vectors a student learns. It computes in bfloat16 if the hardware supports it, like the encoder of a linker.

    Args:
        name: Folder or name of the encoder, as in `paths.base`.
        max_length: Greatest number of tokens of a text that are read.
        gpu_id: Number of the GPU; -1 is the CPU.

    Raises:
        SapbertError: E512.
    """

    def __init__(self, name: str, max_length: int, gpu_id: int = -1) -> None:
        self.device = torch.device("cpu" if gpu_id < 0 else "cuda")
        self.bfloat16 = use_bfloat16("auto", self.device)
        self.model = open_base(name, max_length=max_length, dropout=0.0).eval()
        self.fingerprint = self._fingerprint(max_length)
        self.model.to(self.device)
        transformer: Any = transformer_of(self.model)
        self.width = int(transformer.config.hidden_size)

    def encode(self, texts: Sequence[str]) -> Floats2d:
        """Return the vectors of texts, L2-normalised float32 (n, width)."""
        threads = torch.get_num_threads()
        torch.set_num_threads(threads * int(os.environ.get("WORLD_SIZE", "1")))  # the other processes wait (see `kept`), so their threads are free
        try:
            with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.bfloat16):
                found = self.model.encode(list(texts), batch_size=together(self.model), show_progress_bar=False, convert_to_numpy=True)
        finally:
            torch.set_num_threads(threads)
        return np.asarray(found, dtype=np.float32)

    def _fingerprint(self, max_length: int) -> str:
        digest = hashlib.blake2b(f"{max_length} {self.model[1].pooling_mode} {self.bfloat16}".encode(), digest_size=16)
        for key, value in sorted(self.model.state_dict().items()):
            digest.update(key.encode())
            digest.update(value.contiguous().view(torch.uint8).numpy().tobytes() if value.ndim else str(value).encode())
        digest.update(json.dumps(sorted(self.model.tokenizer.get_vocab().items())).encode())
        return digest.hexdigest()


def kept(parent: Path, key: dict[str, Any], make: Callable[[Path], dict[str, Any]]) -> Path:
    """Return the folder below `parent` for the inputs `key`. Make it if it does not exist or is damaged.

    The first process of a training makes it, and the others wait.

    Args:
        parent: The folder in which it is stored.
        key: The inputs: fingerprints and settings.
        make: Writes the files into a folder, and returns further entries of the manifest.

    Raises:
        SapbertError: E610 if nothing can be written.
    """
    name = f"targets-{fingerprint(key, size=8)}"
    folder = parent / name
    try:
        with FileLock(parent / f".{name}.lock"):
            if not _is_intact(folder):
                with writing_folder(folder) as scratch:
                    write_manifest(scratch, KIND, VERSION, {"key": key, **make(scratch)})
    except PermissionError as error:
        raise fail("E610", path=parent, expected="a folder in which the targets can be stored", why=str(error)) from error
    return folder


def _is_intact(folder: Path) -> bool:
    try:
        read_manifest(folder, KIND, VERSION, missing="E101", damaged="E102")
    except SapbertError:
        return False
    return True


def manifest_of(folder: Path) -> dict[str, Any]:
    """Check the files of a folder of targets, and return its manifest."""
    return read_manifest(folder, KIND, VERSION, missing="E101", damaged="E102")


# -- tables -------------------------------------------------------------------------------------------------------------


def read_table(path: Path, expected: str, schema: pa.Schema) -> pa.Table:
    """Read columns of a parquet file. Null values are an error.

    Args:
        path: The parquet file.
        expected: Description of the expected file, for error messages.
        schema: Names and types of the columns.

    Raises:
        SapbertError: E610.
    """
    if not path.is_file():
        raise fail("E610", MissingFile, path=path, expected=expected, why="there is no such file")
    try:
        known = pq.read_schema(path)
        missing = [name for name in schema.names if name not in known.names]
        if missing:
            raise fail("E610", path=path, expected=expected, why=f"column {', '.join(missing)} is missing; it has {', '.join(known.names)}")
        table = pq.read_table(path, columns=schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise fail("E610", path=path, expected=expected, why=" ".join(str(error).split())[:200]) from error
    for name in schema.names:
        if table.column(name).null_count:
            raise fail("E610", path=path, expected=expected, why=f"{table.column(name).null_count} rows have no {name}")
    return table


def codes(column: Any, known: Sequence[str], path: Path, expected: str) -> Ints:
    """Return, for each word of a column, its position in `known`.

    Raises:
        SapbertError: E610 if a word is not in `known`; the message names it.
    """
    encoded = column.combine_chunks().dictionary_encode()
    words: list[str] = encoded.dictionary.to_pylist()
    unknown = [word for word in words if word not in known]
    if unknown:
        raise fail("E610", path=path, expected=expected, why=f"'{unknown[0]}' is not one of {', '.join(known)}")
    places = np.array([known.index(word) for word in words], dtype=np.int64)
    return places[np.asarray(encoded.indices)] if len(column) else np.zeros(0, dtype=np.int64)
