"""An engine of another author, which only implements `VectorIndex` and the Protocols of `indexes.base`, works like ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import catalogue
import numpy as np
import pytest
import spacy

from spacy_sapbert import bundle
from spacy_sapbert.build.linker import build_linker
from spacy_sapbert.build.resources import GB, MEASURING, PROCESS, engine_bytes, estimate_resources, resident
from spacy_sapbert.files import read_manifest, write_manifest
from spacy_sapbert.indexes import base
from spacy_sapbert.registry import registry
from spacy_sapbert.types import VectorIndex

NAME = "stranger.CoarseIndex.v1"


class CoarseIndex:
    """An engine that compares the first `axes` dimensions, then `looked_at` rows in full. It shares no code with ours."""

    storage = np.float16
    build_params = ("axes",)
    reader_params = ("threads",)
    required: list[str] = []

    def __init__(self, axes: int = 48, looked_at: int = 1, threads: int = 0) -> None:
        self.axes, self.looked_at, self.threads = axes, looked_at, threads
        self.dim = 0
        self.report: dict[str, Any] = {}
        self.stored = np.zeros((0, 0), dtype=np.float16)

    def __len__(self) -> int:
        return len(self.stored)

    def require(self) -> None:
        self.required.append("asked")

    def settings_to_try(self, size: int) -> list[dict[str, Any]]:
        return [{"axes": axes, "looked_at": count} for axes in (16, 48) for count in (1, 10, min(size, 200))]

    def set_search(self, settings: Mapping[str, Any]) -> None:
        self.looked_at = settings["looked_at"]

    def engine_bytes(self, dim: int) -> float:
        return 4 * self.axes

    def learning_bytes(self, names: int, dim: int) -> float:
        return 3 * GB

    def build(self, vectors: Any, *, progress: bool = False) -> None:
        self.stored = np.asarray(vectors, dtype=np.float16)
        self.dim = self.stored.shape[1]
        self.coarse = self.stored[:, : self.axes].astype(np.float32)

    def query(self, vectors: Any, k: int, *, allowed: Any = None, budget: float = 1.0) -> Any:
        rows, cosines = np.full((len(vectors), k), -1), np.full((len(vectors), k), -np.inf, dtype=np.float32)
        there = np.arange(len(self)) if allowed is None else np.flatnonzero(allowed)
        count = max(k, int(self.looked_at * budget))
        for i, vector in enumerate(np.asarray(vectors, dtype=np.float32)):
            near = there[np.argsort(-(self.coarse[there] @ vector[: self.axes]), kind="stable")[:count]]
            full = self.vectors(near) @ vector
            order = np.argsort(-full, kind="stable")[:k]
            rows[i, : len(order)], cosines[i, : len(order)] = near[order], full[order]
        return rows, cosines

    def vectors(self, rows: Any) -> Any:
        return self.stored[rows].astype(np.float32)

    def get_config(self) -> dict[str, Any]:
        return {"axes": self.axes, "looked_at": self.looked_at, "threads": self.threads}

    def to_disk(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        np.save(path / "stored.npy", self.stored)
        write_manifest(path, "coarse index", 1, {"config": self.get_config(), "report": self.report})

    def from_disk(self, path: Path) -> CoarseIndex:
        manifest = read_manifest(path, "coarse index", 1, missing="E201", damaged="E202")
        self.axes, self.looked_at, self.report = manifest["config"]["axes"], manifest["config"]["looked_at"], manifest["report"]
        self.build(np.load(path / "stored.npy"))
        return self


OPTIONAL = [
    base.NeedsLibrary,
    base.Tunable,
    base.SizedOnDisk,
    base.LearnsFromSample,
    base.StoresAs,
    base.Reported,
    base.HasReaderParams,
    base.Threaded,
]


@pytest.fixture
def registered() -> Iterator[None]:
    registry.sapbert_indexes.register(NAME, func=CoarseIndex)  # type: ignore[attr-defined]
    CoarseIndex.required.clear()
    yield
    catalogue._remove(("spacy", "sapbert_indexes", NAME))


def test_it_fulfils_the_documented_protocols() -> None:
    index = CoarseIndex()
    assert isinstance(index, VectorIndex)
    assert [ability.__name__ for ability in OPTIONAL if not isinstance(index, ability)] == []


def test_its_resources_are_estimated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("spacy_sapbert.build.resources.resident", lambda: int(PROCESS))
    found = estimate_resources(1_000_000, 384, CoarseIndex(), tmp_path / "linker")
    assert found.work == 1_000_000 * 384 * 2  # it stores float16
    assert engine_bytes(CoarseIndex(axes=48), 384) == 4 * 48
    assert found.stays == found.work + 1_000_000 * 4 * 48  # the larger of the two settings that are tried
    assert found.memory == 3 * GB + 16 * 1_000_000 + 1_000_000 * 4 * (16 + 48)  # learning needs more than MEASURING
    assert MEASURING < 3 * GB
    assert resident() > 0


def test_it_is_tuned_saved_and_used_in_a_pipeline(registered: None, tiny_linker: Path, tmp_path: Path) -> None:
    out = build_linker([], tmp_path / "linker", kb=tiny_linker / "kb", index=CoarseIndex(), progress=False)
    assert CoarseIndex.required == ["asked"]
    assert read_manifest(out, "linker", 1, missing="E101", damaged="E102")["index"] == NAME
    opened: Any = bundle.open_index(out, CoarseIndex(threads=3))
    assert isinstance(opened, CoarseIndex)
    assert opened.threads == 3
    tried = {(one["axes"], one["looked_at"]) for one in opened.report["measured"]}
    assert {axes for axes, _ in tried} == {16, 48}  # it was tuned, not only built
    chosen = opened.report["chosen"]
    assert (opened.axes, opened.looked_at) == (chosen["axes"], chosen["looked_at"])
    assert chosen["looked_at"] > 1
    assert opened.report["built_for"]["kb"]

    nlp = spacy.blank("en")
    index = {"@sapbert_indexes": NAME, "threads": 1}
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "X", "pattern": "fever"}])  # type: ignore[attr-defined]
    nlp.add_pipe("sapbert_linker", config={"linker_name": str(out), "index": index, "exact_match": False})
    (fever,) = nlp("She has a fever.").ents
    ours = spacy.blank("en")
    ours.add_pipe("entity_ruler").add_patterns([{"label": "X", "pattern": "fever"}])  # type: ignore[attr-defined]
    ours.add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker), "exact_match": False})
    (expected,) = ours("She has a fever.").ents
    assert fever.kb_id_ == expected.kb_id_ != ""

    nlp.to_disk(tmp_path / "pipeline")
    again = spacy.load(tmp_path / "pipeline")
    linker: Any = again.get_pipe("sapbert_linker")
    (same,) = again("She has a fever.").ents
    assert same._.kb_ents == fever._.kb_ents
    assert isinstance(linker.index, CoarseIndex)
    assert linker.index.threads == 1


def test_an_index_of_another_knowledge_base_is_refused(registered: None, tiny_linker: Path, tmp_path: Path) -> None:
    """This works because the engine keeps the report."""
    out = build_linker([], tmp_path / "linker", kb=tiny_linker / "kb", index=CoarseIndex(), progress=False)
    opened: Any = bundle.open_index(out)
    opened.report["built_for"]["kb"] = "another"
    opened.to_disk(out / "index")
    nlp = spacy.blank("en")
    linker: Any = nlp.add_pipe("sapbert_linker", config={"linker_name": str(out)})
    with pytest.raises(ValueError, match="E203"):
        linker.load()


class ExactlyTheContract:
    """An engine with only the methods of `VectorIndex`."""

    def __init__(self) -> None:
        self._inside = CoarseIndex()

    @property
    def dim(self) -> int:
        return self._inside.dim

    def __len__(self) -> int:
        return len(self._inside)

    def build(self, vectors: Any, *, progress: bool = False) -> None:
        self._inside.build(vectors)

    def query(self, vectors: Any, k: int, *, allowed: Any = None, budget: float = 1.0) -> Any:
        return self._inside.query(vectors, k, allowed=allowed, budget=budget)

    def vectors(self, rows: Any) -> Any:
        return self._inside.vectors(rows)

    def get_config(self) -> dict[str, Any]:
        return {}

    def to_disk(self, path: Path) -> None:
        self._inside.to_disk(path)

    def from_disk(self, path: Path) -> ExactlyTheContract:
        self._inside.from_disk(path)
        return self


def test_an_engine_without_any_optional_ability_works_too(tiny_linker: Path, tmp_path: Path) -> None:
    index = ExactlyTheContract()
    assert isinstance(index, VectorIndex)
    assert not any(isinstance(index, ability) for ability in OPTIONAL)
    found = estimate_resources(1000, 384, index, tmp_path / "x")
    assert (found.work, found.stays) == (1000 * 384 * 4, 1000 * 384 * 4)
    registry.sapbert_indexes.register("stranger.Bare.v1", func=ExactlyTheContract)  # type: ignore[attr-defined]
    try:
        out = build_linker([], tmp_path / "linker", kb=tiny_linker / "kb", index=index, progress=False)
        linker: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(out)})
        assert isinstance(linker.index, VectorIndex)
        linker.load()
        assert isinstance(linker.index, ExactlyTheContract)
        assert len(linker.index) == linker.kb.n_surface_forms
    finally:
        catalogue._remove(("spacy", "sapbert_indexes", "stranger.Bare.v1"))
