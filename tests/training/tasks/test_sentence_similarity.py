"""The task of sentence similarity: files of pairs, the losses by hand, and a training that is killed and resumed."""

from __future__ import annotations

import gzip
import json
from math import exp, log
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from trainings import LINES, RECIPE, Killed, kill_at, write

from spacy_sapbert.errors import SapbertError
from training import fit
from training.data.similarity import TextPair
from training.fit import read_recipe, resolve
from training.loop.batches import ShuffledBatches
from training.loop.model import open_base
from training.tasks import sentence_similarity as sts

pytestmark = pytest.mark.usefixtures("one_thread")


# -- files --------------------------------------------------------------------------------------------------------------


def test_three_columns_without_a_head(tmp_path: Path) -> None:
    found = sts.read_scored(write(tmp_path / "stsb.csv", LINES))
    assert found.pairs[0] == TextPair("A man is eating, and drinking.", "A man eats.", 4.2)
    assert len(found.pairs) == 8
    packed = tmp_path / "stsb.csv.gz"
    packed.write_bytes(gzip.compress("\n".join(LINES).encode()))
    assert sts.read_scored(packed) == found


def test_columns_that_the_head_names(tmp_path: Path) -> None:
    lines = ["pair_ID\tsentence_A\tsentence_B\trelatedness_score\tjudgment", '1\tA "dog" runs\tA dog walks\t3.5\tNEUTRAL', "2\ta\tb\t\tNEUTRAL", ""]
    found = sts.read_scored(write(tmp_path / "pairs.tsv", lines), lowest=1, highest=5)
    assert found.pairs == [TextPair('A "dog" runs', "A dog walks", 3.5)]
    assert found.unscored == 1
    lines = ["score,sentence2,sentence1", '2,"two\nlines",one']
    assert sts.read_scored(write(tmp_path / "pairs.csv", lines)).pairs == [TextPair("one", "two lines", 2.0)]


@pytest.mark.parametrize(
    ("lines", "code", "said"),
    [
        ([*LINES, "one,two"], "E526", "line 9 .*has 2 columns, but the first line has 3"),
        ([*LINES, "one,two,five"], "E526", "line 9 .*'five' is not a score from 0 to 5"),
        ([*LINES, "one,two,5.5"], "E526", "'5.5' is not a score from 0 to 5"),
        ([*LINES, "one,two,inf"], "E526", "'inf' is not a score"),
        ([*LINES, " ,two,1"], "E526", "a text is empty"),
        (["text,other"], "E527", "'text other', is neither"),
        ([""], "E527", "it is empty"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, lines: List[str], code: str, said: str) -> None:
    with pytest.raises(SapbertError, match=said) as error:
        sts.read_scored(write(tmp_path / "pairs.csv", lines))
    assert error.value.code == code


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SapbertError, match=r"E527.*nowhere"):
        sts.read_scored(tmp_path / "nowhere.csv")
    (tmp_path / "latin.csv").write_bytes("café,two,1\n".encode("latin-1"))
    with pytest.raises(SapbertError, match="not UTF-8"):
        sts.read_scored(tmp_path / "latin.csv")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"one,two,1\n" * 50)[:30])
    with pytest.raises(SapbertError, match="E527"):
        sts.read_scored(tmp_path / "cut.csv.gz")


# -- losses and batches -------------------------------------------------------------------------------------------------

VECTORS = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])  # cosines .6 (first left, first right) and 0


def test_losses_by_hand() -> None:
    cosine = sts.SimilarityLoss(None, "cosine", 20.0, 25)  # type: ignore[arg-type]
    assert float(cosine.measure(VECTORS, torch.tensor([0.2, 1.0]))) == pytest.approx(((0.6 - 0.2) ** 2 + 1.0**2) / 2)
    cosent = sts.SimilarityLoss(None, "cosent", 10.0, 25)  # type: ignore[arg-type]
    # the second pair should be nearer: log(1 + e^(10 (.6 − 0)))
    assert float(cosent.measure(VECTORS, torch.tensor([0.2, 1.0]))) == pytest.approx(log(1 + exp(6.0)), rel=1e-5)
    assert float(cosent.measure(VECTORS, torch.tensor([1.0, 0.2]))) == pytest.approx(log(1 + exp(-6.0)), rel=1e-4)
    assert cosent.names == 8


def test_correlation_by_hand() -> None:
    class Encodes:
        def encode(self, texts: List[str], **_: Any) -> np.ndarray:
            return np.array([{"a": (1, 0), "b": (0.6, 0.8), "c": (0, 1)}[text] for text in texts], dtype=np.float32)

    pairs = [TextPair("a", "a", 5), TextPair("a", "b", 1), TextPair("a", "c", 3)]  # cosines 1, .6, 0; ranks 3 2 1 against 3 1 2
    assert sts.SimilarityCorrelation(pairs)(Encodes()) == {"sts_spearman": 50.0}


def test_batches_are_full_and_differ_between_epochs() -> None:
    sampler = ShuffledBatches.make(list(range(10)), 4, seed=1, generator=None)
    first, again = list(sampler), list(sampler)
    sampler.set_epoch(1)
    second = list(sampler)
    assert first == again != second
    for batches in (first, second):
        assert [len(batch) for batch in batches] == [4, 4, 4]
        assert {row for batch in batches for row in batch} == set(range(10))


# -- training -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    write(tmp_path / "train.csv", [*LINES, "Snow is white.,,"][:8])
    write(tmp_path / "dev.csv", [LINES[1], "A bird flies.,A bird is in the air.,4.0", "Bread is baked.,A bus stops.,0.2"])
    return write(tmp_path / "sts.cfg", RECIPE.splitlines())


