"""The names that queries are looked up in: distinct names, and what each stands for. From a knowledge base, whole or in part."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import numpy.typing as npt

from spacy_sapbert.kb.knowledge_base import KnowledgeBase

from ..loop.retrieval import Ints1d
from .breakdown import DictionaryView


@dataclass(frozen=True)
class Dictionary:
    """Distinct names and what they stand for. rows, labels (m,): name and concept of each pair, in the order of labels.
    n_labels: concepts, those without a name included. about: source, fingerprint and counts, for the output. entry: label -> id and
    preferred name of its concept, for the output; None: the label and its first name."""

    names: List[str]
    rows: Ints1d
    labels: Ints1d
    n_labels: int
    about: Dict[str, Any]
    entry: Optional[Callable[[int], Tuple[str, str]]] = None

    def names_of(self, label: int) -> List[str]:
        start, end = np.searchsorted(self.labels, [label, label + 1])
        return [self.names[row] for row in self.rows[start:end].tolist()]

    def known(self) -> DictionaryView:
        return DictionaryView(self.entry or (lambda label: (str(label), next(iter(self.names_of(label)), ""))), self.names_of)


def make_dictionary(
    names: List[str],
    rows: Ints1d,
    labels: Ints1d,
    n_labels: int,
    about: Dict[str, Any],
    entry: Optional[Callable[[int], Tuple[str, str]]] = None,
) -> Dictionary:
    """Puts pairs in the order of labels and counts. rows, labels (m,) in any order."""
    order = np.argsort(labels, kind="stable")
    counts = {"names": len(names), "concepts": len(np.unique(labels))}
    return Dictionary(names, rows[order].astype(np.int64), labels[order].astype(np.int64), n_labels, {**about, **counts}, entry)


def select(dictionary: Dictionary, keep: npt.NDArray[np.bool_], about: Dict[str, Any]) -> Dictionary:
    """The dictionary with only the pairs that `keep` (m,) marks, and the names that are left in one."""
    used = np.unique(dictionary.rows[keep])
    rows = np.searchsorted(used, dictionary.rows[keep])
    names = [dictionary.names[row] for row in used.tolist()]
    return make_dictionary(names, rows, dictionary.labels[keep], dictionary.n_labels, {**dictionary.about, **about}, dictionary.entry)


def of_kb(kb: KnowledgeBase, source: str, labels: Optional[npt.NDArray[np.int32]] = None, leave_out: Collection[str] = ()) -> Dictionary:
    """A knowledge base's names. labels (concepts,): what counts as one concept; default: each its own. leave_out: normalised names."""
    concepts = kb.name_table.concept.astype(np.int64)
    targets = concepts if labels is None else labels[concepts].astype(np.int64)
    n_labels = len(kb) if labels is None else int(labels.max(initial=-1)) + 1
    known, first = np.unique(np.arange(len(kb)) if labels is None else labels, return_index=True)  # a concept of each label

    def entry(label: int) -> Tuple[str, str]:
        row = int(first[np.searchsorted(known, label)])
        return kb.concept_id(row), kb.concept(row).names[0].text

    about = {"source": source, "kb": kb.fingerprint}
    whole = make_dictionary(list(kb.surface_forms()), kb.name_table.surface_form.astype(np.int64), targets, n_labels, about, entry)
    if not leave_out:
        return whole
    left = np.array([name not in leave_out for name in whole.names], dtype=np.bool_)
    return select(whole, left[whole.rows], {"names_left_out": int((~left).sum())})


def extend(dictionary: Dictionary, extra: Sequence[Tuple[str, int]], n_labels: int, about: Dict[str, Any], ids: Sequence[str] = ()) -> Dictionary:
    """More (normalised name, label) pairs; equal names stay one. ids: of the new labels, in their order."""
    row_of = {name: row for row, name in enumerate(dictionary.names)}
    extra = [pair for pair in dict.fromkeys(extra) if pair[0]]
    rows = np.array([row_of.setdefault(name, len(row_of)) for name, _ in extra], dtype=np.int64)
    labels = np.array([label for _, label in extra], dtype=np.int64)
    both = np.concatenate([dictionary.rows, rows]), np.concatenate([dictionary.labels, labels])
    names, n_old = list(row_of), dictionary.n_labels
    first = {label: names[row] for row, label in zip(rows.tolist()[::-1], labels.tolist()[::-1])}
    old = dictionary.known().entry

    def entry(label: int) -> Tuple[str, str]:
        return old(label) if label < n_old else (ids[label - n_old] if ids else str(label), first.get(label, ""))

    return make_dictionary(names, *both, n_labels, {**dictionary.about, **about}, entry)
