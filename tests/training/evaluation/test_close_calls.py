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
from spacy_sapbert.search import Query
from training.evaluation.benchmarks import BenchmarkReader
from training.evaluation.close_calls import (
    CONTEXTS,
    MOST,
    Dictionary,
    Sought,
    calls,
    gold_mentions,
    names_as_mentions,
    names_in_notes,
    open_dictionary,
    phrases_of,
    write_close_calls,
)

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
    (call,) = calls(dictionary, [Sought("narrowing of the mitral valve", [concept(dictionary, "C9100004")])])
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
    (call,) = calls(dictionary, [Sought("damage of the heart muscle", [row])])
    names = [dictionary.names[name] for name in dictionary.rows[row]]
    asked = search.bundle.encoder.encode(["damage of the heart muscle"])[0]
    best = float((search.bundle.encoder.encode(names) @ asked).max())
    assert call.scores[call.right.index(True)][0] == pytest.approx(best, abs=2e-3)  # the encoder may compute in bfloat16


def test_a_name_as_mention_is_not_found_by_itself(dictionary: Dictionary) -> None:
    row = dictionary.names.index("heart attack")
    (call,) = calls(dictionary, [Sought("heart attack", dictionary.concepts[row], row)])
    right = call.names[call.right.index(True)]
    assert "heart attack" not in right
    assert right[0] == "myocardial infarction"
    assert max(call.scores[call.right.index(True)]) < 0.999


def test_definitions_are_read_with_the_text_around(dictionary: Dictionary) -> None:
    row = concept(dictionary, "C9100003")
    asked = [Sought("attack of the heart", [row], None, around) for around in (None, "", "he had an [MASK] .")]
    without, with_none, within = calls(dictionary, asked)
    at = within.right.index(True)
    assert (without.around, without.definitions) == ("", [])
    assert with_none.definitions[at] == within.definitions[at] == "heart muscle dies for want of blood."
    assert within.texts()[at].endswith(" [SEP] he had an [MASK] . [SEP] heart muscle dies for want of blood.")
    assert without.texts()[at] == within.texts()[at].partition(" [SEP] he had")[0]


def test_drawn_names_have_other_names(dictionary: Dictionary) -> None:
    drawn = names_as_mentions(dictionary, 8, random.Random(0), lambda name, salt: name)
    assert len(drawn) == 8
    assert [one.around for one in drawn] == [None, ""] * 4
    assert all(one.own is not None and dictionary.names[one.own] == one.mention and one.gold == dictionary.concepts[one.own] for one in drawn)
    found = calls(dictionary, drawn)
    assert all(not any(call.mention in names for names, right in zip(call.names, call.right) if right) for call in found)
    assert drawn == names_as_mentions(dictionary, 8, random.Random(0), lambda name, salt: name)
    assert drawn != names_as_mentions(dictionary, 8, random.Random(1), lambda name, salt: name)


QUERIES = [
    Query("Heart attack", None, "a [MASK] in may"),
    Query("heart attacks", None, "two [MASK]"),
    Query("attack of the heart", None, "first [MASK]"),
    Query("Attack of the heart", None, "second [MASK]"),
    Query("pain", None, "[MASK]"),
    Query("Heart attack", None, "a [MASK] in june"),
]
GOLD = ["C9100003"] * 4 + ["C0000000", "C9100003"]


def test_gold_mentions_that_are_no_names(dictionary: Dictionary) -> None:
    row = concept(dictionary, "C9100003")
    assert gold_mentions(dictionary, QUERIES, GOLD, known=False) == [Sought("attack of the heart", (row,), None, "first [MASK]")]


def test_gold_mentions_that_are_names_are_searched_without_themselves(dictionary: Dictionary) -> None:
    row, own = concept(dictionary, "C9100003"), dictionary.names.index("heart attack")
    expected = [Sought("heart attack", (row,), own, f"a [MASK] in {month}") for month in ("may", "june")]
    assert gold_mentions(dictionary, QUERIES, GOLD, known=True) == expected
    assert gold_mentions(dictionary, QUERIES[:1], ["C9100004"], known=True) == []  # the name means another concept


def test_names_in_notes(dictionary: Dictionary) -> None:
    own = dictionary.names.index("cardiac infarction")
    notes = [f"Note {number}: no cardiac infarction, MI or cold." for number in range(CONTEXTS + 2)]
    found = names_in_notes(dictionary, notes, random.Random(0), 50)
    assert len(found) == CONTEXTS
    assert {(one.mention, one.own) for one in found} == {("cardiac infarction", own)}  # MI is short, and has two meanings
    assert all(one.around in {f"note {number}: no [MASK] , mi or cold." for number in range(CONTEXTS + 2)} for one in found)
    assert len(names_in_notes(dictionary, notes, random.Random(0), 1)) == 1


def test_phrases_of_patients(dictionary: Dictionary, tmp_path: Path) -> None:
    table = tmp_path / "lay.tsv"
    table.write_text("concept_id\tnames\nC9100003\tmy heart gave out|Heart attack|left out\nC9999999\tnobody knows\nC9100004\theart attack\n")
    row, own = concept(dictionary, "C9100003"), dictionary.names.index("heart attack")
    # the name of another concept is no phrase of C9100004
    assert phrases_of(dictionary, table, {"left out"}) == [Sought("my heart gave out", [row], None, None), Sought("heart attack", [row], own, "")]


def test_bad_input(tmp_path: Path) -> None:
    none = BenchmarkReader(tmp_path, Path("none"), Path("none"), Path("none"))
    with pytest.raises(SapbertError, match=r"\[E548\].*--fit"):
        write_close_calls([], [], none, tmp_path / "out")
    with pytest.raises(SapbertError, match=r"\[E519\].*gsc-dev"):
        write_close_calls(["gsc-dev"], ["gsc-dev"], none, tmp_path / "out")
    for given in ("phrases", "notes"):  # before the corpora are searched, which takes long
        with pytest.raises(SapbertError, match=r"\[E401\].*no\.tsv"):
            write_close_calls(["gsc-dev"], ["gsc-test"], none, tmp_path / "out", **{given: tmp_path / "no.tsv"})  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()