def run(recipe: Path, tiny_base: Path, **more: Any) -> Dict[str, Any]:
    folder = recipe.parent
    places = {
        "paths.out": str(folder / "out"),
        "paths.base": str(tiny_base),
        "task.train": [str(folder / "train.csv")],
        "task.dev": str(folder / "dev.csv"),
    }
    return fit.fit(read_recipe(recipe, {**places, **{key.replace("__", "."): value for key, value in more.items()}}))


@pytest.mark.e2e
def test_a_killed_training_goes_on_to_the_same_weights(recipe: Path, tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = run(recipe, tiny_base, paths__out=str(tmp_path / "whole"))
    with monkeypatch.context() as patch:
        kill_at(3, patch)
        with pytest.raises(Killed):
            run(recipe, tiny_base)
    write(tmp_path / "train.csv", LINES[:6])
    with pytest.raises(SapbertError, match=r"E514.*sts: \["):  # the same path with other pairs
        run(recipe, tiny_base)
    write(tmp_path / "train.csv", LINES)
    assert run(recipe, tiny_base)["steps"] == 4
    whole, resumed = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "out"))
    assert all(torch.equal(whole[key], resumed[key]) for key in whole)
    base = load_file(tiny_base / "model.safetensors")
    assert any(not torch.equal(whole[key], base[key]) for key in base)

    assert report["sts"] == {"pairs": 7, "pairs_in_dev_too": 1, "unscored": 0, "files_not_there": 0, "dev_pairs": 3}
    assert report["names"] == 4 * 8
    assert -100 <= report["after"]["sts_spearman"] <= 100
    card = (tmp_path / "whole" / "README.md").read_text()
    assert "7 pairs of texts with a human score" in card
    assert f"| sentence similarity | {report['before']['sts_spearman']} | {report['after']['sts_spearman']} |" in card
    assert json.loads((tmp_path / "whole" / "training.json").read_text())["settings"]["encoder.max_length"] == 64


@pytest.mark.parametrize(
    ("changed", "code", "said"),
    [
        ({"task.train": []}, "E511", "task.train"),
        ({"task.pairs": 1}, "E511", "task.pairs"),
        ({"task.highest": 0.0}, "E511", "task.highest"),
        ({"task.loss": "cosinus"}, "E510", "cosinus"),
        ({"task.@tasks": "spacy-sapbert.Nothing.v1"}, "E510", "Nothing"),
    ],
)
def test_bad_settings(recipe: Path, changed: Dict[str, Any], code: str, said: str) -> None:
    with pytest.raises(SapbertError, match=said) as error:
        read_recipe(recipe, changed)
    assert error.value.code == code


def test_sections_that_the_task_does_not_read(recipe: Path) -> None:
    recipe.write_text(recipe.read_text() + '\n[loss]\n@losses = "spacy-sapbert.InfoNCE.v1"\n')
    with pytest.raises(SapbertError, match=r"E510.*can't be used: section \[loss\] is not used by this task"):
        read_recipe(recipe)
    recipe.write_text(RECIPE.replace("[task]", "[perturbed]"))
    with pytest.raises(SapbertError, match="E510"):
        read_recipe(recipe)
    recipe.write_text(RECIPE[: RECIPE.index("[task]")] + RECIPE[RECIPE.index("[training]") :])  # without [task], it is self-alignment
    with pytest.raises(SapbertError, match=r"E510.*section \[batches\] is missing"):
        read_recipe(recipe)


def test_pairs_of_one_score_teach_nothing(recipe: Path, tiny_base: Path, tmp_path: Path) -> None:
    write(tmp_path / "train.csv", ["a,b,1", "c,d,1"])
    with pytest.raises(SapbertError, match=r"E527.*two different scores are needed"):
        run(recipe, tiny_base)


def test_each_file_has_its_own_scale_and_a_missing_one_can_be_left_out(tmp_path: Path, tiny_base: Path) -> None:
    """4.2 on a scale from 0 to 5 is 0.84, 2 from 1 to 5 is 0.25, 3 from 0 to 4 is 0.75."""
    files = {"a.csv": ["one,two,4.2"], "b.csv": ["three,four,2"], "c.csv": ["five,six,3"]}
    train = [str(write(tmp_path / name, lines)) for name, lines in files.items()]
    write(tmp_path / "recipe.cfg", [RECIPE.replace('dev = "dev.csv"', "")])

    def prepared(**task: Any) -> Any:
        recipe = resolve(read_recipe(tmp_path / "recipe.cfg", {f"task.{key}": value for key, value in task.items()}))
        return recipe.task.prepare(recipe, open_base(str(tiny_base)))

    found = prepared(train=train, ranges=[[0, 5], [1, 5], [0, 4]])
    assert found.data["score"][:] == pytest.approx([0.84, 0.25, 0.75])
    found = prepared(train=[*train, str(tmp_path / "none.csv")], ranges=[[0, 5], [1, 5], [0, 4], [0, 1]], missing="leave out")
    assert found.data["score"][:] == pytest.approx([0.84, 0.25, 0.75])
    assert found.report["sts"]["files_not_there"] == 1
    for task, code in (
        ({"train": [*train, str(tmp_path / "none.csv")]}, "E527"),
        ({"train": train, "ranges": [[0, 5]]}, "E511"),
        ({"train": train, "ranges": [[0, 5], [5, 1], [0, 4]]}, "E511"),
        ({"train": [str(tmp_path / "none.csv")], "missing": "leave out"}, "E527"),
        ({"train": train, "ranges": [[0, 5], [1, 5], [0, 2]]}, "E526"),  # a score outside of the scale of its file
    ):
        with pytest.raises(SapbertError, match=code):
            prepared(**task)
