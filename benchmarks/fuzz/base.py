"""What a target of fuzzing is, and what targets have in common."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from spacy_sapbert.files import MANIFEST, checksum

from ..common import ROOT

DATA = ROOT / "tests" / "data"
DIM = 16  # of vectors
Mutate = Callable[[bytes, list[bytes], random.Random], bytes]


@dataclass
class Target:
    """Something that reads files.

    Attributes:
        name: its name.
        share: weight of this target when the inputs are divided among the targets; slow targets get fewer.
        files: content of small valid files by name.
        consume: reads a folder (first argument) in which one file (second argument, its name) was changed.
        folder: folder into which the files are written.
        sealed: whether checksums in manifests are corrected after a change.
    """

    name: str
    share: float
    files: dict[str, bytes]
    consume: Callable[[Path, str], None]
    folder: Path
    sealed: bool = False

    def mutate(self, chance: random.Random, mutated: Mutate) -> bytes:
        """Return an input: the name of a file, a line end, and its changed content."""
        name = chance.choice(sorted(self.files))
        return name.encode() + b"\n" + mutated(self.files[name], list(self.files.values()), chance)

    def try_input(self, data: bytes) -> None:
        """Read an input.

        Raises:
            SapbertError: the input was refused.
            Exception: the input made the target fail.
        """
        line, _, content = data.partition(b"\n")
        name = line.decode()
        self.lay_out()
        path = self.folder / name
        try:
            path.write_bytes(content)
            if self.sealed:
                seal(self.folder, name)
            self.consume(self.folder, name)
        finally:
            path.unlink(missing_ok=True)  # a memory map of the changed file stays valid
            path.write_bytes(self.files[name])
            if self.sealed:
                seal(self.folder, name)

    def lay_out(self) -> None:
        """Write the valid files, if they are not there yet."""
        if not self.folder.is_dir():
            for name, content in self.files.items():
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / name).write_bytes(content)


def seal(folder: Path, name: str) -> None:
    """Write the size and checksum of a changed file into the manifests that list it."""
    for above in (folder / name).parents:
        path = above / MANIFEST
        if path.is_file() and path != folder / name:
            try:
                content = json.loads(path.read_text(encoding="utf-8"))
            except (ValueError, RecursionError):
                continue
            listed = (folder / name).relative_to(above).as_posix()
            if isinstance(content, dict) and isinstance(content.get("files"), dict) and listed in content["files"]:
                content["files"][listed] = {"bytes": (folder / name).stat().st_size, "blake2b": checksum(folder / name)}
                path.write_text(json.dumps(content), encoding="utf-8")
        if above == folder:
            return


def must(holds: bool, what: str) -> None:
    """Check what must hold for everything that was read.

    Raises:
        AssertionError: it does not hold.
    """
    if not holds:
        raise AssertionError(what)


def content_of(folder: Path) -> dict[str, bytes]:
    """Return the content of all files in a folder by their relative names."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@lru_cache(maxsize=1)
def blank() -> Any:
    """Return a pipeline that only has a tokenizer, which needs linear time; the same one each time."""
    import spacy

    from spacy_sapbert.doc.tokens import bound_tokenizer

    nlp = spacy.blank("en")
    bound_tokenizer(nlp)
    return nlp


def small_linker(scratch: Path) -> Path:
    """Return the folder of a linker with a few concepts; it is built by the first call.

    Args:
        scratch: folder in which it is made.
    """
    made = scratch / "made" / "linker"
    if not made.is_dir():
        from spacy_sapbert.build.linker import build_linker, read_source
        from spacy_sapbert.encoders.static import StaticEncoder
        from spacy_sapbert.indexes.exact import ExactIndex

        sources = [read_source(DATA / "tiny_clinic.tsv"), read_source(DATA / "tiny.obo")]
        encoder = StaticEncoder(str(_small_encoder(scratch / "made" / "table")))
        build_linker(sources, made, model=encoder, index=ExactIndex(), progress=False)
    return made


def _small_encoder(folder: Path) -> Path:
    """Write a static encoder of 40 words and 64 buckets."""
    from safetensors.numpy import save_file

    from spacy_sapbert.encoders.static import CONFIG, KIND, TABLE, WORDS

    folder.mkdir(parents=True)
    words = [f"word{i}" for i in range(37)] + ["fever", "cough", "pain"]
    (folder / CONFIG).write_text(json.dumps({"model_type": KIND, "shortest": 3, "longest": 4, "buckets": 64}), encoding="utf-8")
    (folder / WORDS).write_text("\n".join(words), encoding="utf-8")
    save_file({"embeddings": np.random.default_rng(3).standard_normal((len(words) + 64, DIM)).astype(np.float32)}, folder / TABLE)
    return folder
