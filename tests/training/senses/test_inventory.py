"""The meanings of abbreviations that the sense model is trained on."""

from __future__ import annotations

from pathlib import Path

from spacy_sapbert.context.sense_model import MEANINGS
from spacy_sapbert.context.senses import DATA
from training.senses.inventory import WRONG


def test_the_shipped_meanings_have_none_that_notes_do_not_mean() -> None:
    rows = [line.split("\t") for line in (Path(DATA) / MEANINGS).read_text(encoding="utf-8").splitlines()[1:]]
    shipped = {(row[0], cui) for row in rows for cui in row[2].split("|")}
    assert len(shipped) > 2_000
    assert not WRONG & shipped
    assert ("hct", "C0018935") in shipped  # hematocrit
