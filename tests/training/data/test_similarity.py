"""Readers of pairs of texts with a human score."""

from __future__ import annotations

import pytest

from spacy_sapbert.errors import SapbertError
from training.data.similarity import read_biosses, read_sick, read_stsb, read_terms, read_umnsrs, scored_pairs


def test_umnsrs_and_stsb():
    assert read_umnsrs(['"Mean","Stdev","Term1","Term2"', "79.5,1,Carbatrol,Dilantin"]) == [("Carbatrol", "Dilantin", 79.5)]
    assert read_stsb(['"A man, a hat.",A hat.,4.75']) == [("A man, a hat.", "A hat.", 4.75)]


def test_biosses_with_a_line_break_in_a_sentence():
    lines = ["sent_1,sent_2,score_1,score_2,sim", '"One, two.","A sentence is', 'broken. ",4,3,3.5', '"x","y",0,1,.5']
    assert read_biosses(lines) == [("One, two.", "A sentence is broken.", 3.5), ("x", "y", 0.5)]


def test_sick_with_quotes_that_are_none():
    lines = ["pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment", '6\t"No" boy\tA boy\t3.3\tNEUTRAL']
    assert read_sick(lines) == [('"No" boy', "A boy", 3.3)]


@pytest.mark.parametrize(
    "lines",
    [
        ["CUI1,CUI2,TERM1,TERM2,Mean", 'C1,C2,"pain, chronic",ache,7.5'],
        ["\ufeffMean,Term1,Term2", '7.5,"pain, chronic",ache', "", ",a,b", " ,c,d"],
        ["snomed_id_1\tsnomed_label_1\tsnomed_id_2\tsnomed_label_2\trater_A\tmean_rating\tCUI_1", "1\tpain, chronic\t2\tache\t7\t7.5\tC1"],
    ],
)
def test_terms_by_the_names_of_columns(lines):
    pairs, without = scored_pairs(read_terms(lines))
    assert pairs == [("pain, chronic", "ache", 7.5)]
    assert without == (2 if ",a,b" in lines else 0)


@pytest.mark.parametrize(
    ("lines", "what"), [([], "the first term"), (["term1,term2,rating", "a,b,1"], "the mean score"), (["term1\tmean"], "the second")]
)
def test_a_layout_without_a_column_is_named(lines, what):
    with pytest.raises(SapbertError, match=rf"\[E572\].*{what}"):
        read_terms(lines)


def test_a_score_that_is_no_number():
    with pytest.raises(ValueError, match="high"):
        read_terms(["term1,term2,mean", "a,b,high"])
