"""OBO Graphs JSON: DOID, NCIt, ORDO, MONDO and the files that `robot convert` writes."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..errors import fail
from ..kb import curies
from ..kb.concept import Concept, Name
from . import json_files
from .names import term_type
from .obo import add_xref
from .relations import named
from .stats import ReadStats, reader

# Not all classes of ORDO are disorders. Genes, countries, ages, inheritance and prevalence are values of annotations, and retired classes are
# children of one class instead of being marked `deprecated`. Without these, the "clinical entities" are left.
DEFAULT_EXCLUDE: dict[str, Sequence[str]] = {
    "Orphanet": (
        "Orphanet:C010",  # genetic material
        "Orphanet:C003",  # epidemiology
        "Orphanet:C005",  # inheritance
        "Orphanet:C009",  # geography
        "Orphanet:C023",  # age of onset
        "http://www.orpha.net/ORDO/ObsoleteClass",
    )
}
_SUBCLASS = frozenset({"is_a", "subClassOf", "http://www.w3.org/2000/01/rdf-schema#subClassOf"})
_REPLACED_BY, _REASON = "IAO_0100001", "reason_for_obsolescence"


@reader("obograph")
def read_obograph(
    path: Path,
    stats: ReadStats,
    *,
    prefixes: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    exclude_subsets: Sequence[str] = (),
    suppressed: bool = False,
) -> Iterator[Concept]:
    """Read an OBO Graphs file: first the classes, then each edge as a Concept that has only a parent (is_a) or a relation.

    Relations to a class that is left out, and relations that the file gives no name for, are not yielded; the latter are counted in
    `stats.left_out`. Deprecated classes give no names. One with exactly one replacement (IAO:0100001, or an IRI in ORDO's
    reason_for_obsolescence) gives `Concept(replacement, retired=[old])`. The file is read three or four times, because its parts come in any
    order.

    Args:
        path: the file.
        stats: counters of the reading; `stats.version` is the date in the graph's version IRI, or the IRI.
        prefixes: yield only classes with these id prefixes; None is the file's own, see `own_prefix`. Files also hold their imports.
        exclude: ids of classes that are left out with all their descendants; () keeps all. None keeps all too, but in ORDO it leaves out
            everything that is not a clinical entity (DEFAULT_EXCLUDE: its 3,860 genes are descendants of Orphanet:C010; no subset marks them).
            With `exclude`, the file's is_a edges are held in memory.
        exclude_subsets: names of subsets ("ordo_group_of_disorders") whose members are left out, but not their descendants.
        suppressed: keep synonyms with the type obsolete or deprecated.

    Raises:
        SapbertError: E402 and E405.

    Source:
        github.com/geneontology/obographs.
    """
    own = own_prefix(path)
    wanted = {p.upper() for p in prefixes or [own]}
    stats.version = _version(path)
    roots = DEFAULT_EXCLUDE.get(own, ()) if exclude is None else exclude
    left_out = _descendants(path, {curies.canonical(r) for r in roots}) if roots else set()
    labels: dict[str, str] = {}  # of relations
    for stats.rows, node in enumerate(json_files.items(path, "graphs.item.nodes.item"), 1):
        if not isinstance(node, dict) or not isinstance(node.get("id"), str):
            stats.bad(stats.rows, "a node without an id")
            continue
        if wrong := _wrong(node):
            stats.bad(stats.rows, f"{node['id'][:60]}: '{wrong}' has a wrong type")
            continue
        concept_id = curies.canonical(node["id"])
        if node.get("type") == "PROPERTY" and node.get("lbl"):
            labels[concept_id] = node["lbl"]
        if node.get("type", "CLASS") != "CLASS" or curies.split(concept_id)[0].upper() not in wanted:
            continue
        meta = node.get("meta") or {}
        subsets = {s.rsplit("#", 1)[-1].rsplit("/", 1)[-1] for s in meta.get("subsets", ())}
        if meta.get("deprecated") or concept_id in left_out or subsets.intersection(exclude_subsets):
            left_out.add(concept_id)
            replacements = _replacements(meta)
            if len(replacements) == 1:
                yield Concept(replacements.pop(), curies.vocabulary_of(concept_id), retired=[concept_id])
        elif node.get("lbl") or meta.get("synonyms"):
            yield _concept(concept_id, node.get("lbl"), meta, suppressed)
    for number, edge in enumerate(json_files.items(path, "graphs.item.edges.item"), 1):
        if not _is_edge(edge):
            stats.bad(number, "an edge without sub, pred and obj")
            continue
        one, kind, other = (curies.canonical(edge[key]) for key in ("sub", "pred", "obj"))
        if one in left_out or curies.split(one)[0].upper() not in wanted:
            continue
        if edge["pred"] in _SUBCLASS:
            yield Concept(one, curies.vocabulary_of(one), parents=[other])
        elif other not in left_out and curies.split(other)[0] and (relations := named([(kind, other)], labels, stats)):
            yield Concept(one, curies.vocabulary_of(one), relations=relations)


def own_prefix(path: Path) -> str:
    """Return the prefix of the identifiers of a file's own terms.

    It is the one that the first graph's id names (`…/doid.owl` -> DOID, orphanet.owl -> Orphanet), or else the most frequent one.

    Raises:
        SapbertError: E402, there are no nodes with ids.
    """
    name = next((g for g in json_files.items(path, "graphs.item.id") if isinstance(g, str)), "")
    name = re.sub(r"\.(owl|json|obo)$", "", name.rsplit("/", 1)[-1].lower())
    counts = Counter[str]()
    for node_id in json_files.items(path, "graphs.item.nodes.item.id"):
        prefix = curies.split(curies.canonical(str(node_id)))[0]
        if prefix and prefix.lower() == name:
            return prefix
        counts[prefix] += 1
    if not any(counts):
        raise fail("E402", path=path, expected="an OBO Graphs file", why="it has no `graphs` with `nodes` that have ids")
    return max((p for p in counts if p), key=counts.__getitem__)


def _version(path: Path) -> str | None:
    iri = next((v for v in json_files.items(path, "graphs.item.meta.version") if v and isinstance(v, str)), None)
    date = re.search(r"\d{4}-\d\d-\d\d|(?<=version)[\d.]*\d", iri or "")
    return date[0] if date else iri


def _descendants(path: Path, roots: set[str]) -> set[str]:
    children: dict[str, list[str]] = defaultdict(list)
    for edge in json_files.items(path, "graphs.item.edges.item"):
        if _is_edge(edge) and edge["pred"] in _SUBCLASS:
            children[curies.canonical(edge["obj"])].append(curies.canonical(edge["sub"]))
    found, queue = set(roots), list(roots)
    while queue:
        new = [c for c in children[queue.pop()] if c not in found]
        found.update(new)
        queue.extend(new)
    return found


def _is_edge(edge: Any) -> bool:
    return isinstance(edge, dict) and all(isinstance(edge.get(key), str) for key in ("sub", "pred", "obj"))


def _wrong(node: dict[str, Any]) -> str:
    """Return the name of the first part of a node that has a wrong type; "" if all have the right type."""
    meta = node.get("meta") or {}
    if not isinstance(meta, dict):
        return "meta"
    for key, value in (("lbl", node.get("lbl")), ("type", node.get("type"))):
        if value is not None and not isinstance(value, str):
            return key
    definition = meta.get("definition")
    if definition is not None and not (isinstance(definition, dict) and isinstance(definition.get("val") or "", str)):
        return "definition"
    if not json_files.are_texts(meta.get("subsets", [])):
        return "subsets"
    for key in ("synonyms", "xrefs", "basicPropertyValues"):
        values = meta.get(key, [])
        if not isinstance(values, list) or not all(map(_is_value, values)):
            return key
    return ""


def _is_value(value: Any) -> bool:
    """Return whether a value is an object whose `pred`, `val` and `synonymType`, if it has them, are texts."""
    if not isinstance(value, dict):
        return False
    return isinstance(value.get("pred", ""), str) and isinstance(value.get("val", ""), str) and isinstance(value.get("synonymType") or "", str)


def _replacements(meta: dict[str, Any]) -> set[str]:
    values: list[str] = []
    for item in meta.get("basicPropertyValues", ()):
        if item.get("pred", "").endswith(_REPLACED_BY):
            values.append(item.get("val", ""))
        elif item.get("pred", "").endswith(_REASON):
            values.extend(re.findall(r"https?://[^\s<>\"]+[A-Za-z0-9]", item.get("val", "")))
    return {curies.canonical(v) for v in values if v}


def _concept(concept_id: str, label: str | None, meta: dict[str, Any], suppressed: bool) -> Concept:
    source = curies.vocabulary_of(concept_id)
    own = curies.code(concept_id)
    concept = Concept(concept_id, source, definition=(meta.get("definition") or {}).get("val"), codes=[own] if own else [])
    if label:
        concept.names.append(Name(label, source, term_type="PT", rank=0))
    for synonym in meta.get("synonyms", ()):
        scope = synonym.get("pred", "").removeprefix("has").removesuffix("Synonym")
        kind, rank = term_type(scope, synonym.get("synonymType") or "")
        if synonym.get("val") and (kind != "OB" or suppressed):
            concept.names.append(Name(synonym["val"], source, term_type=kind, rank=rank))
    for xref in meta.get("xrefs", ()):
        add_xref(concept, xref.get("val", ""))
    for item in meta.get("basicPropertyValues", ()):
        predicate, value = item.get("pred", ""), item.get("val")
        if value and predicate.endswith("hasAlternativeId"):
            concept.retired.append(curies.canonical(value))
        elif value and predicate.endswith("core#exactMatch"):
            add_xref(concept, value, exact=True)
    return concept
