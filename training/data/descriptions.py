"""Write short descriptions of concepts from the knowledge graph: "a kind of pneumonia that is also a viral disease".

BioLORD describes concepts without a definition by their relations (Remy et al., Findings of EMNLP 2022). The wordings here are this
project's own. A description is used only if it is true of one concept alone, as far as the edges of the knowledge base say. "A kind of
pneumonia" is true of all kinds, so it would be a positive and a negative in one batch.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spacy_sapbert.kb.knowledge_base import KnowledgeBase

from .labels import Ints
from .wording import OwnNames

Edges = npt.NDArray[np.int64]  # (n, 3): label, kind of edge, label
IS_A, INCLUDES, FIRST_RELATION = 0, 1, 2  # kinds of edges; the knowledge base's relations are numbered from 2
PARENTS, RELATIONS, CHILDREN = "parents", "relations", "children"  # what a description is made of
_MOST_FACTS = 6  # number of parents, of relations and of children that are used, drawn at random: some concepts have thousands
_MOST_FILLINGS = 4  # number of fillings that are tried for each form
_MOST_HOLDERS = 200  # a description is not used if more concepts share its rarest fact

_VERBS = frozenset({
    "is", "has", "may", "was", "can", "does", "excludes", "includes", "involves", "plays", "causes", "affects", "contains", "encodes",
    "contributes", "lacks",
})  # fmt: skip
_SUBJECTS = frozenset({"disease", "gene", "chemical", "drug", "finding", "procedure"})

# form -> wordings. p: a parent; r: a relation and its target; c: a child
TEMPLATES: dict[str, tuple[str, ...]] = {
    "p": ("a kind of {0}", "a type of {0}", "a form of {0}"),
    "pp": ("{0} that is also {1}", "both {0} and {1}", "a kind of {0} and of {1}"),
    "ppp": ("{0} that is also {1} and {2}", "a kind of {0}, of {1} and of {2}"),
    "pr": ("{0} which {1}", "a kind of {0} that {1}"),
    "prr": ("{0} which {1} and {2}", "a kind of {0} that {1} and {2}"),
    "r": ("something that {0}", "that which {0}"),
    "rr": ("something that {0} and {1}", "that which {0} and also {1}"),
    "pc": ("a kind of {0} that includes {1}", "{0} of the kind to which {1} belongs"),
    "pcc": ("a kind of {0} that includes {1} and {2}", "{0}, such as {1} and {2}"),
    "cc": ("a group that includes {0} and {1}", "what {0} and {1} have in common"),
}


class Description(NamedTuple):
    """A description of a concept.

    Attributes:
        text: The text.
        made_of: PARENTS, RELATIONS or CHILDREN.
    """

    text: str
    made_of: str


class Graph:
    """Parents, children and other relations between labels (see `training.data.labels`).

    It takes 4 bytes for each edge and direction, and 4 for each label and kind of edge.
    """

    def __init__(self, edges: Edges, relations: Sequence[str], n_labels: int) -> None:
        """Sort the edges.

        Args:
            edges: (n, 3), or flat: label, IS_A or FIRST_RELATION + place in `relations`, other label.
            relations: Names of the relations.
            n_labels: Number of labels.
        """
        self.relations = list(relations)
        edges = np.unique(edges.reshape(-1, 3), axis=0)
        is_a = edges[edges[:, 1] == IS_A]
        includes = np.stack([is_a[:, 2], np.full(len(is_a), INCLUDES), is_a[:, 0]], axis=1)
        edges = np.concatenate([edges, includes])
        n_kinds = FIRST_RELATION + len(self.relations)
        self._forward = _Sorted(edges, n_labels, n_kinds)
        self._backward = _Sorted(edges[:, [2, 1, 0]], n_labels, n_kinds)
        self.ancestors = lru_cache(maxsize=20_000)(self._ancestors)

    @classmethod
    def of(cls, kb: KnowledgeBase, labels: Ints, left_out: set[int]) -> tuple[Graph, dict[str, int]]:
        """Read the graph of a knowledge base.

        Edges to something that is not a concept, edges within a label, and edges of labels that are left out are only counted.

        Args:
            kb: The knowledge base.
            labels: The label of each concept row, (concepts,).
            left_out: Labels that are kept out.

        Returns:
            The graph; and the counts.
        """
        counts = {"edges": 0, "edges_to_no_concept": 0, "edges_within_a_concept": 0, "edges_left_out": 0}
        kinds: dict[str, int] = {}
        found = array("q")  # a flat array: tuples would take ten times the memory
        for row, kind, other in _edges(kb, kinds):
            if other < 0:
                counts["edges_to_no_concept"] += 1
                continue
            one, two = int(labels[row]), int(labels[other])
            if one == two:
                counts["edges_within_a_concept"] += 1
            elif one in left_out or two in left_out:
                counts["edges_left_out"] += 1
            else:
                found.extend((one, kind, two))
                counts["edges"] += 1
        return cls(
            np.frombuffer(found, dtype=np.int64) if found else np.zeros(0, dtype=np.int64), list(kinds), int(labels.max(initial=-1)) + 1
        ), counts

    def facts(self, label: int) -> list[tuple[int, int]]:
        """Return the edges of a label: (kind of edge, other label)."""
        return self._forward.of(label)

    def alone(self, label: int, facts: Sequence[tuple[int, int]]) -> bool:
        """Whether these facts are true of this label and of no other.

        Another label counts if it has the rarest fact itself, and each other fact itself or, for IS_A, by an ancestor.
        Labels below this one are not looked at, because what is true of a concept is true of its kinds.

        Args:
            label: The label.
            facts: (kind of edge, other label).
        """
        holders = min((self._backward.of_kind(other, kind) for kind, other in facts), key=len)
        if len(holders) > _MOST_HOLDERS:
            return False
        return all(other == label or not all(self._holds(other, *fact) for fact in facts) for other in holders)

    def _holds(self, label: int, kind: int, other: int) -> bool:
        """Whether a fact is true of a label, for IS_A also by an ancestor."""
        return other in self._forward.of_kind(label, kind) or (kind == IS_A and other in self.ancestors(label))

    def _ancestors(self, label: int) -> frozenset[int]:
        """Return all labels above a label."""
        found: set[int] = set()
        queue = [label]
        while queue:
            new = [up for up in self._forward.of_kind(queue.pop(), IS_A) if up not in found]
            found.update(new)
            queue.extend(new)
        return frozenset(found - {label})  # several sources together may have cycles

    def describe(self, label: int, count: int, chance: np.random.Generator, title: Callable[[int], str], own: OwnNames) -> list[Description]:
        """Return descriptions that are true of this label alone, drawn at random.

        Descriptions by children are used only if there is no other.

        Args:
            label: The label.
            count: Greatest number of descriptions.
            chance: Source of random numbers.
            title: Label -> its name for a text, in lower case; "" for none.
            own: The label's names; they are in none of its descriptions.
        """
        known: dict[str, list[tuple[tuple[int, int], str]]] = {"p": [], "r": [], "c": []}
        facts = self.facts(label)
        for i in chance.permutation(len(facts)).tolist():
            kind, other = facts[i]
            letter = "p" if kind == IS_A else "c" if kind == INCLUDES else "r"
            if len(known[letter]) < _MOST_FACTS and (name := title(other)) and not own.within(name, cased=False):
                known[letter].append(((kind, other), name if letter != "r" else f"{verbalised(self.relations[kind - FIRST_RELATION])} {name}"))
        for forms in (("p", "pp", "ppp", "pr", "prr", "r", "rr"), ("pc", "pcc", "cc")):
            candidates = [(form, chosen) for form in forms for chosen in _choices(form, known)]
            described: list[Description] = []
            for i in chance.permutation(len(candidates)).tolist():
                form, chosen = candidates[i]
                if len(described) == count:
                    break
                above = [fact[1] for fact, _ in chosen if fact[0] == IS_A]
                if any(one in self.ancestors(other) for one, other in permutations(above, 2)):
                    continue  # "a tumour that is also a carcinoma" says no more than "a carcinoma"
                wording = TEMPLATES[form][int(chance.integers(len(TEMPLATES[form])))]
                text = wording.format(*(name for _, name in chosen))
                if not own.within(text) and self.alone(label, [fact for fact, _ in chosen]):
                    described.append(Description(text, CHILDREN if "c" in form else RELATIONS if "r" in form else PARENTS))
            if described:
                return described
        return []


def verbalised(relation: str) -> str:
    """Turn the name of a relation into words.

    `part_of` becomes "is part of"; `has_finding_site` "has finding site"; `causes` "causes". NCIt also names the subject:
    `disease_may_have_finding` becomes "may have finding", `disease_mapped_to_gene` "is mapped to gene".
    """
    words = relation.replace("_", " ").split()
    for i, word in enumerate(words[:4]):
        if word in _VERBS:
            return " ".join(words[i:])
    if words[0].endswith("s") and len(words) == 1:
        return words[0]
    return " ".join(["is", *words[len(words) > 2 and words[0] in _SUBJECTS :]])


def _choices(form: str, known: dict[str, list[tuple[tuple[int, int], str]]]) -> list[list[tuple[tuple[int, int], str]]]:
    """Fill a form with what is known of a label.

    Args:
        form: Letters p, r and c.
        known: Letter -> facts and their words, in random order.

    Returns:
        The first few fillings.
    """
    sizes = {letter: form.count(letter) for letter in "prc"}
    filled: list[list[tuple[tuple[int, int], str]]] = [[]]
    for letter, size in sizes.items():
        if size:
            filled = [[*before, *some] for before in filled for some in combinations(known[letter], size)]
    return filled[:_MOST_FILLINGS]


def _edges(kb: KnowledgeBase, kinds: dict[str, int]) -> Iterator[tuple[int, int, int]]:
    """Yield the edges of a knowledge base: (concept row, kind, concept row or -1).

    Args:
        kb: The knowledge base.
        kinds: Receives the number of each relation.
    """
    for row, parent in kb.parents():
        yield row, IS_A, parent
    for row, relation, target in kb.relations():
        kind = kinds.setdefault(relation, FIRST_RELATION + len(kinds))
        try:
            yield row, kind, kb.row_of(target)
        except KeyError:
            yield row, kind, -1


class _Sorted:
    """Edges sorted by label and kind."""

    def __init__(self, edges: Edges, n_labels: int, n_kinds: int) -> None:
        """Sort edges (n, 3)."""
        places = edges[:, 0] * n_kinds + edges[:, 1]
        order = np.lexsort((edges[:, 2], places))
        self._n_kinds = n_kinds
        self._starts = np.searchsorted(places[order], np.arange(n_labels * n_kinds + 1)).astype(np.int32)
        self._others = edges[order, 2].astype(np.int32)

    def of_kind(self, label: int, kind: int) -> list[int]:
        """Return the other labels of a label's edges of a kind."""
        place = label * self._n_kinds + kind
        others: list[int] = self._others[self._starts[place] : self._starts[place + 1]].tolist()
        return others

    def of(self, label: int) -> list[tuple[int, int]]:
        """Return the edges of a label: (kind, other label)."""
        return [(kind, other) for kind in range(self._n_kinds) for other in self.of_kind(label, kind)]
