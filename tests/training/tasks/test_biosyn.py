"""BioSyn: the marginal likelihood by hand, the batches, and a training that is killed and resumed."""

from __future__ import annotations

from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from trainings import Killed, kill_at, mesh_kb

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from training import fit
from training.fit import read_recipe
from training.loop.model import open_base
from training.tasks.biosyn import CandidateCollator, SynonymMarginalisation, biosyn, marginal_losses, words

pytestmark = pytest.mark.usefixtures("one_thread")
RECIPE = Path(__file__).parents[3] / "training" / "configs" / "biosyn.cfg"


# -- the likelihood -----------------------------------------------------------------------------------------------------


def test_marginal_likelihood_and_its_gradient_by_hand() -> None:
    scores = torch.tensor([[1.0, 0.0, 2.0], [0.5, 0.5, 0.5], [3.0, 1.0, 0.0]], requires_grad=True)
    right = torch.tensor([[True, False, True], [True, False, False], [False, False, False]])  # the third mention adds nothing to the loss
    losses = marginal_losses(scores, right)
    whole, good = exp(1) + 1 + exp(2), exp(1) + exp(2)
    assert losses.tolist() == pytest.approx([-log(good / whole), log(3)], rel=1e-5)
    losses.sum().backward()
    # the softmax over all candidates minus the softmax over the right ones
    expected = [
        [exp(1) / whole - exp(1) / good, 1 / whole, exp(2) / whole - exp(2) / good],
        [1 / 3 - 1, 1 / 3, 1 / 3],
        [0.0, 0.0, 0.0],
    ]
    np.testing.assert_allclose(scores.grad, expected, atol=1e-6)


def test_mentions_whose_candidates_are_all_right_cost_nothing_and_far_scores_stay_finite() -> None:
    scores = torch.tensor([[5.0, -3.0], [1000.0, -1000.0]], requires_grad=True)
    losses = marginal_losses(scores, torch.tensor([[True, True], [False, True]]))
    assert losses.tolist() == pytest.approx([0.0, 2000.0])
    losses.sum().backward()
    assert scores.grad is not None
    assert torch.isfinite(scores.grad).all()


VECTORS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [1.0, 0.0], [0.0, -1.0]])  # two mentions, three names
# the first mention has the candidates 0 (right) and 1; the second has 0 and 2 (none is right)
LABELS = torch.tensor([[[0, 0.9, 1], [1, 0.1, 0]], [[0, 0.5, 0], [2, 0.5, 0]]])


def test_score_is_cosine_and_weighted_sparse_score_over_the_temperature() -> None:
    objective = SynonymMarginalisation(None, temperature=0.5, sparse_weight=2.0)
    # the first mention: (.6 + 2 · .9) / .5 = 4.8 and (1 + 2 · .1) / .5 = 2.4
    loss = objective.measure(VECTORS, LABELS)
    assert loss.item() == pytest.approx(log(1 + exp(2.4 - 4.8)), rel=1e-5)
    loss.backward()
    wrong = 1 / (1 + exp(2.4))
    assert objective.sparse_weight.grad is not None
    assert objective.sparse_weight.grad.item() == pytest.approx(-wrong * (0.9 - 0.1) / 0.5, rel=1e-5)
    assert objective.names == 5


def test_a_batch_without_a_right_candidate_costs_nothing() -> None:
    objective = SynonymMarginalisation(None, temperature=0.5)
    vectors = VECTORS.clone().requires_grad_()
    loss = objective.measure(vectors, LABELS * torch.tensor([1.0, 1.0, 0.0]))
    loss.backward()
    assert (loss.item(), vectors.grad.abs().max(), objective.sparse_weight.grad) == (0.0, 0.0, 0.0)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changed", "setting"),
    [({"train": []}, "train"), ({"mentions": 0}, "mentions"), ({"candidates": 1}, "candidates"), ({"dense_share": 1.5}, "dense_share")]
    + [({name: value}, name) for name in ("temperature", "sparse_rate") for value in (0.0, float("nan"))],
)
def test_wrong_settings_are_named(changed: dict[str, Any], setting: str) -> None:
    with pytest.raises(SapbertError, match=f"E511.*'task.{setting}'"):
        biosyn(**{"train": ["train.txt"], **changed})


# -- training -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    return mesh_kb(tmp_path_factory.mktemp("biosyn") / "kb")


def corpus(path: Path, *lines: str) -> Path:
    blocks = []
    for number, line in enumerate(lines):
        mention, concept = line.split("|", 1)
        blocks.append(f"{number}|t|{mention} {path.stem}\n{number}|a|\n{number}\t0\t{len(mention)}\t{mention}\tDisease\t{concept}\n")
    path.write_text("\n".join(blocks))
    return path


