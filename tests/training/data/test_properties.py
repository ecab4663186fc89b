"""Properties of the training data that must hold for any input."""

from __future__ import annotations

import random
import re
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.kb.builder import Source, build_kb
from spacy_sapbert.kb.concept import Concept, Name, normalise
from training.data.augment import reorder, slip, unpunctuate
from training.data.bilingual import Bilingual
from training.data.grounding_pairs import SHARES, allot
from training.data.pairs import ZERO_SHOT, build_pairs, choose_pairs, read_queries
from training.data.translations import of_rows, split
from training.data.wording import OwnNames, first_sentences, judge, tidy

WORDS = st.sampled_from(["gout", "Gouts", "MEN", "men", "high fever", "ATP", "x-linked", "β-cell", "its", "The", "cockayne (cs)"])
NAMES = st.lists(WORDS, min_size=1, max_size=4, unique=True)
TEXTS = st.lists(st.one_of(WORDS, st.sampled_from(["is a", "of", "known as", "(", ")", ".", ",", "disease", "kidney", "'s", "-"])), max_size=25)
# few names for many concepts, so that some names belong to several concepts
CONCEPTS = st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=6, unique=True), min_size=3, max_size=12)


@settings(max_examples=30, deadline=None)
@given(concepts=CONCEPTS, seed=st.integers(0, 9), held_out=st.floats(0.0, 0.5), zero_shot=st.floats(0.0, 0.4))
def test_no_held_out_name_is_in_a_pair(concepts: list[list[int]], seed: int, held_out: float, zero_shot: float) -> None:
    owners: dict[str, set[int]] = {}
    made = []
    for i, numbers in enumerate(concepts):
        names = [f"name {n}" for n in numbers]
        made.append(Concept(f"A:{i}", "T", names=[Name(f"canonical {i}", "T", rank=0), *(Name(n, "T", rank=1) for n in names)]))
        for name in (f"canonical {i}", *names):
            owners.setdefault(name, set()).add(i)
    with tempfile.TemporaryDirectory() as scratch:
        kb = build_kb([Source("test", made)], Path(scratch) / "kb")
        try:
            build_pairs(kb, Path(scratch) / "pairs", seed=seed, held_out=held_out, zero_shot=zero_shot)
        except SapbertError:  # no pair is left
            reject()
        rows = pq.read_table(Path(scratch) / "pairs" / "pairs.parquet").to_pylist()
        queries = read_queries(Path(scratch) / "pairs")
    trained = {row[column] for row in rows for column in ("anchor", "positive")}
    assert trained.isdisjoint(query.query for query in queries)
    assert {row["label"] for row in rows}.isdisjoint(query.label for query in queries if query.split == ZERO_SHOT)
    for row in rows:
        assert row["anchor"] != row["positive"]
        assert owners[row["anchor"]] == owners[row["positive"]]
        assert len(owners[row["anchor"]]) == 1
    for query in queries:
        assert len(owners[query.query]) == 1


@settings(deadline=None)
@given(n=st.integers(2, 60), most=st.integers(1, 60), seed=st.tuples(st.integers(0, 5), st.integers(0, 5)))
def test_chosen_pairs_are_distinct_and_as_many_as_there_can_be(n: int, most: int, seed: tuple[int, int]) -> None:
    chosen = choose_pairs(n, most, seed)
    assert len(set(chosen)) == len(chosen) == min(most, n * (n - 1) // 2)
    assert chosen == sorted(chosen)
    assert all(0 <= a < b < n for a, b in chosen)


@settings(deadline=None)
@given(
    wanted=st.fixed_dictionaries({kind: st.integers(0, 50) for kind in SHARES}),
    shares=st.fixed_dictionaries({kind: st.floats(0.01, 1.0) for kind in SHARES}),
    limit=st.integers(1, 80),
)
def test_the_limit_of_pairs_is_used_up(wanted: dict[str, int], shares: dict[str, float], limit: int) -> None:
    taken = allot(wanted, shares, limit)
    assert all(0 <= taken[kind] <= wanted[kind] for kind in wanted)
    assert sum(taken.values()) == min(limit, sum(wanted.values()))


@settings(deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 15), st.sampled_from(["de", "es", "it"])), max_size=40),
    held_out=st.floats(0.0, 0.9),
    seed=st.integers(0, 9),
)
def test_no_held_out_translation_is_trained_on(rows: list[tuple[int, int, str]], held_out: float, seed: int) -> None:
    names = of_rows(Bilingual(f"english {c}", f"wort {t}", language, f"A:{c}") for c, t, language in rows)
    held, kept = split(names, held_out, seed)
    trained = kept & ~held
    assert not np.isin(names.translations[trained], names.translations[held]).any()
    assert (kept | np.isin(names.translations, names.translations[held])).all()  # nothing else is dropped
    assert kept[held].all()
    for number in range(len(names.languages)):
        concepts = np.unique(names.concepts[names.spoken == number])
        assert len(np.unique(names.concepts[held & (names.spoken == number)])) == round(held_out * len(concepts))


@settings(deadline=None)
@given(words=TEXTS, names=NAMES)
def test_no_text_names_its_own_concept(words: list[str], names: list[str]) -> None:
    own = OwnNames(names)
    judged = judge(" ".join(words), own)
    assert bool(judged.text) != bool(judged.why)
    assert not own.within(judged.text)


@settings(deadline=None)
@given(text=st.text())
def test_a_clean_text_stays_as_it_is(text: str) -> None:
    once = tidy(text)
    assume("&" not in once and "<" not in once)  # "&amp;lt;" is cleaned one level at a time
    assume("[" not in once and "(" not in once)
    assert tidy(once) == once
    assert once == " ".join(once.split())


@settings(deadline=None)
@given(words=TEXTS, limit=st.integers(0, 120))
def test_the_first_sentences_are_the_beginning_of_the_text(words: list[str], limit: int) -> None:
    text = " ".join(words)
    first = first_sentences(text, limit)
    assert text.startswith(first)
    assert len(first) <= limit
    assert not first or re.search(r"[.!?][\"')\]]*$", first)


@settings(deadline=None)
@given(name=st.text(st.characters(categories=["L", "N", "P", "Zs"])).map(normalise), seed=st.integers(0, 99))
def test_an_augmented_name_keeps_its_letters(name: str, seed: int) -> None:
    assume(name)
    chance = random.Random(seed)
    assert sorted(reorder(name, chance).split()) == sorted(name.split())
    assert sorted(slip(name, chance)) == sorted(name)
    bare = unpunctuate(name, chance)
    assert bare
    assert [c for c in bare if c.isalnum()] == [c for c in name if c.isalnum()]
    assert unpunctuate(bare, chance) == bare
