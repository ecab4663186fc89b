"""Measure how often terms that are joined by name get the right CUI: `python -m training vocabulary held-out`.

The CUIs of a share of the terms of MONDO, HPO and DOID are hidden. Then the rules of `spacy_sapbert.kb.joining` look for their concepts by name.
"""

from __future__ import annotations

import random
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spacy_sapbert.kb.builder import Source, build_kb
from spacy_sapbert.kb.concept import Concept, is_cui
from spacy_sapbert.kb.joining import Joins

from .sources import open_sources

HIDDEN = ("HP", "MONDO", "DOID")  # prefixes of the terms; the CUIs of a share of them are hidden
SHARE = 0.1


def held_out(assets: Path, *, share: float = SHARE, seed: int = 0) -> dict[str, Any]:
    """Hide the CUIs of a share of the terms, join the terms by name, and count how many get one of their hidden CUIs.

    Args:
        assets: Folder with the files of the assets.
        share: Share of the terms with a CUI that are hidden, 0 to 1.
        seed: Seed of the random choice of terms.

    Returns:
        For each source and for all together: hidden (number of terms), findable (hidden terms with a CUI that is still a concept), joined, right,
        precision (right / joined), recall (right / findable), and the precision of the findable terms alone. If no other source has a hidden CUI,
        the term can only join another CUI, which UMLS often has for the same meaning ("umbilical hernia" has two): such a join counts as wrong in
        `precision`, and is left out in `precision_findable`.
    """
    read = [(source, list(source.concepts)) for source in open_sources(assets)]
    cuis: dict[str, set[str]] = defaultdict(set)
    for _, concepts in read:
        for concept in concepts:
            if not is_cui(concept.concept_id) and concept.cuis:
                cuis[concept.concept_id].update(concept.cuis)
    chance = random.Random(seed)
    hidden = {term for term in sorted(cuis) if term.partition(":")[0] in HIDDEN and chance.random() < share}
    joins = Joins()
    with tempfile.TemporaryDirectory() as scratch:
        kb = build_kb([Source(source.name, _without(concepts, hidden), source.kind) for source, concepts in read], Path(scratch) / "kb", joins=joins)
        left = {kb.concept_id(row) for row in range(len(kb))}
        found = {term: kb.concept_id(kb.row_of(term)) for term in sorted(hidden) if term in kb}
        for term, key in found.items():  # the other CUIs of the concept have the same meaning
            if is_cui(key) and cuis[term].intersection(kb.codes(kb.row_of(key)).get("UMLS", ())):
                cuis[term].add(key)
    joined = {decision.term for decision in joins.decisions if decision.what == "joined"}
    return counted(cuis, hidden, found, joined, left)


def _without(concepts: Sequence[Concept], hidden: set[str]) -> list[Concept]:
    """Return the concepts without the mappings of hidden terms, to CUIs and to other terms."""
    kept = []
    for concept in concepts:
        if concept.concept_id in hidden:
            concept = Concept(**{**concept.__dict__, "cuis": [], "same_as": []})
        elif hidden.intersection(concept.same_as):
            concept = Concept(**{**concept.__dict__, "same_as": [other for other in concept.same_as if other not in hidden]})
        kept.append(concept)
    return kept


def counted(cuis: dict[str, set[str]], hidden: set[str], found: dict[str, str], joined: set[str], left: set[str]) -> dict[str, Any]:
    """Return the counts for each source and for all together, see `held_out`.

    Args:
        cuis: Term -> its hidden CUIs.
        hidden: The hidden terms.
        found: Term -> concept in which it is now.
        joined: Terms that were joined to a concept by name.
        left: Concepts of the knowledge base.
    """
    result: dict[str, Any] = {}
    for name, prefixes in [*((prefix, (prefix,)) for prefix in HIDDEN), ("all", HIDDEN)]:
        terms = [term for term in hidden if term.partition(":")[0] in prefixes]
        tried = [term for term in terms if term in joined and is_cui(found.get(term, ""))]
        right = sum(found[term] in cuis[term] for term in tried)
        findable = sum(bool(cuis[term] & left) for term in terms)
        tried_findable = sum(bool(cuis[term] & left) for term in tried)
        result[name] = {
            "hidden": len(terms),
            "findable": findable,
            "joined": len(tried),
            "right": right,
            "precision": round(right / max(1, len(tried)), 4),
            "precision_findable": round(right / max(1, tried_findable), 4),
            "recall": round(right / max(1, findable), 4),
            "wrong": sorted(f"{term} {found[term]}" for term in tried if found[term] not in cuis[term])[:50],
        }
    return result
