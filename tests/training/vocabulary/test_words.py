"""The list of words that are frequent in notes."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path

from spacy_sapbert.matcher.spelling import MIN_LETTERS
from training.vocabulary.words import frequent, own_words, read_texts, write_words

TEXTS = ["The lesion was red. Lesions of skin", "A lesion, lesion; skin", "lesion skin x2", "Lesion of pain"]


def test_words_of_three_texts_and_four_letters(tmp_path: Path) -> None:
    assert frequent(TEXTS) == ["lesion", "skin"]  # "of" is too short, "pain" is in only one text, and words in capitals are other words
    with gzip.open(tmp_path / "notes.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"transcription": text}) + "\n" for text in [*TEXTS, TEXTS[0], None])
    assert read_texts(tmp_path / "notes.jsonl.gz") == {*TEXTS, ""}
    (tmp_path / "own.txt").write_text("# a comment of three words\nguardian skin\nsidling\n", encoding="utf-8")
    assert write_words(tmp_path / "notes.jsonl.gz", tmp_path / "words.xz", tmp_path / "own.txt") == 4
    assert lzma.decompress((tmp_path / "words.xz").read_bytes()).decode().splitlines()[1:] == ["guardian", "lesion", "sidling", "skin"]


def test_own_words_are_lower_case_words_that_may_be_corrected() -> None:
    assert all(word.isascii() and word.isalpha() and word.islower() and len(word) >= MIN_LETTERS for word in own_words())
