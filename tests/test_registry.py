"""The entry points in setup.py list all registered names; each one is resolved here in the same way as in spaCy."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path
from typing import Any, Dict

import catalogue
import pytest
import spacy
from thinc.api import Model

from spacy_sapbert.registry import registry
from spacy_sapbert.types import VectorIndex

SETUP = Path(__file__).parents[1] / "setup.py"
GROUPS = {
    "spacy_factories": ["clinical_mentions", "clinical_status", "concept_matcher", "sapbert_linker"],
    "spacy_architectures": ["spacy-sapbert.NameEncoder.v1", "spacy-sapbert.PairedEncoder.v1", "spacy-sapbert.StaticEncoder.v1"],
    "spacy_sapbert_indexes": [
        "spacy-sapbert.AnnoyIndex.v1",
        "spacy-sapbert.ExactIndex.v1",
        "spacy-sapbert.FaissIndex.v1",
        "spacy-sapbert.ListsIndex.v1",
        "spacy-sapbert.MilvusIndex.v1",
        "spacy-sapbert.UsearchIndex.v1",
    ],
    "spacy_sapbert_linkers": ["hpo", "hpo-fast", "open"],
    "spacy_scorers": ["spacy-sapbert.linker_scorer.v1"],
    "spacy_misc": ["spacy-sapbert.Folder.v1", "spacy-sapbert.Senses.v1", "spacy-sapbert.Sources.v1"],
}


def entry_points() -> Dict[str, Dict[str, Any]]:
    installed = importlib.metadata.distribution("spacy-sapbert").entry_points
    return {group: {e.name: e for e in installed if e.group == group} for group in {e.group for e in installed}}


def test_installed_names_are_the_ones_of_setup_py():
    points = entry_points()
    assert {group: sorted(found) for group, found in points.items()} == GROUPS
    listed = re.findall(r'"([\w.-]+) = (spacy_sapbert\.[\w.]+:\w+)"', SETUP.read_text(encoding="utf-8"))
    assert sorted(listed) == sorted((e.name, e.value) for found in points.values() for e in found.values())


@pytest.mark.parametrize(("group", "name"), [(group, name) for group, names in GROUPS.items() for name in names])
def test_every_name_resolves(group: str, name: str):
    target = entry_points()[group][name].load()
    assert callable(target)
    if group == "spacy_factories":
        nlp = spacy.blank("en")
        nlp.add_pipe(name)
        assert nlp.get_pipe_meta(name).factory == name
    else:
        assert registry.get(group.removeprefix("spacy_"), name) is target


def test_factories_tell_what_they_assign_and_require():
    nlp = spacy.blank("en")
    linker, matcher = nlp.get_factory_meta("sapbert_linker"), nlp.get_factory_meta("concept_matcher")
    assert linker.assigns == ["token.ent_kb_id", "span._.kb_ents", "span._.kb_codes", "span._.kb_explain", "span._.kb_prob"]
    assert linker.requires == ["doc.ents"]
    assert "doc.ents" in matcher.assigns
    assert linker.scores == ["nel_micro_f", "nel_micro_r", "nel_micro_p"]
    nlp.add_pipe("sapbert_linker")
    problems = nlp.analyze_pipes()["problems"]
    assert problems == {"sapbert_linker": ["doc.ents"]}  # no component before it sets entities
    nlp.add_pipe("concept_matcher", first=True)
    assert nlp.analyze_pipes()["problems"] == {"concept_matcher": [], "sapbert_linker": []}


def test_architecture_and_indexes_are_made_from_a_config_without_reading_anything():
    made = registry.resolve(
        {
            "model": {"@architectures": "spacy-sapbert.NameEncoder.v1", "name": "no/such-model"},
            "annoy": {"@sapbert_indexes": "spacy-sapbert.AnnoyIndex.v1", "n_trees": 3},
            "exact": {"@sapbert_indexes": "spacy-sapbert.ExactIndex.v1"},
        }
    )
    assert isinstance(made["model"], Model)
    assert isinstance(made["annoy"], VectorIndex)
    assert made["annoy"].get_config()["n_trees"] == 3
    assert isinstance(made["exact"], VectorIndex)


def test_registries_are_where_entry_points_are_looked_up():
    for name in ("sapbert_indexes", "sapbert_linkers"):
        assert getattr(registry, name).namespace == ("spacy", name)
        assert getattr(registry, name).entry_points


def test_someone_elses_index_and_linker_can_be_registered(tmp_path: Path):
    from spacy_sapbert.build.default_linkers import find_linker

    @registry.sapbert_linkers.register("test.somewhere.v1")  # type: ignore[attr-defined]
    def somewhere() -> Path:
        return tmp_path

    try:
        assert find_linker("test.somewhere.v1") == tmp_path
    finally:
        catalogue._remove(("spacy", "sapbert_linkers", "test.somewhere.v1"))
