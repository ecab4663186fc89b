"""The search of an opened linker, without a Doc: the cache, calls of the engine and the encoder, and failed changes of settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spacy_sapbert.bundle import LinkerBundle
from spacy_sapbert.encoders.transformer import NameEncoder
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.indexes.annoy import AnnoyIndex
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.kb.additions import AddedName, Additions
from spacy_sapbert.search import CandidateSearch, Query
from spacy_sapbert.settings import Settings

pytestmark = pytest.mark.usefixtures("one_thread")

HYPERTENSION = "C9100009"


class Watched:
    """A part of a bundle that records its calls."""

    def __init__(self, part: Any) -> None:
        self._part = part
        self.asked: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)

    def __len__(self) -> int:
        return len(self._part)

    def query(self, vectors: Any, k: int, **more: Any) -> Any:
        self.asked.append((len(vectors), k, more["budget"]))
        return self._part.query(vectors, k, **more)

    def find_neighbours(self, tick: Any) -> None:
        self._part.find_neighbours(tick)

    def neighbours(self, rows: Any, k: int) -> Any:
        return self._part.neighbours(rows, k)

    def neighbour_bytes(self, names: int) -> int:
        return int(self._part.neighbour_bytes(names))

    def encode(self, names: Sequence[str], **more: Any) -> Any:
        self.asked.extend(names)
        return self._part.encode(names, **more)


@pytest.fixture(scope="module")
def bundle(tiny_linker: Path) -> LinkerBundle:
    return LinkerBundle.open(tiny_linker, NameEncoder(), AnnoyIndex())


def texts(*mentions: str) -> list[Query]:
    return [(mention, None) for mention in mentions]


def test_a_bundle_is_frozen_and_leaves_what_was_asked_for_as_it_is(tiny_linker: Path) -> None:
    asked = NameEncoder(dtype="float32")
    opened = LinkerBundle.open(tiny_linker, asked, AnnoyIndex())
    assert asked.dim == 0
    assert (opened.encoder.dim, opened.encoder.get_config()["dtype"]) == (384, "float32")
    with pytest.raises(FrozenInstanceError):
        opened.calibration = None  # type: ignore[misc]


def test_the_rows_of_gold_alternatives(bundle: LinkerBundle) -> None:
    search, row = CandidateSearch(bundle, Settings()), bundle.kb.row_of
    first, second = "C9100003", "C9100010"
    assert search.rows_of_gold(f"{second} | {first}") == [row(second), row(first)]
    assert search.rows_of_gold(f"nowhere|{first}") == [row(first)]
    assert search.rows_of_gold("NIL") == search.rows_of_gold(f"{first}+{second}") == []


def test_the_answer_that_was_not_asked_for_longest_is_forgotten(bundle: LinkerBundle) -> None:
    search = CandidateSearch(bundle, Settings(cache_size=2))
    asked = ["fever", "cough", "fever", "cold", "fever", "cough"]
    assert [search.find(texts(mention))[0].cached for mention in asked] == [False, False, True, False, True, False]
    assert search.n_cached() == 2
    search.forget()
    assert not search.find(texts("fever"))[0].cached


class Older(Watched):
    """An index whose folder has no table of neighbours."""

    def neighbours(self, rows: Any, k: int) -> None:
        return None


def test_a_mention_equal_to_a_name_is_neither_encoded_nor_searched(bundle: LinkerBundle) -> None:
    encoder, index = Watched(bundle.encoder), Watched(bundle.index)
    search = CandidateSearch(replace(bundle, encoder=encoder, index=index), Settings())
    found = search.find(texts("Fever", "heart attacked", "cough", "racing of the heart"))
    assert [each.answer.explain["exact"] for each in found] == [True, False, True, False]
    assert encoder.asked == ["heart attacked", "racing of the heart"]
    assert index.asked == [(2, 30, 1.0)]
    whole = replace(bundle, index=ExactIndex.over(bundle.index.vectors(np.arange(len(bundle.index)))))  # type: ignore[attr-defined]
    assert found == CandidateSearch(whole, Settings()).find(texts("Fever", "heart attacked", "cough", "racing of the heart"))


def test_without_a_table_of_neighbours_a_mention_equal_to_a_name_has_a_twentieth_of_the_search_budget(bundle: LinkerBundle) -> None:
    encoder, index = Watched(bundle.encoder), Older(bundle.index)
    search = CandidateSearch(replace(bundle, encoder=encoder, index=index), Settings())
    found = search.find(texts("Fever", "heart attacked", "cough", "racing of the heart"))
    assert [each.answer.explain["exact"] for each in found] == [True, False, True, False]
    assert encoder.asked == ["heart attacked", "racing of the heart"]
    assert index.asked == [(2, 30, 0.05), (2, 30, 1.0)]


def test_the_neighbours_of_an_exact_match_are_searched_where_the_table_does_not_fit(bundle: LinkerBundle) -> None:
    added = bundle.with_additions(Additions(names=[AddedName(HYPERTENSION, "the sweet trouble", "en")]))
    index = Watched(bundle.index)

    def asked(opened: LinkerBundle, mention: str, types: frozenset[str] | None = None, k: int = 30) -> list[Any]:
        index.asked.clear()
        found = CandidateSearch(replace(opened, index=index), Settings(k=k)).find([(mention, types)])
        assert found[0].answer.explain["exact"]
        return list(index.asked)

    assert asked(bundle, "cough") == []
    assert asked(bundle, "cough", k=5) == []
    assert asked(bundle, "cough", k=31) == [(1, 31, 0.05)]  # more than the table has
    assert asked(bundle, "cough", types=frozenset({"T033"})) == [(1, 30, 0.05)]  # others may be nearest among the allowed names
    assert asked(added, "the sweet trouble") == [(1, 30, 0.05)]  # an added name is no row of the index
    assert asked(added, "cough") == []


def test_a_removed_name_is_no_neighbour_of_an_exact_match(bundle: LinkerBundle) -> None:
    def second(opened: LinkerBundle) -> Any:
        return CandidateSearch(opened, Settings()).find(texts("heart attack"))[0].answer.explain["runner_up"]

    concept, name, _ = second(bundle)
    index = Watched(bundle.index)
    removed = replace(bundle.with_additions(Additions().without_names(concept, [name], "en")), index=index)
    assert second(removed)[1] != name
    assert index.asked[0] == (1, 30, 0.05)
    assert second(removed) == second(replace(removed, index=Older(bundle.index)))


def test_a_name_with_new_words_is_no_link_where_none_is_wanted(bundle: LinkerBundle) -> None:
    mentions = texts("atrial fibrilation", "heart diseases", "diabetes type 2", "heart", "Fever")
    found = {new: [each.answer for each in CandidateSearch(bundle, Settings(threshold=0.3, new_words=new)).find(mentions)] for new in (True, False)}
    names = [answer.explain["name"] for answer in found[True]]
    assert (names[0], names[1]) == ("atrial fibrillation", "heart disease")
    assert names[2] == "type 2 diabetes mellitus"  # "mellitus" is new
    assert len(names[3].split()) > 1  # "heart disease" or the like
    assert [answer.linked for answer in found[True]] == [True] * 5
    assert [answer.linked for answer in found[False]] == [True, True, False, False, True]
    assert [answer.explain["name"] for answer in found[False]] == names


def test_a_mention_is_not_linked_to_a_similar_name_of_another_kind(bundle: LinkerBundle) -> None:
    search = CandidateSearch(bundle, Settings(threshold=0.3, new_words=False))
    similar, exact = search.find(texts("heart disease closure", "heart disease"))
    similar = similar._replace(answer=similar.answer._replace(linked=True, explain={**exact.answer.explain, "exact": False}))
    unlinked = search.of_kind(similar, "PROC").answer  # heart disease is a disorder
    assert (unlinked.linked, unlinked.candidates, unlinked.codes, unlinked.probability) == (False, [], {}, None)
    assert not unlinked.explain["linked"]
    assert not search.of_kind(similar, "CHEM").answer.linked
    assert search.of_kind(similar, "DISO") is similar
    assert search.of_kind(exact, "PROC") is exact
    other = CandidateSearch(bundle, Settings(threshold=0.3))
    assert other.of_kind(similar, "PROC") is similar


def test_many_answers_are_read_with_few_statements(tiny_linker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = LinkerBundle.open(tiny_linker, NameEncoder(), AnnoyIndex())
    said: list[str] = []
    read = opened.kb._database.sql
    monkeypatch.setattr(opened.kb._database, "sql", lambda statement, *values: (said.append(statement), read(statement, *values))[1])
    found = CandidateSearch(opened, Settings()).find(texts("fever", "cough", "cold", "heart attack", "mi"))
    assert [each.answer.explain["exact"] for each in found] == [True] * 5
    assert found[3].answer.explain["name"] == "heart attack"
    tables = [statement.split(" FROM ")[1].split()[0] for statement in said]
    assert tables == ["string", "concept", "name", "code"]


def test_the_encoder_is_given_the_first_thousand_characters(bundle: LinkerBundle) -> None:
    encoder = Watched(bundle.encoder)
    search = CandidateSearch(replace(bundle, encoder=encoder), Settings())
    search.find(texts("x" * 1_000 + "y", "x" * 1_000 + "z"))
    assert encoder.asked == ["x" * 1_000]


def test_semantic_types_of_a_query(bundle: LinkerBundle) -> None:
    search = CandidateSearch(bundle, Settings(threshold=-1.0))
    found = search.find([("cold", None), ("cold", frozenset({"T033"})), ("cold", frozenset({"T061"}))])
    assert [each.answer.candidates[0][0] for each in found[:2]] == ["C9100020", "C9100029"]
    assert {t for each in found[2].answer.candidates for t in bundle.kb.cui_to_entity[each[0]].types} == {"T061"}


def test_nearest_names_grouped_by_concept(bundle: LinkerBundle) -> None:
    search = CandidateSearch(bundle, Settings())
    (found,) = search.nearest(["heart attacks"], 5)
    vectors = bundle.encoder.encode(["heart attacks", *found[0].aliases])
    assert found[0].concept_id == "C9100003"
    assert found[0].similarities == pytest.approx((vectors[1:] @ vectors[0]).tolist(), abs=2e-3)


def test_additions_make_another_bundle(bundle: LinkerBundle) -> None:
    more = bundle.with_additions(Additions(names=[AddedName(HYPERTENSION, "the sweet trouble", "en")]))
    assert more.kb.find(["the sweet trouble"]) == {"the sweet trouble": bundle.kb.n_surface_forms}
    assert np.array_equal(more.additions.vectors["the sweet trouble"], bundle.encoder.encode(["the sweet trouble"])[0])
    assert (bundle.kb.find(["the sweet trouble"]), bundle.additions.names, bundle.kb.added) == ({}, [], None)
    with pytest.raises(SapbertError, match="E022"):
        more.with_additions(Additions(names=[AddedName("C0000000", "a name", "en")]))
    found = [CandidateSearch(each, Settings()).find(texts("the sweet trouble"))[0].answer for each in (more, bundle)]
    assert [answer.candidates[:1] for answer in found] == [[(HYPERTENSION, 1.0)], []]


def test_an_encoder_may_ask_more_of_a_single_word(bundle: LinkerBundle) -> None:
    encoder = Watched(bundle.encoder)
    mentions = texts("hypertensions disease", "hypertensionx", "hypertension")

    def linked() -> list[bool]:
        search = CandidateSearch(replace(bundle, encoder=encoder), Settings(linker_name="x", threshold=0.5))  # type: ignore[arg-type]
        return [found.answer.linked for found in search.find(mentions)]

    assert linked() == [True, True, True]
    encoder.least_word_score = 1.0  # type: ignore[attr-defined]
    assert linked() == [True, False, True]
