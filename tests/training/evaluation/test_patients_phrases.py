"""The phrases of patients in examples/patients: the test part is apart from everything that was learnt or chosen, and its ids exist."""

from __future__ import annotations

import re
from pathlib import Path

from spacy_sapbert.build.default_linkers import hpo_file
from spacy_sapbert.kb.concept import normalise
from training.corpora import open_lines, read_tsv
from training.vocabulary import sources

ROOT = Path(__file__).parents[3]


def phrases(part: str) -> list[str]:
    """Return the normalised phrases of a part."""
    return [normalise(mention.text) for mention in read_tsv(open_lines(ROOT / "examples" / "patients" / f"{part}.tsv")).mentions]


def test_no_phrase_of_the_test_part_was_learnt_or_chosen_on() -> None:
    test, dev = phrases("test"), phrases("dev")
    learnt = {normalise(name.text) for concept in sources.read_lay([sources.HERE / "lay_names.tsv"]) for name in concept.names}
    assert (len(test), len(set(test)), len(dev)) == (249, 249, 172)
    assert set(test) & learnt == set()
    assert set(test) & set(dev) == set()


def test_every_id_is_a_term_of_hpo_that_is_not_obsolete() -> None:
    terms = hpo_file().read_text(encoding="utf-8").split("\n[Term]\n")
    current = {match[1] for term in terms if "\nis_obsolete: true" not in term and (match := re.match(r"id: (HP:\d{7})", term))}
    for part in ("dev", "test"):
        mentions = read_tsv(open_lines(ROOT / "examples" / "patients" / f"{part}.tsv")).mentions
        assert {code for mention in mentions for alternative in mention.gold for code in alternative} <= current
