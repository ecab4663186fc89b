"""A trained encoder as an adapter over its base."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from trainings import command
from transformers import AutoModel

from spacy_sapbert.encoders.transformer import NameEncoder
from spacy_sapbert.errors import SapbertError
from training.compress import compress, cosine_to, low_rank

NAMES = ["fever", "ventricular septal defect", "low muscle tone", "a"]


def test_low_rank_by_hand() -> None:
    # singular values 3 and 1
    a, b, share, length = low_rank(torch.tensor([[3.0, 0.0], [0.0, 1.0]]), 1)
    assert torch.allclose(b @ a, torch.tensor([[3.0, 0.0], [0.0, 0.0]]), atol=1e-6)
    assert share == pytest.approx(0.9)  # 9 of 9 + 1
    assert length == pytest.approx(10.0)
    a, b, share, _ = low_rank(torch.tensor([[3.0, 0.0], [0.0, 1.0]]), 4)  # more than the matrix has, so it is padded
    assert a.shape == (4, 2)
    assert torch.allclose(b @ a, torch.diag(torch.tensor([3.0, 1.0])), atol=1e-6)
    assert share == pytest.approx(1.0)


@pytest.fixture
def trained(tiny_base: Path, tmp_path: Path) -> Path:
    """The tiny base with a change of rank 2, other biases and other layer norms in its second layer."""
    folder = tmp_path / "trained"
    folder.mkdir()
    for file in tiny_base.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    weights = load_file(folder / "model.safetensors")
    chance = torch.Generator().manual_seed(1)
    for key, weight in weights.items():
        if "layer.1." in key:
            update = (
                torch.randn(weight.shape, generator=chance)
                if weight.ndim == 1
                else torch.randn(weight.shape[0], 2, generator=chance) @ torch.randn(2, weight.shape[1], generator=chance)
            )
            weights[key] = weight + 0.05 * update
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    (folder / "README.md").write_text("card")
    return folder


def test_the_adapter_gives_the_vectors_of_the_encoder(trained: Path, tiny_base: Path, tmp_path: Path) -> None:
    report = compress(trained, tmp_path / "adapter", base=str(tiny_base), rank=2)
    assert report["kept"] == pytest.approx(1.0, abs=1e-4)
    assert report["matrices"] == 6
    assert cosine_to(trained, tmp_path / "adapter", NAMES) > 0.99999  # half precision
    assert cosine_to(tiny_base, tmp_path / "adapter", NAMES) < 0.999  # the adapter has an effect
    assert (tmp_path / "adapter" / "README.md").read_text() == "card"
    cut = compress(trained, tmp_path / "cut", base=str(tiny_base), rank=1)
    assert 0.4 < cut["kept"] < 0.99
    assert cut["bytes"] < report["bytes"]


def test_an_encoder_without_a_card(trained: Path, tiny_base: Path, tmp_path: Path) -> None:
    (trained / "README.md").unlink()
    assert compress(trained, tmp_path / "adapter", base=str(tiny_base), rank=2)["matrices"] == 6
    assert cosine_to(trained, tmp_path / "adapter", NAMES) > 0.99999
    assert not (tmp_path / "adapter" / "README.md").exists()


def test_peft_loads_it_too(trained: Path, tiny_base: Path, tmp_path: Path) -> None:
    compress(trained, tmp_path / "adapter", base=str(tiny_base), rank=2)
    merged = PeftModel.from_pretrained(AutoModel.from_pretrained(tiny_base), str(tmp_path / "adapter")).merge_and_unload().state_dict()
    for key, weight in load_file(trained / "model.safetensors").items():
        assert torch.allclose(merged[key], weight, atol=2e-3), key


def test_part_of_the_way(trained: Path, tiny_base: Path, tmp_path: Path) -> None:
    compress(trained, tmp_path / "half", base=str(tiny_base), rank=2, share=0.5)
    half = NameEncoder(name=str(tmp_path / "half")).initialize().layers[0].shims[0]._hfmodel.transformer.state_dict()
    base, whole = load_file(tiny_base / "model.safetensors"), load_file(trained / "model.safetensors")
    for key in base:
        assert torch.allclose(half[key], (base[key] + whole[key]) / 2, atol=2e-3), key
    for setting in ({"share": 0.0}, {"share": 1.5}, {"rank": 0}):
        with pytest.raises(SapbertError, match="E511"):
            compress(trained, tmp_path / "none", base=str(tiny_base), **setting)


def test_bad_input(trained: Path, tiny_base: Path, tmp_path: Path) -> None:
    with pytest.raises(SapbertError, match="no weight matrix differs") as error:
        compress(tiny_base, tmp_path / "adapter", base=str(tiny_base))
    assert error.value.code == "E517"
    with pytest.raises(SapbertError, match="shape") as error:
        compress(trained, tmp_path / "adapter")  # all-MiniLM-L6-v2 is another model
    assert error.value.code == "E517"
    weights = load_file(trained / "model.safetensors")
    weights["embeddings.word_embeddings.weight"] = weights["embeddings.word_embeddings.weight"] + 1
    save_file(weights, trained / "model.safetensors", {"format": "pt"})
    with pytest.raises(SapbertError, match="train_embeddings"):
        compress(trained, tmp_path / "adapter", base=str(tiny_base))
    assert not (tmp_path / "adapter").exists()
    ended = command("compress", tmp_path / "nothing", tmp_path / "adapter")
    assert ended.exit_code == 1
    assert "E301" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_vectors_are_normalised(trained: Path, tiny_base: Path, tmp_path: Path) -> None:
    compress(trained, tmp_path / "adapter", base=str(tiny_base), rank=2)
    encoder = NameEncoder(name=str(tmp_path / "adapter"))
    encoder.initialize()
    assert np.allclose(np.linalg.norm(encoder.predict(NAMES), axis=1), 1.0, atol=1e-5)
