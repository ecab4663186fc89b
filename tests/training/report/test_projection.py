"""The projection: which concepts are drawn, the plane, pairs of a batch before and after mining, and the command."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.kb.builder import Source, build_kb
from spacy_sapbert.kb.concept import Concept, Name
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from training.data import pairs as pairs_module
from training.loop.batches import concept_batches
from training.loop.mining import make_hard_triplets, make_no_mining
from training.report import projection

WORDS = ("renal", "cardiac", "hepatic", "gastric")
KINDS = ("failure", "cancer", "pain", "stone", "cyst")
ALSO = ("", " of adults", " of children", ", acute", ", chronic", ", severe", ", mild", ", unspecified", " (disorder)")


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    """A knowledge base with twenty concepts of nine names, and one with two."""
    concepts = [
        Concept(f"C{i:07d}", "T", [Name(f"{word} {kind}{also}", "T") for also in ALSO])
        for i, (word, kind) in enumerate((word, kind) for word in WORDS for kind in KINDS)
    ]
    folder = tmp_path_factory.mktemp("projection") / "kb"
    return build_kb([Source("test", [*concepts, Concept("C0000099", "T", [Name("fever", "T"), Name("pyrexia", "T")])])], folder)


@pytest.fixture(scope="module")
def folder(kb: KnowledgeBase, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("projection") / "pairs"
    pairs_module.build_pairs(kb, out, held_out=0, zero_shot=0)
    return out


def test_families_of_concepts_with_enough_names(kb: KnowledgeBase, folder: Path) -> None:
    drawn, where = projection.choose_concepts(kb, folder, seed=1, count=6, families=2)
    assert where == "concepts of which training saw most names"
    assert len({one.title for one in drawn}) == 6
    assert all(len(one.names) == 9 for one in drawn)  # not fever, which has two names
    for family in (drawn[:3], drawn[3:]):
        words = [set(one.title.lower().split()) for one in family]
        assert all(words[0] & other for other in words[1:])  # they share the organ or the kind with the first
    assert projection.choose_concepts(kb, folder, seed=1, count=6, families=2)[0] == drawn
    assert projection.choose_concepts(kb, folder, seed=2, count=6, families=2)[0] != drawn


def test_concepts_kept_out_of_training_first(kb: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs_module.build_pairs(kb, tmp_path / "pairs", held_out=0, zero_shot=0.4)
    unseen = {query.label for query in pairs_module.read_queries(tmp_path / "pairs")}
    monkeypatch.setattr(projection, "ENOUGH", 5)
    drawn, where = projection.choose_concepts(kb, tmp_path / "pairs", count=5, families=1)
    assert where == "concepts kept out of training"
    labels = pairs_module.read_labels(tmp_path / "pairs")
    rows = {kb.entity(row).canonical_name: int(labels[row]) for row in range(len(kb))}
    assert {rows[one.title] for one in drawn} <= unseen


def test_too_few_concepts(kb: KnowledgeBase, folder: Path) -> None:
    with pytest.raises(SapbertError, match=r"\[E580\].*20 concepts have 8 to 30 names that no other concept has, 21 are needed"):
        projection.choose_concepts(kb, folder, count=21)


def test_the_plane_is_the_same_for_a_seed_and_keeps_neighbours() -> None:
    chance = np.random.default_rng(0)
    vectors = np.concatenate([chance.normal(centre, 0.05, (15, 8)) for centre in (np.eye(8)[0], np.eye(8)[1])]).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    places = np.array(projection.in_plane(vectors, seed=3))
    assert places.shape == (30, 2)
    assert projection.in_plane(vectors, seed=3) == [tuple(place) for place in places.tolist()]
    nearest = np.argsort(((places[:, None] - places[None]) ** 2).sum(axis=2), axis=1)[:, 1]
    assert ((nearest < 15) == (np.arange(30) < 15)).all()


# three names in the plane: 0 and 1 of one label, 60 degrees apart; 2 of another, at 90 degrees from 0 and 30 from 1
ANGLES = np.radians([0.0, 60.0, 90.0])
VECTORS = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1).astype(np.float32)
LABELS = np.array([5, 5, 9], dtype=np.int64)


def as_lists(found: projection.Pairs) -> List[List[int]]:
    return np.stack(found, axis=1).tolist()


def test_all_pairs_of_a_batch() -> None:
    positive, negative = projection.all_pairs(LABELS)
    assert as_lists(positive) == [[0, 1]]
    assert as_lists(negative) == [[0, 2], [1, 2]]


def test_mining_keeps_each_pair_of_a_hard_triplet_once() -> None:
    # distances: 0-1 1.0, 0-2 1.414, 1-2 0.518; with margin 0.2 (0, 1, 2) is not hard (0.414 farther), (1, 0, 2) is
    positive, negative = projection.mined_pairs(VECTORS, LABELS, make_hard_triplets(0.2))
    assert as_lists(positive) == [[0, 1]]
    assert as_lists(negative) == [[1, 2]]
    _, negative = projection.mined_pairs(VECTORS, LABELS, make_hard_triplets(0.5))
    assert as_lists(negative) == [[0, 2], [1, 2]]
    for mine, every in zip(projection.mined_pairs(VECTORS, LABELS, make_no_mining()), projection.all_pairs(LABELS)):
        assert as_lists(mine) == as_lists(every)


def test_pairs_are_counted_in_bins_of_their_cosine() -> None:
    counted = projection.counts(VECTORS, projection.all_pairs(LABELS))  # cosines: 0.5; 0.0 and 0.866
    middles = (projection.EDGES[1:] + projection.EDGES[:-1]) / 2
    assert counted.sum(axis=1).tolist() == [1, 2]
    assert abs(middles[counted[0] > 0] - 0.5) <= 0.0251
    assert np.abs(middles[counted[1] > 0] - [0.0, 0.866]).max() <= 0.0251
    opposite = np.array([[1.0, 0.0], [-1.0, 0.0]], dtype=np.float32)
    assert projection.counts(opposite, projection.all_pairs(np.array([1, 2])))[1][0] == 1  # a cosine below the lowest edge of the bins


def test_batches_are_those_of_training(folder: Path) -> None:
    found = projection.draw_batches(folder, concept_batches(pairs=4), names=10)
    assert sum(map(len, found)) >= 10
    assert sum(map(len, found[:-1])) < 10
    assert all(len(set(batch.values())) == 4 for batch in found)  # a concept is in a batch only once


def test_recipes(tmp_path: Path) -> None:
    made, miner, said = projection.recipe_of("")
    assert (made.pairs, miner.miner.margin) == (128, 0.2)
    assert "no recipe" in said
    recipe = (Path(__file__).parents[3] / "training" / "configs" / "sap_small.cfg").read_text(encoding="utf-8")
    (tmp_path / "recipe.cfg").write_text(recipe, encoding="utf-8")
    made, miner, said = projection.recipe_of(str(tmp_path))
    assert (made.pairs, made.near, miner.miner.margin) == (128, 7, 0.2)
    assert "without mining" in said


def test_the_command(kb: KnowledgeBase, folder: Path, tiny_base: Path, tmp_path: Path, command: Any) -> None:
    out = tmp_path / "projection.json"
    given = ["--before", str(tiny_base), "--after", str(tiny_base), "--kb", str(kb.path), "--pairs", str(folder), "--out", str(out)]
    command("projection", given)
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["kind"] == "projection"
    assert len(found["concepts"]) == 12
    assert [point["concept"] for point in found["points"]] == [i for i in range(12) for _ in range(9)]
    assert found["points"][0]["before"] == found["points"][0]["after"]  # before and after are the same encoder
    pairs = found["pairs"]
    assert pairs["before"] == pairs["after"]
    assert 0 < sum(pairs["mined"]["negative"]) <= sum(pairs["before"]["negative"])
    assert len(pairs["edges"]) == len(pairs["before"]["positive"]) + 1
    assert "no recipe" in pairs["note"]
    with pytest.raises(SapbertError, match=re.escape("[E581]")):
        command("projection", [*given, "--seed", "-1"])


def test_a_small_knowledge_base_gives_no_picture_and_says_so(tmp_path: Path, command: Any) -> None:
    names = [Name("fever", "T"), Name("pyrexia", "T")]
    small = build_kb(
        [Source("test", [Concept("C0000099", "T", names), Concept("C0000098", "T", [Name("cough", "T"), Name("tussis", "T")])])], tmp_path / "kb"
    )
    pairs_module.build_pairs(small, tmp_path / "pairs")
    out = tmp_path / "projection.json"
    shown = command("projection", ["--kb", str(small.path), "--pairs", str(tmp_path / "pairs"), "--out", str(out)])
    assert json.loads(out.read_text())["absent"] == shown.strip()
    assert "concepts have 8 to 30 names that no other concept has, 12 are needed" in shown
    assert "[E" not in shown  # this is not an error


def test_pairs_of_another_knowledge_base(folder: Path, tmp_path: Path) -> None:
    other = build_kb([Source("test", [Concept("C0000099", "T", [Name("fever", "T"), Name("pyrexia", "T")])])], tmp_path / "kb")
    with pytest.raises(SapbertError, match=r"\[E549\]"):
        projection.project("", "", other, folder)
