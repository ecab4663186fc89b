"""The training of the static encoder: its data, its gradient, and that it learns which names belong to one concept."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from trainings import command

from spacy_sapbert.encoders.static import StaticEncoder, WordParts
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from training.data.pairs import ZERO_SHOT, build_pairs, read_labels, read_queries
from training.loop.encoders import load_encoder
from training.loop.static import (
    NEAREST,
    AddUp,
    Ints1d,
    Material,
    StaticSettings,
    choose_words,
    fit,
    neighbours,
    project,
    read_material,
    rotate,
    teach,
    write_folder,
)
from training.made import stamp_of

SMALL = StaticSettings(dim=8, words=50, buckets=64, epochs=60, batch=8, learning_rate=0.05, distil=0.0, augmented=0.0, modified=0.0)
NAMES = ["heart attack", "myocardial infarction", "fever", "pyrexia", "renal stone", "kidney calculus", "cough", "tussis"]
MATERIAL = Material(NAMES, np.array([0, 0, 1, 1, 2, 2, 3, 3]))


def test_words_are_the_frequent_ones() -> None:
    names = ["renal stone", "renal renal cyst", "stone", "gall-stone", "cyst"]
    assert choose_words(names, 10) == ["stone", "cyst", "renal"]  # by number of names, then alphabetically; "gall" is in only one name
    assert choose_words(names, 1) == ["stone"]
    # words that have a row keep it and its place, even if they are rare
    assert choose_words(names, 2, ["fever", "cyst"]) == ["fever", "cyst"]
    assert choose_words(names, 3, ["fever", "cyst"]) == ["fever", "cyst", "stone"]


def test_projection_keeps_cosines() -> None:
    chance = np.random.default_rng(0)
    vectors = (chance.normal(size=(200, 3)) @ chance.normal(size=(3, 6))).astype(np.float32)  # three directions in six dimensions
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    made = project(vectors, 3)
    np.testing.assert_allclose(made @ made.T, vectors @ vectors.T, atol=1e-5)


def test_rotation_turns_vectors_back() -> None:
    vectors = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))
    np.testing.assert_allclose(rotate((vectors @ turn).astype(np.float32), vectors), vectors, atol=1e-5)
    # a quarter turn, and the same lengths as before
    np.testing.assert_allclose(rotate(np.array([[0, 2], [-3, 0]], dtype=np.float32), np.eye(2, dtype=np.float32)), [[2, 0], [0, 3]], atol=1e-6)


def test_the_gradient_is_torchs_own() -> None:
    rows, starts = [0, 2, 2, 1, 3], [0, 3, 3]  # the second bag is empty
    tables = [torch.nn.Parameter(torch.arange(12.0).reshape(4, 3)) for _ in range(2)]
    weights = torch.tensor([[1.0, 2.0, 3.0], [9.0, 9.0, 9.0], [0.5, -1.0, 2.0]])
    ours = AddUp.apply(tables[0], rows, starts)
    theirs = torch.nn.functional.embedding_bag(torch.tensor(rows), tables[1], torch.tensor(starts), mode="sum")
    assert torch.equal(ours, theirs)
    for sums in (ours, theirs):
        (sums * weights).sum().backward()
    assert torch.allclose(tables[0].grad, tables[1].grad)


def test_it_learns_synonyms_the_same_for_the_same_seed(tmp_path: Path) -> None:
    words = choose_words([*NAMES, *NAMES], 50)
    nothing = np.zeros((len(NAMES), SMALL.dim), dtype=np.float32)
    table = fit(MATERIAL, nothing, words, SMALL)
    assert torch.equal(table, fit(MATERIAL, nothing, words, SMALL))
    write_folder(table, words, SMALL, tmp_path / "out")
    vectors = StaticEncoder(str(tmp_path / "out")).initialize().predict(NAMES)
    cosines = vectors @ vectors.T - 2 * np.eye(len(NAMES))
    assert cosines.argmax(axis=1).tolist() == [1, 0, 3, 2, 5, 4, 7, 6]
    # eight bits for each number are accurate enough
    parts = WordParts({"shortest": 3, "longest": 5, "buckets": SMALL.buckets}, "\n".join(words).encode())
    exact = torch.nn.functional.normalize(parts.sums(NAMES, 100, table), dim=1).numpy()
    assert (exact * vectors).sum(axis=1).min() > 0.999


def test_neighbours_by_hand() -> None:
    angles = torch.tensor([0.0, 0.1, 0.3, 1.0])
    vectors = torch.stack([angles.cos(), angles.sin()], dim=1)
    assert neighbours(vectors, np.arange(4)).tolist() == [[1, 2, 3], [0, 2, 3], [1, 0, 3], [2, 1, 0]]
    assert neighbours(vectors, np.array([3, 1])).tolist() == [[2, 1, 0], [0, 2, 3]]
    assert neighbours(torch.eye(40), np.arange(2)).shape == (2, NEAREST)


@pytest.mark.parametrize("hard", [0.5, 1.0])
def test_neighbours_are_negatives_of_each_other(hard: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty concepts of two names each; from the second epoch on, a batch holds groups of a concept and its neighbours."""
    names = [f"{word} {number}" for number in range(50) for word in ("alpha", "beta")]
    material = Material(names, np.repeat(np.arange(50), 2))
    asked: list[tuple[int, int]] = []

    def watched(vectors: torch.Tensor, rows: Ints1d) -> Ints1d:
        asked.append((len(vectors), len(rows)))
        return neighbours(vectors, rows)

    monkeypatch.setattr("training.loop.static.neighbours", watched)
    settings = SMALL._replace(epochs=3, batch=10, hard=hard)
    nothing, words = np.zeros((len(names), SMALL.dim), dtype=np.float32), choose_words(names, 50)
    table = fit(material, nothing, words, settings)
    grouped = 1 if hard < 1 else 2  # a share `hard` of ten concepts, in groups of four
    assert asked == [(50, grouped)] * 10  # in the five steps of the second and of the third epoch
    assert torch.equal(table, fit(material, nothing, words, settings))
    assert not torch.equal(table, fit(material, nothing, words, settings._replace(hard=0.0)))
    assert len(asked) == 20


