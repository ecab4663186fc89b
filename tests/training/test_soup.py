"""Soups of weights: sums by hand, the greedy choice, and encoders that cannot be averaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from trainings import command
from transformers import AutoTokenizer, BertConfig, BertModel

from spacy_sapbert.encoders.transformer import NameEncoder, base_encoder
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from training.data.pairs import read_queries
from training.loop import weights
from training.made import Stamp, stamp_of
from training.soup import greedy, make_soup

pytestmark = pytest.mark.usefixtures("one_thread")
KEY = "encoder.layer.1.output.dense.bias"


def moved(tiny_base: Path, folder: Path, by: float) -> Path:
    """Return the tiny base with one changed bias."""
    folder.mkdir()
    for file in tiny_base.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    state = load_file(folder / "model.safetensors")
    state[KEY] = state[KEY] + by * torch.linspace(-1, 1, len(state[KEY]))
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    return folder


@pytest.fixture
def models(tiny_base: Path, tmp_path: Path) -> List[Path]:
    return [moved(tiny_base, tmp_path / name, by) for name, by in (("a", 1.0), ("b", 2.0), ("c", 9.0))]


def bias(folder: Path) -> torch.Tensor:
    return load_file(folder / "model.safetensors")[KEY]


def test_sums_by_hand() -> None:
    one, other = ({"w": torch.tensor([1.0, 2.0]), "n": torch.tensor([3])}, {"w": torch.tensor([5.0, 0.0]), "n": torch.tensor([4])})
    made = weights.average([one, other], [0.25, 0.75])
    assert made["w"].tolist() == [4.0, 0.5]
    assert made["n"].tolist() == [3]
    assert weights.shape_difference(one, {"w": torch.zeros(3), "n": one["n"]}) == "w"
    assert weights.shape_difference(one, other) is None


def test_uniform_and_weighted(models: List[Path], tiny_base: Path, tmp_path: Path) -> None:
    (models[0] / "training.json").write_text(
        json.dumps({"sources": ["hpo"], "settings": {"paths.base": "x", "training.seed": 1, "encoder.max_length": 30}})
    )
    report = make_soup(tmp_path / "mean", models)
    line = torch.linspace(-1, 1, 32)
    base = load_file(tiny_base / "model.safetensors")
    assert torch.allclose(bias(tmp_path / "mean"), base[KEY] + 4 * line, atol=1e-6)  # (1 + 2 + 9) / 3
    found = load_file(tmp_path / "mean" / "model.safetensors")
    assert all(torch.allclose(found[key], base[key], atol=1e-7) for key in base if key != KEY)
    assert report["sources"] == ["hpo"]
    assert report["settings"]["encoder.max_length"] == 30
    card = (tmp_path / "mean" / "README.md").read_text()
    assert "uniform soup" in card
    assert "| 0.333333 |" in card
    encoder = NameEncoder(name=str(tmp_path / "mean"), dtype="float32").initialize()
    assert np.isfinite(encoder.predict(["fever"])).all()
    make_soup(tmp_path / "weighted", models[:2], weights=[3, 1])
    assert torch.allclose(bias(tmp_path / "weighted"), base[KEY] + 1.25 * line, atol=1e-6)


def test_the_stamp_of_what_lay_there_is_removed(models: List[Path], tmp_path: Path) -> None:
    """Otherwise, a recipe of phases that wrote this folder before would use the new weights as its own result."""
    out = tmp_path / "out"
    make_soup(out, models)
    stamp = Stamp(stamp_of(out))
    stamp.write({"soup": "of a recipe of phases"})
    make_soup(out, models[:2])
    assert stamp.read() is None


def test_greedy_takes_what_does_not_lower_the_figure(models: List[Path], tiny_base: Path, tmp_path: Path) -> None:
    start = load_file(tiny_base / "model.safetensors")[KEY][-1]

    def near_two(encoder: Any) -> float:  # the score depends on how much the last number was changed
        return -abs(float(encoder.state_dict()[f"0.model.{KEY}"][-1] - start) - 1.4)

    # alone: −.4, −.6, −7.6, so a is first; with b the mean is 1.5: −.1, b is kept; with c it is 4: worse
    report = make_soup(tmp_path / "soup", [models[2], models[0], models[1]], measure=near_two, metric="nearness")
    assert list(report["models"].values()) == [0.0, 0.5, 0.5]
    assert report["alone"] == pytest.approx([-7.6, -0.4, -0.6], abs=1e-3)
    assert report["averaged"] == pytest.approx(-0.1, abs=1e-3)
    assert torch.allclose(bias(tmp_path / "soup")[-1], start + 1.5, atol=1e-5)
    card = (tmp_path / "soup" / "README.md").read_text()
    assert "greedy soup" in card
    assert "The mean: nearness -0.1." in card


def test_greedy_may_keep_one_alone() -> None:
    class Holds:
        def load_state_dict(self, state: Dict[str, torch.Tensor]) -> None:
            self.value = float(state["w"])

    made: Any = Holds()
    every = [{"w": torch.tensor(value)} for value in (0.0, 4.0)]
    assert greedy(made, every, [1.0, 2.0], lambda encoder: -encoder.value) == ([1], 2.0)
    assert made.value == 4.0


def other_model(folder: Path, **changes: Any) -> Path:
    settings = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 30522}
    BertModel(BertConfig(**{**settings, **changes})).save_pretrained(folder)
    AutoTokenizer.from_pretrained(base_encoder()).save_pretrained(folder)
    return folder


def test_models_that_differ_are_refused_with_the_difference(models: List[Path], tmp_path: Path) -> None:
    for name, changes, said in (
        ("wide", {"intermediate_size": 48}, "intermediate_size is 64 and 48"),
        ("heads", {"num_attention_heads": 4}, "num_attention_heads is 2 and 4"),  # no shape of a weight differs
    ):
        with pytest.raises(SapbertError, match=said) as error:
            make_soup(tmp_path / "none", [models[0], other_model(tmp_path / name, **changes)])
        assert error.value.code == "E525"
    (models[1] / "modules.json").write_text(
        json.dumps([{"idx": 0, "name": "0", "path": "", "type": "x.Transformer"}, {"idx": 1, "name": "1", "path": "1_Pooling", "type": "x.Pooling"}])
    )
    (models[1] / "1_Pooling").mkdir()
    (models[1] / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}))
    with pytest.raises(SapbertError, match="pooling is 'cls' and 'mean'"):
        make_soup(tmp_path / "none", models[:2])
    tokenizer = AutoTokenizer.from_pretrained(models[2])
    tokenizer.add_tokens(["pyrexial"])
    tokenizer.save_pretrained(models[2])
    with pytest.raises(SapbertError, match="'pyrexial'"):
        make_soup(tmp_path / "none", [models[0], models[2]])
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a"], "give two or more"),
        (["a", "a"], "given twice"),
        (["a", "nowhere"], "E512"),
        (["a", "b", "--weights", "1"], "give 2 numbers"),
        (["a", "b", "--weights", "0", "--weights", "0"], "not all 0"),
        (["a", "b", "--greedy"], "give the data to measure on"),
        (["a", "b", "--greedy", "--pairs", "x"], "give the data to measure on"),
        (["a", "b", "--sts", "x"], "only a greedy soup measures its models"),
    ],
)
def test_bad_arguments(models: List[Path], tmp_path: Path, arguments: List[str], said: str) -> None:
    cut = next((i for i, word in enumerate(arguments) if word.startswith("--")), len(arguments))
    folders = [str(tmp_path / name) for name in arguments[:cut]]
    ended = command("soup", tmp_path / "out", *folders, *arguments[cut:])
    assert ended.exit_code == 1
    assert said in ended.stderr


def test_greedy_by_held_out_synonyms_and_by_scored_pairs(models: List[Path], tiny_kb: KnowledgeBase, tiny_pairs: Path, tmp_path: Path) -> None:
    ended = command("soup", tmp_path / "out", *models, "--greedy", "--pairs", tiny_pairs, "--kb", tiny_kb.path)
    assert ended.exit_code == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert report["metric"] == "held_out_at1"
    assert report["averaged"] >= max(report["alone"])
    assert read_queries(tiny_pairs)
    (tmp_path / "dev.csv").write_text("a dog runs,a dog walks,4\nrain,a red bus,0\nsnow,it snows,5\n")
    ended = command("soup", tmp_path / "out", *models, "--greedy", "--sts", tmp_path / "dev.csv")
    assert ended.exit_code == 0, ended.stderr
    assert json.loads(ended.stdout)["metric"] == "sts_spearman"
