"""Short descriptions of concepts from the knowledge graph: "a kind of pneumonia that is also a viral disease".

BioLORD grounds concepts without a definition in descriptions made of their relations (Remy et al., Findings of EMNLP 2022). The wordings here
are this project's own. A description is used only where it is true of one concept alone, as far as the knowledge base's own edges say:
"a kind of pneumonia" is every sibling's, and would be right and wrong in one batch.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import combinations, permutations
from typing import Dict, FrozenSet, List, NamedTuple, Sequence, Tuple

import numpy as np
import numpy.typing as npt

from spacy_sapbert.kb.knowledge_base import KnowledgeBase

from .wording import OwnNames

Ints = npt.NDArray[np.int32]
Edges = npt.NDArray[np.int64]  # (n, 3): label, kind of edge, label
IS_A, INCLUDES, FIRST_RELATION = 0, 1, 2  # kinds of edges; the knowledge base's relations are numbered from 2
PARENTS, RELATIONS, CHILDREN = "parents", "relations", "children"  # what a description is made of
_LOOKED_AT = 6  # of a concept's parents, relations and children, at random: some have thousands
_TRIED = 4  # of each form of description
_MANY = 200  # concepts of which all facts are true, each by itself: they tell little

_VERBS = frozenset({
    "is", "has", "may", "was", "can", "does", "excludes", "includes", "involves", "plays", "causes", "affects", "contains", "encodes",
    "contributes", "lacks",
})  # fmt: skip
_SUBJECTS = frozenset({"disease", "gene", "chemical", "drug", "finding", "procedure"})

# form -> wordings: p a parent, r a relation with what it leads to, c a child
TEMPLATES: Dict[str, Tuple[str, ...]] = {
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
    text: str
    made_of: str  # PARENTS, RELATIONS or CHILDREN


class Graph:
    """Parents, children and other relations between labels (see `training.data.pairs`), 4 bytes each way, and as much for each label and kind."""

    def __init__(self, edges: Edges, relations: Sequence[str], n_labels: int) -> None:
        """edges (n, 3), or flat: label, IS_A or FIRST_RELATION + place in `relations`, label of what it is or leads to."""
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
    def of(cls, kb: KnowledgeBase, labels: Ints, left_out: set[int]) -> Tuple[Graph, Dict[str, int]]:
        """The graph of a knowledge base without the labels `left_out`; edges to what is no concept, or is the same label, are counted."""
        counts = {"edges": 0, "edges_to_no_concept": 0, "edges_within_a_concept": 0, "edges_left_out": 0}
        kinds: Dict[str, int] = {}
        found = array("q")  # flat: tuples would take ten times as much
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

    def facts(self, label: int) -> List[Tuple[int, int]]:
        """(kind of edge, label) of all that is said of a label."""
        return self._forward.of(label)

    def alone(self, label: int, facts: Sequence[Tuple[int, int]]) -> bool:
        """Whether these facts hold of this label and of no other: the rarest of them directly, the others directly or, for IS_A, of an ancestor.

        What lies below the label itself is not looked at: what is true of a concept is true of its kinds.
        """
        holders = min((self._backward.of_kind(other, kind) for kind, other in facts), key=len)
        if len(holders) > _MANY:
            return False
        return all(other == label or not all(self._holds(other, *fact) for fact in facts) for other in holders)

    def _holds(self, label: int, kind: int, other: int) -> bool:
        return other in self._forward.of_kind(label, kind) or (kind == IS_A and other in self.ancestors(label))

    def _ancestors(self, label: int) -> FrozenSet[int]:
        found: set[int] = set()
        queue = [label]
        while queue:
            new = [up for up in self._forward.of_kind(queue.pop(), IS_A) if up not in found]
            found.update(new)
            queue.extend(new)
        return frozenset(found - {label})  # sources together may have circles

    def describe(self, label: int, count: int, chance: np.random.Generator, title: Callable[[int], str], own: OwnNames) -> List[Description]:
        """At most `count` descriptions that are true of this label alone, at random; those of children only where there is no other.

        title: label -> the name it goes by in a text, lower-cased, "" for none. own: the label's names, which are in none of its descriptions.
        """
        known: Dict[str, List[Tuple[Tuple[int, int], str]]] = {"p": [], "r": [], "c": []}
        facts = self.facts(label)
        for i in chance.permutation(len(facts)).tolist():
            kind, other = facts[i]
            letter = "p" if kind == IS_A else "c" if kind == INCLUDES else "r"
            if len(known[letter]) < _LOOKED_AT and (name := title(other)) and not own.within(name, cased=False):
                known[letter].append(((kind, other), name if letter != "r" else f"{verbalised(self.relations[kind - FIRST_RELATION])} {name}"))
        for forms in (("p", "pp", "ppp", "pr", "prr", "r", "rr"), ("pc", "pcc", "cc")):
            candidates = [(form, chosen) for form in forms for chosen in _choices(form, known)]
            described: List[Description] = []
            for i in chance.permutation(len(candidates)).tolist():
                form, chosen = candidates[i]
                if len(described) == count:
                    break
                above = [fact[1] for fact, _ in chosen if fact[0] == IS_A]
                if any(one in self.ancestors(other) for one, other in permutations(above, 2)):
                    continue  # "a tumour that is also a carcinoma" says no more than its second half
                wording = TEMPLATES[form][int(chance.integers(len(TEMPLATES[form])))]
                text = wording.format(*(name for _, name in chosen))
                if not own.within(text) and self.alone(label, [fact for fact, _ in chosen]):
                    described.append(Description(text, CHILDREN if "c" in form else RELATIONS if "r" in form else PARENTS))
            if described:
                return described
        return []


def verbalised(relation: str) -> str:
    """`part_of` -> "is part of", `has_finding_site` -> "has finding site", `causes` -> "causes", `disease_may_have_finding` (NCIt names who
    has it, too) -> "may have finding", `disease_mapped_to_gene` -> "is mapped to gene"."""
    words = relation.replace("_", " ").split()
    for i, word in enumerate(words[:4]):
        if word in _VERBS:
            return " ".join(words[i:])
    if words[0].endswith("s") and len(words) == 1:
        return words[0]
    return " ".join(["is", *words[len(words) > 2 and words[0] in _SUBJECTS :]])


def _choices(form: str, known: Dict[str, List[Tuple[Tuple[int, int], str]]]) -> List[List[Tuple[Tuple[int, int], str]]]:
    """Fillings of a form, the first few of each combination of what is known; it lies in random order."""
    sizes = {letter: form.count(letter) for letter in "prc"}
    filled: List[List[Tuple[Tuple[int, int], str]]] = [[]]
    for letter, size in sizes.items():
        if size:
            filled = [[*before, *some] for before in filled for some in combinations(known[letter], size)]
    return filled[:_TRIED]


def _edges(kb: KnowledgeBase, kinds: Dict[str, int]) -> Iterator[Tuple[int, int, int]]:
    """(concept row, kind, concept row); `kinds` gets the numbers of the relations as they come."""
    for row, parent in kb.parents():
        yield row, IS_A, parent
    for row, relation, target in kb.relations():
        kind = kinds.setdefault(relation, FIRST_RELATION + len(kinds))
        try:
            yield row, kind, kb.row_of(target)
        except KeyError:
            yield row, kind, -1


class _Sorted:
    """Edges by label and kind; what a label has of a kind lies together."""

    def __init__(self, edges: Edges, n_labels: int, n_kinds: int) -> None:
        places = edges[:, 0] * n_kinds + edges[:, 1]
        order = np.lexsort((edges[:, 2], places))
        self._n_kinds = n_kinds
        self._starts = np.searchsorted(places[order], np.arange(n_labels * n_kinds + 1)).astype(np.int32)
        self._others = edges[order, 2].astype(np.int32)

    def of_kind(self, label: int, kind: int) -> List[int]:
        place = label * self._n_kinds + kind
        others: List[int] = self._others[self._starts[place] : self._starts[place + 1]].tolist()
        return others

    def of(self, label: int) -> List[Tuple[int, int]]:
        return [(kind, other) for kind in range(self._n_kinds) for other in self.of_kind(label, kind)]
