"""Encoders of other authors: one that only implements the Protocol `Encoder`, and a plain Thinc model, work like ours."""

from __future__ import annotations

import json
import pickle
import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import catalogue
import numpy as np
import pytest
import spacy
from thinc.api import Model

from spacy_sapbert import bundle
from spacy_sapbert.build.linker import build_linker
from spacy_sapbert.build.vectors import Workers
from spacy_sapbert.encoders.base import Encoder, SizedInMemory, ThincEncoder, as_encoder
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.linker import SapBertLinker

NAME = "stranger.LetterEncoder.v1"


def letters(names: Sequence[str], width: int) -> np.ndarray:
    """Return names as counts of their letters, (n, width), L2-normalised."""
    vectors = np.zeros((len(names), width), dtype=np.float32)
    for row, name in enumerate(names):
        for character in name:
            vectors[row, ord(character) % width] += 1
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


class LetterEncoder:
    """An encoder that shares no code with ours and is not a Thinc model."""

    architecture = NAME

    def __init__(self, name: str = "", width: int = 64) -> None:
        self.name, self.width = name, width
        self.dim = 0
        self.device = "cpu"

    @property
    def fingerprint(self) -> str:
        return f"letters-{self.width}"

    def initialize(self) -> None:
        self.dim = self.width

    def encode(self, names: Sequence[str], *, progress: Any = False) -> np.ndarray:
        assert self.dim, "not initialised"
        if callable(progress):
            progress(len(names))
        return letters(names, self.dim)

    def save(self, folder: Path) -> None:
        (folder / "letters.json").write_text(json.dumps({"name": self.name, "width": self.width}))

    def load(self, folder: Path) -> None:
        settings = json.loads((folder / "letters.json").read_text())
        self.name, self.width = settings["name"], settings["width"]
        self.initialize()

    def to(self, device: str) -> None:
        self.device = device

    def get_config(self) -> dict[str, Any]:
        return {"name": self.name, "width": self.width}

    def weight_bytes(self) -> int:
        return 1234


@pytest.fixture
def registered() -> Iterator[None]:
    spacy.registry.architectures.register(NAME, func=LetterEncoder)
    yield
    catalogue._remove(("thinc", "architectures", NAME)) if catalogue.check_exists("thinc", "architectures", NAME) else catalogue._remove(
        ("spacy", "architectures", NAME)
    )


def pipeline(**config: Any) -> Any:
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "X", "pattern": "fevers"}])  # type: ignore[attr-defined]
    nlp.add_pipe("sapbert_linker", config={"threshold": 0.5, **config})
    return nlp


def test_it_fulfils_the_documented_protocols() -> None:
    encoder = LetterEncoder()
    assert isinstance(encoder, Encoder)
    assert isinstance(encoder, SizedInMemory)
    assert encoder.weight_bytes() == 1234
    assert as_encoder(encoder) is encoder


def test_it_builds_a_linker_that_a_pipeline_opens(registered: None, tiny_linker: Path, tmp_path: Path) -> None:
    out = build_linker([], tmp_path / "linker", kb=tiny_linker / "kb", model=LetterEncoder(width=80), index=ExactIndex(), progress=False)
    assert json.loads((out / "encoder" / "manifest.json").read_text())["architecture"] == NAME
    assert json.loads((out / "encoder" / "letters.json").read_text()) == {"name": "", "width": 80}
    nlp = pipeline(linker_name=str(out), model={"@architectures": NAME}, exact_match=False)  # the width of the folder is used
    (span,) = nlp("Two fevers.").ents
    linker = nlp.get_pipe("sapbert_linker")
    assert isinstance(linker.model, LetterEncoder)
    assert (linker.model.dim, linker.index.dim) == (80, 80)
    # "fever" and "fevers" share five of six letters, "e" twice: 7 / (sqrt(7) * sqrt(8))
    assert span._.kb_ents[0][1] == pytest.approx(7 / (7 * 8) ** 0.5, abs=1e-3)
    nlp.to_disk(tmp_path / "pipeline")
    again = spacy.load(tmp_path / "pipeline")
    (same,) = again("Two fevers.").ents
    assert same._.kb_ents == span._.kb_ents
    copy = pickle.loads(pickle.dumps(linker))
    assert isinstance(copy.model, LetterEncoder)
    assert copy.model.get_config() == linker.model.get_config()


def test_a_linker_of_another_width_is_refused(registered: None, tiny_linker: Path, tmp_path: Path) -> None:
    out = build_linker([], tmp_path / "linker", kb=tiny_linker / "kb", model=LetterEncoder(width=80), index=ExactIndex(), progress=False)
    (out / "encoder" / "letters.json").write_text(json.dumps({"name": "", "width": 81}))
    from spacy_sapbert.files import write_manifest

    write_manifest(out / "encoder", "encoder", 1, {"name": "", "architecture": NAME})
    with pytest.raises(SapbertError, match="E203"):
        pipeline(linker_name=str(out), model={"@architectures": NAME}).get_pipe("sapbert_linker").load()


