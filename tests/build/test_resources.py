"""Estimates of disk and memory for a build: compared with what is written, and refused if there is too little."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spacy_sapbert.build import linker as building
from spacy_sapbert.build import resources
from spacy_sapbert.build.resources import ResourceEstimate, engine_bytes, estimate_resources, free_memory
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.indexes.annoy import AnnoyIndex
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.indexes.faiss import FaissIndex
from spacy_sapbert.indexes.usearch import UsearchIndex

ENGINES = [
    AnnoyIndex(),
    AnnoyIndex(pca=32),
    UsearchIndex(),
    UsearchIndex(dtype="f32"),
    UsearchIndex(dtype="i8", pca=64),
    FaissIndex(),
    FaissIndex(factory="IVF16,SQ8"),
    FaissIndex(factory="HNSW16,SQ8", pca=64),
]


@pytest.mark.parametrize("index", ENGINES, ids=lambda index: f"{type(index).__name__}-{index.pca}")
def test_the_bytes_of_an_engine_are_those_of_its_file(index: Any, tmp_path: Path) -> None:
    n, dim = 3_000, 128
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((n, 24), dtype=np.float32) @ rng.standard_normal((24, dim), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    estimated = engine_bytes(index, dim) * n
    index.build(vectors)
    index.to_disk(tmp_path)
    written = sum(file.stat().st_size for file in tmp_path.iterdir() if file.name not in ("vectors.npy", "projection.npy", "manifest.json"))
    assert 0.8 < estimated / written < 1.35, (estimated, written)


@pytest.mark.parametrize(
    ("factory", "size"),
    [("Flat", 1536), ("IVF4096,PQ64", 64), ("OPQ64,IVF4096,PQ64x4fs", 32), ("IVF256,SQfp16", 768), ("HNSW32,SQ4", 192 + 8 * 32 + 16), ("SQ8", 384)],
)
def test_faiss_by_its_factory(factory: str, size: int) -> None:
    assert engine_bytes(FaissIndex(factory), 384) == size + 8  # plus the number of the row


def test_the_sum_by_hand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(resources, "free_memory", lambda: 24_000_000_000)
    index = UsearchIndex(dtype="i8", pca=128, rescore=100)
    monkeypatch.setattr(resources, "resident", lambda: 500_000_000)
    given = {"kb_bytes": 3_000_000_000, "begun": 1_000_000_000, "processes": 3, "weights": 90_000_000}
    found = estimate_resources(10_000_000, 384, index, tmp_path / "a" / "linker", **given)
    vectors = 10_000_000 * 384 * 2
    graph = 10_000_000 * (128 + 9 * 16 + 8)
    assert found.work == vectors
    assert found.stays == vectors + graph
    assert found.disk == 2 * vectors - 1_000_000_000 + graph + 3_000_000_000
    own = 700_000_000 + 90_000_000 - 500_000_000
    assert found.memory == own + 2 * (500_000_000 + 90_000_000) + 1_200_000_000 + 16 * 10_000_000 + graph
    assert found.free_disk is not None
    assert found.free_disk > 0
    assert found.in_words().startswith("10,000,000 names of 384 dimensions, UsearchIndex: about 20.2 GB of disk of ")
    assert found.in_words().endswith("5.6 GB of memory of 24.0 GB")
    assert estimate_resources(1000, 384, ExactIndex(), tmp_path / "x").work == 1000 * 384 * 4
    # Annoy is tuned with two projections, and each needs a forest
    small, large = (engine_bytes(AnnoyIndex(pca=pca), 384) for pca in (64, 128))
    assert large > small
    found = estimate_resources(10_000_000, 384, AnnoyIndex(), tmp_path / "x")
    assert found.memory == 200_000_000 + 1_200_000_000 + 160_000_000 + 10_000_000 * (small + large)
    assert found.stays == vectors + 10_000_000 * large
    # Faiss learns from 39 vectors for each list, and copies them: 39 × 65,536 × 384 floats, twice; with few lists this is less than measuring needs
    for factory, learning in (("IVF65536,SQ8", 2 * 4 * 39 * 65_536 * 384), ("IVF64k,SQ8", 2 * 4 * 39 * 65_536 * 384), ("IVF1024,SQ8", 1_200_000_000)):
        found = estimate_resources(10_000_000, 384, FaissIndex(factory, tune=False), tmp_path / "x")
        assert found.memory == 200_000_000 + learning + 160_000_000 + 10_000_000 * (384 + 8)
    monkeypatch.setattr(resources, "resident", lambda: 5_000_000_000)  # memory that the process already has is not needed again
    assert estimate_resources(1, 384, ExactIndex(), tmp_path / "x").memory == 1_200_000_016


@pytest.mark.parametrize(
    ("free", "what"),
    [
        (
            {"free_disk": 10_000_000_000},
            r"room on the disk for 10,000,000 names of 384 dimensions and UsearchIndex: about 17\.0 GB are needed, 10\.0",
        ),
        ({"free_memory": 3_000_000_000}, r"memory for .* about 4\.0 GB are needed, 3\.0 GB are free\. Take fewer processes, or an engine"),
    ],
)
def test_too_little_is_refused(free: Any, what: str) -> None:
    fits = ResourceEstimate(10_000_000, 384, "UsearchIndex", 8_000_000_000, 1_000_000_000, 9_000_000_000, 1_000_000_000, 4_000_000_000, None, None)
    fits.check()  # if the system does not report its memory, nothing is refused
    fits._replace(free_disk=17_000_000_000, free_memory=4_000_000_000).check()
    with pytest.raises(SapbertError, match=rf"\[E028\] Not enough {what}"):
        fits._replace(**free).check()


def test_a_build_is_refused_before_it_begins(monkeypatch: pytest.MonkeyPatch, tiny_linker: Path, tmp_path: Path) -> None:
    monkeypatch.setattr(building, "ESTIMATED_FROM", 1)
    monkeypatch.setattr(resources, "free_memory", lambda: 1_000_000)
    monkeypatch.setattr(building, "encoded", lambda *_, **__: pytest.fail("names were encoded"))
    with pytest.raises(SapbertError, match=r"\[E028\] Not enough memory .* Nothing was encoded"):
        building.build_linker([], tmp_path / "linker", kb=tiny_linker / "kb", index=ExactIndex(), progress=False)
    assert list(tmp_path.iterdir()) == []


def test_free_memory_is_the_systems_or_what_a_limit_leaves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(resources, "PROC", tmp_path)
    monkeypatch.setattr(resources, "CGROUPS", tmp_path / "groups")
    assert free_memory() is None
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\nMemAvailable:   64 kB\n")
    assert free_memory() == 65536
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("0::/slurm/job_7\n")
    for group, limit, used in (("slurm/job_7", "max", "5"), ("slurm", "20000", "9000"), (".", "90000", "10")):
        folder = tmp_path / "groups" / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.current").write_text(f"{used}\n")
        (folder / "memory.stat").write_text("anon 4000\ninactive_file 3000\nactive_file 500\n")
    assert free_memory() == 20000 - 9000 + 3000 + 500  # limit of the job above, minus its use, plus file cache that the system can free
