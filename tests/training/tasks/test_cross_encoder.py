"""The task of the cross-encoder: its loss by hand, its batches, its files, and a training."""

from __future__ import annotations

import json
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_encoders import make_bert

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.ranking.pairs import AGREEMENT, pair_text
from training import fit
from training.fit import read_recipe
from training.loop.model import open_base
from training.tasks.cross_encoder import PRIOR, RIGHT, Agreement, Call, FirstRight, PairCollator, cross_encoder, priors, read_calls, shortened

pytestmark = pytest.mark.usefixtures("one_thread")
RECIPE = Path(__file__).parents[3] / "training" / "configs" / "cross_encoder.cfg"
HEART = Call(
    "heart failure", [["cardiac failure", "failure heart"], ["fever"], ["heart"]], [[0.8, 0.5], [0.9, 0.1], [0.7, 0.2]], [True, False, False]
)
FEVER = Call("feverish", [["heart"], ["fever", "fevers"]], [[0.6, 0.6], [0.5, 0.6]], [False, True])


def test_the_loss_by_hand() -> None:
    """Logits: 2 · cosine + prior. First mention: 2 · 0.6 + 1 = 2.2 (right), 2 · 0 + 2 = 2. Second: 2 · 1 + 0.5 = 2.5 (right), 2 · 0.8 + 1 = 2.6, and a gap."""
    vectors = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [1.0, 0.0], [0.8, 0.6]], requires_grad=True)
    labels = torch.tensor([[[1.0, 1], [2.0, 0]], [[0.5, 1], [1.0, 0]]])
    labels = torch.cat([labels, torch.tensor([[[-torch.inf, 0.0]], [[-torch.inf, 0.0]]])], dim=1)  # both mentions have two of three places
    objective = Agreement(None, scale=2.0)
    loss = objective.measure(vectors, labels)
    assert loss.item() == pytest.approx((log(1 + exp(2.0 - 2.2)) + log(1 + exp(2.6 - 2.5))) / 2, rel=1e-5)
    loss.backward()
    assert vectors.grad is not None
    assert torch.isfinite(vectors.grad).all()
    assert objective.names == 5


def test_a_batch_has_the_fixed_text_and_the_pairs(tmp_path: Path) -> None:
    tokenizer = open_base(str(make_bert(tmp_path / "bert"))).tokenizer
    batch = PairCollator(tokenizer, 64, [FEVER, HEART], [2.0, 10.0])([{"call": 1}, {"call": 0}])
    assert batch["label"].shape == (2, 3, 2)
    assert batch["label"][0, :, PRIOR].tolist() == pytest.approx([1.6 + 5.0, 1.8 + 1.0, 1.4 + 2.0])
    assert batch["label"][1, :, PRIOR].tolist() == pytest.approx([1.2 + 6.0, 1.0 + 6.0, -torch.inf])
    assert batch["label"][:, :, RIGHT].tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    texts = [AGREEMENT, pair_text("heart failure", HEART.names[0]), pair_text("heart failure", ["fever"]), pair_text("heart failure", ["heart"])]
    expected = [tokenizer(text)["input_ids"] for text in texts]
    found = [ids[mask.bool()].tolist() for ids, mask in zip(batch["name_input_ids"], batch["name_attention_mask"])]
    assert found[:4] == expected
    assert len(found) == 6


def test_the_right_candidate_stays_when_a_mention_is_shortened() -> None:
    assert shortened(HEART, 2) == Call("heart failure", HEART.names[:2], HEART.scores[:2], [True, False])
    late = HEART._replace(right=[False, False, True])
    assert shortened(late, 2) == Call("heart failure", [HEART.names[0], HEART.names[2]], [HEART.scores[0], HEART.scores[2]], [False, True])
    assert shortened(HEART._replace(right=[False] * 3), 2).right == [False, False]
    defined = late._replace(around="no [MASK]", definitions=["a", "b", "c"])
    assert shortened(defined, 2)[4:] == ("no [MASK]", ["a", "c"])
    assert priors(FEVER, [1.0, 0.0]) == [0.6, 0.5]


