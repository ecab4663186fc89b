"""The name table: rows are found by bisection, on a table that is small enough to check by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_sapbert.kb.name_table import NameTable

# surface form 0 stands for concepts 5 and 6, 1 for 6, 2 for 7, 4 for 5 and 7; 3 has no row
ROWS = [(0, 5, 0, 1, 2, 1), (0, 6, 10_000, 0, 1, 0), (1, 6, 0, 0, 1, 0), (2, 7, 1, 3, 0, 1), (4, 5, 0, 1, 2, 1), (4, 7, 0, 3, 0, 1)]
TABLE = NameTable.from_rows(ROWS)


def test_columns_have_names() -> None:
    assert len(TABLE) == 6
    assert TABLE.surface_form.tolist() == [0, 0, 1, 2, 4, 4]
    assert TABLE.concept.tolist() == [5, 6, 6, 7, 5, 7]
    assert TABLE.rank.tolist() == [0, 10_000, 0, 1, 0, 0]
    assert TABLE.types.tolist() == [1, 0, 0, 3, 1, 3]
    assert TABLE.vocabularies.tolist() == [2, 1, 1, 0, 2, 0]
    assert TABLE.defined.tolist() == [1, 0, 0, 1, 1, 1]
    assert all(column.dtype == np.int32 and column.flags["C_CONTIGUOUS"] for column in (TABLE.surface_form, TABLE.concept, TABLE.defined))


def test_rows_of_surface_forms() -> None:
    which, rows = TABLE.find(np.array([4, 3, 0, 0, -1, 2]))
    assert which.tolist() == [0, 0, 2, 2, 3, 3, 5]
    assert rows.tolist() == [4, 5, 0, 1, 0, 1, 3]
    which, rows = TABLE.find(np.array([], dtype=np.int64))
    assert (which.tolist(), rows.tolist()) == ([], [])


def test_concepts_of_surface_forms() -> None:
    assert TABLE.concepts_of([4, 3, 0, -1]) == [frozenset({5, 7}), frozenset(), frozenset({5, 6}), frozenset()]


def test_surface_forms_with_a_row_that_is_allowed() -> None:
    allowed = TABLE.concept == 5
    assert TABLE.surface_forms_of(allowed, 6).tolist() == [True, False, False, False, True, False]


def test_no_rows() -> None:
    empty = NameTable.from_rows([])
    assert len(empty) == 0
    assert empty.concepts_of([0, 1]) == [frozenset(), frozenset()]
    assert [found.tolist() for found in empty.find([0])] == [[], []]


def test_a_file_is_mapped_and_another_shape_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "names.npy", np.array(ROWS, dtype=np.int32).T)
    table = NameTable.open(tmp_path / "names.npy")
    assert isinstance(table.concept, np.memmap)
    assert table.concept.tolist() == TABLE.concept.tolist()
    np.save(tmp_path / "other.npy", np.zeros((5, 4), dtype=np.int32))
    with pytest.raises(ValueError, match=r"\(5, 4\)"):
        NameTable.open(tmp_path / "other.npy")


@settings(max_examples=60, deadline=None)
@given(st.sets(st.tuples(st.integers(0, 8), st.integers(0, 4)), max_size=20), st.lists(st.integers(-1, 9), max_size=8))
def test_find_is_a_plain_search(pairs: set[tuple[int, int]], wanted: list[int]) -> None:
    ordered = sorted(pairs)
    table = NameTable.from_rows((form, concept, 0, 0, 0, 0) for form, concept in ordered)
    which, rows = table.find(np.array(wanted, dtype=np.int64))
    expected = [(i, row) for i, form in enumerate(wanted) for row, (other, _) in enumerate(ordered) if other == form]
    assert list(zip(which.tolist(), rows.tolist())) == expected
    assert table.concepts_of(np.array(wanted, dtype=np.int64)) == [frozenset(c for f, c in ordered if f == form) for form in wanted]


def test_the_rank_of_a_name_of_a_concept() -> None:
    assert [TABLE.rank_of(0, 5), TABLE.rank_of(0, 6), TABLE.rank_of(2, 7), TABLE.rank_of(4, 7)] == [0, 10_000, 1, 0]