@pytest.fixture
def settings(kb: KnowledgeBase, tiny_base: Path, tmp_path: Path) -> dict[str, Any]:
    train = corpus(tmp_path / "train.txt", "Growth|D009369", "growths|D009369", "sugar disease|D003924", "muscle wasting|D009223", "odd|D000001")
    dev = corpus(tmp_path / "dev.txt", "Tumors|D009369", "sugar-disease|D003924", "other|D000007")
    return {
        "paths.kb": str(kb.path),
        "paths.base": str(tiny_base),
        "paths.out": str(tmp_path / "out"),
        "task.train": [str(train)],
        "task.dev": [str(dev)],
        "task.mentions": 2,
        "task.candidates": 3,
        "training.epochs": 2,
        "training.eval_every": 2,
        "training.log_every": 1,
        "training.learning_rate": 1e-3,
        "training.precision": "fp32",
        "encoder.dropout": 0.0,
    }


def run(settings: dict[str, Any], **more: Any) -> dict[str, Any]:
    return fit.fit(read_recipe(RECIPE, {**settings, **{key.replace("__", "."): value for key, value in more.items()}}))


def test_a_batch_is_mentions_and_the_distinct_names_of_their_candidates(settings: dict[str, Any]) -> None:
    recipe = fit.resolve(read_recipe(RECIPE, settings))
    prepared = recipe.task.prepare(recipe, open_base(settings["paths.base"]))
    prepared.batches(prepared.data, 2).set_epoch(0)
    candidates = prepared.objective.candidates
    candidates.keep(np.array([[0, 2, 4], [4, 2, 1], [0, 1, 2], [0, 1, 2], [0, 1, 2]]), 0)
    assert isinstance(prepared.collator, CandidateCollator)
    batch = prepared.collator([{"mention": 0}, {"mention": 1}])
    tokens = prepared.collator.tokenizer.batch_decode(batch["name_input_ids"], skip_special_tokens=True)
    texts = candidates.names.texts
    assert tokens == ["growth", "growths", *(texts[row] for row in (0, 1, 2, 4))]
    assert batch["label"][:, :, 0].tolist() == [[0, 2, 3], [3, 2, 1]]
    np.testing.assert_allclose(batch["label"][1, :, 1], candidates.sparse_scores(1))
    assert batch["label"][0, :, 2].tolist() == [float(texts[row] in ("neoplasms", "tumors")) for row in (0, 2, 4)]
    assert recipe.task.extent(recipe) == (5, 2, 4)
    assert prepared.report["biosyn"] == {"names": 7, "mentions": 5, "distinct_mentions": 5, "dev_mentions": 3, "documents_in_both": 3}


def test_cached_gradients_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(SapbertError, match=r"E510.*cache_gradients"):
        read_recipe(RECIPE, {**settings, "training.cache_gradients": True})


def test_a_corpus_without_ids_teaches_nothing(settings: dict[str, Any], tmp_path: Path) -> None:
    composite = corpus(tmp_path / "composite.txt", "growth and muscle wasting|D009369+D009223")
    with pytest.raises(SapbertError, match=r"E611.*no mention has a single id"):
        run(settings, task__train=[str(composite)])


@pytest.mark.e2e
def test_a_killed_training_goes_on_to_the_same_weights(settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = run(settings, paths__out=str(tmp_path / "whole"))
    assert report["steps"] == 6  # five mentions: three batches of two, the last filled up, in two epochs
    assert report["before"]["sparse_weight"] == 0.0
    assert 0.001 < abs(report["after"]["sparse_weight"]) < 0.06  # six steps of at most .01, not of .001
    # one of three mentions has no name in the dictionary; "sugar-disease" has one, because training mentions are added
    assert report["after"]["both_at1"] == pytest.approx(66.667)
    with monkeypatch.context() as patch:
        kill_at(5, patch)  # during the second epoch
        with pytest.raises(Killed):
            run(settings)
    corpus(tmp_path / "train.txt", "Growth|D009369", "growths|D009369")
    with pytest.raises(SapbertError, match=r"E514.*train: "):  # the same path with other mentions
        run(settings)
    corpus(tmp_path / "train.txt", "Growth|D009369", "growths|D009369", "sugar disease|D003924", "muscle wasting|D009223", "odd|D000001")
    resumed = run(settings)
    assert resumed["after"] == report["after"]
    whole, other = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "out"))
    assert all(torch.equal(whole[key], other[key]) for key in whole)
    base = load_file(Path(settings["paths.base"]) / "model.safetensors")
    assert any(not torch.equal(whole[key], base[key]) for key in base)
    assert "only vectors" in (tmp_path / "out" / "README.md").read_text()


def test_words_without_a_dev_part() -> None:
    counts = {"names": 7, "mentions": 5, "distinct_mentions": 4, "dev_mentions": 0}
    said = words({"biosyn": counts, "sources": ["train.txt"], "after": {}})
    assert "4 distinct mentions of train.txt (5 with" in said.data
    assert (said.measured, said.tables) == ("", ())
