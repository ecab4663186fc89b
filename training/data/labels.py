"""Decide which concepts of a knowledge base count as one concept in training. They get the same label.

Cross-references of ontologies are not one to one. So two concepts may mean the same, and their names must not be negatives of each other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from spacy_sapbert.kb.concept import is_cui, normalise
from spacy_sapbert.kb.knowledge_base import KnowledgeBase

Ints = npt.NDArray[np.int32]


def assign_labels(kb: KnowledgeBase) -> tuple[Ints, dict[str, int]]:
    """Give each concept a label. Names of one label are synonyms; names of two labels may be negatives.

    Two concepts get one label
    - if a source term maps to both: each has the other's CUI among its codes;
    - if they have the same canonical name and at least one of them has no CUI (UMLS separates its own concepts of equal name on purpose);
    - if one is a drug and the other a trade name of only this drug (MRREL `has_tradename`, `tradename_of`). A trade name of several
      ingredients stays a separate concept.

    Args:
        kb: The knowledge base.

    Returns:
        The label of each concept row, int32 (concepts,), numbered from 0 in the order of rows; and the number of joins by each rule.
    """
    sets = _Sets(len(kb))
    joins = {"joined_by_source_term": 0, "joined_by_canonical_name": 0, "joined_by_trade_name": 0}
    last_code, last_row = "", -1
    for code, row in kb.concepts_of_codes("UMLS"):
        if code == last_code:
            joins["joined_by_source_term"] += sets.join(last_row, row)
        last_code, last_row = code, row
    for one, other in _equal_canonical_names(kb):
        joins["joined_by_canonical_name"] += sets.join(one, other)
    for brand, drug in _trade_names(kb):
        joins["joined_by_trade_name"] += sets.join(brand, drug)
    roots = np.fromiter((sets.root(row) for row in range(len(kb))), dtype=np.int32, count=len(kb))
    return np.unique(roots, return_inverse=True)[1].astype(np.int32).reshape(-1), joins


class _Sets:
    """Disjoint sets of concept rows, 4 bytes each."""

    def __init__(self, size: int) -> None:
        """Put each of `size` rows into a set of its own."""
        self._parent = np.arange(size, dtype=np.int32)

    def root(self, row: int) -> int:
        """Return the row that stands for the set of `row`."""
        parent = self._parent
        while parent[row] != row:
            parent[row] = parent[parent[row]]
            row = int(parent[row])
        return row

    def join(self, one: int, other: int) -> bool:
        """Join the sets of two rows. Return False if they are in the same set already."""
        one, other = self.root(one), self.root(other)
        self._parent[max(one, other)] = min(one, other)
        return one != other


def _equal_canonical_names(kb: KnowledgeBase) -> Iterator[tuple[int, int]]:
    """Yield pairs of concept rows with the same canonical name, of which the second has no CUI."""
    digests = np.empty(len(kb), dtype=np.uint64)
    has_cui = np.empty(len(kb), dtype=np.bool_)
    for row, concept_id, name in kb.canonical_names():  # 8-byte digests: 4 million names as text would be half a gigabyte
        digests[row] = int.from_bytes(hashlib.blake2b(normalise(name).encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
        has_cui[row] = is_cui(concept_id)
    order = np.lexsort((~has_cui, digests))  # of equal names, those with a CUI first
    equal = digests[order[1:]] == digests[order[:-1]]
    first = order[0] if len(order) else 0
    for after, same in zip(order[1:], equal):
        first = first if same else after
        if same and not has_cui[after]:
            yield int(first), int(after)


def _trade_names(kb: KnowledgeBase) -> Iterator[tuple[int, int]]:
    """Yield the concept rows of each trade name of a single drug, and of the drug."""
    drugs: dict[int, set[int]] = {}
    for row, relation, target in kb.relations(("has_tradename", "tradename_of")):
        if target in kb:
            other = kb.row_of(target)
            brand, drug = (other, row) if relation == "has_tradename" else (row, other)
            drugs.setdefault(brand, set()).add(drug)
    for brand, ingredients in sorted(drugs.items()):
        if len(ingredients) == 1:
            yield brand, next(iter(ingredients))
