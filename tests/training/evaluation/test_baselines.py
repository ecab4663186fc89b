"""Systems without a trained encoder: computed by hand, and compared with the code of scispaCy."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse

from spacy_sapbert.errors import SapbertError
from training.evaluation import baselines

# every name contains " dis" and "ease", because scispaCy uses only 3-grams that ten names have
NAMES = [f"{word} disease" for word in ("wilson", "crohn", "still", "fabry", "gaucher", "graves", "hodgkin", "menkes", "paget", "pick", "pompe")]
NAMES += ["zebra", "wilson disease of the liver"]


def test_exact_match():
    scores = baselines.exact_match(["a", "b"], ["b", "c"])(0, 2)
    assert scores.tolist() == [[-np.inf, -np.inf], [1.0, -np.inf]]


def test_pairs_of_texts_by_hand():
    assert baselines.equal_pairs(["a", "b"], ["a", "c"]).tolist() == [1.0, 0.0]
    # "abc" and "bcd" are each in three of the four texts: idf = ln((1 + 4) / (1 + 3)) + 1
    found = baselines.tfidf_pairs(["abc", "abcd"], ["abcd", "bcd"])
    assert found == pytest.approx([0.5**0.5, 0.5**0.5], abs=1e-6)  # both have the same weight, so a text with one of the two is at 45 degrees
    assert baselines.tfidf_pairs(["abc", "ab"], ["xyz", "abc"]).tolist() == [0.0, 0.0]
    assert baselines.tfidf_pairs(["a"], ["b"]).tolist() == [0.0]


def test_exact_neighbours_by_hand():
    index = baselines.ExactNeighbours()
    index.addDataPointBatch(scipy.sparse.csr_matrix([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [1.0, 0.0]]))
    index.createIndex({"M": 100}, print_progress=True)
    (first, second) = index.knnQueryBatch(scipy.sparse.csr_matrix([[1.0, 0.0], [0.0, 1.0]]), k=3)
    assert first[0].tolist() == [0, 3, 2]
    assert first[1] == pytest.approx([0.0, 0.0, 0.4])
    assert second[0].tolist() == [1, 2, 0]  # of the two names that share nothing, the earlier one comes first
    assert second[1] == pytest.approx([0.0, 0.2, 1.0])


def test_the_neighbours_are_those_of_scispacys_own_graph():
    pytest.importorskip("scispacy.candidate_generation")
    exact, graph = (baselines.candidate_generator(NAMES, exact=exact) for exact in (True, False))
    assert exact.ann_concept_aliases_list == graph.ann_concept_aliases_list
    assert "zebra" not in exact.ann_concept_aliases_list  # none of its 3-grams occurs in ten names
    for queries in (["wilson disease"], ["diseases", "zebra"]):
        for ours, theirs in zip(exact(queries, 20), graph(queries, 20)):
            assert [c.concept_id for c in ours] == [c.concept_id for c in theirs]
            assert [c.similarities[0] for c in ours] == pytest.approx([c.similarities[0] for c in theirs], abs=1e-5)


def test_scispacys_candidates_score_as_their_best_name():
    pytest.importorskip("scispacy.candidate_generation")
    make = baselines.ScispacyCandidates()
    score = make(NAMES, ["wilson disease", "zebra", "diseases"])
    scores = score(0, 3)
    assert scores.shape == (13, 3)
    # ten names have only the 3-grams of " disease", so all eleven "… disease" have the vector of the first query
    assert scores[:11, 0] == pytest.approx(1.0, abs=1e-6)
    assert np.isneginf(scores[:, 1]).all()  # an empty vector
    assert np.isneginf(scores[11]).all()
    np.testing.assert_allclose(score(2, 3)[:, 0], scores[:, 2], rtol=1e-6)
    kept = make._generator
    make(NAMES, ["x"])
    assert make._generator is kept
    make([*NAMES], ["x"])
    assert make._generator is not kept


def test_no_more_than_thirty_names_are_looked_at():
    pytest.importorskip("scispacy.candidate_generation")
    names = [f"{i} disease" for i in range(40)]
    scores = baselines.ScispacyCandidates()(names, ["disease"])(0, 1)
    assert int(np.isfinite(scores).sum()) == 30


def test_too_small_a_dictionary_is_said():
    pytest.importorskip("scispacy.candidate_generation")
    with pytest.raises(SapbertError, match=r"\[E571\].*from 1 names"):
        baselines.candidate_generator(["fever"])


def test_scispacy_without_nmslib_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "scispacy.candidate_generation", None)
    with pytest.raises(SapbertError, match=r"\[E570\].*nmslib"):
        baselines.candidate_generator(NAMES)
