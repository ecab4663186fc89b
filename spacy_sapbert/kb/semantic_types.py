"""The semantic types of UMLS, their groups and tree, and types for terms of ontologies that give none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ..errors import fail

DATA = Path(__file__).parents[1] / "data"
# Types that UMLS had up to 2013, and the types that their concepts have now. Older releases and files made from them still have them
RETIRED = {"T110": "T109", "T111": "T109", "T115": "T109", "T118": "T109", "T119": "T109", "T124": "T123"}


class SemanticType(NamedTuple):
    """A semantic type of UMLS.

    Attributes:
        tui: its identifier, such as "T047".
        name: its name, such as "Disease or Syndrome".
        stn: its tree number, such as "B2.2.1.2.1".
        group: its semantic group, such as "DISO".
    """

    tui: str
    name: str
    stn: str
    group: str


class SemanticTypeNode(NamedTuple):
    """A node of `tree()`, as scispaCy has it.

    Attributes:
        type_id: TUI.
        full_name: name of the type.
        children: nodes below it.
        level: 0 for the root above Entity and Event.
    """

    type_id: str
    full_name: str
    children: list["SemanticTypeNode"]  # noqa: UP037
    level: int


def _rows(name: str) -> list[list[str]]:
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")][1:]


@lru_cache(maxsize=1)
def load() -> dict[str, SemanticType]:
    """Return all 127 types by TUI, in the order of their tree numbers."""
    return {row[0]: SemanticType(*row) for row in _rows("semantic_types.tsv")}


@lru_cache(maxsize=1)
def groups() -> dict[str, frozenset[str]]:
    """Return the TUIs of each of the 15 semantic groups: ACTI, ANAT, CHEM, CONC, DEVI, DISO, GENE, GEOG, LIVB, OBJC, OCCU, ORGA, PHEN, PHYS, PROC."""
    names = sorted({t.group for t in load().values()})
    return {name: frozenset(t.tui for t in load().values() if t.group == name) for name in names}


def groups_of(tuis: Iterable[str]) -> list[str]:
    """Return the distinct semantic groups of some types, in their order. Unknown types are left out."""
    known = load()
    return list(dict.fromkeys(known[tui].group for tui in tuis if tui in known))


def current(tui: str) -> str:
    """Return the type that is used now for a retired one: T109, Organic Chemical, for T110, Steroid. Other types are returned as they are."""
    return RETIRED.get(tui, tui)


def expand(values: Iterable[str]) -> frozenset[str]:
    """Return the TUIs that some values mean.

    Args:
        values: TUIs ("T047"), groups ("DISO") or full names ("disease or syndrome"), in any case.

    Raises:
        SapbertError: E104, a value is none of these.
    """
    by_name = {t.name.lower(): t.tui for t in load().values()}
    found: frozenset[str] = frozenset()
    for value in values:
        key = current(value.strip().upper())
        if key in load():
            found |= {key}
        elif key in groups():
            found |= groups()[key]
        elif key.lower() in by_name:
            found |= {by_name[key.lower()]}
        else:
            raise fail("E104", value=value, groups=", ".join(groups()))
    return found


@lru_cache(maxsize=1)
def branch_types() -> dict[str, tuple[str, ...]]:
    """Return id of an ontology's branch -> TUIs, and "VOCABULARY *" -> TUIs of terms outside all branches (data/branch_types.tsv)."""
    return {row[0]: tuple(row[1].split(",")) for row in _rows("branch_types.tsv")}


