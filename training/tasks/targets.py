"""Vectors of a teacher: encoded once, and kept on disk under a name that depends on the teacher and the texts."""

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
CHUNK = 5_000  # texts whose vectors lie in memory
Ints = npt.NDArray[np.int64]


class Distance(Objective):
    """Mean squared error between the student's vectors of texts and their targets, over all texts of a batch and all dimensions.

    Args:
        model: The student.
        output: Which of the model's outputs; `training.loop.model.HEAD` where a linear layer leads to the targets' width.
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
    """An encoder whose vectors are learned, L2-normalised float32 (n, width). It computes in bfloat16 where the hardware does, as a linker's encoder.

    Args:
        name: As `paths.base`.
        max_length: Tokens read of a text.
        gpu_id: -1 is the CPU.

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
        """Return the vectors (n, width) of texts."""
        threads = torch.get_num_threads()
        torch.set_num_threads(threads * int(os.environ.get("WORLD_SIZE", "1")))  # the other processes wait: see `kept`
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
    """Return the folder below `parent` for the inputs `key`; make it where it does not exist or is damaged.

    Processes of one training wait for the first one to make it.

    Args:
        parent: The folder to keep it in.
        key: The inputs: fingerprints and settings.
        make: Writes the files into a folder, and returns further entries of the manifest.

    Raises:
        SapbertError: E610 where nothing can be written.
    """
    name = f"targets-{fingerprint(key, size=8)}"
    folder = parent / name
    try:
        with FileLock(parent / f".{name}.lock"):
            if not _is_whole(folder):
                with writing_folder(folder) as scratch:
                    write_manifest(scratch, KIND, VERSION, {"key": key, **make(scratch)})
    except PermissionError as error:
        raise fail("E610", path=parent, expected="a folder in which the targets can be kept", why=str(error)) from error
    return folder


def _is_whole(folder: Path) -> bool:
    try:
        read_manifest(folder, KIND, VERSION, missing="E101", damaged="E102")
    except SapbertError:
        return False
    return True


def manifest_of(folder: Path) -> dict[str, Any]:
    """Return the manifest of a folder of targets, with its files checked."""
    return read_manifest(folder, KIND, VERSION, missing="E101", damaged="E102")


# -- tables -------------------------------------------------------------------------------------------------------------


def read_table(path: Path, expected: str, schema: pa.Schema) -> pa.Table:
    """Read the columns of a parquet file that `schema` names, in its types, without null values.

    Args:
        path: The file.
        expected: What the file should be, for messages.
        schema: Names and types.

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
    """Return the position in `known` of each word of a column.

    Raises:
        SapbertError: E610, with a word that is not in `known`.
    """
    encoded = column.combine_chunks().dictionary_encode()
    words: list[str] = encoded.dictionary.to_pylist()
    unknown = [word for word in words if word not in known]
    if unknown:
        raise fail("E610", path=path, expected=expected, why=f"'{unknown[0]}' is none of {', '.join(known)}")
    places = np.array([known.index(word) for word in words], dtype=np.int64)
    return places[np.asarray(encoded.indices)] if len(column) else np.zeros(0, dtype=np.int64)
