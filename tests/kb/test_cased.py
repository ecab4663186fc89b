"""A cased knowledge base: names are compared in lower case, but encoders read names and mentions with their capitals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from spacy_sapbert.build.linker import build_linker, read_source
from spacy_sapbert.build.update import Difference, _known_rows, update_linker
from spacy_sapbert.bundle import open_index
from spacy_sapbert.cli import app
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.kb.builder import Filters, Source, build_kb
from spacy_sapbert.kb.concept import Concept, Name, normalise
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.linker import SapBertLinker

CONCEPTS = [
    Concept("T:1", "T", names=[Name("AIDS", "T", "en", "PT", 0), Name("Acquired  Immunodeficiency", "T")]),
    Concept("T:2", "T", names=[Name("aids", "T", "en", "SY", 1), Name("Hearing “aid”", "T", "en", "PT", 0)]),
    Concept("T:3", "T", names=[Name("Hüftschmerz", "T", "de"), Name("KISA boy", "T", "tr", "SY", 2)]),
]
FORMS = ["acquired immunodeficiency", "aids", "hearing “aid”", "hüftschmerz", "kısa boy"]  # as they are compared
WRITTEN = ["Acquired Immunodeficiency", "AIDS", "Hearing “aid”", "Hüftschmerz", "KISA boy"]


class Capitals:
    """An encoder whose vectors depend on each character and its case; it records its inputs."""

    architecture, name, fingerprint, dim = "", "capitals", "capitals", 256

    def __init__(self) -> None:
        self.read: list[str] = []

    def initialize(self) -> None: ...

    def encode(self, names: Sequence[str], *, progress: Any = False) -> np.ndarray:
        self.read += names
        vectors = np.zeros((len(names), self.dim), dtype=np.float32)
        for row, name in enumerate(names):
            for character in name:
                vectors[row, ord(character) % self.dim] += 1
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)

    def save(self, folder: Path) -> None:
        (folder / "capitals.txt").write_text("capitals")

    def load(self, folder: Path) -> None:
        assert (folder / "capitals.txt").is_file()

    def to(self, device: str) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {}


def built(folder: Path, cased: bool) -> KnowledgeBase:
    return build_kb([Source("test", CONCEPTS)], folder, filters=Filters(languages=(), cased=cased))


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    return built(tmp_path_factory.mktemp("cased") / "kb", cased=True)


def test_a_surface_form_is_the_best_name_as_it_is_written(kb: KnowledgeBase, tmp_path: Path) -> None:
    plain = built(tmp_path / "kb", cased=False)
    assert (kb.cased, plain.cased) == (True, False)
    assert "cased" not in plain.manifest["filters"]
    assert list(plain.surface_forms()) == FORMS
    assert list(kb.surface_forms(compared=True)) == FORMS
    assert list(kb.surface_forms()) == WRITTEN
    assert kb.surface_forms_at([4, 1]) == ["KISA boy", "AIDS"]
    assert (kb.encoded_form("Hip  Pain"), plain.encoded_form("Hip  Pain")) == ("Hip Pain", "hip pain")
    assert kb.name_table.surface_form.tolist() == plain.name_table.surface_form.tolist()
    assert [name.name for name in kb.matchable_names()] == FORMS  # the names that concept_matcher looks for


def test_names_are_found_however_they_are_written(kb: KnowledgeBase) -> None:
    assert kb.find(["aids", "AIDS", "ACQUIRED immunodeficiency", "hüftschmerz", "aid"]) == {
        "aids": 1, "AIDS": 1, "ACQUIRED immunodeficiency": 0, "hüftschmerz": 3,
    }  # fmt: skip
    assert kb.find(["kısa BOY"], "tr") == {"kısa BOY": 4}


@given(st.text())
def test_a_cased_form_in_lower_case_is_the_form_that_is_compared(text: str) -> None:
    cased = normalise(text, cased=True)
    assert normalise(cased, cased=True) == cased
    assert normalise(cased) == normalise(text)
    assert normalise(normalise(text)) == normalise(text)


def linker_of(folder: Path, cased: bool, **config: Any) -> tuple[Any, SapBertLinker]:
    made = build_linker([], folder / "linker", kb=built(folder / "kb", cased).path, model=Capitals(), index=ExactIndex(), progress=False)
    nlp = spacy.blank("en")
    ruler: Any = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "X", "pattern": pattern} for pattern in ("AIDS", "hearing Aid", "hüftschmerz", "Xylol")])
    linker = SapBertLinker(Capitals(), ExactIndex(), linker_name=str(made), threshold=0.0, **config)
    return nlp, linker


@pytest.mark.parametrize(("cased", "read"), [(True, ["hearing Aid", "Xylol"]), (False, ["hearing aid", "xylol"])])
def test_a_linker_encodes_mentions_as_they_are_written_and_finds_exact_matches_in_any_case(tmp_path: Path, cased: bool, read: list[str]) -> None:
    nlp, linker = linker_of(tmp_path, cased)
    encoder = linker.search.bundle.encoder
    doc = linker(nlp("AIDS, hearing Aid, hüftschmerz and Xylol."))
    assert [ent.kb_id_ for ent in doc.ents[:3]] == ["T:1", "T:2", "T:3"]
    assert [ent._.kb_explain["exact"] for ent in doc.ents] == [True, False, True, False]
    assert encoder.read == read  # the vectors of the others are read from the index
    linker.add_alias("T:3", "Coxalgie")
    assert encoder.read[len(read) :] == (["Coxalgie"] if cased else ["coxalgie"])
    assert linker.kb.find(["COXALGIE"]) == {"COXALGIE": 5}


def test_the_index_holds_names_as_they_are_written(tmp_path: Path) -> None:
    linker_of(tmp_path, True)
    vectors = open_index(tmp_path / "linker").vectors(np.arange(5))
    assert np.allclose(vectors, Capitals().encode(WRITTEN), atol=1e-3)


def test_an_update_stays_cased_and_encodes_names_that_are_written_with_other_capitals(tmp_path: Path) -> None:
    table = "concept_id\tname\nT:1\tCold Sore\nT:1\therpes\nT:2\tcough\n"
    (tmp_path / "a.tsv").write_text(table)
    (tmp_path / "b.tsv").write_text(table.replace("herpes", "Herpes"))
    old = build_linker([read_source(tmp_path / "a.tsv")], tmp_path / "old", index=ExactIndex(), filters=Filters(cased=True), progress=False)
    new, found = update_linker(old, [read_source(tmp_path / "b.tsv")], tmp_path / "new", progress=False)
    kb = KnowledgeBase(new / "kb")
    assert kb.cased
    assert list(kb.surface_forms()) == ["Cold Sore", "cough", "Herpes"]
    assert (found.names_kept, found.names_new, found.names_gone) == (3, 0, 0)
    assert _known_rows(KnowledgeBase(old / "kb"), kb, Difference()).tolist() == [0, 1, -1]  # "Herpes" is encoded again


def test_the_command_line_makes_one(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("concept_id\tname\nT:1\tCold Sore\nT:2\tcough\n")
    done = CliRunner().invoke(app, ["kb", "build", str(tmp_path / "a.tsv"), "--cased", "--out", str(tmp_path / "kb")])
    assert done.exit_code == 0, done.output
    assert list(KnowledgeBase(tmp_path / "kb").surface_forms()) == ["Cold Sore", "cough"]
