"""Term types of ontology names and their ranks (0 is best). All ontology readers use them."""

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

    With the scope EXACT, the synonym type decides, because it is more precise. A lay term with the scope BROAD stays broad. An obsolete synonym is
    obsolete with any scope. plural_form, uk_spelling, LATIN and unknown types change nothing.

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
