"""The list of words that are frequent in notes."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path

from training.vocabulary.words import frequent, read_texts, write_words

TEXTS = ["The lesion was red. Lesions of skin", "A lesion, lesion; skin", "lesion skin x2", "Lesion of pain"]


def test_words_of_three_texts_and_four_letters(tmp_path: Path) -> None:
    assert frequent(TEXTS) == ["lesion", "skin"]  # "of" is too short, "pain" is in only one text, and words in capitals are other words
    with gzip.open(tmp_path / "notes.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"transcription": text}) + "\n" for text in [*TEXTS, TEXTS[0], None])
    assert read_texts(tmp_path / "notes.jsonl.gz") == {*TEXTS, ""}
    assert write_words(tmp_path / "notes.jsonl.gz", tmp_path / "words.xz") == 2
    assert lzma.decompress((tmp_path / "words.xz").read_bytes()).decode().splitlines()[1:] == ["lesion", "skin"]
