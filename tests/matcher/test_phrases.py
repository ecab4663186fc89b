"""Phrases as hashes: they find the same as a dictionary of the phrases, with a hundredth of its memory."""

from __future__ import annotations

import hashlib
import pickle
import random
import shutil
from pathlib import Path
from typing import Dict, List, Tuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_sapbert.errors import DamagedFile, MissingFile
from spacy_sapbert.matcher.phrases import MAX_WORDS, Collected, Phrases, union, word_hash

GIVEN = [("chest pain", "T184"), ("pain", "T184"), ("chest", "T023"), ("chest pain and fever", "T033"), ("pain", "T033")]


def hashed(text: str) -> List[int]:
    return [word_hash(word) for word in text.split()]


def collected(given: List[Tuple[str, str]]) -> Phrases:
    into = Collected()
    for text, label in given:
        into.add(hashed(text), label)
    return into.phrases()


def by_hand(*words: str) -> int:
    """Compute the hash as it is in files: if it changes, `VERSION` must change."""
    run = 0
    for word in words:
        mixed = ((run ^ int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")) * 0x9E3779B97F4A7C15) % 2**64
        run = mixed ^ (mixed >> 29)
    return run


def longest(phrases: Phrases, text: str) -> List[Tuple[int, str]]:
    """Return (words, label) of the longest phrase at each word; (0, "") if none begins there."""
    lengths, labels = phrases.longest(np.array(hashed(text), dtype=np.uint64))
    return [(length, phrases.names[label] if length else "") for length, label in zip(lengths.tolist(), labels.tolist())]


def test_the_longest_phrase_at_each_word() -> None:
    phrases = collected(GIVEN)
    assert len(phrases) == 4  # "pain" twice
    assert longest(phrases, "chest pain and fever") == [(4, "T033"), (1, "T184"), (0, ""), (0, "")]
    assert longest(phrases, "pain chest pain and") == [(1, "T184"), (2, "T184"), (1, "T184"), (0, "")]  # the text ends within the longer phrase
    assert longest(phrases, "fever and") == [(0, ""), (0, "")]
    assert longest(phrases, "") == []


def test_only_phrases_of_more_words() -> None:
    phrases = collected(GIVEN)
    words = np.array(hashed("chest pain and fever"), dtype=np.uint64)
    for more_than, expected in [
        ([0, 0, 0, 0], [4, 1, 0, 0]),
        ([3, 1, 0, 0], [4, 0, 0, 0]),
        ([4, 0, 0, 0], [0, 1, 0, 0]),
        ([999, 999, 0, 0], [0, 0, 0, 0]),
    ]:
        assert phrases.longest(words, np.array(more_than))[0].tolist() == expected


def test_several_texts_at_once() -> None:
    phrases = collected(GIVEN)
    texts = [np.array(hashed(text), dtype=np.uint64) for text in ("fever chest", "", "pain", "chest pain and fever")]
    found = [(lengths.tolist(), labels.tolist()) for lengths, labels in phrases.longest_of_all(texts)]
    assert found == [(lengths.tolist(), labels.tolist()) for lengths, labels in map(phrases.longest, texts)]
    assert [lengths for lengths, _ in found] == [[0, 1], [], [1], [4, 1, 0, 0]]
    more_than = [np.full(len(text), 1) for text in texts]
    assert [lengths.tolist() for lengths, _ in phrases.longest_of_all(texts, more_than)] == [[0, 0], [], [0], [4, 0, 0, 0]]
    assert phrases.longest_of_all([]) == []


def test_nothing_is_found_among_nothing() -> None:
    none = collected([])
    assert (len(none), longest(none, "chest pain")) == (0, [(0, ""), (0, "")])
    assert longest(union([none, collected(GIVEN)]), "chest pain") == [(2, "T184"), (1, "T184")]
    assert len(union([none, none])) == 0


def test_a_union_keeps_the_first_label() -> None:
    more = collected([("chest pain", "OTHER"), ("chest x ray", "PROC"), ("pain", "OTHER")])
    assert longest(union([collected(GIVEN), more]), "chest pain chest x ray") == [(2, "T184"), (1, "T184"), (3, "PROC"), (0, ""), (0, "")]
    assert longest(union([more, collected(GIVEN)]), "chest pain") == [(2, "OTHER"), (1, "OTHER")]


def test_sizes_of_the_phrases_that_begin_with_a_word() -> None:
    words = np.array([word_hash(word) for word in ("pain", "chest", "x", "fever")], dtype=np.uint64)
    phrases = collected([("chest x ray", "PROC"), ("fever", "DISO"), ("chest", "ANAT")])
    assert phrases.sizes(words).tolist() == [0, 0b101, 0, 0b1]
    assert collected([]).sizes(words).tolist() == [0] * 4


def test_words_are_hashed_alike_everywhere() -> None:
    assert word_hash("fever") == 0x990051AF14380EE6  # blake2b, 8 bytes, little-endian: the hashes are saved in files, so they must never change
    assert word_hash("\ud800") != word_hash("")
    three = collected([("chest pain fever", "X")]).hashes.tolist()
    assert (three, collected([("chest pain", "X")]).hashes.tolist()) == ([by_hand("chest", "pain", "fever")], [by_hand("chest", "pain")])
    order = [word_hash("chest"), word_hash("pain")]
    one, two = Collected(), Collected()
    one.add(order, "X")
    two.add(order[::-1], "X")
    assert one.phrases().hashes[0] != two.phrases().hashes[0]


def test_as_a_dictionary_would_find_them() -> None:
    chance = random.Random(5)
    words = [f"w{i}" for i in range(30)]
    known: Dict[Tuple[str, ...], str] = {}
    for _ in range(3_000):
        known.setdefault(tuple(chance.choices(words, k=chance.randint(1, MAX_WORDS if chance.random() < 0.1 else 3))), f"L{chance.randrange(40)}")
    phrases = collected([(" ".join(key), label) for key, label in known.items()])
    assert len(phrases) == len(known)
    for _ in range(50):
        text = chance.choices([*words, "unknown"], k=chance.randint(1, 80))
        expected = []
        for at in range(len(text)):
            length = next((n for n in range(min(MAX_WORDS, len(text) - at), 0, -1) if tuple(text[at : at + n]) in known), 0)
            expected.append((length, known.get(tuple(text[at : at + length]), "")))
        assert longest(phrases, " ".join(text)) == expected


def test_files_are_mapped_and_bytes_hold_the_same(tmp_path: Path) -> None:
    phrases = collected(GIVEN)
    (tmp_path / "kept").mkdir()
    phrases.to_disk(tmp_path / "kept")
    opened = Phrases.from_disk(tmp_path / "kept")
    assert isinstance(opened.hashes.base, np.memmap)
    text = "no chest pain and fever"
    assert longest(opened, text) == longest(Phrases.from_dict(phrases.to_dict()), text) == longest(phrases, text)
    assert sum(getattr(phrases, name).itemsize for name in ("hashes", "labels")) == 10  # bytes for each phrase
    for wrong in ({"labels": b"1"}, {"labels": b"1\0" * 3}, {"labels": b"\7\0" * 4}, {"names": []}, {"lengths": b""}):
        with pytest.raises(DamagedFile, match=r"E030.*these bytes"):
            Phrases.from_dict({**phrases.to_dict(), **wrong})
    with pytest.raises(MissingFile, match="E030"):
        Phrases.from_disk(tmp_path / "other")


def test_what_is_mapped_is_mapped_in_another_process_too(tmp_path: Path) -> None:
    phrases = collected([(f"word{i} pain", "X") for i in range(5_000)])
    assert len(pickle.dumps(phrases)) > 50_000
    (tmp_path / "kept").mkdir()
    phrases.to_disk(tmp_path / "kept")
    sent = pickle.dumps(Phrases.from_disk(tmp_path / "kept"))
    assert len(sent) < 1_000
    for copy in (pickle.loads(sent), pickle.loads(pickle.dumps(phrases))):
        assert longest(copy, "word77 pain") == [(2, "X"), (0, "")]
    assert isinstance(pickle.loads(sent).hashes.base, np.memmap)
    opened = Phrases.from_disk(tmp_path / "kept")
    shutil.rmtree(tmp_path / "kept")  # the mapped arrays can still be read
    assert longest(pickle.loads(pickle.dumps(opened)), "word77 pain") == [(2, "X"), (0, "")]


SOME = st.lists(st.sampled_from("abcd"), min_size=1, max_size=4).map(" ".join)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(SOME, st.sampled_from(["T1", "T2", "T3"])), max_size=12), st.lists(st.sampled_from("abcde"), max_size=12), st.integers(0, 12)
)
def test_the_same_as_a_plain_dictionary(given_phrases: List[Tuple[str, str]], words: List[str], cut: int) -> None:
    known: Dict[Tuple[str, ...], str] = {}
    for text, label in given_phrases:
        known.setdefault(tuple(text.split()), label)
    expected = []
    for at in range(len(words)):
        length = max((n for n in range(len(words) - at + 1) if tuple(words[at : at + n]) in known), default=0)
        expected.append((length, known.get(tuple(words[at : at + length]), "")))
    assert longest(collected(given_phrases), " ".join(words)) == expected
    assert longest(union([collected(given_phrases[:cut]), collected(given_phrases[cut:])]), " ".join(words)) == expected