def test_a_single_concept_has_no_neighbours() -> None:
    names = ["alpha", "beta"]
    nothing, words = np.zeros((2, SMALL.dim), dtype=np.float32), choose_words(names, 50)
    settings = SMALL._replace(epochs=50, batch=10)
    tables = [fit(Material(names, np.zeros(2, dtype=np.int64)), nothing, words, settings._replace(hard=hard)) for hard in (0.5, 0.0)]
    assert torch.equal(*tables)


def test_it_learns_its_teachers_vectors() -> None:
    of_concepts = np.random.default_rng(1).normal(size=(len(NAMES) // 2, 8)).astype(np.float32)
    targets = project(np.repeat(of_concepts, 2, axis=0), 8)
    words = choose_words([*NAMES, *NAMES], 50)
    parts = WordParts({"shortest": 3, "longest": 5, "buckets": SMALL.buckets}, "\n".join(words).encode())

    def closeness(distil: float) -> float:
        table = fit(MATERIAL, targets, words, SMALL._replace(distil=distil))
        vectors = torch.nn.functional.normalize(parts.sums(NAMES, 100, table), dim=1).numpy()
        return float((vectors * targets).sum(axis=1).mean())

    assert closeness(50.0) > 0.7
    assert abs(closeness(0.0)) < 0.4


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory, tiny_kb: KnowledgeBase) -> Path:
    folder = tmp_path_factory.mktemp("static") / "pairs"
    build_pairs(tiny_kb, folder, held_out=0.1, zero_shot=0.1)
    return folder


def test_what_is_held_out_is_not_seen(tiny_linker: Path, tiny_kb: KnowledgeBase, pairs: Path) -> None:
    material = read_material(tiny_linker / "kb", pairs)
    queries, labels = read_queries(pairs), read_labels(pairs)
    kept_out = {query.label for query in queries if query.split == ZERO_SHOT}
    assert queries
    assert kept_out
    seen = set(material.names)
    assert not seen & {query.query for query in queries}
    barred = {
        tiny_kb.surface_forms_at([int(string)])[0]
        for string, concept in zip(tiny_kb.name_table.surface_form, tiny_kb.name_table.concept)
        if labels[concept] in kept_out
    }
    assert barred
    assert not seen & barred
    assert len(seen) == tiny_kb.n_surface_forms - len(barred | {query.query for query in queries})
    assert not set(material.labels[material.labels >= 0].tolist()) & kept_out


def test_a_teachers_vectors_are_kept(tiny_base: Path, tmp_path: Path) -> None:
    kept = tmp_path / "new" / "vectors.npy"
    first = teach(MATERIAL, str(tiny_base), 3, 2, seed=0, kept=kept)
    order = np.random.default_rng(0).permutation(len(NAMES))[:3]
    assert sorted(np.flatnonzero(first.any(axis=1)).tolist()) == sorted(order.tolist())
    np.testing.assert_allclose(np.linalg.norm(first[order], axis=1), 1.0, atol=1e-5)
    assert [path.name for path in sorted(kept.parent.iterdir())] == ["vectors.npy", "vectors.npy.made"]  # and no temporary file

    np.save(kept, np.load(kept)[::-1])  # the stamp matches, so the file is read, and nothing is encoded again
    turned = teach(MATERIAL, str(tiny_base), 3, 2, seed=0, kept=kept)
    assert not np.allclose(turned, first)
    stamp_of(kept).unlink()  # without a stamp it is not known what the file was made from, so the names are encoded again
    np.testing.assert_array_equal(teach(MATERIAL, str(tiny_base), 3, 2, seed=0, kept=kept), first)
    assert stamp_of(kept).is_file()
    np.testing.assert_array_equal(teach(MATERIAL, str(tiny_base), 3, 2, seed=0, kept=kept), first)


def test_vectors_of_another_teacher_or_of_other_names_are_refused(tiny_base: Path, tmp_path: Path) -> None:
    kept, teacher = tmp_path / "vectors.npy", tmp_path / "teacher"
    shutil.copytree(tiny_base, teacher)
    teach(MATERIAL, str(teacher), 3, 2, seed=0, kept=kept)
    with pytest.raises(SapbertError, match=r"E511.*names"):
        teach(MATERIAL, str(teacher), 3, 2, seed=1, kept=kept)
    state = load_file(teacher / "model.safetensors")
    state = {key: value + 0.5 for key, value in state.items()}
    save_file(state, teacher / "model.safetensors", {"format": "pt"})  # the same folder, other weights
    with pytest.raises(SapbertError, match=r"E511.*teacher"):
        teach(MATERIAL, str(teacher), 3, 2, seed=0, kept=kept)


def test_the_command(tiny_linker: Path, pairs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "README.md").write_text("a card")
    arguments = ["static", tiny_linker / "kb", pairs, out, "--taught", 0, "--distil", 0, "--dim", 8, "--buckets", 64, "--epochs", 2]
    ended = command(*arguments)
    assert ended.exit_code == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert (report["dim"], report["seed"], report["taught"]) == (8, 0, 0)
    assert (out / "README.md").read_text() == "a card"
    assert load_encoder(str(out)).predict(["fever"]).shape == (1, 8)
    assert load_encoder("fast").predict(["fever"]).shape == (1, StaticSettings().dim)  # the encoder of the package was made with the defaults
    ended = command(*arguments, "--batch", 1)
    assert ended.exit_code == 1
    assert "E511" in ended.stderr


def test_training_goes_on_from_an_earlier_encoder(tiny_linker: Path, tiny_base: Path, pairs: Path, tmp_path: Path) -> None:
    shape = ["--dim", 8, "--buckets", 64, "--teacher", tiny_base, "--taught", 40]
    assert command("static", tiny_linker / "kb", pairs, tmp_path / "first", *shape, "--words", 10, "--epochs", 20).exit_code == 0
    from_it = [*shape, "--start", tmp_path / "first", "--words", 15]
    still = command("static", tiny_linker / "kb", pairs, tmp_path / "still", *from_it, "--epochs", 1, "--learning-rate", 1e-9)
    assert still.exit_code == 0, still.stderr
    more = command("static", tiny_linker / "kb", pairs, tmp_path / "more", *from_it, "--epochs", 3, "--learning-rate", 1e-3)
    assert more.exit_code == 0, more.stderr
    words = [(tmp_path / folder / "words.txt").read_text().split("\n") for folder in ("first", "more")]
    assert (len(words[0]), len(words[1])) == (10, 15)
    assert words[1][:10] == words[0]

    names = [*words[0], "unheard-of word"]  # also a word that has only its n-grams
    first, same, moved = (StaticEncoder(str(tmp_path / folder)).initialize().encode(names) for folder in ("first", "still", "more"))
    np.testing.assert_allclose((first * same).sum(axis=1), 1.0, atol=1e-3)  # eight bits for each number
    near = (first * moved).sum(axis=1)
    assert 0.9 < near.mean() < 0.9999  # the vectors have changed, and are still in the same space

    other = command("static", tiny_linker / "kb", pairs, tmp_path / "other", *from_it, "--dim", 4)
    assert other.exit_code == 1
    assert "E511" in other.stderr
    assert "the encoder of --start has 8" in other.stderr
    assert not (tmp_path / "other").exists()
    missing = command("static", tiny_linker / "kb", pairs, tmp_path / "other", *shape, "--start", tmp_path / "none")
    assert "E301" in missing.stderr
