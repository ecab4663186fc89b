"""Term types of ontology names and their ranks (0 is best), the same in every ontology reader."""

from __future__ import annotations

RANKS: dict[str, int] = {"PT": 0, "SY": 1, "LAY": 2, "AB": 3, "NRW": 4, "REL": 5, "BRD": 6, "OB": 9}
_SCOPES = {"EXACT": "SY", "NARROW": "NRW", "RELATED": "REL", "BROAD": "BRD"}
_TYPES = {
    "abbreviation": "AB",
    "acronym": "AB",
    "omo:0003000": "AB",
    "omo:0003012": "AB",
    "layperson": "LAY",
    "omo:0003003": "LAY",
    "obsolete": "OB",
    "obsolete_synonym": "OB",
    "deprecated": "OB",
    "discarded": "OB",
}


def term_type(scope: str, kind: str = "") -> tuple[str, int]:
    """Return the term type and rank of a synonym by its scope and its synonym type.

    A synonym type says more than the scope EXACT, so it decides there; a lay term that is only BROAD stays broad. Obsolete is obsolete in any
    scope. plural_form, uk_spelling, LATIN and types that are not known leave the scope as it is.

    Args:
        scope: EXACT, NARROW, RELATED or BROAD.
        kind: The synonym type; "" for none.

    Returns:
        (term type, rank); rank 0 is the best.
    """
    typed = _TYPES.get(kind.rsplit("#", 1)[-1].rsplit("/", 1)[-1].removeprefix("obo:").replace("OMO_", "OMO:").lower())
    found = _SCOPES.get(scope.upper(), "REL")
    if typed == "OB" or (typed and found == "SY"):
        found = typed
    return found, RANKS[found]