def types_of(concept_id: str, vocabulary: str, parents_of: Callable[[str], Sequence[str]]) -> tuple[str, ...]:
    """Return the semantic types of an ontology's term: those of its nearest ancestors in `branch_types`.

    A listed ancestor that is above another listed one does not count, even if it is nearer: on some short path every tumour is only a
    "disease".

    Args:
        concept_id: the term; it counts as its own nearest ancestor.
        vocabulary: its source, such as "HPO", for the default.
        parents_of: id -> ids of its parents. There may be cycles, and parents that no file describes.

    Returns:
        TUIs, sorted; () if no ancestor is listed and the vocabulary has no default.
    """
    branches = branch_types()
    distances = _ancestors(concept_id, parents_of)
    listed = [a for a in distances if a in branches]
    above = {a for branch in listed for a in _ancestors(branch, parents_of) if a != branch}
    listed = [a for a in listed if a not in above] or listed  # in a cycle, each is above each
    if not listed:
        return branches.get(f"{vocabulary} *", ())
    nearest = min(distances[a] for a in listed)
    return tuple(sorted({tui for a in listed if distances[a] == nearest for tui in branches[a]}))


def _ancestors(concept_id: str, parents_of: Callable[[str], Sequence[str]]) -> dict[str, int]:
    """Return each ancestor, and the term itself, with the smallest number of steps up to it."""
    distances, level = {concept_id: 0}, [concept_id]
    while level:
        level = [p for p in dict.fromkeys(parent for term in level for parent in parents_of(term)) if p not in distances]
        distances.update(dict.fromkeys(level, max(distances.values()) + 1))
    return distances


class SemanticTypeTree:
    """scispaCy's `kb.semantic_type_tree`, with the same methods, nodes and levels. The depth is 8."""

    def __init__(self, root: SemanticTypeNode) -> None:
        self.flat_nodes: list[SemanticTypeNode] = [*self.get_children(root), root]
        self.type_id_to_node = {node.type_id: node for node in self.flat_nodes}
        self.depth = max(node.level for node in self.flat_nodes)
        self._parents = {child.type_id: node for node in self.flat_nodes for child in node.children}

    def get_node_from_id(self, type_id: str) -> SemanticTypeNode:
        """Return the node of a TUI."""
        return self.type_id_to_node[type_id]

    def get_canonical_name(self, type_id: str) -> str:
        """Return the name of a TUI."""
        return self.type_id_to_node[type_id].full_name

    def get_nodes_at_depth(self, level: int) -> list[SemanticTypeNode]:
        """Return the nodes of one level."""
        return [node for node in self.flat_nodes if node.level == level]

    def get_children(self, node: SemanticTypeNode) -> list[SemanticTypeNode]:
        """Return all descendants, depth first."""
        return [found for child in node.children for found in (child, *self.get_children(child))]

    def get_parent(self, node: SemanticTypeNode) -> SemanticTypeNode | None:
        """Return the parent of a node, None for the root."""
        return self._parents.get(node.type_id)

    def get_collapsed_type_id_map_at_level(self, level: int) -> dict[str, str]:
        """Return for every type its ancestor at `level`, or itself if it is not below that level."""
        collapsed = {type_id: type_id for type_id in self.type_id_to_node}
        for node in self.get_nodes_at_depth(level):
            collapsed.update({child.type_id: node.type_id for child in self.get_children(node)})
        return collapsed


@lru_cache(maxsize=1)
def tree() -> SemanticTypeTree:
    """Return the types as a tree. Its root is scispaCy's "UnknownType", which joins the two roots of UMLS, Entity and Event."""
    root = SemanticTypeNode("UnknownType", "UnknownType", [], 0)
    nodes = {"": root}
    for kind in load().values():  # sorted by tree number, so a parent comes before its children
        parent = nodes[_above(kind.stn)]
        nodes[kind.stn] = SemanticTypeNode(kind.tui, kind.name, [], parent.level + 1)
        parent.children.append(nodes[kind.stn])
    return SemanticTypeTree(root)


def _above(stn: str) -> str:
    """Return the tree number of the parent: B2.2.1 -> B2.2 -> B2 -> B -> ""."""
    if "." in stn:
        return stn.rsplit(".", 1)[0]
    return stn[:1] if len(stn) > 1 else ""