def test_processes_of_their_own_load_it(registered: None, tiny_linker: Path, tmp_path: Path) -> None:
    """Worker processes load it by the name of its architecture and its settings; tested in this process."""
    encoder = LetterEncoder(width=70)
    encoder.initialize()
    bundle.save_encoder(encoder, _made(tmp_path / "encoder"))
    found: Any = bundle.worker_encoder(tmp_path / "encoder", encoder.get_config(), "cpu:0")
    assert (found.dim, found.device) == (70, "cpu:0")
    np.testing.assert_array_equal(found.encode(["fever"]), encoder.encode(["fever"]))


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


# -- a plain Thinc model ---------------------------------------------------------------------------------------------------


def thinc_model(width: int = 64) -> Model:
    return Model("letters", lambda model, names, is_train: (letters(names, width), lambda d: []), dims={"nO": width})


def test_a_thinc_model_is_wrapped(tmp_path: Path) -> None:
    encoder = as_encoder(thinc_model())
    assert isinstance(encoder, ThincEncoder)
    assert isinstance(encoder, Encoder)
    assert (encoder.name, encoder.architecture, encoder.fingerprint, encoder.dim) == ("letters", "", "", 64)
    done: list[int] = []
    np.testing.assert_array_equal(encoder.encode(["a", "b"], progress=done.append), letters(["a", "b"], 64))
    assert done == [2]
    encoder.save(tmp_path)
    encoder.load(tmp_path)
    assert encoder.weight_bytes() == 0


def test_the_bytes_of_weights_are_those_of_pytorch() -> None:
    import torch
    from thinc.api import PyTorchWrapper

    wrapped: Any = PyTorchWrapper(torch.nn.Linear(3, 5))  # 15 weights and 5 biases
    assert ThincEncoder(wrapped).weight_bytes() == 4 * 20


def test_it_cannot_be_loaded_by_processes_of_their_own(tiny_linker: Path, tmp_path: Path) -> None:
    with pytest.raises(SapbertError, match=r"E002.*'letters' can't be loaded by other processes"):
        build_linker([], tmp_path / "x", kb=tiny_linker / "kb", model=thinc_model(), index=ExactIndex(), workers=Workers.make(2), progress=False)


@pytest.mark.parametrize("wrong", [None, "fast", object(), LetterEncoder])
def test_anything_else_is_refused(wrong: Any) -> None:
    with pytest.raises(SapbertError, match="E006"):
        as_encoder(None if wrong is None else wrong if not isinstance(wrong, type) else int)


def scaled(signs: list[float]) -> Model:
    """Return a Thinc model whose weights are a sign for each dimension of `letters`."""
    weights = np.array(signs, dtype=np.float32)
    return Model(
        "scaled", lambda model, names, is_train: (letters(names, 4) * model.get_param("W"), lambda d: []), dims={"nO": 4}, params={"W": weights}
    )


def test_a_refused_folder_leaves_the_weights_of_the_thinc_model_in_use(tiny_linker: Path, tmp_path: Path) -> None:
    one = build_linker([], tmp_path / "one", kb=tiny_linker / "kb", model=scaled([1, 1, 1, 1]), index=ExactIndex(), progress=False)
    two = build_linker([], tmp_path / "two", kb=tiny_linker / "kb", model=scaled([1, -1, 1, -1]), index=ExactIndex(), progress=False)
    shutil.rmtree(two / "index")
    index = ExactIndex()
    index.build(letters(["fever"], 4))  # one name only
    index.to_disk(two / "index")
    linker = SapBertLinker(scaled([0, 0, 0, 0]), ExactIndex())
    linker.set_folder(one)
    before = linker.model.encode(["fever"])
    np.testing.assert_array_equal(before, letters(["fever"], 4))
    with pytest.raises(SapbertError, match="E203"):
        linker.set_folder(two)
    np.testing.assert_array_equal(linker.model.encode(["fever"]), before)


def test_an_encoder_that_cannot_be_copied_is_refused(tiny_linker: Path, tmp_path: Path) -> None:
    out = build_linker([], tmp_path / "one", kb=tiny_linker / "kb", model=scaled([1, 1, 1, 1]), index=ExactIndex(), progress=False)
    model = scaled([1, 1, 1, 1])
    model.attrs["lock"] = threading.Lock()
    with pytest.raises(SapbertError, match=r"E310.*'scaled' can't be copied \(TypeError: cannot pickle"):
        SapBertLinker(model, ExactIndex()).set_folder(out)
