"""Self-distillation: weights and targets by hand, the head that is removed, what is held out, and a training that is resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
from trainings import Killed, kill_at

from spacy_sapbert.encoders.transformer import NameEncoder
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.kb.concept import normalise
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from training import fit
from training.data.labels import assign_labels
from training.data.pairs import read_queries
from training.fit import read_recipe
from training.loop import model
from training.tasks import distillation as distill
from training.tasks import targets

pytestmark = pytest.mark.usefixtures("one_thread")
Row = Tuple[int, str, str]
ROWS: List[Row] = [
    (7, "fever", "name"),
    (7, "pyrexia", "synonym"),
    (7, "raised body temperature", "definition"),
    (2, "gout", "name"),
    (2, "podagra", "synonym"),
    (9, "rash", "name"),
    (9, "an eruption", "definition"),
    (9, "a change of the skin", "definition"),
    (9, "a kind of skin finding", "description"),
    (4, "ataxia", "synonym"),
    (4, "a kind of movement disorder", "description"),
]
RECIPE = """
[paths]
out = "out"
base = ""

[encoder]
max_length = 32
dropout = 0.1

[task]
@tasks = "spacy-sapbert.SelfDistillation.v1"
teacher = "teacher"
texts = "texts"
dimensions = 3
size = 4

