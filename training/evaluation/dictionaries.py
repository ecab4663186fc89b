"""Dictionaries: the distinct names among which queries are looked up, and the concepts of each name."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.files import checksum
from spacy_sapbert.kb.concept import normalise
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.readers import sniff
from spacy_sapbert.readers.text import lines

from ..corpora.corpus import misfit
from ..loop.retrieval import Ints1d
from .breakdown import DictionaryView


@dataclass(frozen=True)
class Dictionary:
    """Distinct names and their concepts. It has m pairs of a name and a concept.

    Attributes:
        names: The names, normalised.
        rows: (m,) position in `names` of the name of each pair.
        labels: (m,) label of the concept of each pair, in ascending order.
        n_labels: Number of concepts, with those that have no name.
        about: Source, fingerprint and counts, for the output.
        entry: Label -> id and preferred name of its concept, for the output; None: the label and its first name.
    """

    names: list[str]
    rows: Ints1d
    labels: Ints1d
    n_labels: int
    about: dict[str, Any]
    entry: Callable[[int], tuple[str, str]] | None = None

    def names_of(self, label: int) -> list[str]:
        """Return the names of a concept."""
        start, end = np.searchsorted(self.labels, [label, label + 1])
        return [self.names[row] for row in self.rows[start:end].tolist()]

    def known(self) -> DictionaryView:
        """Return the parts of the dictionary that the breakdown of figures needs."""
        return DictionaryView(self.entry or (lambda label: (str(label), next(iter(self.names_of(label)), ""))), self.names_of)


def dictionary_kind(path: Path) -> str:
    """Return the reader for a file of names, recognised from its content. A table `id TAB name` without a header is read like `id||name`.

    Raises:
        SapbertError: E401, E402 (its content is not recognised).
    """
    try:
        return sniff(path)
    except SapbertError as error:
        first = next((line for _, line in lines(path) if line.strip()), "") if error.code == "E402" else ""
        if len(first.split("\t")) != 2:
            raise
        return "biosyn"


def make_dictionary(
    names: list[str],
    rows: Ints1d,
    labels: Ints1d,
    n_labels: int,
    about: dict[str, Any],
    entry: Callable[[int], tuple[str, str]] | None = None,
) -> Dictionary:
    """Make a dictionary from pairs in any order.

    Args:
        names: The names, normalised.
        rows: (m,) position in `names` of the name of each pair.
        labels: (m,) label of the concept of each pair.
        n_labels: Number of concepts.
        about: Source and fingerprint; counts are added.
        entry: See `Dictionary`.
    """
    order = np.argsort(labels, kind="stable")
    counts = {"names": len(names), "concepts": len(np.unique(labels))}
    return Dictionary(names, rows[order].astype(np.int64), labels[order].astype(np.int64), n_labels, {**about, **counts}, entry)


def select(dictionary: Dictionary, keep: npt.NDArray[np.bool_], about: dict[str, Any]) -> Dictionary:
    """Keep some pairs of a dictionary, and the names that occur in these pairs.

    Args:
        dictionary: The whole dictionary.
        keep: (m,) the pairs to keep.
        about: Entries that are added to `about`.
    """
    used = np.unique(dictionary.rows[keep])
    rows = np.searchsorted(used, dictionary.rows[keep])
    names = [dictionary.names[row] for row in used.tolist()]
    return make_dictionary(names, rows, dictionary.labels[keep], dictionary.n_labels, {**dictionary.about, **about}, dictionary.entry)


def of_kb(kb: KnowledgeBase, source: str, labels: npt.NDArray[np.int32] | None = None, leave_out: Collection[str] = ()) -> Dictionary:
    """Make a dictionary from the names of a knowledge base.

    Args:
        kb: The knowledge base.
        source: Name of the dictionary in the output.
        labels: (concepts,) label of each concept row; concepts with the same label count as one. None: each concept has its own label.
        leave_out: Normalised names that are left out.
    """
    concepts = kb.name_table.concept.astype(np.int64)
    targets = concepts if labels is None else labels[concepts].astype(np.int64)
    n_labels = len(kb) if labels is None else int(labels.max(initial=-1)) + 1
    known, first = np.unique(np.arange(len(kb)) if labels is None else labels, return_index=True)  # one concept row of each label

    def entry(label: int) -> tuple[str, str]:
        row = int(first[np.searchsorted(known, label)])
        return kb.concept_id(row), kb.concept(row).names[0].text

    about = {"source": source, "kb": kb.fingerprint}
    whole = make_dictionary(list(kb.surface_forms()), kb.name_table.surface_form.astype(np.int64), targets, n_labels, about, entry)
    if not leave_out:
        return whole
    kept = np.array([name not in leave_out for name in whole.names], dtype=np.bool_)
    return select(whole, kept[whole.rows], {"names_left_out": int((~kept).sum())})


def of_lines(path: Path, source: str, *, cased: bool = False) -> tuple[Dictionary, dict[str, int]]:
    """Make a dictionary from a file with lines `CUI||name`, such as the candidate list that was released with XL-BEL.

    Several CUIs are separated by `|`; a name may hold `|` itself. Lines of another form are counted in `about` and left out.

    Args:
        path: The file, plain or compressed.
        source: Name of the dictionary in the output.
        cased: Whether to keep capitals.

    Returns:
        The dictionary, and CUI -> label.

    Raises:
        SapbertError: E560, if no line has this form; it names the first line. E401, E404.
    """
    names: dict[str, int] = {}
    ids: dict[str, int] = {}
    pairs: dict[tuple[int, int], None] = {}
    without = 0
    first = (0, "")
    for number, line in lines(path):
        if not line.strip():
            continue
        first = first if first[0] else (number, line)
        cuis, name = [*re.split(r"\|{2,}", line, maxsplit=1), ""][:2]
        text, named = normalise(name, cased=cased), [cui.strip() for cui in cuis.split("|") if cui.strip()]
        if not text or not named:
            without += 1
            continue
        row = names.setdefault(text, len(names))
        for cui in named:
            pairs[row, ids.setdefault(cui, len(ids))] = None
    if not pairs:
        raise misfit(path, *first, "`CUI||name`, and no other line is")
    rows, labels = (np.array(column, dtype=np.int64) for column in zip(*pairs))
    texts, cuis_of = list(names), list(ids)
    shown = {label: row for row, label in reversed(pairs)}  # the first name of each concept

    def entry(label: int) -> tuple[str, str]:
        return cuis_of[label], texts[shown[label]]

    about = {"source": source, "file": checksum(path)[:16], **({"lines_left_out": without} if without else {})}
    return make_dictionary(texts, rows, labels, len(ids), about, entry), ids


def extend(dictionary: Dictionary, extra: Sequence[tuple[str, int]], n_labels: int, about: dict[str, Any], ids: Sequence[str] = ()) -> Dictionary:
    """Add names to a dictionary. Equal names are joined.

    Args:
        dictionary: The dictionary.
        extra: Pairs of a normalised name and a label.
        n_labels: Number of concepts afterwards.
        about: Entries that are added to `about`.
        ids: Ids of the new concepts, in the order of their labels.
    """
    row_of = {name: row for row, name in enumerate(dictionary.names)}
    extra = [pair for pair in dict.fromkeys(extra) if pair[0]]
    rows = np.array([row_of.setdefault(name, len(row_of)) for name, _ in extra], dtype=np.int64)
    labels = np.array([label for _, label in extra], dtype=np.int64)
    both = np.concatenate([dictionary.rows, rows]), np.concatenate([dictionary.labels, labels])
    names, n_old = list(row_of), dictionary.n_labels
    first = {label: names[row] for row, label in zip(rows.tolist()[::-1], labels.tolist()[::-1])}
    old = dictionary.known().entry

    def entry(label: int) -> tuple[str, str]:
        return old(label) if label < n_old else (ids[label - n_old] if ids else str(label), first.get(label, ""))

    return make_dictionary(names, *both, n_labels, {**dictionary.about, **about}, entry)
