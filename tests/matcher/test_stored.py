"""The phrases of a knowledge base with many names are made once and kept in the cache."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import spacy
from name_matchers import EXPECTED, NOTE, seen
from spacy.language import Language

from spacy_sapbert.errors import fail
from spacy_sapbert.kb.knowledge_base import KnowledgeBase


def test_many_names_are_made_ready_once(nlp: Language, tiny_linker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPACY_SAPBERT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("spacy_sapbert.matcher.stored.KEPT_FROM", 1)
    read: list[dict[str, Any]] = []
    names = KnowledgeBase.matchable_names
    monkeypatch.setattr(KnowledgeBase, "matchable_names", lambda self, **settings: read.append(settings) or names(self, **settings))

    def fresh(**settings: Any) -> Language:
        made = spacy.blank("en")
        made.add_pipe("concept_matcher", config={"linker_name": str(tiny_linker), **settings})
        return made

    assert seen(fresh()) == seen(fresh()) == EXPECTED
    assert len(read) == 1
    kept = next((tmp_path / "cache").glob("names-*/manifest.json")).parent
    assert b"fever" not in b"".join(file.read_bytes() for file in kept.iterdir())  # no name, only hashes
    for own in ({"weak_names": False}, {"types": ["T047"]}, {"label": "type"}, {"min_chars": 5}):
        before = len(read)
        assert seen(fresh(**own)) == seen(fresh(**own))
        assert len(read) == before + 1, own
    before = len(read)
    (kept / "hashes.npy").write_bytes(b"")
    assert seen(fresh()) == seen(fresh()) == EXPECTED  # made again
    assert len(read) == before + 1
    for rule in ("RULES", "VERSION"):
        monkeypatch.setattr(f"spacy_sapbert.matcher.stored.{rule}", 77)
        assert seen(fresh()) == EXPECTED
    assert len(read) == before + 3
    copy = pickle.dumps(fresh().get_pipe("concept_matcher"))
    assert [e.text for e in pickle.loads(copy)(fresh().make_doc(NOTE)).ents] == [text for text, _ in EXPECTED]


def test_many_names_without_a_cache(tiny_linker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("spacy_sapbert.matcher.stored.KEPT_FROM", 1)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SPACY_SAPBERT_CACHE", str(tmp_path / "file" / "cache"))  # the cache cannot be made
    made = spacy.blank("en")
    made.add_pipe("concept_matcher", config={"linker_name": str(tiny_linker)})
    with pytest.warns(UserWarning, match=r"W009.*SPACY_SAPBERT_CACHE"):
        assert seen(made) == EXPECTED

    def full(*_: Any) -> Path:
        raise fail("E008", path="cache", error="No space left on device", env="SPACY_SAPBERT_CACHE")

    monkeypatch.setattr("spacy_sapbert.build.default_linkers.cached", full)
    with pytest.warns(UserWarning, match=r"W009.*No space left"):
        made.get_pipe("concept_matcher").set_kb(KnowledgeBase(tiny_linker / "kb"))  # type: ignore[attr-defined]
    assert seen(made) == EXPECTED
