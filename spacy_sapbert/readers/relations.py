"""Names of relations between concepts as UMLS writes them (RELA): `part_of`, `has_finding_site`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from .stats import ReadStats

# ids of OBO's relation ontology and of the basic formal ontology, for files that use them without a name
_KNOWN = {
    "BFO:0000050": "part_of",
    "BFO:0000051": "has_part",
    "IDO:0000664": "has_material_basis_in",
    "RO:0001025": "located_in",
    "RO:0002200": "has_phenotype",
    "RO:0002202": "develops_from",
    "RO:0002451": "transmitted_by",
    "RO:0003304": "contributes_to_condition",
}
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def relation_name(curie: str, label: str | None) -> str | None:
    """Return the name of a relation as UMLS writes it; None for an id without a name.

    `part of`, `has_AgeOfOnset`, `Disease_Has_Finding` -> `part_of`, `has_age_of_onset`, `disease_has_finding`.

    Args:
        curie: The relation's id, which in OBO files may also be its name.
        label: The relation's label in the file; None without one.
    """
    name = label or _KNOWN.get(curie) or ("" if ":" in curie or "/" in curie else curie)
    return re.sub(r"[^a-z0-9]+", "_", _HUMPS.sub("_", name).lower()).strip("_") or None


def named(relations: Iterable[tuple[str, str]], labels: Mapping[str, str], stats: ReadStats) -> list[tuple[str, str]]:
    """Return (name of the relation, other concept) for each (id of the relation, other concept). Relations without a name are counted in `stats`."""
    found: list[tuple[str, str]] = []
    for curie, other in relations:
        name = relation_name(curie, labels.get(curie))
        if name is None:
            stats.leave_out("relations without a name")
        else:
            found.append((name, other))
    return found