[training]
max_steps = 4
eval_every = 2
log_every = 1
learning_rate = 1e-3
precision = "fp32"
"""


def write(folder: Path, rows: Sequence[Row]) -> Path:
    folder.mkdir(exist_ok=True)
    columns = [list(column) for column in zip(*rows)]
    pq.write_table(pa.table({"label": pa.array(columns[0], pa.int32()), "text": columns[1], "kind": columns[2]}), folder / "texts.parquet")
    return folder


def read(folder: Path, held: Sequence[str] = (), unseen: Sequence[int] = ()) -> distill.Texts:
    return distill.read_texts(folder / "texts.parquet", set(held), set(unseen))


class Knows:
    """A teacher with two dimensions."""

    width = 2
    vectors = {
        "fever": (1.0, 0.0),
        "raised body temperature": (0.0, 1.0),
        "gout": (0.6, 0.8),
        "podagra": (0.8, 0.6),
        "rash": (-1.0, 0.0),
        "an eruption": (0.0, -1.0),
        "a change of the skin": (0.8, -0.6),
        "ataxia": (0.0, 1.0),
        "a kind of movement disorder": (1.0, 0.0),
    }

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([self.vectors[text] for text in texts], dtype=np.float32)


def test_shares_and_means_by_hand(tmp_path: Path) -> None:
    texts = read(write(tmp_path, ROWS))
    assert texts.text.to_pylist()[:2] == ["gout", "podagra"]  # by label: 2, 4, 7, 9
    share, counts = distill.shares(texts)
    found = dict(zip(texts.text.to_pylist(), share.tolist()))
    assert found == {
        "fever": 0.5,
        "pyrexia": 0.0,  # it is learnt, but is not a part of the target
        "raised body temperature": 0.5,
        "gout": 0.5,  # without a definition, all names are the target
        "podagra": 0.5,
        "rash": 0.5,
        "an eruption": 0.25,
        "a change of the skin": 0.25,
        "a kind of skin finding": 0.0,  # not used, because there are definitions
        "ataxia": 0.5,  # without a name, the synonym is used
        "a kind of movement disorder": 0.5,
    }
    assert counts == {"with_definition": 2, "with_description_alone": 1, "with_names_alone": 1, "without_name": 1}
    means = distill.Means(tmp_path / "means", 2)
    counts = means.write(texts, Knows())
    assert np.allclose(np.concatenate(list(means.chunks())), [[0.7, 0.7], [0.5, 0.5], [0.5, 0.5], [-0.5 + 0.2, -0.25 - 0.15]])
    assert counts["encoded"] == 9


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 100])
def test_means_in_chunks_have_the_components_of_scikit_learn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """The texts of a concept may continue in the next chunk."""
    from sklearn.decomposition import PCA

    monkeypatch.setattr(distill, "CHUNK", chunk)
    chance = np.random.default_rng(0)
    rows = [(label, f"name {i} of {label}", "synonym") for label in range(9) for i in range(1 + label % 4)]

    class Random(Knows):
        width = 4
        vectors = {text: tuple(chance.normal(size=4) + 3) for _, text, _ in rows}  # type: ignore[assignment]

    said = distill.write_targets(tmp_path, read(write(tmp_path, rows)), Random(), 2, False, tmp_path)
    wanted = np.array([np.mean([Random.vectors[text] for of, text, _ in rows if of == label], axis=0) for label in range(9)])
    pca = PCA(2, svd_solver="full").fit(wanted)
    assert np.allclose(np.load(tmp_path / "components.npy"), pca.components_, atol=1e-5)
    assert np.allclose(np.load(tmp_path / "targets.npy"), pca.transform(wanted), atol=1e-5)
    assert said["targets"]["variance_kept"] == pytest.approx(pca.explained_variance_ratio_.sum(), abs=1e-4)
    assert not (tmp_path / "means").exists()


def test_principal_components_by_hand(tmp_path: Path) -> None:
    """The means, except the last, are on a line along (1, 1): they are centred and rotated to the axes of most variance."""
    rows = [(0, "fever", "name"), (1, "gout", "name"), (2, "rash", "name")]

    class OnALine(Knows):
        vectors = {"fever": (2.0, 2.0), "gout": (1.0, 1.0), "rash": (-3.0, -3.0)}

    texts = read(write(tmp_path, rows))
    said = distill.write_targets(tmp_path, texts, OnALine(), 1, False, tmp_path)
    found, mean, components = (np.load(tmp_path / f"{name}.npy") for name in ("targets", "mean", "components"))
    assert np.allclose(mean, [0.0, 0.0], atol=1e-6)
    assert np.allclose(np.abs(components), [[0.5**0.5, 0.5**0.5]], atol=1e-5)
    assert np.allclose(np.abs(found[:, 0]), [8**0.5, 2**0.5, 18**0.5], atol=1e-5)
    assert np.allclose(np.sign(found[:, 0]) * np.sign(found[0, 0]), [1, 1, -1])
    assert said["targets"]["variance_kept"] == 1.0
    distill.write_targets(tmp_path, texts, OnALine(), 1, True, tmp_path)
    white = np.load(tmp_path / "targets.npy")
    assert white.std(ddof=1) == pytest.approx(1.0, abs=1e-5)
    assert np.allclose(np.load(tmp_path / "components.npy") @ np.array([2.0, 2.0]), white[0], atol=1e-5)
    distill.write_targets(tmp_path, texts, OnALine(), 0, False, tmp_path)
    assert np.allclose(np.load(tmp_path / "targets.npy"), [[2, 2], [1, 1], [-3, -3]])
    with pytest.raises(SapbertError, match=r"E511.*task\.dimensions.*3 concepts.*at most 2"):
        distill.write_targets(tmp_path, texts, OnALine(), 3, False, tmp_path)


def test_distance_by_hand() -> None:
    distance = targets.Distance(None, "x", 25)
    assert float(distance.measure(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[0.0, 0.0], [0.0, 1.0]]))) == pytest.approx((1 + 1) / 4)
    assert distance.names == 2


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    folder = write(tmp_path, [*ROWS, (2, "  ", "synonym"), (11, "PODAGRA", "synonym")])
    texts = read(folder, held=["podagra"], unseen=[4])
    assert texts.counts == {"texts": 8, "empty": 1, "held_out": 2, "of_unseen_concepts": 2}
    assert texts.concepts == 3
    assert "podagra" not in [text.lower() for text in texts.text.to_pylist()]
    with pytest.raises(SapbertError, match=r"E611.*none of its 13 rows"):
        read(folder, unseen=[2, 4, 7, 9, 11])


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"label": [1], "text": ["a"]}, "column kind is missing"),
        ({"label": [1], "text": ["a"], "kind": ["nickname"]}, "'nickname' is not one of name, synonym"),
        ({"label": [1, 2], "text": ["a", None], "kind": ["name", "name"]}, "1 rows have no text"),
        ({"label": ["one"], "text": ["a"], "kind": ["name"]}, "E610"),
    ],
)
def test_bad_tables(tmp_path: Path, columns: Dict[str, Any], said: str) -> None:
    pq.write_table(pa.table(columns), tmp_path / "texts.parquet")
    with pytest.raises(SapbertError, match=said) as error:
        read(tmp_path)
    assert error.value.code == "E610"


def test_a_file_that_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(SapbertError, match=r"E610.*no such file"):
        read(tmp_path)
    (tmp_path / "texts.parquet").write_text("label,text,kind\n")
    with pytest.raises(SapbertError, match="E610"):
        read(tmp_path)


# -- training -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def settings(tmp_path: Path, tiny_base: Path) -> Dict[str, Any]:
    """Settings in which teacher and student are the tiny base, and the student gets a head with three dimensions."""
    (tmp_path / "distil.cfg").write_text(RECIPE)
    folder = write(tmp_path / "texts", ROWS)
    return {"paths.out": str(tmp_path / "out"), "paths.base": str(tiny_base), "task.teacher": str(tiny_base), "task.texts": str(folder)}


def run(settings: Dict[str, Any], tmp_path: Path, **more: Any) -> Dict[str, Any]:
    return fit.fit(read_recipe(tmp_path / "distil.cfg", {**settings, **{key.replace("__", "."): value for key, value in more.items()}}))


@pytest.mark.e2e
def test_targets_are_made_once_the_head_is_dropped_and_training_goes_on(
    settings: Dict[str, Any], tmp_path: Path, tiny_base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = run(settings, tmp_path, paths__out=str(tmp_path / "whole"))
    assert report["targets"]["encoded"] == 9
    assert report["texts"]["learnt"] == {"name": 3, "synonym": 3, "definition": 3}
    assert report["names"] == 4 * 4
    assert report["trainable_parameters"] > 0
    assert report["parameters"] - sum(value.numel() for value in load_file(tiny_base / "model.safetensors").values()) == 32 * 3 + 3
    folders = list((tmp_path / "texts").glob("targets-*"))
    assert len(folders) == 1
    assert {path.name for path in folders[0].iterdir()} == {"targets.npy", "mean.npy", "components.npy", "manifest.json"}

    def encoded(*_: Any, **__: Any) -> None:
        raise AssertionError("the targets are there")

    monkeypatch.setattr(targets.Teacher, "encode", encoded)
    with monkeypatch.context() as patch:
        kill_at(3, patch)
        with pytest.raises(Killed):
            run(settings, tmp_path)
    checkpoint = tmp_path / "out.checkpoints" / "checkpoint-2"
    assert load_file(checkpoint / "3_Dense" / "model.safetensors")["linear.weight"].shape == (3, 32)
    run(settings, tmp_path)
    whole, resumed = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "out"))
    assert all(torch.equal(whole[key], resumed[key]) for key in whole)
    assert not list((tmp_path / "out").glob("*Dense*"))
    student = NameEncoder(name=str(tmp_path / "out"), dtype="float32").initialize()
    assert student.get_dim("nO") == 32  # the full width, without the head
    before = NameEncoder(name=str(tiny_base), dtype="float32").initialize()
    assert np.abs(student.predict(["fever"]) - before.predict(["fever"])).max() > 1e-4
    assert "with a definition" in (tmp_path / "out" / "README.md").read_text()


def test_the_distance_falls(settings: Dict[str, Any], tmp_path: Path) -> None:
    more = {"encoder__dropout": 0.0, "task__size": 9, "task__head": "random"}
    run(settings, tmp_path, training__max_steps=40, training__eval_every=40, training__learning_rate=1e-2, **more)
    lines = map(json.loads, (tmp_path / "out" / "train_log.jsonl").read_text().splitlines())
    losses = [line["loss"] for line in lines if "loss" in line]
    assert np.mean(losses[-5:]) < 0.3 * np.mean(losses[:3])


def test_the_head_begins_at_the_regression(tiny_base: Path) -> None:
    opened = model.open_base(str(tiny_base))
    model.add_head(opened, 3)
    chance = np.random.default_rng(1)
    vectors = chance.normal(size=(400, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    weight, bias = chance.normal(size=(3, 32)), np.array([0.5, -1.0, 2.0])
    distill.fit_head(opened, vectors, (vectors @ weight.T + bias).astype(np.float32))
    head: Any = opened[-1]
    # ridge: with variance 1/32 in each direction the weights shrink by 1e-4 / (1/32 + 1e-4), a third of a per cent
    np.testing.assert_allclose(head.linear.weight.detach().numpy(), weight / (1 + 32e-4), atol=5e-3)
    np.testing.assert_allclose(head.linear.bias.detach().numpy(), bias, atol=5e-3)


def test_a_fitted_head_is_nearer_from_the_start(settings: Dict[str, Any], tmp_path: Path) -> None:
    first = {}
    for head in ("fitted", "random"):
        more = {"task__head": head, "paths__out": str(tmp_path / head), "encoder__dropout": 0.0, "task__size": 9}
        run(settings, tmp_path, training__max_steps=1, training__eval_every=1, **more)
        lines = map(json.loads, (tmp_path / head / "train_log.jsonl").read_text().splitlines())
        first[head] = next(line["loss"] for line in lines if "loss" in line)
    assert first["fitted"] < 0.2 * first["random"]


def test_adapters_learn_with_the_head_and_the_best_head_comes_back(settings: Dict[str, Any], tmp_path: Path, tiny_base: Path) -> None:
    opened = model.open_base(str(tiny_base))
    model.freeze(opened, embeddings=True, layers=0)
    model.add_adapter(opened, model.lora(rank=2))
    model.add_head(opened, 3)
    head = {key: value.clone() for key, value in opened[3].state_dict().items()}
    opened.save_pretrained(str(tmp_path / "checkpoint"))
    torch.nn.init.zeros_(opened[3].linear.weight)
    model.load_head(opened, tmp_path / "checkpoint")
    assert torch.equal(opened[3].linear.weight, head["linear.weight"])
    tokens = opened.tokenizer(["fever"], return_tensors="pt")
    found = opened({"input_ids": tokens["input_ids"], "attention_mask": tokens["attention_mask"]})
    assert found[model.HEAD].shape == (1, 3)
    assert found["sentence_embedding"].shape == (1, 32)
    assert len(model.without_head(opened)) == 3
    assert len(opened) == 4


def test_held_out_synonyms_are_measured_and_not_learnt(settings: Dict[str, Any], tiny_kb: KnowledgeBase, tiny_pairs: Path, tmp_path: Path) -> None:
    queries = read_queries(tiny_pairs)
    labels, _ = assign_labels(tiny_kb)
    rows = [(int(labels[row]), name, "name") for row, _, name in tiny_kb.canonical_names()]
    rows += [(query.label, query.query, "synonym") for query in queries]
    write(tmp_path / "texts", rows)
    unseen = {query.label for query in queries if query.split == "zero_shot"}
    (tmp_path / "texts" / "manifest.json").write_text(f'{{"kb": "{tiny_kb.fingerprint}", "sources": ["tiny"]}}')
    report = run(settings, tmp_path, paths__pairs=str(tiny_pairs), paths__kb=str(tiny_kb.path), training__max_steps=2)
    assert report["texts"]["held_out"] >= len(queries)
    assert report["texts"]["of_unseen_concepts"] > 0
    held = {query.query for query in queries}
    assert report["texts"]["concepts"] == len({label for label, text, _ in rows if normalise(text) not in held} - unseen)
    assert 0 <= report["after"]["held_out_at1"] <= 100
    assert report["sources"] == ["tiny"]
    (tmp_path / "texts" / "manifest.json").write_text('{"kb": "another"}')
    with pytest.raises(SapbertError, match="another knowledge base"):
        run(settings, tmp_path, paths__pairs=str(tiny_pairs), paths__kb=str(tiny_kb.path))


@pytest.mark.parametrize(
    ("changed", "code", "said"),
    [
        ({"task.kinds": ["nickname"]}, "E511", "task.kinds"),
        ({"task.kinds": []}, "E511", "task.kinds"),
        ({"task.size": 0}, "E511", "task.size"),
        ({"task.head": "new"}, "E511", "task.head"),
        ({"task.dimensions": 0, "task.whiten": True}, "E511", "task.whiten"),
        ({"paths.pairs": "pairs"}, "E510", "both paths.pairs and paths.kb"),
        ({"task.teacher": "no/such/folder"}, "E512", "no/such/folder"),
        ({"task.texts": "nowhere"}, "E610", "nowhere"),
        ({"task.dimensions": 33}, "E511", "at most 3"),
    ],
)
def test_bad_settings(
    settings: Dict[str, Any], tmp_path: Path, changed: Dict[str, Any], code: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(SapbertError, match=said) as error:
        run({**settings, **changed}, tmp_path)
    assert error.value.code == code