def test_the_figures_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """By scores alone "fever" is first for the first mention (wrong), "heart" for the second (wrong); by the cosines the right ones are."""
    vectors = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.6, 0.8], [0.8, 0.6], [0.0, 1.0]])
    monkeypatch.setattr("training.tasks.cross_encoder.encode", lambda model, texts: vectors[: len(texts)])
    lost = Call("pain", [["fever"]], [[0.9, 0.9]], [False])
    assert FirstRight([HEART, FEVER, lost], 0.1, [1.0, 0.0])(None) == {"both_at1": 33.333, "scores_at1": 0.0, "agreement_at1": 66.667}


def write(path: Path, *calls: Any) -> Path:
    path.write_text("".join(json.dumps(call._asdict() if isinstance(call, Call) else call) + "\n" for call in calls))
    return path


def test_files_are_read_and_refused(tmp_path: Path) -> None:
    assert read_calls(write(tmp_path / "good.jsonl", HEART, FEVER)) == [HEART, FEVER]
    with pytest.raises(SapbertError, match=r"\[E611\].*no such file"):
        read_calls(tmp_path / "none.jsonl")
    with pytest.raises(SapbertError, match=r"\[E611\].*no mention"):
        read_calls(write(tmp_path / "empty.jsonl"))
    with pytest.raises(SapbertError, match=r"\[E611\].*line 2 is no mention"):
        read_calls(write(tmp_path / "bad.jsonl", HEART, {"mention": "x"}))
    with pytest.raises(SapbertError, match=r"\[E611\].*line 1 has 3 candidates, 3 scores, 1 marks and 0 definitions"):
        read_calls(write(tmp_path / "short.jsonl", HEART._replace(right=[True])))
    with pytest.raises(SapbertError, match=r"\[E611\].*line 1 has 3 candidates, 3 scores, 3 marks and 1 definitions"):
        read_calls(write(tmp_path / "defined.jsonl", HEART._replace(definitions=["x"])))
    with pytest.raises(SapbertError, match=r"\[E611\].*right candidate and a wrong one"):
        cross_encoder(str(write(tmp_path / "all.jsonl", HEART._replace(right=[True] * 3)))).extent(None)  # type: ignore[arg-type]
    with pytest.raises(SapbertError, match=r"\[E511\].*score_weights"):
        cross_encoder(str(tmp_path / "good.jsonl"), score_weights=[1.0]).extent(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "setting"), [({"train": ""}, "train"), ({"mentions": 0}, "mentions"), ({"candidates": 1}, "candidates"), ({"scale": 0.0}, "scale")]
)
def test_wrong_settings(changed: dict[str, Any], setting: str) -> None:
    with pytest.raises(SapbertError, match=rf"\[E511\].*task\.{setting}"):
        cross_encoder(**{"train": "calls.jsonl", **changed})


def test_a_training_learns_which_candidate_is_right(tmp_path: Path) -> None:
    """The scores alone put the wrong candidate first in both mentions; after the training, the right one is first."""
    calls = write(tmp_path / "calls.jsonl", *[HEART, FEVER] * 8)
    overrides = {
        "paths.out": str(tmp_path / "out"), "paths.base": str(make_bert(tmp_path / "bert")), "task.train": str(calls), "task.dev": str(calls),
        "task.mentions": 4, "task.score_weights": [1.0, 0.0], "encoder.dropout": 0.0, "training.epochs": 10, "training.learning_rate": 5e-3,
        "training.processes": 1, "training.precision": "fp32", "training.eval_every": 20,
    }  # fmt: skip
    report = fit.fit(read_recipe(RECIPE, overrides))
    assert report["before"]["scores_at1"] == 0.0
    assert report["after"]["both_at1"] == 100.0
    assert (tmp_path / "out" / "README.md").read_text().count("cross-encoder")
