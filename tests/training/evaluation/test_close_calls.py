"""The mentions that a cross-encoder learns from, over a tiny dictionary."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from spacy_sapbert.build.linker import read_source
from spacy_sapbert.encoders.transformer import NameEncoder
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.kb.builder import build_kb
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.ranking.pairs import NAMES_READ
from training.evaluation.benchmarks import BenchmarkReader
from training.evaluation.close_calls import MOST, Dictionary, calls, gold_calls, names_as_mentions, open_dictionary, write_close_calls

pytestmark = pytest.mark.usefixtures("one_thread")
TINY = Path(__file__).parents[2] / "data" / "tiny_clinic.tsv"


@pytest.fixture(scope="module")
def dictionary(tmp_path_factory: pytest.TempPathFactory) -> Dictionary:
    folder = tmp_path_factory.mktemp("kb") / "kb"
    build_kb([read_source(TINY)], folder, progress=False)
    return open_dictionary(KnowledgeBase(folder), NameEncoder().initialize())


def concept(dictionary: Dictionary, concept_id: str) -> int:
    return dictionary.search.bundle.kb.row_of(concept_id)


def test_the_nearest_concepts_come_first_with_their_names(dictionary: Dictionary) -> None:
    (call,) = calls(dictionary, ["narrowing of the mitral valve"], [[concept(dictionary, "C9100004")]], [None])
    assert len(call.names) == len(call.scores) == len(call.right) == MOST
    assert sum(call.right) == 1
    at = call.right.index(True)
    assert call.names[at][0] == "mitral stenosis"  # the canonical name
    assert all(len(names) <= NAMES_READ == 4 and len(set(names)) == len(names) for names in call.names)
    sums = [sum(scores) for scores in call.scores]
    assert sums == sorted(sums, reverse=True)


def test_scores_are_the_best_cosines_of_both_encoders(dictionary: Dictionary) -> None:
    search = dictionary.search
    row = concept(dictionary, "C9100003")
    (call,) = calls(dictionary, ["damage of the heart muscle"], [[row]], [None])
    names = [dictionary.names[name] for name in dictionary.rows[row]]
    asked = search.bundle.encoder.encode(["damage of the heart muscle"])[0]
    best = float((search.bundle.encoder.encode(names) @ asked).max())
    assert call.scores[call.right.index(True)][0] == pytest.approx(best, abs=2e-3)  # the encoder may compute in bfloat16


def test_a_name_as_mention_is_not_found_by_itself(dictionary: Dictionary) -> None:
    row = dictionary.names.index("heart attack")
    (call,) = calls(dictionary, ["heart attack"], [dictionary.concepts[row]], [row])
    right = call.names[call.right.index(True)]
    assert "heart attack" not in right
    assert right[0] == "myocardial infarction"
    assert max(call.scores[call.right.index(True)]) < 0.999


def test_drawn_names_have_other_names(dictionary: Dictionary) -> None:
    drawn = names_as_mentions(dictionary, 8, random.Random(0), lambda name, salt: name)
    assert len(drawn) == 8
    assert all(call.mention in dictionary.names for call in drawn)
    assert all(not any(call.mention in names for names, right in zip(call.names, call.right) if right) for call in drawn)
    assert drawn == names_as_mentions(dictionary, 8, random.Random(0), lambda name, salt: name)
    assert drawn != names_as_mentions(dictionary, 8, random.Random(1), lambda name, salt: name)


def test_gold_mentions_that_are_names_are_left_out(dictionary: Dictionary) -> None:
    queries = [("Heart attack", None), ("heart attacks", None), ("attack of the heart", None), ("Attack of the heart", None), ("pain", None)]
    found = gold_calls(dictionary, queries, ["C9100003"] * 4 + ["C0000000"])
    assert [call.mention for call in found] == ["attack of the heart"]


def test_bad_input(tmp_path: Path) -> None:
    none = BenchmarkReader(tmp_path, Path("none"), Path("none"), Path("none"))
    with pytest.raises(SapbertError, match=r"\[E548\].*--fit"):
        write_close_calls([], [], none, tmp_path / "out")
    with pytest.raises(SapbertError, match=r"\[E519\].*gsc-dev"):
        write_close_calls(["gsc-dev"], ["gsc-dev"], none, tmp_path / "out")
    assert not (tmp_path / "out").exists()
